//! What this process may do: its user, its capabilities, and what the kernel has locked.

use std::fs;

use crate::{Capability, Group, State, is_root};

/// Capabilities of `capabilities(7)` that Wirelapse asks for: number, name, purpose, and what
/// happens without.
const WANTED: [(u32, &str, &str, &str); 7] = [
    (39, "CAP_BPF", "load BPF programs", "traces are not possible; analyze and compare work"),
    (38, "CAP_PERFMON", "read kernel memory from BPF programs", "traces are not possible; analyze and compare work"),
    (
        12,
        "CAP_NET_ADMIN",
        "attach to sockets and devices, shape traffic",
        "no trace of whole connections, no lab; probe still times its own packets",
    ),
    (13, "CAP_NET_RAW", "packet sockets: capture and generate", "capture files are read, none are taken"),
    (
        21,
        "CAP_SYS_ADMIN",
        "make network namespaces, walk the sockets of other programs",
        "no lab; connections that exist already are not picked up",
    ),
    (
        19,
        "CAP_SYS_PTRACE",
        "find the network namespaces of other users' programs",
        "connections in them that exist already are not picked up",
    ),
    (1, "CAP_DAC_OVERRIDE", "open tracing and BPF files of root", "only files that this user may open are used"),
];

/// The effective capability set out of the text of `/proc/PID/status`.
fn effective(status: &str) -> Option<u64> {
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(field.trim(), 16).ok()
}

/// The chosen word out of a text such as `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

/// The name of the capability to be root.
pub const ROOT: &str = "root";

pub fn capabilities() -> Vec<Capability> {
    let root = if is_root() { State::Available(String::new()) } else { State::NeedsRoot };
    let mut all = vec![Capability::new(
        Group::Privileges,
        ROOT,
        root,
        "trace, watch, lab, study, capture, agent",
        "analyze, compare, query, report and probe work without",
    )];
    let held = fs::read_to_string("/proc/self/status").ok().as_deref().and_then(effective);
    for (number, name, purpose, instead) in WANTED {
        let state = match held {
            Some(set) if set >> number & 1 == 1 => State::Available(String::new()),
            Some(_) if is_root() => {
                State::Missing("root without it: taken away by a container or a service manager".into())
            }
            Some(_) => State::NeedsRoot,
            None => State::Missing("/proc/self/status does not say".into()),
        };
        all.push(Capability::new(Group::Privileges, name, state, purpose, instead));
    }
    all.push(Capability::new(
        Group::Privileges,
        "Landlock",
        landlock(),
        "serve, capture, analyze, compare, report, delay, trace and watch keep no access to files but their own",
        "they give up capabilities and system calls all the same",
    ));
    all.push(Capability::new(
        Group::Privileges,
        "seccomp",
        if held.is_some() && fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Seccomp:")) {
            State::Available("filters of system calls".into())
        } else {
            State::Missing("not in this kernel (CONFIG_SECCOMP_FILTER)".into())
        },
        "serve, capture, analyze, compare, report, query, delay, trace and watch start no program and enter no namespace once they run",
        "they give up capabilities all the same",
    ));
    all.push(Capability::new(
        Group::Privileges,
        "no lockdown",
        lockdown(fs::read_to_string("/sys/kernel/security/lockdown").ok().as_deref()),
        "BPF programs may read kernel memory",
        "traces are refused by the kernel; analyze and compare work",
    ));
    all
}

fn landlock() -> State {
    match landlock_level() {
        Some(level) => State::Available(format!("level {level}")),
        None => State::Missing("not in this kernel, or not among its active security modules".into()),
    }
}

/// The level of Landlock that the kernel has (`landlock_create_ruleset(2)`), where it is active.
pub fn landlock_level() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag and no attribute the call only gives a number. The landlock crate
    // keeps that number to itself.
    let level = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(level).ok().filter(|&level| level > 0)
}

/// `kernel_lockdown(7)`: only its stronger mode forbids what a trace reads.
fn lockdown(text: Option<&str>) -> State {
    match text.map(chosen) {
        None => State::Available("lockdown is not built in, or not mounted".into()),
        Some(Some("confidentiality")) => {
            State::Missing("the kernel runs with lockdown=confidentiality (a boot option or Secure Boot)".into())
        }
        Some(mode) => State::Available(format!("mode {}", mode.unwrap_or("unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t0000008000001000\nCapBnd:\tff\n";
        let set = effective(status).unwrap();
        assert_eq!((set >> 39 & 1, set >> 12 & 1, set >> 38 & 1), (1, 1, 0));
        assert_eq!(effective("CapEff:\tzz"), None);
        assert_eq!(effective(""), None);
    }

    #[test]
    fn only_confidentiality_forbids() {
        assert!(matches!(lockdown(Some("none integrity [confidentiality]\n")), State::Missing(_)));
        assert_eq!(lockdown(Some("none [integrity] confidentiality\n")), State::Available("mode integrity".into()));
        assert!(matches!(lockdown(None), State::Available(_)));
    }
}
