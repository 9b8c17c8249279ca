//! The protection of Initial packets (RFC 9001, section 5; RFC 9369, section 3.3): keys follow from
//! a salt that each version publishes and the connection ID that the client chose, so that whoever
//! saw the client's first packet can read them.

use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use record::conversation::Side;

use super::{Id, Kind, Packet, V2};
use crate::packet::span::Fault;

const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f,
    0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e,
    0xd9,
];
/// Drafts 29 to 32.
const SALT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43, 0x90, 0xa8,
    0x99,
];
/// Drafts 23 to 28.
const SALT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65, 0xbe, 0xf9, 0xf5,
    0x02,
];

/// The longest number of a packet, and what is taken of the rest to hide it, bytes.
const NUMBER: usize = 4;
const SAMPLE: usize = 16;

/// What one side protects its Initial packets with.
struct Keys {
    header: HeaderProtectionKey,
    payload: LessSafeKey,
    iv: [u8; 12],
}

/// What both sides protect their Initial packets with.
pub struct InitialKeys {
    client: Keys,
    server: Keys,
}

impl std::fmt::Debug for InitialKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitialKeys").finish_non_exhaustive()
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// `HKDF-Expand-Label` without a context (RFC 8446, section 7.1).
fn expand<const N: usize>(secret: &Prk, label: &str) -> Option<[u8; N]> {
    let label = [b"tls13 ", label.as_bytes()].concat();
    let length = [0, N as u8];
    let mut out = [0; N];
    secret.expand(&[&length, &[label.len() as u8], &label, &[0]], Length(N)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

impl Keys {
    fn new(initial: &Prk, side: &str, version: u32) -> Option<Self> {
        let secret = Prk::new_less_safe(HKDF_SHA256, &expand::<32>(initial, side)?);
        let [key, iv, header] = match version {
            V2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
            _ => ["quic key", "quic iv", "quic hp"],
        };
        Some(Self {
            header: HeaderProtectionKey::new(&AES_128, &expand::<16>(&secret, header)?).ok()?,
            payload: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &expand::<16>(&secret, key)?).ok()?),
            iv: expand(&secret, iv)?,
        })
    }

    fn open<'r>(&self, packet: &Packet<'_>, largest: Option<u64>, room: &'r mut Vec<u8>) -> Result<Opened<'r>, Fault> {
        let (span, at) = (packet.span, packet.body);
        let whole = span.whole_data()?;
        let sample = whole.get(at + NUMBER..at + NUMBER + SAMPLE).ok_or(Fault::Malformed)?;
        let mask = self.header.new_mask(sample).map_err(|_| Fault::Malformed)?;
        room.clear();
        room.extend_from_slice(whole);
        // A long header hides the four lowest bits.
        room[0] ^= mask[0] & 0x0f;
        let length = usize::from(room[0] & 3) + 1;
        let mut cut = 0u64;
        for (byte, mask) in room[at..at + length].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            cut = cut << 8 | u64::from(*byte);
        }
        let number = whole_number(cut, length, largest);
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        let (header, sealed) = room.split_at_mut(at + length);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.payload.open_in_place(nonce, Aad::from(&*header), sealed).map_err(|_| Fault::Malformed)?;
        Ok(Opened { number, payload: opened })
    }
}

/// An Initial packet without its protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'r> {
    /// Its number.
    pub number: u64,
    /// Its frames: see [`super::frames`].
    pub payload: &'r [u8],
}

/// The number of which these are the last bytes, and which is nearest to the one after the largest
/// so far (RFC 9000, appendix A.3).
fn whole_number(cut: u64, length: usize, largest: Option<u64>) -> u64 {
    let (expected, window) = (largest.map_or(0, |largest| largest.saturating_add(1)), 1u64 << (8 * length));
    let candidate = expected & !(window - 1) | cut;
    if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

impl InitialKeys {
    /// Those of a connection of this version whose client chose this ID. `None` where the version's
    /// salt is not known.
    pub fn new(version: u32, id: &Id) -> Option<Self> {
        let salt = match version {
            super::V1 | 0xff00_0021..=0xff00_0022 => &SALT_V1,
            V2 => &SALT_V2,
            0xff00_001d..=0xff00_0020 => &SALT_29,
            0xff00_0017..=0xff00_001c => &SALT_23,
            _ => return None,
        };
        let initial = Salt::new(HKDF_SHA256, salt).extract(id.as_slice());
        Some(Self {
            client: Keys::new(&initial, "client in", version)?,
            server: Keys::new(&initial, "server in", version)?,
        })
    }

    /// Takes the protection off an Initial packet of this side; `room` holds what is read.
    /// `largest` is the largest number of this side's Initial packets so far.
    ///
    /// # Errors
    /// [`Fault::Truncated`] where the capture does not have all of it, and [`Fault::Malformed`]
    /// where it is protected with other keys, or damaged.
    pub fn open<'r>(
        &self,
        side: Side,
        packet: &Packet<'_>,
        largest: Option<u64>,
        room: &'r mut Vec<u8>,
    ) -> Result<Opened<'r>, Fault> {
        if packet.kind != Kind::Initial {
            return Err(Fault::Malformed);
        }
        match side {
            Side::Client => self.client.open(packet, largest, room),
            Side::Server => self.server.open(packet, largest, room),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::quic::{Frame, V1, frames, packets};
    use crate::packet::span::Span;

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        hex.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    /// The connection ID of both RFCs.
    fn id() -> Id {
        Id::new(&bytes("8394c8f03e515708")).unwrap()
    }

    #[test]
    fn numbers_are_the_nearest_ones() {
        assert_eq!(whole_number(0x9b32, 2, Some(0xa82f_30ea)), 0xa82f_9b32);
        assert_eq!(
            [whole_number(0, 1, None), whole_number(3, 1, Some(254)), whole_number(255, 1, Some(256))],
            [0, 259, 255]
        );
        assert_eq!(whole_number(0xff, 1, None), 0xff);
    }

    /// The server's Initial of RFC 9001 (A.3) and RFC 9369 (A.3).
    const SERVER: [(u32, &str); 2] = [
        (
            V1,
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        ),
        (
            V2,
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
        ),
    ];

    #[test]
    fn the_servers_packet_of_each_rfc_is_read() {
        for (version, packet) in SERVER {
            let datagram = bytes(packet);
            let packet = packets(Span::whole(&datagram)).next().unwrap().unwrap();
            assert_eq!((packet.kind, packet.version, packet.wire()), (Kind::Initial, version, 135));
            assert_eq!((packet.source.to_string(), packet.destination.len()), ("f067a5502a4262b5".into(), 0));
            let (keys, mut room) = (InitialKeys::new(version, &id()).unwrap(), Vec::new());
            let opened = keys.open(Side::Server, &packet, None, &mut room).unwrap();
            let frames: Vec<_> = frames(opened.payload).collect::<Result<_, _>>().unwrap();
            let hello = bytes(
                "020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304",
            );
            assert_eq!(
                frames,
                [Frame::Ack { largest: 0, from: 0, least: 0 }, Frame::Crypto { offset: 0, data: &hello }]
            );
            assert_eq!(opened.number, 1);
            // Neither the client's keys, nor those of another connection or version, nor a packet
            // with one bit changed.
            assert_eq!(keys.open(Side::Client, &packet, None, &mut room), Err(Fault::Malformed));
            let others = [InitialKeys::new(version ^ V1 ^ V2, &id()), InitialKeys::new(version, &packet.source)];
            for other in others.into_iter().flatten() {
                assert_eq!(other.open(Side::Server, &packet, None, &mut room), Err(Fault::Malformed));
            }
            for i in 0..datagram.len() * 8 {
                let mut damaged = datagram.clone();
                damaged[i / 8] ^= 1 << (i % 8);
                if let Some(Ok(packet)) = packets(Span::whole(&damaged)).next() {
                    assert_eq!(keys.open(Side::Server, &packet, None, &mut room), Err(Fault::Malformed), "bit {i}");
                }
            }
        }
    }

    /// Protects a packet that has this header, the last four bytes of which are its number.
    fn seal(keys: &Keys, header: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
        let mut nonce = keys.iv;
        nonce[8..].iter_mut().zip(&header[header.len() - NUMBER..]).for_each(|(byte, of)| *byte ^= of);
        let nonce = Nonce::assume_unique_for_key(nonce);
        keys.payload.seal_in_place_append_tag(nonce, Aad::from(header), &mut payload).unwrap();
        let mask = keys.header.new_mask(&payload[..SAMPLE]).unwrap();
        let mut packet = header.to_vec();
        packet[0] ^= mask[0] & 0x0f;
        packet[header.len() - NUMBER..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        [packet, payload].concat()
    }

    /// The frame in the client's Initial of both RFCs (A.2), behind which are 917 bytes of padding.
    const CLIENT: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff";

    /// The header of each without its protection, and its first and last bytes with it.
    const PROTECTED: [(u32, &str, &str, &str); 2] = [
        (
            V1,
            "c300000001088394c8f03e5157080000449e00000002",
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            "7e78bfe706ca4cf5e9c5453e9f7cfd2b8b4c8d169a44e55c88d4a9a7f9474241e221af44860018ab0856972e194cd934",
        ),
        (
            V2,
            "d36b3343cf088394c8f03e5157080000449e00000002",
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            "6f4c4938ae79324dc402894b44faf8afbab35282ab659d13c93f70412e85cb199a37ddec600545473cfb5a05e08d0b209973b2172b4d21fb69745a262ccde96ba18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ];

    #[test]
    fn the_clients_packet_of_each_rfc_is_read() {
        for (version, header, first, last) in PROTECTED {
            let mut payload = bytes(CLIENT);
            payload.resize(1_162, 0);
            let keys = InitialKeys::new(version, &id()).unwrap();
            let datagram = seal(&keys.client, &bytes(header), payload);
            assert!(datagram.starts_with(&bytes(first)) && datagram.ends_with(&bytes(last)), "{version:#x}");
            let (packet, mut room) = (packets(Span::whole(&datagram)).next().unwrap().unwrap(), Vec::new());
            assert_eq!((packet.destination, packet.wire()), (id(), 1_200));
            let opened = keys.open(Side::Client, &packet, None, &mut room).unwrap();
            let frames: Vec<_> = frames(opened.payload).collect::<Result<_, _>>().unwrap();
            let [Frame::Crypto { offset: 0, data }, Frame::Padding(917)] = frames[..] else { panic!("{frames:?}") };
            assert_eq!((opened.number, data), (2, &bytes(CLIENT)[4..]));
            let hello = crate::packet::tls::ClientHello::parse(Span::whole(&data[4..])).unwrap();
            assert_eq!((hello.server_name.as_deref(), hello.idle_timeout), (Some("example.com"), Some(30_000)));
            assert_eq!((hello.protocols, hello.versions), (vec!["alpn".to_owned()], vec![0x0304]));
        }
    }

    #[test]
    fn a_packet_that_the_capture_cut_short_is_said_to_be() {
        let datagram = bytes(SERVER[0].1);
        let span = Span { data: &datagram[..100], wire: datagram.len() as u32 };
        let packet = packets(span).next().unwrap().unwrap();
        let keys = InitialKeys::new(V1, &id()).unwrap();
        assert_eq!(keys.open(Side::Server, &packet, None, &mut Vec::new()), Err(Fault::Truncated));
        assert!(InitialKeys::new(0x1a2a_3a4a, &id()).is_none());
    }
}
