//! `top RUN`: what a trace or a capture has recorded, cut into the intervals that a screen shows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use record::histogram::{Series, SeriesKey};
use record::socket::{OwnerSource, Socket, SocketChanges, SocketOwner, SocketState, TcpState, Transport};
use record::{
    Connection, ConnectionId, Exchange, Instant, Leg, Monotonic, Nanos, Question, Receive, Request, Send, SenderState,
};

use wire::{CaptureError, PacketReader};

use super::captured::{self, Seen};
use super::feed::key;
use crate::exit::BadInput;

/// Intervals that a run can have: more than a fortnight of seconds.
const MOST: u64 = 1_500_000;
/// Of the sends of an interval the slowest are kept one by one.
const SENDS: usize = 32;
/// What a key goes forward or back.
const STEP: Duration = Duration::from_secs(10);
/// Speeds are powers of two, up to this one and down to its inverse.
const FASTEST: i32 = 6;

/// What happened in one interval.
#[derive(Clone, Default)]
pub struct Slice {
    pub connections: Vec<Connection>,
    pub series: Vec<Series>,
    pub sockets: SocketChanges,
    pub sends: Vec<Send>,
    pub requests: Vec<Request>,
    pub questions: Vec<Question>,
    pub exchanges: Vec<Exchange>,
    /// The names of servers that connections asked for.
    pub hellos: Vec<(ConnectionId, String)>,
}

/// A run, and how far it has been shown.
pub struct Replay {
    interval: Nanos,
    /// The number of the first interval, from the beginning of the clock.
    first: u64,
    slices: Vec<Slice>,
    /// Intervals that were shown.
    shown: usize,
    /// The power of two by which it goes faster than it went.
    pub speed: i32,
    /// The share of the bytes that was sampled.
    pub sampled: f64,
    /// Whether it shows when windows closed: packets do, sends do not.
    pub counts_zero_windows: bool,
}

impl Replay {
    /// Reads a run.
    ///
    /// # Errors
    /// [`BadInput`] where it is no trace, and where it cannot be read.
    pub fn read(path: &Path, interval: Nanos) -> anyhow::Result<Self> {
        let kind = store::kind(path)?;
        if kind != store::RunKind::Trace {
            let text = format!("{} is the run of {kind}: top shows that of a trace", path.display());
            return Err(BadInput(text).into());
        }
        let run = store::Run::open(path)?;
        let missed = "bytes received (trace --receive records them)".into();
        let mut reading = Reading { interval, missed, ..Reading::default() };
        run.connections(|connection| reading.connection(connection))?;
        run.connects(|connect| {
            if let Some((id, ended)) = connect.connection.zip(connect.stamps.closed.or(connect.stamps.ended)) {
                reading.cell(ended).gone.push(id);
            }
        })?;
        run.sends(|send| reading.send(send))?;
        run.receives(|receive| reading.receive(&receive))?;
        run.requests(|request| {
            if let Some(ended) = request.ended() {
                reading.cell(ended).requests.push(request);
            }
        })?;
        run.dns(|question| reading.question(question))?;
        let sampled = run.coverage().filter(|all| all.bytes_written > 0);
        let sampled = sampled.map_or(1.0, |all| all.bytes_armed as f64 / all.bytes_written as f64);
        reading.replay(sampled.clamp(0.0, 1.0)).with_context(|| format!("{} cannot be shown", path.display()))
    }

    /// Reads a capture.
    ///
    /// # Errors
    /// [`BadInput`] where it cannot be read, or has no connection.
    pub fn of_capture(path: &Path, interval: Nanos) -> anyhow::Result<Self> {
        let named = |error: &dyn std::fmt::Display| BadInput(format!("{}: {error}", path.display()));
        let open = || {
            let file = std::fs::File::open(path).map_err(CaptureError::Io)?;
            PacketReader::from_reader(file)
        };
        captured::read(open, interval).map_err(|error| named(&error).into())
    }

    /// The next interval, and the moment at which it ends.
    pub fn step(&mut self) -> Option<(Instant<Monotonic>, &Slice)> {
        let slice = self.slices.get(self.shown)?;
        self.shown += 1;
        let end = (self.first + self.shown as u64).saturating_mul(self.interval.0);
        Some((Instant::from_nanos(end), slice))
    }

    /// When the first interval begins.
    pub fn begins(&self) -> Instant<Monotonic> {
        Instant::from_nanos(self.first.saturating_mul(self.interval.0))
    }

    /// How long an interval is shown.
    pub fn turn(&self) -> Duration {
        Duration::from(self.interval).div_f64(2_f64.powi(self.speed))
    }

    /// Goes faster by a power of two, or slower.
    pub fn faster(&mut self, by: i32) {
        self.speed = (self.speed + by).clamp(-FASTEST, FASTEST);
    }

    /// How many intervals will have been shown after so many steps forward; back, where they are
    /// negative. What is earlier has to be shown again from the beginning.
    pub fn seek(&self, steps: i32) -> usize {
        let by = (STEP.as_nanos() as u64).div_ceil(self.interval.0.max(1)).max(1) as i64 * i64::from(steps);
        let to = (self.shown as i64).saturating_add(by).clamp(1, self.slices.len().max(1) as i64);
        usize::try_from(to).unwrap_or(1)
    }

    /// From the beginning.
    pub fn rewind(&mut self) {
        self.shown = 0;
    }

    /// Intervals that were shown.
    pub fn shown(&self) -> usize {
        self.shown
    }

    /// Whether all of it was shown.
    pub fn is_over(&self) -> bool {
        self.shown >= self.slices.len()
    }

    /// How far it is, in words.
    pub fn place(&self) -> String {
        let time = |n: usize| {
            let seconds = (n as u64).saturating_mul(self.interval.0) / 1_000_000_000;
            format!("{}:{:02}", seconds / 60, seconds % 60)
        };
        let speed = match self.speed {
            0 => String::new(),
            up @ 1.. => format!(" · {}× as fast", 1 << up),
            down => format!(" · 1/{} as fast", 1 << -down),
        };
        let end = if self.is_over() { " · end" } else { "" };
        format!("{} of {}{speed}{end}", time(self.shown), time(self.slices.len()))
    }
}

/// What a connection has counted so far.
#[derive(Clone)]
struct Counted {
    socket: Socket,
    state: SenderState,
    sent_at: Option<Instant<Monotonic>>,
    received_at: Option<Instant<Monotonic>>,
}

/// What is read of an interval.
#[derive(Default)]
struct Cell {
    connections: Vec<Connection>,
    series: HashMap<SeriesKey, Series>,
    sends: Vec<Send>,
    sent: Vec<(ConnectionId, Instant<Monotonic>, u64, u32, SenderState)>,
    received: Vec<(ConnectionId, Instant<Monotonic>, u64)>,
    requests: Vec<Request>,
    questions: Vec<Question>,
    exchanges: Vec<Exchange>,
    hellos: Vec<(ConnectionId, String)>,
    states: Vec<(ConnectionId, SocketState)>,
    gone: Vec<ConnectionId>,
}

/// What is read, by the intervals that it is of.
#[derive(Default)]
pub(super) struct Reading {
    interval: Nanos,
    connections: HashMap<ConnectionId, Connection>,
    /// Those that are conversations of UDP.
    datagrams: HashSet<ConnectionId>,
    cells: BTreeMap<u64, Cell>,
    /// What cannot be shown, in words.
    missed: String,
    /// Whether it is of packets.
    of_packets: bool,
}

impl Reading {
    fn cell(&mut self, at: Instant<Monotonic>) -> &mut Cell {
        self.cells.entry(at.as_nanos() / self.interval.0.max(1)).or_default()
    }

    /// Of a capture.
    pub(super) fn of_capture(interval: Nanos) -> Self {
        Self { interval, of_packets: true, ..Self::default() }
    }

    /// A connection, or a conversation of UDP, begins or is seen for the first time.
    pub(super) fn begins(&mut self, connection: &Connection, udp: bool) {
        if udp {
            self.datagrams.insert(connection.id);
        }
        self.connection(connection.clone());
    }

    /// It comes into a state.
    pub(super) fn state(&mut self, id: ConnectionId, state: SocketState, at: Instant<Monotonic>) {
        self.cell(at).states.push((id, state));
    }

    /// It ends.
    pub(super) fn ends(&mut self, id: ConnectionId, at: Instant<Monotonic>) {
        self.cell(at).gone.push(id);
    }

    /// What a packet of it shows.
    pub(super) fn seen(&mut self, connection: &Connection, seen: Seen, at: Instant<Monotonic>) {
        if let Seen::Answered(request) = seen {
            self.cell(request.ended().unwrap_or(at)).requests.push(*request);
            return;
        }
        let series = self.cell(at).series.entry(key(connection));
        captured::add(series.or_insert_with_key(|key| Series::new(key.clone())), &seen);
    }

    /// What it sent in the interval of this moment: bytes, segments retransmitted, and the
    /// state of its sending side by then.
    pub(super) fn sent(
        &mut self,
        id: ConnectionId,
        (at, bytes, again): (Instant<Monotonic>, u64, u32),
        state: SenderState,
    ) {
        self.cell(at).sent.push((id, at, bytes, again, state));
    }

    /// So many bytes were received, the last of them at this moment.
    pub(super) fn received(&mut self, id: ConnectionId, at: Instant<Monotonic>, bytes: u64) {
        self.cell(at).received.push((id, at, bytes));
    }

    /// A datagram was answered, or a connection of QUIC begins.
    pub(super) fn exchanges(&mut self, of: Option<Exchange>, at: Instant<Monotonic>) {
        self.cell(at).exchanges.extend(of);
    }

    /// It asks for the server with this name.
    pub(super) fn hello(&mut self, id: ConnectionId, server: String, at: Instant<Monotonic>) {
        self.cell(at).hellos.push((id, server));
    }

    /// This cannot be shown.
    pub(super) fn misses(&mut self, what: String) {
        self.missed = what;
    }

    /// A question of DNS, in the interval in which it was answered.
    pub(super) fn question(&mut self, question: Question) {
        let at = question.took.map_or(question.asked, |took| question.asked.after(took));
        self.cell(at).questions.push(question);
    }

    fn connection(&mut self, connection: Connection) {
        self.cell(connection.since).connections.push(connection.clone());
        self.connections.insert(connection.id, connection);
    }

    fn send(&mut self, send: Send) {
        let Some(known) = self.connections.get(&send.connection) else { return };
        let key = SeriesKey { program: Some(send.owner.comm.to_string()), ..key(known) };
        let written = send.stamps.send;
        let ended = send.stamps.ack.or(send.unacknowledged.map(|waits| waits.at)).unwrap_or(written);
        let (bytes, retransmitted) = (send.bytes.into(), send.retransmissions.into());
        self.cell(written).sent.push((send.connection, written, bytes, retransmitted, send.state));
        let cell = self.cell(ended);
        let series = cell.series.entry(key).or_insert_with_key(|key| Series::new(key.clone()));
        series.sends += 1;
        series.bytes += bytes;
        series.unacked += u64::from(send.stamps.ack.is_none());
        series.retransmitted_segments += u64::from(retransmitted);
        for leg in [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total] {
            if let Ok(Some(time)) = send.leg(leg) {
                series.legs.entry(leg).or_default().add(time);
            }
        }
        for (reason, time) in send.wait.iter().flat_map(record::Waits::each) {
            series.waited[reason as usize] += time;
        }
        cell.sends.push(send);
        if cell.sends.len() > 4 * SENDS {
            keep_slowest(&mut cell.sends);
        }
    }

    fn receive(&mut self, receive: &Receive) {
        self.missed.clear();
        if let Some(at) = receive.stamps.read.or(receive.stamps.arrived()) {
            self.cell(at).received.push((receive.connection, at, receive.bytes.into()));
        }
    }

    /// All of it, in intervals. `sampled` is the share of the bytes that was.
    ///
    /// # Errors
    /// Where there is nothing, or it is too long.
    pub(super) fn replay(mut self, sampled: f64) -> anyhow::Result<Replay> {
        let (Some((&first, _)), Some((&last, _))) = (self.cells.first_key_value(), self.cells.last_key_value()) else {
            return Err(BadInput("it has no connection".into()).into());
        };
        if last - first >= MOST {
            let text = format!(
                "it has {} intervals, of which at most {MOST} can be shown: take longer ones (-i)",
                last - first + 1
            );
            return Err(BadInput(text).into());
        }
        let (missed, counts_zero_windows) = (std::mem::take(&mut self.missed), self.of_packets);
        let mut counted = HashMap::<ConnectionId, Counted>::new();
        let slice = |number: u64| {
            let end = Instant::from_nanos((number + 1).saturating_mul(self.interval.0));
            let mut cell = self.cells.remove(&number).unwrap_or_default();
            let mut sockets = SocketChanges { read: Some(end), missed: missed.clone(), ..SocketChanges::default() };
            let mut changed = Vec::new();
            for connection in &cell.connections {
                counted.insert(connection.id, begun(connection, self.datagrams.contains(&connection.id)));
                changed.push(connection.id);
            }
            for (id, state) in std::mem::take(&mut cell.states) {
                let Some(of) = counted.get_mut(&id) else { continue };
                of.socket.state = state;
                changed.push(id);
            }
            for (id, at, bytes, retransmitted, state) in std::mem::take(&mut cell.sent) {
                let Some(of) = counted.get_mut(&id) else { continue };
                of.state = state;
                if bytes > 0 || retransmitted > 0 {
                    of.sent_at = of.sent_at.max(Some(at));
                }
                if let Some(tcp) = &mut of.socket.tcp {
                    tcp.sent += bytes;
                    tcp.retransmitted += retransmitted;
                    tcp.segments += bytes.div_ceil(u64::from(state.mss.max(1))) as u32 + retransmitted;
                }
                changed.push(id);
            }
            for (id, at, bytes) in std::mem::take(&mut cell.received) {
                let Some(of) = counted.get_mut(&id) else { continue };
                of.received_at = of.received_at.max(Some(at));
                of.socket.tcp.iter_mut().for_each(|tcp| tcp.received += bytes);
                changed.push(id);
            }
            changed.sort_unstable_by_key(|id| id.0);
            changed.dedup();
            sockets.changed = changed.iter().filter_map(|id| Some(counted.get(id)?.at(end))).collect();
            sockets.gone = cell.gone.iter().map(|id| id.0).collect();
            let mut sends = std::mem::take(&mut cell.sends);
            keep_slowest(&mut sends);
            let Cell { connections, series, requests, questions, exchanges, hellos, .. } = cell;
            let series = series.into_values().collect();
            Slice { connections, series, sockets, sends, requests, questions, exchanges, hellos }
        };
        let slices = (first..=last).map(slice).collect();
        Ok(Replay { interval: self.interval, first, slices, shown: 0, speed: 0, sampled, counts_zero_windows })
    }
}

fn keep_slowest(sends: &mut Vec<Send>) {
    sends.sort_by_key(|send| std::cmp::Reverse(send.leg(Leg::Total).ok().flatten()));
    sends.truncate(SENDS);
}

/// A connection of which nothing is counted yet, or a conversation of UDP.
fn begun(connection: &Connection, udp: bool) -> Counted {
    let owner = Some(connection.owner).filter(|owner| owner.pid != 0);
    let tcp = TcpState { congestion_control: connection.congestion_control.clone(), ..TcpState::default() };
    let socket = Socket {
        cookie: connection.id.0,
        transport: if udp { Transport::Udp } else { Transport::Tcp },
        state: SocketState::Established,
        local: connection.local,
        remote: connection.remote,
        network: 0,
        inode: 0,
        cgroup: None,
        uid: 0,
        owner: owner.map(|owner| SocketOwner {
            pid: owner.pid,
            name: owner.comm.to_string(),
            others: 0,
            source: OwnerSource::Tracer,
        }),
        receive_queue: 0,
        send_queue: 0,
        drops: 0,
        buffers: [0; 2],
        tcp: (!udp).then(|| Box::new(tcp)),
        read: Instant::from_nanos(0),
    };
    Counted { socket, state: SenderState::default(), sent_at: None, received_at: None }
}

impl Counted {
    /// The socket as it was at this moment.
    fn at(&self, now: Instant<Monotonic>) -> Socket {
        let (state, mut socket) = (&self.state, Socket { read: now, ..self.socket.clone() });
        socket.buffers[1] = state.send_buffer;
        let ago = |then: Option<Instant<Monotonic>>| {
            then.and_then(|then| now.since(then).ok()).unwrap_or(Nanos(u64::MAX >> 1))
        };
        if let Some(tcp) = &mut socket.tcp {
            tcp.rtt = [state.srtt, Nanos::ZERO];
            tcp.least_rtt = state.min_rtt;
            tcp.timeout = state.rto.unwrap_or_default();
            tcp.window = [state.cwnd, state.ssthresh];
            tcp.receive_window = Some(state.peer_window).filter(|_| self.sent_at.is_some());
            tcp.segment = state.mss;
            tcp.rates = [state.pacing_rate, state.delivery_rate].map(Option::unwrap_or_default);
            tcp.busy = state.busy;
            tcp.receive_window_limited = state.receive_window_limited;
            tcp.send_buffer_limited = state.send_buffer_limited;
            (tcp.since_sent, tcp.since_received) = (ago(self.sent_at), ago(self.received_at));
        }
        socket
    }
}
