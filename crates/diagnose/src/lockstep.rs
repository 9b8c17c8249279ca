//! Small segments that come as long after a late ACK each time: the ACK lets them go.
//!
//! Away from the sender, how long a segment takes to answer an ACK is known from small packets
//! only, and a slow link or a slow host makes it longer. Where that time is the same again and
//! again, although the ACKs come now sooner and now later, the sender has waited for each of them,
//! as Nagle's algorithm makes it (RFC 896): a program's pause would begin at its own last data.

/// The most that are kept; what comes after them is like them.
const KEPT: usize = 32;
/// So many at least show it.
const FEWEST: usize = 3;

/// A segment that came after a late ACK.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How long after the ACK, and after the data before, ns.
    after_ack: u64,
    after_data: u64,
}

/// Those of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lockstep {
    steps: Vec<Step>,
    /// All time that is the application's unless ACKs were waited for, ns.
    time: u64,
}

impl Lockstep {
    /// A small segment came so long after a late ACK, and after the data before it.
    pub(crate) fn take(&mut self, after_ack: u64, after_data: u64) {
        if self.steps.len() < KEPT {
            self.steps.push(Step { after_ack, after_data });
        }
        self.time = self.time.saturating_add(after_data);
    }

    /// How much of the time ACKs were waited for, ns.
    pub(crate) fn waited(&self) -> u64 {
        const CLOSER: u64 = 4;
        /// What a host may take longer now than another time, as a share of the time.
        const STEADY: u64 = 16;
        if self.steps.len() < FEWEST {
            return 0;
        }
        let (typical, to_ack) = usual_spread(self.steps.iter().map(|s| s.after_ack));
        let (_, to_data) = usual_spread(self.steps.iter().map(|s| s.after_data));
        let steady = to_ack <= typical / STEADY && to_ack.saturating_mul(CLOSER) < to_data;
        if steady { self.time } else { 0 }
    }
}

/// The median, and how far the others are from it on average.
pub(crate) fn spread(times: impl Iterator<Item = u64>) -> (u64, u64) {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    let all: u64 = times.iter().map(|t| t.abs_diff(median)).sum();
    (median, all / times.len() as u64)
}

/// The median, and how far half of the others are from it at most: one that is far away does not
/// hide that the rest are one pace.
fn usual_spread(times: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    let (median, _) = spread(times.clone());
    let (off, _) = spread(times.map(|t| t.abs_diff(median)));
    (median, off)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// How much ACKs were waited for, ms, with such times after the ACK and after the data before,
    /// tenths of ms.
    fn waited(steps: &[(u64, u64)]) -> u64 {
        let mut lockstep = Lockstep::default();
        steps.iter().for_each(|(ack, data)| lockstep.take(ack * MS / 10, data * MS / 10));
        lockstep.waited() / MS
    }

    #[test]
    fn what_follows_each_late_ack_by_the_same_time_has_waited_for_it() {
        assert_eq!(waited(&[(53, 474), (53, 459), (53, 509), (54, 469)]), 191);
    }

    #[test]
    fn what_follows_its_own_last_data_by_the_same_time_has_not() {
        assert_eq!(waited(&[(53, 470), (68, 470), (18, 470), (48, 470)]), 0);
        assert_eq!(waited(&[(53, 470), (53, 470), (53, 470)]), 0, "both the same: it cannot be told");
        assert_eq!(waited(&[(53, 474), (53, 509)]), 0, "twice may be chance");
        let pace = [(856, 1_270), (860, 1_263), (860, 1_263), (860, 1_263), (860, 1_263), (861, 900)];
        assert_eq!(waited(&pace), 0, "a pace that began and ended otherwise");
    }
}
