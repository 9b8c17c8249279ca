//! The tracer: from a [`Config`] to a stream of events.

use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant as WallInstant};

use record::{Conversion, Coverage, Event, Instant, Lost, Monotonic, Nanos, Realtime, Sampling};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::aim::{self, Processes, set_lookups};
use crate::cgroups::{Cgroups, Followed, Named};
use crate::cost::Cost;
use crate::histograms::{Reading, Snapshot};
use crate::keeper::{Bytes, Privileged};
use crate::layout::{Pass, RawControl};
use crate::memory::Memory;
use crate::passes::Passes;
use crate::probe::{Ground, Loaded as _, Observation};
use crate::programs::{At, Programs};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::sends::Sends;
use crate::sizes::Sizes;
use crate::{Backend, BackendChoice, Config, Error, cgroup, pace, privilege, process, refusal};

/// How often [`crate::probe::Loaded::tick`] runs.
const TICK: Duration = Duration::from_secs(1);

/// The balance of a finished trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything that was lost.
    pub lost: Lost,
    /// What share of the traffic was observed.
    pub coverage: Coverage,
}

/// Traces TCP sends, and whatever its other probes observe. Everything that it holds in the kernel
/// is released with it, however it ends.
pub struct Tracer {
    // Dropped before the maps that the programs use, so that the programs are detached first.
    ring: Ring,
    passes: Passes,
    processes: Processes,
    cgroups: Option<Followed>,
    rate: Option<Rate>,
    cost: Option<Cost>,
    histograms: Option<Reading>,
    ticked: WallInstant,
    /// Size of the ring buffer.
    ring_bytes: u32,
    /// When it was last drained, and when it is due again.
    emptied: WallInstant,
    due: WallInstant,
    config: Config,
}

impl Tracer {
    /// Loads the programs, attaches them, and picks up the connections of the target that exist
    /// already.
    ///
    /// # Errors
    /// [`Error::NeedsRoot`] without the privileges; [`Error::NoSuchProcess`],
    /// [`Error::NothingNamed`], [`Error::Cgroup`] and [`Error::OutOfRange`] where the configuration
    /// is wrong; [`Error::Refused`] and
    /// [`Error::NoBackend`] where this kernel does not take the programs.
    pub fn start(config: &Config) -> Result<Self, Error> {
        if config.least_rights { privilege::check_least() } else { privilege::check() }?;
        refusal::quiet();
        let sizes = Sizes::new(config)?;
        for &pid in &config.target.pids {
            if !process::is_there(pid) {
                return Err(Error::NoSuchProcess { pid });
            }
        }
        let cgroups = Cgroups::new(&config.target)?;
        // Which sockets are the target's is found in a map, since cgroups come and go.
        let root = [cgroup::root()?];
        let raw = aim::configure(config, sizes);
        let ground = Ground { config, raw, sizes, cgroups: &root, sends: None };
        let mut tracer = Self::load(load_sends(&ground)?, &ground, cgroups.map(Followed::new))?;
        tracer.attach()?;
        Ok(tracer)
    }

    /// Everything but attaching the programs.
    fn load(mut sends: Sends, ground: &Ground<'_>, cgroups: Option<Followed>) -> Result<Self, Error> {
        let (config, ring_bytes) = (ground.config, ground.sizes.ring);
        let control = RawControl {
            pass: Pass::Follow as u32,
            shared: 0,
            by_process: 0,
            every: config.windows_every().unwrap_or(1),
            foreign: 0,
            ending: 0,
            // Rows begin with 0.
            generation: 1,
        };
        let (pass, sockops) = (sends.pass()?, sends.sockops()?);
        let programs: &Programs = sends.programs();
        let object = programs.object();
        set_lookups(object, &config.target)?;
        if let Some(cgroups) = &cgroups {
            cgroups.begin(crate::object::map(object, "cgroups")?)?;
        }
        let mut passes = Passes::new(pass, crate::object::map(object, "controls")?, control, sockops);
        let mut processes = Processes::new(object, programs.iterators(At::Files)?)?;
        let histograms = config.histograms.as_ref().map(|of| Reading::new(object, of)).transpose()?;
        let ground = Ground { sends: Some(object), ..*ground };
        let mut beside = Vec::new();
        for probe in crate::PROBES.iter().filter(|probe| probe.wanted(config)) {
            let mut loaded = probe.load(&ground).map_err(|error| error.of(probe.what()))?;
            passes.beside.append(&mut loaded.iterators()?);
            processes.holders.append(&mut loaded.programs().iterators(At::Files)?);
            beside.push(loaded);
        }
        let least = match config.sampling {
            Sampling::Windows(ratio) => ratio.0.get(),
            _ => 1,
        };
        Ok(Self {
            ring: Ring::new(sends, beside)?,
            passes,
            processes,
            cgroups,
            cost: config.cost.map(|most| Cost::new(most, timestamping::now())),
            rate: config.max_rate.map(|most| Rate::new(most, least, timestamping::now())),
            histograms,
            ticked: WallInstant::now(),
            ring_bytes,
            emptied: WallInstant::now(),
            due: WallInstant::now(),
            config: config.clone(),
        })
    }

    /// Attaches every probe and picks up what is there then.
    fn attach(&mut self) -> Result<(), Error> {
        self.passes.begin()?;
        for probe in self.ring.probes().all_mut() {
            probe.attach()?;
        }
        self.passes.find_networks()?;
        self.processes.begin(&self.config.target)?;
        self.pick_up()
    }

    /// Picks up what the processes of the target hold. What one of them accepts while that is
    /// looked for was in no process before, and is behind no listener after: it is found in the
    /// second round, as a connection that begins after the first is known by its listener.
    fn pick_up(&mut self) -> Result<(), Error> {
        let rounds = if self.passes.control.by_process == 1 || self.config.target.by_process() { 2 } else { 1 };
        for _ in 0..rounds {
            self.processes.learn_sockets()?;
            self.follow()?;
        }
        Ok(())
    }

    /// Picks up the connections of the target that exist.
    fn follow(&mut self) -> Result<(), Error> {
        let ring = &self.ring;
        self.passes.pass(Pass::Follow, &mut || ring.gather())
    }

    /// Continues after [`Tracer::suspend`] as at the start, with the connections that exist now.
    ///
    /// # Errors
    /// [`Error`] where the kernel refuses.
    pub fn resume(&mut self) -> Result<(), Error> {
        let attached = self.ring.probes().sends.programs().attached();
        if attached { Ok(()) } else { self.attach() }
    }

    /// Leaves every socket as it was before and detaches everything, but keeps the programs loaded:
    /// until [`Tracer::resume`] nothing is traced, and nothing costs time. Sends that are not
    /// acknowledged yet are delivered without an ACK.
    ///
    /// # Errors
    /// [`Error`] where the kernel part could not be asked.
    pub fn suspend(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        // While the programs are still attached, so that each connection is followed up to one
        // moment: what was written before it is delivered or counted, and in the totals; what comes
        // after is in neither.
        let ring = &self.ring;
        let ended = ring.deliver(sink).and_then(|_| self.passes.end(&mut || ring.deliver(sink).map(drop)));
        self.ring.probes().all_mut().for_each(|probe| probe.detach());
        // Also where the sockets could not be walked: what came is delivered, and the rest counted.
        let delivered = ring.deliver(sink).and_then(|_| ring.probes().give_up()).and_then(|()| ring.deliver(sink));
        ended.and(delivered.map(drop))
    }

    /// Follows a process, its children and its connections from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`] where it has ended.
    pub fn follow_pid(&mut self, pid: u32) -> Result<(), Error> {
        self.passes.control.by_process = 1;
        self.passes.write()?;
        self.processes.include(pid)?;
        self.passes.find_networks()?;
        self.pick_up()
    }

    /// Starts a second process for the work that needs privileges, so that this one can drop all of
    /// them: walking over the sockets of all network namespaces, and finding other tracers. `limit`
    /// drops the privileges that the second process does not need. `serve` runs there too, and
    /// answers what [`Privileged::ask`] asks. Call this while the process has one thread. After it,
    /// [`Tracer::suspend`], [`Tracer::resume`] and [`Tracer::follow_pid`] can no longer be called.
    ///
    /// # Errors
    /// [`Error::Keeper`] where there is no further process, or `limit` fails.
    pub fn hand_over<Q: DeserializeOwned, A: Serialize>(
        &mut self,
        limit: impl FnOnce() -> io::Result<()>,
        mut serve: impl FnMut(Q) -> A,
    ) -> Result<Privileged<Q, A>, Error> {
        {
            let mut probes = self.ring.probes();
            probes.sends.open_clocks();
            probes.beside.iter_mut().for_each(|probe| probe.open_clocks());
        }
        let keeper = self.passes.hand_over(limit, |request| Bytes::of(&serve(request.read()?)))?;
        let mut probes = self.ring.probes();
        probes.sends.ask_for_clocks(keeper.clone());
        probes.beside.iter_mut().for_each(|probe| probe.ask_for_clocks(&keeper));
        Ok(Privileged { keeper, says: PhantomData })
    }

    /// What each cgroup, unit and container of the target names now.
    pub fn named(&self) -> Vec<Named> {
        self.cgroups.as_ref().map(Followed::named).unwrap_or_default()
    }

    /// Whether the target is processes given by number, and all of them have ended, with all that
    /// they started. (For a name, another process may still come.)
    pub fn processes_are_over(&self) -> bool {
        let target = &self.config.target;
        !target.pids.is_empty() && target.comms.is_empty() && !self.processes.any_left()
    }

    /// How each further probe observes on this machine, and how the calls that write are timed, if
    /// they are.
    pub fn observations(&self) -> Vec<Observation> {
        let probes = self.ring.probes();
        let calls = self.config.calls.then(|| probes.sends.observation());
        calls.into_iter().chain(probes.beside.iter().map(|probe| probe.observation())).collect()
    }

    /// Which backend is at work.
    pub fn backend(&self) -> Backend {
        self.ring.probes().sends.backend()
    }

    /// Delivers the events that have come, and waits up to `timeout` for the first one.
    ///
    /// # Errors
    /// [`Error`] where the kernel part can no longer be worked with.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let until = WallInstant::now() + timeout;
        loop {
            // Records gather meanwhile. Reading on as long as there are any would read a few at a
            // time while the load lasts, and write every output for those few.
            let rest = self.pause().min(until.saturating_duration_since(WallInstant::now()));
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
            self.adapt()?;
            self.passes.tick()?;
            if let Some(cgroups) = &mut self.cgroups
                && cgroups.tick()?
            {
                self.passes.find_networks()?;
                self.follow()?;
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = WallInstant::now();
                self.ring.probes().tick(timestamping::now());
            }
            let cost = &mut self.cost;
            let delivered = self.ring.deliver(&mut |event| {
                cost.iter_mut().for_each(|cost| cost.event(&event));
                sink(event);
            })?;
            let (now, bytes) = (WallInstant::now(), self.ring.probes().take_bytes());
            self.due = now
                + match self.records_come() {
                    true => pace::pause(self.ring_bytes, self.config.part_of_records(), bytes, now - self.emptied),
                    false => pace::WITHOUT_RECORDS,
                };
            self.emptied = now;
            if delivered || now >= until {
                return Ok(());
            }
        }
    }

    /// About how long there is room for the records that come: the next [`Tracer::poll`] has to
    /// come within that time.
    pub fn pause(&self) -> Duration {
        self.due.saturating_duration_since(WallInstant::now())
    }

    /// Whether anything is written to the ring buffer.
    fn records_come(&self) -> bool {
        let histograms_alone = self.config.histograms.as_ref().is_some_and(|histograms| !histograms.records);
        !histograms_alone || !self.ring.probes().beside.is_empty()
    }

    /// Holds the rate of records, and what they cost, below what was asked for.
    fn adapt(&mut self) -> Result<(), Error> {
        let now = timestamping::now();
        if let Some(cost) = self.cost.as_mut().filter(|cost| cost.is_due(now)) {
            let mut probes = self.ring.probes();
            let (before, delivered) = (self.passes.control.every, probes.sends.delivered());
            let every = cost.adapt(before, delivered, now, || probes.ran());
            drop(probes);
            if every != before {
                self.passes.set_every(every)?;
            }
        }
        let Some(rate) = &mut self.rate else { return Ok(()) };
        let delivered = self.ring.probes().sends.delivered();
        match rate.adapt(self.passes.control.every, delivered, timestamping::now()) {
            Some(every) => self.passes.set_every(every),
            None => Ok(()),
        }
    }

    /// What was lost up to now.
    pub fn lost(&self) -> Lost {
        self.ring.probes().lost()
    }

    /// What share of the followed connections' time and bytes was seen up to now. Asks the kernel,
    /// so not for every send.
    pub fn coverage(&mut self) -> Coverage {
        // Where the pass fails the totals are those of the last one.
        let ring = &self.ring;
        let _ = self.passes.pass(Pass::Totals, &mut || ring.gather());
        self.ring.probes().sends.coverage()
    }

    /// The histograms of all series now; `None` where [`Config::histograms`] is. It needs no
    /// privileges, and its cost grows with the number of series that have changed. Series that are
    /// idle at `now` are removed. Call it at least once in 2^32 sends of any one bucket: the
    /// counters in the kernel have 32 bits and are extended here.
    ///
    /// # Errors
    /// [`Error`] where the maps of the kernel part cannot be read.
    pub fn snapshot(&mut self, now: Instant<Monotonic>) -> Result<Option<Snapshot>, Error> {
        let Some(reading) = &mut self.histograms else { return Ok(None) };
        let (snapshot, renumbered) = reading.snapshot(now)?;
        if renumbered {
            self.passes.renumber()?;
        }
        Ok(Some(snapshot))
    }

    /// The oldest send of each connection that has waited for its ACK for `least` or longer, with
    /// what is known of it `now`. Each is delivered once more when it is acknowledged or given up.
    pub fn waiting(&self, now: Instant<Monotonic>, least: Nanos) -> Vec<record::Send> {
        self.ring.probes().sends.waiting(now, least)
    }

    /// How to read a moment of the trace on the wall clock: the best of a few readings.
    pub fn clock(&self) -> Conversion<Monotonic, Realtime> {
        timestamping::conversion()
    }

    /// How many slots of the pool connections hold now: for sends on their way, and kept for the
    /// next ones.
    pub fn slots_taken(&self) -> u64 {
        self.ring.probes().sends.slots_taken()
    }

    /// Ends the trace: delivers what is still on its way, without an ACK, disarms the sockets
    /// (unless another tracer of this machine is at work on them) and detaches everything. The
    /// balance is of what was delivered also where the kernel part could not be asked for the last
    /// time, which the error says.
    pub fn finish(mut self, sink: &mut dyn FnMut(Event)) -> (Summary, Result<(), Error>) {
        let asked = self.suspend(sink);
        let coverage = self.ring.probes().sends.closed();
        (Summary { lost: self.lost(), coverage }, asked)
    }
}

impl Config {
    /// The kernel memory that a trace with this configuration takes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn memory(&self) -> Result<Memory, Error> {
        let sizes = Sizes::new(self)?;
        let beside = crate::PROBES.iter().filter(|probe| probe.wanted(self)).map(|probe| probe.memory(self, sizes));
        Ok(beside.fold(Sends::memory(self, sizes), std::ops::Add::add))
    }
}

/// The sends by the backend that is asked for, or by the better one that this kernel takes.
fn load_sends(ground: &Ground<'_>) -> Result<Sends, Error> {
    match ground.config.backend {
        BackendChoice::Timestamping => Sends::load(ground, Backend::Timestamping),
        BackendChoice::Tracepoints => Sends::load(ground, Backend::Tracepoints),
        BackendChoice::Auto => match Sends::load(ground, Backend::Timestamping) {
            Err(Error::Refused { why: timestamping, .. }) => match Sends::load(ground, Backend::Tracepoints) {
                Err(Error::Refused { why: tracepoints, .. }) => Err(Error::NoBackend { timestamping, tracepoints }),
                other => other,
            },
            other => other,
        },
    }
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("backend", &self.backend()).field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_the_sends_is_counted_too() {
        let plain = Config { max_connections: 1_000, ..Config::default() };
        let memory = |change: fn(&mut Config)| {
            let mut config = plain.clone();
            change(&mut config);
            config.memory().unwrap()
        };
        let sends = memory(|_| ());
        assert_eq!(sends.connections, 1_000 * (192 + 192));
        assert!(sends.most() > sends.at_once + sends.connections && sends.tables < 13 << 20, "{sends:?}");
        let receives = memory(|config| config.receive = true);
        assert!(receives.at_once > sends.at_once + 1_000 * 512 * 32, "{receives:?}");
        assert_eq!(receives.connections, sends.connections + 1_000 * 96);
        assert!(memory(|config| config.packets = true).at_once > sends.at_once + (3 << 20));
        assert!(
            memory(|config| config.histograms = Some(crate::Histograms::default())).at_once
                > sends.at_once + (12 << 20)
        );
        assert!(memory(|config| config.connects = false).tables < sends.tables);
        assert!(Config { max_connections: 0, ..plain }.memory().is_err());
    }
}
