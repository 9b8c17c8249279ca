//! TCP (RFC 9293) and its options.

use std::fmt;

use record::SeqNumber;

use super::address::{be16, be32};
use super::span::{Layer, NotDecoded, Span};
use crate::segment::{Flags, TcpOptions};

/// A TCP header without its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgment number.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Bytes of the header, options included.
    pub header_bytes: u8,
}

/// A header's list of options, as far as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct OptionList<'a> {
    raw: &'a [u8],
    cut: bool,
}

/// The 4 bytes before an aligned timestamp option: NOP, NOP, kind 8, length 10 (RFC 7323, appendix
/// A).
const ALIGNED_TIMESTAMPS: u32 = 0x0101_080a;

impl Tcp {
    /// Reads a header; its options, as many as were captured, are given as they lie there.
    ///
    /// # Errors
    /// [`NotDecoded::Truncated`] where fewer than 20 bytes were captured, [`NotDecoded::Malformed`]
    /// where the header's length is impossible.
    #[inline(always)]
    pub fn parse(span: Span<'_>) -> Result<(Self, OptionList<'_>), NotDecoded> {
        let tcp = Self::fixed(span.header::<20>(Layer::Tcp)?);
        if tcp.header_bytes < 20 || u32::from(tcp.header_bytes) > span.wire {
            return Err(NotDecoded::Malformed(Layer::Tcp));
        }
        Ok((tcp, OptionList::of(span.data, tcp.header_bytes)))
    }

    /// The fields as they stand, whatever they say.
    #[inline(always)]
    pub(super) fn fixed(header: &[u8; 20]) -> Self {
        Self {
            source_port: be16(header, 0),
            destination_port: be16(header, 2),
            seq: SeqNumber(be32(header, 4)),
            ack: SeqNumber(be32(header, 8)),
            flags: Flags::from_bits_truncate(be16(header, 12) & 0x01ff),
            window: be16(header, 14),
            header_bytes: (header[12] >> 4) * 4,
        }
    }

    /// Appends the header with a checksum of 0; `options` is the list as it goes on the wire; its
    /// length must be a multiple of 4 up to 40.
    pub fn emit(&self, options: &[u8], out: &mut Vec<u8>) {
        debug_assert!(options.len().is_multiple_of(4) && options.len() <= 40);
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ack.0.to_be_bytes());
        let words = 5 + (options.len().min(40) / 4) as u16;
        out.extend_from_slice(&(words << 12 | self.flags.bits()).to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(options);
    }
}

impl fmt::Display for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source_port, destination_port, seq, ack, flags, window, .. } = self;
        write!(f, "TCP {source_port} > {destination_port} {flags:?} seq {seq} ack {ack} window {window}")
    }
}

impl<'a> OptionList<'a> {
    /// The list in what was captured of a segment, of which the fixed part of its header was.
    #[inline(always)]
    pub(super) fn of(captured: &'a [u8], header_bytes: u8) -> Self {
        match captured.get(20..usize::from(header_bytes)) {
            Some(raw) => Self { raw, cut: false },
            None => Self { raw: &captured[20..], cut: true },
        }
    }
}

impl OptionList<'_> {
    /// What the options say.
    pub fn read(self) -> TcpOptions {
        let mut options = TcpOptions::default();
        self.read_into(&mut options);
        options
    }

    /// The same, over what `options` held before.
    #[inline(always)]
    pub(super) fn read_into(self, options: &mut TcpOptions) {
        options.clear();
        // What nearly all segments have: none, or aligned timestamps, mostly alone.
        let rest = match self.raw.split_first_chunk::<12>() {
            Some((aligned, rest)) if be32(aligned, 0) == ALIGNED_TIMESTAMPS => {
                options.timestamps = Some((Some(be32(aligned, 4)), Some(be32(aligned, 8))));
                rest
            }
            _ => self.raw,
        };
        if self.cut || !rest.is_empty() {
            OptionList { raw: rest, ..self }.walk(options);
        }
    }

    /// Takes up option after option into `options`, which are clear.
    fn walk(self, options: &mut TcpOptions) {
        let Self { mut raw, cut } = self;
        // SACK blocks as nearly all hosts write them: aligned, and nothing behind them.
        if let [1, 1, 5, length @ (10 | 18 | 26 | 34), blocks @ ..] = raw
            && !cut
            && blocks.len() + 2 == usize::from(*length)
        {
            return take_blocks(options, blocks);
        }
        options.cut = cut;
        while let [kind, rest @ ..] = raw {
            match kind {
                0 => {
                    // Nothing follows the end of the list, so nothing of it was cut off.
                    options.cut = false;
                    break;
                }
                1 => {
                    raw = rest;
                    continue;
                }
                _ => {}
            }
            let Some(length) = rest.first().map(|n| usize::from(*n)) else {
                options.malformed |= !cut;
                break;
            };
            if length < 2 || (length > raw.len() && !cut) {
                options.malformed = true;
                break;
            }
            let whole = length <= raw.len();
            let value = &raw[2..length.min(raw.len())];
            one_option(options, *kind, value, length - 2, whole);
            raw = raw.get(length..).unwrap_or_default();
        }
    }
}

fn take_blocks(options: &mut TcpOptions, blocks: &[u8]) {
    for block in blocks.chunks_exact(8) {
        options.sack.push(SeqNumber(be32(block, 0)), SeqNumber(be32(block, 4)));
    }
}

/// Takes up one option of which `value` was captured, `length` bytes long on the wire.
fn one_option(options: &mut TcpOptions, kind: u8, value: &[u8], length: usize, whole: bool) {
    let word = |at: usize| value.get(at..at + 4).map(|four| be32(four, 0));
    match (kind, length) {
        (2, 2) if whole => options.mss = Some(be16(value, 0)),
        (3, 1) if whole => options.window_scale = value.first().copied(),
        (4, 0) => options.sack_permitted = true,
        (5, 8 | 16 | 24 | 32) => take_blocks(options, value),
        (8, 8) => options.timestamps = Some((word(0), word(4))),
        (30, 1..) => options.mptcp = value.first().map(|byte| byte >> 4),
        (34, _) => options.fast_open = Some(length as u8),
        (172 | 174, _) => options.accecn = true,
        // The experimental form of Fast Open (RFC 7413, section 4.1.1, and RFC 6994).
        (254, 2..) if value.starts_with(&[0xf9, 0x89]) => options.fast_open = Some((length - 2) as u8),
        // A known kind of a length it never has.
        (2 | 3 | 4 | 5 | 8, _) if whole => options.malformed = true,
        (2 | 3 | 4 | 5 | 8 | 30, _) => {}
        _ => options.unknown = options.unknown.saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_options(raw: &[u8], cut: bool) -> TcpOptions {
        OptionList { raw, cut }.read()
    }

    #[test]
    fn the_aligned_layout_and_the_list_read_the_same() {
        let raw = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        let mut walked = TcpOptions::default();
        OptionList { raw: &raw, cut: false }.walk(&mut walked);
        assert_eq!(parse_options(&raw, false), walked);
        assert_eq!(walked.timestamps, Some((Some(7), Some(9))));
    }

    #[test]
    fn a_syn_of_linux() {
        let raw = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let o = parse_options(&raw, false);
        assert_eq!((o.mss, o.sack_permitted, o.window_scale, o.malformed), (Some(1460), true, Some(7), false));
    }

    #[test]
    fn sack_blocks_fast_open_mptcp_and_accecn() {
        let raw = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 30, 3, 0x20, 172, 5, 0, 0, 0, 19, 2];
        let o = parse_options(&raw, false);
        assert_eq!(o.sack.as_slice(), [(SeqNumber(1), SeqNumber(2))]);
        assert_eq!((o.fast_open, o.mptcp, o.accecn, o.unknown), (Some(8), Some(2), true, 1));
        let experimental = [254, 4, 0xf9, 0x89];
        assert_eq!(parse_options(&experimental, false).fast_open, Some(0));
    }

    #[test]
    fn a_list_cut_short_keeps_what_is_there() {
        let whole = [2, 4, 5, 0xb4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 3];
        let o = parse_options(&whole[..10], true);
        assert_eq!((o.mss, o.timestamps, o.cut, o.malformed), (Some(1460), Some((Some(1), None)), true, false));
        for cut in 0..whole.len() {
            assert!(!parse_options(&whole[..cut], true).malformed);
        }
    }

    #[test]
    fn lengths_of_0_and_1_and_beyond_the_header_are_malformed() {
        for raw in [&[8, 0, 1][..], &[8, 1], &[8, 10, 1, 2], &[3], &[2, 3, 4]] {
            assert!(parse_options(raw, false).malformed, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_panic(raw in prop::collection::vec(any::<u8>(), 0..48), cut: bool) {
            let _ = parse_options(&raw, cut);
        }

        #[test]
        fn what_is_written_is_read(source_port: u16, destination_port: u16, seq: u32, ack: u32, bits in 0u16..512, window: u16) {
            let tcp = Tcp {
                source_port, destination_port, seq: SeqNumber(seq), ack: SeqNumber(ack),
                flags: Flags::from_bits_truncate(bits), window, header_bytes: 24,
            };
            let mut out = Vec::new();
            tcp.emit(&[2, 4, 0, 9], &mut out);
            let (read, options) = Tcp::parse(Span::whole(&out)).unwrap();
            prop_assert_eq!(read, tcp);
            prop_assert_eq!(options.read(), TcpOptions { mss: Some(9), ..TcpOptions::default() });
        }
    }
}
