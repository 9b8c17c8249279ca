//! Which group a slow-down is of. A peer that a slow host sends to has a longer p99 too, and so has each service on that host.
//!
//! A group is named only where it is slower also without the sends of all other groups that are named, and nothing else is slower without the sends
//! of those. Where several choices would do, that one is taken which what host, peer and service have in common explains best: a host with
//! one slow peer among many has few slow cells, the peer has slow cells alone.

/// Groups that are named at most; each costs queries.
const MOST: usize = 10;

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
        // Of two groups that are the same sends the first one is taken.
        let best = slower.iter().rev().max_by(|a, b| explains(a).total_cmp(&explains(b)));
        let Some(best) = best.cloned() else { break };
        named.push(best);
        slower = slower_without(&named)?;
    }
    let more = !slower.is_empty();
    // One that was taken early can turn out to be slower for those that came later alone: the smallest first, as it may be within another. The last one was
    // found without all others.
    let last = named.last().cloned();
    let size = |group: &Name| cells.iter().filter(|cell| cell.is_of(group)).map(|cell| cell.sends).sum::<f64>();
    let mut smallest_first = named.clone();
    smallest_first.retain(|group| Some(group) != last.as_ref());
    smallest_first.sort_by(|a, b| size(a).total_cmp(&size(b)));
    for group in smallest_first {
        let others: Vec<Name> = named.iter().filter(|other| **other != group).cloned().collect();
        if !others.is_empty() && !slower_without(&others)?.contains(&group) {
            named = others;
        }
    }
    named.sort();
    Ok(Owners { named, more })
}

/// How much nearer to zero the ratios of cells are once what they have in common, their median, is taken off; nothing where it is no slow-down.
fn explained<'a>(cells: impl Iterator<Item = &'a &'a Cell>) -> f64 {
    let mut cells: Vec<&Cell> = cells.copied().collect();
    cells.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let half = cells.iter().map(|cell| cell.sends).sum::<f64>() / 2.0;
    let mut upto = 0.0;
    let middle = cells.iter().find(|cell| {
        upto += cell.sends;
        upto >= half
    });
    let common = middle.map_or(0.0, |cell| cell.ratio.max(0.0));
    cells.iter().map(|cell| cell.sends * (cell.ratio.abs() - (cell.ratio - common).abs())).sum()
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
            assert_eq!(found(&cells), Owners { named: expected, more: false });
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
}
