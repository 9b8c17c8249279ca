//! Series by the names they are published with, from series by the kernel's keys.
//!
//! Several keys can have the same names (short-lived cgroups fold into one), a key can leave and
//! come back, and a name can need more room than there is. The busiest names have series of their
//! own; the others are folded into networks of peers, and what finds no room there either is in the
//! series of the overflow. A published series only grows while it is there, and whatever is added
//! is added to exactly one.

use std::collections::{BTreeMap, HashMap};

use metrics::Labelled;
use record::ClockReading;
use record::histogram::{Connections, Exemplar, Exemplars, Names, Requests, Series, SeriesKey, StatusClass};
use record::{IpPrefix, Nanos, Question, Request, Role};

/// The names that a series is published with.
pub type Labels = Vec<(&'static str, String)>;

/// Bits of the networks that what has no series of its own is folded into: of IPv4, of IPv6.
const FOLDED_TO: (u8, u8) = (16, 48);
/// Series of networks, for so many of those that have their own.
const OWN_FOR_ONE_NETWORK: usize = 3;
/// A series stays for so long before a busier one takes its place.
const STAYS: Nanos = Nanos::from_secs(300);
/// It takes its place if it has so many times as many sends.
const BUSIER: f64 = 2.0;
/// What was sent counts half after this time.
const HALF: Nanos = Nanos::from_secs(300);
/// An exemplar is published for so long: longer than any scraper waits.
const NAMED: Nanos = Nanos::from_secs(300);

/// All series.
#[derive(Debug)]
pub struct Accounts {
    busiest: usize,
    networks: usize,
    idle: Nanos,
    /// What the kernel said last, by its key.
    before: HashMap<SeriesKey, Series>,
    own: HashMap<Labels, Account>,
    folded: HashMap<Labels, Account>,
    /// How busy those are that have no series of their own.
    waiting: HashMap<Labels, Busy>,
    overflow: Account,
}

#[derive(Clone, Debug, Default)]
struct Account {
    /// On the monotonic clock, as all times here.
    since_ns: u64,
    changed_ns: u64,
    figures: Series,
    connections: Connections,
    names: Names,
    requests: Requests,
    exemplars: BTreeMap<(Role, StatusClass), Exemplars>,
    busy: Busy,
}

/// How many sends there were of late.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    sends: f64,
    at_ns: u64,
}

impl Busy {
    fn at(self, now_ns: u64) -> f64 {
        self.sends * (-(now_ns.saturating_sub(self.at_ns) as f64) / HALF.0 as f64).exp2()
    }

    fn add(&mut self, sends: u64, now_ns: u64) {
        *self = Self { sends: self.at(now_ns) + sends as f64, at_ns: now_ns };
    }
}

impl Account {
    fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns, changed_ns: now_ns, ..Self::default() }
    }

    fn add(&mut self, more: &Series, now_ns: u64) {
        self.changed_ns = now_ns;
        self.busy.add(more.sends, now_ns);
        self.figures.merge(more);
    }

    /// Counts a request, and offers it as an exemplar where its trace is known.
    fn add_request(&mut self, request: &Request, known_ns: u64, clock: ClockReading) {
        let Some((of, took)) = self.requests.add(request) else { return };
        if let (Some(context), Some(ended)) = (request.http.trace, request.ended()) {
            let ended_ns = clock.realtime_ns(ended.as_nanos());
            self.exemplars.entry(of).or_default().offer(Exemplar { context, took, ended_ns, known_ns });
        }
    }
}

impl Accounts {
    /// So many series for the busiest, a third as many for networks, and that of the overflow. A
    /// series that gets nothing for `idle` leaves.
    pub fn new(busiest: u32, idle: Nanos, now_ns: u64) -> Self {
        let busiest = busiest as usize;
        Self {
            busiest,
            networks: busiest.div_ceil(OWN_FOR_ONE_NETWORK),
            idle,
            before: HashMap::new(),
            own: HashMap::new(),
            folded: HashMap::new(),
            waiting: HashMap::new(),
            overflow: Account::new(now_ns),
        }
    }

    /// The most series that are published, without that of the overflow.
    pub fn limit(&self) -> usize {
        self.busiest + self.networks
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
            self.account(&more.key, more.sends, now_ns, name).add(&more, now_ns);
            added.push(more);
        }
        self.before = before;
        let idle = self.idle.0;
        let is_there = |_: &Labels, account: &mut Account| now_ns.saturating_sub(account.changed_ns) <= idle;
        self.own.retain(is_there);
        self.folded.retain(is_there);
        self.waiting.retain(|_, busy| now_ns.saturating_sub(busy.at_ns) <= idle);
        self.make_way(now_ns);
        self.forget_exemplars(now_ns.saturating_sub(NAMED.0));
        added
    }

    fn forget_exemplars(&mut self, before_ns: u64) {
        let all = self.own.values_mut().chain(self.folded.values_mut()).chain([&mut self.overflow]);
        all.flat_map(|account| account.exemplars.values_mut()).for_each(|of| of.forget_before(before_ns));
    }

    /// Takes what became known of connections of a key.
    pub fn take_connections(
        &mut self,
        key: &SeriesKey,
        more: &Connections,
        now_ns: u64,
        name: &mut dyn FnMut(&SeriesKey) -> Labels,
    ) {
        self.changed(key, now_ns, name).connections.merge(more);
    }

    /// Takes a question of DNS of a key.
    pub fn take_question(
        &mut self,
        key: &SeriesKey,
        question: &Question,
        now_ns: u64,
        name: &mut dyn FnMut(&SeriesKey) -> Labels,
    ) {
        self.changed(key, now_ns, name).names.add(question);
    }

    /// Takes a request of a key. When it ended is told by `clock`.
    pub fn take_request(
        &mut self,
        key: &SeriesKey,
        request: &Request,
        now_ns: u64,
        clock: ClockReading,
        name: &mut dyn FnMut(&SeriesKey) -> Labels,
    ) {
        self.changed(key, now_ns, name).add_request(request, now_ns, clock);
    }

    /// The account of a key about which something beside sends became known.
    fn changed(&mut self, key: &SeriesKey, now_ns: u64, name: &mut dyn FnMut(&SeriesKey) -> Labels) -> &mut Account {
        let account = self.account(key, 0, now_ns, name);
        account.changed_ns = now_ns;
        account
    }

    /// The account that what a key brings is added to: so many sends among it.
    fn account(
        &mut self,
        key: &SeriesKey,
        sends: u64,
        now_ns: u64,
        name: &mut dyn FnMut(&SeriesKey) -> Labels,
    ) -> &mut Account {
        if key.overflow {
            return &mut self.overflow;
        }
        let labels = name(key);
        if self.own.len() < self.busiest || self.own.contains_key(&labels) {
            self.waiting.remove(&labels);
            return self.own.entry(labels).or_insert_with(|| Account::new(now_ns));
        }
        self.waiting.entry(labels).or_default().add(sends, now_ns);
        let Some(labels) = folded(key).map(|key| name(&key)) else { return &mut self.overflow };
        if self.folded.len() < self.networks || self.folded.contains_key(&labels) {
            return self.folded.entry(labels).or_insert_with(|| Account::new(now_ns));
        }
        &mut self.overflow
    }

    /// Gives the places of those that are by far less busy than others without one to these.
    fn make_way(&mut self, now_ns: u64) {
        if self.own.len() < self.busiest || self.waiting.is_empty() {
            return;
        }
        let stays = |account: &Account| now_ns.saturating_sub(account.since_ns) < STAYS.0;
        let sorted = |mut of: Vec<(f64, Labels)>| {
            of.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            of
        };
        let own = self.own.iter().filter(|(_, account)| !stays(account));
        let quiet = sorted(own.map(|(labels, account)| (account.busy.at(now_ns), labels.clone())).collect());
        let waiting = sorted(self.waiting.iter().map(|(labels, busy)| (busy.at(now_ns), labels.clone())).collect());
        let swaps = quiet.into_iter().zip(waiting.into_iter().rev());
        for ((_, leaves), (_, comes)) in swaps.take_while(|(own, other)| other.0 > BUSIER * own.0 + 1.0) {
            if let (Some(account), Some(busy)) = (self.own.remove(&leaves), self.waiting.remove(&comes)) {
                self.waiting.insert(leaves, account.busy);
                self.own.insert(comes, Account { busy, ..Account::new(now_ns) });
            }
        }
    }

    /// All series, in a fixed order; that of the overflow is the last, where anything is in it.
    /// Since when they count is told by `clock`, as nanoseconds of Unix time.
    pub fn published(&self, clock: ClockReading) -> Vec<Labelled> {
        let labelled = |labels: Labels, account: &Account| Labelled {
            labels,
            since_ns: clock.realtime_ns(account.since_ns),
            figures: account.figures.clone(),
            connections: account.connections.clone(),
            names: account.names.clone(),
            requests: account.requests.clone(),
            exemplars: account.exemplars.clone(),
        };
        let named = self.own.iter().chain(&self.folded);
        let mut all: Vec<Labelled> = named.map(|(labels, account)| labelled(labels.clone(), account)).collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        let overflow = labelled(vec![(metrics::OVERFLOW, "true".to_owned())], &self.overflow);
        let nothing = Labelled { labels: overflow.labels.clone(), since_ns: overflow.since_ns, ..Labelled::default() };
        if overflow != nothing {
            all.push(overflow);
        }
        all
    }
}

/// The key of the network that a peer is in, whatever its port; `None` where there is no peer, or
/// no larger network.
fn folded(key: &SeriesKey) -> Option<SeriesKey> {
    let peer = key.peer?;
    let bits = if peer.address().is_ipv4() { FOLDED_TO.0 } else { FOLDED_TO.1 };
    let peer = (peer.bits() > bits).then(|| IpPrefix::new(peer.address(), bits))?;
    Some(SeriesKey { peer: Some(peer), peer_port: None, ..key.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Leg;

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

    fn of(accounts: &Accounts, peer: &str) -> Option<u64> {
        let all = accounts.published(CLOCK);
        all.iter().find(|one| one.labels[0].1 == peer).map(|one| one.figures.sends)
    }

    #[test]
    fn a_hundred_thousand_peers_stay_within_the_bound_and_their_sum_is_exact() {
        let mut accounts = Accounts::new(100, Nanos::from_secs(60), 0);
        let mut all = 0;
        // A kernel with room for 4,096 series, all of them new each time, in two networks.
        for round in 0..25_u32 {
            let now: Vec<_> = (0..4_000).map(|i| series(round * 4_000 + i, 2)).collect();
            all += 2 * now.len() as u64;
            let added = accounts.take(now, u64::from(round), &mut by_peer);
            assert_eq!(added.iter().map(|one| one.sends).sum::<u64>(), 8_000);
            assert!(accounts.published(CLOCK).len() <= accounts.limit() + 1);
        }
        assert_eq!(sends(&accounts), all);
        assert_eq!((of(&accounts, "10.0.0.0/16"), of(&accounts, "10.1.0.0/16")), (Some(130_872), Some(68_928)));
        assert!(accounts.before.len() <= 4_000);
    }

    #[test]
    fn what_finds_no_network_either_overflows_and_ports_are_folded_too() {
        let mut accounts = Accounts::new(3, Nanos::from_secs(60), 0);
        let wide =
            |n: u32| Series { key: SeriesKey { peer_port: Some(80), ..series(n << 16, 1).key }, ..series(n << 16, 1) };
        accounts.take((0..9).map(wide).collect(), 1, &mut |key| {
            vec![("peer", key.peer.unwrap().to_string()), ("port", format!("{:?}", key.peer_port))]
        });
        let all = accounts.published(CLOCK);
        assert_eq!((all.len(), sends(&accounts)), (accounts.limit() + 1, 9));
        let last = all.last().unwrap();
        assert_eq!((last.labels.clone(), last.figures.sends), (vec![(metrics::OVERFLOW, "true".to_owned())], 5));
        assert!(all.iter().any(|one| one.labels[0].1.ends_with("/16") && one.labels[1].1 == "None"), "{all:?}");
        assert_eq!(folded(&SeriesKey::default()), None);
    }

    #[test]
    fn the_busiest_have_series_of_their_own_whoever_came_first() {
        const MINUTE: u64 = 60_000_000_000;
        let mut accounts = Accounts::new(2, Nanos::from_secs(6_000), 0);
        // Two that hardly send come first; then one that sends a lot, and one that sends less.
        let mut all = 0;
        for minute in 1..=30 {
            let now = vec![series(1, minute), series(2, minute), series(3, 100 * minute), series(4, 10 * minute)];
            let was = accounts.published(CLOCK);
            all += accounts.take(now, minute * MINUTE, &mut by_peer).iter().map(|one| one.sends).sum::<u64>();
            // None of them shrinks while it is there.
            for one in accounts.published(CLOCK) {
                let before = was.iter().find(|of| of.labels == one.labels && of.since_ns == one.since_ns);
                assert!(before.is_none_or(|before| one.figures.since(&before.figures).sends < one.figures.sends + 1));
            }
        }
        assert_eq!(all, 111 * 30 + 30);
        assert!(of(&accounts, "10.0.0.3") > Some(2_000), "{:?}", accounts.published(CLOCK));
        assert!(of(&accounts, "10.0.0.4") > Some(200) && of(&accounts, "10.0.0.1").is_none());
        // Those that gave way are in the network, beside what was there before.
        assert!(of(&accounts, "10.0.0.0/16").is_some());
    }

    #[test]
    fn a_request_is_named_for_five_minutes_and_counted_for_good() {
        use record::table::Record as _;
        use record::{Http, Instant, Message, Moments, SpanId, TraceContext, TraceId};

        const MINUTE: u64 = 60_000_000_000;
        let context = TraceContext { trace: TraceId([7; 16]), span: SpanId([8; 8]), sampled: true };
        let at = |ns| Some(Instant::from_nanos(ns));
        let request = |trace| Request {
            answer: Message { bytes: 1, ..Message::default() },
            moments: Moments { sent: at(5_000_000), read: at(6_000_000), ..Moments::default() },
            http: Http { status: Some(503), trace, ..Http::default() },
            ..Request::blank()
        };
        let mut accounts = Accounts::new(10, Nanos::from_secs(6_000), 0);
        for trace in [Some(context), None] {
            accounts.take_request(&series(1, 0).key, &request(trace), MINUTE, CLOCK, &mut by_peer);
        }
        let of = (Role::Client, Some(5));
        let named = |accounts: &Accounts| -> Vec<Exemplar> {
            let all = accounts.published(CLOCK);
            assert_eq!(all[0].requests.answered[&of].count(), 2);
            all[0].exemplars[&of].iter().copied().collect()
        };
        accounts.take(vec![], 6 * MINUTE, &mut by_peer);
        let one = Exemplar { context, took: Nanos(1_000_000), ended_ns: 6_001_000, known_ns: MINUTE };
        assert_eq!(named(&accounts), [one]);
        accounts.take(vec![], 6 * MINUTE + 1, &mut by_peer);
        assert_eq!(named(&accounts), []);
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
