//! More of a connection in the queues below TCP.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "tcp_limit_output_bytes 16M",
    what: "let more of a connection wait in the qdisc and the driver",
    at: At::Sender,
    findings: &[FindingKind::CongestionWindow],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| sysctl(twin.sender(way), "net.ipv4.tcp_limit_output_bytes", "16777216")),
    sysctls: &[("net.ipv4.tcp_limit_output_bytes", "16777216")],
    set: &[
        line("/etc/sysctl.d/90-output.conf", "net.ipv4.tcp_limit_output_bytes = 16777216"),
        line("now", "sysctl -w net.ipv4.tcp_limit_output_bytes=16777216"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_limit_output_bytes=4194304 (the default), and remove the file")],
    costs: "a longer queue on this host, which other connections wait in",
    source: "Linux, Documentation/networking/ip-sysctl.rst",
};

/// Below this, the kernel's limit is many milliseconds' worth, bits a second.
const FAST: u64 = 500_000_000;

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match &c.lanes[way as usize].rate {
        Some(rate) if rate.value >= FAST => Ok(()),
        _ => Err("the path is too slow for it to matter"),
    }
}
