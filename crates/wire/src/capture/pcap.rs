//! The format of libpcap: a header of 24 bytes, then records of 16 bytes and the frame.
//!
//! Variants are distinguished by the magic number: microseconds or nanoseconds, either byte order,
//! and the modified one (of Alexey Kuznetzov's patches) with 8 more bytes in each record header.

use std::io;

use record::{Instant, Realtime};

use super::error::{CaptureError, Problem};
use super::frame::{Interface, LONGEST_FRAME, LinkType, Record, Resolution};
use super::window::Window;
use super::{Progress, word, zeros};

/// How a pcap file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapVariant {
    /// Numbers have their most significant byte first.
    pub big_endian: bool,
    /// Fractions of a second are nanoseconds, otherwise microseconds.
    pub nanoseconds: bool,
    /// Record headers are 24 bytes long rather than 16.
    pub modified: bool,
}

impl PcapVariant {
    /// The variant that a file beginning with `magic` is of.
    pub fn from_magic(magic: [u8; 4]) -> Option<Self> {
        let variant = |big_endian, nanoseconds, modified| Some(Self { big_endian, nanoseconds, modified });
        let of = |number: u32, big_endian| match number {
            0xa1b2_c3d4 => variant(big_endian, false, false),
            0xa1b2_3c4d => variant(big_endian, true, false),
            0xa1b2_cd34 => variant(big_endian, false, true),
            _ => None,
        };
        of(u32::from_le_bytes(magic), false).or_else(|| of(u32::from_be_bytes(magic), true))
    }
}

pub(super) struct Pcap {
    pub(super) variant: PcapVariant,
    link_type: LinkType,
    /// Bytes of a record's header.
    header_length: usize,
    /// The version before which the two lengths of a record stood the other way round is 2.3, and
    /// of 2.3 some do.
    minor: u32,
}

impl Pcap {
    pub(super) fn open(
        window: &mut Window<'_>,
        progress: &mut Progress,
        variant: PcapVariant,
    ) -> Result<Self, CaptureError> {
        if !window.has(24)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        let header = window.held();
        let versions = word(header, 4, variant.big_endian);
        let (major, minor) =
            if variant.big_endian { (versions >> 16, versions & 0xffff) } else { (versions & 0xffff, versions >> 16) };
        if major != 2 {
            return Err(CaptureError::Unsupported { offset: 4, what: "pcap version", value: major.into() });
        }
        // The upper half of the link type holds the length of the frame check sequence (bit 26, and
        // 28 to 31).
        let network = word(header, 20, variant.big_endian);
        let link_type = LinkType((network & 0xffff) as u16);
        let resolution = if variant.nanoseconds { Resolution::NANOSECONDS } else { Resolution::MICROSECONDS };
        let mut interface = Interface::new(link_type, resolution);
        interface.snap_length = word(header, 16, variant.big_endian);
        interface.fcs_bytes = (network & 0x0400_0000 != 0).then_some(((network >> 28) * 2) as u8);
        progress.interfaces.push(interface);
        window.advance(24);
        let header_length = if variant.modified { 24 } else { 16 };
        Ok(Self { variant, link_type, header_length, minor })
    }

    /// The record at the start of `held`, where it is there whole and its length can be believed.
    #[inline(always)]
    pub(super) fn whole(&self, held: &[u8]) -> Option<Record> {
        let record = self.record(held)?;
        (is_possible(&record) && record.length <= held.len()).then_some(record)
    }

    /// As its header says.
    #[inline(always)]
    fn record(&self, held: &[u8]) -> Option<Record> {
        let header = held.first_chunk::<16>()?;
        let field = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let fields = [field(0), field(4), field(8), field(12)];
        let big_endian = self.variant.big_endian;
        let [seconds, fraction, mut captured, mut original] =
            if big_endian { fields.map(u32::swap_bytes) } else { fields };
        if self.minor < 4 && (self.minor < 3 || captured > original) {
            std::mem::swap(&mut captured, &mut original);
        }
        Some(Record {
            at: Some(moment(seconds, fraction, self.variant.nanoseconds)),
            interface: 0,
            link_type: self.link_type,
            original_length: original.max(captured),
            start: self.header_length,
            captured: captured as usize,
            options: (0, 0),
            big_endian,
            length: self.header_length + captured as usize,
        })
    }

    /// Reads on until a record is there whole, or counts why it never will be.
    pub(super) fn next(&mut self, window: &mut Window<'_>, progress: &mut Progress) -> io::Result<Option<Record>> {
        let offset = window.offset();
        if window.has(self.header_length)?
            && let Some(record) = self.record(window.held())
        {
            if !is_possible(&record) {
                let empty = record.original_length == 0;
                let problem = if empty { Problem::BadRecord } else { Problem::ImpossibleLength };
                return self.resynchronise(problem, window, progress);
            }
            if window.has(record.length)? {
                progress.number += 1;
                return Ok(Some(record));
            }
        }
        progress.end(window, window.held().len(), offset);
        Ok(None)
    }
}

/// No packet is as long as that, and none has no bytes at all: zeros are what a hole in a file
/// reads as.
#[inline(always)]
fn is_possible(record: &Record) -> bool {
    record.captured <= LONGEST_FRAME as usize && record.original_length > 0
}

/// Records in a row that have to make sense for reading to go on behind damage.
const AGREEING: usize = 3;

impl Pcap {
    /// Counts a damaged record and looks for the next place where records follow one another.
    #[cold]
    fn resynchronise(
        &self,
        problem: Problem,
        window: &mut Window<'_>,
        progress: &mut Progress,
    ) -> io::Result<Option<Record>> {
        progress.stop_at_next(problem, window.offset());
        progress.over = false;
        window.advance(1);
        while window.has(self.header_length)? {
            let barren = self.barren(window.held());
            if barren > 0 {
                window.advance(barren);
                continue;
            }
            if self.records_agree(window)?
                && let Some(record) = self.record(window.held())
            {
                progress.number += 1;
                return Ok(Some(record));
            }
            window.advance(1);
        }
        progress.over = true;
        Ok(None)
    }

    /// Whether plausible records stand at the window's start, close to each other in time: so many,
    /// or up to the file's end.
    fn records_agree(&self, window: &mut Window<'_>) -> io::Result<bool> {
        let (mut at, mut before) = (0, None);
        for found in 0..AGREEING {
            if !window.has(at + self.header_length)? {
                return Ok(found > 0 && window.held().len() == at);
            }
            let Some(record) = window.held().get(at..).and_then(|held| self.plausible(held)) else { return Ok(false) };
            let seconds = word(window.held(), at, self.variant.big_endian);
            if before.is_some_and(|b: u32| b.abs_diff(seconds) >= 86_400) {
                return Ok(false);
            }
            before = Some(seconds);
            at += record.length;
        }
        window.has(at)
    }

    /// The record at the start of `held`, where its header alone makes sense.
    fn plausible(&self, held: &[u8]) -> Option<Record> {
        let most = if self.variant.nanoseconds { 1_000_000_000 } else { 1_000_000 };
        let record = self.record(held)?;
        let lengths = (14..=262_144).contains(&record.captured) && record.original_length <= 1 << 24;
        (lengths && word(held, 4, self.variant.big_endian) < most).then_some(record)
    }

    /// How many bytes at the start of `held` begin no record, by the headers that would be there.
    /// A hole may be gigabytes of zeros, which a small compressed file can stand for.
    fn barren(&self, held: &[u8]) -> usize {
        let mut at = 0;
        while let Some(header) = held.get(at..).and_then(<[u8]>::first_chunk::<16>) {
            if *header == [0; 16] {
                // The last 15 may belong to a header that ends behind them.
                at += zeros(&held[at..]) - 15;
            } else if self.plausible(header).is_some() {
                break;
            } else {
                at += 1;
            }
        }
        at
    }
}

#[inline(always)]
fn moment(seconds: u32, fraction: u32, nanoseconds: bool) -> Instant<Realtime> {
    let unit = if nanoseconds { 1 } else { 1_000 };
    // Neither product nor sum can leave 64 bits, whatever the fields hold.
    Instant::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit)
}

/// Writes the header of a pcap file with nanoseconds, least significant byte first.
///
/// # Errors
/// Those of `out`.
pub fn write_pcap_header(out: &mut impl io::Write, link_type: LinkType) -> io::Result<()> {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    header[4] = 2;
    header[6] = 4;
    header[16..20].copy_from_slice(&262_144_u32.to_le_bytes());
    header[20..22].copy_from_slice(&link_type.0.to_le_bytes());
    out.write_all(&header)
}

/// Writes one record after [`write_pcap_header`]. `data` may be less than `original_length`, where
/// a frame was cut short.
///
/// # Errors
/// Those of `out`; `InvalidInput` where the time is beyond the format's year 2106 or the frame is
/// too long.
pub fn write_pcap_record(
    out: &mut impl io::Write,
    at: Instant<Realtime>,
    original_length: u32,
    data: &[u8],
) -> io::Result<()> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let seconds = u32::try_from(at.as_nanos() / 1_000_000_000)
        .map_err(|_| invalid("pcap cannot hold a time after 2106; write pcapng"))?;
    let length = u32::try_from(data.len()).ok().filter(|n| *n <= LONGEST_FRAME);
    let length = length.ok_or_else(|| invalid("a frame of more than 8 MiB"))?;
    let mut header = [0; 16];
    header[..4].copy_from_slice(&seconds.to_le_bytes());
    header[4..8].copy_from_slice(&((at.as_nanos() % 1_000_000_000) as u32).to_le_bytes());
    header[8..12].copy_from_slice(&length.to_le_bytes());
    header[12..].copy_from_slice(&original_length.to_le_bytes());
    out.write_all(&header)?;
    out.write_all(data)
}
