//! Runs `wirelapse-query`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::fleet;

/// The program.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse-query"));
    for name in ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        command.env_remove(name);
    }
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command
}

/// What it gives for these runs.
pub fn output(runs: &Path, arguments: &[&str]) -> Output {
    command().arg("--runs").arg(runs).args(arguments).output().unwrap()
}

/// Standard output and standard error of a query that succeeds.
pub fn run(runs: &Path, arguments: &[&str]) -> (String, String) {
    let done = output(runs, arguments);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{arguments:?}: {said}");
    (String::from_utf8(done.stdout).unwrap(), said)
}

/// Standard output of a query that succeeds and leaves nothing out.
pub fn ask(runs: &Path, arguments: &[&str]) -> String {
    let (out, said) = run(runs, arguments);
    assert_eq!(said, "", "{arguments:?}");
    out
}

/// The lines of an answer as CSV.
pub fn lines(runs: &Path, sql: &str) -> Vec<String> {
    run(runs, &["--format", "csv", sql]).0.lines().map(str::to_owned).collect()
}

/// Exit status and message of a query that fails.
pub fn failed(runs: &Path, arguments: &[&str]) -> (i32, String) {
    let done = output(runs, arguments);
    assert!(!done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stdout));
    (done.status.code().unwrap_or(139), String::from_utf8(done.stderr).unwrap())
}

/// A thousand runs, made once.
pub fn thousand() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| made("fleet-2", fleet::SMALL))
}

/// Some of the same, for what does not need so many: each query opens all of them.
pub fn few() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| made("fleet-2-few", fleet::Size { hosts: 8, hours: 6, ..fleet::SMALL }))
}

/// Whole or not there.
fn made(name: &str, size: fleet::Size) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !root.exists() {
        let making = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        fleet::write(&making, size);
        let _ = std::fs::rename(&making, &root);
    }
    root
}

/// CPU time of a process so far, in seconds.
pub fn cpu(process: u32) -> f64 {
    cpu_in(&std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap()).unwrap()
}

/// The CPU time in a line of the kernel about a process or thread, in seconds.
pub fn cpu_in(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system time are fields 14 and 15 of all, in hundredths of a second.
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

/// Waits until a process has used so many seconds more of CPU time.
pub fn works(process: u32, seconds: f64) {
    let before = cpu(process);
    tier::until("CPU time of the process", || cpu(process) >= before + seconds);
}

/// Ctrl-C.
pub fn interrupt(process: u32) {
    assert!(Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap().success());
}
