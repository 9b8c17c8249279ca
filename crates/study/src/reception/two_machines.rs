//! The study between two machines with NICs, as the source had it: a script that runs it, and what
//! the script has measured, as an outcome.
//!
//! One machine sends. The other has two ports, each of which gets a copy of every frame, and runs
//! `wirelapse delay` on them for each trial. A trial is a file whose name has its levels.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::delay::QUANTILES;
use capture::{Stamps, Technique};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use record::Nanos;
use serde_json::Value;

use super::outcome::{Measured, Missing, Outcome, Series, Trial};
use super::plan::{CPU, Interface, Plan, frames_a_second};
use super::run::effects;
use crate::Error;

/// The two clocks that stamp: what the page of each is about.
const STAMPS: [Stamps; 2] = [Stamps::Software, Stamps::Hardware];

/// The interface of such an outcome.
pub const NIC: &str = "NIC";

/// How long opening both taps, and what is still on its way at the end, take in a trial.
const AROUND: Duration = Duration::from_secs(4);

/// Bytes of a file that are read.
const LONGEST: u64 = 256 << 20;

/// The part of the script before its trials.
const HEAD: &str = include_str!("two_machines.sh");

impl Plan {
    /// The study between two machines.
    pub fn two_machines(quick: bool, seed: u64) -> Self {
        let trial = Duration::from_secs(if quick { 1 } else { 3 });
        // One kind of interface: that of both ports.
        Self { interfaces: vec![Interface::Veth], trial, ..Self::whole(quick, seed) }
    }

    /// How long the script takes, about.
    pub fn two_machines_forecast(&self) -> Duration {
        let trials = (self.combinations() * STAMPS.len()) as u32 * self.repetitions;
        (self.trial + AROUND) * (trials + self.series.0 * STAMPS.len() as u32)
    }
}

/// The script: what to connect, and every trial in its random order.
pub fn script(plan: &Plan) -> String {
    let mut script = HEAD.to_owned();
    let (seconds, forecast) = (plan.trial.as_secs(), Nanos::from(plan.two_machines_forecast()));
    let _ = write!(script, "\nSECONDS_OF_TRIAL={seconds} # All of it takes about {forecast}.\n\n");
    for block in 0..plan.repetitions {
        let mut trials: Vec<_> = STAMPS
            .iter()
            .flat_map(|stamps| plan.block(block).into_iter().map(move |levels| (*stamps, levels)))
            .collect();
        trials.shuffle(&mut Pcg64Mcg::seed_from_u64(plan.seed.wrapping_add(block.into())));
        for (stamps, [technique, size, rate, cpu, _]) in trials {
            let (technique, size) = (plan.techniques[technique], plan.frame_sizes[size]);
            let (rate, per_second) = (plan.line_rates[rate], frames_a_second(plan.line_rates[rate], size) as u64);
            // Without the frame check sequence, which the NIC adds.
            let (bytes, stamps, cpu) = (size - 4, stamps.name(), CPU[cpu]);
            let name = format!("{stamps}/{block}_{technique}_{size}_{rate}_{cpu}");
            let _ = writeln!(script, "trial {name} {technique} {stamps} {bytes} {per_second} {cpu}");
        }
    }
    for (number, stamps) in (0..plan.series.0).flat_map(|number| STAMPS.map(|stamps| (number, stamps.name()))) {
        let per_second = frames_a_second(1_000_000_000, 256) as u64;
        let _ = writeln!(script, "trial {stamps}/series_{number} rx-ring {stamps} 252 {per_second} idle");
    }
    script
}

/// What the script has measured so far, by each clock.
///
/// # Errors
/// [`Error::Run`] for a directory without results, or a file in it that is none.
pub fn read(directory: &Path) -> Result<Vec<Outcome>, Error> {
    let outcomes: Vec<Outcome> =
        STAMPS.iter().map(|stamps| of(&directory.join(stamps.name()), *stamps)).collect::<Result<_, _>>()?;
    let outcomes: Vec<Outcome> =
        outcomes.into_iter().filter(|o| !o.trials.is_empty() || !o.series.is_empty()).collect();
    if outcomes.is_empty() {
        let problem = "there is no result of the script that `wirelapse study reception --two-machines` prints".into();
        return Err(Error::Run { path: directory.into(), problem });
    }
    Ok(outcomes)
}

/// The levels of a trial, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    block: u32,
    technique: Technique,
    size: u16,
    rate: u64,
    cpu: usize,
}

impl Named {
    fn parse(name: &str) -> Option<Self> {
        let mut words = name.split('_');
        let mut word = || words.next();
        let named = Self {
            block: word()?.parse().ok()?,
            technique: word()?.parse().ok()?,
            size: word()?.parse().ok()?,
            rate: word()?.parse().ok()?,
            cpu: word().and_then(|cpu| CPU.iter().position(|known| *known == cpu))?,
        };
        words.next().is_none().then_some(named)
    }
}

/// Those of one clock.
fn of(directory: &Path, timestamps: Stamps) -> Result<Outcome, Error> {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(directory) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(Error::File { path: directory.into(), source }),
    };
    files.sort();
    let (mut named, mut series, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for path in files {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".json") {
            let lines = lines(&path)?;
            match Named::parse(name) {
                Some(levels) => named.push((levels, measured(&lines, &path)?)),
                None if name.starts_with("series_") => series.push(series_of(&lines, &path)?),
                None => {}
            }
        } else if let Some(Named { technique, .. }) = file.strip_suffix(".failed").and_then(Named::parse) {
            let text = String::from_utf8_lossy(&read_file(&path)?).trim().to_owned();
            let failed = Missing { technique: technique.name().into(), timestamps, reason: text };
            if !missing.contains(&failed) {
                missing.push(failed);
            }
        }
    }
    let levels = |of: fn(&Named) -> u64| named.iter().map(|(n, _)| of(n)).collect::<BTreeSet<u64>>();
    let techniques: Vec<Technique> =
        Technique::ALL.into_iter().filter(|t| named.iter().any(|(n, _)| n.technique == *t)).collect();
    let sizes: Vec<u16> = levels(|n| n.size.into()).into_iter().map(|size| size as u16).collect();
    let rates: Vec<u64> = levels(|n| n.rate).into_iter().collect();
    let trials: Vec<Trial> = named
        .iter()
        .filter_map(|(n, measured)| {
            let place = [
                techniques.iter().position(|t| *t == n.technique)?,
                sizes.iter().position(|size| *size == n.size)?,
                rates.iter().position(|rate| *rate == n.rate)?,
                n.cpu,
                0,
            ];
            Some(Trial { block: n.block, levels: place, measured: measured.clone() })
        })
        .collect();
    let plan = Plan {
        techniques: techniques.clone(),
        frame_sizes: sizes.clone(),
        line_rates: rates.clone(),
        ..Plan::two_machines(false, 1)
    };
    Ok(Outcome {
        seed: plan.seed,
        quick: false,
        timestamps,
        trial: named.first().map_or(Nanos::ZERO, |(_, m)| m.lasted()),
        blocks: trials.iter().map(|t| t.block + 1).max().unwrap_or(0),
        finished: true,
        techniques: techniques.iter().map(|t| t.name().into()).collect(),
        frame_sizes: sizes,
        interfaces: vec![NIC.into()],
        line_rates: rates,
        effects: effects(&plan, &trials),
        trials,
        missing,
        source_per_second: 0.0,
        lossless: Vec::new(),
        series,
        step: None,
        step_missing: Some("between two machines the cable is what is changed, by hand".into()),
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    store::regular::read(path, LONGEST).map_err(|source| Error::File { path: path.into(), source })
}

/// The objects of a file, one a line.
fn lines(path: &Path) -> Result<Vec<Value>, Error> {
    let text = read_file(path)?;
    let parsed: Result<Vec<Value>, _> =
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice).collect();
    parsed.map_err(|error| Error::Run { path: path.into(), problem: format!("these are no lines of JSON: {error}") })
}

/// The line of this kind.
fn line<'a>(lines: &'a [Value], kind: &str, path: &Path) -> Result<&'a Value, Error> {
    lines.iter().find(|line| line["kind"] == kind).ok_or_else(|| {
        let problem = format!("there is no line of kind {kind:?}: remove the file, and the script measures it again");
        Error::Run { path: path.into(), problem }
    })
}

fn measured(lines: &[Value], path: &Path) -> Result<Measured, Error> {
    let (delay, sent) = (line(lines, "delay", path)?, line(lines, "generate", path)?);
    let count = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
    let both = |of: &str| ["before", "after"].map(|tap| count(delay, &format!("{tap}_{of}")));
    let (received, dropped) = (both("frames"), both("dropped"));
    Ok(Measured {
        sent: count(sent, "frames").saturating_sub(count(sent, "dropped")),
        per_second: sent["frames_per_second"].as_f64().unwrap_or(0.0),
        arrived: [0, 1].map(|tap| received[tap] + dropped[tap]),
        received,
        dropped,
        unstamped: both("unstamped").iter().sum(),
        matched: count(delay, "matched"),
        lost: count(delay, "lost"),
        duplicated: count(delay, "duplicated"),
        unexplained: count(delay, "unexplained"),
        reordered: count(delay, "reordered"),
        mean_ns: delay["delay_mean_ns"].as_f64(),
        deviation_ns: delay["delay_deviation_ns"].as_f64(),
        cpu_ns: None,
    })
}

fn series_of(lines: &[Value], path: &Path) -> Result<Series, Error> {
    let (delay, sent) = (line(lines, "delay", path)?, line(lines, "generate", path)?);
    let quantile = |name: &str| delay[format!("delay_{name}_ns")].as_f64();
    let quantiles: Option<Vec<f64>> =
        ["min", "p1", "p10", "p50", "p90", "p99", "p999", "max"].into_iter().map(quantile).collect();
    let of_kind = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or(f64::NAN);
    let mut first = 0.0;
    let stretches = of_kind("delay_stretch").map(|stretch| {
        let begins = first;
        first += number(stretch, "frames");
        [begins, number(stretch, "min_ns"), number(stretch, "mean_ns"), number(stretch, "max_ns")]
    });
    Ok(Series {
        n: delay["n"].as_u64().unwrap_or(0) as usize,
        sent: sent["frames"].as_u64().unwrap_or(0),
        mean_ns: delay["delay_mean_ns"].as_f64(),
        deviation_ns: delay["delay_deviation_ns"].as_f64(),
        quantiles_ns: quantiles.and_then(|all| <[f64; QUANTILES.len()]>::try_from(all).ok()),
        stretches: stretches.collect(),
        medians_ns: of_kind("delay_stretch").map(|stretch| number(stretch, "median_ns")).collect(),
        changes: of_kind("delay_change")
            .map(|change| ["frame", "size_ns", "low_ns", "high_ns"].map(|key| number(change, key)))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reception::compare;

    #[test]
    fn the_script_has_each_trial_of_each_clock_once_and_bash_reads_it() {
        let plan = Plan::two_machines(true, 1);
        let script = script(&plan);
        let names: Vec<&str> =
            script.lines().filter_map(|line| line.strip_prefix("trial ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 2 * 3 * plan.combinations() + 2 * 5);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let known = |name: &str| {
            let (clock, trial) = name.split_once('/').unwrap();
            ["software", "hardware"].contains(&clock) && (trial.starts_with("series") || Named::parse(trial).is_some())
        };
        assert!(names.iter().all(|name| known(name)), "{names:?}");
        // Not clock after clock.
        let first = names.iter().take(names.len() / 6).filter(|name| name.starts_with("soft")).count();
        assert!((10..names.len() / 6 - 10).contains(&first), "{first}");
        let mut bash = std::process::Command::new("bash");
        let checked = bash.arg("-n").arg("-c").arg(&script).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }

    /// What both commands would say of a trial.
    fn trial(directory: &Path, name: &str, deviation: f64) {
        let path = directory.join(format!("{name}.json"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let delay = serde_json::json!({"kind": "delay", "before_frames": 990, "after_frames": 980, "before_dropped": 10,
            "matched": 980, "lost": 10, "n": 980, "delay_mean_ns": 88.0, "delay_deviation_ns": deviation,
            "delay_min_ns": 70.0, "delay_p1_ns": 72.0, "delay_p10_ns": 80.0, "delay_p50_ns": 88.0,
            "delay_p90_ns": 96.0, "delay_p99_ns": 104.0, "delay_p999_ns": 105.0, "delay_max_ns": 110.0});
        let stretch = serde_json::json!({"kind": "delay_stretch", "frames": 980, "min_ns": 70, "median_ns": 88.0,
            "mean_ns": 88.0, "max_ns": 110});
        let sent = serde_json::json!({"kind": "generate", "frames": 1_000, "dropped": 0, "frames_per_second": 1e3});
        std::fs::write(path, format!("{delay}\n{stretch}\n{sent}\n")).unwrap();
    }

    #[test]
    fn what_the_script_measured_is_read_back_and_set_beside_the_source() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(Error::Run { .. })));
        for block in 0..3 {
            for (technique, deviation) in [("rx-ring", 12.0), ("recvmmsg", 13.0)] {
                for cpu in CPU {
                    let wobble = f64::from(block) / 10.0;
                    trial(dir.path(), &format!("hardware/{block}_{technique}_64_1000000000_{cpu}"), deviation + wobble);
                }
            }
        }
        trial(dir.path(), "hardware/series_0", 12.0);
        std::fs::write(dir.path().join("hardware/0_xdp_64_1000000000_idle.failed"), "no such device\n").unwrap();
        let outcomes = read(dir.path()).unwrap();
        let [outcome] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((outcome.timestamps, outcome.blocks, outcome.trials.len()), (Stamps::Hardware, 3, 12));
        assert_eq!(outcome.techniques, ["recvmmsg", "rx-ring"]);
        assert_eq!(outcome.trials[0].measured.arrived, [1_000, 980]);
        assert_eq!(outcome.missing[0].reason, "no such device");
        let said = compare(outcome);
        assert_eq!((said[0].what, said[0].agrees), ("hardware timestamps", Some(true)), "{said:#?}");
        assert!(said[0].here.contains("±16"), "{said:#?}");
        std::fs::write(dir.path().join("hardware/series_1.json"), "{\"kind\":\"delay\"}\n").unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("series_1.json") && error.contains("generate"), "{error}");
    }
}
