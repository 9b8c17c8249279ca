//! What the connections over one path did together: when one of them found a queue there, and how
//! much they carried.
//!
//! A connection that others leave no room looks as if a window limited it: its round trips are
//! those of a queue from the first one on, and what it has in flight is one level. Its neighbours
//! in the capture, between the same two hosts, show that the path is full. One that is alone shows
//! it too, where it repairs losses as fast as it carried data while a queue stood.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::net::IpAddr;

use record::conversation::{Budget, Limit, Way};

use crate::connection::Connection;
use crate::link;
use crate::series::{Part, Series};
use crate::unclear::{Times, Unclear};

/// A path is in use where so much of what it carries at most goes over it.
const FULL: f64 = 0.85;
/// A transfer to which its application gives data all the time is busy for so much of it.
const BUSY: f64 = 0.8;
/// And one to which it gives them at its own pace is not, for so much.
const PACED: f64 = 0.9;
/// What a path carries at most is read from as much time, ns, and as many bytes as this.
const LEAST_TIME: u64 = 1 << 27;
const LEAST_BYTES: f64 = 24_000.0;
/// Bytes that a look at a link is to hold: some packets.
const LOOK: f64 = 6_000.0;
/// A pace is the same that differs by no more than this.
const SAME: f64 = 0.1;
/// A rate that was exceeded by so much is no path's; nor is the mean while a queue stood, in which
/// others may have had a part, if it was exceeded by more.
const EXCEEDED: f64 = 1.15;
const EXCEEDED_WITH_A_QUEUE: f64 = 1.3;

/// Sums over all connections up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    /// ns.
    at: u64,
    /// Bytes that were delivered.
    bytes: f64,
    /// Those of them of which it is known when.
    dated: f64,
    /// For how long a queue stood, ns, as each connection saw it.
    queued: f64,
    /// For how long something was delivered, ns, of each connection.
    sending: f64,
    /// For how much of that applications gave them no more, or another pace held them back.
    paced: f64,
}

impl Sum {
    fn less(&self, before: &Self) -> Self {
        Self {
            at: self.at - before.at,
            bytes: self.bytes - before.bytes,
            dated: self.dated - before.dated,
            queued: self.queued - before.queued,
            sending: self.sending - before.sending,
            paced: self.paced - before.paced,
        }
    }

    /// `share` of the way to `next`.
    fn towards(&self, next: &Self, share: f64) -> Self {
        let between = |a: f64, b: f64| a + (b - a) * share;
        Self {
            at: self.at,
            bytes: between(self.bytes, next.bytes),
            dated: between(self.dated, next.dated),
            queued: between(self.queued, next.queued),
            sending: between(self.sending, next.sending),
            paced: between(self.paced, next.paced),
        }
    }
}

/// The connections over one path, in one direction of it.
#[derive(Debug, Default)]
pub(crate) struct Together {
    sums: Vec<Sum>,
    /// What the path carried at most while a queue stood, bytes a nanosecond; 0 where none was
    /// seen.
    most: f64,
    /// What its connections carried together while each took what the others left, likewise.
    divided: f64,
    /// The rate of its slowest link, likewise.
    link: f64,
    /// The highest rate that it has carried for a while.
    carried: f64,
    /// The highest that it has while applications gave its connections no more, and no queue stood.
    paced: f64,
}

/// From which host data go to which.
type Hosts = (IpAddr, IpAddr);

fn hosts(c: &Connection, way: Way) -> Hosts {
    let (client, server) = (c.client().ip(), c.server().ip());
    if way == Way::ToServer { (client, server) } else { (server, client) }
}

/// The rate of the slowest link on the way of these connections, bytes a nanosecond; 0 where it has
/// not shown.
fn link(of: &[&Connection]) -> f64 {
    link::rate(of.iter().filter_map(|c| c.halves[c.transfer()?].link()))
}

/// What limited both directions of a connection, beside the others over its path.
pub(crate) struct Settled {
    pub(crate) budgets: [Budget; 2],
    pub(crate) unclear: [Times; 2],
}

/// The paths of a capture that several connections transfer something over. Those of one alone
/// would take more room than the connections: what it shows is found when it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<Hosts, Together>);

impl Paths {
    pub(crate) fn of<'a>(connections: impl Iterator<Item = &'a Connection>) -> Self {
        let mut all: HashMap<Hosts, Vec<&Connection>> = HashMap::new();
        for c in connections {
            if let Some(way) = c.transfer() {
                all.entry(hosts(c, way)).or_default().push(c);
            }
        }
        let several = all.into_iter().filter(|(_, of)| of.len() > 1);
        let together = |of: Vec<&Connection>| {
            let link = link(&of);
            Together::of(|| of.iter().filter_map(|c| c.series(&c.settled(link))), link)
        };
        Self(several.map(|(hosts, of)| (hosts, together(of))).collect())
    }

    /// What limited a connection, where the time in which its path was full is the path's.
    pub(crate) fn settled(&self, c: &Connection) -> Settled {
        let path = c.transfer().and_then(|way| self.0.get(&hosts(c, way)));
        let link = path.map_or_else(|| link(&[c]), |path| path.link);
        let mut settled =
            Settled { budgets: c.settled(link), unclear: Way::ALL.map(|way| c.halves[way].anomalies.unclear()) };
        let Some(series) = c.series(&settled.budgets) else { return settled };
        let alone = path.is_none().then(|| Together::of(|| std::iter::once(&series), link));
        if let Some(path) = path.or(alone.as_ref()) {
            path.settle(&series, &mut settled);
        }
        settled
    }
}

impl Together {
    /// Of the series that `all` gives, each time that it is called: to hold those of a thousand
    /// connections beside what they add up to would take as much room again.
    fn of<S: Borrow<Series>, All: Iterator<Item = S>>(all: impl Fn() -> All, link: f64) -> Self {
        // What begins and ends at a time adds so much in a nanosecond. Pieces of connections begin
        // and end together, so that these are few.
        let mut steps: HashMap<u64, [f64; 5]> = HashMap::new();
        let (mut queued, mut other, mut connections) = (0, 0, 0);
        for own in all() {
            let own = own.borrow();
            for (piece, (from, to, part)) in own.pieces().enumerate().filter(|(_, (from, to, _))| from < to) {
                let length = (to - from) as f64;
                let bytes = part.bytes.max(0) as f64 / length;
                let dated = (bytes - own.spread(piece) / length).max(0.0);
                let in_queue = (part.of(Limit::PathRate) as f64 / length).min(1.0);
                let sending = f64::from(u8::from(part.bytes > 0));
                let unknown = if own.paced { part.of(Limit::Unknown) } else { 0 };
                let paced = sending * ((part.of(Limit::Application) + unknown) as f64 / length).min(1.0);
                let rates = [bytes, in_queue, sending, dated, paced];
                for (at, sign) in [(from, 1.0), (to, -1.0)] {
                    let step = steps.entry(at).or_default();
                    step.iter_mut().zip(rates).for_each(|(step, rate)| *step += sign * rate);
                }
            }
            queued += own.time(Limit::PathRate);
            other +=
                [Limit::SlowStart, Limit::CongestionWindow, Limit::Unknown].map(|l| own.time(l)).iter().sum::<u64>();
            connections += 1;
        }
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_unstable_by_key(|step| step.0);
        let mut sums: Vec<Sum> = Vec::with_capacity(steps.len());
        let mut rates = [0.0; 5];
        for (at, change) in steps {
            let before = sums.last().copied().unwrap_or(Sum { at, ..Sum::default() });
            let time = (at - before.at) as f64;
            sums.push(Sum {
                at,
                bytes: before.bytes + rates[0] * time,
                queued: before.queued + rates[1] * time,
                sending: before.sending + rates[2] * time,
                dated: before.dated + rates[3] * time,
                paced: before.paced + rates[4] * time,
            });
            rates.iter_mut().zip(change).for_each(|(rate, change)| *rate += change);
        }
        // Round trips that vary look like a queue now and then. Where one was seen for less than
        // half as long as none, what went over the path meanwhile is just what it carries
        // otherwise.
        let stood = |held: &Sum| held.queued >= held.at as f64 / 2.0;
        let most = if queued >= other / 2 { fastest(&sums, stood) } else { 0.0 };
        // No path carries more than its rate, so what it has carried says whether it is that.
        let carried = fastest(&sums, |_| true);
        let paced = fastest(&sums, |held| held.paced >= held.sending * PACED);
        let unless = |exceeded: f64, rate: f64| if carried > rate * exceeded { 0.0 } else { rate };
        // Nor is it a path's rate that something else kept to while no queue stood.
        let unlike = |rate: f64| if (rate - paced).abs() < paced * SAME { 0.0 } else { rate };
        let possible = |rate: f64| unlike(unless(EXCEEDED, rate));
        let most = unlike(unless(EXCEEDED_WITH_A_QUEUE, most));
        let mut together = Self { most, sums, divided: 0.0, link: possible(link), carried, paced };
        if connections > 1 {
            let divided = all().map(|own| together.divided_with(own.borrow())).fold(0.0, f64::max);
            together.divided = possible(divided);
        }
        together
    }

    /// The rate that a connection and the others divided, bytes a nanosecond: all of them together
    /// held it, while its own part of it changed, which pacers and programs that know nothing of
    /// one another do not do. 0 where that was not seen.
    fn divided_with(&self, own: &Series) -> f64 {
        /// Looks in a row, how much is in each, bytes, and how far from their mean all together may
        /// be; the connection's own part has to change by more.
        const LOOKS: usize = 4;
        const BYTES: f64 = 24_000.0;
        const STEADY: f64 = 0.06;
        const CHANGES: f64 = 0.25;
        let mut looks: Vec<[f64; 2]> = Vec::new();
        let (mut bytes, mut time) = ([0.0; 2], 0.0);
        for (from, to, part) in own.pieces().filter(|(from, to, _)| from < to) {
            let all = self.until(to).less(&self.until(from)).bytes;
            let mine = part.bytes.max(0) as f64;
            bytes = [bytes[0] + all, bytes[1] + mine];
            time += (to - from) as f64;
            if bytes[0] >= BYTES {
                looks.push(bytes.map(|b| b / time));
                (bytes, time) = ([0.0; 2], 0.0);
            }
        }
        let divided = |some: &[[f64; 2]]| {
            let mean = some.iter().map(|[all, _]| all).sum::<f64>() / LOOKS as f64;
            let steady = some.iter().all(|[all, _]| (all - mean).abs() <= mean * STEADY);
            let least = some.iter().map(|[_, own]| *own).fold(f64::MAX, f64::min);
            let most = some.iter().map(|[_, own]| *own).fold(0.0, f64::max);
            if steady && most - least >= mean * CHANGES { mean } else { 0.0 }
        };
        looks.windows(LOOKS).map(divided).fold(0.0, f64::max)
    }

    fn until(&self, time: u64) -> Sum {
        let after = self.sums.partition_point(|s| s.at <= time);
        match (after.checked_sub(1).map(|i| self.sums[i]), self.sums.get(after)) {
            (Some(before), Some(next)) => {
                let share = (time - before.at) as f64 / (next.at - before.at) as f64;
                Sum { at: time, ..before.towards(next, share) }
            }
            (before, _) => Sum { at: time, ..before.unwrap_or_default() },
        }
    }

    /// For how long a queue was taken to stand, ns, that did not fill the path: where all together
    /// carried much less than the path has at another time, and where they carried just what their
    /// applications gave them while none stood.
    fn not_full(&self, own: &Series) -> [(Unclear, u64); 2] {
        /// A path that is full carries so much of what it carried at most, at least.
        const FULL: f64 = 0.6;
        let (mut look, mut exceeded, mut longer) = (None, 0, 0);
        let least = if self.carried > 0.0 { (LEAST_BYTES / self.carried) as u64 } else { u64::MAX };
        for (from, to, part) in own.pieces().filter(|(from, to, _)| from < to) {
            let (from, before) = look.take().unwrap_or((from, 0));
            let queued = before + part.of(Limit::PathRate);
            if to - from < least && to < own.until() {
                look = Some((from, queued));
                continue;
            }
            // Time that was taken for another limit's at first comes all at once.
            let (time, meanwhile) = ((to - from) as f64, queued.min(to - from) as f64);
            let bytes = self.until(to).less(&self.until(from)).bytes;
            if bytes < self.carried * FULL * meanwhile {
                exceeded += queued;
            } else if meanwhile >= BUSY * time && (bytes / time - self.paced).abs() < self.paced * SAME {
                longer += queued;
            }
        }
        [(Unclear::Exceeded, exceeded), (Unclear::Longer, longer)]
    }

    fn settle(&self, own: &Series, settled: &mut Settled) {
        let budget = &mut settled.budgets[own.way];
        for (why, time) in self.not_full(own) {
            settled.unclear[own.way].add(why, budget.shift(Limit::PathRate, Limit::Unknown, time));
        }
        // What a full queue drops was in a queue that stood before, so a transfer that saw one for
        // less than a third as long as it repaired has lost by something else as well.
        let queue_drops = own.time(Limit::PathRate) >= own.time(Limit::LossRecovery) / 3;
        // A few packets at least are taken together.
        let least = if self.link > 0.0 { (LOOK / self.link) as u64 } else { 0 };
        let mut look: Option<(u64, Part)> = None;
        for (from, to, part) in own.pieces().filter(|(from, to, _)| from < to) {
            let (from, part) = look.take().map_or((from, part), |(since, before)| (since, before.plus(&part)));
            if to - from < least && to < own.until() {
                look = Some((from, part));
            } else {
                let all = self.until(to).less(&self.until(from));
                self.settle_piece(&all, &part, queue_drops, budget);
            }
        }
    }

    /// The same of a piece of one connection, in which `all` did this together.
    fn settle_piece(&self, all: &Sum, own: &Part, queue_drops: bool, budget: &mut Budget) {
        let time = all.at as f64;
        let in_use = self.link > 0.0 && all.bytes >= self.link * FULL * time;
        let uses = |rate: f64| rate > 0.0 && all.bytes >= rate * FULL * time;
        // What was found to have been loss recovery comes all at once, and the path was idle then.
        let lost = own.of(Limit::LossRecovery).min(all.at);
        let lost = if queue_drops || in_use || uses(self.divided) { lost } else { 0 };
        // What others saw: its own eyes have had their say.
        let queued = all.queued - own.of(Limit::PathRate) as f64;
        let others = all.bytes - own.bytes.max(0) as f64;
        if queued < time / 2.0 && !uses(self.most) && !uses(self.divided) && !in_use {
            return;
        }
        if others <= 0.0 && !in_use {
            budget.shift(Limit::LossRecovery, Limit::PathRate, lost);
            if uses(self.divided) {
                // As fast alone as all were together.
                budget.shift(Limit::Unknown, Limit::PathRate, own.of(Limit::Unknown));
            }
            return;
        }
        for limit in [Limit::SlowStart, Limit::CongestionWindow] {
            budget.shift(limit, Limit::PathRate, own.of(limit));
        }
        // Where it has little of the path beside the others, a larger window or fewer losses would
        // have given it more.
        let fair = all.bytes / (all.sending / time).max(1.0);
        if own.bytes as f64 >= fair / 2.0 {
            budget.shift(Limit::ReceiveWindow, Limit::PathRate, own.of(Limit::ReceiveWindow));
            budget.shift(Limit::LossRecovery, Limit::PathRate, lost);
            // An application that pauses may be what is not known.
            if own.busy() as f64 >= time * BUSY {
                budget.shift(Limit::Unknown, Limit::PathRate, own.of(Limit::Unknown));
            }
        }
    }
}

/// The highest rate that was held for a while of this kind, bytes a nanosecond.
fn fastest(sums: &[Sum], is_meant: impl Fn(&Sum) -> bool) -> f64 {
    let mut most = 0.0;
    let mut ends = sums.iter().peekable();
    for from in sums {
        let long = |end: &Sum| end.at - from.at >= LEAST_TIME && end.dated - from.dated >= LEAST_BYTES;
        while ends.peek().is_some_and(|end| end.at < from.at || !long(end)) {
            ends.next();
        }
        let Some(end) = ends.peek() else { break };
        let held = end.less(from);
        if is_meant(&held) {
            most = f64::max(most, held.dated / held.at as f64);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::LIMITS;

    const MS: u64 = 1_000_000;

    /// A transfer of so many kilobytes in each tenth of a second, limited by what.
    fn series(rates: &[u64], limit: Limit) -> Series {
        let mut series = Series::new(Way::ToServer, 0);
        let mut bytes = 0;
        for (tenth, rate) in (1..).zip(rates) {
            bytes += rate * 1_000;
            let time = |l: Limit| if l == limit { tenth * 100 * MS } else { 0 };
            let times = LIMITS.map(|l| time(l).cast_signed());
            series.tell(tenth * 100 * MS, &Part { bytes: bytes.cast_signed(), times });
        }
        series
    }

    /// How much of the time of the first of them is the path's beside the others, whose slowest
    /// link has this rate, bytes a nanosecond, and how much is not known, tenths of a second.
    fn parts(all: &[Series], link: f64) -> [u64; 2] {
        let mut settled = Settled { budgets: [Budget::default(); 2], unclear: [Times::NONE; 2] };
        let budget = &mut settled.budgets[Way::ToServer];
        let own = all[0].pieces().map(|(.., part)| part);
        own.for_each(|part| LIMITS.into_iter().for_each(|limit| budget.add(limit, part.of(limit))));
        Together::of(|| all.iter(), link).settle(&all[0], &mut settled);
        [Limit::PathRate, Limit::Unknown]
            .map(|limit| (settled.budgets[Way::ToServer].of(limit).0 + 50 * MS) / (100 * MS))
    }

    fn of_path(all: &[Series]) -> u64 {
        parts(all, 0.0)[0]
    }

    #[test]
    fn a_queue_that_the_others_see_fills_the_path_of_all() {
        let busy = series(&[100; 20], Limit::PathRate);
        for limit in [Limit::SlowStart, Limit::CongestionWindow, Limit::ReceiveWindow] {
            assert_eq!(of_path(&[series(&[60; 20], limit), busy.clone()]), 20, "{limit:?}");
            let idle = series(&[100; 20], Limit::CongestionWindow);
            assert_eq!(of_path(&[series(&[60; 20], limit), idle]), 0, "{limit:?}");
        }
        // With less than half of its part, a larger window would have given it more.
        assert_eq!(of_path(&[series(&[20; 20], Limit::ReceiveWindow), busy.clone()]), 0);
        assert_eq!(of_path(&[series(&[20; 20], Limit::CongestionWindow), busy.clone()]), 20);
        // What it lost and never saw a queue for, something else has dropped.
        assert_eq!(of_path(&[series(&[60; 20], Limit::LossRecovery), busy]), 0);
    }

    #[test]
    fn what_two_connections_divide_is_the_paths_rate() {
        let [mine, others]: [Vec<u64>; 2] =
            [(0..20).map(|n| [45, 80, 50, 100][n % 4]).collect(), (0..20).map(|n| [105, 70, 100, 50][n % 4]).collect()];
        assert_eq!(of_path(&[series(&mine, Limit::Unknown), series(&others, Limit::Unknown)]), 20);
        // Two that keep their rates, or whose sum changes, are limited by something of their own.
        let constant = series(&[70; 20], Limit::Unknown);
        assert_eq!(of_path(&[constant.clone(), constant.clone()]), 0);
        assert_eq!(of_path(&[series(&mine, Limit::Unknown), constant]), 0);
    }

    #[test]
    fn repairs_at_a_rate_that_connections_divide_are_the_paths_time() {
        let [mine, others]: [Vec<u64>; 2] =
            [(0..20).map(|n| [45, 80, 50, 100][n % 4]).collect(), (0..20).map(|n| [105, 70, 100, 50][n % 4]).collect()];
        let all = [series(&mine, Limit::LossRecovery), series(&others, Limit::LossRecovery)];
        assert_eq!(of_path(&all), 20);
        // One that neither divided anything nor saw a queue.
        assert_eq!(of_path(&all[..1]), 0);
    }

    #[test]
    fn a_rate_that_was_exceeded_is_not_what_a_path_carries() {
        // A second in a queue at 100 kB each tenth, and one limited by the receive window.
        let all = |later: u64| {
            let mut series = series(&[100; 10], Limit::PathRate);
            for tenth in 1..=10 {
                let times = LIMITS.map(|l| match l {
                    Limit::PathRate => 1_000 * MS.cast_signed(),
                    Limit::LossRecovery => tenth * 100 * MS.cast_signed(),
                    _ => 0,
                });
                let bytes = 1_000_000 + tenth * if tenth > 5 { later } else { 95_000 }.cast_signed();
                series.tell((1_000 + tenth.cast_unsigned() * 100) * MS, &Part { bytes, times });
            }
            of_path(&[series])
        };
        assert_eq!(all(95_000), 20);
        // Nor was what looked like a queue one.
        assert_eq!(all(200_000), 0);
    }

    #[test]
    fn a_link_that_is_in_use_is_the_paths_rate_whatever_the_connection_looks_like() {
        // 100 kB in each tenth of a second, on links of 1.1 and 1.5 MB/s.
        for limit in [Limit::SlowStart, Limit::CongestionWindow, Limit::ReceiveWindow, Limit::LossRecovery] {
            let of_path = |link: f64| parts(&[series(&[100; 20], limit)], link)[0];
            assert_eq!(of_path(1.1e-3), 20, "{limit:?}");
            assert_eq!(of_path(1.5e-3), 0, "{limit:?}");
            assert_eq!(of_path(0.8e-3), 0, "{limit:?}: it was exceeded");
        }
    }

    #[test]
    fn a_queue_at_a_rate_that_the_path_exceeds_by_far_is_none() {
        let rates = |early: u64| [[early; 10], [100; 10]].concat();
        let alone = |early: u64| parts(&[series(&rates(early), Limit::PathRate)], 0.0);
        assert_eq!(alone(70), [20, 0]);
        // Both rates are in one of the looks.
        assert_eq!(alone(40), [11, 9]);
        // Another connection had the rest of it.
        let other = series(&rates(60), Limit::ReceiveWindow);
        assert_eq!(parts(&[series(&rates(40), Limit::PathRate), other], 0.0), [20, 0]);
    }

    #[test]
    fn a_queue_at_the_pace_that_the_applications_have_without_one_is_none() {
        // 100 kB in each tenth of a second, for a second, as much as the application gives.
        let paced = |later: u64| {
            let mut series = series(&[100; 10], Limit::Application);
            for tenth in 1..=10 {
                let times = LIMITS.map(|l| match l {
                    Limit::Application => 1_000 * MS.cast_signed(),
                    Limit::PathRate => tenth * 100 * MS.cast_signed(),
                    _ => 0,
                });
                let bytes = 1_000_000 + tenth * later.cast_signed();
                series.tell((1_000 + tenth.cast_unsigned() * 100) * MS, &Part { bytes, times });
            }
            parts(&[series], 0.0)
        };
        assert_eq!(paced(100_000), [0, 10]);
        // Another rate is not the application's, and may be the path's.
        assert_eq!(paced(130_000), [10, 0]);
        assert_eq!(paced(75_000), [10, 0]);
    }

    #[test]
    fn a_queue_at_a_pace_of_which_it_is_not_known_who_sets_it_is_none() {
        // 100 kB in each tenth of a second, for a second without a queue and for one with it.
        let steady = |paced: bool| {
            let mut series = series(&[100; 10], Limit::Unknown);
            series.paced = paced;
            for tenth in 1..=10 {
                let times = LIMITS.map(|l| match l {
                    Limit::Unknown => 1_000 * MS.cast_signed(),
                    Limit::PathRate => tenth * 100 * MS.cast_signed(),
                    _ => 0,
                });
                series.tell(
                    (1_000 + tenth.cast_unsigned() * 100) * MS,
                    &Part { bytes: 1_000_000 + tenth * 100_000, times },
                );
            }
            // A link shows the same rate, as what is paced does.
            parts(&[series], 1e-3)
        };
        assert_eq!(steady(true), [0, 20]);
        assert_eq!(steady(false), [20, 0]);
    }

    #[test]
    fn what_comes_at_once_after_a_silence_shows_no_rate() {
        // 100 kB each tenth in a queue; after a second without anything 500 kB are acknowledged.
        let busy = series(&[100; 20], Limit::PathRate);
        let mut other = series(&[0; 5], Limit::Unknown);
        other.tell(1_500 * MS, &Part { bytes: 500_000, times: [0; LIMITS.len()] });
        assert_eq!(of_path(&[busy.clone(), other]), 20);
    }

    #[test]
    fn repairs_as_fast_as_with_a_queue_are_the_paths_time() {
        let all = |repair: u64| {
            let mut series = series(&[100; 10], Limit::PathRate);
            let path = LIMITS.map(|l| if l == Limit::PathRate { 1_000 * MS } else { 0 }.cast_signed());
            for tenth in 1..=10 {
                let lost = LIMITS.map(|l| if l == Limit::LossRecovery { tenth * 100 * MS } else { 0 }.cast_signed());
                let times = std::array::from_fn(|i| path[i] + lost[i]);
                let bytes = (1_000_000 + tenth * repair * 1_000).cast_signed();
                series.tell((1_000 + tenth * 100) * MS, &Part { bytes, times });
            }
            of_path(&[series])
        };
        assert_eq!(all(95), 20);
        assert_eq!(all(60), 10);
    }
}
