//! `analyze` and the report of the run that it keeps are the same text, and the page of a capture
//! says what the terminal says.

use std::path::Path;

use diagnose::{Follower, Keep, Options};
use paper::{Canvas, html, terminal};
use report::page::capture::{Overview, Subject, connection, describe, document, endpoint, overview};
use store::capture::{Provenance, Run};
use unicode_width::UnicodeWidthStr as _;
use wire::{Packet, PacketReader};

const CANVASES: [Canvas; 3] = [
    Canvas { width: 60, colour: false, unicode: false },
    Canvas { width: 80, colour: true, unicode: true },
    Canvas { width: 140, colour: false, unicode: true },
];

fn follower(file: &str, keep: Keep) -> (Follower, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/captures").join(file);
    let mut packets = PacketReader::from_reader(std::fs::File::open(path).unwrap()).unwrap();
    let mut follower = Follower::new(Options { keep, ..Options::default() });
    while let Some(packet) = packets.next_packet().unwrap() {
        if let Packet::Tcp(segment) = packet {
            follower.take(segment);
        }
    }
    (follower, packets.packets())
}

fn provenance(follower: &Follower, packets: u64) -> Provenance {
    let client = follower.report(1).unwrap().client.ip();
    Provenance {
        version: "0.0.0".into(),
        command_line: ["wirelapse", "analyze", "a.pcap"].map(str::to_owned).into(),
        source: "a.pcap".into(),
        packets,
        unread: vec!["packet 7: cut short (n = 3)".into()],
        segments: Some(follower.totals().segments),
        beyond_limit: Some(2),
        capture_copies: Some(follower.totals().capture_copies),
        names: [(client, "client.example".to_owned())].into(),
    }
}

#[test]
fn the_end_of_analyze_and_the_report_of_its_run_are_the_same_text() {
    for file in ["two_flows.a.pcap.zst", "nagle.a.pcap.zst", "duplicates.b.pcap.zst"] {
        let (follower, packets) = follower(file, Keep::Nothing);
        let provenance = provenance(&follower, packets);
        let mut all = Overview::new(overview::SHOWN);
        follower.reports().for_each(|r| overview::add(&mut all, &r));
        let first = describe(&Subject {
            name: Some("run"),
            provenance: &provenance,
            finished: true,
            shown: overview::SHOWN,
            overview: &all,
            dns: &Default::default(),
            tls: &Default::default(),
            quic: &Default::default(),
            udp: &Default::default(),
            network: &Default::default(),
            transactions: &[],
            processes: &std::collections::BTreeMap::new(),
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let conversations = follower.reports().map(|r| r.row()).collect();
        let findings = follower.reports().flat_map(|r| r.finding_rows().collect::<Vec<_>>()).collect();
        Run {
            provenance,
            conversations,
            findings,
            dns: Default::default(),
            tls: Default::default(),
            quic: Default::default(),
            udp: Default::default(),
            network: Default::default(),
            transactions: Vec::new(),
        }
        .write(&path)
        .unwrap();
        let (run, state) = Run::read(&path).unwrap();
        let later = document("run", &run, state);
        for canvas in CANVASES {
            let [a, b] = [&first, &later].map(|d| terminal::text(&canvas, std::slice::from_ref(d)));
            assert_eq!(a.lines().zip(b.lines()).find(|(a, b)| a != b), None, "{file}, width {}", canvas.width);
            assert_eq!(a, b);
            let wide = a.lines().find(|l| !canvas.colour && l.width() > canvas.width);
            assert_eq!(wide, None, "{file}, width {}", canvas.width);
            assert!(canvas.colour || a.contains("client.example."), "a host has its name: {a}");
        }
    }
}

#[test]
fn several_threads_gather_the_same() {
    let (follower, packets) = follower("two_flows.a.pcap.zst", Keep::Nothing);
    let provenance = provenance(&follower, packets);
    let text = |all: &Overview| {
        let subject = Subject {
            name: None,
            provenance: &provenance,
            finished: true,
            shown: 1,
            overview: all,
            dns: &Default::default(),
            tls: &Default::default(),
            quic: &Default::default(),
            udp: &Default::default(),
            network: &Default::default(),
            transactions: &[],
            processes: &std::collections::BTreeMap::new(),
        };
        terminal::text(&CANVASES[2], &[describe(&subject)])
    };
    let (mut one, mut joined) = (Overview::new(1), Overview::new(1));
    for report in follower.reports() {
        overview::add(&mut one, &report);
        let mut alone = Overview::new(1);
        overview::add(&mut alone, &report);
        joined.join(alone);
    }
    assert!(follower.len() > 1);
    assert_eq!(text(&one), text(&joined));
    assert!(text(&one).contains("1 more row: `analyze --rows 2`"), "{}", text(&one));
}

/// Words of a text, without what draws plots and rules.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 1).map(str::to_owned).collect()
}

#[test]
fn the_page_of_a_connection_says_what_the_terminal_says() {
    let (follower, _) = follower("nagle.a.pcap.zst", Keep::Connection(1, 10_000));
    let report = follower.report(1).unwrap();
    let document = connection::document(&report, &Default::default());
    assert_eq!(document.plots().count(), 2);
    let page = html::page(std::slice::from_ref(&document), "").unwrap();
    let body = &page[page.find("<body>").unwrap()..];
    let page: std::collections::BTreeSet<String> = words(body).into_iter().collect();
    let plots: Vec<&str> = document.plots().map(|p| p.title.as_str()).collect();
    let text = terminal::text(&CANVASES[2], std::slice::from_ref(&document));
    // The axes of a plot are drawn by the script.
    let (before, rest) = text.split_once(&format!("\n{}\n", plots[0])).unwrap();
    let (_, after) = rest.split_once("# TCP options").unwrap();
    let missing: Vec<String> = words(before).into_iter().chain(words(after)).filter(|w| !page.contains(w)).collect();
    assert_eq!(missing, Vec::<String>::new());
    for finding in &report.findings {
        assert!(
            body.contains(finding.kind.words()) || body.contains(&finding.kind.words().replace('\'', "&#39;")),
            "{}",
            finding.kind.words()
        );
    }
    assert!(endpoint(&Default::default(), report.client).contains(':'));
}
