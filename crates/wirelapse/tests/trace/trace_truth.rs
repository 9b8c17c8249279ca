//! What a trace says, held against what is known otherwise: the lab's delay, rate and own
//! measurements, the token bucket's arithmetic, a capture of the same packets, and the other
//! backend.
//!
//! Bounds hold at the median of many sends, so a machine that is busy elsewhere can delay some of
//! them.

use crate::scene;
use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use crate::scene::capture::Dump;
use crate::scene::path::{change, delay, drain, exchange, in_a, join, lab_with, listen, quick_acks, set};
use crate::scene::watch::{Seen, Watch, leg};
use crate::scene::{BTF, IP, TC, TUN, median, ms, turn};
use lab::{BitRate, Config, Direction, Lab, Side};
use record::{Leg, Nanos, Send, Source, Stage, Timestamp, WaitReason};
use tier::Need;

/// Network legs of lightly loaded requests over a path of `first` and then `second` milliseconds
/// each way.
fn network_of_requests(v6: bool, first: u64, second: u64) {
    const TIMES: usize = 60;
    let lab = scene::path::lab(first);
    quick_acks(&lab);
    let (mut client, mut server) = join(&lab, &listen(&lab, v6));
    let mut watch = Watch::start(&client);
    exchange(&mut client, &mut server, TIMES);
    change(&lab, &delay(second));
    exchange(&mut client, &mut server, TIMES);
    watch.until(&client, 2 * 64 * TIMES as u64);
    for seen in watch.finish(&client) {
        assert_eq!(seen.sends.len(), 2 * TIMES, "{}", seen.account());
        let network = |sends: &[Send]| median(sends.iter().map(|s| leg(s, Leg::Network)));
        let (before, after) = (network(&seen.sends[..TIMES]), network(&seen.sends[TIMES..]));
        eprintln!("{} v6={v6}: {} ms at {first} ms, {} ms at {second} ms", seen.backend, ms(before), ms(after));
        // The ACK cannot be there before the round trip is over; 1 ms is for the hosts' own work,
        // which the path's delay does not hold.
        for (found, one_way) in [(before, first), (after, second)] {
            let truth = 2 * one_way * 1_000_000;
            assert!((truth..truth + 1_000_000).contains(&found), "{}: {} ms over {one_way}", seen.backend, ms(found));
        }
        let moved = after.abs_diff(before);
        let truth = 2 * second.abs_diff(first) * 1_000_000;
        assert!(moved.abs_diff(truth) < 1_000_000, "{}: moved by {} ms", seen.backend, ms(moved));
        // The delay shows nowhere else.
        for other in [Leg::Tcp, Leg::Qdisc] {
            let most = median(seen.sends.iter().map(|s| leg(s, other)));
            assert!(most < 1_000_000, "{}: {other} {} ms", seen.backend, ms(most));
        }
    }
}

#[test]
fn the_network_leg_is_the_paths_round_trip_and_moves_with_it() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    network_of_requests(false, 5, 15);
}

#[test]
fn the_network_leg_is_the_paths_round_trip_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    network_of_requests(true, 10, 3);
}

/// Writes of one segment's payload each, as fast as the socket takes them.
fn bulk(lab: &Lab, segments: usize) -> Vec<Seen> {
    let (mut client, server) = join(lab, &listen(lab, false));
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    for _ in 0..segments {
        client.write_all(&[0; 1448]).unwrap();
    }
    watch.until(&client, segments as u64 * 1448);
    let seen = watch.finish(&client);
    drop(client);
    assert_eq!(reader.join().unwrap(), segments as u64 * 1448);
    seen
}

/// A program with an event loop that keeps little unsent, as servers of HTTP/2 do: each write is
/// appended to a packet that leaves in parts, so that next to no packet carries a tag.
#[test]
fn every_write_is_timed_where_packets_carry_no_tag() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let slow = Direction { rate: BitRate::new(20_000_000), ..delay(10) };
    let lab = lab_with(&Config { a_to_b: slow, b_to_a: delay(10), ..Config::default() });
    let (mut client, server) = join(&lab, &listen(&lab, false));
    set(&client, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 16_384);
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    client.set_nonblocking(true).unwrap();
    let (mut writes, mut bytes) = (0, 0);
    while writes < 300 {
        match client.write(&[0; 16_384]) {
            Ok(n) => (writes, bytes) = (writes + 1, bytes + n as u64),
            Err(_) => {
                let mut poll = libc::pollfd { fd: client.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one descriptor is given and one is there.
                assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1);
            }
        }
    }
    watch.until(&client, bytes);
    let seen = watch.finish(&client);
    drop(client);
    assert_eq!(reader.join().unwrap(), bytes);
    let mut medians = Vec::new();
    for seen in &seen {
        assert_eq!(seen.sends.len(), writes, "{}", seen.account());
        let tcp: Vec<u64> = seen.sends.iter().filter_map(|s| Some(s.leg(Leg::Tcp).ok()??.0)).collect();
        let whole = seen.sends.iter().filter(|s| matches!(s.leg(Leg::Total), Ok(Some(_)))).count();
        assert!(whole * 100 >= writes * 99, "{}: {whole} of {writes} have their ACK", seen.backend);
        // The first ones show that packets carry no tag.
        assert!(tcp.len() * 100 >= writes * 95, "{}: {} of {writes} in tcp", seen.backend, tcp.len());
        medians.push(median(tcp));
        eprintln!(
            "{}: median {} ms in tcp",
            seen.backend,
            ms(median(seen.sends.iter().map(|s| s.leg(Leg::Tcp).ok().flatten().map_or(0, |t| t.0))))
        );
    }
    let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
    assert!(most - least < least / 4 + 1_000_000, "{medians:?}");
    let both: Vec<_> = seen[0].sends.iter().zip(&seen[1].sends).collect();
    assert!(both.iter().all(|(x, y)| x.last_seq() == y.last_seq()));
    bounds_hold(&both);
}

#[test]
fn a_queue_in_the_path_shows_in_the_network_leg() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let slow = Direction { rate: BitRate::new(10_000_000), ..delay(2) };
    let lab = lab_with(&Config { a_to_b: slow, b_to_a: delay(2), ..Config::default() });
    quick_acks(&lab);
    let seen = bulk(&lab, 300);
    let report = lab.path().report();
    let there = report.a_to_b.achieved.unwrap().transit.unwrap();
    let back = report.b_to_a.achieved.unwrap().transit.unwrap();
    for seen in seen {
        // The path timed the same packets by itself, queue and all: the longest send of all cannot
        // take longer by the trace than there and back by the path, but for the hosts' own work.
        let network = |q: f64| {
            let mut legs: Vec<u64> = seen.sends.iter().map(|s| leg(s, Leg::Network)).collect();
            legs.sort_unstable();
            legs[((legs.len() - 1) as f64 * q) as usize]
        };
        eprintln!(
            "{}: median {} ms, most {} ms; path {there:?} {back:?}",
            seen.backend,
            ms(network(0.5)),
            ms(network(1.0))
        );
        let truth = there.max.0 + back.p50.0;
        let most = network(1.0);
        assert!(most.abs_diff(truth) < truth / 10 + 2_000_000, "{}: {} of {} ms", seen.backend, ms(most), ms(truth));
        // Ten segments (the initial window) at 1,538 bytes on the wire take 12.3 ms at 10 Mbit/s,
        // so there was a queue.
        assert!(truth > 14_000_000, "{}", ms(truth));
        let qdisc = median(seen.sends.iter().map(|s| leg(s, Leg::Qdisc)));
        assert!(qdisc < 1_000_000, "{}: {} ms in the qdisc", seen.backend, ms(qdisc));
    }
}

#[test]
fn a_token_bucket_on_the_host_shows_in_the_qdisc_leg() {
    tier::needs!(Need::Root, BTF, TUN, IP, TC);
    let _turn = turn();
    // No delay: with it TCP's pacing rate would be low, and the small-queue limit would hold some
    // packets in TCP.
    let lab = scene::path::lab(0);
    // Otherwise TCP itself would hold small packets back while others lie in the queue. Its
    // small-queue limit is what the pacing rate gives in 1 ms, and that is by window and RTT: made
    // so large that an RTT by a busy machine does not matter.
    lab.host(Side::A).set_sysctl("net.ipv4.tcp_autocorking", 0).unwrap();
    lab.host(Side::A).set_sysctl("net.ipv4.tcp_pacing_ss_ratio", 1_000).unwrap();
    in_a(&lab, "ip", "route replace 10.77.0.2/32 dev eth0 initcwnd 100");
    let (mut client, server) = join(&lab, &listen(&lab, false));
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    const RATE: u64 = 1_000_000;
    const BURST: u64 = 1_600;
    in_a(&lab, "tc", &format!("qdisc add dev eth0 root tbf rate {RATE}bit burst {BURST} limit 1000000"));
    // Four packets of 1,400 bytes and 66 of headers.
    const PACKETS: u64 = 4;
    const SIZE: u64 = 1_400 + 66;
    for _ in 0..PACKETS {
        client.write_all(&[0; 1_400]).unwrap();
    }
    watch.until(&client, PACKETS * 1_400);
    for seen in watch.finish(&client) {
        assert_eq!(seen.sends.len(), PACKETS as usize, "{}", seen.account());
        // The bucket holds `BURST` bytes at first; what comes beyond leaves when its tokens have
        // come, counted from the first packet. A writer that a busy machine held up queues the
        // later ones later, and those wait so much less.
        let first = seen.sends[0].stamps.sched.unwrap();
        for (i, send) in (1..).zip(&seen.sends) {
            let tokens = (i * SIZE).saturating_sub(BURST) * 8 * 1_000_000_000 / RATE;
            let later = send.stamps.sched.unwrap().since(first).unwrap().0;
            let (found, truth) = (leg(send, Leg::Qdisc), tokens.saturating_sub(later));
            eprintln!("{} {i}: {} ms of {} ms", seen.backend, ms(found), ms(truth));
            // The shaper's clock counts in 64 ns and its timer is not early. Late it may be, see
            // below.
            assert!(found + 200_000 >= truth, "{}: {} of {} ms", seen.backend, ms(found), ms(truth));
        }
        let last = seen.sends.last().unwrap();
        let truth = (PACKETS * SIZE - BURST) * 8 * 1_000_000_000 / RATE;
        assert!(leg(last, Leg::Qdisc) < truth * 3 / 2, "{}: {}", seen.backend, ms(leg(last, Leg::Qdisc)));
        assert!(leg(last, Leg::Tcp) < truth / 4, "{}: {}", seen.backend, ms(leg(last, Leg::Tcp)));
        assert_eq!(seen.given(WaitReason::SentAtOnce), seen.sends.len(), "{}", seen.account());
    }
    drop(client);
    reader.join().unwrap();
}

#[test]
fn a_capture_of_the_same_packets_confirms_the_driver_stage() {
    tier::needs!(Need::Root, BTF, TUN, Need::Program("tcpdump"));
    let _turn = turn();
    let lab = scene::path::lab(3);
    let (mut client, server) = join(&lab, &listen(&lab, false));
    let mut watch = Watch::start(&client);
    let dump = Dump::start(&lab);
    let reader = drain(server);
    // Single packets, packets that segmentation offload takes whole, and sends that share a packet.
    let mut written = 0;
    for round in 0..100u64 {
        let bytes = [1, 100, 1_448, 20_000][round as usize % 4];
        client.write_all(&vec![0; bytes]).unwrap();
        written += bytes;
        std::thread::sleep(Duration::from_millis(2));
    }
    set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    for _ in 0..10 {
        client.write_all(&[0; 30]).unwrap();
        written += 30;
    }
    set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
    watch.until(&client, written as u64);
    let segments = dump.finish(client.local_addr().unwrap());
    for seen in watch.finish(&client) {
        let mut apart = Vec::new();
        for send in &seen.sends {
            // The first packet that bears the byte, as retransmissions bear it again.
            let byte = send.last_seq();
            let bears = |s: &&wire::Segment| !byte.is_before(s.seq) && byte.is_before(s.seq.add(s.payload));
            let packet = segments.iter().find(bears);
            let packet = packet.unwrap_or_else(|| panic!("{}: no packet bears {byte} of {send:?}", seen.backend));
            let at = send.stamps.driver.unwrap_or_else(|| panic!("{}: no driver stamp in {send:?}", seen.backend));
            let at = seen.clock.convert(Timestamp { at, source: Source::Kernel, error: Nanos::ZERO });
            apart.push(at.at.as_nanos().abs_diff(packet.at.as_nanos()));
        }
        let all = seen.sends.len();
        eprintln!(
            "{}: {all} sends, {} packets, {} µs apart",
            seen.backend,
            segments.len(),
            median(apart.iter().copied()) / 1_000
        );
        assert_eq!(all, 110, "{}", seen.account());
        assert!(median(apart) < 100_000, "{}", seen.backend);
        // And every byte that was written was traced.
        let bytes: u64 = seen.sends.iter().map(|s| u64::from(s.bytes)).sum();
        assert_eq!(bytes, written as u64, "{}", seen.account());
    }
    drop(client);
    reader.join().unwrap();
}

/// Half of the stamps of one stage lie no further apart than this between the two backends: they
/// stand some calls apart in the kernel, with the other's program between.
const APART: u64 = 20_000;

/// What the first backend says of a stage, and how far it can be wrong, has the second one's stamp
/// within it, but for a few that the machine held up between the two programs.
fn bounds_hold(both: &[(&Send, &Send)]) {
    for stage in [Stage::Sched, Stage::Driver, Stage::Ack] {
        let of = |s: &Send| s.stamps.at(stage).map(|at| at.as_nanos());
        let stamps: Vec<_> = both.iter().filter_map(|(x, y)| Some((of(x)?, of(y)?, *x))).collect();
        let beyond = stamps.iter().filter(|(found, truth, x)| {
            let (from, to) = match stage {
                Stage::Sched => (*found, found + x.stamps.sched_error.0),
                Stage::Driver => (*found, found + x.stamps.driver_error.0),
                _ => (found - x.stamps.ack_error.0, found + x.stamps.ack_error.0),
            };
            truth + 10 * APART < from || *truth > to + 10 * APART
        });
        let beyond: Vec<_> = beyond.collect();
        eprintln!("{stage}: {} of {} beyond the bound", beyond.len(), stamps.len());
        assert!(beyond.len() * 50 <= stamps.len(), "{stage}: {} of {}, as {:?}", beyond.len(), stamps.len(), beyond[0]);
    }
}

#[test]
fn both_backends_agree_on_requests_and_on_a_transfer() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = scene::path::lab(2);
    let (mut client, mut server) = join(&lab, &listen(&lab, false));
    let mut watch = Watch::start(&client);
    exchange(&mut client, &mut server, 150);
    let reader = drain(server);
    let mut written = 150 * 64;
    for round in 0..150 {
        let bytes = 1 + round * 100;
        client.write_all(&vec![0; bytes]).unwrap();
        written += bytes as u64;
    }
    watch.until(&client, written);
    let seen = watch.finish(&client);
    let of_other: HashMap<_, _> = seen[1].sends.iter().map(|s| (s.last_seq().0, s)).collect();
    assert_eq!(seen[0].id, seen[1].id);
    let both: Vec<_> = seen[0].sends.iter().filter_map(|s| Some((s, *of_other.get(&s.last_seq().0)?))).collect();
    let all = [300, 300, 300];
    assert_eq!(
        [both.len(), seen[0].sends.len(), seen[1].sends.len()],
        all,
        "{}\n{}",
        seen[0].account(),
        seen[1].account()
    );
    let unacknowledged = both.iter().find(|(x, y)| x.stamps.ack.is_none() || y.stamps.ack.is_none());
    assert_eq!(unacknowledged, None);
    bounds_hold(&both);
    // The stamp of the packet scheduler may fail to come, and the driver's with it. That is
    // counted.
    let (whole, partial): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|(x, _)| x.stamps.sched.is_some() && x.stamps.driver.is_some());
    let counted = seen[0].summary.lost.no_sched + seen[0].summary.lost.no_driver;
    assert!(partial.len() as u64 <= counted && partial.len() * 10 <= whole.len(), "{}", seen[0].account());
    let both = whole;
    assert!(both.len() >= 150);
    for stage in [Stage::Sched, Stage::Driver, Stage::Ack] {
        let apart = both.iter().map(|(x, y)| {
            let at = |s: &Send| s.stamps.at(stage).unwrap_or_else(|| panic!("no {stage} in {s:?}")).as_nanos();
            at(x).abs_diff(at(y))
        });
        let half = median(apart);
        eprintln!("{stage}: half of {} within {half} ns", both.len());
        assert!(half < APART, "{stage}: {half} ns");
    }
    drop(client);
    reader.join().unwrap();
}
