//! Putting together what the records say of a packet: when it left, when it was acknowledged, when
//! it was read. Pure: bytes in, events out.

use std::collections::{BTreeMap, HashMap, VecDeque};

use record::{
    ConnectionId, Datagram, DatagramLeg, DatagramStamps, Event, Instant, Lost, Monotonic, Owner, Packet, SeqNumber,
};

use super::raw::{Part, part};
use super::reasons::Reasons;
use crate::DecodeError;

/// Packets that wait for an ACK or for their reader, over all sockets. Some 250 bytes each.
const WAITING: usize = 65_536;
/// ACKs of a connection that are remembered: one can be reported before the packet that it
/// acknowledges, where the driver has not come back from handing that over.
const ACKS: usize = 64;
/// Reads that are reported before their datagram's arrival, likewise.
const EARLY: usize = 64;

/// What is known of the sockets, and what waits for more to be known.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    reasons: Reasons,
    streams: HashMap<ConnectionId, Stream>,
    queues: HashMap<ConnectionId, Queue>,
    waiting: usize,
    unacked: u64,
    no_read: u64,
    disorder: u64,
}

#[derive(Debug, Default)]
struct Stream {
    waiting: VecDeque<Packet>,
    acks: VecDeque<(SeqNumber, Instant<Monotonic>)>,
    last: Option<u32>,
    driven: Option<Instant<Monotonic>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<u32, Datagram>,
    early: VecDeque<(u32, Instant<Monotonic>, Owner)>,
    /// The number of a datagram's reading less the number of its arrival, once it is known: where
    /// the queue held datagrams when tracing began, they are read first.
    apart: Option<u32>,
}

impl Queue {
    /// The readings lie so far apart from the arrivals, at least: a reading that is under way when
    /// the queue is found empty is not counted yet, so the largest of several is right.
    fn set_apart(&mut self, apart: u32) {
        let more = match self.apart {
            None => 0,
            Some(known) if apart.wrapping_sub(known).cast_signed() > 0 => apart.wrapping_sub(known),
            Some(_) => return,
        };
        self.apart = Some(apart);
        if more > 0 {
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting =
                waiting.into_iter().map(|(reading, datagram)| (reading.wrapping_add(more), datagram)).collect();
        }
    }
}

impl Assembly {
    pub fn new(reasons: Reasons) -> Self {
        Self { reasons, ..Self::default() }
    }

    /// Takes one record; what it completes goes to `out`.
    pub fn take(&mut self, bytes: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        match part(bytes, &mut self.reasons)? {
            Part::Packet { number, packet } => self.packet(number, packet, out),
            Part::Sent(datagram) => self.datagram(datagram, out),
            Part::Ack { connection, before, at } => self.ack(connection, before, at, out),
            Part::Arrival { number, queued, reads, datagram } => self.arrival(number, queued, reads, datagram, out),
            Part::Read { socket, number, at, owner } => self.read(socket, number, at, owner, out),
            Part::Gone(socket) => self.gone(socket, out),
        }
        Ok(())
    }

    fn packet(&mut self, number: Option<u32>, mut packet: Packet, out: &mut VecDeque<Event>) {
        let stream = self.streams.entry(packet.connection).or_default();
        if let Some(number) = number {
            // Only between neighbours: where one was lost, or overtaken, the gap is not known.
            if stream.last.is_some_and(|last| last.wrapping_add(1) == number)
                && let (Some(before), Some(driver)) = (stream.driven, packet.driver)
            {
                packet.gap = driver.since(before).ok();
            }
            stream.last = Some(number);
            stream.driven = packet.driver.or(stream.driven);
        }
        let end = packet.end_seq();
        if packet.dropped.is_some() || end == packet.first_seq {
            return self.done(packet, out);
        }
        if let Some(&(newest, _)) = stream.acks.back()
            && !newest.is_before(end)
        {
            let begun = packet.driver.or(packet.sched);
            let by = stream.acks.iter().find(|(ack, _)| !ack.is_before(end)).map(|&(_, at)| at);
            // Acknowledged before it was sent: a retransmission that was not needed has no ACK.
            packet.ack = by.filter(|&at| begun.is_none_or(|begun| at >= begun));
            return self.done(packet, out);
        }
        stream.waiting.push_back(packet);
        self.waiting += 1;
        if self.waiting > WAITING
            && let Some(oldest) = stream.waiting.pop_front()
        {
            self.waiting -= 1;
            self.unacked += 1;
            self.done(oldest, out);
        }
    }

    fn ack(&mut self, id: ConnectionId, before: SeqNumber, at: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        let stream = self.streams.entry(id).or_default();
        if stream.acks.len() == ACKS {
            stream.acks.pop_front();
        }
        stream.acks.push_back((before, at));
        let mut acked = Vec::new();
        // In the order in which they left; only retransmissions lie behind packets that are not
        // covered.
        let mut index = 0;
        while let Some(packet) = stream.waiting.get(index) {
            if before.is_before(packet.end_seq()) {
                index += 1;
            } else if let Some(packet) = stream.waiting.remove(index) {
                acked.push(packet);
            }
        }
        self.waiting -= acked.len();
        for mut packet in acked {
            packet.ack = Some(at);
            self.done(packet, out);
        }
    }

    fn arrival(
        &mut self,
        number: Option<u32>,
        queued: Option<u32>,
        reads: u32,
        datagram: Datagram,
        out: &mut VecDeque<Event>,
    ) {
        let Some(number) = number else {
            self.no_read += u64::from(datagram.dropped.is_none());
            return self.datagram(datagram, out);
        };
        let queue = self.queues.entry(datagram.socket).or_default();
        if queue.apart.is_none() && queued.is_none() || queued == Some(0) {
            // Nothing lies before it: the next reading is of this one.
            queue.set_apart(reads.wrapping_sub(number));
        }
        let Some(apart) = queue.apart else {
            self.no_read += 1;
            return self.datagram(datagram, out);
        };
        let reading = number.wrapping_add(apart);
        if let Some(at) = queue.early.iter().position(|&(early, ..)| early == reading)
            && let Some((_, at, owner)) = queue.early.remove(at)
        {
            return self.finish_read(datagram, at, owner, out);
        }
        let same = queue.waiting.insert(reading, datagram);
        self.waiting += 1;
        let full = self.waiting > WAITING;
        let given_up = same.or_else(|| full.then(|| queue.waiting.pop_first()).flatten().map(|(_, oldest)| oldest));
        if let Some(oldest) = given_up {
            self.waiting -= 1;
            self.no_read += 1;
            self.datagram(oldest, out);
        }
    }

    fn read(
        &mut self,
        socket: ConnectionId,
        number: u32,
        at: Instant<Monotonic>,
        owner: Owner,
        out: &mut VecDeque<Event>,
    ) {
        let queue = self.queues.entry(socket).or_default();
        if let Some(datagram) = queue.waiting.remove(&number) {
            self.waiting -= 1;
            return self.finish_read(datagram, at, owner, out);
        }
        if queue.early.len() == EARLY {
            queue.early.pop_front();
        }
        queue.early.push_back((number, at, owner));
    }

    fn finish_read(&mut self, mut datagram: Datagram, at: Instant<Monotonic>, owner: Owner, out: &mut VecDeque<Event>) {
        if let DatagramStamps::Received { read, .. } = &mut datagram.stamps {
            *read = Some(at);
        }
        datagram.owner = owner;
        self.datagram(datagram, out);
    }

    /// Gives up what waits at a socket.
    fn gone(&mut self, id: ConnectionId, out: &mut VecDeque<Event>) {
        let packets = self.streams.remove(&id).map(|stream| stream.waiting).unwrap_or_default();
        let datagrams = self.queues.remove(&id).map(|queue| queue.waiting).unwrap_or_default();
        self.waiting -= packets.len() + datagrams.len();
        self.unacked += packets.len() as u64;
        self.no_read += datagrams.len() as u64;
        packets.into_iter().for_each(|packet| self.done(packet, out));
        datagrams.into_values().for_each(|datagram| self.datagram(datagram, out));
    }

    /// Gives up everything that waits. More may be taken after it: the sockets go on counting from
    /// where they are.
    pub fn finish(&mut self, out: &mut VecDeque<Event>) {
        let mut ids: Vec<_> = self.streams.keys().chain(self.queues.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            self.gone(id, out);
        }
    }

    fn done(&mut self, packet: Packet, out: &mut VecDeque<Event>) {
        self.disorder += u64::from(packet.qdisc().is_err()) + u64::from(packet.network().is_err());
        out.push_back(Event::Packet(Box::new(packet)));
    }

    fn datagram(&mut self, datagram: Datagram, out: &mut VecDeque<Event>) {
        self.disorder += DatagramLeg::ALL.into_iter().filter(|&leg| datagram.leg(leg).is_err()).count() as u64;
        out.push_back(Event::Datagram(Box::new(datagram)));
    }

    /// What was given up here.
    pub fn lost(&self) -> Lost {
        Lost {
            packet_unacked: self.unacked,
            packet_disorder: self.disorder,
            datagram_no_read: self.no_read,
            ..Lost::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Plain as _, RawNote, RawPacket};
    use proptest::prelude::*;

    fn raw(kind: u32, number: u32, moments: [u64; 3]) -> RawPacket {
        let mut it = RawPacket::from_bytes(&[0; 128]).unwrap();
        (it.kind, it.number, it.cookie, it.segments) = (kind, number, 5, 1);
        [it.first, it.second, it.third] = moments;
        it
    }

    fn segment(number: u32, seq: u32, bytes: u32, driver: u64) -> RawPacket {
        let mut it = raw(16, number, [0, driver - 1, driver]);
        (it.first_seq, it.bytes, it.frame_bytes) = (seq, bytes, bytes + 66);
        it
    }

    fn note(kind: u32, number: u32, at: u64) -> RawNote {
        let mut it = RawNote::from_bytes(&[0; 48]).unwrap();
        (it.kind, it.number, it.cookie, it.at) = (kind, number, 5, at);
        it
    }

    /// The arrival of a datagram in an empty queue, after so many readings.
    fn arrival(number: u32, reads: u32, moments: [u64; 3]) -> RawPacket {
        RawPacket { first_seq: reads, ..raw(19, number, moments) }
    }

    struct Bench {
        assembly: Assembly,
        out: VecDeque<Event>,
    }

    impl Bench {
        fn new() -> Self {
            Self { assembly: Assembly::default(), out: VecDeque::new() }
        }

        fn take(&mut self, record: &impl crate::layout::Plain) {
            self.assembly.take(record.as_bytes(), &mut self.out).unwrap();
        }

        fn packets(&mut self) -> Vec<Packet> {
            self.out.drain(..).map(|e| if let Event::Packet(p) = e { *p } else { panic!("{e:?}") }).collect()
        }

        fn reads(&mut self) -> Vec<Option<u64>> {
            self.out
                .drain(..)
                .map(|e| match e {
                    Event::Datagram(d) => match d.stamps {
                        DatagramStamps::Received { read, .. } => read.map(Instant::as_nanos),
                        DatagramStamps::Sent { .. } => panic!("sent"),
                    },
                    e => panic!("{e:?}"),
                })
                .collect()
        }
    }

    #[test]
    fn an_ack_completes_all_that_it_covers_retransmissions_too() {
        let mut bench = Bench::new();
        bench.take(&segment(0, 1000, 100, 10));
        bench.take(&segment(1, 1100, 100, 25));
        bench.take(&segment(2, 1000, 100, 90));
        assert!(bench.out.is_empty());
        bench.take(&note(18, 1100, 100));
        let packets = bench.packets();
        let told: Vec<_> = packets.iter().map(|p| (p.first_seq.0, p.gap, p.ack.unwrap().as_nanos())).collect();
        assert_eq!(told, [(1000, None, 100), (1000, Some(record::Nanos(65)), 100)]);
        bench.assembly.finish(&mut bench.out);
        assert_eq!(bench.packets()[0].gap, Some(record::Nanos(15)));
        assert_eq!((bench.assembly.lost().packet_unacked, bench.assembly.waiting), (1, 0));
    }

    #[test]
    fn gaps_are_between_neighbours_only_and_packets_without_bytes_wait_for_nothing() {
        let mut bench = Bench::new();
        bench.take(&segment(0, 7, 0, 10));
        bench.take(&segment(2, 7, 0, 30));
        bench.take(&segment(3, 7, 0, 45));
        assert_eq!(bench.packets().iter().map(|p| p.gap.map(|g| g.0)).collect::<Vec<_>>(), [None, None, Some(15)]);
    }

    #[test]
    fn an_ack_that_is_reported_first_still_counts_but_one_from_before_the_packet_does_not() {
        let mut bench = Bench::new();
        bench.take(&note(18, 1100, 50));
        bench.take(&segment(0, 1000, 100, 40));
        bench.take(&segment(1, 1000, 100, 60));
        let acks: Vec<_> = bench.packets().iter().map(|p| p.ack.map(Instant::as_nanos)).collect();
        assert_eq!(acks, [Some(50), None]);
    }

    #[test]
    fn readings_find_their_datagram_by_number() {
        let mut bench = Bench::new();
        for number in 0..3 {
            let mut it = raw(19, number, [1, 2, 10 + u64::from(number)]);
            it.frame_bytes = 768 * number;
            bench.take(&it);
        }
        // The record of the first reading was lost.
        bench.take(&note(20, 1, 30));
        bench.take(&note(20, 2, 40));
        assert_eq!(bench.reads(), [Some(30), Some(40)]);
        bench.take(&note(21, 0, 50));
        assert_eq!((bench.reads(), bench.assembly.lost().datagram_no_read), (vec![None], 1));
    }

    #[test]
    fn what_lay_in_the_queue_before_is_read_before() {
        let mut bench = Bench::new();
        let mut behind = raw(19, 0, [1, 2, 10]);
        behind.frame_bytes = 768;
        bench.take(&behind);
        bench.take(&note(20, 0, 20));
        bench.take(&note(20, 1, 21));
        bench.take(&arrival(1, 2, [1, 2, 30]));
        bench.take(&note(20, 2, 40));
        assert_eq!(bench.reads(), [None, Some(40)]);
    }

    #[test]
    fn what_lay_there_before_and_was_read_before_the_first_arrival_does_not_shift() {
        let mut bench = Bench::new();
        bench.take(&note(20, 0, 5));
        bench.take(&note(20, 1, 6));
        bench.take(&arrival(0, 2, [7, 8, 9]));
        bench.take(&note(20, 2, 20));
        assert_eq!(bench.reads(), [Some(20)]);
    }

    #[test]
    fn after_a_pause_the_socket_counts_on() {
        let mut bench = Bench::new();
        for number in 0..3 {
            bench.take(&arrival(number, number, [1, 2, 10 + u64::from(number)]));
            bench.take(&note(20, number, 20 + u64::from(number)));
        }
        assert_eq!(bench.reads(), [Some(20), Some(21), Some(22)]);
        bench.assembly.finish(&mut bench.out);
        // What came meanwhile is read first.
        bench.take(&note(20, 3, 60));
        bench.take(&arrival(3, 4, [1, 2, 70]));
        bench.take(&note(20, 4, 80));
        assert_eq!(bench.reads(), [Some(80)]);
        bench.assembly.finish(&mut bench.out);
        bench.take(&arrival(4, 5, [1, 2, 170]));
        bench.take(&note(20, 5, 180));
        assert_eq!(bench.reads(), [Some(180)]);
    }

    #[test]
    fn a_reading_may_be_reported_before_its_arrival() {
        let mut bench = Bench::new();
        bench.take(&raw(19, 0, [1, 2, 3]));
        bench.take(&note(20, 0, 4));
        bench.take(&note(20, 1, 8));
        bench.take(&arrival(1, 1, [5, 6, 7]));
        assert_eq!(bench.reads(), [Some(4), Some(8)]);
    }

    #[test]
    fn readings_without_a_record_shift_nothing() {
        let mut bench = Bench::new();
        // The records of two arrivals and their readings found no room before the first that came.
        bench.take(&arrival(2, 2, [1, 2, 10]));
        bench.take(&note(20, 2, 15));
        bench.take(&arrival(3, 3, [21, 22, 23]));
        bench.take(&note(20, 3, 30));
        assert_eq!(bench.reads(), [Some(15), Some(30)]);
    }

    #[test]
    fn a_reading_that_was_under_way_is_made_up_for_by_the_next_empty_queue() {
        let mut bench = Bench::new();
        // The reading of what was there before is counted after the arrival.
        bench.take(&arrival(0, 0, [1, 2, 10]));
        bench.take(&arrival(1, 2, [11, 12, 13]));
        bench.take(&note(20, 1, 15));
        bench.take(&note(20, 2, 16));
        assert_eq!(bench.reads(), [Some(15), Some(16)]);
    }

    proptest! {
        #[test]
        fn every_packet_comes_out_once(steps in prop::collection::vec((0u32..6, 0u32..40, 1u64..1000), 1..200)) {
            let mut bench = Bench::new();
            let (mut taken, mut given) = (0, 0);
            for (what, number, at) in steps {
                match what {
                    0 | 1 => bench.take(&segment(number, number * 10, 20, at)),
                    2 => bench.take(&raw(19, number + 40 * taken as u32, [at, at, at])),
                    3 => bench.take(&note(18, number * 10, at)),
                    4 => bench.take(&note(20, number, at)),
                    _ => bench.take(&note(21, 0, at)),
                }
                taken += u64::from(what < 3);
            }
            bench.assembly.finish(&mut bench.out);
            given += bench.out.len() as u64;
            prop_assert_eq!((taken, bench.assembly.waiting), (given, 0));
        }
    }
}
