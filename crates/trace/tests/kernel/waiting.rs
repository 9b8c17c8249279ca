//! Each reason to wait, provoked.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use record::{Event, Leg, Nanos, Send, WaitReason};
use tier::Need;

use crate::traffic::{self, Trace, pair, pair_at, set};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// Whether a send waited for this reason at least so long, and the reason explains most of its
/// `tcp` leg.
fn waited(send: &Send, reason: WaitReason, least: Nanos) -> bool {
    let leg = send.leg(Leg::Tcp).ok().flatten().unwrap_or_default();
    send.wait.is_some_and(|w| w.time(reason) >= least && w.time(reason).0 * 2 >= leg.0)
}

/// Some send waited, and of each one the reasons add up to the leg.
fn some_waited(sends: &[Send], reason: WaitReason, least: Nanos) {
    for send in sends.iter().filter(|s| s.stamps.sched.is_some()) {
        assert_eq!(send.wait.map(|w| w.sum()), send.leg(Leg::Tcp).unwrap(), "{send:?}");
    }
    let by_reason: Vec<_> = WaitReason::ALL
        .iter()
        .map(|&r| {
            let times = sends.iter().filter_map(|s| s.wait).map(|w| w.time(r));
            times.filter(|time| *time > Nanos::ZERO).collect::<Vec<_>>()
        })
        .zip(WaitReason::ALL)
        .filter(|(waits, _)| !waits.is_empty())
        .map(|(waits, r)| format!("{r}: {} times, {} at most", waits.len(), waits.iter().max().unwrap()))
        .collect();
    assert!(sends.iter().any(|s| waited(s, reason, least)), "nobody waited {least} for {reason}: {by_reason:?}");
}

fn start(server: &std::net::TcpStream) -> Trace {
    Trace::start(&traffic::port(server.local_addr().unwrap().port()))
}

#[test]
fn nothing_to_wait_for_is_sent_at_once() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let mut trace = start(&server);
    for _ in 0..50 {
        client.write_all(b"now").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
    }
    trace.until(50);
    let sends = trace.sends();
    let at_once = sends.iter().filter(|s| s.wait.is_some_and(|w| w.reason() == WaitReason::SentAtOnce)).count();
    assert_eq!((sends.len(), at_once), (50, 50));
}

#[test]
fn a_cork() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair();
    let mut trace = start(&server);
    set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    client.write_all(&[0; 100]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
    trace.until(1);
    some_waited(&trace.sends(), WaitReason::Cork, Nanos::from_millis(19));
}

/// The tracepoint stands before the bytes are in the queue, so what they will meet there has to be
/// foreseen. (On a socket with `TCP_NODELAY` the first bytes after a pause show that it matters:
/// nothing else tells of the cork before they leave.)
#[test]
fn a_cork_on_an_idle_connection_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair();
    let port = server.local_addr().unwrap().port();
    let mut trace = Trace::start(&traffic::on(traffic::port(port), trace::Backend::Tracepoints));
    for times in 1..=2 {
        set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        client.write_all(&[0; 100]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
        trace.until(times);
    }
    let sends = trace.sends();
    assert_eq!(sends.len(), 2);
    assert!(sends.iter().all(|s| waited(s, WaitReason::Cork, Nanos::from_millis(19))), "{sends:?}");
}

#[test]
fn msg_more() {
    tier::needs!(Need::Root, BTF);
    let (client, server) = pair();
    let mut trace = start(&server);
    // SAFETY: the buffer is as long as is said.
    let sent = unsafe { libc::send(client.as_raw_fd(), [0u8; 100].as_ptr().cast(), 100, libc::MSG_MORE) };
    assert_eq!(sent, 100);
    std::thread::sleep(Duration::from_millis(20));
    // Setting TCP_NODELAY pushes what waits.
    set(&client, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    trace.until(1);
    some_waited(&trace.sends(), WaitReason::Cork, Nanos::from_millis(19));
}

#[test]
fn nagle_with_a_peer_that_delays_its_acks() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair_at("127.0.0.1:0");
    let mut trace = start(&server);
    for _ in 0..20 {
        set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
        client.write_all(&[0; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
        client.write_all(&[0; 101]).unwrap();
        server.read_exact(&mut [0; 101]).unwrap();
    }
    trace.until(40);
    some_waited(&trace.sends(), WaitReason::Nagle, Nanos::from_millis(10));
}

/// Pacing holds a small packet for less than a millisecond here, and Nagle's algorithm until the
/// delayed ACK.
fn nagle_behind_pacing(config: impl Fn(u16) -> trace::Config) {
    let (mut client, mut server) = pair_at("127.0.0.1:0");
    set(&client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 400_000);
    let mut trace = Trace::start(&config(server.local_addr().unwrap().port()));
    for _ in 0..30 {
        set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
        client.write_all(&[0; 100]).unwrap();
        client.write_all(&[0; 101]).unwrap();
        server.read_exact(&mut [0; 201]).unwrap();
    }
    trace.until_bytes(30 * 201);
    let sends = trace.sends();
    some_waited(&sends, WaitReason::Nagle, Nanos::from_millis(10));
    let paced: Vec<_> = sends.iter().filter(|s| waited(s, WaitReason::Pacing, Nanos::from_millis(10))).collect();
    assert!(paced.is_empty(), "{} of {} waited for pacing: {:?}", paced.len(), sends.len(), paced[0]);
    // Both have their time, one after the other.
    let both = sends.iter().filter_map(|s| s.wait).filter(|w| {
        w.time(WaitReason::Nagle) >= Nanos::from_millis(10) && w.time(WaitReason::Pacing) >= Nanos::from_micros(100)
    });
    assert!(both.count() > 0, "{sends:?}");
}

#[test]
fn nagle_behind_pacing_by_the_better_backend() {
    tier::needs!(Need::Root, BTF);
    nagle_behind_pacing(traffic::port);
}

#[test]
fn nagle_behind_pacing_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    nagle_behind_pacing(|port| traffic::on(traffic::port(port), trace::Backend::Tracepoints));
}

/// TCP sends urgent data, and all that follows until it is acknowledged, whatever Nagle's algorithm
/// says.
#[test]
fn urgent_data_is_not_held_by_nagle() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair_at("127.0.0.1:0");
    let mut trace = start(&server);
    for _ in 0..20 {
        set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
        client.write_all(&[0; 100]).unwrap();
        // SAFETY: the buffer is as long as is said.
        let sent = unsafe { libc::send(client.as_raw_fd(), [1u8; 10].as_ptr().cast(), 10, libc::MSG_OOB) };
        assert_eq!(sent, 10);
        // The urgent byte itself is out of band.
        server.read_exact(&mut [0; 109]).unwrap();
    }
    trace.until(40);
    let reasons: Vec<_> = trace.sends().iter().filter_map(|s| s.wait).map(|w| w.reason()).collect();
    assert!(reasons.len() >= 30 && !reasons.contains(&WaitReason::Nagle), "{reasons:?}");
}

#[test]
fn a_closed_peer_window() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 8 << 10);
    let mut trace = start(&server);
    client.set_nonblocking(true).unwrap();
    let mut written = 0;
    // More than the window (under 128 KiB) and less than the send buffer, in small pieces.
    while written < 200_000 {
        match client.write(&[0; 2_000]) {
            Ok(n) => written += n,
            Err(_) => break,
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    server.read_exact(&mut vec![0; written]).unwrap();
    trace.until_bytes(written);
    let (events, summary) = trace.finish();
    some_waited(&traffic::sends(&events), WaitReason::ReceiveWindow, Nanos::from_millis(30));
    // The kernel's own clock has seen the same.
    let judged = events.iter().find_map(|event| match event {
        Event::Closed { totals, .. } => totals.judged,
        _ => None,
    });
    let judged = judged.expect("the client had something to send");
    assert!(judged.receive_window_limited >= Nanos::from_millis(30) && judged.agrees(), "{judged:?}");
    assert_eq!(summary.lost.reasons_differ, 0);
}

#[test]
fn a_small_send_buffer() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    // 20 kB of packets take 160 ms at 1 Mbit/s; the buffer holds about 4 kB of them.
    let sends = traffic::in_namespace(Some("rate 1mbit burst 3kb limit 1mb"), || {
        let (mut client, server) = pair();
        set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 4608);
        let trace = start(&server);
        let reader = traffic::drain(server);
        for _ in 0..14 {
            client.write_all(&[0; 1400]).unwrap();
        }
        drop(client);
        reader.join().unwrap();
        traffic::sends(&trace.finish().0)
    });
    // The call's wait comes before the leg, so it is not a part of it.
    let blocked = |s: &Send| s.buffer.is_some_and(|w| w.time(WaitReason::SendBuffer) >= Nanos::from_millis(5));
    let all: Vec<_> = sends.iter().map(|s| (s.buffer, s.wait, s.leg(Leg::Tcp))).collect();
    assert!(sends.iter().any(blocked), "{all:?}");
}

#[test]
fn pacing() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair();
    // 200 kB a second.
    set(&client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 200_000);
    let trace = start(&server);
    let reader = traffic::drain(server);
    // The first ten segments of a connection are not paced.
    for _ in 0..30 {
        client.write_all(&[0; 3_000]).unwrap();
    }
    drop(client);
    reader.join().unwrap();
    some_waited(&traffic::sends(&trace.finish().0), WaitReason::Pacing, Nanos::from_millis(5));
}

#[test]
fn a_full_congestion_window() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    // Each ACK takes 66 ms, and the send is four times the initial window of 10 segments. The data
    // itself waits nowhere: in a queue of the sender's own host it would meet the small-queue limit
    // as well, and which of the two came first would be chance.
    let sends = traffic::with_slow_acks("rate 8kbit burst 100 limit 10kb", |mut client, server| {
        let trace = start(&server);
        let reader = traffic::drain(server);
        client.write_all(&vec![0; 60_000]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        reader.join().unwrap();
        traffic::sends(&trace.finish().0)
    });
    some_waited(&sends, WaitReason::CongestionWindow, Nanos::from_millis(10));
}

#[test]
fn autocork() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let sends = traffic::in_namespace(Some("rate 200kbit burst 2kb limit 4mb"), || {
        let (mut client, server) = pair();
        let trace = start(&server);
        let reader = traffic::drain(server);
        // Small pieces while an earlier packet waits in the qdisc, where each takes 10 ms.
        for _ in 0..40 {
            client.write_all(&[0; 200]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(client);
        reader.join().unwrap();
        traffic::sends(&trace.finish().0)
    });
    some_waited(&sends, WaitReason::Autocork, Nanos::from_micros(500));
}

#[test]
fn small_queues() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let sends = traffic::in_namespace(Some("rate 10mbit burst 3kb limit 4mb"), || {
        let (mut client, server) = pair();
        // At four times the link's rate, the limit (1 ms of this rate, or two packets) is below the
        // windows, the receiver's too: which of them is met first is then not chance.
        set(&client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 5_000_000);
        set(&server, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 4 << 20);
        let trace = start(&server);
        let reader = traffic::drain(server);
        for _ in 0..500 {
            client.write_all(&[0; 1448]).unwrap();
        }
        drop(client);
        reader.join().unwrap();
        traffic::sends(&trace.finish().0)
    });
    some_waited(&sends, WaitReason::SmallQueue, Nanos::from_millis(1));
}

/// Lets every packet for this socket vanish (`true`), or none.
fn lose_everything(socket: &std::net::TcpStream, lose: bool) {
    let mut reject = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: reject.as_mut_ptr() };
    let option = if lose { libc::SO_ATTACH_FILTER } else { libc::SO_DETACH_FILTER };
    // SAFETY: the option takes a program of the given size, which the kernel copies.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of_val(&program) as u32,
        )
    };
    assert_eq!(done, 0);
}

/// Sends of more than the initial window, ten packets, into a path that loses all of it for so
/// long after the last write: the rest waits until the first of them is repaired. In that time
/// little ones are written, one less than `parts`, as far from one another.
fn lost_for(time: Duration, parts: u32) -> Vec<Send> {
    let (mut client, server) = pair();
    // Nothing is acknowledged meanwhile, so there has to be room for all of it.
    set(&client, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 8 << 20);
    let mut trace = start(&server);
    lose_everything(&server, true);
    let mut written = 0;
    for round in 0..40 {
        let bytes = if round < 10 { 1_000 } else { 40_000 };
        client.write_all(&vec![0; bytes]).unwrap();
        written += bytes;
    }
    for part in 1..=parts {
        std::thread::sleep(time / parts);
        if part < parts {
            client.write_all(&[0; 100]).unwrap();
            written += 100;
        }
    }
    lose_everything(&server, false);
    let reader = traffic::drain(server);
    trace.until_bytes(written);
    drop(client);
    reader.join().unwrap();
    traffic::sends(&trace.finish().0)
}

#[test]
fn lost_segments() {
    tier::needs!(Need::Root, BTF);
    // The second timeout repairs.
    let sends = lost_for(Duration::from_millis(450), 1);
    assert!(sends[0].retransmissions > 0, "{:?}", sends[0]);
    some_waited(&sends, WaitReason::Retransmission, Nanos::from_millis(50));
}

#[test]
fn the_silence_before_a_timeout() {
    tier::needs!(Need::Root, BTF);
    // The first timeout does, after 200 ms.
    let sends = lost_for(Duration::from_millis(100), 1);
    some_waited(&sends, WaitReason::Retransmission, Nanos::from_millis(150));
    let by_window = |send: &Send| send.wait.map(|waits| waits.time(WaitReason::CongestionWindow));
    let longest = sends.iter().filter_map(by_window).max();
    assert!(longest < Some(Nanos::from_millis(60)), "{longest:?}");
}

#[test]
fn the_silence_before_a_timeout_in_which_a_program_writes_on() {
    tier::needs!(Need::Root, BTF);
    let sends = lost_for(Duration::from_millis(180), 9);
    let by = |send: &Send, reason| send.wait.map_or(Nanos::ZERO, |waits| waits.time(reason));
    // All before the first timeout, and what was written in the silence as much of it as it saw.
    for (place, least) in [(39, 150), (41, 100), (44, 50)] {
        let [lost, window] = [WaitReason::Retransmission, WaitReason::CongestionWindow].map(|r| by(&sends[place], r));
        assert!(lost >= Nanos::from_millis(least) && window < Nanos::from_millis(60), "{place}: {:?}", sends[place]);
    }
}
