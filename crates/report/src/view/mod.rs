//! What is said of a trace in words.

mod advice;
mod connections;
mod fired;
mod legs;
mod losses;
pub(crate) mod names;
mod others;
mod packets;
mod profile;
mod proxied;
mod requests;
mod tallies;
mod times;
mod transfers;
mod waits;
mod words;

use paper::document::{Clause, Text};
use record::{Coverage, Leg, Lost, Nanos, Sampling};

#[cfg(test)]
pub(crate) use connections::tests as tests_of_connections;
pub(crate) use fired::fired;
pub(crate) use legs::notes as leg_notes;
pub(crate) use losses::{partial, seen, unrecorded};
pub use others::{call_remarks, packet_remarks, receiving_remarks};
pub(crate) use others::{counted, requests_of};
pub(crate) use packets::{datagram_words, packet_words};
pub(crate) use profile::typical_and_slowest;
pub(crate) use proxied::leading as leading_proxied;
pub(crate) use requests::{labelled, multiplexed, overlapping, separated, undivided, waited};
pub(crate) use tallies::{mostly, owner};
pub(crate) use times::held;
pub(crate) use transfers::limits_of_transfers;
pub(crate) use waits::{held_by, waits_for};
pub(crate) use words::{sentences, words_of_any};

use summary::TimedKind;

/// Clauses as one paragraph.
pub(crate) fn in_one(clauses: &[Clause]) -> Text {
    let mut one = Text::default();
    for (i, clause) in clauses.iter().enumerate() {
        one = one.and(if i > 0 { " " } else { "" }).and(clause.text.clone());
        if let Some(next) = &clause.next {
            one = one.and(" Next: ").and(next.clone());
        }
    }
    one
}

/// With a capital at its beginning.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a report says beside the figures themselves.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What was traced, in words: `port 80`.
    pub target: String,
    /// The backend that took the stamps.
    pub backend: String,
    /// The sampling that was asked for.
    pub sampling: Sampling,
    /// What share was really seen.
    pub coverage: Coverage,
    /// What was lost.
    pub lost: Lost,
    /// How long the trace took.
    pub lasted: Nanos,
    /// Why there is no NIC stamp, where that is known.
    pub no_nic: Option<String>,
    /// What has to be known of how the calls that write were observed; nothing where they were not
    /// timed.
    pub calls: Vec<String>,
    /// What has to be known of how the setup of connections was observed.
    pub connects: Vec<String>,
    /// What has to be said of how received bytes were observed.
    pub receiving: Vec<String>,
    /// What has to be known of how the beginnings of packets were read.
    pub http: Vec<String>,
    /// What has to be known of how packets and datagrams were observed.
    pub packets: Vec<String>,
    /// What has to be known of how packets were copied.
    pub copies: Vec<String>,
    /// What has to be known of how DNS was observed.
    pub dns: Vec<String>,
}

/// The sampling in words.
pub(crate) fn sampling(sampling: Sampling) -> String {
    match sampling {
        Sampling::Every => "every send".into(),
        Sampling::Windows(ratio) => format!("{ratio} of the time"),
        Sampling::Draws(ratio) => format!("{ratio} of the sends by draw"),
    }
}

/// What a leg is, for legends.
pub(crate) fn meaning(leg: Leg) -> &'static str {
    let at = Leg::ALL.iter().position(|&l| l == leg).unwrap_or(0);
    TimedKind::Sends.legs()[at].meaning
}
