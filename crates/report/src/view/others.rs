//! What is said of receives, requests, packets and datagrams in plain words.

use paper::document::{Clause, Text};
use record::{Direction, LegName, Nanos, Role, WaitReason};
use stats::{Distribution, Quantile};
use summary::{Drops, LegPlace, RoleFigures, TimedKind, TimedLeg, TraceSummary};

use super::advice::{of_receives, of_requests};
use super::capital;
use crate::view;

/// So many of one kind: `400 requests seen from the client`.
pub(crate) fn counted(kind: TimedKind, n: u64) -> String {
    let how = match kind {
        TimedKind::AtClient => " seen from the client",
        TimedKind::AtServer => " seen from the server",
        TimedKind::DatagramsSent => " sent",
        TimedKind::DatagramsReceived => " received",
        _ => "",
    };
    format!("{}{how}", quantity::counted(n, kind.thing()))
}

/// What was found first, with what to do about it; nothing where there is nothing of the kind.
pub(crate) fn words_of(summary: &TraceSummary, kind: TimedKind) -> Vec<Clause> {
    let n = summary.n(kind);
    let requests = requests_of(summary, kind);
    let mut clauses = Vec::new();
    if n > 0 {
        clauses.push(Clause::finding(match requests {
            Some(of) => took(summary, kind, of),
            None => division(summary, kind).into(),
        }));
    }
    let next = match kind {
        TimedKind::Receives => of_receives(summary),
        TimedKind::AtClient => of_requests(summary, Role::Client),
        TimedKind::AtServer => of_requests(summary, Role::Server),
        _ => None,
    };
    if let Some(last) = clauses.last_mut() {
        last.next = next;
    }
    let mut words = Vec::new();
    if n > 0 && requests.is_some() {
        words.push(division(summary, kind));
    }
    match kind {
        TimedKind::Sends => {}
        TimedKind::Receives => {
            let out_of_order = summary.receives().out_of_order;
            if out_of_order > 0 {
                words.push(format!(
                    "{} came out of order: what follows a gap waits in the leg socket until the gap is filled.",
                    quantity::counted(out_of_order, "receive")
                ));
            }
            let unread = summary.receives().unread;
            if unread > 0 {
                words.push(format!("{} never read while the trace ran.", were(unread, "receive")));
            }
        }
        TimedKind::AtClient | TimedKind::AtServer => {
            let Some(of) = requests_of(summary, kind) else { return clauses };
            words.extend(view::overlapping(of));
            words.extend(view::multiplexed(of));
            words.extend(view::waited(of));
            words.extend(view::separated(of));
            words.extend(view::undivided(of));
        }
        TimedKind::Packets => words.extend(view::packet_words(summary.packets())),
        TimedKind::DatagramsSent => words.extend(view::datagram_words(summary.datagrams(), Direction::Sent)),
        TimedKind::DatagramsReceived => words.extend(view::datagram_words(summary.datagrams(), Direction::Received)),
    }
    words.extend(drops_of(summary, kind));
    clauses.extend(words.into_iter().map(Clause::detail));
    clauses
}

/// How long requests took, typical ones and the slowest, and where; which part took most of the
/// time where they are too few to have a slowest hundredth.
fn took(summary: &TraceSummary, kind: TimedKind, of: &RoleFigures) -> Text {
    let times = of.records.total();
    let n = summary.n(kind);
    if times.n() == 0 {
        return division(summary, kind).into();
    }
    let timed = match times.n() {
        timed if timed == n => String::new(),
        timed => format!(" of the {} that were timed to their end", quantity::count(timed)),
    };
    let said = Text::from(format!("{}: {}{timed}. ", counted(kind, n), spread(times)));
    match view::typical_and_slowest(of) {
        Some(where_) => said.and(where_),
        None => said.and(most(summary, kind).map_or_else(String::new, |most| format!("{most} of their time."))),
    }
}

/// `median 2.18 ms, p99 122 ms`.
pub(super) fn spread(times: &Distribution) -> String {
    let show = |ns: u64| quantity::whole(Nanos(ns));
    let most = || show(times.max().unwrap_or(0));
    match (times.quantile(Quantile::P50), times.quantile(Quantile::P99)) {
        (Some(p50), Some(p99)) => format!("median {}, p99 {}", show(p50), show(p99)),
        (Some(p50), None) => format!("median {}, at most {}", show(p50), most()),
        _ if times.n() == 1 => format!("{} in the one there is", most()),
        _ => format!("the longest {}", most()),
    }
}

/// What the kernel dropped of one kind, in one sentence.
pub(crate) fn drops_of(summary: &TraceSummary, kind: TimedKind) -> Option<String> {
    match kind {
        TimedKind::Packets => dropped(&summary.packets().drops, None, "packet"),
        TimedKind::DatagramsSent => dropped(&summary.datagrams().drops, Some(Direction::Sent), "datagram"),
        TimedKind::DatagramsReceived => dropped(&summary.datagrams().drops, Some(Direction::Received), "datagram"),
        _ => None,
    }
}

/// `1 packet was`, `40 packets were`.
pub(super) fn were(n: u64, thing: &str) -> String {
    format!("{} {}", quantity::counted(n, thing), if n == 1 { "was" } else { "were" })
}

/// The requests of this kind.
pub(crate) fn requests_of(summary: &TraceSummary, kind: TimedKind) -> Option<&RoleFigures> {
    match kind {
        TimedKind::AtClient => Some(summary.requests().of(Role::Client)),
        TimedKind::AtServer => Some(summary.requests().of(Role::Server)),
        _ => None,
    }
}

/// The legs that add up to the whole and took any of its time, the one that took most first.
fn parts(summary: &TraceSummary, kind: TimedKind) -> Vec<(&'static TimedLeg, &Distribution)> {
    let mut parts: Vec<_> =
        summary.times(kind).into_iter().filter(|(leg, times)| leg.place == LegPlace::Adds && times.sum() > 0).collect();
    parts.sort_by_key(|(_, times)| std::cmp::Reverse(times.sum()));
    parts
}

/// Which of them took most, and how much: `The wakeup leg (until the program had read it) took
/// 76 %`.
fn most(summary: &TraceSummary, kind: TimedKind) -> Option<String> {
    let parts = parts(summary, kind);
    let (leg, took) = parts.first()?;
    let sum: u128 = parts.iter().map(|(_, times)| times.sum()).sum();
    let part = if requests_of(summary, kind).is_some() { "part" } else { "leg" };
    let share = quantity::whole(quantity::percent(quantity::share(took.sum(), sum)));
    Some(format!("The {} {part} ({}) took {share}", leg.name, leg.meaning))
}

/// Which legs took the time, and in a second sentence how long they took together.
fn division(summary: &TraceSummary, kind: TimedKind) -> String {
    let times = summary.times(kind);
    let of = counted(kind, summary.n(kind));
    let (total, all) = times[kind.total()];
    if all.n() == 0 {
        return match kind {
            // Nothing acknowledges an ACK, nor a datagram.
            TimedKind::Packets => format!("None of {of} was seen to be acknowledged."),
            _ => format!("None of {of} has the stamps that would show how long it took."),
        };
    }
    let parts = parts(summary, kind);
    let sum: u128 = parts.iter().map(|(_, times)| times.sum()).sum();
    let share = |times: &Distribution| quantity::whole(quantity::percent(quantity::share(times.sum(), sum)));
    let timed = match all.n() {
        n if n == summary.n(kind) => of,
        n => format!("the {} of {of} that were timed to their end", quantity::count(n)),
    };
    let Some(most) = most(summary, kind) else { return format!("No leg of {timed} is known.") };
    let mut text = format!("{most} of the time of {timed}");
    if let Some(reason) = requests_of(summary, kind)
        .filter(|_| parts[0].0.name == LegName::Tcp)
        .and_then(|of| of.waits().first().copied())
    {
        // A name takes no article.
        let article = if reason.0 == WaitReason::Nagle { "" } else { "the " };
        let reason = reason.0;
        text.push_str(&format!(", mostly for {article}{reason}"));
    }
    text.push('.');
    let rest: Vec<String> = parts[1..].iter().map(|(leg, times)| format!("{} {}", leg.name, share(times))).collect();
    if !rest.is_empty() {
        text.push_str(&format!(" The rest: {}.", rest.join(", ")));
    }
    format!("{text} {}: {}.", capital(total.meaning), spread(all))
}

fn dropped(drops: &Drops, direction: Option<Direction>, thing: &str) -> Option<String> {
    let mut those: Vec<_> = drops.iter().filter(|d| direction.is_none_or(|of| d.0.0 == of)).collect();
    those.sort_by_key(|d| std::cmp::Reverse(d.1));
    let n: u64 = those.iter().map(|d| d.1).sum();
    let named: Vec<String> = those
        .iter()
        .take(3)
        .map(|((how, reason), n)| match direction {
            Some(_) => format!("{reason} {}", quantity::count(**n)),
            None => format!("{reason} {} ({})", quantity::count(**n), how.name()),
        })
        .collect();
    (n > 0).then(|| format!("{} dropped on this host, by the kernel's reason: {}.", were(n, thing), named.join(", ")))
}

/// How received bytes were observed, and what of it was not: a remark each.
pub fn receiving_remarks(how: &store::Receiving) -> Vec<String> {
    let missing =
        how.missing.iter().map(|(stage, why)| format!("— {stage}: {why}. {}", stage.without().unwrap_or_default()));
    let mut remarks: Vec<String> = missing.collect();
    remarks.push(format!("Beyond the target: {}.", how.host_wide.join("; ")));
    remarks
}

/// The same of the calls that write.
pub fn call_remarks(how: &store::Observing) -> Vec<String> {
    let mut remarks: Vec<String> = how.missing.iter().map(|what| format!("— not seen: {what}.")).collect();
    if !how.host_wide.is_empty() {
        remarks.push(format!("Beyond the target: {}.", how.host_wide.join("; ")));
    }
    remarks
}

/// The same of packets and datagrams.
pub fn packet_remarks(how: &store::Observing) -> Vec<String> {
    let mut remarks: Vec<String> = how.missing.iter().map(|what| format!("— not seen: {what}.")).collect();
    remarks.push(format!("Beyond the target: {}.", how.host_wide.join("; ")));
    remarks
}
