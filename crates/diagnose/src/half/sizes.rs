//! How large the segments of a direction are, and what a full one is.

use wire::Segment;

/// Every IPv4 path carries 576 bytes (RFC 791), which leaves so much to a segment with headers as
/// long as can be expected; runs of smaller ones are what the application wrote.
const SMALLEST_FULL: u32 = 512;

/// The least that a full segment has on nearly all paths (IPv6's smallest MTU of 1,280 bytes, less
/// headers and options).
const COMMON_FULL: u32 = 1_200;

/// What every host takes (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u32 = 536;

/// Payloads of one direction's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// The largest of one packet, at most the peer's MSS where that is known.
    largest: u32,
    /// What the handshake allows one packet to carry; 0 where it is not known.
    limit: u32,
    /// See [`Sizes::full`].
    full: u32,
    largest_acked: u32,
    last: u32,
    previous: u32,
    /// Packets of the largest size that followed one of the same size with no answer between; more
    /// than 255 are as good as 255.
    runs: u8,
    /// See [`Sizes::first`].
    first: u16,
}

impl Sizes {
    /// The largest payload of one packet, at most the peer's MSS where that is known.
    #[inline(always)]
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// What the handshake allows one packet to carry; 0 where it is not known.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// The most that one packet carried of what was acknowledged.
    pub(crate) fn largest_acked(&self) -> u32 {
        self.largest_acked
    }

    /// The last new payload, with what SACK blocks took of it.
    #[inline(always)]
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// The one before the last.
    #[inline(always)]
    pub(crate) fn previous(&self) -> u32 {
        self.previous
    }

    /// The first payload of all, at most 65,535 bytes; 0 before it.
    pub(crate) fn first(&self) -> u16 {
        self.first
    }

    /// The payload of a full segment: the largest seen, unless that is so far below what the
    /// handshake allows that the application may just never have written more at a time. A path
    /// with a smaller MTU shows by runs of one size.
    #[inline(always)]
    pub(crate) fn full(&self) -> u32 {
        // 0: nothing was sent yet.
        if self.full == 0 { DEFAULT_MSS } else { self.full }
    }

    /// Whether a packet with this payload was full, so that its sender may well have had more.
    #[inline(always)]
    pub(crate) fn is_full(&self, payload: u32) -> bool {
        let full = self.full();
        // What offload left whole is full where it is a multiple.
        payload == full
            || payload > full && (payload.is_multiple_of(full) || self.limit > 0 && payload.is_multiple_of(self.limit))
    }

    /// Whether a payload is less than a quarter of the largest.
    #[inline(always)]
    pub(crate) fn is_small(&self, payload: u32) -> bool {
        u64::from(payload) * 4 < u64::from(self.largest.max(DEFAULT_MSS))
    }

    /// What one packet on the wire had of a payload that offload may have left whole.
    #[inline(always)]
    pub(crate) fn of_one(&self, payload: u32) -> u32 {
        if self.limit > 0 { payload.min(self.limit) } else { payload }
    }

    /// The handshake shows what one packet may carry.
    #[inline]
    pub(crate) fn take_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.find_full();
    }

    /// Takes a segment with new payload; `unanswered` where the peer sent nothing since the last.
    #[inline(always)]
    pub(crate) fn take(&mut self, s: &Segment, unanswered: bool) {
        let size = self.of_one(s.payload);
        if size > self.largest {
            if self.largest == 0 {
                self.first = u16::try_from(s.payload).unwrap_or(u16::MAX);
            }
            (self.largest, self.runs) = (size, 0);
            self.find_full();
        } else if size == self.largest && self.last == size && unanswered {
            self.runs = self.runs.saturating_add(1);
            if self.runs == 8 {
                self.find_full();
            }
        }
        // SACK blocks take their room from a full segment.
        let sack = if s.options.sack.is_empty() {
            0
        } else {
            sack_bytes(s) * s.payload.div_ceil(self.limit.max(1)).clamp(1, 64)
        };
        (self.previous, self.last) = (self.last, s.payload + sack);
    }

    /// The latest payload is half of the largest window that its receiver ever offered: no segment
    /// is larger meanwhile (`tcp_bound_to_half_wnd` in include/net/tcp.h; RFC 1122, section
    /// 4.2.3.4).
    #[cold]
    pub(crate) fn fill_half_window(&mut self) {
        if self.last >= self.largest {
            self.full = self.last;
        }
    }

    /// Without a handshake: the segment size that a frame which offload left whole is a multiple
    /// of.
    #[cold]
    pub(crate) fn infer_limit(&mut self, s: &Segment) {
        let options = u32::from(s.header_bytes.saturating_sub(20));
        let whole = s.payload;
        // MTUs of Ethernet, of PPPoE, of common tunnels, and what IPv6 guarantees; IPv4 and IPv6
        // headers.
        let found = [1_500, 1_492, 1_480, 1_476, 1_450, 1_420, 1_400, 1_280, 9_000]
            .into_iter()
            .flat_map(|mtu: u32| [40, 60].map(|headers| mtu - headers - options))
            .find(|size| whole >= 2 * size && whole.is_multiple_of(*size));
        if let Some(size) = found {
            // Other segments have no SACK blocks.
            let size = if s.options.sack.is_empty() { size } else { size + sack_bytes(s) };
            self.largest = self.largest.min(size);
            self.take_limit(size);
        }
    }

    /// The peer acknowledged so many bytes at once.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, bytes: u64) {
        // What one packet on the wire carried: of a frame that offload left whole, that is known
        // only where it is a multiple.
        let carried = match self.last.max(self.previous) {
            whole if self.limit > 0 && whole > self.limit => u32::from(whole.is_multiple_of(self.limit)) * self.limit,
            one => one,
        };
        self.largest_acked = self.largest_acked.max(u32::try_from(bytes).unwrap_or(u32::MAX).min(carried));
    }

    /// To be called when what [`Sizes::full`] depends on has changed.
    fn find_full(&mut self) {
        self.full = if self.limit == 0 && self.runs == 0 && self.largest < COMMON_FULL {
            // An application's message, as far as is known.
            COMMON_FULL
        } else if self.limit == 0 {
            self.largest.max(DEFAULT_MSS)
        } else if self.largest.saturating_mul(8) >= self.limit.saturating_mul(7)
            || self.runs >= 8 && self.largest >= SMALLEST_FULL
        {
            self.largest
        } else {
            self.limit
        };
    }
}

/// Bytes of the header beyond the fixed part and timestamps.
fn sack_bytes(s: &Segment) -> u32 {
    u32::from(s.header_bytes).saturating_sub(if s.options.timestamps.is_some() { 32 } else { 20 })
}
