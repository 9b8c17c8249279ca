//! Segments that fit through a path which swallows larger ones.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "MSS clamping",
    what: "announce segments that fit through the narrowest link",
    at: At::Path,
    findings: &[FindingKind::MtuBlackHole],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| {
        if let Some(largest) = twin.lane(way).black_hole {
            // What both ends announce in their SYNs is what a router would write there.
            twin.path.mtu = twin.path.mtu.min(largest);
        }
    }),
    sysctls: &[],
    set: &[
        line("nft, on the router", "nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu"),
        line("ip route, on a host", "ip route change <route> advmss <bytes>"),
        line("the firewall", "let ICMP \"fragmentation needed\" and ICMPv6 \"packet too big\" through"),
    ],
    undo: &[
        line("nft", "nft delete rule inet filter forward handle <handle>"),
        line("ip route", "ip route change <route> advmss 0"),
    ],
    costs: "smaller segments on every path behind that router",
    source: "RFC 2923, section 2.1; nft(8)",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    match c.lanes[way as usize].black_hole {
        Some(_) => Ok(()),
        None => Err("no packet of a certain size vanished"),
    }
}
