//! Values along an axis: all of one axis as fine as its steps.

use crate::count;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisUnit {
    /// Plain numbers.
    Plain,
    /// Nanoseconds; shown as ns, µs, ms or s.
    Time,
    /// Bits a second.
    Rate,
    /// Bytes; shown in powers of 1024.
    Bytes,
    /// Shares of 1; shown in percent.
    Share,
}

impl AxisUnit {
    /// The step that an axis is divided by, where a step of about `wanted` would suit: 1, 2 or 5
    /// times a power of ten; for bytes a power of two. `None` where there is no such step.
    pub fn step(self, wanted: f64) -> Option<f64> {
        // A third more ticks than asked for rather than half of them.
        let least = wanted * 0.75;
        let step = if self == Self::Bytes {
            2f64.powf(least.log2().ceil())
        } else {
            let power = 10f64.powf(wanted.log10().floor());
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= least)?
        };
        (step.is_finite() && step > 0.0).then_some(step)
    }

    /// A value in the unit that suits it, as fine as `step` asks for.
    pub fn text(self, value: f64, step: f64) -> String {
        let by = |steps: &[(f64, &str)]| {
            let size = value.abs().max(step.abs());
            // Of a step in powers of two, as axes of bytes have, an eighth has three decimals, and
            // a finer one ever more.
            let finest = if step.log2().fract() == 0.0 { 1.0 / 8.0 } else { 1.0 / 1_100.0 };
            let fits = |s: f64| size >= s * 0.999 && (self != Self::Bytes || step >= s * finest);
            let (scale, unit) = steps.iter().copied().find(|(s, _)| fits(*s)).unwrap_or(steps[steps.len() - 1]);
            format!("{} {unit}", number(value / scale, step / scale))
        };
        match self {
            Self::Plain => number(value, step),
            Self::Time => by(&[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]),
            Self::Rate => by(&[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
            Self::Bytes => by(&[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB"), (1.0, "B")]),
            Self::Share => format!("{} %", number(value * 100.0, step * 100.0)),
        }
    }
}

/// The most decimals that a double can have any use for, beside one digit before them.
const MOST: f64 = 15.0;

/// With as many decimals as `step` has; where it has no end of them three, or as many as it takes
/// to see it.
fn number(value: f64, step: f64) -> String {
    let decimals = (0..6).find(|d| {
        let scaled = step * 10f64.powi(*d);
        scaled.abs() > 0.5 && (scaled - scaled.round()).abs() < 1e-6 * scaled.abs()
    });
    let enough = || if step > 0.0 { (-step.log10().floor()).clamp(3.0, MOST) as i32 } else { 3 };
    let text = format!("{value:.*}", decimals.unwrap_or_else(enough) as usize);
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let digits = whole.trim_start_matches('-');
    let grouped = digits.parse::<u64>().map_or_else(|_| digits.to_owned(), count);
    let sign = if whole.starts_with('-') && value != 0.0 { "−" } else { "" };
    rest.map_or_else(|| format!("{sign}{grouped}"), |rest| format!("{sign}{grouped}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_in_their_unit() {
        assert_eq!(AxisUnit::Rate.step(180.0), Some(200.0));
        assert_eq!(AxisUnit::Bytes.step(300_000.0), Some(262_144.0));
        assert_eq!(AxisUnit::Time.step(0.0), None);
        assert_eq!(AxisUnit::Time.step(f64::NAN), None);
    }

    #[test]
    fn values_are_as_fine_as_their_step() {
        assert_eq!(AxisUnit::Bytes.text(1_572_864.0, 524_288.0), "1.5 MiB");
        assert_eq!(AxisUnit::Bytes.text(0.0, 262_144.0), "0 KiB");
        assert_eq!(AxisUnit::Share.text(-0.005, 0.005), "−0.5 %");
        assert_eq!(AxisUnit::Time.text(2.5e6, 5e5), "2.5 ms");
        // However close two values are to each other.
        assert_eq!(AxisUnit::Time.text(25_400_012.0, 2.0), "25.400012 ms");
        assert_eq!(AxisUnit::Bytes.text(1_448.5, 0.5), "1,448.5 B");
        assert_eq!(AxisUnit::Bytes.text(65_535.0, 1.0), "65,535 B");
        assert_eq!(AxisUnit::Bytes.text(65_600_000.0, 1e5), "62.561 MiB");
        assert_eq!(AxisUnit::Bytes.text(1_100_000.0, 1e4), "1.049 MiB");
        assert_eq!(AxisUnit::Bytes.text(65_500.0, 100.0), "63.965 KiB");
        assert_eq!(AxisUnit::Rate.text(1e9 + 100.0, 100.0), "1.0000001 Gbit/s");
    }
}
