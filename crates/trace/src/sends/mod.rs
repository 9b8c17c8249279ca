//! The sends of TCP: the rows and slots of the followed connections, and what comes of them. Every other probe stands beside this one, and
//! shares the maps that say which sockets are followed.

pub(crate) mod backend;
pub(crate) mod decode;
mod settle;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use libbpf_rs::{Link, MapHandle};
use record::{ConnectionId, Coverage, Event, Leg, Lost, Nanos, Send};

use crate::capabilities::Tried;
use crate::layout::{RECORD_CLOSED, RECORD_CONNECTION, RawLost, RawRow, RawSlot};
use crate::nic::NicClocks;
use crate::object::{self, Sizes};
use crate::probe::{Ground, Loaded, Observation};
use crate::programs::Programs;
use crate::{Backend, DecodeError, Error, clock};
use decode::Record;
use settle::Settled;

/// The iterator over the sockets that makes a pass.
const PASS: &str = "pass";

/// The probe of sends, loaded.
pub(crate) struct Sends {
    programs: Programs,
    backend: Backend,
    rows: MapHandle,
    free_rows: MapHandle,
    slots: MapHandle,
    losses: MapHandle,
    sizes: Sizes,
    tick: Nanos,
    nics: NicClocks,
    /// Counted here and not in the kernel.
    counted: Lost,
    delivered: u64,
    closed: Coverage,
}

impl Sends {
    /// Loads a backend.
    ///
    /// # Errors
    /// [`Error::Refused`] where this kernel does not take its programs.
    pub fn load(ground: &Ground<'_>, backend: Backend) -> Result<Self, Error> {
        let programs = backend::load(ground, backend)?;
        let object = programs.object();
        Ok(Self {
            backend,
            rows: object::map(object, "rows")?,
            free_rows: object::free_list(object, "free_rows", ground.sizes.rows)?,
            slots: object::map(object, "slots")?,
            losses: object::map(object, "losses")?,
            sizes: ground.sizes,
            tick: clock::tick(),
            nics: NicClocks::default(),
            counted: Lost::default(),
            delivered: 0,
            closed: Coverage::default(),
            programs,
        })
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
        let iterator = self.programs.iterators()?.pop();
        iterator.ok_or(Error::System { what: PASS, source: std::io::ErrorKind::NotFound.into() })
    }

    /// Sends that were handed on up to now.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What share of the connections that are over was seen.
    pub fn closed(&self) -> Coverage {
        self.closed
    }

    /// The same with the connections that are there, as of the last pass that brought their totals up to date.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.closed;
        for (_, row) in self.rows_in_use() {
            add(&mut coverage, &decode::totals(&row.totals));
        }
        coverage
    }

    fn rows_in_use(&self) -> Vec<(u32, RawRow)> {
        object::rows_in_use(&self.rows, self.sizes.rows, |row: &RawRow| row.cookie != 0)
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
            for slot in object::ring_entries::<RawSlot>(&self.slots, number, self.sizes.slots, row.head, row.tail) {
                let send = decode::send(&slot.record, self.tick)?;
                self.counted.unfinished += 1;
                self.give(Record::Send(send, None), out);
            }
            object::free_row::<RawRow>(&self.rows, &self.free_rows, number)?;
            self.give(Record::Closed(ConnectionId(row.cookie), decode::totals(&row.totals)), out);
        }
        Ok(())
    }

    fn lost(&self) -> Lost {
        let Some(raw) = object::sum_per_cpu::<RawLost>(&self.losses) else { return self.counted };
        let kernel = Lost {
            ring_buffer: raw.ring_buffer,
            slots_full: raw.slots_full,
            connections_full: raw.connections_full,
            merged: raw.merged,
            unfinished: raw.unfinished,
            closed_unacked: raw.closed_unacked,
            no_sched: raw.no_sched,
            no_driver: raw.no_driver,
            no_ack: raw.no_ack,
            after_ack: raw.after_ack,
            repeated: raw.repeated,
            nic_late: raw.nic_late,
            unstamped: raw.unstamped,
            over_rate: raw.over_rate,
            ..Lost::default()
        };
        kernel + self.counted
    }

    fn memory(&self) -> u64 {
        let rows = u64::from(self.sizes.rows);
        // Hash maps are filled on demand up to their size: 64 bytes an entry cover key, value and the table itself.
        let on_demand = 64 * (16_384 + 131_072 + 1024 + 1024);
        rows * (size_of::<RawRow>() as u64 + 4)
            + rows * u64::from(self.sizes.slots) * size_of::<RawSlot>() as u64
            + u64::from(self.sizes.ring)
            + on_demand
    }

    fn observation(&self) -> Observation {
        Observation { probe: self.backend.what(), ..Observation::default() }
    }
}

/// Legs of a send that end before they begin.
fn disorders(send: &Send) -> u64 {
    Leg::PARTS.into_iter().filter(|&leg| send.leg(leg).is_err()).count() as u64
}

fn add(coverage: &mut Coverage, totals: &record::ConnectionTotals) {
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
            name: "bpf_timestamping",
            purpose: "calls back at each stage of a send, for armed sockets alone (Linux 6.15)",
            instead: "the tracepoints backend",
            outcome: of(Backend::Timestamping),
        },
        Tried {
            name: "tracepoints_backend",
            purpose: "times sends where BPF timestamping is missing",
            instead: "BPF timestamping",
            outcome: of(Backend::Tracepoints),
        },
    ]
}
