//! Filters for packets that are in memory: classic BPF, run here.
//!
//! libpcap's own `bpf_filter()` does the same, but its wrapper for Rust takes the bytes that are
//! there for the whole packet, so that lengths in a filter would be those of its headers.

use wire::LinkType;

use super::{Classic, Program};
use crate::Error;

/// Scratch memory of a program (`BPF_MEMWORDS`).
const WORDS: usize = 16;
/// What libpcap calls raw IP on Linux; in files it is 101.
const DLT_RAW: u16 = 12;

/// An expression in libpcap's language, for packets of one link type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFilter(Program);

impl PacketFilter {
    /// Compiles it. Names of hosts are looked up here.
    ///
    /// # Errors
    /// [`Error::Filter`]: what libpcap says of the expression.
    pub fn new(link: LinkType, expression: &str) -> Result<Self, Error> {
        let link = if link == LinkType::RAW { LinkType(DLT_RAW) } else { link };
        Program::for_wire(link, expression, u32::MAX).map(Self)
    }

    /// Whether a packet is one of those that are wanted. Of its `length` bytes these are there:
    /// what looks at others is not fulfilled.
    pub fn passes(&self, bytes: &[u8], length: u32) -> bool {
        run(&self.0.0, bytes, length).is_some_and(|kept| kept > 0)
    }
}

/// What a program returns; `None` where it looks beyond the bytes, or is none.
fn run(program: &[Classic], bytes: &[u8], length: u32) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; WORDS], 0usize);
    loop {
        let of = program.get(at)?;
        at += 1;
        let k = of.k;
        // Classes, modes and operations of `linux/bpf_common.h`.
        match of.code & 0x07 {
            class @ (0 | 1) => {
                let value = match of.code & 0xe0 {
                    0x00 => k,
                    0x20 => load(bytes, k, of.code)?,
                    0x40 => load(bytes, x.checked_add(k)?, of.code)?,
                    0x60 => *memory.get(k as usize)?,
                    0x80 => length,
                    0xa0 => 4 * (u32::from(*bytes.get(k as usize)?) & 0x0f),
                    _ => return None,
                };
                *(if class == 0 { &mut a } else { &mut x }) = value;
            }
            2 => *memory.get_mut(k as usize)? = a,
            3 => *memory.get_mut(k as usize)? = x,
            4 => a = computed(of.code, a, if of.code & 0x08 == 0 { k } else { x })?,
            5 => {
                let with = if of.code & 0x08 == 0 { k } else { x };
                let holds = match of.code & 0xf0 {
                    0x00 => {
                        at = at.checked_add(k as usize)?;
                        continue;
                    }
                    0x10 => a == with,
                    0x20 => a > with,
                    0x30 => a >= with,
                    0x40 => a & with != 0,
                    _ => return None,
                };
                at += usize::from(if holds { of.jump_true } else { of.jump_false });
            }
            6 => return Some(if of.code & 0x18 == 0x10 { a } else { k }),
            _ => match of.code & 0xf8 {
                0x00 => x = a,
                _ => a = x,
            },
        }
    }
}

/// A word, half a word or a byte, in network order.
fn load(bytes: &[u8], at: u32, code: u16) -> Option<u32> {
    let rest = bytes.get(at as usize..)?;
    match code & 0x18 {
        0x00 => rest.first_chunk().map(|word| u32::from_be_bytes(*word)),
        0x08 => rest.first_chunk().map(|half| u16::from_be_bytes(*half).into()),
        _ => rest.first().map(|byte| u32::from(*byte)),
    }
}

fn computed(code: u16, a: u32, with: u32) -> Option<u32> {
    Some(match code & 0xf0 {
        0x00 => a.wrapping_add(with),
        0x10 => a.wrapping_sub(with),
        0x20 => a.wrapping_mul(with),
        0x30 => a.checked_div(with)?,
        0x40 => a | with,
        0x50 => a & with,
        0x60 => a.checked_shl(with).unwrap_or(0),
        0x70 => a.checked_shr(with).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(with)?,
        0xa0 => a ^ with,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap::{Capture, Linktype};
    use proptest::prelude::*;

    const EXPRESSIONS: [&str; 14] = [
        "tcp",
        "udp or icmp",
        "host 10.0.0.1",
        "src net 10.0.0.0/8 and not dst port 443",
        "portrange 80-90",
        "ip6",
        "ip6 and tcp port 22",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
        "ip[2:2] - ((ip[0] & 0xf) << 2) > 40",
        "ip[8] * 3 / 2 = 96",
        "dst host 2001:db8::1 or src port 53",
        "ip proto 17 or ip[6:2] & 0x1fff != 0",
        "not ip multicast",
    ];

    proptest! {
        /// Against libpcap's own, where the whole packet is there.
        #[test]
        fn what_passes_is_what_libpcap_lets_pass(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..90),
            version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            protocol in prop_oneof![Just(6u8), Just(17), Just(1), any::<u8>()],
            near in any::<bool>(),
            port in prop_oneof![Just(80u16), Just(443), Just(53), Just(22)],
        ) {
            if bytes.len() > 24 {
                bytes[0] = version;
                bytes[if version == 0x60 { 6 } else { 9 }] = protocol;
                if near {
                    bytes[12..16].copy_from_slice(&[10, 0, 0, 1]);
                    bytes[6..8].copy_from_slice(&[0, protocol]);
                    bytes[6] = if version == 0x60 { protocol } else { 0 };
                    bytes[22..24].copy_from_slice(&port.to_be_bytes());
                }
            }
            let handle = Capture::dead(Linktype(DLT_RAW.into())).unwrap();
            for expression in EXPRESSIONS {
                let theirs = handle.compile(expression, true).unwrap().filter(&bytes);
                let ours = PacketFilter::new(LinkType::RAW, expression).unwrap();
                prop_assert_eq!(ours.passes(&bytes, bytes.len() as u32), theirs, "{}", expression);
            }
        }
    }

    #[test]
    fn lengths_are_those_of_the_whole_packet() {
        let filter = PacketFilter::new(LinkType::RAW, "greater 1000").unwrap();
        let headers = [0x45; 40];
        assert!(filter.passes(&headers, 1_500) && !filter.passes(&headers, 999));
    }

    #[test]
    fn a_mistake_is_said() {
        let error = PacketFilter::new(LinkType::RAW, "prot 80").unwrap_err().to_string();
        assert!(error.contains("prot 80"), "{error}");
    }
}
