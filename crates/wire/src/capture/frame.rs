//! One captured frame, and the interface that it was captured on.

use std::fmt;

use record::{Instant, Realtime};

use super::context::{self, Context};
use super::pcapng_option::next_option;
use super::pcapng_writer::{Particulars, Verdict};
use super::said::Said;

/// The longest frame that is believed: BIG TCP's largest is 512 KiB, a USB capture's some MiB.
pub(super) const LONGEST_FRAME: u32 = 8 << 20;

/// What a frame begins with: a number of the LINKTYPE registry of tcpdump.org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback, address family in the byte order of the capturing machine.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without anything before.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback, address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4.
    pub const IPV4: Self = Self(228);
    /// IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux cooked, version 2.
    pub const LINUX_SLL2: Self = Self(276);
    /// PPP over Ethernet, session packets without their Ethernet header.
    pub const PPP_ETHER: Self = Self(51);
    /// PPP.
    pub const PPP: Self = Self(9);
    /// PPP in frames of HDLC.
    pub const PPP_SERIAL: Self = Self(50);
    /// Cisco's HDLC.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// The same behind a Prism header.
    pub const IEEE802_11_PRISM: Self = Self(119);
    /// The same behind a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// The same behind an AVS header.
    pub const IEEE802_11_AVS: Self = Self(163);
    /// Records of Endace's cards.
    pub const ERF: Self = Self(197);
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match *self {
            Self::NULL => "BSD loopback",
            Self::ETHERNET => "Ethernet",
            Self::RAW => "raw IP",
            Self::LOOP => "OpenBSD loopback",
            Self::LINUX_SLL => "Linux cooked v1",
            Self::LINUX_SLL2 => "Linux cooked v2",
            Self::IPV4 => "IPv4",
            Self::IPV6 => "IPv6",
            Self::PPP_ETHER => "PPPoE session",
            Self::PPP | Self::PPP_SERIAL => "PPP",
            Self::C_HDLC => "Cisco HDLC",
            Self::IEEE802_11 => "802.11",
            Self::IEEE802_11_PRISM => "802.11 with Prism header",
            Self::IEEE802_11_RADIOTAP => "802.11 with radiotap header",
            Self::IEEE802_11_AVS => "802.11 with AVS header",
            Self::ERF => "ERF",
            Self(number) => return write!(f, "link type {number}"),
        })
    }
}

/// The unit of an interface's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Ticks of 10⁻ⁿ seconds, n from 0 to 19.
    Decimal(u8),
    /// Ticks of 2⁻ⁿ seconds, n from 0 to 63.
    Binary(u8),
}

impl Resolution {
    /// Microseconds.
    pub const MICROSECONDS: Self = Self::Decimal(6);
    /// Nanoseconds.
    pub const NANOSECONDS: Self = Self::Decimal(9);

    /// Nanoseconds in `ticks`, rounded down; `None` where they do not fit in 64 bits.
    #[inline]
    pub fn nanos(self, ticks: u64) -> Option<u64> {
        match self {
            Self::Decimal(9) => Some(ticks),
            Self::Decimal(6) => ticks.checked_mul(1_000),
            Self::Decimal(n @ 0..=9) => ticks.checked_mul(10u64.pow(u32::from(9 - n))),
            Self::Decimal(n) => Some(10u64.checked_pow(u32::from(n - 9)).map_or(0, |unit| ticks / unit)),
            Self::Binary(n @ 0..=63) => u64::try_from((u128::from(ticks) * 1_000_000_000) >> n).ok(),
            Self::Binary(_) => None,
        }
    }
}

/// An interface as a capture describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What its frames begin with.
    pub link_type: LinkType,
    /// The most bytes kept of a frame; 0 is no limit.
    pub snap_length: u32,
    /// The unit of its times.
    pub resolution: Resolution,
    /// Seconds to be added to its times.
    pub offset_seconds: i64,
    /// Bytes of frame check sequence at the end of each frame, where the capture says so.
    pub fcs_bytes: Option<u8>,
    /// Its name on the machine that captured.
    pub name: Option<String>,
    /// What it was called by somebody.
    pub description: Option<String>,
    /// The capture filter.
    pub filter: Option<String>,
    /// Packets that it received, by its latest statistics.
    pub received: Option<u64>,
    /// Packets that it dropped, by its latest statistics.
    pub dropped: Option<u64>,
    /// Packets that the operating system dropped, by its latest statistics.
    pub dropped_by_system: Option<u64>,
}

impl Interface {
    /// One of which nothing is known but what its frames begin with and its unit of time.
    pub fn new(link_type: LinkType, resolution: Resolution) -> Self {
        Self {
            link_type,
            snap_length: 0,
            resolution,
            offset_seconds: 0,
            fcs_bytes: None,
            name: None,
            description: None,
            filter: None,
            received: None,
            dropped: None,
            dropped_by_system: None,
        }
    }

    /// The moment that `ticks` stand for; `None` before 1970, beyond 2554 or where the unit is not
    /// usable.
    #[inline]
    pub(super) fn moment(&self, ticks: u64) -> Option<Instant<Realtime>> {
        let nanos = self.resolution.nanos(ticks)?;
        if self.offset_seconds == 0 {
            return Some(Instant::from_nanos(nanos));
        }
        nanos.checked_add_signed(self.offset_seconds.checked_mul(1_000_000_000)?).map(Instant::from_nanos)
    }
}

/// One captured frame. It borrows from the reader's buffer until the next is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its number in the capture, from 1.
    pub number: u64,
    /// Where its record begins, in bytes of the decompressed stream.
    pub offset: u64,
    /// When it was captured; `None` where the capture does not say.
    pub at: Option<Instant<Realtime>>,
    /// Index of the interface.
    pub interface: u32,
    /// What it begins with.
    pub link_type: LinkType,
    /// Bytes it had on the wire.
    pub original_length: u32,
    /// The bytes kept.
    pub data: &'a [u8],
    pub(super) options: &'a [u8],
    pub(super) big_endian: bool,
}

impl<'a> Frame<'a> {
    /// A frame that is in memory already, for example one that was just built or captured.
    pub fn new(number: u64, at: Instant<Realtime>, link_type: LinkType, data: &'a [u8]) -> Self {
        Self {
            number,
            offset: 0,
            at: Some(at),
            interface: 0,
            link_type,
            original_length: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data,
            options: &[],
            big_endian: false,
        }
    }

    /// The comments that the capture has on it (pcapng). What is not UTF-8 is skipped.
    pub fn comments(&self) -> Comments<'a> {
        Comments { rest: self.options, big_endian: self.big_endian }
    }

    /// The process and the thread that the capture says it belongs to (pcapng's
    /// `epb_processid_threadid`); 0 is one that is not known.
    pub fn process(&self) -> Option<(u32, u32)> {
        let value = self.option(8)?;
        Some((self.word(value, 0)?, self.word(value, 4)?))
    }

    /// What pcapng calls its flags (`epb_flags`), of [`super::flag`]; 0 where there are none.
    pub fn flags(&self) -> u32 {
        self.number(2).unwrap_or(0)
    }

    /// How many packets of its interface were lost since the one before it (`epb_dropcount`); 0
    /// where the capture says nothing.
    pub fn dropped_before(&self) -> u64 {
        self.option(4).and_then(|value| self.double_word(value)).unwrap_or(0)
    }

    /// All that its options of pcapng say of it but for comments and those for local use, to be
    /// written again.
    pub fn particulars(&self) -> Particulars<'a> {
        let verdict = |value: &[u8]| match (value.first()?, self.double_word(&value[1..])?) {
            (1, number) => Some(Verdict::Tc(number)),
            (2, number) => Some(Verdict::Xdp(number)),
            _ => None,
        };
        Particulars {
            flags: self.flags(),
            dropped: self.dropped_before(),
            id: self.option(5).and_then(|value| self.double_word(value)),
            verdict: self.option(7).and_then(verdict),
            process: self.process(),
            ..Particulars::default()
        }
    }

    /// What a trace by Wirelapse knows of it.
    pub fn context(&self) -> Option<Context> {
        Context::parse(self.option(context::CODE)?, self.big_endian)
    }

    /// What its options say of its processes; `None` where it has none, as in most formats.
    pub(crate) fn said(&self) -> Option<Said> {
        (!self.options.is_empty()).then(|| Said::of(self))
    }

    /// The number in its first option with this code.
    pub(super) fn number(&self, code: u16) -> Option<u32> {
        self.word(self.option(code)?, 0)
    }

    fn word(&self, value: &[u8], at: usize) -> Option<u32> {
        let four = *value.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }

    fn double_word(&self, value: &[u8]) -> Option<u64> {
        let eight = *value.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
    }

    /// The value of its first option with this code.
    fn option(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = self.options;
        while let Ok(Some((code, value))) = next_option(&mut rest, self.big_endian) {
            if code == wanted {
                return Some(value);
            }
        }
        None
    }
}

/// The comments on one frame.
#[derive(Clone, Debug)]
pub struct Comments<'a> {
    rest: &'a [u8],
    big_endian: bool,
}

impl<'a> Iterator for Comments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        while let Ok(Some((code, value))) = next_option(&mut self.rest, self.big_endian) {
            if code == 1
                && let Ok(text) = std::str::from_utf8(value)
            {
                return Some(text);
            }
        }
        None
    }
}

/// Where a frame lies within the window's bytes, before it is borrowed.
pub(super) struct Record {
    pub(super) at: Option<Instant<Realtime>>,
    pub(super) interface: u32,
    pub(super) link_type: LinkType,
    pub(super) original_length: u32,
    /// Offset of the frame's bytes from the record's beginning.
    pub(super) start: usize,
    pub(super) captured: usize,
    /// Offset and length of the options; none where the length is 0.
    pub(super) options: (usize, usize),
    pub(super) big_endian: bool,
    /// Bytes of the whole record, all held in the window.
    pub(super) length: usize,
}

impl Record {
    #[inline(always)]
    pub(super) fn frame(self, bytes: &[u8], offset: u64, number: u64) -> Frame<'_> {
        Frame {
            number,
            offset,
            at: self.at,
            interface: self.interface,
            link_type: self.link_type,
            original_length: self.original_length,
            data: bytes.get(self.start..self.start + self.captured).unwrap_or_default(),
            options: bytes.get(self.options.0..self.options.0 + self.options.1).unwrap_or_default(),
            big_endian: self.big_endian,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_all_sizes_become_nanoseconds() {
        assert_eq!(Resolution::Decimal(0).nanos(2), Some(2_000_000_000));
        assert_eq!(Resolution::MICROSECONDS.nanos(5), Some(5_000));
        assert_eq!(Resolution::Decimal(12).nanos(5_999), Some(5));
        assert_eq!(Resolution::Decimal(127).nanos(u64::MAX), Some(0));
        assert_eq!(Resolution::Binary(20).nanos(1 << 19), Some(500_000_000));
        assert_eq!(Resolution::Binary(63).nanos(u64::MAX), Some(1_999_999_999));
        assert_eq!(Resolution::Decimal(0).nanos(u64::MAX), None);
        assert_eq!(Resolution::Binary(0).nanos(u64::MAX), None);
    }
}
