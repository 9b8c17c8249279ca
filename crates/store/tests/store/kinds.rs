//! Runs of every kind: told apart, read back equal, and what is missing is said.

use crate::any;
use std::collections::BTreeMap;
use std::fs;

use record::Nanos;
use record::conversation::{Budget, Carried, ConversationRow, Ending, FindingRow, Limit, Verdict, Way};
use record::dns::{DnsFinding, Lookup, Protocol, Server};
use record::network::{Echo, IcmpError, Incomplete, Neighbour, NetworkFinding, Resolving, Says, Transport};
use record::quic::{QuicConnection, QuicFinding, Spin};
use record::table::Record as _;
use record::tls::{Handshake, TlsFinding};
use record::transaction::Transaction;
use record::trial::{Comparison, Factor, Ping, Point, Response, Trial};
use record::udp::{KnownBy, Numbering, Sent, Shape, UdpConversation, UdpFinding, UdpStream};
use store::{Error, RunKind, State, capture, kind, study};

fn rows(number: u64) -> study::Rows {
    let responses = BTreeMap::from([(Response::Goodput, 941.5e6), (Response::RoundTrip, 10_123_456.0)]);
    study::Rows {
        trial: Trial {
            trial: number,
            plan: "a </script> plan".into(),
            broken: (number == 0).then(|| "the path: 3 missed".into()),
            responses,
            ..Trial::default()
        },
        factors: vec![Factor { trial: number, factor: "delay".into(), level: "5ms".into() }],
        series: vec![
            Point { trial: number, at_ns: Nanos(7), goodput_bits_per_second: 1e9, warm_up: true, ..Default::default() },
            Point {
                trial: number,
                at_ns: Nanos(8),
                goodput_down_bits_per_second: Some(2e9),
                receive_used_bytes: Some(3),
                receive_buffer_bytes: Some(4),
                ..Default::default()
            },
        ],
        pings: vec![
            Ping { trial: number, probe: "icmp".into(), at_ns: Nanos(1), round_trip_ns: Some(Nanos(2)) },
            Ping { trial: number, probe: "udp".into(), at_ns: Nanos(1), round_trip_ns: None },
        ],
    }
}

fn tables(trials: impl Iterator<Item = u64>) -> study::Tables {
    let mut tables = study::Tables::default();
    for rows in trials.map(rows) {
        tables.trials.push(rows.trial);
        tables.factors.extend(rows.factors);
        tables.series.extend(rows.series);
        tables.pings.extend(rows.pings);
    }
    tables
}

#[test]
fn a_study_is_readable_as_far_as_it_is_finished_and_is_written_again_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path();
    let s = Nanos::from_secs;
    fs::write(run.join("run.json"), r#"{"schema": 1, "kind": "study"}"#).unwrap();
    assert!(matches!(study::Tables::read(run).unwrap_err(), Error::NoTable { .. }));
    let mut writer = study::Writer::open(run, s(100)).unwrap();
    assert_eq!(study::Tables::read(run).unwrap(), study::Tables::default());
    // Parts are closed after the trials that end at 110 and 121 s; then it is killed.
    for (number, at) in (0..).zip([103, 110, 115, 121, 125]) {
        writer.add(&rows(number), s(at)).unwrap();
    }
    drop(writer);
    assert_eq!(study::Tables::read(run).unwrap(), tables(0..4));
    assert_eq!(fs::read_dir(run.join("trials.parquet")).unwrap().count(), 2);
    // It goes on: the tables are made of the journal again, and nothing is there twice at any time.
    let mut writer = study::Writer::open(run, s(200)).unwrap();
    assert_eq!(study::Tables::read(run).unwrap(), tables(0..2));
    for number in 0..6 {
        writer.add(&rows(number), s(201)).unwrap();
    }
    assert_eq!(study::Tables::read(run).unwrap(), tables(0..2));
    writer.close().unwrap();
    assert_eq!(study::Tables::read(run).unwrap(), tables(0..6));
    let comparison = Comparison { ratio: -0.5, ratio_predicted: None, ..Comparison::default() };
    let comparisons = vec![Comparison { ratio_predicted: Some(0.01), ..comparison.clone() }, comparison];
    study::write_comparisons(run, &comparisons[..1]).unwrap();
    study::write_comparisons(run, &comparisons).unwrap();
    assert_eq!(study::Tables::read(run).unwrap(), study::Tables { comparisons, ..tables(0..6) });
    assert_eq!(kind(run).unwrap(), RunKind::Study);
    let error = store::Run::open(run).unwrap_err();
    assert!(matches!(error, Error::OtherKind { .. }), "{error}");
    assert!(error.to_string().contains("is a study, and a trace is needed"), "{error}");
}

#[test]
fn a_capture_reads_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let way = Carried { packets: 9, bytes: 1_000, retransmitted_packets: 1, rtt_p50_ns: Some(Nanos(20_000_000)) };
    let mut limits = Budget::default();
    Limit::ALL.into_iter().zip(1..).for_each(|(limit, time)| limits.add(limit, time));
    let lookup = Lookup { name: "www.example.com".into(), took_ns: Some(Nanos(5)), over_tcp: true, ..Lookup::blank() };
    let run = capture::Run {
        provenance: capture::Provenance {
            version: "0.0.0".into(),
            command_line: vec!["wirelapse".into()],
            source: "a.pcap".into(),
            packets: 18,
            unread: vec!["2 packets were cut short".into()],
            segments: Some(16),
            beyond_limit: Some(3),
            capture_copies: Some(2),
            names: [("0.0.0.1".parse().unwrap(), "host".to_owned())].into(),
        },
        conversations: vec![ConversationRow {
            number: 1,
            client: "[2001:db8::1]:40000".parse().unwrap(),
            server: "192.0.2.1:80".parse().unwrap(),
            start_ns: Nanos(1_700_000_000_000_000_000),
            duration_ns: Nanos(5),
            verdict: Verdict { limited: "<b>slow</b>".into(), finding: None, step: Some("wait".into()) },
            ending: Ending::HalfClosed,
            to_server: way,
            to_client: Carried { rtt_p50_ns: None, ..way },
            limits,
        }],
        findings: vec![FindingRow { number: 1, kind: "loss".into(), packets: "3 7".into(), ..Default::default() }],
        dns: capture::Dns {
            lookups: vec![lookup],
            servers: vec![Server {
                median_ns: Some(Nanos(3)),
                ..Server::new("192.0.2.53:53".parse().unwrap(), Protocol::Dns)
            }],
            findings: vec![DnsFinding { text: "slow".into(), ..DnsFinding::blank() }],
        },
        tls: capture::Tls {
            handshakes: vec![Handshake {
                name: Some("www.example.com".into()),
                cipher: Some(0x1301),
                ..Handshake::blank()
            }],
            findings: vec![TlsFinding { text: "slow".into(), ..TlsFinding::blank() }],
        },
        quic: capture::Quic {
            connections: vec![QuicConnection {
                name: Some("www.example.com".into()),
                early_accepted: Some(false),
                spin: Spin::Spins,
                spin_median_ns: Some(Nanos(40)),
                ..QuicConnection::blank()
            }],
            findings: vec![QuicFinding { text: "lost".into(), ..QuicFinding::blank() }],
        },
        udp: capture::Udp {
            conversations: vec![UdpConversation {
                protocol: Some("RTP".into()),
                known_by: Some(KnownBy::Payload),
                shape: Shape::BothWays,
                by_client: Sent { datagrams: 3, burst_bits_per_second: Some(8), ..Sent::default() },
                withheld: Some("one direction".into()),
                ..UdpConversation::blank()
            }],
            streams: vec![UdpStream {
                way: Way::ToClient,
                numbering: Numbering::Irtt,
                payload_type: Some(96),
                ..UdpStream::blank()
            }],
            findings: vec![UdpFinding { text: "lost".into(), ..UdpFinding::blank() }],
        },
        network: capture::Network {
            errors: vec![IcmpError {
                says: Says::TooBig,
                transport: Some(Transport::Tcp),
                sender: "[2001:db8::1]:40000".parse().unwrap(),
                mtu: Some(1_280),
                obeyed: Some(false),
                ..IcmpError::blank()
            }],
            echoes: vec![Echo { sent: 3, median_ns: Some(Nanos(5)), ..Echo::blank() }],
            neighbours: vec![Neighbour { protocol: Resolving::Discovery, answered: Some(true), ..Neighbour::blank() }],
            incomplete: vec![Incomplete { source_port: Some(9), missing: Some(8), ..Incomplete::blank() }],
            findings: vec![NetworkFinding { text: "lost".into(), ..NetworkFinding::blank() }],
        },
        transactions: vec![Transaction { lookup: Some(1), quic: Some(1), ..Transaction::blank() }],
    };
    run.write(&path).unwrap();
    assert_eq!(capture::Run::read(&path).unwrap(), (run.clone(), State::Finished));
    assert!(matches!(run.write(&path).unwrap_err(), Error::Exists(_)));
    fs::remove_dir_all(path.join("findings.parquet")).unwrap();
    let error = capture::Run::read(&path).unwrap_err();
    assert!(matches!(&error, Error::NoTable { table, .. } if table == "findings"), "{error}");
}

#[test]
fn unknown_kinds_are_malformed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), r#"{"schema": 1, "kind": "recipe"}"#).unwrap();
    assert!(matches!(kind(dir.path()).unwrap_err(), Error::Malformed { .. }));
    let path = dir.path().join("run");
    store::Writer::create(&path, any::provenance()).unwrap();
    assert_eq!(kind(&path).unwrap(), RunKind::Trace);
}
