//! The flight recorder (`--until`): what came last waits in bounded memory until something happens.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use record::{
    ClockReading, Connect, Connection, ConnectionId, CopyDropped, Direction, Event, Fired, Instant, Lost, Monotonic,
    Nanos, PacketCopy, Send, SeqNumber,
};
use report::line;
use summary::{Needs, Trigger};

use super::open::Open;

/// Events that are passed on in one turn at least: what came before is written in some turns, so
/// that the tracer is asked meanwhile.
const AT_ONCE: usize = 20_000;
/// How many copies before a drop are looked at for the one that it is of.
const LOOKED_BACK: usize = 256;
/// What the allocator takes for each piece of memory, about.
const OVERHEAD: usize = 16;

/// What is asked of a recorder.
#[derive(Clone)]
pub struct Plan {
    /// Any of these ends the wait.
    pub triggers: Vec<Trigger>,
    /// How much of what came before is kept, and how long it goes on afterwards.
    pub keep: Nanos,
    /// The most memory, in bytes, for what is kept.
    pub memory: u64,
    /// Whether drops are known by copied packets alone.
    pub drops_of_copies: bool,
}

impl Plan {
    /// The triggers, as a person wrote them.
    pub fn in_words(&self) -> String {
        self.triggers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    }
}

/// What came in one turn.
struct Batch {
    /// When it ended, and what had been missed by then.
    at: Instant<Monotonic>,
    lost: Lost,
    bytes: usize,
    events: Vec<Event>,
}

pub struct Recorder {
    plan: Plan,
    clock: ClockReading,
    /// Whether somebody asked for it by a signal.
    asked: Arc<AtomicBool>,
    /// What comes in this turn.
    coming: Vec<Event>,
    coming_bytes: usize,
    kept: VecDeque<Batch>,
    kept_bytes: usize,
    /// The end of the last turn that is not kept any more, and what had been missed by then.
    gone: (Instant<Monotonic>, Lost),
    /// Whether memory was short: less is kept than was asked for.
    short: bool,
    /// Connections that were there before what is kept, and what is known of their setup.
    earlier: HashMap<ConnectionId, (Option<Connection>, Option<Box<Connect>>)>,
    open: Open,
    fired: Option<Fired>,
    /// The send that was seen while it waited, which has a record later.
    hung: Option<(ConnectionId, SeqNumber)>,
}

impl Recorder {
    /// Begins to keep at `now`; SIGUSR1 is a trigger, whatever else is.
    ///
    /// # Errors
    /// Where the kernel takes no handler of the signal.
    pub fn begin(plan: Plan, clock: ClockReading, now: Instant<Monotonic>) -> std::io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&asked))?;
        Ok(Self::new(plan, clock, now, asked))
    }

    fn new(plan: Plan, clock: ClockReading, now: Instant<Monotonic>, asked: Arc<AtomicBool>) -> Self {
        Self {
            plan,
            clock,
            asked,
            coming: Vec::new(),
            coming_bytes: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            gone: (now, Lost::default()),
            short: false,
            earlier: HashMap::new(),
            open: Open::default(),
            fired: None,
            hung: None,
        }
    }

    /// Keeps an event, and sees whether it is what is waited for.
    pub fn event(&mut self, event: &Event, now: Instant<Monotonic>) {
        self.open.event(event);
        if let Event::CopyDropped(of) = event {
            self.dropped(of, now);
        } else if let Some(trigger) = self.plan.triggers.iter().find(|trigger| trigger.fires(event)) {
            let (trigger, ends) = (trigger.to_string(), self.open.of_event(event));
            self.happened(&trigger, line::sentence(event, ends.map(|of| of.0), ends.map(|of| of.1)), event, now);
        }
        self.coming_bytes += bytes_of(event);
        self.coming.push(event.clone());
    }

    /// A packet that was copied was dropped: its copy came just before.
    fn dropped(&mut self, of: &CopyDropped, now: Instant<Monotonic>) {
        let is_drop = |trigger: &&Trigger| trigger.needs() == Needs::PacketsOrDatagrams;
        let Some(trigger) = self.plan.triggers.iter().find(is_drop).filter(|_| self.plan.drops_of_copies) else {
            return;
        };
        let copies = self.coming.iter().rev().filter_map(|event| match event {
            Event::Copy(copy) => Some(copy),
            _ => None,
        });
        let copy = copies.take(LOOKED_BACK).find(|copy| copy.socket == of.socket && copy.buffer == of.buffer);
        let (trigger, reason) = (trigger.to_string(), &of.dropped.reason);
        let what = match copy {
            Some(copy) => {
                let by = match copy.owner.pid {
                    0 => String::new(),
                    pid => format!(" by {}[{pid}]", copy.owner.comm),
                };
                let (local, remote) = (copy.local, copy.remote);
                let bytes = quantity::bytes(copy.payload.into());
                let way = match copy.direction {
                    Direction::Sent => format!("{by} from {local} to {remote}"),
                    Direction::Received => format!(" from {remote} to {local}"),
                };
                format!("a packet of {bytes}{way} was dropped on this host: {reason}")
            }
            None => format!("a packet of a traced socket was dropped on this host: {reason}"),
        };
        self.fire(&trigger, &what, now);
    }

    /// For how long a send may wait for its ACK until that is what is waited for.
    pub fn longest_send(&self) -> Option<Nanos> {
        self.plan.triggers.iter().filter_map(Trigger::longest_send).min().filter(|_| self.fired.is_none())
    }

    /// A send waits for its ACK for longer than that.
    pub fn waits(&mut self, send: &Send, now: Instant<Monotonic>) {
        let Some(trigger) = self.plan.triggers.iter().find(|trigger| trigger.longest_send().is_some()) else { return };
        let (trigger, event) = (trigger.to_string(), Event::Send(*send));
        let ends = self.open.of_event(&event);
        self.happened(&trigger, line::sentence(&event, ends.map(|of| of.0), Some(send.owner)), &event, now);
        self.hung = Some((send.connection, send.first_seq));
    }

    fn happened(&mut self, trigger: &str, what: Option<String>, event: &Event, now: Instant<Monotonic>) {
        if let Event::Send(send) = event
            && self.hung == Some((send.connection, send.first_seq))
        {
            self.hung = None;
            return;
        }
        self.fire(trigger, &what.unwrap_or_else(|| "it was seen".into()), now);
    }

    /// The first time is the finding, and the others are counted.
    fn fire(&mut self, trigger: &str, what: &str, now: Instant<Monotonic>) {
        match &mut self.fired {
            Some(fired) => fired.times += 1,
            none => {
                let time = self.clock.time_of_day(now.as_nanos());
                let finding = format!("`{trigger}` at {time}: {what}.");
                *none = Some(Fired { trigger: trigger.into(), at_ns: now.as_nanos(), finding, times: 1 });
            }
        }
    }

    /// After each turn: lets go what is too old or too much, until something happens.
    pub fn turn(&mut self, now: Instant<Monotonic>, lost: Lost) {
        if self.asked.swap(false, Ordering::Relaxed) {
            self.fire("signal", "somebody asked for it by SIGUSR1", now);
        }
        let mut events = std::mem::take(&mut self.coming);
        events.shrink_to_fit();
        let bytes = std::mem::take(&mut self.coming_bytes);
        self.kept_bytes += bytes;
        self.kept.push_back(Batch { at: now, lost, bytes, events });
        if self.fired.is_some() {
            return;
        }
        while let Some(first) = self.kept.front() {
            let old = now.since(first.at).is_ok_and(|age| age > self.plan.keep);
            let much = self.kept_bytes as u64 > self.plan.memory;
            if !old && !much {
                break;
            }
            self.short |= much && !old;
            self.let_go();
        }
    }

    /// Forgets the oldest turn, but for the connections that it speaks of.
    fn let_go(&mut self) {
        let Some(batch) = self.kept.pop_front() else { return };
        self.kept_bytes -= batch.bytes;
        self.gone = (batch.at, batch.lost);
        for event in batch.events {
            match event {
                Event::Connection(of) => {
                    let id = of.id;
                    self.earlier.entry(id).or_default().0 = Some(of);
                }
                Event::SetUp(of) => {
                    if let Some(id) = of.connection {
                        self.earlier.entry(id).or_default().1 = Some(of);
                    }
                }
                Event::Closed { connection, .. } => drop(self.earlier.remove(&connection)),
                _ => {}
            }
        }
    }

    /// What happened, once it has.
    pub fn fired(&self) -> Option<&Fired> {
        self.fired.as_ref()
    }

    /// When what is kept begins, and what had been missed by then.
    pub fn began(&self) -> (Instant<Monotonic>, Lost) {
        self.gone
    }

    /// Whether less than was asked for was kept, since memory was short.
    pub fn was_short(&self) -> bool {
        self.short
    }

    /// Whether as much has followed as was kept.
    pub fn is_over(&self, now: Instant<Monotonic>) -> bool {
        let fired = self.fired.as_ref().map(|fired| Instant::from_nanos(fired.at_ns));
        fired.is_some_and(|at| now.since(at).is_ok_and(|since| since >= self.plan.keep))
    }

    /// The connections that were there before what is kept, the oldest first.
    pub fn take_earlier(&mut self) -> Vec<Event> {
        let mut earlier: Vec<_> = std::mem::take(&mut self.earlier).into_values().collect();
        earlier.sort_by_key(|(connection, _)| connection.as_ref().map(|of| of.since));
        let events = |(connection, set_up): (Option<Connection>, Option<Box<Connect>>)| {
            set_up.map(Event::SetUp).into_iter().chain(connection.map(Event::Connection))
        };
        earlier.into_iter().flat_map(events).collect()
    }

    /// What is passed on next, with the end of its turn: for so long as it is not too much for
    /// once, or all of it.
    pub fn take(&mut self, all: bool) -> Vec<(Instant<Monotonic>, Vec<Event>)> {
        let most = self.kept.back().map_or(0, |last| 2 * last.events.len()).max(AT_ONCE);
        let (mut taken, mut events) = (Vec::new(), 0);
        while (all || events < most)
            && let Some(batch) = self.kept.pop_front()
        {
            self.kept_bytes -= batch.bytes;
            events += batch.events.len();
            taken.push((batch.at, batch.events));
        }
        taken
    }
}

/// The memory that an event takes, about.
fn bytes_of(event: &Event) -> usize {
    let beside = match event {
        Event::Copy(copy) => size_of::<PacketCopy>() + OVERHEAD + copy.bytes.len(),
        Event::SetUp(of) | Event::Connect(of) => size_of::<Connect>() + 8 * of.retried.capacity(),
        Event::Request(_) => size_of::<record::Request>(),
        Event::Packet(_) => size_of::<record::Packet>(),
        Event::Datagram(_) => size_of::<record::Datagram>(),
        Event::Head(_) => size_of::<record::Head>(),
        Event::Exchange(_) => size_of::<record::Exchange>(),
        Event::Question(of) => {
            size_of::<record::Question>() + of.name.capacity() + of.kind.capacity() + of.addresses.capacity()
        }
        Event::CopyDropped(_) => size_of::<CopyDropped>(),
        Event::Connection(of) => of.congestion_control.capacity(),
        Event::Send(_) | Event::Receive(_) | Event::Closed { .. } => return size_of::<Event>(),
    };
    size_of::<Event>() + OVERHEAD + beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Opening, Owner};

    const TURN: Nanos = Nanos::from_millis(100);

    fn at(turn: u64) -> Instant<Monotonic> {
        Instant::from_nanos(turn * TURN.0)
    }

    fn recorder(keep: Nanos, memory: u64) -> Recorder {
        let clock = ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 };
        let triggers = vec![Trigger::parse("signal").unwrap()];
        Recorder::new(Plan { triggers, keep, memory, drops_of_copies: true }, clock, at(0), Arc::default())
    }

    fn connection(id: u64) -> Event {
        let end = "127.0.0.1:1".parse().unwrap();
        Event::Connection(Connection {
            id: ConnectionId(id),
            local: end,
            remote: end,
            owner: Owner::default(),
            opening: Opening::Found,
            since: at(id),
            congestion_control: "cubic".into(),
            accepted: None,
        })
    }

    fn closed(id: u64) -> Event {
        Event::Closed { connection: ConnectionId(id), totals: record::ConnectionTotals::default() }
    }

    #[test]
    fn what_is_kept_is_bounded_in_time_and_in_memory() {
        let mut by_time = recorder(Nanos::from_secs(1), u64::MAX);
        let mut by_memory = recorder(Nanos::from_secs(1), 100 * size_of::<Event>() as u64);
        for turn in 1..=100 {
            for recorder in [&mut by_time, &mut by_memory] {
                (0..50).for_each(|id| recorder.event(&closed(id), at(turn)));
                recorder.turn(at(turn), Lost { ring_buffer: turn, ..Lost::default() });
            }
        }
        // The last second, and what came at its very beginning.
        assert_eq!((by_time.kept.len(), by_time.was_short()), (11, false));
        assert_eq!(by_time.began(), (at(89), Lost { ring_buffer: 89, ..Lost::default() }));
        assert_eq!((by_memory.kept.len(), by_memory.was_short()), (2, true));
        assert_eq!(by_memory.kept_bytes, 100 * size_of::<Event>());
    }

    #[test]
    fn connections_from_before_come_first_unless_they_were_closed() {
        let mut recorder = recorder(Nanos::from_secs(1), u64::MAX);
        [connection(3), connection(2), connection(1), closed(2)].iter().for_each(|of| recorder.event(of, at(1)));
        for turn in 1..=50 {
            recorder.turn(at(turn), Lost::default());
        }
        recorder.event(&closed(1), at(51));
        recorder.asked.store(true, Ordering::Relaxed);
        recorder.turn(at(51), Lost::default());
        assert_eq!(recorder.fired().unwrap().times, 1);
        assert_eq!(recorder.take_earlier(), [connection(1), connection(3)]);
        let kept: Vec<Event> = recorder.take(true).into_iter().flat_map(|(_, events)| events).collect();
        assert_eq!(kept, [closed(1)]);
        assert!(!recorder.is_over(at(60)) && recorder.is_over(at(61)));
    }

    #[test]
    fn the_drop_of_a_copy_is_one_of_a_packet() {
        use record::table::Record as _;
        let dropped = record::Dropped { at: at(1), reason: record::DropReason("QDISC_DROP".into()) };
        let socket = ConnectionId(5);
        let drop = Event::CopyDropped(Box::new(CopyDropped { socket, buffer: 7, dropped }));
        let copy = PacketCopy {
            socket,
            buffer: 7,
            payload: 50,
            owner: Owner { pid: 9, comm: "curl".into() },
            local: "127.0.0.1:1".parse().unwrap(),
            remote: "127.0.0.1:2".parse().unwrap(),
            ..PacketCopy::blank()
        };
        for (by_copies, times) in [(true, 2), (false, 0)] {
            let mut recorder = recorder(Nanos::from_secs(1), u64::MAX);
            recorder.plan.triggers = vec![Trigger::parse("drop").unwrap()];
            recorder.plan.drops_of_copies = by_copies;
            recorder.event(&copy.clone().into(), at(1));
            recorder.event(&drop, at(1));
            recorder.event(&drop, at(2));
            assert_eq!(recorder.fired().map_or(0, |fired| fired.times), times);
            let said =
                "a packet of 50 B by curl[9] from 127.0.0.1:1 to 127.0.0.1:2 was dropped on this host: QDISC_DROP.";
            assert!(recorder.fired().is_none_or(|fired| fired.finding.ends_with(said)), "{:?}", recorder.fired());
        }
    }

    #[test]
    fn a_storm_is_counted_and_passed_on_in_parts() {
        let mut recorder = recorder(Nanos::from_secs(1), u64::MAX);
        for turn in 1..=5 {
            (0..AT_ONCE as u64 / 2).for_each(|id| recorder.event(&closed(id), at(turn)));
            recorder.asked.store(true, Ordering::Relaxed);
            recorder.turn(at(turn), Lost::default());
        }
        assert_eq!(recorder.fired().unwrap().times, 5);
        assert_eq!(recorder.take(false).len(), 2);
        assert_eq!(recorder.take(true).len(), 3);
        assert_eq!(recorder.kept_bytes, 0);
    }
}
