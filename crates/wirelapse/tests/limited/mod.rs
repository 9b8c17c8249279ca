//! Commands under a limit on processes and threads: that of a user, or of a cgroup, as docker's `--pids-limit` and systemd's `TasksMax` set.
//!
//! Each test file uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A cgroup that allows so many processes and threads, taken down when dropped.
pub struct PidsCgroup(PathBuf);

impl PidsCgroup {
    /// Where the machine has the controller of processes (version 1 or 2) and lets us make a group.
    pub fn new(name: &str, most: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let of = |line: &str| {
            let f: Vec<&str> = line.split(' ').collect();
            let has = match f[2] {
                "cgroup" => f[3].split(',').any(|o| o == "pids"),
                "cgroup2" => fs::read_to_string(format!("{}/cgroup.subtree_control", f[1])).ok()?.contains("pids"),
                _ => false,
            };
            has.then(|| PathBuf::from(f[1]))
        };
        let dir = mounts.lines().find_map(of)?.join(format!("wirelapse-test-{name}-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Self(dir);
        fs::write(group.0.join("pids.max"), most.to_string()).ok()?;
        Some(group)
    }

    /// The command in the group: with all of its threads.
    pub fn wirelapse(&self, words: &[&str]) -> Command {
        let run = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        let mut shell = tier::command("sh");
        shell.args(["-c", &run, env!("CARGO_BIN_EXE_wirelapse")]).args(words);
        shell
    }
}

/// The program for a user of its own, who may have so many processes and threads (`RLIMIT_NPROC`, which root is exempt from). The user cannot
/// read the folder of the build, so the program is copied to `folder`.
pub fn with_threads(folder: &Path, most: u64, words: &[&str]) -> Command {
    const USER: u32 = 54_321;
    let program = folder.join("wirelapse");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_wirelapse"), &program).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = tier::command(program);
    command.args(words).uid(USER).gid(USER);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a system call on memory that the closure owns, between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit);
            Ok(())
        });
    }
    command
}

impl Drop for PidsCgroup {
    fn drop(&mut self) {
        // Empty once its last process is gone, which takes the kernel a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
