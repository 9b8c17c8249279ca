//! SACK, at the side that left it out.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "SACK",
    what: "let the receiver say which segments came",
    at: At::Receiver,
    findings: &[FindingKind::Loss],
    limits: &[Limit::LossRecovery],
    possible,
    change: Change::InTwin(|twin, _| twin.ends.iter_mut().for_each(|end| sysctl(end, "net.ipv4.tcp_sack", "1"))),
    sysctls: &[("net.ipv4.tcp_sack", "1")],
    set: &[line("/etc/sysctl.d/90-sack.conf", "net.ipv4.tcp_sack = 1"), line("now", "sysctl -w net.ipv4.tcp_sack=1")],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_sack=0, and remove the file")],
    costs: "none worth mentioning",
    source: "RFC 2018",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    if c.hosts.iter().all(|host| host.sack.value) { Err("both sides offer it") } else { Ok(()) }
}
