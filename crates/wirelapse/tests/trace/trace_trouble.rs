//! Connections that are stuck, fail, or take long to come about: what the report begins with.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Child;
use std::time::Duration;

use lab::Side;
use tier::{Need, text};

use crate::scene;
use crate::scene::command::{is_tracing, tracing};
use crate::scene::path::{change, delay, join, listen};
use crate::scene::{BTF, TUN};

const BACKENDS: [&str; 2] = ["timestamping", "tracepoints"];

fn begun(args: &[&str]) -> Child {
    let child = tracing(args).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(child.id())), "the tracer does not begin");
    child
}

/// Its first sentence; its lines are joined.
fn headline(report: &str) -> String {
    let paragraph = report.split("\n\n").nth(1).unwrap_or_else(|| panic!("{report}"));
    let sentence = paragraph.lines().take_while(|line| !line.starts_with("Next:"));
    sentence.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_path_that_dies_is_printed_while_it_hangs_and_is_the_headline() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = scene::turn();
    for backend in BACKENDS {
        let lab = scene::path::lab(5);
        let listener = listen(&lab, false);
        let port = listener.local_addr().unwrap().port().to_string();
        let (mut client, mut server) = join(&lab, &listener);
        let args = ["--port", &port, "--backend", backend, "--for", "5s", "--min-latency", "700ms"];
        let mut child = begun(&args);
        for _ in 0..20 {
            client.write_all(b"question").unwrap();
            server.read_exact(&mut [0; 8]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
        }
        // The server's kernel has its ACK for the last answer.
        std::thread::sleep(Duration::from_millis(300));
        change(&lab, &lab::Direction { loss: lab::Loss::Independent(1.0), ..delay(5) });
        client.write_all(b"question").unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "{backend}: the trace goes on while that hangs");
        assert!(line.contains("≥") && line.contains("not acknowledged, no ACK for"), "{backend}: {line}");
        let mut report = String::new();
        out.read_to_string(&mut report).unwrap();
        let (_, report) = report.split_once("Trace\n").unwrap();
        let said = headline(report);
        assert!(said.starts_with("1 of 2 connections has been stuck for "), "{backend}: {said}");
        assert!(said.ends_with("retransmissions without an ACK."), "{backend}: {said}");
        assert!(report.contains("the longest over"), "{backend}: {report}");
        assert!(report.contains("1 send has no ACK: what it has taken so far"), "{backend}: {report}");
        assert!(child.wait().unwrap().success());
    }
}

/// The next line of this kind, while the program goes on.
fn next(out: &mut impl BufRead, kind: &str, child: &mut Child) -> serde_json::Value {
    for line in out.lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["kind"] == kind {
            assert!(child.try_wait().unwrap().is_none(), "it has ended: {line}");
            return line;
        }
    }
    panic!("no {kind}");
}

#[test]
fn what_hangs_is_told_to_programs_and_by_top_while_it_does() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = scene::turn();
    let lab = scene::path::lab(5);
    let listener = listen(&lab, false);
    let port = listener.local_addr().unwrap().port().to_string();
    let (mut client, mut server) = join(&lab, &listener);
    let mut trace = begun(&["--port", &port, "--for", "6s", "--json", "--min-latency", "700ms"]);
    let mut top = tier::wirelapse!(["top", "--json", "--port", &port, "--for", "10s"]);
    let mut top = top.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(top.stdout.take().unwrap());
    for _ in 0..40 {
        client.write_all(b"question").unwrap();
        server.read_exact(&mut [0; 8]).unwrap();
        server.write_all(b"answer").unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
        std::thread::sleep(Duration::from_millis(25));
    }
    // Nothing hangs yet.
    assert_eq!(next(&mut rows, "row", &mut top)["unacknowledged"], 0);
    // The server's kernel has its ACK for the last answer.
    std::thread::sleep(Duration::from_millis(300));
    change(&lab, &lab::Direction { loss: lab::Loss::Independent(1.0), ..delay(5) });
    client.write_all(b"a question").unwrap();
    let mut lines = BufReader::new(trace.stdout.take().unwrap());
    let of_trace = next(&mut lines, "waiting", &mut trace);
    let of_top = next(&mut rows, "waiting", &mut top);
    for (line, least) in [(&of_trace, 700_000_000), (&of_top, 1_000_000_000)] {
        assert_eq!((&line["bytes"], &line["ack_at_ns"]), (&10.into(), &serde_json::Value::Null), "{line}");
        assert_eq!(line["remote_port"].to_string(), port, "{line}");
        assert!(line["unacknowledged_ns"].as_u64() >= Some(least) && line["idle_ns"].as_u64() >= Some(least), "{line}");
    }
    // As a send it comes at the end, once.
    let rest: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let of = |kind: &str| rest.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    assert!(of("waiting").is_empty(), "{rest:?}");
    let sends = of("send");
    assert!(matches!(&sends[..], [send] if send["first_seq"] == of_trace["first_seq"]), "{sends:?}");
    assert!(trace.wait().unwrap().success());
    // SAFETY: kill takes two numbers; the process has not been waited for, so its number is its
    // own.
    unsafe { libc::kill(top.id() as i32, libc::SIGINT) };
    drop(rows);
    top.wait().unwrap();
    drop((client, server));
}

#[test]
fn ten_refusals_of_ten_are_the_headline() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let _turn = scene::turn();
    // Nothing listens on a port that is bound.
    let bound = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = bound.local_addr().unwrap().port();
    drop(bound);
    let script = format!("for i in {{1..10}}; do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; done; true");
    for backend in BACKENDS {
        let out = tracing(&["--backend", backend, "--", "bash", "-c", &script]).output().unwrap();
        let said = headline(&text(&out.stdout));
        assert_eq!(said, format!("10 of 10 attempts to connect to 127.0.0.1:{port} failed: 10 refused."), "{backend}");
    }
}

#[test]
fn a_program_that_accepts_late_is_the_headline() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = scene::turn();
    for backend in BACKENDS {
        let lab = scene::path::lab(2);
        let listener = listen(&lab, false);
        let to = listener.local_addr().unwrap();
        let child = begun(&["--port", &to.port().to_string(), "--backend", backend, "--for", "3s"]);
        let clients: Vec<_> =
            (0..4).map(|_| lab.host(Side::A).run(|| std::net::TcpStream::connect(to).unwrap()).unwrap()).collect();
        for mut client in clients {
            std::thread::sleep(Duration::from_millis(250));
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"question").unwrap();
            server.read_exact(&mut [0; 8]).unwrap();
        }
        let out = child.wait_with_output().unwrap();
        let said = headline(&text(&out.stdout));
        assert!(
            said.starts_with("4 connections waited up to ") && said.contains("in the accept queue of"),
            "{backend}: {said}"
        );
    }
}
