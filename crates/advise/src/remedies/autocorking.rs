//! Small writes gathered while earlier ones wait in the queue of the device.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "autocorking",
    what: "gather small writes while earlier ones still wait for the device",
    at: At::Sender,
    findings: &[FindingKind::TinySegments],
    limits: &[],
    possible: always,
    change: Change::Untried("packets do not show whether the sender's kernel does so, and the twin's hosts do"),
    sysctls: &[],
    set: &[
        line("/etc/sysctl.d/90-autocorking.conf", "net.ipv4.tcp_autocorking = 1"),
        line("now", "sysctl -w net.ipv4.tcp_autocorking=1"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_autocorking=0, and remove the file")],
    costs: "none worth mentioning: it is the default",
    source: "Linux, Documentation/networking/ip-sysctl.rst",
};
