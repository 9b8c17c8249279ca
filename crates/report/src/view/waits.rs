//! What sends waited for, in few words.

use record::WaitReason;
use summary::SendFigures;

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
