//! `--min-latency`: what took long is kept, and printed as it happens.

use std::collections::HashMap;
use std::io::{self, Write as _};

use record::{ClockReading, ConnectionId, Event, Nanos, Send, SeqNumber};
use report::line;
use summary::{Timed, TimedKind};

use super::open::Open;
use crate::output::harmless;

/// Decides what is slow.
pub struct Slow {
    least: Nanos,
    clock: ClockReading,
    /// Whether each is a line on standard output.
    prints: bool,
    open: Open,
    /// The send of each connection that was printed while it waited for its ACK.
    waiting: HashMap<ConnectionId, SeqNumber>,
}

impl Slow {
    /// What takes `least` or longer is slow; `clock` gives the time of day.
    pub fn new(least: Nanos, clock: ClockReading, prints: bool) -> Self {
        Self { least, clock, prints, open: Open::default(), waiting: HashMap::new() }
    }

    /// Whether an event is kept: what says which connections there are, and what is slow. That is
    /// printed.
    ///
    /// # Errors
    /// What standard output says.
    pub fn keeps(&mut self, event: &Event) -> io::Result<bool> {
        self.open.event(event);
        if let Event::Closed { connection, .. } = event {
            self.waiting.remove(connection);
        }
        // What has no legs says which connections there are.
        let timed = record::of_each_kind_with_legs!(event, record => timed(record));
        let Some((began, total)) = timed else { return Ok(true) };
        let slow = total.is_some_and(|total| total >= self.least);
        if slow && self.prints {
            self.print(event, began)?;
        }
        Ok(slow)
    }

    /// Of the sends that wait for their ACK those that did not the last time, printed: each once,
    /// as records they come when they have one.
    ///
    /// # Errors
    /// What standard output says.
    pub fn waiting(&mut self, mut sends: Vec<Send>) -> io::Result<Vec<Send>> {
        sends.retain(|send| self.waiting.insert(send.connection, send.first_seq) != Some(send.first_seq));
        for send in sends.iter().filter(|_| self.prints) {
            self.print(&Event::Send(*send), Some(send.stamps.send.as_nanos()))?;
        }
        Ok(sends)
    }

    /// What is slow takes this long or longer.
    pub const fn least(&self) -> Nanos {
        self.least
    }

    fn print(&self, event: &Event, began: Option<u64>) -> io::Result<()> {
        let of = self.open.of_event(event);
        let Some(words) = line::slow(event, of.map(|of| of.0), of.map(|of| of.1)) else { return Ok(()) };
        let at = began.map_or_else(|| "—".into(), |at| self.clock.time_of_day(at));
        let mut out = crate::output::stdout().lock();
        writeln!(out, "{at}  {}", harmless(&words))?;
        // Each is to be seen as it happens, in a pipe too.
        out.flush()
    }
}

/// When a record began, and how long it took.
fn timed(record: &impl Timed) -> (Option<u64>, Option<Nanos>) {
    let kind: TimedKind = record.kind();
    (record.began().map(|at| at.as_nanos()), record.times_so_far()[kind.total()].map(Nanos))
}
