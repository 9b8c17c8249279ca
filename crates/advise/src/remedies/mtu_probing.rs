//! MTU probing against a black hole.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "MTU probing",
    what: "find the path's MTU without ICMP",
    at: At::Sender,
    findings: &[FindingKind::MtuBlackHole],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_mtu_probing", "1")),
    sysctls: &[("net.ipv4.tcp_mtu_probing", "1")],
    set: &[
        line("/etc/sysctl.d/90-mtu-probing.conf", "net.ipv4.tcp_mtu_probing = 1"),
        line("now", "sysctl -w net.ipv4.tcp_mtu_probing=1"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_mtu_probing=0, and remove the file")],
    costs: "some timeouts before it is found; smaller segments on paths that lose for other reasons",
    source: "RFC 4821; Linux, Documentation/networking/ip-sysctl.rst",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match c.lanes[way as usize].black_hole {
        Some(_) => Ok(()),
        None => Err("no packet of a certain size vanished"),
    }
}
