//! What a side offered in its SYN.

use wire::{Flags, Segment};

/// The handshake options of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) seen: bool,
    /// The capture or the dump cut the list short: what is missing may have been there.
    pub(crate) cut: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) fast_open: Option<u8>,
    pub(crate) mptcp: bool,
    pub(crate) flags: Flags,
}

impl Offered {
    /// The options of a SYN.
    pub(crate) fn new(s: &Segment) -> Self {
        let o = &s.options;
        Self {
            seen: true,
            cut: o.cut,
            mss: o.mss,
            window_scale: o.window_scale,
            sack: o.sack_permitted,
            timestamps: o.timestamps.is_some(),
            fast_open: o.fast_open,
            mptcp: o.mptcp.is_some(),
            flags: s.flags,
        }
    }
}
