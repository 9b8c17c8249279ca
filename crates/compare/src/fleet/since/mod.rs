//! Since when, and until when, which host, peer or service was slower: the change points of a
//! fleet's hours.
//!
//! Each hour of each combination of host, peer and service has the logarithm of its mean. It is
//! divided into what hosts, peers and services have in common (`effects`): a host is not slow for
//! one of its peers. Each of these series is compared, window of hours by window of hours, with its
//! own other hours, with the same hours of the week before, and with what the others of its kind do
//! at the same time (`noise`), as far as these go with it; neighbouring hours are alike, and a
//! change that comes within one hour is distinguished from the drift by that.
//!
//! All windows of all groups are judged together (`windows`): in at most [`CLAIMED`] of fleets
//! without a change any is named.

mod effects;
mod noise;
#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;
mod windows;

use std::ops::Range;

use record::fleet::{FleetCellHour, Group, GroupKind};
use stats::Estimate;

use effects::Cells;
use noise::Noise;
use windows::Window;

/// Of fleets without a change, the share in which one is named.
pub const CLAIMED: f64 = 0.0375;
/// Groups that are named at most.
const MOST: usize = 10;
/// Of those that are not sure, how many are ranked.
const NEAREST: usize = 5;

/// Which hours are asked about, in hours since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A change at any time within these.
    Within(Range<u64>),
    /// One that holds in exactly these.
    Exactly(Range<u64>),
}

impl Asked {
    /// These.
    pub fn hours(&self) -> &Range<u64> {
        let (Self::Within(hours) | Self::Exactly(hours)) = self;
        hours
    }
}

/// A group that was slower for some hours.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// Which; `None` for all of the fleet together.
    pub group: Option<Group>,
    /// In which hours since 1970.
    pub hours: Range<u64>,
    /// How many times as long its sends took as they else do, by their mean, less 1.
    pub ratio: Estimate,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowdowns {
    /// Groups that surely were slower by themselves, the surest first.
    pub named: Vec<Slowdown>,
    /// Whether there are more of them.
    pub more: bool,
    /// Those that were slower for few of their sends alone.
    pub of_few: Vec<Slowdown>,
    /// Of the others, those that came nearest to being sure, the nearest first.
    pub nearest: Vec<Slowdown>,
    /// How many groups were looked at.
    pub groups: usize,
}

/// One group's surest window.
#[derive(Clone, Debug)]
struct Candidate {
    /// Its kind and number; `None` for all together.
    of: Option<(usize, usize)>,
    window: Window,
    /// Of the logarithm.
    ratio: Estimate,
    /// Standard errors by which its lower end is above no change.
    surplus: f64,
}

/// Finds who was slower, and when.
pub fn slowdowns(rows: &[FleetCellHour], asked: &Asked) -> Slowdowns {
    let mut cells = Cells::of(rows);
    let Some(windows) = windows::of(asked, cells.hours()) else { return Slowdowns::default() };
    let mut found = Slowdowns { groups: cells.groups(), ..Slowdowns::default() };
    loop {
        let mut all = candidates(&cells, &windows);
        all.sort_by(|a, b| b.surplus.total_cmp(&a.surplus));
        let sure = all.iter().take_while(|one| one.surplus > 0.0).count();
        let whole = all.iter().take(sure).find(|one| cells.is_whole(one.of, &one.window, one.ratio.value));
        let Some(best) = whole.filter(|_| found.named.len() < MOST) else {
            let slowdown = |one: &Candidate| one.slowdown(&cells);
            found.more = whole.is_some();
            if !found.more {
                found.of_few = all.iter().take(sure).map(slowdown).collect();
            }
            found.nearest = all.iter().skip(sure).map(slowdown).filter(Slowdown::is_known).take(NEAREST).collect();
            return found;
        };
        found.named.push(best.slowdown(&cells));
        match best.of {
            Some(of) => cells.leave_out(of),
            None => cells.take_off(&best.window, best.ratio.value),
        }
    }
}

impl Candidate {
    fn slowdown(&self, cells: &Cells) -> Slowdown {
        let first = cells.hours().start;
        Slowdown {
            group: self.of.map(|of| cells.group(of)),
            hours: first + self.window.hours.start as u64..first + self.window.hours.end as u64,
            ratio: self.ratio.map(f64::exp_m1),
        }
    }
}

impl Slowdown {
    /// Whether its figure says something.
    fn is_known(&self) -> bool {
        crate::is_known(&self.ratio)
    }

    /// The leg that has most of it: in these hours its mean grew most against the week before, more
    /// than in the others, and by half of what the sends themselves did.
    pub fn leg<'a>(&self, groups: &'a [super::Hours]) -> Option<&'a str> {
        let of = groups.iter().find(|of| Some(&of.group) == self.group.as_ref())?;
        let grew = |leg: &str| {
            let (mut within, mut without) = ((0.0, 0), (0.0, 0));
            for (hour, weeks) in of.legs.get(leg)? {
                let [before, after] = [weeks[0]?, weeks[1]?];
                let into = if self.hours.contains(hour) { &mut within } else { &mut without };
                *into = (into.0 + after.mean_ns - before.mean_ns, into.1 + 1);
            }
            let mean = |(sum, n): (f64, u32)| if n > 0 { sum / f64::from(n) } else { 0.0 };
            (within.1 > 0).then(|| mean(within) - mean(without))
        };
        let legs = of.legs.keys().filter(|leg| *leg != super::TOTAL);
        let most = legs.filter_map(|leg| Some((leg, grew(leg)?))).max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most.1 > 0.0 && most.1 >= grew(super::TOTAL)? / 2.0).then_some(most.0)
    }
}

/// The surest window of each group.
fn candidates(cells: &Cells, windows: &[Window]) -> Vec<Candidate> {
    let effects = cells.effects();
    let together = [std::slice::from_ref(&effects.all)];
    let kinds = effects.of_kind.iter().map(Vec::as_slice);
    let noise = Noise::of(&kinds.chain(together).collect::<Vec<_>>());
    let groups: usize = noise.kinds.iter().map(|kind| kind.series.len()).sum();
    let mut found = Vec::new();
    for (at, kind) in noise.kinds.iter().enumerate() {
        let of = |number: usize| (at < GroupKind::ALL.len()).then_some((at, number));
        for (number, series) in kind.series.iter().enumerate() {
            let judged = windows.iter().filter_map(|window| series.judged(window, &noise, groups));
            let best = judged.max_by(|a, b| a.surplus.total_cmp(&b.surplus));
            found.extend(best.map(|best| Candidate { of: of(number), ..best }));
        }
    }
    found
}
