//! What tcpdump prints: today's lines, with `-n`, `-tt`, `-ttt`, `-tttt`, `-S`, `-v`, `-e`, `-A`,
//! `-x` or `--number`, and those of 1999. What `-ttttt` prints looks like `-ttt` and is read as
//! that.
//!
//! Lines that are packets are recognised wherever they stand; prose between them is skipped and
//! counted. A zero-length segment's sequence number is not printed, so it is taken to be the
//! highest one sent so far. Numbers that are printed relative to the connection's first ones, those
//! of SACK blocks too, are given as they went over the wire. Hosts given by name get a made-up
//! address in 198.18.0.0/15 (RFC 2544) that depends on the name alone, as far as names do not
//! collide.

mod line;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use record::{Instant, Realtime, SeqNumber};

use crate::segment::{Flags, Integrity, Segment, TcpOptions};
use line::{Header, Line, Time};

/// A longer line is cut here.
const LONGEST_LINE: u64 = 64 << 10;
const MOST_FLOWS: usize = 1 << 18;
const MOST_NAMES: usize = 1 << 16;
const DAY: u64 = 86_400_000_000_000;

/// How many lines were of what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextCounts {
    /// All lines.
    pub lines: u64,
    /// TCP segments read.
    pub segments: u64,
    /// Packets that are not TCP, or TCP without ports, flags or window.
    pub other_packets: u64,
    /// Lines that are no packet: prose, blank lines, hexadecimal dumps.
    pub passed_over: u64,
    /// Segments skipped because they are of more hosts or connections than are followed.
    pub beyond_limits: u64,
}

#[derive(Clone, Copy, Default)]
struct Direction {
    /// What printed numbers are relative to.
    base: SeqNumber,
    /// After the highest byte sent.
    next: Option<SeqNumber>,
}

/// Reads tcpdump's text.
pub struct TextReader<R> {
    lines: R,
    buffer: Vec<u8>,
    counts: TextCounts,
    number: u64,
    dump: u64,
    /// Prose or a blank line came since the last packet.
    between: bool,
    /// The line before was a packet.
    after_packet: bool,
    /// Each packet is followed by its bytes (`-A`), which may look like prose.
    ascii: bool,
    /// The first line of a packet printed with `-v`.
    pending: Option<(Time, Header)>,
    last: u64,
    day: u64,
    /// Whether numbers are printed as they are (`-S`), once that is known.
    absolute: Option<bool>,
    flows: HashMap<(SocketAddr, SocketAddr), Direction>,
    names: HashMap<String, Ipv4Addr>,
    addresses: HashMap<Ipv4Addr, String>,
}

impl<R: BufRead> TextReader<R> {
    /// Over the text. Nothing is read yet.
    pub fn new(lines: R) -> Self {
        Self {
            lines,
            buffer: Vec::new(),
            counts: TextCounts::default(),
            number: 0,
            dump: 0,
            between: true,
            after_packet: false,
            ascii: false,
            pending: None,
            last: 0,
            day: 0,
            absolute: None,
            flows: HashMap::new(),
            names: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> TextCounts {
        self.counts
    }

    /// The number, from 1, of the dump that the latest segment is in: blank lines or prose part one
    /// from the next.
    pub fn dump(&self) -> u64 {
        self.dump
    }

    /// Packets so far, of every kind.
    pub fn packets(&self) -> u64 {
        self.number
    }

    /// What the lines are read from.
    pub(crate) fn lines(&self) -> &R {
        &self.lines
    }

    /// The host's name that a made-up address stands for.
    pub fn name(&self, address: IpAddr) -> Option<&str> {
        match address {
            IpAddr::V4(v4) => self.addresses.get(&v4).map(String::as_str),
            IpAddr::V6(_) => None,
        }
    }

    /// The next segment, or `None` at the end.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn next_segment(&mut self) -> io::Result<Option<Segment>> {
        loop {
            self.buffer.clear();
            let read = io::Read::take(&mut self.lines, LONGEST_LINE).read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.counts.lines += 1;
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            if let Some(segment) = self.line(&text) {
                self.counts.segments += 1;
                return Ok(Some(segment));
            }
        }
    }

    fn line(&mut self, text: &str) -> Option<Segment> {
        // Lines that belong to a packet, such as its bytes or what `-v` says of them, are indented,
        // even where nothing follows.
        let indented = text.starts_with([' ', '\t']);
        let text = text.trim_end();
        let (time, header, rest) = match line::time(text) {
            Some((time, rest)) => {
                let (header, rest) = line::header(line::link(rest));
                if rest.is_empty() && header.is_some() {
                    self.pending = Some((time, header.unwrap_or_default()));
                    return None;
                }
                (time, header.unwrap_or_default(), rest)
            }
            None => match self.pending.take() {
                Some((time, header)) if indented => (time, header, text.trim_start()),
                _ => {
                    self.counts.passed_over += 1;
                    self.ascii |= self.after_packet && !indented && line::is_ascii_dump(text);
                    self.after_packet = false;
                    self.between |= !indented && !self.ascii;
                    return None;
                }
            },
        };
        if !line::is_packet(rest) {
            self.counts.passed_over += 1;
            self.between |= !self.ascii;
            self.after_packet = false;
            return None;
        }
        if self.between {
            (self.between, self.absolute, self.last, self.day) = (false, None, 0, 0);
            self.dump += 1;
            self.flows.clear();
        }
        // With `-A`, bytes follow each packet.
        self.ascii &= !self.after_packet;
        self.after_packet = true;
        self.number += 1;
        let at = self.moment(time);
        let mut header = header;
        // Where the IP header is not printed in front, as -v does today, the bit stands at the end,
        // as it did in 1999.
        header.network.dont_fragment |= rest.contains(" (DF)");
        let Some(parsed) = line::tcp(rest) else {
            self.counts.other_packets += 1;
            return None;
        };
        let segment = self.segment(at, header, &parsed);
        self.counts.beyond_limits += u64::from(segment.is_none());
        segment
    }

    fn moment(&mut self, time: Time) -> Instant<Realtime> {
        let at = match time {
            Time::Absolute(ns) | Time::Relative(ns) => ns,
            Time::Since(ns) => self.last.saturating_add(ns),
            Time::Clock(ns) => {
                // Half a day back is midnight passed; less is disorder within the capture.
                if self.last > (self.day + ns).saturating_add(DAY / 2) {
                    self.day += DAY;
                }
                self.day + ns
            }
        };
        self.last = at;
        Instant::from_nanos(at)
    }

    fn segment(&mut self, at: Instant<Realtime>, header: Header, line: &Line<'_>) -> Option<Segment> {
        let source = self.host(line.source)?;
        let destination = self.host(line.destination)?;
        let (forth, back) = ((source, destination), (destination, source));
        let is_new = !self.flows.contains_key(&forth);
        if is_new && self.flows.len() + 2 > MOST_FLOWS {
            return None;
        }
        let syn = line.flags.contains(Flags::SYN);
        let own = self.flows.get(&forth).copied().unwrap_or_default();
        let other = self.flows.get(&back).copied().unwrap_or_default();
        let printed_as_is = is_new || syn || self.is_absolute(line, own, other);
        let lift = |number: u32, base: SeqNumber| if printed_as_is { SeqNumber(number) } else { base.add(number) };
        let ack = line.ack.map_or(SeqNumber(0), |number| lift(number, other.base));
        let seq = match line.seq {
            Some(number) => lift(number, own.base),
            None => own.next.unwrap_or_default(),
        };
        // Blocks say what the other side sent, so they count from its first number (tcpdump's
        // print-tcp.c).
        let sack = line.options.sack.map(|number| lift(number.0, other.base));
        let segment = Segment {
            number: self.number,
            at,
            source,
            destination,
            seq,
            ack,
            flags: line.flags,
            window: line.window,
            header_bytes: line.header_bytes,
            payload: line.payload,
            options: TcpOptions { sack, ..line.options },
            network: header.network,
            integrity: Integrity::NotChecked,
        };
        let mut mine = own;
        if syn || is_new {
            mine.base = seq;
        }
        let end = segment.end_seq();
        if mine.next.is_none_or(|next| syn || next.is_before(end)) {
            mine.next = Some(end);
        }
        self.flows.insert(forth, mine);
        if is_new || syn {
            let theirs = self.flows.entry(back).or_default();
            if line.ack.is_some() {
                theirs.base = SeqNumber(ack.0.wrapping_sub(1));
                theirs.next = Some(ack);
            }
        }
        Some(segment)
    }

    /// tcpdump prints numbers relative to the connection's first ones unless given `-S`. The first
    /// number that is nearer to one reading than to the other decides for the whole dump.
    fn is_absolute(&mut self, line: &Line<'_>, own: Direction, other: Direction) -> bool {
        if let Some(known) = self.absolute {
            return known;
        }
        let printed = line.ack.map(|n| (n, other)).or_else(|| line.seq.map(|n| (n, own)));
        let Some((number, direction)) = printed else { return false };
        let from_base = SeqNumber(number).distance_from(direction.base).unsigned_abs();
        let absolute = from_base < SeqNumber(number).distance_from(SeqNumber(0)).unsigned_abs();
        self.absolute = Some(absolute);
        absolute
    }

    fn host(&mut self, (host, port): (&str, u16)) -> Option<SocketAddr> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(SocketAddr::new(address, port));
        }
        if let Some(known) = self.names.get(host) {
            return Some(SocketAddr::new(IpAddr::V4(*known), port));
        }
        if self.names.len() >= MOST_NAMES {
            return None;
        }
        // FNV-1a, so that the address is the same in every run and in every file.
        let hash = host.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
        let mut address = Ipv4Addr::from_bits(0xc612_0000 | (hash & 0x1_ffff));
        while self.addresses.contains_key(&address) {
            address = Ipv4Addr::from_bits(0xc612_0000 | (address.to_bits().wrapping_add(1) & 0x1_ffff));
        }
        self.names.insert(host.to_owned(), address);
        self.addresses.insert(address, host.to_owned());
        Some(SocketAddr::new(IpAddr::V4(address), port))
    }
}
