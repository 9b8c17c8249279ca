//! What sends waited for, in few words.

use record::{WaitReason, Waits};
use summary::SendFigures;

/// The least share of a wait that is worth naming beside a larger one.
const NAMED: f64 = 0.05;

/// What held something, with the time of each reason: `Nagle's algorithm (40 ms), pacing (3 ms)`.
pub(crate) fn held_by(waits: &Waits) -> String {
    let all = waits.sum();
    let named: Vec<String> = waits
        .each()
        .into_iter()
        .filter(|(_, time)| quantity::share(time.0.into(), all.0.into()) >= NAMED)
        .map(|(reason, time)| format!("{} ({time})", called(reason)))
        .collect();
    match waits.reason() {
        WaitReason::SentAtOnce => WaitReason::SentAtOnce.to_string(),
        _ => named.join(", "),
    }
}

/// A reason within a sentence.
pub(crate) fn called(reason: WaitReason) -> String {
    match reason {
        WaitReason::Unknown => "a reason not known".to_owned(),
        reason => reason.to_string(),
    }
}

/// What sends of a connection waited for most.
pub(crate) fn waits_for(sends: &SendFigures) -> String {
    let all: u128 = sends.waits().iter().map(|w| u128::from(w.1.time.0)).sum();
    match sends.waits().first() {
        Some((reason, stats)) if all > 0 => {
            format!("{reason} ({})", quantity::percent(quantity::share(stats.time.0.into(), all)))
        }
        _ if sends.wait(WaitReason::SentAtOnce).sends > 0 => "nothing".into(),
        _ => "—".into(),
    }
}
