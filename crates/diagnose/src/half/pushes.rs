//! Where a direction's segments had PSH.

/// Whether the latest two segments with new data had PSH, and any ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushes {
    last: bool,
    /// 1: the one before the last; 2: any.
    seen: u8,
}

impl Pushes {
    /// Takes a segment with new data.
    #[inline(always)]
    pub(crate) fn take(&mut self, push: bool) {
        self.seen = self.seen & 2 | u8::from(self.last) | u8::from(push) << 1;
        self.last = push;
    }

    /// Whether the latest segment ended what its program had written, or what was in the buffer.
    pub(crate) fn ended(self) -> bool {
        self.last
    }

    /// Whether the segment before the last left more behind it in its sender's buffer: it has no
    /// PSH (RFC 9293, section 3.9.1.2), which this sender does set.
    pub(crate) fn left_more(self) -> bool {
        self.seen == 2
    }
}
