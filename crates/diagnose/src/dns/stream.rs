//! DNS over TCP (RFC 7766): messages with their length before them, out of segments.

use std::collections::HashMap;
use std::net::SocketAddr;

use record::SeqNumber;
use wire::Flags;
use wire::packet::Span;

/// Directions of connections followed at a time; 25 MB with what is kept of each.
const MOST: usize = 16_384;
/// Bytes kept of a message: its question, and the first addresses of its answer.
const KEPT: usize = 1_400;

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    next: SeqNumber,
    /// Bytes of the current message so far, its length of two bytes among them.
    have: usize,
    length: u16,
    kept: Vec<u8>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Streams {
    most: usize,
    open: HashMap<(SocketAddr, SocketAddr), Stream>,
    /// Times that bytes were missing, so that the place of the next message had to be guessed.
    pub(super) gaps: u64,
    /// Segments of directions that were not followed.
    pub(super) beyond: u64,
}

impl Streams {
    /// For one of so many that share a capture.
    pub(super) fn new(shards: usize) -> Self {
        Self { most: MOST.div_ceil(shards), ..Self::default() }
    }

    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes a segment, and gives each message that ends in it.
    pub(super) fn take(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        (seq, flags): (SeqNumber, Flags),
        payload: Span<'_>,
        each: impl FnMut(Span<'_>),
    ) {
        let key = (source, destination);
        if flags.contains(Flags::RST) {
            self.open.remove(&key);
            return;
        }
        let begin = seq.add(u32::from(flags.contains(Flags::SYN)));
        if payload.wire == 0 && !flags.contains(Flags::SYN) {
            if flags.contains(Flags::FIN) {
                self.open.remove(&key);
            }
            return;
        }
        if self.open.len() >= self.most && !self.open.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        // One without a SYN begins with a message, if it is not in the middle of one.
        let stream = self.open.entry(key).or_insert_with(|| Stream { next: begin, ..Stream::default() });
        if flags.contains(Flags::SYN) {
            *stream = Stream { next: begin, ..Stream::default() };
        }
        let ahead = begin.distance_from(stream.next);
        if ahead > 0 {
            self.gaps += 1;
            *stream = Stream { next: begin, ..Stream::default() };
        }
        let known = ahead.min(0).unsigned_abs();
        if known < payload.wire {
            stream.read(payload.skip(known as usize), each);
            stream.next = begin.add(payload.wire);
        }
        if flags.contains(Flags::FIN) {
            self.open.remove(&key);
        }
    }
}

impl Stream {
    fn read(&mut self, mut payload: Span<'_>, mut each: impl FnMut(Span<'_>)) {
        while payload.wire > 0 {
            if self.have < 2 {
                // What the capture cut off is as if it were zeros: a message of no bytes.
                let byte = payload.data.first().copied().unwrap_or_default();
                self.length = self.length << 8 | u16::from(byte);
                (self.have, payload) = (self.have + 1, payload.skip(1));
                if self.have < 2 {
                    continue;
                }
            }
            let left = u32::from(self.length) + 2 - self.have as u32;
            let piece = payload.limit(left);
            let room = KEPT - self.kept.len();
            // After bytes that were cut off, the next ones would stand in their place.
            if self.kept.len() == self.have - 2 {
                self.kept.extend_from_slice(&piece.data[..piece.data.len().min(room)]);
            }
            self.have += piece.wire as usize;
            payload = payload.skip(piece.wire as usize);
            if self.have == usize::from(self.length) + 2 {
                if self.length > 0 {
                    each(Span { data: &self.kept, wire: self.length.into() });
                }
                (self.have, self.length) = (0, 0);
                self.kept.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(segments: &[(u32, &[u8], u32)]) -> (Vec<(Vec<u8>, u32)>, u64) {
        let ends = (SocketAddr::from(([10, 0, 0, 1], 4000)), SocketAddr::from(([10, 0, 0, 2], 53)));
        let (mut streams, mut found) = (Streams::new(1), Vec::new());
        let syn = (SeqNumber(u32::MAX), Flags::SYN);
        streams.take(ends, syn, Span::whole(&[]), |_| panic!("no message yet"));
        for &(seq, data, wire) in segments {
            streams.take(ends, (SeqNumber(seq), Flags::ACK), Span { data, wire }, |m| {
                found.push((m.data.to_vec(), m.wire));
            });
        }
        (found, streams.gaps)
    }

    #[test]
    fn messages_are_found_wherever_segments_begin() {
        let bytes = b"\x00\x03abc\x00\x02de";
        let whole = vec![(b"abc".to_vec(), 3), (b"de".to_vec(), 2)];
        for cut in 1..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            let (a, b) = ((0, a, a.len() as u32), (cut as u32, b, b.len() as u32));
            assert_eq!(messages(&[a, b]), (whole.clone(), 0), "cut at {cut}");
            assert_eq!(messages(&[a, a, b, a]), (whole.clone(), 0), "retransmitted, cut at {cut}");
        }
        assert_eq!(messages(&[(9, b"\x00\x01f", 3)]), (vec![(b"f".to_vec(), 1)], 1), "after a gap");
    }

    #[test]
    fn a_message_that_the_capture_cut_keeps_its_length() {
        assert_eq!(
            messages(&[(0, b"\x00\x05ab", 7), (7, b"\x00\x01c", 3)]).0,
            [(b"ab".to_vec(), 5), (b"c".to_vec(), 1)]
        );
        let long = [b"\x10\x00".as_slice(), &[7; 4096]].concat();
        let (found, _) = messages(&[(0, &long, 4098)]);
        assert_eq!((found[0].0.len(), found[0].1), (KEPT, 4096));
    }
}
