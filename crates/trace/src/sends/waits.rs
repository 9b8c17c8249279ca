//! From the kernel part's clocks to how long each reason held a send.

use record::{Nanos, WaitReason, Waits};

use crate::layout::{CLOCK_SHIFT, CLOCKS};

/// Divides `whole` by the clocks of its reasons, in units of `1 << CLOCK_SHIFT` ns and in the order
/// of [`WaitReason::ALL`]. Together they are `whole`: what no clock has is `rest`, but where it is
/// less than a clock shows it is the longest one's; and clocks that were read a little late give no
/// more than there is.
pub(super) fn divided(whole: Nanos, clocks: &[u32; CLOCKS as usize], rest: WaitReason) -> Waits {
    let mut waits = Waits::default();
    let (mut left, mut longest) = (whole, (Nanos::ZERO, rest));
    // The first clock runs where nothing is known to hold the queue.
    for (reason, &clock) in WaitReason::ALL.into_iter().zip(clocks).skip(1) {
        let time = Nanos(u64::from(clock) << CLOCK_SHIFT).min(left);
        if time > longest.0 {
            longest = (time, reason);
        }
        left = left.saturating_sub(time);
        waits.set(reason, time);
    }
    let of = if left.0 >> CLOCK_SHIFT > 0 { rest } else { longest.1 };
    waits.add(of, left);
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clocks(of: &[(WaitReason, u32)]) -> [u32; CLOCKS as usize] {
        let mut clocks = [0; CLOCKS as usize];
        of.iter().for_each(|(reason, clock)| clocks[*reason as usize] = *clock);
        clocks
    }

    #[test]
    fn each_reason_has_its_own_time_and_what_no_clock_shows_is_not_known() {
        let two = clocks(&[(WaitReason::Nagle, 100), (WaitReason::Pacing, 30), (WaitReason::SentAtOnce, 7)]);
        let waits = divided(Nanos(138 * 256), &two, WaitReason::Unknown);
        let of = |reason| waits.time(reason).0 / 256;
        assert_eq!((of(WaitReason::Nagle), of(WaitReason::Pacing), of(WaitReason::Unknown)), (100, 30, 8));
    }

    #[test]
    fn what_is_less_than_a_clock_shows_is_the_longest_reasons() {
        let one = clocks(&[(WaitReason::Nagle, 100)]);
        assert_eq!(divided(Nanos(25_855), &one, WaitReason::Unknown), Waits::of(WaitReason::Nagle, Nanos(25_855)));
        assert_eq!(divided(Nanos(99), &clocks(&[]), WaitReason::Unknown), Waits::of(WaitReason::Unknown, Nanos(99)));
    }

    proptest! {
        #[test]
        fn the_reasons_add_up_to_the_whole(whole in any::<u32>(), clocks in prop::array::uniform10(any::<u32>())) {
            let waits = divided(Nanos(whole.into()), &clocks, WaitReason::SendBuffer);
            prop_assert_eq!(waits.sum(), Nanos(whole.into()));
            prop_assert_eq!(waits.time(WaitReason::SentAtOnce), Nanos::ZERO);
        }
    }
}
