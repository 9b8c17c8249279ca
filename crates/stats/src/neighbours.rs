//! Values in the order of time of which one goes with the next, such as the hours of a day: they
//! are worth fewer.

use crate::bootstrap::Estimate;
use crate::judgement::Judgement;

/// Series from which on what neighbouring values have in common is known well.
const MANY: usize = 5;

/// How much neighbouring values go together: the correlation of one with the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    correlation: f64,
    /// Whether it comes from many series; from few it is uncertain itself.
    known: bool,
}

impl Neighbours {
    /// Of all series together. The estimate from short series is too low by about (1 + 3 r) / n,
    /// which is added; and it is taken one standard error higher than it is.
    pub fn of(all: &[Vec<f64>]) -> Self {
        let (mut together, mut alone, mut values) = (0.0, 0.0, 0_usize);
        for series in all {
            let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
            together += series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
            alone += series.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            values += series.len();
        }
        let length = values as f64 / all.len().max(1) as f64;
        let found = if alone > 0.0 && length > 3.0 { (together / alone * length + 1.0) / (length - 3.0) } else { 0.0 };
        let correlation = (found + 1.0 / (values.max(1) as f64).sqrt()).clamp(0.0, 0.95);
        Self { correlation, known: all.len() >= MANY }
    }

    /// The mean of a series with its interval. `None` below two values.
    pub fn mean(self, judgement: Judgement, series: &[f64]) -> Option<Estimate> {
        let (plain, _) = judgement.of(series)?;
        let (n, r) = (series.len() as f64, self.correlation);
        if r == 0.0 {
            return Some(plain);
        }
        // n values that go together are worth so many in a mean, and in a spread.
        let longer = (1.0 + r) / (1.0 - r);
        let in_mean = (n / longer).max(2.0);
        let in_spread = if self.known { (n * (1.0 - r * r) / (1.0 + r * r)).max(2.0) } else { in_mean };
        let mean = plain.value;
        let spread = series.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // The spread around a mean that drifts with the values is too small.
        let spread = spread * ((n - 1.0) / n) / (1.0 - longer / n).max(0.2);
        let estimate = judgement.around(mean, (spread * longer / n).sqrt(), in_spread as usize);
        Some(Estimate { n: series.len(), ..estimate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

    #[test]
    fn a_mean_of_values_that_go_together_is_held_as_often_as_it_says() {
        let mut rng = generator(11);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let (mut held, mut plain, mut all) = (0, 0, 0);
        for _ in 0..100 {
            let series: Vec<Vec<f64>> = (0..10)
                .map(|_| {
                    let mut last = normal();
                    let next = |_| {
                        last = 0.6 * last + 0.8 * normal();
                        last
                    };
                    (0..24).map(next).collect()
                })
                .collect();
            let neighbours = Neighbours::of(&series);
            for one in &series {
                all += 1;
                held += usize::from(neighbours.mean(Judgement::ALONE, one).unwrap().covers(0.0));
                plain += usize::from(Judgement::ALONE.of(one).unwrap().0.covers(0.0));
            }
        }
        assert!(held * 100 >= all * 95 && plain * 100 < all * 90, "{held}, else {plain}, of {all}");
        assert_eq!(Neighbours::of(&[vec![1.0]]).mean(Judgement::ALONE, &[1.0]), None);
    }
}
