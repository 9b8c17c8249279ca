//! Solaris snoop (RFC 1761): big-endian throughout, records padded to four bytes.

use std::io;

use record::Instant;

use super::error::{CaptureError, Problem};
use super::frame::{Interface, LONGEST_FRAME, LinkType, Record, Resolution};
use super::window::Window;
use super::{Progress, word};

pub(super) struct Snoop {
    link_type: LinkType,
}

impl Snoop {
    pub(super) fn open(window: &mut Window<'_>, progress: &mut Progress) -> Result<Self, CaptureError> {
        if !window.has(16)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        let header = window.held();
        match word(header, 8, true) {
            2 => {}
            version => {
                return Err(CaptureError::Unsupported { offset: 8, what: "snoop version", value: version.into() });
            }
        }
        // RFC 1761, "Datalink Type": 0 is IEEE 802.3 and 4 Ethernet, which differ only by what the
        // third field holds.
        let link_type = match word(header, 12, true) {
            0 | 4 => LinkType::ETHERNET,
            other => {
                return Err(CaptureError::Unsupported { offset: 12, what: "snoop link type", value: other.into() });
            }
        };
        progress.interfaces.push(Interface::new(link_type, Resolution::MICROSECONDS));
        window.advance(16);
        Ok(Self { link_type })
    }

    pub(super) fn next(&mut self, window: &mut Window<'_>, progress: &mut Progress) -> io::Result<Option<Record>> {
        let offset = window.offset();
        if !window.has(24)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        let field = |at| word(window.held(), at, true);
        let (original, captured, length, drops) = (field(0), field(4), field(8), field(12));
        let at = u64::from(field(16)) * 1_000_000_000 + u64::from(field(20)) * 1_000;
        if captured > LONGEST_FRAME || length > LONGEST_FRAME + 1024 {
            progress.stop_at_next(Problem::ImpossibleLength, offset);
            return Ok(None);
        }
        if length < 24 + captured {
            progress.stop_at_next(Problem::BadRecord, offset);
            return Ok(None);
        }
        if !window.has(24 + captured as usize)? {
            progress.end(window, window.held().len(), offset);
            return Ok(None);
        }
        // The padding of the last record may be missing without any loss.
        if !window.has(length as usize)? {
            progress.over = true;
        }
        if let Some(interface) = progress.interfaces.first_mut() {
            interface.dropped = Some(drops.into());
        }
        progress.number += 1;
        Ok(Some(Record {
            at: Some(Instant::from_nanos(at)),
            interface: 0,
            link_type: self.link_type,
            original_length: original.max(captured),
            start: 24,
            captured: captured as usize,
            options: (0, 0),
            big_endian: true,
            length: (length as usize).min(window.held().len()),
        }))
    }
}
