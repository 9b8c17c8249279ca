//! `TCP_NOTSENT_LOWAT`: less that waits unsent.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "TCP_NOTSENT_LOWAT",
    what: "keep little unsent data in the socket, so that what is urgent waits behind less",
    at: At::Program,
    findings: &[FindingKind::Bufferbloat],
    limits: &[],
    possible: always,
    change: Change::InTwin(|twin, way| twin.sender(way).options.notsent_lowat_bytes = Some(131_072)),
    sysctls: &[("net.ipv4.tcp_notsent_lowat", "131072")],
    set: &[
        line("C", "int n = 131072; setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &n, sizeof n);"),
        line("/etc/sysctl.d/90-notsent.conf", "net.ipv4.tcp_notsent_lowat = 131072"),
    ],
    undo: &[
        line("C", "without the call"),
        line("now", "sysctl -w net.ipv4.tcp_notsent_lowat=4294967295, and remove the file"),
    ],
    costs: "more wake-ups of the program",
    source: "tcp(7); Linux, Documentation/networking/ip-sysctl.rst",
};
