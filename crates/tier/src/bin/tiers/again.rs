//! Tests of real traffic share two cores with one another, and a stall can undo what one sets up.
//! What failed runs alone, at most six times, until it passed twice on end. Such a test is listed
//! as unsteady, which is a defect still. Many failures at once are no stall and get no second
//! chance.

use crate::plan::Program;
use crate::results::Results;
use crate::run::Tier;

/// The most failures that may come of a stall, and how often each test is tried.
const MOST: usize = 12;
const RUNS: usize = 6;

/// A test that failed: the tier and the program there, and its name.
struct Failed {
    tier: usize,
    program: usize,
    test: String,
}

/// Tries once more what failed, as a separate tier. Gives the tests that turned out unsteady; they
/// are failures no longer.
pub fn tier(tiers: &mut Vec<Tier>) -> Vec<String> {
    let mut failed = Vec::new();
    for (tier, of) in tiers.iter().enumerate() {
        // Results beyond the programs are of what is not ours to start.
        for (program, (_, results)) in of.programs.iter().zip(&of.results).enumerate() {
            failed.extend(results.failed.iter().map(|test| Failed { tier, program, test: test.clone() }));
        }
    }
    if failed.is_empty() || failed.len() > MOST {
        return Vec::new();
    }
    let mut passed = Vec::new();
    let again = Tier::shown("what failed, again and alone", |tier| {
        passed = pass_twice_on_end(&failed, |of| passes_alone(tier, &tiers[of.tier].programs[of.program], &of.test));
    });
    let mut unsteady = Vec::new();
    for (of, _) in failed.iter().zip(passed).filter(|(_, passed)| *passed) {
        let tier = &mut tiers[of.tier];
        tier.results[of.program].failed.retain(|test| *test != of.test);
        unsteady.push(format!("{} {}", tier.programs[of.program].name(), of.test));
    }
    tiers.push(again);
    unsteady
}

/// Which of them pass twice on end. One that has done so is not tried any more.
fn pass_twice_on_end<T>(tests: &[T], mut passes: impl FnMut(&T) -> bool) -> Vec<bool> {
    let mut on_end = vec![0; tests.len()];
    for _ in 0..RUNS {
        for (test, on_end) in tests.iter().zip(&mut on_end).filter(|(_, on_end)| **on_end < 2) {
            *on_end = if passes(test) { *on_end + 1 } else { 0 };
        }
    }
    on_end.iter().map(|on_end| *on_end == 2).collect()
}

fn passes_alone(tier: &mut Tier, program: &Program, test: &str) -> bool {
    let mut command = program.command();
    command.args(["--test-threads=1", "--exact", test]);
    tier.line(&format!("     Running {} {test}", program.name()));
    let mut results = Results::new(&program.name());
    // The name that no test has would pass, too.
    tier.follow(command, |line| results.line(line)) && results.passed == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the tests with these outcomes, in order, are steady, and how often each was tried.
    fn tried(outcomes: &[&[bool]]) -> (Vec<bool>, Vec<usize>) {
        let mut runs = vec![0; outcomes.len()];
        let numbers: Vec<usize> = (0..outcomes.len()).collect();
        let steady = pass_twice_on_end(&numbers, |test| {
            runs[*test] += 1;
            outcomes[*test][runs[*test] - 1]
        });
        (steady, runs)
    }

    #[test]
    fn twice_on_end_is_steady() {
        assert_eq!(tried(&[&[true, true]]), (vec![true], vec![2]));
        assert_eq!(tried(&[&[true, false, true, true], &[true, true]]), (vec![true, true], vec![4, 2]));
        assert_eq!(tried(&[&[false, false, false, false, true, true]]), (vec![true], vec![6]));
    }

    #[test]
    fn now_and_then_is_not() {
        assert_eq!(tried(&[&[true, false, true, false, true, false]]), (vec![false], vec![6]));
        assert_eq!(tried(&[&[true, true], &[false; RUNS]]), (vec![true, false], vec![2, 6]));
    }
}
