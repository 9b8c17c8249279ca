//! The bytes of TLS that one side sends in Initial packets, put together out of pieces.

use wire::packet::Span;

/// Bytes that are kept: hellos have 300 to 2,000, with large keys 4,000.
const MOST: usize = 8_192;

/// The bytes of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Crypto {
    data: Vec<u8>,
    /// Which of them have come.
    have: Vec<bool>,
    /// So many have come from the first on.
    whole: usize,
}

impl Crypto {
    /// Takes a piece. Returns how many of its bytes had not come before.
    pub(super) fn take(&mut self, offset: u64, piece: &[u8]) -> usize {
        let Some(from) = usize::try_from(offset).ok().filter(|from| *from < MOST) else { return 0 };
        let piece = &piece[..piece.len().min(MOST - from)];
        let to = from + piece.len();
        if self.data.len() < to {
            self.data.resize(to, 0);
            self.have.resize(to, false);
        }
        let had = &mut self.have[from..to];
        let fresh = had.iter().filter(|had| !**had).count();
        if fresh > 0 {
            had.fill(true);
            self.data[from..to].copy_from_slice(piece);
            self.whole += self.have[self.whole..].iter().take_while(|had| **had).count();
        }
        fresh
    }

    /// The kind of its first message and the message itself, once that is there whole; of one that
    /// is longer than what is kept, its beginning.
    pub(super) fn message(&self) -> Option<(u8, Span<'_>)> {
        let (&[kind, a, b, c], rest) = self.data[..self.whole].split_first_chunk()?;
        let length = u32::from_be_bytes([0, a, b, c]);
        let is_there = rest.len() >= length as usize || self.whole == MOST;
        is_there.then(|| (kind, Span { data: &rest[..rest.len().min(length as usize)], wire: length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_a_message_in_any_order() {
        let bytes = [1, 0, 0, 5, 10, 11, 12, 13, 14];
        let mut crypto = Crypto::default();
        assert_eq!([crypto.take(6, &bytes[6..]), crypto.take(7, &bytes[7..])], [3, 0]);
        assert!(crypto.message().is_none());
        assert_eq!(crypto.take(0, &bytes[..7]), 6);
        let (kind, span) = crypto.message().unwrap();
        assert_eq!((kind, span.data, span.wire), (1, &bytes[4..], 5));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut crypto = Crypto::default();
        assert_eq!(crypto.take(MOST as u64, &[1]), 0);
        assert_eq!(crypto.take(u64::MAX, &[1]), 0);
        assert_eq!(crypto.take(MOST as u64 - 1, &[0; 9]), 1);
        assert_eq!((crypto.data.len(), crypto.message().is_none()), (MOST, true));
        crypto.take(0, &[1, 0xff, 0xff, 0xff]);
        crypto.take(4, &[0; MOST]);
        assert_eq!(crypto.message().map(|(_, span)| (span.data.len(), span.wire)), Some((MOST - 4, 0xff_ffff)));
    }
}
