//! The pair of endpoints a connection is found by, and its hash.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

/// Both endpoints in a fixed order, so that the two directions of a connection meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    low: [u64; 2],
    high: [u64; 2],
    ports: u32,
    v4: bool,
}

/// IPv4 addresses stand where IPv6 keeps mapped ones, so that one comparison serves both families.
const MAPPED: u64 = 0xffff_0000_0000;

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(MAPPED | u64::from(v4.to_bits())),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// Two words, the lower first: a number of 128 bits would have the whole connection stand at
/// multiples of 16 bytes.
fn words(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

impl Key {
    /// The key, and whether `a` stands in the lower place.
    #[inline(always)]
    pub(crate) fn new(a: &SocketAddr, b: &SocketAddr) -> (Self, bool) {
        match (a, b) {
            (SocketAddr::V4(a), SocketAddr::V4(b)) => Self::of_v4(a, b),
            _ => Self::of_any(a, b),
        }
    }

    /// Address and port of each in one word.
    #[inline(always)]
    fn of_v4(a: &SocketAddrV4, b: &SocketAddrV4) -> (Self, bool) {
        let [a, b] = [a, b].map(|end| u64::from(end.ip().to_bits()) << 16 | u64::from(end.port()));
        let (low, high) = (a.min(b), a.max(b));
        let ports = (low as u32) << 16 | u32::from(high as u16);
        (Self { low: [MAPPED | low >> 16, 0], high: [MAPPED | high >> 16, 0], ports, v4: true }, a <= b)
    }

    #[inline(never)]
    fn of_any(a: &SocketAddr, b: &SocketAddr) -> (Self, bool) {
        let (ia, ib, pa, pb) = (number(a.ip()), number(b.ip()), u32::from(a.port()), u32::from(b.port()));
        if (ia, pa) <= (ib, pb) {
            (Self { low: words(ia), high: words(ib), ports: pa << 16 | pb, v4: a.is_ipv4() }, true)
        } else {
            (Self { low: words(ib), high: words(ia), ports: pb << 16 | pa, v4: a.is_ipv4() }, false)
        }
    }

    /// One of the endpoints.
    pub(crate) fn end(&self, low: bool) -> SocketAddr {
        let ([lower, upper], port) = if low { (self.low, self.ports >> 16) } else { (self.high, self.ports & 0xffff) };
        let number = u128::from(upper) << 64 | u128::from(lower);
        let ip = if self.v4 { IpAddr::V4((number as u32).into()) } else { IpAddr::V6(number.into()) };
        SocketAddr::new(ip, port as u16)
    }

    /// A number below `slots`, a power of two, which the endpoints alone decide: for places that
    /// may be taken by another.
    #[inline(always)]
    pub(crate) fn slot(&self, slots: usize) -> usize {
        let mixed = (self.low[0] ^ self.low[1].rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.high[0].rotate_left(31)
            ^ self.high[1]
            ^ u64::from(self.ports);
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as usize & (slots - 1)
    }

    /// A hash that cannot be steered by who chooses addresses and ports without knowing the seed:
    /// each 128-bit product folds all of its input bits into the result (the construction of wyhash
    /// and foldhash).
    #[inline]
    pub(crate) fn hash(&self, seed: [u64; 2]) -> u64 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        // Odd constants with balanced bits (fractional parts of square roots), so that no factor is
        // ever zero by input alone.
        let a = fold(self.low[0] ^ seed[0], self.low[1] ^ 0x6a09_e667_f3bc_c909);
        let b = fold(self.high[0] ^ seed[1], self.high[1] ^ 0xbb67_ae85_84ca_a73b);
        fold(a ^ u64::from(self.ports) ^ 0x3c6e_f372_fe94_f82b, b ^ seed[0].rotate_left(32) ^ 0xa54f_f53a_5f1d_36f1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ipv4_make_the_key_that_any_make() {
        let ends: Vec<SocketAddr> = ["10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:9", "255.255.255.255:65535", "0.0.0.0:0"]
            .iter()
            .map(|end| end.parse().unwrap())
            .collect();
        for (a, b) in ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))) {
            assert_eq!(Key::new(a, b), Key::of_any(a, b));
        }
    }

    #[test]
    fn both_directions_meet_and_hashes_spread() {
        let mut seen = std::collections::HashSet::new();
        for client in 0..4_000u16 {
            let a: SocketAddr = format!("10.0.{}.{}:{}", client >> 8, client & 255, 30_000 + client).parse().unwrap();
            let b: SocketAddr = "10.1.0.1:80".parse().unwrap();
            let ((there, low), (back, high)) = (Key::new(&a, &b), Key::new(&b, &a));
            assert_eq!(there, back);
            assert_eq!((there.end(low), there.end(!low)), (a, b));
            assert_ne!(low, high);
            seen.insert(there.hash([1, 2]) >> 44);
        }
        // 4,000 draws of 2^20: the birthday bound expects about 8 collisions.
        assert!(seen.len() > 3_950, "{}", seen.len());
    }
}
