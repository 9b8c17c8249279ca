//! More reordering allowed before a segment is taken for lost.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "tcp_reordering 30",
    what: "take a segment for lost after 30 later ones instead of 3",
    at: At::Sender,
    findings: &[FindingKind::ReorderingTakenForLoss],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_reordering", "30")),
    sysctls: &[("net.ipv4.tcp_reordering", "30")],
    set: &[
        line("/etc/sysctl.d/90-reordering.conf", "net.ipv4.tcp_reordering = 30"),
        line("now", "sysctl -w net.ipv4.tcp_reordering=30"),
        line("ip route", "ip route change <route> reordering 30"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_reordering=3, and remove the file")],
    costs: "losses are noticed later, and with few segments out only by a timeout",
    source: "Linux, Documentation/networking/ip-sysctl.rst",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match c.lanes[way as usize].reordering {
        Some(_) => Ok(()),
        None => Err("no segment changed places"),
    }
}
