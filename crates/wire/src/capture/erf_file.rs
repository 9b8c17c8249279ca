//! Files of Endace's cards: records one after the other, without a header of the file. Each record
//! begins with its time, type and length; what is in it is decoded as link type 197 is.

use std::io;

use record::Instant;

use super::error::Problem;
use super::frame::{Interface, LinkType, Record, Resolution};
use super::window::Window;
use super::{Progress, word};

/// Ethernet in a record's types, with and without what the cards add.
pub(crate) const ETHERNET: [u8; 5] = [2, 11, 16, 20, 25];

/// Bytes of a record's header.
const HEADER: usize = 16;

pub(super) struct ErfFile;

/// Length of the record at the start of `held` by its header, where that can be one.
fn length(held: &[u8]) -> Option<usize> {
    let header = held.first_chunk::<HEADER>()?;
    let (kind, length) = (header[8] & 0x7f, usize::from(u16::from_be_bytes([header[10], header[11]])));
    let wire = usize::from(u16::from_be_bytes([header[14], header[15]]));
    // Types 1 to 48 are in use; 48 is padding.
    ((1..=48).contains(&kind) && length > HEADER && wire > 0).then_some(length)
}

/// Bytes of a record before the frame: the header, extension headers, and the padding of Ethernet.
fn before_frame(record: &[u8]) -> u32 {
    let more = |at: usize| record.get(at).is_some_and(|b| b & 0x80 != 0);
    // The type's first bit, and each extension header's, says whether another follows.
    let mut extensions = usize::from(more(8));
    while extensions > 0 && extensions < 8 && more(HEADER + 8 * (extensions - 1)) {
        extensions += 1;
    }
    let padding = if ETHERNET.contains(&(record[8] & 0x7f)) { 2 } else { 0 };
    (HEADER + 8 * extensions + padding) as u32
}

/// Whether records stand at the window's start: two that follow one another within a day, or one
/// that is the whole file.
pub(crate) fn is_there(window: &mut Window<'_>) -> io::Result<bool> {
    window.has(HEADER)?;
    let Some(first) = length(window.held()) else { return Ok(false) };
    if !window.has(first)? {
        return Ok(false);
    }
    let more = window.has(first + HEADER)?;
    let held = window.held();
    // Between 1990 and 2100.
    let seconds = |at: usize| word(held, at + 4, false);
    if !(631_152_000..4_102_444_800).contains(&seconds(0)) {
        return Ok(false);
    }
    Ok(if more {
        length(&held[first..]).is_some() && seconds(0).abs_diff(seconds(first)) < 86_400
    } else {
        held.len() == first
    })
}

impl ErfFile {
    pub(super) fn open(progress: &mut Progress) -> Self {
        progress.interfaces.push(Interface::new(LinkType::ERF, Resolution::NANOSECONDS));
        Self
    }

    pub(super) fn next(&mut self, window: &mut Window<'_>, progress: &mut Progress) -> io::Result<Option<Record>> {
        let offset = window.offset();
        if !window.has(HEADER)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        let Some(length) = length(window.held()) else {
            progress.stop_at_next(Problem::BadRecord, offset);
            return Ok(None);
        };
        if !window.has(length)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        let held = window.held();
        // Seconds and their 2^-32, least significant byte first.
        let nanos = (u64::from(word(held, 0, false)) * 1_000_000_000) >> 32;
        let at = u64::from(word(held, 4, false)) * 1_000_000_000 + nanos;
        let wire = u32::from(u16::from_be_bytes([held[14], held[15]]));
        progress.number += 1;
        Ok(Some(Record {
            at: Some(Instant::from_nanos(at)),
            interface: 0,
            link_type: LinkType::ERF,
            original_length: (before_frame(&held[..length]) + wire).max(length as u32),
            start: 0,
            captured: length,
            options: (0, 0),
            big_endian: true,
            length,
        }))
    }
}
