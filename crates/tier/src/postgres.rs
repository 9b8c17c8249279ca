//! PostgreSQL, where Debian has put it.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A program of PostgreSQL, which Debian keeps in a folder of each version.
pub fn program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|version| version.path().join("bin").join(name)).find(|path| path.is_file())
}

/// A new server on loopback with its data in `dir` and its messages in `dir/log`. It takes a moment
/// until it listens, and ends at once and tidily by SIGINT.
///
/// # Panics
/// Where it cannot be made or started.
pub fn start(dir: &Path, port: u16, settings: &[&str]) -> Child {
    chown(dir, Some(NOBODY), Some(NOBODY)).expect("root gives a folder away");
    let data = dir.join("data");
    let as_nobody = |name| {
        let mut command = Command::new(program(name).expect("PostgreSQL is there"));
        command.uid(NOBODY).gid(NOBODY).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.arg("-D").arg(&data);
        command
    };
    let words = ["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"];
    let made = as_nobody("initdb").args(words).output().expect("initdb runs");
    assert!(made.status.success(), "{}", crate::text(&made.stderr));
    let mut server = as_nobody("postgres");
    server.arg("-p").arg(port.to_string()).arg("-k").arg(dir);
    for setting in ["listen_addresses=127.0.0.1", "fsync=off", "autovacuum=off"].iter().chain(settings) {
        server.arg("-c").arg(setting);
    }
    server.stderr(File::create(dir.join("log")).expect("a log")).spawn().expect("the server starts")
}
