//! Why a flight recorder wrote a run, for its headline.

use record::Fired;

/// What happened, and how often.
pub(crate) fn fired(of: &Fired) -> String {
    match of.times {
        0 | 1 => of.finding.clone(),
        times => format!("{} It happened {} times until the end.", of.finding, quantity::count(times)),
    }
}
