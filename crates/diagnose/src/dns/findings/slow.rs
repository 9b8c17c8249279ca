//! A server that takes long, beside another one, beside itself at other times, or for a person.

use std::collections::HashSet;
use std::net::SocketAddr;

use record::Nanos;
use record::dns::DnsFinding;

use super::{Asked, Shown, View, host};
use crate::dns::lookup::Case;

/// A median that people notice.
const LONG: u64 = 100_000_000;
/// A median that is worth a change of server, where another one takes a quarter of it.
const LONGER: u64 = 20_000_000;
/// A single answer that people notice.
const SINGLE: u64 = 500_000_000;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let mut medians: Vec<(Nanos, SocketAddr)> =
        view.servers().filter_map(|s| Some((s.server.median_ns?, s.server.server))).collect();
    medians.sort_unstable();
    let fastest = |but: SocketAddr| medians.iter().copied().find(|(_, server)| *server != but);
    // What is late beside its other half is a finding of its own.
    let halves: HashSet<u64> = view.late_aaaa.by_case().map(|(case, _)| case.number).collect();
    view.servers().flat_map(|s| of_server(s, fastest(s.server.server), &halves)).collect()
}

fn of_server(asked: &Asked<'_, '_>, other: Option<(Nanos, SocketAddr)>, halves: &HashSet<u64>) -> Vec<DnsFinding> {
    let s = asked.server;
    let Some(median) = s.median_ns.map(|m| m.0) else { return Vec::new() };
    let faster = other.filter(|(other, _)| median >= LONGER && median >= 4 * other.0);
    let is_slow = median >= LONG || faster.is_some();
    let least = if is_slow { median.min(LONG) } else { SINGLE.max(10 * median) };
    let mut shown = Shown::default();
    let mut fastest = u64::MAX;
    for &(case, i) in &asked.tries {
        let e = case.tries[i];
        let Some(took) = e.took().filter(|_| !e.repeats) else { continue };
        fastest = fastest.min(took);
        let is_seen_otherwise = e.refused().is_some() || !is_slow && halves.contains(&case.number);
        if took >= least && !is_seen_otherwise {
            shown.add(case, e.asked..e.asked + took);
        }
    }
    if shown.is_empty() {
        return Vec::new();
    }
    let at = host(s.server);
    let beside = faster.map(|(other, o)| format!("; {} takes {other}", host(o))).unwrap_or_default();
    let usual = format!("median of {}: {}", quantity::counted(s.answered, "answer"), Nanos(median));
    // Where no answer comes much sooner than half of them do, the way there may be as long.
    let may_be_far = is_slow && fastest >= median / 4 * 3;
    let text = |case: &Case<'_>| {
        let own = case.tries.iter().filter(|e| e.server == s.server && !e.repeats);
        let took = Nanos(own.filter_map(|e| e.took()).max().unwrap_or_default());
        match s.answered {
            1 => format!("{at} took {took} to answer for {}{beside}", case.name()),
            _ if may_be_far => format!(
                "answers of {at} take long ({usual}, none below {}), {took} for {}: it is far away, or takes as long for \
                 each{beside}",
                Nanos(fastest),
                case.name()
            ),
            _ if is_slow => {
                format!(
                    "{at} is slow to answer ({usual}, the fastest {}), {took} for {}{beside}",
                    Nanos(fastest),
                    case.name()
                )
            }
            _ => format!("{at} took {took} to answer for {} ({usual})", case.name()),
        }
    };
    let next = if may_be_far {
        format!(
            "ping {}: what its round trip does not explain is the server's own time; a cache nearby saves both",
            s.server.ip()
        )
    } else {
        format!(
            "ask {at} for the same name twice: if the second answer is fast, it had to look the name up elsewhere, and a cache \
             nearby helps; else it is far away or busy"
        )
    };
    shown.finding(text, next)
}
