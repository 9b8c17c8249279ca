//! Running the measurement: slices in pairs, in random order, in blocks.

use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use trace::BackendChoice;
use trace::baselines::{Callbacks, callbacks};
use traffic::pin_this_thread;

use super::load::{Connection, Load, Slice, own_network};
use super::observer::{Nobody, Observer, traced};
use super::outcome::{LoadCosts, Missing, Outcome, Pair};
use super::plan::Plan;
use super::processes::CpuTimes;
use super::stamps::Stamps;
use super::ways::{Key, Site, Way};
use crate::Error;

/// How far a measurement is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The load that is measured.
    pub load: Load,
    /// What share of the whole is done.
    pub share: f64,
}

/// Measures. Stops early where `go_on` says so, with what there is until then. Needs root.
///
/// # Errors
/// [`Error::System`] where the machine refuses what every way needs. A way that this machine cannot
/// run is no error: the outcome names it, and why.
pub fn run(
    plan: &Plan,
    tell: &mut (dyn FnMut(&Progress) + Send),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, Error> {
    needs_root()?;
    let mut outcome = Outcome::new(plan);
    for (number, &load) in plan.loads.iter().enumerate() {
        let mut told = |share: f64| {
            let share = (number as f64 + share) / plan.loads.len() as f64;
            tell(&Progress { load, share });
        };
        if !go_on() {
            break;
        }
        // A separate thread, as the network namespace is the thread's and ends with it.
        outcome.tables.push(apart(|| one_load(plan, load, &mut told, go_on))?);
    }
    Ok(outcome)
}

/// Refuses to begin without root.
pub(super) fn needs_root() -> Result<(), Error> {
    if machine::is_root() {
        return Ok(());
    }
    Err(Error::Setting("study overhead needs root, for BPF and a network namespace: run it with sudo".into()))
}

/// Works in a separate thread, and waits for it.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let work = std::thread::Builder::new().spawn_scoped(scope, work);
        let work = work.map_err(|source| Error::System { step: "start a thread", source })?;
        work.join().unwrap_or_else(|_| {
            Err(Error::System { step: "measure", source: std::io::Error::other("the measuring thread failed") })
        })
    })
}

/// How long it takes until a receiver has nothing more to do, at most.
const DRAIN: Duration = Duration::from_millis(2);

struct Place<'a> {
    plan: &'a Plan,
    connection: Connection,
}

impl Place<'_> {
    fn slice(&mut self, observer: &mut dyn Observer, stamps: Stamps) -> Result<Slice, Error> {
        observer.begin()?;
        std::thread::sleep(self.plan.settle);
        let machine = CpuTimes::now();
        let slices = self
            .connection
            .slice(self.plan.warm_up, stamps)
            .and_then(|warm_up| Ok((warm_up.count, self.connection.slice(self.plan.slice, stamps)?)));
        // What was sent last is still received.
        std::thread::sleep(DRAIN);
        let machine = machine.elapsed();
        observer.end()?;
        let (warm_up, slice) = slices?;
        Ok(Slice { machine_ns: machine as f64 / (warm_up + slice.count) as f64, ..slice })
    }

    fn pair(&mut self, way: &Way, observer: &mut dyn Observer, way_first: bool) -> Result<Pair, Error> {
        if way_first {
            let way = self.slice(observer, way.stamps)?;
            Ok(Pair { way, nothing: self.slice(&mut Nobody, Stamps::None)? })
        } else {
            let nothing = self.slice(&mut Nobody, Stamps::None)?;
            Ok(Pair { way: self.slice(observer, way.stamps)?, nothing })
        }
    }
}

fn one_load(plan: &Plan, load: Load, tell: &mut dyn FnMut(f64), go_on: &dyn Fn() -> bool) -> Result<LoadCosts, Error> {
    own_network()?;
    let connection = Connection::open(load, plan.cpus.others)?;
    let port = connection.port();
    let site = Site { port, cpu: plan.cpus.others, backend: BackendChoice::Timestamping };
    let mut place = Place { plan, connection };
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for &way in plan.ways.iter().filter(|way| way.key != Key::Nothing) {
        let opened = match way.unfit(load) {
            Some(reason) => Err(reason.to_owned()),
            None => (way.open)(site).map_err(|error| error.to_string()),
        };
        match opened {
            Ok(observer) => there.push((way, observer, Vec::new())),
            Err(reason) => missing.push(Missing { key: way.key, name: way.name, reason }),
        }
    }
    // Whatever was started inherits no binding from here: each binds itself.
    pin_this_thread(plan.cpus.sender)?;
    place.connection.slice(Duration::from_millis(300).min(plan.slice * 10), Stamps::None)?;

    let mut random = Pcg64Mcg::seed_from_u64(plan.seed);
    let begin = Instant::now();
    let mut blocks = 0;
    let mut order: Vec<usize> =
        (0..there.len()).flat_map(|at| std::iter::repeat_n(at, there[at].0.pairs() as usize)).collect();
    while plan.goes_on(blocks, begin.elapsed()) && go_on() {
        order.shuffle(&mut random);
        let mut block: Vec<Vec<Pair>> = vec![Vec::new(); there.len()];
        for &at in &order {
            let (way, observer, _) = &mut there[at];
            block[at].push(place.pair(way, observer.as_mut(), random.random())?);
        }
        for ((_, _, pairs), of_block) in there.iter_mut().zip(block) {
            pairs.push(of_block);
        }
        blocks += 1;
        tell((begin.elapsed().as_secs_f64() / plan.length.as_secs_f64()).min(1.0));
    }
    let pairs = there.into_iter().map(|(way, _, pairs)| (way, pairs)).collect();
    // A way that left callbacks behind would have been paid for by all the others.
    let left = callbacks(port).map_err(traced)?;
    if left.iter().any(|&callbacks| callbacks != Callbacks::default()) {
        let source = std::io::Error::other(format!("its callbacks are {left:?}"));
        return Err(Error::System { step: "leave the connection as it was: another tracer may be at work", source });
    }
    Ok(LoadCosts::of(load, pairs, missing, plan.seed))
}
