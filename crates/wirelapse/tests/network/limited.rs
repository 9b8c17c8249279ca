//! Commands under a user's limit on processes and threads.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The program for a user of its own, who may have so many processes and threads (`RLIMIT_NPROC`,
/// which root is exempt from). The user cannot read the folder of the build, so the program is
/// copied to `folder`.
pub fn with_threads(folder: &Path, most: u64, words: &[&str]) -> Command {
    const USER: u32 = 54_321;
    let program = folder.join("wirelapse");
    if !program.exists() {
        // By another process: what this one has open for writing, each process that another test
        // starts meanwhile has too, and then it cannot be run.
        let copied = tier::command("cp").arg(env!("CARGO_BIN_EXE_wirelapse")).arg(&program).status().unwrap();
        assert!(copied.success());
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
