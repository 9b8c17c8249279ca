//! What a remedy was worth to a connection, tried in a twin of it: a row of a run of
//! `wirelapse advise`.

use serde::{Deserialize, Serialize};

use crate::{Nanos, columns, words};

/// What a remedy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Faster.
    Helps,
    /// Slower.
    Harms,
    /// No difference was seen.
    NoDifference,
    /// It could not be tried.
    NotTried,
}

words! {
    Effect: Helps = "helps", Harms = "harms", NoDifference = "no_difference", NotTried = "not_tried";
}

/// A remedy and what it was worth.
#[derive(Clone, Debug, PartialEq)]
pub struct RemedyRow {
    /// When the advice was given, nanoseconds since 1970.
    pub at_ns: u64,
    /// The connection's client, address and port.
    pub client: String,
    /// Its server.
    pub server: String,
    /// What the remedy is called.
    pub remedy: String,
    /// Where it is set.
    pub place: String,
    /// What it did.
    pub effect: Effect,
    /// Its place in the order of what helps, from 1; 0 for what does not.
    pub rank: u64,
    /// The change of the time: −0.5 is half.
    pub change: Option<f64>,
    /// The lower and the upper end of its interval of 95 %.
    pub change_low: Option<f64>,
    /// See [`Self::change_low`].
    pub change_high: Option<f64>,
    /// The median time without it.
    pub before_ns: Option<Nanos>,
    /// The median time with it.
    pub after_ns: Option<Nanos>,
    /// Pairs of trials.
    pub n: u64,
}

impl RemedyRow {
    fn blank() -> Self {
        Self {
            at_ns: 0,
            client: String::new(),
            server: String::new(),
            remedy: String::new(),
            place: String::new(),
            effect: Effect::NotTried,
            rank: 0,
            change: None,
            change_low: None,
            change_high: None,
            before_ns: None,
            after_ns: None,
            n: 0,
        }
    }
}

columns! {
    RemedyRow: "remedies", "", blank = RemedyRow::blank();
    at_ns = at_ns, "when the advice was given, ns since 1970";
    client = client, "address and port of the connection's client";
    server = server, "address and port of its server";
    remedy = remedy, "what the remedy is called ([advise.md](advise.md))";
    place = place, "where it is set: at which side's host or program, or on the path";
    effect = effect, "what it did in the twin";
    rank = rank, "its place in the order of what helps, from 1; 0 for what does not";
    change = change, null "it was not tried", "the change of the time in the twin: −0.5 is half";
    change_low = change_low, null "as `change`, or too few trials", "the lower end of its interval of 95 %";
    change_high = change_high, null "as `change_low`", "the upper end";
    before_ns = before_ns, null "as `change`", "the median time in the twin without it";
    after_ns = after_ns, null "as `change`", "the median time with it";
    n = n, "pairs of trials";
}
