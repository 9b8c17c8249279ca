//! What retransmitted sends have taken on the path.

use record::{Leg, Send};

/// The time of retransmitted sends on the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retransmitted {
    n: u64,
    network: u128,
}

impl Retransmitted {
    pub(crate) fn add(&mut self, send: &Send) {
        if send.retransmissions > 0
            && let Some(time) = send.leg(Leg::Network).ok().flatten().or_else(|| send.so_far(Leg::Network))
        {
            self.n += 1;
            self.network += u128::from(time.0);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.network += other.network;
    }

    /// How many have a time on the path, and their share of what all `n` sends with together `sum`
    /// took beyond the least, ns; `None` where nothing took longer.
    pub(crate) fn share(&self, n: u64, sum: u128, least: u64) -> Option<(u64, f64)> {
        let beyond = |sum: u128, n: u64| sum.saturating_sub(u128::from(least) * u128::from(n));
        let all = beyond(sum, n);
        (all > 0).then(|| (self.n, beyond(self.network, self.n) as f64 / all as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Instant, Stamps};

    const MS: u64 = 1_000_000;

    #[test]
    fn retransmitted_sends_are_told_by_their_share_of_what_took_longer_than_the_least() {
        let mut all = Retransmitted::default();
        let took = |ms, retransmissions| {
            let time = |ms| Some(Instant::from_nanos(ms * MS));
            let stamps = Stamps { driver: time(0), ack: time(ms), ..Stamps::sent_at(Instant::from_nanos(0)) };
            Send { stamps, retransmissions, ..Send::blank() }
        };
        [took(20, 0), took(24, 0), took(236, 1)].iter().for_each(|send| all.add(send));
        let (n, share) = all.share(3, u128::from(280 * MS), 20 * MS).unwrap();
        assert_eq!((n, (share * 1_000.0).round()), (1, 982.0));
        assert_eq!(all.share(3, u128::from(60 * MS), 20 * MS), None);
    }
}
