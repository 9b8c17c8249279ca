//! Timestamps, at the side that left it out.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "timestamps",
    what: "measure every round trip, and recognise needless retransmissions",
    at: At::Receiver,
    findings: &[FindingKind::Timestamps, FindingKind::Loss],
    limits: &[Limit::LossRecovery],
    possible,
    change: Change::InTwin(|twin, _| twin.ends.iter_mut().for_each(|end| sysctl(end, "net.ipv4.tcp_timestamps", "1"))),
    sysctls: &[("net.ipv4.tcp_timestamps", "1")],
    set: &[
        line("/etc/sysctl.d/90-timestamps.conf", "net.ipv4.tcp_timestamps = 1"),
        line("now", "sysctl -w net.ipv4.tcp_timestamps=1"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_timestamps=0, and remove the file")],
    costs: "12 bytes in every segment",
    source: "RFC 7323, section 3",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    if c.hosts.iter().all(|host| host.timestamps.value) { Err("both sides offer it") } else { Ok(()) }
}
