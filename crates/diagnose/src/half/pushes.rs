//! Where a direction's segments had PSH.

/// Whether the latest two segments with new data had PSH, and any ever: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushes(u8);

impl Pushes {
    const BEFORE_LAST: u8 = 1;
    const LAST: u8 = 2;
    const ANY: u8 = 4;

    /// Takes a segment with new data.
    #[inline(always)]
    pub(crate) fn take(&mut self, push: bool) {
        let before = if self.ended() { Self::BEFORE_LAST } else { 0 };
        let last = if push { Self::LAST | Self::ANY } else { 0 };
        self.0 = self.0 & Self::ANY | before | last;
    }

    /// Whether the latest segment ended what its program had written, or what was in the buffer.
    pub(crate) fn ended(self) -> bool {
        self.0 & Self::LAST != 0
    }

    /// Whether the latest segment left more behind it in its sender's buffer.
    pub(crate) fn leave_more(self) -> bool {
        self.0 & (Self::ANY | Self::LAST) == Self::ANY
    }

    /// Whether the segment before the last left more behind it in its sender's buffer: it has no
    /// PSH (RFC 9293, section 3.9.1.2), which this sender does set.
    pub(crate) fn left_more(self) -> bool {
        self.0 & (Self::ANY | Self::BEFORE_LAST) == Self::ANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_of_the_latest_two_segments_and_of_any() {
        let mut pushes = Pushes::default();
        let mut took = |push| {
            pushes.take(push);
            (pushes.ended(), pushes.leave_more(), pushes.left_more())
        };
        assert_eq!(took(false), (false, false, false), "it sets none yet");
        assert_eq!(took(true), (true, false, true));
        assert_eq!(took(false), (false, true, false));
        assert_eq!(took(false), (false, true, true));
    }
}
