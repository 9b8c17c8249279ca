//! A fleet's hours against the same hours of the week before: which hosts, peers and services
//! became slower, and in which leg.
//!
//! The rhythm of a day and of a week is in no pair of hours. The pairs are what an interval is
//! computed from; one slow hour follows another, so as far as the ratios of neighbouring hours go
//! together the hours count as fewer ([`Neighbours`]).
//!
//! What is compared are sends alike: in both weeks the same hosts with the same peers for the same
//! services, each as often. Whoever asks has seen to that, and `owners` finds which group a
//! slow-down is of.

mod owners;
pub mod since;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use record::fleet::{FleetCell, FleetGroup, FleetHour, Group, GroupKind};
use stats::{Estimate, Judgement, Neighbours};

use crate::{Change, Scale};

pub use owners::{Owners, Slow};

/// What there is of one kind, beyond the groups that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The kind.
    pub kind: GroupKind,
    /// How many groups are compared: those with most sends.
    pub asked: u64,
    /// How many groups there are in either week.
    pub groups: u64,
    /// Of these, how many have sends the week before and none in the period.
    pub gone: u64,
    /// How many have none the week before.
    pub new: u64,
}

impl Present {
    /// Of each kind.
    pub fn of(rows: &[FleetGroup]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for FleetGroup { group, names, gone, new, .. } in rows {
            match all.iter_mut().find(|of| of.kind == group.kind) {
                Some(of) => of.asked += 1,
                None => all.push(Self { kind: group.kind, asked: 1, groups: *names, gone: *gone, new: *new }),
            }
        }
        all
    }
}

/// A host, a peer or a service with its hours.
#[derive(Clone, Debug, PartialEq)]
pub struct Hours {
    /// The group.
    pub group: Group,
    /// All its sends in these hours of the week before, with whomever.
    pub sends_before: u64,
    /// Those of the period.
    pub sends: u64,
    /// Its sends alike, by leg and hour: the week before, and the period.
    pub legs: BTreeMap<String, BTreeMap<u64, [Option<Hour>; 2]>>,
}

/// One hour of one leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// How many sends were seen.
    pub seen: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
    /// 99 % of them took at most this, nanoseconds; `None` where they are fewer than
    /// [`record::fleet::FOR_P99`].
    pub p99_ns: Option<f64>,
}

impl Hours {
    /// A group without hours.
    pub fn new(row: &FleetGroup) -> Self {
        let FleetGroup { group, before, after, .. } = row;
        Self { group: group.clone(), sends_before: *before, sends: *after, legs: BTreeMap::new() }
    }

    /// The hours that both weeks have.
    fn pairs(&self, leg: &str) -> impl Iterator<Item = [Hour; 2]> {
        let hours = self.legs.get(leg).into_iter().flat_map(BTreeMap::values);
        hours.filter_map(|[before, after]| Some([(*before)?, (*after)?]))
    }

    /// p99 of the hours in which both weeks have one.
    fn p99(&self) -> Vec<[f64; 2]> {
        let both = |pair: [Hour; 2]| {
            let [before, after] = pair.map(|hour| hour.p99_ns.filter(|p| *p > 0.0));
            Some([before?, after?])
        };
        self.pairs(TOTAL).filter_map(both).collect()
    }
}

/// The leg that is all of them together.
const TOTAL: &str = "total";

/// Gives each of these rows to the group that it is of. Hours of no group that is looked at are
/// skipped.
pub fn add(groups: &mut [Hours], rows: impl IntoIterator<Item = FleetHour>) {
    for row in rows {
        let Some(into) = groups.iter_mut().find(|of| of.group == row.group) else { continue };
        if row.sends > 0.0 {
            let hour = into.legs.entry(row.leg).or_default().entry(row.hour).or_default();
            hour[usize::from(row.later)] = Some(Hour { seen: row.seen, mean_ns: row.mean_ns, p99_ns: row.p99_ns });
        }
    }
}

/// The groups without their hours.
pub fn blank(groups: &[Hours]) -> Vec<Hours> {
    groups.iter().map(|of| Hours { legs: BTreeMap::new(), ..of.clone() }).collect()
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Became {
    /// The group.
    pub group: Group,
    /// All its sends, of the week before and of the period.
    pub sends: [u64; 2],
    /// Its p99, median over the hours, nanoseconds; the change is the ratio over the pairs of
    /// hours.
    pub p99: Change,
    /// The leg with the largest increase of its mean, where it surely grew.
    pub leg: Option<Grown>,
    /// The share of its sends that have sends alike in the other week.
    pub alike: f64,
    /// Whether it became slower, and by itself.
    pub standing: Standing,
}

/// A leg that takes longer.
#[derive(Clone, Debug, PartialEq)]
pub struct Grown {
    /// The leg.
    pub leg: String,
    /// By how much its mean grew, nanoseconds.
    pub by_ns: f64,
    /// The ratio of its mean, less 1.
    pub ratio: Estimate,
}

/// Whether a group became slower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// That it did is not seen.
    NotSeen,
    /// It did, by itself.
    Itself,
    /// It did with these, with which it shares sends; none where these are not among the cells that
    /// were compared.
    With(Vec<Group>),
    /// Few of its sends did.
    FewOfItsSends,
    /// It did, and too many others did to distinguish them.
    NotDistinguished,
}

/// What became of all groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// The groups that could be compared.
    pub compared: Vec<Became>,
    /// How many could not: they have no two hours with a p99 in both weeks.
    pub without: usize,
    /// Those that slow-downs are of.
    pub owners: Owners,
}

/// One group's ratios, which are judged together with those of all others.
struct Judged<'a> {
    of: &'a Hours,
    /// The logarithm of the ratio of p99.
    ratio: Estimate,
}

impl Judged<'_> {
    fn is_slower(&self) -> bool {
        self.ratio.low > 0.0
    }
}

/// By what rule all these groups are judged: the lower ends of their intervals all hold together,
/// and with those of [`since`].
fn rule(groups: &[Hours]) -> (Judgement, Neighbours) {
    let series: Vec<Vec<f64>> = groups.iter().map(logarithms).filter(|series| series.len() > 1).collect();
    // An interval misses the truth on either side: that it is above it is half as frequent.
    let share = (stats::LEVEL - since::CLAIMED) / (stats::LEVEL / 2.0);
    let comparisons = (series.len() as f64 / share).ceil() as usize;
    (Judgement { comparisons, sequential: false }, Neighbours::of(&series))
}

fn logarithms(of: &Hours) -> Vec<f64> {
    of.p99().iter().map(|[before, after]| (after / before).ln()).collect()
}

fn judged(groups: &[Hours]) -> Vec<Judged<'_>> {
    let (judgement, neighbours) = rule(groups);
    let one = |of| Some(Judged { of, ratio: neighbours.mean(judgement, &logarithms(of))? });
    groups.iter().filter_map(one).collect()
}

/// Compares both weeks. `without` gives the groups anew, without all sends of some of them: what is
/// slower without the sends of another is slower by itself.
///
/// # Errors
/// Those of `without`.
pub fn compare<E>(
    groups: &[Hours],
    cells: &[FleetCell],
    mut without: impl FnMut(&[Group]) -> Result<Vec<Hours>, E>,
) -> Result<Verdicts, E> {
    let slower = |groups: &[Hours]| -> Vec<Group> {
        judged(groups).iter().filter(|one| one.is_slower()).map(|one| one.of.group.clone()).collect()
    };
    let at_all = slower(groups);
    let cells: Vec<Slow<'_>> = cells.iter().filter_map(Slow::of).collect();
    let owners = owners::owners(&cells, |named| match named {
        [] => Ok(at_all.clone()),
        named => {
            let mut left = slower(&without(named)?);
            left.retain(|group| at_all.contains(group));
            Ok(left)
        }
    })?;
    let rule = rule(groups);
    let became = judged(groups).into_iter().filter_map(|one| became(&one, rule, &owners, &cells));
    let compared: Vec<Became> = became.collect();
    Ok(Verdicts { without: groups.len() - compared.len(), compared, owners })
}

fn became(
    judged: &Judged<'_>,
    (judgement, neighbours): (Judgement, Neighbours),
    owners: &Owners,
    cells: &[Slow<'_>],
) -> Option<Became> {
    let of = judged.of;
    let p99 = of.p99();
    let middle = |week: usize| stats::median(&p99.iter().map(|pair| pair[week]).collect::<Vec<_>>());
    let change = Change {
        by: Some(judged.ratio.map(f64::exp_m1)),
        ..Change::without_interval([middle(0)?, middle(1)?], Scale::Ratio)
    };
    let legs = of.legs.keys().filter(|leg| *leg != TOTAL);
    let leg = legs
        .filter_map(|leg| grown(leg, of, judgement, neighbours))
        .max_by(|a, b| a.by_ns.total_cmp(&b.by_ns))
        .filter(|grown| grown.ratio.low > 0.0);
    let total = of.legs.get(TOTAL)?;
    let seen: u64 = total.values().flatten().flatten().map(|hour| hour.seen).sum();
    Some(Became {
        group: of.group.clone(),
        sends: [of.sends_before, of.sends],
        p99: change,
        leg,
        alike: seen as f64 / (of.sends_before + of.sends).max(1) as f64,
        standing: standing(judged, owners, cells),
    })
}

fn standing(judged: &Judged<'_>, owners: &Owners, cells: &[Slow<'_>]) -> Standing {
    let group = &judged.of.group;
    if !judged.is_slower() {
        Standing::NotSeen
    } else if owners.named.contains(group) {
        Standing::Itself
    } else if owners.more {
        Standing::NotDistinguished
    } else if owners.of_few.contains(group) {
        Standing::FewOfItsSends
    } else {
        Standing::With(owners.beside(group, cells).cloned().collect())
    }
}

/// By how much a leg grew, over the hours. Hours in which it takes long have the largest increases,
/// so it is sure by the ratios.
fn grown(leg: &str, of: &Hours, judgement: Judgement, neighbours: Neighbours) -> Option<Grown> {
    let pairs: Vec<[Hour; 2]> = of.pairs(leg).collect();
    let ratios: Vec<f64> = pairs.iter().map(|[before, after]| (after.mean_ns / before.mean_ns).ln()).collect();
    let ratio = neighbours.mean(judgement, &ratios)?.map(f64::exp_m1);
    let by_ns = pairs.iter().map(|[before, after]| after.mean_ns - before.mean_ns).sum::<f64>() / pairs.len() as f64;
    Some(Grown { leg: leg.to_owned(), by_ns, ratio })
}
