//! Findings on what clients began with servers, TLS or QUIC: one for each rule and server, with
//! what shows it most clearly.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use record::{Conclusion, Nanos};

use crate::tls::Moment;

/// Findings at most: a scan has one for each server.
const FINDINGS: usize = 500;
/// Packets that a finding names at most.
const PACKETS: usize = 24;
/// A wait that people notice, ns.
pub(crate) const LONG: u64 = 50_000_000;
/// A wait, or a round trip, that is worth a change, ns.
pub(crate) const TRIP: u64 = 5_000_000;

/// What to do where a server takes none of the application protocols that a client offers.
pub(crate) const OFFER_ANOTHER: &str = "compare the application protocols (ALPN) that the client offers with those that \
                                        the server, or the proxy before it, is set up for at this name and port";

/// Application protocols that a text names at most.
const NAMED: usize = 8;

/// What is said of these protocols, separated by blanks, of which a server takes none.
pub(crate) fn none_of(offered: &str) -> String {
    let offered: Vec<&str> = offered.split_whitespace().collect();
    let more = match offered.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {} more", quantity::count(n as u64)),
    };
    let which = offered[..offered.len().min(NAMED)].join(", ");
    let which = if which.is_empty() { which } else { format!(": {which}{more}") };
    format!("none of the application protocols that the client offers{which} (no_application_protocol)")
}

/// What a client began with a server.
pub(crate) trait Begun {
    /// The number of its connection.
    fn number(&self) -> u64;
    /// Its place among the others.
    fn place(&self) -> u64;
    fn client(&self) -> IpAddr;
    /// The server, and the name by which it was asked for.
    fn asked(&self) -> (SocketAddr, Option<&str>);
    /// Numbers of its packets.
    fn packets(&self) -> Vec<u64>;

    /// The server as a text names it.
    fn server(&self) -> String {
        match self.asked() {
            (_, Some(name)) => format!("`{name}`"),
            (address, None) => address.to_string(),
        }
    }
}

/// The packets of these moments, each once.
pub(crate) fn packets_of(moments: impl IntoIterator<Item = Moment>) -> Vec<u64> {
    let mut packets: Vec<u64> = moments.into_iter().map(|m| m.packet).collect();
    packets.sort_unstable();
    packets.dedup();
    packets
}

/// What one of these shows.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// When the client waited for it.
    pub(crate) waited: Range<u64>,
    pub(crate) text: String,
    pub(crate) next: String,
}

/// Everything found, the costliest first. `rules` say of each case whether it shows what their kind
/// of finding is about; several are so many `of_them` more.
pub(crate) fn draw<K: Copy + Ord, C: Begun, R: Fn(&C) -> Option<Shown>>(
    cases: &[C],
    rules: impl IntoIterator<Item = (K, R)>,
    of_them: &str,
) -> Vec<Conclusion<K>> {
    let mut all = Vec::new();
    for (kind, rule) in rules {
        let mut by_server: BTreeMap<_, Vec<(&C, Shown)>> = BTreeMap::new();
        for case in cases {
            if let Some(shown) = rule(case) {
                by_server.entry(case.asked()).or_default().push((case, shown));
            }
        }
        all.extend(by_server.into_values().filter_map(|shown| finding(kind, &shown, of_them)));
    }
    all.sort_by_key(|f| (Reverse(f.cost_ns), f.kind, f.at_ns));
    all.truncate(FINDINGS);
    all
}

fn finding<K, C: Begun>(kind: K, all: &[(&C, Shown)], of_them: &str) -> Option<Conclusion<K>> {
    let length = |shown: &Shown| shown.waited.end.saturating_sub(shown.waited.start);
    let (worst, shown) = all.iter().max_by_key(|(case, shown)| (length(shown), Reverse(case.place())))?;
    let count = all.len() as u64;
    let more = match count {
        1 => String::new(),
        n => format!(" ({} like it)", quantity::counted(n - 1, &format!("more {of_them}"))),
    };
    let mut packets = worst.packets();
    packets
        .extend(all.iter().filter(|(other, _)| !std::ptr::eq(*other, *worst)).flat_map(|(other, _)| other.packets()));
    packets.truncate(PACKETS);
    Some(Conclusion {
        kind,
        shown_by: worst.number(),
        at_ns: Nanos(all.iter().map(|(_, shown)| shown.waited.start).min()?),
        count,
        cost_ns: crate::waits::once(all.iter().map(|(case, shown)| (case.client(), shown.waited.clone()))),
        text: format!("{}{more}", shown.text),
        next: shown.next.clone(),
        packets: crate::dns::joined(&packets),
    })
}
