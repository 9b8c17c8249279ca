//! Rows: series, sockets and requests of one label together, as far as a filter lets them through.

use std::collections::{HashMap, HashSet};

use record::histogram::{GroupBy, SeriesKey};
use record::{Component, Leg, Nanos, WaitReason};

use super::requests::{Asked, What};
use super::{Filter, Heat, Live, Names, PeerName, RequestHistory, SlowRequest, SocketHistory, Subject, Trouble};
use crate::groups::{Group, SeriesHistory};

/// What is known of the last seconds.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    /// The sends.
    pub series: &'a SeriesHistory,
    /// The sockets.
    pub sockets: &'a SocketHistory,
    /// The requests.
    pub requests: &'a RequestHistory,
    /// How slow it was over the last minute.
    pub heat: &'a Heat,
    /// What things are called.
    pub names: &'a Names,
}

/// Which rows are asked for.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What a row is.
    pub by: GroupBy,
    /// What is let through.
    pub filter: &'a Filter,
    /// Only what is in this row of other groups.
    pub within: Option<(GroupBy, &'a str)>,
}

impl<'a> Now<'a> {
    /// What is known of the connection with this key.
    pub fn of<'b>(&self, key: &'b SeriesKey) -> Subject<'b>
    where
        'a: 'b,
    {
        Subject::of_key(key, self.sockets.of(key))
    }

    /// The names of processes by their numbers, where those who ask need them.
    fn programs(&self) -> HashMap<u32, &'a str> {
        let asked = self.requests.each().filter_map(|asked| Some((asked.asker()?.pid, None)));
        let mut found: HashMap<u32, Option<&str>> = asked.collect();
        let owners = self.sockets.all().filter(|_| !found.is_empty()).filter_map(|live| live.socket.owner.as_ref());
        for owner in owners.collect::<Vec<_>>() {
            found.entry(owner.pid).and_modify(|name| *name = Some(owner.name.as_str()));
        }
        found.into_iter().filter_map(|(pid, name)| Some((pid, name?))).collect()
    }

    fn of_asked<'b>(&self, asked: &'b Asked, programs: &HashMap<u32, &'b str>) -> Subject<'b>
    where
        'a: 'b,
    {
        let live = self.sockets.of(&asked.key);
        match asked.asker() {
            Some(asker) => {
                let live = live.or_else(|| self.sockets.get(asker.socket?));
                Subject::of_asker(&asked.key, asker, live, programs.get(&asker.pid).copied())
            }
            None => Subject::of_key(&asked.key, live),
        }
    }

    /// The slowest requests and lookups of the row with this label, the slowest first, at most so
    /// many.
    pub fn slowest_requests(&self, most: usize, by: GroupBy, label: &str) -> Vec<SlowRequest> {
        let programs = self.programs();
        self.requests.slowest(most, |asked| self.of_asked(asked, &programs).label(by, self.names) == label)
    }

    /// Whether a series is in the row with this label.
    pub fn is_in(&self, key: &SeriesKey, by: GroupBy, label: &str) -> bool {
        self.of(key).label(by, self.names) == label
    }
}

/// The rows that a view takes, in no order, and how many there are without its filter.
pub fn rows(now: &Now<'_>, view: &View<'_>) -> (Vec<Group>, usize) {
    let (names, by) = (now.names, view.by);
    let mut rows = HashMap::<String, Group>::new();
    let mut left_out = HashSet::<String>::new();
    let taken = |of: &Subject<'_>| view.filter.takes(of, names);
    let is_within = |of: &Subject<'_>| view.within.is_none_or(|(by, label)| of.label(by, names) == label);
    let length = now.series.length();
    for series in now.series.recent() {
        let of = now.of(&series.key);
        if !is_within(&of) {
            continue;
        }
        let label = of.label(by, names);
        if !taken(&of) {
            left_out.insert(label);
            continue;
        }
        let row = rows.entry(label).or_insert_with_key(|label| begun(label, &of, view, names));
        row.length = length;
        row.figures.merge(series);
        also_named(row, of.name(names));
    }
    let mut of_rows = HashMap::<String, Vec<&Live>>::new();
    for live in now.sockets.all() {
        let of = Subject::of_socket(live);
        if !is_within(&of) {
            continue;
        }
        let label = of.label(by, names);
        if taken(&of) {
            of_rows.entry(label).or_default().push(live);
        } else {
            left_out.insert(label);
        }
    }
    for (label, some) in of_rows {
        let row = rows.entry(label).or_insert_with_key(|label| begun(label, &Subject::of_socket(some[0]), view, names));
        for live in &some {
            if row.name.as_ref().is_some_and(|name| name.others) {
                break;
            }
            also_named(row, Subject::of_socket(live).name(names));
        }
        (row.sockets, row.trouble) = now.sockets.figures(some);
    }
    let programs = now.programs();
    for asked in now.requests.each() {
        let of = now.of_asked(asked, &programs);
        if !is_within(&of) {
            continue;
        }
        let label = of.label(by, names);
        // The socket of a lookup was rarely there when sockets were read.
        if !matches!(asked.what, What::Request) {
            if taken(&of) {
                let row = rows.entry(label).or_insert_with_key(|label| begun(label, &of, view, names));
                row.requests.add(asked);
            } else {
                left_out.insert(label);
            }
        } else if taken(&of)
            && let Some(row) = rows.get_mut(&label)
        {
            row.requests.add(asked);
        }
    }
    for (key, strip) in now.heat.each() {
        let of = now.of(key);
        if taken(&of)
            && let Some(row) = rows.get_mut(&of.label(by, names))
        {
            row.heat.merge(strip);
        }
    }
    let in_all = left_out.iter().filter(|label| !rows.contains_key(*label)).count() + rows.len();
    let mut rows: Vec<Group> = rows.into_values().collect();
    for row in &mut rows {
        row.sockets_over = now.sockets.length();
        let counts = now.series.counts_zero_windows && row.length > Nanos::ZERO && !row.sockets.udp;
        row.zero_windows = counts.then_some(row.figures.zero_windows);
        row.trouble = trouble(row);
    }
    rows.retain(|row| view.filter.takes_row(row));
    (rows, in_all)
}

/// A row of which nothing is counted yet.
fn begun(label: &str, of: &Subject<'_>, view: &View<'_>, names: &Names) -> Group {
    let around_host = of.around_host(view.by, names);
    let under = view.within.map(|(_, label)| label.to_owned());
    Group {
        label: label.to_owned(),
        under,
        host: of.host().filter(|_| around_host.is_some()),
        around_host,
        ..Group::default()
    }
}

/// One of the row's peers has this name. What its address is called by chance gives way to what it
/// was asked for by.
fn also_named(row: &mut Group, name: Option<PeerName>) {
    let Some(name) = name else { return };
    match &mut row.name {
        None => row.name = Some(name),
        Some(known) if known.name == name.name => known.others |= name.others,
        Some(known) => known.others = true,
    }
}

/// From here on a send takes long enough for what it waited for to be worth a word.
const SLOW_SEND: Nanos = Nanos::from_millis(5);
/// And a request.
const SLOW_REQUEST: Nanos = Nanos::from_millis(20);
/// And a lookup of DNS.
const SLOW_LOOKUP: Nanos = Nanos::from_millis(100);
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
    let request = row.requests.chief().filter(|(component, share)| {
        // What TCP waited for says more than that it was TCP.
        let is_said = *component == Component::Tcp && reason.is_some();
        !is_said && *share >= MUCH && slow(row.requests.quantile(0.99), SLOW_REQUEST)
    });
    let lookups = row.requests.lookups.quantile(0.99).map(|bounds| bounds.middle());
    let unanswered = row.requests.unanswered;
    let drops = row.figures.dropped_segments;
    let all = [
        lookups.filter(|time| *time >= SLOW_LOOKUP).map(Trouble::Lookups),
        (unanswered > 0).then_some(Trouble::LookupsUnanswered(unanswered)),
        row.trouble,
        reason.map(|(reason, share)| Trouble::Waits(reason, share)),
        request.map(|(component, share)| Trouble::Requests(component, share)),
        (drops > 0).then_some(Trouble::HostDrops(drops)),
    ];
    all.into_iter().flatten().max_by(|a, b| a.weight().total_cmp(&b.weight()))
}

#[cfg(test)]
mod tests {
    use super::super::Placement;
    use super::super::sockets::tests::socket;
    use super::*;
    use record::histogram::{OVERFLOW, Series};
    use record::socket::{SocketChanges, SocketState, Transport};
    use std::net::IpAddr;

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
        let mut history = SeriesHistory::new(3, 3);
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

    fn names() -> Names {
        let mut names = Names::default();
        let (unit, pod) = (Some("web.service".to_owned()), Some("shop/cart".to_owned()));
        names.places.insert(7, Placement { path: "/c7".into(), unit, pod });
        names.users.insert(1_000, "ann".into());
        names.resolved.insert("192.0.2.1".parse().unwrap(), "web.example".into());
        names
    }

    fn shown(by: GroupBy, filter: &str, within: Option<(GroupBy, &str)>) -> (Vec<Group>, usize) {
        let (series, sockets, requests, heat, names) =
            (series(), sockets(), RequestHistory::default(), Heat::default(), names());
        let now = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
        let filter = filter.parse().unwrap();
        let (mut all, in_all) = rows(&now, &View { by, filter: &filter, within });
        all.sort_by(|a, b| a.label.cmp(&b.label));
        (all, in_all)
    }

    fn taken(by: GroupBy, filter: &str) -> (Vec<(String, u64, u64)>, usize) {
        let (rows, all) = shown(by, filter, None);
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
        // Of the series without a socket only the program is known.
        assert_eq!(taken(GroupBy::Process, "").0, [("curl".into(), 5, 0), ("curl[9]".into(), 5, 3)]);
        assert_eq!(taken(GroupBy::Unit, "").0, [("web.service".into(), 10, 3)]);
        assert_eq!(taken(GroupBy::Pod, "").0, [("shop/cart".into(), 10, 3)]);
        assert_eq!(taken(GroupBy::Port, "").0[0], ("443".into(), 10, 1));
        assert_eq!(taken(GroupBy::Cgroup, "").0, [("/c7".into(), 10, 3)]);
        assert_eq!(taken(GroupBy::Name, "").0[2], ("web.example".into(), 10, 1));
    }

    #[test]
    fn a_row_unfolds_into_its_connections() {
        let (rows, _) = shown(GroupBy::Connection, "", Some((GroupBy::Process, "curl[9]")));
        let all: Vec<(String, String)> = rows.iter().map(|row| (row.id(), row.named())).collect();
        let expected = [
            ("curl[9]\n:40000 → 192.0.2.1:443", ":40000 → web.example:443"),
            ("curl[9]\n:53 UDP", ":53 UDP"),
            ("curl[9]\n:80 listening", ":80 listening"),
        ];
        assert_eq!(all, expected.map(|(id, named)| (id.to_owned(), named.to_owned())));
    }

    #[test]
    fn a_filter_takes_sockets_and_series_one_by_one() {
        let peer = |sends, alive| vec![("192.0.2.1".to_owned(), sends, alive)];
        assert_eq!(taken(GroupBy::Peer, "port:443"), (peer(10, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "port:40001"), (peer(5, 0), 3));
        assert_eq!(taken(GroupBy::Peer, "state:connecting"), (peer(5, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "wait:attempt"), (peer(10, 1), 3));
        assert_eq!(taken(GroupBy::Peer, "web.ex").0, peer(10, 1));
        assert_eq!(taken(GroupBy::Peer, "name:web user:ann").0, peer(5, 1));
        assert_eq!(taken(GroupBy::Peer, "peer:192.0.0.0/16 sends:>1").0, peer(10, 1));
        assert_eq!(taken(GroupBy::Peer, "-cgroup:/c7"), (Vec::new(), 3));
    }

    #[test]
    fn the_slowest_of_a_row_is_in_its_strip() {
        let (series, sockets, requests, names) = (series(), sockets(), RequestHistory::default(), names());
        let mut heat = Heat::default();
        heat.turn(record::Instant::from_nanos(300_000_000_000));
        for (series, ms) in series.latest().iter().zip([5, 400]) {
            heat.add(&series.key, Nanos::from_millis(ms));
        }
        let now = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
        let strips = |by| {
            let (rows, _) = rows(&now, &View { by, filter: &Filter::default(), within: None });
            let mut slowest: Vec<Nanos> = rows.iter().filter_map(|row| row.heat.times().last()?).collect();
            slowest.sort();
            slowest
        };
        assert_eq!((strips(GroupBy::Connection).len(), strips(GroupBy::Peer).len()), (2, 1));
        assert!(strips(GroupBy::Peer)[0] >= Nanos::from_millis(400));
    }

    #[test]
    fn a_row_says_the_worst_of_what_is_wrong() {
        let troubles: Vec<Option<Trouble>> = shown(GroupBy::Peer, "", None).0.iter().map(|row| row.trouble).collect();
        assert_eq!(troubles, [None, None, Some(Trouble::Attempt(Nanos::from_millis(3_000)))]);
    }

    #[test]
    fn a_slow_lookup_is_named_in_the_row_of_its_server_and_of_its_process() {
        let asked = |pid, number, took| record::Question {
            owner: record::Owner { pid, comm: "resolver".into() },
            local: "10.0.0.5:50000".parse().unwrap(),
            server: "10.0.0.2:53".parse().unwrap(),
            name: "a.example".into(),
            kind: "A".into(),
            number,
            tries: number,
            took,
            ..record::Question::blank()
        };
        let mut requests = RequestHistory::default();
        let now = record::Instant::from_nanos(5_000_000_000);
        requests.lookup(&asked(9, 1, Some(Nanos::from_millis(800))), now);
        requests.lookup(&asked(77, 1, Some(Nanos::from_millis(2))), now);
        let (series, sockets, heat, names) = (series(), sockets(), Heat::default(), names());
        let of = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
        let row = |by, filter: &str, label: &str| {
            let filter = filter.parse().unwrap();
            let (rows, in_all) = rows(&of, &View { by, filter: &filter, within: None });
            (rows.into_iter().find(|row| row.label == label), in_all)
        };
        let server = row(GroupBy::Peer, "", "10.0.0.2").0.unwrap();
        assert_eq!((server.requests.lookups.count(), server.sockets.alive()), (2, 0));
        assert!(matches!(server.trouble, Some(Trouble::Lookups(time)) if time > Nanos::from_millis(750)));
        // The process has sockets, which say what it is called; the other one has none.
        let process = row(GroupBy::Process, "", "curl[9]").0.unwrap();
        assert_eq!((process.requests.lookups.count(), process.sockets.alive()), (1, 3));
        assert_eq!(row(GroupBy::Process, "", "resolver[77]").0.unwrap().trouble, None);
        assert!(row(GroupBy::Connection, "", ":- → 10.0.0.2:53 UDP").0.is_some());
        let filtered = row(GroupBy::Peer, "proto:tcp", "10.0.0.2");
        assert_eq!((filtered.0, filtered.1), (None, 4));
        assert!(row(GroupBy::Peer, "wait:dns req:>500ms", "10.0.0.2").0.is_some());
        let slowest = of.slowest_requests(1, GroupBy::Process, "curl[9]");
        assert_eq!(slowest[0].lookup, Some(("A a.example".into(), true)));
        let mut more = requests.clone();
        more.lookup(&asked(9, 3, None), now);
        let of = Now { requests: &more, ..of };
        let (rows, _) = rows(&of, &View { by: GroupBy::Peer, filter: &Filter::default(), within: None });
        let row = rows.iter().find(|row| row.label == "10.0.0.2").unwrap();
        assert_eq!(row.trouble, Some(Trouble::LookupsUnanswered(1)));
    }

    #[test]
    fn what_found_no_room_is_one_row_however_rows_are_grouped() {
        let overflow = Series { sends: 3, ..Series::new(SeriesKey { overflow: true, ..SeriesKey::default() }) };
        let mut series = SeriesHistory::new(2, 1);
        series.add(vec![overflow], Nanos::from_millis(1));
        let (sockets, requests, heat, names) =
            (SocketHistory::new(Nanos(1), Nanos(1)), RequestHistory::default(), Heat::default(), Names::default());
        let now = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
        for by in GroupBy::ALL {
            let (rows, _) = rows(&now, &View { by, filter: &Filter::default(), within: None });
            assert_eq!((rows.len(), rows[0].label.as_str(), rows[0].shares()), (1, OVERFLOW, None));
        }
    }

    #[test]
    fn what_found_no_room_is_in_the_rows_that_it_still_tells_of() {
        let (program, peer_port) = (Some("curl".into()), Some(443));
        let key = SeriesKey { overflow: true, program, peer_port, ..SeriesKey::default() };
        let mut series = SeriesHistory::new(2, 1);
        series.add(vec![Series { sends: 3, ..Series::new(key) }], Nanos::from_millis(1));
        let (sockets, requests, heat, names) =
            (SocketHistory::new(Nanos(1), Nanos(1)), RequestHistory::default(), Heat::default(), Names::default());
        let now = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
        let label = |by| rows(&now, &View { by, filter: &Filter::default(), within: None }).0[0].label.clone();
        assert_eq!([GroupBy::Program, GroupBy::Port].map(label), ["curl", "443"]);
        assert_eq!([GroupBy::Peer, GroupBy::Unit, GroupBy::Connection].map(label), [OVERFLOW; 3]);
    }
}
