//! Captures for measuring speed, of kinds that real ones have: a simulated path between two hosts,
//! with a place of capture on it.
//!
//! Each transfer has a sender that keeps a window of segments in flight and a receiver that
//! acknowledges every other one, or at once what comes out of order. Three SACK blocks or duplicate
//! ACKs, or a timer, make the sender repair what was lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::{self, Write};

use record::Instant;

use super::{End, Flow, Header, MSS, Pattern, next, packet};
use crate::LinkType;
use crate::capture::{write_pcap_header, write_pcap_record};
use crate::segment::Flags;

/// Kinds of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A thousand connections of which each packet is drawn at random, one segment in a hundred
    /// retransmitted.
    Scattered,
    /// Connections of a few segments, hundreds at a time.
    Short,
    /// Paths that lose one segment in fifty, some of them with reordering.
    Lossy,
    /// Four transfers without an end.
    Bulk,
}

impl Scene {
    /// All, with the words that a command line has for them.
    pub const ALL: [(&str, Self); 4] =
        [("scattered", Self::Scattered), ("short", Self::Short), ("lossy", Self::Lossy), ("bulk", Self::Bulk)];

    /// Connections at a time.
    const fn connections(self) -> u32 {
        match self {
            Self::Scattered => 1_000,
            Self::Short => 500,
            Self::Lossy => 200,
            Self::Bulk => 4,
        }
    }
}

/// Of each frame this much is kept.
const KEPT: usize = 128;

/// Writes a pcap file of so many packets; another seed makes another capture of the kind.
///
/// # Errors
/// Those of `out`.
pub fn write_scene(out: &mut impl Write, scene: Scene, packets: u64, seed: u64) -> io::Result<()> {
    write_pcap_header(out, LinkType::ETHERNET)?;
    let mut random = seed | 1;
    if scene == Scene::Scattered {
        scattered(out, packets, &mut random)
    } else {
        Simulation::new(scene, random).run(out, packets)
    }
}

const BEGIN: u64 = 1_700_000_000_000_000_000;

fn record(out: &mut impl Write, at: u64, frame: &[u8]) -> io::Result<()> {
    write_pcap_record(out, Instant::from_nanos(BEGIN + at), frame.len() as u32, &frame[..frame.len().min(KEPT)])
}

fn scattered(out: &mut impl Write, packets: u64, random: &mut u64) -> io::Result<()> {
    let patterns = [Pattern::Download, Pattern::BothWays, Pattern::Messages];
    let mut flow = |n: u32| Flow::new(n, patterns[(next(random) % 3) as usize], random);
    let mut flows: Vec<Flow> = (0..Scene::Scattered.connections()).map(&mut flow).collect();
    let (mut frame, mut at) = (Vec::with_capacity(2_048), 0);
    for _ in 0..packets {
        let i = next(random) as usize % flows.len();
        at += 200 + (next(random) & 0x7ff);
        packet(&mut frame, &mut flows[i], 100, random, (at / 1_000_000) as u32);
        record(out, at, &frame)?;
    }
    Ok(())
}

/// One packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    from_client: bool,
    flags: u16,
    /// The number of a data segment from 1, in order of the stream; 0 for none.
    segment: u32,
    /// What its sender has received without a gap.
    ack: u32,
    /// Segments beyond it, as ranges.
    blocks: [(u32, u32); 3],
    stamps: (u32, u32),
    id: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// It passes the capture.
    Passes(Sent),
    Arrives(Sent),
    /// The retransmission timer of the connection with this number runs out, unless more than this
    /// was acknowledged.
    RunsOut(u32, u32),
    Opens,
}

/// A transfer from the server to the client.
struct Transfer {
    flow: Flow,
    /// Distance of the capture from the server and from the client, one way, ns.
    near: u64,
    far: u64,
    segments: u32,
    window: u32,
    late_one_in: u64,
    /// The next segment that is new.
    fresh: u32,
    acknowledged: u32,
    sacked: BTreeSet<u32>,
    repaired: BTreeMap<u32, u64>,
    duplicates: u32,
    received: u32,
    beyond: BTreeSet<u32>,
    unanswered: u32,
    /// When its link is free again.
    free_at: u64,
    /// Both sides have closed; another comes in its place.
    over: bool,
}

impl Transfer {
    fn new(number: u32, scene: Scene, random: &mut u64) -> Self {
        let mut between = |least: u64, most: u64| least + next(random) % (most - least);
        let near = if number.is_multiple_of(2) { between(5_000, 50_000) } else { between(200_000, 8_000_000) };
        let far = between(100_000, 20_000_000);
        let (segments, window) = match scene {
            Scene::Short => (between(1, 12), 10),
            Scene::Lossy => (between(200, 2_000), between(8, 64)),
            _ => (u64::from(u32::MAX / MSS), between(100, 250)),
        };
        let late_one_in = if scene == Scene::Lossy && number % 4 < 2 { 30 } else { 0 };
        Self {
            flow: Flow::new(number, Pattern::Download, random),
            near,
            far,
            segments: segments as u32,
            window: window as u32,
            late_one_in,
            fresh: 1,
            acknowledged: 0,
            sacked: BTreeSet::new(),
            repaired: BTreeMap::new(),
            duplicates: 0,
            received: 0,
            beyond: BTreeSet::new(),
            unanswered: 0,
            free_at: 0,
            over: false,
        }
    }

    /// One way, and that twice.
    fn path(&self) -> u64 {
        self.near + self.far
    }

    /// What the client answers: what it has, and the ranges beyond.
    fn answer(&self) -> (u32, [(u32, u32); 3]) {
        let mut blocks = [(0, 0); 3];
        let mut found = 0;
        for &n in self.beyond.iter().rev() {
            match blocks.get_mut(found.max(1) - 1) {
                Some(last) if found > 0 && last.0 == n + 1 => last.0 = n,
                _ if found == 3 => break,
                _ => {
                    blocks[found] = (n, n + 1);
                    found += 1;
                }
            }
        }
        (self.received, if self.flow.sack { blocks } else { [(0, 0); 3] })
    }
}

struct Simulation {
    scene: Scene,
    random: u64,
    transfers: Vec<Transfer>,
    opened: u32,
    /// By time, and in the order in which they were added.
    events: BinaryHeap<Reverse<(u64, u64, u32, Happens)>>,
    added: u64,
}

impl Simulation {
    fn new(scene: Scene, mut random: u64) -> Self {
        let transfers: Vec<_> = (0..scene.connections()).map(|n| Transfer::new(n, scene, &mut random)).collect();
        let (events, opened) = (BinaryHeap::new(), scene.connections());
        let mut new = Self { scene, random, transfers, opened, events, added: 0 };
        for i in 0..scene.connections() {
            let at = next(&mut new.random) % 10_000_000;
            new.add(at, i, Happens::Opens);
        }
        new
    }

    fn add(&mut self, at: u64, i: u32, what: Happens) {
        self.added += 1;
        self.events.push(Reverse((at, self.added, i, what)));
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && next(&mut self.random).is_multiple_of(n)
    }

    fn run(mut self, out: &mut impl Write, packets: u64) -> io::Result<()> {
        let (mut written, mut frame) = (0, Vec::with_capacity(2_048));
        while written < packets
            && let Some(Reverse((at, _, i, what))) = self.events.pop()
        {
            match what {
                Happens::Passes(sent) => {
                    self.transfers[i as usize].write(&sent, &mut frame);
                    record(out, at, &frame)?;
                    written += 1;
                }
                Happens::Arrives(sent) if sent.from_client => self.at_server(at, i, &sent),
                Happens::Arrives(sent) => self.at_client(at, i, &sent),
                Happens::RunsOut(number, una) => {
                    let t = &self.transfers[i as usize];
                    if (t.flow.number, t.acknowledged) == (number, una) && t.fresh > una + 1 {
                        self.send(at, i, una + 1);
                    }
                }
                Happens::Opens => {
                    if self.transfers[i as usize].over {
                        self.transfers[i as usize] = Transfer::new(self.opened, self.scene, &mut self.random);
                        self.opened += 1;
                    }
                    self.control(at, i, true, Flags::SYN);
                }
            }
        }
        Ok(())
    }

    /// A packet without data.
    fn control(&mut self, at: u64, i: u32, from_client: bool, flags: Flags) {
        self.dispatch(at, i, from_client, flags, 0);
    }

    fn dispatch(&mut self, at: u64, i: u32, from_client: bool, flags: Flags, segment: u32) {
        let loss = match self.scene {
            Scene::Short => 500,
            Scene::Lossy => 50,
            _ => 5_000,
        };
        // What is lost is data alone: handshakes and ACKs come through.
        let lost = segment > 0 && self.one_in(loss);
        let before = lost && self.one_in(2);
        let late_one_in = self.transfers[i as usize].late_one_in;
        let late = segment > 0 && self.one_in(late_one_in);
        let t = &mut self.transfers[i as usize];
        let end = &mut t.flow.ends[usize::from(!from_client)];
        let (id, stamps) = (end.sent, ((at / 1_000_000) as u32, end.echo));
        end.sent = id.wrapping_add(1);
        let (ack, blocks) = if from_client { t.answer() } else { (0, [(0, 0); 3]) };
        let sent = Sent { from_client, flags: flags.bits(), segment, ack, blocks, stamps, id };
        let (here, there) = if from_client { (t.far, t.near) } else { (t.near, t.far) };
        let (path, late_by) = (here + there, if late { t.path() / 3 } else { 0 });
        let late_before = late && id.is_multiple_of(2);
        if !before {
            self.add(at + here + if late_before { late_by } else { 0 }, i, Happens::Passes(sent));
        }
        if !lost {
            self.add(at + path + late_by, i, Happens::Arrives(sent));
        }
    }

    /// Sends a data segment, new or again.
    fn send(&mut self, at: u64, i: u32, segment: u32) {
        let t = &mut self.transfers[i as usize];
        let at = at.max(t.free_at);
        t.free_at = at + 12_000;
        let (number, una) = (t.flow.number, t.acknowledged);
        let timeout = 200_000_000 + 3 * t.path();
        t.repaired.insert(segment, at);
        self.dispatch(at, i, false, Flags::ACK | Flags::PSH, segment);
        self.add(at + timeout, i, Happens::RunsOut(number, una));
    }

    fn fill(&mut self, at: u64, i: u32) {
        loop {
            let t = &mut self.transfers[i as usize];
            let out = t.fresh - 1 - t.acknowledged - t.sacked.len() as u32;
            if out >= t.window || t.fresh > t.segments {
                return;
            }
            t.fresh += 1;
            let segment = t.fresh - 1;
            self.send(at, i, segment);
        }
    }

    fn at_server(&mut self, at: u64, i: u32, sent: &Sent) {
        let flags = Flags::from_bits_truncate(sent.flags);
        let t = &mut self.transfers[i as usize];
        t.flow.ends[1].echo = sent.stamps.0;
        if flags.contains(Flags::SYN) {
            return self.control(at, i, false, Flags::SYN | Flags::ACK);
        }
        if flags.contains(Flags::FIN) {
            t.over = true;
            // Its last packets have passed by then.
            let pause = 50_000_000 + next(&mut self.random) % 2_000_000;
            self.add(at + pause, i, Happens::Opens);
            return self.control(at, i, false, Flags::ACK);
        }
        if sent.ack > t.acknowledged {
            (t.acknowledged, t.duplicates) = (sent.ack, 0);
            t.sacked = t.sacked.split_off(&(sent.ack + 1));
            t.repaired = t.repaired.split_off(&(sent.ack + 1));
        } else if t.fresh > sent.ack + 1 {
            t.duplicates += 1;
        }
        for (left, right) in sent.blocks {
            t.sacked.extend(left..right);
        }
        if t.acknowledged == t.segments {
            return self.control(at, i, false, Flags::FIN | Flags::ACK);
        }
        let (first, path) = (t.acknowledged + 1, t.path());
        // A segment below three that arrived, and that was not sent within the last round trip.
        let due = |t: &Transfer, n: u32| t.repaired.get(&n).is_none_or(|sent| at >= sent + 2 * path);
        let hole = if t.flow.sack {
            let third = t.sacked.iter().rev().nth(2).copied().unwrap_or(0);
            (first..third).find(|n| !t.sacked.contains(n) && due(t, *n))
        } else {
            (t.duplicates >= 3 && due(t, first)).then_some(first)
        };
        match hole {
            Some(hole) => self.send(at, i, hole),
            None => self.fill(at, i),
        }
    }

    fn at_client(&mut self, at: u64, i: u32, sent: &Sent) {
        let flags = Flags::from_bits_truncate(sent.flags);
        let t = &mut self.transfers[i as usize];
        t.flow.ends[0].echo = sent.stamps.0;
        if flags.intersects(Flags::SYN | Flags::FIN) {
            let fin = flags & Flags::FIN;
            return self.control(at, i, true, Flags::ACK | fin);
        }
        if sent.segment == 0 {
            return;
        }
        let in_order = sent.segment == t.received + 1 && t.beyond.is_empty();
        if sent.segment > t.received {
            t.beyond.insert(sent.segment);
        }
        while t.beyond.remove(&(t.received + 1)) {
            t.received += 1;
        }
        t.unanswered += 1;
        if !in_order || t.unanswered >= 2 || t.received == t.segments || t.segments < 20 {
            t.unanswered = 0;
            self.control(at, i, true, Flags::ACK);
        }
    }
}

impl Transfer {
    fn write(&self, sent: &Sent, frame: &mut Vec<u8>) {
        let flags = Flags::from_bits_truncate(sent.flags);
        let size = self.flow.segment();
        let [client, server]: [End; 2] = self.flow.ends;
        let place = |n: u32| server.seq.wrapping_add(1 + n * size);
        let syn = flags.contains(Flags::SYN);
        let (seq, ack) = match (sent.from_client, syn) {
            (true, true) => (client.seq, 0),
            (true, false) => (client.seq.wrapping_add(1), place(sent.ack)),
            (false, true) => (server.seq, client.seq.wrapping_add(1)),
            (false, false) if sent.segment > 0 => (place(sent.segment - 1), client.seq.wrapping_add(1)),
            // Its FIN follows all data.
            (false, false) => (place(self.segments), client.seq.wrapping_add(1)),
        };
        let blocks: Vec<(u32, u32)> =
            sent.blocks.iter().filter(|b| b.1 > 0).map(|b| (place(b.0 - 1), place(b.1 - 1))).collect();
        let header = Header {
            number: self.flow.number,
            from_client: sent.from_client,
            seq,
            ack,
            flags,
            id: sent.id,
            sack: self.flow.sack,
            stamps: self.flow.stamped.then_some(sent.stamps),
            blocks: &blocks,
        };
        header.write(if sent.segment > 0 { size } else { 0 }, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, Packet, Reassembly, dissect};

    #[test]
    fn scenes_are_read_back_and_another_seed_makes_another() {
        for (name, scene) in Scene::ALL {
            let [file, other] = [5, 6].map(|seed| {
                let mut out = Vec::new();
                write_scene(&mut out, scene, 30_000, seed).unwrap();
                out
            });
            assert_ne!(file, other);
            let mut capture = Capture::from_bytes(&file).unwrap();
            let (mut reassembly, mut last) = (Reassembly::new(), None);
            let (mut data, mut sacks, mut syns, mut again) = (0u32, 0, 0u32, 0u32);
            let mut seen = BTreeSet::new();
            while let Some(frame) = capture.next_frame().unwrap() {
                assert!(frame.at >= last, "{name}: packets are in the order of their times");
                last = frame.at;
                let Ok(Packet::Tcp(s)) = dissect(&frame, &mut reassembly) else { panic!("packet {}", frame.number) };
                sacks += s.options.sack.as_slice().len();
                data += u32::from(s.payload > 0);
                syns += u32::from(s.flags == Flags::SYN);
                again += u32::from(s.payload > 0 && !seen.insert((s.source, s.destination, s.seq.0)));
            }
            assert_eq!((capture.packets(), capture.problems().total()), (30_000, 0), "{name}");
            assert!(data > 8_000, "{name}: {data}");
            assert_eq!(syns > 1_500, scene == Scene::Short, "{name}: {syns}");
            assert!(scene != Scene::Lossy || sacks > 1_000 && again > 100, "{name}: {sacks} {again}");
        }
    }
}
