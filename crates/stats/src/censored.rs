//! Quantiles where some of the values are known only to be at least so large.

use std::collections::BTreeMap;

use crate::{Distribution, Quantile};

/// The quantile of values of which `complete` are known, and `censored` are known to be at least
/// that large: what was still going on when it was last seen. By the estimator of Kaplan and Meier
/// (Nonparametric estimation from incomplete observations, J. Am. Stat. Assoc. 53, 1958), which
/// assumes that how long a value would have been says nothing of when its observation ended.
///
/// With nothing censored it is [`Distribution::quantile`]. `None` where there are fewer values than
/// [`Quantile::needs`], and where more of them are censored before it than lie beyond it: it is
/// larger than every value that is known then.
pub fn censored_quantile(complete: &Distribution, censored: &Distribution, quantile: Quantile) -> Option<u64> {
    if censored.n() == 0 {
        return complete.quantile(quantile);
    }
    let mut at_risk = complete.n().saturating_add(censored.n());
    if at_risk < quantile.needs() {
        return None;
    }
    // Of equal values, the censored one was at risk while the other ended.
    let mut ends = BTreeMap::<u64, [u64; 2]>::new();
    for (which, of) in [complete, censored].into_iter().enumerate() {
        of.values().for_each(|(value, n)| ends.entry(value).or_default()[which] += n);
    }
    let (mut beyond, least) = (1.0, 1.0 - quantile.share());
    for (value, [ended, lost]) in ends {
        if ended > 0 {
            beyond *= 1.0 - ended as f64 / at_risk as f64;
            // A product of so many roundings is off by less than this.
            if beyond <= least + 1e-9 {
                return Some(value);
            }
        }
        at_risk -= ended + lost;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut all = Distribution::new(Precision::Fine);
        values.iter().for_each(|&value| all.record(value));
        all
    }

    fn share(thousandths: u16) -> Quantile {
        Quantile::from_thousandths(thousandths).unwrap()
    }

    /// Remission of leukaemia in weeks under 6-MP (Freireich and others, Blood 21, 1963), as in
    /// Cox and Oakes, Analysis of Survival Data, 1984: S is 0.857 after 6 weeks, 0.753 after 10,
    /// 0.627 after 16, 0.538 after 22 and 0.448 after 23, its least.
    #[test]
    fn a_textbook_estimate() {
        let complete = of(&[6, 6, 6, 7, 10, 13, 16, 22, 23]);
        let censored = of(&[6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]);
        let at = |thousandths| censored_quantile(&complete, &censored, share(thousandths));
        assert_eq!(at(100), Some(6));
        assert_eq!([at(142), at(143), at(246), at(248)], [Some(6), Some(7), Some(10), Some(13)]);
        assert_eq!([at(372), at(374), at(462), at(463)], [Some(16), Some(22), Some(22), Some(23)]);
        assert_eq!([at(500), at(551), at(552), at(900)], [Some(23), Some(23), None, None]);
    }

    #[test]
    fn what_hangs_is_in_the_tail_and_not_left_out() {
        let mut complete = of(&[20; 94]);
        complete.record_many(30, 4);
        let hung = of(&[6_600, 6_600]);
        let at = |quantile| censored_quantile(&complete, &hung, quantile);
        assert_eq!((at(Quantile::P50), at(share(940)), at(share(950))), (Some(20), Some(20), Some(30)));
        assert_eq!((at(Quantile::P99), complete.nearest_rank(Quantile::P99)), (None, Some(30)));
        assert_eq!(censored_quantile(&of(&[]), &hung, Quantile::P50), None);
        assert_eq!(censored_quantile(&of(&[1]), &of(&[]), Quantile::P50), None);
    }

    proptest! {
        #[test]
        fn with_nothing_censored_it_is_the_quantile(values in prop::collection::vec(0u64..2_000, 100..300), late in 2_000u64..9_000) {
            let (complete, none) = (of(&values), of(&[]));
            for quantile in [Quantile::P50, Quantile::P90, Quantile::P99] {
                prop_assert_eq!(censored_quantile(&complete, &none, quantile), complete.quantile(quantile));
            }
            // Nothing is lost before the largest of them, so the ranks are those of all together.
            let all = of(&[values.clone(), vec![late]].concat());
            prop_assert_eq!(censored_quantile(&complete, &of(&[late]), Quantile::P50), all.quantile(Quantile::P50));
        }
    }
}
