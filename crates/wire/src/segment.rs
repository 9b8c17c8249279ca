//! One TCP segment as a capture shows it: the value that everything above this crate works on.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use record::{Instant, Realtime, SeqNumber};

bitflags::bitflags! {
    /// The control bits (RFC 9293, section 3.1; RFC 3168; AE from AccECN, RFC 9768).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// No more data from the sender.
        const FIN = 0x001;
        /// Synchronise sequence numbers.
        const SYN = 0x002;
        /// Reset the connection.
        const RST = 0x004;
        /// Push.
        const PSH = 0x008;
        /// The acknowledgment field is significant.
        const ACK = 0x010;
        /// The urgent pointer is significant.
        const URG = 0x020;
        /// ECN echo.
        const ECE = 0x040;
        /// Congestion window reduced.
        const CWR = 0x080;
        /// Accurate ECN.
        const AE = 0x100;
    }
}

/// The two ECN bits of the IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not capable.
    #[default]
    NotEct,
    /// ECT(1).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// What the IP header says that TCP analysis needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Time to live, or hop limit. 0 where the capture does not show (text).
    pub ttl: u8,
    /// IPv4's identification; `None` for IPv6 and text.
    pub id: Option<u16>,
    /// IPv4's don't-fragment bit; true for IPv6.
    pub dont_fragment: bool,
    /// The differentiated-services code point.
    pub dscp: u8,
    /// The ECN bits.
    pub ecn: Ecn,
    /// Headers of tunnels opened on the way here (GRE, VXLAN, IP in IP).
    pub tunnels: u8,
}

/// What the TCP checksum of a segment shows (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Integrity {
    /// Not checked: the capture holds not all of the segment, or a header around it may have
    /// changed what the sum covers.
    #[default]
    NotChecked,
    /// The checksum is right.
    Right,
    /// The field holds what a host leaves there for its network card to complete (the sum of the
    /// pseudo-header alone, or 0), or what it leaves after it has joined several segments: the
    /// packet was captured beside the host that computes checksums in hardware.
    Offloaded,
    /// The checksum is wrong: the segment was damaged, or the capture was altered.
    Wrong,
}

/// Up to four SACK blocks (RFC 2018), in the order of the option. The first is a DSACK where RFC
/// 2883 says so.
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [(SeqNumber, SeqNumber); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block `[left, right)`; false where there are four already.
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *slot = (left, right);
        self.count += 1;
        true
    }

    /// The same blocks with both ends of each changed by `change`.
    #[must_use]
    pub(crate) fn map(mut self, change: impl Fn(SeqNumber) -> SeqNumber) -> Self {
        for (left, right) in &mut self.blocks[..usize::from(self.count)] {
            (*left, *right) = (change(*left), change(*right));
        }
        self
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The blocks as `[left, right)`.
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// Equal where the blocks are; what lies beyond the last is left over from another segment.
impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size (SYN only).
    pub mss: Option<u16>,
    /// Window scale as sent, 0 to 255; above 14 the receiver takes 14 (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// Timestamps: value and echo reply (RFC 7323). Either is `None` where a text dump cut it off.
    pub timestamps: Option<(Option<u32>, Option<u32>)>,
    /// Fast Open (RFC 7413): the cookie's length in bytes, 0 for a request.
    pub fast_open: Option<u8>,
    /// MPTCP (RFC 8684): the subtype.
    pub mptcp: Option<u8>,
    /// An AccECN option (RFC 9768), order 0 or 1.
    pub accecn: bool,
    /// How many options were of no kind known here.
    pub unknown: u8,
    /// The list was cut short by the capture, so an option may be there unseen.
    pub cut: bool,
    /// The list broke its own rules (a length of 0 or 1, or past the header); what came before is
    /// kept.
    pub malformed: bool,
}

impl TcpOptions {
    /// Forgets all options, without writing the 32 bytes of SACK blocks that few segments have.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        let Self {
            mss,
            window_scale,
            sack_permitted,
            sack,
            timestamps,
            fast_open,
            mptcp,
            accecn,
            unknown,
            cut,
            malformed,
        } = self;
        (*mss, *window_scale, *timestamps, *fast_open, *mptcp) = (None, None, None, None, None);
        (*sack_permitted, *accecn, *cut, *malformed) = (false, false, false, false);
        (sack.count, *unknown) = (0, 0);
    }
}

/// One TCP segment.
///
/// Lengths are those on the wire, taken from the IP header, even where the capture kept fewer
/// bytes. A frame that segmentation offload left whole is one segment here, with more payload than
/// the MSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The packet's number in its capture, from 1.
    pub number: u64,
    /// When it was captured. A text dump with relative times counts from 0.
    pub at: Instant<Realtime>,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// Acknowledgment number; without meaning unless [`Flags::ACK`] is set.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// Bytes of the TCP header, options included: 20 to 60.
    pub header_bytes: u8,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// Options.
    pub options: TcpOptions,
    /// The IP header's part.
    pub network: Network,
    /// What its checksum shows.
    pub integrity: Integrity,
}

impl Segment {
    /// Room for one to be read into.
    pub(crate) fn blank() -> Self {
        let unknown = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        Self::new(0, Instant::from_nanos(0), unknown, unknown)
    }

    /// One without flags, payload and options.
    pub fn new(number: u64, at: Instant<Realtime>, source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            number,
            at,
            source,
            destination,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            flags: Flags::empty(),
            window: 0,
            header_bytes: 20,
            payload: 0,
            options: TcpOptions::default(),
            network: Network::default(),
            integrity: Integrity::NotChecked,
        }
    }

    /// How much sequence space it takes: payload, and one each for SYN and FIN.
    pub fn sequence_length(&self) -> u32 {
        let one = |flag| u32::from(self.flags.contains(flag));
        self.payload.saturating_add(one(Flags::SYN)).saturating_add(one(Flags::FIN))
    }

    /// The sequence number after its last.
    pub fn end_seq(&self) -> SeqNumber {
        self.seq.add(self.sequence_length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_sack_block_is_refused() {
        let mut blocks = SackBlocks::default();
        for n in 0..4 {
            assert!(blocks.push(SeqNumber(n), SeqNumber(n + 1)));
        }
        assert!(!blocks.push(SeqNumber(4), SeqNumber(5)));
        assert_eq!(blocks.as_slice().len(), 4);
    }
}
