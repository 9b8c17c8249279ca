//! Series by the names they are published with, from series by the kernel's keys.
//!
//! Several keys can have the same names (short-lived cgroups fold into one), a key can leave and
//! come back, and a name can need more room than there is. A published series only grows while it
//! is there, and the sum over all of them is exact.

use std::collections::HashMap;

use metrics::Labelled;
use record::ClockReading;
use record::Nanos;
use record::histogram::{Series, SeriesKey};

/// The names that a series is published with.
pub type Labels = Vec<(&'static str, String)>;

/// All series.
#[derive(Debug)]
pub struct Accounts {
    max_series: usize,
    idle: Nanos,
    /// What the kernel said last, by its key.
    before: HashMap<SeriesKey, Series>,
    totals: HashMap<Labels, Account>,
    overflow: Account,
}

#[derive(Clone, Debug, Default)]
struct Account {
    /// On the monotonic clock, as all times here.
    since_ns: u64,
    changed_ns: u64,
    figures: Series,
}

impl Accounts {
    /// At most `max_series` beside that of the overflow. A series that gets nothing for `idle`
    /// leaves.
    pub fn new(max_series: u32, idle: Nanos, now_ns: u64) -> Self {
        Self {
            max_series: max_series as usize,
            idle,
            before: HashMap::new(),
            totals: HashMap::new(),
            overflow: Account { since_ns: now_ns, changed_ns: now_ns, figures: Series::default() },
        }
    }

    /// Takes the kernel's series, cumulative as it gives them, and returns what was added to each
    /// since the last time. `name` gives the names of a key.
    pub fn take(
        &mut self,
        series: Vec<Series>,
        now_ns: u64,
        name: &mut dyn FnMut(&SeriesKey) -> Labels,
    ) -> Vec<Series> {
        let mut added = Vec::new();
        let mut before = HashMap::with_capacity(series.len());
        for now in series {
            let more = match self.before.get(&now.key) {
                Some(earlier) => now.since(earlier),
                None => now.clone(),
            };
            before.insert(now.key.clone(), now);
            if more == Series::new(more.key.clone()) {
                continue;
            }
            self.account(&more, now_ns, name).merge(&more);
            added.push(more);
        }
        self.before = before;
        let idle = self.idle.0;
        self.totals.retain(|_, account| now_ns.saturating_sub(account.changed_ns) <= idle);
        added
    }

    fn account(&mut self, more: &Series, now_ns: u64, name: &mut dyn FnMut(&SeriesKey) -> Labels) -> Figures<'_> {
        let full = self.totals.len() >= self.max_series;
        let account = if more.key.overflow {
            &mut self.overflow
        } else {
            match self.totals.entry(name(&more.key)) {
                std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::hash_map::Entry::Vacant(_) if full => &mut self.overflow,
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(Account { since_ns: now_ns, ..Account::default() })
                }
            }
        };
        account.changed_ns = now_ns;
        Figures(&mut account.figures)
    }

    /// All series, in a fixed order; that of the overflow is the last, where anything is in it.
    /// Since when they count is told by `clock`, as nanoseconds of Unix time.
    pub fn published(&self, clock: ClockReading) -> Vec<Labelled> {
        let mut all: Vec<Labelled> = self
            .totals
            .iter()
            .map(|(labels, account)| Labelled {
                labels: labels.clone(),
                since_ns: clock.realtime_ns(account.since_ns),
                figures: account.figures.clone(),
            })
            .collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        if self.overflow.figures != Series::default() {
            all.push(Labelled {
                labels: vec![(metrics::OVERFLOW, "true".to_owned())],
                since_ns: clock.realtime_ns(self.overflow.since_ns),
                figures: self.overflow.figures.clone(),
            });
        }
        all
    }
}

/// The figures of an account, to add to.
struct Figures<'a>(&'a mut Series);

impl Figures<'_> {
    fn merge(&mut self, more: &Series) {
        self.0.merge(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{IpPrefix, Leg};

    const CLOCK: ClockReading = ClockReading { realtime_offset_ns: 1_000, realtime_offset_error_ns: 0 };

    fn series(peer: u32, sends: u64) -> Series {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + peer);
        Series {
            key: SeriesKey { peer: Some(IpPrefix::new(address.into(), 32)), ..SeriesKey::default() },
            legs: [(Leg::Total, (0..sends).map(|_| Nanos(1_000)).collect())].into(),
            sends,
            ..Series::default()
        }
    }

    fn by_peer(key: &SeriesKey) -> Labels {
        vec![("peer", key.peer.unwrap().to_string())]
    }

    fn sends(accounts: &Accounts) -> u64 {
        accounts.published(CLOCK).iter().map(|one| one.figures.sends).sum()
    }

    #[test]
    fn a_hundred_thousand_peers_stay_within_the_bound_and_their_sum_is_exact() {
        let mut accounts = Accounts::new(100, Nanos::from_secs(60), 0);
        let mut all = 0;
        // A kernel with room for 4,096 series, all of them new each time.
        for round in 0..25_u32 {
            let now: Vec<_> = (0..4_000).map(|i| series(round * 4_000 + i, 2)).collect();
            all += 2 * now.len() as u64;
            let added = accounts.take(now, u64::from(round), &mut by_peer);
            assert_eq!(added.iter().map(|one| one.sends).sum::<u64>(), 8_000);
            assert!(accounts.published(CLOCK).len() <= 101);
        }
        assert_eq!(sends(&accounts), all);
        assert_eq!(accounts.published(CLOCK).last().unwrap().labels, [(metrics::OVERFLOW, "true".to_owned())]);
        assert!(accounts.before.len() <= 4_000);
    }

    #[test]
    fn a_series_only_grows_when_its_keys_come_and_go() {
        let mut accounts = Accounts::new(10, Nanos::from_secs(60), 0);
        let mut one = |_: &SeriesKey| vec![("unit", "cron.service".to_owned())];
        accounts.take(vec![series(1, 5), series(2, 7)], 1, &mut one);
        assert_eq!(sends(&accounts), 12);
        // The first has left; the second goes on; a third is there.
        let added = accounts.take(vec![series(2, 9), series(3, 1)], 2, &mut one);
        assert_eq!(added.iter().map(|one| one.sends).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(sends(&accounts), 15);
        // The first comes back, and counts from its return.
        accounts.take(vec![series(1, 1), series(2, 9), series(3, 1)], 3, &mut one);
        assert_eq!(sends(&accounts), 16);
        assert_eq!(accounts.published(CLOCK).len(), 1);
        assert_eq!(accounts.published(CLOCK)[0].since_ns, 1_001);
    }

    #[test]
    fn an_idle_series_leaves_and_counts_anew_when_it_is_back() {
        let mut accounts = Accounts::new(10, Nanos(10), 0);
        accounts.take(vec![series(1, 5)], 1, &mut by_peer);
        accounts.take(vec![series(1, 5)], 11, &mut by_peer);
        assert_eq!(accounts.published(CLOCK).len(), 1);
        accounts.take(vec![series(1, 5)], 12, &mut by_peer);
        assert_eq!(accounts.published(CLOCK).len(), 0);
        accounts.take(vec![series(1, 6)], 20, &mut by_peer);
        let back = &accounts.published(CLOCK)[0];
        assert_eq!((back.figures.sends, back.since_ns), (1, 1_020));
    }
}
