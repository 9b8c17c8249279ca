//! No slow start after a pause.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "no slow start after idle",
    what: "keep the congestion window over pauses",
    at: At::Sender,
    findings: &[FindingKind::SlowStartAfterIdle],
    limits: &[Limit::SlowStart],
    possible,
    change: Change::InTwin(|twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_slow_start_after_idle", "0")),
    sysctls: &[("net.ipv4.tcp_slow_start_after_idle", "0")],
    set: &[
        line("/etc/sysctl.d/90-idle.conf", "net.ipv4.tcp_slow_start_after_idle = 0"),
        line("now", "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_slow_start_after_idle=1, and remove the file")],
    costs: "bursts after pauses into a path that may have changed meanwhile",
    source: "RFC 9293 and RFC 5681, section 4.1; Linux, Documentation/networking/ip-sysctl.rst",
};

/// A pause that the kernel takes for one: longer than its least retransmission timeout, ns.
const PAUSE: u64 = 200_000_000;

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    let waits = c.script.of(way).iter().skip(1).any(|step| step.think.0 >= PAUSE);
    let peer = c.script.of(!way).iter().any(|step| step.think.0 >= PAUSE);
    if waits || peer { Ok(()) } else { Err("no pause is as long as a retransmission timeout") }
}
