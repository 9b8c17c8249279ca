//! Targets of fuzzing: any bytes as packets that come past the tap, and as answers to an echo.

use clock::Instant;

use crate::tap::{Handshake, segment};

/// Packets of either family, each with its length in front.
pub fn tapped(bytes: &[u8]) {
    let (mut seen, mut rest) = (Handshake::default(), bytes);
    while let [length, more @ ..] = rest {
        let (packet, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        if let Some(segment) = segment(packet) {
            seen.note(segment, 40_000, Instant::from_nanos(packet.len() as u64));
        }
    }
    assert_eq!(seen.syns > 0, seen.syn.is_some());
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        tier::corpus::replay("tapped", super::tapped);
    }
}
