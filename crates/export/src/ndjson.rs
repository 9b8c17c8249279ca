//! One JSON object a line. `docs/json.md` describes every key.

mod packets;
mod receiving;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use record::{
    Congestion, Connection, ConnectionId, ConnectionTotals, Coverage, Event, Figure, Figures, Instant, Leg, Lost,
    Monotonic, Opening, Provenance, Send,
};

use crate::json::Object;

/// Writes events as lines. Lines are gathered and passed on in blocks; [`Ndjson::flush`] passes on what there is.
pub struct Ndjson<W> {
    out: W,
    lines: Vec<u8>,
    /// The ends of each open connection as text, since every send repeats them.
    ends: HashMap<ConnectionId, Ends>,
    /// Those whose connection is over. A program may still read from it, so they are kept for a while.
    closed: VecDeque<ConnectionId>,
}

/// The local and the remote end, as text.
type Ends = (String, String);

/// How many connections that are over keep their ends.
const CLOSED: usize = 4096;

/// When to pass lines on: large enough that a write costs little for each line.
const BLOCK: usize = 64 << 10;

impl<W: Write> Ndjson<W> {
    /// Writes to `out`, the `run` line first.
    ///
    /// # Errors
    /// What `out` says.
    pub fn begin(out: W, run: &Provenance) -> io::Result<Self> {
        let mut this =
            Self { out, lines: Vec::with_capacity(2 * BLOCK), ends: HashMap::new(), closed: VecDeque::new() };
        this.line("run", |o| {
            o.text("version", &run.version);
            o.raw("command_line", &serde_json::to_string(&run.command_line).unwrap_or_else(|_| "null".into()));
            o.text("kernel", &run.kernel);
            o.text("machine", &run.machine);
            o.number("cpus", run.cpus);
            o.text("backend", &run.backend);
            o.text("target", &run.target);
            o.raw("sampling", &serde_json::to_string(&run.sampling).unwrap_or_else(|_| "null".into()));
            o.number_or_null("max_rate", run.max_rate);
            o.raw("receiving", &serde_json::to_string(&run.receiving).unwrap_or_else(|_| "null".into()));
            o.raw("packets", &serde_json::to_string(&run.packets).unwrap_or_else(|_| "null".into()));
            o.word("clock", "monotonic");
            o.number("realtime_offset_ns", run.clock.realtime_offset_ns);
            o.number("realtime_offset_error_ns", run.clock.realtime_offset_error_ns);
            o.number("start_ns", run.start_ns);
        })?;
        this.flush()?;
        Ok(this)
    }

    /// Writes the line of an event.
    ///
    /// # Errors
    /// What the output says.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Connection(connection) => self.connection(connection),
            Event::Send(send) => self.send(send),
            Event::Receive(r) => self.with_ends(r.connection, "receive", |o, ends| receiving::receive(o, r, ends)),
            Event::Request(r) => self.with_ends(r.connection, "request", |o, ends| receiving::request(o, r, ends)),
            Event::Packet(p) => self.line("packet", |o| packets::packet(o, p)),
            Event::Datagram(d) => self.line("datagram", |o| packets::datagram(o, d)),
            Event::Closed { connection, totals } => self.closed(*connection, totals),
        }
    }

    /// Passes on what has gathered.
    ///
    /// # Errors
    /// What the output says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.lines)?;
        self.lines.clear();
        self.out.flush()
    }

    /// Writes the `lost` and the `summary` line, and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self, figures: &Figures, lost: &Lost, coverage: &Coverage) -> io::Result<W> {
        self.line("lost", |o| lost.entries().for_each(|(key, _, value)| o.number(key, value)))?;
        self.line("summary", |o| {
            put(o, figures);
            o.object("coverage", |o| {
                o.number("followed_ns", coverage.followed.0);
                o.number("armed_ns", coverage.armed.0);
                o.number("bytes_written", coverage.bytes_written);
                o.number("bytes_armed", coverage.bytes_armed);
            });
        })?;
        self.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, kind: &str, fill: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let mut object = Object::begin(&mut self.lines);
        object.word("kind", kind);
        fill(&mut object);
        object.end();
        self.lines.push(b'\n');
        if self.lines.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn connection(&mut self, c: &Connection) -> io::Result<()> {
        let ends = (c.local.to_string(), c.remote.to_string());
        self.line("connection", |o| {
            o.number("connection", c.id.0);
            o.number("pid", c.owner.pid);
            o.text("comm", &c.owner.comm.to_string());
            o.word("local", &ends.0);
            o.word("remote", &ends.1);
            o.word("opening", opening(c.opening));
            o.number("since_ns", c.since.as_nanos());
            o.text("congestion_control", &c.congestion_control);
        })?;
        self.ends.insert(c.id, ends);
        Ok(())
    }

    fn closed(&mut self, id: ConnectionId, totals: &ConnectionTotals) -> io::Result<()> {
        self.closed.push_back(id);
        if self.closed.len() > CLOSED
            && let Some(first) = self.closed.pop_front()
        {
            self.ends.remove(&first);
        }
        self.line("closed", |o| {
            o.number("connection", id.0);
            o.number("followed_ns", totals.followed.0);
            o.number("armed_ns", totals.armed.0);
            o.number("bytes_written", totals.bytes_written);
            o.number("bytes_armed", totals.bytes_armed);
            o.number("bytes_acked", totals.bytes_acked);
            o.number("segments_retransmitted", totals.segments_retransmitted);
        })
    }

    fn with_ends(
        &mut self,
        id: ConnectionId,
        kind: &str,
        fill: impl FnOnce(&mut Object<'_>, Option<&Ends>),
    ) -> io::Result<()> {
        // Taken out for the time of the line, because the line borrows the buffer beside it.
        let ends = std::mem::take(&mut self.ends);
        let written = self.line(kind, |o| fill(o, ends.get(&id)));
        self.ends = ends;
        written
    }

    fn send(&mut self, s: &Send) -> io::Result<()> {
        self.with_ends(s.connection, "send", |o, known| {
            o.number("connection", s.connection.0);
            o.number("pid", s.owner.pid);
            o.text("comm", &s.owner.comm.to_string());
            addresses(o, known);
            o.number("first_seq", s.first_seq.0);
            o.number("bytes", s.bytes);
            o.number("at_ns", s.stamps.send.as_nanos());
            for (key, leg) in LEGS {
                o.number_or_null(key, s.leg(leg).ok().flatten().map(|n| n.0));
            }
            o.number_or_null("sched_error_ns", s.stamps.sched.map(|_| s.stamps.sched_error.0));
            o.number_or_null("driver_error_ns", s.stamps.driver.map(|_| s.stamps.driver_error.0));
            o.number_or_null("nic_error_ns", s.stamps.nic.map(|t| t.error.0));
            match s.wait {
                Some(wait) => {
                    o.word("waited_for", wait.reason.name());
                    o.number("waited_ns", wait.by_reason.0);
                }
                None => {
                    o.raw("waited_for", "null");
                    o.raw("waited_ns", "null");
                }
            }
            o.number("cwnd", s.state.cwnd);
            o.number("ssthresh", s.state.ssthresh);
            o.number("in_flight", s.state.in_flight);
            o.number("unacked", s.state.unacked);
            o.number("unsent", s.state.unsent);
            o.number("peer_window", s.state.peer_window);
            o.number("mss", s.state.mss);
            o.number("srtt_ns", s.state.srtt.0);
            o.number_or_null("pacing_rate", Some(s.state.pacing_rate).filter(|&r| r != u64::MAX));
            o.number("send_buffer", s.state.send_buffer);
            o.number("send_buffer_used", s.state.send_buffer_used);
            o.word("congestion", congestion(s.state.congestion));
            o.number("busy_ns", s.state.busy.0);
            o.number("receive_window_limited_ns", s.state.receive_window_limited.0);
            o.number("send_buffer_limited_ns", s.state.send_buffer_limited.0);
            o.number("merged_sends", s.merged.sends);
            o.number("merged_bytes", s.merged.bytes);
            o.number_or_null("oldest_tcp_ns", s.oldest_tcp_wait().map(|n| n.0));
            o.number("retransmissions", s.retransmissions);
        })
    }
}

const LEGS: [(&str, Leg); 5] = [
    ("tcp_ns", Leg::Tcp),
    ("qdisc_ns", Leg::Qdisc),
    ("nic_ns", Leg::Nic),
    ("network_ns", Leg::Network),
    ("total_ns", Leg::Total),
];

fn put(o: &mut Object<'_>, figures: &Figures) {
    for (key, figure) in &figures.0 {
        match figure {
            Figure::Number(value) => o.number_or_null(key, *value),
            Figure::Group(inner) => o.object(key, |o| put(o, inner)),
        }
    }
}

fn moment(o: &mut Object<'_>, key: &str, at: Option<Instant<Monotonic>>) {
    o.number_or_null(key, at.map(Instant::as_nanos));
}

fn addresses(o: &mut Object<'_>, ends: Option<&Ends>) {
    match ends {
        Some((local, remote)) => {
            o.word("local", local);
            o.word("remote", remote);
        }
        None => {
            o.raw("local", "null");
            o.raw("remote", "null");
        }
    }
}

const fn opening(opening: Opening) -> &'static str {
    match opening {
        Opening::Found => "found",
        Opening::Connected => "connected",
        Opening::Accepted => "accepted",
    }
}

pub(crate) const fn congestion(state: Congestion) -> &'static str {
    match state {
        Congestion::Open => "open",
        Congestion::Disorder => "disorder",
        Congestion::Cwr => "cwr",
        Congestion::Recovery => "recovery",
        Congestion::Loss => "loss",
    }
}
