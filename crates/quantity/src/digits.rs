//! A figure with so many significant digits, in the unit that suits it.

/// Writes `value` in the largest of `units` (name and size, smallest first) that leaves at least 1
/// before the point, with `digits` significant digits. The unit changes where rounding would reach
/// the next one. In a smallest unit of size 1 a value that is whole stays whole.
pub fn scaled(value: f64, units: &[(&str, f64)], digits: usize) -> String {
    let Some(&(mut name, mut size)) = units.first() else { return value.to_string() };
    for pair in units.windows(2) {
        let step = pair[1].1 / pair[0].1;
        // Half of the last digit that would be shown just below the next unit: 999.5 with three
        // digits. Binary units have four places before the point (1,023), which is one more than
        // three digits allow.
        let ceiling = if step == 1_000.0 { step - half(1_000.0, digits) } else { 1_000.0 - half(1_000.0, digits) };
        let plain = pair[0].1 == 1.0 && value.fract() == 0.0 && value.abs() < step;
        if value.abs() / pair[0].1 < ceiling || plain && step != 1_000.0 {
            break;
        }
        (name, size) = pair[1];
    }
    let value = value / size;
    let text = if size == 1.0 && value.fract() == 0.0 { format!("{value:.0}") } else { significant(value, digits) };
    format!("{text} {name}")
}

/// Half of the last of so many digits of a number just below `bound`, a power of ten.
fn half(bound: f64, digits: usize) -> f64 {
    bound / 10_f64.powi(digits as i32) / 2.0
}

/// A number with so many significant digits, and all that stand before the point.
pub fn significant(value: f64, digits: usize) -> String {
    let mut before = 1;
    while before < digits && value.abs() >= 10_f64.powi(before as i32) - half(10_f64.powi(before as i32), digits) {
        before += 1;
    }
    format!("{value:.*}", digits - before.min(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_kept_across_powers_of_ten() {
        let three = |v| significant(v, 3);
        assert_eq!(
            [0.0, 1.0, 9.994, 9.996, 99.94, 99.96, 999.4, 12_345.0].map(three),
            ["0.00", "1.00", "9.99", "10.0", "99.9", "100", "999", "12345"]
        );
        assert_eq!([941.48, 9.4148].map(|v| significant(v, 4)), ["941.5", "9.415"]);
    }
}
