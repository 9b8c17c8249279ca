//! The requests of a client's run and its server's, joined: where their time went at both ends and on each way between.

use record::{Component, Nanos};
use serde::Serialize;
use stats::{Distribution, Precision, Quantile};
use summary::hosts::{FoundBy, Join, Joined};

use paper::document::{Document, Section, Table, clauses};

/// Requests that are shown one by one, the slowest.
const SLOWEST: usize = 10;

/// Clocks of machines differ by less, in millionths: a wider bound says nothing.
const PLAUSIBLE: f64 = 600.0;

/// How long one component took.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its name; `network_there` and `network_back` are the two ways of `network`, and `whole` is all of them.
    pub component: &'static str,
    /// Requests that have it.
    pub n: u64,
    /// Percentiles, nanoseconds; `None` where too few requests carry one.
    pub p50_ns: Option<u64>,
    /// As `p50_ns`.
    pub p90_ns: Option<u64>,
    /// As `p50_ns`.
    pub p99_ns: Option<u64>,
    /// All together, nanoseconds.
    pub sum_ns: u64,
    /// Of the whole.
    pub share: f64,
    /// The largest bound on the error of one that the clocks leave, nanoseconds: 0 but for the network's two ways.
    pub error_ns: u64,
}

/// The server's clock by the client's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clock {
    /// How far it was ahead in the middle of the requests, nanoseconds; negative where it was behind.
    pub ahead_ns: i64,
    /// The bound on the error of that, to either side.
    pub error_ns: u64,
    /// By how much it ran faster, millionths; `None` for less than a second.
    pub drift_ppm: Option<f64>,
    /// The bound on the error of that, to either side.
    pub drift_error_ppm: Option<f64>,
    /// Stretches of time in each of which both clocks ran steadily.
    pub stretches: u64,
}

/// By what the two ends of connections were found.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Found {
    /// Connections, by addresses, ports and sequence numbers.
    pub addresses: u64,
    /// Connections, by sequence numbers and sizes: the addresses differ.
    pub sequence_numbers: u64,
}

/// A request that both hosts saw.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Slow {
    /// Its connection, by the client's id.
    pub connection_id: u64,
    /// When it began, by the client's clock.
    pub began_at_ns: Option<u64>,
    /// How long it took.
    pub whole_ns: u64,
    /// The longest of its components.
    pub longest: &'static str,
    /// From the client's driver to the server.
    pub network_there_ns: u64,
    /// From the server's driver to the client.
    pub network_back_ns: u64,
    /// In the server's program.
    pub peer_application_ns: u64,
}

/// Two hosts' runs, joined.
#[derive(Clone, Debug, Serialize)]
pub struct Hosts {
    /// What the runs are called: the client's, the server's.
    pub names: [String; 2],
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
    /// What has to be known before the verdict is believed.
    pub warnings: Vec<String>,
    /// Requests that the client made.
    pub asked: u64,
    /// Of those, on connections that both runs have.
    pub shared: u64,
    /// Of those, divided with the stamps of both ends.
    pub joined: u64,
    /// Of those, seen by both and without a stamp, or with two out of order.
    pub undivided: u64,
    /// Connections that both runs have.
    pub found_by: Found,
    /// The server's clock; `None` where nothing was joined.
    pub clock: Option<Clock>,
    /// The components, in the order in which a request passes them.
    pub components: Vec<Figure>,
    /// The slowest requests.
    pub slowest: Vec<Slow>,
}

/// The two ways of the network. How its time divides between them rests on the clocks; together they are one component.
const WAYS: [&str; 2] = ["network_there", "network_back"];

/// Each component's name and time, and after the network its two ways.
fn times(joined: &Joined) -> impl Iterator<Item = (&'static str, Nanos)> + '_ {
    let components = joined.request.components;
    let own = Component::ALL.into_iter().filter_map(move |c| Some((c.name(), components.and_then(|all| all.get(c))?)));
    own.chain(WAYS.into_iter().zip([joined.there, joined.back]))
}

/// Gathers what two joined runs say.
pub fn gather(names: [&str; 2], join: &Join) -> Hosts {
    let mut found_by = Found::default();
    for (_, _, by) in &join.connections {
        match by {
            FoundBy::Addresses => found_by.addresses += 1,
            FoundBy::SequenceNumbers => found_by.sequence_numbers += 1,
        }
    }
    let mut hosts = Hosts {
        names: names.map(str::to_owned),
        verdict: Vec::new(),
        warnings: Vec::new(),
        asked: join.asked,
        shared: join.shared,
        joined: join.joined.len() as u64,
        undivided: join.undivided,
        found_by,
        clock: clock(join),
        components: figures(&join.joined),
        slowest: slowest(&join.joined),
    };
    hosts.verdict = verdict(&hosts);
    hosts.warnings = warnings(&hosts);
    hosts
}

fn clock(join: &Join) -> Option<Clock> {
    let clocks = join.clocks.as_ref()?;
    let middle = join.joined.get(join.joined.len() / 2)?.request.moments.left?;
    let ahead = clocks.ahead(middle);
    let drift = clocks.drift();
    Some(Clock {
        ahead_ns: i64::try_from(ahead.by).unwrap_or(if ahead.by < 0 { i64::MIN } else { i64::MAX }),
        error_ns: ahead.error.0,
        drift_ppm: drift.map(|d| d.ppm),
        drift_error_ppm: drift.map(|d| d.error_ppm),
        stretches: clocks.stretches() as u64,
    })
}

fn figures(joined: &[Joined]) -> Vec<Figure> {
    let after = |c: Component| if c == Component::Network { &WAYS[..] } else { &[] };
    let names: Vec<&'static str> = Component::ALL
        .into_iter()
        .flat_map(|c| std::iter::once(c.name()).chain(after(c).iter().copied()))
        .chain(["whole"])
        .collect();
    let mut of: Vec<Distribution> = names.iter().map(|_| Distribution::new(Precision::Fine)).collect();
    for one in joined {
        for (name, time) in times(one).chain(one.request.whole().map(|whole| ("whole", whole))) {
            if let Some(at) = names.iter().position(|n| *n == name) {
                of[at].record(time.0);
            }
        }
    }
    let whole = of.last().map_or(0, Distribution::sum);
    let error = joined.iter().map(|j| j.error.0).max().unwrap_or(0);
    let figure = |(component, of): (&'static str, &Distribution)| Figure {
        component,
        n: of.n(),
        p50_ns: of.quantile(Quantile::P50),
        p90_ns: of.quantile(Quantile::P90),
        p99_ns: of.quantile(Quantile::P99),
        sum_ns: u64::try_from(of.sum()).unwrap_or(u64::MAX),
        share: quantity::share(of.sum(), whole),
        error_ns: if WAYS.contains(&component) { error } else { 0 },
    };
    names.iter().copied().zip(&of).map(figure).filter(|f| f.n > 0).collect()
}

fn slowest(joined: &[Joined]) -> Vec<Slow> {
    let mut all: Vec<&Joined> = joined.iter().collect();
    all.sort_by_key(|j| std::cmp::Reverse(j.request.whole()));
    let one = |joined: &&Joined| {
        let longest = times(joined).filter(|(name, _)| !WAYS.contains(name)).max_by_key(|(_, time)| *time)?;
        Some(Slow {
            connection_id: joined.request.connection.0,
            began_at_ns: joined.request.began().map(|at| at.as_nanos()),
            whole_ns: joined.request.whole()?.0,
            longest: longest.0,
            network_there_ns: joined.there.0,
            network_back_ns: joined.back.0,
            peer_application_ns: joined.request.components?.peer_application?.0,
        })
    };
    all.iter().take(SLOWEST).filter_map(one).collect()
}

/// A component in words.
fn words(component: &str) -> &'static str {
    match component {
        "connect" => "setting up the connection",
        "application" => "the client's program",
        "tcp" => "waiting for TCP at the client",
        "kernel" => "the client's kernel",
        "network" => "the network, both ways",
        "network_there" => "… client to server",
        "network_back" => "… server to client",
        "peer_receive" => "the server's kernel, receiving",
        "peer_application" => "the server's program",
        "peer_send" => "the server's kernel, sending",
        "transfer" => "the rest of the answer arriving",
        "wakeup" => "until the client's program read",
        _ => "the whole request",
    }
}

fn verdict(hosts: &Hosts) -> Vec<String> {
    let find = |name: &str| hosts.components.iter().find(|f| f.component == name);
    let Some(whole) = find("whole") else { return vec!["No request is in both runs.".into()] };
    let one = |f: &&Figure| f.component != "whole" && !WAYS.contains(&f.component);
    let most = hosts.components.iter().filter(one).max_by_key(|f| f.sum_ns);
    let median = whole.p50_ns.map(|p50| format!("half of them took {} or less", Nanos(p50)));
    let share = most.map(|m| format!("{} of their time was {}", quantity::percent(m.share), words(m.component)));
    let said: Vec<String> = share.into_iter().chain(median).collect();
    let mut verdict =
        vec![format!("{} in both runs: {}.", quantity::counted(hosts.joined, "request"), said.join("; "))];
    let p50 = |name| Some((Nanos(find(name)?.p50_ns?), Nanos(find(name)?.error_ns)));
    if let (Some((both, _)), Some((there, error)), Some((back, _))) = (p50("network"), p50(WAYS[0]), p50(WAYS[1])) {
        verdict.push(format!(
            "The network at p50: {both} both ways together, about {there} from client to server and {back} back, each within {error}: \
             which way took longer, the traffic shows no closer."
        ));
    }
    verdict.extend(hosts.clock.map(|clock| clock_words(&hosts.names, &clock)));
    verdict
}

fn clock_words([client, server]: &[String; 2], clock: &Clock) -> String {
    let way = if clock.ahead_ns < 0 { "behind" } else { "ahead of" };
    let rate = match (clock.drift_ppm, clock.drift_error_ppm) {
        (Some(ppm), Some(error)) if ppm.abs() > error => {
            format!("; it runs {:.1} ppm {}, within {error:.1}", ppm.abs(), if ppm < 0.0 { "slower" } else { "faster" })
        }
        (Some(_), Some(error)) if error < PLAUSIBLE => {
            format!("; no difference of rates is seen, within {error:.1} ppm")
        }
        _ => String::new(),
    };
    let by = Nanos(clock.ahead_ns.unsigned_abs());
    format!("The clock of {server} is {by} {way} that of {client}, within {}{rate}.", Nanos(clock.error_ns))
}

fn warnings(hosts: &Hosts) -> Vec<String> {
    let [client, server] = &hosts.names;
    let mut warnings = Vec::new();
    let counted = |n| quantity::counted(n, "request");
    if hosts.asked > hosts.shared {
        let n = hosts.asked - hosts.shared;
        warnings
            .push(format!("{} of {client} on connections that {server} has no request of: not joined.", counted(n)));
    }
    let apart = hosts.shared - hosts.joined - hosts.undivided;
    if apart > 0 {
        warnings.push(format!("{} divided otherwise at the other end, or not seen there: not joined.", counted(apart)));
    }
    if hosts.undivided > 0 {
        warnings.push(format!("{} without a stamp, or with two out of order: not joined.", counted(hosts.undivided)));
    }
    if let Some(clock) = hosts.clock.filter(|clock| clock.stretches > 1) {
        warnings.push(format!("A clock was set or changed its rate: it is followed in {} stretches.", clock.stretches));
    }
    warnings
}

/// The joined runs as a document.
pub fn document(hosts: &Hosts) -> Document {
    let time = |ns: Option<u64>| ns.map_or_else(|| "—".into(), |ns| Nanos(ns).to_string());
    let mut where_ = Section::new("Where the time of requests went");
    let mut table = Table::new("", ["component", "n", "p50", "p90", "p99", "share", "error"]);
    for f in &hosts.components {
        let error = if f.error_ns == 0 { "—".into() } else { format!("± {}", Nanos(f.error_ns)) };
        let (n, share) = (quantity::count(f.n), quantity::percent(f.share));
        table.push(vec![words(f.component).into(), n, time(f.p50_ns), time(f.p90_ns), time(f.p99_ns), share, error]);
    }
    where_.table(table);
    where_.say(
        "Each duration is by the clock of the host that it was on, so only the division of the network's time between the two ways rests on the \
         comparison of the clocks. Their difference is bounded by the traffic: no byte is on its way for less than no time.",
    );
    let mut slow = Section::new("The slowest requests");
    let mut table =
        Table::new("", ["connection", "whole", "longest", "client to server", "server's program", "server to client"]);
    for s in &hosts.slowest {
        let [whole, there, peer, back] =
            [s.whole_ns, s.network_there_ns, s.peer_application_ns, s.network_back_ns].map(|ns| Nanos(ns).to_string());
        table.push(vec![s.connection_id.to_string(), whole, words(s.longest).into(), there, peer, back]);
    }
    slow.table(table);
    let by = [
        (hosts.found_by.addresses, "addresses and ports"),
        (hosts.found_by.sequence_numbers, "sequence numbers and sizes"),
    ];
    let by: Vec<_> =
        by.iter().filter(|b| b.0 > 0).map(|(n, how)| format!("{} by {how}", quantity::count(*n))).collect();
    Document {
        title: format!("{} and {}", hosts.names[0], hosts.names[1]).into(),
        about: format!(
            "Requests at both ends. Connections in both runs: {}.",
            if by.is_empty() { "none".into() } else { by.join(", ") }
        ),
        verdict: clauses(hosts.verdict.clone()),
        warnings: hosts.warnings.clone(),
        sections: vec![where_, slow],
    }
}
