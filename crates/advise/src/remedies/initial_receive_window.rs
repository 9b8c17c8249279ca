//! A larger initial receive window.

use record::conversation::{FindingKind, Limit};

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "initrwnd 44",
    what: "offer a larger receive window from the first ACK on",
    at: At::Receiver,
    findings: &[FindingKind::ReceiveWindow],
    limits: &[Limit::SlowStart, Limit::ReceiveWindow],
    possible: always,
    change: Change::InTwin(|twin, way| twin.receiver(way).initial_receive_window = Some(44)),
    sysctls: &[],
    set: &[
        line("ip route", "ip route change <route> initrwnd 44"),
        line("systemd-networkd, [Route]", "InitialAdvertisedReceiveWindow=44"),
    ],
    undo: &[line("ip route", "ip route change <route> initrwnd 0")],
    costs: "64 KiB of memory for each connection from its beginning",
    source: "RFC 6928, section 2; ip-route(8)",
};
