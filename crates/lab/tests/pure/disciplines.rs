//! The queue disciplines against what their RFCs promise, in simulated time with seeded traffic.

use clock::Nanos;
use lab::line::{Fate, Fates, Line, Offer};
use lab::{BitRate, CodelSettings, Direction, Discipline, FqCodelSettings, PieSettings, parse};

const MILLISECOND: u64 = 1_000_000;
const FULL: u32 = 1_538;
const RATE: u64 = 10_000_000;

/// What became of one sender's segments.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Delivered segments: when they came to the queue, and when they left.
    delivered: Vec<(u64, u64)>,
    dropped_full: u64,
    dropped_early: u64,
    marked: u64,
}

impl Outcome {
    /// The wait at a quantile of those that came after `from`, ms.
    fn wait(&self, quantile: f64, from: u64) -> f64 {
        let mut waits: Vec<u64> =
            self.delivered.iter().filter(|(at, _)| *at >= from).map(|(at, out)| out - at).collect();
        waits.sort_unstable();
        waits[(waits.len() as f64 * quantile) as usize] as f64 / 1e6
    }
}

/// A sender: additive increase each round trip, and halving after a drop or a mark, as Reno does;
/// or a rate that heeds nothing.
#[derive(Clone, Debug)]
enum Sender {
    Reno {
        window: f64,
        in_flight: f64,
        halved: u64,
        ecn: bool,
    },
    /// Segments of so many bytes, each so many nanoseconds.
    Steady {
        bytes: u32,
        every: u64,
        next: u64,
    },
}

fn reno() -> Sender {
    Sender::Reno { window: 4.0, in_flight: 0.0, halved: 0, ecn: false }
}

/// Runs the senders over a line of 10 Mbit/s with this discipline and a round trip of 50 ms besides
/// the queue.
fn simulate(qdisc: Discipline, mut senders: Vec<Sender>, seconds: u64) -> Vec<Outcome> {
    const ROUND_TRIP: u64 = 50 * MILLISECOND;
    let asked = Direction { rate: BitRate::new(RATE), qdisc, ..Direction::default() };
    let mut line: Line<(usize, u64)> = Line::new(asked, 1_500, 1);
    let mut outcomes = vec![Outcome::default(); senders.len()];
    let mut fates: Fates<(usize, u64)> = Vec::new();
    // What each sender hears of: when, and whether it was dropped or marked.
    let mut news: Vec<(u64, usize, bool)> = Vec::new();
    let mut now = 0;
    while now < seconds * 1_000 * MILLISECOND {
        line.serve(now, &mut fates);
        for (i, sender) in senders.iter_mut().enumerate() {
            let mut offer = |bytes: u32, ecn: bool| {
                line.offer(now, Offer { on_wire: bytes, markable: ecn, flow: i as u32 * 7_919 }, (i, now), &mut fates);
            };
            match sender {
                // At most two for each it hears of, as a burst would be none of TCP's.
                Sender::Reno { window, in_flight, ecn, .. } => {
                    let mut burst = 0;
                    while *in_flight + 1.0 <= *window && burst < 2 {
                        *in_flight += 1.0;
                        burst += 1;
                        offer(FULL, *ecn);
                    }
                }
                Sender::Steady { bytes, every, next } => {
                    while *next <= now {
                        *next += *every;
                        offer(*bytes, false);
                    }
                }
            }
        }
        for ((i, entered), fate) in fates.drain(..) {
            let outcome = &mut outcomes[i];
            let (at, bad) = match fate {
                Fate::Arrives(a) => {
                    outcome.delivered.push((entered, a.sent));
                    outcome.marked += u64::from(a.marked);
                    (a.sent, a.marked)
                }
                Fate::QueueFull => {
                    outcome.dropped_full += 1;
                    (now, true)
                }
                Fate::DroppedEarly => {
                    outcome.dropped_early += 1;
                    (now, true)
                }
                Fate::Lost { .. } => unreachable!("nothing is lost on this line"),
            };
            news.push((at + ROUND_TRIP, i, bad));
        }
        news.retain(|&(at, i, bad)| {
            if at > now {
                return true;
            }
            if let Sender::Reno { window, in_flight, halved, .. } = &mut senders[i] {
                *in_flight -= 1.0;
                if !bad {
                    *window += 1.0 / *window;
                } else if *halved + ROUND_TRIP <= now {
                    *window = (*window / 2.0).max(2.0);
                    *halved = now;
                }
            }
            false
        });
        now += MILLISECOND / 10;
    }
    outcomes
}

fn named(text: &str) -> Discipline {
    parse::discipline(text).unwrap()
}

/// RFC 8289: a standing queue is brought down to the target and the wire stays busy; a fifo fills
/// what it has.
#[test]
fn codel_holds_the_wait_near_its_target() {
    let second = 1_000 * MILLISECOND;
    let fifo = &simulate(Discipline::Fifo, vec![reno()], 30)[0];
    assert!(fifo.wait(0.5, 10 * second) > 100.0, "a fifo holds what it may: {} ms", fifo.wait(0.5, 10 * second));
    let codel = &simulate(named("codel"), vec![reno()], 30)[0];
    let median = codel.wait(0.5, 10 * second);
    assert!((1.0..15.0).contains(&median), "median wait {median} ms");
    assert_eq!(codel.dropped_full, 0);
    assert!(codel.dropped_early > 0);
    let sent =
        codel.delivered.iter().filter(|(at, _)| *at >= 10 * second).count() as f64 * f64::from(FULL) * 8.0 / 20.0;
    assert!(sent > 0.8 * RATE as f64, "{sent} bit/s");
}

/// RFC 8289, section 5.3: one drop after an interval above target, and the next ones closer by the
/// square root of their number.
#[test]
fn codel_drops_by_the_control_law() {
    // Twice the rate, heeding nothing.
    let every = u64::from(FULL) * 8 * 1_000_000_000 / RATE / 2;
    let asked = Direction {
        rate: BitRate::new(RATE),
        qdisc: named("codel"),
        queue: Some(lab::Depth::Bytes(1 << 40)),
        ..Direction::default()
    };
    let mut line: Line<()> = Line::new(asked, 1_500, 1);
    let (mut fates, mut drops) = (Vec::new(), Vec::new());
    for i in 0..4_000u64 {
        let now = i * every;
        line.offer(now, Offer { on_wire: FULL, markable: false, flow: 0 }, (), &mut fates);
        drops.extend(fates.drain(..).filter(|(_, fate)| *fate == Fate::DroppedEarly).map(|_| now));
    }
    // The queue passes 5 ms of wait at about 10 ms, and an interval later the first segment goes.
    let first = drops[0] as f64 / 1e6;
    assert!((105.0..125.0).contains(&first), "the first drop at {first} ms");
    for (n, pair) in drops.windows(2).enumerate().take(40) {
        let gap = (pair[1] - pair[0]) as f64 / 1e6;
        let law = 100.0 / ((n + 1) as f64).sqrt();
        // A drop happens as a segment leaves, of which each takes 1.23 ms.
        assert!((gap - law).abs() < 2.6, "gap {n}: {gap} ms, the law says {law}");
    }
}

/// With ECN nothing is dropped that can be marked.
#[test]
fn codel_marks_what_can_be_marked() {
    let sender = Sender::Reno { window: 4.0, in_flight: 0.0, halved: 0, ecn: true };
    for qdisc in ["codel:ecn", "fq_codel", "pie:ecn"] {
        let outcome = &simulate(named(qdisc), vec![sender.clone()], 20)[0];
        assert!(outcome.marked > 0, "{qdisc}: {outcome:?}");
        assert_eq!((outcome.dropped_early, outcome.dropped_full), (0, 0), "{qdisc}");
    }
    let without = &simulate(named("fq_codel:noecn"), vec![sender], 20)[0];
    assert!(without.marked == 0 && without.dropped_early > 0);
}

/// RFC 8290, section 1: flows share the wire evenly, and a sparse one waits for hardly more than a
/// segment of each.
#[test]
fn fq_codel_shares_evenly_and_lets_sparse_flows_pass() {
    let sparse = Sender::Steady { bytes: 200, every: 20 * MILLISECOND, next: 0 };
    // Three windows, and one that takes more than its share and heeds nothing.
    let greedy = Sender::Steady { bytes: FULL, every: u64::from(FULL) * 8 * 1_000_000_000 / RATE * 2, next: 0 };
    let senders = vec![reno(), reno(), greedy, sparse];
    let second = 1_000 * MILLISECOND;
    let outcomes = simulate(named("fq_codel"), senders.clone(), 30);
    let share = |o: &Outcome| {
        o.delivered.iter().filter(|(at, _)| *at >= 10 * second).count() as f64 * f64::from(FULL) * 8.0
            / 20.0
            / RATE as f64
    };
    let shares: Vec<f64> = outcomes[..3].iter().map(share).collect();
    assert!(shares.iter().all(|s| (0.26..0.40).contains(s)), "{shares:?}");
    let waited = outcomes[3].wait(0.99, 10 * second);
    assert!(waited < 5.0, "p99 of the sparse flow {waited} ms");
    assert_eq!(outcomes[3].dropped_early + outcomes[3].dropped_full, 0);
    // In one queue the same sparse flow waits as long as all others.
    let codel = simulate(named("codel"), senders, 30);
    assert!(codel[3].wait(0.99, 10 * second) > 2.0 * waited);
}

/// RFC 8290, section 4.1: an overflow is taken from the flow that has the most.
#[test]
fn fq_codel_overflows_at_the_cost_of_the_fattest() {
    let asked = Direction {
        rate: BitRate::new(RATE),
        qdisc: named("fq_codel"),
        queue: Some(lab::Depth::Bytes(50_000)),
        ..Direction::default()
    };
    let mut line: Line<u32> = Line::new(asked, 1_500, 1);
    let mut fates = Vec::new();
    for i in 0..200u64 {
        let flow = if i % 20 == 0 { 1 } else { 2 };
        line.offer(i * 1_000, Offer { on_wire: FULL, markable: false, flow: flow * 7_919 }, flow, &mut fates);
    }
    line.serve(u64::MAX / 2, &mut fates);
    let dropped = |flow: u32| fates.iter().filter(|(f, fate)| *f == flow && *fate == Fate::QueueFull).count();
    assert_eq!(dropped(1), 0);
    assert!(dropped(2) > 100);
}

/// RFC 8033: the wait settles near the target of 15 ms, a first burst of 150 ms passes whole, and
/// the wire stays busy.
#[test]
fn pie_settles_near_its_target() {
    let second = 1_000 * MILLISECOND;
    let outcome = &simulate(named("pie"), (0..4).map(|_| reno()).collect(), 60)[0];
    let median = outcome.wait(0.5, 20 * second);
    assert!((5.0..30.0).contains(&median), "median wait {median} ms");
    assert_eq!(outcome.dropped_full, 0);
    assert!(outcome.dropped_early > 0);
    let asked = Direction { rate: BitRate::new(RATE), qdisc: named("pie"), ..Direction::default() };
    let mut line: Line<()> = Line::new(asked, 1_500, 1);
    let mut fates = Vec::new();
    for i in 0..100 {
        line.offer(i * MILLISECOND, Offer { on_wire: FULL, markable: false, flow: 0 }, (), &mut fates);
    }
    line.serve(u64::MAX / 2, &mut fates);
    assert!(fates.iter().all(|(_, fate)| matches!(fate, Fate::Arrives(_))), "a burst of 100 ms passes");
}

/// The same seed and the same segments meet the same fates.
#[test]
fn disciplines_repeat() {
    for qdisc in ["fifo", "codel", "fq_codel", "pie"] {
        let run = || simulate(named(qdisc), vec![reno(), reno(), reno()], 5);
        let (first, second) = (run(), run());
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(a.delivered, b.delivered, "{qdisc}");
        }
    }
}

#[test]
fn settings_of_disciplines_are_read() {
    assert_eq!(named("codel"), Discipline::Codel(CodelSettings::DEFAULT));
    let codel = CodelSettings { target: Nanos::from_millis(13), interval: Nanos::from_millis(300), ecn: true };
    assert_eq!(named("codel:target=13ms,interval=300ms,ecn"), Discipline::Codel(codel));
    let fair = FqCodelSettings { flows: 64, codel: CodelSettings { ecn: false, ..CodelSettings::DEFAULT } };
    assert_eq!(named("fq_codel:flows=64,noecn"), Discipline::FqCodel(fair));
    assert_eq!(
        named("pie:target=20ms"),
        Discipline::Pie(PieSettings { target: Nanos::from_millis(20), ..PieSettings::DEFAULT })
    );
    for (text, word) in [
        ("red", "fq_codel"),
        ("codel:aim=5ms", "target"),
        ("pie:flows=3", "update"),
        ("fifo:ecn", "none"),
        ("codel:target=x", ""),
    ] {
        let said = parse::discipline(text).unwrap_err().to_string();
        assert!(said.contains(word), "{text}: {said}");
    }
}

/// A recorded link lets 1,504 bytes pass at each of its moments, a large packet in two where one
/// has a part left, and wastes what is not used.
#[test]
fn a_recorded_link_serves_at_its_moments() {
    let recording = std::sync::Arc::new(lab::Recording::read("x", "0\n10\n10\n40\n50\n").unwrap());
    assert_eq!((recording.about.lines, recording.about.period), (5, Nanos::from_millis(50)));
    let asked = Direction { recorded: Some(recording.about.clone()), ..Direction::default() };
    let mut line: Line<u32> = Line::new(asked, 1_500, 1).with_recording(recording, 1_000);
    let mut fates = Vec::new();
    let mut offer = |line: &mut Line<u32>, ms: u64, tag: u32, packet: u32| {
        line.offer(1_000 + ms * MILLISECOND, Offer { on_wire: packet + 38, markable: false, flow: 0 }, tag, &mut fates);
    };
    // Nothing is there at 0 ms; at 10 ms four of 740 bytes leave in two turns, and a fifth of 1,500
    // bytes waits for 40 ms.
    for (tag, packet) in [(1, 740), (2, 740), (3, 740), (4, 740), (5, 1_500)] {
        offer(&mut line, 5, tag, packet);
    }
    // After one loop of 50 ms: 50 is 0 of the next, then 60.
    offer(&mut line, 41, 6, 1_500);
    offer(&mut line, 52, 7, 1_500);
    line.serve(1_000 + 200 * MILLISECOND, &mut fates);
    let sent: Vec<(u32, u64)> = fates
        .iter()
        .map(|(tag, fate)| match fate {
            Fate::Arrives(a) => (*tag, (a.sent - 1_000) / MILLISECOND),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent, [(1, 10), (2, 10), (3, 10), (4, 10), (5, 40), (6, 50), (7, 60)]);
}

#[test]
fn files_that_are_no_recorded_links_are_refused_with_their_line() {
    for (text, line, word) in [
        ("", 1, "no line"),
        ("1\nx\n", 2, "milliseconds"),
        ("5\n4\n", 2, "forward"),
        ("0\n0\n", 2, "0 ms"),
        ("1\n-2\n", 2, "milliseconds"),
        ("1.5\n", 1, "whole"),
    ] {
        let said = lab::Recording::read("up.trace", text).unwrap_err().to_string();
        assert!(said.starts_with(&format!("up.trace:{line}: ")) && said.contains(word), "{text:?}: {said}");
    }
}
