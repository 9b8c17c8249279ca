//! Series of histograms over the last intervals, put together by what a person asks for: peers,
//! programs, ports, cgroups or connections.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use record::histogram::{Series, SeriesKey};
use record::socket::SocketFigures;
use record::{Leg, Nanos, WaitReason};

use crate::live::{PeerName, RequestGroup, Strip, Trouble};

/// A row: the series with one label, over some intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What its sends have in common.
    pub label: String,
    /// The group that it was unfolded from, by its label.
    pub under: Option<String>,
    /// The peer that all of them have, where rows are of peers.
    pub host: Option<IpAddr>,
    /// What stands around the peer in the label, likewise.
    pub around_host: Option<[String; 2]>,
    /// The name of the peer.
    pub name: Option<PeerName>,
    /// Their figures together; the key is empty.
    pub figures: Series,
    /// Time of the intervals.
    pub length: Nanos,
    /// Zero windows of its peers in that time, where they are counted.
    pub zero_windows: Option<u64>,
    /// Its sockets.
    pub sockets: SocketFigures,
    /// The time that the figures of sockets are of.
    pub sockets_over: Nanos,
    /// Its requests, where they are followed.
    pub requests: RequestGroup,
    /// The slowest send or request of each few seconds of the last minute.
    pub heat: Strip,
    /// What is wrong with it, if anything is.
    pub trouble: Option<Trouble>,
}

impl Group {
    /// What it is known by among all rows.
    pub fn id(&self) -> String {
        self.under.as_ref().map_or_else(|| self.label.clone(), |under| format!("{under}\n{}", self.label))
    }

    /// The label with the name of the peer in place of its address, where rows are of peers and it
    /// is known.
    pub fn named(&self) -> String {
        match (&self.around_host, &self.name) {
            (Some([before, after]), Some(name)) => format!("{before}{}{after}", name.shown()),
            _ => self.label.clone(),
        }
    }

    /// Events a second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.length.0.max(1) as f64)
    }

    /// Bytes sent a second. Sends are counted of connections that were too short to be read, and
    /// sockets at once, so whichever saw more is right.
    pub fn sent_per_second(&self) -> f64 {
        self.per_second(self.figures.bytes).max(self.socket_rate(self.sockets.sent))
    }

    /// Bytes received a second.
    pub fn received_per_second(&self) -> f64 {
        self.socket_rate(self.sockets.received)
    }

    /// Whether its bytes are counted at all: the kernel does not count those of UDP.
    pub fn counts_bytes(&self) -> bool {
        self.length > Nanos::ZERO || self.sockets.states.iter().any(|n| *n > 0) && !self.sockets.udp
    }

    fn socket_rate(&self, count: u64) -> f64 {
        if self.sockets_over == Nanos::ZERO { 0.0 } else { count as f64 * 1e9 / self.sockets_over.0 as f64 }
    }

    /// Segments retransmitted.
    pub fn retransmitted(&self) -> u64 {
        self.figures.retransmitted_segments.max(self.sockets.retransmitted)
    }

    /// A quantile of a leg: the middle of its bucket, at most 4.4 % off.
    pub fn quantile(&self, leg: Leg, share: f64) -> Option<Nanos> {
        Some(self.figures.legs.get(&leg)?.quantile(share)?.middle())
    }

    /// The share of each leg in the time of all that add up; `None` without any time.
    pub fn shares(&self) -> Option<[(Leg, f64); 3]> {
        let sum = |leg| self.figures.legs.get(&leg).map_or(0, |histogram| histogram.sum.0);
        let sums = [Leg::Tcp, Leg::Qdisc, Leg::Network].map(|leg| (leg, sum(leg)));
        let all: u64 = sums.iter().map(|(_, ns)| ns).sum();
        (all > 0).then(|| sums.map(|(leg, ns)| (leg, ns as f64 / all as f64)))
    }

    /// What sends waited for longest, and the share of the waiting that it was for.
    pub fn chief_reason(&self) -> Option<(WaitReason, f64)> {
        let waited = &self.figures.waited;
        let all: u64 = waited.iter().map(|time| time.0).sum();
        let chief = WaitReason::ALL.into_iter().max_by_key(|reason| waited[*reason as usize])?;
        (all > 0).then(|| (chief, waited[chief as usize].0 as f64 / all as f64))
    }
}

/// What rows are sorted by; the largest is first, names are in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// Sends a second.
    #[default]
    Rate,
    /// Median of the total.
    P50,
    /// 99th percentile of the total.
    P99,
    /// The share of the time that sends wait in TCP.
    Tcp,
    /// Retransmitted segments.
    Retransmitted,
    /// What is wrong, the worst first; then the rate.
    Trouble,
    /// Bytes sent.
    Sent,
    /// Bytes received.
    Received,
    /// The label.
    Name,
}

impl SortBy {
    /// All of them, in the order in which a key goes through them.
    pub const ALL: [Self; 9] = [
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Tcp,
        Self::Retransmitted,
        Self::Trouble,
        Self::Sent,
        Self::Received,
        Self::Name,
    ];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Tcp => "tcp",
            Self::Retransmitted => "retransmitted",
            Self::Trouble => "trouble",
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Name => "name",
        }
    }

    /// The next one; after the last the first.
    pub fn next(self) -> Self {
        let at = Self::ALL.into_iter().position(|by| by == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Sorts rows; equal ones by how much they send and receive, and those by their labels.
    pub fn sort(self, rows: &mut [Group]) {
        self.sort_with(rows, |row| self.value(row));
    }

    /// The same by these figures.
    pub(crate) fn sort_with(self, rows: &mut [Group], value: impl Fn(&Group) -> f64) {
        let bytes = |row: &Group| row.sent_per_second() + row.received_per_second();
        rows.sort_by_cached_key(|row| {
            let busy = if self == Self::Name { 0.0 } else { bytes(row) };
            (Reverse(Ordered(value(row))), Reverse(Ordered(busy)), row.label.clone())
        });
    }

    /// The figure of a row that it sorts by; zero for names.
    pub fn value(self, row: &Group) -> f64 {
        let time = |share| row.quantile(Leg::Total, share).map_or(0.0, |time| time.0 as f64);
        match self {
            Self::Rate => row.per_second(row.figures.sends),
            Self::P50 => time(0.5),
            Self::P99 => time(0.99),
            Self::Tcp => row.shares().map_or(0.0, |shares| shares[0].1),
            Self::Retransmitted => row.retransmitted() as f64,
            Self::Trouble => row.trouble.as_ref().map_or(0.0, Trouble::weight),
            Self::Sent => row.sent_per_second(),
            Self::Received => row.received_per_second(),
            Self::Name => 0.0,
        }
    }
}

/// A figure in the order of its value.
#[derive(Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What was added to series in each of the last intervals.
#[derive(Clone, Debug)]
pub struct SeriesHistory {
    most: usize,
    shown: usize,
    before: HashMap<SeriesKey, Series>,
    intervals: VecDeque<(Nanos, Vec<Series>)>,
    /// What was added in the last `shown` of them, together.
    recent: HashMap<SeriesKey, Series>,
    /// Whether zero windows are counted; a run of `trace` has none of their times.
    pub counts_zero_windows: bool,
}

impl SeriesHistory {
    /// Keeps the last `most` intervals; rows show `shown` of them.
    pub fn new(most: usize, shown: usize) -> Self {
        let (before, intervals, recent) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Self { most, shown, before, intervals, recent, counts_zero_windows: true }
    }

    /// Takes the state of all series where the first interval begins.
    pub fn begin(&mut self, series: Vec<Series>) {
        self.before = series.into_iter().map(|series| (series.key.clone(), series)).collect();
    }

    /// Takes a further state of all series, from their beginning, at the end of an interval of this
    /// length.
    pub fn add(&mut self, series: Vec<Series>, length: Nanos) {
        let empty = Series::default();
        let changed: Vec<Series> = series
            .iter()
            .filter_map(|now| match self.before.get(&now.key) {
                Some(before) if before == now => None,
                before => Some(now.since(before.unwrap_or(&empty))).filter(|since| !since.is_empty()),
            })
            .collect();
        self.begin(series);
        self.push(changed, length);
    }

    /// Takes what was added to each series in an interval of this length.
    pub fn push(&mut self, changed: Vec<Series>, length: Nanos) {
        for one in &changed {
            match self.recent.get_mut(&one.key) {
                Some(together) => together.merge(one),
                None => drop(self.recent.insert(one.key.clone(), one.clone())),
            }
        }
        self.intervals.push_back((length, changed));
        if let Some((_, gone)) = self.intervals.len().checked_sub(self.shown + 1).map(|at| &self.intervals[at]) {
            for one in gone {
                let left = self.recent.get(&one.key).map(|together| together.since(one));
                match left.filter(|left| !left.is_empty()) {
                    Some(left) => drop(self.recent.insert(one.key.clone(), left)),
                    None => drop(self.recent.remove(&one.key)),
                }
            }
        }
        while self.intervals.len() > self.most {
            self.intervals.pop_front();
        }
    }

    /// What was added in the latest interval.
    pub fn latest(&self) -> &[Series] {
        self.intervals.back().map(|(_, changed)| &changed[..]).unwrap_or_default()
    }

    /// The keys of all that was added in the intervals that are kept; some come several times.
    pub fn keys(&self) -> impl Iterator<Item = &SeriesKey> {
        self.intervals.iter().flat_map(|(_, changed)| changed).map(|series| &series.key)
    }

    /// What was added to each series in the intervals that rows show.
    pub(crate) fn recent(&self) -> impl Iterator<Item = &Series> {
        self.recent.values()
    }

    /// How long those are together.
    pub fn length(&self) -> Nanos {
        self.intervals.iter().rev().take(self.shown).map(|(length, _)| *length).sum()
    }

    /// The series that are taken as one row in each interval, the oldest first; an interval without
    /// sends has none.
    pub fn over_time(&self, label: &str, taken: impl Fn(&SeriesKey) -> bool) -> Vec<Group> {
        let of_interval = |(length, changed): &(Nanos, Vec<Series>)| {
            let mut figures = Series::default();
            changed.iter().filter(|series| taken(&series.key)).for_each(|one| figures.merge(one));
            Group { label: label.to_owned(), figures, length: *length, ..Group::default() }
        };
        self.intervals.iter().map(of_interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(peer: &str, program: &str, local: u16, times: &[u64]) -> Series {
        let key = SeriesKey {
            peer: Some(peer.parse::<IpAddr>().unwrap().into()),
            program: Some(program.into()),
            local_port: Some(local),
            peer_port: Some(40_000),
            cgroup: Some(7),
            overflow: false,
        };
        let mut series = Series::new(key);
        series.sends = times.len() as u64;
        series.legs.insert(Leg::Total, times.iter().map(|ns| Nanos(*ns)).collect());
        series.legs.insert(Leg::Tcp, times.iter().map(|ns| Nanos(ns / 4)).collect());
        series.legs.insert(Leg::Network, times.iter().map(|ns| Nanos(ns - ns / 4)).collect());
        series.waited[WaitReason::Nagle as usize] = Nanos(times.iter().sum());
        series
    }

    #[test]
    fn what_was_added_in_the_last_intervals_is_shown_and_what_is_older_leaves() {
        let mut history = SeriesHistory::new(3, 2);
        let second = Nanos::from_millis(1_000);
        let sends = |history: &SeriesHistory| {
            let mut all: Vec<_> =
                history.recent().map(|series| (series.key.peer.unwrap().to_string(), series.sends)).collect();
            all.sort();
            all
        };
        history.add(vec![series("192.0.2.1", "curl", 443, &[8_000])], second);
        let both = [series("192.0.2.1", "curl", 443, &[8_000, 4_000]), series("192.0.2.2", "curl", 443, &[1_000_000])];
        history.add(both.to_vec(), second);
        assert_eq!(sends(&history), [("192.0.2.1".into(), 2), ("192.0.2.2".into(), 1)]);
        assert_eq!(history.latest().len(), 2);
        history.add(both.to_vec(), second);
        assert_eq!(sends(&history), [("192.0.2.1".into(), 1), ("192.0.2.2".into(), 1)]);
        assert_eq!((history.length(), history.latest().len()), (Nanos::from_millis(2_000), 0));
        let one =
            history.recent().find(|series| series.sends == 1 && series.key.peer.unwrap().to_string() == "192.0.2.1");
        let row = Group { figures: one.unwrap().clone(), length: history.length(), ..Group::default() };
        assert_eq!((row.per_second(2), row.chief_reason()), (1.0, Some((WaitReason::Nagle, 1.0))));
        assert_eq!(row.shares().unwrap().map(|(_, share)| share), [0.25, 0.0, 0.75]);
        assert!(row.quantile(Leg::Total, 0.99).unwrap() < Nanos(4_200));
        let over_time = history.over_time("curl", |key| key.program.as_deref() == Some("curl"));
        assert_eq!(over_time.iter().map(|one| one.figures.sends).collect::<Vec<_>>(), [1, 2, 0]);
        (0..2).for_each(|_| history.add(both.to_vec(), second));
        assert!(sends(&history).is_empty());
    }

    #[test]
    fn what_was_sent_before_the_first_interval_is_of_none() {
        let mut history = SeriesHistory::new(3, 2);
        history.begin(vec![series("192.0.2.1", "curl", 443, &[8_000])]);
        let both = [series("192.0.2.1", "curl", 443, &[8_000, 4_000]), series("192.0.2.2", "curl", 443, &[1_000])];
        history.add(both.to_vec(), Nanos::from_millis(1_000));
        assert_eq!(history.recent().map(|series| series.sends).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(history.length(), Nanos::from_millis(1_000));
    }

    #[test]
    fn rows_are_sorted_by_what_is_asked_for() {
        let row = |label: &str, times: &[u64], retransmitted| {
            let figures = Series { retransmitted_segments: retransmitted, ..series("::1", "a", 1, times) };
            Group { label: label.into(), figures, length: Nanos(1_000), ..Group::default() }
        };
        let mut rows = vec![row("b", &[9_000], 0), row("a", &[100, 100], 0), row("c", &[10, 10], 5)];
        let expected = [(SortBy::Rate, "acb"), (SortBy::P50, "bac"), (SortBy::P99, "bac"), (SortBy::Tcp, "abc")];
        for (by, order) in expected.into_iter().chain([(SortBy::Retransmitted, "cab"), (SortBy::Name, "abc")]) {
            by.sort(&mut rows);
            assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<String>(), order, "{}", by.name());
        }
    }
}
