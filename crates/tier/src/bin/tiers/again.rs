//! Tests of real traffic share two cores with one another, and a stall can undo what one sets up.
//! What failed runs alone, at most six times, until each of them passed twice on end. Such tests
//! are listed as unsteady, which is a defect still. Many failures at once are no stall and get no
//! second chance.

use std::collections::BTreeSet;

use crate::ON_THIS_KERNEL;
use crate::plan::Program;
use crate::results::Results;
use crate::run::Tier;

/// The most failures that may come of a stall, and how often each test is tried.
const MOST: usize = 6;
const RUNS: usize = 6;

/// Tries once more what failed on this kernel, as a separate tier. Gives the tests that turned out
/// unsteady; they are failures no longer.
pub fn tier(tiers: &mut Vec<Tier>) -> Vec<String> {
    let Some(tests) = tiers.iter_mut().find(|tier| tier.name == ON_THIS_KERNEL && !tier.passed()) else {
        return Vec::new();
    };
    let programs = tests.programs.iter().zip(&tests.results);
    let failed: BTreeSet<(String, usize)> = programs
        .enumerate()
        .flat_map(|(at, (_, results))| results.failed.iter().map(move |test| (test.clone(), at)))
        .collect();
    // A program that died in the middle may have had more.
    if tests.failed || failed.len() > MOST {
        return Vec::new();
    }
    let failed: Vec<_> = failed.into_iter().map(|(test, at)| (tests.programs[at].clone(), test)).collect();
    let mut steady = false;
    let again = Tier::shown("what failed on this kernel, again and alone", |tier| {
        steady = pass_twice_on_end(&failed, |(program, test)| passes_alone(tier, program, test));
    });
    let mut unsteady = Vec::new();
    if steady {
        tests.results.iter_mut().for_each(|results| results.failed.clear());
        unsteady.extend(failed.iter().map(|(program, test)| format!("{} {test}", program.name())));
    }
    tiers.push(again);
    unsteady
}

/// Whether each of them passes twice on end. One that has done so is not tried any more.
fn pass_twice_on_end<T>(tests: &[T], mut passes: impl FnMut(&T) -> bool) -> bool {
    let mut on_end = vec![0; tests.len()];
    for _ in 0..RUNS {
        for (test, on_end) in tests.iter().zip(&mut on_end).filter(|(_, on_end)| **on_end < 2) {
            *on_end = if passes(test) { *on_end + 1 } else { 0 };
        }
    }
    on_end.iter().all(|on_end| *on_end == 2)
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

    /// Whether tests with these outcomes, in order, are steady, and how often each was tried.
    fn tried(outcomes: &[&[bool]]) -> (bool, Vec<usize>) {
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
        assert_eq!(tried(&[&[true, true]]), (true, vec![2]));
        assert_eq!(tried(&[&[true, false, true, true], &[true, true]]), (true, vec![4, 2]));
        assert_eq!(tried(&[&[false, false, false, false, true, true]]), (true, vec![6]));
    }

    #[test]
    fn now_and_then_is_not() {
        assert_eq!(tried(&[&[true, false, true, false, true, false]]), (false, vec![6]));
        assert_eq!(tried(&[&[true, true], &[false; RUNS]]), (false, vec![2, 6]));
    }
}
