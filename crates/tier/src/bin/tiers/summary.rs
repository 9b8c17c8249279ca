//! What a run of the tests ends with.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use crate::run::Tier;

/// Of the test programs, so many that took longest are shown.
const SLOWEST: usize = 16;

/// The lines that tests and scripts wrote into the file which this variable names.
pub fn recorded(variable: &str) -> Vec<String> {
    let text = std::env::var_os(variable).and_then(|path| std::fs::read_to_string(path).ok());
    text.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What all tiers came to. Its text ends with the figures, and before them with what failed, where
/// a reader of a long log looks first.
#[derive(Debug)]
pub struct Summary {
    tiers: Vec<Tier>,
    /// Tests that failed, and then passed twice on end alone.
    unsteady: Vec<String>,
    /// A line for each skip.
    skips: Vec<String>,
    passed: usize,
    failed: Vec<String>,
}

impl Summary {
    /// Counts.
    pub fn new(tiers: Vec<Tier>, unsteady: Vec<String>, mut skips: Vec<String>) -> Self {
        skips.sort_unstable();
        let programs = || tiers.iter().flat_map(|tier| &tier.results);
        // A test that could not run returns early, and its program counts it as passed.
        let of_tests = |line: &&String| !["SKIPPED vm::", "SKIPPED check/"].iter().any(|other| line.starts_with(other));
        let passed = programs().map(|program| program.passed).sum::<usize>() + unsteady.len();
        let passed = passed.saturating_sub(skips.iter().filter(of_tests).count());
        let mut failed: Vec<String> = programs()
            .flat_map(|results| results.failed.iter().map(|test| format!("{} {test}", results.program)))
            .chain(tiers.iter().filter(|tier| tier.failed).map(|tier| tier.name.to_owned()))
            .collect();
        if passed == 0 && failed.is_empty() {
            failed.push("no test ran at all".into());
        }
        Self { tiers, unsteady, skips, passed, failed }
    }

    /// Prints it, and gives the exit status of the run.
    pub fn print(&self, took: Duration) -> ExitCode {
        println!("\n== all of it: {} s\n{self}", took.as_secs());
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== skipped: {}", self.skips.len())?;
        self.skips.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\n== time")?;
        for tier in &self.tiers {
            writeln!(f, "{:5} s  {}", tier.took.as_secs(), tier.name)?;
        }
        let programs = self.tiers.iter().flat_map(|tier| &tier.results);
        let mut programs: Vec<_> = programs.filter_map(|program| Some((program.took?, &program.program))).collect();
        programs.sort_unstable_by(|a, b| b.cmp(a));
        writeln!(f, "   of the tests, the programs that took longest:")?;
        for (took, program) in programs.iter().take(SLOWEST) {
            writeln!(f, "{:9.2} s  {program}", took.as_secs_f64())?;
        }
        let all: Duration = programs.iter().map(|(took, _)| *took).sum();
        writeln!(f, "{:9.2} s  all {} of them\n", all.as_secs_f64(), programs.len())?;
        self.unsteady
            .iter()
            .try_for_each(|test| writeln!(f, "UNSTEADY, failed and then passed twice on end alone: {test}"))?;
        self.failed.iter().try_for_each(|what| writeln!(f, "FAILED {what}"))?;
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skips.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;

    fn tier(name: &'static str, text: &str) -> Tier {
        let mut results = Results::new("lab/kernel");
        text.lines().for_each(|line| results.line(line));
        Tier::kept(name, |tier| tier.results.push(results))
    }

    fn last_lines(summary: &Summary, n: usize) -> Vec<String> {
        let text = summary.to_string();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines[lines.len() - n..].to_vec()
    }

    #[test]
    fn skips_are_no_passes_and_unsteady_tests_are() {
        let tests = tier("tests", "test result: ok. 7 passed; 0 failed; 0 ignored; finished in 1.50s");
        let skips =
            ["SKIPPED lab::b: needs root", "SKIPPED vm::bookworm: no kernel", "SKIPPED check/dashboard: no npm"];
        let skips = skips.map(str::to_owned).to_vec();
        let summary = Summary::new(vec![tests], vec!["lab/kernel a".into()], skips);
        let unsteady = "UNSTEADY, failed and then passed twice on end alone: lab/kernel a";
        assert_eq!(last_lines(&summary, 2), [unsteady, "7 passed, 0 failed, 3 skipped"]);
    }

    #[test]
    fn failures_stand_last_with_a_tier_that_named_none() {
        let tests = tier("tests", "test a ... FAILED\ntest result: FAILED. 1 passed; 1 failed; finished in 0.10s");
        let checks = Tier::kept("checks", |tier| tier.fail("formatting"));
        let summary = Summary::new(vec![tests, checks], Vec::new(), Vec::new());
        assert_eq!(last_lines(&summary, 3), ["FAILED lab/kernel a", "FAILED checks", "1 passed, 2 failed, 0 skipped"]);
    }

    #[test]
    fn nothing_is_a_failure() {
        let summary = Summary::new(Vec::new(), Vec::new(), Vec::new());
        assert_eq!(last_lines(&summary, 2), ["FAILED no test ran at all", "0 passed, 1 failed, 0 skipped"]);
    }
}
