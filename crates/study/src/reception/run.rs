//! Runs the study: block after block, then the searches, the series and the step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use capture::delay::Tap;
use capture::{Stamps, Technique};
use clock::{Nanos, Realtime};
use lab::{Config, Direction, INTERFACE, Lab, PathReport, Side, StepReport};

use super::outcome::{Lossless, Measured, Missing, Outcome, Response, Series, StepTrial, Trial};
use super::plan::{Interface, Plan, Setting, frames_a_second};
use super::testbed::{self, Bed, SOURCE};
use super::trial::{self, Amount};
use crate::Error;

/// Where the study is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The share that is done, 0 to 1, by the forecast.
    pub share: f64,
    /// What is being run.
    pub label: &'static str,
}

/// The delay of the lab's path, and by how much it is raised in the middle. With a frame every 50
/// µs ([`Plan::step`]), the path is never to deliver one at the moment at which another comes in:
/// which of the two it does first changes its delay by microseconds. So the step is the time
/// between two frames, and the delay is no multiple of it.
const DELAY: Nanos = Nanos(1_020_000);
const STEP: Nanos = Nanos(50_000);

/// Runs the study. `tell` hears before each trial; where `go_on` says no, what was measured until
/// then is the outcome.
///
/// # Errors
/// [`Error::System`] where the testbed cannot be made: it takes root.
pub fn run(
    plan: &Plan,
    tell: &mut (dyn FnMut(&Progress) + Send),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, Error> {
    let mut outcome = Outcome {
        seed: plan.seed,
        quick: plan.quick,
        timestamps: Stamps::Software,
        trial: plan.trial.into(),
        blocks: 0,
        finished: false,
        techniques: Vec::new(),
        frame_sizes: plan.frame_sizes.clone(),
        interfaces: Vec::new(),
        line_rates: plan.line_rates.clone(),
        trials: Vec::new(),
        missing: Vec::new(),
        effects: Vec::new(),
        source_per_second: 0.0,
        lossless: Vec::new(),
        series: Vec::new(),
        step: None,
        step_missing: None,
    };
    // The namespace is that of one thread and of those that it starts.
    let ended = std::thread::scope(|scope| {
        let name = std::thread::Builder::new().name("study-testbed".into());
        let thread = name.spawn_scoped(scope, || {
            testbed::enter()?;
            in_testbed(plan, &mut outcome, tell, go_on)
        });
        let thread = thread.map_err(|source| Error::System { step: "start a thread", source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    ended?;
    if go_on() {
        step(plan, &mut outcome, go_on);
    }
    outcome.finished = go_on();
    Ok(outcome)
}

fn in_testbed(
    plan: &Plan,
    outcome: &mut Outcome,
    tell: &mut dyn FnMut(&Progress),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let mut plan = plan.clone();
    hardware(&plan.techniques, outcome);
    works(&mut plan, outcome, go_on)?;
    interfaces(&mut plan, outcome, go_on)?;
    outcome.interfaces = plan.interfaces.iter().map(|i| i.name().into()).collect();
    outcome.techniques = plan.techniques.iter().map(|t| t.name().into()).collect();
    let all = plan.combinations() as f64 * f64::from(plan.repetitions) * 1.2;
    let mut done = 0.0;
    for block in 0..plan.repetitions {
        for levels in plan.block(block) {
            if !go_on() {
                return Ok(());
            }
            tell(&Progress { share: done / all, label: "techniques, sizes, rates and CPU" });
            done += 1.0;
            let amount = Amount { frames: None, duration: Some(plan.trial) };
            // A technique that worked and does not now is missing from the block, and the block
            // from the effects.
            if let Ok((measured, _)) = trial::run(&plan.setting(levels), amount, go_on)? {
                outcome.trials.push(Trial { block, levels, measured });
            }
        }
        outcome.blocks = block + 1;
    }
    outcome.effects = effects(&plan, &outcome.trials);
    outcome.source_per_second = source(&plan, go_on)?;
    for &technique in &plan.techniques {
        tell(&Progress { share: 0.87, label: "the highest lossless rates" });
        if !go_on() {
            return Ok(());
        }
        outcome.lossless.push(lossless(technique, &plan, outcome.source_per_second, go_on)?);
    }
    for _ in 0..plan.series.0 {
        tell(&Progress { share: 0.94, label: "time series" });
        if !go_on() {
            return Ok(());
        }
        let per_second = Some(frames_a_second(1_000_000_000, 256));
        let setting = Setting { frame_size: 256, per_second, ..trying(Technique::RxRing) };
        let amount = Amount { frames: Some(plan.series.1), duration: None };
        if let Ok((measured, recording)) = trial::run(&setting, amount, go_on)? {
            let figures = recording.figures(Default::default(), Default::default());
            outcome.series.push(Series::of(&figures, measured.sent));
        }
    }
    tell(&Progress { share: 0.97, label: "a step in the delay" });
    Ok(())
}

/// Notes for each technique why it has no hardware timestamps on the testbed's interfaces.
fn hardware(techniques: &[Technique], outcome: &mut Outcome) {
    let tap = Bed::of(Interface::Veth).taps[0];
    for technique in techniques {
        let reason = match capture::open(*technique, &trial::options(tap, Stamps::Hardware)) {
            Err(why) => why.to_string(),
            Ok(_) => format!("{tap} stamps, and the testbed has one NIC's clock too few"),
        };
        outcome.missing.push(Missing { technique: technique.name().into(), timestamps: Stamps::Hardware, reason });
    }
}

/// Leaves techniques that do not work here out of the plan, with the reason.
fn works(plan: &mut Plan, outcome: &mut Outcome, go_on: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
    let mut working = Vec::new();
    for &technique in &plan.techniques {
        match trial::run(&trying(technique), Amount { frames: Some(100), duration: None }, go_on)? {
            Ok(_) => working.push(technique),
            Err(reason) => {
                outcome.missing.push(Missing {
                    technique: technique.name().into(),
                    timestamps: Stamps::Software,
                    reason,
                });
            }
        }
    }
    plan.techniques = working;
    Ok(())
}

/// Leaves an interface out of the plan on which not every technique works, with the reason: effects
/// are of whole blocks.
fn interfaces(plan: &mut Plan, outcome: &mut Outcome, go_on: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
    if !plan.interfaces.contains(&Interface::Macvlan) {
        return Ok(());
    }
    let made = testbed::add_macvlan().map_err(|error| format!("this kernel makes no macvlan: {error}"));
    let mut refused = made.err().map(|reason| ("all".into(), reason));
    for &technique in &plan.techniques {
        if refused.is_some() || !go_on() {
            break;
        }
        let setting = Setting { interface: Interface::Macvlan, ..trying(technique) };
        let tried = trial::run(&setting, Amount { frames: Some(100), duration: None }, go_on)?;
        refused = tried.err().map(|reason| (technique.name().into(), format!("macvlan is excluded: {reason}")));
    }
    if let Some((technique, reason)) = refused {
        plan.interfaces.retain(|interface| *interface != Interface::Macvlan);
        outcome.missing.push(Missing { technique, timestamps: Stamps::Software, reason });
    }
    Ok(())
}

/// A trial that any machine can carry out.
const fn trying(technique: Technique) -> Setting {
    let per_second = Some(10_000.0);
    Setting { technique, frame_size: 64, per_second, stressed: false, interface: Interface::Veth }
}

pub(super) fn effects(plan: &Plan, trials: &[Trial]) -> Vec<(Response, stats::Effects)> {
    let levels = [
        plan.techniques.len(),
        plan.frame_sizes.len(),
        plan.line_rates.len(),
        super::plan::CPU.len(),
        plan.interfaces.len(),
    ];
    let of = |response: Response| {
        let cells: Vec<stats::Cell> = trials
            .iter()
            .filter_map(|t| {
                let value = response.of(&t.measured)?;
                Some(stats::Cell { block: t.block, levels: t.levels.to_vec(), value, ..stats::Cell::default() })
            })
            .collect();
        (response, stats::effects(&levels, &cells, false))
    };
    Response::ALL.map(of).to_vec()
}

/// How many frames of 64 bytes a second the source sends while nothing receives.
fn source(plan: &Plan, go_on: &(dyn Fn() -> bool + Sync)) -> Result<f64, Error> {
    let setting = Setting { per_second: None, ..trying(Technique::Recvmsg) };
    let amount = Amount { frames: None, duration: Some(plan.trial) };
    let sent = trial::send(SOURCE, &setting, amount, &|| go_on())?;
    Ok(sent.per_second.unwrap_or(0.0))
}

/// Searches the highest rate at which no frame is lost (RFC 2544 section 26.1), halving the
/// interval in the logarithm.
fn lossless(
    technique: Technique,
    plan: &Plan,
    reach: f64,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Lossless, Error> {
    let amount = Amount { frames: None, duration: Some(plan.trial) };
    let try_at = |per_second: Option<f64>| -> Result<Option<Measured>, Error> {
        let setting = Setting { per_second, ..trying(technique) };
        Ok(trial::run(&setting, amount, go_on)?.ok().map(|(measured, _)| measured))
    };
    search(reach, plan.search, try_at).map(|(per_second, of_the_source, trials)| Lossless {
        technique: technique.name().into(),
        per_second,
        of_the_source,
        trials,
    })
}

/// The highest rate without loss, whether it is the source's own limit, and the trials that it
/// took.
fn search<E>(
    reach: f64,
    trials: u32,
    mut try_at: impl FnMut(Option<f64>) -> Result<Option<Measured>, E>,
) -> Result<(Option<f64>, bool, u32), E> {
    let whole = |m: &Measured| m.sent > 0 && m.matched == m.sent;
    if let Some(measured) = try_at(None)?.filter(whole) {
        return Ok((Some(measured.per_second), true, 1));
    }
    let (mut low, mut high, mut best) = (reach.max(1_000.0) / 1_000.0, reach.max(1_000.0), None);
    for _ in 0..trials {
        let middle = (low * high).sqrt();
        match try_at(Some(middle))?.filter(whole) {
            // What was sent is what counts: a source that is short of CPU sends fewer than it was
            // asked for.
            Some(measured) => {
                best = Some(best.map_or(measured.per_second, |b: f64| b.max(measured.per_second)));
                low = middle;
            }
            None => high = middle,
        }
    }
    Ok((best, false, trials + 1))
}

/// A path of the lab with so much delay from host a to host b.
fn delayed(delay: Nanos) -> Direction {
    Direction { delay, ..Direction::default() }
}

fn step(plan: &Plan, outcome: &mut Outcome, go_on: &(dyn Fn() -> bool + Sync)) {
    let (frames, per_second) = plan.step;
    let config = Config::with_delay(DELAY);
    let changes = [(frames / 3, delayed(DELAY + STEP)), (frames * 2 / 3, delayed(DELAY))];
    match through_lab(&config, (frames, per_second), &changes, go_on) {
        Ok((measured, recording, at, path)) => {
            let series = Series::of(&recording.figures(Default::default(), Default::default()), measured.sent);
            // On the axis of the series, which is of matched frames: those that are lost are on
            // neither.
            let at_frames = [0, 1].map(|i| at.get(i).map_or(0, |time| recording.seen_before(*time) as u64));
            outcome.step = Some(StepTrial { put_in: STEP, delivered: delivered(&path), at_frames, series });
        }
        Err(why) => outcome.step_missing = Some(why.to_string()),
    }
}

/// By how much the path's own delay changed at each of its two steps, ns.
fn delivered(path: &PathReport) -> Option<[f64; 2]> {
    let delay = |step: &StepReport| Some(step.asked.delay.0 as f64 + step.achieved.lateness.as_ref()?.p50.0 as f64);
    let delays: Option<Vec<f64>> = path.a_to_b.steps.iter().map(delay).collect();
    let [before, raised, after] = delays?.try_into().ok()?;
    Some([raised - before, after - raised])
}

/// What a run through a lab's path gives: figures, matched frames, the time of each change, and the
/// path's own report.
type ThroughLab = (Measured, capture::delay::Recording, Vec<u64>, PathReport);

/// Sends frames of 256 bytes from host a to host b of a lab, received at both ends of the path
/// through the ring. Each of `changes` is made once so many frames have been sent.
fn through_lab(
    config: &Config,
    (frames, per_second): (u64, f64),
    changes: &[(u64, Direction)],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<ThroughLab, Error> {
    let lab = Lab::up(config)?;
    let feed = || testbed::feed(c"eth0");
    lab.host(Side::A).run(feed)?.map_err(|source| Error::System { step: "make a source in the lab's host", source })?;
    let (over, sent_so_far) = (AtomicBool::new(false), AtomicU64::new(0));
    let setting = Setting { frame_size: 256, per_second: Some(per_second), ..trying(Technique::RxRing) };
    std::thread::scope(|scope| {
        let (ready, heard) = channel();
        let ends = [(Side::A, Tap::Before), (Side::B, Tap::After)].map(|(side, tap)| {
            let (lab, ready, over) = (&lab, ready.clone(), &over);
            let refused = ready.clone();
            let work = move || {
                let host = lab.host(side);
                host.run(|| trial::receive(setting.technique, INTERFACE, tap, over, &ready)).ok().flatten()
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            started.map_err(|error| refused.send(Err(format!("no thread for its receiver: {error}")))).ok()
        });
        let opened = trial::both(&heard);
        let mut made = Vec::new();
        let sent = opened.map_err(Error::Setting).and_then(|()| {
            let sending = || {
                let amount = Amount { frames: Some(frames), duration: None };
                lab.host(Side::A).run(|| trial::send_counted(SOURCE, &setting, amount, &sent_so_far, &|| go_on()))
            };
            let sending = std::thread::Builder::new().spawn_scoped(scope, sending);
            let sending = sending.map_err(|source| Error::System { step: "start a thread", source })?;
            for (at, to) in changes {
                while sent_so_far.load(Ordering::Relaxed) < *at && !sending.is_finished() {
                    std::thread::sleep(Duration::from_micros(200));
                }
                lab.path().change(Side::A, to)?;
                made.push(timestamping::now::<Realtime>().as_nanos());
            }
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
        });
        // What is on its way arrives before the receivers look for the end.
        std::thread::sleep(Duration::from_millis(100));
        over.store(true, Ordering::Relaxed);
        let received = ends.map(|end| end?.join().unwrap_or(None));
        let sent = sent?;
        let [Some(one), Some(other)] = received else {
            return Err(Error::Setting("the lab's frames cannot be received".into()));
        };
        let counts = [one.counts, other.counts];
        let cpu_ns = (one.cpu + other.cpu).0 as f64;
        let (account, recording, delays) = trial::matched([one, other]);
        let arrived = [account.before, account.after];
        let measured = Measured::of(&sent, arrived, counts, cpu_ns, account, &delays);
        Ok((measured, recording, made, lab.path().report()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A technique that takes so many frames a second, behind a source that sends so many.
    fn searched(limit: f64, reach: f64) -> (Option<f64>, bool, u32) {
        let try_at = |rate: Option<f64>| {
            let per_second = rate.unwrap_or(reach).min(reach);
            let matched = if per_second <= limit { 1_000 } else { 999 };
            Ok::<_, ()>(Some(Measured { sent: 1_000, matched, per_second, ..Measured::default() }))
        };
        search(reach, 12, try_at).unwrap()
    }

    #[test]
    fn the_highest_lossless_rate_is_found_or_is_the_source_s() {
        let (found, of_the_source, trials) = searched(123_456.0, 1e6);
        assert!((found.unwrap() / 123_456.0 - 1.0).abs() < 0.01 && found.unwrap() <= 123_456.0, "{found:?}");
        assert_eq!((of_the_source, trials), (false, 13));
        assert_eq!(searched(2e6, 1e6), (Some(1e6), true, 1));
        assert_eq!(searched(0.0, 1e6).0, None);
    }

    #[test]
    fn frames_lost_and_duplicated_by_a_path_are_counted_as_the_path_counts_them() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        let direction = Direction {
            delay: Nanos(2_000_000),
            loss: lab::Loss::Independent(0.02),
            duplicate: 0.03,
            reorder: Some(lab::Reorder { share: 0.01, by: Nanos(5_000_000) }),
            ..Direction::default()
        };
        let config = Config { seed: 7, a_to_b: direction, ..Config::default() };
        let (m, recording, _, report) = through_lab(&config, (5_000, 5_000.0), &[], &|| true).unwrap();
        let path = report.a_to_b.achieved.as_ref().unwrap();
        assert_eq!((m.sent, m.dropped, m.unstamped), (5_000, [0, 0], 0));
        // On a busy machine the device of the sending host drops what the path does not read in
        // time.
        let missing = path.lost + path.missed_frames + path.refused;
        assert_eq!((m.lost, m.duplicated), (missing, path.duplicated), "{m:?}\n{path:?}");
        assert_eq!(m.matched, path.delivered);
        assert_eq!((m.matched, m.unexplained), (5_000 - m.lost, 0));
        assert!(m.lost > 0 && m.duplicated > 0 && m.reordered > 0, "{m:?}");
        assert_eq!(recording.n() as u64, m.matched);
    }

    #[test]
    fn a_small_study_matches_every_frame_of_a_rate_that_is_no_load() {
        tier::needs!(tier::Need::Root);
        let plan = Plan {
            techniques: vec![Technique::Recvmmsg, Technique::RxRing, Technique::AfXdp, Technique::Xdp],
            frame_sizes: vec![64],
            interfaces: vec![Interface::Veth, Interface::Macvlan],
            line_rates: vec![1_000_000],
            repetitions: 2,
            trial: Duration::from_millis(100),
            search: 1,
            series: (1, 500),
            ..Plan::whole(true, 1)
        };
        let mut outcome = None;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                outcome = Some(run(&Plan { step: (300, 5_000.0), ..plan.clone() }, &mut |_| {}, &|| true).unwrap());
            });
        });
        let outcome = outcome.unwrap();
        assert_eq!(
            outcome.techniques.len()
                + outcome
                    .missing
                    .iter()
                    .filter(|m| m.timestamps == Stamps::Software && !m.reason.contains("macvlan"))
                    .count(),
            4
        );
        let of_macvlan = outcome.missing.iter().any(|m| m.reason.contains("macvlan"));
        assert_eq!(outcome.interfaces.len(), if of_macvlan { 1 } else { 2 }, "{:?}", outcome.missing);
        assert_eq!(outcome.trials.len(), outcome.techniques.len() * 2 * 2 * outcome.interfaces.len());
        for trial in &outcome.trials {
            let m = &trial.measured;
            assert!(m.sent > 0 && m.arrived == [m.sent; 2], "{trial:?}");
            // A busy machine does not empty a technique's memory in time, and the kernel counts
            // what it drops then.
            let each = [m.matched + m.lost, m.matched + m.unexplained];
            assert_eq!((each, m.duplicated), (m.dropped.map(|dropped| m.sent - dropped), 0), "{trial:?}");
        }
        assert_eq!(outcome.series.len(), 1);
        assert!(outcome.missing.iter().any(|m| m.timestamps == Stamps::Hardware), "{:?}", outcome.missing);
    }
}
