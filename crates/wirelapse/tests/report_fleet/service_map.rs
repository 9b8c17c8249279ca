//! `wirelapse report --runs --map` on a fleet in which it is known who talks to whom, how often and
//! how long that takes.

use std::net::SocketAddr;
use std::path::Path;

use record::histogram::{Histogram, Series, SeriesKey};
use record::service_map::{MapEdge, MapRuns};
use record::table::{Record, object};
use record::{
    Comm, Connect, ConnectStamps, Connection, ConnectionId, Coverage, Event, Instant, IpPrefix, Leg, LegName, Lost,
    Monotonic, Nanos, Opening, Outcome, Owner, Send, SenderState, SeqNumber, Stamps, Utc,
};
use store::rotating::Rotating;
use store::{HistogramRow, Named, Provenance};

use super::{DAY, is_there, provenance};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A run of one host that is being made up: of the first two hours of the day.
struct Host {
    rotating: Rotating,
    next: u64,
}

/// One end of a connection.
#[derive(Clone, Copy)]
struct End<'a> {
    opening: Opening,
    local: &'a str,
    remote: &'a str,
    /// The program, and its cgroup.
    comm: &'a str,
    cgroup: u64,
}

/// Sends that are alike.
#[derive(Clone, Copy)]
struct Sends {
    n: u64,
    tcp_us: u64,
    network_us: u64,
    retransmitted: u64,
}

fn connected<'a>(local: &'a str, remote: &'a str, comm: &'a str, cgroup: u64) -> End<'a> {
    End { opening: Opening::Connected, local, remote, comm, cgroup }
}

fn accepted<'a>(local: &'a str, remote: &'a str, comm: &'a str, cgroup: u64) -> End<'a> {
    End { opening: Opening::Accepted, local, remote, comm, cgroup }
}

fn sends(n: u64, tcp_us: u64, network_us: u64) -> Sends {
    Sends { n, tcp_us, network_us, retransmitted: 0 }
}

fn at(ns: u64) -> Instant<Monotonic> {
    Instant::from_nanos(ns)
}

impl Host {
    /// With the units of these cgroups, as the histograms name them.
    fn new(root: &Path, name: &str, kept_one_in: Option<u64>, units: &[(u64, &str)]) -> Self {
        let mut rotating = Rotating::open(root, name).expect("a folder");
        let provenance = Provenance { kept_one_in, ..provenance(0) };
        rotating.begin(Utc(DAY * 1_000_000), provenance).expect("begins");
        for (cgroup, unit) in units {
            let legs = [(Leg::Total, [Nanos(1000)].into_iter().collect::<Histogram>())].into();
            let key = SeriesKey { cgroup: Some(*cgroup), ..SeriesKey::default() };
            let named = Named { unit: Some((*unit).to_owned()), ..Named::default() };
            for row in HistogramRow::of(
                Utc(DAY * 1_000_000),
                Nanos::from_secs(60),
                &Series { key, legs, ..Series::default() },
                &named,
            ) {
                rotating.histogram(&row).expect("is written");
            }
        }
        Self { rotating, next: 1 }
    }

    fn event(&mut self, event: Event) {
        self.rotating.event(&event).expect("is written");
    }

    fn tried(&mut self, end: End<'_>, connection: Option<ConnectionId>, outcome: Outcome) {
        let stamps = ConnectStamps { syn: Some(at(1_000_000_000)), ..ConnectStamps::default() };
        let connect = Connect {
            connection,
            local: address(end.local),
            remote: address(end.remote),
            owner: Owner { pid: 100, comm: Comm::from(end.comm) },
            cgroup: Some(end.cgroup),
            opening: end.opening,
            outcome,
            stamps,
            ..Connect::blank()
        };
        self.event(Event::Connect(Box::new(connect)));
    }

    /// A connection with its sends. Only one of a run that keeps all rows has one of its set-up.
    fn connection(&mut self, end: End<'_>, sends: Sends, with_attempt: bool) {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.event(Event::Connection(Connection {
            id,
            local: address(end.local),
            remote: address(end.remote),
            owner: Owner { pid: 100, comm: Comm::from(end.comm) },
            opening: end.opening,
            accepted: None,
            since: at(1_000_000_000),
            congestion_control: "cubic".into(),
        }));
        if with_attempt {
            self.tried(end, Some(id), Outcome::Established);
        }
        for number in 0..sends.n {
            let sent = 2_000_000_000 + number * 1_000_000;
            let driver = sent + sends.tcp_us * 1000;
            self.event(Event::Send(Send {
                connection: id,
                owner: Owner { pid: 100, comm: Comm::from(end.comm) },
                thread: None,
                first_seq: SeqNumber(number as u32),
                bytes: 1000,
                stamps: Stamps {
                    sched: Some(at(driver)),
                    driver: Some(at(driver)),
                    ack: Some(at(driver + sends.network_us * 1000)),
                    ..Stamps::sent_at(at(sent))
                },
                state: SenderState::default(),
                buffer: None,
                wait: None,
                retransmissions: u16::from(number < sends.retransmitted),
                unacknowledged: None,
                ack_alone: None,
            }));
        }
    }

    fn finish(mut self) {
        let end = at(2 * HOUR_NS);
        let coverage = Coverage { bytes_written: 1000, bytes_armed: 1000, ..Coverage::default() };
        self.rotating.finish(Utc((DAY + 7200) * 1_000_000), end, Lost::default(), coverage).expect("is finished");
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// web-1 and web-2 ask app-1, whose two services ask db-1; thirty clients and one server are
/// outside. db-1 keeps one row in ten.
fn planted(root: &Path) {
    let mut web = Host::new(root, "web-1", None, &[(7, "web.service"), (8, "cache.service")]);
    for port in [40_001, 40_002] {
        web.connection(connected(&format!("10.0.0.1:{port}"), "10.0.0.3:8080", "nginx", 7), sends(200, 100, 900), true);
    }
    web.tried(connected("10.0.0.1:40003", "10.0.0.3:8080", "nginx", 7), None, Outcome::Refused);
    for client in 1..=30 {
        let far = format!("198.51.100.{client}:5000");
        // The first eleven send more.
        let n = if client <= 11 { 6 } else { 5 };
        web.connection(accepted("10.0.0.1:443", &far, "nginx", 7), sends(n, 50, 30_000), true);
    }
    web.connection(connected("127.0.0.1:41000", "127.0.0.1:11211", "nginx", 7), sends(100, 20, 10), true);
    web.connection(accepted("127.0.0.1:11211", "127.0.0.1:41000", "memcached", 8), sends(100, 20, 10), true);
    web.finish();

    let mut web = Host::new(root, "web-2", None, &[(7, "web.service"), (8, "cache.service")]);
    let slow = Sends { retransmitted: 30, ..sends(300, 100, 40_000) };
    web.connection(connected("10.0.0.2:40001", "10.0.0.3:8080", "nginx", 7), slow, true);
    web.connection(connected("127.0.0.1:41000", "127.0.0.1:11211", "nginx", 7), sends(50, 20, 10), true);
    web.finish();

    let mut app = Host::new(root, "app-1", None, &[(7, "app.service"), (8, "job.service")]);
    for (far, n) in [("10.0.0.1:40001", 200), ("10.0.0.1:40002", 200), ("10.0.0.2:40001", 300)] {
        app.connection(accepted("10.0.0.3:8080", far, "app", 7), sends(n, 50, 450), true);
    }
    app.connection(connected("10.0.0.3:50001", "10.0.0.4:5432", "app", 7), sends(1000, 150, 50), true);
    app.connection(connected("10.0.0.3:50002", "10.0.0.4:5432", "job", 8), sends(120, 1_500, 500), true);
    app.connection(connected("10.0.0.3:50003", "203.0.113.9:443", "app", 7), sends(10, 100, 100_000), true);
    app.finish();

    let mut db = Host::new(root, "db-1", Some(10), &[(7, "postgres.service")]);
    // Sends and connections are drawn apart: of these connections no row says how they were set up.
    db.connection(accepted("10.0.0.4:5432", "10.0.0.3:50001", "postgres", 7), sends(150, 0, 400), false);
    db.connection(accepted("10.0.0.4:5432", "10.0.0.3:50002", "postgres", 7), sends(20, 0, 400), false);
    db.tried(accepted("10.0.0.4:5432", "10.0.0.3:50009", "postgres", 7), None, Outcome::Unanswered);
    db.finish();
}

/// What a report with these words answers.
fn report(root: &Path, words: &[&str]) -> std::process::Output {
    let mut command = tier::wirelapse!(["report", "--runs"]);
    command.arg(root).args(words).env("XDG_CACHE_HOME", root.join("cache")).env("COLUMNS", "200");
    command.output().expect("wirelapse runs")
}

/// The lines of `--json`: the runs, and the edges.
fn map(root: &Path, words: &[&str]) -> (MapRuns, Vec<MapEdge>) {
    let out = report(root, &[&["--map", "--json"], words].concat());
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let mut runs = None;
    let mut edges = Vec::new();
    for line in tier::text(&out.stdout).lines() {
        let mut line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).expect("an object");
        match line.remove("kind").expect("its kind").as_str() {
            Some("map") => runs = Some(object::read(&line).expect("runs")),
            Some("edge") => edges.push(object::read(&line).expect("an edge")),
            other => panic!("{other:?}"),
        }
    }
    (runs.expect("a line for the runs"), edges)
}

fn named(edge: &MapEdge) -> String {
    let end = |host: &str, name: &str| if host.is_empty() { name.to_owned() } else { format!("{name}@{host}") };
    let port = edge.port.map_or_else(String::new, |port| format!(":{port}"));
    format!("{} → {}{port}", end(&edge.from_host, &edge.from), end(&edge.to_host, &edge.to))
}

fn find<'a>(edges: &'a [MapEdge], name: &str, of: &str) -> &'a MapEdge {
    let found = edges.iter().find(|edge| named(edge) == name && edge.sends_of.name() == of);
    found.unwrap_or_else(|| panic!("{name}, {of}: {:#?}", edges.iter().map(named).collect::<Vec<_>>()))
}

/// The upper end of the bucket that a time is in.
fn bucket_us(us: u64) -> Option<u64> {
    let time = Nanos(us * 1000);
    [time].into_iter().collect::<Histogram>().quantile(0.5).map(|bounds| bounds.up_to.0)
}

#[test]
fn who_talks_to_whom_is_said_with_how_much_and_how_long_it_takes() {
    if !is_there("who_talks_to_whom_is_said_with_how_much_and_how_long_it_takes") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    planted(root.path());
    let (runs, edges) = map(root.path(), &[]);
    assert_eq!((runs.hosts, runs.runs, runs.kept_one_in), (4, 4, 10));
    let mut names: Vec<String> = edges.iter().filter(|edge| edge.sends_of.name() == "both").map(named).collect();
    names.sort();
    let mut wanted: Vec<String> =
        (1..=11).map(|client| format!("198.51.100.{client} → web.service@web-1:443")).collect();
    // The busiest of all that is outside is a server.
    wanted.extend(
        [
            "198.51.0.0/16 → web.service@web-1:443",
            "app.service@app-1 → 203.0.113.9:443",
            "app.service@app-1 → postgres.service@db-1:5432",
            "job.service@app-1 → postgres.service@db-1:5432",
            "web.service@web-1 → app.service@app-1:8080",
            "web.service@web-1 → cache.service@web-1:11211",
            "web.service@web-2 → app.service@app-1:8080",
            // Of a SYN that no connection came of it is not known which of two services sent it.
            "@app-1 → postgres.service@db-1:5432",
            // The other end has no row, and loopback of one host is not that of another.
            "web.service@web-2 → @web-2:11211",
        ]
        .map(str::to_owned),
    );
    wanted.sort();
    assert_eq!(names, wanted);

    let slow = find(&edges, "web.service@web-2 → app.service@app-1:8080", "both");
    assert_eq!((slow.place, slow.at_client, slow.at_server), (1, true, true));
    assert_eq!((slow.opened, slow.failed, slow.sends, slow.seen), (Some(1), Some(0), 600, 600));
    assert_eq!((slow.bytes, slow.retransmitted), (Some(600_000), Some(30)));
    assert_eq!((slow.leg, slow.p99_ns), (Some(LegName::Network), bucket_us(40_100)));
    assert_eq!(slow.total_ns, 300 * 40_100_000 + 300 * 500_000);
    let asks = find(&edges, "web.service@web-2 → app.service@app-1:8080", "client");
    assert_eq!((asks.sends, asks.p50_ns), (300, bucket_us(40_100)));
    let answers = find(&edges, "web.service@web-2 → app.service@app-1:8080", "server");
    assert_eq!((answers.sends, answers.p50_ns), (300, bucket_us(500)));

    let fast = find(&edges, "web.service@web-1 → app.service@app-1:8080", "both");
    assert_eq!((fast.opened, fast.failed, fast.sends), (Some(2), Some(1), 800));
    assert_eq!((fast.p50_ns, fast.p99_ns), (bucket_us(500), bucket_us(1000)));

    // One row in ten of one end: 1,500 answers of 150 rows, beside all 1,000 questions.
    let db = find(&edges, "app.service@app-1 → postgres.service@db-1:5432", "both");
    assert_eq!((db.sends, db.seen, db.bytes), (2500, 1150, Some(2_500_000)));
    assert_eq!((db.opened, db.p50_ns), (Some(1), bucket_us(400)));
    let job = find(&edges, "job.service@app-1 → postgres.service@db-1:5432", "both");
    assert_eq!((job.sends, job.leg), (320, Some(LegName::Tcp)));
    assert!((job.leg_share.expect("a share") - 180.0 / 320.0).abs() < 1e-6, "{:?}", job.leg_share);

    let clients = find(&edges, "198.51.0.0/16 → web.service@web-1:443", "both");
    assert_eq!((clients.addresses, clients.sends, clients.opened), (19, 95, Some(19)));
    // 95 sends have no p99.
    assert_eq!((clients.p50_ns, clients.p99_ns), (bucket_us(30_050), None));
    let unanswered = find(&edges, "@app-1 → postgres.service@db-1:5432", "both");
    assert_eq!((unanswered.opened, unanswered.failed, unanswered.sends), (Some(0), Some(10), 0));
    let outside = find(&edges, "app.service@app-1 → 203.0.113.9:443", "both");
    assert_eq!((outside.addresses, outside.at_client, outside.at_server), (1, true, false));
}

#[test]
fn an_address_that_several_hosts_have_is_none_of_theirs() {
    if !is_there("an_address_that_several_hosts_have_is_none_of_theirs") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    for name in ["a", "b"] {
        let mut host = Host::new(root.path(), name, None, &[]);
        host.connection(connected("172.17.0.2:4000", "172.17.0.1:80", "ask", 7), sends(1, 1, 1), true);
        host.connection(accepted("172.17.0.1:80", "172.17.0.2:4000", "answer", 8), sends(1, 1, 1), true);
        host.finish();
    }
    let mut host = Host::new(root.path(), "c", None, &[]);
    host.connection(connected("10.0.0.3:4000", "172.17.0.1:80", "ask", 7), sends(1, 1, 1), true);
    host.finish();
    let (_, edges) = map(root.path(), &[]);
    let mut names: Vec<String> = edges.iter().filter(|edge| edge.sends_of.name() == "both").map(named).collect();
    names.sort();
    assert_eq!(names, ["ask@a → answer@a:80", "ask@b → answer@b:80", "ask@c → @172.17.0.1 (several hosts):80"]);
}

#[test]
fn the_terminal_the_page_and_csv_say_the_same() {
    if !is_there("the_terminal_the_page_and_csv_say_the_same") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    planted(root.path());
    let out = report(root.path(), &["--map"]);
    let text = tier::text(&out.stdout);
    let first = "Most time went into web.service on web-2 → app.service on app-1 (port 8080): ";
    assert!(out.status.success() && text.contains(first), "{text}{}", tier::text(&out.stderr));
    for said in ["one row in up to 10 is kept", "folded into networks in 1 edge", "port 11211 on web-2"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let csv = tier::text(&report(root.path(), &["--map", "--csv"]).stdout);
    assert!(csv.contains("web.service on web-2,app.service on app-1,8080,"), "{csv}");
    let file = root.path().join("map.html");
    let out = report(root.path(), &["--map", "--html", file.to_str().expect("a name")]);
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let page = std::fs::read_to_string(file).expect("a page");
    assert!(page.contains(first), "{page}");
    let graph = page.split_once("class=\"graph\"").expect("a graph").1.split_once("</figure>").expect("its end").0;
    let count = |what: &str| graph.matches(what).count();
    let images = root.path().join("images");
    let folder = images.to_str().expect("a name");
    let out = report(root.path(), &["--map", "--svg", folder, "--png", folder]);
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let svg = std::fs::read_to_string(images.join("service-map.svg")).expect("an image");
    assert_eq!((svg.matches("<polygon").count(), svg.contains("app.service")), (20, true), "{svg}");
    let png = std::fs::read(images.join("service-map.png")).expect("an image");
    assert!(png.starts_with(b"\x89PNG"), "{} B", png.len());
    // Six services, two that are not known, twelve addresses and a network; each arrow has its
    // number.
    assert_eq!((count("<rect"), count("class=\"edge\""), count("class=\"mark\"")), (21, 20, 20), "{graph}");
}

#[test]
fn a_period_has_its_own_edges_and_histograms_stand_in_for_rows() {
    if !is_there("a_period_has_its_own_edges_and_histograms_stand_in_for_rows") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    // An hour of histograms of one host, and none of rows.
    let mut rotating = Rotating::open(root.path(), "web-1").expect("a folder");
    let second_hour = Utc((DAY + 3600) * 1_000_000);
    rotating.begin(second_hour, provenance(3_600_000_000_000)).expect("begins");
    let unit = |name: &str| Named { unit: Some(name.into()), ..Named::default() };
    let peer = |text: &str| Some(IpPrefix::new(text.parse().expect("an address"), 32));
    let of = |key: SeriesKey, named: &Named| {
        let times = |us: u64| (0..200).map(|_| Nanos(us * 1000)).collect::<Histogram>();
        let legs = [(Leg::Tcp, times(100)), (Leg::Network, times(900)), (Leg::Total, times(1000))].into();
        HistogramRow::of(second_hour, Nanos::from_secs(60), &Series { key, legs, ..Series::default() }, named)
            .collect::<Vec<_>>()
    };
    let web = unit("web.service");
    let rows = [
        of(SeriesKey { peer: peer("10.0.0.3"), peer_port: Some(8080), ..SeriesKey::default() }, &web),
        of(SeriesKey { peer: peer("198.51.100.1"), local_port: Some(443), ..SeriesKey::default() }, &web),
        of(SeriesKey { peer: peer("192.0.2.1"), ..SeriesKey::default() }, &unit("backup.service")),
    ];
    for row in rows.iter().flatten() {
        rotating.histogram(row).expect("is written");
    }
    let end = at(2 * HOUR_NS);
    rotating.finish(Utc((DAY + 7200) * 1_000_000), end, Lost::default(), Coverage::default()).expect("is finished");

    let (_, edges) = map(root.path(), &[]);
    let asks = find(&edges, "web.service@web-1 → 10.0.0.3:8080", "both");
    assert_eq!((asks.sends, asks.counted, asks.bytes, asks.opened), (200, 200, None, None));
    assert_eq!((asks.p99_ns, asks.leg, asks.directed), (bucket_us(1000), Some(LegName::Network), true));
    find(&edges, "198.51.100.1 → web.service@web-1:443", "server");
    assert!(!find(&edges, "backup.service@web-1 → 192.0.2.1", "both").directed);

    // With a host that has rows, in the hour before.
    planted(root.path());
    let (runs, edges) = map(root.path(), &["--last", "1h"]);
    assert_eq!((runs.runs, edges.iter().filter(|edge| edge.sends_of.name() == "both").count()), (5, 3));
    let (_, edges) = map(root.path(), &["--between", "2026-05-04T00:00", "2026-05-04T02:00"]);
    // The address is that of a host by now, which accepts there.
    let joined = find(&edges, "web.service@web-1 → app.service@app-1:8080", "both");
    assert_eq!((joined.sends, joined.counted), (1000, 200));
}

/// Pods of a deployment come and go: two by their rows, one by histograms alone, and what the agent
/// kept before the cluster had told it of the owner.
#[test]
fn the_pods_of_a_deployment_are_one_service() {
    if !is_there("the_pods_of_a_deployment_are_one_service") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let pod = |name: &str, owner: Option<&str>| Named {
        container: Some("cart".into()),
        pod: Some(name.into()),
        namespace: Some("shop".into()),
        owner_kind: owner.map(|_| "deployment".into()),
        owner: owner.map(Into::into),
        ..Named::default()
    };
    let second_hour = Utc((DAY + 3600) * 1_000_000);
    let rows = |cgroup: u64, peer: Option<&str>, named: &Named| {
        let key = SeriesKey {
            cgroup: Some(cgroup),
            peer: peer.map(|peer| IpPrefix::new(peer.parse().expect("an address"), 32)),
            peer_port: peer.map(|_| 5432),
            ..SeriesKey::default()
        };
        let legs = [(Leg::Total, [Nanos(1000)].into_iter().collect::<Histogram>())].into();
        HistogramRow::of(second_hour, Nanos::from_secs(60), &Series { key, legs, ..Series::default() }, named)
            .collect::<Vec<_>>()
    };
    let mut host = Host::new(root.path(), "node-1", None, &[]);
    let named = [
        (7, pod("cart-6d4cf56db6-aaaaa", None)),
        (7, pod("cart-6d4cf56db6-aaaaa", Some("cart"))),
        (8, pod("cart-6d4cf56db6-bbbbb", Some("cart"))),
        (9, pod("mail-0", None)),
        (10, Named { unit: Some("cron.service".into()), ..pod("cart-6d4cf56db6-aaaaa", Some("cart")) }),
    ];
    for (cgroup, named) in &named {
        rows(*cgroup, None, named).iter().for_each(|row| host.rotating.histogram(row).expect("is written"));
    }
    for (port, cgroup) in [(40_001, 7), (40_002, 8), (40_003, 9), (40_004, 10)] {
        let local = format!("10.0.0.1:{port}");
        host.connection(connected(&local, "10.0.0.4:5432", "app", cgroup), sends(10, 100, 900), true);
    }
    host.finish();
    let mut rotating = Rotating::open(root.path(), "node-2").expect("a folder");
    rotating.begin(second_hour, provenance(3_600_000_000_000)).expect("begins");
    for named in [pod("cart-6d4cf56db6-ccccc", None), pod("cart-6d4cf56db6-ccccc", Some("cart"))] {
        let rows = rows(7, Some("10.0.0.4"), &named);
        rows.iter().for_each(|row| rotating.histogram(row).expect("is written"));
    }
    let end = at(2 * HOUR_NS);
    rotating.finish(Utc((DAY + 7200) * 1_000_000), end, Lost::default(), Coverage::default()).expect("is finished");

    let (_, edges) = map(root.path(), &[]);
    let mut names: Vec<_> = edges
        .iter()
        .filter(|edge| edge.sends_of.name() == "both")
        .map(|edge| (self::named(edge), edge.sends))
        .collect();
    names.sort();
    let wanted = [
        ("cron.service@node-1 → 10.0.0.4:5432", 10),
        ("mail-0@node-1 → 10.0.0.4:5432", 10),
        ("shop/cart@node-1 → 10.0.0.4:5432", 20),
        ("shop/cart@node-2 → 10.0.0.4:5432", 2),
    ];
    assert_eq!(names, wanted.map(|(name, n)| (name.to_owned(), n)));
}

#[test]
fn what_cannot_be_asked_is_refused_with_what_to_do() {
    if !is_there("what_cannot_be_asked_is_refused_with_what_to_do") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let refused = |words: &[&str], why: &str| {
        let out = report(root.path(), words);
        let said = tier::text(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(why), "{words:?}: {:?} {said}", out.status);
    };
    refused(&["--map"], "wirelapse-query: ");
    let host = Host::new(root.path(), "web-1", None, &[]);
    host.finish();
    refused(&["--map"], "no run has a send or an attempt to connect in these hours");
    refused(&["--json"], "--json with --runs is for --map");
    refused(&["--map", "--last", "90s"], "give whole hours");
    let alone = tier::wirelapse!(["report", "--map", "run"]).output().expect("wirelapse runs");
    assert!(alone.status.code() == Some(2) && tier::text(&alone.stderr).contains("--map"), "{alone:?}");
}

#[test]
fn every_key_of_the_map_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/keys.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let section = |name: &str| {
        let after = page.split_once(&format!("\n## {name}\n")).unwrap_or_else(|| panic!("no {name}")).1;
        after.split("\n## ").next().unwrap_or(after).to_owned()
    };
    let has = |section: &str, names: &[&str]| {
        for name in names {
            assert!(section.contains(&format!("\n| `{name}` | ")), "{name}: {section}");
        }
    };
    has(&section("report: `map`"), &MapRuns::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    has(&section("report: `edge`"), &MapEdge::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
}
