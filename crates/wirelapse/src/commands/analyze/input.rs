//! Where packets come from: a file or standard input, read to segments, with everything that was
//! not understood.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use diagnose::{Follower, Keep, Options};
use record::Instant;
use report::page::capture::{Names, host_names};
use rustix::event::{PollFd, PollFlags};
use wire::capture::{Compression, Format, Interface};
use wire::{Capture, CaptureError, NotDecoded, Packet, PacketReader, Place, Process, Segment, Shard, Tally};

use super::Beside;
use super::pieces::{Pieces, Reader};
use super::prefetch::Prefetch;
use crate::exit::BadInput;
use crate::output::complain;

/// A capture, open: to read it takes no right to open files any more.
#[derive(Debug)]
pub struct Source {
    name: String,
    opened: Opened,
}

#[derive(Debug)]
enum Opened {
    Stdin,
    /// A regular file with its size.
    File(File, u64),
    /// A pipe, a terminal, a device. It does not block yet.
    Stream(File),
}

impl Source {
    /// Opens a capture; `-` is standard input. It waits for nobody: a pipe that nobody writes into
    /// yet is open too.
    pub fn open(path: &Path) -> Result<Self, BadInput> {
        if path.as_os_str() == "-" {
            return Ok(Self { name: "standard input".into(), opened: Opened::Stdin });
        }
        let name = path.display().to_string();
        let bad = |e: io::Error| BadInput(format!("{name}: {e}"));
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(bad)?;
        let kind = file.metadata().map_err(bad)?;
        if kind.is_dir() {
            return Err(BadInput(format!("{name}: this is a directory; name the captures in it")));
        }
        let opened = if kind.is_file() { Opened::File(file, kind.len()) } else { Opened::Stream(file) };
        Ok(Self { name, opened })
    }

    /// The regular file that it is, which can be read again.
    pub fn file(&self) -> Option<&File> {
        match &self.opened {
            Opened::File(file, _) => Some(file),
            Opened::Stdin | Opened::Stream(_) => None,
        }
    }

    /// What a message calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a regular file as a capture, from its beginning.
    pub fn capture<'a>(&self, mut file: &'a File) -> anyhow::Result<Capture<'a>> {
        file.rewind().map_err(|e| BadInput(format!("{}: {e}", self.name)))?;
        Capture::from_reader(file).map_err(|e| self.bad(&e))
    }

    fn bad(&self, error: &CaptureError) -> anyhow::Error {
        BadInput(format!("{}: {error}", self.name)).into()
    }
}

/// A stream to read, once somebody has written into it.
fn awaited(stream: &File) -> io::Result<&File> {
    let mut ready = [PollFd::new(stream, PollFlags::IN)];
    while rustix::event::poll(&mut ready, None) == Err(rustix::io::Errno::INTR) {}
    let flags = rustix::fs::fcntl_getfl(stream)?;
    rustix::fs::fcntl_setfl(stream, flags - rustix::fs::OFlags::NONBLOCK)?;
    Ok(stream)
}

/// A regular file up to the size that it had at first.
///
/// Not a map of the file: reading a map beyond the end of a file that somebody cuts short meanwhile
/// ends the process.
struct UpTo<'a> {
    file: &'a File,
    end: u64,
    /// Where the next byte is read: the file's own place is shared by all that read it.
    offset: u64,
}

impl io::Read for UpTo<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX).min(into.len());
        let count = self.file.read_at(&mut into[..left], self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// What was read beside the segments.
#[derive(Debug, Default)]
pub struct Reading {
    name: String,
    format: String,
    /// Packets of the capture.
    pub packets: u64,
    /// UDP, ICMP and ARP.
    other: u64,
    /// Damage, in words, with its first place and how often.
    problems: Vec<(String, Place, u64)>,
    unread: Tally<NotDecoded>,
    /// The interfaces that the capture describes.
    pub interfaces: Vec<Interface>,
    /// The processes that it describes: number, name, and start in nanoseconds of Unix time.
    pub described: Vec<(u32, String, Option<u64>)>,
    /// Processes by their ends, until what all threads found is put together.
    processes: BTreeMap<SocketAddr, Process>,
    /// What the capture calls hosts and processes.
    pub names: Names,
}

/// Below this a second thread takes longer to start than it saves.
const SHARED_FROM: u64 = 1 << 20;

/// Follows the connections of `source`, with so many threads where it is a plain file. The outcome
/// does not depend on how many.
///
/// # Errors
/// Where nothing can be read; damage further on is counted in the [`Reading`].
pub fn follow(source: &Source, options: Options, threads: usize) -> anyhow::Result<(Follower, Reading)> {
    match &source.opened {
        Opened::Stdin => follow_alone(source, PacketReader::from_reader(io::stdin()), options),
        Opened::Stream(stream) => {
            let stream = awaited(stream).map_err(|e| BadInput(format!("{}: {e}", source.name)))?;
            follow_alone(source, PacketReader::from_reader(stream), options)
        }
        Opened::File(file, end) => {
            let alone = || PacketReader::from_reader(UpTo { file, end: *end, offset: 0 });
            if threads > 1
                && *end >= SHARED_FROM
                && options.keep == Keep::Nothing
                && can_be_shared(&alone().map_err(|e| source.bad(&e))?)
                && let Some(shared) = shared(source, (file, *end), options, threads)?
            {
                return Ok(shared);
            }
            follow_alone(source, alone(), options)
        }
    }
}

fn follow_alone(
    source: &Source,
    packets: Result<PacketReader<'_>, CaptureError>,
    options: Options,
) -> anyhow::Result<(Follower, Reading)> {
    let mut follower = Follower::new(options);
    let reading = read_packets(source, packets.map_err(|e| source.bad(&e))?, &mut follower)?;
    Ok((follower, reading.named()))
}

/// Whether several threads can read it: decompressing it, or reading it as text, would be most of
/// their work.
fn can_be_shared(first: &PacketReader<'_>) -> bool {
    first.compression() == Compression::None && first.format() != Format::Text
}

/// Each thread reads the whole file and follows its own part of the connections: to look at a
/// packet and pass over it is much cheaper than to hand it to another core. `None` where there are
/// more connections than may be followed, so that their order decides which are.
fn shared(
    source: &Source,
    (file, end): (&File, u64),
    options: Options,
    threads: usize,
) -> anyhow::Result<Option<(Follower, Reading)>> {
    let options = Options { shards: threads, ..options };
    let one = |part: Shard, packets: Result<PacketReader<'_>, CaptureError>| {
        let mut follower = Follower::new(options);
        let packets = packets.map_err(|e| source.bad(&e))?.only(part);
        read_packets(source, packets, &mut follower).map(|reading| (follower, reading))
    };
    let pieces = Pieces::new(file, end);
    let readers: Vec<_> = (0..threads).map(|_| pieces.reader()).collect();
    let with = &|part, mut reader: Reader<'_>| one(part, PacketReader::from_pieces(move || reader.next()));
    let mut parts = Shard::all(threads as u32, options.seed[0]).zip(readers);
    let Some((own, reader)) = parts.next() else { return Ok(None) };
    let outcomes: Vec<anyhow::Result<(Follower, Reading)>> = std::thread::scope(|scope| {
        // What has no thread, under a limit on them, is read by this one afterwards.
        let (mut others, mut left) = (Vec::new(), Vec::new());
        for (part, reader) in parts {
            match std::thread::Builder::new().spawn_scoped(scope, move || with(part, reader)) {
                Ok(thread) => others.push(thread),
                Err(_) => left.push(part),
            }
        }
        if !left.is_empty() {
            let started = others.len() + 1;
            complain!("{started} of {threads} threads could be started: this takes longer, and finds the same");
        }
        let mut outcomes = vec![with(own, reader)];
        let alone = || PacketReader::from_reader(UpTo { file, end, offset: 0 });
        outcomes.extend(left.into_iter().map(|part| one(part, alone())));
        let joined = others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        outcomes.into_iter().chain(joined).collect()
    });
    let mut all: Option<(Follower, Reading)> = None;
    for outcome in outcomes {
        let (follower, reading) = outcome?;
        if follower.beyond_limit() > 0 {
            return Ok(None);
        }
        all = Some(match all {
            None => (follower, reading),
            Some((joined, mut before)) => {
                if (before.packets, before.other) != (reading.packets, reading.other) {
                    let place = Place { packet: before.packets.min(reading.packets), offset: 0 };
                    before.problems.push(("the file changed while it was read".into(), place, 1));
                }
                for (end, process) in reading.processes {
                    if before.processes.get(&end).is_none_or(|known| process.is_known_better_than(known)) {
                        before.processes.insert(end, process);
                    }
                }
                (joined.join(follower), before)
            }
        });
    }
    Ok(all.map(|(follower, reading)| (follower, reading.named())))
}

/// Segments on their way to the follower: put together by connection while many connections take
/// turns, else in the order of the capture, which then takes less.
struct Turns {
    room: Vec<Segment>,
    filled: usize,
    /// So many times they are handed on in order before a batch shows again how many connections
    /// take turns.
    in_order: usize,
}

impl Turns {
    /// With 500 connections, eight packets of each: what its memory takes to come is divided among
    /// as many. 0.72 MB, which stay in the second level of a core's cache.
    const MANY: usize = 4_096;
    /// These stay in the cache beside the core.
    const FEW: usize = 64;
    /// The state of fewer connections is still in the nearest caches when their next packet comes.
    const CONNECTIONS: usize = 32;

    fn new() -> Self {
        let unknown = SocketAddr::from(([0; 4], 0));
        let blank = Segment::new(0, Instant::from_nanos(0), unknown, unknown);
        Self { room: vec![blank; Self::MANY], filled: 0, in_order: 0 }
    }

    /// Where the next ones are to be written.
    fn room(&mut self) -> &mut [Segment] {
        let size = if self.in_order > 0 { Self::FEW } else { Self::MANY };
        &mut self.room[self.filled..size]
    }

    /// So many were written there. True where there is no room for one more.
    fn take(&mut self, count: usize, follower: &mut Follower) -> bool {
        self.filled += count;
        let is_full = self.room().is_empty();
        if is_full {
            self.hand_on(follower);
        }
        is_full
    }

    fn hand_on(&mut self, follower: &mut Follower) {
        let segments = &self.room[..std::mem::take(&mut self.filled)];
        if let Some(last) = segments.last() {
            follower.dns.reaches(last.at.as_nanos());
        }
        if follower.network.watches() {
            segments.iter().for_each(|s| follower.network.sent(s));
        }
        if self.in_order > 0 {
            segments.iter().for_each(|s| follower.take(s));
            self.in_order -= 1;
        } else if follower.take_batch(segments, Prefetch) < Self::CONNECTIONS {
            self.in_order = 32 * Self::MANY / Self::FEW;
        }
    }
}

fn read_packets(source: &Source, mut packets: PacketReader<'_>, follower: &mut Follower) -> anyhow::Result<Reading> {
    let mut reading = Reading { name: source.name.clone(), format: packets.format().to_string(), ..Reading::default() };
    let is_text = packets.format() == Format::Text;
    let mut turns = Turns::new();
    let failed = loop {
        let filled = packets.fill(turns.room());
        if turns.take(filled, follower) {
            continue;
        }
        match packets.next_packet() {
            Ok(Some(Packet::Tcp(segment))) => {
                turns.room()[0] = *segment;
                turns.take(1, follower);
                if is_text {
                    let addresses = [segment.source.ip(), segment.destination.ip()];
                    for address in
                        addresses.into_iter().filter(|a| !reading.names.hosts.contains_key(a)).collect::<Vec<_>>()
                    {
                        if let Some(name) = packets.name(address) {
                            reading.names.hosts.insert(address, name.to_owned());
                        }
                    }
                }
            }
            Ok(Some(Packet::Udp(datagram))) => {
                reading.other += 1;
                if packets.has(datagram.source, datagram.destination) {
                    follower.take_datagram(&datagram);
                }
            }
            Ok(Some(Packet::Icmp(icmp))) => {
                reading.other += 1;
                let is_own = match icmp.quoted {
                    Some(quoted) => packets.has(quoted.source, quoted.destination),
                    None => packets.has_the_rest(),
                };
                if is_own {
                    follower.take_icmp(&icmp);
                }
            }
            Ok(Some(Packet::Arp(arp))) => {
                reading.other += 1;
                if packets.has_the_rest() {
                    follower.take_arp(&arp);
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        if let Some(payload) = packets.payload() {
            follower.take_payload(payload);
        }
    };
    turns.hand_on(follower);
    if packets.has_the_rest() {
        let given_up = packets.take_unfinished();
        given_up.into_iter().chain(packets.reassembly().under_way()).for_each(|f| follower.network.unfinished(f));
    }
    if let Some(error) = failed {
        if packets.packets() == 0 {
            return Err(source.bad(&error));
        }
        let place = Place { packet: packets.packets(), offset: packets.offset() };
        reading.problems.push((error.to_string(), place, 1));
    }
    reading.packets = packets.packets();
    reading.processes = packets.processes();
    if let Some(text) = packets.text_counts() {
        reading.other = text.other_packets;
        if text.beyond_limits > 0 {
            let what = "segments of too many hosts or connections".into();
            reading.problems.push((what, Place::default(), text.beyond_limits));
        }
    }
    for (problem, count) in packets.problems().iter() {
        reading.problems.push((problem.to_string(), count.first.first().copied().unwrap_or_default(), count.count));
    }
    let (lost, waiting) = (packets.reassembly().losses(), packets.reassembly().waiting() as u64);
    for (what, count) in [
        ("IP packets of which fragments did not all come within 60 s", lost.expired),
        ("IP packets in fragments given up to make room for newer ones", lost.displaced),
        ("fragments that overlap others", lost.overlapping),
        ("IP packets of which fragments are missing at the end", waiting),
    ] {
        if count > 0 {
            reading.problems.push((what.into(), Place { packet: reading.packets, offset: packets.offset() }, count));
        }
    }
    if reading.packets == 0
        && let Some((what, place, _)) = reading.problems.first()
    {
        return Err(BadInput(format!("{}: {place}: {what}; nothing before it could be read", source.name)).into());
    }
    reading.unread = packets.not_decoded().clone();
    reading.interfaces = packets.interfaces().to_vec();
    reading.described = packets.described();
    Ok(reading)
}

impl Reading {
    /// For a live capture that has not begun.
    pub fn live(name: &str) -> Self {
        Self { name: name.into(), format: "live".into(), ..Self::default() }
    }

    /// With the processes in words.
    fn named(mut self) -> Self {
        let processes = std::mem::take(&mut self.processes).into_iter();
        self.names.processes = processes.map(|(end, process)| (end, process.to_string())).collect();
        self
    }

    /// Takes a packet of a live capture that is no TCP segment.
    pub fn not_tcp(&mut self, why: Option<NotDecoded>) {
        match why {
            Some(NotDecoded::FragmentHeld) => {}
            Some(why) => self.unread.add(why, Place { packet: self.packets, offset: 0 }),
            None => self.other += 1,
        }
    }

    /// Packets that a live capture dropped before they could be read.
    pub fn dropped(&mut self, count: u64) {
        if count > 0 {
            let place = Place { packet: self.packets, offset: 0 };
            self.problems.push(("packets dropped before they could be read".into(), place, count));
        }
    }

    /// A live capture ended before it was asked to, for this reason.
    pub fn ended_early(&mut self, why: &str) {
        let place = Place { packet: self.packets, offset: 0 };
        self.problems.push((why.into(), place, 1));
    }

    /// Warns of what was not read on standard error.
    pub fn warn(&self) {
        for (problem, place, count) in &self.problems {
            complain!("warning: {}: {place}: {problem} ({count} in all)", self.name);
        }
        // What is well-formed and merely of other protocols is counted in the output and needs no
        // warning.
        let damaged =
            |why: NotDecoded| why != NotDecoded::FragmentHeld && why.class() != Some(wire::Class::Unsupported);
        for (why, count) in self.unread.iter().filter(|(why, _)| damaged(*why)) {
            let place = count.first.first().copied().unwrap_or_default();
            complain!("warning: {}: {place}: {why} ({} in all)", self.name, count.count);
        }
    }

    /// What was lost or could not be read, in words, with how often.
    pub fn unread(&self) -> Vec<String> {
        let problems = self.problems.iter().map(|(what, place, n)| format!("{place}: {what} (n = {n})"));
        let unread = self.unread.iter().map(|(why, c)| {
            let place = c.first.first().copied().unwrap_or_default();
            format!("{place}: {why} (n = {})", c.count)
        });
        problems.chain(unread).collect()
    }

    /// The line on the capture.
    pub fn json(&self, file: &str, follower: &Follower, beside: &Beside<'_>) -> serde_json::Value {
        let entry = |what: String, place: Place, count: u64| serde_json::json!({"what": what, "count": count, "first_packet": place.packet, "first_byte": place.offset});
        let unread: Vec<_> = self
            .unread
            .iter()
            // Held fragments are part of a packet that is given when it is whole.
            .filter(|(why, _)| *why != NotDecoded::FragmentHeld)
            .map(|(why, c)| entry(why.to_string(), c.first.first().copied().unwrap_or_default(), c.count))
            .collect();
        let problems: Vec<_> =
            self.problems.iter().map(|(what, place, count)| entry(what.clone(), *place, *count)).collect();
        let Beside { dns, tls, quic, udp, network, .. } = beside;
        let server_names = host_names(&[&tls.names(), &quic.names()]);
        let [resolved, server_names] = [dns.names(), server_names].map(|names| {
            let named = names.into_iter();
            let named = named.map(|(address, names)| serde_json::json!({"address": address, "names": names}));
            named.collect::<Vec<_>>()
        });
        serde_json::json!({
            "kind": "capture",
            "file": file,
            "format": self.format,
            "packets": self.packets,
            "connections": follower.len(),
            "totals": follower.totals(),
            "dns": record::table::object::of(&dns.totals()),
            "tls": record::table::object::of(&tls.totals()),
            "quic": record::table::object::of(&quic.totals()),
            "udp": record::table::object::of(&udp.totals()),
            "network": record::table::object::of(&network.totals()),
            "not_tcp": self.other,
            "not_read": unread,
            "problems": problems,
            "names": self.names.hosts,
            "resolved": resolved,
            "server_names": server_names,
        })
    }
}
