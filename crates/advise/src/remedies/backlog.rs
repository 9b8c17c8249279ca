//! Room for connections that wait to be accepted.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "a longer accept queue",
    what: "let more connections wait to be accepted, instead of dropping their SYNs",
    at: At::Receiver,
    findings: &[FindingKind::SynRetries],
    limits: &[],
    possible: always,
    change: Change::Untried(
        "packets do not show whether the SYN was lost on the way or dropped by a full queue: `nstat -az TcpExtListenOverflows` on the server does",
    ),
    sysctls: &[],
    set: &[
        line("/etc/sysctl.d/90-backlog.conf", "net.core.somaxconn = 4096"),
        line("/etc/sysctl.d/90-backlog.conf", "net.ipv4.tcp_max_syn_backlog = 4096"),
        line("the program", "listen(fd, 4096)"),
        line("nginx", "listen 443 ssl backlog=4096;"),
    ],
    undo: &[line("now", "the values before, and remove the file")],
    costs: "memory for connections that wait; a program that is too slow to accept stays so",
    source: "listen(2); Linux, Documentation/networking/ip-sysctl.rst",
};
