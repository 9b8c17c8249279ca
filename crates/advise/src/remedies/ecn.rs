//! Marks instead of losses.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "ECN",
    what: "let the bottleneck mark packets instead of dropping them",
    at: At::Sender,
    findings: &[FindingKind::Loss, FindingKind::Bufferbloat, FindingKind::CongestionMarks],
    limits: &[],
    possible: always,
    change: Change::Untried("it needs a bottleneck that marks, and packets do not show whether this one would"),
    sysctls: &[],
    set: &[line("/etc/sysctl.d/90-ecn.conf", "net.ipv4.tcp_ecn = 1"), line("now", "sysctl -w net.ipv4.tcp_ecn=1")],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_ecn=2 (the default), and remove the file")],
    costs: "a few old boxes drop SYNs that ask for it; the kernel then asks again without",
    source: "RFC 3168; Linux, Documentation/networking/ip-sysctl.rst",
};
