//! What `/proc` says of processes: their names, their children.

use std::fs;
use std::path::Path;

/// Whether there is such a process.
pub(crate) fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The name of a process as the kernel keeps it: up to 15 bytes and a zero.
pub(crate) fn comm(pid: u32) -> [u8; 16] {
    let mut comm = [0; 16];
    if let Ok(name) = fs::read(format!("/proc/{pid}/comm")) {
        for (to, from) in comm[..15].iter_mut().zip(name.into_iter().take_while(|&b| b != b'\n')) {
            *to = from;
        }
    }
    comm
}

/// All processes in `/proc`.
pub(crate) fn all() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process and all its descendants, as they are at this moment.
pub(crate) fn with_descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().into_iter().filter_map(|child| Some((child, parent(child)?))).collect();
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        let of = family[at];
        family.extend(parents.iter().filter(|&&(_, parent)| parent == of).map(|&(child, _)| child));
        at += 1;
    }
    family
}

/// The parent of a process: the field after its state in `/proc/PID/stat`, where the second field
/// may hold anything in parentheses.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_hold_their_head_and_their_children() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let family = with_descendants(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(family[0], std::process::id());
        assert!(family.contains(&child.id()));
    }
}
