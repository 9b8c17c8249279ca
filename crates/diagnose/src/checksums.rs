//! Which segments of a direction were damaged, by their TCP checksums, and how far these can be
//! believed.
//!
//! A wrong checksum is damage only where checksums are right otherwise: beside a host with checksum
//! offload they are not filled in, and tools that alter addresses or payload leave them wrong. A
//! damaged segment is never delivered (RFC 9293, section 3.1), so one that is acknowledged without
//! having been retransmitted shows that the checksums of its direction cannot be believed.

use std::collections::VecDeque;

use wire::{Integrity, Segment};

/// What the checksums of one direction were so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksums {
    /// Right ones, without and with payload. Where there are more than fit, both these and the
    /// wrong ones are halved.
    right: [u8; 2],
    /// Wrong ones, likewise.
    wrong: [u8; 2],
    /// The largest payload with a right checksum: what is larger was joined by offload.
    largest_right: u16,
    /// Fields that wait for hardware were seen.
    pub(crate) offloaded: bool,
    /// A segment with a wrong checksum was acknowledged and not retransmitted.
    disproved: bool,
    /// A segment was taken to be damaged.
    pub(crate) found_damage: bool,
}

/// Right checksums before a wrong one is taken for damage, at least.
const LEAST_RIGHT: u8 = 2;

impl Checksums {
    /// Takes a segment's; true where it was damaged.
    #[inline(always)]
    pub(crate) fn take(&mut self, s: &Segment) -> bool {
        match s.integrity {
            Integrity::NotChecked => false,
            Integrity::Right => {
                let kind = usize::from(s.payload > 0);
                if self.right[kind] == u8::MAX {
                    (self.right[kind], self.wrong[kind]) = (self.right[kind] / 2, self.wrong[kind] / 2);
                }
                self.right[kind] += 1;
                self.largest_right = self.largest_right.max(u16::try_from(s.payload).unwrap_or(u16::MAX));
                false
            }
            Integrity::Offloaded => {
                self.offloaded = true;
                false
            }
            Integrity::Wrong => self.is_damage(s),
        }
    }

    /// Whether a checksum of data was right.
    pub(crate) fn verified_data(&self) -> bool {
        self.right[1] > 0
    }

    #[cold]
    fn is_damage(&mut self, s: &Segment) -> bool {
        let kind = usize::from(s.payload > 0);
        let wrong = &mut self.wrong[kind];
        *wrong = wrong.saturating_add(1);
        let right = self.right[kind];
        let rare = right >= LEAST_RIGHT && right / 2 >= *wrong;
        let damaged = !self.disproved && rare && s.payload <= u32::from(self.largest_right.max(536));
        self.found_damage |= damaged;
        damaged
    }
}

/// Damaged segments of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damage {
    pub(crate) count: u32,
    /// The first of them, for evidence.
    pub(crate) numbers: [u64; 8],
    /// When the first was captured, ns.
    pub(crate) first_at: u64,
    /// Wrong checksums of which it cannot be said whether they were damage.
    pub(crate) unclear: u32,
    /// Ranges of the stream that were damaged and have not been retransmitted yet.
    open: VecDeque<(u64, u64)>,
}

/// Damaged ranges that are remembered; the oldest is forgotten.
const OPEN: usize = 64;

impl Damage {
    pub(crate) fn add(&mut self, number: u64, now: u64) {
        if self.count == 0 {
            self.first_at = now;
        }
        if let Some(slot) = self.numbers.get_mut(self.count as usize) {
            *slot = number;
        }
        self.count += 1;
    }

    pub(crate) fn open(&mut self, start: u64, end: u64) {
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back((start, end));
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// `[start, end)` was retransmitted: whether it was damaged before.
    pub(crate) fn repaired(&mut self, start: u64, end: u64) -> bool {
        let before = self.open.len();
        self.open.retain(|(from, to)| *to <= start || end <= *from);
        self.open.len() < before
    }

    /// The peer has `[start, end)`: the ranges in it that no retransmission had brought.
    pub(crate) fn delivered(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (delivered, open): (Vec<_>, Vec<_>) = self.open.iter().partition(|(from, to)| start <= *from && *to <= end);
        self.open = open.into();
        delivered
    }

    /// The checksums were no sign of damage.
    pub(crate) fn disprove(&mut self, checksums: &mut Checksums) {
        checksums.disproved = true;
        self.unclear += self.count;
        (self.count, self.numbers) = (0, [0; 8]);
    }
}
