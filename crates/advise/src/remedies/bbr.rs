//! BBR in place of the congestion control.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "bbr",
    what: "congestion control by the path's rate and round trip, not by losses",
    at: At::Sender,
    findings: &[
        FindingKind::Loss,
        FindingKind::CongestionWindow,
        FindingKind::Bufferbloat,
        FindingKind::ReorderingTakenForLoss,
    ],
    limits: &[Limit::LossRecovery, Limit::CongestionWindow, Limit::PathRate],
    possible,
    change: Change::InTwin(|twin, way| twin.sender(way).options.congestion_control = Some("bbr".into())),
    sysctls: &[("net.ipv4.tcp_congestion_control", "bbr")],
    set: &[
        line("/etc/sysctl.d/90-congestion-control.conf", "net.ipv4.tcp_congestion_control = bbr"),
        line("now", "modprobe tcp_bbr; sysctl -w net.ipv4.tcp_congestion_control=bbr"),
        line("C", "setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, \"bbr\", 3);"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_congestion_control=cubic, and remove the file")],
    costs: "its share beside other connections is another one; more retransmissions where queues are short",
    source: "draft-ietf-ccwg-bbr; Linux, net/ipv4/tcp_bbr.c",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    if c.lanes[way as usize].black_hole.is_some() {
        return Err("packets vanish for their size, however they are sent");
    }
    if c.congestion_control.value == "bbr" { Err("it is in use") } else { Ok(()) }
}
