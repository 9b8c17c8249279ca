//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks, each with its length before and after it.

use std::io;

use super::error::{CaptureError, Problem};
use super::frame::{Interface, LONGEST_FRAME, LinkType, Record, Resolution};
use super::pcapng_option::next_option;
use super::pcapng_writer::WIRESHARK;
use super::process_block::PROCESS_EVENT;
use super::window::Window;
use super::{Progress, word, zeros};

/// The type of a section header block, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
/// A custom block, which begins with the number of an enterprise.
pub(super) const CUSTOM: u32 = 0xbad;
/// The same of what is not to be copied to another file.
const CUSTOM_UNCOPIED: u32 = 0x4000_0bad;

const BYTE_ORDER: [u8; 4] = 0x1a2b_3c4d_u32.to_be_bytes();
const LONGEST_BLOCK: u32 = LONGEST_FRAME + (1 << 20);
const MOST_INTERFACES: usize = 65_536;

pub(super) struct Pcapng {
    big_endian: bool,
    /// Index of the section's first interface among all.
    first_interface: usize,
    /// The section is of a version that is not read.
    passed_over: bool,
    /// Interfaces of this section that were not kept.
    unkept: u64,
}

impl Pcapng {
    pub(super) fn open(window: &mut Window<'_>, progress: &mut Progress) -> Result<Self, CaptureError> {
        if !window.has(28)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        let mut parser = Self { big_endian: false, first_interface: 0, passed_over: false, unkept: 0 };
        match parser.byte_order(window.held()) {
            Some(big) => parser.big_endian = big,
            None => return Err(CaptureError::Malformed { offset: 8, what: "pcapng's byte-order magic is neither" }),
        }
        let length = word(window.held(), 4, parser.big_endian);
        if length < 28 || !length.is_multiple_of(4) || length > LONGEST_BLOCK {
            return Err(CaptureError::Malformed { offset: 4, what: "impossible length of the section header" });
        }
        if !window.has(length as usize)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        parser.section(window.held(), window.offset(), progress);
        if parser.passed_over {
            let value = word(window.held(), 12, parser.big_endian).into();
            return Err(CaptureError::Unsupported { offset: 12, what: "pcapng version", value });
        }
        window.advance(length as usize);
        Ok(parser)
    }

    /// The byte order that a section header, at the start of `block`, says: true is big-endian.
    fn byte_order(&self, block: &[u8]) -> Option<bool> {
        let magic = block.get(8..12)?;
        if magic == BYTE_ORDER {
            Some(true)
        } else if magic.iter().rev().eq(&BYTE_ORDER) {
            Some(false)
        } else {
            None
        }
    }

    fn section(&mut self, block: &[u8], offset: u64, progress: &mut Progress) {
        let versions = word(block, 12, self.big_endian);
        let major = (if self.big_endian { versions >> 16 } else { versions & 0xffff }) as u16;
        self.passed_over = major != 1;
        self.first_interface = progress.interfaces.len();
        self.unkept = 0;
        progress.processes.begin_section();
        if self.passed_over {
            progress.problem(Problem::UnknownVersion(major), offset);
        }
    }

    #[inline]
    pub(super) fn next(&mut self, window: &mut Window<'_>, progress: &mut Progress) -> io::Result<Option<Record>> {
        loop {
            let offset = window.offset();
            if !window.has(12)? {
                progress.end(window, window.held().len(), offset);
                return Ok(None);
            }
            let block = window.held();
            let kind = word(block, 0, self.big_endian);
            if kind == SECTION {
                match self.byte_order(block) {
                    Some(big) => self.big_endian = big,
                    None => {
                        if !self.resynchronise(window, progress, Problem::BadRecord)? {
                            return Ok(None);
                        }
                        continue;
                    }
                }
            }
            let length = word(window.held(), 4, self.big_endian);
            let shortest = match kind {
                SECTION => 28,
                INTERFACE => 20,
                PACKET | ENHANCED_PACKET => 32,
                SIMPLE_PACKET => 16,
                STATISTICS => 24,
                CUSTOM | CUSTOM_UNCOPIED | PROCESS_EVENT => 16,
                _ => 12,
            };
            if length < shortest || !length.is_multiple_of(4) || length > LONGEST_BLOCK {
                let kind = if length > LONGEST_BLOCK { Problem::ImpossibleLength } else { Problem::BadBlockLength };
                if !self.resynchronise(window, progress, kind)? {
                    return Ok(None);
                }
                continue;
            }
            if !window.has(length as usize)? {
                // A block that is cut off, or one of which the length is damaged: then whole blocks
                // follow.
                if window.compression_problem().is_some() {
                    progress.end(window, window.held().len(), offset);
                    return Ok(None);
                }
                if !self.resynchronise(window, progress, Problem::CutRecord)? {
                    return Ok(None);
                }
                continue;
            }
            let block = &window.held()[..length as usize];
            if word(block, block.len() - 4, self.big_endian) != length {
                if !self.resynchronise(window, progress, Problem::BadBlockLength)? {
                    return Ok(None);
                }
                continue;
            }
            let record = match kind {
                SECTION => {
                    self.section(block, offset, progress);
                    None
                }
                _ if self.passed_over => None,
                ENHANCED_PACKET | PACKET => self.packet(block, kind, offset, progress),
                SIMPLE_PACKET => self.simple_packet(block, offset, progress),
                INTERFACE => {
                    self.interface(block, offset, progress);
                    None
                }
                STATISTICS => {
                    self.statistics(block, offset, progress);
                    None
                }
                CUSTOM | CUSTOM_UNCOPIED if word(block, 8, self.big_endian) == WIRESHARK => {
                    let taken = progress.processes.add_numbered(block);
                    taken.unwrap_or_else(|problem| progress.problem(problem, offset));
                    None
                }
                PROCESS_EVENT => {
                    let taken = progress.processes.add_placed(block, self.big_endian);
                    taken.unwrap_or_else(|problem| progress.problem(problem, offset));
                    None
                }
                _ => {
                    progress.problem(Problem::UnknownBlock(kind), offset);
                    None
                }
            };
            if record.is_some() {
                return Ok(record);
            }
            window.advance(length as usize);
        }
    }

    /// Counts `problem` and looks for the next place where a block of a known kind stands whole,
    /// its length repeated at its end. False where there is none.
    #[cold]
    fn resynchronise(&self, window: &mut Window<'_>, progress: &mut Progress, problem: Problem) -> io::Result<bool> {
        progress.stop_at_next(problem, window.offset());
        progress.over = false;
        progress.processes.skipped_bytes();
        window.advance(4);
        while window.has(12)? {
            let barren = self.barren(window.held());
            if barren > 0 {
                window.advance(barren);
                continue;
            }
            let start = window.held();
            let kind = word(start, 0, self.big_endian);
            let big = if kind == SECTION { self.byte_order(start) } else { Some(self.big_endian) };
            if let Some(big) = big {
                let length = word(start, 4, big);
                if (12..=LONGEST_BLOCK).contains(&length)
                    && length.is_multiple_of(4)
                    && window.has(length as usize)?
                    && word(window.held(), length as usize - 4, big) == length
                {
                    return Ok(true);
                }
            }
            window.advance(4);
        }
        progress.over = true;
        Ok(false)
    }

    /// How many bytes at the start of `held`, in words of 4, begin no block of a known kind.
    fn barren(&self, held: &[u8]) -> usize {
        let mut at = 0;
        // Fewer than 12 bytes at the end are the remains of a block.
        let places = held.len().saturating_sub(11);
        while at < places {
            match word(held, at, self.big_endian) {
                SECTION | INTERFACE..=ENHANCED_PACKET => break,
                0 => at += (zeros(&held[at..places]) / 4 * 4).max(4),
                _ => at += 4,
            }
        }
        at
    }

    fn packet(&self, block: &[u8], kind: u32, offset: u64, progress: &mut Progress) -> Option<Record> {
        let field = |at| word(block, at, self.big_endian);
        progress.number += 1;
        let own = match (kind, self.big_endian) {
            (ENHANCED_PACKET, _) => field(8),
            (_, true) => field(8) >> 16,
            (_, false) => field(8) & 0xffff,
        };
        let index = self.first_interface + own as usize;
        let Some(interface) = progress.interfaces.get(index) else {
            let beyond = progress.interfaces.len() >= MOST_INTERFACES && self.unkept > 0;
            let problem = if beyond { Problem::TooManyInterfaces } else { Problem::NoSuchInterface };
            progress.problem(problem, offset);
            return None;
        };
        let (link_type, captured) = (interface.link_type, field(20));
        let at = interface.moment(u64::from(field(12)) << 32 | u64::from(field(16)));
        // Capacity for frame and options: what is left after the fixed part and the repeated
        // length.
        let room = block.len() - 32;
        if captured as usize > room {
            progress.problem(Problem::BadRecord, offset);
            return None;
        }
        if at.is_none() {
            progress.problem(Problem::NoTime, offset);
        }
        let padded = (captured as usize).next_multiple_of(4).min(room);
        let options = (28 + padded, room - padded);
        if options.1 > 0 {
            self.check_options(&block[options.0..options.0 + options.1], offset, progress);
        }
        Some(Record {
            at,
            interface: index as u32,
            link_type,
            original_length: field(24).max(captured),
            start: 28,
            captured: captured as usize,
            options,
            big_endian: self.big_endian,
            length: block.len(),
        })
    }

    fn check_options(&self, mut options: &[u8], offset: u64, progress: &mut Progress) {
        loop {
            match next_option(&mut options, self.big_endian) {
                Ok(Some((1, text))) if std::str::from_utf8(text).is_err() => {
                    progress.problem(Problem::BadComment, offset);
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(problem) => return progress.problem(problem, offset),
            }
        }
    }

    fn simple_packet(&self, block: &[u8], offset: u64, progress: &mut Progress) -> Option<Record> {
        progress.number += 1;
        let Some(interface) = progress.interfaces.get(self.first_interface) else {
            progress.problem(Problem::NoSuchInterface, offset);
            return None;
        };
        // Section 4.4: the captured length is not written; it is the least of the original, the
        // snapshot length and the room in the block.
        let original = word(block, 8, self.big_endian);
        let limit = if interface.snap_length == 0 { u32::MAX } else { interface.snap_length };
        Some(Record {
            at: None,
            interface: self.first_interface as u32,
            link_type: interface.link_type,
            original_length: original,
            start: 12,
            captured: (original.min(limit) as usize).min(block.len() - 16),
            options: (0, 0),
            big_endian: self.big_endian,
            length: block.len(),
        })
    }

    fn interface(&mut self, block: &[u8], offset: u64, progress: &mut Progress) {
        if progress.interfaces.len() >= MOST_INTERFACES {
            self.unkept += 1;
            return;
        }
        let first = word(block, 8, self.big_endian);
        let link_type = LinkType((if self.big_endian { first >> 16 } else { first & 0xffff }) as u16);
        let mut interface = Interface::new(link_type, Resolution::MICROSECONDS);
        interface.snap_length = word(block, 12, self.big_endian);
        let mut options = &block[16..block.len() - 4];
        loop {
            let text = |value: &[u8]| Some(String::from_utf8_lossy(value.get(..1024).unwrap_or(value)).into_owned());
            match next_option(&mut options, self.big_endian) {
                Ok(Some((2, value))) => interface.name = text(value),
                Ok(Some((3, value))) => interface.description = text(value),
                Ok(Some((9, &[unit, ..]))) => {
                    let exponent = unit & 0x7f;
                    interface.resolution =
                        if unit & 0x80 == 0 { Resolution::Decimal(exponent) } else { Resolution::Binary(exponent) };
                }
                // The filter begins with a byte that says its form; 0 is text.
                Ok(Some((11, [0, filter @ ..]))) => interface.filter = text(filter),
                Ok(Some((13, &[bytes, ..]))) => interface.fcs_bytes = Some(bytes),
                Ok(Some((14, value))) => {
                    if let Some(eight) = value.first_chunk::<8>() {
                        interface.offset_seconds =
                            if self.big_endian { i64::from_be_bytes(*eight) } else { i64::from_le_bytes(*eight) };
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(problem) => {
                    progress.problem(problem, offset);
                    break;
                }
            }
        }
        progress.interfaces.push(interface);
    }

    fn statistics(&self, block: &[u8], offset: u64, progress: &mut Progress) {
        let index = self.first_interface + word(block, 8, self.big_endian) as usize;
        let Some(interface) = progress.interfaces.get_mut(index) else {
            return progress.problem(Problem::NoSuchInterface, offset);
        };
        let mut options = &block[20..block.len() - 4];
        loop {
            let (code, value) = match next_option(&mut options, self.big_endian) {
                Ok(Some(option)) => option,
                Ok(None) => return,
                Err(problem) => return progress.problem(problem, offset),
            };
            let Some(eight) = value.first_chunk::<8>() else { continue };
            let count = if self.big_endian { u64::from_be_bytes(*eight) } else { u64::from_le_bytes(*eight) };
            match code {
                4 => interface.received = Some(count),
                5 => interface.dropped = Some(count),
                7 => interface.dropped_by_system = Some(count),
                _ => {}
            }
        }
    }
}
