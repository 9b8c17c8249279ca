//! Rows: series, sockets and requests of one label together, as far as a filter lets them through.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use record::histogram::{GroupBy, SeriesKey};
use record::socket::{SocketState, Transport};
use record::{Leg, Nanos, WaitReason};

use super::filter::{Field, Subject};
use super::{Filter, Live, RequestHistory, SocketHistory, Trouble};
use crate::groups::{Group, SeriesHistory, host};

/// How things are called that have numbers.
pub struct Names<'a> {
    /// The path of a cgroup.
    pub cgroup: &'a dyn Fn(u64) -> String,
    /// The name of a host, where one is known.
    pub host: &'a dyn Fn(IpAddr) -> Option<String>,
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

/// The rows of the last `intervals` intervals that a filter lets through, in no order, and how many
/// there are in all.
pub fn rows(
    (series, intervals): (&SeriesHistory, usize),
    sockets: &SocketHistory,
    requests: &RequestHistory,
    by: GroupBy,
    filter: &Filter,
    names: &Names<'_>,
) -> (Vec<Group>, usize) {
    let mut rows = BTreeMap::<String, Group>::new();
    let mut labels = HashSet::<String>::new();
    let alive = alive_keys(sockets, filter, names);
    let lets_through = |key: &SeriesKey| match &alive {
        Some(alive) => alive.contains(&without_owner(key)),
        None => filter.takes(&Subject::of_key(key, names)),
    };
    for group in series.groups_of(by, intervals, names.cgroup, &lets_through) {
        rows.insert(group.label.clone(), group);
    }
    if !filter.is_empty() {
        labels.extend(series.labels(by, intervals, names.cgroup));
    }
    let mut of_rows = BTreeMap::<String, Vec<&Live>>::new();
    for live in sockets.all() {
        let label = label(by, live, names.cgroup);
        if filter.takes(&Subject::of_socket(live, names)) {
            of_rows.entry(label).or_default().push(live);
        } else if !labels.contains(&label) {
            labels.insert(label);
        }
    }
    for (label, some) in of_rows {
        let first = some[0].key();
        let group = rows.entry(label).or_insert_with_key(|label| Group {
            label: label.clone(),
            host: host(by, &first),
            ..Group::default()
        });
        (group.sockets, group.trouble) = sockets.figures(some);
    }
    requests.each(|key, asked| {
        if lets_through(key)
            && let Some(group) = rows.get_mut(&by.label(key, names.cgroup))
        {
            group.requests.add(asked);
        }
    });
    let labels_in_all = labels.iter().filter(|label| !rows.contains_key(*label)).count() + rows.len();
    let mut rows: Vec<Group> = rows.into_values().collect();
    for row in &mut rows {
        row.sockets_over = sockets.length();
        row.trouble = trouble(row);
    }
    rows.retain(|row| filter.takes_row(row, &|row| named(row, names)));
    (rows, labels_in_all)
}

/// The label of a row with the name of its host where it is known.
fn named(row: &Group, names: &Names<'_>) -> Option<String> {
    let host = row.host.as_ref()?;
    Some(host.label(&(names.host)(host.at)?))
}

/// The keys of the sockets that a filter lets through, where it asks for what a series does not
/// say.
fn alive_keys(sockets: &SocketHistory, filter: &Filter, names: &Names<'_>) -> Option<HashSet<SeriesKey>> {
    filter.asks_for(&[Field::State, Field::Pid, Field::Transport, Field::Local]).then(|| {
        let taken = sockets.all().filter(|live| filter.takes(&Subject::of_socket(live, names)));
        taken.map(|live| without_owner(&live.key())).collect()
    })
}

/// What a series and a socket of the same connection have in common, whoever is said to own it.
fn without_owner(key: &SeriesKey) -> SeriesKey {
    SeriesKey { cgroup: None, program: None, ..key.clone() }
}

/// The row that a socket is in.
fn label(by: GroupBy, live: &Live, cgroup: &dyn Fn(u64) -> String) -> String {
    let (socket, key) = (&live.socket, live.key());
    let udp = socket.transport == Transport::Udp;
    match (by, key.peer) {
        (GroupBy::Peer, None) if socket.state == SocketState::Listening => "(listening)".into(),
        (GroupBy::Peer, None) => "(no peer)".into(),
        (GroupBy::Connection, None) if udp => format!(":{} UDP", socket.local.port()),
        (GroupBy::Connection, None) => format!(":{} {}", socket.local.port(), socket.state.name()),
        (GroupBy::Connection, Some(_)) if udp => format!("{} UDP", by.label(&key, cgroup)),
        _ => by.label(&key, cgroup),
    }
}

/// From here on a send takes long enough for what it waited for to be worth a word.
const SLOW_SEND: Nanos = Nanos::from_millis(5);
/// And a request.
const SLOW_REQUEST: Nanos = Nanos::from_millis(20);
/// The share of the time that what it waited for has by then.
const MUCH: f64 = 0.3;

/// The worst of what is wrong with a row, whose sockets have said what is with them.
fn trouble(row: &Group) -> Option<Trouble> {
    let slow = |time: Option<Nanos>, from| time.is_some_and(|time| time >= from);
    let in_tcp = row.shares().map_or(0.0, |shares| shares[0].1);
    let reason = row.chief_reason().filter(|(reason, _)| {
        let says_nothing = matches!(reason, WaitReason::SentAtOnce | WaitReason::Unknown);
        !says_nothing && in_tcp >= MUCH && slow(row.quantile(Leg::Total, 0.99), SLOW_SEND)
    });
    let request =
        row.requests.chief().filter(|(_, share)| *share >= MUCH && slow(row.requests.quantile(0.99), SLOW_REQUEST));
    let drops = row.figures.dropped_segments;
    let all = [
        row.trouble,
        reason.map(|(reason, share)| Trouble::Waits(reason, share)),
        request.map(|(component, share)| Trouble::Requests(component, share)),
        (drops > 0).then_some(Trouble::HostDrops(drops)),
    ];
    all.into_iter().flatten().max_by(|a, b| a.weight().total_cmp(&b.weight()))
}

#[cfg(test)]
mod tests {
    use super::super::sockets::tests::socket;
    use super::*;
    use record::histogram::Series;
    use record::socket::SocketChanges;

    fn sockets() -> SocketHistory {
        let mut history = SocketHistory::new(Nanos::from_millis(10_000), Nanos::ZERO);
        let mut listener = socket(2, SocketState::Listening, 0);
        (listener.local, listener.remote) = ("0.0.0.0:80".parse().unwrap(), "0.0.0.0:0".parse().unwrap());
        let mut datagrams = socket(3, SocketState::Open, 0);
        (datagrams.local, datagrams.remote) = ("0.0.0.0:53".parse().unwrap(), "0.0.0.0:0".parse().unwrap());
        (datagrams.transport, datagrams.tcp) = (Transport::Udp, None);
        let read = Some(record::Instant::from_nanos(1_000_000_000));
        let changed = vec![socket(1, SocketState::Connecting, 0), listener, datagrams];
        history.add(SocketChanges { read, changed, ..SocketChanges::default() });
        let read = Some(record::Instant::from_nanos(4_000_000_000));
        history.add(SocketChanges { read, ..SocketChanges::default() });
        history
    }

    fn series() -> SeriesHistory {
        let mut history = SeriesHistory::new(3);
        let of = |local: u16| Series {
            sends: 5,
            bytes: 100,
            ..Series::new(SeriesKey {
                peer: Some("192.0.2.1".parse::<IpAddr>().unwrap().into()),
                peer_port: Some(443),
                local_port: Some(local),
                program: Some("curl".into()),
                cgroup: Some(7),
                overflow: false,
            })
        };
        history.add(vec![of(40_000), of(40_001)], Nanos::from_millis(1_000));
        history
    }

    fn taken(by: GroupBy, filter: &str) -> (Vec<(String, u64, u64)>, usize) {
        let names = Names { cgroup: &|id| format!("/c{id}"), host: &|_| Some("web.example".into()) };
        let (rows, all) =
            rows((&series(), 3), &sockets(), &RequestHistory::default(), by, &filter.parse().unwrap(), &names);
        (rows.iter().map(|row| (row.label.clone(), row.figures.sends, row.sockets.alive())).collect(), all)
    }

    #[test]
    fn sockets_join_the_series_of_their_row() {
        let all = [("(listening)".into(), 0, 1), ("(no peer)".into(), 0, 1), ("192.0.2.1".into(), 10, 1)];
        assert_eq!(taken(GroupBy::Peer, ""), (all.to_vec(), 3));
        let labels: Vec<String> = taken(GroupBy::Connection, "").0.into_iter().map(|row| row.0).collect();
        let expected = [":40000 → 192.0.2.1:443", ":40001 → 192.0.2.1:443", ":53 UDP", ":80 listening"];
        assert_eq!(labels, expected);
        assert_eq!(taken(GroupBy::Program, "").0, [("curl".into(), 10, 3)]);
    }

    #[test]
    fn a_filter_takes_sockets_and_series_one_by_one() {
        let peer = |sends, alive| vec![("192.0.2.1".to_owned(), sends, alive)];
        assert_eq!(taken(GroupBy::Peer, "port:443"), (peer(10, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "port:40001"), (peer(5, 0), 3));
        assert_eq!(taken(GroupBy::Peer, "state:connecting"), (peer(5, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "wait:attempt"), (peer(10, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "web.ex").0, peer(10, 1));
        assert_eq!(taken(GroupBy::Peer, "peer:192.0.0.0/16 sends:>1").0, peer(10, 1));
        assert_eq!(taken(GroupBy::Peer, "-cgroup:/c7"), (Vec::new(), 3));
    }

    #[test]
    fn a_row_says_the_worst_of_what_is_wrong() {
        let names = Names { cgroup: &|_| String::new(), host: &|_| None };
        let filter = Filter::default();
        let rows = rows((&series(), 3), &sockets(), &RequestHistory::default(), GroupBy::Peer, &filter, &names).0;
        let troubles: Vec<Option<Trouble>> = rows.iter().map(|row| row.trouble).collect();
        assert_eq!(troubles, [None, None, Some(Trouble::Attempt(Nanos::from_millis(3_000)))]);
    }
}
