//! Pacing.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "pacing",
    what: "spread segments over the round trip instead of sending bursts",
    at: At::Sender,
    findings: &[FindingKind::Loss],
    limits: &[],
    possible: always,
    change: Change::Untried("the hosts of a twin have no fq; bbr, which paces by itself, is tried"),
    sysctls: &[],
    set: &[
        line("tc", "tc qdisc replace dev <interface> root fq"),
        line("/etc/sysctl.d/90-fq.conf", "net.core.default_qdisc = fq"),
    ],
    undo: &[
        line("tc", "tc qdisc del dev <interface> root"),
        line("sysctl", "sysctl -w net.core.default_qdisc=fq_codel, and remove the file"),
    ],
    costs: "little CPU",
    source: "tc-fq(8)",
};
