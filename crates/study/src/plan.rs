//! A plan: what is varied, what is held, what is measured and how often; and the random order of
//! its trials.

use lab::Side;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use record::Nanos;
use record::trial::Response;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::named::{Known, Setting};
use crate::setting::{Setup, Workload};

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Which setting.
    pub name: Setting,
    /// Its levels as people write them; the first is what the others are compared with.
    pub levels: Vec<String>,
}

impl Factor {
    /// From levels that read as text.
    pub fn new(name: impl Into<Setting>, levels: impl IntoIterator<Item = impl ToString>) -> Self {
        Self { name: name.into(), levels: levels.into_iter().map(|l| l.to_string()).collect() }
    }
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// What is varied: every combination is run once in each block.
    pub factors: Vec<Factor>,
    /// What is held, and the value that it has.
    pub fixed: Vec<(Setting, String)>,
    /// The response that decides the verdict: `goodput`, `transactions`, `latency_p50`, ….
    pub response: Response,
    /// Blocks.
    pub repetitions: u32,
    /// How long each trial measures.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// What each trial does before that and does not count. Of a stream, whole seconds.
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// Frames that are analysed in each trial, from its first on.
    pub frames: u64,
    /// Go on, beyond the repetitions, until every interval of a ratio reaches no further than this
    /// to either side (0.01 is 1 %). The number of blocks is then decided by what was seen, and
    /// every comparison is judged by a rule that allows for it.
    #[serde(default)]
    pub until: Option<f64>,
}

/// What making a lab, starting a server and taking both down costs each trial, nanoseconds: for the
/// forecast alone.
const AROUND_A_TRIAL: Nanos = Nanos::from_millis(250);

/// Combinations of levels that a plan has at most.
pub(crate) const MOST_COMBINATIONS: usize = 10_000;

/// One trial's place in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which block, from 0.
    pub block: u32,
    /// Which in the block's order, from 0.
    pub position: u32,
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
}

impl Plan {
    /// The factors' names as the plan has them.
    pub(crate) fn factor_names(&self) -> Vec<String> {
        self.factors.iter().map(|f| f.name.to_string()).collect()
    }

    /// The factors' names without what leads to them: `tcp_timestamps` of
    /// `net.ipv4.tcp_timestamps`, with the host where two would read the same.
    pub fn short_names(&self) -> Vec<String> {
        let all: Vec<&Setting> = self.factors.iter().map(|f| &f.name).collect();
        let shared = |name: &Setting| all.iter().filter(|other| other.short() == name.short()).count() > 1;
        let short = |name: &&Setting| match shared(name) {
            true => format!("{} {}", name.hosts(), name.short()),
            false => name.short().to_owned(),
        };
        all.iter().map(short).collect()
    }

    /// How many trials a block has.
    pub fn combinations(&self) -> usize {
        self.factors.iter().fold(1, |n: usize, f| n.saturating_mul(f.levels.len()))
    }

    /// The trials of a block in their random order: the same for the same seed, whatever ran
    /// before.
    pub fn block(&self, block: u32, seed: u64) -> Vec<Place> {
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for factor in &self.factors {
            all = all
                .into_iter()
                .flat_map(|levels| (0..factor.levels.len()).map(move |l| levels.iter().copied().chain([l]).collect()))
                .collect();
        }
        let mixed =
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(block)).wrapping_mul(0xD134_2543_DE82_EF95);
        all.shuffle(&mut Pcg64Mcg::seed_from_u64(mixed));
        (0..).zip(all).map(|(position, levels)| Place { block, position, levels }).collect()
    }

    /// What runs in every combination; a bulk transfer where the plan does not hold it.
    pub(crate) fn workload(&self) -> Workload {
        let held = self.fixed.iter().find(|(setting, _)| *setting == Known::Workload);
        held.and_then(|(_, name)| Workload::named(name)).unwrap_or(Workload::Stream)
    }

    /// The setup of a combination.
    ///
    /// # Errors
    /// [`Error::Setting`] for a name or value that cannot be.
    pub fn setup(&self, levels: &[usize]) -> Result<Setup, Error> {
        let mut setup = Setup::default();
        for (name, value) in &self.fixed {
            setup.set(name, value)?;
        }
        for (factor, &level) in self.factors.iter().zip(levels) {
            let text = factor.levels.get(level).map_or("", String::as_str);
            setup.set(&factor.name, text)?;
        }
        setup.follow_schedule()?;
        Ok(setup)
    }

    /// Everything that it sets, varied or held.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.factors.iter().map(|f| &f.name).chain(self.fixed.iter().map(|f| &f.0))
    }

    /// Whether it can be run between real hosts, with sysctls of this one changed or not.
    ///
    /// # Errors
    /// [`Error::Setting`] naming what needs the lab, is the server's own, or must be allowed.
    pub fn check_for_real_hosts(&self, sysctls: bool) -> Result<(), Error> {
        let named = |is: &dyn Fn(&Setting) -> bool| {
            let names: Vec<String> = self.settings().filter(|s| is(s)).map(Setting::to_string).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let of_the_lab = |known: &Known| Known::OF_THE_PATH.contains(known) || Known::OF_THE_LAB.contains(known);
        let problem = if let Some(names) = named(&|s| matches!(s, Setting::Known(known) if of_the_lab(known))) {
            format!("only the lab can set {names}: run it without --host, or take that out of the plan")
        } else if let Some(names) = named(&|s| matches!(s, Setting::Sysctl(Some(Side::B), _))) {
            format!("{names} belongs to the server's host: set it there before the study, and take it out of the plan")
        } else if let Some(names) = named(&|s| s.sysctl().is_some()).filter(|_| !sysctls) {
            format!("{names} is a sysctl of this host: allow it with --on-this-host (it is put back at the end)")
        } else {
            return Ok(());
        };
        Err(Error::Setting(format!("{}: {problem}", self.name)))
    }

    /// How long one trial takes, as far as is known before.
    pub fn trial(&self) -> Nanos {
        // Probes go on without load for as long after it as before it.
        let after = if self.workload() == Workload::PingUnderLoad { self.warm_up } else { Nanos::ZERO };
        self.warm_up + self.duration + after + AROUND_A_TRIAL
    }

    /// How long all of it takes.
    pub fn forecast(&self) -> Nanos {
        Nanos(self.trial().0.saturating_mul(self.combinations() as u64).saturating_mul(u64::from(self.repetitions)))
    }

    /// What the levels are called.
    pub fn label(&self, levels: &[usize]) -> Vec<String> {
        self.factors.iter().zip(levels).filter_map(|(f, l)| f.levels.get(*l).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_every_combination_in_an_order_that_the_seed_decides() {
        let plan = Plan {
            name: "p".into(),
            factors: vec![Factor::new(Known::Delay, ["1ms", "2ms"]), Factor::new(Known::Flows, [1, 2, 4])],
            fixed: vec![(Known::Rate.into(), "1gbit".into())],
            response: Response::Goodput,
            repetitions: 2,
            duration: Nanos(1),
            warm_up: Nanos::ZERO,
            frames: 0,
            until: None,
        };
        plan.check().unwrap();
        let orders: Vec<Vec<Vec<usize>>> =
            (0..8).map(|b| plan.block(b, 7).into_iter().map(|p| p.levels).collect()).collect();
        assert_eq!(orders[0], plan.block(0, 7).into_iter().map(|p| p.levels).collect::<Vec<_>>());
        let mut sorted = orders[0].clone();
        sorted.sort();
        assert_eq!(sorted, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]].map(Vec::from));
        assert!(orders.iter().any(|o| *o != orders[0]));
        assert_eq!(plan.setup(&[1, 2]).unwrap().flows, 4);
        assert!(Plan { factors: vec![Factor::new(Known::Delay, ["1x"])], ..plan }.check().is_err());
    }

    #[test]
    fn sysctls_are_told_from_other_settings_however_they_are_written() {
        let of = |name: &str| {
            let text = format!("repetitions = 2\n[factors]\n\"{name}\" = [1, 0]\n");
            crate::plan_file::parse("p.toml", &text).unwrap()
        };
        for name in ["net.ipv4.tcp_sack", "net/ipv4/tcp_sack", "a.net/ipv4/tcp_sack", "/proc/sys/net/ipv4/tcp_sack"] {
            let refused = of(name).check_for_real_hosts(false).unwrap_err().to_string();
            assert!(refused.contains("net.ipv4.tcp_sack is a sysctl of this host"), "{refused}");
            of(name).check_for_real_hosts(true).unwrap();
        }
        let refused = of("b.net/ipv4/tcp_sack").check_for_real_hosts(true).unwrap_err().to_string();
        assert!(refused.contains("belongs to the server's host"), "{refused}");
        // What is said of one host is no word that another setting has too.
        let text = "repetitions = 2\n[factors]\n\"a.net.ipv4.tcp_sack\" = [1, 0]\n\"net.ipv4.tcp_sack\" = [1, 0]\n";
        assert_eq!(crate::plan_file::parse("p.toml", text).unwrap().short_names(), ["a tcp_sack", "both tcp_sack"]);
    }
}
