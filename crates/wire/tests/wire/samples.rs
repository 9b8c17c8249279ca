//! Small captures built byte by byte, so that each format is read from what its specification says
//! and not from our own writer.

use wire::capture::PcapVariant;
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Capture, CaptureError};

/// What a format must give back of a frame: time in ns, length on the wire, bytes kept.
pub type Kept = (Option<u64>, u32, Vec<u8>);

/// Six packets: a handshake, data of which 96 bytes are kept, and an ACK.
pub fn frames() -> Vec<Kept> {
    let mut file = Vec::new();
    write_traffic(
        &mut file,
        &Traffic { pattern: Pattern::Download, packets: 6, connections: 1, seed: 5, loss_one_in: 0 },
    )
    .expect("memory");
    read(Capture::from_bytes(&file)).0
}

/// The frames with times rounded down to `unit` ns.
pub fn rounded(unit: u64) -> Vec<Kept> {
    frames().into_iter().map(|(at, wire, data)| (at.map(|ns| ns / unit * unit), wire, data)).collect()
}

/// All frames of a capture, and how much was wrong with it. None where it is no capture.
pub fn read(capture: Result<Capture<'_>, CaptureError>) -> (Vec<Kept>, u64) {
    let Ok(mut capture) = capture else { return (Vec::new(), 1) };
    let mut frames = Vec::new();
    while let Some(f) = capture.next_frame().expect("memory") {
        frames.push((f.at.map(record::Instant::as_nanos), f.original_length, f.data.to_vec()));
    }
    (frames, capture.problems().total())
}

/// Numbers in one byte order.
#[derive(Clone, Copy)]
pub struct Order {
    pub big: bool,
}

/// Least significant byte first.
pub const LITTLE: Order = Order { big: false };
/// Most significant byte first.
pub const BIG: Order = Order { big: true };

impl Order {
    pub fn two(self, n: u16) -> [u8; 2] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    pub fn four(self, n: u32) -> [u8; 4] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    /// Words one after the other.
    pub fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|n| self.four(*n)).collect()
    }

    /// A pcapng block.
    pub fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let length = self.four(padded.len() as u32 + 12);
        [&self.four(kind)[..], &length, &padded, &length].concat()
    }

    /// A pcapng section header of a major version.
    pub fn section(self, major: u16) -> Vec<u8> {
        let body = [&self.four(0x1a2b_3c4d)[..], &self.two(major), &self.two(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    /// A pcapng option with its padding.
    pub fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.two(code)[..], &self.two(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// An Ethernet interface that keeps 96 bytes, with options.
    pub fn interface(self, options: &[u8]) -> Vec<u8> {
        let end = if options.is_empty() { Vec::new() } else { self.option(0, &[]) };
        self.block(1, &[&self.two(1)[..], &[0, 0], &self.four(96), options, &end].concat())
    }

    /// An enhanced packet block at so many ticks.
    pub fn packet(self, interface: u32, ticks: u64, wire: u32, data: &[u8]) -> Vec<u8> {
        let fixed = self.words(&[interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, wire]);
        self.block(6, &[fixed, data.to_vec()].concat())
    }
}

/// A pcap file of a variant.
pub fn pcap(variant: PcapVariant) -> Vec<u8> {
    let order = Order { big: variant.big_endian };
    let magic = match (variant.nanoseconds, variant.modified) {
        (true, _) => 0xa1b2_3c4d,
        (false, true) => 0xa1b2_cd34,
        (false, false) => 0xa1b2_c3d4,
    };
    let mut file = [&order.four(magic)[..], &order.two(2), &order.two(4), &order.words(&[0, 0, 65_535, 1])].concat();
    let unit = if variant.nanoseconds { 1 } else { 1_000 };
    for (at, wire, data) in frames() {
        let at = at.expect("a time");
        let (seconds, fraction) = (at / 1_000_000_000, at % 1_000_000_000 / unit);
        file.extend(order.words(&[seconds as u32, fraction as u32, data.len() as u32, wire]));
        if variant.modified {
            file.extend(order.words(&[7, 0x0800_0000]));
        }
        file.extend(data);
    }
    file
}

/// A snoop file; each record shows of so many packets dropped before it.
pub fn snoop(link_type: u32, drops: u32) -> Vec<u8> {
    let order = Order { big: true };
    let mut file = [&b"snoop\0\0\0"[..], &order.words(&[2, link_type])].concat();
    for (at, wire, data) in frames() {
        let at = at.expect("a time");
        let length = 24 + data.len().next_multiple_of(4);
        let (seconds, micros) = (at / 1_000_000_000, at % 1_000_000_000 / 1_000);
        let header = [wire, data.len() as u32, length as u32, drops, seconds as u32, micros as u32];
        let end = file.len() + length;
        file.extend(order.words(&header));
        file.extend(data);
        file.resize(end, 0);
    }
    file
}

/// A pcapng file of one section with enhanced packet blocks in nanoseconds.
pub fn pcapng(order: Order) -> Vec<u8> {
    let mut file = [order.section(1), order.interface(&order.option(9, &[9]))].concat();
    for (at, wire, data) in frames() {
        file.extend(order.packet(0, at.expect("a time"), wire, &data));
    }
    file
}

/// A Network Monitor file of this version; the capture began a whole second before the first frame.
pub fn netmon(major: u8, minor: u8) -> Vec<u8> {
    let frames = frames();
    let began = frames[0].0.expect("a time") / 1_000_000_000 - 1;
    let mut file = if major == 1 { b"RTSS".to_vec() } else { b"GMBU".to_vec() };
    file.extend([minor, major, 1, 0]);
    let (days, rest) = (began / 86_400, began % 86_400);
    let (year, month, day) = civil(days);
    for field in [year, month, 0, day, rest / 3_600, rest / 60 % 60, rest % 60, 0] {
        file.extend((field as u16).to_le_bytes());
    }
    file.resize(128, 0);
    let trailer = if minor == 1 { 2 } else { 0 };
    for (at, wire, data) in &frames {
        let micros = (at.expect("a time") - began * 1_000_000_000) / 1_000;
        if major == 1 {
            file.extend(((micros / 1_000) as u32).to_le_bytes());
            file.extend((*wire as u16).to_le_bytes());
            file.extend((data.len() as u16).to_le_bytes());
        } else {
            file.extend(micros.to_le_bytes());
            file.extend(wire.to_le_bytes());
            file.extend((data.len() as u32).to_le_bytes());
        }
        file.extend(data);
        file.extend(&[1, 0][..trailer]);
    }
    // The frame table begins here.
    let table = file.len() as u32;
    file[24..28].copy_from_slice(&table.to_le_bytes());
    file
}

/// The date of so many days after 1970-01-01, found by counting.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

/// A file of ERF records of Ethernet, each with so many extension headers.
pub fn erf(extensions: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for (at, wire, data) in frames() {
        let at = at.expect("a time");
        let fraction = ((u128::from(at % 1_000_000_000) << 32).div_ceil(1_000_000_000)) as u32;
        let length = 16 + 8 * extensions + 2 + data.len();
        file.extend(fraction.to_le_bytes());
        file.extend(((at / 1_000_000_000) as u32).to_le_bytes());
        file.extend([if extensions > 0 { 0x82 } else { 2 }, 4]);
        file.extend((length as u16).to_be_bytes());
        file.extend([0, 0]);
        file.extend((wire as u16).to_be_bytes());
        for n in 1..=extensions {
            file.extend([if n < extensions { 0x80 } else { 0 }, 0, 0, 0, 0, 0, 0, 0]);
        }
        file.extend([0, 0]);
        file.extend(data);
    }
    file
}
