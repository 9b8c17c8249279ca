//! The path between the hosts, whoever makes it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use clock::Nanos;
use machine::CpuPressure;
use rustix::event::{EventfdFlags, eventfd};
use stats::{Distribution, DurationSummary, Precision};

use crate::config::Config;
use crate::departures::Departures;
use crate::direction::Direction;
use crate::end::End;
use crate::end::Side;
use crate::forward::{self, Forwarder, Plan, clock, is_short};
use crate::line::Line;
use crate::overhead::Sockets;
use crate::report::{DirectionReport, Probes};
use crate::schedule::Schedule;
use crate::shared::{Reported, Shared};
use crate::{Error, links, tap};

/// A maker of paths. Dropping it takes the path down.
pub(crate) trait Backend: Send + Sync + std::fmt::Debug {
    /// `built-in`, `netem` or `tbf`.
    fn name(&self) -> &'static str;
    /// What the direction from `side` did so far, beside what was asked.
    fn report(&self, from: Side) -> DirectionReport;
    /// Makes the direction from `side` another from the next frame on.
    fn change(&mut self, from: Side, to: &Direction) -> Result<(), Error>;
}

/// The built-in backend: two TAP devices and a thread for each direction.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    directions: [OneWay; 2],
    /// When the schedule began.
    since: Since,
}

#[derive(Debug)]
struct OneWay {
    measured: Measured,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Where the sending device's counters are read.
    net: OwnedFd,
    interface: String,
}

impl BuiltIn {
    pub(crate) fn up(config: &Config, ends: [End<'_>; 2]) -> Result<Self, Error> {
        let mut taps = Vec::with_capacity(2);
        let mut departures = [None, None];
        for (end, departures) in ends.into_iter().zip(&mut departures) {
            let interface = end.address.interface();
            let tap = end.run(|| {
                let name = std::ffi::CString::new(interface.clone()).unwrap_or_default();
                let tap = tap::create(&name)?;
                end.address.configure(config.mtu).map_err(Error::system(format!("configure {interface} of a host")))?;
                // Without it frames are timed when they are read, which the account says.
                *departures = links::index_of(&name).and_then(Departures::of_device).ok();
                Ok::<_, Error>(tap)
            })??;
            taps.push(Arc::new(tap));
        }
        let taps = [taps[0].clone(), taps[1].clone()];
        // Long paths and plain ones have no use for it, until they are changed to short ones.
        let [ab, ba] = Self::measure(config, ends, &taps, &mut departures)?;
        let [from_a, from_b] = departures;
        // Both directions of a schedule or a recording begin together.
        let start = clock();
        let way = |from: Side, asked: &Direction, departures: Option<Departures>, measured: Measured| {
            let seed = config.seed.wrapping_mul(2).wrapping_add(from as u64);
            let mut asked = asked.clone();
            let recording = config.recorded[from as usize].clone();
            asked.recorded = recording.as_ref().map(|recording| recording.about.clone());
            let mut line = Line::new(asked.clone(), config.mtu, seed);
            if let Some(recording) = recording {
                line = line.with_recording(recording, start);
            }
            let shared = Arc::new(Shared::new(event()?, asked, config.mtu));
            let wires = [from, from.other()].map(|side| taps[side as usize].clone());
            let plan = Plan::new(config.schedule.clone(), from, start);
            let from = from as usize;
            let forwarder = Forwarder::new(wires, line, shared.clone(), departures, measured.overhead, plan);
            let name = if from == 0 { "lab-path-ab" } else { "lab-path-ba" };
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || drop(forwarder.run()))
                .map_err(Error::system("start a thread for the path"))?;
            let net = ends[from].holder.net.try_clone();
            let net = net.map_err(Error::system("keep a host's network namespace"))?;
            Ok::<_, Error>(OneWay {
                measured,
                shared,
                thread: Some(thread),
                net,
                interface: ends[from].address.interface(),
            })
        };
        let directions = [way(Side::A, &config.a_to_b, from_a, ab)?, way(Side::B, &config.b_to_a, from_b, ba)?];
        Ok(Self { since: Since(start), directions })
    }

    /// What the machine adds each way, and what hosts see of a short path as it comes up. Over
    /// paths that are taken down again: the frames of this are in no account, and draw nothing.
    fn measure(
        config: &Config,
        ends: [End<'_>; 2],
        taps: &[Arc<OwnedFd>; 2],
        departures: &mut [Option<Departures>; 2],
    ) -> Result<[Measured; 2], Error> {
        let failed = |error| Error::system("measure what the machine adds to the path")(error);
        let sockets = Sockets::open(ends).map_err(failed)?;
        // The shortest of delays, so that the threads keep time as they will.
        let least = Direction { delay: Nanos(1), ..Direction::default() };
        let bare = Trial { config, taps, asked: [least.clone(), least], overhead: [Nanos::ZERO; 2] };
        let (shortest, own) = bare.run(departures, || sockets.shortest().map_err(failed))?;
        // The path's own share, which its account has, is taken off.
        let overhead = [0, 1].map(|way| Nanos(shortest[way].0.saturating_sub(own[way].0)));
        let asked = [&config.a_to_b, &config.b_to_a];
        let mut measured = overhead.map(|overhead| Measured { overhead, probes: None });
        if asked.into_iter().any(is_short) {
            let alike = asked.map(|asked| Direction { delay: asked.delay, ..Direction::default() });
            let trial = Trial { config, taps, asked: alike, overhead };
            let pressure = CpuPressure::begin();
            let (times, _) = trial.run(departures, || sockets.probes().map_err(failed))?;
            let cpu_pressure = pressure.and_then(|pressure| pressure.share());
            for ((measured, asked), times) in measured.iter_mut().zip(asked).zip(times) {
                let mut seen = Distribution::new(Precision::Fine);
                times.iter().for_each(|time| seen.record(time.0));
                let seen = DurationSummary::of(&seen).filter(|_| is_short(asked));
                measured.probes = seen.map(|seen| Probes { asked: asked.delay, seen, cpu_pressure });
            }
        }
        Ok(measured)
    }
}

/// What was measured of a direction before it came up.
#[derive(Debug)]
struct Measured {
    overhead: Nanos,
    probes: Option<Probes>,
}

/// A path for a moment.
struct Trial<'t> {
    config: &'t Config,
    taps: &'t [Arc<OwnedFd>; 2],
    asked: [Direction; 2],
    overhead: [Nanos; 2],
}

impl Trial<'_> {
    /// Does `task` while the path is there. Gives its outcome, and the least time that a frame
    /// spent in each direction of the path.
    fn run<T>(
        self,
        departures: &mut [Option<Departures>; 2],
        task: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, [Nanos; 2]), Error> {
        let mut ways = Vec::with_capacity(2);
        for (from, (asked, departures)) in self.asked.into_iter().zip(departures.iter_mut()).enumerate() {
            let shared = Arc::new(Shared::new(event()?, asked.clone(), self.config.mtu));
            let line = Line::new(asked, self.config.mtu, 0);
            let ends = [from, 1 - from].map(|side| self.taps[side].clone());
            let plan = Plan::new(Schedule::default(), Side::A, 0);
            let forwarder = Forwarder::new(ends, line, shared.clone(), departures.take(), self.overhead[from], plan);
            let thread = std::thread::Builder::new()
                .name("lab-overhead".into())
                .spawn(move || forwarder.run())
                .map_err(Error::system("start a thread for the path"))?;
            ways.push((shared, thread));
        }
        let done = task();
        let mut least = [Nanos::ZERO; 2];
        for (((shared, thread), departures), least) in ways.into_iter().zip(departures).zip(&mut least) {
            *least = shared.report(Nanos::ZERO, 0).achieved.transit.map_or(Nanos::ZERO, |transit| transit.min);
            shared.stop();
            *departures = thread.join().ok().flatten();
        }
        Ok((done?, least))
    }
}

fn event() -> Result<OwnedFd, Error> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    made.map_err(|error| Error::system("make an eventfd")(error.into()))
}

impl Backend for BuiltIn {
    fn name(&self) -> &'static str {
        "built-in"
    }

    fn report(&self, from: Side) -> DirectionReport {
        let way = &self.directions[from as usize];
        let reported = way.shared.report(self.since.elapsed(), links::counters(&way.net, &way.interface).missed_frames);
        let Reported { asked, achieved, changes, steps_refused, steps } = reported;
        let overhead = Some(forward::overhead(&asked, way.measured.overhead));
        let probes = way.measured.probes.clone();
        DirectionReport { asked, overhead, probes, changes, achieved: Some(achieved), steps, steps_refused }
    }

    fn change(&mut self, from: Side, to: &Direction) -> Result<(), Error> {
        self.directions[from as usize].shared.change(to.clone())
    }
}

impl Drop for OneWay {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panicked thread has nothing left to take down.
            let _ = thread.join();
        }
    }
}

/// When a path came up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u64);

impl Since {
    pub(crate) fn now() -> Self {
        Self(clock())
    }

    pub(crate) fn elapsed(self) -> Nanos {
        Nanos(clock().saturating_sub(self.0))
    }
}
