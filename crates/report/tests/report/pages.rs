//! Pages and comparisons of runs that were written for the purpose.

use std::path::Path;

use paper::document::{Block, Document};
use paper::plot::image;
use paper::plot::{Layer, Plot};
use paper::{Canvas, html, terminal};
use record::{
    Basis, Comm, Components, Connection, ConnectionId, Coverage, Event, Instant, Lost, Message, Moments, Nanos,
    Opening, Owner, Request, Role, Send, SenderState, Stamps, WaitReason, Waits,
};
use report::page::comparison::several;
use report::page::{comparison, trace};
use store::{Run, Writer};
use summary::TimedKind;
use summary::between::{self, Comparison, Labels, Measure, Several};

/// The nth send: its legs in nanoseconds, varied a little by a fixed rule.
fn send(i: u64, [tcp, qdisc, network]: [u64; 3]) -> Send {
    let vary = |ns: u64, k: u64| ns + (i.wrapping_mul(k) >> 7) % (ns / 10 + 1);
    let at = 1_000_000_000 + i * 1_000_000;
    let sched = at + vary(tcp, 0x9e37_79b9);
    let driver = sched + vary(qdisc, 0x85eb_ca6b);
    let ack = driver + vary(network, 0xc2b2_ae35);
    let t = Instant::from_nanos;
    Send {
        connection: ConnectionId(1 + i % 2),
        owner: Owner { pid: 7, comm: Comm::from("<b>\"&</b>") },
        bytes: 100,
        stamps: Stamps { sched: Some(t(sched)), driver: Some(t(driver)), ack: Some(t(ack)), ..Stamps::sent_at(t(at)) },
        ..Send::blank()
    }
}

/// The nth send, on a connection with this minimum RTT.
fn send_over(i: u64, network: u64, min_rtt: Option<u64>) -> Send {
    let send = send(i, [1_000, 2_000, network]);
    Send { state: SenderState { min_rtt: min_rtt.map(Nanos), ..send.state }, ..send }
}

fn written(path: &Path, n: u64, legs: [u64; 3], finished: bool) {
    written_of(path, n, |i| send(i, legs), finished);
}

/// The sends that `send` makes.
fn written_of(path: &Path, n: u64, send: impl Fn(u64) -> Send, finished: bool) {
    written_with(path, n, send, |_| None, finished);
}

/// The same, and requests.
fn written_with(
    path: &Path,
    n: u64,
    send: impl Fn(u64) -> Send,
    request: impl Fn(u64) -> Option<Request>,
    finished: bool,
) {
    let mut writer = Writer::create(path, synthetic::provenance()).unwrap();
    for (id, remote) in [(1, "192.0.2.1:80"), (2, "192.0.2.2:80")] {
        let connection = Connection {
            id: ConnectionId(id),
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: remote.parse().unwrap(),
            owner: Owner { pid: 7, comm: Comm::from("</script>") },
            opening: Opening::Connected,
            since: Instant::from_nanos(1),
            congestion_control: "<i>cubic".into(),
            accepted: None,
        };
        writer.event(&Event::Connection(connection)).unwrap();
    }
    for i in 0..n {
        writer.event(&Event::Send(send(i))).unwrap();
        if let Some(request) = request(i) {
            writer.event(&Event::Request(Box::new(request))).unwrap();
        }
    }
    if finished {
        writer
            .finish(Instant::from_nanos(2_000_000_000 + n * 1_000_000), Lost::default(), Coverage::default())
            .unwrap();
    } else {
        writer.tick(Instant::from_nanos(u64::MAX / 2)).unwrap();
        std::mem::forget(writer);
    }
}

/// A run of every kind of record.
fn written_whole(path: &Path, n: u64, late: u64) {
    let mut writer = Writer::create(path, synthetic::provenance()).unwrap();
    synthetic::trace(2, n / 2).iter().chain(&synthetic::others(n, late)).for_each(|e| writer.event(e).unwrap());
    writer.finish(Instant::from_nanos(9_000_000_000), Lost::default(), Coverage::default()).unwrap();
}

fn plot<'a>(document: &'a Document, id: &str) -> &'a Plot {
    document.plots().find(|p| p.id == id).unwrap_or_else(|| panic!("no plot {id}"))
}

#[test]
fn every_kind_of_record_has_its_section_and_its_parts_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    written_whole(&path, 1_000, 40_000);
    let document = page_of(&path);
    assert!(document.warnings.is_empty(), "{:?}", document.warnings);
    let titles: Vec<&str> = document.sections.iter().map(|s| s.title.as_str()).collect();
    // Requests are what is asked where there are any.
    let mut families = TimedKind::ALL;
    families.sort_by_key(|kind| !matches!(kind, TimedKind::AtClient | TimedKind::AtServer));
    let families = families.map(TimedKind::title);
    assert_eq!(titles[..2], [families[0], "Connections set up"]);
    assert_eq!(titles[2..=families.len()], families[1..]);
    assert!(titles.contains(&"Dropped on this host"), "{titles:?}");
    // What keeps connections from working comes first; then what tells most, with the part that
    // took most.
    let said: Vec<String> = document.verdict.iter().map(|clause| clause.text.to_string()).collect();
    assert!(said[0].starts_with("100 of 500 attempts to connect") && document.verdict[0].next.is_some(), "{said:?}");
    assert!(said[1].contains("requests seen from the client") && said[1].contains("network"), "{said:?}");
    let ids: Vec<&str> = document.plots().map(|p| p.id.as_str()).collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "two plots would be written to one file: {ids:?}");
    for family in TimedKind::ALL {
        let prefix = if family == TimedKind::Sends { String::new() } else { format!("{}-", family.key()) };
        for name in ["cdf", "boxes", "shares", "over-time", "heat", "rate", "waterfalls"] {
            let plot = plot(&document, &format!("{prefix}{name}"));
            assert!(plot.caption.contains("n = ") || plot.caption.contains("n stands"), "{}", plot.caption);
        }
        // The first row is all records together: its parts cover 0 to 1 without a gap.
        let mut spans: Vec<[f64; 2]> = plot(&document, &format!("{prefix}shares"))
            .layers
            .iter()
            .filter_map(|l| match l {
                Layer::Spans { items, .. } => items.iter().find(|s| s.at == 0.0).map(|s| [s.from, s.to]),
                _ => None,
            })
            .collect();
        spans.sort_by(|a, b| a[0].total_cmp(&b[0]));
        assert!(spans[0][0] == 0.0 && (spans.last().unwrap()[1] - 1.0).abs() < 1e-4, "{family:?}: {spans:?}");
        assert!(spans.windows(2).all(|w| (w[0][1] - w[1][0]).abs() < 1e-4), "{family:?}: {spans:?}");
    }
    let drops = document.sections.iter().find(|s| s.title == "Dropped on this host").unwrap();
    let Some(Block::Table(table)) = drops.blocks.last() else { panic!("{drops:?}") };
    let n: u64 = table.rows.iter().map(|r| r.cells[0].to_string().parse::<u64>().unwrap()).sum();
    assert_eq!(n, 3 * 10, "ten packets, ten datagrams sent, ten received: {table:?}");
    let page = html::page(std::slice::from_ref(&document), "test").unwrap();
    assert!(page.matches("</script").count() == 3 && !page.contains("<img"));
    let text = terminal::text(&CANVAS, &[document]);
    assert!(text.is_ascii() && text.contains("Datagrams received") && text.contains("QDISC_DROP"), "{text}");
}

#[test]
fn each_kind_is_compared_by_its_own_legs() {
    let dir = tempfile::tempdir().unwrap();
    let side = |name: &str, late| {
        written_whole(&dir.path().join(name), 2_000, late);
        comparison::read(name, &Run::open(&dir.path().join(name)).unwrap()).unwrap()
    };
    let (a, b) = (side("A", 10_000), side("B", 400_000));
    let found = between::two(&a, &b);
    assert_eq!(found.kinds.iter().map(|k| k.kind).collect::<Vec<_>>(), TimedKind::ALL);
    let (first, second) = ("10.0.0.2".parse().unwrap(), "2001:db8::b".parse().unwrap());
    for (family, leg) in [
        (TimedKind::Receives, "wakeup"),
        (TimedKind::AtClient, "wakeup"),
        (TimedKind::AtServer, "wakeup"),
        (TimedKind::DatagramsReceived, "socket"),
    ] {
        let kind = found.of(family).unwrap();
        let total = kind.total.as_ref().unwrap().difference_ns.unwrap();
        // Those on the second connection are later by 390 µs: half of all; of requests, some of the
        // others have no parts.
        let truth = 390_000.0 * 1_000.0 / kind.n[1] as f64;
        assert!((total.value / truth - 1.0).abs() < 0.02, "{family:?}: {total:?}");
        let most = kind.explained.iter().find(|e| e.leg.to_string() == leg).unwrap();
        assert!((most.share.unwrap() - 1.0).abs() < 0.01, "{family:?}: {:?}", kind.explained);
        let verdict = verdict_of(&found, kind.kind);
        assert!(verdict[0].starts_with("B is slower than A"), "{verdict:?}");
        assert!(verdict.iter().any(|v| v.starts_with("90 % of ")), "{verdict:?}");
        // It sits in the second connection and its peer, and all connections add up.
        let at = |peer| kind.peers.iter().find(|p| p.peer == Some(peer)).unwrap().share.unwrap();
        assert!(at(second) > 0.98 && at(first) < 0.02, "{:?}", kind.peers);
        let shares: Vec<f64> = kind.connections.iter().map(|c| c.share.unwrap()).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 0.02, "{shares:?}");
    }
    for family in [TimedKind::Sends, TimedKind::Packets, TimedKind::DatagramsSent] {
        let verdict = &verdict_of(&found, family)[0];
        assert!(verdict.starts_with("No difference"), "{family:?}: {verdict}");
    }
    let text = comparison::text(&CANVAS, &found, &a, &b);
    assert!(text.contains("# Receives") && text.contains("# Datagrams received"), "{text}");
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["kinds"][1]["kind"], "receives");
    // A run without receives is not compared by them, and that is said.
    written(&dir.path().join("sends"), 500, [1_000, 500, 1_000_000], true);
    let bare = comparison::read("sends", &Run::open(&dir.path().join("sends")).unwrap()).unwrap();
    let found = between::two(&a, &bare);
    assert!(found.kinds.len() == 1 && warnings(&found).iter().any(|w| w.contains("Receives")), "{:?}", found.unlike);
}

fn page_of(path: &Path) -> Document {
    trace::document("run", &Run::open(path).unwrap()).unwrap()
}

const CANVAS: Canvas = Canvas { width: 100, colour: false, unicode: false };

#[test]
fn a_page_stays_small_however_many_sends_and_escapes_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    written(&path, 60_000, [2_000, 500, 10_000_000], true);
    let document = page_of(&path);
    assert!(
        document.warnings.is_empty() && document.verdict[0].text.to_string().contains("network"),
        "{:?}",
        document.verdict
    );
    let page = html::page(std::slice::from_ref(&document), "test").unwrap();
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert_eq!(page.matches("</script").count(), 3);
    assert!(!page.contains("<b>\"") && !page.contains("<i>cubic") && page.contains("&lt;i&gt;cubic"));
    assert!(document.plots().count() >= 6);
    for plot in document.plots() {
        assert!(plot.caption.contains("n = ") || plot.caption.contains("n stands"), "{}", plot.caption);
        assert!(!plot.x.label.is_empty(), "{}", plot.title);
    }
    let text = terminal::text(&CANVAS, &[document]);
    assert!(text.is_ascii() && text.contains("How long each leg took"), "{text}");
}

#[test]
fn runs_that_are_cut_short_empty_or_not_whole_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    written(&at("killed"), 1_000, [1_000, 500, 1_000_000], false);
    let killed = page_of(&at("killed"));
    assert!(
        killed.warnings[0].to_string().contains("never finished") && killed.plots().count() > 3,
        "{:?}",
        killed.warnings
    );
    written(&at("empty"), 0, [1, 1, 1], true);
    let empty = page_of(&at("empty"));
    assert_eq!(empty.plots().count(), 0);
    assert!(empty.verdict[0].text.to_string().contains("nothing was written"), "{:?}", empty.verdict);
    written(&at("partial"), 100, [1_000, 500, 1_000_000], true);
    for table in ["connections", "totals"] {
        std::fs::remove_dir_all(at("partial").join(format!("{table}.parquet"))).unwrap();
    }
    let partial = page_of(&at("partial"));
    assert!(partial.warnings.iter().any(|w| w.to_string().contains("no table connections")), "{:?}", partial.warnings);
    assert!(partial.plots().count() > 3);
    std::fs::remove_dir_all(at("partial").join("sends.parquet")).unwrap();
    let none = page_of(&at("partial"));
    assert!(
        none.warnings.iter().any(|w| w.to_string().contains("of 100 sends, and its tables hold 0")),
        "{:?}",
        none.warnings
    );
    html::page(&[killed, empty, partial, none], "test").unwrap();
}

fn compared(a: [u64; 3], b: [u64; 3], n: u64) -> Comparison {
    let dir = tempfile::tempdir().unwrap();
    let side = |name: &str, legs| {
        written(&dir.path().join(name), n, legs, true);
        comparison::read(name, &Run::open(&dir.path().join(name)).unwrap()).unwrap()
    };
    let (a, b) = (side("A", a), side("B", b));
    let found = between::two(&a, &b);
    let text = comparison::text(&CANVAS, &found, &a, &b);
    assert_eq!(text.contains("Which leg explains it"), n > 0, "{text}");
    found
}

#[test]
fn the_leg_that_differs_explains_the_difference_and_shares_add_up() {
    let base = [20_000, 5_000, 10_000_000];
    for (leg, other) in [("network", [20_000, 5_000, 16_000_000]), ("tcp", [6_000_000, 5_000, 10_000_000])] {
        let c = compared(base, other, 3_000);
        let verdict = verdict_of(&c, TimedKind::Sends);
        let c = c.of(TimedKind::Sends).unwrap();
        let share = |name: &str| c.explained.iter().find(|e| e.leg.to_string() == name).unwrap().share.unwrap();
        assert!(share(leg) > 0.98, "{leg}: {:?}", c.explained);
        let sum: f64 = c.explained.iter().filter_map(|e| e.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let total = c.total.as_ref().unwrap().difference_ns.unwrap();
        // The rule that varies the legs adds a twentieth at the mean.
        let truth = other.iter().sum::<u64>() as f64 - base.iter().sum::<u64>() as f64;
        assert!((total.value / (truth * 1.05) - 1.0).abs() < 0.02, "{total:?}");
        assert!(verdict[0].contains("B is slower than A"), "{:?}", verdict);
        assert!(verdict[1].contains(&format!("The {leg} leg explains")), "{:?}", verdict);
        let peers: f64 = c.peers.iter().filter_map(|p| p.share).sum();
        assert!(c.peers.len() == 2 && (peers - 1.0).abs() < 0.02, "{:?}", c.peers);
        let connections: f64 = c.connections.iter().filter_map(|c| c.share).sum();
        assert!(c.connections.len() == 2 && (connections - 1.0).abs() < 0.02, "{:?}", c.connections);
        assert!(verdict.iter().any(|v| v.starts_with("90 % of sends under")), "{:?}", verdict);
    }
}

/// What is said of sends like `a` against sends like `b`.
fn said(n: u64, a: impl Fn(u64) -> Send, b: impl Fn(u64) -> Send) -> String {
    let dir = tempfile::tempdir().unwrap();
    written_of(&dir.path().join("first"), n, a, true);
    written_of(&dir.path().join("second"), n, b, true);
    let read = |name: &str| comparison::read(name, &Run::open(&dir.path().join(name)).unwrap()).unwrap();
    let (a, b) = (read("first"), read("second"));
    let text = comparison::text(&CANVAS, &between::two(&a, &b), &a, &b);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is said of two runs, as programs get it.
fn verdict(of: &Comparison) -> Vec<String> {
    serde_json::from_value(comparison::json(of).unwrap()["verdict"].take()).unwrap()
}

/// What has to be known before it is believed.
fn warnings(of: &Comparison) -> Vec<String> {
    serde_json::from_value(comparison::json(of).unwrap()["warnings"].take()).unwrap()
}

/// What is said of one kind.
fn verdict_of(of: &Comparison, kind: TimedKind) -> Vec<String> {
    let mut all = comparison::json(of).unwrap();
    let kinds = all["kinds"].as_array_mut().unwrap();
    let kind = kinds.iter_mut().find(|of| of["kind"] == kind.key()).unwrap();
    serde_json::from_value(kind["verdict"].take()).unwrap()
}

/// What is said of several runs of each side.
fn said_of(of: &Several) -> Vec<String> {
    serde_json::from_value(comparison::json_of_several(of).unwrap()["verdict"].take()).unwrap()
}

/// The nth request of a client, with this path; it takes so long, and up to a tenth more.
fn request(i: u64, path: Option<&str>, takes: u64) -> Request {
    // As good as chance (the last step of SplitMix64, Steele et al. 2014): a rule with a period
    // would vary less than chance does.
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let (began, taken) = (1_000_000_000 + i * 1_000_000, takes + (mixed ^ mixed >> 31) % (takes / 10));
    let t = Instant::from_nanos;
    let http = record::Http {
        method: path.map(|_| record::Method::Get),
        path: path.map(str::to_owned),
        status: Some(200),
        ..record::Http::default()
    };
    Request {
        connection: ConnectionId(1 + i % 2),
        role: Role::Client,
        owner: Owner::default(),
        request: Message::default(),
        answer: Message::default(),
        moments: Moments { sent: Some(t(began)), read: Some(t(began + taken)), ..Moments::default() },
        components: Some(Components { peer_application: Some(Nanos(taken)), ..Components::default() }),
        basis: Basis::LeastRoundTrip,
        overlapping: Some(false),
        http,
        upstream: None,
    }
}

/// What is said of requests by method and path: the sentence of the verdict, and the labels.
fn by_label(
    n: u64,
    a: impl Fn(u64) -> Option<Request>,
    b: impl Fn(u64) -> Option<Request>,
) -> (Vec<String>, Option<Labels>, String) {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, request: &dyn Fn(u64) -> Option<Request>| {
        written_with(&dir.path().join(name), n, |i| send(i, [1_000, 500, 1_000_000]), request, true);
        comparison::read(name, &Run::open(&dir.path().join(name)).unwrap()).unwrap()
    };
    let (a, b) = (read("A", &a), read("B", &b));
    let found = between::two(&a, &b);
    let text = comparison::text(&CANVAS, &found, &a, &b);
    let labels = found.of(TimedKind::AtClient).unwrap().labels.clone();
    let table = text.find("By method and path").map_or(String::new(), |at| text[at..].to_owned());
    (verdict_of(&found, TimedKind::AtClient), labels, table)
}

#[test]
fn a_path_that_became_slow_is_named_and_every_request_is_counted_once() {
    // Of 4,000: a quarter are of /slow, an eighth of many paths, an eighth have none.
    let of = |slow: u64| {
        move |i: u64| {
            Some(match i % 8 {
                0 | 1 => request(i, Some("/slow"), slow),
                2 => request(i, Some(&format!("/user/page{i}")), 2_000_000),
                3 => request(i, None, 2_000_000),
                4 => request(i, Some("/other"), 3_000_000),
                _ => request(i, Some("/fast"), 1_000_000),
            })
        }
    };
    let (verdict, labels, table) = by_label(4_000, of(5_000_000), of(9_000_000));
    let labels = labels.unwrap();
    let named: Vec<_> =
        labels.each.iter().map(|l| (l.label.path.as_str(), l.n, l.moved.iter().any(|m| m.is_seen()))).collect();
    assert_eq!(named[0], ("/slow", [1_000, 1_000], true), "{named:?}");
    assert!(named.contains(&("/fast", [1_500, 1_500], false)) && named.contains(&("/other", [500, 500], false)));
    let shift = &labels.each[0].moved[0];
    assert!((shift.change.by.unwrap().value / 4.2e6 - 1.0).abs() < 0.05, "{shift:?}");
    assert!(labels.each.len() <= 20 && labels.unlabelled == [500, 500], "{labels:?}");
    for run in 0..2 {
        let all: u64 = labels.each.iter().map(|l| l.n[run]).sum();
        assert_eq!(all + labels.others[run] + labels.unlabelled[run], 4_000);
    }
    let said = verdict.iter().find(|s| s.contains("methods and paths")).unwrap();
    assert!(
        said.contains(
            "1 of 3 methods and paths that both runs have changed; there are too few requests of 17 methods and paths"
        ),
        "{said}"
    );
    assert!(
        said.contains("is that of GET /slow: median 5.") && said.contains("n = 1,000 and 1,000 requests"),
        "{said}"
    );
    assert!(table.contains("GET /slow") && table.contains("all others") && table.contains("too few"), "{table}");
    assert!(table.contains("not known"), "{table}");
}

#[test]
fn where_nothing_changed_no_path_is_named_and_where_too_little_is_known_that_is_said() {
    let paths = ["/a", "/b", "/c", "/d", "/e"];
    // Ten pairs of runs with other times of the same kind, five paths each: one interval of 95 % in
    // twenty would be off.
    for pair in 0..10 {
        let of = |side: u64| {
            move |i: u64| Some(request(i + 7_919 * (2 * pair + side), Some(paths[(i % 5) as usize]), 2_000_000))
        };
        let (verdict, labels, _) = by_label(1_500, of(0), of(1));
        assert!(labels.unwrap().each.iter().all(|label| label.moved.iter().all(|m| !m.is_seen())), "{verdict:?}");
        assert!(verdict.iter().any(|s| s.contains("No change is seen in any of 5 methods and paths")), "{verdict:?}");
    }
    let (verdict, ..) =
        by_label(12, |i| Some(request(i, Some("/a"), 1_000_000)), |i| Some(request(i, Some("/a"), 9_000_000)));
    assert!(
        verdict.iter().any(|s| s.contains("too few requests of each of 1 method and path that both runs have")),
        "{verdict:?}"
    );
    let (verdict, labels, _) =
        by_label(100, |i| Some(request(i, Some("/a"), 1_000_000)), |i| Some(request(i, Some("/b"), 1_000_000)));
    assert_eq!(labels.unwrap().others, [100, 100]);
    assert!(verdict.iter().any(|s| s.starts_with("No method and path is known of requests of both")), "{verdict:?}");
    // Only one of them has any.
    let (_, labels, table) =
        by_label(100, |i| Some(request(i, Some("/a"), 1_000_000)), |i| Some(request(i, None, 1_000_000)));
    assert!(labels.is_none() && table.is_empty());
}

#[test]
fn several_runs_of_each_side_show_which_path_changed() {
    let dir = tempfile::tempdir().unwrap();
    // Each run of a side differs from the others by 2 %, and /slow between the sides by 60 %.
    let side = |name: &str, slow: u64| {
        [0, 1, 2, 3].map(|run| {
            let name = format!("{name}{run}");
            let asked = |i: u64| {
                let (path, takes) = if i.is_multiple_of(4) { ("/slow", slow) } else { ("/fast", 2_000_000) };
                Some(request(i + 7_919 * run, Some(path), takes + takes / 50 * run))
            };
            written_with(&dir.path().join(&name), 400, |i| send(i, [1_000, 500, 1_000_000]), asked, true);
            comparison::read(&name, &Run::open(&dir.path().join(&name)).unwrap()).unwrap()
        })
    };
    let (a, b) = (side("a", 5_000_000), side("b", 8_000_000));
    let found = between::several(["BEFORE", "AFTER"], [&a, &b]);
    let runs = found.kinds.iter().find(|runs| runs.kind == TimedKind::AtClient).unwrap();
    let labels: Vec<_> =
        runs.labels.iter().map(|l| (l.label.path.as_str(), l.figures.iter().any(|f| f.change.is_seen()))).collect();
    assert_eq!(labels, [("/slow", true), ("/fast", false)]);
    assert_eq!(runs.labels[0].n, [vec![100; 4], vec![100; 4]]);
    let change = runs.labels[0].figures[0].change.by.unwrap();
    assert!(change.covers(0.6) && change.low > 0.4, "{change:?}");
    let said = said_of(&found).into_iter().find(|s| s.contains("methods and paths")).unwrap();
    assert!(said.starts_with("1 of 2 methods and paths that every run has changed. The largest change"), "{said}");
    assert!(said.contains("is that of GET /slow: median 5."), "{said}");
    let text = terminal::text(&CANVAS, &[several::document(&found)]);
    assert!(text.contains("By method and path, each run one value"), "{text}");
    let same = between::several(["BEFORE", "AFTER"], [&a, &side("c", 5_000_000)]);
    assert!(
        said_of(&same).iter().any(|s| s.contains("No change is seen in any of 2 methods and paths that every run has"))
    );
}

#[test]
fn an_ack_that_comes_late_is_not_blamed_on_the_path() {
    let over = |network: u64, min_rtt: Option<u64>| move |i: u64| send_over(i, network, min_rtt);
    let base = || over(6_000_000, Some(5_900_000));
    let late = said(400, base(), over(26_000_000, Some(5_900_000)));
    assert!(
        late.contains("The network leg explains") && late.contains("beyond it: the peer delays its ACKs"),
        "{late}"
    );
    assert!(!late.contains("The path itself changed"), "{late}");
    let longer = said(400, base(), over(26_000_000, Some(25_900_000)));
    assert!(longer.contains("The path itself changed") && !longer.contains("the peer delays its ACKs,"), "{longer}");
    let unknown = said(400, base(), over(26_000_000, None));
    assert!(unknown.contains("whether the path or the peer took the time cannot be said"), "{unknown}");
}

#[test]
fn neither_the_headline_nor_several_runs_blame_the_path_for_late_acks() {
    let dir = tempfile::tempdir().unwrap();
    // Each send is a request as well, of which the peer's program took what its ACK came late.
    let asked = |i: u64, peer: u64| {
        let (t, began) = (Instant::from_nanos, 1_000_000_000 + i * 1_000_000);
        let components = Components {
            network: Some(Nanos(5_900_000)),
            peer_application: Some(Nanos(peer + i % 100)),
            ..Components::default()
        };
        Some(Request {
            connection: ConnectionId(1 + i % 2),
            role: Role::Client,
            owner: Owner::default(),
            request: Message::default(),
            answer: Message::default(),
            moments: Moments { sent: Some(t(began)), read: Some(t(began + components.sum().0)), ..Moments::default() },
            components: Some(components),
            basis: Basis::LeastRoundTrip,
            overlapping: Some(false),
            http: record::Http::default(),
            upstream: None,
        })
    };
    let side = |name: &str, network: u64, peer: u64| {
        let path = dir.path().join(name);
        written_with(&path, 400, |i| send_over(i, network, Some(5_900_000)), |i| asked(i, peer), true);
        comparison::read(name, &Run::open(&path).unwrap()).unwrap()
    };
    let fast = ["a1", "a2", "a3"].map(|name| side(name, 6_000_000, 100_000));
    let slow = ["b1", "b2", "b3"].map(|name| side(name, 26_000_000, 20_100_000));
    let headline = verdict(&between::two(&fast[0], &slow[0]));
    let at =
        |what: &str| headline.iter().position(|s| s.contains(what)).unwrap_or_else(|| panic!("{what}: {headline:?}"));
    assert!(at("The peer_application leg explains") < at("The network leg explains"), "{headline:?}");
    assert!(
        headline[at("The network leg explains") + 1].contains("beyond it: the peer delays its ACKs"),
        "{headline:?}"
    );
    let several = said_of(&between::several(["BEFORE", "AFTER"], [&fast, &slow]));
    assert!(several.iter().any(|s| s.contains("beyond it: the peer delays its ACKs")), "{several:?}");
    // Requests over a longer path have the minimum RTT of their sends.
    let longer = |name: &str| {
        let path = dir.path().join(name);
        let request = |i: u64| {
            let mut request = asked(i, 100_000)?;
            let components = request.components.as_mut()?;
            components.network = Some(Nanos(25_900_000 + i % 100));
            request.moments.read =
                request.moments.sent.map(|at| Instant::from_nanos(at.as_nanos() + components.sum().0));
            Some(request)
        };
        written_with(&path, 400, |i| send_over(i, 26_000_000, Some(25_900_000)), request, true);
        comparison::read(name, &Run::open(&path).unwrap()).unwrap()
    };
    let found = between::two(&fast[0], &longer("c"));
    let requests = verdict_of(&found, TimedKind::AtClient);
    assert!(
        requests.iter().any(|s| s.contains("The path itself changed") && s.contains("for the network")),
        "{requests:?}"
    );
    assert!(!requests.iter().any(|s| s.contains("no minimum RTT is known")), "{requests:?}");
}

#[test]
fn what_sends_waited_for_is_in_the_verdict_where_it_explains_it() {
    let held = |tcp: u64, reason: WaitReason| {
        move |i: u64| Send { wait: Some(Waits::of(reason, Nanos(tcp))), ..send(i, [tcp, 2_000, 6_000_000]) }
    };
    let closing = said(62, held(1_000, WaitReason::SentAtOnce), held(9_000_000, WaitReason::ReceiveWindow));
    assert!(closing.contains("second is slower than first"), "62 sends are not too few: {closing}");
    assert!(closing.contains("It waited for the receive window: 0 ns in first and 9"), "{closing}");
    // A reason that is there in both runs alike explains nothing.
    let alike = said(400, held(9_000_000, WaitReason::Nagle), held(9_000_000, WaitReason::Nagle));
    assert!(alike.contains("No difference") && !alike.contains("It waited for"), "{alike}");
    // The time within the call that writes is in no total.
    let called = |call: u64, full: u64| {
        move |i: u64| {
            let send = send(i, [1_000, 2_000, 6_000_000]);
            let stamps = Stamps { call: Some(Instant::from_nanos(send.stamps.send.as_nanos() - call)), ..send.stamps };
            let buffer = (full > 0).then_some(Waits::of(WaitReason::ReceiveWindow, Nanos(full)));
            Send { stamps, buffer, ..send }
        }
    };
    let blocked = said(400, called(3_000, 0), called(5_000_000, 4_990_000));
    assert!(blocked.contains("The call that writes changed as well"), "{blocked}");
    assert!(blocked.contains("for room in the send buffer, held by the receive window"), "{blocked}");
}

#[test]
fn several_runs_of_each_side_show_what_runs_differ_by() {
    let dir = tempfile::tempdir().unwrap();
    let side = |name: &str, networks: [u64; 3]| {
        let runs = networks.iter().enumerate().map(|(i, network)| {
            let path = dir.path().join(format!("{name}-{i}"));
            written(&path, 400, [1_000, 2_000, *network], true);
            comparison::read(&format!("{name}-{i}"), &Run::open(&path).unwrap()).unwrap()
        });
        runs.collect::<Vec<_>>()
    };
    let before = side("before", [10_000_000, 11_000_000, 9_000_000]);
    let after = side("after", [20_000_000, 22_000_000, 18_000_000]);
    let found = between::several(["BEFORE", "AFTER"], [&before, &after]);
    let sends = &found.kinds[0];
    let median = sends
        .figures
        .iter()
        .find(|f| f.leg == record::LegName::Total && f.measure == Measure::Quantile(stats::Quantile::P50))
        .unwrap();
    let (change, said) = (median.change.by.unwrap(), said_of(&found));
    assert!(
        median.change.is_seen() && (0.9..1.1).contains(&change.value) && change.low > 0.3 && change.high > 1.3,
        "{change:?}"
    );
    assert!(median.runs.spread().iter().all(|spread| (0.05..0.2).contains(&spread.unwrap())), "{:?}", median.runs);
    assert!(said[0].starts_with("AFTER (3 runs) is slower than BEFORE (3 runs): median of sends 1"), "{:?}", said);
    assert!(said[1].contains("The network leg explains 100 %"), "{:?}", said);
    // The sends of these runs know of no shorter round trip than their own.
    assert!(said[2].contains("cannot be said") || said[2].contains("minimum RTT"), "{:?}", said);
    assert!(!found.unlike.contains(&between::Unlike::OneRunOfEach), "{:?}", found.unlike);
    // A pair of these runs is surely different from its own; the runs of one setting are not.
    let again = side("again", [9_500_000, 10_500_000, 11_500_000]);
    let none = between::several(["BEFORE", "AFTER"], [&before, &again]);
    let none = said_of(&none);
    assert!(none[0].starts_with("No difference between BEFORE (3 runs) and AFTER (3 runs) is seen"), "{none:?}");
    assert!(none[0].contains("these runs would have shown a change of +"), "{none:?}");
    let pair = between::two(&before[0], &before[1]);
    assert!(
        verdict(&pair)[0].contains("slower") && warnings(&pair).iter().any(|w| w.contains("one run of each")),
        "{pair:?}"
    );
    let text = terminal::text(&CANVAS, &[several::document(&found)]);
    assert!(text.contains("Each run") && text.contains("before-2"), "{text}");
}

#[test]
fn a_connection_that_is_stuck_in_one_of_two_runs_is_said_first() {
    let dir = tempfile::tempdir().unwrap();
    let legs = [20_000, 5_000, 10_000_000];
    let side = |name: &str, stuck: Option<u64>| {
        let hangs = |i: u64| {
            let mut send = send(i, legs);
            if stuck == Some(i) {
                let at = Instant::from_nanos(send.stamps.send.as_nanos() + 6_600_000_000);
                send.stamps.ack = None;
                send.unacknowledged = Some(record::Unacknowledged { at, idle: Nanos(6_600_000_000) });
            }
            send
        };
        written_of(&dir.path().join(name), 1_000, hangs, true);
        comparison::read(name, &Run::open(&dir.path().join(name)).unwrap()).unwrap()
    };
    let (a, b) = (side("A", None), side("B", Some(999)));
    // One send of a thousand: by shares it would not be said.
    let found = between::two(&a, &b);
    let said = verdict(&found);
    let line =
        "B: 1 of 2 connections was stuck at the end, for 6.60\u{a0}s; what waited there is in no figure of the total.";
    assert_eq!(said[0], line);
    assert!(said[1].starts_with("No difference between"), "{said:?}");
    assert!(verdict(&between::two(&a, &a))[0].starts_with("No difference between"));
    let several = between::several(["A", "B"], [&a, &b].map(std::slice::from_ref));
    assert_eq!(said_of(&several)[0], line);
}

#[test]
fn a_run_compared_with_itself_shows_no_difference_and_the_smallest_it_could_have_shown() {
    let same = [20_000, 5_000, 10_000_000];
    let found = compared(same, same, 3_000);
    let (c, said) = (found.of(TimedKind::Sends).unwrap(), verdict_of(&found, TimedKind::Sends));
    assert!(c.legs.iter().all(|l| l.moved.iter().all(|m| !m.is_seen())), "{:?}", c.legs);
    assert!(said[0].starts_with("No difference") && said[0].contains("these runs would have shown"), "{said:?}");
    assert!(c.explained.iter().all(|e| e.share.is_none()));
    let few = compared(same, same, 5);
    assert!(verdict(&few)[0].starts_with("There are too few"), "{few:?}");
    let none = compared(same, same, 0);
    assert!(verdict(&none)[0].starts_with("There is nothing to compare"), "{none:?}");
}

/// Width, height and pixels of a PNG file.
fn decoded(file: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    (frame.width, frame.height, pixels)
}

#[test]
fn the_same_plots_come_as_svg_and_png() {
    let dir = tempfile::tempdir().unwrap();
    written(&dir.path().join("run"), 2_000, [20_000, 5_000, 10_000_000], true);
    let document = page_of(&dir.path().join("run"));
    let mut heights = 0;
    for plot in document.plots() {
        let alone = std::slice::from_ref(plot);
        let svg = image::svg(alone).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains(&plot.x.label) && svg.trim_end().ends_with("</svg>"),
            "{}",
            plot.id
        );
        let words: Vec<&str> = plot.title.split(' ').collect();
        assert!(svg.contains(words[0]), "{}", plot.title);
        let (width, height, pixels) = decoded(&image::png(alone).unwrap());
        assert!(pixels.chunks(3).any(|p| p != [255; 3]), "{} is blank", plot.id);
        heights += height;
        assert_eq!(width, 1_000, "{}", plot.id);
    }
    let all: Vec<_> = document.plots().cloned().collect();
    let (_, height, _) = decoded(&image::png(&all).unwrap());
    assert_eq!(height, heights, "one above the other");
    let svg = image::svg(&all).unwrap();
    assert!(svg.contains(&format!("height=\"{heights}\"")) && svg.matches("<svg").count() == 1);
}

#[test]
fn a_link_to_a_table_holds_where_figures_in_its_title_change() {
    use paper::document::{Section, Table};
    for n in 4..6 {
        let table = |title: &str, basis: String| Block::OnPage(Table::new(title, ["what"]).with_basis(basis));
        let mut section = Section::new("tables");
        section.blocks.push(table("plan: effects on goodput", format!("n = {n} complete blocks, 0 incomplete")));
        section.blocks.push(table("loss (share) over time", format!("n = {n} (of 9)")));
        let document = Document { sections: vec![section], ..Document::default() };
        let page = html::page(&[document], "test").unwrap();
        for name in ["plan-effects-on-goodput", "loss-share-over-time"] {
            assert!(page.contains(&format!("id=\"{name}\"")), "{name}\n{page}");
        }
        assert!(page.contains(&format!("plan: effects on goodput (n = {n} complete blocks, 0 incomplete)")), "{page}");
    }
}
