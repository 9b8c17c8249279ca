//! Which group a slow-down is of. A peer that a slow host sends to has a longer p99 too, and so has each service on that host.
//!
//! A group is named only where it is slower also without the sends of all other groups that are named, and nothing else is slower without the sends
//! of those. Where several choices would do, that one is taken which what host, peer and service have in common explains best: a host with
//! one slow peer among many has few slow cells, the peer has slow cells alone. What is slower for few of its sends alone is never named: those can be of a group that is not looked at.

/// Groups that are named at most; each costs queries.
const MOST: usize = 10;
/// Cells from which on it can be seen whether a slow-down is of few of them.
const ENOUGH: usize = 8;
/// Few are those with less than this share of the sends and more than [`MAINLY`] of the slow-down.
const FEW: f64 = 0.25;
/// See [`FEW`].
const MAINLY: f64 = 0.5;

/// A host, a peer or a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// `host`, `peer` or `service`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// The sends of one host to one peer for one service, in hours that both weeks have.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The host.
    pub host: String,
    /// The peer; empty where series are not kept apart by it.
    pub peer: String,
    /// The service; empty where it has no name.
    pub service: String,
    /// How much it counts.
    pub sends: f64,
    /// The ratio of its mean to that of the week before, as a logarithm.
    pub ratio: f64,
}

impl Cell {
    fn is_of(&self, group: &Name) -> bool {
        let name = match group.kind {
            "host" => &self.host,
            "peer" => &self.peer,
            _ => &self.service,
        };
        *name == group.name
    }
}

/// The groups that slow-downs are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// Those that are slower by themselves.
    pub named: Vec<Name>,
    /// Whether others are slower without them, which are too many to be distinguished.
    pub more: bool,
    /// Those that are slower without the named, for few of their sends.
    pub of_few: Vec<Name>,
}

impl Owners {
    /// Which of these share sends with a group.
    pub fn beside<'a>(&'a self, group: &'a Name, cells: &'a [Cell]) -> impl Iterator<Item = &'a Name> {
        let shares = |other: &&Name| cells.iter().any(|cell| cell.is_of(group) && cell.is_of(other));
        self.named.iter().filter(move |other| *other != group).filter(shares)
    }
}

/// Finds the groups that are slower by themselves. `slower_without` gives those that are slower without the sends of these groups.
///
/// # Errors
/// Those of `slower_without`.
pub fn owners<E>(cells: &[Cell], mut slower_without: impl FnMut(&[Name]) -> Result<Vec<Name>, E>) -> Result<Owners, E> {
    let mut named: Vec<Name> = Vec::new();
    let mut slower = slower_without(&[])?;
    while named.len() < MOST {
        let left: Vec<&Cell> = cells.iter().filter(|cell| !named.iter().any(|group| cell.is_of(group))).collect();
        let explains = |group: &Name| explained(left.iter().filter(|cell| cell.is_of(group)));
        let whole = |group: &&Name| !is_of_few(left.iter().copied().filter(|cell| cell.is_of(group)));
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
    // One that was taken early can turn out to be slower for those that came later alone: the smallest first, as it may be within another. The last one was
    // found without all others.
    let last = named.last().cloned();
    let size = |group: &Name| cells.iter().filter(|cell| cell.is_of(group)).map(|cell| cell.sends).sum::<f64>();
    let mut smallest_first = named.clone();
    smallest_first.retain(|group| Some(group) != last.as_ref());
    smallest_first.sort_by(|a, b| size(a).total_cmp(&size(b)));
    for group in smallest_first {
        let others: Vec<Name> = named.iter().filter(|other| **other != group).cloned().collect();
        // Two hosts have no sends together.
        let may_share = others.iter().any(|other| other.kind != group.kind);
        if may_share && !slower_without(&others)?.contains(&group) {
            named = others;
        }
    }
    named.sort();
    Ok(Owners { named, more, of_few })
}

/// How much nearer to zero the ratios of cells are once what they have in common, their median, is taken off; nothing where it is no slow-down.
fn explained<'a>(cells: impl Iterator<Item = &'a &'a Cell>) -> f64 {
    let cells: Vec<&Cell> = cells.copied().collect();
    let common = middle(&cells, |cell| cell.ratio).max(0.0);
    cells.iter().map(|cell| cell.sends * (cell.ratio.abs() - (cell.ratio - common).abs())).sum()
}

/// Whether these became slower for few of their sends, which are far from all others.
fn is_of_few<'a>(cells: impl Iterator<Item = &'a Cell>) -> bool {
    let cells: Vec<&Cell> = cells.collect();
    if cells.len() < ENOUGH {
        return false;
    }
    let common = middle(&cells, |cell| cell.ratio);
    // Five standard deviations, by the median of what ratios differ by.
    let far = (5.0 * 1.48 * middle(&cells, |cell| (cell.ratio - common).abs())).max(0.02);
    let few = || cells.iter().filter(|cell| cell.ratio - common > far);
    let share = few().map(|cell| cell.sends).sum::<f64>() / cells.iter().map(|cell| cell.sends).sum::<f64>();
    let slower = |cell: &&Cell| cell.sends * cell.ratio;
    share < FEW && few().map(slower).sum::<f64>() > MAINLY * cells.iter().map(slower).sum::<f64>().max(0.0)
}

/// The median of a figure of cells by their sends.
fn middle(cells: &[&Cell], figure: impl Fn(&Cell) -> f64) -> f64 {
    let mut each: Vec<(f64, f64)> = cells.iter().map(|cell| (figure(cell), cell.sends)).collect();
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

    fn name(kind: &'static str, name: &str) -> Name {
        Name { kind, name: name.into() }
    }

    /// Hosts times peers times services, where `slow` gives the ratio of a cell.
    fn cells(slow: impl Fn(&str, &str, &str) -> f64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for host in ["h1", "h2", "h3", "h4", "h5"] {
            for peer in ["p1", "p2", "p3", "p4"] {
                for service in ["s1", "s2"] {
                    let ratio = slow(host, peer, service).ln();
                    cells.push(Cell {
                        host: host.into(),
                        peer: peer.into(),
                        service: service.into(),
                        sends: 100.0,
                        ratio,
                    });
                }
            }
        }
        cells
    }

    /// Any group with a tenth of slow sends has a longer p99.
    fn found(cells: &[Cell]) -> Owners {
        let slower = |without: &[Name]| {
            let mut slower = Vec::new();
            for (kind, names) in [
                ("host", vec!["h1", "h2", "h3", "h4", "h5"]),
                ("peer", vec!["p1", "p2", "p3", "p4"]),
                ("service", vec!["s1", "s2"]),
            ] {
                for group in names.into_iter().map(|of| name(kind, of)) {
                    let left: Vec<&Cell> =
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
        let cases: [(Vec<Cell>, Vec<Name>); 7] = [
            (cells(|_, _, _| 1.0), vec![]),
            (cells(|h, _, _| slow(h == "h1")), vec![name("host", "h1")]),
            (cells(|_, p, _| slow(p == "p3")), vec![name("peer", "p3")]),
            (cells(|_, _, s| slow(s == "s2")), vec![name("service", "s2")]),
            (cells(|h, p, _| slow(h == "h1" || p == "p3")), vec![name("host", "h1"), name("peer", "p3")]),
            (cells(|h, _, _| slow(h == "h1" || h == "h4")), vec![name("host", "h1"), name("host", "h4")]),
            (
                cells(|h, p, s| slow(h == "h1") * slow(p == "p3") * slow(s == "s2")),
                vec![name("host", "h1"), name("peer", "p3"), name("service", "s2")],
            ),
        ];
        for (cells, expected) in cases {
            assert_eq!(found(&cells), Owners { named: expected, ..Owners::default() });
        }
    }

    #[test]
    fn a_peer_of_a_slow_host_alone_is_not_named_beside_it() {
        let mut cells = cells(|h, _, _| if h == "h1" { 2.0 } else { 1.0 });
        cells.retain(|cell| (cell.host == "h1") == (cell.peer == "p1"));
        let owners = found(&cells);
        assert_eq!(owners.named, [name("host", "h1")]);
        assert_eq!(owners.beside(&name("peer", "p1"), &cells).collect::<Vec<_>>(), [&name("host", "h1")]);
    }

    /// 400 hosts of which 20 are slow, and none of them is looked at.
    #[test]
    fn what_is_slower_for_few_of_its_sends_is_not_named() {
        let mut cells = Vec::new();
        for host in 0..400 {
            for peer in ["p1", "p2", "p3", "p4"] {
                let noise = f64::from(host * 7 % 11 - 5) * 0.002;
                let ratio = if host % 20 == 7 { 2_f64.ln() } else { 0.001 + noise };
                cells.push(Cell {
                    host: host.to_string(),
                    peer: peer.into(),
                    service: "s".into(),
                    sends: 100.0,
                    ratio,
                });
            }
        }
        let shared = [name("peer", "p1"), name("peer", "p2"), name("service", "s")];
        let found = owners(&cells, |_| Ok::<_, ()>(shared.to_vec())).unwrap();
        assert_eq!(found, Owners { of_few: shared.to_vec(), ..Owners::default() });
        // Nor beside hosts that are looked at.
        let looked_at = [name("host", "7"), name("host", "27")];
        let slower = |without: &[Name]| {
            let hosts = looked_at.iter().filter(|host| !without.contains(host));
            Ok::<_, ()>(hosts.chain(&shared).cloned().collect())
        };
        let found = owners(&cells, slower).unwrap();
        assert_eq!(found.named, [name("host", "27"), name("host", "7")]);
        assert_eq!(found.of_few, shared);
        // A service that is slower as a whole is.
        cells.iter_mut().for_each(|cell| cell.ratio += 0.3);
        let found = owners(&cells, |without: &[Name]| {
            Ok::<_, ()>(if without.is_empty() { shared.to_vec() } else { Vec::new() })
        });
        assert_eq!(found.unwrap().named, [name("service", "s")]);
    }
}
