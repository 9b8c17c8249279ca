//! The tracer: from a [`Config`] to a stream of events.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as WallInstant};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use record::{Conversion, Coverage, Event, Lost, Monotonic, Nanos, Realtime, Sampling};

use crate::aim::{Processes, set_addresses};
use crate::decode::{self, Record};
use crate::inbox::{self, Inbox};
use crate::layout::{Pass, Plain, RawConfig, RawControl, RawLost, RawRow, RawSlot, WINDOW_LENGTH};
use crate::object::{self, Sizes};
use crate::packets::{self, Assembly, Packets, Wanted};
use crate::passes::Passes;
use crate::receive::Receiving;
use crate::sampling::Sampler;
use crate::{Backend, BackendChoice, Config, Error, clock, programs};

/// How long [`Tracer::poll`] sleeps where nothing is there to be read: the ring buffer never wakes it, which would cost the
/// traced programs.
const NAP: Duration = Duration::from_millis(5);

/// Records taken from the ring buffer at once, before their events are handed on.
const BATCH: usize = 4096;

/// What came of a trace, in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything that was lost.
    pub lost: Lost,
    /// What share was really seen.
    pub coverage: Coverage,
}

/// What of a backend is attached, and where.
struct Hold {
    backend: Backend,
    cgroup: File,
    raw: RawConfig,
    /// The program of socket operations.
    sockops: &'static str,
    /// The programs on tracepoints.
    stages: Vec<&'static str>,
}

/// Traces TCP sends. What it holds in the kernel goes with it, whatever way it ends.
pub struct Tracer {
    // Links go first: nothing runs any more when the maps go.
    links: Vec<Link>,
    // Before what it makes passes with.
    sampler: Option<Sampler>,
    receiving: Option<Receiving>,
    packets: Option<Packets>,
    windows_missed: Arc<AtomicU64>,
    passes: Arc<Mutex<Passes>>,
    ring: RingBuffer<'static>,
    inbox: Arc<Mutex<Inbox>>,
    rows: MapHandle,
    free_rows: MapHandle,
    slots: MapHandle,
    losses: MapHandle,
    processes: Processes,
    object: Object,
    hold: Hold,
    config: Config,
    sizes: Sizes,
    rate_checked: (u64, u64),
    tick: Nanos,
}

/// One in how many window lengths is a window; `None` where there are no windows.
fn windows_every(config: &Config) -> Option<u32> {
    match config.sampling {
        Sampling::Windows(ratio) => Some(ratio.0.get()),
        // A limit on the rate begins with everything and goes over to windows where that is too much.
        Sampling::Every if config.max_rate.is_some() => Some(1),
        _ => None,
    }
}

/// `value`, where it lies between `least` and `most`.
fn within(what: &'static str, value: u32, least: u32, most: u32) -> Result<u32, Error> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(Error::OutOfRange { what, value, least, most }) }
}

impl Tracer {
    /// Loads the programs, attaches them, and picks up the connections of the target that exist already.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], [`Error::Cgroup`] and [`Error::OutOfRange`] where the configuration is wrong; the rest where the
    /// kernel refuses.
    pub fn start(config: &Config) -> Result<Self, Error> {
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err(Error::NeedsRoot);
        }
        object::quiet();
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
        match config.backend {
            BackendChoice::Timestamping => Self::timestamping(config, sizes),
            BackendChoice::Tracepoints => Self::tracepoints(config, sizes),
            BackendChoice::Auto => Self::timestamping(config, sizes).or_else(|first| match first {
                Error::Backend { reason: timestamping, .. } => {
                    Self::tracepoints(config, sizes).map_err(|second| match second {
                        Error::Backend { .. } => {
                            Error::NoBackend { timestamping, tracepoints: programs::reason(second) }
                        }
                        other => other,
                    })
                }
                other => Err(other),
            }),
        }
    }

    fn timestamping(config: &Config, sizes: Sizes) -> Result<Self, Error> {
        let (cgroup, raw) = programs::raw_config(config, sizes)?;
        let object = programs::load_timestamping(&raw, sizes)?;
        let hold = Hold { backend: Backend::Timestamping, cgroup, raw, sockops: "timestamping", stages: Vec::new() };
        Self::attached(object, config, sizes, hold)
    }

    fn tracepoints(config: &Config, sizes: Sizes) -> Result<Self, Error> {
        let (cgroup, raw) = programs::raw_config(config, sizes)?;
        let (object, stages) = programs::load_tracepoints(&raw, sizes)?;
        let hold = Hold { backend: Backend::Tracepoints, cgroup, raw, sockops: "following", stages };
        Self::attached(object, config, sizes, hold)
    }

    fn attached(object: Object, config: &Config, sizes: Sizes, hold: Hold) -> Result<Self, Error> {
        let mut tracer = Self::prepare(object, config, sizes, hold)?;
        tracer.attach()?;
        Ok(tracer)
    }

    fn attach(&mut self) -> Result<(), Error> {
        self.passes().look_around();
        self.passes().write()?;
        for program in ["forked", "exited"].iter().chain(&self.hold.stages) {
            self.links.push(object::attach(&self.object, program)?);
        }
        let link = object::attach_cgroup(&self.object, self.hold.sockops, &self.hold.cgroup)?;
        self.links.push(link);
        if let Some(receiving) = &mut self.receiving {
            receiving.resume()?;
        } else if self.config.receive {
            let (receiving, pick_up) =
                Receiving::start(&self.object, &self.hold.raw, self.sizes, self.config.arrivals_per_connection)?;
            self.receiving = Some(receiving);
            self.passes().after_follow = Some(pick_up);
        }
        if let Some(packets) = &mut self.packets {
            packets.resume()?;
        } else if self.config.packets || self.config.udp {
            let wanted = Wanted { tcp: self.config.packets, udp: self.config.udp };
            let (packets, assembly) =
                Packets::start(&self.object, &self.hold.raw, self.sizes, &self.hold.cgroup, wanted)?;
            self.inbox.lock().unwrap_or_else(PoisonError::into_inner).assembly = Some(assembly);
            self.packets = Some(packets);
        }
        self.begin()
    }

    /// Takes up again after [`Tracer::suspend`], as at the start: with the connections that are there now.
    ///
    /// # Errors
    /// [`Error`] where the kernel refuses.
    pub fn resume(&mut self) -> Result<(), Error> {
        if self.links.is_empty() { self.attach() } else { Ok(()) }
    }

    /// Leaves every socket as it was before and detaches everything, but keeps the programs loaded: nothing is traced, and
    /// nothing costs anything, until [`Tracer::resume`]. Sends that are on their way are handed on without an ACK.
    ///
    /// # Errors
    /// [`Error`] where the kernel part could not be asked.
    pub fn suspend(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.links.clear();
        self.sampler = None;
        if let Some(receiving) = &mut self.receiving {
            receiving.stop();
        }
        if let Some(packets) = &mut self.packets {
            packets.stop();
        }
        {
            let mut passes = self.passes();
            passes.look_around();
            passes.find_networks()?;
        }
        self.deliver(sink)?;
        self.passes().pass(Pass::Finish)?;
        self.deliver(sink)?;
        self.give_up_rest(sink)
    }

    /// Everything but the attaching.
    fn prepare(object: Object, config: &Config, sizes: Sizes, hold: Hold) -> Result<Self, Error> {
        let free = object::free_list(&object, "free_rows", sizes.rows)?;
        set_addresses(&object, &config.target)?;
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let tick = clock::tick();
        let ring = {
            let records = object::map(&object, "records")?;
            let inbox = Arc::clone(&inbox);
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&records, move |bytes: &[u8]| {
                    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                    let taken = match packets::is_part(bytes) {
                        true => inbox.part(bytes),
                        false => decode::decode(bytes, tick).map(|record| inbox.take(record)),
                    };
                    if let Err(error) = taken {
                        inbox.failed = Some(error);
                    }
                    0
                })
                .map_err(Error::bpf("cannot read the ring buffer"))?;
            builder.build().map_err(Error::bpf("cannot read the ring buffer"))?
        };
        let now = clock::monotonic();
        let sampled = windows_every(config);
        let control = RawControl {
            window: WINDOW_LENGTH,
            pass: Pass::Follow as u32,
            shared: 0,
            by_process: 0,
            every: sampled.unwrap_or(1),
            foreign: 0,
            pad: 0,
        };
        let own = object::program_id(&object, hold.sockops)?;
        let passes = Passes::new(object::attach(&object, "pass")?, object::map(&object, "controls")?, control, own);
        Ok(Self {
            links: Vec::new(),
            sampler: None,
            receiving: None,
            packets: None,
            windows_missed: Arc::default(),
            passes: Arc::new(Mutex::new(passes)),
            ring,
            inbox,
            rows: object::map(&object, "rows")?,
            free_rows: free,
            slots: object::map(&object, "slots")?,
            losses: object::map(&object, "losses")?,
            processes: Processes::new(&object, config.target.by_process())?,
            object,
            hold,
            config: config.clone(),
            sizes,
            rate_checked: (now, 0),
            tick,
        })
    }

    /// Picks up what is there when the programs are attached.
    fn begin(&mut self) -> Result<(), Error> {
        self.passes().find_networks()?;
        self.processes.begin(&self.config.target.pids)?;
        self.passes().pass(Pass::Follow)?;
        self.packets.as_ref().map_or(Ok(()), Packets::pick_up)?;
        if let Some(every) = windows_every(&self.config) {
            let seed = clock::monotonic() ^ (u64::from(std::process::id()) << 32);
            self.sampler =
                Some(Sampler::start(Arc::clone(&self.passes), every, seed, Arc::clone(&self.windows_missed))?);
        }
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
        passes.pass(Pass::Follow)?;
        drop(passes);
        self.packets.as_ref().map_or(Ok(()), Packets::pick_up)
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How received bytes are observed; `None` where they are not.
    pub fn receiving(&self) -> Option<&Receiving> {
        self.receiving.as_ref()
    }

    /// How packets and datagrams are observed; `None` where they are not.
    pub fn packets(&self) -> Option<&Packets> {
        self.packets.as_ref()
    }

    /// Which backend is at work.
    pub fn backend(&self) -> Backend {
        self.hold.backend
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
            let delivered = self.deliver(sink)?;
            let left = until.saturating_duration_since(WallInstant::now());
            if delivered || left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Empties the ring buffer once; tells whether anything came.
    fn deliver(&mut self, sink: &mut dyn FnMut(Event)) -> Result<bool, Error> {
        let mut any = false;
        loop {
            let read = self.ring.consume_raw_n(BATCH);
            if read < 0 {
                let source = std::io::Error::from_raw_os_error(-read);
                return Err(Error::System { what: "cannot read the ring buffer", source });
            }
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = inbox.failed.take() {
                return Err(error.into());
            }
            let events = std::mem::take(&mut inbox.events);
            drop(inbox);
            any |= !events.is_empty();
            events.into_iter().for_each(&mut *sink);
            if (read as usize) < BATCH {
                return Ok(any);
            }
        }
    }

    /// Holds the rate of records below what was asked for, by making windows rarer.
    fn adapt(&mut self) {
        let (Some(most), Some(sampler)) = (self.config.max_rate, &mut self.sampler) else { return };
        let now = clock::monotonic();
        let since = now.saturating_sub(self.rate_checked.0);
        if since < 500_000_000 {
            return;
        }
        let sends = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).sends;
        let rate = (sends - self.rate_checked.1) as f64 / (since as f64 / 1e9);
        self.rate_checked = (now, sends);
        let least = match self.config.sampling {
            Sampling::Windows(ratio) => ratio.0.get(),
            _ => 1,
        };
        let ratio = rate / f64::from(most.get());
        let every = f64::from(sampler.every());
        // Rarer at once, more often only slowly: a burst must not swing it.
        let next = if ratio > 0.9 {
            every * ratio * 1.5
        } else if ratio < 0.4 {
            every * 0.75
        } else {
            every
        };
        sampler.set_every((next.ceil() as u32).clamp(least, 1_000_000));
    }

    /// What was lost up to now.
    pub fn lost(&self) -> Lost {
        let Some(raw) = object::sum_per_cpu::<RawLost>(&self.losses) else { return Lost::default() };
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = inbox.assembly.as_ref().map(Assembly::lost).unwrap_or_default();
        Lost {
            ring_buffer: raw.ring_buffer,
            slots_full: raw.slots_full,
            connections_full: raw.connections_full,
            merged: raw.merged,
            unfinished: raw.unfinished + inbox.unfinished,
            closed_unacked: raw.closed_unacked,
            no_sched: raw.no_sched + inbox.no_sched,
            no_driver: raw.no_driver + inbox.no_driver,
            no_ack: raw.no_ack,
            after_ack: raw.after_ack,
            repeated: raw.repeated,
            inferred: inbox.inferred,
            nic_late: raw.nic_late,
            nic_unread: inbox.nic_unread,
            disorder: inbox.disorder,
            unstamped: raw.unstamped,
            over_rate: raw.over_rate,
            windows_missed: self.windows_missed.load(Ordering::Relaxed),
            receive_disorder: inbox.receive_disorder,
            ..self.receiving.as_ref().map(Receiving::lost).unwrap_or_default()
                + self.packets.as_ref().map(Packets::lost).unwrap_or_default()
                + joined
        }
    }

    /// What share of the followed connections' time and bytes was seen up to now. Asks the kernel, so not for every send.
    pub fn coverage(&self) -> Coverage {
        // Where the pass fails the totals are those of the last one.
        let _ = self.passes().pass(Pass::Totals);
        let mut coverage = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).closed;
        for row in self.rows_in_use() {
            inbox::add(&mut coverage, &decode::totals(&row.1.totals));
        }
        coverage
    }

    fn rows_in_use(&self) -> Vec<(u32, RawRow)> {
        (0..self.sizes.rows)
            .filter_map(|number| {
                let bytes = self.rows.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
                RawRow::from_bytes(&bytes).filter(|row| row.cookie != 0).map(|row| (number, row))
            })
            .collect()
    }

    /// How to read a moment of the trace on the wall clock: the best of a few readings.
    pub fn clock(&self) -> Conversion<Monotonic, Realtime> {
        timestamping::conversion()
    }

    /// The bytes of kernel memory that all maps together can take; none of it grows while tracing.
    pub fn memory_bound(&self) -> u64 {
        let rows = u64::from(self.sizes.rows);
        // Hash maps are filled on demand up to their size: 64 bytes an entry cover key, value and the table itself.
        let on_demand = 64 * (16_384 + 131_072 + 1024 + 1024);
        rows * (size_of::<RawRow>() as u64 + 4)
            + rows * u64::from(self.sizes.slots) * size_of::<RawSlot>() as u64
            + u64::from(self.sizes.ring)
            + self.receiving.as_ref().map_or(0, Receiving::memory)
            + self.packets.as_ref().map_or(0, |_| Packets::memory())
            + on_demand
    }

    /// Ends the trace: hands on what is still on its way, without an ACK, disarms the sockets (unless another tracer of this
    /// machine is at work on them) and detaches everything.
    ///
    /// # Errors
    /// [`Error`] where the kernel part could not be asked for the last time.
    pub fn finish(mut self, sink: &mut dyn FnMut(Event)) -> Result<Summary, Error> {
        self.suspend(sink)?;
        let lost = self.lost();
        let coverage = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).closed;
        Ok(Summary { lost, coverage })
    }

    /// Gives a row back that the kernel part does not give back itself any more.
    fn free(&self, number: u32) -> Result<(), Error> {
        let nothing = [0u8; size_of::<RawRow>()];
        self.rows
            .update(&number.to_ne_bytes(), &nothing, MapFlags::ANY)
            .and_then(|()| self.free_rows.update(&[], &number.to_ne_bytes(), MapFlags::ANY))
            .map_err(Error::bpf("cannot free a row"))
    }

    /// Rows whose socket no iterator showed any more, and received bytes that are not read yet.
    fn give_up_rest(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), Error> {
        for receive in self.receiving.as_mut().map(Receiving::unread).transpose()?.unwrap_or_default() {
            self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take(Record::Receive(receive));
        }
        for (number, row) in self.rows_in_use() {
            let mut at = row.head;
            while at != row.tail {
                let index = number * self.sizes.slots + (at & (self.sizes.slots - 1));
                at = at.wrapping_add(1);
                let slot = self.slots.lookup(&index.to_ne_bytes(), MapFlags::ANY).ok().flatten();
                if let Some(slot) = slot.as_deref().and_then(RawSlot::from_bytes) {
                    let send = decode::send(&slot.record, self.tick)?;
                    self.inbox.lock().unwrap_or_else(PoisonError::into_inner).give_up(send);
                }
            }
            let id = record::ConnectionId(row.cookie);
            let totals = decode::totals(&row.totals);
            self.free(number)?;
            self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take(Record::Closed(id, totals));
        }
        if let Some(packets) = &mut self.packets {
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            let Inbox { assembly, events, .. } = &mut *inbox;
            assembly.as_mut().map_or(Ok(()), |assembly| packets.give_up_rest(assembly, events))?;
        }
        self.deliver(sink)?;
        Ok(())
    }
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer")
            .field("backend", &self.hold.backend)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
