//! The bytes and the retransmitted segments of series are what TCP itself counts, whatever share of
//! the sends is looked at.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use record::Sampling;
use record::histogram::Series;
use tier::Need;
use trace::histograms::Dimensions;
use trace::{Backend, Config, Histograms, Summary};

use crate::traffic::{self, Trace, accept_one, in_namespace, on};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

fn sampled(every: u32, dimensions: Dimensions, backend: Backend, port: u16) -> Config {
    let histograms = Some(Histograms { dimensions, ..Histograms::default() });
    let sampling = Sampling::Windows(format!("1/{every}").parse().unwrap());
    on(Config { histograms, sampling, ..traffic::port(port) }, backend)
}

/// All series once everything has ended, and what came of the trace.
fn ended(mut trace: Trace) -> (Vec<Series>, Summary) {
    trace.tracer.suspend(&mut |_| ()).unwrap();
    let taken = trace.tracer.snapshot(timestamping::now()).unwrap().unwrap();
    (taken.series, trace.finish().1)
}

/// Writes `calls` times so much that each call waits for a reader who takes 64 KiB in 5 ms: some 60
/// ms, several stretches of a sample.
fn blocked(listener: &TcpListener, calls: usize) -> u64 {
    const CALL: usize = 800 << 10;
    let (mut client, mut server) = accept_one(listener);
    traffic::set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 64 << 10);
    traffic::set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 64 << 10);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while server.read_exact(&mut buffer).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    (0..calls).for_each(|_| client.write_all(&vec![0; CALL]).unwrap());
    drop(client);
    reader.join().unwrap();
    (calls * CALL) as u64
}

#[test]
fn bytes_are_all_that_was_written_where_calls_are_longer_than_a_stretch() {
    tier::needs!(Need::Root, BTF);
    for backend in [Backend::Timestamping, Backend::Tracepoints] {
        for every in [2, 1_000_000] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let trace = Trace::start(&sampled(every, Dimensions::default(), backend, port));
            let written = blocked(&listener, 20);
            let (series, summary) = ended(trace);
            let coverage = summary.coverage;
            assert_eq!(series.len(), 1, "{backend}: {series:?}");
            assert_eq!(series[0].bytes, written, "{backend}, 1/{every}: {coverage:?}");
            assert_eq!(coverage.bytes_written, written);
            // Else it was no sample.
            assert!(coverage.bytes_armed < written * 9 / 10, "{backend}, 1/{every}: {coverage:?}");
        }
    }
}

#[test]
fn bytes_of_a_connection_that_is_never_looked_at_come_while_it_goes_on() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let by_program = Dimensions { program: true, ..Dimensions::default() };
    let mut trace = Trace::start(&sampled(1_000_000, by_program, Backend::Timestamping, port));
    let (mut client, mut server) = accept_one(&listener);
    let mut round = |pause: u64| {
        std::thread::sleep(Duration::from_millis(pause));
        client.write_all(b"ping").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        server.write_all(b"answered").unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
    };
    (0..50).for_each(|_| round(15));
    let taken = trace.tracer.snapshot(timestamping::now()).unwrap().unwrap();
    let bytes: u64 = taken.series.iter().map(|series| series.bytes).sum();
    // What was written since each end's last stretch began is still to come.
    assert!((45 * 12..=50 * 12).contains(&bytes), "{taken:?}");
    round(0);
    drop((client, server));
    let (series, summary) = ended(trace);
    assert_eq!((summary.coverage.bytes_armed, series.len()), (0, 1), "{series:?}");
    assert_eq!((series[0].bytes, series[0].sends), (51 * 12, 0));
    // The process's name, not the thread's.
    assert!(series[0].key.program.as_ref().unwrap().starts_with("kernel-"), "{series:?}");
}

#[test]
fn all_retransmitted_segments_are_in_a_series() {
    tier::needs!(Need::Root, BTF);
    for backend in [Backend::Timestamping, Backend::Tracepoints] {
        for every in [1, 4, 1_000_000] {
            let (series, [counted, failed, fast, slow]) =
                in_namespace(Some("rate 40mbit burst 2kb limit 20kb"), move || {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let dimensions = Dimensions { peer: None, ..Dimensions::default() };
                    let config = sampled(every, dimensions, backend, listener.local_addr().unwrap().port());
                    let trace = Trace::start(&config);
                    let (mut client, server) = accept_one(&listener);
                    let reader = traffic::drain(server);
                    // Whether the queue overflows is chance: until it did.
                    for _ in 0..20 {
                        (0..400).for_each(|_| client.write_all(&[0; 8 << 10]).unwrap());
                        if retransmitted() > 0 {
                            break;
                        }
                    }
                    drop(client);
                    reader.join().unwrap();
                    let series = ended(trace).0;
                    let of_kernel = ["TCPRetransFail", "TCPFastRetrans", "TCPSlowStartRetrans"];
                    let [failed, fast, slow] = of_kernel.map(|name| traffic::counter("netstat", "TcpExt", name));
                    (series, [retransmitted(), failed, fast, slow])
                });
            assert!(counted > 0, "{backend}: no packet was dropped");
            assert_eq!(series.len(), 1, "{series:?}");
            assert_eq!(series[0].retransmitted_segments, counted, "{backend}, 1/{every}: {series:?}");
            // Why each was. Some kernels do not run a tracing program for every retransmission.
            let [_, recovery, loss] = series[0].retransmitted_for;
            let known: u64 = series[0].retransmitted_for.iter().sum();
            if backend == Backend::Tracepoints {
                assert!(known <= counted && known * 10 >= (counted - failed) * 9, "1/{every}: {failed}, {series:?}");
                continue;
            }
            // The kernel's counts leave out what the queue of this host dropped at once.
            assert_eq!(known, counted, "1/{every}: {series:?}");
            assert!((fast..=fast + failed).contains(&recovery), "1/{every}: {fast}, {failed}, {series:?}");
            assert!(loss >= slow.saturating_sub(failed), "1/{every}: {slow}, {series:?}");
        }
    }
}

/// Segments, by the count of this thread's network namespace.
fn retransmitted() -> u64 {
    traffic::counter("snmp", "Tcp", "RetransSegs")
}
