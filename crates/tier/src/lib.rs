//! Test tiers: what a test needs of the machine, and an honest word where the machine has not got
//! it.
//!
//! A test that needs root or a kernel feature begins with [`needs!`]. Where the need is not met the
//! test returns at once, and a line `SKIPPED …` is printed and appended to the file named by the
//! environment variable `WIRELAPSE_SKIPS`; `make test` shows that list with its length at the end.
//! Nothing is skipped by name, and nothing silently.

#![deny(unsafe_code)]

pub mod browser;
pub mod corpus;
pub mod draw;
mod limit;
mod pids;
pub mod postgres;
mod process;
mod wait;

use std::io::Write as _;

pub use limit::{command, limit};
pub use pids::PidsCgroup;
pub use process::Process;
pub use wait::{until, until_some, wait_for, wait_within};

/// What a program printed, with U+FFFD for what is not UTF-8.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The `wirelapse` that cargo has built for the test, with these words, limited as [`command`]. A
/// macro, because cargo names the program to the tests of its crate alone.
#[macro_export]
macro_rules! wirelapse {
    ($words:expr) => {{
        let mut command = $crate::command(env!("CARGO_BIN_EXE_wirelapse"));
        command.args($words);
        command
    }};
}

/// Something a test cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// Effective user id 0.
    Root,
    /// A file or folder of the machine, such as `/sys/kernel/btf/vmlinux` or the captures beside
    /// the checkout.
    Path(&'a str),
    /// A program on `PATH`.
    Program(&'a str),
}

impl Need<'_> {
    /// Why the need is not met, or `None` where it is.
    pub fn unmet(self) -> Option<String> {
        match self {
            Need::Root => (!rustix::process::geteuid().is_root()).then(|| "needs root".into()),
            Need::Path(path) => (!std::path::Path::new(path).exists()).then(|| format!("needs {path}")),
            Need::Program(name) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
                (!found).then(|| format!("needs the program {name}"))
            }
        }
    }
}

/// Records that `test` is skipped because of `reason`.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}\n");
    eprint!("{line}");
    if let Some(list) = std::env::var_os("WIRELAPSE_SKIPS") {
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&list)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "cannot record a skip in {}: {written:?}", list.display());
    }
}

/// Returns from the test, with a recorded skip, where one of the needs is not met.
#[macro_export]
macro_rules! needs {
    ($($need:expr),+ $(,)?) => {
        $(if let Some(reason) = $crate::Need::unmet($need) {
            $crate::skip(&format!("{}::{}", env!("CARGO_CRATE_NAME"), std::thread::current().name().unwrap_or("?")), &reason);
            return;
        })+
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_gives_its_reason() {
        assert_eq!(Need::Path("/proc/self").unmet(), None);
        assert_eq!(Need::Path("/no/such").unmet(), Some("needs /no/such".into()));
        assert_eq!(Need::Program("sh").unmet(), None);
        assert!(Need::Program("no-such-program").unmet().is_some());
    }
}
