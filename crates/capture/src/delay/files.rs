//! Two capture files in which the frames of a device are seen.

use std::collections::HashMap;
use std::io::Read;

use wire::{Capture, CaptureError, LinkType};

use super::join::{Join, Seen};
use super::survey::{FIRST, Survey, Way};
use super::{Account, Recording, Tap};

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
    /// Frames of flows that the taps saw cut differently: each counts as its parts.
    pub in_parts: u64,
}

/// Frames between two looks at the other file.
const TURN: usize = 4096;

/// How far the clock of the second file is ahead, by the frames at the beginning of both: the least
/// difference between the two times of a frame, nanoseconds. `None` where they have no frame in
/// common.
///
/// # Errors
/// As [`read`].
pub fn clock_difference<'a>(
    files: [impl Read + Send + 'a; 2],
    survey: &Survey,
) -> Result<Option<i64>, (Tap, CaptureError)> {
    let [before, after] = files;
    let first = |tap, file| -> Result<Vec<Seen>, (Tap, CaptureError)> {
        let failed = |error| (tap, error);
        let mut capture = Capture::from_reader(file).map_err(failed)?;
        let (mut frames, mut about) = (Vec::new(), FileTap::default());
        while frames.len() < FIRST {
            let mut more = Vec::new();
            let ended = turn(&mut capture, survey, Way::There, &mut about, &mut more).map_err(failed)?;
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

/// Joins the frames of two capture files that go `way`, which are read side by side: memory is
/// bounded whatever they hold. The first file is the one of the tap that sees them first. The clock
/// of the second is taken to be `ahead_ns` ahead.
///
/// # Errors
/// [`CaptureError`] with the tap, where a file is no capture or cannot be read.
pub fn read<'a>(
    files: [impl Read + Send + 'a; 2],
    survey: &Survey,
    way: Way,
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
        let ended = turn(capture, survey, way, about, &mut frames).map_err(|error| (tap, error))?;
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
    survey: &Survey,
    way: Way,
    about: &mut FileTap,
    frames: &mut Vec<Seen>,
) -> Result<bool, CaptureError> {
    while frames.len() < TURN {
        let Some(frame) = capture.next_frame()? else { return Ok(true) };
        let is_read = frame.link_type == LinkType::ETHERNET;
        if is_read && survey.way(frame.data) != way {
            continue;
        }
        match frame.at.map(|at| at.as_nanos()) {
            Some(at) if is_read => {
                about.in_parts += u64::from(survey.keys(frame.data, |key| frames.push((at, key))));
            }
            Some(at) => frames.push((at, None)),
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
    use crate::delay::Identity;
    use crate::delay::samples::generated;
    use clock::Instant;
    use wire::capture::{Interface, PcapngWriter, Resolution};

    /// A capture of frames with these ids at these times.
    fn capture(frames: &[(u64, u64)]) -> Vec<u8> {
        frames_at(&frames.iter().map(|(id, at)| (*at, generated(*id))).collect::<Vec<_>>())
    }

    /// What frames with an id are joined by.
    fn by_id() -> Survey {
        let survey = Survey::default();
        assert_eq!(survey.identity, Identity::Id);
        survey
    }

    fn frames_at(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        let mut interface = Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS);
        interface.name = Some("tap0".into());
        writer.interface(&interface).unwrap();
        for (at, bytes) in frames {
            writer.frame(&wire::Frame::new(1, Instant::from_nanos(*at), LinkType::ETHERNET, bytes), &[]).unwrap();
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
        let read = read([&capture(&before)[..], &capture(&after)[..]], &by_id(), Way::There, 0).unwrap();
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
        let ahead = clock_difference(both(), &by_id()).unwrap().unwrap();
        assert_eq!(ahead, -4_000_000_000 + 103);
        assert_eq!(read(both(), &by_id(), Way::There, ahead).unwrap().account.matched, 97);
        assert_eq!(clock_difference([&files[0][..], &capture(&[(500, 1)])[..]], &by_id()).unwrap(), None);
    }

    #[test]
    fn frames_of_many_segments_are_joined_by_their_parts() {
        use crate::delay::cuts::tests::segment;
        // The sender's offload makes one frame of ten segments; one of the second frame is lost and
        // retransmitted.
        let before: Vec<(u64, Vec<u8>)> =
            (0..100u32).map(|n| (1_000_000 * u64::from(n), segment(n * 10_000, 10_000))).collect();
        let lost = 10_000 + 3_000;
        let part = |n: u32| (1_000_000 * u64::from(n / 10) + 500 + u64::from(n % 10), segment(n * 1_000, 1_000));
        let again = (300_000_000, segment(lost, 1_000));
        let mut after: Vec<(u64, Vec<u8>)> = (0..1_000).filter(|n| n * 1_000 != lost).map(part).collect();
        after.push((again.0 + 500, again.1.clone()));
        let before: Vec<(u64, Vec<u8>)> = before.into_iter().chain([again]).collect();
        let files = [before, after].map(|frames| frames_at(&frames));
        let both = || [&files[0][..], &files[1][..]];
        let survey = Survey::of(both(), None, true).unwrap();
        let read = read(both(), &survey, Way::There, 0).unwrap();
        let a = read.account;
        assert_eq!((a.matched, a.lost, a.unexplained, a.duplicated), (1_000, 1, 0, 0), "{a:?}");
        // None has the time to its retransmission for a delay.
        let figures = read.recording.figures(a, Default::default());
        assert!(figures.quantiles.unwrap()[7] < 1_000.0, "{figures:?}");
        assert_eq!((read.taps[0].in_parts, read.taps[1].in_parts), (101, 1_000));
    }

    #[test]
    fn each_direction_has_its_own_delay() {
        let frame = |from: u8, n: u8| {
            let mut frame = vec![0; 12];
            frame.extend([0x08, 0, 0x45, 0, 0, 36, 0, n, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, 3 - from]);
            frame.extend([0, 1, 0, 2, 0, 16, 0, 0, n, n, n, n, n, n, n, n]);
            frame
        };
        let file = |delays: [u64; 2]| {
            let of = |n: u8, from: u8| (u64::from(n) * 1_000_000 + delays[usize::from(from) - 1], frame(from, n));
            let mut frames: Vec<(u64, Vec<u8>)> = (0..100).flat_map(|n| [of(n, 1), of(n, 2)]).collect();
            frames.sort();
            frames_at(&frames)
        };
        // 30 µs there and 70 µs back.
        let files = [file([0, 70_000]), file([30_000, 0])];
        let survey = Survey::of([&files[0][..], &files[1][..]], None, true).unwrap();
        for (way, order, delay) in [(Way::There, [0, 1], 30_000), (Way::Back, [1, 0], 70_000)] {
            let read = read(order.map(|i: usize| &files[i][..]), &survey, way, 0).unwrap();
            let a = read.account;
            assert_eq!((a.before, a.after, a.matched), (100, 100, 100), "{a:?}");
            let mean = read.recording.figures(a, Default::default()).mean.unwrap().value;
            assert!((mean - f64::from(delay)).abs() < 1.0, "{mean}");
        }
    }

    #[test]
    fn a_file_that_is_no_capture_is_named_by_its_tap() {
        let good = capture(&[(1, 1)]);
        let refused = read([&good[..], b"no capture at all"], &by_id(), Way::There, 0);
        assert!(matches!(refused, Err((Tap::After, _))));
    }
}
