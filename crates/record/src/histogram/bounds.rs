//! The bounds of the buckets, exact to the nanosecond.

use crate::Nanos;

/// The lowest bucket that holds a whole nanosecond: 1 ns is in it.
pub const LOWEST: i32 = -239;
/// The highest bucket: durations of more than 2^34 s (544 years) are in it.
pub const HIGHEST: i32 = 273;

const LEN: usize = (HIGHEST - LOWEST + 1) as usize;

/// The upper bound of each bucket from [`LOWEST`] to [`HIGHEST`], nanoseconds, rounded down; the
/// last is [`u64::MAX`]. A whole number of nanoseconds is in the first bucket with a bound that it
/// does not exceed.
pub static UPPER_BOUNDS_NS: [u64; LEN] = table();

/// floor(10^9 × 2^(j/8) × 2^90) for j from 0 to 7: a bound of the table is one of these, shifted.
const MANTISSAS: [u128; 8] = [
    0x0ee_6b28_0000_0000_0000_0000_0000_0000,
    0x103_ff4f_52a9_394d_c6d4_9b66_d564_c1a2,
    0x11b_8771_2c02_c94f_b23f_61c8_1267_32bd,
    0x135_30ce_0a9a_a247_2242_ed88_3e16_b07f,
    0x151_2cbe_e97e_0ca0_e39c_7196_f205_231b,
    0x16f_b114_25a1_bb3d_4078_eeb7_6e61_2554,
    0x190_f87c_fa07_9b7d_86b4_c62f_09e0_dca5,
    0x1b5_42f8_59a3_2aab_b62a_152d_e83d_d535,
];

const fn bound(bucket: i32) -> u64 {
    let power = bucket.div_euclid(8);
    // A floor of a floor: what the mantissa cuts off is below what the shift cuts off.
    let shifted = MANTISSAS[bucket.rem_euclid(8) as usize] >> (90 - power);
    if shifted > u64::MAX as u128 { u64::MAX } else { shifted as u64 }
}

const fn table() -> [u64; LEN] {
    let mut bounds = [0; LEN];
    let mut i = 0;
    while i < LEN {
        bounds[i] = bound(LOWEST + i as i32);
        i += 1;
    }
    bounds
}

/// The bucket that holds this duration; `None` for a duration of zero.
pub fn bucket_of(value: Nanos) -> Option<i32> {
    let above = UPPER_BOUNDS_NS.partition_point(|bound| *bound < value.0);
    (value.0 > 0).then(|| LOWEST + above as i32)
}

/// The upper bound of a bucket, nanoseconds, rounded down: 0 below [`LOWEST`], [`u64::MAX`] above
/// [`HIGHEST`].
pub fn upper_bound_ns(bucket: i32) -> u64 {
    match usize::try_from(i64::from(bucket) - i64::from(LOWEST)) {
        Ok(at) => UPPER_BOUNDS_NS.get(at).copied().unwrap_or(u64::MAX),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Product of two numbers of 32-bit limbs, least significant first.
    fn product(a: &[u32], b: &[u32]) -> Vec<u32> {
        let mut limbs = vec![0_u32; a.len() + b.len()];
        for (i, x) in a.iter().enumerate() {
            let mut carry = 0;
            for (j, y) in b.iter().enumerate() {
                let sum = u64::from(limbs[i + j]) + u64::from(*x) * u64::from(*y) + carry;
                limbs[i + j] = sum as u32;
                carry = sum >> 32;
            }
            limbs[i + b.len()] = carry as u32;
        }
        limbs
    }

    fn eighth_power(n: u128) -> Vec<u32> {
        let mut limbs: Vec<u32> = (0..4).map(|i| (n >> (32 * i)) as u32).collect();
        for _ in 0..3 {
            limbs = product(&limbs, &limbs.clone());
        }
        limbs
    }

    /// 2^`power`.
    fn two_to(power: usize) -> Vec<u32> {
        let mut limbs = vec![0; power / 32 + 1];
        limbs[power / 32] = 1 << (power % 32);
        limbs
    }

    fn at_most(a: &[u32], b: &[u32]) -> bool {
        let len = a.len().max(b.len());
        let digit = |limbs: &[u32], i: usize| limbs.get(i).copied().unwrap_or(0);
        (0..len).rev().find(|i| digit(a, *i) != digit(b, *i)).is_none_or(|i| digit(a, i) < digit(b, i))
    }

    /// 10^72 × 2^`power`: the eighth power of 10^9 × 2^(`power`/8).
    fn eighth_power_of_bound(power: usize) -> Vec<u32> {
        product(&eighth_power(1_000_000_000), &two_to(power))
    }

    #[test]
    fn the_mantissas_are_the_eighth_roots() {
        for (j, mantissa) in MANTISSAS.into_iter().enumerate() {
            let exact = eighth_power_of_bound(j + 8 * 90);
            assert!(at_most(&eighth_power(mantissa), &exact), "{j}");
            assert!(!at_most(&eighth_power(mantissa + 1), &exact), "{j}");
        }
    }

    #[test]
    fn powers_of_two_are_upper_bounds() {
        assert_eq!(upper_bound_ns(0), 1_000_000_000);
        assert_eq!(upper_bound_ns(8), 2_000_000_000);
        assert_eq!(upper_bound_ns(-8), 500_000_000);
        assert_eq!(upper_bound_ns(-8 * 9), 1_953_125);
        assert_eq!(bucket_of(Nanos(1_000_000_000)), Some(0));
        assert_eq!(bucket_of(Nanos(1_000_000_001)), Some(1));
        assert_eq!(bucket_of(Nanos(0)), None);
        assert_eq!(bucket_of(Nanos(1)), Some(LOWEST));
        assert_eq!(bucket_of(Nanos(u64::MAX)), Some(HIGHEST));
        assert_eq!((upper_bound_ns(i32::MIN), upper_bound_ns(i32::MAX)), (0, u64::MAX));
    }

    #[test]
    fn a_bound_is_in_its_bucket_and_the_next_nanosecond_is_not() {
        for bucket in LOWEST..HIGHEST {
            let bound = upper_bound_ns(bucket);
            // Several of the lowest buckets end before the next whole nanosecond; the first of them
            // holds it.
            if bound > upper_bound_ns(bucket - 1) {
                assert_eq!(bucket_of(Nanos(bound)), Some(bucket));
            }
            assert!(bucket_of(Nanos(bound + 1)) > Some(bucket));
        }
    }

    proptest! {
        /// Against the definition itself, in whole numbers: v is at most 10^9 × 2^(i/8) where v^8
        /// is at most 10^72 × 2^i.
        #[test]
        fn durations_are_in_the_bucket_of_the_definition(bits in 0..64_u32, random: u64) {
            let value = (random >> bits).max(1);
            let bucket = bucket_of(Nanos(value)).unwrap();
            // Both sides times 2^(8 × 32), so that the power is never negative.
            let scaled = eighth_power(u128::from(value) << 32);
            prop_assert!(at_most(&scaled, &eighth_power_of_bound((bucket + 256) as usize)));
            prop_assert!(!at_most(&scaled, &eighth_power_of_bound((bucket - 1 + 256) as usize)));
        }
    }
}
