//! Targets of fuzzing: any bytes as a frame on the path, as settings of it, and as a recorded link.

use crate::frame::Shape;
use crate::parse;
use crate::recorded::Recording;

/// A frame of a TAP device: read, cut into each of its segments, and marked.
pub fn lab_frame(bytes: &[u8]) {
    let shape = Shape::read(bytes);
    for index in 0..shape.segments().min(70) {
        let _ = shape.on_wire(index);
        let piece = shape.piece(bytes, index..index + 1, shape.markable());
        assert!(piece.len() <= bytes.len());
    }
}

/// A file of a recorded link, followed over its first packets.
pub fn recorded(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(recording) = Recording::read("link.trace", text) {
        assert!(recording.about.lines > 0 && recording.about.period > clock::Nanos::ZERO);
    }
}

/// A setting as someone writes it, as each quantity that a path has.
pub fn setting(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = parse::both(text, parse::duration);
    let _ = parse::both(text, parse::rate);
    let _ = parse::both(text, parse::loss);
    let _ = parse::both(text, parse::burst_loss);
    let _ = parse::both(text, parse::reorder);
    let _ = parse::both(text, parse::depth);
    let _ = quantity::parse::address(text);
    let _ = quantity::parse::bytes(text);
    let _ = quantity::parse::count(text);
    let _ = quantity::parse::per_second(text);
    let _ = quantity::parse::ratio(text);
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("lab_frame", super::lab_frame);
        replay("recorded", super::recorded);
        replay("setting", super::setting);
    }
}
