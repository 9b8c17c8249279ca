//! Causes provoked in a lab and captured there; then advised from the packets alone.

use advise::{Advice, Effect, End, Goal, Limits, Trial, Twin};
use diagnose::conditions::Conditions;
use lab::{BitRate, Config, Direction, Side};
use record::Nanos;
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
    Twin { path: Config::symmetric(direction), ends: [end(), end()], script, passes: 1, ipv6: false }
}

/// The conditions that its packets show, captured at the client.
fn captured(original: &Twin) -> Conditions {
    let trial: Trial = advise::run(original, 7, Some(Side::A), Nanos::from_secs(60)).unwrap();
    Conditions::of(&trial.report.expect("packets"))
}

fn advised(c: Conditions) -> Advice {
    assert_eq!(c.missing, Vec::<String>::new());
    let until = traffic::now().after(Nanos::from_secs(120));
    // A busy machine is no condition of the original's.
    let mut fitted = (1..=3).map(|seed| advise::fit(&c, seed, &mut |_| {}).unwrap());
    let fitted = fitted.find(|of| of.fit.agrees()).unwrap_or_else(|| panic!("no twin agrees: {:?}", c.limits));
    let (candidates, not) = advise::candidates(&c, None);
    let limits = Limits { until, seed: 1, goal: Goal::Completion };
    let tried = advise::compare(&c, &fitted, &candidates, limits, &mut |_| {}, &|| true).unwrap();
    Advice::of_trials(c, Goal::Completion, fitted, tried, &not).unwrap()
}

fn best(advice: &Advice) -> &'static str {
    advice.best().unwrap_or_else(|| panic!("nothing helps: {:#?}", advice.remedies)).remedy
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
    let script = Script { client: vec![step(0, Nanos::ZERO, 2_000_000)], server: vec![] };
    let mut original = original(ms(40), BitRate::mbit(200), script);
    original.ends[1].sysctls.insert("net.ipv4.tcp_window_scaling".into(), "0".into());
    let c = captured(&original);
    assert!(!c.hosts[1].window_scaling.value && c.hosts[0].window_scaling.value, "{:?}", c.hosts);
    assert_eq!(best(&advised(c)), "window scaling");
}

#[test]
fn a_receive_buffer_that_is_too_small_for_its_path_is_made_larger() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let script = Script { client: vec![step(0, Nanos::ZERO, 2_000_000)], server: vec![] };
    let mut original = original(ms(40), BitRate::mbit(200), script);
    original.ends[1].options.receive_buffer_bytes = Some(65_536);
    assert_eq!(best(&advised(captured(&original))), "a larger receive buffer");
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
