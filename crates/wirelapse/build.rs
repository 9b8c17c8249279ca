//! Names the commit in release builds, of `wirelapse-query` too. Other builds have no commit: they
//! would be built anew with each one.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=WIRELAPSE_COMMIT");
    let released = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let named = std::env::var("WIRELAPSE_COMMIT").ok();
    let commit = named.or_else(|| released.then(from_git).flatten());
    let built = match (commit, released) {
        (Some(commit), _) => format!("commit {commit}"),
        (None, true) => "commit not known".into(),
        (None, false) => "development build".into(),
    };
    println!("cargo::rustc-env=WIRELAPSE_BUILT={built}");
    println!("cargo::rustc-env=WIRELAPSE_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

/// The commit of the work tree; `None` where this is no clone, as in an unpacked archive.
fn from_git() -> Option<String> {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).output().ok().filter(|out| out.status.success())?;
        Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
    };
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=8", "HEAD"])
}
