//! MTU probing against a black hole.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "MTU probing",
    what: "find the path's MTU without ICMP",
    at: At::Sender,
    findings: &[FindingKind::MtuBlackHole],
    limits: &[],
    possible: never,
    change: |twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_mtu_probing", "1"),
    set: &[
        line("/etc/sysctl.d/90-mtu-probing.conf", "net.ipv4.tcp_mtu_probing = 1"),
        line("now", "sysctl -w net.ipv4.tcp_mtu_probing=1"),
        line("the router", "nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_mtu_probing=0, and remove the file")],
    costs: "smaller segments on paths that lose for other reasons",
    source: "RFC 4821; Linux, Documentation/networking/ip-sysctl.rst",
};

fn never(_: &Conditions, _: Way) -> Result<(), &'static str> {
    Err("the MTU at which the path swallows packets is not known from the capture")
}
