//! Where the time of the sends of one end really went: when each left TCP and when it was
//! acknowledged, by the bytes that the kernel counts (`TCP_INFO`), and what the account says of the
//! time before and after.

use std::collections::BTreeMap;

use record::{ClockReading, Event, Send};

use crate::account::{Cause, Truth};
use crate::plan::End;
use crate::run::Tick;
use crate::sample::Sample;

/// A time, ns, by cause.
pub(super) type Causes = BTreeMap<Cause, u64>;

/// The true account of the sends of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sends {
    /// Sends with a whole account.
    pub n: u64,
    /// All of their time in TCP, by what limited the connection meanwhile.
    pub in_tcp: Causes,
    /// All of their time from there to the ACK.
    pub under_way: Causes,
    /// From the first write to the last ACK, the connection's time.
    pub lasted: Causes,
    /// Of the time for which the connection was open, the share with nothing on its way and nothing
    /// that waits.
    pub quiet: f64,
    /// By how much the time in TCP, and that from there to the ACK, may be off: a send leaves
    /// between two looks. ns.
    pub doubt: u64,
}

/// The sum of them.
pub(super) fn whole(causes: &Causes) -> u64 {
    causes.values().sum()
}

impl Sends {
    /// Of those of `end` that a trace reported; `None` where they are not all that was written, so
    /// that their place in the data is not known.
    pub(super) fn of<'a>(
        events: impl Iterator<Item = &'a Event>,
        clock: ClockReading,
        ticks: &[Tick],
        truth: &Truth,
        end: End,
    ) -> Option<Self> {
        let mut sends: Vec<&Send> = events
            .filter_map(|event| match event {
                Event::Send(send) => Some(send),
                _ => None,
            })
            .collect();
        sends.sort_by_key(|send| send.stamps.send);
        let looks: Vec<(u64, Sample)> = ticks.iter().filter_map(|t| Some((t.at, t.ends[end as usize]?))).collect();
        let last = looks.last()?.1;
        let written: u64 = sends.iter().map(|send| u64::from(send.bytes)).sum();
        // A FIN and a SYN count as a byte each.
        if sends.is_empty() || unique(&last) + u64::from(last.unsent) > written + 2 {
            return None;
        }
        let mut all = Self { quiet: quiet(&looks), ..Self::default() };
        let (mut place, mut left, mut acknowledged) = (0, 0, 0);
        let (mut first, mut end_of_all) = (u64::MAX, 0);
        for send in sends {
            place += u64::from(send.bytes);
            let began = clock.realtime_ns(send.stamps.send.as_nanos());
            let called = send.stamps.call.map_or(began, |call| clock.realtime_ns(call.as_nanos()));
            first = first.min(called);
            left = reached(&looks, left, |sample| unique(sample) >= place);
            acknowledged = reached(&looks, acknowledged, |sample| sample.acked >= place);
            let (gone, doubt) = between(&looks, left, began);
            let (last, _) = between(&looks, acknowledged, gone);
            all.doubt += doubt;
            all.n += 1;
            add(&mut all.in_tcp, truth.causes(began, gone));
            // The timer of a peer that nobody waits for is no time of anybody, by definition.
            let until = last.saturating_sub(send.delayed_ack().0).max(gone);
            add(&mut all.under_way, truth.causes(gone, until));
            end_of_all = end_of_all.max(last);
        }
        all.lasted = truth.causes(first.min(end_of_all), end_of_all);
        Some(all)
    }

    /// The share of their time that they spent in TCP.
    pub(super) fn share_in_tcp(&self) -> f64 {
        let (tcp, rest) = (whole(&self.in_tcp), whole(&self.under_way));
        tcp as f64 / (tcp + rest).max(1) as f64
    }
}

/// Bytes sent, each once.
fn unique(sample: &Sample) -> u64 {
    sample.sent.saturating_sub(sample.retransmitted)
}

/// The first look from `from` on at which it holds.
fn reached(looks: &[(u64, Sample)], from: usize, holds: impl Fn(&Sample) -> bool) -> usize {
    (from..looks.len()).find(|place| holds(&looks[*place].1)).unwrap_or(looks.len())
}

/// When it came about, after `since`: in the middle between the look before and this one, give or
/// take so much. What never does is seen up to the end.
fn between(looks: &[(u64, Sample)], place: usize, since: u64) -> (u64, u64) {
    let before = place.checked_sub(1).and_then(|place| looks.get(place)).map_or(since, |look| look.0.max(since));
    let now = looks.get(place).map_or(before, |look| look.0.max(since));
    let half = now.saturating_sub(before) / 2;
    (before + half, half)
}

fn add(sum: &mut Causes, more: Causes) {
    for (cause, time) in more {
        *sum.entry(cause).or_insert(0) += time;
    }
}

fn quiet(looks: &[(u64, Sample)]) -> f64 {
    let (mut quiet, mut all) = (0, 0);
    for pair in looks.windows(2) {
        let took = pair[1].0 - pair[0].0;
        all += took;
        quiet += if pair[1].1.is_busy() { 0 } else { took };
    }
    quiet as f64 / all.max(1) as f64
}
