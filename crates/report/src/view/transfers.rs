//! Bulk data in words: how much, how fast, and what limited it.

use paper::document::{Clause, Text};
use record::{Nanos, Sampling, WaitReason};
use summary::{RateSetBy, TraceSummary, Transfers};

use super::Facts;
use super::waits::called;

/// Less than this share of the bytes does not tell a rate.
const WHOLE: f64 = 0.99;
/// The least share of the time that is worth naming.
const NAMED: f64 = 0.05;

/// The transfers, where they are what is asked: `None` where something else is, or their bytes and
/// times are not known.
fn asked<'a>(summary: &'a TraceSummary, facts: &Facts) -> Option<Transfers<'a>> {
    let seen = quantity::share(facts.coverage.bytes_armed.into(), facts.coverage.bytes_written.into());
    if facts.sampling != Sampling::Every || seen < WHOLE {
        return None;
    }
    summary.transfers()
}

/// The transfers, their rate, and what limited it.
pub(crate) fn transfers(summary: &TraceSummary, facts: &Facts) -> Option<Clause> {
    let of = asked(summary, facts)?;
    let n = of.all.len() as u64;
    let mut text = format!(
        "{}: {} in {}, {}",
        quantity::counted(n, "transfer"),
        quantity::whole(quantity::bytes(of.bytes)),
        quantity::whole(of.lasted),
        rate(of.rate())
    );
    let mut text = match of.slowest() {
        Some(slowest) if n > 1 => {
            text.push_str(&format!(" together; the slowest {} (", rate(slowest.rate())));
            Text::from(text).and(slowest.connection.connection.remote).and(").")
        }
        _ => Text::from(format!("{text}.")),
    };
    let limits = Limits::of(summary, &of);
    let named: Vec<String> = limits
        .shares
        .iter()
        .filter(|(_, share)| *share >= NAMED)
        .take(3)
        .map(|(name, share)| format!("{name} {}", quantity::whole(quantity::percent(*share))))
        .collect();
    if !named.is_empty() {
        let whose = if of.are_blocked() { "of the time" } else { "of the time in TCP" };
        text = text.and(format!(" What limited, in shares {whose}: {}.", named.join(", ")));
    }
    if let Some(saved) = limits.saved {
        text = text.and(format!(" Without the first, at most {} of it could be saved.", quantity::whole(saved)));
    }
    Some(Clause::finding(text))
}

/// The transfers with the names and shares of what limited them.
pub(crate) fn limits_of_transfers<'a>(
    summary: &'a TraceSummary,
    facts: &Facts,
) -> Option<(Transfers<'a>, Vec<(String, f64)>)> {
    let of = asked(summary, facts)?;
    let limits = Limits::of(summary, &of);
    Some((of, limits.shares))
}

fn rate(bytes: u64) -> String {
    quantity::whole(quantity::bit_rate(bytes as f64 * 8.0))
}

/// What kept transfers from being faster: what held the queue while their programs waited for room,
/// or where they did not, what kept bytes in TCP.
struct Limits {
    /// The largest first: of the time, or, where programs did not wait, of the waits in TCP. Waits
    /// of several sends at a time are longer than the transfer, so there only shares say anything.
    shares: Vec<(String, f64)>,
    /// How long the first one was the limit, where that is a time that can be saved.
    saved: Option<Nanos>,
}

impl Limits {
    fn of(summary: &TraceSummary, of: &Transfers<'_>) -> Self {
        let blocked = of.are_blocked();
        let mut waits: Vec<(WaitReason, Meanwhile, Nanos)> = Vec::new();
        for transfer in &of.all {
            let sends = &transfer.connection.sends;
            for (reason, stats) in if blocked { sends.buffer_waits() } else { sends.waits() } {
                let slower = match blocked {
                    true => sends.buffer_full_while_slower(reason),
                    false => sends.waited_while_slower(reason),
                };
                let meanwhile = match slower {
                    false => Meanwhile::AtRest,
                    true if reason == WaitReason::CongestionWindow && transfer.connection.has_one_rate() => {
                        Meanwhile::OneRate
                    }
                    true => Meanwhile::Slower,
                };
                match waits.iter_mut().find(|known| (known.0, known.1) == (reason, meanwhile)) {
                    Some((.., sum)) => *sum += stats.time,
                    None => waits.push((reason, meanwhile, stats.time)),
                }
            }
        }
        waits.sort_by_key(|(.., time)| std::cmp::Reverse(*time));
        let all = if blocked { of.time } else { waits.iter().map(|(.., time)| *time).sum() };
        let first =
            waits.first().filter(|(reason, meanwhile, _)| blocked && *meanwhile == Meanwhile::AtRest && saves(*reason));
        let share = |time: Nanos| quantity::share(time.0.into(), all.0.into());
        Self {
            saved: first.map(|(.., time)| *time).filter(|time| share(*time) >= NAMED),
            shares: waits
                .iter()
                .map(|(reason, meanwhile, time)| (limit(summary, *reason, *meanwhile), share(*time)))
                .collect(),
        }
    }
}

/// Whether a limit is one of this host or its peer alone, so that the time that it took may be
/// saved.
fn saves(reason: WaitReason) -> bool {
    !matches!(reason, WaitReason::Pacing | WaitReason::Unknown | WaitReason::SentAtOnce)
}

/// What the path did while a reason held the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// Round trips were as at rest.
    AtRest,
    /// They took longer.
    Slower,
    /// They took longer, and the rate was the same with any congestion window.
    OneRate,
}

/// What is limited by a reason that held the queue.
fn limit(summary: &TraceSummary, reason: WaitReason, meanwhile: Meanwhile) -> String {
    let slower = meanwhile != Meanwhile::AtRest;
    match reason {
        WaitReason::CongestionWindow if meanwhile == Meanwhile::OneRate => {
            "the path (the same rate with any congestion window)".to_owned()
        }
        WaitReason::SendBuffer if slower => "the send buffer while data waited on the path".to_owned(),
        WaitReason::SendBuffer => "the send buffer".to_owned(),
        WaitReason::CongestionWindow if slower => {
            "the path or late ACKs (congestion window full, round trips longer than at rest)".to_owned()
        }
        WaitReason::CongestionWindow => "the congestion window".to_owned(),
        WaitReason::ReceiveWindow if slower => {
            "the path or the peer's receive window (full, round trips longer than at rest)".to_owned()
        }
        WaitReason::ReceiveWindow => "the peer's receive window".to_owned(),
        WaitReason::Retransmission if slower => "repairing losses while data waited on the path".to_owned(),
        WaitReason::Retransmission => "repairing losses".to_owned(),
        WaitReason::Pacing => match super::advice::rate_set_by(summary) {
            (RateSetBy::MaxPacingRate(_), _) => "SO_MAX_PACING_RATE".to_owned(),
            (RateSetBy::PeerWindow(_), _) => "the peer's receive window, by pacing".to_owned(),
            (RateSetBy::SendBuffer(_), _) => "the send buffer, by pacing".to_owned(),
            (RateSetBy::Writer(_), _) => "the program, by pacing at the rate that it wrote at".to_owned(),
            (RateSetBy::Beginning(_), _) => "the beginning of the connection, by pacing".to_owned(),
            (RateSetBy::Path(_), _) | (RateSetBy::NotKnown, true) => "the path, by pacing".to_owned(),
            (RateSetBy::Changing, _) | (RateSetBy::NotKnown, false) => "pacing".to_owned(),
        },
        other => called(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::connections::tests::facts;
    use record::{Connection, ConnectionId, Event, Instant, Send, SenderState, Stamps, Waits};

    const MS: u64 = 1_000_000;

    /// A program that writes 16 KiB each 10 ms and waits 9 ms of that for room: for the buffer
    /// alone in three of four writes, else for the congestion window.
    fn traced() -> TraceSummary {
        let mut summary = TraceSummary::new(summary::Limits::default(), Instant::from_nanos(0));
        let since = Instant::from_nanos(0);
        summary.add(&Event::Connection(Connection { since, ..synthetic::connection(1) }));
        for i in 0..400 {
            let at = |ms: u64| Instant::from_nanos((i * 10 + ms) * MS);
            let reason = if i % 4 == 0 { WaitReason::CongestionWindow } else { WaitReason::SendBuffer };
            summary.add(&Event::Send(Send {
                connection: ConnectionId(1),
                bytes: 16 << 10,
                stamps: Stamps { sched: Some(at(1)), driver: Some(at(1)), ack: Some(at(10)), ..Stamps::sent_at(at(0)) },
                state: SenderState {
                    busy: Nanos(i * 10 * MS),
                    srtt: Nanos(20 * MS),
                    min_rtt: Some(Nanos(20 * MS)),
                    ..SenderState::default()
                },
                buffer: Some(Waits::of(reason, Nanos(9 * MS))),
                ..Send::blank()
            }));
        }
        summary
    }

    #[test]
    fn a_transfer_is_told_with_its_rate_and_all_that_limited_it() {
        let said = transfers(&traced(), &facts(0)).expect("a sentence").text.to_string().replace('\u{a0}', " ");
        assert_eq!(
            said,
            "1 transfer: 6.25 MiB in 4.00 s, 13.1 Mbit/s. What limited, in shares of the time: the send buffer 68 %, the congestion window 22 %. \
             Without the first, at most 2.70 s of it could be saved."
        );
    }

    #[test]
    fn of_a_sample_neither_bytes_nor_rate_are_told() {
        let sampled = Facts { sampling: Sampling::Windows(record::Ratio(10.try_into().unwrap())), ..facts(0) };
        assert!(transfers(&traced(), &sampled).is_none());
    }
}
