//! The path's arithmetic against what it promises, over random traffic and settings.

use clock::Nanos;
use lab::line::{Fate, Offer};
use lab::{BitRate, Depth, Direction, Loss, Reorder};
use proptest::prelude::*;

/// A line of which the wire is given each segment as soon as it comes: in a queue that serves in
/// order, no later one changes its fate.
#[derive(Clone)]
struct Line(lab::line::Line<()>);

impl Line {
    fn new(asked: Direction, mtu: u32, seed: u64) -> Self {
        Self(lab::line::Line::new(asked, mtu, seed))
    }

    fn offer(&mut self, now: u64, on_wire: u32, markable: bool) -> Fate {
        let mut fates = Vec::new();
        self.0.offer(now, Offer { on_wire, markable, flow: 0 }, (), &mut fates);
        self.0.serve(u64::MAX, &mut fates);
        assert_eq!(fates.len(), 1, "one segment has one fate");
        fates[0].1
    }

    fn change(&mut self, now: u64, to: Direction) {
        self.0.change(now, to, &mut Vec::new());
    }
}

/// Gaps between arrivals, ns, and sizes on the wire.
fn traffic() -> impl Strategy<Value = Vec<(u64, u32)>> {
    prop::collection::vec((prop_oneof![Just(0u64), 0..20_000u64, 0..5_000_000u64], 84u32..1_539), 1..400)
}

fn directions() -> impl Strategy<Value = Direction> {
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..1.0f64).prop_map(Loss::Independent),
        (0.0..0.5f64, 1.0..20.0f64).prop_filter_map("no such chain", |(p, n)| Loss::bursts(p, n)),
    ];
    let queue = prop_oneof![
        (1_538u64..100_000).prop_map(Depth::Bytes),
        (1u64..20_000_000).prop_map(|ns| Depth::Time(Nanos(ns))),
    ];
    let reorder = (0.0..0.5f64, 0u64..3_000_000).prop_map(|(share, by)| Reorder { share, by: Nanos(by) });
    let times = (0u64..30_000_000, 0.0..1.0f64);
    let rate = prop::option::of((10_000u64..10_000_000_000, prop::option::of(queue)));
    (times, rate, loss, prop::option::of(reorder), 0.0..0.5f64).prop_map(
        |((delay, jitter), rate, loss, reorder, duplicate)| Direction {
            delay: Nanos(delay),
            jitter: Nanos((delay as f64 * jitter) as u64),
            rate: rate.and_then(|(r, _)| BitRate::new(r)),
            queue: rate.and_then(|(_, q)| q),
            loss,
            reorder,
            duplicate,
            ..Direction::default()
        },
    )
}

/// Each segment's arrival at the line, its size and its fate.
fn pass(line: &mut Line, traffic: &[(u64, u32)]) -> Vec<(u64, u32, Fate)> {
    let mut now = 1_000;
    traffic
        .iter()
        .map(|&(gap, size)| {
            now += gap;
            (now, size, line.offer(now, size, false))
        })
        .collect()
}

fn sent(fate: &Fate) -> Option<u64> {
    match fate {
        Fate::QueueFull | Fate::DroppedEarly => None,
        Fate::Lost { sent } => Some(*sent),
        Fate::Arrives(a) => Some(a.sent),
    }
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_fates(asked in directions(), traffic in traffic(), seed: u64) {
        let first = pass(&mut Line::new(asked.clone(), 1_500, seed), &traffic);
        prop_assert_eq!(first, pass(&mut Line::new(asked, 1_500, seed), &traffic));
    }

    #[test]
    fn losses_depend_on_order_alone(asked in directions(), traffic in traffic(), seed: u64, other_gap in 0u64..50_000_000) {
        let slow: Vec<_> = traffic.iter().map(|&(gap, size)| (gap + other_gap, size)).collect();
        let free = Direction { rate: None, queue: None, ..asked };
        let lost = |t: &[(u64, u32)]| -> Vec<bool> {
            let passed = pass(&mut Line::new(free.clone(), 1_500, seed), t);
            passed.iter().map(|(_, _, fate)| matches!(fate, Fate::Lost { .. })).collect()
        };
        prop_assert_eq!(lost(&traffic), lost(&slow));
    }

    #[test]
    fn the_rate_is_never_exceeded_over_any_interval(asked in directions(), traffic in traffic(), seed: u64) {
        let Some(rate) = asked.rate else { return Ok(()) };
        let passed = pass(&mut Line::new(asked, 1_500, seed), &traffic);
        let on_wire: Vec<(u64, u64)> =
            passed.iter().filter_map(|(_, size, fate)| Some((sent(fate)?, u64::from(*size)))).collect();
        for (i, (start, _)) in on_wire.iter().enumerate() {
            let mut bits = 0u128;
            for (end, size) in &on_wire[i + 1..] {
                bits += u128::from(*size) * 8;
                // Both ends are rounded up to a whole nanosecond, so an interval can be short by
                // one.
                prop_assert!(bits * 1_000_000_000 <= u128::from(end - start + 1) * u128::from(rate.bits()));
            }
        }
    }

    #[test]
    fn a_busy_wire_loses_no_time(traffic in traffic(), rate in 1_000_000u64..10_000_000_000) {
        let asked = Direction {
            rate: BitRate::new(rate), queue: Some(Depth::Bytes(1 << 40)), ..Direction::default()
        };
        let passed = pass(&mut Line::new(asked, 1_500, 1), &traffic);
        let mut free = 0.0f64;
        for (now, size, fate) in passed {
            free = free.max(now as f64) + f64::from(size) * 8e9 / rate as f64;
            let sent = sent(&fate).unwrap() as f64;
            prop_assert!((sent - free).abs() <= 2.0, "sent at {} instead of {}", sent, free);
        }
    }

    #[test]
    fn the_queue_never_holds_more_than_asked(traffic in traffic(), rate in 10_000u64..1_000_000_000, limit in 1_538u64..50_000) {
        let asked = Direction {
            rate: BitRate::new(rate), queue: Some(Depth::Bytes(limit)), ..Direction::default()
        };
        let mut line = Line::new(asked, 1_500, 1);
        for (now, _, fate) in pass(&mut line.clone(), &traffic) {
            let at = sent(&fate).unwrap_or(now);
            let bytes = u128::from(at - now) * u128::from(rate) / 8_000_000_000;
            prop_assert!(bytes <= u128::from(limit) + 1, "{} B waited", bytes);
        }
        // And it drops only where there was no room.
        let mut now = 0;
        for (gap, size) in traffic {
            now += gap;
            let waiting = u128::from(line.0.backlog(now)) * u128::from(rate) / 8_000_000_000;
            if line.offer(now, size, false) == Fate::QueueFull {
                prop_assert!(waiting + u128::from(size) > u128::from(limit));
            }
        }
    }

    #[test]
    fn arrivals_lie_within_the_delay_asked_for_and_in_order(asked in directions(), traffic in traffic(), seed: u64) {
        let ordered = asked.reorder.is_none();
        let hold = asked.reorder.map_or(0, |r| r.by.0);
        let mut latest = 0;
        let mut promised = 0;
        for (now, _, fate) in pass(&mut Line::new(asked.clone(), 1_500, seed), &traffic) {
            let Fate::Arrives(a) = fate else { continue };
            prop_assert!(a.sent >= now && a.at >= a.sent + asked.delay.0 - asked.jitter.0);
            // Held up behind an earlier one at most until that one arrives.
            let own = a.sent + asked.delay.0 + asked.jitter.0 + hold;
            prop_assert!(a.at <= own.max(promised));
            prop_assert!(!ordered || a.at >= latest);
            latest = a.at;
            promised = promised.max(own);
        }
    }
}

/// How far a share of `n` draws may lie from `p`: five standard deviations, passed once in two
/// million runs.
fn bound(p: f64, n: usize) -> f64 {
    5.0 * (p * (1.0 - p) / n as f64).sqrt()
}

fn losses(loss: Loss, n: usize, seed: u64) -> Vec<bool> {
    let mut line = Line::new(Direction { loss, ..Direction::default() }, 1_500, seed);
    (0..n).map(|i| matches!(line.offer(i as u64, 100, false), Fate::Lost { .. })).collect()
}

#[test]
fn independent_loss_has_its_share_and_no_memory() {
    for (seed, p) in [(1, 0.001), (2, 0.01), (3, 0.3)] {
        let n = 400_000;
        let lost = losses(Loss::Independent(p), n, seed);
        let share = lost.iter().filter(|l| **l).count() as f64 / n as f64;
        assert!((share - p).abs() < bound(p, n), "{share} instead of {p}");
        let after_loss: Vec<bool> = lost.windows(2).filter(|w| w[0]).map(|w| w[1]).collect();
        let again = after_loss.iter().filter(|l| **l).count() as f64 / after_loss.len() as f64;
        assert!((again - p).abs() < bound(p, after_loss.len()), "{again} of losses follow a loss, instead of {p}");
    }
}

#[test]
fn bursts_have_their_share_and_their_length() {
    for (seed, p, length) in [(1, 0.01, 8.0), (2, 0.05, 3.0), (3, 0.2, 1.5)] {
        let n = 1_000_000;
        let lost = losses(Loss::bursts(p, length).unwrap(), n, seed);
        let count = lost.iter().filter(|l| **l).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // Burst lengths are geometric: their variance is length·(length − 1).
        let spread = 5.0 * (length * (length - 1.0) / bursts).sqrt();
        assert!((count / bursts - length).abs() < spread, "{} in a row instead of {length}", count / bursts);
        let share = count / n as f64;
        // Draws within a burst go together, so the share varies as that of so many fewer draws.
        let wider = bound(p, n) * (2.0 * length).sqrt();
        assert!((share - p).abs() < wider, "{share} instead of {p}");
    }
}

#[test]
fn copies_and_holds_have_their_shares() {
    let reorder = Some(Reorder { share: 0.02, by: Nanos::from_millis(1) });
    let asked = Direction { duplicate: 0.1, reorder, ..Direction::default() };
    let mut line = Line::new(asked, 1_500, 5);
    let n = 200_000;
    let fates: Vec<_> = (0..n).map(|i| line.offer(i, 100, false)).collect();
    let share = |of: fn(&lab::line::Arrival) -> bool| {
        let count = fates.iter().filter(|f| matches!(f, Fate::Arrives(a) if of(a))).count();
        count as f64 / n as f64
    };
    assert!((share(|a| a.twice) - 0.1).abs() < bound(0.1, n as usize));
    assert!((share(|a| a.held) - 0.02).abs() < bound(0.02, n as usize));
}

#[test]
fn marks_begin_at_the_threshold_and_spare_what_cannot_be_marked() {
    // 1,250 bytes at 10 Mbit/s take exactly a millisecond.
    let asked = Direction {
        rate: Some(BitRate::mbit(10)),
        queue: Some(Depth::Time(Nanos::from_millis(10))),
        ecn: Some(Depth::Time(Nanos::from_millis(3))),
        ..Direction::default()
    };
    let mut line = Line::new(asked, 1_500, 1);
    let fates: Vec<_> = (0..12).map(|i| line.offer(0, 1_250, i != 5)).collect();
    let marked: Vec<_> = fates.iter().map(|f| matches!(f, Fate::Arrives(a) if a.marked)).collect();
    // The fifth finds four milliseconds waiting, the sixth cannot be marked, the eleventh finds no
    // room.
    let expected: Vec<bool> = (0..12).map(|i| (4..10).contains(&i) && i != 5).collect();
    assert_eq!(marked, expected);
    assert_eq!(fates[10..], [Fate::QueueFull; 2]);
}

#[test]
fn a_change_holds_from_the_next_segment_on() {
    let mut line = Line::new(Direction { rate: Some(BitRate::mbit(10)), ..Direction::default() }, 1_500, 1);
    let first = line.offer(0, 1_250, false);
    line.change(0, Direction { rate: Some(BitRate::mbit(100)), delay: Nanos(7), ..Direction::default() });
    let second = line.offer(0, 1_250, false);
    assert_eq!((sent(&first), sent(&second)), (Some(1_000_000), Some(1_100_000)));
    assert!(matches!(second, Fate::Arrives(a) if a.at == 1_100_007));
}

#[test]
fn packets_above_the_black_holes_size_vanish_and_no_others() {
    let asked = Direction { black_hole: Some(1_400), ..Direction::default() };
    let mut line = Line::new(asked, 1_500, 1);
    for (packet, passes) in [(40, true), (1_399, true), (1_400, true), (1_401, false), (1_500, false)] {
        let on_wire = (packet + lab::ETHERNET_OVERHEAD).max(lab::SMALLEST_ON_WIRE);
        assert_eq!(matches!(line.offer(0, on_wire, false), Fate::Arrives(_)), passes, "{packet} bytes");
    }
}

/// What waits for the wire when the rate changes leaves at the new rate, and without delay where
/// there is none any more.
#[test]
fn what_waits_meets_the_new_rate() {
    let at = |rate: Option<BitRate>| {
        let slow = Direction { rate: Some(BitRate::mbit(1)), ..Direction::default() };
        let mut line = lab::line::Line::new(slow, 1_500, 1);
        let mut fates = Vec::new();
        // 1,250 bytes take 10 ms each: the first is on the wire when the rate changes, nine wait.
        for i in 0..10 {
            line.offer(0, Offer { on_wire: 1_250, markable: false, flow: 0 }, i, &mut fates);
        }
        line.change(5_000_000, Direction { rate, ..Direction::default() }, &mut fates);
        line.serve(1_000_000_000, &mut fates);
        let sent: Vec<(i32, u64)> = fates.iter().map(|(tag, fate)| (*tag, sent(fate).unwrap())).collect();
        sent
    };
    let expected: Vec<_> = (0..10).map(|i| (i, 10_000_000 + i as u64 * 100_000)).collect();
    assert_eq!(at(Some(BitRate::mbit(100))), expected);
    let expected: Vec<_> = (0..10).map(|i| (i, 10_000_000)).collect();
    assert_eq!(at(None), expected);
}
