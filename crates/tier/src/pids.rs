//! Programs under a limit on processes and threads, as docker's `--pids-limit` and systemd's
//! `TasksMax` set.

use std::fs;
use std::path::PathBuf;
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

    /// A program in the group, with all of its threads.
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let run = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        let mut shell = crate::command("sh");
        shell.args(["-c", &run, program]).args(words);
        shell
    }
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
