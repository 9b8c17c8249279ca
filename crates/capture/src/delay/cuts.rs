//! Frames that the two taps saw cut differently: what a sender's NIC segments (TSO) or a receiver's
//! joins (GRO), and datagrams that a device fragments. Such frames are taken in parts, each of the
//! bytes between two neighbouring cuts of either tap.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash as _, Hasher as _};

use super::Tap;
use super::identity::{Hasher, Identity, Key, packet};

/// Frames of which the bytes are looked at, at most. Flows that begin later are recognised by
/// content, whole.
const MOST: usize = 32 << 20;

/// Bytes of a flow: of a TCP connection's direction by sequence number, or of an IPv4 packet that
/// may be fragmented, by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    flow: u64,
    start: u32,
    length: u32,
}

impl Range {
    /// Those of a frame; `None` where it has none, or no device cuts it.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (kind, at) = packet(frame)?;
        let packet = frame.get(at..)?;
        let half = |at: usize| packet.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let mut hasher = Hasher::default();
        match kind {
            0x0800 => {
                let header = usize::from(packet.first()? & 0xf) * 4;
                let length = usize::from(half(2)?).checked_sub(header)?;
                let (protocol, fragment) = (*packet.get(9)?, half(6)?);
                let is_fragment = fragment & 0x3fff != 0;
                packet.get(12..20)?.hash(&mut hasher);
                if protocol == 6 && !is_fragment {
                    return Self::of_segment(packet.get(header..)?, length, hasher);
                }
                let (offset, may_be_cut) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x4000 == 0);
                (protocol, half(4)?).hash(&mut hasher);
                let length = u32::try_from(length).ok()?;
                may_be_cut.then(|| Self { flow: hasher.finish(), start: offset, length })
            }
            0x86dd if packet.get(6) == Some(&6) => {
                packet.get(8..40)?.hash(&mut hasher);
                Self::of_segment(packet.get(40..)?, usize::from(half(4)?), hasher)
            }
            _ => None,
        }
    }

    /// Of a TCP header, with so many bytes of IP payload, of which a capture may have less.
    fn of_segment(segment: &[u8], length: usize, mut flow: Hasher) -> Option<Self> {
        segment.get(..4)?.hash(&mut flow);
        let start = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
        let header = usize::from(segment.get(12)? >> 4) * 4;
        let length = u32::try_from(length.checked_sub(header)?).ok().filter(|length| *length > 0)?;
        Some(Self { flow: flow.finish(), start, length })
    }
}

/// A key of where the bytes of a frame end in their flow: a frame and the last of its parts have
/// the same.
pub(super) fn end_of_range(frame: &[u8]) -> Option<Key> {
    let Range { flow, start, length } = Range::of(frame)?;
    let mut hasher = Hasher::default();
    (flow, start.wrapping_add(length)).hash(&mut hasher);
    Some(Key::of_part(hasher.finish()))
}

/// The frames of both taps, while they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    flows: HashMap<u64, Flow>,
    frames: usize,
}

#[derive(Debug)]
struct Flow {
    /// Subtracted from each sequence number, so that no range of the first 4 GB wraps.
    base: u32,
    ranges: [Vec<(u32, u32)>; 2],
}

impl Looked {
    pub(crate) fn take(&mut self, tap: Tap, frame: &[u8]) {
        let Some(range) = Range::of(frame) else { return };
        if self.frames >= MOST {
            return;
        }
        self.frames += 1;
        // Some that were sent earlier come later.
        let begins = || Flow { base: range.start.wrapping_sub(1 << 24), ranges: Default::default() };
        let flow = self.flows.entry(range.flow).or_insert_with(begins);
        let start = range.start.wrapping_sub(flow.base);
        flow.ranges[tap as usize].push((start, start.saturating_add(range.length)));
    }

    /// The cuts of the flows that the taps saw cut differently.
    pub(crate) fn cuts(self) -> Cuts {
        let cut = |(flow, Flow { base, mut ranges }): (u64, Flow)| {
            for ranges in &mut ranges {
                ranges.sort_unstable();
                ranges.dedup();
            }
            is_cut(&ranges).then(|| {
                let mut cuts: Vec<u32> = ranges.iter().flatten().flat_map(|(start, end)| [*start, *end]).collect();
                cuts.sort_unstable();
                cuts.dedup();
                (flow, (base, cuts))
            })
        };
        Cuts { flows: self.flows.into_iter().filter_map(cut).collect() }
    }
}

/// Whether a tap saw a frame that the other one did not see as such, and of which it saw a part.
fn is_cut(ranges: &[Vec<(u32, u32)>; 2]) -> bool {
    let [one, other] = ranges;
    [(one, other), (other, one)].into_iter().any(|(whole, parts)| {
        let known: HashSet<&(u32, u32)> = parts.iter().collect();
        // Sorted by their beginnings.
        let begins_within = |start: u32, end: u32| {
            let next = parts.partition_point(|part| part.0 <= start);
            parts.get(next).is_some_and(|part| part.0 < end)
        };
        whole.iter().any(|range| !known.contains(range) && begins_within(range.0, range.1))
    })
}

/// Where flows are cut: every place at which a frame of either tap begins or ends.
#[derive(Clone, Debug, Default)]
pub struct Cuts {
    flows: HashMap<u64, (u32, Vec<u32>)>,
}

impl Cuts {
    /// Whether both taps saw every flow cut alike.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Gives the key of a frame, or those of its parts; `None` for a frame that is not recognised.
    /// Gives whether it is of a flow that is taken in parts.
    pub(crate) fn keys(&self, identity: Identity, frame: &[u8], mut each: impl FnMut(Option<Key>)) -> bool {
        let range = (!self.is_empty()).then(|| Range::of(frame)).flatten();
        let found = range.and_then(|range| Some((range, self.flows.get(&range.flow)?)));
        let Some((range, (base, cuts))) = found else {
            each(identity.key(frame));
            return false;
        };
        let mut from = range.start.wrapping_sub(*base);
        let end = from.saturating_add(range.length);
        let first = cuts.partition_point(|cut| *cut <= from);
        for to in cuts[first..].iter().copied().take_while(|cut| *cut < end).chain([end]) {
            let mut hasher = Hasher::default();
            (range.flow, from, to).hash(&mut hasher);
            each(Some(Key::of_part(hasher.finish())));
            from = to;
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A TCP segment over IPv4 with so many bytes from this number on.
    pub(in crate::delay) fn segment(start: u32, length: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0];
        frame.extend((40 + length).to_be_bytes());
        frame.extend([1, 2, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0, 80]);
        frame.extend(start.to_be_bytes());
        frame.extend([0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        frame
    }

    fn keys(cuts: &Cuts, frame: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        cuts.keys(Identity::Content { translated: false }, frame, |key| keys.extend(key));
        keys
    }

    fn looked(before: &[(u32, u16)], after: &[(u32, u16)]) -> Cuts {
        let mut looked = Looked::default();
        for (tap, frames) in [(Tap::Before, before), (Tap::After, after)] {
            frames.iter().for_each(|(start, length)| looked.take(tap, &segment(*start, *length)));
        }
        looked.cuts()
    }

    #[test]
    fn a_frame_of_many_segments_has_the_keys_of_its_segments() {
        // Across the end of the sequence numbers, too.
        for first in [1_000, u32::MAX - 2_000] {
            let at = |n: u32| first.wrapping_add(n * 1_000);
            let parts: Vec<(u32, u16)> = (0..5).map(|n| (at(n), 1_000)).collect();
            for (before, after) in [(vec![(first, 5_000)], parts.clone()), (parts.clone(), vec![(first, 5_000)])] {
                let cuts = looked(&before, &after);
                let of_parts: Vec<Key> = parts.iter().flat_map(|part| keys(&cuts, &segment(part.0, part.1))).collect();
                assert_eq!(of_parts.len(), 5);
                assert_eq!(keys(&cuts, &segment(first, 5_000)), of_parts);
            }
            // Both joined, each in its own way.
            let [before, after] = [vec![(at(0), 2_000), (at(2), 3_000)], vec![(at(0), 3_000), (at(3), 2_000)]];
            let cuts = looked(&before, &after);
            let of = |frames: &[(u32, u16)]| -> Vec<Key> {
                frames.iter().flat_map(|frame| keys(&cuts, &segment(frame.0, frame.1))).collect()
            };
            assert_eq!((of(&before).len(), of(&before)), (3, of(&after)));
        }
    }

    #[test]
    fn flows_that_both_taps_saw_alike_are_recognised_by_content() {
        let frames = [(0, 1_000), (1_000, 1_000), (2_000, 500)];
        assert!(looked(&frames, &frames).is_empty());
        // What was lost, and retransmitted in other parts.
        assert!(looked(&[(0, 1_000), (0, 500), (500, 500)], &[(0, 500), (500, 500), (0, 1_000)]).is_empty());
        assert!(looked(&frames, &frames[..1]).is_empty());
    }

    #[test]
    fn fragments_are_parts_of_their_datagram() {
        let datagram = |fragment: u16, length: u16| {
            let mut frame = vec![0; 12];
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([7, 7]);
            frame.extend(fragment.to_be_bytes());
            frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.resize(34 + usize::from(length), 3);
            frame
        };
        let (whole, parts) = (datagram(0, 2_008), [datagram(0x2000, 1_480), datagram(185, 528)]);
        let mut looked = Looked::default();
        looked.take(Tap::Before, &whole);
        parts.iter().for_each(|part| looked.take(Tap::After, part));
        let cuts = looked.cuts();
        let of_parts: Vec<Key> = parts.iter().flat_map(|part| keys(&cuts, part)).collect();
        assert_eq!((of_parts.len(), keys(&cuts, &whole)), (2, of_parts));
        // One that must not be fragmented is none.
        assert_eq!(Range::of(&datagram(0x4000, 100)), None);
    }

    proptest! {
        #[test]
        fn no_frame_is_too_foreign(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut looked = Looked::default();
            looked.take(Tap::Before, &bytes);
            looked.take(Tap::After, &bytes);
            prop_assert!(looked.cuts().is_empty());
        }
    }
}
