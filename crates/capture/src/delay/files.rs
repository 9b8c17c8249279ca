//! Two capture files in which the frames of a device are seen.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use wire::{Capture, CaptureError, LinkType};

use super::join::{Join, Seen};
use super::{Account, Identity, Key, Recording, Tap};

/// What two capture files hold.
pub struct FromFiles {
    /// What became of the frames.
    pub account: Account,
    /// The matched ones.
    pub recording: Recording,
    /// Of each file: its interface, how it was captured, and what is missing.
    pub taps: [FileTap; 2],
}

/// A capture file as a tap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTap {
    /// The interface, where the file names it.
    pub interface: Option<String>,
    /// What else it says: how frames were received, and by which clock they were stamped.
    pub description: Option<String>,
    /// Frames without a time, which are in no other count.
    pub untimed: u64,
    /// Frames that the capturing machine dropped, by the file's own statistics.
    pub dropped: u64,
    /// Records that cannot be decoded.
    pub damaged: u64,
}

/// Frames between two looks at the other file.
const TURN: usize = 4096;

/// Frames at the beginning of each file by which two clocks are laid on each other.
const FIRST: usize = 100_000;

/// How far the clock of the second file is ahead, by the frames at the beginning of both: the least
/// difference between the two times of a frame, nanoseconds. `None` where they have no frame in
/// common.
///
/// # Errors
/// As [`read`].
pub fn clock_difference<'a>(
    files: [impl Read + Send + 'a; 2],
    identity: Identity,
) -> Result<Option<i64>, (Tap, CaptureError)> {
    let [before, after] = files;
    let first = |tap, file| -> Result<Vec<Seen>, (Tap, CaptureError)> {
        let failed = |error| (tap, error);
        let mut capture = Capture::from_reader(file).map_err(failed)?;
        let (mut frames, mut about) = (Vec::new(), FileTap::default());
        while frames.len() < FIRST {
            let mut more = Vec::new();
            let ended = turn(&mut capture, identity, &mut about, &mut more).map_err(failed)?;
            frames.append(&mut more);
            if ended {
                break;
            }
        }
        Ok(frames)
    };
    let mut entered = HashMap::new();
    for (at, key) in first(Tap::Before, before)? {
        entered.entry(key).or_insert(at);
    }
    let behind = first(Tap::After, after)?;
    let differences = behind.iter().filter(|seen| seen.1.is_some()).filter_map(|(at, key)| {
        let entered = entered.get(key)?;
        i64::try_from(i128::from(*at) - i128::from(*entered)).ok()
    });
    Ok(differences.min())
}

/// By what the frames at the beginning of two captures are recognised: by the ids of `generate`
/// where they have such, else by content, and without addresses and ports where only that finds
/// most of them again.
///
/// # Errors
/// As [`read`].
pub fn recognised_by<'a>(files: [impl Read + Send + 'a; 2]) -> Result<Identity, (Tap, CaptureError)> {
    let [content, translated] = [false, true].map(|translated| Identity::Content { translated });
    let identities = [Identity::Id, content, translated];
    let mut seen: [[Vec<Key>; 3]; 2] = Default::default();
    for ((tap, file), keys) in [Tap::Before, Tap::After].into_iter().zip(files).zip(&mut seen) {
        let failed = |error| (tap, error);
        let mut capture = Capture::from_reader(file).map_err(failed)?;
        for _ in 0..FIRST {
            let Some(frame) = capture.next_frame().map_err(failed)? else { break };
            if frame.link_type == LinkType::ETHERNET {
                identities.iter().zip(&mut *keys).for_each(|(identity, keys)| keys.extend(identity.key(frame.data)));
            }
        }
    }
    let [before, after] = &seen;
    let common = |place: usize| {
        let entered: HashSet<Key> = before[place].iter().copied().collect();
        after[place].iter().filter(|key| entered.contains(key)).count()
    };
    Ok(match (common(0), common(1), common(2)) {
        (1.., ..) => Identity::Id,
        (0, same, without_addresses) if without_addresses > 2 * same => translated,
        _ => content,
    })
}

/// Joins the frames of two capture files, which are read side by side: memory is bounded whatever
/// they hold. The clock of the second file is taken to be `ahead_ns` ahead.
///
/// # Errors
/// [`CaptureError`] with the tap, where a file is no capture or cannot be read.
pub fn read<'a>(
    files: [impl Read + Send + 'a; 2],
    identity: Identity,
    ahead_ns: i64,
) -> Result<FromFiles, (Tap, CaptureError)> {
    let [before, after] = files;
    let open = |tap, file| Capture::from_reader(file).map(Some).map_err(|error| (tap, error));
    let mut captures = [open(Tap::Before, before)?, open(Tap::After, after)?];
    let mut taps = [FileTap::default(), FileTap::default()];
    let mut join = Join::default();
    let mut frames = Vec::with_capacity(TURN);
    while captures.iter().any(Option::is_some) {
        // The file that is behind in time goes on.
        let [one, other] = join.read_up_to();
        let tap = match (&captures, one <= other) {
            ([Some(_), None], _) | ([Some(_), Some(_)], true) => Tap::Before,
            _ => Tap::After,
        };
        let Some(capture) = &mut captures[tap as usize] else { break };
        let about = &mut taps[tap as usize];
        let ended = turn(capture, identity, about, &mut frames).map_err(|error| (tap, error))?;
        let ahead = if tap == Tap::After { ahead_ns } else { 0 };
        let set_back = frames.drain(..).map(|(at, key)| (at.saturating_sub_signed(ahead), key));
        join.take(tap, set_back, if ended { u64::MAX } else { 0 });
        if ended {
            about.finish(capture);
            captures[tap as usize] = None;
        }
    }
    let (account, recording) = join.finish();
    Ok(FromFiles { account, recording, taps })
}

/// Reads up to [`TURN`] frames; gives whether the file has ended.
fn turn(
    capture: &mut Capture<'_>,
    identity: Identity,
    about: &mut FileTap,
    frames: &mut Vec<Seen>,
) -> Result<bool, CaptureError> {
    while frames.len() < TURN {
        let Some(frame) = capture.next_frame()? else { return Ok(true) };
        let key = if frame.link_type == LinkType::ETHERNET { identity.key(frame.data) } else { None };
        match frame.at {
            Some(at) => frames.push((at.as_nanos(), key)),
            None => about.untimed += 1,
        }
    }
    Ok(false)
}

impl FileTap {
    fn finish(&mut self, capture: &Capture<'_>) {
        let interfaces = capture.interfaces();
        self.interface = interfaces.first().and_then(|i| i.name.clone());
        self.description = interfaces.first().and_then(|i| i.description.clone());
        let missed = interfaces.iter().map(|i| i.dropped.unwrap_or(0) + i.dropped_by_system.unwrap_or(0));
        self.dropped = missed.sum();
        self.damaged = capture.problems().total();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::samples::generated;
    use clock::Instant;
    use wire::capture::{Interface, PcapngWriter, Resolution};

    /// A capture of frames with these ids at these times.
    fn capture(frames: &[(u64, u64)]) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        let mut interface = Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS);
        interface.name = Some("tap0".into());
        writer.interface(&interface).unwrap();
        for (id, at) in frames {
            let bytes = generated(*id);
            writer.frame(&wire::Frame::new(1, Instant::from_nanos(*at), LinkType::ETHERNET, &bytes), &[]).unwrap();
        }
        writer.get_ref().clone()
    }

    #[test]
    fn ids_that_are_lost_doubled_and_swapped_on_purpose_are_counted_exactly() {
        let n = 30_000u64;
        let before: Vec<(u64, u64)> = (0..n).map(|id| (id, 1_000_000_000 + id * 10_000)).collect();
        let mut after = Vec::new();
        let (mut lost, mut doubled) = (0, 0);
        for &(id, at) in &before {
            match id % 1_000 {
                7 | 8 => lost += 1,
                500 => {
                    doubled += 1;
                    after.extend([(id, at + 50_000), (id, at + 50_100)]);
                }
                _ => after.push((id, at + 50_000)),
            }
        }
        let swaps: Vec<usize> = (0..after.len() - 1).step_by(4_999).collect();
        for &i in &swaps {
            let ((a, at), (b, later)) = (after[i], after[i + 1]);
            assert_ne!(a, b);
            (after[i], after[i + 1]) = ((b, at), (a, later));
        }
        let read = read([&capture(&before)[..], &capture(&after)[..]], Identity::Id, 0).unwrap();
        let a = read.account;
        assert_eq!((a.before, a.after, a.matched), (n, after.len() as u64, n - lost));
        assert_eq!((a.lost, a.duplicated, a.reordered), (lost, doubled, swaps.len() as u64));
        assert_eq!((a.unexplained, a.unrecognised, a.not_kept), (0, 0, 0));
        assert_eq!(read.taps[0].interface.as_deref(), Some("tap0"));
    }

    #[test]
    fn a_clock_that_is_ahead_is_set_back_by_the_least_difference() {
        let before: Vec<(u64, u64)> = (0..100).map(|id| (id, 5_000_000_000 + id * 1_000)).collect();
        let after: Vec<(u64, u64)> =
            before.iter().skip(3).map(|(id, at)| (*id, at - 4_000_000_000 + 100 + id)).collect();
        let files = [capture(&before), capture(&after)];
        let both = || [&files[0][..], &files[1][..]];
        let ahead = clock_difference(both(), Identity::Id).unwrap().unwrap();
        assert_eq!(ahead, -4_000_000_000 + 103);
        assert_eq!(read(both(), Identity::Id, ahead).unwrap().account.matched, 97);
        assert_eq!(clock_difference([&files[0][..], &capture(&[(500, 1)])[..]], Identity::Id).unwrap(), None);
    }

    #[test]
    fn what_frames_are_decides_how_they_are_recognised() {
        // As `generated`, without an id that both would have: a UDP datagram from this address.
        let datagram = |from: [u8; 4], n: u8| {
            let mut frame = vec![0; 12];
            frame.extend([0x08, 0, 0x45, 0, 0, 36, 0, n, 0x40, 0, 64, 17, 0, 0]);
            frame.extend(from);
            frame.extend([10, 0, 0, 2, 0, 1, 0, 2, 0, 16, 0, 0]);
            frame.extend([n; 8]);
            frame
        };
        let capture_of = |frames: &[Vec<u8>]| {
            let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
            writer.interface(&Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS)).unwrap();
            for bytes in frames {
                writer.frame(&wire::Frame::new(1, Instant::from_nanos(7), LinkType::ETHERNET, bytes), &[]).unwrap();
            }
            writer.get_ref().clone()
        };
        let from = |address| capture_of(&(0..20).map(|n| datagram(address, n)).collect::<Vec<_>>());
        let (inside, outside, ids) = (from([10, 0, 0, 1]), from([192, 0, 2, 1]), capture(&[(1, 1), (2, 2)]));
        let by = |before: &[u8], after: &[u8]| recognised_by([before, after]).unwrap();
        assert_eq!(by(&inside, &inside), Identity::Content { translated: false });
        assert_eq!(by(&inside, &outside), Identity::Content { translated: true });
        assert_eq!(by(&ids, &ids), Identity::Id);
        assert_eq!(by(&inside, &ids), Identity::Content { translated: false });
    }

    #[test]
    fn a_file_that_is_no_capture_is_named_by_its_tap() {
        let good = capture(&[(1, 1)]);
        let refused = read([&good[..], b"no capture at all"], Identity::Id, 0);
        assert!(matches!(refused, Err((Tap::After, _))));
    }
}
