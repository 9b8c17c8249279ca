//! Changes of level in a series: at which place, by how much, and how surely.
//!
//! The series is cut into stretches of constant mean so that the total cost is least. Dynamic
//! programming over all places to cut finds them exactly (Jackson et al., *IEEE Signal Processing
//! Letters* 12, 2005). Each cut costs four times what a Bayesian information criterion charges for
//! two parameters, because neighbouring values of a measured series are rarely independent. A cut
//! is a change only where the interval of the difference between its two stretches excludes zero at
//! the confidence asked for, divided by the number of cuts (Bonferroni).

use crate::Estimate;
use crate::sample::{mean, median};
use crate::series::series_difference;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// The place of the first value of the new level.
    pub at: usize,
    /// The new level minus the old one, with its interval.
    pub size: Estimate,
}

/// The most values that are taken; the search takes time with the square of them.
const MOST: usize = 4_000;

/// The fewest values that make a level.
const SHORTEST: usize = 3;

/// A cut has to gain so many times the information criterion.
const CHARGE: f64 = 4.0;

/// The changes of level in `values`, in their order; none where there are fewer than two levels'
/// worth of values, or more than 4,000, or one that is not finite.
pub fn level_changes(values: &[f64], confidence: f64) -> Vec<LevelChange> {
    changes_at(values, &cuts_of(values, confidence), confidence, <[f64]>::to_vec)
        .into_iter()
        .filter_map(|(change, _)| change)
        .collect()
}

/// Where the stretches of [`level_changes`] meet.
fn cuts_of(values: &[f64], confidence: f64) -> Vec<usize> {
    let sound = values.iter().all(|v| v.is_finite()) && confidence > 0.0 && confidence < 1.0;
    if !sound || values.len() < 2 * SHORTEST || values.len() > MOST {
        return Vec::new();
    }
    // A series without any noise: a cut must still gain something.
    let noise = noise(values).max(f64::EPSILON * values.iter().fold(1.0, |most: f64, v| most.max(v.abs())));
    cut(values, CHARGE * 2.0 * noise.powi(2) * (values.len() as f64).ln())
}

/// The share of a series that a level has to last to be one of [`level_changes_that_stand_out`].
const LASTING: f64 = 0.02;

/// The changes of [`level_changes`] that stand out: each is at least `times` the deviation of the
/// values around its two levels, and both levels last at least 2 % of the series, which leaves out
/// interruptions of the machine. On a busy machine the level of a series wanders: it has many
/// changes that are real but have no cause worth naming, and those are no larger than its scatter.
pub fn level_changes_that_stand_out(values: &[f64], confidence: f64, times: f64) -> Vec<LevelChange> {
    let mut cuts = cuts_of(values, confidence);
    loop {
        let changes = changes_at(values, &cuts, confidence, without_interruptions);
        // The least one goes first: without it its neighbours lie between other levels.
        let lasts = |place: usize| {
            let from = if place == 0 { 0 } else { cuts[place - 1] };
            let to = cuts.get(place + 1).copied().unwrap_or(values.len());
            (cuts[place] - from).min(to - cuts[place]) as f64 >= values.len() as f64 * LASTING
        };
        let standing = |(place, of): (usize, &(Option<LevelChange>, f64))| match of.0 {
            Some(_) if lasts(place) => of.1,
            _ => 0.0,
        };
        let all = changes.iter().enumerate().map(|of| (of.0, standing(of)));
        match all.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((place, standing)) if standing < times => drop(cuts.remove(place)),
            _ => break,
        }
    }
    let cuts = placed(values, &cuts);
    let changes = changes_at(values, &cuts, confidence, without_interruptions);
    changes.into_iter().filter_map(|(change, _)| change).collect()
}

/// The cuts, each moved to where most values are near the level that they then belong to. An
/// interruption next to a change can move the cut of least cost to the other end of the
/// interruption, although its values are near neither level.
fn placed(values: &[f64], cuts: &[usize]) -> Vec<usize> {
    let place = |at: usize| {
        let (from, to) = (if at == 0 { 0 } else { cuts[at - 1] }, cuts.get(at + 1).copied().unwrap_or(values.len()));
        let level = |values: &[f64]| median(values).unwrap_or(0.0);
        let (old, new) = (level(&values[from..cuts[at]]), level(&values[cuts[at]..to]));
        let near = |value: f64, level: f64| i64::from((value - level).abs() < (new - old).abs() / 2.0);
        let (mut score, mut best) = (0i64, (0i64, cuts[at]));
        for (i, value) in values[from..to].iter().enumerate() {
            score += near(*value, old) - near(*value, new);
            if score > best.0 {
                best = (score, from + i + 1);
            }
        }
        best.1
    };
    let places: Vec<usize> = (0..cuts.len()).map(place).collect();
    // Each is looked for between its neighbours' old places, so two may have passed each other.
    // They then bound no level.
    if places.is_sorted_by(|a, b| a < b) { places } else { cuts.to_vec() }
}

/// How far a value may be from its level, in multiples of the scatter around it.
const FAR_OFF: f64 = 3.0;

/// The values of one level with those that are far off moved to the edge of what is usual there
/// (winsorized): a few that are a hundred times too large would otherwise widen the interval of its
/// mean, and hide the change that all others show.
fn without_interruptions(level: &[f64]) -> Vec<f64> {
    let most = FAR_OFF * scatter([level]);
    let middle = median(level).unwrap_or(0.0);
    level.iter().map(|value| middle + (value - middle).clamp(-most, most)).collect()
}

/// The deviation of values about their own level, each slice being one: from the median of the
/// absolute deviations, so that a few values that are far off do not count.
pub fn scatter<'a>(levels: impl IntoIterator<Item = &'a [f64]>) -> f64 {
    let off = levels.into_iter().flat_map(|values| {
        let level = median(values).unwrap_or(0.0);
        values.iter().map(move |value| (value - level).abs())
    });
    // The median absolute deviation of normal values is 0.6745 of their deviation.
    median(&off.collect::<Vec<_>>()).unwrap_or(0.0) / 0.6745
}

/// The change at each cut, from the values of its two levels as they are `counted`, where its
/// interval excludes zero; and the distance of the two medians in multiples of the scatter: a few
/// values that are far off make no level.
fn changes_at(
    values: &[f64],
    cuts: &[usize],
    confidence: f64,
    counted: fn(&[f64]) -> Vec<f64>,
) -> Vec<(Option<LevelChange>, f64)> {
    let confidence = 1.0 - (1.0 - confidence) / cuts.len().max(1) as f64;
    let ends = cuts.iter().copied().chain([values.len()]).skip(1);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let of = |(start, (at, end)): (usize, (usize, usize))| {
        let (old, new) = (&values[start..at], &values[at..end]);
        let size = series_difference(&counted(old), &counted(new), confidence).filter(|size| !size.covers(0.0));
        let apart = median(new).zip(median(old)).map_or(0.0, |(new, old)| (new - old).abs());
        // Without any scatter every distance stands out.
        let times = if apart == 0.0 { 0.0 } else { apart / scatter([old, new]) };
        (size.map(|size| LevelChange { at, size }), times)
    };
    starts.zip(cuts.iter().copied().zip(ends)).map(of).collect()
}

/// The deviation of the values about their level, from the differences of neighbours: a change of
/// level is in one of them only.
fn noise(values: &[f64]) -> f64 {
    let steps: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    // The median absolute difference of two normal values is 0.954 of their deviation.
    median(&steps).unwrap_or(0.0) / 0.9539
}

/// The places that cut `values` into stretches of least cost.
fn cut(values: &[f64], charge: f64) -> Vec<usize> {
    let n = values.len();
    let level = mean(values).unwrap_or(0.0);
    let (mut sums, mut squares) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    for (i, value) in values.iter().enumerate() {
        // About the mean of all, so that the squares of large values lose no digits.
        sums[i + 1] = sums[i] + (value - level);
        squares[i + 1] = squares[i] + (value - level).powi(2);
    }
    let cost = |from: usize, to: usize| {
        let sum = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64).max(0.0)
    };
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -charge;
    for to in SHORTEST..=n {
        for from in 0..=to - SHORTEST {
            let whole = best[from] + cost(from, to) + charge;
            if whole < best[to] {
                (best[to], last[to]) = (whole, from);
            }
        }
    }
    let mut cuts = Vec::new();
    let mut at = last[n];
    while at > 0 {
        cuts.push(at);
        at = last[at];
    }
    cuts.reverse();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum of twelve uniform draws: near enough to normal, with deviation 1.
    fn normal(rng: &mut rand_pcg::Pcg64Mcg) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn a_cable_that_is_swapped_and_put_back_is_two_changes_of_its_size() {
        let mut rng = crate::bootstrap::generator(1);
        let values: Vec<f64> =
            (0..750).map(|i| if (250..500).contains(&i) { 88.0 } else { 0.0 } + 16.0 * normal(&mut rng)).collect();
        let changes = level_changes(&values, 0.95);
        assert_eq!(changes.iter().map(|c| c.at).collect::<Vec<_>>(), [250, 500]);
        assert!(changes[0].size.covers(88.0) && changes[1].size.covers(-88.0), "{changes:?}");
    }

    #[test]
    fn a_level_series_has_no_change_in_nineteen_of_twenty() {
        let mut rng = crate::bootstrap::generator(7);
        let false_alarms = (0..200)
            .filter(|_| {
                let values: Vec<f64> = (0..300).map(|_| normal(&mut rng)).collect();
                !level_changes(&values, 0.95).is_empty()
            })
            .count();
        assert!(false_alarms <= 10, "{false_alarms} of 200");
    }

    #[test]
    fn the_interval_of_a_change_covers_its_size() {
        let mut rng = crate::bootstrap::generator(3);
        let covered = (0..200)
            .filter(|_| {
                let values: Vec<f64> = (0..200).map(|i| if i < 90 { 10.0 } else { 13.0 } + normal(&mut rng)).collect();
                let changes = level_changes(&values, 0.95);
                changes.len() == 1 && changes[0].size.covers(3.0)
            })
            .count();
        assert!(covered >= 180, "{covered} of 200");
    }

    #[test]
    fn the_interval_of_a_change_covers_its_size_where_the_level_wanders() {
        let mut rng = crate::bootstrap::generator(17);
        let (mut found, mut covered, mut as_if_independent) = (0, 0, 0);
        for _ in 0..200 {
            let mut level = normal(&mut rng);
            let values: Vec<f64> = (0..600)
                .map(|i| {
                    level = 0.9 * level + 0.19f64.sqrt() * normal(&mut rng);
                    level + if i >= 300 { 20.0 } else { 0.0 }
                })
                .collect();
            let changes = level_changes_that_stand_out(&values, 0.95, 3.0);
            let Some(change) = changes.iter().find(|change| change.at.abs_diff(300) <= 5) else { continue };
            found += 1;
            covered += u32::from(change.size.covers(20.0));
            let independent = crate::mean_difference(&values[..change.at], &values[change.at..], 0.95).unwrap();
            as_if_independent += u32::from(independent.covers(20.0));
        }
        assert!(found >= 190 && covered * 100 >= found * 93, "{covered} of {found}");
        assert!(as_if_independent * 2 < found, "{as_if_independent} of {found}");
    }

    #[test]
    fn a_level_that_wanders_has_no_change_that_stands_out_but_the_one_put_in() {
        let mut rng = crate::bootstrap::generator(11);
        for put_in in [0.0, 50.0] {
            // The level moves between two values every few dozen places, and each value scatters
            // about it.
            let mut level = 0.0;
            let values: Vec<f64> = (0..600)
                .map(|i| {
                    if rng.random::<f64>() < 0.03 {
                        level = 10.0 - level;
                    }
                    level + 5.0 * normal(&mut rng) + if i >= 200 { put_in } else { 0.0 }
                })
                .collect();
            let found: Vec<usize> =
                level_changes_that_stand_out(&values, 0.95, 3.0).iter().map(|change| change.at).collect();
            assert_eq!(found, if put_in > 0.0 { vec![200] } else { vec![] }, "{put_in}");
            assert!(level_changes(&values, 0.95).len() > 1);
        }
        let interrupted: Vec<f64> =
            (0..400).map(|i| normal(&mut rng) + if (200..204).contains(&i) { 200.0 } else { 0.0 }).collect();
        assert_eq!(level_changes(&interrupted, 0.95).len(), 2);
        assert_eq!(level_changes_that_stand_out(&interrupted, 0.95, 3.0), []);
        let clean: Vec<f64> = (0..40).map(|i| if i < 20 { 5.0 } else { 6.0 }).collect();
        assert_eq!(level_changes_that_stand_out(&clean, 0.95, 3.0).len(), 1);
    }

    #[test]
    fn values_that_are_far_off_hide_no_change_and_do_not_alter_its_size() {
        let mut rng = crate::bootstrap::generator(5);
        for seed in 0..50 {
            // One value in ten, for up to three on end, is up to a hundred steps too large; such
            // values beside the step belong to either level.
            let mut left = 0;
            let values: Vec<f64> = (0..240)
                .map(|i| {
                    left = if left > 0 {
                        left - 1
                    } else if rng.random::<f64>() < 0.05 {
                        rng.random_range(1..4)
                    } else {
                        0
                    };
                    let off = if left > 0 { 5_000.0 * rng.random::<f64>() } else { 0.0 };
                    100.0 + normal(&mut rng) + off + if i >= 120 { 50.0 } else { 0.0 }
                })
                .collect();
            let found = level_changes_that_stand_out(&values, 0.95, 3.0);
            assert_eq!(
                found.iter().map(|change| change.at.abs_diff(120) <= 8).collect::<Vec<_>>(),
                [true],
                "{seed}: {found:?}"
            );
            assert!((found[0].size.value - 50.0).abs() < 5.0, "{seed}: {found:?}");
        }
    }

    #[test]
    fn a_step_without_noise_is_found_and_constant_values_have_none() {
        let values: Vec<f64> = (0..40).map(|i| if i < 20 { 5.0 } else { 6.0 }).collect();
        assert_eq!(level_changes(&values, 0.95).iter().map(|c| (c.at, c.size.value)).collect::<Vec<_>>(), [(20, 1.0)]);
        assert_eq!(level_changes(&[5.0; 100], 0.95), []);
    }

    proptest! {
        #[test]
        fn no_series_panics(values in prop::collection::vec(any::<f64>(), 0..40), confidence in -0.5f64..1.5) {
            let _ = level_changes(&values, confidence);
            let _ = level_changes_that_stand_out(&values, confidence, 3.0);
        }
    }
}
