//! QUIC on the page of a capture: the headline, the tables, names of hosts; the same from a run.

use paper::{Canvas, html, terminal};
use record::Nanos;
use record::quic::{Outcome, QuicConnection, QuicFinding, QuicFindingKind, Spin};
use record::table::Record as _;
use record::transaction::Transaction;
use report::page::capture::document;
use store::State;
use store::capture::{Dns, Network, Provenance, Quic, Run, Tls, Udp};

const CANVAS: Canvas = Canvas { width: 120, colour: false, unicode: true };
const MS: u64 = 1_000_000;

fn connection() -> QuicConnection {
    QuicConnection {
        number: 1,
        client: "192.0.2.10:40000".parse().unwrap(),
        server: "198.51.100.7:443".parse().unwrap(),
        name: Some("www.example.com".into()),
        version: "QUIC v1".into(),
        outcome: Outcome::Done,
        took_ns: Some(Nanos(168 * MS)),
        server_wait_ns: Some(Nanos(97 * MS)),
        client_bytes: 3_400,
        server_bytes: 27_000,
        duration_ns: Nanos(450 * MS),
        spin: Spin::Spins,
        spin_median_ns: Some(Nanos(44 * MS)),
        ..QuicConnection::blank()
    }
}

fn unanswered() -> QuicFinding {
    QuicFinding {
        kind: QuicFindingKind::Unanswered,
        shown_by: 1,
        cost_ns: Nanos(2_000 * MS),
        count: 1,
        text: "`www.example.com` did not answer QUIC".into(),
        next: "look at UDP port 443".into(),
        packets: "3 9".into(),
        ..QuicFinding::blank()
    }
}

fn run(change: impl FnOnce(&mut Run)) -> Run {
    let mut run = Run {
        provenance: Provenance::default(),
        conversations: Vec::new(),
        findings: Vec::new(),
        dns: Dns::default(),
        tls: Tls::default(),
        quic: Quic::default(),
        udp: Udp::default(),
        network: Network::default(),
        transactions: Vec::new(),
    };
    change(&mut run);
    run
}

fn text(run: &Run) -> String {
    terminal::text(&CANVAS, &[document("run", run, State::Finished)])
}

#[test]
fn a_capture_of_quic_alone_says_how_its_handshakes_went() {
    let calm = run(|run| run.quic.connections = vec![connection()]);
    let said = text(&calm);
    assert!(said.contains("1 QUIC connection: the longest handshake took 168 ms."), "{said}");
    assert!(said.contains("The capture holds no TCP connection."), "{said}");
    for cell in ["# QUIC", "QUIC v1", "168 ms", "97.0 ms", "44.0 ms", "losses, windows"] {
        assert!(said.contains(cell), "{cell}: {said}");
    }
    // What a run has written says the same.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    calm.write(&path).unwrap();
    assert_eq!(said, text(&Run::read(&path).unwrap().0));
    let page = html::page(&[document("run", &calm, State::Finished)], "").unwrap();
    assert!(page.contains("the longest handshake took 168 ms"), "{page}");
}

#[test]
fn the_worst_finding_is_the_headline() {
    let said = text(&run(|run| {
        let lost = QuicConnection { outcome: Outcome::Unanswered, took_ns: None, ..connection() };
        run.quic = Quic { connections: vec![lost], findings: vec![unanswered()] };
    }));
    let head = said.split_once("\n# ").unwrap().0.replace('\n', " ");
    assert!(head.contains("`www.example.com` did not answer QUIC. Next: look at UDP port 443."), "{head}");
    assert!(said.contains("QUIC that was not answered") && said.contains("Packets: 3, 9."), "{said}");
    assert!(said.contains("no answer"), "{said}");
}

#[test]
fn a_fall_back_to_tcp_is_one_transaction() {
    let fell_back = Transaction {
        number: 1,
        name: "www.example.com".into(),
        server: "198.51.100.7:443".parse().unwrap(),
        connection: 1,
        earlier_attempts: 1,
        quic_attempts: 1,
        took_ns: Nanos(2_100 * MS),
        attempts_ns: Nanos(2_000 * MS),
        tls_ns: Nanos(100 * MS),
        ..Transaction::blank()
    };
    let said = text(&run(|run| {
        let quic = Transaction { number: 2, quic: Some(1), connection: 0, ..fell_back.clone() };
        run.transactions = vec![fell_back, Transaction { took_ns: Nanos(900 * MS), ..quic }];
        run.quic.findings = vec![unanswered()];
    }));
    let head = said.split_once("\n# ").unwrap().0.replace('\n', " ");
    let words =
        "`www.example.com` took 2.10 s: 2.00 s to connect, after 1 vain attempt by QUIC. Next: look at UDP port 443.";
    assert!(head.contains(words), "{head}");
    assert!(said.contains("TLS or QUIC") && said.contains("QUIC 1"), "{said}");
}

#[test]
fn an_attempt_that_quic_itself_came_after_was_no_fall_back() {
    let came_after = Transaction {
        number: 1,
        name: "www.example.com".into(),
        server: "198.51.100.7:443".parse().unwrap(),
        quic: Some(2),
        earlier_attempts: 1,
        quic_attempts: 1,
        took_ns: Nanos(5_000 * MS),
        attempts_ns: Nanos(4_800 * MS),
        tls_ns: Nanos(200 * MS),
        ..Transaction::blank()
    };
    let said = text(&run(|run| {
        run.transactions = vec![came_after];
        run.quic.findings = vec![unanswered()];
    }));
    let head = said.split_once("\n# ").unwrap().0.replace('\n', " ");
    assert!(head.contains("`www.example.com` took 5.00 s: 4.80 s to connect, after 1 vain attempt"), "{head}");
    assert!(!head.contains("vain attempt. Next: look at UDP port 443"), "{head}");
}

#[test]
fn hosts_have_the_names_of_quic_hellos_and_the_page_says_so() {
    let said = text(&run(|run| {
        run.quic.connections = vec![QuicConnection { name: None, number: 2, ..connection() }, connection()];
    }));
    assert!(said.contains("www.example.com (198.51.100.7):443"), "{said}");
    assert!(said.contains("of QUIC hellos (SNI) in the capture"), "{said}");
}
