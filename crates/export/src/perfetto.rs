//! A trace that opens in <https://ui.perfetto.dev>: a process for each owner, in it a track for
//! each connection, in it the sends with their legs.
//!
//! Sends overlap: hundreds can be on their way at once, and slices of one Perfetto track must nest.
//! So a connection has as many child tracks (*lanes*) as it ever had sends in flight. A send goes
//! into the first lane that is free by the time it was made, and lanes have one name, which
//! Perfetto shows as one track of several rows.
//!
//! The field numbers are those of `protos/perfetto/trace` in the Perfetto sources.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use record::{
    ClockReading, Component, Connection, ConnectionId, Datagram, DatagramStamps, Direction, Dropped, End, Event,
    Instant, Leg, Monotonic, Owner, Packet, PacketCopy, Provenance, Receive, ReceiveLeg, ReceiveStage, Request, Role,
    Send, Sink, SinkError, Stage,
};

use crate::format::Format;
use crate::protobuf::Message;

/// `BuiltinClock.BUILTIN_CLOCK_REALTIME` and `…_MONOTONIC`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
/// All packets are of one sequence; its number only has to be other than zero.
const SEQUENCE: u64 = 1;

/// The format, in a file.
pub(crate) struct InFile;

impl Format for InFile {
    fn option(&self) -> &'static str {
        "perfetto"
    }

    fn help(&self) -> &'static str {
        "Write a trace for ui.perfetto.dev"
    }

    fn name(&self) -> &'static str {
        "Perfetto"
    }

    fn begin(&self, out: Box<dyn Write>, run: &Provenance, file: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(Box::new(Perfetto::begin(out, run.start_ns, &run.clock)?.named(file)))
    }
}

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
    name: String,
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
    name: &'static str,
    busy_until: Instant<Monotonic>,
}

impl<W: Write> Perfetto<W> {
    /// Writes to `out`, the relation of the clocks first: `start_ns` is a moment on
    /// `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn begin(out: W, start_ns: u64, clock: &ClockReading) -> io::Result<Self> {
        let mut this = Self {
            out,
            name: "Perfetto file".into(),
            next_track: 1,
            processes: HashMap::new(),
            connections: HashMap::new(),
        };
        let real = clock.realtime_ns(start_ns);
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

    /// What errors call it: the file's name.
    #[must_use]
    pub fn named(mut self, file: &Path) -> Self {
        self.name = format!("Perfetto file {}", file.display());
        self
    }

    /// Writes the packets of an event.
    ///
    /// # Errors
    /// What the output says.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Connection(connection) => self.connection(connection),
            // An attempt that failed has no track of a connection; handshakes show in the requests
            // that they belong to.
            Event::SetUp(_)
            | Event::Connect(_)
            | Event::Head(_)
            | Event::Exchange(_)
            | Event::CopyDropped(_)
            | Event::Question(_) => Ok(()),
            Event::Copy(copy) => self.copy(copy),
            Event::Send(send) => self.send(send),
            Event::Receive(receive) => self.receive(receive),
            Event::Request(request) => self.request(request),
            Event::Packet(packet) => self.one_packet(packet),
            Event::Datagram(datagram) => self.datagram(datagram),
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

    /// The lane of this name that is free from `start` on, made where there is none, and taken
    /// until `end`.
    fn lane(
        &mut self,
        connection: ConnectionId,
        owner: Owner,
        name: &'static str,
        start: Instant<Monotonic>,
        end: Instant<Monotonic>,
    ) -> io::Result<u64> {
        if !self.connections.contains_key(&connection) {
            let process = self.process(owner)?;
            let title = format!("connection {connection}");
            let id = self.track(Some(process), |track| {
                track.bytes(2, title.as_bytes());
            })?;
            self.connections.insert(connection, Track { id, lanes: Vec::new() });
        }
        let Some(track) = self.connections.get_mut(&connection) else { return Ok(0) };
        if let Some(lane) = track.lanes.iter_mut().find(|lane| lane.name == name && lane.busy_until <= start) {
            lane.busy_until = end;
            return Ok(lane.id);
        }
        let parent = track.id;
        let id = self.track(Some(parent), |track| {
            track.bytes(2, name.as_bytes());
        })?;
        if let Some(track) = self.connections.get_mut(&connection) {
            track.lanes.push(Lane { id, name, busy_until: end });
        }
        Ok(id)
    }

    fn one_packet(&mut self, packet: &Packet) -> io::Result<()> {
        let dropped = packet.dropped.as_ref();
        let stamps = [packet.sched, packet.driver, packet.ack, dropped.map(|d| d.at)].into_iter().flatten();
        let (Some(start), Some(last)) = (stamps.clone().min(), stamps.max()) else { return Ok(()) };
        let lane = self.lane(packet.connection, Owner::default(), "packets", start, last)?;
        let again = if packet.retransmission { "again " } else { "" };
        let title = format!("{again}{} {}", packet.flags, quantity::bytes(packet.bytes.into()));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            numbers(
                event,
                &[
                    ("bytes", packet.bytes.into()),
                    ("first_seq", packet.first_seq.0.into()),
                    ("segments", packet.segments.into()),
                    ("frame (bytes)", packet.frame_bytes.into()),
                    ("gap (ns)", packet.gap.map_or(0, |gap| gap.0)),
                ],
            );
            why_dropped(event, dropped);
        })?;
        let legs = [("qdisc", packet.sched, packet.driver), ("network", packet.driver, packet.ack)];
        self.inner(lane, start, legs.into_iter().filter_map(|(name, from, to)| Some((name, from?, to?))))?;
        self.slice(lane, SLICE_END, last, |_| ())
    }

    fn datagram(&mut self, datagram: &Datagram) -> io::Result<()> {
        let dropped = datagram.dropped.as_ref();
        let (stamps, names) = match datagram.stamps {
            DatagramStamps::Sent { send, sched, driver } => ([send, sched, driver, None], ["udp", "qdisc", ""]),
            DatagramStamps::Received { driver_rx, udp_rx, ready, read } => {
                ([driver_rx, udp_rx, ready, read], ["softirq", "softirq", "socket"])
            }
        };
        let moments = stamps.into_iter().chain([dropped.map(|d| d.at)]).flatten();
        let (Some(start), Some(last)) = (moments.clone().min(), moments.max()) else { return Ok(()) };
        if !self.connections.contains_key(&datagram.socket) {
            let process = self.process(datagram.owner)?;
            let name = format!("UDP {} ({})", datagram.local, datagram.socket);
            let id = self.track(Some(process), |track| {
                track.bytes(2, name.as_bytes());
            })?;
            self.connections.insert(datagram.socket, Track { id, lanes: Vec::new() });
        }
        let lane = self.lane(datagram.socket, datagram.owner, "datagrams", start, last)?;
        let arrow = match datagram.direction() {
            Direction::Sent => "→",
            Direction::Received => "←",
        };
        let title = format!("{arrow} {} {}", datagram.remote, quantity::bytes(datagram.bytes.into()));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            numbers(event, &[("bytes", datagram.bytes.into()), ("segments", datagram.segments.into())]);
            why_dropped(event, dropped);
        })?;
        let legs = names.into_iter().zip(stamps.windows(2)).filter_map(|(name, pair)| Some((name, pair[0]?, pair[1]?)));
        self.inner(lane, start, legs)?;
        self.slice(lane, SLICE_END, last, |_| ())
    }

    /// A packet that was copied: a moment, with its stages on this host a slice.
    fn copy(&mut self, copy: &PacketCopy) -> io::Result<()> {
        let of = &copy.stages;
        let (first, legs) = match (copy.direction, copy.is_tcp()) {
            // The stages of a stream are those of its sends, which have their own slices.
            (Direction::Sent, true) => (None, [None; 3]),
            (Direction::Sent, false) => (of.send, [Some(("udp", of.sched)), Some(("qdisc", of.driver)), None]),
            (Direction::Received, _) => {
                (of.driver_rx, [Some(("softirq", of.tcp_rx)), Some(("socket", of.ready)), Some(("wakeup", of.read))])
            }
        };
        let dropped = copy.dropped.as_ref();
        let ends = legs.iter().flatten().filter_map(|leg| leg.1);
        let moments = [Some(copy.at), first, dropped.map(|of| of.at)].into_iter().flatten().chain(ends);
        let (start, last) = moments.fold((copy.at, copy.at), |(start, last), at| (start.min(at), last.max(at)));
        let lane = self.lane(copy.socket, copy.owner, "packets (copies)", start, last)?;
        let (arrow, again) = match copy.direction {
            Direction::Sent => ("→", if copy.again.is_some() { "again " } else { "" }),
            Direction::Received => ("←", ""),
        };
        let flags = if copy.is_tcp() { format!("{} ", copy.flags) } else { String::new() };
        let title = match copy.icmp {
            Some(of) => format!("{arrow} ICMP error, type {} code {}", of.kind, of.code),
            None => format!("{arrow} {again}{flags}{}", quantity::bytes(copy.payload.into())),
        };
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            let mut fields = vec![
                ("packet", copy.id),
                ("length (bytes)", copy.length.into()),
                ("first_seq", copy.first_seq.0.into()),
                ("segments", copy.segments.into()),
            ];
            if let Some(send) = &copy.carried {
                fields.push(("send", send.number));
            }
            if let Some(thread) = copy.thread {
                fields.push(("thread", thread.into()));
            }
            numbers(event, &fields);
            why_dropped(event, dropped);
        })?;
        let mut from = first;
        let mut inner = Vec::new();
        for (name, to) in legs.into_iter().flatten() {
            if let (Some(from), Some(to)) = (from, to) {
                inner.push((name, from, to));
            }
            from = to.or(from);
        }
        self.inner(lane, start, inner.into_iter())?;
        self.slice(lane, SLICE_END, last, |_| ())
    }

    fn receive(&mut self, receive: &Receive) -> io::Result<()> {
        let stamps = ReceiveStage::ALL.into_iter().filter_map(|stage| receive.stamps.at(stage));
        let (Some(start), Some(last)) = (stamps.clone().min(), stamps.max()) else { return Ok(()) };
        let lane = self.lane(receive.connection, receive.reader, "receives", start, last)?;
        let title = format!("receive {}", quantity::bytes(receive.bytes.into()));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            numbers(
                event,
                &[
                    ("bytes", receive.bytes.into()),
                    ("first_seq", receive.first_seq.0.into()),
                    ("segments", receive.segments.into()),
                    ("queued (bytes)", receive.queued.into()),
                    ("out of order", receive.out_of_order.into()),
                ],
            );
        })?;
        let legs = ReceiveLeg::ADDITIVE.into_iter().filter_map(|leg| {
            let (from, to) = receive.span(leg)?;
            Some((leg.name(), from, to))
        });
        self.inner(lane, start, legs)?;
        self.slice(lane, SLICE_END, last, |_| ())
    }

    fn request(&mut self, request: &Request) -> io::Result<()> {
        let (Some(start), Some(last)) = (request.began(), request.ended()) else { return Ok(()) };
        if last < start {
            return Ok(());
        }
        let lane = self.lane(request.connection, request.owner, "requests", start, last)?;
        let label = request.http.label().map(|label| label.to_string());
        let title = label.unwrap_or_else(|| format!("request {}", quantity::bytes(request.request.bytes)));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            let mut all = vec![("request (bytes)", request.request.bytes), ("answer (bytes)", request.answer.bytes)];
            all.extend(
                Component::ALL.into_iter().filter_map(|p| Some((p.name(), request.components.as_ref()?.get(p)?.0))),
            );
            numbers(event, &all);
        })?;
        let m = &request.moments;
        let steps = match request.role {
            Role::Client => [
                ("connecting", m.connecting, m.connected),
                ("writing", m.sent, m.written),
                ("sending", m.written, m.left),
                ("network and peer", m.left, m.arrived),
                ("transfer", m.arrived, m.last_arrived),
                ("receiving", m.last_arrived, m.ready),
                ("reading", m.ready, m.read),
            ],
            Role::Server => [
                ("transfer", m.arrived, m.last_arrived),
                ("receiving", m.last_arrived, m.ready),
                ("reading", m.ready, m.read),
                ("working", m.read, m.sent),
                ("writing", m.sent, m.written),
                ("sending", m.written, m.left),
                ("sending", None, None),
            ],
        };
        self.inner(lane, start, steps.into_iter().filter_map(|(name, from, to)| Some((name, from?, to?))))?;
        self.slice(lane, SLICE_END, last, |_| ())
    }

    /// Slices within one that began at `start`. They follow each other; one that is in an
    /// impossible order, or that would overlap the one before, is excluded: its stamps are in the
    /// other outputs.
    fn inner(
        &mut self,
        lane: u64,
        start: Instant<Monotonic>,
        slices: impl Iterator<Item = (&'static str, Instant<Monotonic>, Instant<Monotonic>)>,
    ) -> io::Result<()> {
        let mut at = start;
        for (name, from, to) in slices {
            if from < at || to < from {
                continue;
            }
            self.slice(lane, SLICE_BEGIN, from, |event| {
                event.bytes(23, name.as_bytes());
            })?;
            self.slice(lane, SLICE_END, to, |_| ())?;
            at = to;
        }
        Ok(())
    }

    fn send(&mut self, send: &Send) -> io::Result<()> {
        let start = send.stamps.send;
        let last = Stage::ALL.into_iter().filter_map(|stage| send.stamps.at(stage)).max().unwrap_or(start);
        let lane = self.lane(send.connection, send.owner, "sends", start, last)?;
        let title = format!("send {}", quantity::bytes(send.bytes.into()));
        self.slice(lane, SLICE_BEGIN, start, |event| {
            event.bytes(23, title.as_bytes());
            annotate(event, send);
        })?;
        // A NIC stamp converted from another clock can lie within the leg before it.
        self.inner(lane, start, spans(send).map(|(leg, from, to)| (leg.name(), from, to)))?;
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

impl<W: Write> Sink for Perfetto<W> {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.event(event).map_err(|why| SinkError::new(&self.name, why))
    }

    fn finish(self: Box<Self>, _: &End<'_>) -> Result<Option<String>, SinkError> {
        let name = self.name.clone();
        (*self).finish().map_err(|why| SinkError::new(name, why))?;
        Ok(Some("open it in https://ui.perfetto.dev".to_owned()))
    }
}

/// Each leg that is there, with its two moments.
fn spans(send: &Send) -> impl Iterator<Item = (Leg, Instant<Monotonic>, Instant<Monotonic>)> {
    let left_host = if send.stamps.nic.is_some() { Stage::Nic } else { Stage::Driver };
    [
        (Leg::Call, Stage::Call, Stage::Send),
        (Leg::Tcp, Stage::Send, Stage::Sched),
        (Leg::Qdisc, Stage::Sched, Stage::Driver),
        (Leg::Nic, Stage::Driver, Stage::Nic),
        (Leg::Network, left_host, Stage::Ack),
    ]
    .into_iter()
    .filter_map(|(leg, from, to)| Some((leg, send.stamps.at(from)?, send.stamps.at(to)?)))
}

/// Figures that Perfetto shows as arguments of the slice.
fn numbers(event: &mut Message, numbers: &[(&str, u64)]) {
    for (name, value) in numbers {
        event.message(4, |a| {
            a.number(3, *value).bytes(10, name.as_bytes());
        });
    }
}

/// What Perfetto shows as arguments of the slice of a send.
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
        ("retransmissions", send.retransmissions.into()),
    ];
    self::numbers(event, &numbers);
    let errors = [
        ("sched error (ns)", send.stamps.sched_error.0),
        ("driver error (ns)", send.stamps.driver_error.0),
        ("ack error (ns)", send.stamps.ack_error.0),
        ("nic error (ns)", send.stamps.nic.map_or(0, |nic| nic.error.0)),
    ];
    let errors: Vec<_> = errors.into_iter().filter(|e| e.1 > 0).collect();
    self::numbers(event, &errors);
    let mut words = vec![("congestion", state.congestion.name())];
    if let Some(wait) = send.wait {
        words.push(("waited for", wait.reason().name()));
        for (reason, time) in wait.each() {
            let name = format!("waited, {reason} (ns)");
            event.message(4, |a| {
                a.number(3, time.0).bytes(10, name.as_bytes());
            });
        }
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

fn why_dropped(event: &mut Message, dropped: Option<&Dropped>) {
    if let Some(dropped) = dropped {
        event.message(4, |a| {
            a.bytes(6, dropped.reason.0.as_bytes()).bytes(10, b"dropped");
        });
    }
}
