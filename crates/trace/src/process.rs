//! What `/proc` says of processes: their names, their children.

use std::fs;
use std::path::Path;

use record::{Instant, Nanos, Realtime};
use rustix::time::{ClockId, clock_gettime};

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
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// When a process began, after the machine did: the 22nd field of `/proc/PID/stat`, in ticks.
pub(crate) fn began(pid: u32) -> Option<Nanos> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(Nanos(ticks * tick().0))
}

/// When this machine began, Unix time, by the time of day that it has now.
pub(crate) fn machine_began() -> Nanos {
    let since = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    Nanos(since(ClockId::Realtime).saturating_sub(since(ClockId::Boottime)))
}

/// When a process began, by the time of day that this machine has now and to the ticks of `/proc`
/// (10 ms); `None` where there is no such process.
pub fn process_began(pid: u32) -> Option<Instant<Realtime>> {
    Some(Instant::from_nanos(machine_began().0 + began(pid)?.0))
}

/// The CPU time that a process has used, with that of the kernel for it: the 14th and 15th field.
pub(crate) fn used(pid: u32) -> Option<Nanos> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Nanos((ticks()? + ticks()?) * tick().0))
}

/// The unit of such times: 10 ms on all machines that are known.
pub(crate) fn tick() -> Nanos {
    Nanos(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_began_after_its_parent_and_a_moment_ago() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let (parent, began) = (began(std::process::id()).unwrap(), began(child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        let now = clock_gettime(ClockId::Boottime);
        let ago = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9 - began.0 as f64 / 1e9;
        assert!(began >= parent && (-0.02..2.0).contains(&ago), "{ago} s");
    }

    #[test]
    fn a_process_that_computes_uses_cpu_time() {
        let before = used(std::process::id()).unwrap();
        let mut sum = 0u64;
        while used(std::process::id()).unwrap() < before + tick() {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(used(u32::MAX), None);
    }

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
