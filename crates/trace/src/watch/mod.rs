//! Fields of live TCP connections: looked at when each is established, when it ends, or every so
//! often.
//!
//! Connections are read, never changed: no callback is set on any socket. Two means, both for the
//! whole machine: the tracepoint `inet_sock_set_state`, which runs when a connection changes its
//! state and for no packet, and an iterator over the sockets. The target is sorted out in the
//! kernel.

pub(crate) mod sample;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use record::{Moment, Reading};

use crate::aim::{self, Processes, aim, set_lookups};
use crate::cgroups::{Cgroups, Followed};
use crate::layout::{CONFIG_AT_CLOSE, CONFIG_AT_CONNECT, Pass, RawControl};
use crate::object::{self, compiled};
use crate::passes::Passes;
use crate::programs::{At, Planned, Programs};
use crate::sizes::Sizes;
use crate::{Error, Target, capabilities, clock, privilege, refusal};

/// The iterator of the looks.
const ALL: &str = "read_all";

const PROGRAMS: [Planned; 5] = [
    ("forked", At::Section),
    ("exited", At::Section),
    ("state_set", At::Section),
    ("held", At::Files),
    (ALL, At::Passes),
];

/// Watches the connections of a target. What it holds in the kernel goes with it, whatever way it
/// ends.
pub struct Watcher {
    _programs: Programs,
    passes: Passes,
    cgroups: Option<Followed>,
    ring: RingBuffer<'static>,
    readings: Arc<Mutex<Vec<Reading>>>,
    lost: MapHandle,
    processes_full: MapHandle,
    every: bool,
}

impl Watcher {
    /// Loads the programs and learns which process owns each existing connection.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`] and [`Error::Cgroup`] where the target is wrong,
    /// [`Error::NeedsRoot`] without privileges, and [`Error::Refused`] where this kernel does not
    /// run the programs.
    pub fn start(target: &Target, moment: Moment) -> Result<Self, Error> {
        privilege::check()?;
        refusal::quiet();
        let cgroups = Cgroups::new(target)?.map(Followed::new);
        let mut raw = aim(target);
        raw.flags |= match moment {
            Moment::Every => 0,
            Moment::Connect => CONFIG_AT_CONNECT,
            Moment::Close => CONFIG_AT_CLOSE,
        };
        // It has no arena.
        let sizes = Sizes::of_ring(1 << 20);
        let object =
            object::open_aimed(compiled!("watch"), "wirelapse", &raw, sizes).map_err(|error| error.of("watch"))?;
        let names = (!target.comms.is_empty()).then_some(aim::RENAMED);
        let of_older = [object::INHERITED, ("destroyed", At::Section)].into_iter().filter(|_| capabilities::older());
        let plan = PROGRAMS.into_iter().chain(names).chain(of_older).collect();
        let mut programs = Programs::load(object, plan, &[]).map_err(|error| error.of("watch"))?;
        let object = programs.object();
        set_lookups(object, target)?;
        if let Some(cgroups) = &cgroups {
            cgroups.begin(object::map(object, "cgroups")?)?;
        }

        let tick = clock::tick();
        let readings = Arc::new(Mutex::new(Vec::new()));
        let inbox = Arc::clone(&readings);
        let mut builder = RingBufferBuilder::new();
        let records = object::map(object, "records")?;
        builder
            .add(&records, move |bytes: &[u8]| {
                inbox.lock().unwrap_or_else(PoisonError::into_inner).extend(sample::reading(bytes, tick));
                0
            })
            .map_err(Error::bpf("cannot read the ring buffer"))?;
        let ring = builder.build().map_err(Error::bpf("cannot read the ring buffer"))?;

        let control = RawControl { pass: 0, shared: 0, by_process: 0, every: 1, foreign: 0, ending: 0, generation: 0 };
        let iterator = programs
            .iterators(At::Passes)?
            .pop()
            .ok_or(Error::System { what: ALL, source: std::io::ErrorKind::NotFound.into() })?;
        let passes = Passes::new(iterator, object::map(object, "controls")?, control, 0);
        let processes = Processes::new(object, programs.iterators(At::Files)?)?;
        let lost = object::map(object, "lost")?;
        let processes_full = object::map(object, "pids_full")?;
        programs.attach()?;
        // After the programs are attached, so that no connection falls between.
        processes.begin(target)?;
        Ok(Self {
            _programs: programs,
            passes,
            cgroups,
            ring,
            readings,
            lost,
            processes_full,
            every: moment == Moment::Every,
        })
    }

    /// With [`Moment::Every`], reads all connections of the target now; else hands on what has
    /// come, waiting for the first for up to `timeout`.
    ///
    /// # Errors
    /// [`Error`] where the kernel part can no longer be worked with.
    pub fn read(&mut self, timeout: Duration) -> Result<Vec<Reading>, Error> {
        if let Some(cgroups) = &mut self.cgroups {
            // It takes no pass: what it reads is looked at when it is read.
            cgroups.tick()?;
        }
        if self.every {
            self.passes.find_networks()?;
            let bytes = self.passes.read(Pass::Read, &mut || Ok(()))?;
            let tick = clock::tick();
            return Ok(bytes.chunks_exact(sample::SIZE).filter_map(|bytes| sample::reading(bytes, tick)).collect());
        }
        match self.ring.poll(timeout) {
            // A signal ends the wait: the caller looks why.
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
            done => done.map_err(Error::bpf("cannot read the ring buffer"))?,
        }
        Ok(std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Readings that were lost because the ring buffer was full.
    pub fn lost(&self) -> u64 {
        object::count(&self.lost)
    }

    /// Processes of the target that found no room to be followed: connections of theirs are not
    /// read.
    pub fn processes_lost(&self) -> u64 {
        object::count(&self.processes_full)
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("every", &self.every).finish_non_exhaustive()
    }
}
