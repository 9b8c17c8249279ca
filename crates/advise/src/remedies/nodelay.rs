//! `TCP_NODELAY`: small segments do not wait for ACKs.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "TCP_NODELAY",
    what: "send small writes at once, without waiting for the ACK of the one before",
    at: At::Program,
    findings: &[FindingKind::NagleDelayedAck],
    limits: &[Limit::AckWaiting],
    possible,
    change: Change::InTwin(|twin, way| twin.sender(way).options.nodelay = Some(true)),
    sysctls: &[],
    set: &[
        line("C", "int on = 1; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);"),
        line("Python", "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)"),
        line("Java", "socket.setTcpNoDelay(true);"),
        line("Go", "the default; conn.SetNoDelay(true) where it was switched off"),
        line("Node.js", "socket.setNoDelay(true)"),
        line("Rust", "stream.set_nodelay(true)?"),
        line("nginx", "tcp_nodelay on;"),
    ],
    undo: &[line("any", "the same call with 0 or false, or without the call")],
    costs: "more and smaller packets where the program writes in small pieces",
    source: "RFC 9293, section 3.7.4; tcp(7)",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    if c.hosts[way as usize].nodelay.value {
        Err("it is set already: small segments leave without waiting")
    } else {
        Ok(())
    }
}
