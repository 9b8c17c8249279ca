//! Runs every tier of `make test` (docs/testing.md), or the test programs that are named.
//! `tests/run` builds and starts it in the root of the repository.
//!
//! Every tier runs, whatever failed before it. The last line is `N passed, N failed, N skipped`,
//! and the exit status is 1 where anything failed.

mod again;
mod job;
mod plan;
mod results;
mod run;
mod summary;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use plan::Program;
use run::Tier;
use summary::Summary;

const ON_THIS_KERNEL: &str = "tests on this kernel";

fn main() -> ExitCode {
    let started = Instant::now();
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Err(e) = job::end_all_on_a_signal() {
        eprintln!("tests/run: {e}");
        return ExitCode::FAILURE;
    }
    let mut tiers = if names.is_empty() { all() } else { some(&names) };
    let unsteady = again::tier(&mut tiers);
    Summary::new(tiers, unsteady, summary::recorded("WIRELAPSE_SKIPS")).print(started.elapsed())
}

/// The test programs of these names, one after another.
fn some(names: &[String]) -> Vec<Tier> {
    let words: Vec<String> = names.iter().flat_map(|name| ["--test".to_owned(), name.clone()]).collect();
    let mut programs = Vec::new();
    let build = Tier::shown("build", |tier| programs = tier.build(&words));
    vec![build, Tier::shown(ON_THIS_KERNEL, |tier| tier.programs(&programs))]
}

/// Tests of traffic mostly wait. Beside them, with the CPU time that they leave, goes whatever
/// needs no quiet machine, and the rest of the build.
fn all() -> Vec<Tier> {
    let mut first = Vec::new();
    // The programs that take the longest need a third fewer dependencies than all of them.
    let build = Tier::shown("build", |tier| match plan::built_first() {
        Ok(words) => first = tier.build(&words),
        Err(e) => tier.fail(&e),
    });
    first.retain(|program| !program.is_apart());
    let (built, is_built) = channel();
    let (over, is_over) = channel();
    let (tests, others) = thread::scope(|scope| {
        let others = scope.spawn(|| beside(built, is_over));
        let tests = Tier::shown(ON_THIS_KERNEL, |tier| on_this_kernel(tier, &first, &is_built));
        // Nothing is sent: it ends, even where the tests panic.
        drop::<Sender<()>>(over);
        println!("\n== waiting for what goes beside them");
        (tests, others.join().expect("no tier panics"))
    });
    others.iter().for_each(Tier::show);
    [build, tests].into_iter().chain(others).collect()
}

/// First the programs of the first build, then the others.
fn on_this_kernel(tier: &mut Tier, first: &[Program], built: &Receiver<Vec<Program>>) {
    tier.programs(first);
    let mut rest = built.recv().unwrap_or_default();
    rest.retain(|program| !program.is_apart() && !first.contains(program));
    tier.programs(&rest);
}

/// The tests of queries take as long as all others that are apart, so they go beside those, and the
/// guests after them: with more at once each of them only takes longer. Beside the tests on this
/// kernel a guest gets so little of the CPUs that its own limits of time run out: they wait for the
/// end of those.
fn beside(built: Sender<Vec<Program>>, is_over: Receiver<()>) -> Vec<Tier> {
    let mut programs = Vec::new();
    let rest = Tier::kept("rest of the build", |tier| programs = rest_of_the_build(tier));
    // It is not received where the tests on this kernel panicked, and then nothing is lost.
    let _ = built.send(programs.clone());
    programs.retain(Program::is_apart);
    let (queries, pure): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::is_of_queries);
    thread::scope(|scope| {
        let second = scope.spawn(move || {
            let queries = Tier::kept("tests of queries", |tier| tier.programs(&queries));
            let _ = is_over.recv();
            [queries, Tier::kept("tests in other kernels", Tier::guests)]
        });
        let first = [
            Tier::kept("checks", |tier| tier.command("check/run", &[])),
            Tier::kept("examples in documentation", Tier::documentation),
            Tier::kept("pure tests", |tier| tier.programs(&pure)),
        ];
        [rest].into_iter().chain(first).chain(second.join().expect("no tier panics")).collect()
    })
}

/// Whatever is not built yet. Meanwhile the kernels of the guests and the Python readers are
/// fetched: each download is tried again where it is used, and it is there that a failure counts.
fn rest_of_the_build(tier: &mut Tier) -> Vec<Program> {
    const FETCH: &str = "setup/python || echo 'setup: going on without them'
        for suite in bookworm trixie trixie-backports; do timeout 600 vm/kernel \"$suite\" >/dev/null; done
        vm/emulator >/dev/null; true";
    thread::scope(|scope| {
        let fetched = scope.spawn(|| Tier::kept("downloads", |tier| tier.command("bash", &["-c", FETCH])));
        let programs = tier.build(&[]);
        tier.append(&fetched.join().expect("no tier panics"));
        programs
    })
}
