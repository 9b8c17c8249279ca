//! TLS and transactions on the page of a capture: the headline, the tables, the waterfall, names of
//! hosts; the same from a run.

use paper::{Canvas, terminal};
use record::Nanos;
use record::conversation::{ConversationRow, FindingRow};
use record::dns::{DnsFinding, DnsFindingKind};
use record::table::Record as _;
use record::tls::{Handshake, Outcome, TlsFinding, TlsFindingKind};
use record::transaction::Transaction;
use report::page::capture::document;
use store::State;
use store::capture::{Dns, Network, Provenance, Quic, Run, Tls, Udp};

const CANVAS: Canvas = Canvas { width: 120, colour: false, unicode: true };
const MS: u64 = 1_000_000;

fn transaction() -> Transaction {
    Transaction {
        number: 1,
        name: "www.example.com".into(),
        server: "198.51.100.7:443".parse().unwrap(),
        connection: 1,
        lookup: Some(1),
        tries: 2,
        took_ns: Nanos(5_400 * MS),
        name_ns: Nanos(5_012 * MS),
        connect_ns: Nanos(20 * MS),
        tls_ns: Nanos(168 * MS),
        wait_ns: Nanos(200 * MS),
        ..Transaction::blank()
    }
}

fn handshake() -> Handshake {
    Handshake {
        connection: 1,
        server: "198.51.100.7:443".parse().unwrap(),
        name: Some("www.example.com".into()),
        direct: true,
        version: Some("TLS 1.3".into()),
        outcome: Outcome::Done,
        took_ns: Some(Nanos(168 * MS)),
        server_wait_ns: Some(Nanos(148 * MS)),
        ..Handshake::blank()
    }
}

/// The text of a capture in which a finding on TCP cost so much.
fn text(cost: u64, change: impl FnOnce(&mut Run)) -> String {
    let connection = ConversationRow {
        number: 1,
        client: "192.0.2.10:40000".parse().unwrap(),
        server: "198.51.100.7:443".parse().unwrap(),
        ..ConversationRow::blank()
    };
    let other = ConversationRow { number: 2, ..connection.clone() };
    let lost = FindingRow { number: 1, kind: "loss".into(), cost_ns: Nanos(cost * MS), ..FindingRow::default() };
    let mut run = Run {
        provenance: Provenance::default(),
        conversations: vec![connection, other],
        findings: vec![lost],
        dns: Dns::default(),
        tls: Tls::default(),
        quic: Quic::default(),
        udp: Udp::default(),
        network: Network::default(),
        transactions: Vec::new(),
    };
    change(&mut run);
    terminal::text(&CANVAS, &[document("run", &run, State::Finished)])
}

/// The lines between the title and the first section, as one.
fn headline(text: &str) -> String {
    text.split_once("\n# ").unwrap().0.replace('\n', " ")
}

fn retries(cost: u64) -> DnsFinding {
    DnsFinding {
        kind: DnsFindingKind::Retries,
        shown_by: 1,
        cost_ns: Nanos(cost * MS),
        text: "`www.example.com` was slow to resolve".into(),
        next: "ask why".into(),
        ..DnsFinding::blank()
    }
}

#[test]
fn what_took_long_is_said_of_the_transaction_with_what_to_do() {
    let said = text(1_000, |run| {
        run.transactions = vec![transaction()];
        run.dns.findings = vec![retries(5_000)];
    });
    let head = headline(&said);
    let wanted =
        "`www.example.com` took 5.40 s: 5.01 s waiting for a DNS answer that came on the second try. Next: ask why.";
    assert!(head.contains(wanted), "{head}");
    assert!(!head.contains("slow to resolve"), "it is not said twice: {head}");
    assert!(head.find(wanted).unwrap() < head.find("lost most").unwrap(), "{head}");
    // What TCP cost more for comes first.
    let head = headline(&text(9_000, |run| run.transactions = vec![transaction()]));
    assert!(head.find("lost most").unwrap() < head.find("5.40 s").unwrap(), "{head}");
    // Nothing of it is half of the whole.
    let even = Transaction { name_ns: Nanos(2_000 * MS), tls_ns: Nanos(2_000 * MS), ..transaction() };
    let head = headline(&text(1_000, |run| run.transactions = vec![even]));
    assert!(!head.contains("5.40 s"), "{head}");
}

#[test]
fn a_slow_handshake_is_said_with_its_server() {
    let slow = TlsFinding {
        kind: TlsFindingKind::Server,
        shown_by: 1,
        cost_ns: Nanos(148 * MS),
        count: 1,
        text: "the TLS handshake with `www.example.com` took 168 ms".into(),
        next: "look at the server".into(),
        packets: "4 6".into(),
        ..TlsFinding::blank()
    };
    let said = text(1, |run| {
        run.tls = Tls { handshakes: vec![handshake()], findings: vec![slow] };
    });
    let head = headline(&said);
    assert!(head.contains("The TLS handshake with `www.example.com` took 168 ms. Next: look at the server."), "{head}");
    assert!(said.contains("# TLS") && said.contains("a server that takes long for its TLS handshake"), "{said}");
    assert!(said.contains("Packets: 4, 6.") && said.contains("TLS 1.3  168 ms  148 ms"), "{said}");
}

#[test]
fn hosts_have_the_names_of_tls_hellos_and_the_page_says_so() {
    let said = text(1, |run| run.tls.handshakes = vec![handshake()]);
    assert!(said.contains("www.example.com (198.51.100.7):443"), "{said}");
    assert!(said.contains("of TLS hellos (SNI) in the capture"), "{said}");
    let proxied = text(1, |run| run.tls.handshakes = vec![Handshake { direct: false, ..handshake() }]);
    assert!(!proxied.contains("www.example.com (198.51.100.7)"), "{proxied}");
}

#[test]
fn a_transaction_is_a_row_of_its_parts() {
    let withheld = Some("there is no answer in the capture".to_owned());
    let said =
        text(1, |run| run.transactions = vec![transaction(), Transaction { number: 2, withheld, ..transaction() }]);
    assert!(said.contains("# Transactions") && said.contains("1. www.example.com│ ddd"), "{said}");
    assert!(said.contains("Joined to the name: named in its TLS hello."), "{said}");
    assert!(said.contains("To the last part that is known: there is no answer in the capture."), "{said}");
}
