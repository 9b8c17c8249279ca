//! Numbers as people read them.

/// A count with its thousands apart: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the thing counted: `1 send`, `12,345 sends`.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(n))
}

/// Bytes with three digits and a binary unit: `512 B`, `16.0 KiB`.
pub(crate) fn bytes(n: u64) -> String {
    if n < 1_024 {
        return format!("{n} B");
    }
    let (mut value, mut unit) = (n as f64 / 1_024.0, "KiB");
    for larger in ["MiB", "GiB", "TiB", "PiB", "EiB"] {
        // Three digits would read 1,024 from here on.
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1_024.0, larger);
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {unit}")
}

/// A share of 1 in percent, never rounded to all or nothing: `97 %`, `2.1 %`, `< 0.1 %`, `> 99.9 %`.
pub(crate) fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p.is_nan() {
        "—".into()
    } else if p <= 0.0 {
        "0 %".into()
    } else if p < 0.1 {
        "< 0.1 %".into()
    } else if p < 9.95 {
        format!("{p:.1} %")
    } else if p < 99.5 {
        format!("{p:.0} %")
    } else if p < 99.95 {
        format!("{p:.1} %")
    } else if p < 100.0 {
        "> 99.9 %".into()
    } else {
        "100 %".into()
    }
}

/// Part of a whole; nothing of nothing is not a number, and shows as a dash.
pub(crate) fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 / whole as f64 }
}

/// A figure and its unit do not part at the end of a line.
pub(crate) fn whole(text: impl ToString) -> String {
    text.to_string().replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [counted(1, "send"), counted(0, "send"), counted(2_000, "send")],
            ["1 send", "0 sends", "2,000 sends"]
        );
        assert_eq!(
            [0, 1_023, 1_024, 16_384, 1_023_500, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "16.0 KiB", "0.98 MiB", "16.0 EiB"]
        );
        assert_eq!(
            [0.0, 0.000_1, 0.021, 0.5, 0.996, 0.999_9, 1.0, f64::NAN].map(percent),
            ["0 %", "< 0.1 %", "2.1 %", "50 %", "99.6 %", "> 99.9 %", "100 %", "—"]
        );
        assert!(share(0, 0).is_nan());
    }
}
