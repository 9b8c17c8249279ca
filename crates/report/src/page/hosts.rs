//! The requests of a client's run and its server's, joined: where their time went at both ends and
//! on each way between. [`summary::hosts`] joins them.

use record::{Component, Nanos};
use summary::TimedKind;
use summary::hosts::{Clock, Hosts, Piece};

use super::TOO_FEW;
use crate::colour::hue_of;
use crate::view::capital;
use paper::document::{Block, Cell, Clause, Column, Document, Glance, Part, Section, Table, Text, clauses, texts};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Clocks of machines differ by less, in millionths: a wider bound says nothing.
const PLAUSIBLE: f64 = 600.0;

/// A part of a request in words.
fn words(piece: Piece) -> &'static str {
    match piece {
        Piece::Component(component) => match component {
            Component::Connect => "setting up the connection",
            Component::Application => "the client's program",
            Component::Tcp => "waiting for TCP at the client",
            Component::Kernel => "the client's kernel",
            Component::Network => "the network, both ways",
            Component::PeerReceive => "the server's kernel, receiving",
            Component::PeerApplication => "the server's program",
            Component::PeerSend => "the server's kernel, sending",
            Component::Transfer => "the rest of the answer arriving",
            Component::Wakeup => "until the client's program read",
            Component::Upstream => "what the client's program asked others",
        },
        Piece::There => "… client to server",
        Piece::Back => "… server to client",
        Piece::Whole => "the whole request",
    }
}

fn verdict(hosts: &Hosts) -> Vec<String> {
    let Some(whole) = hosts.of(Piece::Whole) else { return vec!["No request is in both runs.".into()] };
    let requests = quantity::counted(hosts.joined, "request");
    let most = hosts.most().map(|(component, most)| {
        let (what, share) = (words(Piece::Component(component)), quantity::percent(most.share));
        format!("{} took {share} of the time of {requests}, which are in both runs", capital(what))
    });
    let median = whole.p50_ns.map(|p50| {
        let p99 = whole.p99_ns.map_or_else(String::new, |p99| format!(", p99 {}", Nanos(p99)));
        format!("the median of these is {}{p99}", Nanos(p50))
    });
    let said: Vec<String> = most.into_iter().chain(median).collect();
    let mut verdict = vec![format!("{}.", said.join("; "))];
    let p50 = |piece| Some((Nanos(hosts.of(piece)?.p50_ns?), Nanos(hosts.of(piece)?.error_ns)));
    let network = p50(Piece::Component(Component::Network));
    if let (Some((both, _)), Some((there, error)), Some((back, _))) = (network, p50(Piece::There), p50(Piece::Back)) {
        verdict.push(format!(
            "The median network time is {both} for both ways together: about {there} from client to server and {back} back, each within \
             {error}. The traffic does not show more closely which way took longer."
        ));
    }
    verdict.extend(hosts.clock.map(|clock| clock_words(&hosts.names, &clock)));
    verdict
}

/// What to look at next, by what took most of the time.
fn next(hosts: &Hosts) -> Option<Text> {
    let [client, server] = &hosts.names;
    let (component, figure) = hosts.most()?;
    let busy = |host: &str| format!("look at how busy the CPUs of {host} are, and at its softirqs.");
    let tail = figure.p99_ns.or(figure.p90_ns);
    let is_steady = figure.p50_ns.zip(tail).is_some_and(|(p50, tail)| tail <= p50.saturating_add(p50 / 4));
    Some(match component {
        Component::Connect => {
            "connections are set up for these requests: keep them open, and use one for the next request.".into()
        }
        Component::Application => {
            "the client's program takes the time between its first write and its last: write each request with one call, or profile it.".into()
        }
        Component::Tcp => Text::code(format!("wirelapse report {client}")).and(" says what the client's TCP waited for."),
        Component::Kernel => busy(client).into(),
        Component::PeerReceive | Component::PeerSend => busy(server).into(),
        Component::Network if is_steady => {
            "that is the distance: fewer round trips for each request help, or a server that is nearer, and no setting.".into()
        }
        Component::Network => Text::from("packets wait or are lost on the path: capture at both ends (")
            .and(Text::code("wirelapse capture"))
            .and("), and ")
            .and(Text::code("wirelapse compare"))
            .and(" of the two captures shows which."),
        Component::PeerApplication => Text::from("no setting of the network shortens this: profile the server's program, or see what it asks others itself with ")
            .and(Text::code("wirelapse trace --requests --peer"))
            .and(" there."),
        Component::Transfer => Text::code("wirelapse analyze")
            .and(" on a capture says whether the server writes its answer in pieces, or what limits how fast it comes."),
        Component::Wakeup => {
            format!("the client's program reads late: look at its threads, and at how busy {client} is.").into()
        }
        // Of what a client does, nothing is joined.
        Component::Upstream => return None,
    })
}

/// The components that took any time, with the colours that they have everywhere.
fn components(hosts: &Hosts) -> impl Iterator<Item = (Component, Hue, &summary::hosts::Figure)> {
    Component::ALL.into_iter().zip(TimedKind::AtClient.legs()).filter_map(|(component, leg)| {
        let figure = hosts.of(Piece::Component(component))?;
        (figure.sum_ns > 0).then(|| (component, hue_of(leg), figure))
    })
}

/// The figures of the whole, and what took its time.
fn glance(hosts: &Hosts) -> Option<Glance> {
    let whole = hosts.of(Piece::Whole)?;
    let times = [("median", whole.p50_ns), ("p99", whole.p99_ns)];
    let times = times.into_iter().filter_map(|(name, ns)| Some((name.to_owned(), Nanos(ns?).to_string())));
    let part = |(component, hue, figure): (Component, Hue, &summary::hosts::Figure)| Part {
        name: capital(words(Piece::Component(component))),
        hue,
        share: figure.share,
    };
    let mut parts: Vec<Part> = components(hosts).map(part).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(Glance {
        figures: std::iter::once(("requests".to_owned(), quantity::count(whole.n))).chain(times).collect(),
        whole: "Where requests spent their time".into(),
        parts,
    })
}

/// How long each component took, typically and at most.
fn plot(hosts: &Hosts) -> Option<Plot> {
    let (mut names, mut layers) = (Vec::new(), Vec::new());
    for (component, hue, figure) in components(hosts) {
        let Some(p50) = figure.p50_ns.filter(|p50| *p50 > 0) else { continue };
        let (high, called) = match (figure.p99_ns, figure.p90_ns) {
            (Some(p99), _) => (p99, "p99"),
            (None, Some(p90)) => (p90, "p90"),
            (None, None) => (p50, "p50"),
        };
        let what = words(Piece::Component(component));
        let label =
            format!("{what}: median {}, {called} {}; n = {}", Nanos(p50), Nanos(high), quantity::count(figure.n));
        let (low, high) = (tidy(p50 as f64), tidy(high as f64));
        let items = vec![Interval { at: names.len() as f64, low, value: low, high, label }];
        layers.push(Layer::Intervals { name: String::new(), hue, items });
        names.push(what);
    }
    Plot::new(
        "components",
        "How long each part took",
        "The point is the median, the line reaches to p99, or to p90 where there are too few requests for that.",
        (Axis::sizes("time", Unit::Time), Axis::names("", names)),
        layers,
    )
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
        warnings.push(format!("{} of {client} not joined: {server} has no request on their connections.", counted(n)));
    }
    let apart = hosts.shared - hosts.joined - hosts.undivided;
    if apart > 0 {
        warnings.push(format!("{} not joined: divided otherwise at the other end, or not seen there.", counted(apart)));
    }
    if hosts.undivided > 0 {
        warnings.push(format!("{} not joined: a stamp is missing, or two are out of order.", counted(hosts.undivided)));
    }
    if let Some(clock) = hosts.clock.filter(|clock| clock.stretches > 1) {
        warnings.push(format!("A clock was set or changed its rate: it is followed in {} stretches.", clock.stretches));
    }
    warnings
}

/// The joined runs for programs: the figures, and what is said of them.
///
/// # Errors
/// Those of serialising.
pub fn json(hosts: &Hosts) -> serde_json::Result<serde_json::Value> {
    let mut value = serde_json::to_value(hosts)?;
    value["verdict"] = serde_json::to_value(verdict(hosts))?;
    value["warnings"] = serde_json::to_value(warnings(hosts))?;
    Ok(value)
}

/// The joined runs as a document.
pub fn document(hosts: &Hosts) -> Document {
    let mut where_ = Section { plot_first: true, ..Section::new("Where the time of requests went") };
    where_.blocks.extend(glance(hosts).map(Block::Glance));
    where_.plot(plot(hosts));
    let figures = ["n", "p50", "p90", "p99", "share", "error"].map(Column::figures);
    let mut table = Table::new("", [Column::text("component")].into_iter().chain(figures));
    for f in &hosts.components {
        let error = (f.error_ns > 0).then(|| format!("± {}", Nanos(f.error_ns)));
        table.push([
            Cell::from(words(f.piece)),
            Cell::count(f.n),
            Cell::ns_or(f.p50_ns, TOO_FEW),
            Cell::ns_or(f.p90_ns, TOO_FEW),
            Cell::ns_or(f.p99_ns, TOO_FEW),
            Cell::share(f.share),
            Cell::or(error, Cell::figure, "it does not rest on the comparison of the clocks"),
        ]);
    }
    where_.table(table);
    where_.say(
        "Each duration is by the clock of the host that it was on, so only the division of the network's time between the two ways rests on the \
         comparison of the clocks. Their difference is bounded by the traffic: no byte is on its way for less than no time.",
    );
    let mut slow = Section::new("The slowest requests");
    let columns = [
        Column::text("connection"),
        Column::figures("whole"),
        Column::text("longest"),
        Column::figures("client to server"),
        Column::figures("server's program"),
        Column::figures("server to client"),
    ];
    let mut table = Table::new("", columns);
    for s in &hosts.slowest {
        let [whole, there, peer, back] =
            [s.whole_ns, s.network_there_ns, s.peer_application_ns, s.network_back_ns].map(|ns| Cell::time(Nanos(ns)));
        let longest = words(Piece::Component(s.longest));
        table.push([s.connection_id.to_string().into(), whole, longest.into(), there, peer, back]);
    }
    slow.table(table);
    let mut verdict: Vec<Clause> = clauses(verdict(hosts));
    if let Some(first) = verdict.first_mut() {
        first.next = next(hosts);
    }
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
        verdict,
        warnings: texts(warnings(hosts)),
        sections: vec![where_, slow],
        ..Document::default()
    }
}
