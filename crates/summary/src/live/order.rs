//! An order that rows keep: by averages, so that rows do not jump from one interval to the next.

use std::collections::HashMap;

use crate::groups::{Group, SortBy};

/// What the latest interval counts in an average.
const LATEST: f64 = 0.3;

/// The averages of what rows are sorted by.
#[derive(Clone, Debug, Default)]
pub struct Order {
    by: SortBy,
    averages: HashMap<String, f64>,
}

impl Order {
    /// Takes the rows of a further interval.
    pub fn add(&mut self, by: SortBy, rows: &[Group]) {
        if self.by != by {
            (self.by, self.averages) = (by, HashMap::new());
        }
        let before = std::mem::take(&mut self.averages);
        let average = |row: &Group| {
            let now = by.value(row);
            before.get(&row.label).map_or(now, |then| then + LATEST * (now - then))
        };
        self.averages = rows.iter().map(|row| (row.label.clone(), average(row))).collect();
    }

    /// Sorts rows. What is wrong and names are no averages: those rows go to their places at once.
    pub fn sort(&self, by: SortBy, rows: &mut [Group]) {
        by.sort_with(rows, |row| match by {
            SortBy::Trouble | SortBy::Name => by.value(row),
            _ if by == self.by => self.averages.get(&row.label).copied().unwrap_or_else(|| by.value(row)),
            _ => by.value(row),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;

    fn row(label: &str, sends: u64) -> Group {
        let figures = record::histogram::Series { sends, ..Default::default() };
        Group { label: label.into(), figures, length: Nanos::from_secs(1), ..Group::default() }
    }

    fn sorted(order: &Order, mut rows: Vec<Group>) -> String {
        order.sort(SortBy::Rate, &mut rows);
        rows.into_iter().map(|row| row.label).collect()
    }

    #[test]
    fn a_moment_changes_no_place_and_what_lasts_does() {
        let mut order = Order::default();
        order.add(SortBy::Rate, &[row("a", 100), row("b", 80)]);
        let other = || vec![row("a", 90), row("b", 110)];
        order.add(SortBy::Rate, &other());
        assert_eq!(sorted(&order, other()), "ab");
        (0..5).for_each(|_| order.add(SortBy::Rate, &other()));
        assert_eq!(sorted(&order, other()), "ba");
        // A row that is new is where it belongs.
        assert_eq!(sorted(&order, vec![row("a", 90), row("b", 110), row("c", 500)]), "cba");
        order.add(SortBy::P99, &other());
        assert_eq!(sorted(&order, other()), "ba");
    }
}
