//! Passes: given within TLS, each for one test that is measured on the connection that asks for it,
//! without TLS.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use clock::{Instant, Monotonic, Nanos};

use super::lock::lock;
use crate::wire;

/// How long one holds.
const LIFETIME: Nanos = Nanos::from_secs(10);
/// How many hold at the same time.
const MOST: usize = 4096;

/// The passes that hold.
#[derive(Default)]
pub(crate) struct Passes(Mutex<HashMap<u128, (IpAddr, Instant<Monotonic>)>>);

impl Passes {
    /// A new one for `ip`, or none while too many hold.
    pub fn give(&self, ip: IpAddr, now: Instant<Monotonic>) -> Option<u128> {
        let mut all = lock(&self.0);
        all.retain(|_, (_, until)| now <= *until);
        let pass = u128::from_be_bytes(wire::random_bytes());
        (all.len() < MOST).then(|| all.insert(pass, (ip, now.after(LIFETIME))))?;
        Some(pass)
    }

    /// Whether `ip` holds this one. It is gone then.
    pub fn redeem(&self, pass: u128, ip: IpAddr, now: Instant<Monotonic>) -> bool {
        lock(&self.0).remove(&pass).is_some_and(|(of, until)| of == ip && now <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_for_one_test_of_one_address_and_ten_seconds() {
        let (passes, at) = (Passes::default(), |s: u64| Instant::from_nanos(s * 1_000_000_000));
        let ip = |n: u8| IpAddr::from([192, 0, 2, n]);
        let pass = passes.give(ip(1), at(5)).unwrap();
        assert!(passes.redeem(pass, ip(1), at(15)) && !passes.redeem(pass, ip(1), at(15)));
        let other = passes.give(ip(1), at(5)).unwrap();
        assert!(!passes.redeem(other, ip(2), at(5)), "of another address");
        let late = passes.give(ip(1), at(5)).unwrap();
        assert!(!passes.redeem(late, ip(1), at(16)), "too late");
    }

    #[test]
    fn their_number_is_bounded_and_those_that_ran_out_make_place() {
        let passes = Passes::default();
        let ip = IpAddr::from([192, 0, 2, 1]);
        let given = (0..MOST + 9).filter_map(|_| passes.give(ip, Instant::from_nanos(0))).count();
        assert_eq!(given, MOST);
        assert!(passes.give(ip, Instant::from_nanos(20_000_000_000)).is_some());
    }
}
