//! Segments that were damaged on the way: sent, and never delivered.

use record::conversation::Way;
use wire::{Flags, Segment};

use super::Connection;
use crate::half::Half;

impl Connection {
    /// A segment that its receiver discards whole: nothing in it is believed. Where its number is
    /// that of the next new byte, its sender had it in flight, and what was in it is a hole until
    /// it is retransmitted.
    #[cold]
    pub(super) fn take_damaged(&mut self, way: Way, s: &Segment, now: u64) {
        let lag = self.knows_lag(way).then(|| self.lag(way));
        let h = &mut self.halves[way];
        h.count_packet(s);
        h.anomalies.damage.get_or_insert_default().add(s.number, now);
        if s.payload > 0 && h.space.is_begun() && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
            let start = h.space.place(s.seq);
            let end = start + u64::from(s.payload);
            if start == h.space.next() {
                h.open_hole(start, end, now, s.network.id);
                h.reach(end);
                h.sent(start, end, now, s.number, lag);
                (h.last_data_at, h.last_data_number) = (now, s.number);
                h.anomalies.damage.get_or_insert_default().open(start, end);
            } else if end <= h.space.next() {
                h.flight.retransmit(start, end, now);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.add_damaged(way, s, &self.halves);
        }
    }
}

/// The peer of `h` reports that it has `[start, end)`.
#[inline]
pub(super) fn delivered(h: &mut Half, start: u64, end: u64) {
    if h.checksums.found_damage {
        believe_peer(h, start, end);
    }
}

#[cold]
fn believe_peer(h: &mut Half, start: u64, end: u64) {
    let Some(damage) = h.anomalies.damage.as_mut().filter(|d| d.has_open()) else { return };
    let intact = damage.delivered(start, end);
    if intact.is_empty() {
        return;
    }
    damage.disprove(&mut h.checksums);
    for (from, to) in intact {
        let bytes = h.holes.remove(from, to).0;
        h.count.payload_packets += 1;
        h.count.payload_bytes += bytes;
        h.count.unique_bytes += bytes;
    }
}
