//! From the tracer to the rows of the screen: snapshots of histograms by interval, and the sends
//! that were recorded beside them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use record::histogram::{GroupBy, Series, SeriesKey};
use record::socket::{OwnerSource, SocketChanges, SocketOwner};
use record::{
    Connection, ConnectionId, Coverage, Direction, Event, Exchange, Head, IpPrefix, Leg, Monotonic, Nanos, Owner,
    Question, Request, Says, Send,
};
use report::live::{Opened, ShownSocket, SlowestSend, Top};
use summary::live::{self, Heat, Live, Names, Now, RequestHistory, SocketHistory, View};
use summary::{CLIENT_PORTS, Group, Requests, SeriesHistory};
use trace::Tracer;

use super::aim::{self, Criterion};
use super::places::Places;
use super::recording::{self, Ancestors, Recorder, Rights};
use super::redact::Redaction;
use super::replay::Slice;
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
/// Of a CPU, updates may take one part in so many: where one takes more, the next one comes later.
const PART: u64 = 100;
/// Updates are at most so many intervals apart, or this time where that is longer.
const MOST_APART: (u64, Nanos) = (10, Nanos::from_secs(30));
/// How often it is found out what share was sampled, which walks through what there is.
const WALKS: u32 = 10;

/// The figures, as they come in.
pub struct Feed {
    interval: Nanos,
    /// Time between two updates: longer than was asked for where one takes too much.
    pace: Nanos,
    history: SeriesHistory,
    sends: VecDeque<Send>,
    /// The oldest send of each connection that is stuck, the one that waits longest first.
    stuck: Vec<(Send, Option<(SocketAddr, SocketAddr)>)>,
    connections: HashMap<ConnectionId, Connection>,
    /// Who set connections up, those among them that are not sampled.
    owners: HashMap<ConnectionId, Owner>,
    sockets: SocketHistory,
    /// Sockets that are older than this.
    older: HashSet<u64>,
    /// Joins what was sent and received to requests.
    joining: Requests,
    requests: RequestHistory,
    heat: Heat,
    /// What things are called.
    names: Names,
    places: Places,
    ancestors: Ancestors,
    coverage: Coverage,
    /// The share of the bytes that was sampled.
    pub looked_at: f64,
    /// The moment that is shown, where that is one of a run.
    moment: Option<record::Instant<Monotonic>>,
    taken: Instant,
    /// When the figures of series were read that the next interval begins with.
    counted: record::Instant<Monotonic>,
    cpu_before: Nanos,
    /// CPU time of the process that reads sockets.
    cpu_beside: Nanos,
    cpu: f64,
    /// CPU time of the latest update, until the time to the next one was chosen by it.
    cost: Option<Nanos>,
    turns: u32,
    drawn: bool,
    /// Whether the resolver is asked for the names of hosts.
    resolve: bool,
    /// What stands in place of addresses and names, where they are not to be shown.
    redaction: Option<Redaction>,
}

impl Feed {
    /// `users` are the names of users by their numbers.
    pub fn new(interval: Nanos, resolve: bool, redact: bool, users: HashMap<u32, String>) -> Self {
        let mut names = Names::default();
        if !redact {
            names.users = users;
        }
        Self {
            interval,
            pace: interval,
            history: SeriesHistory::new(KEPT, SHOWN),
            sends: VecDeque::new(),
            stuck: Vec::new(),
            connections: HashMap::new(),
            owners: HashMap::new(),
            sockets: SocketHistory::new(Nanos(interval.0.saturating_mul(SHOWN as u64)), LINGER),
            older: HashSet::new(),
            joining: Requests::default(),
            requests: RequestHistory::default(),
            heat: Heat::default(),
            names,
            places: Places::default(),
            ancestors: Ancestors::new(),
            coverage: Coverage::default(),
            looked_at: 1.0,
            moment: None,
            taken: Instant::now(),
            counted: timestamping::now(),
            cpu_before: cpu_time(),
            cpu_beside: Nanos::ZERO,
            cpu: 0.0,
            cost: None,
            turns: 0,
            drawn: false,
            resolve,
            redaction: redact.then(Redaction::default),
        }
    }

    /// Reads all sockets, where that was not done: the first interval begins then.
    pub fn read_first(&mut self, tracer: &mut Tracer, rights: &Rights) -> anyhow::Result<()> {
        if self.sockets.length() == Nanos::ZERO && self.sockets.read().as_nanos() == 0 {
            self.read_sockets(tracer, rights)?;
            self.older = self.sockets.all().map(|live| live.socket.cookie).collect();
            // What was sent until here is of no interval.
            let (series, at) = self.series(tracer)?;
            self.history.begin(series);
            self.counted = at;
            self.taken = Instant::now();
        }
        Ok(())
    }

    /// Takes what the tracer and the sockets have; gives whether an interval is over.
    pub fn take(&mut self, tracer: &mut Tracer, rights: &Rights, state: &mut State) -> anyhow::Result<bool> {
        self.read_first(tracer, rights)?;
        self.poll(tracer)?;
        if let Some(cost) = self.cost.take() {
            self.pace = paced(self.interval, self.pace, cost);
        }
        let length = Nanos::from(self.taken.elapsed());
        if length < self.pace {
            return Ok(false);
        }
        self.taken = Instant::now();
        let (began, beside) = (cpu_time(), self.cpu_beside);
        let (series, at) = self.series(tracer)?;
        if self.turns.is_multiple_of(WALKS) {
            self.walk(tracer);
        }
        if !state.paused {
            self.history.add(series, at.since(self.counted).unwrap_or_default());
            self.counted = at;
            // Before they are read: what is older is let go then.
            self.sockets.show(self.shown_time());
            self.read_sockets(tracer, rights)?;
            self.look_for_stuck(tracer);
            self.warm();
            self.find_places();
        }
        let cpu = cpu_time() + self.cpu_beside;
        let used = cpu.0.saturating_sub(self.cpu_before.0);
        self.cpu = used as f64 / length.0.max(1) as f64;
        self.cpu_before = cpu;
        // The first one finds what is there, which is waited for.
        if self.turns > 0 {
            self.cost = Some(Nanos(self.cpu_beside.0.saturating_sub(beside.0)));
            self.costs(began);
        }
        self.turns += 1;
        Ok(true)
    }

    /// What was done since `began`, by [`cpu_time`], is of this update.
    pub fn costs(&mut self, began: Nanos) {
        if let Some(cost) = &mut self.cost {
            *cost += Nanos(cpu_time().0.saturating_sub(began.0));
        }
    }

    /// Puts what the latest interval took into the strips of the last minute. What still waits is
    /// in them with the time that it has waited so far.
    fn warm(&mut self) {
        let now = self.moment();
        let Self { heat, history, stuck, connections, .. } = self;
        heat.turn(now);
        history.latest().iter().for_each(|series| heat.series(series));
        for (send, _) in stuck {
            let known = connections.get(&send.connection);
            if let Some((known, waits)) = known.zip(send.unacknowledged) {
                let program = Some(send.owner.comm.to_string());
                heat.add(&SeriesKey { program, ..key(known) }, waits.idle);
            }
        }
    }

    /// Finds out which cgroups those are that have come.
    fn find_places(&mut self) {
        let Self { places, names, sockets, history, redaction, .. } = self;
        let of_sockets = sockets.all().filter_map(|live| live.socket.cgroup);
        let all = of_sockets.chain(history.keys().filter_map(|key| key.cgroup));
        let new: HashSet<u64> = all.filter(|id| !names.places.contains_key(id)).collect();
        names.places.extend(places.find(&new, redaction.as_mut()));
    }

    /// Takes what the tracer has.
    fn poll(&mut self, tracer: &mut Tracer) -> anyhow::Result<()> {
        let mut events = Vec::new();
        let polled = tracer.poll(Duration::ZERO, &mut |event| events.push(event));
        polled.context("the trace cannot go on")?;
        events.into_iter().for_each(|event| self.event(event));
        Ok(())
    }

    /// All series, from their beginning, and when that was.
    fn series(&mut self, tracer: &mut Tracer) -> anyhow::Result<(Vec<Series>, record::Instant<Monotonic>)> {
        let now = timestamping::now();
        let snapshot = tracer.snapshot(now).context("the trace cannot go on")?;
        let (mut series, at) = snapshot.map_or((Vec::new(), now), |snapshot| (snapshot.series, snapshot.at));
        if let Some(redaction) = &mut self.redaction {
            series.iter_mut().for_each(|one| redaction.series(one));
        }
        Ok((series, at))
    }

    fn read_sockets(&mut self, tracer: &mut Tracer, rights: &Rights) -> anyhow::Result<()> {
        let (mut changes, cpu) = recording::sockets(rights).context("sockets cannot be listed")?;
        self.cpu_beside = cpu;
        if let Some(redaction) = &mut self.redaction {
            redaction.sockets(&mut changes);
        }
        self.sockets.add(changes);
        // What was closed while they were read is known to the tracer by then.
        self.poll(tracer)?;
        // Of short connections only the tracer knows whose they were.
        let unnamed = self.sockets.all().filter(|live| live.socket.owner.is_none()).map(|live| live.socket.cookie);
        for cookie in unnamed.collect::<Vec<_>>() {
            let id = ConnectionId(cookie);
            let used = self.connections.get(&id).map(|known| &known.owner).filter(|owner| owner.pid != 0);
            if let Some(owner) = used.or_else(|| self.owners.get(&id)) {
                let (pid, name) = (owner.pid, owner.comm.to_string());
                let source = OwnerSource::Tracer;
                self.sockets.name(cookie, || SocketOwner { pid, name, others: 0, source });
            }
        }
        self.forget_requests();
        Ok(())
    }

    /// The time that rows show: as many intervals as there were, each as long as it was.
    fn shown_time(&self) -> Nanos {
        self.history.length().max(Nanos(self.interval.0.saturating_mul(SHOWN as u64)))
    }

    fn forget_requests(&mut self) {
        let start = self.moment().as_nanos().saturating_sub(self.shown_time().0);
        self.requests.forget_before(record::Instant::from_nanos(start));
    }

    /// The moment that is shown.
    fn moment(&self) -> record::Instant<Monotonic> {
        self.moment.unwrap_or_else(timestamping::now)
    }

    /// Begins a run at this moment, which may count zero windows.
    pub fn begin(&mut self, at: record::Instant<Monotonic>, counts_zero_windows: bool) {
        self.moment = Some(at);
        self.history.counts_zero_windows = counts_zero_windows;
        self.sockets.add(SocketChanges { read: Some(at), ..SocketChanges::default() });
    }

    /// Takes what a run has of the interval that ends at this moment.
    pub fn replay(&mut self, at: record::Instant<Monotonic>, slice: &Slice) {
        self.moment = Some(at);
        let mut slice = Cow::Borrowed(slice);
        if let Some(redaction) = &mut self.redaction {
            redaction.slice(slice.to_mut());
        }
        slice.hellos.iter().for_each(|(id, server)| self.names.hello(id.0, server));
        self.connections.extend(slice.connections.iter().map(|connection| (connection.id, connection.clone())));
        slice.questions.iter().for_each(|question| self.question(question));
        slice.exchanges.iter().for_each(|of| self.exchange(of));
        for send in &slice.sends {
            if self.sends.len() == SENDS {
                self.sends.pop_front();
            }
            self.sends.push_back(*send);
        }
        self.sockets.add(slice.sockets.clone());
        self.history.push(slice.series.clone(), self.interval);
        self.warm();
        slice.requests.iter().for_each(|request| self.request(request));
        self.forget_requests();
        self.drawn = false;
    }

    /// A request is over.
    fn request(&mut self, request: &Request) {
        let Some(known) = self.connections.get(&request.connection) else { return };
        let cgroup = self.sockets.get(request.connection.0).and_then(|live| live.socket.cgroup);
        let key = SeriesKey { cgroup, program: Some(request.owner.comm.to_string()), ..key(known) };
        request.whole().into_iter().for_each(|whole| self.heat.add(&key, whole));
        self.requests.add(key, request);
    }

    /// A question of DNS was answered or given up.
    fn question(&mut self, question: &Question) {
        self.names.question(question);
        self.requests.lookup(question, self.moment());
    }

    /// A datagram was answered, or a connection of QUIC begins.
    fn exchange(&mut self, of: &Exchange) {
        if of.is_quic {
            self.names.speaks_quic(of.socket.0);
        }
        // Of an older socket the first datagram that was seen may be an answer: who asks is told by
        // the ports alone.
        let serves = [of.local, of.peer].map(|end| end.port() < CLIENT_PORTS);
        if !of.is_quic && serves[0] == serves[1] && self.older.contains(&of.socket.0) {
            return;
        }
        if let Some((key, whole)) = self.requests.exchange(of) {
            self.heat.add(&key, whole);
        }
    }

    /// Finds sends that nothing is heard of. To look for them goes through all connections, so that
    /// it is done where the sockets show that there may be one.
    fn look_for_stuck(&mut self, tracer: &Tracer) {
        if self.sockets.missed.is_empty() && !self.sockets.any_unanswered(summary::STUCK) {
            self.stuck.clear();
            return;
        }
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
    }

    fn event(&mut self, mut event: Event) {
        if let Some(redaction) = &mut self.redaction {
            redaction.event(&mut event);
        }
        // In a sample the other half of most requests is missing.
        if self.looked_at >= report::live::WHOLE {
            let mut over = Vec::new();
            self.joining.event(&event, &mut |request| over.push(request));
            over.iter().for_each(|request| self.request(request));
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
            Event::SetUp(of) | Event::Connect(of) => {
                if let Some(id) = of.connection.filter(|_| of.owner.pid != 0) {
                    if self.owners.len() >= CONNECTIONS {
                        self.owners.clear();
                    }
                    self.owners.insert(id, of.owner);
                }
            }
            Event::Question(question) => self.question(&question),
            Event::Exchange(of) => self.exchange(&of),
            Event::Head(head) => {
                // What comes in names this host.
                if let Head {
                    connection,
                    direction: Direction::Sent,
                    says: Says::Tls { server: Some(server), .. },
                    ..
                } = *head
                {
                    self.names.hello(connection.0, &server);
                }
            }
            _ => {}
        }
    }

    fn now(&self) -> Now<'_> {
        let Self { history: series, sockets, requests, heat, names, .. } = self;
        Now { series, sockets, requests, heat, names }
    }

    /// The rows as they are asked for, and how many there are without the filter; groups that are
    /// unfolded have their connections below them. `is_new` says whether an interval has ended.
    pub fn rows(&self, state: &mut State, is_new: bool) -> (Vec<Group>, usize) {
        let (now, filter) = (self.now(), &state.filter.accepted);
        let (mut rows, in_all) = live::rows(&now, &View { by: state.by, filter, within: None });
        if is_new {
            state.order.add(state.sort, &rows);
        }
        state.sort(&mut rows);
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let group = row.label.clone();
            all.push(row);
            if state.unfolded.contains(&group) {
                let within = Some((state.by, group.as_str()));
                let mut below = live::rows(&now, &View { by: GroupBy::Connection, filter, within }).0;
                state.sort(&mut below);
                all.extend(below);
            }
        }
        (all, in_all)
    }

    /// Asks for the names of the hosts that rows show, where that is wanted; those that have come
    /// after this time at the latest are shown from here on.
    ///
    /// # Errors
    /// That the process that is asked has ended, with the cause.
    pub fn ask_names(&mut self, rights: &Rights, rows: &[Group], wait: Duration) -> anyhow::Result<()> {
        if self.resolve {
            let query = hosts::Query::new(rows.iter().filter_map(|row| row.host), wait);
            self.names.resolved = recording::names(rights, query).context("hosts cannot be named")?;
        }
        Ok(())
    }

    /// The rows with the names of peers, as they are shown.
    pub fn named(mut rows: Vec<Group>) -> Vec<Group> {
        rows.iter_mut().for_each(|row| row.label = row.named());
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
        recorder: &'a Recorder,
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
            updated: Some(self.pace).filter(|pace| pace.0 > self.interval.0 + self.interval.0 / 2),
            pace: Some(self.sockets.pace()).filter(|pace| pace.0 > self.pace.0 + self.pace.0 / 2),
            missed: &self.sockets.missed,
            message: &recorder.message,
            recorder: recorder.flight,
            opened: None,
            below: false,
            scrolled: state.scrolled,
        }
    }

    /// The sockets of a row that are shown one by one.
    fn sockets_of<'a>(&'a self, row: &'a Group) -> impl Iterator<Item = &'a Live> + Clone {
        row.sockets.cookies.iter().filter_map(|cookie| self.sockets.get(*cookie))
    }

    /// The chosen row by its name, and what it is of as the options of a trace say it; `None` where
    /// that is not known, or is not to be shown.
    pub fn aim(&self, state: &mut State) -> Option<(String, Vec<Criterion>)> {
        let (rows, _) = self.rows(state, false);
        let row = rows.get(state.selected).filter(|_| self.redaction.is_none())?;
        let by = if row.under.is_some() { GroupBy::Connection } else { state.by };
        let aim = aim::of_row(by, row, self.sockets_of(row), &self.names);
        (!aim.is_empty()).then(|| (row.id(), aim))
    }

    /// The row of this name, opened.
    fn opened(&self, state: &State, id: &str, row: Option<&Group>, recorder: &Recorder) -> Opened {
        let now = self.now();
        let (by, label) = id.split_once('\n').map_or((state.by, id), |(_, label)| (GroupBy::Connection, label));
        let mut taken: HashSet<&SeriesKey> = self.history.keys().collect();
        taken.retain(|key| now.is_in(key, by, label));
        let over_time = self.history.over_time(label, |key| taken.contains(key));
        let mut of_row = HashMap::<ConnectionId, bool>::new();
        let mut is_of_row = |send: &Send| {
            *of_row.entry(send.connection).or_insert_with(|| {
                let Some(known) = self.connections.get(&send.connection) else { return false };
                let key = SeriesKey { program: Some(send.owner.comm.to_string()), ..key(known) };
                let live = self.sockets.get(send.connection.0);
                live::Subject::of_key(&key, live).label(by, &self.names) == label
            })
        };
        let at = self.moment();
        let ago = |then| at.since(then).unwrap_or_default();
        let mut slowest: Vec<SlowestSend> = self
            .sends
            .iter()
            .filter(|send| is_of_row(send))
            .map(|send| SlowestSend { send: *send, ago: ago(send.stamps.send) })
            .collect();
        slowest.sort_by_key(|slow| std::cmp::Reverse(slow.send.leg(Leg::Total).ok().flatten()));
        slowest.truncate(SLOWEST);
        let requests = now.slowest_requests(SLOWEST, by, label);
        let sockets = row.into_iter().flat_map(|row| self.sockets_of(row)).map(|live| {
            let socket = &live.socket;
            let pid = socket.owner.as_ref().map(|owner| owner.pid);
            ShownSocket {
                live: live.clone(),
                place: socket.cgroup.and_then(|id| self.names.places.get(&id)).cloned().unwrap_or_default(),
                user: self.names.users.get(&socket.uid).cloned().unwrap_or_else(|| socket.uid.to_string()),
                ancestors: pid.and_then(|pid| self.ancestors.get(&pid)).cloned().unwrap_or_default(),
                now: self.sockets.read(),
            }
        });
        let answer = recorder.answer.as_ref().filter(|(of, _)| of == id);
        Opened {
            label: row.map_or_else(|| label.to_owned(), Group::named),
            row: row.cloned(),
            over_time,
            slowest,
            slowest_requests: requests
                .into_iter()
                .map(|slow| {
                    let ago = ago(slow.ended);
                    (slow, ago)
                })
                .collect(),
            sockets: sockets.collect(),
            answer: answer.map(|(_, lines)| lines.clone()).unwrap_or_default(),
        }
    }

    /// Asks which processes the owners of a row descend from.
    fn find_ancestors(&mut self, rights: &Rights, row: &Group) -> anyhow::Result<()> {
        let pids = self.sockets_of(row).filter_map(|live| Some(live.socket.owner.as_ref()?.pid));
        let mut pids: Vec<u32> = pids.filter(|pid| !self.ancestors.contains_key(pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        if pids.is_empty() {
            return Ok(());
        }
        let mut found = recording::ancestors(rights, pids).context("processes cannot be looked up")?;
        if let Some(redaction) = &mut self.redaction {
            let names = found.values_mut().flatten();
            names.for_each(|(_, name)| *name = redaction.name(super::redact::Kind::Program, name));
        }
        if self.ancestors.len() + found.len() > MOST_ANCESTORS {
            self.ancestors.clear();
        }
        self.ancestors.extend(found);
        Ok(())
    }

    /// The chosen row in one line.
    pub fn line(&self, state: &mut State) -> Option<String> {
        let (rows, in_all) = self.rows(state, false);
        let named = Self::named(rows);
        let row = named.get(state.selected)?;
        Some(report::live::line(&self.shown(state, (&named, in_all), "", &Recorder::default()), row))
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
        recorder: &Recorder,
    ) -> anyhow::Result<()> {
        let over = self.take(tracer, rights, state)?;
        self.draw(Some(rights), over, state, screen, target, recorder)
    }

    /// Draws where there is something else to be shown; `over` says that an interval is. Without
    /// rights nobody can be asked for names and processes.
    pub fn draw(
        &mut self,
        rights: Option<&Rights>,
        over: bool,
        state: &mut State,
        screen: &mut Screen,
        target: &str,
        recorder: &Recorder,
    ) -> anyhow::Result<()> {
        if !over && self.drawn && !screen.resized() {
            return Ok(());
        }
        let began = cpu_time();
        let (rows, in_all) = self.rows(state, over);
        if let Some(rights) = rights.filter(|_| over) {
            self.ask_names(rights, &rows, Duration::ZERO)?;
        }
        state.show(rows.iter().map(Group::id).collect());
        let (width, height) = screen.size();
        let below = state.opened.is_none() && report::live::has_room_below(width, height);
        let id = state.opened.clone().or_else(|| state.ids.get(state.selected).filter(|_| below).cloned());
        let opened = match id {
            Some(id) => {
                let row = rows.iter().find(|row| row.id() == id);
                if let Some((row, rights)) = row.zip(rights) {
                    self.find_ancestors(rights, row)?;
                }
                Some(self.opened(state, &id, row, recorder))
            }
            None => None,
        };
        let rows = Self::named(rows);
        let shown = Top { opened: opened.as_ref(), below, ..self.shown(state, (&rows, in_all), target, recorder) };
        let mut placed = report::live::Placed::default();
        screen.frame(|frame, canvas| placed = report::live::top(frame, canvas, &shown));
        state.scrolled = state.scrolled.min(placed.above);
        state.placed = placed;
        self.drawn = true;
        self.costs(began);
        Ok(())
    }
}

/// How long it is to the next update where the last one took `used` of CPU time and came after
/// `pace`. It grows by steps, so that what one key caused does not stop the screen.
fn paced(interval: Nanos, pace: Nanos, used: Nanos) -> Nanos {
    let (times, time) = MOST_APART;
    let most = Nanos(interval.0.saturating_mul(times)).max(time.max(interval));
    let wanted = used.0.saturating_mul(PART).min(pace.0.saturating_mul(2));
    Nanos(wanted).clamp(interval, most)
}

/// Processes whose ancestors are kept.
const MOST_ANCESTORS: usize = 1_000;

/// What the series of a connection is known by, without its owner.
pub(super) fn key(known: &Connection) -> SeriesKey {
    SeriesKey {
        peer: Some(IpPrefix::from(known.remote.ip())),
        peer_port: Some(known.remote.port()),
        local_port: Some(known.local.port()),
        ..SeriesKey::default()
    }
}

/// CPU time of this process.
pub fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_that_take_more_than_a_hundredth_of_a_cpu_come_later() {
        let ms = Nanos::from_millis;
        assert_eq!(paced(ms(1_000), ms(1_000), ms(8)), ms(1_000));
        assert_eq!(paced(ms(1_000), ms(1_000), ms(15)), ms(1_500));
        // By steps, up to a limit, and back at once.
        assert_eq!(paced(ms(1_000), ms(1_000), ms(900)), ms(2_000));
        assert_eq!(paced(ms(1_000), ms(29_000), ms(900)), ms(30_000));
        assert_eq!(paced(ms(1_000), ms(29_000), ms(3)), ms(1_000));
        assert_eq!(paced(ms(60_000), ms(60_000), ms(900)), ms(90_000));
    }
}
