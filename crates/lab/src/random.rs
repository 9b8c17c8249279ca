//! A small seeded generator: fates have to come again with the same seed, on every machine and in every version.

/// SplitMix64 (Steele, Lea and Flood 2014): one addition and a mixing function, the whole 64-bit state seeded at once.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator for `seed`; different `stream`s of one seed have nothing to do with each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        let start = mixed.next();
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with chance `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        // 53 bits are what a double holds exactly.
        ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// Evenly from 0 to `bound − 1`; the bias is below `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
