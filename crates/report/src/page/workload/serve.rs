//! What a server answers.

use quantity::{bytes, count, counted};
use traffic::server::{Counts, Event};

use paper::document::Document;

/// One line for an event.
pub fn line(event: &Event) -> String {
    match event {
        Event::Began { peer, workload } => format!("{peer}  {workload} began"),
        Event::Ended(s) => {
            let mut did = Vec::new();
            if s.received_bytes > 0 {
                did.push(format!("received {}", bytes(s.received_bytes)));
            }
            if s.sent_bytes > 0 {
                did.push(format!("sent {}", bytes(s.sent_bytes)));
            }
            if s.transactions > 0 {
                did.push(counted(s.transactions, "transaction"));
            }
            did.extend(s.ended.clone());
            let did = if did.is_empty() { String::new() } else { format!(": {}", did.join(", ")) };
            format!("{}  {} ended after {}{did}", s.peer, s.workload, s.elapsed)
        }
        Event::Refused { peer, refusal } => format!("{peer}  refused: {refusal}"),
        Event::Failed { error } => format!("no more connections are accepted: {error}"),
        Event::Garbage { peer, why } => format!("{peer}  {why}"),
    }
}

/// What it did in all.
pub fn document(counts: &Counts) -> Document {
    Document {
        title: format!("Served {}", counted(counts.tests, "test")).into(),
        about: format!(
            "{} ended early, {} refused; connections: {} turned away, {} silent, {} of another protocol.",
            count(counts.broken_off),
            count(counts.refused),
            count(counts.turned_away),
            count(counts.silent),
            count(counts.garbage)
        ),
        ..Document::default()
    }
}
