//! A connection that is used again.

use diagnose::conditions::Conditions;
use record::conversation::{Limit, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "keeping the connection open",
    what: "use one connection for many exchanges: no handshake, and a window that has grown",
    at: At::Program,
    findings: &[],
    limits: &[Limit::Handshake, Limit::SlowStart],
    possible,
    change: Change::InTwin(|twin, _| twin.passes = 2),
    sysctls: &[],
    set: &[
        line(
            "HTTP client",
            "a pool of connections with keep-alive; Python: requests.Session(); Go: one http.Client, bodies read to their end; Java: one HttpClient",
        ),
        line("nginx", "upstream { keepalive 32; } with proxy_http_version 1.1; proxy_set_header Connection \"\";"),
        line("databases", "a pool of connections (PgBouncer, HikariCP)"),
    ],
    undo: &[line("any", "without the pool")],
    costs: "sockets that stay open at both ends; those that time out have to be opened again",
    source: "RFC 9112, section 9.3",
};

fn possible(c: &Conditions, _: Way) -> Result<(), &'static str> {
    if c.duration_ns.0 > 60_000_000_000 { Err("it is kept open for long already") } else { Ok(()) }
}
