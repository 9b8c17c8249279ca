//! From the tracer to the rows of the screen: snapshots of histograms by interval, and the sends
//! that were recorded beside them.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use machine::who::{self, Hierarchy};
use record::histogram::SeriesKey;
use record::{ConnectionId, Coverage, Event, IpPrefix, Leg, Nanos, Send};
use report::live::{Opened, SlowestSend, Top};
use summary::{Group, SeriesHistory};
use trace::Tracer;

use super::recording::{self, Rights};
use super::screen::Screen;
use super::state::State;
use crate::hosts;

/// Intervals that are kept: those of a row that is open.
const KEPT: usize = 30;
/// Intervals that rows show.
const SHOWN: usize = 10;
/// Sends that are kept for rows that are opened.
const SENDS: usize = 20_000;
/// Connections that are kept by their ends.
const CONNECTIONS: usize = 20_000;
/// Sends of a row that are shown.
const SLOWEST: usize = 8;
/// How often it is found out what share was sampled, and which cgroups there are: both walk
/// through what there is.
const WALKS: u32 = 10;

/// The figures, as they come in.
pub struct Feed {
    interval: Nanos,
    history: SeriesHistory,
    sends: VecDeque<Send>,
    /// The oldest send of each connection that is stuck, the one that waits longest first.
    stuck: Vec<(Send, Option<(SocketAddr, SocketAddr)>)>,
    ends: HashMap<ConnectionId, (SocketAddr, SocketAddr)>,
    hierarchy: Option<Hierarchy>,
    coverage: Coverage,
    looked_at: f64,
    taken: Instant,
    cpu_before: Nanos,
    cpu: f64,
    turns: u32,
    drawn: bool,
    /// The names of hosts that came, where they are asked for.
    names: Option<HashMap<IpAddr, String>>,
}

impl Feed {
    pub fn new(interval: Nanos, resolve: bool) -> Self {
        Self {
            interval,
            history: SeriesHistory::new(KEPT),
            sends: VecDeque::new(),
            stuck: Vec::new(),
            ends: HashMap::new(),
            hierarchy: who::mount().map(|mount| Hierarchy::new(&mount)),
            coverage: Coverage::default(),
            looked_at: 1.0,
            taken: Instant::now(),
            cpu_before: cpu_time(),
            cpu: 0.0,
            turns: 0,
            drawn: false,
            names: resolve.then(HashMap::new),
        }
    }

    /// Takes what the tracer has; gives whether an interval is over.
    pub fn take(&mut self, tracer: &mut Tracer, state: &mut State) -> anyhow::Result<bool> {
        let mut events = Vec::new();
        let polled = tracer.poll(Duration::ZERO, &mut |event| events.push(event));
        polled.context("the trace cannot go on")?;
        events.into_iter().for_each(|event| self.event(event));
        let length = Nanos::from(self.taken.elapsed());
        if length < self.interval {
            return Ok(false);
        }
        let snapshot = tracer.snapshot(timestamping::now()).context("the trace cannot go on")?;
        let cpu = cpu_time();
        self.cpu = cpu.0.saturating_sub(self.cpu_before.0) as f64 / length.0.max(1) as f64;
        (self.cpu_before, self.taken) = (cpu, Instant::now());
        if self.turns.is_multiple_of(WALKS) {
            self.walk(tracer);
        }
        self.turns += 1;
        if !state.paused {
            self.look_for_stuck(tracer);
            self.history.add(snapshot.unwrap_or_default().series, length);
        }
        Ok(true)
    }

    fn look_for_stuck(&mut self, tracer: &Tracer) {
        let mut stuck = tracer.waiting(timestamping::now(), summary::STUCK);
        stuck.retain(summary::is_stuck);
        stuck.sort_by_key(|send| std::cmp::Reverse(send.unacknowledged.map(|u| u.idle)));
        self.stuck = stuck.into_iter().map(|send| (send, self.ends.get(&send.connection).copied())).collect();
    }

    fn walk(&mut self, tracer: &mut Tracer) {
        let now = tracer.coverage();
        let grown = |of: fn(&Coverage) -> u64| of(&now).saturating_sub(of(&self.coverage)) as f64;
        let (armed, written) = (grown(|c| c.bytes_armed), grown(|c| c.bytes_written));
        if written > 0.0 {
            self.looked_at = (armed / written).clamp(0.0, 1.0);
        }
        self.coverage = now;
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.refresh();
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Send(send) => {
                if self.sends.len() == SENDS {
                    self.sends.pop_front();
                }
                self.sends.push_back(send);
            }
            Event::Connection(connection) => {
                if self.ends.len() >= CONNECTIONS {
                    self.ends.clear();
                }
                self.ends.insert(connection.id, (connection.local, connection.remote));
            }
            _ => {}
        }
    }

    fn cgroup(&self, id: u64) -> String {
        let path = self.hierarchy.as_ref().and_then(|hierarchy| hierarchy.path(id));
        path.map_or_else(|| format!("cgroup {id}"), |path| if path.is_empty() { "/".into() } else { path.to_owned() })
    }

    /// The rows as they are asked for.
    pub fn rows(&self, state: &State) -> Vec<Group> {
        let mut rows = self.history.groups(state.by, SHOWN, &|id| self.cgroup(id));
        let wanted = state.filter.to_lowercase();
        let has = |label: &str| label.to_lowercase().contains(&wanted);
        rows.retain(|row| has(&row.label) || has(&self.name(row)));
        state.sort.sort(&mut rows);
        rows
    }

    /// Asks for the names of the hosts that rows show; those that have come after this time at the
    /// latest are shown from here on.
    ///
    /// # Errors
    /// That the process that is asked has ended, with the cause.
    pub fn ask_names(&mut self, rights: &Rights, state: &State, wait: Duration) -> anyhow::Result<()> {
        if self.names.is_none() {
            return Ok(());
        }
        let rows = self.rows(state);
        let shown = rows.iter().filter_map(|row| Some(row.host.as_ref()?.at));
        self.names = Some(recording::names(rights, hosts::Query::new(shown, wait)).context("hosts cannot be named")?);
        Ok(())
    }

    /// The label of a row, with the name of its host where it is known.
    fn name(&self, row: &Group) -> String {
        let named = || {
            let host = row.host.as_ref()?;
            Some(host.label(self.names.as_ref()?.get(&host.at)?))
        };
        named().unwrap_or_else(|| row.label.clone())
    }

    /// The rows with the names of hosts, as they are shown.
    pub fn named(&self, mut rows: Vec<Group>) -> Vec<Group> {
        if self.names.is_some() {
            rows.iter_mut().for_each(|row| row.label = self.name(row));
        }
        rows
    }

    /// The oldest send of each connection that is stuck, with the ends of its connection where they
    /// are known.
    pub fn stuck(&self) -> &[(Send, Option<(SocketAddr, SocketAddr)>)] {
        &self.stuck
    }

    /// What is to be drawn.
    pub fn shown<'a>(&'a self, state: &'a State, rows: &'a [Group], target: &'a str, message: &'a str) -> Top<'a> {
        Top {
            target,
            rows,
            by: state.by,
            sort: state.sort,
            selected: state.selected,
            filter: &state.filter,
            typing: state.typing,
            paused: state.paused,
            looked_at: self.looked_at,
            cpu: self.cpu,
            stuck: &self.stuck,
            message,
            opened: None,
        }
    }

    /// The row with this label, opened; `shown` is what it is called.
    fn opened(&self, state: &State, label: &str, shown: String) -> Opened {
        let cgroup = |id| self.cgroup(id);
        let over_time = self.history.over_time(state.by, label, &cgroup);
        let cgroups: HashMap<_, _> = self.history.keys().map(|key| (without_cgroup(key), key.cgroup)).collect();
        let now = timestamping::now();
        let of_row = |send: &&Send| {
            let Some((local, remote)) = self.ends.get(&send.connection) else { return false };
            let mut key = SeriesKey {
                peer: Some(IpPrefix::from(remote.ip())),
                peer_port: Some(remote.port()),
                local_port: Some(local.port()),
                program: Some(send.owner.comm.to_string()),
                ..SeriesKey::default()
            };
            key.cgroup = cgroups.get(&key).copied().flatten();
            state.by.label(&key, &cgroup) == label
        };
        let mut slowest: Vec<SlowestSend> = self
            .sends
            .iter()
            .filter(of_row)
            .map(|send| SlowestSend { send: *send, ago: now.since(send.stamps.send).unwrap_or_default() })
            .collect();
        slowest.sort_by_key(|slow| std::cmp::Reverse(slow.send.leg(Leg::Total).ok().flatten()));
        slowest.truncate(SLOWEST);
        Opened { label: shown, over_time, slowest }
    }

    /// The next frame shows what was changed.
    pub fn redraw(&mut self) {
        self.drawn = false;
    }

    /// Takes what has come and draws where there is something else to be shown.
    pub fn draw_and_take(
        &mut self,
        (tracer, rights): (&mut Tracer, &Rights),
        state: &mut State,
        screen: &mut Screen,
        target: &str,
        message: &str,
    ) -> anyhow::Result<()> {
        let over = self.take(tracer, state)?;
        if !over && self.drawn && !screen.resized() {
            return Ok(());
        }
        if over {
            self.ask_names(rights, state, Duration::ZERO)?;
        }
        let rows = self.rows(state);
        state.show(rows.iter().map(|row| row.label.clone()).collect());
        let opened = state.opened.as_deref().map(|label| {
            let row = rows.iter().find(|row| row.label == label);
            self.opened(state, label, row.map_or_else(|| label.to_owned(), |row| self.name(row)))
        });
        let rows = self.named(rows);
        let shown = Top { opened: opened.as_ref(), ..self.shown(state, &rows, target, message) };
        screen.frame(|frame, canvas| report::live::top(frame, canvas, &shown));
        self.drawn = true;
        Ok(())
    }
}

fn without_cgroup(key: &SeriesKey) -> SeriesKey {
    SeriesKey { cgroup: None, ..key.clone() }
}

/// CPU time of this process.
fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
