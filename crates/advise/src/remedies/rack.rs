//! RACK's reordering window, which grows with what the path reorders.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "RACK with an adaptive window",
    what: "wait longer for segments that were overtaken, once the path is known to reorder",
    at: At::Sender,
    findings: &[FindingKind::ReorderingTakenForLoss],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_recovery", "1")),
    sysctls: &[("net.ipv4.tcp_recovery", "1")],
    set: &[
        line("/etc/sysctl.d/90-recovery.conf", "net.ipv4.tcp_recovery = 1"),
        line("now", "sysctl -w net.ipv4.tcp_recovery=1"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_recovery=<the value before>, and remove the file")],
    costs: "losses are noticed up to a round trip later on paths that reorder",
    source: "RFC 8985, section 6.2; Linux, Documentation/networking/ip-sysctl.rst",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match c.lanes[way as usize].reordering {
        Some(_) => Ok(()),
        None => Err("no segment changed places"),
    }
}
