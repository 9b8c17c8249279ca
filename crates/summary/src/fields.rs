//! The values of one field of connections: how many fell into each row of the histogram that suits
//! the field, and their quantiles.

use std::collections::BTreeMap;

use record::{Field, FieldFigures, Scale};
use stats::{Distribution, Precision, Quantile};

/// The values of a field, sorted into the rows of its [`Scale`]. Memory depends on the field, not
/// on the number of values.
#[derive(Clone, Debug)]
pub struct FieldHistogram {
    field: Field,
    rows: Vec<u64>,
    below: u64,
    above: u64,
    absent: u64,
    values: Distribution,
}

impl FieldHistogram {
    /// An empty one.
    pub fn new(field: Field) -> Self {
        let rows = match field.scale() {
            Scale::Linear { from, to, step } => (to - from) / step + 1,
            // Zero, and one row for each power of two.
            Scale::PowersOfTwo { .. } => 65,
        };
        let rows = vec![0; rows as usize];
        Self { field, rows, below: 0, above: 0, absent: 0, values: Distribution::new(Precision::Fine) }
    }

    /// Adds a value, or that a connection has none.
    pub fn add(&mut self, value: Option<u64>) {
        let Some(value) = value else {
            self.absent += 1;
            return;
        };
        self.values.record(value);
        let row = match self.field.scale() {
            Scale::Linear { from, .. } if value < from => {
                self.below += 1;
                return;
            }
            Scale::Linear { from, step, .. } => (value - from) / step,
            Scale::PowersOfTwo { of, .. } => (value / of).checked_ilog2().map_or(0, |power| u64::from(power) + 1),
        };
        match self.rows.get_mut(row as usize) {
            Some(row) => *row += 1,
            None => self.above += 1,
        }
    }

    /// The field.
    pub fn field(&self) -> Field {
        self.field
    }

    /// How many connections had no value.
    pub fn absent(&self) -> u64 {
        self.absent
    }

    /// Values below the first row, and above the last one.
    pub fn beyond(&self) -> [u64; 2] {
        [self.below, self.above]
    }

    /// The values, for n and quantiles.
    pub fn values(&self) -> &Distribution {
        &self.values
    }

    /// Every row with the least value that belongs in it, in the unit of the scale, and how many
    /// values fell into it.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(row, n)| (self.bound(row), *n))
    }

    fn bound(&self, row: usize) -> u64 {
        match self.field.scale() {
            Scale::Linear { from, step, .. } => from + row as u64 * step,
            Scale::PowersOfTwo { .. } => row.checked_sub(1).map_or(0, |power| 1 << power),
        }
    }

    /// The figures of the values so far.
    pub fn figures(&self) -> FieldFigures {
        let of = match self.field.scale() {
            Scale::Linear { .. } => 1,
            Scale::PowersOfTwo { of, .. } => of,
        };
        FieldFigures {
            field: self.field,
            n: self.values.n(),
            absent: self.absent,
            min: self.values.min(),
            median: self.values.quantile(Quantile::P50),
            max: self.values.max(),
            below: self.below,
            above: self.above,
            rows: self.rows().filter(|(_, n)| *n > 0).map(|(bound, n)| [bound.saturating_mul(of), n]).collect(),
        }
    }
}

/// Histograms that are held at most; values of further groups are added to one for
/// [`FieldGroups::OTHERS`].
const GROUPS: usize = 256;

/// Histograms of one field, one for each group of connections.
#[derive(Clone, Debug)]
pub struct FieldGroups {
    field: Field,
    groups: BTreeMap<String, FieldHistogram>,
}

impl FieldGroups {
    /// The name of the group that holds what no longer has a separate one.
    pub const OTHERS: &str = "all others";

    /// None yet.
    pub fn new(field: Field) -> Self {
        Self { field, groups: BTreeMap::new() }
    }

    /// The field.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Adds a value, or that a connection has none, to a group.
    pub fn add(&mut self, group: String, value: Option<u64>) {
        let full = self.groups.len() >= GROUPS && !self.groups.contains_key(&group);
        let group = if full { Self::OTHERS.into() } else { group };
        self.groups.entry(group).or_insert_with(|| FieldHistogram::new(self.field)).add(value);
    }

    /// The groups by name, those with the most readings first.
    pub fn sorted(&self) -> Vec<(&str, &FieldHistogram)> {
        let mut groups: Vec<_> = self.groups.iter().map(|(name, histogram)| (name.as_str(), histogram)).collect();
        groups.sort_by_key(|(_, histogram)| std::cmp::Reverse(histogram.values.n() + histogram.absent));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_hold_from_their_bound_to_the_next() {
        let mut srtt = FieldHistogram::new(Field::Srtt);
        [0, 999, 1_000, 2_047_999, 2_048_000].into_iter().for_each(|ns| srtt.add(Some(ns)));
        let filled: Vec<(u64, u64)> = srtt.rows().filter(|row| row.1 > 0).collect();
        assert_eq!(filled, [(0, 2), (1, 1), (1_024, 1), (2_048, 1)]);
        let mut most = FieldHistogram::new(Field::Cwnd);
        most.add(Some(u64::MAX));
        assert_eq!((most.values().n(), most.beyond()), (1, [0, 0]));
    }

    #[test]
    fn figures_are_in_the_unit_of_the_field() {
        let mut histogram = FieldHistogram::new(Field::PacingRate);
        histogram.add(Some(125_000_000));
        histogram.add(Some(125_000_000));
        histogram.add(None);
        let figures = histogram.figures();
        assert_eq!((figures.n, figures.absent, figures.median), (2, 1, figures.max));
        assert_eq!(figures.rows, [[65_536_000, 2]]);
    }

    #[test]
    fn values_outside_the_scale_are_counted() {
        let mut length = FieldHistogram::new(Field::HeaderLength);
        [18, 20, 60].into_iter().for_each(|bytes| length.add(Some(bytes)));
        assert_eq!((length.beyond(), length.values().n()), ([1, 1], 3));
    }

    #[test]
    fn groups_beyond_the_last_share_one_and_the_largest_is_first() {
        let mut groups = FieldGroups::new(Field::Cwnd);
        (0..GROUPS + 7).for_each(|i| groups.add(format!("g{i}"), Some(10)));
        let sorted = groups.sorted();
        assert_eq!(sorted.len(), GROUPS + 1);
        assert_eq!((sorted[0].0, sorted[0].1.values().n()), (FieldGroups::OTHERS, 7));
    }
}
