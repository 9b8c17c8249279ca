//! Which group a slow-down is of. A peer that a slow host sends to has a longer p99 too, and so has
//! each service on that host.
//!
//! A group is named only where it is slower also without the sends of all other groups that are
//! named, and nothing else is slower without the sends of those. Where several choices would do,
//! that one is taken which what host, peer and service have in common explains best: a host with
//! one slow peer among many has few slow cells, the peer has slow cells alone. What is slower for
//! few of its sends alone is never named: those can be of a group that is not looked at.

use record::fleet::{FleetCell, Group, GroupKind};

/// Groups that are named at most; each costs queries.
const MOST: usize = 10;
/// Cells from which on it can be seen whether a slow-down is of few of them.
const ENOUGH: usize = 8;
/// Few are those with less than this share of the sends and more than [`MAINLY`] of the slow-down.
const FEW: f64 = 0.25;
/// See [`FEW`].
const MAINLY: f64 = 0.5;

/// The sends of one host to one peer for one service, and how much slower they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow<'a> {
    of: &'a FleetCell,
    /// The ratio of their mean to that of the week before, as a logarithm.
    ratio: f64,
}

impl<'a> Slow<'a> {
    /// `None` where a mean is 0.
    pub fn of(cell: &'a FleetCell) -> Option<Self> {
        let ratio = (cell.after_ns / cell.before_ns).ln();
        ratio.is_finite().then_some(Self { of: cell, ratio })
    }

    fn is_of(&self, group: &Group) -> bool {
        let name = match group.kind {
            GroupKind::Host => &self.of.host,
            GroupKind::Peer => &self.of.peer,
            GroupKind::Service => &self.of.service,
        };
        *name == group.name
    }
}

/// The groups that slow-downs are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// Those that are slower by themselves.
    pub named: Vec<Group>,
    /// Whether others are slower without them, which are too many to be distinguished.
    pub more: bool,
    /// Those that are slower without the named, for few of their sends.
    pub of_few: Vec<Group>,
}

impl Owners {
    /// Which of these share sends with a group.
    pub fn beside<'a>(&'a self, group: &'a Group, cells: &'a [Slow<'a>]) -> impl Iterator<Item = &'a Group> {
        let shares = |other: &&Group| cells.iter().any(|cell| cell.is_of(group) && cell.is_of(other));
        self.named.iter().filter(move |other| *other != group).filter(shares)
    }
}

/// Finds the groups that are slower by themselves. `slower_without` gives those that are slower
/// without the sends of these groups.
///
/// # Errors
/// Those of `slower_without`.
pub(super) fn owners<E>(
    cells: &[Slow<'_>],
    mut slower_without: impl FnMut(&[Group]) -> Result<Vec<Group>, E>,
) -> Result<Owners, E> {
    let mut named: Vec<Group> = Vec::new();
    let mut slower = slower_without(&[])?;
    while named.len() < MOST {
        let left: Vec<&Slow<'_>> = cells.iter().filter(|cell| !named.iter().any(|group| cell.is_of(group))).collect();
        let explains = |group: &Group| explained(left.iter().filter(|cell| cell.is_of(group)));
        let whole = |group: &&Group| !is_of_few(left.iter().copied().filter(|cell| cell.is_of(group)));
        // Of two groups that are the same sends the first one is taken.
        let best = slower.iter().filter(whole).rev().max_by(|a, b| explains(a).total_cmp(&explains(b)));
        let Some(best) = best.cloned() else { break };
        named.push(best);
        slower = slower_without(&named)?;
    }
    let (more, of_few) = match named.len() < MOST {
        true => (false, slower),
        false => (!slower.is_empty(), Vec::new()),
    };
    // One that was taken early can turn out to be slower for those that came later alone: the
    // smallest first, as it may be within another. The last one was found without all others.
    let last = named.last().cloned();
    let size = |group: &Group| cells.iter().filter(|cell| cell.is_of(group)).map(|cell| cell.of.sends).sum::<f64>();
    let mut smallest_first = named.clone();
    smallest_first.retain(|group| Some(group) != last.as_ref());
    smallest_first.sort_by(|a, b| size(a).total_cmp(&size(b)));
    for group in smallest_first {
        let others: Vec<Group> = named.iter().filter(|other| **other != group).cloned().collect();
        // Two hosts have no sends together.
        let may_share = others.iter().any(|other| other.kind != group.kind);
        if may_share && !slower_without(&others)?.contains(&group) {
            named = others;
        }
    }
    named.sort();
    Ok(Owners { named, more, of_few })
}

/// How much nearer to zero the ratios of cells are once what they have in common, their median, is
/// taken off; nothing where it is no slow-down.
fn explained<'a>(cells: impl Iterator<Item = &'a &'a Slow<'a>>) -> f64 {
    let cells: Vec<&Slow<'_>> = cells.copied().collect();
    let common = middle(&cells, |cell| cell.ratio).max(0.0);
    cells.iter().map(|cell| cell.of.sends * (cell.ratio.abs() - (cell.ratio - common).abs())).sum()
}

/// Whether these became slower for few of their sends, which are far from all others.
fn is_of_few<'a>(cells: impl Iterator<Item = &'a Slow<'a>>) -> bool {
    let cells: Vec<&Slow<'_>> = cells.collect();
    if cells.len() < ENOUGH {
        return false;
    }
    let common = middle(&cells, |cell| cell.ratio);
    // Five standard deviations, by the median of what ratios differ by.
    let far = (5.0 * 1.48 * middle(&cells, |cell| (cell.ratio - common).abs())).max(0.02);
    let few = || cells.iter().filter(|cell| cell.ratio - common > far);
    let share = few().map(|cell| cell.of.sends).sum::<f64>() / cells.iter().map(|cell| cell.of.sends).sum::<f64>();
    let slower = |cell: &&Slow<'_>| cell.of.sends * cell.ratio;
    share < FEW && few().map(slower).sum::<f64>() > MAINLY * cells.iter().map(slower).sum::<f64>().max(0.0)
}

/// The median of a figure of cells by their sends.
fn middle(cells: &[&Slow<'_>], figure: impl Fn(&Slow<'_>) -> f64) -> f64 {
    let mut each: Vec<(f64, f64)> = cells.iter().map(|cell| (figure(cell), cell.of.sends)).collect();
    each.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = each.iter().map(|(_, sends)| sends).sum::<f64>() / 2.0;
    let mut upto = 0.0;
    let found = each.iter().find(|(_, sends)| {
        upto += sends;
        upto >= half
    });
    found.map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use GroupKind::{Host, Peer, Service};

    fn name(kind: GroupKind, name: &str) -> Group {
        Group { kind, name: name.into() }
    }

    fn cell(host: &str, peer: &str, service: &str, ratio: f64) -> FleetCell {
        let [host, peer, service] = [host, peer, service].map(str::to_owned);
        FleetCell { host, peer, service, sends: 100.0, before_ns: 1e6, after_ns: 1e6 * ratio }
    }

    fn of(cells: &[FleetCell]) -> Vec<Slow<'_>> {
        cells.iter().filter_map(Slow::of).collect()
    }

    /// Hosts times peers times services, where `slow` gives the ratio of a cell.
    fn cells(slow: impl Fn(&str, &str, &str) -> f64) -> Vec<FleetCell> {
        let mut cells = Vec::new();
        for host in ["h1", "h2", "h3", "h4", "h5"] {
            for peer in ["p1", "p2", "p3", "p4"] {
                for service in ["s1", "s2"] {
                    cells.push(cell(host, peer, service, slow(host, peer, service)));
                }
            }
        }
        cells
    }

    /// Any group with a tenth of slow sends has a longer p99.
    fn found(cells: &[Slow<'_>]) -> Owners {
        let slower = |without: &[Group]| {
            let mut slower = Vec::new();
            for (kind, names) in [
                (Host, vec!["h1", "h2", "h3", "h4", "h5"]),
                (Peer, vec!["p1", "p2", "p3", "p4"]),
                (Service, vec!["s1", "s2"]),
            ] {
                for group in names.into_iter().map(|of| name(kind, of)) {
                    let left: Vec<&Slow<'_>> =
                        cells.iter().filter(|c| c.is_of(&group) && !without.iter().any(|w| c.is_of(w))).collect();
                    let slow = left.iter().filter(|cell| cell.ratio > 0.1).count();
                    if slow * 10 >= left.len().max(1) {
                        slower.push(group);
                    }
                }
            }
            Ok::<_, ()>(slower)
        };
        owners(cells, slower).unwrap()
    }

    #[test]
    fn who_is_slow_is_named_and_not_who_shares_its_sends() {
        let slow = |is: bool| if is { 2.0 } else { 1.0 };
        let cases: [(Vec<FleetCell>, Vec<Group>); 7] = [
            (cells(|_, _, _| 1.0), vec![]),
            (cells(|h, _, _| slow(h == "h1")), vec![name(Host, "h1")]),
            (cells(|_, p, _| slow(p == "p3")), vec![name(Peer, "p3")]),
            (cells(|_, _, s| slow(s == "s2")), vec![name(Service, "s2")]),
            (cells(|h, p, _| slow(h == "h1" || p == "p3")), vec![name(Host, "h1"), name(Peer, "p3")]),
            (cells(|h, _, _| slow(h == "h1" || h == "h4")), vec![name(Host, "h1"), name(Host, "h4")]),
            (
                cells(|h, p, s| slow(h == "h1") * slow(p == "p3") * slow(s == "s2")),
                vec![name(Host, "h1"), name(Peer, "p3"), name(Service, "s2")],
            ),
        ];
        for (cells, expected) in cases {
            assert_eq!(found(&of(&cells)), Owners { named: expected, ..Owners::default() });
        }
    }

    #[test]
    fn a_peer_of_a_slow_host_alone_is_not_named_beside_it() {
        let mut cells = cells(|h, _, _| if h == "h1" { 2.0 } else { 1.0 });
        cells.retain(|cell| (cell.host == "h1") == (cell.peer == "p1"));
        let cells = of(&cells);
        let owners = found(&cells);
        assert_eq!(owners.named, [name(Host, "h1")]);
        assert_eq!(owners.beside(&name(Peer, "p1"), &cells).collect::<Vec<_>>(), [&name(Host, "h1")]);
    }

    /// 400 hosts of which 20 are slow, and none of them is looked at.
    #[test]
    fn what_is_slower_for_few_of_its_sends_is_not_named() {
        let mut cells = Vec::new();
        for host in 0..400 {
            for peer in ["p1", "p2", "p3", "p4"] {
                let noise = f64::from(host * 7 % 11 - 5) * 0.002;
                let ratio = if host % 20 == 7 { 2.0 } else { (0.001 + noise).exp() };
                cells.push(cell(&host.to_string(), peer, "s", ratio));
            }
        }
        let mut cells = of(&cells);
        let shared = [name(Peer, "p1"), name(Peer, "p2"), name(Service, "s")];
        let found = owners(&cells, |_| Ok::<_, ()>(shared.to_vec())).unwrap();
        assert_eq!(found, Owners { of_few: shared.to_vec(), ..Owners::default() });
        // Nor beside hosts that are looked at.
        let looked_at = [name(Host, "7"), name(Host, "27")];
        let slower = |without: &[Group]| {
            let hosts = looked_at.iter().filter(|host| !without.contains(host));
            Ok::<_, ()>(hosts.chain(&shared).cloned().collect())
        };
        let found = owners(&cells, slower).unwrap();
        assert_eq!(found.named, [name(Host, "27"), name(Host, "7")]);
        assert_eq!(found.of_few, shared);
        // A service that is slower as a whole is.
        cells.iter_mut().for_each(|cell| cell.ratio += 0.3);
        let found = owners(&cells, |without: &[Group]| {
            Ok::<_, ()>(if without.is_empty() { shared.to_vec() } else { Vec::new() })
        });
        assert_eq!(found.unwrap().named, [name(Service, "s")]);
    }
}
