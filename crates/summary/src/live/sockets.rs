//! Sockets over the last seconds: what each has sent and received, and how long it has been as it
//! is.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use record::histogram::SeriesKey;
use record::socket::{Socket, SocketChanges, SocketFigures, SocketState, TcpState, Transport};
use record::{Instant, IpPrefix, Monotonic, Nanos};

use super::Trouble;

/// What a socket counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: u64,
    received: u64,
    segments: u64,
    retransmitted: u64,
    drops: u64,
    busy: u64,
    receive_window: u64,
    send_buffer: u64,
}

impl Counts {
    fn of(socket: &Socket) -> Self {
        let drops = socket.drops.into();
        socket.tcp.as_ref().map_or(Self { drops, ..Self::default() }, |tcp| Self {
            sent: tcp.sent,
            received: tcp.received,
            segments: tcp.segments.into(),
            retransmitted: tcp.retransmitted.into(),
            drops,
            busy: tcp.busy.0,
            receive_window: tcp.receive_window_limited.0,
            send_buffer: tcp.send_buffer_limited.0,
        })
    }

    /// Each count of two together.
    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            sent: both(self.sent, other.sent),
            received: both(self.received, other.received),
            segments: both(self.segments, other.segments),
            retransmitted: both(self.retransmitted, other.retransmitted),
            drops: both(self.drops, other.drops),
            busy: both(self.busy, other.busy),
            receive_window: both(self.receive_window, other.receive_window),
            send_buffer: both(self.send_buffer, other.send_buffer),
        }
    }

    fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }
}

/// What a socket counted at some moment.
type Mark = (Instant<Monotonic>, Counts);

/// What was counted at a moment between two marks, had it come at a steady rate.
fn between((from, before): Mark, (to, after): Mark, at: Instant<Monotonic>) -> Counts {
    let time = |since: Instant<Monotonic>, until: Instant<Monotonic>| until.since(since).unwrap_or_default().0;
    let (part, whole) = (u128::from(time(from, at)), u128::from(time(from, to)));
    let share = |grown: u64| (u128::from(grown) * part + whole / 2).checked_div(whole).unwrap_or(0) as u64;
    before.with(&after, |before, after| before + share(after.saturating_sub(before)))
}

/// A socket that is alive, or was a moment ago.
#[derive(Clone, Debug)]
pub struct Live {
    /// As it was read last.
    pub socket: Socket,
    /// When it was first seen.
    seen: Instant<Monotonic>,
    /// How long it had been connecting by then, at least.
    attempted: Nanos,
    /// When it was found to be closed.
    pub closed: Option<Instant<Monotonic>>,
    /// Since when its program has read nothing of what waits to be read; `None` where nothing
    /// waits.
    unread: Option<Instant<Monotonic>>,
    /// Its counts as they changed, the oldest first; the first is from before the time that rows
    /// show.
    marks: VecDeque<Mark>,
}

impl Live {
    /// What it counted in a stretch of time.
    fn over(&self, start: Instant<Monotonic>, end: Instant<Monotonic>) -> Counts {
        self.at(end).since(&self.at(start))
    }

    /// What it had counted by a moment.
    fn at(&self, moment: Instant<Monotonic>) -> Counts {
        let after = self.marks.partition_point(|(at, _)| *at <= moment);
        let before = after.checked_sub(1).and_then(|at| self.marks.get(at));
        match (before, self.marks.get(after)) {
            (Some(before), Some(after)) => between(*before, *after, moment),
            (Some((_, counts)), None) | (None, Some((_, counts))) => *counts,
            (None, None) => Counts::default(),
        }
    }

    /// Notes what it counts, having been read. Where the reading before, at `last`, found no
    /// change, none had come by then.
    fn mark(&mut self, counts: Counts, last: Option<Instant<Monotonic>>) {
        if let Some((last, (at, before))) = last.zip(self.marks.back().copied())
            && at < last
        {
            self.marks.push_back((last, before));
        }
        self.marks.push_back((self.socket.read, counts));
    }

    /// How long it has been since this, which was so long ago when it was read.
    fn since_then(&self, ago: Nanos, now: Instant<Monotonic>) -> Nanos {
        ago + now.since(self.socket.read).unwrap_or_default()
    }

    /// How long it has been as quiet as it is: nothing sent and nothing received. `None` for UDP,
    /// and before anything was.
    pub fn quiet(&self, now: Instant<Monotonic>) -> Option<Nanos> {
        let tcp = self.socket.tcp.as_ref().filter(|tcp| tcp.sent + tcp.received > 0)?;
        Some(self.since_then(tcp.since_sent.min(tcp.since_received), now))
    }

    /// How long its attempt to connect goes on.
    pub fn connecting(&self, now: Instant<Monotonic>) -> Option<Nanos> {
        let is = self.socket.state == SocketState::Connecting && self.closed.is_none();
        is.then(|| self.attempted + now.since(self.seen).unwrap_or_default())
    }

    /// What is wrong with it, over the time from `start` until now.
    fn trouble(&self, start: Instant<Monotonic>, now: Instant<Monotonic>) -> Option<Trouble> {
        if self.closed.is_some() {
            return None;
        }
        let (socket, counts) = (&self.socket, self.over(start, now));
        let mut all = vec![
            self.connecting(now).filter(|age| *age >= STUCK).map(Trouble::Attempt),
            Some(counts.drops).filter(|drops| *drops > 0).and_then(|drops| match (socket.state, socket.transport) {
                (SocketState::Listening, _) => Some(Trouble::QueueOverflowed(drops)),
                (_, Transport::Udp) => Some(Trouble::BufferDrops(drops)),
                // TCP counts segments outside its window there, too.
                (_, Transport::Tcp) => None,
            }),
        ];
        match socket.state {
            SocketState::Listening => all.push(is_full(socket).then_some(Trouble::QueueFull)),
            SocketState::Established | SocketState::Closing => {
                all.extend(
                    socket
                        .tcp
                        .as_deref()
                        .map(|tcp| self.of_connection(tcp, &counts, (start, now)))
                        .into_iter()
                        .flatten(),
                );
            }
            _ => {}
        }
        all.into_iter().flatten().max_by(|a, b| a.weight().total_cmp(&b.weight()))
    }

    fn of_connection(
        &self,
        tcp: &TcpState,
        counts: &Counts,
        (start, now): (Instant<Monotonic>, Instant<Monotonic>),
    ) -> [Option<Trouble>; 5] {
        let no_ack = self.since_then(tcp.since_ack, now);
        let unread = self.unread.map(|since| now.since(since).unwrap_or_default());
        let length = now.since(start).unwrap_or_default();
        let share = |part: u64| Some(part as f64 / length.0.max(1) as f64).filter(|share| *share >= LIMITED);
        let lost = counts.retransmitted as f64 / counts.segments.max(1) as f64;
        let full = self.socket.receive_queue >= self.socket.buffers[0] / FULL && self.socket.receive_queue > 0;
        [
            (tcp.unacknowledged > 0 && tcp.timeouts > 0 && no_ack >= STUCK).then_some(Trouble::NoAnswer(no_ack)),
            match unread.filter(|time| *time >= STUCK) {
                Some(time) => Some(Trouble::NotRead(time)),
                None => full.then_some(Trouble::ReadsSlowly),
            },
            share(counts.receive_window).map(|share| Trouble::ReceiveWindow(share.min(1.0))),
            share(counts.send_buffer).map(|share| Trouble::SendBuffer(share.min(1.0))),
            (counts.retransmitted >= 2 && lost >= LOST).then_some(Trouble::Retransmissions(lost.min(1.0))),
        ]
    }
}

/// Whether there is anything to read that the program has not read.
fn waits(socket: &Socket) -> bool {
    socket.receive_queue > 0 && socket.state == SocketState::Established
}

/// Since when nothing was read: what came and is not in the queue was.
fn unread(before: &Live, after: &Socket, now: Instant<Monotonic>) -> Option<Instant<Monotonic>> {
    let received = |socket: &Socket| socket.tcp.as_ref().map_or(0, |tcp| tcp.received);
    let came = received(after).saturating_sub(received(&before.socket));
    let read = u64::from(before.socket.receive_queue) + came > u64::from(after.receive_queue);
    waits(after).then(|| before.unread.filter(|_| !read).unwrap_or(now))
}

/// With what waits to be read, a receive buffer is about full from this part of it on: the kernel
/// counts its own bookkeeping too, and stops advertising a window before it is all taken.
const FULL: u32 = 4;
/// From here on it is worth a word that nothing came back.
const STUCK: Nanos = Nanos::from_millis(1_000);
/// The share of all time that a limit took, from which on it is worth a word.
const LIMITED: f64 = 0.2;
/// The share of segments that were retransmitted, from which on it is.
const LOST: f64 = 0.01;

/// A queue takes one connection more than its length says (`sk_acceptq_is_full()`).
fn is_full(listener: &Socket) -> bool {
    listener.receive_queue > listener.send_queue
}

/// The sockets of the last seconds.
#[derive(Debug)]
pub struct SocketHistory {
    window: Nanos,
    linger: Nanos,
    began: Option<Instant<Monotonic>>,
    read: Instant<Monotonic>,
    /// How much time passed between the last two readings.
    pace: Nanos,
    sockets: HashMap<u64, Live>,
    /// The cookies of those with these ends: several where network namespaces have the same, or one
    /// came after the other.
    by_ends: HashMap<Ends, Vec<u64>>,
    /// What could not be read, in words.
    pub missed: String,
}

/// What a series knows of the ends of a connection: this host's port, the peer and its port.
type Ends = (u16, IpAddr, u16);

fn ends(socket: &Socket) -> Option<Ends> {
    let remote = Some(socket.remote).filter(|remote| remote.port() != 0)?;
    Some((socket.local.port(), remote.ip(), remote.port()))
}

/// Closed sockets that are kept.
const MOST_CLOSED: usize = 20_000;

impl SocketHistory {
    /// Rows show what happened in this time; what is closed stays for `linger`.
    pub fn new(window: Nanos, linger: Nanos) -> Self {
        let read = Instant::from_nanos(0);
        Self {
            window,
            linger,
            began: None,
            read,
            pace: Nanos::ZERO,
            sockets: HashMap::new(),
            by_ends: HashMap::new(),
            missed: String::new(),
        }
    }

    /// Rows show what happened in this time from here on.
    pub fn show(&mut self, window: Nanos) {
        self.window = window;
    }

    /// Takes what has become of the sockets.
    pub fn add(&mut self, changes: SocketChanges) {
        let Some(now) = changes.read else { return };
        let before = self.began.map(|_| self.read);
        // What the sockets count is known of all of them from the last one on.
        self.began = self.began.or_else(|| changes.changed.iter().map(|socket| socket.read).max().max(Some(now)));
        self.pace = before.and_then(|before| now.since(before).ok()).unwrap_or_default();
        self.read = now;
        self.missed = changes.missed;
        for socket in changes.changed {
            self.put(socket, now, before);
        }
        let room = MOST_CLOSED.saturating_sub(self.sockets.values().filter(|live| live.closed.is_some()).count());
        for socket in changes.closed.into_iter().take(room) {
            let cookie = socket.cookie;
            self.put(socket, now, before);
            self.close(cookie, now);
        }
        changes.gone.iter().for_each(|cookie| self.close(*cookie, now));
        let start = self.start();
        let kept = self.window.max(self.linger);
        let by_ends = &mut self.by_ends;
        self.sockets.retain(|cookie, live| {
            let stays = live.closed.is_none_or(|at| now.since(at).unwrap_or_default() < kept);
            if !stays {
                leave(by_ends, &live.socket, *cookie);
            }
            stays
        });
        for live in self.sockets.values_mut() {
            while live.marks.get(1).is_some_and(|(at, _)| *at <= start) {
                live.marks.pop_front();
            }
        }
    }

    /// Takes what a socket is like; `last` is when the sockets were read before.
    fn put(&mut self, socket: Socket, now: Instant<Monotonic>, last: Option<Instant<Monotonic>>) {
        let counts = Counts::of(&socket);
        let before = self.sockets.get(&socket.cookie).map(|live| &live.socket);
        if before.is_none_or(|before| ends(before) != ends(&socket)) {
            if let Some(before) = before {
                leave(&mut self.by_ends, before, socket.cookie);
            }
            if let Some(ends) = ends(&socket) {
                self.by_ends.entry(ends).or_default().push(socket.cookie);
            }
        }
        match self.sockets.get_mut(&socket.cookie) {
            Some(live) => {
                // A report of what was closed does not say whose it was.
                let owner = socket.owner.clone().or_else(|| live.socket.owner.take());
                let cgroup = socket.cgroup.or(live.socket.cgroup);
                live.unread = unread(live, &socket, now);
                live.socket = Socket { owner, cgroup, ..socket };
                live.mark(counts, last);
            }
            None => {
                // Whatever it did before the first reading is not of the time that rows show.
                let before = if last.is_some() { Counts::default() } else { counts };
                let timeouts = socket.tcp.as_ref().map_or(0, |tcp| tcp.timeouts);
                let attempted = Nanos::from_millis(1_000 * u64::from(timeouts));
                let marks = VecDeque::from([(last.unwrap_or(Instant::from_nanos(0)), before), (socket.read, counts)]);
                let cookie = socket.cookie;
                self.sockets.insert(
                    cookie,
                    Live { unread: waits(&socket).then_some(now), socket, seen: now, attempted, closed: None, marks },
                );
            }
        }
    }

    fn close(&mut self, cookie: u64, now: Instant<Monotonic>) {
        if let Some(live) = self.sockets.get_mut(&cookie) {
            live.closed.get_or_insert(now);
        }
    }

    fn start(&self) -> Instant<Monotonic> {
        Instant::from_nanos(self.read.as_nanos().saturating_sub(self.window.0))
    }

    /// The time that rows show: less than the whole at first.
    pub fn length(&self) -> Nanos {
        let length = self.began.and_then(|began| self.read.since(began).ok()).unwrap_or_default();
        length.min(self.window)
    }

    /// How much time passed between the last two readings.
    pub fn pace(&self) -> Nanos {
        self.pace
    }

    /// When the sockets were read last.
    pub fn read(&self) -> Instant<Monotonic> {
        self.read
    }

    /// Whether a connection may be stuck: something of it is not acknowledged, and no ACK came for
    /// this time.
    pub fn any_unanswered(&self, time: Nanos) -> bool {
        self.sockets.values().filter(|live| live.closed.is_none() && live.socket.send_queue > 0).any(|live| {
            let tcp = live.socket.tcp.as_deref().filter(|_| live.socket.state != SocketState::Listening);
            tcp.is_some_and(|tcp| live.since_then(tcp.since_ack, self.read) >= time)
        })
    }

    /// All sockets, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Live> {
        self.sockets.values()
    }

    /// The socket with this cookie.
    pub fn get(&self, cookie: u64) -> Option<&Live> {
        self.sockets.get(&cookie)
    }

    /// The socket that a series is of; `None` where there is none, or it cannot be told which.
    pub fn of(&self, key: &SeriesKey) -> Option<&Live> {
        let host = key.peer.and_then(IpPrefix::host)?;
        let cookies = self.by_ends.get(&(key.local_port?, host, key.peer_port?))?;
        let mut found: Vec<&Live> = cookies.iter().filter_map(|cookie| self.sockets.get(cookie)).collect();
        found.retain(|live| key.cgroup.is_none_or(|id| live.socket.cgroup.is_none_or(|own| own == id)));
        match found.iter().filter(|live| live.closed.is_none()).count() {
            0 => found.into_iter().max_by_key(|live| live.closed),
            1 => found.into_iter().find(|live| live.closed.is_none()),
            _ => None,
        }
    }

    /// Says whose a socket is that no process was found for.
    pub fn name(&mut self, cookie: u64, owner: impl FnOnce() -> record::socket::SocketOwner) {
        if let Some(live) = self.sockets.get_mut(&cookie) {
            live.socket.owner.get_or_insert_with(owner);
        }
    }

    /// The figures of some of them together, and the worst of what is wrong with any.
    pub fn figures<'a>(&'a self, some: impl IntoIterator<Item = &'a Live>) -> (SocketFigures, Option<Trouble>) {
        let (start, now) = (self.start().max(self.began.unwrap_or(self.read)), self.read);
        let mut all = SocketFigures { one_owner: true, udp: true, ..SocketFigures::default() };
        let (mut worst, mut ranked) = (None, Vec::new());
        for live in some {
            let (socket, counts) = (&live.socket, live.over(start, now));
            match live.closed {
                None => all.states[socket.state as usize] += 1,
                Some(_) => all.closed += 1,
            }
            all.sent += counts.sent;
            all.received += counts.received;
            all.retransmitted += counts.retransmitted;
            all.drops += counts.drops;
            all.udp &= socket.tcp.is_none();
            if let Some(owner) = &socket.owner {
                let known = all.owner.get_or_insert_with(|| (owner.pid, owner.name.clone()));
                all.one_owner &= known.0 == owner.pid;
            }
            if let Some(tcp) =
                socket.tcp.as_ref().filter(|tcp| tcp.rtt[0] > Nanos::ZERO && socket.state != SocketState::Listening)
            {
                let [least, most] = all.rtt.unwrap_or([tcp.rtt[0]; 2]);
                all.rtt = Some([least.min(tcp.rtt[0]), most.max(tcp.rtt[0])]);
            }
            if socket.state == SocketState::Listening {
                let queue = [socket.receive_queue, socket.send_queue];
                all.queue = Some(all.queue.map_or(queue, |longest| longest.max(queue)));
            }
            if let Some(quiet) = live.quiet(now) {
                all.quiet = Some(all.quiet.map_or(quiet, |least| least.min(quiet)));
            }
            let trouble = live.trouble(start, now);
            let weight = trouble.as_ref().map_or(0.0, Trouble::weight);
            if weight > worst.as_ref().map_or(0.0, Trouble::weight) {
                worst = trouble;
            }
            ranked.push((weight, counts.sent + counts.received, socket.cookie));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        all.cookies = ranked.into_iter().take(SHOWN).map(|(_, _, cookie)| cookie).collect();
        (all, worst)
    }
}

/// A socket is not known by its ends any more.
fn leave(by_ends: &mut HashMap<Ends, Vec<u64>>, socket: &Socket, cookie: u64) {
    let Some(ends) = ends(socket) else { return };
    if let Some(cookies) = by_ends.get_mut(&ends) {
        cookies.retain(|other| *other != cookie);
        if cookies.is_empty() {
            by_ends.remove(&ends);
        }
    }
}

/// Sockets of a row that are shown one by one.
const SHOWN: usize = 10;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use record::socket::{OwnerSource, SocketOwner};

    pub(in super::super) fn socket(cookie: u64, state: SocketState, sent: u64) -> Socket {
        Socket {
            cookie,
            transport: Transport::Tcp,
            state,
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "192.0.2.1:443".parse().unwrap(),
            network: 1,
            inode: 2,
            cgroup: Some(7),
            uid: 1_000,
            owner: Some(SocketOwner { pid: 9, name: "curl".into(), others: 0, source: OwnerSource::Descriptor }),
            receive_queue: 0,
            send_queue: 0,
            drops: 0,
            buffers: [0; 2],
            tcp: Some(Box::new(TcpState { sent, segments: 10, ..TcpState::default() })),
            read: Instant::from_nanos(0),
        }
    }

    fn at(ms: u64) -> Option<Instant<Monotonic>> {
        Some(Instant::from_nanos((100_000 + ms) * 1_000_000))
    }

    fn history() -> SocketHistory {
        SocketHistory::new(Nanos::from_millis(10_000), Nanos::from_millis(5_000))
    }

    fn read(ms: u64, mut changed: Vec<Socket>) -> SocketChanges {
        let read = at(ms);
        changed.iter_mut().for_each(|socket| socket.read = read.unwrap());
        SocketChanges { read, changed, ..SocketChanges::default() }
    }

    fn tcp(socket: &mut Socket) -> &mut TcpState {
        socket.tcp.as_mut().unwrap()
    }

    #[test]
    fn rates_are_of_what_was_sent_since_the_first_reading() {
        let mut history = history();
        history.add(read(0, vec![socket(1, SocketState::Established, 5_000)]));
        assert_eq!(history.figures(history.all()).0.sent, 0);
        // The second was opened and sent 300 bytes meanwhile.
        history.add(read(
            1_000,
            vec![socket(1, SocketState::Established, 7_000), socket(2, SocketState::Established, 300)],
        ));
        let (figures, _) = history.figures(history.all());
        assert_eq!((figures.sent, history.length(), figures.alive()), (2_300, Nanos::from_millis(1_000), 2));
        // Half of what came in the first second is older than the time that rows show.
        history.add(read(10_500, vec![socket(1, SocketState::Established, 7_010)]));
        assert_eq!(history.figures(history.all()).0.sent, 1_000 + 150 + 10);
        history.add(read(11_500, Vec::new()));
        assert_eq!(history.figures(history.all()).0.sent, 9);
    }

    #[test]
    fn rates_are_right_where_readings_take_long_and_not_equally_so() {
        // A byte a millisecond each. The first reading finds the owners of all, too.
        let reading = |began: u64, apart: u64| {
            let moments = (1..=4).map(|number| (number, began + number * apart));
            let changed = moments
                .map(|(number, ms)| Socket { read: at(ms).unwrap(), ..socket(number, SocketState::Established, ms) });
            SocketChanges { read: at(began), changed: changed.collect(), ..SocketChanges::default() }
        };
        let mut history = history();
        history.add(reading(0, 200));
        assert_eq!((history.length(), history.figures(history.all()).0.sent), (Nanos::ZERO, 0));
        for (began, apart, ms) in [(1_800, 10, 1_000), (2_800, 150, 2_000), (10_800, 30, 10_000), (14_300, 0, 10_000)] {
            history.add(reading(began, apart));
            let sent = history.figures(history.all()).0.sent;
            assert_eq!((history.length(), sent), (Nanos::from_millis(ms), 4 * ms), "{began}");
        }
    }

    #[test]
    fn what_comes_after_a_rest_is_of_the_time_since_the_reading_before() {
        let mut history = history();
        history.add(read(0, vec![socket(1, SocketState::Established, 0)]));
        history.add(read(30_000, Vec::new()));
        history.add(read(31_000, vec![socket(1, SocketState::Established, 500)]));
        assert_eq!(history.figures(history.all()).0.sent, 500);
        history.add(read(40_500, Vec::new()));
        assert_eq!(history.figures(history.all()).0.sent, 250);
    }

    #[test]
    fn a_short_connection_counts_by_the_report_of_its_end() {
        let mut history = history();
        history.add(read(0, Vec::new()));
        let mut closed = socket(5, SocketState::Closing, 80);
        (closed.owner, closed.read) = (None, at(1_000).unwrap());
        history.add(SocketChanges { closed: vec![closed], ..read(1_000, Vec::new()) });
        let owner = || SocketOwner { pid: 3, name: "ab".into(), others: 0, source: OwnerSource::Tracer };
        history.name(5, owner);
        let (figures, _) = history.figures(history.all());
        assert_eq!((figures.sent, figures.alive(), figures.closed, figures.owner), (80, 0, 1, Some((3, "ab".into()))));
        history.add(read(11_100, Vec::new()));
        assert_eq!(history.all().count(), 0);
    }

    #[test]
    fn a_series_finds_its_socket_unless_several_are_alike() {
        let key = |cgroup| SeriesKey {
            peer: Some("192.0.2.1".parse::<IpAddr>().unwrap().into()),
            peer_port: Some(443),
            local_port: Some(40_000),
            cgroup,
            ..SeriesKey::default()
        };
        let found = |history: &SocketHistory, cgroup| history.of(&key(cgroup)).map(|live| live.socket.cookie);
        let mut history = history();
        history.add(read(0, vec![socket(1, SocketState::Established, 0)]));
        assert_eq!(
            (found(&history, Some(7)), found(&history, None), found(&history, Some(8))),
            (Some(1), Some(1), None)
        );
        // The one after it has the same ends; then there is another in another namespace.
        history.add(SocketChanges { gone: vec![1], ..read(500, vec![socket(2, SocketState::Established, 0)]) });
        assert_eq!(found(&history, Some(7)), Some(2));
        history.add(read(1_000, vec![socket(3, SocketState::Established, 0)]));
        assert_eq!(found(&history, Some(7)), None);
        history.add(SocketChanges { gone: vec![2, 3], ..read(1_500, Vec::new()) });
        assert!(found(&history, Some(7)).is_some());
        history.add(read(12_000, Vec::new()));
        assert!(found(&history, Some(7)).is_none() && history.by_ends.is_empty());
    }

    #[test]
    fn whose_a_socket_was_stays_known_when_it_closes() {
        let mut history = history();
        history.add(read(0, vec![socket(1, SocketState::Established, 0)]));
        let mut last = socket(1, SocketState::Closing, 10);
        (last.owner, last.cgroup, last.read) = (None, None, at(500).unwrap());
        history.add(SocketChanges { closed: vec![last], gone: vec![1], ..read(500, Vec::new()) });
        let live = history.get(1).unwrap();
        assert_eq!((live.socket.owner.as_ref().unwrap().pid, live.socket.cgroup), (9, Some(7)));
        assert_eq!(history.figures([live]).0.sent, 10);
    }

    fn trouble(mut change: impl FnMut(&mut Socket), state: SocketState) -> Option<Trouble> {
        let mut history = history();
        history.add(read(0, vec![socket(1, state, 0)]));
        let mut socket = socket(1, state, 0);
        change(&mut socket);
        history.add(read(1_000, vec![socket]));
        history.add(read(4_000, Vec::new()));
        history.figures(history.all()).1
    }

    #[test]
    fn what_is_wrong_is_said_and_only_that() {
        use SocketState::{Closing, Connecting, Established, Listening};
        let seconds = |s: u64| Nanos::from_millis(s * 1_000);
        assert_eq!(trouble(|_| (), Established), None);
        assert_eq!(trouble(|_| (), Listening), None);
        assert_eq!(trouble(|_| (), Connecting), Some(Trouble::Attempt(seconds(4))));
        let stuck = |s: &mut Socket| (tcp(s).unacknowledged, tcp(s).timeouts) = (1, 2);
        assert_eq!(trouble(stuck, Established), Some(Trouble::NoAnswer(seconds(3))));
        assert_eq!(trouble(|s| (s.receive_queue, s.send_queue) = (6, 5), Listening), Some(Trouble::QueueFull));
        assert_eq!(trouble(|s| (s.receive_queue, s.send_queue) = (5, 5), Listening), None);
        assert_eq!(trouble(|s| s.drops = 3, Listening), Some(Trouble::QueueOverflowed(3)));
        assert_eq!(trouble(|s| s.drops = 3, Established), None);
        let datagrams = |s: &mut Socket| (s.transport, s.drops) = (Transport::Udp, 3);
        assert_eq!(trouble(datagrams, Established), Some(Trouble::BufferDrops(3)));
        assert_eq!(trouble(|s| s.receive_queue = 9, Established), Some(Trouble::NotRead(seconds(3))));
        assert_eq!(trouble(|s| (s.receive_queue, s.buffers[0]) = (9, 900), Closing), None);
        assert_eq!(trouble(|s| (s.receive_queue, s.buffers[0]) = (500, 900), Closing), Some(Trouble::ReadsSlowly));
        let limited = |s: &mut Socket| tcp(s).receive_window_limited = seconds(2);
        assert_eq!(trouble(limited, Established), Some(Trouble::ReceiveWindow(0.5)));
        let lost = |s: &mut Socket| (tcp(s).segments, tcp(s).retransmitted) = (110, 5);
        assert_eq!(trouble(lost, Established), Some(Trouble::Retransmissions(0.05)));
        // Less than that is usual.
        assert_eq!(trouble(|s| (tcp(s).segments, tcp(s).retransmitted) = (1_010, 5), Established), None);
    }

    #[test]
    fn a_program_that_reads_a_little_is_not_said_to_read_nothing() {
        let mut history = history();
        let with = |queue: u32, received: u64| {
            let mut socket = socket(1, SocketState::Established, 0);
            (socket.receive_queue, socket.buffers[0], tcp(&mut socket).received) = (queue, 4_000, received);
            socket
        };
        history.add(read(0, vec![with(3_000, 3_000)]));
        history.add(read(2_000, vec![with(2_900, 3_000)]));
        assert_eq!(history.figures(history.all()).1, Some(Trouble::ReadsSlowly));
        // As much came as was read, then more than nothing was.
        history.add(read(3_000, vec![with(2_900, 3_500)]));
        assert_eq!(history.figures(history.all()).1, Some(Trouble::ReadsSlowly));
        history.add(read(4_000, vec![with(3_400, 4_000)]));
        history.add(read(5_500, Vec::new()));
        assert_eq!(history.figures(history.all()).1, Some(Trouble::NotRead(Nanos::from_millis(2_500))));
    }

    #[test]
    fn an_attempt_that_was_found_is_as_old_as_its_timeouts_say() {
        let mut history = history();
        let mut found = socket(1, SocketState::Connecting, 0);
        tcp(&mut found).timeouts = 3;
        history.add(read(0, vec![found]));
        history.add(read(2_000, Vec::new()));
        assert_eq!(history.get(1).unwrap().connecting(history.read()), Some(Nanos::from_millis(5_000)));
    }
}
