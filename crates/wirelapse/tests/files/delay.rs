//! `wirelapse delay` on capture files: what is lost, doubled, swapped, raised and drifting on
//! purpose is found.

use std::path::{Path, PathBuf};
use std::process::Output;

use record::Instant;
use serde_json::Value;
use tier::text;
use wire::LinkType;
use wire::capture::{Interface, PcapngWriter, Resolution};

fn delay(before: &Path, after: &Path, words: &[&str]) -> Output {
    let mut command = tier::wirelapse!(["delay"]);
    command.arg("--before").arg(before).arg("--after").arg(after).args(words);
    command.output().unwrap()
}

/// The JSON lines of a run that has to succeed.
fn lines(before: &Path, after: &Path, words: &[&str]) -> Vec<Value> {
    let output = delay(before, after, &[&["--json"], words].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A UDP frame over IPv4 with an id as `wirelapse generate` puts it: magic, id, time.
fn frame(id: u64) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame.extend([0x23, 0x28, 0, 9, 0, 26, 0, 0]);
    frame.extend(*b"WL");
    frame.extend(id.to_be_bytes());
    frame.extend([0; 8]);
    frame
}

/// A capture file of frames at these times.
fn write(dir: &Path, name: &str, frames: impl IntoIterator<Item = (u64, Vec<u8>)>) -> PathBuf {
    let path = dir.join(name);
    let mut writer = PcapngWriter::new(std::fs::File::create(&path).unwrap(), "test").unwrap();
    writer.interface(&Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS)).unwrap();
    for (at, bytes) in frames {
        let frame = wire::Frame::new(1, Instant::from_nanos(at), LinkType::ETHERNET, &bytes);
        writer.frame(&frame, &[]).unwrap();
    }
    path
}

const BEGIN: u64 = 1_700_000_000_000_000_000;
const GAP: u64 = 10_000;

/// Both files of so many frames, with the delay of each.
fn files(dir: &Path, n: u64, delay_of: impl Fn(u64) -> u64) -> [PathBuf; 2] {
    let at = |id: u64| BEGIN + id * GAP;
    let mut after: Vec<(u64, u64)> = (0..n).map(|id| (at(id) + delay_of(id), id)).collect();
    after.sort_unstable();
    [
        write(dir, "before.pcapng", (0..n).map(|id| (at(id), frame(id)))),
        write(dir, "after.pcapng", after.into_iter().map(|(at, id)| (at, frame(id)))),
    ]
}

/// A wobble of up to 400 ns without a pattern.
fn wobble(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0x1ff
}

#[test]
fn frames_lost_doubled_and_swapped_on_purpose_are_counted_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let at = |id: u64| BEGIN + id * GAP;
    let before = write(dir.path(), "a.pcapng", (0..10_000).map(|id| (at(id), frame(id))));
    let mut after = Vec::new();
    for id in 0..10_000u64 {
        let left = at(id) + 100_000;
        match id % 100 {
            3 => {}
            // Twelve µs later: behind the next one.
            40 => after.push((left + 12_000, id)),
            70 => after.extend([(left, id), (left + 50, id)]),
            _ => after.push((left, id)),
        }
    }
    after.push((at(9_000), 77_777));
    after.sort_unstable();
    let after = write(dir.path(), "b.pcapng", after.into_iter().map(|(at, id)| (at, frame(id))));
    let line = &lines(&before, &after, &[])[0];
    for (key, wanted) in [
        ("before_frames", 10_000),
        ("after_frames", 10_001),
        ("matched", 9_900),
        ("lost", 100),
        ("duplicated", 100),
        ("reordered", 100),
        ("unexplained", 1),
        ("unrecognised", 0),
    ] {
        assert_eq!(line[key], wanted, "{key}: {line}");
    }
    let said = text(&delay(&before, &after, &[]).stdout);
    assert!(said.contains("100 lost, 100 duplicated, 100 reordered"), "{said}");
}

/// A TCP segment over IPv4 between hosts 1 and 2, with so many bytes from this number on.
fn segment(from: u8, start: u32, length: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0];
    frame.extend((40 + length).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, 3 - from, 0, 80, 0, 80]);
    frame.extend(start.to_be_bytes());
    frame.extend([0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame
}

/// Two captures as people take them: both directions, and the one at the sender before its NIC has
/// cut frames into segments.
#[test]
fn both_directions_have_their_own_delay_and_frames_that_were_cut_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let at = |n: u32, delay: u64| BEGIN + u64::from(n) * 1_000_000 + delay;
    let small = |n: u32| segment(2, n * 10, 10);
    let near = (0..500).flat_map(|n| [(at(n, 0), segment(1, n * 4_000, 4_000)), (at(n, 290_000), small(n))]);
    let far = (0..500).flat_map(|n| {
        let parts =
            (0..4).map(move |part| (at(n, 40_000 + u64::from(part)), segment(1, (n * 4 + part) * 1_000, 1_000)));
        parts.chain([(at(n, 200_000), small(n))])
    });
    let (before, after) = (write(dir.path(), "near.pcapng", near), write(dir.path(), "far.pcapng", far));
    let all = lines(&before, &after, &[]);
    let delays: Vec<&Value> = all.iter().filter(|line| line["kind"] == "delay").collect();
    let near = before.to_str().unwrap();
    for (line, first, matched, in_parts, mean) in
        [(delays[0], near, 2_000, [500, 2_000], 40_001.5), (delays[1], after.to_str().unwrap(), 500, [0, 0], 90_000.0)]
    {
        assert_eq!((&line["before"], &line["matched"], &line["lost"]), (&first.into(), &matched.into(), &0.into()));
        assert_eq!((&line["before_in_parts"], &line["after_in_parts"]), (&in_parts[0].into(), &in_parts[1].into()));
        assert!((line["delay_mean_ns"].as_f64().unwrap() - mean).abs() < 1.0, "{line}");
    }
    let said = text(&delay(&before, &after, &[]).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("500 frames before the device and 2,000 behind it count as their parts"), "{said}");
    assert_eq!(said.matches("The mean delay is").count(), 2, "{said}");
}

#[test]
fn a_step_of_50_microseconds_and_back_is_found_with_its_place_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let step = |id: u64| if (25_000..50_000).contains(&id) { 50_000 } else { 0 };
    let [before, after] = files(dir.path(), 75_000, |id| 20_000 + step(id) + wobble(id));
    let page = dir.path().join("delay.html");
    let all = lines(&before, &after, &["--html", page.to_str().unwrap()]);
    let changes: Vec<&Value> = all.iter().filter(|line| line["kind"] == "delay_change").collect();
    let places: Vec<u64> = changes.iter().map(|c| c["frame"].as_u64().unwrap()).collect();
    // The level falls by more than frames are apart: those that leave around that moment are
    // interleaved.
    assert!(places.len() == 2 && places[0] == 25_000 && places[1].abs_diff(50_000) <= 5, "{places:?}");
    for (change, size) in changes.iter().zip([50_000.0, -50_000.0]) {
        let of = |key: &str| change[key].as_f64().unwrap();
        assert!(
            (of("size_ns") - size).abs() < 100.0 && of("low_ns") < size + 50.0 && of("high_ns") > size - 50.0,
            "{change}"
        );
    }
    let frames: u64 = all.iter().filter(|l| l["kind"] == "delay_bin").map(|l| l["frames"].as_u64().unwrap()).sum();
    assert_eq!(frames, 75_000);
    assert!(std::fs::read_to_string(page).unwrap().contains("delay-series"));
}

#[test]
fn a_calibration_is_subtracted_with_its_error_and_only_from_its_own_method() {
    let dir = tempfile::tempdir().unwrap();
    let [before, after] = files(dir.path(), 5_000, |id| 700 + wobble(id));
    let kept = dir.path().join("taps.json");
    let words = ["--calibrate", kept.to_str().unwrap()];
    assert!(delay(&before, &after, &words).status.success());
    assert_eq!(delay(&before, &after, &words).status.code(), Some(2), "overwritten without --force");
    let [before, after] = files(dir.path(), 5_000, |id| 100_700 + wobble(id));
    let line = &lines(&before, &after, &["--calibration", kept.to_str().unwrap()])[0];
    let of = |key: &str| line[key].as_f64().unwrap();
    assert!((of("delay_mean_ns") - 100_000.0).abs() <= of("delay_error_ns"), "{line}");
    assert!(of("offset_error_ns") > 0.0 && of("delay_error_ns") > of("offset_error_ns"));
    let changed = std::fs::read_to_string(&kept).unwrap().replace("\"method\":\"\"", "\"method\":\"xdp\"");
    std::fs::write(&kept, changed).unwrap();
    let refused = delay(&before, &after, &["--calibration", kept.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("same method"), "{}", text(&refused.stderr));
}

#[test]
fn captures_of_two_clocks_are_refused_and_their_drift_removed_on_request() {
    let dir = tempfile::tempdir().unwrap();
    // Ten parts in a million: 10 µs in the second that this takes; and a clock that is 3 s ahead.
    let [before, after] = files(dir.path(), 100_000, |id| 3_000_000_000 + id * GAP / 100_000 + wobble(id));
    assert_eq!(delay(&before, &after, &[]).status.code(), Some(2), "later than a frame is waited for");
    assert_eq!(lines(&before, &after, &["--different-clocks"])[0]["matched"], 100_000);
    let [before, after] = files(dir.path(), 100_000, |id| 30_000 + id * GAP / 100_000 + wobble(id));
    let refused = delay(&before, &after, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    assert!(text(&refused.stderr).contains("--different-clocks"), "{}", text(&refused.stderr));
    let line = &lines(&before, &after, &["--different-clocks"])[0];
    let of = |key: &str| line[key].as_f64().unwrap();
    assert!((of("drift_ppb") - 10_000.0).abs() < 100.0, "{line}");
    assert!(of("delay_min_ns") > -20.0 && of("delay_max_ns") < 600.0 && line["clocks"] == "apart", "{line}");
    let swapped = delay(&after, &before, &[]);
    assert_eq!(swapped.status.code(), Some(2));
}

#[test]
fn foreign_traffic_is_matched_by_content_and_behind_nat_without_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let changed = |id: u64, translated: bool| {
        let mut frame = frame(id);
        frame[..12].fill(7);
        frame[22] -= 1;
        if translated {
            frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
            frame[34..36].copy_from_slice(&[0xee, 0x01]);
        }
        frame
    };
    let at = |id: u64| BEGIN + id * GAP;
    let before = write(dir.path(), "a.pcapng", (0..500).map(|id| (at(id), frame(id))));
    let routed = write(dir.path(), "r.pcapng", (0..500).map(|id| (at(id) + 5_000, changed(id, false))));
    let translated = write(dir.path(), "n.pcapng", (0..500).map(|id| (at(id) + 5_000, changed(id, true))));
    for (after, by) in [(&routed, "content"), (&translated, "nat"), (&routed, "nat"), (&translated, "auto")] {
        assert_eq!(lines(&before, after, &["--match", by])[0]["matched"], 500, "{by}");
    }
    // Of the frames' ids nothing is left.
    let without = |path: &Path, name: &str| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes
            .windows(2)
            .enumerate()
            .filter(|(_, two)| two == b"WL")
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|at| bytes[at] = b'_');
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let before = without(&before, "a-plain.pcapng");
    let (routed, translated) = (without(&routed, "r-plain.pcapng"), without(&translated, "n-plain.pcapng"));
    for (after, by) in [(&routed, "content"), (&translated, "nat")] {
        let line = &lines(&before, after, &[])[0];
        assert_eq!((&line["matched"], &line["matched_by"]), (&500.into(), &by.into()), "{line}");
    }
    for (by, advice) in [("id", "--match content"), ("content", "--match nat")] {
        let output = delay(&before, &translated, &["--match", by]);
        assert_eq!(output.status.code(), Some(1), "{by}");
        assert!(text(&output.stderr).contains(advice), "{by}: {}", text(&output.stderr));
    }
}

#[test]
fn taps_that_cannot_be_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let [before, after] = files(dir.path(), 10, |_| 1);
    let none = dir.path().join("none.pcapng");
    let bad = dir.path().join("bad.pcapng");
    std::fs::write(&bad, "no capture").unwrap();
    for (one, other, wanted) in [
        (before.as_path(), before.as_path(), "two sides"),
        (before.as_path(), Path::new("eth0"), "two capture files"),
        (before.as_path(), none.as_path(), "none.pcapng"),
        (bad.as_path(), after.as_path(), "bad.pcapng"),
        (Path::new("nosuch0"), Path::new("nosuch1"), "nosuch0"),
    ] {
        let output = delay(one, other, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(wanted), "{wanted}: {}", text(&output.stderr));
    }
}

/// Numbers from 0 to 1 without a pattern, the same for the same seed (xorshift64).
struct Draw(u64);

impl Draw {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> f64 {
        for (left, right) in [(13, 7), (17, 0)] {
            self.0 ^= self.0 << left;
            self.0 ^= if right > 0 { self.0 >> right } else { 0 };
        }
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// With an exponential distribution of mean 1.
    fn wait(&mut self) -> f64 {
        -(1.0 - self.next()).ln()
    }
}

const SEEDS: std::ops::Range<u64> = 1..21;

#[test]
fn a_clock_that_drifts_and_wanders_is_distinguished_from_a_step_of_the_device() {
    const N: u64 = 10_000;
    let gap = 1_000_000.0;
    for seed in SEEDS {
        let step = [50_000.0, -50_000.0, 0.0][seed as usize % 3];
        let mut draw = Draw::of(seed);
        // 40 parts in a million either way, and 0.3 more or less in the end, at random.
        let (mut ahead, mut ppb) = (0.0, if seed % 2 == 0 { 40_000.0 } else { -40_000.0 });
        let (mut delays, mut times) = (Vec::new(), Vec::new());
        for id in 0..N {
            ppb += (draw.next() - 0.5) * 10.0;
            ahead += ppb * 1e-9 * gap;
            let held_up = if draw.next() < 0.02 { 100_000.0 * draw.wait() } else { 0.0 };
            let level = if id >= N / 2 { 500_000.0 + step } else { 500_000.0 };
            delays.push(level + 300.0 * draw.wait() + held_up);
            times.push(BEGIN + id * gap as u64 + (delays[id as usize] + ahead) as u64);
        }
        let drift = ahead / (N as f64 * gap) * 1e9;
        let dir = tempfile::tempdir().unwrap();
        let before = write(dir.path(), "a.pcapng", (0..N).map(|id| (BEGIN + id * gap as u64, frame(id))));
        let mut after: Vec<(u64, u64)> = times.into_iter().zip(0..N).collect();
        after.sort_unstable();
        let after = write(dir.path(), "b.pcapng", after.into_iter().map(|(at, id)| (at, frame(id))));

        let refused = delay(&before, &after, &[]);
        assert_eq!(refused.status.code(), Some(2), "seed {seed}: {}", text(&refused.stdout));
        assert!(text(&refused.stderr).contains("different rates"), "seed {seed}: {}", text(&refused.stderr));

        let all = lines(&before, &after, &["--different-clocks"]);
        let of = |key: &str| all[0][key].as_f64().unwrap();
        assert!((of("drift_ppb") - drift).abs() <= of("drift_error_ppb"), "seed {seed}: {drift}, {}", all[0]);
        assert!(of("drift_error_ppb") < 2_000.0, "seed {seed}: {}", all[0]);
        let least = delays.iter().copied().reduce(f64::min).unwrap();
        let mean = delays.iter().sum::<f64>() / N as f64 - least;
        assert!((of("delay_mean_ns") - mean).abs() <= of("delay_error_ns"), "seed {seed}: {mean}, {}", all[0]);
        assert!(of("clock_error_ns") < 10_000.0 && of("least_change_ns") < 20_000.0, "seed {seed}: {}", all[0]);
        let changes: Vec<&Value> = all.iter().filter(|line| line["kind"] == "delay_change").collect();
        assert_eq!(changes.len(), usize::from(step != 0.0), "seed {seed}: {changes:?}");
        for change in changes {
            let of = |key: &str| change[key].as_f64().unwrap();
            assert!(of("low_ns") <= step && step <= of("high_ns"), "seed {seed}: {change}");
            assert!(change["frame"].as_u64().unwrap().abs_diff(N / 2) <= 50, "seed {seed}: {change}");
        }
    }
}

#[test]
fn slots_of_hardware_stamps_are_in_the_error_and_are_no_drift() {
    const N: u64 = 4_000;
    for seed in SEEDS {
        let mut draw = Draw::of(seed);
        // The NIC counts in slots, and skips one now and then. In every other file the traffic is
        // in step with its clock.
        let slot = [8, 80, 16][seed as usize % 3];
        let in_step = seed % 2 == 0;
        let stamp = |at: f64, draw: &mut Draw| {
            let skipped = u64::from(draw.next() < 0.01);
            (at / slot as f64) as u64 * slot + skipped * slot
        };
        let step = 11.5 * slot as f64;
        let wire = 1_003.0;
        let [mut before, mut after] = [Vec::new(), Vec::new()];
        for id in 0..N {
            let at = id as f64 * 1_000_000.0 * 0.8 + if in_step { 0.0 } else { 5_000.0 * draw.next() };
            let delay = wire + if id >= N / 2 { step } else { 0.0 };
            before.push((BEGIN / slot * slot + stamp(at, &mut draw), frame(id)));
            after.push((BEGIN / slot * slot + stamp(at + delay, &mut draw), frame(id)));
        }
        let dir = tempfile::tempdir().unwrap();
        let [before, after] = [write(dir.path(), "a.pcapng", before), write(dir.path(), "b.pcapng", after)];
        let all = lines(&before, &after, &[]);
        let of = |key: &str| all[0][key].as_f64().unwrap();
        let mean = wire + step / 2.0;
        assert_eq!(all[0]["clock_error_ns"], slot, "seed {seed}: {}", all[0]);
        assert!((of("delay_mean_ns") - mean).abs() <= of("delay_error_ns"), "seed {seed}: {mean}, {}", all[0]);
        let changes: Vec<&Value> = all.iter().filter(|line| line["kind"] == "delay_change").collect();
        assert_eq!(changes.len(), 1, "seed {seed}: {changes:?}");
        let of = |key: &str| changes[0][key].as_f64().unwrap();
        assert!(of("low_ns") <= step && step <= of("high_ns"), "seed {seed}: {}", changes[0]);
        assert!(changes[0]["frame"].as_u64().unwrap().abs_diff(N / 2) <= 5, "seed {seed}: {}", changes[0]);
    }
}
