//! DNS on the page of a capture: the headline, the tables, names of hosts; the same from a run.

use std::collections::BTreeMap;

use paper::{Canvas, html, terminal};
use record::Nanos;
use record::conversation::{ConversationRow, FindingRow};
use record::dns::{Answered, DnsFinding, DnsFindingKind, Lookup, Protocol, Server, names};
use record::table::Record as _;
use report::page::capture::{Dns, Overview, Subject, describe, document};
use store::State;
use store::capture::{Provenance, Run};

const CANVAS: Canvas = Canvas { width: 100, colour: false, unicode: true };

fn lookup() -> Lookup {
    Lookup {
        number: 1,
        client: "192.0.2.10".parse().unwrap(),
        name: "www.example.com".into(),
        kind: "A".into(),
        took_ns: Some(Nanos(5_012_000_000)),
        answered: Answered::Found,
        code: Some("NOERROR".into()),
        server: Some("192.0.2.53".parse().unwrap()),
        tries: 2,
        addresses: "198.51.100.7".into(),
        ..Lookup::blank()
    }
}

fn found() -> store::capture::Dns {
    let server = Server::new("192.0.2.53:53".parse().unwrap(), Protocol::Dns);
    store::capture::Dns {
        lookups: vec![lookup()],
        servers: vec![Server { questions: 2, answered: 1, unanswered: 1, ..server }],
        findings: vec![DnsFinding {
            kind: DnsFindingKind::Retries,
            shown_by: 1,
            count: 1,
            cost_ns: Nanos(5_000_000_000),
            text: "`www.example.com` took 5.01 s to resolve: 192.0.2.53 answered only the second try".into(),
            next: "ask why".into(),
            packets: "1 2 3".into(),
            ..DnsFinding::blank()
        }],
    }
}

fn connection(cost: Option<u64>) -> (Vec<ConversationRow>, Vec<FindingRow>) {
    let row = ConversationRow {
        number: 1,
        client: "192.0.2.10:40000".parse().unwrap(),
        server: "198.51.100.7:443".parse().unwrap(),
        ..ConversationRow::blank()
    };
    let finding = |cost| FindingRow { number: 1, kind: "loss".into(), cost_ns: Nanos(cost), ..FindingRow::default() };
    let other = ConversationRow { number: 2, ..row.clone() };
    (vec![row, other], cost.map(finding).into_iter().collect())
}

fn text(dns: store::capture::Dns, (conversations, findings): (Vec<ConversationRow>, Vec<FindingRow>)) -> String {
    let run = Run {
        provenance: Provenance::default(),
        conversations,
        findings,
        dns,
        tls: Default::default(),
        quic: Default::default(),
        udp: Default::default(),
        network: Default::default(),
        transactions: Vec::new(),
    };
    terminal::text(&CANVAS, &[document("run", &run, State::Finished)])
}

/// The lines between the title and the first section.
fn headline(text: &str) -> &str {
    text.split_once("\n# ").unwrap().0
}

#[test]
fn dns_is_the_headline_of_a_capture_without_tcp() {
    let text = text(found(), Default::default());
    let head = headline(&text);
    assert!(
        head.contains("`www.example.com` took 5.01 s to resolve: 192.0.2.53 answered only the second try."),
        "{head}"
    );
    assert!(head.contains("Next: ask why.") && head.contains("1 name lookup"), "{head}");
    assert!(!head.contains("no TCP connection"), "{head}");
}

#[test]
fn what_cost_most_comes_first() {
    for (cost, order) in
        [(Some(9_000_000_000), ["lost most", "took 5.01 s"]), (Some(1_000_000), ["took 5.01 s", "lost most"])]
    {
        let text = text(found(), connection(cost));
        let places = order.map(|words| headline(&text).find(words).unwrap_or_else(|| panic!("{words}: {text}")));
        assert!(places[0] < places[1], "{text}");
    }
    // What nobody notices is no sentence beside those on TCP.
    let mut little = found();
    little.findings[0].cost_ns = Nanos(3_000_000);
    let text = text(little, connection(Some(9_000_000_000)));
    assert!(!headline(&text).contains("5.01 s"), "{text}");
    assert!(text.contains("# DNS"), "{text}");
}

#[test]
fn a_capture_of_dns_in_which_all_is_well_says_how_long_it_took() {
    let quick = Lookup { took_ns: Some(Nanos(12_000_000)), tries: 1, ..lookup() };
    let dns = |lookups: Vec<Lookup>| store::capture::Dns { lookups, ..Default::default() };
    let head = text(dns(vec![quick.clone(), quick]), Default::default());
    assert!(headline(&head).contains("2 name lookups, answered within 12.0 ms."), "{head}");
    let open = Lookup {
        took_ns: None,
        answered: Answered::NotKnown,
        withheld: Some("the capture ends 1.00 s after the question".into()),
        ..lookup()
    };
    let head = text(dns(vec![open]), Default::default());
    let wanted = "1 name lookup: what became of it is not known, because the capture ends 1.00 s after the question.";
    assert!(headline(&head).replace('\n', " ").contains(wanted), "{head}");
}

#[test]
fn hosts_have_the_names_that_were_asked_for_beside_their_addresses() {
    let text = text(found(), connection(None));
    assert!(text.contains("192.0.2.10:40000 → www.example.com (198.51.100.7):443"), "{text}");
    assert!(text.contains("of DNS answers in the capture"), "{text}");
    let again = Lookup { name: "cdn.example".into(), ..lookup() };
    let all = names([lookup(), again.clone(), again].iter().map(Lookup::found));
    let wanted =
        BTreeMap::from([("198.51.100.7".parse().unwrap(), vec!["cdn.example".to_owned(), "www.example.com".into()])]);
    assert_eq!(all, wanted);
}

#[test]
fn the_page_of_a_run_says_what_analyze_does() {
    let dns = found();
    let live = Dns {
        lookups: 1,
        slowest: dns.lookups.clone(),
        servers: dns.servers.clone(),
        findings: dns.findings.clone(),
        names: names(dns.lookups.iter().map(Lookup::found)),
    };
    let (provenance, overview) = (Provenance::default(), Overview::new(1));
    let subject = Subject {
        name: Some("run"),
        provenance: &provenance,
        finished: true,
        shown: 50,
        overview: &overview,
        dns: &live,
        tls: &Default::default(),
        quic: &Default::default(),
        udp: &Default::default(),
        network: &Default::default(),
        transactions: &[],
        processes: &BTreeMap::new(),
    };
    let at_once = terminal::text(&CANVAS, &[describe(&subject)]);
    let run = Run {
        provenance: provenance.clone(),
        conversations: Vec::new(),
        findings: Vec::new(),
        dns,
        tls: Default::default(),
        quic: Default::default(),
        udp: Default::default(),
        network: Default::default(),
        transactions: Vec::new(),
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    run.write(&path).unwrap();
    let (read, state) = Run::read(&path).unwrap();
    let later = document("run", &read, state);
    assert_eq!(at_once, terminal::text(&CANVAS, std::slice::from_ref(&later)));
    let page = html::page(&[later], "").unwrap();
    for words in ["took 5.01 s to resolve", "Who was asked", "192.0.2.53", "DNS answered on a later try"] {
        assert!(page.contains(words), "{words}");
    }
    // What an earlier version wrote has no DNS, and is read.
    for table in ["lookups", "name_servers", "dns_findings"] {
        std::fs::remove_dir_all(path.join(format!("{table}.parquet"))).unwrap();
    }
    assert_eq!(Run::read(&path).unwrap().0.dns, Default::default());
}
