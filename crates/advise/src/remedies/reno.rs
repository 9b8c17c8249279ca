//! Reno in place of the congestion control.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "reno",
    what: "the standard's congestion control",
    at: At::Sender,
    findings: &[FindingKind::Bufferbloat],
    limits: &[Limit::CongestionWindow],
    possible,
    change: Change::InTwin(|twin, way| twin.sender(way).options.congestion_control = Some("reno".into())),
    sysctls: &[("net.ipv4.tcp_congestion_control", "reno")],
    set: &[
        line("/etc/sysctl.d/90-congestion-control.conf", "net.ipv4.tcp_congestion_control = reno"),
        line("now", "sysctl -w net.ipv4.tcp_congestion_control=reno"),
        line("C", "setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"reno\", 4);"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_congestion_control=cubic, and remove the file")],
    costs: "slow to grow on long paths",
    source: "RFC 5681",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    if c.congestion_control.value == "reno" { Err("it is in use") } else { Ok(()) }
}
