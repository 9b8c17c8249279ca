//! Series of histograms over the last intervals, put together by what a person asks for: peers,
//! programs, ports, cgroups or connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use record::histogram::{GroupBy, Series, SeriesKey};
use record::socket::SocketFigures;
use record::{IpPrefix, Leg, Nanos, WaitReason};

use crate::live::{RequestGroup, Trouble};

/// The host that the row of a series is of, and what stands around its name; `None` where it is of
/// no host, or of several.
pub(crate) fn host(by: GroupBy, key: &SeriesKey) -> Option<GroupHost> {
    let at = key.peer.filter(|_| !key.overflow).and_then(IpPrefix::host)?;
    let port = |port: Option<u16>| port.map_or_else(|| "-".into(), |port| port.to_string());
    match by {
        GroupBy::Peer => Some(GroupHost { at, before: String::new(), after: String::new() }),
        GroupBy::Connection => Some(GroupHost {
            at,
            before: format!(":{} → ", port(key.local_port)),
            after: format!(":{}", port(key.peer_port)),
        }),
        GroupBy::Program | GroupBy::Port | GroupBy::Cgroup => None,
    }
}

/// The host that a row is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHost {
    /// Its address.
    pub at: IpAddr,
    before: String,
    after: String,
}

impl GroupHost {
    /// The label of the row with a name in place of the address.
    pub fn label(&self, name: &str) -> String {
        format!("{}{name}{}", self.before, self.after)
    }
}

/// A row: the series with one label, over some intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What its sends have in common.
    pub label: String,
    /// The host that all of them go to, where rows are of hosts.
    pub host: Option<GroupHost>,
    /// Their figures together; the key is empty.
    pub figures: Series,
    /// Time of the intervals.
    pub length: Nanos,
    /// Its sockets.
    pub sockets: SocketFigures,
    /// The time that the figures of sockets are of.
    pub sockets_over: Nanos,
    /// Its requests, where they are followed.
    pub requests: RequestGroup,
    /// What is wrong with it, if anything is.
    pub trouble: Option<Trouble>,
}

impl Group {
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
        let bytes = |row: &Group| row.sent_per_second() + row.received_per_second();
        rows.sort_by_cached_key(|row| {
            let busy = if self == Self::Name { 0.0 } else { bytes(row) };
            (Reverse(Ordered(self.of(row))), Reverse(Ordered(busy)), row.label.clone())
        });
    }

    fn of(self, row: &Group) -> f64 {
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
    before: HashMap<SeriesKey, Series>,
    intervals: VecDeque<(Nanos, Vec<Series>)>,
}

impl SeriesHistory {
    /// Keeps the last `most` intervals.
    pub fn new(most: usize) -> Self {
        Self { most, before: HashMap::new(), intervals: VecDeque::new() }
    }

    /// Takes a further state of all series, from their beginning, at the end of an interval of this
    /// length.
    pub fn add(&mut self, series: Vec<Series>, length: Nanos) {
        let empty = Series::default();
        let changed = series.iter().map(|now| now.since(self.before.get(&now.key).unwrap_or(&empty)));
        let changed = changed.filter(|series| !series.is_empty()).collect();
        self.before = series.into_iter().map(|series| (series.key.clone(), series)).collect();
        self.intervals.push_back((length, changed));
        while self.intervals.len() > self.most {
            self.intervals.pop_front();
        }
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.before.len()
    }

    /// All keys that there are.
    pub fn keys(&self) -> impl Iterator<Item = &SeriesKey> {
        self.before.keys()
    }

    /// The rows of the last `intervals` intervals, by label.
    pub fn groups(&self, by: GroupBy, intervals: usize, cgroup: &dyn Fn(u64) -> String) -> Vec<Group> {
        self.groups_of(by, intervals, cgroup, &|_| true)
    }

    /// The same of the series that are `taken`.
    pub(crate) fn groups_of(
        &self,
        by: GroupBy,
        intervals: usize,
        cgroup: &dyn Fn(u64) -> String,
        taken: &dyn Fn(&SeriesKey) -> bool,
    ) -> Vec<Group> {
        let last = self.intervals.iter().rev().take(intervals);
        let length = last.clone().map(|(length, _)| *length).sum();
        let mut groups = BTreeMap::<String, Group>::new();
        for series in last.flat_map(|(_, changed)| changed).filter(|series| taken(&series.key)) {
            let label = by.label(&series.key, cgroup);
            let group = groups.entry(label).or_insert_with_key(|label| Group {
                label: label.clone(),
                host: host(by, &series.key),
                length,
                ..Group::default()
            });
            group.figures.merge(series);
        }
        groups.into_values().collect()
    }

    /// The labels of all rows of the last `intervals` intervals.
    pub(crate) fn labels(&self, by: GroupBy, intervals: usize, cgroup: &dyn Fn(u64) -> String) -> HashSet<String> {
        let last = self.intervals.iter().rev().take(intervals).flat_map(|(_, changed)| changed);
        last.map(|series| by.label(&series.key, cgroup)).collect()
    }

    /// One row in each interval, the oldest first; an interval without sends has none.
    pub fn over_time(&self, by: GroupBy, label: &str, cgroup: &dyn Fn(u64) -> String) -> Vec<Group> {
        let of_interval = |(length, changed): &(Nanos, Vec<Series>)| {
            let mut figures = Series::default();
            changed.iter().filter(|series| by.label(&series.key, cgroup) == label).for_each(|one| figures.merge(one));
            Group { label: label.to_owned(), figures, length: *length, ..Group::default() }
        };
        self.intervals.iter().map(of_interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::OVERFLOW;

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

    fn named(id: u64) -> String {
        format!("/cgroup{id}")
    }

    #[test]
    fn rows_hold_what_was_added_in_the_last_intervals() {
        let mut history = SeriesHistory::new(3);
        let second = Nanos::from_millis(1_000);
        history.add(vec![series("192.0.2.1", "curl", 443, &[8_000])], second);
        let both = [series("192.0.2.1", "curl", 443, &[8_000, 4_000]), series("192.0.2.2", "curl", 443, &[1_000_000])];
        history.add(both.to_vec(), second);
        history.add(both.to_vec(), second);
        let rows = |by, intervals| history.groups(by, intervals, &named);
        let labels = |rows: &[Group]| rows.iter().map(|row| (row.label.clone(), row.figures.sends)).collect::<Vec<_>>();
        assert_eq!(labels(&rows(GroupBy::Peer, 2)), [("192.0.2.1".into(), 1), ("192.0.2.2".into(), 1)]);
        assert_eq!(labels(&rows(GroupBy::Peer, 9)), [("192.0.2.1".into(), 2), ("192.0.2.2".into(), 1)]);
        assert_eq!(labels(&rows(GroupBy::Program, 9)), [("curl".into(), 3)]);
        assert_eq!(labels(&rows(GroupBy::Port, 9)), [("443".into(), 3)]);
        assert_eq!(labels(&rows(GroupBy::Cgroup, 9)), [("/cgroup7".into(), 3)]);
        assert_eq!(labels(&rows(GroupBy::Connection, 9))[0].0, ":443 → 192.0.2.1:40000");
        assert!(rows(GroupBy::Peer, 1).is_empty());
        let row = &rows(GroupBy::Program, 2)[0];
        assert_eq!((row.per_second(2), row.chief_reason()), (1.0, Some((WaitReason::Nagle, 1.0))));
        assert_eq!(row.shares().unwrap().map(|(_, share)| share), [0.25, 0.0, 0.75]);
        assert!(row.quantile(Leg::Total, 0.99).unwrap() > Nanos(900_000));
        let sends: Vec<u64> =
            history.over_time(GroupBy::Program, "curl", &named).iter().map(|one| one.figures.sends).collect();
        assert_eq!(sends, [1, 2, 0]);
    }

    #[test]
    fn what_found_no_room_is_one_row_however_rows_are_grouped() {
        let overflow = Series { sends: 3, ..Series::new(SeriesKey { overflow: true, ..SeriesKey::default() }) };
        let mut history = SeriesHistory::new(2);
        history.add(vec![overflow], Nanos::from_millis(1));
        for by in GroupBy::ALL {
            let rows = history.groups(by, 1, &named);
            assert_eq!((rows.len(), rows[0].label.as_str(), rows[0].shares()), (1, OVERFLOW, None));
        }
    }

    #[test]
    fn a_connection_that_was_not_looked_at_has_a_row_too() {
        let mut history = SeriesHistory::new(2);
        history.add(vec![Series { bytes: 9, ..Series::default() }], Nanos::from_millis(1));
        assert_eq!(history.groups(GroupBy::Peer, 1, &named)[0].figures.bytes, 9);
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

    #[test]
    fn a_key_goes_through_all_groups() {
        let mut by = GroupBy::Peer;
        for expected in GroupBy::ALL.into_iter().cycle().skip(1).take(6) {
            by = by.next();
            assert_eq!(by, expected);
        }
    }
}
