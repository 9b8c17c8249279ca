//! Fast Open: data with the SYN.

use diagnose::conditions::Conditions;
use record::conversation::{Limit, Way};

use super::{At, Change, Remedy, line, sysctl};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "Fast Open",
    what: "send the first question along with the SYN, from the second connection to a server on",
    at: At::Program,
    findings: &[],
    limits: &[Limit::Handshake],
    possible,
    change: Change::InTwin(|twin, _| {
        twin.fast_open = true;
        // Both ends, without the cookie that an earlier connection would have brought (Linux,
        // ip-sysctl.rst).
        twin.ends.iter_mut().for_each(|end| sysctl(end, "net.ipv4.tcp_fastopen", "1543"));
    }),
    sysctls: &[],
    set: &[
        line("/etc/sysctl.d/90-fastopen.conf, on both", "net.ipv4.tcp_fastopen = 3"),
        line("C, the client", "int on = 1; setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on);"),
        line("C, the server", "int n = 256; setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &n, sizeof n);"),
        line("nginx", "listen 443 ssl fastopen=256;"),
    ],
    undo: &[line("now", "sysctl -w net.ipv4.tcp_fastopen=1, and remove the file")],
    costs: "a question may arrive twice, so only those that may; some boxes on the way drop such SYNs",
    source: "RFC 7413; tcp(7)",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    match c.script.client.first() {
        Some(step) if step.after == 0 => Ok(()),
        _ => Err("the client does not speak first"),
    }
}
