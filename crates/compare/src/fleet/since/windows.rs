//! Windows of hours in which something may have been slower.

use std::ops::Range;

use super::Asked;

/// Some hours, and what they count among all that are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// From and until which hour, counted from the first one that there is.
    pub hours: Range<usize>,
    /// Among how many of a group it is judged: the parts of all windows of a group add up to one.
    pub among: f64,
}

/// Each length is about a third more than the one before.
const LENGTHS: [usize; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 168, usize::MAX];

/// The windows of these hours; `None` where nothing of them is there. A slow-down that lasts is
/// what is mostly asked about: half of what may be claimed is for those that end with the hours,
/// the other half for those that ended before.
pub fn of(asked: &Asked, there: Range<u64>) -> Option<Vec<Window>> {
    let hours = asked.hours();
    let (start, end) = (hours.start.max(there.start), hours.end.min(there.end));
    if start >= end {
        return None;
    }
    let hours = (start - there.start) as usize..(end - there.start) as usize;
    if let Asked::Exactly(_) = asked {
        return Some(vec![Window { hours, among: 1.0 }]);
    }
    let n = hours.len();
    let lengths = || LENGTHS.into_iter().take_while(|length| *length < n).chain([n]);
    let last: Vec<Range<usize>> = lengths().map(|length| hours.end - length..hours.end).collect();
    let ended = lengths().flat_map(|length| {
        let step = (length / 8).max(1);
        (hours.start..hours.end - length).step_by(step).map(move |from| from..from + length)
    });
    let ended: Vec<Range<usize>> = ended.collect();
    let halves = if ended.is_empty() { 1.0 } else { 2.0 };
    let windows = |of: Vec<Range<usize>>| {
        let among = halves * of.len() as f64;
        of.into_iter().map(move |hours| Window { hours, among })
    };
    Some(windows(last).chain(windows(ended)).collect())
}
