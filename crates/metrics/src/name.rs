//! Names as Prometheus spells them, by OpenTelemetry's rules for the translation.

use crate::{Family, Kind};

/// The name of a metric: dots become underscores, the unit follows where the name has it not, and a
/// counter ends in `_total`.
pub(crate) fn metric(family: &Family<'_>) -> String {
    let mut name = label(family.name);
    let unit = match family.unit {
        "s" => "seconds",
        "By" => "bytes",
        // Units in braces are no units, and 1 is none.
        _ => "",
    };
    if !unit.is_empty() && !name.ends_with(unit) {
        name = format!("{name}_{unit}");
    }
    if family.kind == Kind::Counter {
        name.push_str("_total");
    }
    name
}

/// The name of a label.
pub(crate) fn label(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
