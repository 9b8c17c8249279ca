//! What the path does to packets: loses them, lets them overtake each other, swallows the large
//! ones, changes its delay.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use diagnose::{Limit, Way};
use lab::{BitRate, Direction, Lab, Loss, Reorder, Side};
use record::Nanos;

use crate::bench::{
    Seen, analysed, answer, ask, at_once, captured, captured_at, delayed, drain, give, path, pause, segments, send,
    shaped, sysctls, uneven,
};
use crate::{assert_clean, in_the_lab};

/// Every packet from host a vanishes.
fn dead(ms: u64) -> Direction {
    Direction { loss: Loss::Independent(1.0), ..delayed(ms) }
}

/// Waits until the path from host a has lost this many segments.
fn lost(lab: &Lab, least: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while lab.path().report().a_to_b.achieved.is_none_or(|a| a.lost < least) && Instant::now() < until {
        pause(5);
    }
}

#[test]
fn loss_one_by_one_and_in_bursts() {
    in_the_lab!();
    let run = |loss: Loss, at: Side| {
        // The rate keeps a burst within what a reader on a busy machine takes up.
        let lab = uneven(Direction { loss, ..shaped(5, 200, 500) }, 5);
        let seen = captured_at(&lab, at, send(3 << 20), drain);
        let path = lab.path().report().a_to_b.achieved.unwrap();
        (seen, path.lost)
    };
    at_once(&[
        &|| {
            let (seen, lost) = run(Loss::Independent(0.01), Side::A);
            let f = seen.must("loss");
            let d = &seen.report.to_server;
            // Every loss was repaired, and the capture at the sender has the originals too. Pure
            // ACKs are lost as well.
            assert!(
                f.count > 3 && d.retransmitted_packets <= lost,
                "{} of {lost}: {}",
                d.retransmitted_packets,
                seen.account()
            );
            assert_eq!((d.unique_bytes, d.lost_before_capture, d.out_of_order_packets), (3 << 20, 0, 0));
            // Some twenty losses, of which each takes a round trip of 10 ms.
            assert!(seen.share(Limit::LossRecovery) > 0.05, "{}", seen.account());
        },
        &|| {
            // Behind the loss, the originals were never seen: repairs are told by the hole they
            // fill.
            let (seen, _) = run(Loss::Independent(0.01), Side::B);
            seen.must("loss");
            let d = &seen.report.to_server;
            assert!(d.lost_before_capture > 3 && d.retransmitted_bytes * 10 < d.unique_bytes, "{}", seen.account());
            assert_eq!((d.unique_bytes, d.unseen_bytes), (3 << 20, 0));
        },
        &|| {
            let (seen, _) = run(Loss::bursts(0.06, 15.0).unwrap(), Side::A);
            let f = seen.must("loss");
            assert!(f.text.contains("SACK recovery"), "{f:?}");
            seen.must_not(&["send_buffer", "reordering_taken_for_loss", "mtu_black_hole"]);
            assert!(seen.share(Limit::LossRecovery) > 0.05, "{}", seen.account());
        },
        &|| {
            let (seen, _) = run(Loss::None, Side::A);
            assert_clean(&seen);
            assert_eq!(seen.report.to_server.retransmitted_packets, 0);
            assert!(seen.report.to_server.handshake_rtt_ns.unwrap() >= Nanos::from_millis(10));
        },
    ]);
}

#[test]
fn packets_that_overtake_each_other() {
    in_the_lab!();
    let run = |by_us: u64| {
        let rate = Some(BitRate::mbit(50));
        let reorder = Some(Reorder { share: 0.02, by: Nanos::from_micros(by_us) });
        let lab = uneven(Direction { rate, reorder, ..delayed(10) }, 10);
        // RACK with a window of a quarter of the RTT, 5 ms, that does not learn.
        sysctls(&lab, Side::A, &[("tcp_recovery", "3")]);
        captured(&lab, send(2 << 20), drain)
    };
    at_once(&[
        &|| {
            let seen = run(12_000);
            let f = seen.must("reordering_taken_for_loss");
            assert!(f.count >= 3, "{f:?}");
            assert!(seen.report.to_server.spurious_retransmissions > 3, "{}", seen.account());
            seen.must_not(&["mtu_black_hole", "capture_incomplete"]);
        },
        &|| {
            // By one or two places at the most: no sender mistakes that.
            let seen = run(300);
            assert_clean(&seen);
            assert_eq!(seen.report.to_server.retransmitted_packets, 0);
            assert!(seen.report.to_server.reordered_beyond > 3, "{}", seen.account());
        },
    ]);
}

#[test]
fn large_packets_vanish() {
    in_the_lab!();
    let hole = Direction { black_hole: Some(1_400), ..delayed(5) };
    let large = |mut stream: TcpStream| {
        stream.write_all(&[1; 300]).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        give(&mut stream, 40_000);
        // The rest is the retransmission timer's.
        pause(2_600);
    };
    let server = |mut stream: TcpStream| {
        stream.read_exact(&mut [0; 300]).unwrap();
        stream.write_all(&[2; 10]).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(2_700))).unwrap();
        drain(stream);
    };
    at_once(&[
        &|| {
            let seen = captured(&uneven(hole.clone(), 5), large, server);
            let f = seen.must("mtu_black_hole");
            assert!(f.count >= 2 && f.text.contains("1448 bytes"), "{f:?}");
            seen.mostly(Limit::LossRecovery, 0.5);
        },
        &|| {
            // The sender finds out by itself (RFC 4821): the finding stays, and the transfer ends.
            let lab = uneven(hole.clone(), 5);
            sysctls(&lab, Side::A, &[("tcp_mtu_probing", "1"), ("tcp_base_mss", "1024"), ("tcp_retries1", "1")]);
            let seen = captured(&lab, large, server);
            assert_eq!(seen.report.to_server.unique_bytes, 40_300);
            seen.must("mtu_black_hole");
        },
        &|| {
            // Everything vanishes for as long: the size has nothing to do with it.
            let lab = path(5);
            let cut_off = |mut stream: TcpStream| {
                stream.write_all(&[1; 300]).unwrap();
                stream.read_exact(&mut [0; 10]).unwrap();
                give(&mut stream, 20_000);
                pause(200);
                lab.path().change(Side::A, &dead(5)).unwrap();
                give(&mut stream, 20_000);
                pause(1_500);
                lab.path().change(Side::A, &delayed(5)).unwrap();
            };
            let seen = captured(&lab, cut_off, server);
            seen.must("loss");
            seen.must_not(&["mtu_black_hole"]);
            seen.mostly(Limit::LossRecovery, 0.5);
        },
    ]);
}

#[test]
fn the_paths_delay_changes_for_good() {
    in_the_lab!();
    at_once(&[
        &|| {
            let lab = path(2);
            let moved = |mut stream: TcpStream| {
                stream.set_nodelay(true).unwrap();
                for turn in 0..200 {
                    if turn == 100 {
                        Side::ALL.into_iter().for_each(|side| lab.path().change(side, &delayed(6)).unwrap());
                    }
                    stream.write_all(&[1; 50]).unwrap();
                    stream.read_exact(&mut [0; 50]).unwrap();
                }
            };
            let seen = captured(&lab, moved, answer(50, 50));
            let f = seen.must("path_delay_step");
            assert!(f.text.contains("where it was 4."), "{}", f.text);
            let at = seen.report.records.iter().find(|r| r.segment.number == f.packets[0]).unwrap();
            let turns = seen.report.records.iter().filter(|r| r.way == Way::ToServer && r.segment.payload > 0);
            let before = turns.take_while(|r| r.segment.number < at.segment.number).count();
            // Found in blocks of 16 samples.
            assert!((84..=116).contains(&before), "after {before} turns");
        },
        &|| {
            // The same delays by turns, without a level that lasts.
            let restless = Direction { jitter: Nanos::from_millis(2), ..delayed(4) };
            let lab = uneven(restless, 4);
            let seen = captured(&lab, ask(150, 50, 50), answer(50, 50));
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn syns_that_need_a_second_try() {
    in_the_lab!();
    at_once(&[
        &|| {
            // The first SYN is lost for certain, the retry a second later goes through.
            let lab = uneven(dead(1), 1);
            let seen = thread::scope(|scope| {
                scope.spawn(|| {
                    lost(&lab, 1);
                    lab.path().change(Side::A, &delayed(1)).unwrap();
                });
                captured(&lab, ask(12, 50, 50), answer(50, 50))
            });
            let f = seen.must("syn_retries");
            assert_eq!((f.count, f.direction), (1, Some(Way::ToServer)));
            assert!(seen.report.limits.of(Limit::Handshake) >= Nanos::from_millis(900), "{}", seen.account());
            seen.mostly(Limit::Handshake, 0.5);
            // The second from the first SYN to the answer is no RTT (Karn's rule).
            seen.must_not(&["intermediary"]);
        },
        &|| {
            // As slow, because the path is.
            let seen = captured(&path(300), send(100), drain);
            seen.must_not(&["syn_retries"]);
            assert!(seen.share(Limit::Handshake) >= 0.3, "{}", seen.account());
        },
    ]);
}

#[test]
fn something_answers_in_the_servers_name() {
    in_the_lab!();
    // What a proxy near the client looks like from there: the handshake goes all the way, data is
    // answered close by.
    let lab = path(40);
    let near = |mut stream: TcpStream| {
        Side::ALL.into_iter().for_each(|side| lab.path().change(side, &delayed(1)).unwrap());
        pause(100);
        stream.set_nodelay(true).unwrap();
        for _ in 0..20 {
            stream.write_all(&[1; 50]).unwrap();
            stream.read_exact(&mut [0; 50]).unwrap();
        }
    };
    let seen = captured(&lab, near, answer(50, 50));
    seen.must("intermediary");
    let honest = captured(&path(40), ask(20, 50, 50), answer(50, 50));
    assert_clean(&honest);
}

#[test]
fn timeouts_without_timestamps() {
    in_the_lab!();
    let run = |stamps: &str| {
        let lab = path(5);
        sysctls(&lab, Side::A, &[("tcp_timestamps", stamps), ("tcp_early_retrans", "0")]);
        let cut_off = |mut stream: TcpStream| {
            stream.write_all(&[1; 300]).unwrap();
            pause(100);
            lab.path().change(Side::A, &dead(5)).unwrap();
            stream.write_all(&[1; 300]).unwrap();
            // The segment, and the timer at about 0.2, 0.6 and 1.4 s.
            lost(&lab, 4);
            lab.path().change(Side::A, &delayed(5)).unwrap();
        };
        captured(&lab, cut_off, drain)
    };
    at_once(&[
        &|| {
            let seen = run("0");
            assert!(seen.report.to_server.retransmissions.timeout >= 3, "{}", seen.account());
            let f = seen.must("timestamps");
            assert!(f.text.contains("the client left them out"), "{}", f.text);
            seen.mostly(Limit::LossRecovery, 0.7);
        },
        &|| {
            let seen = run("1");
            assert!(seen.report.to_server.retransmissions.timeout >= 3, "{}", seen.account());
            seen.must_not(&["timestamps"]);
        },
    ]);
}

/// No lab can make tcpdump drop a chosen packet, so a whole capture is thinned afterwards, as a
/// full buffer would.
#[test]
fn a_capture_with_gaps() {
    in_the_lab!();
    let seen = captured(&path(2), send(500_000), drain);
    assert_clean(&seen);
    let all = segments(seen.file.path());
    let full: Vec<u64> = all.iter().filter(|s| s.payload > 1_000).map(|s| s.number).collect();
    let gone: Vec<u64> = full.iter().copied().skip(3).step_by(7).collect();
    let missing: u64 = all.iter().filter(|s| gone.contains(&s.number)).map(|s| u64::from(s.sequence_length())).sum();
    let thinned = analysed(all.iter().filter(|s| !gone.contains(&s.number))).remove(0);
    let thinned = Seen { file: seen.file, report: thinned };
    thinned.must("capture_incomplete");
    thinned.must_not(&["loss"]);
    assert_eq!(thinned.report.to_server.unseen_bytes, missing);
}
