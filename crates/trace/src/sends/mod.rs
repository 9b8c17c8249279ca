//! The sends of TCP: the rows and slots of the followed connections, and what comes of them. Every
//! other probe stands beside this one, and shares the maps that say which sockets are followed.

pub(crate) mod backend;
pub(crate) mod decode;
mod pool;
mod settle;
mod waits;

use std::collections::VecDeque;
use std::ops::{Add as _, RangeInclusive};

use libbpf_rs::{Link, MapHandle};
use record::{ConnectionId, ConnectionTotals, Coverage, Event, Instant, Leg, Lost, Monotonic, Nanos, Send};

use crate::capabilities::{BPF_TIMESTAMPING, TRACEPOINTS_BACKEND};
use crate::keeper::Keeper;
use crate::layout::{
    RECORD_CLOSED, RECORD_CONNECTION, RawLost, RawPrefix, RawRequest, RawRequestKey, RawRow, RawSetupRetries,
};
use crate::memory::Memory;
use crate::nic::NicClocks;
use crate::object;
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Tried, Unseen};
use crate::programs::{At, Programs};
use crate::sizes::Sizes;
use crate::{Backend, Config, DecodeError, Error, capabilities, clock, histograms};
use decode::Record;
use pool::Pool;
use settle::Settled;

/// What timing them with the timestamping backend costs other programs.
const HOST_WIDE: &str = "to time calls, a program runs at every TCP write of this machine, some tens of nanoseconds each (not with --calls never)";

/// What the tracepoints backend does not see of them.
const ONE_ROUND: &str =
    "by tracepoints only those have a time that wait for room in the send buffer, or fill several packets";

/// Some twenty maps of a page or two: settings of the programs, counters, the target's ports.
const SMALL: u64 = 120 << 10;

/// The iterator over the sockets that makes a pass.
const PASS: &str = "pass";

/// The probe of sends, loaded.
pub(crate) struct Sends {
    programs: Programs,
    backend: Backend,
    rows: MapHandle,
    free_rows: MapHandle,
    pool: Pool,
    losses: MapHandle,
    processes_full: MapHandle,
    sizes: Sizes,
    tick: Nanos,
    nics: NicClocks,
    /// Counted here and not in the kernel.
    counted: Lost,
    delivered: u64,
    closed: Coverage,
    /// Whether sends and connections are events.
    records: bool,
}

impl Sends {
    /// Loads a backend.
    ///
    /// # Errors
    /// [`Error::Refused`] where this kernel does not take its programs.
    pub fn load(ground: &Ground<'_>, backend: Backend) -> Result<Self, Error> {
        let programs = backend::load(ground, backend)?;
        let object = programs.object();
        let pool = Pool::new(object)?;
        if capabilities::older() {
            pool.fill(object, ground.sizes)?;
        }
        Ok(Self {
            backend,
            rows: object::map(object, "rows")?,
            free_rows: object::map(object, "free_rows")?,
            pool,
            losses: object::map(object, "losses")?,
            processes_full: object::map(object, "pids_full")?,
            sizes: ground.sizes,
            tick: clock::tick(),
            nics: NicClocks::default(),
            counted: Lost::default(),
            delivered: 0,
            closed: Coverage::default(),
            records: ground.config.histograms.as_ref().is_none_or(|histograms| histograms.records),
            programs,
        })
    }

    /// The kernel memory of its maps, and of those that the probes beside it share.
    pub fn memory(config: &Config, sizes: Sizes) -> Memory {
        let asked = |entries: u64, of: bool| if of { entries } else { 0 };
        let connects = config.wants_connects();
        // Prefixes of peers take less in their tree.
        let tables = [
            Memory::of_table::<u32, u8>(16_384, 16_384),
            Memory::of_table::<[u64; 2], u8>(16_384, 16_384),
            Memory::of_table::<[u8; 16], u8>(64, 64),
            Memory::of_table::<RawPrefix, u8>(1024, 1024),
            Memory::of_table::<[u64; 2], u8>(16_384, asked(16_384, connects)),
            Memory::of_table::<RawRequestKey, RawRequest>(16_384, asked(16_384, connects)),
            Memory::of_table::<u64, RawSetupRetries>(4096, asked(4096, connects)),
        ];
        let series = config.histograms.as_ref().map_or(Memory::default(), |of| histograms::memory(of, sizes));
        let unaccepted = Memory::of_whole_table(4096, 8, 24);
        let fixed = Memory::fixed(SMALL) + Memory::of_ring(sizes.ring) + sizes.memory() + series + unaccepted;
        tables.into_iter().fold(fixed, Memory::add)
    }

    /// Which backend is at work.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The kernel's number of its program of socket operations.
    pub fn sockops(&self) -> Result<u32, Error> {
        object::program_id(self.programs.object(), backend::sockops(self.backend))
    }

    /// Its iterator, which every pass over the sockets is made with.
    pub fn pass(&self) -> Result<Link, Error> {
        let iterator = self.programs.iterators(At::Passes)?.pop();
        iterator.ok_or(Error::System { what: PASS, source: std::io::ErrorKind::NotFound.into() })
    }

    /// Opens the clocks that NICs stamp by, while this process may.
    pub fn open_clocks(&mut self) {
        if self.backend == Backend::Timestamping {
            self.nics.open_all();
        }
    }

    /// Has the keeper say by which clock an interface stamps.
    pub fn ask_for_clocks(&mut self, keeper: Keeper) {
        self.nics.ask(keeper);
    }

    /// Sends that were handed on up to now.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What share of the connections that are over was seen.
    pub fn closed(&self) -> Coverage {
        let mut coverage = self.closed;
        // Those with a closing record that found no room in the ring buffer.
        if let Some(raw) = object::sum_per_cpu::<RawLost>(&self.losses) {
            coverage.followed += Nanos(raw.followed);
            coverage.armed += Nanos(raw.armed);
            coverage.bytes_written += raw.bytes_written;
            coverage.bytes_armed += raw.bytes_armed;
        }
        coverage
    }

    /// The same with the connections that are there, as of the last pass that brought their totals
    /// up to date.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.closed();
        for (_, row) in self.rows_in_use() {
            add(&mut coverage, &totals(&row));
        }
        coverage
    }

    /// How many slots rows have now.
    pub fn slots_taken(&self) -> u64 {
        self.pool.taken()
    }

    /// The oldest send of each connection that has waited for its ACK for `least` or longer `now`.
    pub fn waiting(&self, now: Instant<Monotonic>, least: Nanos) -> Vec<Send> {
        let oldest = |row: &RawRow| self.pool.oldest(row.queue, now.as_nanos());
        let sends = self.rows_in_use().into_iter().filter_map(|(_, row)| decode::send(&oldest(&row)?, self.tick).ok());
        sends.filter(|send| send.unacknowledged_for().is_some_and(|age| age >= least)).collect()
    }

    fn rows_in_use(&self) -> Vec<(u32, RawRow)> {
        object::rows_in_use(&self.rows, self.pool.rows().min(self.sizes.rows), |row: &RawRow| row.cookie != 0)
    }

    fn give(&mut self, record: Record, out: &mut VecDeque<Event>) {
        match record {
            Record::Connection(connection) => out.push_back(Event::Connection(connection)),
            Record::Send(mut send, nic) => {
                let Settled { inferred, no_sched, no_driver } = settle::settle(&mut send);
                self.counted.inferred += u64::from(inferred);
                self.counted.no_sched += u64::from(no_sched);
                self.counted.no_driver += u64::from(no_driver);
                if let Some(nic) = nic {
                    let at = self.nics.convert(&nic);
                    send.stamps.nic = at.map(|at| settle::bounded(at, send.stamps.driver, send.stamps.ack));
                    self.counted.nic_unread += u64::from(send.stamps.nic.is_none());
                }
                self.counted.disorder += disorders(&send);
                self.delivered += 1;
                out.push_back(Event::Send(send));
            }
            Record::Closed(connection, totals) => {
                add(&mut self.closed, &totals);
                self.counted.reasons_differ += u64::from(totals.judged.is_some_and(|judged| !judged.agrees()));
                out.push_back(Event::Closed { connection, totals });
            }
        }
    }
}

impl Loaded for Sends {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_CONNECTION..=RECORD_CLOSED
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        self.give(decode::decode(record, self.tick)?, out);
        Ok(())
    }

    /// Rows of sockets that no iterator showed any more.
    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error> {
        for (number, row) in self.rows_in_use() {
            for send in self.pool.take_back(row.queue, timestamping::now::<Monotonic>().as_nanos())? {
                self.counted.unfinished += 1;
                if self.records {
                    self.give(Record::Send(decode::send(&send, self.tick)?, None), out);
                }
            }
            object::free_row::<RawRow>(&self.rows, &self.free_rows, number)?;
            let totals = totals(&row);
            if self.records {
                self.give(Record::Closed(ConnectionId(row.cookie), totals), out);
            } else {
                add(&mut self.closed, &totals);
            }
        }
        Ok(())
    }

    fn lost(&self) -> Lost {
        let processes_full = object::count(&self.processes_full);
        let lost = object::sum_per_cpu::<RawLost>(&self.losses).map(decode::lost).unwrap_or_default();
        lost + Lost { processes_full, ..self.counted }
    }

    fn observation(&self) -> Observation {
        let why =
            "this kernel has no tracepoint tcp_sendmsg_locked (Linux 6.16), and the timestamping backend no other way";
        let (missing, host_wide) = match self.backend {
            Backend::Timestamping if self.programs.has(backend::CALL) => (None, Some(HOST_WIDE)),
            Backend::Timestamping => (Some(Missing { what: Unseen::Call, reason: why.into() }), None),
            // It is at every write in any case.
            Backend::Tracepoints => (Some(Missing { what: Unseen::Call, reason: ONE_ROUND.into() }), None),
        };
        Observation {
            observed: Observed::Calls,
            missing: missing.into_iter().collect(),
            host_wide: host_wide.into_iter().collect(),
        }
    }
}

/// Legs of a send that end before they begin.
fn disorders(send: &Send) -> u64 {
    Leg::ADDITIVE.into_iter().filter(|&leg| send.leg(leg).is_err()).count() as u64
}

/// The totals of a connection as of the last pass. What its socket itself counts is known at its
/// end alone.
fn totals(row: &RawRow) -> ConnectionTotals {
    ConnectionTotals {
        followed: Nanos(row.followed),
        armed: Nanos(row.armed),
        bytes_written: row.bytes_written,
        bytes_armed: row.bytes_armed,
        bytes_acked: 0,
        segments_retransmitted: 0,
        zero_windows: None,
        judged: None,
    }
}

fn add(coverage: &mut Coverage, totals: &ConnectionTotals) {
    coverage.followed += totals.followed;
    coverage.armed += totals.armed;
    coverage.bytes_written += totals.bytes_written;
    coverage.bytes_armed += totals.bytes_armed;
}

/// What each backend can do here.
pub(crate) fn capabilities(ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
    let of = |backend| {
        ground
            .map_err(ToString::to_string)
            .and_then(|ground| backend::load(ground, backend).map(drop).map_err(Error::reason))
    };
    vec![
        Tried {
            name: BPF_TIMESTAMPING,
            purpose: "calls back at each stage of a send, for armed sockets alone (Linux 6.15)",
            instead: "the tracepoints backend",
            state: of(Backend::Timestamping),
        },
        Tried {
            name: TRACEPOINTS_BACKEND,
            purpose: "times sends where BPF timestamping is missing",
            instead: "BPF timestamping",
            state: of(Backend::Tracepoints),
        },
    ]
}
