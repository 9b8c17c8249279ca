//! The tracer: from a [`Config`] to a stream of events.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as WallInstant};

use record::{Conversion, Coverage, Event, Lost, Monotonic, Realtime, Sampling};

use crate::aim::{self, Processes, set_addresses};
use crate::config::within;
use crate::layout::{Pass, RawControl, WINDOW_LENGTH};
use crate::object::Sizes;
use crate::passes::Passes;
use crate::probe::{Ground, Loaded as _, Observation};
use crate::programs::Programs;
use crate::rate::Rate;
use crate::ring::Ring;
use crate::sampling::Sampler;
use crate::sends::Sends;
use crate::{Backend, BackendChoice, Config, Error, privilege, refusal};

/// How long [`Tracer::poll`] sleeps where nothing is there to be read: the ring buffer never wakes it, which would cost the
/// traced programs.
const NAP: Duration = Duration::from_millis(5);

/// What came of a trace, in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything that was lost.
    pub lost: Lost,
    /// What share was really seen.
    pub coverage: Coverage,
}

/// Traces TCP sends, and what the probes beside them see. What it holds in the kernel goes with it, whatever way it ends.
pub struct Tracer {
    // Before what it makes passes with.
    sampler: Option<Sampler>,
    // Before the maps that programs use: what is attached is detached first.
    ring: Ring,
    windows_missed: Arc<AtomicU64>,
    passes: Arc<Mutex<Passes>>,
    processes: Processes,
    rate: Option<Rate>,
    config: Config,
}

impl Tracer {
    /// Loads the programs, attaches them, and picks up the connections of the target that exist already.
    ///
    /// # Errors
    /// [`Error::NeedsRoot`] without the privileges; [`Error::NoSuchProcess`], [`Error::Cgroup`] and [`Error::OutOfRange`] where the
    /// configuration is wrong; [`Error::Refused`] and [`Error::NoBackend`] where this kernel does not take the programs.
    pub fn start(config: &Config) -> Result<Self, Error> {
        privilege::check()?;
        refusal::quiet();
        let sizes = Sizes {
            rows: within("the number of connections", config.max_connections, 1, 65_536)?,
            slots: within("the number of slots of a connection", config.slots_per_connection, 1, 65_536)?
                .next_power_of_two()
                .max(16),
            ring: within("the size of the ring buffer", config.ring_bytes, 4096, 1 << 30)?.next_power_of_two(),
        };
        for &pid in &config.target.pids {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                return Err(Error::NoSuchProcess { pid });
            }
        }
        let (cgroup, raw) = aim::configure(config, sizes)?;
        let ground = Ground { config, raw, sizes, cgroup: &cgroup, sends: None };
        let mut tracer = Self::load(load_sends(&ground)?, &ground)?;
        tracer.attach()?;
        Ok(tracer)
    }

    /// Everything but the attaching.
    fn load(mut sends: Sends, ground: &Ground<'_>) -> Result<Self, Error> {
        let config = ground.config;
        let control = RawControl {
            window: WINDOW_LENGTH,
            pass: Pass::Follow as u32,
            shared: 0,
            by_process: 0,
            every: config.windows_every().unwrap_or(1),
            foreign: 0,
            ending: 0,
        };
        let (pass, own) = (sends.pass()?, sends.sockops()?);
        let object = Programs::object(sends.programs());
        set_addresses(object, &config.target)?;
        let mut passes = Passes::new(pass, crate::object::map(object, "controls")?, control, own);
        let processes = Processes::new(object, config.target.by_process())?;
        let ground = Ground { sends: Some(object), ..*ground };
        let mut beside = Vec::new();
        for probe in crate::PROBES.iter().filter(|probe| probe.wanted(config)) {
            let mut loaded = probe.load(&ground).map_err(|error| error.of(probe.what()))?;
            passes.after_follow.append(&mut loaded.iterators()?);
            beside.push(loaded);
        }
        let least = match config.sampling {
            Sampling::Windows(ratio) => ratio.0.get(),
            _ => 1,
        };
        Ok(Self {
            sampler: None,
            ring: Ring::new(sends, beside)?,
            windows_missed: Arc::default(),
            passes: Arc::new(Mutex::new(passes)),
            processes,
            rate: config.max_rate.map(|most| Rate::new(most, least, timestamping::now())),
            config: config.clone(),
        })
    }

    /// Attaches every probe and picks up what is there then.
    fn attach(&mut self) -> Result<(), Error> {
        self.passes().begin()?;
        for probe in self.ring.probes().all_mut() {
            probe.attach()?;
        }
        self.passes().find_networks()?;
        self.processes.begin(&self.config.target.pids)?;
        self.passes().pass(Pass::Follow)?;
        if let Some(every) = self.config.windows_every() {
            let seed = timestamping::now::<Monotonic>().as_nanos() ^ (u64::from(std::process::id()) << 32);
            self.sampler =
                Some(Sampler::start(Arc::clone(&self.passes), every, seed, Arc::clone(&self.windows_missed))?);
        }
        Ok(())
    }

    /// Takes up again after [`Tracer::suspend`], as at the start: with the connections that are there now.
    ///
    /// # Errors
    /// [`Error`] where the kernel refuses.
    pub fn resume(&mut self) -> Result<(), Error> {
        let attached = self.ring.probes().sends.programs().attached();
        if attached { Ok(()) } else { self.attach() }
    }

    /// Leaves every socket as it was before and detaches everything, but keeps the programs loaded: nothing is traced, and
    /// nothing costs anything, until [`Tracer::resume`]. Sends that are on their way are handed on without an ACK.
    ///
    /// # Errors
    /// [`Error`] where the kernel part could not be asked.
    pub fn suspend(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.sampler = None;
        // While the programs are still attached, so that each connection is followed up to one moment: what was written before it is
        // delivered or counted, and in the totals; what comes after is in neither.
        let ended = self.ring.deliver(sink).and_then(|_| self.passes().end());
        self.ring.probes().all_mut().for_each(|probe| probe.detach());
        ended?;
        self.ring.deliver(sink)?;
        self.ring.probes().give_up()?;
        self.ring.deliver(sink)?;
        Ok(())
    }

    /// Follows a process, its children and its connections from now on.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`] where it has ended.
    pub fn follow_pid(&mut self, pid: u32) -> Result<(), Error> {
        {
            let mut passes = self.passes();
            passes.control.by_process = 1;
            passes.write()?;
        }
        self.processes.add(pid)?;
        let mut passes = self.passes();
        passes.find_networks()?;
        passes.pass(Pass::Follow)
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each probe beside the sends observes on this machine.
    pub fn observations(&self) -> Vec<Observation> {
        self.ring.probes().beside.iter().map(|probe| probe.observation()).collect()
    }

    /// Which backend is at work.
    pub fn backend(&self) -> Backend {
        self.ring.probes().sends.backend()
    }

    /// Hands on the events that have come, and waits for the first ones for up to `timeout`.
    ///
    /// # Errors
    /// [`Error`] where the kernel part can no longer be worked with.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let until = WallInstant::now() + timeout;
        loop {
            self.adapt();
            self.sampler.as_ref().map_or(Ok(()), Sampler::check)?;
            let delivered = self.ring.deliver(sink)?;
            let left = until.saturating_duration_since(WallInstant::now());
            if delivered || left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Holds the rate of records below what was asked for.
    fn adapt(&mut self) {
        let (Some(rate), Some(sampler)) = (&mut self.rate, &mut self.sampler) else { return };
        let delivered = self.ring.probes().sends.delivered();
        if let Some(every) = rate.adapt(sampler.every(), delivered, timestamping::now()) {
            sampler.set_every(every);
        }
    }

    /// What was lost up to now.
    pub fn lost(&self) -> Lost {
        let windows_missed = self.windows_missed.load(Ordering::Relaxed);
        self.ring.probes().lost() + Lost { windows_missed, ..Lost::default() }
    }

    /// What share of the followed connections' time and bytes was seen up to now. Asks the kernel, so not for every send.
    pub fn coverage(&self) -> Coverage {
        // Where the pass fails the totals are those of the last one.
        let _ = self.passes().pass(Pass::Totals);
        self.ring.probes().sends.coverage()
    }

    /// How to read a moment of the trace on the wall clock: the best of a few readings.
    pub fn clock(&self) -> Conversion<Monotonic, Realtime> {
        timestamping::conversion()
    }

    /// The bytes of kernel memory that all maps together can take; none of it grows while tracing.
    pub fn memory_bound(&self) -> u64 {
        self.ring.probes().all().map(|probe| probe.memory()).sum()
    }

    /// Ends the trace: hands on what is still on its way, without an ACK, disarms the sockets (unless another tracer of this
    /// machine is at work on them) and detaches everything.
    ///
    /// # Errors
    /// [`Error`] where the kernel part could not be asked for the last time.
    pub fn finish(mut self, sink: &mut dyn FnMut(Event)) -> Result<Summary, Error> {
        self.suspend(sink)?;
        let coverage = self.ring.probes().sends.closed();
        Ok(Summary { lost: self.lost(), coverage })
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
