//! Ids of 32 bits, extended to 64.

/// Extends the kernel's 32-bit ids to 64 bits, which do not wrap: each id is taken as the one
/// nearest to the largest seen before it.
///
/// That holds while ids come within 2³¹ of one another: two thousand million datagrams, or 2 GiB of
/// a stream. A program that stamps a stream more rarely than that uses a [`crate::Matcher`], which
/// knows what was sent.
///
/// ```
/// let mut ids = timestamping::IdExtender::default();
/// assert_eq!(ids.extend(u32::MAX), u64::from(u32::MAX));
/// assert_eq!(ids.extend(2), (1 << 32) + 2);
/// assert_eq!(ids.extend(u32::MAX - 1), u64::from(u32::MAX) - 1); // a late stage of an earlier send
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdExtender {
    largest: Option<u64>,
}

impl IdExtender {
    /// Begins at a known id, so that the first stamp may already be beyond the first 2³².
    pub const fn starting_at(id: u64) -> Self {
        Self { largest: Some(id) }
    }

    /// The 64-bit id that `id` stands for. An id that would lie before 0 is taken as one of the
    /// next round.
    pub fn extend(&mut self, id: u32) -> u64 {
        let Some(largest) = self.largest else {
            self.largest = Some(id.into());
            return id.into();
        };
        let distance = id.wrapping_sub(largest as u32) as i32;
        let full = largest.checked_add_signed(distance.into()).unwrap_or_else(|| {
            // Only reached within 2³¹ of either end of the 64 bits.
            largest.wrapping_add(u64::from(id.wrapping_sub(largest as u32)))
        });
        self.largest = Some(largest.max(full));
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn follows_any_sequence_with_steps_that_are_small_enough(
            start: u32, steps in prop::collection::vec(0u32..(1 << 30), 1..50), back in 0u64..(1 << 20),
        ) {
            let mut ids = IdExtender::starting_at(start.into());
            let mut truth = u64::from(start);
            for step in steps {
                truth += u64::from(step);
                prop_assert_eq!(ids.extend(truth as u32), truth);
                let late = truth.saturating_sub(back);
                prop_assert_eq!(ids.extend(late as u32), late);
            }
        }

        #[test]
        fn never_panics(start: u64, ids in prop::collection::vec(any::<u32>(), 0..20)) {
            let mut extender = IdExtender::starting_at(start);
            for id in ids {
                prop_assert_eq!(extender.extend(id) as u32, id);
            }
        }
    }
}
