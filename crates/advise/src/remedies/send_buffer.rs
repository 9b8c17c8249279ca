//! A send buffer that grows with the path.

use record::conversation::FindingKind;

use super::{At, Change, Remedy, always, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "a larger send buffer",
    what: "let the sender keep as much in flight as the path needs",
    at: At::Sender,
    findings: &[FindingKind::SendBuffer, FindingKind::CongestionWindow],
    limits: &[],
    possible: always,
    change: Change::InTwin(|twin, way| larger(twin.sender(way))),
    sysctls: &[("net.ipv4.tcp_wmem", "4096 65536 33554432")],
    set: &[
        line("the program", "leave SO_SNDBUF alone: setting it switches the kernel's tuning off"),
        line("/etc/sysctl.d/90-send-buffer.conf", "net.ipv4.tcp_wmem = 4096 65536 33554432"),
        line("now", "sysctl -w net.ipv4.tcp_wmem='4096 65536 33554432'"),
        line("nginx", "no sndbuf= in listen"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304' (the default), and remove the file")],
    costs: "up to 32 MiB for each connection that needs it; a longer queue of unsent data in the socket",
    source: "Linux, Documentation/networking/ip-sysctl.rst",
};

fn larger(end: &mut crate::End) {
    end.options.send_buffer_bytes = None;
    sysctl(end, "net.ipv4.tcp_wmem", "4096 65536 33554432");
}
