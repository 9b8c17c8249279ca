//! One tier: what it runs, what was printed, how long it took and what failed.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::job::{self, Priority};
use crate::plan::{self, Program};
use crate::results::Results;
use crate::summary;

/// A tier, while it runs and afterwards.
#[derive(Debug)]
pub struct Tier {
    pub name: &'static str,
    /// With our own priority its lines are shown at once, idle they are kept for [`Tier::show`].
    priority: Priority,
    kept: String,
    /// Of each test program.
    pub results: Vec<Results>,
    /// The programs that results are of, where they are ours to start again.
    pub programs: Vec<Program>,
    /// Whether something failed that is no test with a name.
    pub failed: bool,
    pub took: Duration,
}

impl Tier {
    /// Runs a tier in the foreground.
    pub fn shown(name: &'static str, work: impl FnOnce(&mut Self)) -> Self {
        Self::run(name, Priority::Ours, work)
    }

    /// Runs one beside another, with the CPU time that is left.
    pub fn kept(name: &'static str, work: impl FnOnce(&mut Self)) -> Self {
        Self::run(name, Priority::Idle, work)
    }

    fn run(name: &'static str, priority: Priority, work: impl FnOnce(&mut Self)) -> Self {
        let (results, programs) = (Vec::new(), Vec::new());
        let mut tier =
            Self { name, priority, kept: String::new(), results, programs, failed: false, took: Duration::ZERO };
        let began = Instant::now();
        tier.line(&format!("\n== {name}"));
        work(&mut tier);
        tier.took = began.elapsed();
        tier.line(&format!("== {name}: {} s", tier.took.as_secs()));
        tier
    }

    /// Shows what was kept.
    pub fn show(&self) {
        print!("{}", self.kept);
    }

    /// Puts what another tier kept after what this one has.
    pub fn append(&mut self, other: &Self) {
        match self.priority {
            Priority::Ours => other.show(),
            Priority::Idle => self.kept.push_str(&other.kept),
        }
    }

    /// A line of its output.
    pub fn line(&mut self, line: &str) {
        match self.priority {
            Priority::Ours => println!("{line}"),
            Priority::Idle => {
                self.kept.push_str(line);
                self.kept.push('\n');
            }
        }
    }

    /// Something failed that is no test.
    pub fn fail(&mut self, why: &str) {
        self.line(why);
        self.failed = true;
    }

    /// Runs a script of ours or a program, which fails by its exit status.
    pub fn command(&mut self, program: &str, words: &[&str]) {
        let mut command = Command::new(program);
        command.args(words);
        if !self.follow(command, |_| {}) {
            self.failed = true;
        }
    }

    /// Tries the guests, which write down what failed in them.
    pub fn guests(&mut self) {
        self.command("vm/test", &["--built"]);
        let failed = summary::recorded("WIRELAPSE_FAILURES");
        if !failed.is_empty() {
            self.failed = false;
            let failed = failed.iter().map(|line| line.trim_start_matches("FAILED ").to_owned()).collect();
            self.results.push(Results { failed, ..Results::new("vm/test") });
        }
    }

    /// Builds what the words for cargo say, or everything, and gives the test programs among it.
    pub fn build(&mut self, words: &[String]) -> Vec<Program> {
        let mut command = Command::new("check/build");
        command.arg("--message-format=json-render-diagnostics").args(words);
        let (priority, mut json) = (self.priority, String::new());
        match job::run(command, priority, Some(&mut json), |line| self.line(line)) {
            Ok(true) => {}
            Ok(false) => self.failed = true,
            Err(e) => self.fail(&format!("check/build: {e}")),
        }
        plan::programs(&json)
    }

    /// Runs test programs, one after another.
    pub fn programs(&mut self, programs: &[Program]) {
        for program in programs {
            let (name, command) = (program.name(), program.command());
            self.line(&format!("     Running {name} ({})", program.path.display()));
            let mut results = Results::new(&name);
            let succeeded = self.follow(command, |line| results.line(line));
            if results.died(succeeded) {
                self.fail(&format!("{name} failed without a result"));
            }
            self.results.push(results);
            self.programs.push(program.clone());
        }
    }

    /// Runs the examples in the documentation of the libraries, as they are built.
    pub fn documentation(&mut self) {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--locked", "--workspace", "--doc"]);
        if let Ok(folder) = std::env::current_dir() {
            cargo.env("RUSTC_WORKSPACE_WRAPPER", folder.join("check/unit"));
        }
        let mut all: Vec<Results> = Vec::new();
        let succeeded = self.follow(cargo, |line| match line.strip_prefix("   Doc-tests ") {
            Some(of) => all.push(Results::new(&format!("{of} (documentation)"))),
            None => all.last_mut().into_iter().for_each(|results| results.line(line)),
        });
        // Without any the build failed, or cargo.
        let some_failed = all.iter().any(|results| !results.failed.is_empty());
        self.failed |= all.iter().any(|results| results.took.is_none()) || (!succeeded && !some_failed);
        self.results.extend(all);
    }

    /// Runs a command with its output in ours; whether it ended with status 0.
    pub fn follow(&mut self, command: Command, mut line: impl FnMut(&str)) -> bool {
        let what = format!("{}", command.get_program().display());
        let ended = job::run(command, self.priority, None, |text| {
            self.line(text);
            line(text);
        });
        ended.unwrap_or_else(|e| {
            self.line(&format!("{what}: {e}"));
            false
        })
    }
}
