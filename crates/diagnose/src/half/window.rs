//! The receive window that a side offers with its ACKs.

use record::SeqNumber;
use wire::{Flags, Segment};

/// The largest scale there is (RFC 7323, section 2.3).
const LARGEST_SCALE: u8 = 14;

/// What one side's ACKs last said: up to where it has the data, and how much more it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// What it last advertised, scaled as far as known.
    size: u64,
    largest: u64,
    /// Since when it is closed; 0 where it is open.
    closed_since: u64,
    last_ack: SeqNumber,
    /// The window's field in that ACK; 0 where the ACK is none to compare with, as the window was
    /// closed, of unknown scale, or a SYN's.
    last_field: u16,
    scale_is_known: bool,
    /// The scale that it must at least have, read from what the peer dared to send.
    least_scale: u8,
}

impl Window {
    /// What it last advertised, scaled as far as known.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The largest that it ever advertised.
    #[inline(always)]
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// Whether the size is more than the least that it can be.
    #[inline(always)]
    pub(crate) fn scale_is_known(&self) -> bool {
        self.scale_is_known
    }

    /// The scale that it must at least have, where that is not known.
    pub(crate) fn least_scale(&self) -> u8 {
        self.least_scale
    }

    /// The size without a scale that was read from what the peer dared to send.
    pub(crate) fn without_least_scale(&self) -> u64 {
        self.size >> self.least_scale
    }

    /// Since when it is closed.
    pub(crate) fn closed_since(&self) -> Option<u64> {
        (self.closed_since > 0).then_some(self.closed_since)
    }

    /// Whether it is closed.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_since > 0
    }

    /// Takes the window of an ACK with its scale, where that is known: no one sends beyond the
    /// window, so it must at least have been what is `held`.
    #[inline]
    pub(crate) fn take(&mut self, s: &Segment, scale: Option<u8>, held: u64) {
        self.scale_is_known = scale.is_some();
        self.size = u64::from(s.window) << scale.unwrap_or(self.least_scale);
        if scale.is_none() && self.size > 0 {
            while held > self.size && self.least_scale < LARGEST_SCALE {
                self.least_scale += 1;
                self.size <<= 1;
            }
        }
        self.largest = self.largest.max(self.size);
    }

    /// Takes the window of a packet after the handshake, where its scale is known; none that is
    /// closed.
    #[inline]
    pub(crate) fn take_known(&mut self, s: &Segment, scale: u8) {
        self.size = u64::from(s.window) << scale;
        self.largest = self.largest.max(self.size);
    }

    /// An ACK closes it; true where it was open.
    pub(crate) fn close(&mut self, now: u64) -> bool {
        let was_open = self.closed_since == 0;
        if was_open {
            self.closed_since = now.max(1);
        }
        was_open
    }

    /// Since when it was closed, where the last ACK has opened it again.
    #[inline]
    pub(crate) fn opens(&mut self) -> Option<u64> {
        if self.closed_since > 0 && self.size > 0 { Some(std::mem::take(&mut self.closed_since)) } else { None }
    }

    /// What its side acknowledged last.
    pub(crate) fn last_ack(&self) -> SeqNumber {
        self.last_ack
    }

    /// Remembers an ACK that was taken, for those that repeat it.
    #[inline(always)]
    pub(crate) fn note_ack(&mut self, s: &Segment) {
        self.last_ack = s.ack;
        self.last_field = if self.scale_is_known && !s.flags.contains(Flags::SYN) { s.window } else { 0 };
    }

    /// Whether a data segment acknowledges and offers what its side's last packet did, as most of a
    /// transfer do: it says nothing new.
    #[inline(always)]
    pub(crate) fn is_repeated_by(&self, s: &Segment) -> bool {
        self.last_field > 0
            && s.ack == self.last_ack
            && s.window == self.last_field
            && s.payload > 0
            && s.options.sack.is_empty()
            && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST)
    }
}
