//! What was lost, and what share was seen.

use record::{Coverage, Lost, Sampling};

/// The share that was seen, for the headline: nothing where all was.
pub(crate) fn partial(coverage: &Coverage) -> Option<String> {
    let time = quantity::share(coverage.armed.0.into(), coverage.followed.0.into());
    let bytes = quantity::share(coverage.bytes_armed.into(), coverage.bytes_written.into());
    (time < 0.995 || bytes < 0.995).then(|| {
        format!(
            "Coverage: {} of the connections' time and {} of their bytes.",
            quantity::whole(quantity::percent(time)),
            quantity::whole(quantity::percent(bytes))
        )
    })
}

/// What has no record though it was made while it was watched, by its cause, for the headline:
/// nothing where all has one.
pub(crate) fn unrecorded(lost: &Lost) -> Option<String> {
    let connections = vec![
        (lost.connections_full, "there was no room to follow them"),
        (lost.receive_connections_full, "there was no room for what they receive"),
    ];
    let processes = vec![(lost.processes_full, "there was no room to follow them")];
    let kinds = [("process", processes), ("connection", connections)].into_iter().chain(lost.unrecorded_by_kind());
    let said: Vec<String> = kinds
        .filter_map(|(thing, causes)| {
            let causes: Vec<_> = causes.iter().filter(|(n, _)| *n > 0).collect();
            let n = causes.iter().map(|(n, _)| n).sum::<u64>();
            let why: Vec<String> = match causes.as_slice() {
                [] => return None,
                [(_, why)] => vec![why.to_string()],
                several => several.iter().map(|(n, why)| format!("{why} ({})", quantity::count(*n))).collect(),
            };
            Some(format!("{}, because {}", quantity::counted(n, thing), why.join(", ")))
        })
        .collect();
    (!said.is_empty()).then(|| format!("Not recorded: {}. The figures hold for what was.", said.join("; ")))
}

/// The share that was really seen, by time and by TCP's own count of bytes.
pub(crate) fn seen(coverage: &Coverage, sampling: Sampling) -> String {
    let time = quantity::share(coverage.armed.0.into(), coverage.followed.0.into());
    let bytes = quantity::share(coverage.bytes_armed.into(), coverage.bytes_written.into());
    let asked = super::sampling(sampling);
    if time.is_nan() && bytes.is_nan() {
        return format!("Asked for: {asked}. What share was seen is not known, because no connection was followed.");
    }
    format!(
        "Asked for: {asked}. Covered: {} of the connections' time and {} of the {} that TCP counted.",
        quantity::percent(time).replace(' ', "\u{a0}"),
        quantity::percent(bytes).replace(' ', "\u{a0}"),
        quantity::bytes(coverage.bytes_written).replace(' ', "\u{a0}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_recorded_has_its_cause() {
        let lost = Lost { ring_buffer: 94_831, slots_full: 2, datagram_ring_buffer: 1, inferred: 7, ..Lost::default() };
        assert_eq!(
            unrecorded(&lost).unwrap(),
            "Not recorded: 94,833 sends, because the ring buffer was full (94,831), all slots of their connection, or of the pool, were taken (2); \
             1 datagram, because the ring buffer was full. The figures hold for what was."
        );
        assert_eq!(
            unrecorded(&Lost { processes_full: 5, connections_full: 2, connect_ring_buffer: 3, ..Lost::default() })
                .unwrap(),
            "Not recorded: 5 processes, because there was no room to follow them; 2 connections, because there was no room to follow them; 3 connection attempts, because the ring buffer was full. \
             The figures hold for what was."
        );
        assert_eq!(unrecorded(&Lost { inferred: 7, unfinished: 3, ..Lost::default() }), None);
    }
}
