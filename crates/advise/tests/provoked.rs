//! Causes provoked in a lab and captured there; then advised from the packets alone.

use advise::{Advice, Effect, End, Fit, Fitted, Goal, Limits, Trial, Twin};
use diagnose::conditions::Conditions;
use lab::{BitRate, Config, Direction, Side};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use record::Nanos;
use record::conversation::FindingKind;
use record::script::{Script, Step};
use tier::Need;
use traffic::SocketOptions;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

const fn step(after: u64, think: Nanos, bytes: u64) -> Step {
    Step { after, think, bytes }
}

/// A path of `round_trip` and `rate`.
fn original(round_trip: Nanos, rate: BitRate, script: Script) -> Twin {
    let direction = Direction { delay: Nanos(round_trip.0 / 2), rate: Some(rate), ..Direction::default() };
    let end = || End {
        options: SocketOptions { congestion_control: Some("cubic".into()), ..SocketOptions::default() },
        ..End::default()
    };
    Twin { path: Config::symmetric(direction), ends: [end(), end()], script, passes: 1, fast_open: false, ipv6: false }
}

/// The conditions that its packets show, captured at the client.
fn captured(original: &Twin) -> Conditions {
    captured_at(original, Side::A, Nanos::from_secs(60))
}

/// The same, captured there and given up after that time.
fn captured_at(original: &Twin, side: Side, at_most: Nanos) -> Conditions {
    let trial: Trial = advise::run(original, 7, Some(side), at_most).unwrap();
    Conditions::of(&trial.report.expect("packets"))
}

/// The conditions of an original in which most of the time is this limit's: a machine that holds up
/// the sender makes another of it.
fn captured_limited_by(original: &Twin, limit: &str) -> Conditions {
    let mut seen = Vec::new();
    let limited = (0..3).map(|_| captured(original)).find(|c| {
        seen.push(c.limits.clone());
        c.limits.iter().max_by_key(|of| of.1).is_some_and(|most| most.0 == limit)
    });
    limited.unwrap_or_else(|| panic!("{limit} never took most: {seen:?}"))
}

fn advised(c: Conditions) -> Advice {
    let goal = Goal::likely(&c);
    advised_for(c, goal)
}

fn advised_for(c: Conditions, goal: Goal) -> Advice {
    let fitted = fitted(&c);
    tried(c, &fitted, goal, Nanos::from_secs(90))
}

/// A twin that agrees.
fn fitted(c: &Conditions) -> Fitted {
    let mut fits = Vec::new();
    agreeing(c, &mut fits).unwrap_or_else(|| panic!("no twin agrees: {:#?} {:#?}", c.limits, fits))
}

/// A twin that agrees, where there is one, and how well each did.
fn agreeing(c: &Conditions, fits: &mut Vec<Fit>) -> Option<Fitted> {
    assert_eq!(c.missing, Vec::<String>::new());
    // A busy machine is no condition of the original's.
    (1..=3).map(|seed| advise::fit(c, seed, &mut |_| {}).unwrap()).find(|of| {
        fits.push(of.fit.clone());
        of.fit.agrees()
    })
}

/// The advice of trials with it for so long.
fn tried(c: Conditions, fitted: &Fitted, goal: Goal, budget: Nanos) -> Advice {
    let (candidates, not) = advise::candidates(&c, None);
    let until = traffic::now().after(budget);
    let limits = Limits { until, seed: 1, goal };
    let compared = advise::compare(&c, fitted, &candidates, limits, &mut |_| {}, &|| true).unwrap();
    Advice::of_trials(c, goal, fitted, &compared, None, &not).unwrap()
}

fn best(advice: &Advice) -> &str {
    for o in &advice.remedies {
        eprintln!("{:?} {} {:?} → {:?} {:?} n = {}", o.effect, o.remedy, o.before_ns, o.after_ns, o.within, o.n);
    }
    &advice.best().unwrap_or_else(|| panic!("nothing helps: {:#?}", advice.remedies)).remedy
}

/// One write of so many bytes by the client.
fn upload(bytes: u64) -> Script {
    Script { client: vec![step(0, Nanos::ZERO, bytes)], server: vec![] }
}

#[test]
fn two_writes_that_wait_for_a_delayed_ack_become_one_or_leave_at_once() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let exchanges = 12;
    let client = (0..exchanges).flat_map(|i| [step(i * 200, Nanos::ZERO, 4), step(i * 200, Nanos::ZERO, 100)]);
    let server = (1..=exchanges).map(|i| step(i * 104, Nanos::ZERO, 200));
    let script = Script { client: client.collect(), server: server.collect() };
    let c = captured(&original(ms(10), BitRate::mbit(100), script));
    assert_eq!(c.script.client.len(), 24, "{:?}", c.script);
    let advice = advised(c);
    // All three help.
    assert!(["TCP_NODELAY", "quick ACKs", "one write instead of several"].contains(&best(&advice)), "{advice:#?}");
    let nodelay = advice.remedies.iter().find(|r| r.remedy == "TCP_NODELAY").unwrap();
    // 12 exchanges of 10 ms take their round trips; 40 ms of delayed ACK each are gone.
    assert!(nodelay.effect == Effect::Helps && nodelay.change.is_some_and(|c| c < -0.5), "{nodelay:?}");
    let after = advice.after.as_ref().unwrap();
    let waits = |shares: &[(String, f64)]| shares.iter().find(|(name, _)| name == "ack_waiting").unwrap().1;
    assert!(waits(&after.shares) < 0.1 && waits(&advice.fit.as_ref().unwrap().shares) > 0.4, "{advice:#?}");
}

#[test]
fn a_window_without_scaling_is_scaled() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(40), BitRate::mbit(200), upload(2_000_000));
    original.ends[1].sysctls.insert("net.ipv4.tcp_window_scaling".into(), "0".into());
    let c = captured(&original);
    assert!(!c.hosts[1].window_scaling.value && c.hosts[0].window_scaling.value, "{:?}", c.hosts);
    assert_eq!(best(&advised(c)), "window scaling");
}

#[test]
fn a_receive_buffer_that_is_too_small_for_its_path_is_made_larger() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(40), BitRate::mbit(200), upload(2_000_000));
    original.ends[1].options.receive_buffer_bytes = Some(65_536);
    assert_eq!(best(&advised(captured_limited_by(&original, "receive_window"))), "a larger receive buffer");
}

/// How long the original takes with a remedy, the median of several runs, ns.
fn with(remedy: &str, original: &Twin, c: &Conditions) -> f64 {
    let (candidates, _) = advise::candidates(c, None);
    let candidate = candidates.iter().find(|candidate| candidate.remedy.name == remedy).unwrap();
    let mut changed = original.clone();
    candidate.remedy.apply(&mut changed, candidate.way);
    let run = |seed| advise::run(&changed, seed, None, Nanos::from_secs(60)).unwrap().completion.0 as f64;
    stats::median(&(1..=5).map(run).collect::<Vec<f64>>()).unwrap()
}

/// Whether a larger send buffer is the best for the original, and does to it what was promised.
fn a_larger_send_buffer_keeps_its_promise(original: &Twin) -> bool {
    let c = captured(original);
    let level = c.hosts[0].drains_to.clone();
    let Some(fitted) = agreeing(&c, &mut Vec::new()) else { return false };
    let [had, has] = [&original.ends[0], &fitted.twin.ends[0]].map(|end| end.options.send_buffer_bytes);
    let advice = tried(c, &fitted, Goal::Completion, Nanos::from_secs(25));
    let Some(first) = advice.best() else { return false };
    let promised = first.after_ns.unwrap().0 as f64;
    let came = with(&first.remedy, original, &advice.conditions);
    eprintln!("{had:?} as {has:?} by {level:?}: {} promised {promised:.0} ns, {came:.0} ns came", first.remedy);
    first.remedy == "a larger send buffer" && (promised / came - 1.0).abs() <= 0.15
}

/// The same within a few captures: a machine that holds up the sender makes pauses of its own.
fn is_made_larger(original: &Twin) {
    let kept = (1..=4).any(|_| a_larger_send_buffer_keeps_its_promise(original));
    assert!(kept, "{:?} {:?}", original.path.a_to_b.delay, original.ends[0].options);
}

#[test]
fn a_send_buffer_that_is_too_small_for_its_path_is_made_larger() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut draw = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..2 {
        let (round_trip, buffer) = (draw.random_range(20..=80), draw.random_range(16..=96) * 1_024);
        // What is in flight is about the buffer, so the transfer takes about so many round trips.
        let script = upload(u64::from(buffer) * draw.random_range(24..=32));
        let mut original = original(ms(round_trip), BitRate::mbit(200), script);
        original.ends[0].options.send_buffer_bytes = Some(buffer);
        // Each write leaves at once, so that the buffer holds no more than its size.
        original.ends[0].options.nodelay = Some(true);
        is_made_larger(&original);
    }
}

#[test]
fn nothing_on_the_network_helps_a_program_that_thinks() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let client = (0..8).map(|i| step(i * 200, Nanos::ZERO, 100));
    let server = (1..=8).map(|i| step(i * 100, ms(100), 200));
    let script = Script { client: client.collect(), server: server.collect() };
    let c = captured(&original(ms(5), BitRate::mbit(100), script));
    let advice = advised(c);
    assert!(advice.best().is_none(), "{:#?}", advice.remedies);
    let (side, share) = advice.program().unwrap();
    assert!(side == record::conversation::Side::Server && share > 0.8, "{share}");
    assert!(!advice.remedies.is_empty() && advice.remedies.iter().all(|r| r.effect != Effect::Helps), "{advice:#?}");
}

#[test]
fn a_window_that_is_given_up_after_every_pause_is_kept() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let client = (0..6).map(|i| step(i * 10, if i == 0 { Nanos::ZERO } else { ms(600) }, 400_000));
    let server = (1..=6).map(|i| step(i * 400_000, Nanos::ZERO, 10));
    let script = Script { client: client.collect(), server: server.collect() };
    let c = captured(&original(ms(60), BitRate::mbit(200), script));
    // The pauses are the program's; what can become shorter is the wait for each answer.
    assert_eq!(Goal::likely(&c), Goal::Latency);
    assert_eq!(best(&advised(c)), "no slow start after idle");
}

#[test]
fn losses_that_reno_takes_for_congestion_are_no_matter_to_bbr() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(30), BitRate::mbit(50), upload(3_000_000));
    original.path.a_to_b.loss = lab::Loss::Independent(0.01);
    original.ends.iter_mut().for_each(|end| end.options.congestion_control = Some("reno".into()));
    assert_eq!(best(&advised(captured(&original))), "bbr");
}

#[test]
fn a_path_that_reorders_is_seen_to() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(60), BitRate::mbit(100), upload(4_000_000));
    original.path.a_to_b.reorder = Some(lab::Reorder { share: 0.01, by: ms(25) });
    original.ends[0].sysctls.insert("net.ipv4.tcp_recovery".into(), "3".into());
    let c = captured(&original);
    let of = c.lanes[0].reordering.as_ref().expect("reordering").value;
    assert!((0.003..0.04).contains(&of.share) && (ms(5)..ms(61)).contains(&of.by), "{of:?}");
    assert!(c.cause(FindingKind::ReorderingTakenForLoss).is_some() && c.lanes[1].reordering.is_none(), "{c:?}");
    let (tried, _) = advise::candidates(&c, None);
    let names: Vec<&str> = tried.iter().map(|candidate| candidate.remedy.name).collect();
    assert!(names.contains(&"RACK with an adaptive window") && names.contains(&"tcp_reordering 30"), "{names:?}");
}

#[test]
fn a_queue_that_is_too_long_is_kept_short() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(20), BitRate::mbit(20), upload(6_000_000));
    original.path.a_to_b.queue = Some(lab::Depth::Time(ms(600)));
    let c = captured(&original);
    assert_eq!(Goal::likely(&c), Goal::Latency);
    let advice = advised_for(c, Goal::Latency);
    assert!(["FQ-CoDel at the bottleneck", "a shorter queue at the bottleneck", "bbr"].contains(&best(&advice)));
}

#[test]
fn packets_that_vanish_for_their_size_are_made_smaller() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let mut original = original(ms(20), BitRate::mbit(50), upload(500_000));
    original.path.a_to_b.black_hole = Some(1_400);
    let c = captured_at(&original, Side::A, Nanos::from_secs(6));
    let advice = advised(c);
    assert_eq!(best(&advice), "MSS clamping");
    assert!(advice.that(Effect::Helps).any(|o| o.remedy == "MTU probing"), "{:#?}", advice.remedies);
}

#[test]
fn short_answers_begin_with_a_larger_window() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let script = Script { client: vec![step(0, Nanos::ZERO, 200)], server: vec![step(200, Nanos::ZERO, 40_000)] };
    // Where the answers are sent, it is seen what they wait for.
    let c = captured_at(&original(ms(80), BitRate::mbit(100), script), Side::B, Nanos::from_secs(60));
    let advice = advised(c);
    assert!(["initcwnd 32", "keeping the connection open"].contains(&best(&advice)));
    let window = advice.remedies.iter().find(|o| o.remedy == "initcwnd 32").unwrap();
    // Two round trips of five are gone: 10, 20 and then the rest of 28 segments.
    assert!(window.effect == Effect::Helps && window.change.is_some_and(|by| by < -0.15), "{window:?}");
}
