//! Microsoft's Network Monitor, versions 1 and 2: a header of 128 bytes, frames one after the
//! other, then tables. The fields are those that Wireshark's `wiretap/netmon.c` describes.

use std::io;

use record::Instant;

use super::error::{CaptureError, Problem};
use super::frame::{Interface, LONGEST_FRAME, LinkType, Record, Resolution};
use super::window::Window;
use super::{Progress, word};

/// The file's first four bytes, of version 1 and of version 2.
pub(super) const MAGIC: [[u8; 4]; 2] = [*b"RTSS", *b"GMBU"];

/// Bytes before the first frame.
const HEADER: u32 = 128;

pub(super) struct Netmon {
    link_type: LinkType,
    /// Version 1 has shorter frame headers.
    first_version: bool,
    /// Bytes behind each frame's data (from version 2.1 on).
    trailer: usize,
    /// When the capture began, ns since 1970; in the local time of the machine that made it, as the
    /// header has it.
    began: u64,
    /// Where the first of the tables begins: behind the frames.
    frames_end: u64,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<2>).map_or(0, |b| u16::from_le_bytes(*b))
}

/// The link type of a network number; numbers from 0xe000 on are those of libpcap.
fn link_type(network: u16) -> Option<LinkType> {
    match network {
        1 => Some(LinkType::ETHERNET),
        7 | 8 => Some(LinkType::RAW),
        0xe000.. => Some(LinkType(network - 0xe000)),
        _ => None,
    }
}

/// Days from 1970 to a date of the Gregorian calendar, counted from March on, so that a leap day is
/// a year's last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    (y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day).saturating_sub(719_469)
}

impl Netmon {
    pub(super) fn open(window: &mut Window<'_>, progress: &mut Progress) -> Result<Self, CaptureError> {
        if !window.has(HEADER as usize)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        let header = window.held();
        let (minor, major) = (header[4], header[5]);
        if !(1..=2).contains(&major) {
            return Err(CaptureError::Unsupported { offset: 5, what: "Network Monitor version", value: major.into() });
        }
        let network = half(header, 6);
        let Some(link_type) = link_type(network) else {
            return Err(CaptureError::Unsupported {
                offset: 6,
                what: "Network Monitor network",
                value: network.into(),
            });
        };
        // Year, month, day of the week, day, hour, minute, second, millisecond.
        let t: [u64; 8] = std::array::from_fn(|i| half(header, 8 + 2 * i).into());
        let seconds = ((days(t[0], t[1].clamp(1, 12), t[3]) * 24 + t[4]) * 60 + t[5]) * 60 + t[6];
        // The tables, of which those that are there have a place.
        let tables = (24..HEADER as usize).step_by(8).map(|at| u64::from(word(header, at, false)));
        let frames_end = tables.take(6).filter(|at| *at >= HEADER.into()).min().unwrap_or(u64::MAX);
        progress.interfaces.push(Interface::new(link_type, Resolution::MICROSECONDS));
        window.advance(HEADER as usize);
        Ok(Self {
            link_type,
            first_version: major == 1,
            trailer: match (major, minor) {
                (1, _) | (2, 0) => 0,
                (2, 1) => 2,
                (2, 2) => 6,
                _ => 15,
            },
            began: seconds.saturating_mul(1_000_000_000).saturating_add(t[7] * 1_000_000),
            frames_end,
        })
    }

    pub(super) fn next(&mut self, window: &mut Window<'_>, progress: &mut Progress) -> io::Result<Option<Record>> {
        let offset = window.offset();
        let start = if self.first_version { 8 } else { 16 };
        if offset >= self.frames_end {
            progress.over = true;
            return Ok(None);
        }
        if !window.has(start)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        let held = window.held();
        let (delta, original, captured) = if self.first_version {
            (u64::from(word(held, 0, false)) * 1_000_000, half(held, 4).into(), half(held, 6).into())
        } else {
            let micros = u64::from(word(held, 0, false)) | u64::from(word(held, 4, false)) << 32;
            (micros.saturating_mul(1_000), word(held, 8, false), word(held, 12, false))
        };
        if captured > LONGEST_FRAME {
            progress.stop_at_next(Problem::ImpossibleLength, offset);
            return Ok(None);
        }
        let captured = captured as usize;
        let length = start + captured + self.trailer;
        if !window.has(length)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        // From version 2.1 on each frame has its own network.
        let own = (self.trailer > 0).then(|| half(window.held(), start + captured));
        progress.number += 1;
        Ok(Some(Record {
            at: Some(Instant::from_nanos(self.began.saturating_add(delta))),
            interface: 0,
            // What is of no known type (Network Monitor's own records) is counted as such.
            link_type: own.map_or(self.link_type, |n| link_type(n).unwrap_or(LinkType(u16::MAX))),
            original_length: original.max(captured as u32),
            start,
            captured,
            options: (0, 0),
            big_endian: false,
            length,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_from_1970() {
        assert_eq!(
            (days(1970, 1, 1), days(1970, 3, 1), days(2000, 2, 29), days(2026, 11, 22)),
            (0, 59, 11_016, 20_779)
        );
    }
}
