//! What a data file of flent says, ours or flent's own: each series before the load, under it and
//! after it.

use serde::Serialize;

use super::Flent;

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Round trips; values are in nanoseconds.
    Time,
    /// Rates; values are in bits a second.
    Rate,
    /// Something else, as flent has it.
    Other,
}

/// The values of a series in one part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Values {
    /// Values there are.
    pub n: usize,
    /// Moments of the grid without one: nothing was measured, or nothing came back.
    pub missing: usize,
    /// The lowest.
    pub min: f64,
    /// Half of them are at most this.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// The highest.
    pub max: f64,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub quantity: Quantity,
    /// Before the load; of a series of rates, and where there was no load, nothing.
    pub before: Option<Values>,
    /// Under load; all of it where there was none.
    pub loaded: Values,
    /// After the load.
    pub after: Option<Values>,
}

impl Flent {
    /// The unit of a series, by its name as flent has it.
    pub fn quantity(name: &str) -> Quantity {
        let lower = name.to_lowercase();
        if lower.contains("(ms)") || lower.starts_with("ping") {
            Quantity::Time
        } else if lower.contains("upload") || lower.contains("download") || lower.contains("totals") {
            Quantity::Rate
        } else {
            Quantity::Other
        }
    }

    /// Each series in its parts. The load is from the first moment at which any rate is above zero
    /// to the last.
    pub fn read_series(&self) -> Vec<Series> {
        let rates = || self.results.iter().filter(|(name, _)| Self::quantity(name) == Quantity::Rate);
        let busy = |row: usize| rates().any(|(_, v)| v.get(row).copied().flatten().is_some_and(|v| v > 0.0));
        let rows = self.x_values.len();
        let first = (0..rows).find(|r| busy(*r));
        let last = (0..rows).rfind(|r| busy(*r));
        self.results
            .iter()
            .map(|(name, column)| {
                let quantity = Self::quantity(name);
                let scale = match quantity {
                    Quantity::Time | Quantity::Rate => 1e6,
                    Quantity::Other => 1.0,
                };
                let part = |rows: &[Option<f64>]| Values::of(rows, scale);
                let (Some(first), Some(last)) = (first, last) else {
                    return Series { name: name.clone(), quantity, before: None, loaded: part(column), after: None };
                };
                let idle = |rows: &[Option<f64>]| (quantity != Quantity::Rate && !rows.is_empty()).then(|| part(rows));
                Series {
                    name: name.clone(),
                    quantity,
                    before: idle(&column[..first]),
                    loaded: part(&column[first..=last]),
                    after: idle(&column[last + 1..]),
                }
            })
            .collect()
    }
}

impl Values {
    fn of(rows: &[Option<f64>], scale: f64) -> Self {
        let mut values: Vec<f64> = rows.iter().flatten().map(|v| v * scale).filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let missing = rows.len() - n;
        let (Some(min), Some(max)) = (values.first().copied(), values.last().copied()) else {
            return Self { missing, ..Self::default() };
        };
        // The nearest rank: always a value that was measured.
        let at = |share: f64| values[((share * n as f64).ceil() as usize).clamp(1, n) - 1];
        let mean = values.iter().sum::<f64>() / n as f64;
        Self { n, missing, min, median: at(0.5), mean, p90: at(0.9), p99: at(0.99), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(results: &[(&str, &[Option<f64>])]) -> Flent {
        let rows = results.first().map_or(0, |r| r.1.len());
        let object = serde_json::json!({
            "version": 4, "metadata": {}, "x_values": (0..rows).map(|i| i as f64).collect::<Vec<_>>(),
            "results": results.iter().map(|(n, v)| ((*n).to_owned(), v.to_vec())).collect::<std::collections::BTreeMap<_, _>>(),
        });
        Flent::parse(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_load_parts_the_time() {
        let ping: Vec<Option<f64>> = [1.0, 1.0, 20.0, 40.0, 30.0, 2.0].map(Some).into();
        let upload = [None, None, Some(5.0), None, Some(7.0), Some(0.0)];
        let series = file(&[("Ping (ms) ICMP", &ping), ("TCP upload BE", &upload)]).read_series();
        let ping = &series[0];
        assert_eq!((ping.quantity, ping.before.unwrap().median, ping.loaded.n), (Quantity::Time, 1e6, 3));
        assert_eq!((ping.loaded.median, ping.loaded.max, ping.after.unwrap().n), (30e6, 40e6, 1));
        let upload = &series[1];
        assert_eq!((upload.quantity, upload.before, upload.after), (Quantity::Rate, None, None));
        assert_eq!((upload.loaded.n, upload.loaded.missing, upload.loaded.mean), (2, 1, 6e6));
        let alone = file(&[("Ping (ms) ICMP", &[Some(3.0), None])]).read_series();
        assert_eq!((alone[0].before, alone[0].loaded.n, alone[0].loaded.missing), (None, 1, 1));
    }

    proptest! {
        #[test]
        fn any_columns_are_read(a in proptest::collection::vec(any::<Option<f64>>(), 0..40)) {
            let b: Vec<Option<f64>> = a.iter().rev().copied().collect();
            let mut flent = file(&[]);
            flent.x_values = vec![0.0; a.len()];
            flent.results = [("TCP download".to_owned(), a), ("Ping (ms)".to_owned(), b)].into();
            for series in flent.read_series() {
                let v = series.loaded;
                prop_assert!(v.n == 0 || (v.min <= v.median && v.median <= v.p90 && v.p90 <= v.p99 && v.p99 <= v.max));
            }
        }
    }
}
