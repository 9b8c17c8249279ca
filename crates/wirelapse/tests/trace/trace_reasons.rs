//! Each reason to wait in TCP, provoked over a path that is known, told by both backends, and held
//! against something else that knows: the lab, the writing program's own clock, the kernel's
//! `TCP_INFO`, or the ACK that ended the wait. Beside each stands a near miss: nearly the same
//! traffic, for which the reason must not be told.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::scene::path::{change, delay, drain, exchange, in_a, join, lab, lab_with, listen, set, tcp_info};
use crate::scene::watch::{Seen, Watch, leg};
use crate::scene::{BTF, TC, TUN, monotonic, ms, turn};
use lab::{BitRate, Config, Direction, Lab, Loss, Side};
use record::{Event, Leg, Nanos, WaitReason, Waits};
use summary::{Limits, TraceSummary};
use tier::Need;
use tier::wait_for;

fn connected(lab: &Lab) -> (TcpStream, TcpStream) {
    join(lab, &listen(lab, false))
}

/// Writes of these sizes to a peer that reads; each takes as long as it takes.
fn write_all(lab: &Lab, prepare: impl Fn(&TcpStream), sizes: &[usize], pause: Duration) -> (Vec<Seen>, Vec<Duration>) {
    let (mut client, server) = connected(lab);
    prepare(&client);
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    let mut took = Vec::new();
    for &bytes in sizes {
        let start = Instant::now();
        client.write_all(&vec![0; bytes]).unwrap();
        took.push(start.elapsed());
        std::thread::sleep(pause);
    }
    watch.until(&client, sizes.iter().sum::<usize>() as u64);
    let seen = watch.finish(&client);
    drop(client);
    reader.join().unwrap();
    (seen, took)
}

fn none_given(seen: &[Seen], reason: WaitReason) {
    for seen in seen {
        assert!(!seen.sends.is_empty());
        assert_eq!(seen.given(reason), 0, "{}", seen.account());
    }
}

#[test]
fn nothing_to_wait_for() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    let (mut client, mut server) = connected(&lab);
    let mut watch = Watch::start(&client);
    exchange(&mut client, &mut server, 100);
    watch.until(&client, 6_400);
    for seen in watch.finish(&client) {
        assert_eq!((seen.sends.len(), seen.given(WaitReason::SentAtOnce)), (100, 100), "{}", seen.account());
        assert!(seen.sends.iter().all(|s| s.retransmissions == 0), "{}", seen.account());
    }
}

/// `TCP_INFO`, of which libc's structure is only the beginning.
fn info(socket: &TcpStream) -> [u64; 32] {
    use std::os::fd::AsRawFd as _;
    let mut info = [0u64; 32];
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes, all of which are plain numbers.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut size)
    };
    assert!(done == 0 && size >= 184, "TCP_INFO of {size} bytes");
    info
}

#[test]
fn the_state_of_a_send_is_what_the_kernel_said_before_it() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(2);
    let (mut client, mut server) = connected(&lab);
    let mut watch = Watch::start(&client);
    let mut said = Vec::new();
    for _ in 0..20 {
        let info = info(&client);
        let word = |at: usize| (info[at / 8] >> (at % 8 * 8)) as u32;
        // tcpi_min_rtt and tcpi_rto, µs, tcpi_reordering, tcpi_delivery_rate.
        said.push((word(148), word(8), word(88), info[160 / 8]));
        exchange(&mut client, &mut server, 1);
    }
    watch.until(&client, 20 * 64);
    for seen in watch.finish(&client) {
        assert_eq!(seen.sends.len(), 20, "{}", seen.account());
        for (send, said) in seen.sends.iter().zip(&said) {
            let state = &send.state;
            let min_rtt = state.min_rtt.unwrap().0 / 1_000;
            let read = (
                min_rtt as u32,
                (state.rto.unwrap().0 / 1_000) as u32,
                state.reordering.unwrap(),
                state.delivery_rate.unwrap_or(0),
            );
            assert_eq!(read, *said, "{}", seen.backend);
        }
        assert!(seen.sends.iter().all(|s| s.state.min_rtt.unwrap() >= Nanos::from_millis(4)), "{}", seen.account());
        assert!(seen.sends.last().unwrap().state.delivery_rate.unwrap() > 0, "{}", seen.account());
    }
}

/// What the kernel counts as limited by the peer's window, µs (`tcpi_rwnd_limited`).
fn receive_window_limited(socket: &TcpStream) -> u64 {
    info(socket)[176 / 8]
}

#[test]
fn a_reader_that_stops_reading_is_a_closed_receive_window() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    const PIECES: usize = 60;
    const PIECE: usize = 2_000;
    const STOPPED: Duration = Duration::from_millis(300);
    let lab = lab(3);
    let listener = listen(&lab, false);
    {
        use std::os::fd::AsRawFd as _;
        let bytes: i32 = 16 << 10;
        // SAFETY: the option is an int, and its size is given. Accepted sockets inherit it.
        let done = unsafe {
            libc::setsockopt(
                listener.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as u32,
            )
        };
        assert_eq!(done, 0);
    }
    let (mut client, mut server) = join(&lab, &listener);
    set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 1 << 20);
    let mut watch = Watch::start(&client);
    for _ in 0..PIECES {
        client.write_all(&[0; PIECE]).unwrap();
    }
    // Everything that the window lets out is out and acknowledged, and there is more.
    assert!(wait_for(|| tcp_info(&client).tcpi_unacked == 0), "the window does not close");
    let (closed, before) = (monotonic(), receive_window_limited(&client));
    std::thread::sleep(STOPPED);
    let opened = monotonic();
    // Of this time alone: other sends may have waited for the window before.
    let limited = (receive_window_limited(&client) - before) * 1_000;
    server.read_exact(&mut vec![0; PIECES * PIECE]).unwrap();
    watch.until(&client, (PIECES * PIECE) as u64);
    for seen in watch.finish(&client) {
        // What left after the reader came back had waited at least since the window was seen to be
        // closed.
        let late: Vec<_> =
            seen.sends.iter().filter(|s| s.stamps.sched.is_some_and(|at| at.as_nanos() > opened)).collect();
        assert!(!late.is_empty(), "{}", seen.account());
        let first = late[0];
        let told = first.wait.unwrap();
        eprintln!(
            "{}: {} late of {}, leg {} ms, told {} ms, TCP_INFO {} ms",
            seen.backend,
            late.len(),
            seen.sends.len(),
            ms(leg(first, Leg::Tcp)),
            ms(told.by_reason().0),
            ms(limited)
        );
        // The congestion window holds some for a moment as they leave: what counts is the time.
        let mut held = Waits::default();
        late.iter().filter_map(|s| s.wait).for_each(|w| held += w);
        let by_window = held.time(WaitReason::ReceiveWindow);
        assert!(by_window.0 * 10 >= held.sum().0 * 9, "{}", seen.account());
        assert!(leg(first, Leg::Tcp) >= opened - closed, "{}", seen.account());
        // The kernel's own clock of it runs in jiffies of 1 to 10 ms, and was read before the
        // window opened again; a busy machine lets that last longer. A probe of the window in
        // between is no change.
        assert!(
            told.by_reason().0 + 20_000_000 >= limited && told.by_reason().0 >= opened - closed,
            "{}",
            seen.account()
        );
        assert_eq!(told.sum().0, leg(first, Leg::Tcp), "{}", seen.account());
    }

    // Near miss: a window just as small, and a reader who reads. One piece at a time always fits.
    let (mut client, mut server) = join(&lab, &listener);
    let mut watch = Watch::start(&client);
    exchange(&mut client, &mut server, 20);
    watch.until(&client, 20 * 64);
    none_given(&watch.finish(&client), WaitReason::ReceiveWindow);
}

#[test]
fn a_cork() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    let (mut client, server) = connected(&lab);
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    let mut truths = Vec::new();
    for pause in [20, 60] {
        set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        client.write_all(&[0; 100]).unwrap();
        let written = monotonic();
        std::thread::sleep(Duration::from_millis(pause));
        let before = monotonic();
        set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
        truths.push((before - written, monotonic() - written));
    }
    // Near miss: a cork taken out before there is anything to hold.
    for on in [1, 0] {
        set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, on);
    }
    client.write_all(&[0; 100]).unwrap();
    watch.until(&client, 300);
    for seen in watch.finish(&client) {
        assert_eq!(seen.sends.len(), 3, "{}", seen.account());
        for (send, (least, most)) in seen.sends.iter().zip(&truths) {
            let (told, leg) = (send.wait.unwrap(), leg(send, Leg::Tcp));
            eprintln!("{}: leg {} ms, cork {}..{} ms", seen.backend, ms(leg), ms(*least), ms(*most));
            assert_eq!(told.reason(), WaitReason::Cork, "{}", seen.account());
            // The stamp stands a little before the call returns.
            assert!(leg >= *least && leg <= most + 5_000_000, "{}: {} ms", seen.backend, ms(leg));
            assert!(told.by_reason().0 * 10 >= leg * 9 && told.sum().0 == leg, "{}", seen.account());
        }
        assert_eq!(seen.sends[2].wait.unwrap().reason(), WaitReason::SentAtOnce, "{}", seen.account());
    }
    drop(client);
    reader.join().unwrap();
}

/// Two small pieces, time after time, to a peer that reads and says nothing.
fn two_pieces(lab: &Lab, nodelay: bool) -> Vec<Seen> {
    let (mut client, server) = connected(lab);
    client.set_nodelay(nodelay).unwrap();
    set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
    let mut watch = Watch::start(&client);
    let mut reading = server.try_clone().unwrap();
    for _ in 0..8 {
        for bytes in [100, 101] {
            client.write_all(&vec![0; bytes]).unwrap();
        }
        for bytes in [100, 101] {
            reading.read_exact(&mut vec![0; bytes]).unwrap();
            set(&reading, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
        }
        // The next pair finds nothing on its way.
        assert!(wait_for(|| tcp_info(&client).tcpi_unacked == 0));
    }
    watch.until(&client, 8 * 201);
    watch.finish(&client)
}

#[test]
fn nagles_rule_waits_for_the_ack_of_the_piece_before() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(5);
    for seen in two_pieces(&lab, false) {
        let waited: Vec<_> = seen
            .sends
            .windows(2)
            .filter(|w| w[1].wait.is_some_and(|wait| wait.reason() == WaitReason::Nagle))
            .collect();
        // Each second piece, and no other.
        assert!(
            seen.sends.iter().all(|s| (s.wait.unwrap().reason() == WaitReason::Nagle) == (s.bytes == 101)),
            "{}",
            seen.account()
        );
        assert_eq!(waited.len(), 8, "{}", seen.account());
        for pair in waited {
            let [before, after] = [&pair[0], &pair[1]];
            // What it waited for is the ACK of what went before: it left when that came.
            let acked = before.stamps.ack.unwrap().as_nanos();
            let left = after.stamps.sched.unwrap().as_nanos();
            assert!(left >= acked || acked - left < 1_000_000, "{}: left before the ACK", seen.backend);
            assert!(left.saturating_sub(acked) < 5_000_000, "{}: {} ms after", seen.backend, ms(left - acked));
        }
        // The ACK takes the round trip of 10 ms at least.
        assert!(seen.held(WaitReason::Nagle, Nanos::from_millis(9)) == 8, "{}", seen.account());
    }
    none_given(&two_pieces(&lab, true), WaitReason::Nagle);
}

#[test]
fn a_transfer_that_begins_waits_for_its_congestion_window() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(25);
    let (seen, _) = write_all(&lab, |_| {}, &[1_448; 40], Duration::ZERO);
    for seen in seen {
        eprintln!("{}", seen.account());
        // Ten segments fill the initial window; what comes next waits for their ACKs, a round trip
        // of 50 ms.
        let held = seen.held(WaitReason::CongestionWindow, Nanos::from_millis(45));
        assert!(held >= 1, "{}", seen.account());
        for send in seen.sends.iter().filter(|s| leg(s, Leg::Tcp) > 10_000_000) {
            assert_eq!(send.wait.unwrap().reason(), WaitReason::CongestionWindow, "{}", seen.account());
        }
        // Those of the first ten went at once.
        assert!(seen.given(WaitReason::SentAtOnce) >= 5, "{}", seen.account());
    }
    let (seen, _) = write_all(&lab, |_| {}, &[1_448; 8], Duration::ZERO);
    none_given(&seen, WaitReason::CongestionWindow);
}

#[test]
fn a_small_send_buffer_holds_the_writer() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(20);
    let buffer = |bytes| move |client: &TcpStream| set(client, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
    let (seen, took) = write_all(&lab, buffer(4_608), &[1_400; 14], Duration::ZERO);
    let longest = Nanos::from(*took.iter().max().unwrap());
    // Space comes with an ACK, and that takes the round trip of 40 ms.
    assert!(longest >= Nanos::from_millis(20), "{took:?}");
    for seen in seen {
        let told: Vec<_> = seen.sends.iter().filter_map(|s| s.buffer).map(|w| w.time(WaitReason::SendBuffer)).collect();
        eprintln!("{}: {} of {} sends, longest {longest}", seen.account(), told.len(), seen.sends.len());
        assert!(told.iter().any(|time| *time >= Nanos::from_millis(20)), "{}", seen.account());
        // The writer was never held for longer than its own clock says, but for a round trip
        // (docs/waiting.md).
        assert!(told.iter().all(|time| *time <= longest + Nanos::from_millis(40)), "{}", seen.account());
    }
    let (seen, _) = write_all(&lab, buffer(1 << 20), &[1_400; 14], Duration::ZERO);
    assert!(seen.iter().all(|seen| seen.sends.iter().all(|s| s.buffer.is_none())));
}

#[test]
fn a_full_send_buffer_is_small_only_where_nothing_waits_on_the_path() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    // 50 kB are under way where nothing waits.
    let lab = lab_with(&Config::symmetric(Direction { rate: Some(BitRate::mbit(20)), ..delay(10) }));
    for (bytes, waits) in [(12_000, false), (150_000, true)] {
        let buffer = |client: &TcpStream| set(client, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
        let (seen, _) = write_all(&lab, buffer, &[16_384; 100], Duration::ZERO);
        for seen in seen {
            let mut figures = TraceSummary::new(Limits::default(), record::Instant::from_nanos(0));
            seen.sends.iter().for_each(|send| figures.add(&Event::Send(*send)));
            let total = figures.total();
            let reasons = total.buffer_waits();
            assert!(
                reasons.iter().any(|r| r.0 == WaitReason::SendBuffer && r.1.time >= Nanos::from_millis(50)),
                "{reasons:?}"
            );
            assert_eq!(
                total.buffer_full_while_slower(WaitReason::SendBuffer),
                waits,
                "{bytes} bytes: {reasons:?}, {}",
                seen.account()
            );
        }
    }
}

/// A buffer that holds less than the path: for a part of each round trip all that was written is in
/// flight, the window has room and the program waits; for the rest the congestion window holds the
/// queue. `TCP_INFO` is read time and again; its own clock of the send buffer does not run in a
/// round trip in which the window was full as well.
#[test]
fn a_small_send_buffer_and_the_congestion_window_each_have_their_time() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab_with(&Config::symmetric(Direction { rate: Some(BitRate::mbit(100)), ..delay(40) }));
    let (mut client, server) = connected(&lab);
    set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 60_000);
    let mut watch = Watch::start_with_calls(&client);
    let reader = drain(server);
    let looked = client.try_clone().unwrap();
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = over.clone();
    let looking = std::thread::spawn(move || {
        let (mut looks, mut starved) = (0_u32, 0_u32);
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            let info = info(&looked);
            let word = |at: usize| (info[at / 8] >> (at % 8 * 8)) as u32;
            // tcpi_unacked, tcpi_snd_cwnd, tcpi_notsent_bytes.
            let (unacked, window, unsent) = (word(24), word(80), word(144));
            looks += 1;
            starved += u32::from(unsent == 0 && unacked < window);
        }
        f64::from(starved) / f64::from(looks)
    });
    let begun = Instant::now();
    let mut bytes = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        client.write_all(&[0; 65_536]).unwrap();
        bytes += 65_536;
    }
    let lasted = begun.elapsed().as_nanos() as f64;
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    let truth = looking.join().unwrap();
    watch.until(&client, bytes);
    for seen in watch.finish(&client) {
        let of = |reason| seen.sends.iter().filter_map(|s| s.buffer).map(|w| w.time(reason).0).sum::<u64>() as f64;
        let (buffer, window) = (of(WaitReason::SendBuffer) / lasted, of(WaitReason::CongestionWindow) / lasted);
        eprintln!("{}: buffer {buffer:.2}, window {window:.2}; TCP_INFO {truth:.2}", seen.backend);
        assert!((buffer - truth).abs() <= 0.15, "{}", seen.account());
        assert!(buffer + window >= 0.75, "{}", seen.account());
    }
    drop(client);
    reader.join().unwrap();
}

#[test]
fn pacing_by_tcp_itself() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    const RATE: u64 = 200_000;
    let paced = |client: &TcpStream| set(client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, RATE as i32);
    let (seen, _) = write_all(&lab, paced, &[3_000; 20], Duration::ZERO);
    for seen in seen {
        eprintln!("{}", seen.account());
        assert!(seen.held(WaitReason::Pacing, Nanos::from_millis(5)) >= 1, "{}", seen.account());
        // The first ten segments are not paced; the others leave at the rate.
        let first = seen.sends[0].stamps.send.as_nanos();
        let last = seen.sends.iter().filter_map(|s| s.stamps.sched).max().unwrap().as_nanos();
        let truth = (60_000 - 10 * 1_448) * 1_000_000_000 / RATE;
        assert!(last - first >= truth * 8 / 10, "{}: {} of {} ms", seen.backend, ms(last - first), ms(truth));
    }
    let (seen, _) = write_all(&lab, |_| {}, &[3_000; 20], Duration::ZERO);
    none_given(&seen, WaitReason::Pacing);
}

#[test]
fn a_window_that_is_not_full_is_not_named_for_what_pacing_holds() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(10);
    // 5 MB/s is 100 kB a round trip: once the window has grown to that, it is never full. Much more
    // than it takes waits all the time.
    let paced = |client: &TcpStream| {
        set(client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 5_000_000);
        set(client, libc::SOL_SOCKET, libc::SO_SNDBUF, 8_000_000);
    };
    let (seen, _) = write_all(&lab, paced, &[65_536; 80], Duration::ZERO);
    for seen in seen {
        let waited = |reason| -> Nanos { seen.sends.iter().filter_map(|s| s.wait).map(|w| w.time(reason)).sum() };
        let (pacing, window) = (waited(WaitReason::Pacing), waited(WaitReason::CongestionWindow));
        eprintln!("{}: pacing {pacing}, window {window}", seen.account());
        assert!(
            pacing.0 >= 3 * window.0 && pacing >= Nanos::from_millis(500),
            "{}: {pacing}, {window}",
            seen.account()
        );
    }
}

#[test]
fn the_small_queue_limit_before_a_slow_device() {
    tier::needs!(Need::Root, BTF, TUN, TC);
    let _turn = turn();
    let lab = lab(1);
    let most = |seen: &Seen| {
        let of_reason = seen.sends.iter().filter_map(|s| s.wait).map(|w| w.time(WaitReason::SmallQueue));
        of_reason.max().unwrap_or_default()
    };
    // Near miss: the same without the slow device. The path's own device holds packets until the
    // path reads them, which is soon.
    let (seen, _) = write_all(&lab, |_| {}, &[1_448; 200], Duration::ZERO);
    for seen in seen {
        assert!(most(&seen) < Nanos::from_millis(10), "{}", seen.account());
    }
    in_a(&lab, "tc", "qdisc add dev eth0 root tbf rate 10mbit burst 3kb limit 4mb");
    let (seen, _) = write_all(&lab, |_| {}, &[1_448; 200], Duration::ZERO);
    for seen in seen {
        eprintln!("{}", seen.account());
        // 200 packets of 1,514 bytes take 242 ms at 10 Mbit/s; most of that is spent before the
        // device.
        assert!(most(&seen) >= Nanos::from_millis(20), "{}", seen.account());
    }
    // Packets of several segments, as large writes make them. The window has room all the time: the
    // device takes no more than is in it.
    let (seen, _) = write_all(&lab, |_| {}, &[8_192; 200], Duration::ZERO);
    for seen in seen {
        let mut held = Waits::default();
        seen.sends.iter().flat_map(|s| [s.wait, s.buffer]).flatten().for_each(|waits| held += waits);
        eprintln!("{}: {held:?}", seen.account());
        assert!(
            held.time(WaitReason::SmallQueue) > held.time(WaitReason::CongestionWindow),
            "{}: {held:?}",
            seen.account()
        );
    }
}

#[test]
fn autocork_while_an_earlier_packet_is_in_the_qdisc() {
    tier::needs!(Need::Root, BTF, TUN, TC);
    let _turn = turn();
    let lab = lab(1);
    // Each packet takes 10 ms: however late a busy machine lets the program write the next, one is
    // there.
    in_a(&lab, "tc", "qdisc add dev eth0 root tbf rate 200kbit burst 2kb limit 4mb");
    let (seen, _) = write_all(&lab, |_| {}, &[200; 40], Duration::from_millis(1));
    for seen in seen {
        eprintln!("{}", seen.account());
        assert!(seen.held(WaitReason::Autocork, Nanos::from_micros(500)) >= 1, "{}", seen.account());
    }
    lab.host(Side::A).set_sysctl("net.ipv4.tcp_autocorking", 0).unwrap();
    let (seen, _) = write_all(&lab, |_| {}, &[200; 40], Duration::from_millis(1));
    none_given(&seen, WaitReason::Autocork);
}

#[test]
fn lost_segments_are_retransmissions() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(5);
    let (mut client, server) = connected(&lab);
    set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 1 << 20);
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    let lossy = Direction { loss: Loss::Independent(1.0), ..delay(5) };
    lab.path().change(Side::A, &lossy).unwrap();
    // Ten that fill the initial window and are lost; what comes behind waits until the first of
    // them is repaired.
    let mut written = 0;
    for round in 0..20 {
        let bytes = if round < 10 { 1_000 } else { 10_000 };
        client.write_all(&vec![0; bytes]).unwrap();
        written += bytes as u64;
    }
    // The first timeout (after some 200 ms) finds the path as it was, the next (after some 400 ms
    // more) does not.
    std::thread::sleep(Duration::from_millis(350));
    change(&lab, &delay(5));
    watch.until(&client, written);
    let info = tcp_info(&client);
    let lost = lab.path().report().a_to_b.achieved.unwrap().lost;
    for seen in watch.finish(&client) {
        eprintln!("{}; {} retransmitted, {lost} lost", seen.account(), info.tcpi_total_retrans);
        let first = &seen.sends[0];
        assert!(first.retransmissions > 0, "{first:?}");
        // It was not acknowledged before it was let through.
        assert!(leg(first, Leg::Network) >= 340_000_000, "{} ms", ms(leg(first, Leg::Network)));
        let repaired = |w: &Waits| w.time(WaitReason::Retransmission) >= Nanos::from_millis(50);
        assert!(seen.sends.iter().filter_map(|s| s.wait).any(|w| repaired(&w)), "{}", seen.account());
        let totals = seen.events.iter().find_map(|event| match event {
            Event::Closed { connection, totals } if *connection == seen.id => Some(*totals),
            _ => None,
        });
        // Exactly what the kernel counts. The path lost no more than was sent, and at least the
        // first ten.
        assert_eq!(totals.unwrap().segments_retransmitted, info.tcpi_total_retrans, "{}", seen.account());
        assert!(lost >= 10 && u64::from(info.tcpi_total_retrans) >= 10, "{lost} lost");
    }

    // Near miss: the same writes on a path that loses nothing.
    let (mut client, server) = connected(&lab);
    let mut watch = Watch::start(&client);
    let other = drain(server);
    for round in 0..20 {
        client.write_all(&vec![0; if round < 10 { 1_000 } else { 10_000 }]).unwrap();
    }
    watch.until(&client, written);
    let seen = watch.finish(&client);
    none_given(&seen, WaitReason::Retransmission);
    assert!(seen.iter().all(|s| s.sends.iter().all(|send| send.retransmissions == 0)));
    drop(client);
    for reader in [reader, other] {
        drop(reader);
    }
}
