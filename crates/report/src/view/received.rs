//! What was received: the legs on the way in, the connections, and the slowest receives.

use super::{tallies, times};
use crate::Canvas;
use summary::ReceiveFigures;

/// The rows alone, under a blank line; nothing where nothing was received.
pub(super) fn rows(canvas: &Canvas, out: &mut String, receives: &ReceiveFigures) {
    if receives.records.n > 0 {
        out.push('\n');
        times::table(canvas, out, "leg (received)", &times::lines(&receives.records));
    }
}

pub(super) fn draw(canvas: &Canvas, out: &mut String, receives: &ReceiveFigures, notes: &[String], connections: usize) {
    let records = &receives.records;
    let title = format!(
        "Received: {} in {} of {}",
        quantity::bytes(records.bytes),
        quantity::counted(records.n, "frame"),
        quantity::counted(receives.segments, "segment"),
    );
    canvas.heading(out, &title);
    let lines = times::lines(records);
    times::table(canvas, out, "leg", &lines);
    let mut remarks = vec![times::meanings(records)];
    remarks.extend(times::held(records.total().n(), "receives"));
    if receives.out_of_order > 0 {
        remarks.push(format!(
            "{} came before bytes that precede them: what follows a hole waits in socket until it is filled.",
            quantity::counted(receives.out_of_order, "frame")
        ));
    }
    if receives.most_queued > 0 {
        remarks.push(format!("At most {} lay unread in a socket.", quantity::bytes(receives.most_queued.into())));
    }
    remarks.extend(notes.iter().cloned());
    times::remarks(canvas, out, &remarks);
    times::histograms(canvas, out, "How long each leg took (time on a logarithmic axis, receives upwards)", &lines);
    tallies::table(canvas, out, records.kind(), &records.tallies, connections);
    times::slowest(canvas, out, &times::slowest_title(records.slowest.sorted().len(), "receive"), records);
}
