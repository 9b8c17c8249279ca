//! Received frames while a trace goes on.

use super::times;
use crate::Canvas;
use summary::ReceiveFigures;

/// The rows alone, under a blank line; nothing where nothing was received.
pub(super) fn rows(canvas: &Canvas, out: &mut String, receives: &ReceiveFigures) {
    if receives.records.n > 0 {
        out.push('\n');
        times::table(canvas, out, "leg (received)", &times::lines(&receives.records));
    }
}
