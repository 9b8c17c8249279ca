//! Packets that keep the state of boxes on the way alive.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "keep-alives",
    what: "send something now and then, so that no box on the way forgets the connection",
    at: At::Program,
    findings: &[FindingKind::Reset],
    limits: &[],
    possible: always,
    change: Change::Untried("when a box on the way forgets a connection is not in the packets"),
    sysctls: &[],
    set: &[
        line("C", "int on = 1; setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);"),
        line("/etc/sysctl.d/90-keepalive.conf", "net.ipv4.tcp_keepalive_time = 300"),
        line("PostgreSQL", "tcp_keepalives_idle = 300"),
        line("nginx", "listen 443 ssl so_keepalive=300s::;"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_keepalive_time=7200 (the default), and remove the file")],
    costs: "a packet for each idle connection every few minutes",
    source: "RFC 9293, section 3.8.4; tcp(7)",
};
