//! The report in plain words: what dominated, why, and what cannot be said.

use paper::document::{Clause, ClauseKind, Text};
use record::{Leg, Nanos, Opening, Sampling, WaitReason};
use stats::{Distribution, Quantile};

use super::advice::{advice, is_by_loss};
use super::connections::{Trouble, trouble};
use super::others::{drops_of, requests_of, were, words_of};
use super::proxied::{apart, proxied};
use super::requests::multiplexed;
use super::transfers::transfers;
use super::waits::called;
use super::{Facts, meaning};
use summary::TimedKind;
use summary::{LegFigures, SendFigures, TraceSummary, WaitStats};

/// Fewer acknowledged sends than this show what happened to them, and say little of what is usual.
const FEW: u64 = 30;

/// The most important clause first: all that is to say of a trace of sends alone; of several kinds
/// what was found of each, and what was dropped.
///
/// Where connections do not work, that comes before what sends and requests take, with what to do.
pub(crate) fn sentences(summary: &TraceSummary, facts: &Facts) -> Vec<Clause> {
    let Trouble { headline, beside } = trouble(summary, facts);
    let mut said = of_what_was_sent(summary, facts);
    if headline.is_some() {
        said.iter_mut().for_each(|clause| clause.next = None);
    }
    let first = usize::from(headline.is_some());
    said.splice(0..0, headline);
    let at = said.iter().position(|clause| clause.kind == ClauseKind::Caveat).unwrap_or(said.len()).max(first);
    said.splice(at..at, beside);
    said
}

fn of_what_was_sent(summary: &TraceSummary, facts: &Facts) -> Vec<Clause> {
    let mut all = by_family(summary, facts);
    if all.len() == 1 {
        return all.pop().map_or_else(Vec::new, |(_, clauses)| clauses);
    }
    // Where requests are known, what their sends and receives take is a part of them, and stands in
    // the sections of these; but what limits bulk data is no request's.
    let of_requests = all.first().is_some_and(|(kind, _)| requests_of(summary, *kind).is_some());
    let is_bulk = transfers(summary, facts).is_some();
    all.retain(|(kind, _)| match kind {
        TimedKind::Sends => !of_requests || is_bulk,
        TimedKind::Receives => !of_requests,
        _ => true,
    });
    // What a proxy took comes before what its two sides took, which says less of where to look.
    let mut said = proxied(summary);
    let (is_joined, apart) = (said.iter().any(|clause| clause.next.is_some()), apart(summary));
    for (kind, clauses) in all {
        // What was found of it. What to do about sends is said where they come first, or alone.
        let mut found: Vec<Clause> = clauses.into_iter().take_while(|c| c.kind == ClauseKind::Finding).collect();
        if kind == TimedKind::Sends && !said.is_empty() {
            found.iter_mut().for_each(|clause| clause.next = None);
        }
        // What a program asks others is traced already.
        let asks = is_joined || (apart.is_some() && kind == TimedKind::AtServer);
        if asks && requests_of(summary, kind).is_some() {
            found.iter_mut().for_each(|clause| clause.next = None);
        }
        said.append(&mut found);
        // What is counted there is not what it is called.
        said.extend(requests_of(summary, kind).and_then(multiplexed).map(Clause::caveat));
        said.extend(drops_of(summary, kind).map(Clause::finding));
    }
    said.extend(apart);
    said
}

/// What is to say of each kind that there is. Requests cover the whole path, so they come first.
fn by_family(summary: &TraceSummary, facts: &Facts) -> Vec<(TimedKind, Vec<Clause>)> {
    let mut order = TimedKind::ALL;
    order.sort_by_key(|kind| !matches!(kind, TimedKind::AtClient | TimedKind::AtServer));
    let mut all: Vec<_> = order.into_iter().map(|kind| (kind, words_of_any(summary, facts, kind))).collect();
    all.retain(|(_, clauses)| !clauses.is_empty());
    let tried = [Opening::Connected, Opening::Accepted].map(|way| summary.connects().of(way).failures());
    if all.is_empty() && tried.iter().all(Vec::is_empty) {
        all.push((TimedKind::Sends, vec![nothing(summary, facts).into()]));
    }
    all
}

/// What is to say of one kind; nothing where there is none of it. What was found comes before its
/// details.
pub(crate) fn words_of_any(summary: &TraceSummary, facts: &Facts, kind: TimedKind) -> Vec<Clause> {
    let total = summary.total();
    match kind {
        TimedKind::Sends if total.leg(Leg::Total).n() > 0 => {
            let mut clauses = dominant(total, summary.retransmissions(), facts);
            let full = buffer(total);
            // What holds the programs up for most of the trace comes first.
            let mostly = buffer_time(total) * 2 >= u128::from(facts.lasted.0);
            let blocked = full.is_some() && (mostly || summary.transfers().is_some_and(|of| of.are_blocked()));
            match full {
                Some(full) if blocked => clauses.insert(0, Clause::finding(full)),
                Some(full) => clauses.push(Clause::detail(full)),
                None => {}
            }
            // Of bulk data the rate is asked, and what takes the time of a send is a detail.
            if let Some(transfers) = transfers(summary, facts) {
                for clause in clauses.iter_mut().filter(|clause| clause.kind == ClauseKind::Finding) {
                    clause.kind = ClauseKind::Detail;
                }
                clauses.insert(0, transfers);
            }
            let idle = idle(total, facts, summary.requests().is_empty());
            if let (None, Some(first)) = (&idle, clauses.first_mut()) {
                first.next = advice(summary, blocked);
            }
            clauses.splice(0..0, idle);
            clauses.extend(waiting(total).into_iter().map(Clause::detail));
            clauses.extend(exceptions(total).into_iter().map(Clause::caveat));
            clauses
        }
        TimedKind::Sends if total.sends > 0 => vec![nothing(summary, facts).into()],
        TimedKind::Sends => Vec::new(),
        other => words_of(summary, other),
    }
}

/// Sends that together take less than this part of the time of their connections are no reason for
/// anything that takes long.
const IDLE: u128 = 20;

/// That next to nothing was on its way: what sends take is then not what programs wait for.
fn idle(total: &SendFigures, facts: &Facts, no_requests: bool) -> Option<Clause> {
    let (took, followed) = (total.leg(Leg::Total).sum() + buffer_time(total), u128::from(facts.coverage.followed.0));
    let whole = facts.coverage.armed.0 / 99 >= facts.coverage.followed.0 / 100;
    let every = facts.sampling == Sampling::Every && whole && total.leg(Leg::Total).n() == total.sends;
    if !every || total.leg(Leg::Total).so_far.n() > 0 || took * IDLE >= followed {
        return None;
    }
    let text = format!(
        "Nothing was on its way for {} of the time of the connections: sends that were faster would save {} of {} at most.",
        percent(followed - took, followed),
        quantity::whole(Nanos(u64::try_from(took).unwrap_or(u64::MAX))),
        quantity::whole(facts.coverage.followed)
    );
    let next = || {
        Text::from("the time goes by in a program, or it waits for an answer: ")
            .and(Text::code("--requests"))
            .and(" tells which, and how long.")
    };
    Some(Clause::finding(text).with_next(no_requests.then(next)))
}

fn percent(part: u128, of: u128) -> String {
    quantity::whole(quantity::percent(quantity::share(part, of)))
}

fn nothing(summary: &TraceSummary, facts: &Facts) -> String {
    let total = summary.total();
    if total.sends > 0 {
        return format!(
            "{} finished, and none of them was acknowledged: there is no time to divide among the legs.",
            quantity::counted(total.sends, "send")
        );
    }
    if summary.connection_count() == 0 {
        return format!("No TCP connection of {} was seen in {}.", facts.target, quantity::whole(facts.lasted));
    }
    let written = facts.coverage.bytes_written;
    let connections = quantity::counted(summary.connection_count(), "connection");
    if written == 0 {
        format!(
            "{connections} followed for {}, and nothing was written on them by this host.",
            quantity::whole(facts.lasted)
        )
    } else {
        format!(
            "{connections} followed for {}. TCP counted {} written on them, but no send was recorded to its end.",
            quantity::whole(facts.lasted),
            quantity::whole(quantity::bytes(written))
        )
    }
}

fn dominant(total: &SendFigures, retransmissions: u64, facts: &Facts) -> Vec<Clause> {
    let n = total.leg(Leg::Total).n();
    let time = total.time();
    let mut parts: Vec<(Leg, u128)> = Leg::ADDITIVE.into_iter().map(|leg| (leg, total.leg(leg).sum())).collect();
    parts.sort_by_key(|p| std::cmp::Reverse(p.1));
    let sends = quantity::counted(n, "send");
    let (leg, took) = parts[0];
    if time == 0 {
        return vec![
            format!("The time of {sends} cannot be divided among the legs: none has the stamps for it.").into(),
        ];
    }
    let mut out = Vec::new();
    let undivided = time - total.divided();
    let below = &total.below_tcp;
    if below.sum() * 2 >= time {
        out.push(Clause::finding(format!(
            "The qdisc and the network leg ({}, {}) together took {} of the time of {sends} ({}).",
            meaning(Leg::Qdisc),
            meaning(Leg::Network),
            percent(below.sum() + total.leg(Leg::Qdisc).sum() + total.leg(Leg::Network).sum(), time),
            spread(below, facts.sampling != Sampling::Every)
        )));
        out.extend(network(&below.times, total.is_at_distance(), &late(total, retransmissions)).map(Clause::detail));
    } else if undivided > took {
        out.push(Clause::finding(format!(
            "Where {} of the time of {sends} went is not known, as stages gave no stamp ({}).",
            percent(undivided, time),
            spread(total.leg(Leg::Total), facts.sampling != Sampling::Every)
        )));
    } else if took * 2 >= time {
        out.push(Clause::finding(format!(
            "The {leg} leg ({}) took {} of the time of {sends} (this leg: {}).",
            meaning(leg),
            percent(took, time),
            spread(total.leg(leg), facts.sampling != Sampling::Every)
        )));
        let rest: Vec<String> = parts[1..]
            .iter()
            .filter(|(leg, _)| total.leg(*leg).n() > 0)
            .map(|&(leg, took)| format!("{leg} {}", percent(took, time)))
            .collect();
        if !rest.is_empty() {
            out.push(Clause::detail(format!("The rest: {}.", rest.join(", "))));
        }
    } else {
        let (second, then) = parts[1];
        out.push(Clause::finding(format!(
            "No leg took half of the time of {sends}: {leg} ({}) took {}, {second} ({}) {}.",
            meaning(leg),
            percent(took, time),
            meaning(second),
            percent(then, time)
        )));
    }
    if leg == Leg::Network {
        let (times, why) = (&total.leg(Leg::Network).times, late(total, retransmissions));
        out.extend(network(times, total.is_at_distance(), &why).map(Clause::detail));
    }
    if n < FEW {
        out.push(Clause::caveat(format!("Too few to show what is usual: {}.", quantity::counted(n, "send"))));
    }
    out
}

/// The median and the tail, as far as `n` carries them. Of a sample the median is an estimate and
/// has an interval; where every send was recorded it is what it is.
fn spread(leg: &LegFigures, sampled: bool) -> String {
    let times = &leg.times;
    let show = |ns: u64| quantity::whole(Nanos(ns));
    // What is not over yet took longer.
    let over = if leg.so_far.max() > times.max() { "over\u{a0}" } else { "" };
    let most = || format!("{over}{}", show(leg.max().unwrap_or(0)));
    let Some(median) = leg.quantile(Quantile::P50) else {
        return match leg.n() {
            1 => format!("{} in the one send there is", most()),
            _ => format!("the longest {}", most()),
        };
    };
    let mut text = format!("median {}", show(median));
    if sampled
        && leg.so_far.n() == 0
        && let Some((low, high)) = times.interval(Quantile::P50, 0.95)
        && show(low) != show(high)
    {
        text.push_str(&format!(", 95\u{a0}% interval {} to {}", show(low), show(high)));
    }
    match leg.quantile(Quantile::P99) {
        Some(p99) => text.push_str(&format!(", p99 {}", show(p99))),
        None => text.push_str(&format!(", {} {}", if over.is_empty() { "at most" } else { "the longest" }, most())),
    }
    text
}

/// Why sends take longer on the path than the least, as far as that is known here.
struct Late {
    why: String,
    by_loss: bool,
}

fn late(total: &SendFigures, retransmissions: u64) -> Late {
    let by_loss = is_by_loss(total);
    let why = match total.late_by_retransmission() {
        Some((n, share)) if by_loss => format!(
            "{} {} {} of the time beyond that, as packets were lost",
            quantity::counted(n, "retransmitted send"),
            if n == 1 { "has" } else { "have" },
            quantity::whole(quantity::percent(share))
        ),
        _ if retransmissions == 0 => {
            "queues on the path, or a peer that delays its ACKs, add to it (nothing was retransmitted)".to_owned()
        }
        _ => "queues on the path, a peer that delays its ACKs, or retransmissions add to it".to_owned(),
    };
    Late { why, by_loss }
}

/// What the shape of the network leg shows, and what it cannot. Only the tail bounds nearly all of
/// it: the largest percentile that so many sends give, or of fewer the maximum. It is the distance
/// only where the minimum RTT takes as long (`at_distance`).
fn network(times: &Distribution, at_distance: bool, late: &Late) -> Option<String> {
    let (min, median) = (times.min()?, times.quantile(Quantile::P50)?);
    let least = quantity::whole(Nanos(min));
    let near = |time: u64| time <= min.saturating_add(min / 4);
    let tail = [Quantile::P99, Quantile::P90].into_iter().find_map(|q| Some((q.to_string(), times.quantile(q)?)));
    let (name, tail) = tail.or_else(|| Some(("maximum".to_owned(), times.max()?)))?;
    let shape = if near(tail) && !at_distance {
        format!(
            "That leg's {name} is within a quarter of its minimum ({least}), and that this is the distance is not known: TCP knew of shorter \
             round trips, or of none. A peer that delays each ACK looks the same"
        )
    } else if near(tail) {
        format!(
            "That leg's {name} is within a quarter of its minimum ({least}), as on a path where only the distance counts"
        )
    } else if near(median) {
        format!(
            "That leg's median is within a quarter of its minimum ({least}), its {name} is {} times the minimum: {}",
            times_as_much(tail, min),
            late.why
        )
    } else {
        format!("That leg's median is {} times its minimum ({least}): {}", times_as_much(median, min), late.why)
    };
    let rest = match late.by_loss && !near(tail) {
        true => "",
        false => " From this side the wire, the peer and the ACK's path back cannot be distinguished.",
    };
    Some(format!("{shape}.{rest}"))
}

fn times_as_much(a: u64, b: u64) -> String {
    let ratio = a as f64 / b.max(1) as f64;
    if ratio < 9.95 { format!("{ratio:.1}") } else { quantity::count(ratio.round() as u64) }
}

fn buffer_time(total: &SendFigures) -> u128 {
    total.buffer_waits().iter().map(|w| u128::from(w.1.time.0)).sum()
}

/// How long programs waited for room in the send buffer, and why there was none. Less than a
/// hundredth of the sends' time is not worth a sentence.
fn buffer(total: &SendFigures) -> Option<String> {
    let time = buffer_time(total);
    if time == 0 || time * 100 < total.time() {
        return None;
    }
    let waits = total.buffer_waits();
    let why: Vec<String> = waits
        .iter()
        .take(3)
        .map(|(reason, stats)| {
            let what = match (reason, total.buffer_full_while_slower(*reason)) {
                (WaitReason::SendBuffer, true) => "nothing else, while round trips took longer than at rest".to_owned(),
                (WaitReason::SendBuffer, false) => "nothing else, so the buffer is too small for the path".to_owned(),
                (WaitReason::ReceiveWindow | WaitReason::Retransmission, true) => {
                    format!("{} while round trips took longer than at rest", called(*reason))
                }
                (reason, _) => called(*reason),
            };
            format!("{what} {}", percent(stats.time.0.into(), time))
        })
        .collect();
    Some(format!(
        "Programs waited {} for room in the send buffer, before {}. What held the queue meanwhile: {}.",
        quantity::whole(Nanos(u64::try_from(time).unwrap_or(u64::MAX))),
        quantity::counted(total.buffer_waited(), "send"),
        why.join(", ")
    ))
}

fn waiting(total: &SendFigures) -> Vec<String> {
    let tcp = total.leg(Leg::Tcp);
    let (waits, waited) = (total.waits(), total.waited());
    let time: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let WaitStats { sends: at_once, time: at_once_took } = total.wait(WaitReason::SentAtOnce);
    let known = waited + at_once;
    if known == 0 {
        return vec!["Why sends waited in TCP is not known.".into()];
    }
    let mut out = Vec::new();
    if at_once == known {
        let all = if known == 1 { "It".to_owned() } else { format!("All {}", quantity::counted(known, "send")) };
        out.push(format!("{all} left TCP at once."));
    } else if at_once > 0 {
        let of = percent(at_once.into(), known.into());
        out.push(format!(
            "{} of {} left TCP at once ({of}).",
            quantity::count(at_once),
            quantity::counted(known, "send")
        ));
    }
    if waited > 0 && time > 0 {
        let named: Vec<String> = waits
            .iter()
            .take(3)
            .enumerate()
            .map(|(i, (reason, stats))| {
                let what = called(*reason);
                let of = if i == 0 { " of the waiting time" } else { "" };
                let share = percent(stats.time.0.into(), time);
                format!("{what} {share}{of} ({})", quantity::counted(stats.sends, "send"))
            })
            .collect();
        let those = match waited {
            1 => "The one that waited".to_owned(),
            n => format!("The {} that waited", quantity::count(n)),
        };
        out.push(format!("{those}: {}.", named.join(", ")));
        let told = time + u128::from(at_once_took.0);
        if quantity::share(told, tcp.sum()) < 0.9 {
            out.push(format!(
                "Of the rest of the tcp leg, {}, it is not known why.",
                percent(tcp.sum() - told, tcp.sum())
            ));
        }
    }
    out
}

fn exceptions(total: &SendFigures) -> Vec<String> {
    let mut out = Vec::new();
    if total.retransmitted > 0 {
        out.push(format!("{} retransmitted.", were(total.retransmitted, "send")));
    }
    let without = total.sends - total.leg(Leg::Total).times.n();
    if without > 0 && total.leg(Leg::Total).so_far.n() == 0 {
        out.push(format!(
            "{} still unacknowledged at the end: the true times are slightly longer.",
            were(without, "send")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Precision;

    #[test]
    fn sends_that_take_next_to_none_of_the_time_are_no_reason_for_it() {
        let mut summary = TraceSummary::new(summary::Limits::default(), record::Instant::from_nanos(0));
        synthetic::trace(1, 100).iter().for_each(|event| summary.add(event));
        let followed = Nanos(u64::try_from(summary.total().leg(Leg::Total).sum()).unwrap() * 100);
        let of = |followed, armed| {
            let coverage = record::Coverage { followed, armed, ..record::Coverage::default() };
            let facts = Facts { coverage, ..crate::view::tests_of_connections::facts(0) };
            idle(summary.total(), &facts, true).map(|clause| clause.text.to_string().replace('\u{a0}', " "))
        };
        let said = of(followed, followed).expect("a sentence");
        assert!(said.starts_with("Nothing was on its way for 99 % of the time"), "{said}");
        // Of a part of the time it is not known; and where sends take half of it, they may be why.
        assert_eq!(of(followed, Nanos(followed.0 / 2)), None);
        assert_eq!(of(Nanos(followed.0 / 50), Nanos(followed.0 / 50)), None);
    }

    fn queues() -> Late {
        Late { why: "queues add to it".into(), by_loss: false }
    }

    /// What is said of a network leg with so many sends of each time, in milliseconds.
    fn said(times: &[(u64, u64)]) -> String {
        let mut distribution = Distribution::new(Precision::Fine);
        for &(ms, sends) in times {
            distribution.record_many(ms * 1_000_000, sends);
        }
        network(&distribution, true, &queues()).expect("a sentence")
    }

    #[test]
    fn a_steady_path_is_one_only_where_the_tail_is_near_the_minimum_too() {
        assert!(said(&[(40, 990), (45, 10)]).contains("p99 is within a quarter of its minimum"));
        let tail = said(&[(40, 850), (120, 150)]);
        assert!(tail.contains("p99 is 3.0 times the minimum") && !tail.contains("only the distance"), "{tail}");
        assert!(said(&[(40, 100), (120, 900)]).contains("median is 3.0 times its minimum"));
    }

    #[test]
    fn few_sends_are_judged_by_all_of_them() {
        assert!(said(&[(40, 4)]).contains("maximum is within a quarter"));
        assert!(said(&[(40, 3), (400, 1)]).contains("maximum is 10 times the minimum"));
    }

    #[test]
    fn what_is_steady_and_longer_than_a_round_trip_is_no_distance() {
        let mut times = Distribution::new(Precision::Fine);
        times.record_many(40_000_000, 1_000);
        let said = network(&times, false, &queues()).expect("a sentence");
        assert!(
            said.contains("A peer that delays each ACK looks the same") && !said.contains("only the distance"),
            "{said}"
        );
    }
}
