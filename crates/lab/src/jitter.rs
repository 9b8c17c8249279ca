//! How the delay of a segment varies: the draws of its shape, with memory.
//!
//! A chain of normal draws of which each keeps a share of the one before (an autoregressive process
//! of the first order) is carried over to the shape by its quantiles: the distribution is the
//! shape's own, whatever the memory.

use statrs::function::erf::erfc;

use crate::direction::{Direction, JitterShape, LONGEST};
use crate::random::Random;

/// The shape of the Pareto distribution: its variance is finite, its fourth moment is not.
const PARETO: f64 = 3.0;

/// The draws of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    random: Random,
    /// The normal draw of the segment before.
    last: f64,
}

impl Jitter {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, last: 0.0 }
    }

    /// What a segment's delay is longer (or shorter) by than `asked.delay`, ns.
    pub(crate) fn draw(&mut self, asked: &Direction) -> i64 {
        let spread = asked.jitter.0;
        if spread == 0 {
            return 0;
        }
        if asked.jitter_shape == JitterShape::Uniform && asked.jitter_memory == 0.0 {
            return self.random.between(-(spread as i64), spread as i64);
        }
        let memory = asked.jitter_memory;
        let normal = memory * self.last + (1.0 - memory * memory).sqrt() * self.random.normal();
        self.last = normal;
        let above = || (erfc(normal / std::f64::consts::SQRT_2) / 2.0).clamp(f64::MIN_POSITIVE, 1.0);
        let by = match asked.jitter_shape {
            JitterShape::Uniform => 1.0 - 2.0 * above(),
            JitterShape::Normal => normal,
            JitterShape::Exponential => -above().ln(),
            JitterShape::Pareto => (PARETO - 1.0) * (above().powf(-1.0 / PARETO) - 1.0),
        };
        let longest = LONGEST.0 as f64;
        (by * spread as f64).clamp(-longest, longest) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Nanos;

    fn draws(shape: JitterShape, memory: f64, n: usize) -> Vec<f64> {
        let jitter = Nanos::from_millis(1);
        let asked = Direction {
            delay: Nanos::from_millis(10),
            jitter,
            jitter_shape: shape,
            jitter_memory: memory,
            ..Direction::default()
        };
        let mut draws = Jitter::new(Random::new(7, 3));
        (0..n).map(|_| draws.draw(&asked) as f64 / 1e6).collect()
    }

    fn quantile(sorted: &[f64], q: f64) -> f64 {
        sorted[(sorted.len() as f64 * q) as usize]
    }

    /// Quantiles of each shape in units of the jitter, from its distribution function.
    #[test]
    fn each_shape_has_its_quantiles_with_and_without_memory() {
        for (shape, expected) in [
            (JitterShape::Uniform, [-0.8, 0.0, 0.8]),
            (JitterShape::Normal, [-1.2816, 0.0, 1.2816]),
            (JitterShape::Exponential, [-0.9f64.ln(), -0.5f64.ln(), -0.1f64.ln()]),
            (JitterShape::Pareto, [0.0715, 0.5198, 2.3089]),
        ] {
            for memory in [0.0, 0.9] {
                let mut all = draws(shape, memory, 400_000);
                all.sort_by(f64::total_cmp);
                for (q, expected) in [0.1, 0.5, 0.9].into_iter().zip(expected) {
                    let got = quantile(&all, q);
                    // Memory leaves a nineteenth of the draws independent of each other.
                    let within = if memory == 0.0 { 0.02 } else { 0.08 };
                    assert!((got - expected).abs() < within, "{shape:?} {memory} p{q}: {got} instead of {expected}");
                }
            }
        }
    }

    #[test]
    fn memory_is_the_correlation_of_neighbours() {
        for memory in [0.0, 0.25, 0.9] {
            let all = draws(JitterShape::Normal, memory, 400_000);
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let covariance = all.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>();
            let got = covariance / variance;
            assert!((got - memory).abs() < 0.01, "{got} instead of {memory}");
        }
    }

    #[test]
    fn what_is_added_alone_never_makes_a_segment_early() {
        for shape in [JitterShape::Exponential, JitterShape::Pareto] {
            assert!(draws(shape, 0.5, 50_000).iter().all(|by| *by >= 0.0), "{shape:?}");
        }
    }
}
