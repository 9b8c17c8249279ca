//! The frames that an Initial packet may have (RFC 9000, sections 12.4 and 19).

use super::number;
use crate::packet::span::Fault;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes without meaning: so many, one after the other.
    Padding(usize),
    /// A packet that wants an ACK.
    Ping,
    /// Packets that came.
    Ack {
        /// The largest of their numbers.
        largest: u64,
        /// The smallest of those that came without a gap before it.
        from: u64,
        /// The smallest of all.
        least: u64,
    },
    /// A piece of TLS.
    Crypto {
        /// Where it is among the bytes of TLS that this side sends.
        offset: u64,
        /// Its bytes.
        data: &'a [u8],
    },
    /// The connection is closed.
    Close {
        /// The error's code.
        code: u64,
        /// It is the application's and not the transport's.
        by_application: bool,
    },
}

/// The frames of a packet, up to the first that is none of those that an Initial packet may have.
pub fn frames(payload: &[u8]) -> Frames<'_> {
    Frames(payload)
}

/// See [`frames`].
#[derive(Clone, Debug)]
pub struct Frames<'a>(&'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.0.split_first()?;
        let read = match kind {
            0 => {
                let behind = self.0.iter().position(|byte| *byte != 0).unwrap_or(self.0.len());
                Some((Frame::Padding(behind), &self.0[behind..]))
            }
            1 => Some((Frame::Ping, rest)),
            2 | 3 => ack(rest, *kind == 3),
            6 => crypto(rest),
            0x1c | 0x1d => close(rest, *kind == 0x1d),
            _ => None,
        };
        match read {
            Some((frame, rest)) => {
                self.0 = rest;
                Some(Ok(frame))
            }
            None => {
                self.0 = &[];
                Some(Err(Fault::Malformed))
            }
        }
    }
}

fn ack(rest: &[u8], counts_ecn: bool) -> Option<(Frame<'_>, &[u8])> {
    let (largest, rest) = number(rest)?;
    let (_delay, rest) = number(rest)?;
    let (ranges, rest) = number(rest)?;
    let (first, mut rest) = number(rest)?;
    let from = largest.checked_sub(first)?;
    let mut least = from;
    // Each takes two bytes at least, so that there are no more turns than bytes.
    for _ in 0..ranges {
        let (gap, behind) = number(rest)?;
        let (length, behind) = number(behind)?;
        // RFC 9000, section 19.3.1.
        least = least.checked_sub(gap)?.checked_sub(2)?.checked_sub(length)?;
        rest = behind;
    }
    for _ in 0..if counts_ecn { 3 } else { 0 } {
        (_, rest) = number(rest)?;
    }
    Some((Frame::Ack { largest, from, least }, rest))
}

fn crypto(rest: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (offset, rest) = number(rest)?;
    let (length, rest) = number(rest)?;
    let (data, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Frame::Crypto { offset, data }, rest))
}

fn close(rest: &[u8], by_application: bool) -> Option<(Frame<'_>, &[u8])> {
    let (code, mut rest) = number(rest)?;
    if !by_application {
        // The kind of frame that was the reason.
        (_, rest) = number(rest)?;
    }
    let (length, rest) = number(rest)?;
    let (_reason, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Frame::Close { code, by_application }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_read_and_what_is_cut_short_is_not() {
        let payload = [
            0, 0, 0, 1, // padding, ping
            2, 9, 0, 1, 2, 1, 3, // an ACK of 7 to 9, and a range
            3, 9, 0, 0, 9, 1, 1, 1, // an ACK of 0 to 9 with counts of ECN
            6, 0x40, 0x20, 2, 7, 8, // two bytes of TLS
            0x1c, 0x41, 0x28, 6, 2, b'n', b'o', // an alert, with its reason
            0x1d, 5, 0,
        ];
        let all: Vec<Frame<'_>> = frames(&payload).collect::<Result<_, _>>().unwrap();
        assert_eq!(
            all,
            [
                Frame::Padding(3),
                Frame::Ping,
                Frame::Ack { largest: 9, from: 7, least: 1 },
                Frame::Ack { largest: 9, from: 0, least: 0 },
                Frame::Crypto { offset: 32, data: &[7, 8] },
                Frame::Close { code: 0x128, by_application: false },
                Frame::Close { code: 5, by_application: true },
            ]
        );
        for broken in [&[6, 0, 9, 1][..], &[2, 1, 0, 0, 2], &[2, 9, 0, 0x3f, 0], &[0x1c, 1], &[8, 0], &[0x1e]] {
            assert_eq!(frames(broken).collect::<Vec<_>>(), [Err(Fault::Malformed)], "{broken:?}");
        }
    }
}
