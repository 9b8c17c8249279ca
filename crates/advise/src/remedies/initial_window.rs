//! A larger initial congestion window.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "initcwnd 32",
    what: "begin with 32 segments instead of 10",
    at: At::Sender,
    findings: &[FindingKind::SlowStartAfterIdle],
    limits: &[Limit::SlowStart],
    possible,
    change: Change::InTwin(|twin, way| twin.sender(way).initial_window = Some(32)),
    sysctls: &[],
    set: &[
        line("ip route", "ip route change <route> initcwnd 32"),
        line("systemd-networkd, [Route]", "InitialCongestionWindow=32"),
    ],
    undo: &[line("ip route", "ip route change <route> initcwnd 10")],
    costs: "bursts of 32 segments into paths that may not have room for them",
    source: "RFC 6928; ip-route(8)",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match c.hosts[way as usize].initial_window.value {
        0..32 => Ok(()),
        _ => Err("it begins with more already"),
    }
}
