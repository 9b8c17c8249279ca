//! How connections are set up and end, checked against what both programs know, and the kernel's
//! own counters.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant as WallInstant};

use record::{Connect, EndedBy, Ending, Event, Instant, Monotonic, Nanos, Opening, Outcome};
use tier::Need;
use trace::{Backend, Config};

use crate::traffic::{self, BACKENDS, Trace, counter, far_host, in_namespace, on, run};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

fn connects(events: &[Event]) -> Vec<Connect> {
    events.iter().filter_map(|e| if let Event::Connect(c) = e { Some((**c).clone()) } else { None }).collect()
}

fn one(connects: &[Connect], opening: Opening) -> Connect {
    let those: Vec<_> = connects.iter().filter(|c| c.opening == opening).collect();
    assert_eq!(those.len(), 1, "{connects:#?}");
    those[0].clone()
}

/// Waits until this many attempts are over, for at most ten seconds.
fn until(trace: &mut Trace, n: usize) {
    let end = WallInstant::now() + Duration::from_secs(10);
    while connects(&trace.events).len() < n && WallInstant::now() < end {
        trace.tracer.poll(Duration::from_millis(10), &mut |event| trace.events.push(event)).unwrap();
    }
}

fn now() -> Instant<Monotonic> {
    timestamping::now()
}

/// Nanoseconds from `from` to `to`; fails where they are not in this order.
fn after(from: Option<Instant<Monotonic>>, to: Option<Instant<Monotonic>>) -> u64 {
    to.unwrap().since(from.unwrap()).unwrap().0
}

fn tracing(port: u16, backend: Backend) -> Config {
    on(Config { receive: true, ..traffic::port(port) }, backend)
}

#[test]
fn a_handshake_its_wait_and_its_end_are_one_record_at_each_end() {
    tier::needs!(Need::Root, BTF);
    for (backend, address) in BACKENDS.into_iter().flat_map(|b| [(b, "127.0.0.1:0"), (b, "[::1]:0")]) {
        let listener = TcpListener::bind(address).unwrap();
        let at = listener.local_addr().unwrap();
        let mut trace = Trace::start(&tracing(at.port(), backend));
        let before = now();
        let mut client = TcpStream::connect(at).unwrap();
        let connected = now();
        std::thread::sleep(Duration::from_millis(20));
        let asked = now();
        let (mut server, from) = listener.accept().unwrap();
        let accepted = now();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let closed = now();
        drop(client);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        drop(server);
        until(&mut trace, 2);
        let (events, summary) = trace.finish();
        let all = connects(&events);
        let (ours, theirs) = (one(&all, Opening::Connected), one(&all, Opening::Accepted));
        assert_eq!((ours.local, ours.remote, theirs.local, theirs.remote), (from, at, at, from), "{backend}");
        for c in [&ours, &theirs] {
            assert_eq!((c.outcome, c.retries, c.owner.pid), (Outcome::Established, 0, std::process::id()), "{backend}");
            let (syn, established) = (c.stamps.syn.unwrap(), c.stamps.established.unwrap());
            assert!(before <= syn && syn < established && established <= connected, "{backend}: {c:?}");
            assert_eq!((c.ending, c.signal), (Some(Ending::Fin), None), "{backend}: {c:?}");
            assert!(after(Some(closed), c.stamps.ended) < 1_000_000_000 && c.stamps.ended <= c.stamps.closed);
        }
        // In the order of the packets: SYN there, SYN-ACK back, ACK there.
        let s = theirs.stamps;
        after(ours.stamps.syn, s.syn);
        after(s.syn, s.syn_ack);
        after(s.syn_ack, ours.stamps.established);
        after(ours.stamps.established, s.established);
        // Accepted within the call, and after 20 ms in the queue.
        assert!(Some(asked) <= s.accepted && s.accepted <= Some(accepted), "{backend}: {theirs:?}");
        assert!(theirs.accept_wait().unwrap() >= Nanos::from_millis(20), "{backend}");
        assert!(after(Some(accepted), ours.stamps.first_sent) <= after(Some(accepted), s.first_received), "{backend}");
        assert!(s.first_received.unwrap() <= closed && s.first_sent.is_none(), "{backend}: {theirs:?}");
        assert_eq!((ours.ended_by, ours.closer), (Some(EndedBy::Program), Some(std::process::id())), "{backend}");
        assert_eq!((theirs.ended_by, theirs.closer), (Some(EndedBy::Peer), None), "{backend}");
        assert_eq!(summary.lost.connect_ring_buffer + summary.lost.connect_requests_full, 0);
    }
}

#[test]
fn a_refused_attempt_says_by_whom() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut trace = Trace::start(&tracing(at.port(), backend));
        let error = TcpStream::connect(at).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        until(&mut trace, 1);
        let c = one(&connects(&trace.finish().0), Opening::Connected);
        assert_eq!((c.outcome, c.ending, c.ended_by), (Outcome::Refused, Some(Ending::Reset), Some(EndedBy::Peer)));
        assert!(c.stamps.established.is_none() && c.stamps.syn < c.stamps.ended, "{c:?}");
    }
}

#[test]
fn resets_say_who_sent_them() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut trace = Trace::start(&tracing(listener.local_addr().unwrap().port(), backend));
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        socket2::SockRef::from(&server).set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        until(&mut trace, 2);
        drop(client);
        let all = connects(&trace.finish().0);
        let (ours, theirs) = (one(&all, Opening::Connected), one(&all, Opening::Accepted));
        assert_eq!((ours.ending, ours.ended_by), (Some(Ending::Reset), Some(EndedBy::Peer)), "{backend}: {ours:?}");
        assert_eq!((theirs.ending, theirs.ended_by), (Some(Ending::Reset), Some(EndedBy::Program)), "{backend}");
        after(theirs.stamps.ended, ours.stamps.ended);
    }
}

#[test]
fn the_connection_of_a_killed_program_names_the_signal() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut trace = Trace::start(&tracing(port, backend));
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -u 3 -n 1 x; read -u 3 -n 1 x");
        let mut child = Command::new("bash").arg("-c").arg(script).spawn().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"k").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(server);
        until(&mut trace, 2);
        let all = connects(&trace.finish().0);
        let c = one(&all, Opening::Connected);
        assert_eq!(
            (c.ended_by, c.signal, c.closer),
            (Some(EndedBy::Killed), Some(9), Some(child.id())),
            "{backend}: {c:?}"
        );
        assert_eq!((c.owner.pid, c.owner.comm.to_string().as_str()), (child.id(), "bash"));
    }
}

#[test]
fn a_full_accept_queue_shows_at_both_ends() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // SAFETY: listening again only sets the length of the queue.
            assert_eq!(unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) }, 0);
            let at = listener.local_addr().unwrap();
            let mut trace = Trace::start(&tracing(at.port(), backend));
            let drops = counter("netstat", "TcpExt", "ListenDrops");
            let before = counter("netstat", "TcpExt", "TCPSynRetrans");
            // The queue takes one connection more than it is asked for.
            let first = TcpStream::connect(at).unwrap();
            let late = std::thread::spawn(move || TcpStream::connect(at).unwrap());
            std::thread::sleep(Duration::from_millis(500));
            let accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
            let late = late.join().unwrap();
            drop((first, late));
            drop(accepted);
            until(&mut trace, 4);
            let (events, summary) = trace.finish();
            let all = connects(&events);
            let retries: u32 = all.iter().filter(|c| c.opening == Opening::Connected).map(|c| c.retries).sum();
            let dropped = counter("netstat", "TcpExt", "ListenDrops") - drops;
            let retransmitted = counter("netstat", "TcpExt", "TCPSynRetrans") - before;
            assert_eq!((all.len(), u64::from(retries)), (4, retransmitted), "{backend}: {all:#?}");
            assert!(dropped > 0, "the queue was never full");
            assert_eq!(summary.lost.connect_listen_drops, dropped, "{backend}");
            let slow = all.iter().find(|c| c.opening == Opening::Connected && c.retries > 0).unwrap();
            assert_eq!(slow.retried.len(), slow.retries as usize);
            assert!(slow.handshake().unwrap() > Nanos::from_millis(900), "{slow:?}");
            let again = slow.retried[0] - slow.stamps.syn.unwrap().as_nanos();
            assert!((950_000_000..1_500_000_000).contains(&again), "{again}");
            let waits: Vec<_> = all.iter().filter_map(Connect::accept_wait).collect();
            assert_eq!(waits.len(), 2);
            assert!(waits.iter().any(|wait| *wait >= Nanos::from_millis(500)), "{waits:?}");
        });
    }
}

#[test]
fn a_black_hole_times_out_here_and_is_unanswered_there() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        // Some kernels do not run a tracing program for every retransmission; the other backend has
        // another kind (docs/testing.md).
        let runs = if backend == Backend::Tracepoints { 3 } else { 1 };
        assert!(
            (0..runs).any(|_| black_hole(backend)),
            "{backend}: a retransmission of the SYN was missed in each of {runs}"
        );
    }
}

/// Connects to a host that answers to another one. Whether every SYN that the kernel counts was
/// seen.
fn black_hole(backend: Backend) -> bool {
    in_namespace(None, move || {
        let (over, until_over) = std::sync::mpsc::channel::<()>();
        let (listening, ready) = std::sync::mpsc::channel::<()>();
        std::fs::write("/proc/sys/net/ipv4/tcp_syn_retries", "1").unwrap();
        let mut trace = Trace::start(&tracing(4444, backend));
        let server = far_host(move || {
            // What the server answers goes to a station that is not there.
            run("ip neigh replace 192.0.2.1 lladdr 02:00:00:00:00:99 dev far");
            let listener = TcpListener::bind("192.0.2.2:4444").unwrap();
            listening.send(()).unwrap();
            until_over.recv().unwrap();
            drop(listener);
        });
        ready.recv().unwrap();
        let sent_again = counter("netstat", "TcpExt", "TCPSynRetrans");
        let error = TcpStream::connect("192.0.2.2:4444").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        until(&mut trace, 1);
        let (events, _) = trace.finish();
        over.send(()).unwrap();
        server.join().unwrap();
        let all = connects(&events);
        let (ours, theirs) = (one(&all, Opening::Connected), one(&all, Opening::Accepted));
        let sent_again = counter("netstat", "TcpExt", "TCPSynRetrans") - sent_again;
        assert_eq!(ours.outcome, Outcome::TimedOut, "{backend}: {ours:?}");
        assert!(sent_again > 0 && u64::from(ours.retries) <= sent_again, "{backend}, {sent_again}: {ours:?}");
        assert!(ours.retried.is_sorted() && ours.retried.len() == ours.retries as usize);
        assert_eq!((ours.ending, ours.ended_by), (Some(Ending::TimedOut), Some(EndedBy::Kernel)));
        assert_eq!((theirs.outcome, theirs.connection), (Outcome::Unanswered, None), "{backend}: {theirs:?}");
        assert!(theirs.retries >= 1 && theirs.stamps.syn_ack.is_some(), "{backend}: {theirs:?}");
        let at: SocketAddr = "192.0.2.2:4444".parse().unwrap();
        assert_eq!((ours.remote, theirs.local, theirs.remote), (at, at, ours.local));
        u64::from(ours.retries) == sent_again
    })
}

#[test]
fn a_thousand_attempts_are_the_kernels_own_counts() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap();
            let mut config = on(traffic::port(at.port()), backend);
            // Most are beyond the table of connections that are followed.
            config.max_connections = 4;
            let mut trace = Trace::start(&config);
            let count = |name: &str| counter("snmp", "Tcp", name);
            let names = ["ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets"];
            let before = names.map(count);
            let server = std::thread::spawn(move || {
                for _ in 0..1000 {
                    drop(listener.accept().unwrap());
                }
                drop(listener);
            });
            let mut open = Vec::new();
            for i in 0..1000 {
                open.push(TcpStream::connect(at).unwrap());
                if i % 50 == 49 {
                    open.clear();
                    trace.poll();
                }
            }
            server.join().unwrap();
            // No one listens any more.
            for _ in 0..10 {
                TcpStream::connect(at).unwrap_err();
            }
            until(&mut trace, 2010);
            let (events, summary) = trace.finish();
            let grown: Vec<u64> = names.iter().zip(before).map(|(name, before)| count(name) - before).collect();
            let all = connects(&events);
            let n =
                |opening, outcome| all.iter().filter(|c| c.opening == opening && c.outcome == outcome).count() as u64;
            assert_eq!(n(Opening::Connected, Outcome::Established), 1000, "{backend}");
            assert_eq!(n(Opening::Accepted, Outcome::Established), grown[1], "{backend}");
            assert_eq!(n(Opening::Connected, Outcome::Refused), grown[2], "{backend}");
            assert_eq!(all.iter().filter(|c| c.opening == Opening::Connected).count() as u64, grown[0], "{backend}");
            assert!(all.iter().all(|c| c.opening != Opening::Accepted || c.stamps.accepted.is_some()), "{backend}");
            assert_eq!((grown[1], grown[2], summary.lost.connect_ring_buffer), (1000, 10, 0));
            let reset = all.iter().filter(|c| c.outcome == Outcome::Established && c.ending == Some(Ending::Reset));
            assert_eq!(reset.count() as u64, grown[3], "{backend}");
        });
    }
}

#[test]
fn what_was_there_before_and_what_stays_are_said_to_be() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let before = traffic::accept_one(&listener);
        let mut trace = Trace::start(&tracing(listener.local_addr().unwrap().port(), backend));
        let after = traffic::accept_one(&listener);
        drop(before.0);
        drop(before.1);
        until(&mut trace, 2);
        let all = connects(&trace.finish().0);
        drop(after);
        let found: Vec<_> = all.iter().filter(|c| c.outcome == Outcome::Found).collect();
        assert_eq!((all.len(), found.len()), (4, 2), "{backend}: {all:#?}");
        assert!(found.iter().all(|c| c.ending == Some(Ending::Fin) && c.stamps.syn.is_none()), "{backend}: {found:#?}");
        let open = all.iter().filter(|c| c.outcome == Outcome::Established);
        assert!(open.clone().count() == 2 && open.clone().all(|c| c.ending.is_none()), "{backend}: {all:#?}");
    }
}

#[test]
fn a_connection_that_is_abandoned_is_no_failure_of_the_network() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            run("ip link add near type veth peer name far");
            run("ip addr add 192.0.2.1/24 dev near");
            run("ip link set near up");
            run("ip link set far up");
            run("ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:99 dev near");
            let mut trace = Trace::start(&tracing(4445, backend));
            let at = "192.0.2.2:4445".parse().unwrap();
            TcpStream::connect_timeout(&at, Duration::from_millis(100)).unwrap_err();
            until(&mut trace, 1);
            let c = one(&connects(&trace.finish().0), Opening::Connected);
            assert_eq!(
                (c.outcome, c.ending, c.ended_by),
                (Outcome::Abandoned, Some(Ending::Closed), Some(EndedBy::Program))
            );
            let gap = after(c.stamps.syn, c.stamps.ended);
            assert!((90_000_000..2_000_000_000).contains(&gap), "{backend}: {gap}");
        });
    }
}

#[test]
fn an_attempt_that_finds_no_free_port_is_one_that_failed_here() {
    tier::needs!(Need::Root, BTF);
    for (backend, address) in BACKENDS.into_iter().flat_map(|of| ["127.0.0.1:0", "[::1]:0"].map(|at| (of, at))) {
        in_namespace(None, move || {
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40001").unwrap();
            let listener = TcpListener::bind(address.replace(":0", ":4446")).unwrap();
            let at = listener.local_addr().unwrap();
            let mut trace = Trace::start(&tracing(at.port(), backend));
            let open: Vec<_> = std::iter::from_fn(|| TcpStream::connect(at).ok()).take(9).collect();
            let refused = TcpStream::connect(at).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EADDRNOTAVAIL));
            until(&mut trace, 2);
            let all = connects(&trace.finish().0);
            drop(open);
            let failed: Vec<_> = all.iter().filter(|c| c.outcome == Outcome::NoPort).collect();
            // The attempt that ended the row of open ones, and the one after it.
            assert_eq!(failed.len(), 2, "{backend}: {all:#?}");
            for c in failed {
                assert_eq!((c.opening, c.remote, c.local.port()), (Opening::Connected, at, 0), "{backend}: {c:#?}");
                assert_eq!((c.ending, c.ended_by), (Some(Ending::NoPort), Some(EndedBy::Kernel)), "{backend}: {c:#?}");
                assert_eq!((c.owner.pid, c.connection), (std::process::id(), None), "{backend}: {c:#?}");
            }
        });
    }
}

/// Sends `bytes` bytes with the SYN, by Fast Open, and gives the socket.
fn fast_open(at: SocketAddr, bytes: usize) -> TcpStream {
    let SocketAddr::V4(at) = at else { panic!("an address of IPv4") };
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let data = vec![b'x'; bytes];
    // SAFETY: takes numbers alone.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    // SAFETY: the data and the address are there for the call, and their sizes are given.
    let sent = unsafe {
        libc::sendto(
            fd,
            data.as_ptr().cast(),
            bytes,
            libc::MSG_FASTOPEN,
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        )
    };
    assert_eq!(sent, bytes as isize, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is open, and nothing else owns it.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

#[test]
fn data_in_the_syn_is_said_and_lowers_the_coverage() {
    tier::needs!(Need::Root, BTF, Need::Program("ip"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            // Client and server, both without a cookie (Documentation/networking/ip-sysctl.rst).
            std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", (0x1 | 0x2 | 0x4 | 0x200 | 0x400).to_string()).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            traffic::set(&listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 5);
            let at = listener.local_addr().unwrap();
            let mut trace = Trace::start(&tracing(at.port(), backend));
            let mut client = fast_open(at, 500);
            let (mut server, _) = listener.accept().unwrap();
            server.read_exact(&mut [0; 500]).unwrap();
            client.write_all(&[b'y'; 300]).unwrap();
            server.read_exact(&mut [0; 300]).unwrap();
            drop((client, server));
            until(&mut trace, 2);
            let (events, summary) = trace.finish();
            let all = connects(&events);
            let (ours, theirs) = (one(&all, Opening::Connected), one(&all, Opening::Accepted));
            assert_eq!((ours.syn_bytes, ours.fast_open), (500, Some(record::FastOpen::Taken)), "{backend}: {ours:?}");
            assert_eq!(theirs.fast_open, Some(record::FastOpen::Taken), "{backend}: {theirs:?}");
            assert_eq!(ours.stamps.first_sent, ours.stamps.syn);
            let (written, armed) = (summary.coverage.bytes_written, summary.coverage.bytes_armed);
            assert_eq!((written, armed), (800, 300), "{backend}: {:?}", summary.coverage);
        });
    }
}
