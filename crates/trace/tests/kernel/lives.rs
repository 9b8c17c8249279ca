//! What series have of a connection's life as TCP keeps it, while it goes on: round trips, what the
//! peer's window held back, and what listeners dropped.

use std::io::Read as _;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use record::histogram::Series;
use record::{Event, Nanos};
use tier::Need;
use trace::histograms::{Dimensions, Ports};
use trace::{Config, Histograms};

use crate::traffic::{self, BACKENDS, Trace, accept_one, counter, in_namespace, on};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// A trace of a port that counts connections, too.
fn counting(port: u16) -> Config {
    let dimensions = Dimensions { ports: Ports::Listening, ..Dimensions::default() };
    let histograms = Histograms { dimensions, round_trips: true, ..Histograms::default() };
    Config { histograms: Some(histograms), connects: true, ..traffic::port(port) }
}

/// All series, after a pass through the sockets.
fn now(trace: &mut Trace) -> Vec<Series> {
    trace.poll();
    trace.tracer.coverage();
    trace.tracer.snapshot(timestamping::now()).unwrap().unwrap().series
}

#[test]
fn round_trips_are_those_of_the_path_whatever_the_rate_of_its_acks() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    for backend in BACKENDS {
        // Packets wait some 16 ms in the queue, and both ends share it.
        in_namespace(Some("rate 8mbit burst 2kb limit 16kb"), move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut trace = Trace::start(&on(counting(listener.local_addr().unwrap().port()), backend));
            let (mut client, server) = accept_one(&listener);
            traffic::set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 256 << 10);
            let reader = traffic::drain(server);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(2) {
                client.write_all(&[0; 16 << 10]).unwrap();
            }
            let all = now(&mut trace);
            let took = begun.elapsed();
            let sender = all.iter().find(|series| series.bytes > 0).unwrap();
            let (n, mean) = (sender.round_trips.count(), sender.round_trips.sum.0 / sender.round_trips.count().max(1));
            // At most one in an eighth of a second.
            assert!((3..=took.as_millis() as u64 / 134 + 2).contains(&n), "{backend}: {n} in {took:?}");
            assert!((4_000_000..200_000_000).contains(&mean), "{backend}: {mean} ns, {:?}", sender.round_trips);
            drop(client);
            reader.join().unwrap();
        });
    }
}

#[test]
fn a_reader_that_stalls_shows_while_it_does() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut trace = Trace::start(&on(counting(listener.local_addr().unwrap().port()), backend));
        let (mut client, server) = accept_one(&listener);
        traffic::set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 64 << 10);
        let begun = Instant::now();
        let writer = std::thread::spawn(move || client.write_all(&vec![0; 8 << 20]).unwrap());
        std::thread::sleep(Duration::from_millis(800));
        let limited = |all: &[Series]| all.iter().map(|series| series.window_limited).sum::<Nanos>();
        let (stalled, so_far) = (limited(&now(&mut trace)), Nanos::from(begun.elapsed()));
        assert!(stalled >= Nanos::from_millis(500) && stalled <= so_far, "{backend}: {stalled} of {so_far}");
        let reader = traffic::drain(server);
        writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), 8 << 20);
        let all = now(&mut trace);
        assert!(limited(&all) >= stalled && limited(&all) <= Nanos::from(begun.elapsed()), "{backend}: {all:?}");
    }
}

/// Bytes of a write, and the path that they take.
const WRITES: [(usize, Option<&str>); 4] =
    [(1_000, None), (16 << 10, None), (BYTES, None), (16 << 10, Some("rate 200mbit burst 16kb limit 64kb"))];
/// Bytes that a reader leaves for later.
const BYTES: usize = 1 << 20;

#[test]
fn each_zero_window_is_counted_once() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    for backend in BACKENDS {
        for (length, path) in WRITES {
            in_namespace(path, move || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let config = counting(listener.local_addr().unwrap().port());
                let histograms = config.histograms.map(|of| Histograms { records: true, ..of });
                let mut trace = Trace::start(&on(Config { histograms, ..config }, backend));
                let (client, mut server) = accept_one(&listener);
                traffic::set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 64 << 10);
                // The receiving kernel's own count of the times that it closed a window.
                let closed = || counter("netstat", "TcpExt", "TCPToZeroWindowAdv");
                let before = closed();
                let write = || {
                    let mut client = client.try_clone().unwrap();
                    let bytes = vec![0; length];
                    std::thread::spawn(move || (0..BYTES / length).for_each(|_| client.write_all(&bytes).unwrap()))
                };
                let mut read = |bytes: usize| server.read_exact(&mut vec![0; bytes]).unwrap();
                let all = BYTES / length * length;
                // For less than a probe of the window takes, and for several.
                for stall in [5, 500, 5] {
                    let (writer, before) = (write(), closed());
                    tier::until("a closed window", || closed() > before);
                    std::thread::sleep(Duration::from_millis(stall));
                    read(all);
                    writer.join().unwrap();
                }
                // By a reader that is slow all the time.
                let writer = write();
                let (mut left, slice) = (all, 32 << 10);
                while left > 0 {
                    std::thread::sleep(Duration::from_millis(20));
                    read(left.min(slice));
                    left -= left.min(slice);
                }
                writer.join().unwrap();
                let truth = closed() - before;
                let seen = now(&mut trace).iter().map(|series| series.zero_windows).sum::<u64>();
                assert_eq!(seen, truth, "{backend}, {length} B, {path:?}");
                drop((client, server));
                let (events, _) = trace.finish();
                let totals = events.iter().filter_map(|event| match event {
                    Event::Closed { totals, .. } => totals.zero_windows,
                    _ => None,
                });
                assert_eq!(totals.map(u64::from).sum::<u64>(), truth, "{backend}, {length} B, {path:?}");
            });
        }
    }
}

#[test]
fn what_listeners_drop_is_in_the_series_of_their_port() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // SAFETY: listening again only sets the length of the queue.
            assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
            let at = listener.local_addr().unwrap();
            let mut trace = Trace::start(&on(counting(at.port()), backend));
            let before = counter("netstat", "TcpExt", "ListenDrops");
            // The queue takes one connection more than it is asked for.
            let first = TcpStream::connect(at).unwrap();
            let late = std::thread::spawn(move || TcpStream::connect(at).unwrap());
            std::thread::sleep(Duration::from_millis(300));
            // While the queue is still full.
            let dropped = counter("netstat", "TcpExt", "ListenDrops") - before;
            let all = now(&mut trace);
            assert!(dropped > 0, "the queue was never full");
            let of: Vec<_> = all.iter().filter(|series| series.listen_drops > 0).collect();
            assert_eq!(of.len(), 1, "{backend}: {all:?}");
            assert_eq!((of[0].key.local_port, of[0].key.peer), (Some(at.port()), None), "{backend}");
            assert!(of[0].listen_drops >= dropped, "{backend}: {dropped}, {:?}", of[0]);
            let mut accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
            drop((first, late.join().unwrap()));
            for one in &mut accepted {
                assert_eq!(one.read(&mut [0]).unwrap(), 0);
            }
            let all = now(&mut trace);
            let dropped = counter("netstat", "TcpExt", "ListenDrops") - before;
            assert_eq!(all.iter().map(|series| series.listen_drops).sum::<u64>(), dropped, "{backend}: {all:?}");
        });
    }
}
