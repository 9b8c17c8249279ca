//! `TCP_QUICKACK`: ACKs are not delayed.

use record::conversation::{FindingKind, Limit};

use super::{At, Change, Remedy, always, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "quick ACKs",
    what: "acknowledge at once, so that nothing waits for a delayed ACK",
    at: At::Receiver,
    findings: &[FindingKind::NagleDelayedAck, FindingKind::DelayedAckStall],
    limits: &[Limit::AckWaiting],
    possible: always,
    change: Change::InTwin(|twin, way| twin.receiver(way).options.quickack = Some(true)),
    sysctls: &[],
    set: &[
        line(
            "C",
            "int on = 1; setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on); /* after every read: the kernel falls back */",
        ),
        line("Python", "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # after every recv"),
        line("ip route", "ip route change <route> quickack 1"),
    ],
    undo: &[line("C", "without the call"), line("ip route", "ip route change <route> quickack 0")],
    costs: "an ACK for every segment: more packets and CPU on both hosts",
    source: "RFC 1122, section 4.2.3.2; tcp(7)",
};
