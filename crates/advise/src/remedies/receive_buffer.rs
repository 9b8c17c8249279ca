//! A receive buffer that grows with the path.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "a larger receive buffer",
    what: "let the receiver's window grow as the path needs it",
    at: At::Receiver,
    findings: &[FindingKind::ReceiveWindow],
    limits: &[Limit::ReceiveWindow],
    possible,
    change: Change::InTwin(|twin, way| larger(twin.receiver(way))),
    sysctls: &[("net.ipv4.tcp_rmem", "4096 131072 33554432")],
    set: &[
        line("the program", "leave SO_RCVBUF alone: setting it switches the kernel's tuning off"),
        line("/etc/sysctl.d/90-receive-buffer.conf", "net.ipv4.tcp_rmem = 4096 131072 33554432"),
        line("now", "sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432'"),
        line("nginx", "no rcvbuf= in listen"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' (the default), and remove the file")],
    costs: "up to 32 MiB for each connection that needs it; net.ipv4.tcp_mem bounds them together",
    source: "RFC 9293, section 3.8; Linux, Documentation/networking/ip-sysctl.rst",
};

fn larger(end: &mut crate::End) {
    end.options.receive_buffer_bytes = None;
    sysctl(end, "net.ipv4.tcp_rmem", "4096 131072 33554432");
}

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    let receiver = &c.hosts[(!way) as usize];
    match receiver.window_scaling.value {
        true => Ok(()),
        false => Err("without window scaling a larger buffer makes no larger window"),
    }
}
