//! A trace that opens in <https://ui.perfetto.dev>: a process for each owner, in it a track for each connection, in it
//! the sends with their legs.
//!
//! Sends overlap: hundreds can be on their way at once, and slices of one Perfetto track must nest. So a connection has
//! as many child tracks (*lanes*) as it ever had sends in flight. A send goes into the first lane that is free by the
//! time it was made, and lanes bear one name, which Perfetto shows as one track of several rows.
//!
//! The field numbers are those of `protos/perfetto/trace` in the Perfetto sources.

use std::collections::HashMap;
use std::io::{self, Write};

use model::{Connection, ConnectionId, Event, Instant, Leg, Monotonic, Owner, Send, Stage};
use store::ClockReading;

use crate::ndjson::congestion;
use crate::protobuf::Message;
use crate::quantity;

/// `BuiltinClock.BUILTIN_CLOCK_REALTIME` and `…_MONOTONIC`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
/// All packets are of one sequence; its number only has to be other than zero.
const SEQUENCE: u64 = 1;

mod trace_packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const CLOCK_ID: u32 = 58;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}

/// Writes events as packets of a Perfetto trace.
pub struct Perfetto<W> {
    out: W,
    next_track: u64,
    processes: HashMap<u32, u64>,
    connections: HashMap<ConnectionId, Track>,
}

struct Track {
    id: u64,
    lanes: Vec<Lane>,
}

struct Lane {
    id: u64,
    busy_until: Instant<Monotonic>,
}

impl<W: Write> Perfetto<W> {
    /// Writes to `out`, the relation of the clocks first: `start_ns` is a moment on `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn begin(out: W, start_ns: u64, clock: &ClockReading) -> io::Result<Self> {
        let mut this = Self { out, next_track: 1, processes: HashMap::new(), connections: HashMap::new() };
        let real = start_ns.saturating_add_signed(clock.realtime_offset_ns);
        this.packet(|p| {
            p.number(trace_packet::TIMESTAMP, start_ns).number(trace_packet::CLOCK_ID, MONOTONIC);
            p.message(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                for (clock, reading) in [(MONOTONIC, start_ns), (REALTIME, real)] {
                    snapshot.message(1, |c| {
                        c.number(1, clock).number(2, reading);
                    });
                }
                // Which clock the trace's own time line is on.
                snapshot.number(2, MONOTONIC);
            });
        })?;
        Ok(this)
    }

    /// Writes the packets of an event.
    ///
    /// # Errors
    /// What the output says.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Connection(connection) => self.connection(connection),
            Event::Send(send) => self.send(send),
            Event::Closed { connection, .. } => {
                self.connections.remove(connection);
                Ok(())
            }
        }
    }

    /// Gives the output back; nothing is left to write.
    ///
    /// # Errors
    /// What the output says when flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut trace = Message::default();
        trace.message(1, |packet| {
            fill(packet);
            packet.number(trace_packet::SEQUENCE_ID, SEQUENCE);
        });
        self.out.write_all(&trace.0)
    }

    fn track(&mut self, parent: Option<u64>, fill: impl FnOnce(&mut Message)) -> io::Result<u64> {
        let id = self.next_track;
        self.next_track += 1;
        self.packet(|p| {
            p.message(trace_packet::TRACK_DESCRIPTOR, |track| {
                track.number(1, id);
                if let Some(parent) = parent {
                    track.number(5, parent);
                }
                fill(track);
            });
        })?;
        Ok(id)
    }

    fn process(&mut self, owner: Owner) -> io::Result<u64> {
        if let Some(&id) = self.processes.get(&owner.pid) {
            return Ok(id);
        }
        let name = if owner.pid == 0 { "owner not known".into() } else { owner.comm.to_string() };
        let id = self.track(None, |track| {
            track.message(3, |process| {
                process.number(1, owner.pid.into()).bytes(6, name.as_bytes());
            });
        })?;
        self.processes.insert(owner.pid, id);
        Ok(id)
    }

    fn connection(&mut self, c: &Connection) -> io::Result<()> {
        let process = self.process(c.owner)?;
        let name = format!("{} → {} ({})", c.local, c.remote, c.id);
        let id = self.track(Some(process), |track| {
            track.bytes(2, name.as_bytes());
        })?;
        self.connections.insert(c.id, Track { id, lanes: Vec::new() });
        Ok(())
    }

    /// The lane for a send, made where none is free.
    fn lane(&mut self, send: &Send, end: Instant<Monotonic>) -> io::Result<u64> {
        if !self.connections.contains_key(&send.connection) {
            let process = self.process(send.owner)?;
            let name = format!("connection {}", send.connection);
            let id = self.track(Some(process), |track| {
                track.bytes(2, name.as_bytes());
            })?;
            self.connections.insert(send.connection, Track { id, lanes: Vec::new() });
        }
        let Some(track) = self.connections.get_mut(&send.connection) else { return Ok(0) };
        if let Some(lane) = track.lanes.iter_mut().find(|lane| lane.busy_until <= send.stamps.send) {
            lane.busy_until = end;
            return Ok(lane.id);
        }
        let parent = track.id;
        let id = self.track(Some(parent), |track| {
            track.bytes(2, b"sends");
        })?;
        if let Some(track) = self.connections.get_mut(&send.connection) {
            track.lanes.push(Lane { id, busy_until: end });
        }
        Ok(id)
    }

    fn send(&mut self, send: &Send) -> io::Result<()> {
        let start = send.stamps.send;
        let last = Stage::ALL.into_iter().filter_map(|stage| send.stamps.at(stage)).max().unwrap_or(start);
        let lane = self.lane(send, last)?;
        let title = format!("send {}", quantity::bytes(send.bytes.into()));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            annotate(event, send);
        })?;
        // Legs follow each other; one whose stages are in an impossible order, or that would overlap the one before
        // (a NIC stamp converted from another clock can), is left out: its stamps are in the other outputs.
        let mut at = start;
        for (leg, from, to) in spans(send) {
            if from < at || to < from {
                continue;
            }
            self.slice(lane, SLICE_BEGIN, from, |event| {
                event.bytes(23, leg.name().as_bytes());
            })?;
            self.slice(lane, SLICE_END, to, |_| ())?;
            at = to;
        }
        self.slice(lane, SLICE_END, last, |_| ())
    }

    fn slice(
        &mut self,
        lane: u64,
        kind: u64,
        at: Instant<Monotonic>,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        self.packet(|p| {
            p.number(trace_packet::TIMESTAMP, at.as_nanos()).number(trace_packet::CLOCK_ID, MONOTONIC);
            p.message(trace_packet::TRACK_EVENT, |event| {
                event.number(9, kind).number(11, lane);
                fill(event);
            });
        })
    }
}

/// Each leg that is there, with its two moments.
fn spans(send: &Send) -> impl Iterator<Item = (Leg, Instant<Monotonic>, Instant<Monotonic>)> {
    let left_host = if send.stamps.nic.is_some() { Stage::Nic } else { Stage::Driver };
    [
        (Leg::Tcp, Stage::Send, Stage::Sched),
        (Leg::Qdisc, Stage::Sched, Stage::Driver),
        (Leg::Nic, Stage::Driver, Stage::Nic),
        (Leg::Network, left_host, Stage::Ack),
    ]
    .into_iter()
    .filter_map(|(leg, from, to)| Some((leg, send.stamps.at(from)?, send.stamps.at(to)?)))
}

/// What Perfetto shows as arguments of the slice.
fn annotate(event: &mut Message, send: &Send) {
    let state = &send.state;
    let numbers = [
        ("bytes", u64::from(send.bytes)),
        ("first_seq", send.first_seq.0.into()),
        ("cwnd (segments)", state.cwnd.into()),
        ("in flight (segments)", state.in_flight.into()),
        ("peer window (bytes)", state.peer_window.into()),
        ("unsent (bytes)", state.unsent.into()),
        ("srtt (ns)", state.srtt.0),
        ("merged sends", send.merged.sends.into()),
        ("merged bytes", send.merged.bytes.into()),
        ("retransmissions", send.retransmissions.into()),
    ];
    let errors = [
        ("sched error (ns)", send.stamps.sched_error.0),
        ("driver error (ns)", send.stamps.driver_error.0),
        ("nic error (ns)", send.stamps.nic.map_or(0, |nic| nic.error.0)),
    ];
    for (name, value) in numbers.into_iter().chain(errors.into_iter().filter(|e| e.1 > 0)) {
        event.message(4, |a| {
            a.number(3, value).bytes(10, name.as_bytes());
        });
    }
    let mut words = vec![("congestion", congestion(state.congestion))];
    if let Some(wait) = send.wait {
        words.push(("waited for", wait.reason.name()));
        event.message(4, |a| {
            a.number(3, wait.by_reason.0).bytes(10, b"waited (ns)");
        });
    }
    if send.stamps.ack.is_none() {
        words.push(("acknowledged", "no"));
    }
    for (name, value) in words {
        event.message(4, |a| {
            a.bytes(6, value.as_bytes()).bytes(10, name.as_bytes());
        });
    }
}
