//! `wirelapse trace` as its user meets it.

use std::process::{Child, Command, Stdio};

/// `wirelapse trace` with these arguments, its output caught.
pub fn tracing(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["trace"]);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// The numbers of kind `what` (`prog_id`, `map_id`, `link_id`) of the BPF objects that a process
/// holds.
pub fn held_by(pid: u32, what: &str) -> Vec<u32> {
    let key = format!("{what}:\t");
    let mut ids: Vec<u32> = fdinfo(pid)
        .iter()
        .flat_map(|text| text.lines().filter_map(|l| l.strip_prefix(&key)?.parse().ok()).collect::<Vec<_>>())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What the kernel tells of each descriptor of a process.
pub fn fdinfo(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}

/// Whether the process has attached everything it attaches, and works.
pub fn is_tracing(pid: u32) -> bool {
    // The sockops link is the last to be made.
    let links = |text: &String| text.contains("link_type:\tcgroup");
    fdinfo(pid).iter().any(links)
}
