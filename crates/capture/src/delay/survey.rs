//! What is to be known of two captures before their frames are joined: by what frames are
//! recognised, which flows the taps saw cut differently, and which hosts are on which side of the
//! device.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use wire::{Capture, CaptureError, LinkType};

use super::cuts::{Cuts, Looked, end_of_range};
use super::{Identity, Key, Tap, identity};

/// Frames at the beginning of each file that show by what they are recognised, and on which side
/// their hosts are.
pub(super) const FIRST: usize = 100_000;

/// The share of a host's frames that has to go one way, and how many of them, before the host is
/// taken to be on one side: the times of a device that delays little are not exact.
const CLEAR: f64 = 0.9;
const ENOUGH: u32 = 3;

/// Which way frames pass the taps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By the first tap, then by the second.
    #[default]
    There,
    /// By the second tap first.
    Back,
}

/// What two captures show.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// By what frames are recognised.
    pub identity: Identity,
    cuts: Cuts,
    /// On which side of the device hosts are, by the hash of their address: where their frames go.
    sides: HashMap<u64, Way>,
}

impl Survey {
    /// Of two captures. Without an `identity` it is by the ids of `generate` where they have such,
    /// else by content, and without addresses and ports where only that finds most of the frames
    /// again. Directions are distinguished where `one_clock` stamped both.
    ///
    /// # Errors
    /// [`CaptureError`] with the tap, where a file is no capture or cannot be read.
    pub fn of<'a>(
        files: [impl Read + Send + 'a; 2],
        identity: Option<Identity>,
        one_clock: bool,
    ) -> Result<Self, (Tap, CaptureError)> {
        let [content, translated] = [false, true].map(|translated| Identity::Content { translated });
        let identities = [Identity::Id, content, translated];
        // By each identity, and by where bytes of a flow end.
        let mut seen: [[HashMap<Key, Seen>; 4]; 2] = Default::default();
        let mut looked = Looked::default();
        for ((tap, file), keys) in [Tap::Before, Tap::After].into_iter().zip(files).zip(&mut seen) {
            let failed = |error| (tap, error);
            let mut capture = Capture::from_reader(file).map_err(failed)?;
            let mut frames = 0;
            while let Some(frame) = capture.next_frame().map_err(failed)? {
                frames += 1;
                if frame.link_type != LinkType::ETHERNET {
                    continue;
                }
                looked.take(tap, frame.data);
                if frames > FIRST {
                    continue;
                }
                let of = Seen { at: frame.at.map(|at| at.as_nanos()), from: identity::hosts(frame.data).map(|h| h[0]) };
                let by_identity = identities.iter().map(|identity| identity.key(frame.data));
                for (key, keys) in by_identity.chain([end_of_range(frame.data)]).zip(&mut *keys) {
                    if let Some(key) = key {
                        keys.entry(key).or_insert(of);
                    }
                }
            }
        }
        let common = |place: usize| seen[1][place].keys().filter(|key| seen[0][place].contains_key(key)).count();
        let identity = identity.unwrap_or_else(|| match (common(0), common(1), common(2)) {
            (1.., ..) => Identity::Id,
            (0, same, without_addresses) if without_addresses > 2 * same => translated,
            _ => content,
        });
        let place = identities.iter().position(|known| *known == identity).unwrap_or(1);
        // A frame that was cut has its end in common with its last part alone.
        let both = [place, identities.len()].map(|place| [&seen[0][place], &seen[1][place]]);
        let sides = if one_clock { sides(&both) } else { HashMap::new() };
        // The places of bytes are those of a connection, which a translator makes another; an id is
        // in one frame alone.
        let cuts = if identity == content { looked.cuts() } else { Cuts::default() };
        Ok(Self { identity, cuts, sides })
    }

    /// The ways of frames that are in the captures, [`Way::There`] first.
    pub fn ways(&self) -> &'static [Way] {
        if self.sides.is_empty() { &[Way::There] } else { &[Way::There, Way::Back] }
    }

    /// Which way a frame goes.
    pub(super) fn way(&self, frame: &[u8]) -> Way {
        let Some([from, to]) = identity::hosts(frame).filter(|_| !self.sides.is_empty()) else { return Way::There };
        match (self.sides.get(&from), self.sides.get(&to)) {
            (Some(way), _) => *way,
            // To a host whose own frames go there.
            (None, Some(Way::There)) => Way::Back,
            (None, _) => Way::There,
        }
    }

    /// Gives the key of a frame, or those of its parts; whether these are parts.
    pub(super) fn keys(&self, frame: &[u8], each: impl FnMut(Option<Key>)) -> bool {
        self.cuts.keys(self.identity, frame, each)
    }
}

/// A frame as one tap saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Option<u64>,
    from: Option<u64>,
}

/// The side of each host, by the order in which the taps saw its frames; empty where all are on one
/// side.
fn sides(taps: &[[&HashMap<Key, Seen>; 2]]) -> HashMap<u64, Way> {
    // How many of a host's frames go there, and how many back.
    let mut votes: HashMap<u64, [u32; 2]> = HashMap::new();
    let behind =
        taps.iter().flat_map(|[before, after]| after.iter().map(move |(key, behind)| (before.get(key), behind)));
    for (entered, behind) in behind {
        let Some(entered) = entered else { continue };
        let (Some(first), Some(second)) = (entered.at, behind.at) else { continue };
        // A translator makes one host two.
        let hosts: HashSet<u64> = [entered.from, behind.from].into_iter().flatten().collect();
        for host in hosts {
            votes.entry(host).or_default()[usize::from(second < first)] += 1;
        }
    }
    let side = |(host, [there, back]): (u64, [u32; 2])| {
        let all = there + back;
        let clear = |n: u32| n >= ENOUGH && f64::from(n) >= CLEAR * f64::from(all);
        match (clear(there), clear(back)) {
            (true, _) => Some((host, Way::There)),
            (_, true) => Some((host, Way::Back)),
            _ => None,
        }
    };
    let sides: HashMap<u64, Way> = votes.into_iter().filter_map(side).collect();
    let is_there = |way: Way| sides.values().any(|side| *side == way);
    if is_there(Way::There) && is_there(Way::Back) { sides } else { HashMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::samples::generated;
    use clock::Instant;
    use wire::capture::{Interface, PcapngWriter, Resolution};

    /// A UDP datagram between hosts of these numbers.
    fn datagram([from, to]: [u8; 2], n: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0, 0x45, 0, 0, 36, 0, n, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        frame.extend([0, 1, 0, 2, 0, 16, 0, 0]);
        frame.extend([n; 8]);
        frame
    }

    fn capture(frames: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        writer.interface(&Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS)).unwrap();
        for (at, bytes) in frames {
            writer.frame(&wire::Frame::new(1, Instant::from_nanos(at), LinkType::ETHERNET, &bytes), &[]).unwrap();
        }
        writer.get_ref().clone()
    }

    #[test]
    fn what_frames_are_decides_how_they_are_recognised() {
        let from = |host| capture((0..20).map(|n| (7, datagram([host, 2], n))));
        let (inside, outside) = (from(1), from(99));
        let ids = capture((1..3).map(|id| (id, generated(id))));
        let by = |before: &[u8], after: &[u8]| Survey::of([before, after], None, true).unwrap().identity;
        assert_eq!(by(&inside, &inside), Identity::Content { translated: false });
        assert_eq!(by(&inside, &outside), Identity::Content { translated: true });
        assert_eq!(by(&ids, &ids), Identity::Id);
        assert_eq!(by(&inside, &ids), Identity::Content { translated: false });
    }

    #[test]
    fn hosts_are_on_the_side_from_which_their_frames_come() {
        // Host 1 before the device, 2 behind it; 3 sends too little to tell.
        let at = |tap: u64, n: u64, from: u8| n * 1_000 + if (from == 1) == (tap == 1) { 50 } else { 0 };
        let file = |tap: u64| {
            let frames = (0..40u64).map(move |n| {
                let ends = if n % 2 == 0 { [1, 2] } else { [2, 1] };
                (at(tap, n, ends[0]), datagram(ends, n as u8))
            });
            capture(frames)
        };
        let both = [file(0), file(1)];
        let of = |one_clock| Survey::of([&both[0][..], &both[1][..]], None, one_clock).unwrap();
        let survey = of(true);
        assert_eq!(survey.ways(), [Way::There, Way::Back]);
        let way = |ends| survey.way(&datagram(ends, 0));
        assert_eq!(
            [way([1, 2]), way([2, 1]), way([3, 1]), way([3, 2])],
            [Way::There, Way::Back, Way::Back, Way::There]
        );
        // Of two clocks the order of times says nothing.
        assert_eq!(of(false).ways(), [Way::There]);
        // All on one side: the taps are swapped, or their times not exact.
        let one_way = Survey::of([&both[1][..], &both[1][..]], None, true).unwrap();
        assert_eq!(one_way.ways(), [Way::There]);
    }
}
