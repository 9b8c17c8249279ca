//! A difference of two means, divided among the groups that it is made of.

use std::collections::BTreeMap;

/// Number of values and their sum.
pub type Times = (u64, u128);

/// What one group adds to the difference of the means of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part<K> {
    /// The group.
    pub group: K,
    /// Its values in each side.
    pub n: [u64; 2],
    /// Their mean in each side; `None` where it has none there.
    pub means: [Option<f64>; 2],
    /// Because its own values changed.
    pub own: f64,
    /// Because it has another share of the values.
    pub mix: f64,
}

impl<K> Part<K> {
    /// Both together.
    pub fn whole(&self) -> f64 {
        self.own + self.mix
    }
}

/// The difference of two means over groups, divided into what the groups' own means changed and
/// what their shares did (Kitagawa, "Components of a Difference Between Two Rates", 1955), the
/// largest part first. The parts add up to the difference.
pub fn divide<K: Ord + Copy>([first, second]: [&BTreeMap<K, Times>; 2]) -> Vec<Part<K>> {
    let n = |side: &BTreeMap<K, Times>| side.values().map(|group| group.0).sum::<u64>().max(1) as f64;
    let mean = |side: &BTreeMap<K, Times>| side.values().map(|group| group.1 as f64).sum::<f64>() / n(side);
    let middle = f64::midpoint(mean(first), mean(second));
    let mut groups: Vec<K> = first.keys().chain(second.keys()).copied().collect();
    groups.sort_unstable();
    groups.dedup();
    let part = |group: K| {
        let of = [first, second].map(|side| side.get(&group).copied().unwrap_or((0, 0)));
        let means = of.map(|(n, sum)| (n > 0).then(|| sum as f64 / n as f64));
        let shares = [of[0].0 as f64 / n(first), of[1].0 as f64 / n(second)];
        // A group that one side lacks changes the mix alone.
        let at = [means[0].or(means[1]).unwrap_or(middle), means[1].or(means[0]).unwrap_or(middle)];
        let own = f64::midpoint(shares[0], shares[1]) * (at[1] - at[0]);
        let mix = (f64::midpoint(at[0], at[1]) - middle) * (shares[1] - shares[0]);
        Part { group, n: of.map(|o| o.0), means, own, mix }
    };
    let mut parts: Vec<Part<K>> = groups.into_iter().map(part).collect();
    parts.sort_by(|x, y| y.whole().abs().total_cmp(&x.whole().abs()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_and_another_mix_is_no_slower_group() {
        let first = BTreeMap::from([("near", (90, 90 * 10)), ("far", (10, 10 * 100))]);
        let second = BTreeMap::from([("near", (50, 50 * 10)), ("far", (50, 50 * 100)), ("new", (10, 10 * 30))]);
        let parts = divide([&first, &second]);
        let sum: f64 = parts.iter().map(Part::whole).sum();
        let mean = |side: &BTreeMap<&str, Times>| {
            side.values().map(|t| t.1 as f64).sum::<f64>() / side.values().map(|t| t.0 as f64).sum::<f64>()
        };
        assert!((sum - (mean(&second) - mean(&first))).abs() < 1e-9, "{parts:?}");
        assert!(parts.iter().all(|part| part.own == 0.0), "{parts:?}");
        let slower = BTreeMap::from([("near", (90, 90 * 10)), ("far", (10, 10 * 200))]);
        let parts = divide([&first, &slower]);
        assert_eq!((parts[0].group, parts[0].mix), ("far", 0.0));
    }
}
