//! What is said of a trace in words, and its figures while it goes on.

mod connections;
mod legs;
mod losses;
mod others;
mod packets;
mod received;
mod requests;
mod tallies;
mod times;
mod words;

use record::{Coverage, Leg, Lost, Nanos, Sampling};

pub(crate) use connections::waits_for;
pub(crate) use legs::notes as leg_notes;
pub(crate) use losses::{partial, seen};
pub(crate) use others::counted;
pub use others::{packet_remarks, receiving_remarks};
pub(crate) use packets::{datagram_words, packet_words};
pub(crate) use requests::{told_by, undivided};
pub(crate) use tallies::{mostly, owner};
pub(crate) use times::held;
pub(crate) use words::{sentences, words_of_any};

use crate::Canvas;
use crate::canvas::Ink;
use summary::TimedKind;
use summary::TraceSummary;

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
    /// What has to be said of how received bytes were observed.
    pub receiving: Vec<String>,
    /// What has to be known of how packets and datagrams were observed.
    pub packets: Vec<String>,
}

/// The figures while a trace goes on: at most `rows` lines, none of them longer than the canvas.
pub fn live(canvas: &Canvas, summary: &TraceSummary, facts: &Facts, rows: usize) -> String {
    let mut out = String::new();
    headline(canvas, &mut out, summary, facts);
    legs::rows(canvas, &mut out, summary.total());
    received::rows(canvas, &mut out, summary.receives());
    requests::rows(canvas, &mut out, summary.requests());
    // A blank line, a heading, a head, a row for the rest, and the losses.
    let left = rows.saturating_sub(out.lines().count() + 5);
    let received = &summary.receives().records;
    // What is received has a table of its own as large as that of the sends, where both have room for two connections.
    let (sent, in_all) = match received.n {
        0 => (left, 0),
        _ if summary.total().sends == 0 => (0, left),
        _ if left >= 8 => (left / 2 - 2, left - left / 2 - 2),
        _ => (left, 0),
    };
    connections::table(canvas, &mut out, summary, sent);
    tallies::table(canvas, &mut out, received.kind(), &received.tallies, in_all);
    let lost: u64 = facts.lost.entries().map(|e| e.2).sum();
    if lost > 0 {
        let text = format!(
            "{} so far: each is named in the report",
            if lost == 1 { "1 loss".into() } else { format!("{} losses", quantity::count(lost)) }
        );
        out.push_str(&canvas.paint(Ink::Warn, &canvas.plain(&text)));
        out.push('\n');
    }
    out
}

fn headline(canvas: &Canvas, out: &mut String, summary: &TraceSummary, facts: &Facts) {
    let total = summary.total();
    let first = format!("wirelapse trace · {} · {}", facts.target, facts.lasted);
    out.push_str(&canvas.paint(Ink::Strong, &canvas.cut(&first, canvas.width)));
    out.push('\n');
    let second = format!(
        "{} · {} · {} · {} · {}",
        quantity::counted(total.sends, "send"),
        quantity::bytes(total.bytes),
        quantity::counted(summary.connection_count(), "connection"),
        sampling(facts.sampling),
        facts.backend,
    );
    out.push_str(&canvas.paint(Ink::Faint, &canvas.cut(&second, canvas.width)));
    out.push('\n');
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
