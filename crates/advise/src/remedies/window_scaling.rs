//! Window scaling, at the side that left it out.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "window scaling",
    what: "let windows be larger than 64 KiB",
    at: At::Receiver,
    findings: &[FindingKind::WindowScalingMissing],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, _| {
        twin.ends.iter_mut().for_each(|end| sysctl(end, "net.ipv4.tcp_window_scaling", "1"));
    }),
    sysctls: &[("net.ipv4.tcp_window_scaling", "1")],
    set: &[
        line("/etc/sysctl.d/90-window-scaling.conf", "net.ipv4.tcp_window_scaling = 1"),
        line("now", "sysctl -w net.ipv4.tcp_window_scaling=1"),
        line(
            "on the way",
            "a firewall or load balancer that strips the option: switch its SYN proxy or normalisation off",
        ),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_window_scaling=0, and remove the file")],
    costs: "up to tcp_rmem's maximum of memory for each connection that needs it",
    source: "RFC 7323, section 2",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    if c.hosts.iter().all(|host| host.window_scaling.value) { Err("both sides offer it") } else { Ok(()) }
}
