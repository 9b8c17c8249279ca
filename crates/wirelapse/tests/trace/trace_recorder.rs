//! `wirelapse trace --until` as its user meets it: nothing is written until something happens, and
//! then what led to it and what followed are one run.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Output};
use std::time::Duration;

use crate::scene::command::{is_tracing, signal, tracing};
use crate::scene::path::{change, delay, join, lab, listen};
use crate::scene::{BTF, TUN, turn};
use record::Nanos;
use store::Run;
use tier::{Need, text};
use wire::Capture;

/// A flight recorder on a port, with packets, whose run is `run` in this folder.
pub fn recording(port: u16, folder: &Path, more: &[&str]) -> Child {
    let port = port.to_string();
    let mut command = tracing(&["--port", &port, "--packets", "-o", "run"]);
    let trace = command.args(more).current_dir(folder).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    // The last link is attached a moment before it works.
    std::thread::sleep(Duration::from_millis(300));
    trace
}

pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// So many messages there and back, one after the other.
pub fn exchange(client: &mut TcpStream, server: &mut TcpStream, times: usize) {
    for _ in 0..times {
        client.write_all(&[7; 50]).unwrap();
        server.read_exact(&mut [0; 50]).unwrap();
        server.write_all(&[8; 20]).unwrap();
        client.read_exact(&mut [0; 20]).unwrap();
    }
}

/// What it said, after a success.
pub fn said(out: &Output) -> String {
    assert!(out.status.success(), "{out:?}");
    text(&out.stdout) + &text(&out.stderr)
}

/// The first sentence of a report, below its title.
pub fn first_sentence(report: &str) -> &str {
    report.split("\n\n").nth(1).unwrap()
}

pub fn packets(file: &Path) -> usize {
    let bytes = std::fs::read(file).unwrap();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut n = 0;
    while let Some(frame) = capture.next_frame().unwrap() {
        assert!(frame.context().is_some_and(|context| context.socket.is_some()));
        n += 1;
    }
    assert_eq!(capture.problems().total(), 0);
    n
}

#[test]
fn a_slow_send_is_found_with_what_led_to_it_and_what_followed() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    let listener = listen(&lab, false);
    let folder = tempfile::tempdir().unwrap();
    // A connection that is older than what is kept.
    let (mut client, mut server) = join(&lab, &listener);
    let port = listener.local_addr().unwrap().port();
    let trace = recording(port, folder.path(), &["--until", "reset", "--until", "send > 60ms", "--keep", "3s"]);
    exchange(&mut client, &mut server, 200);
    assert!(is_empty(folder.path()), "written before anything happened");
    std::thread::sleep(Duration::from_millis(2_900));
    exchange(&mut client, &mut server, 100);
    change(&lab, &delay(40));
    exchange(&mut client, &mut server, 1);
    change(&lab, &delay(1));
    exchange(&mut client, &mut server, 100);
    let out = trace.wait_with_output().unwrap();
    let said = said(&out);
    let first = first_sentence(&said);
    assert!(first.starts_with("`send > 60ms` at "), "{first}");

    let run = Run::open(&folder.path().join("run")).unwrap();
    let fired = run.provenance().fired.clone().unwrap();
    assert_eq!((fired.trigger.as_str(), fired.times), ("send > 60ms", 1), "{fired:?}");
    assert!(run.provenance().start_ns < fired.at_ns && run.end_ns().unwrap() >= fired.at_ns + 3_000_000_000);
    let (mut before, mut slow, mut after) = (0, 0, 0);
    run.sends(|send| match send.leg(record::Leg::Total).unwrap() {
        Some(took) if took > Nanos::from_millis(60) => slow += 1,
        _ if slow == 0 => before += 1,
        _ => after += 1,
    })
    .unwrap();
    // The first 200 exchanges were too old by then, all or most.
    // The answer to the slow one has its ACK after that.
    assert_eq!((slow, after), (1, 201));
    assert!((200..500).contains(&before), "{before} sends before");
    let mut connections = 0;
    run.connections(|of| connections += usize::from(of.remote.port() == port)).unwrap();
    assert_eq!(connections, 1);
    // Four packets for each exchange at the two ends, and then ACKs.
    assert!(packets(&folder.path().join("run/packets.pcapng")) > 4 * 201);
    let report = tier::wirelapse!(["report", "run"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(first_sentence(&text(&report.stdout)), first);
}

#[test]
fn a_storm_is_one_run_and_a_count() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = listener.local_addr().unwrap().port();
    let trace = recording(port, folder.path(), &["--until", "send > 1ns", "--keep", "1s"]);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange(&mut client, &mut server, 1_000);
    let out = trace.wait_with_output().unwrap();
    let said = said(&out);
    let first = first_sentence(&said).replace('\n', " ");
    assert!(first.contains("It happened 2,000 times until the end."), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let run = Run::open(&folder.path().join("run")).unwrap();
    assert_eq!(run.provenance().fired.as_ref().unwrap().times, 2_000);
    assert_eq!(run.rows().unwrap().sends, 2_000);
}

#[test]
fn somebody_asks_for_it_by_a_signal() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = listener.local_addr().unwrap().port();
    let trace = recording(port, folder.path(), &["--until", "connect failed", "--keep", "1s", "-w", "p.pcapng"]);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange(&mut client, &mut server, 10);
    std::thread::sleep(Duration::from_millis(400));
    assert!(is_empty(folder.path()), "written before anything happened");
    signal(&trace, libc::SIGUSR1);
    let said = said(&trace.wait_with_output().unwrap());
    assert!(first_sentence(&said).starts_with("`signal` at "), "{said}");
    assert_eq!(Run::open(&folder.path().join("run")).unwrap().rows().unwrap().sends, 20);
    assert!(packets(&folder.path().join("p.pcapng")) > 22);
}

#[test]
fn a_refused_connection_is_what_happened() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(port, folder.path(), &["--until", "connect failed", "--keep", "1s"]);
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    let said = said(&trace.wait_with_output().unwrap());
    let first = first_sentence(&said).replace('\n', " ");
    assert!(first.contains("an attempt to connect") && first.contains("was refused"), "{said}");
}

#[test]
fn where_nothing_happens_nothing_is_written() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = listener.local_addr().unwrap().port();
    let trace = recording(port, folder.path(), &["--until", "send > 10s", "--perfetto", "trace.perfetto"]);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange(&mut client, &mut server, 10);
    std::thread::sleep(Duration::from_millis(300));
    signal(&trace, libc::SIGINT);
    let said = said(&trace.wait_with_output().unwrap());
    assert!(said.contains("`send > 10s` did not happen in ") && said.contains("nothing was written"), "{said}");
    assert!(is_empty(folder.path()), "{said}");
}

/// The kernel's reason for the drop of a copied packet is enough.
#[test]
fn a_drop_of_a_copied_packet_is_what_happened() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let port = server.local_addr().unwrap().port();
    let trace = recording(port, folder.path(), &["--until", "drop", "--keep", "1s"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Far more than the receive buffer holds, and nobody reads.
    for _ in 0..2_000 {
        client.send_to(&[7; 1_000], server.local_addr().unwrap()).unwrap();
    }
    let said = said(&trace.wait_with_output().unwrap());
    let sentence = first_sentence(&said).replace('\n', " ");
    assert!(sentence.starts_with("`drop` at ") && sentence.contains("was dropped on this host: "), "{said}");
    assert!(sentence.contains("a packet of 1000 B from 127.0.0.1:"), "{said}");
}

#[test]
fn what_cannot_be_waited_for_is_wrong_use() {
    for (args, says) in [
        (&["--until", "sned > 1s", "-o", "x", "--all"][..], "there is no trigger \"sned\""),
        (&["--until", "send > 5", "-o", "x", "--all"], "after > comes a time"),
        (&["--until", "request > 5s", "-o", "x", "--all"], "--requests"),
        (&["--until", "retransmission timeout", "-o", "x", "--all"], "--packets"),
        (&["--until", "drop", "-o", "x", "--all"], "--every-packet"),
        (&["--until", "reset", "--all"], "--output"),
        (&["--keep", "3s", "--all"], "--until"),
        (&["--until", "reset", "-o", "x", "--all", "--min-latency", "1s"], "--min-latency"),
    ] {
        let out = tracing(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(says), "{args:?}: {}", text(&out.stderr));
    }
}
