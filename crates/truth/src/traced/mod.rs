//! A tracer beside a plan, and what it says of each connection: the same figures and sentences that
//! `wirelapse trace` prints, of one end at a time, as a trace of that host alone has them.

mod judge;
mod requests;
mod said;
mod sends;
mod verdict;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use paper::document::Document;
use record::{
    ClockReading, ConnectionId, ConnectionTotals, Coverage, Event, Instant, Lost, Nanos, Provenance, Sampling,
    table::Record as _,
};
use report::page::trace::{SLOWEST_SHOWN, Subject, describe, figures};
use report::view::Facts;
use serde::{Deserialize, Serialize};

use trace::{Config, Target, Tracer};

pub use verdict::{Part, Verdict, tables};

use crate::plan::Plan;
use crate::run::Observation;

/// What a trace is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// `wirelapse trace`.
    Sends,
    /// `wirelapse trace --receive`.
    Receives,
    /// `wirelapse trace --requests`.
    Requests,
}

impl Reading {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Sends, Self::Receives, Self::Requests];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sends => "`trace`",
            Self::Receives => "`trace --receive`",
            Self::Requests => "`trace --requests`",
        }
    }
}

/// What a tracer reported while a plan ran.
pub struct Traced {
    events: Vec<Event>,
    clock: ClockReading,
    /// By which backend: each has its own figures.
    pub backend: String,
    /// What it missed.
    lost: Lost,
}

/// How often the tracer is asked for what it has.
const TURN: Duration = Duration::from_millis(50);

impl Plan {
    /// Runs it with a tracer of this process beside it, in which both ends of each connection are.
    ///
    /// # Panics
    /// Where the lab cannot be made, or this kernel takes no tracer.
    pub fn run_traced(&self) -> (Observation, Traced) {
        let over = AtomicBool::new(false);
        let (ready, is_ready) = mpsc::channel();
        thread::scope(|scope| {
            let tracer = scope.spawn(|| Traced::follow(&over, ready));
            // Where the tracer cannot start, its own words come when it is joined.
            let seen = is_ready.recv().map(|()| self.run());
            over.store(true, Ordering::Relaxed);
            let traced = tracer.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            (seen.expect("the tracer has started"), traced)
        })
    }
}

impl Traced {
    /// Traces this process until it is over.
    fn follow(over: &AtomicBool, ready: mpsc::Sender<()>) -> Self {
        let config = Config {
            target: Target { pids: vec![std::process::id()], ..Target::default() },
            calls: true,
            receive: true,
            ..Config::default()
        };
        let mut tracer = Tracer::start(&config).unwrap_or_else(|e| panic!("the tracer: {e}"));
        let (backend, clock) = (tracer.backend().to_string(), tracer.clock().into());
        _ = ready.send(());
        let mut events = Vec::new();
        while !over.load(Ordering::Relaxed) {
            tracer.poll(TURN, &mut |event| events.push(event)).expect("the trace goes on");
        }
        let (last, asked) = tracer.finish(&mut |event| events.push(event));
        asked.expect("the trace ends");
        Self { events, clock, backend, lost: last.lost }
    }

    /// What was reported of one connection.
    fn of(&self, id: ConnectionId) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| {
            let of = match event {
                Event::Connection(connection) => Some(connection.id),
                Event::Connect(connect) => connect.connection,
                Event::Closed { connection, .. } => Some(*connection),
                event => event.connection_without_ends(),
            };
            of == Some(id)
        })
    }

    /// What a user reads of this connection alone; `None` where it was not seen.
    fn document(&self, id: ConnectionId, reading: Reading) -> Option<Document> {
        let since = self.of(id).find_map(|event| match event {
            Event::Connection(connection) => Some(connection.since),
            _ => None,
        })?;
        let totals: ConnectionTotals = self.of(id).find_map(|event| match event {
            Event::Closed { totals, .. } => Some(*totals),
            _ => None,
        })?;
        let mut summary = figures(since, SLOWEST_SHOWN);
        let mut requests = (reading == Reading::Requests).then(|| summary::Requests::default().joining_programs());
        let mut ended = Vec::new();
        for event in self.of(id) {
            if reading == Reading::Sends && matches!(event, Event::Receive(_)) {
                continue;
            }
            summary.add(event);
            requests.iter_mut().for_each(|requests| requests.event(event, &mut |request| ended.push(request)));
        }
        requests.iter_mut().for_each(|requests| requests.finish(&mut |request| ended.push(request)));
        ended.into_iter().for_each(|request| summary.add(&request.into()));
        let facts = Facts {
            target: "the plan's programs".to_owned(),
            backend: self.backend.clone(),
            sampling: Sampling::Every,
            coverage: Coverage {
                followed: totals.followed,
                armed: totals.armed,
                bytes_written: totals.bytes_written,
                bytes_armed: totals.bytes_armed,
            },
            lost: Lost::default(),
            lasted: summary.last().since(since).unwrap_or(Nanos::ZERO),
            no_nic: None,
            calls: Vec::new(),
            connects: Vec::new(),
            receiving: Vec::new(),
            http: Vec::new(),
            packets: Vec::new(),
            copies: Vec::new(),
            dns: Vec::new(),
        };
        let provenance = Provenance { clock: self.clock, start_ns: Instant::as_nanos(since), ..Provenance::blank() };
        Some(describe(&Subject {
            name: None,
            provenance: &provenance,
            path: None,
            finished: true,
            facts: &facts,
            slowest: SLOWEST_SHOWN,
            figures: &summary,
        }))
    }
}
