//! Reading and cutting frames: random bytes never panic, and the pieces of a large frame are what
//! its sender would have sent one by one.

use lab::frame::{Shape, VIRTIO};
use proptest::prelude::*;

const ETHERNET: usize = 14;

/// A frame of TCP segments of `each` bytes, as a TAP device gives it. `options` is in 32-bit words.
fn tcp(v6: bool, options: usize, payload: &[u8], each: u16, flags: u8) -> Vec<u8> {
    let header = 20 + 4 * options;
    let ip = if v6 { 40 } else { 20 };
    let kind = if v6 { 4 } else { 1 };
    let mut frame = vec![1, kind | if flags & 0x80 != 0 { 0x80 } else { 0 }, 0, 0];
    frame.extend(each.to_ne_bytes());
    frame.extend(((ETHERNET + ip) as u16).to_ne_bytes());
    frame.extend(16u16.to_ne_bytes());
    frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0x20, 0, 0]);
        frame.extend(((header + payload.len()) as u16).to_be_bytes());
        frame.extend([6, 64]);
        frame.extend([0xfd; 16]);
        frame.extend([0xfe; 16]);
    } else {
        frame.extend([0x08, 0, 0x45, 2]);
        frame.extend(((20 + header + payload.len()) as u16).to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    }
    let tcp_at = frame.len();
    frame.extend([0, 80, 1, 0]);
    frame.extend(0xffff_ff00u32.to_be_bytes());
    frame.extend([0, 0, 0, 9, (header as u8 / 4) << 4, flags, 1, 0, 0, 0, 0, 0]);
    frame.resize(tcp_at + header, 1);
    frame.extend(payload);
    frame
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The ones' complement sum of RFC 1071, folded.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
    }
    total as u16
}

proptest! {
    #[test]
    fn no_bytes_panic(frame in prop::collection::vec(any::<u8>(), 0..200), from in 0u32..4, length in 0u32..4, marked: bool) {
        let shape = Shape::read(&frame);
        prop_assert!(shape.segments() >= 1);
        prop_assert!(shape.on_wire(from) >= 84);
        let _ = shape.piece(&frame, from..from.saturating_add(length), marked);
    }

    #[test]
    fn no_headers_panic(
        v6: bool, mut frame in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..6, each: u16, start in 0u16..120,
        offset: u16, cut in (0u32..40, 0u32..40),
    ) {
        let good = tcp(v6, 0, &[], each, 0x10);
        for (to, from) in frame.iter_mut().zip(&good[..VIRTIO + ETHERNET + 1]) {
            *to = *from;
        }
        if frame.len() > VIRTIO {
            frame[1] = kind;
            frame[6..8].copy_from_slice(&start.to_ne_bytes());
            frame[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        let shape = Shape::read(&frame);
        let _ = shape.piece(&frame, cut.0..cut.1, true);
        let last = shape.segments() - 1;
        let _ = shape.piece(&frame, last..last + 1, true);
    }

    #[test]
    fn pieces_are_what_the_sender_would_have_sent(
        v6: bool, options in 0usize..=10, payload in prop::collection::vec(any::<u8>(), 2..5_000), each in 1u16..1_448,
        flags in prop::sample::select(vec![0x10u8, 0x18, 0x19, 0x90, 0x99]), at in prop::array::uniform2(0.0..1.0f64),
        linear in 0.0..=1.0f64,
    ) {
        prop_assume!(payload.len() > usize::from(each));
        let mut frame = tcp(v6, options, &payload, each, flags);
        // `hdr_len`: the headers alone where the kernel sends, some or all of the payload too where
        // it forwards.
        let hdr_len = frame.len() - VIRTIO - (linear * payload.len() as f64) as usize;
        frame[2..4].copy_from_slice(&(hdr_len as u16).to_ne_bytes());
        let shape = Shape::read(&frame);
        let n = payload.len().div_ceil(usize::from(each)) as u32;
        prop_assert_eq!(shape.segments(), n);
        let headers = frame.len() - VIRTIO - payload.len();
        let wire: u64 = (0..n).map(|i| u64::from(shape.on_wire(i))).sum();
        let expected: u64 = payload.chunks(each.into()).map(|p| (headers + p.len() + 24).max(84) as u64).sum();
        prop_assert_eq!(wire, expected);

        let mut cuts = at.map(|share| (share * f64::from(n + 1)) as u32);
        cuts.sort_unstable();
        let mut rebuilt = Vec::new();
        for range in [0..cuts[0], cuts[0]..cuts[1], cuts[1]..n] {
            if range.is_empty() {
                continue;
            }
            let piece = shape.piece(&frame, range.clone(), false);
            let skipped = range.start as usize * usize::from(each);
            let (ip, tcp_at) = (VIRTIO + ETHERNET, VIRTIO + ETHERNET + if v6 { 40 } else { 20 });
            let body = VIRTIO + headers;
            rebuilt.extend_from_slice(&piece[body..]);
            let seq = u32::from_be_bytes(piece[tcp_at + 4..tcp_at + 8].try_into().unwrap());
            prop_assert_eq!(seq, 0xffff_ff00u32.wrapping_add(skipped as u32));
            let got = piece[tcp_at + 13];
            prop_assert_eq!(got & 0x09, if range.end == n { flags & 0x09 } else { 0 });
            prop_assert_eq!(got & 0x80, if range.start == 0 { flags & 0x80 } else { 0 });
            let single = range.len() == 1;
            prop_assert_eq!((piece[1] & 0x7f == 0, be16(&piece, 4) == 0), (single, single));
            let length = (piece.len() - tcp_at) as u16;
            let addresses = if v6 { &piece[ip + 8..ip + 40] } else { &piece[ip + 12..ip + 20] };
            if v6 {
                prop_assert_eq!(be16(&piece, ip + 4), length);
            } else {
                prop_assert_eq!(be16(&piece, ip + 2), length + 20);
                prop_assert_eq!(be16(&piece, ip + 4), 0xfffe_u16.wrapping_add(range.start as u16));
            }
            // A whole frame is passed as it came, its made-up checksums with it.
            if range != (0..n) {
                prop_assert!(usize::from(u16::from_ne_bytes([piece[2], piece[3]])) <= piece.len() - VIRTIO);
                prop_assert!(v6 || sum(&[&piece[ip..ip + 20]]) == 0xffff);
                prop_assert_eq!(be16(&piece, tcp_at + 16), sum(&[addresses, &[0, 6], &length.to_be_bytes()]));
            }
        }
        prop_assert_eq!(rebuilt, payload);
    }

    #[test]
    fn marking_sets_the_codepoint_and_keeps_the_header_sum(v6: bool, payload in prop::collection::vec(any::<u8>(), 1..3_000)) {
        let frame = tcp(v6, 3, &payload, 500, 0x10);
        let shape = Shape::read(&frame);
        prop_assert!(shape.markable());
        let piece = shape.piece(&frame, 0..1, true);
        let again = Shape::read(&piece);
        prop_assert!(!again.markable());
        let ip = VIRTIO + ETHERNET;
        if v6 {
            prop_assert_eq!(piece[ip + 1] >> 4 & 3, 3);
        } else {
            prop_assert_eq!(piece[ip + 1] & 3, 3);
            prop_assert_eq!(sum(&[&piece[ip..ip + 20]]), 0xffff);
        }
    }
}
