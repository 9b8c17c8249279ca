//! The runner of `make test`, in a folder with scripts in place of cargo, builds, checks and
//! guests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tier::{Process, until_some};

/// A folder that is removed in the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    /// With a crate `lab` whose only test program does this, checks that do that, and everything
    /// else well.
    fn new(name: &str, tests: &str, checks: &str) -> Self {
        let place = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())));
        let root = place.0.display();
        let program = format!("{root}/kernel");
        let made = format!(
            r#"{{"executable": "{program}", "manifest_path": "{root}/crates/lab/Cargo.toml",
                "target": {{"name": "kernel"}}, "profile": {{"test": true}}}}"#
        );
        let packages = format!(
            r#"{{"packages": [{{"manifest_path": "{root}/crates/lab/Cargo.toml",
                "targets": [{{"kind": ["test"], "name": "kernel"}}]}}]}}"#
        );
        let documentation = "printf '   Doc-tests lab\ntest result: ok. 2 passed; 0 failed; finished in 0.50s\n'";
        let cargo = format!("case $1 in metadata) echo '{packages}';; test) {documentation};; esac");
        fs::create_dir_all(place.0.join("crates/lab")).unwrap();
        for (name, script) in [
            ("bin/cargo", cargo.as_str()),
            ("check/build", &format!("echo '{}'", made.replace('\n', " "))),
            ("check/run", checks),
            ("kernel", tests),
            ("vm/test", "echo 'guests: 3 passed'"),
        ] {
            let path = place.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place
    }

    fn runner(&self) -> Command {
        let mut command = tier::command(env!("CARGO_BIN_EXE_tiers"));
        let path = format!("{}/bin:{}", self.0.display(), std::env::var("PATH").unwrap());
        command.current_dir(&self.0).env("PATH", path);
        for machine in ["X86_64", "AARCH64"] {
            command.env_remove(format!("CARGO_TARGET_{machine}_UNKNOWN_LINUX_GNU_RUNNER"));
        }
        for (variable, file) in [("WIRELAPSE_SKIPS", "skips"), ("WIRELAPSE_FAILURES", "failures")] {
            command.env(variable, self.0.join(file));
        }
        command
    }

    fn run(&self) -> (Output, Vec<String>) {
        let output = self.runner().output().unwrap();
        let lines = tier::text(&output.stdout).lines().map(str::to_owned).collect();
        (output, lines)
    }
}

#[test]
fn what_passes_is_counted_with_skips_and_examples() {
    let tests = "echo 'SKIPPED kernel::b: needs root' >>$WIRELAPSE_SKIPS
        echo 'test result: ok. 5 passed; 0 failed; finished in 0.10s'";
    let (output, lines) = Place::new("passes", tests, "true").run();
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "6 passed, 0 failed, 1 skipped", "{lines:?}");
    assert!(lines.contains(&"SKIPPED kernel::b: needs root".to_owned()));
    assert!(lines.contains(&"guests: 3 passed".to_owned()));
}

#[test]
fn an_unsteady_test_passes_in_the_end_and_is_named() {
    // Alone it is started with its name.
    let tests = "if [ \"$*\" = '--test-threads=1 --exact a' ]
        then echo 'test result: ok. 1 passed; 0 failed; finished in 0.10s'
        else echo 'test a ... FAILED'; echo 'test result: FAILED. 4 passed; 1 failed; finished in 0.10s'; exit 101; fi";
    let (output, lines) = Place::new("unsteady", tests, "true").run();
    assert_eq!(output.status.code(), Some(0), "{lines:?}");
    let unsteady = "UNSTEADY, failed and then passed twice on end alone: lab/kernel a";
    assert_eq!(lines[lines.len() - 2..], [unsteady, "7 passed, 0 failed, 0 skipped"]);
}

#[test]
fn failures_of_tests_and_checks_are_named_and_counted() {
    let tests = "echo 'test a ... FAILED'; echo 'test result: FAILED. 4 passed; 1 failed; finished in 0.10s'; exit 101";
    let (output, lines) = Place::new("fails", tests, "exit 1").run();
    assert_eq!(output.status.code(), Some(1), "{lines:?}");
    let last = ["FAILED lab/kernel a", "FAILED checks", "6 passed, 2 failed, 0 skipped"];
    assert_eq!(lines[lines.len() - 3..], last, "{lines:?}");
}

#[test]
fn a_signal_ends_what_goes_beside_the_tests() {
    let tests = "echo 'test result: ok. 1 passed; 0 failed; finished in 0.10s'";
    let place = Place::new("signal", tests, "echo $$ >pid.new; mv pid.new pid; sleep 60");
    let mut runner = Process::start(place.runner().stdout(Stdio::null()));
    let pid = until_some("the checks to run", || fs::read_to_string(place.0.join("pid")).ok());
    let checks = PathBuf::from("/proc").join(pid.trim());
    assert!(checks.exists());
    let id = rustix::process::Pid::from_child(&runner);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(runner.wait().unwrap().code(), Some(130));
    // Its parent is gone, so it may stay as a zombie for a moment.
    let status = || fs::read_to_string(checks.join("stat")).unwrap_or_default();
    tier::until("the end of the checks", || status().is_empty() || status().contains(") Z "));
}
