//! From the tracer to the rows of the screen: snapshots of histograms by interval, and the sends
//! that were recorded beside them.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use machine::who::{self, Hierarchy};
use record::histogram::SeriesKey;
use record::socket::SocketOwner;
use record::{Connection, ConnectionId, Coverage, Event, IpPrefix, Leg, Nanos, Send};
use report::live::{Opened, SlowestSend, Top};
use summary::live::{self, Names, RequestHistory, SocketHistory};
use summary::{Group, Requests, SeriesHistory};
use trace::Tracer;

use super::recording::{self, Rights};
use super::redact::Redaction;
use super::screen::Screen;
use super::state::State;
use crate::hosts;

/// Intervals that are kept: those of a row that is open.
const KEPT: usize = 30;
/// Intervals that rows show.
const SHOWN: usize = 10;
/// Sends that are kept for rows that are opened.
const SENDS: usize = 5_000;
/// Connections that are kept by their ends.
const CONNECTIONS: usize = 20_000;
/// Sends of a row that are shown.
const SLOWEST: usize = 8;
/// How long sockets that were closed stay, grey.
const LINGER: Nanos = Nanos::from_millis(5_000);
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
    connections: HashMap<ConnectionId, Connection>,
    sockets: SocketHistory,
    /// Joins what was sent and received to requests.
    joining: Requests,
    requests: RequestHistory,
    hierarchy: Option<Hierarchy>,
    coverage: Coverage,
    looked_at: f64,
    taken: Instant,
    cpu_before: Nanos,
    /// CPU time of the process that reads sockets.
    cpu_beside: Nanos,
    cpu: f64,
    turns: u32,
    drawn: bool,
    /// The names of hosts that came, where they are asked for.
    names: Option<HashMap<IpAddr, String>>,
    /// What stands in place of addresses and names, where they are not to be shown.
    redaction: Option<Redaction>,
}

impl Feed {
    pub fn new(interval: Nanos, resolve: bool, redact: bool) -> Self {
        Self {
            interval,
            history: SeriesHistory::new(KEPT),
            sends: VecDeque::new(),
            stuck: Vec::new(),
            connections: HashMap::new(),
            sockets: SocketHistory::new(Nanos(interval.0.saturating_mul(SHOWN as u64)), LINGER),
            joining: Requests::default(),
            requests: RequestHistory::default(),
            hierarchy: who::mount().map(|mount| Hierarchy::new(&mount)),
            coverage: Coverage::default(),
            looked_at: 1.0,
            taken: Instant::now(),
            cpu_before: cpu_time(),
            cpu_beside: Nanos::ZERO,
            cpu: 0.0,
            turns: 0,
            drawn: false,
            names: resolve.then(HashMap::new),
            redaction: redact.then(Redaction::default),
        }
    }

    /// Takes what the tracer and the sockets have; gives whether an interval is over.
    pub fn take(&mut self, tracer: &mut Tracer, rights: &Rights, state: &mut State) -> anyhow::Result<bool> {
        if self.sockets.length() == Nanos::ZERO && self.sockets.read().as_nanos() == 0 {
            self.read_sockets(rights)?;
        }
        let mut events = Vec::new();
        let polled = tracer.poll(Duration::ZERO, &mut |event| events.push(event));
        polled.context("the trace cannot go on")?;
        events.into_iter().for_each(|event| self.event(event));
        let length = Nanos::from(self.taken.elapsed());
        if length < self.interval {
            return Ok(false);
        }
        let snapshot = tracer.snapshot(timestamping::now()).context("the trace cannot go on")?;
        if !state.paused {
            self.read_sockets(rights)?;
        }
        let cpu = cpu_time() + self.cpu_beside;
        self.cpu = cpu.0.saturating_sub(self.cpu_before.0) as f64 / length.0.max(1) as f64;
        (self.cpu_before, self.taken) = (cpu, Instant::now());
        if self.turns.is_multiple_of(WALKS) {
            self.walk(tracer);
        }
        self.turns += 1;
        if !state.paused {
            self.look_for_stuck(tracer);
            let mut series = snapshot.unwrap_or_default().series;
            if let Some(redaction) = &mut self.redaction {
                series.iter_mut().for_each(|one| redaction.series(one));
            }
            self.history.add(series, length);
        }
        Ok(true)
    }

    fn read_sockets(&mut self, rights: &Rights) -> anyhow::Result<()> {
        let (mut changes, cpu) = recording::sockets(rights).context("sockets cannot be listed")?;
        self.cpu_beside = cpu;
        if let Some(redaction) = &mut self.redaction {
            redaction.sockets(&mut changes);
        }
        self.sockets.add(changes);
        // Of short connections only the tracer knows whose they were.
        let unnamed = self.sockets.all().filter(|live| live.socket.owner.is_none()).map(|live| live.socket.cookie);
        for cookie in unnamed.collect::<Vec<_>>() {
            let known = self.connections.get(&ConnectionId(cookie)).filter(|known| known.owner.pid != 0);
            if let Some(Connection { owner, .. }) = known {
                let (pid, name) = (owner.pid, owner.comm.to_string());
                self.sockets.name(cookie, || SocketOwner { pid, name, others: 0 });
            }
        }
        let kept = self.interval.0.saturating_mul(SHOWN as u64);
        let start = timestamping::now::<record::Monotonic>().as_nanos().saturating_sub(kept);
        self.requests.forget_before(record::Instant::from_nanos(start));
        Ok(())
    }

    fn look_for_stuck(&mut self, tracer: &Tracer) {
        let mut stuck = tracer.waiting(timestamping::now(), summary::STUCK);
        stuck.retain(summary::is_stuck);
        stuck.sort_by_key(|send| std::cmp::Reverse(send.unacknowledged.map(|u| u.idle)));
        let ends = |send: &Send| self.connections.get(&send.connection).map(|known| (known.local, known.remote));
        self.stuck = stuck.into_iter().map(|send| (send, ends(&send))).collect();
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

    fn event(&mut self, mut event: Event) {
        if let Some(redaction) = &mut self.redaction {
            redaction.event(&mut event);
        }
        // In a sample the other half of most requests is missing.
        if self.looked_at >= report::live::WHOLE {
            let Self { joining, requests, connections, sockets, .. } = self;
            joining.event(&event, &mut |request| {
                if let Some(known) = connections.get(&request.connection) {
                    let cgroup = sockets.get(request.connection.0).and_then(|live| live.socket.cgroup);
                    let program = Some(request.owner.comm.to_string());
                    requests.add(SeriesKey { cgroup, program, ..key(known) }, &request);
                }
            });
        }
        match event {
            Event::Send(send) => {
                if self.sends.len() == SENDS {
                    self.sends.pop_front();
                }
                self.sends.push_back(send);
            }
            Event::Connection(connection) => {
                if self.connections.len() >= CONNECTIONS {
                    self.connections.clear();
                }
                self.connections.insert(connection.id, connection);
            }
            _ => {}
        }
    }

    fn cgroup(&self, id: u64) -> String {
        let shown = self.hierarchy.as_ref().filter(|_| self.redaction.is_none());
        let path = shown.and_then(|hierarchy| hierarchy.path(id));
        path.map_or_else(|| format!("cgroup {id}"), |path| if path.is_empty() { "/".into() } else { path.to_owned() })
    }

    /// The rows as they are asked for, and how many there are without the filter.
    pub fn rows(&self, state: &State) -> (Vec<Group>, usize) {
        let host = |at: IpAddr| self.names.as_ref()?.get(&at).cloned();
        let names = Names { cgroup: &|id| self.cgroup(id), host: &host };
        let series = (&self.history, SHOWN);
        let (mut rows, in_all) =
            live::rows(series, &self.sockets, &self.requests, state.by, &state.filter.accepted, &names);
        state.sort(&mut rows);
        (rows, in_all)
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
        let (rows, _) = self.rows(state);
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

    /// What is to be drawn: these rows, of so many.
    pub fn shown<'a>(
        &'a self,
        state: &'a State,
        (rows, in_all): (&'a [Group], usize),
        target: &'a str,
        message: &'a str,
    ) -> Top<'a> {
        Top {
            target,
            rows,
            in_all,
            by: state.by,
            sort: state.sort,
            reversed: state.reversed,
            selected: state.selected,
            filter: &state.filter.text,
            typing: state.typing,
            wrong: &state.filter.wrong,
            paused: state.paused,
            frozen: state.frozen.is_some(),
            help: state.help,
            columns: &state.columns,
            choosing: state.choosing,
            looked_at: self.looked_at,
            cpu: self.cpu,
            stuck: &self.stuck,
            missed: &self.sockets.missed,
            message,
            opened: None,
        }
    }

    /// The row with this label, opened.
    fn opened(&self, state: &State, label: &str, row: Option<&Group>) -> Opened {
        let cgroup = |id| self.cgroup(id);
        let over_time = self.history.over_time(state.by, label, &cgroup);
        let cgroups: HashMap<_, _> = self.history.keys().map(|key| (without_cgroup(key), key.cgroup)).collect();
        let now = timestamping::now();
        let of_row = |send: &&Send| {
            let Some(known) = self.connections.get(&send.connection) else { return false };
            let mut key = SeriesKey { program: Some(send.owner.comm.to_string()), ..key(known) };
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
        let shown = row.map_or_else(|| label.to_owned(), |row| self.name(row));
        let sockets = row.map(|row| &row.sockets.cookies[..]).unwrap_or_default();
        let sockets = sockets.iter().filter_map(|cookie| self.sockets.get(*cookie)).map(|live| {
            let cgroup = live.socket.cgroup.map(cgroup).unwrap_or_default();
            report::live::ShownSocket { live: live.clone(), cgroup, now: self.sockets.read() }
        });
        Opened { label: shown, row: row.cloned(), over_time, slowest, sockets: sockets.collect() }
    }

    /// The chosen row in one line.
    pub fn line(&self, state: &State) -> Option<String> {
        let (rows, in_all) = self.rows(state);
        let named = self.named(rows);
        let row = named.get(state.selected)?;
        Some(report::live::line(&self.shown(state, (&named, in_all), "", ""), row))
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
        let over = self.take(tracer, rights, state)?;
        if !over && self.drawn && !screen.resized() {
            return Ok(());
        }
        if over {
            self.ask_names(rights, state, Duration::ZERO)?;
        }
        let (rows, in_all) = self.rows(state);
        state.show(rows.iter().map(|row| row.label.clone()).collect());
        let opened =
            state.opened.as_deref().map(|label| self.opened(state, label, rows.iter().find(|row| row.label == label)));
        let rows = self.named(rows);
        let shown = Top { opened: opened.as_ref(), ..self.shown(state, (&rows, in_all), target, message) };
        screen.frame(|frame, canvas| report::live::top(frame, canvas, &shown));
        self.drawn = true;
        Ok(())
    }
}

/// What the series of a connection is known by, without its owner.
fn key(known: &Connection) -> SeriesKey {
    SeriesKey {
        peer: Some(IpPrefix::from(known.remote.ip())),
        peer_port: Some(known.remote.port()),
        local_port: Some(known.local.port()),
        ..SeriesKey::default()
    }
}

fn without_cgroup(key: &SeriesKey) -> SeriesKey {
    SeriesKey { cgroup: None, ..key.clone() }
}

/// CPU time of this process.
pub(super) fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
