//! One JSON object a line. `docs/json.md` describes the lines, `docs/records.md` the keys of each
//! record.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::net::SocketAddr;

use record::table::Record;
use record::table::object::{self, Field};
use record::{
    ClosedConnection, Connection, ConnectionId, Coverage, End, Event, Figure, Figures, Instant, Lost, Monotonic,
    Provenance, Send, Sink, SinkError, json,
};

use crate::json::Object;

/// Writes events as lines. Lines are gathered and passed on in blocks; [`Ndjson::flush`] passes on
/// what there is.
pub struct Ndjson<W> {
    out: W,
    lines: Vec<u8>,
    /// The ends of each open connection as the keys of a line, since every send repeats them.
    ends: HashMap<ConnectionId, Vec<u8>>,
    /// Those that are closed. A program may still read from them, so they are kept for a while.
    closed: VecDeque<ConnectionId>,
}

/// The ends of a connection that is not known.
const NO_ENDS: &[u8] = br#","local_address":null,"local_port":null,"remote_address":null,"remote_port":null"#;

/// The kind of a send that waits for its ACK.
const WAITING: &str = "waiting";

/// How many closed connections keep their ends.
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
        let run = object::of(run);
        this.line(Provenance::KIND, |o| provenance(o, &run))?;
        this.flush()?;
        Ok(this)
    }

    /// Writes the line of an event.
    ///
    /// # Errors
    /// What the output says.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Closed { connection, totals } => {
                self.closed(*connection);
                self.record(&ClosedConnection { connection: *connection, totals: *totals })
            }
            event => {
                if let Event::Connection(connection) = event {
                    self.opened(connection);
                }
                let ends_of = event.connection_without_ends();
                // What holds no record is of the request view alone.
                record::of_each_kind!(event, record => self.line_of(ends_of, record)).unwrap_or(Ok(()))
            }
        }
    }

    /// Writes the line of a send that waits for its ACK, with what is known of it now.
    ///
    /// # Errors
    /// What the output says.
    pub fn waiting(&mut self, send: &Send) -> io::Result<()> {
        let ends = self.ends.get(&send.connection).map_or(NO_ENDS, Vec::as_slice);
        line_of(&mut self.lines, WAITING, ends, send);
        self.ended()
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
        self.record(lost)?;
        self.line("summary", |o| {
            put(o, figures);
            o.object("coverage", |o| json::fields(o.buffer(), coverage, false));
        })?;
        self.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, kind: &str, fill: impl FnOnce(&mut Object<'_>)) -> io::Result<()> {
        let mut object = Object::begin(&mut self.lines);
        object.word("kind", kind);
        fill(&mut object);
        object.end();
        self.ended()
    }

    fn ended(&mut self) -> io::Result<()> {
        self.lines.push(b'\n');
        if self.lines.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn record<R: Record>(&mut self, record: &R) -> io::Result<()> {
        self.line_of(None, record)
    }

    /// The line of a record, with the ends of this connection before its own fields where one is
    /// given.
    fn line_of<R: Record>(&mut self, ends_of: Option<ConnectionId>, record: &R) -> io::Result<()> {
        let ends = ends_of.map_or(&[][..], |id| self.ends.get(&id).map_or(NO_ENDS, Vec::as_slice));
        line_of(&mut self.lines, R::KIND, ends, record);
        self.ended()
    }

    fn opened(&mut self, c: &Connection) {
        self.ends.insert(c.id, ends(c.local, c.remote));
    }

    fn closed(&mut self, id: ConnectionId) {
        self.closed.push_back(id);
        if self.closed.len() > CLOSED
            && let Some(first) = self.closed.pop_front()
        {
            self.ends.remove(&first);
        }
    }
}

impl<W: Write> Sink for Ndjson<W> {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.event(event).map_err(failed)
    }

    fn waiting(&mut self, send: &Send) -> Result<(), SinkError> {
        self.waiting(send).map_err(failed)
    }

    fn tick(&mut self, _: Instant<Monotonic>) -> Result<(), SinkError> {
        self.flush().map_err(failed)
    }

    fn finish(self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        (*self).finish(end.figures, end.lost, end.coverage).map_err(failed)?;
        Ok(None)
    }
}

fn failed(why: io::Error) -> SinkError {
    SinkError::new("JSON lines", why)
}

/// The ends of a connection as the keys of a line.
fn ends(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let end = |name: &str, at: SocketAddr| format!(r#","{name}_address":"{}","{name}_port":{}"#, at.ip(), at.port());
    (end("local", local) + &end("remote", remote)).into_bytes()
}

/// Adds the line of a record, up to its end, as one of this kind and with these keys before its own
/// fields.
fn line_of<R: Record>(out: &mut Vec<u8>, kind: &str, ends: &[u8], record: &R) {
    json::kind(out, kind);
    out.extend_from_slice(ends);
    json::fields(out, record, true);
    out.push(b'}');
}

/// Adds the line of a send that waits for its ACK, where its connection has these ends.
pub fn waiting(out: &mut Vec<u8>, of: Option<(SocketAddr, SocketAddr)>, send: &Send) {
    match of {
        Some((local, remote)) => line_of(out, WAITING, &ends(local, remote), send),
        None => line_of(out, WAITING, NO_ENDS, send),
    }
    out.push(b'\n');
}

/// Adds the line of a record.
pub fn line<R: Record>(out: &mut Vec<u8>, record: &R) {
    json::object(out, record);
    out.push(b'\n');
}

/// The line names the clock of its moments; the fields of the clock stand beside it.
fn provenance(o: &mut Object<'_>, run: &object::Fields) {
    for (key, field) in &run.0 {
        match field {
            Field::One(value) => o.raw(key, &value.to_string()),
            Field::Group(clock) if *key == "clock" => {
                o.word("clock", "monotonic");
                provenance(o, clock);
            }
            Field::Group(group) if group.is_null() => o.raw(key, "null"),
            Field::Group(group) => o.object(key, |o| provenance(o, group)),
        }
    }
}

fn put(o: &mut Object<'_>, figures: &Figures) {
    for (key, figure) in &figures.0 {
        match figure {
            Figure::Number(value) => o.number_or_null(key, *value),
            Figure::Group(inner) => o.object(key, |o| put(o, inner)),
        }
    }
}
