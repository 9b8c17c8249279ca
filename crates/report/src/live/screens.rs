//! Screens of made-up hosts at three sizes, beside those that are kept in `tests/screens`.

use std::collections::BTreeSet;
use std::path::Path;

use paper::Canvas;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use record::histogram::{GroupBy, Series, SeriesKey};
use record::socket::{OwnerSource, Socket, SocketChanges, SocketOwner, SocketState, TcpState, Transport};
use record::{ConnectionId, Exchange, Instant, IpPrefix, Leg, Nanos, Owner, Question, Role, WaitReason};
use summary::live::{self, Filter, Heat, Names, Now, Placement, RequestHistory, SocketHistory, View};
use summary::{SeriesHistory, SortBy};

use super::{Columns, Opened, ShownSocket, Top};

const SECOND: u64 = 1_000_000_000;

fn socket(cookie: u64, state: SocketState, local: &str, remote: &str, program: &str) -> Socket {
    let remote = remote.parse().unwrap();
    let tcp = TcpState {
        sent: 5_000,
        received: 9_000,
        segments: 40,
        rtt: [Nanos::from_millis(20), Nanos::from_millis(3)],
        least_rtt: Some(Nanos::from_millis(19)),
        timeout: Nanos::from_millis(220),
        window: [10, 0x7fff_ffff],
        receive_window: Some(65_536),
        segment: 1_448,
        options: 0b111,
        congestion_control: "cubic".into(),
        ..TcpState::default()
    };
    Socket {
        cookie,
        transport: Transport::Tcp,
        state,
        local: local.parse().unwrap(),
        remote,
        network: 4_026_531_840,
        inode: cookie as u32,
        cgroup: Some(7),
        uid: 33,
        owner: Some(SocketOwner {
            pid: 1_000 + cookie as u32,
            name: program.into(),
            others: 0,
            source: OwnerSource::Descriptor,
        }),
        receive_queue: 0,
        send_queue: 0,
        drops: 0,
        buffers: [131_072, 87_040],
        tcp: Some(Box::new(tcp)),
        read: Instant::from_nanos(0),
    }
}

fn sockets() -> SocketHistory {
    use SocketState::{Connecting, Established, Listening, Open};
    let none = "0.0.0.0:0";
    let mut all = vec![
        socket(1, Established, "10.0.0.5:443", "203.0.113.9:51514", "nginx"),
        socket(2, Established, "10.0.0.5:38000", "192.0.2.10:5432", "app"),
        socket(3, Connecting, "10.0.0.5:40312", "198.51.100.7:8443", "curl"),
        socket(4, Listening, "0.0.0.0:443", none, "nginx"),
        socket(5, Established, "[2001:db8::5]:22", "[2001:db8::1:7]:60022", "sshd"),
        socket(6, Open, "0.0.0.0:5353", none, "avahi-daemon"),
        socket(7, Established, "10.0.0.5:50123", "192.0.2.30:443", "firefox"),
        socket(8, Established, "10.0.0.5:41000", "192.0.2.40:11211", "cache"),
    ];
    (all[3].receive_queue, all[3].send_queue) = (129, 128);
    for datagrams in &mut all[5..] {
        (datagrams.transport, datagrams.tcp) = (Transport::Udp, None);
    }
    let mut history = SocketHistory::new(Nanos(10 * SECOND), Nanos(5 * SECOND));
    let read = |at: u64, mut changed: Vec<Socket>| {
        let read = Instant::from_nanos(at);
        changed.iter_mut().for_each(|socket| socket.read = read);
        SocketChanges { read: Some(read), changed, ..SocketChanges::default() }
    };
    history.add(read(100 * SECOND, all.clone()));
    let tcp = all[1].tcp.as_mut().unwrap();
    (tcp.sent, tcp.received) = (5_000_000, 19_000);
    tcp.receive_window_limited = Nanos(8 * SECOND);
    all[0].tcp.as_mut().unwrap().received = 700_000;
    history.add(read(109 * SECOND, all[..2].to_vec()));
    history.add(read(110 * SECOND, Vec::new()));
    history
}

fn series() -> SeriesHistory {
    let key = SeriesKey {
        peer: Some(IpPrefix::from("203.0.113.9".parse::<std::net::IpAddr>().unwrap())),
        peer_port: Some(51_514),
        local_port: Some(443),
        cgroup: Some(7),
        program: Some("nginx".into()),
        overflow: false,
    };
    let mut series = Series { sends: 1_200, bytes: 64_000, zero_windows: 3, ..Series::new(key) };
    for (leg, ms) in [(Leg::Tcp, 40), (Leg::Network, 20), (Leg::Total, 60)] {
        series.legs.insert(leg, std::iter::repeat_n(Nanos::from_millis(ms), 1_200).collect());
    }
    series.waited[WaitReason::Nagle as usize] = Nanos(40 * SECOND);
    let mut history = SeriesHistory::new(10, 10);
    history.add(vec![series], Nanos(10 * SECOND));
    history
}

fn names() -> Names {
    let mut names = Names::default();
    let (path, unit) = ("/system.slice/web.service".to_owned(), Some("web.service".to_owned()));
    names.places.insert(7, Placement { path, unit, pod: None });
    names.users.insert(33, "www-data".into());
    let owner = Owner { pid: 1_003, ..Owner::default() };
    let (name, addresses, kind) = ("api.example".to_owned(), "198.51.100.7".to_owned(), "A".to_owned());
    names.question(&Question { owner, name, addresses, kind, ends_lookup: true, ..Question::blank() });
    names.hello(2, "db.example");
    names.speaks_quic(7);
    names
}

/// A handshake of QUIC, and a datagram that was answered.
fn requests() -> RequestHistory {
    let exchange = |socket: u64, local: &str, peer: &str, ms| Exchange {
        socket: ConnectionId(socket),
        owner: Owner::default(),
        cgroup: Some(7),
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        role: Role::Client,
        asked: Instant::from_nanos(105 * SECOND),
        took: Some(Nanos::from_millis(ms)),
        is_quic: socket == 7,
        times: 1,
    };
    let mut requests = RequestHistory::default();
    requests.exchange(&exchange(7, "10.0.0.5:50123", "192.0.2.30:443", 180));
    requests.exchange(&exchange(8, "10.0.0.5:41000", "192.0.2.40:11211", 3));
    requests
}

fn heat(series: &SeriesHistory) -> Heat {
    let mut heat = Heat::default();
    for (at, ms) in [(60, 2), (75, 40), (90, 800), (105, 60)] {
        heat.turn(Instant::from_nanos(at * SECOND));
        series.latest().iter().for_each(|one| heat.add(&one.key, Nanos::from_millis(ms)));
    }
    heat
}

/// What is shown of the made-up hosts.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Rows,
    /// This row, opened.
    Row(&'static str),
    /// Processes, of which the first is unfolded.
    Groups,
    Help,
    /// The list of columns.
    Columns,
    /// A filter that is being written, and is wrong so far.
    Filter,
}

fn screen(width: u16, height: u16, shown: Shown, colour: bool) -> String {
    let (sockets, series, requests, names) = (sockets(), series(), requests(), names());
    let heat = heat(&series);
    let now = Now { series: &series, sockets: &sockets, requests: &requests, heat: &heat, names: &names };
    let by = if matches!(shown, Shown::Groups) { GroupBy::Process } else { GroupBy::Connection };
    let filter = Filter::default();
    let (mut rows, in_all) = live::rows(&now, &View { by, filter: &filter, within: None });
    SortBy::Trouble.sort(&mut rows);
    if let Shown::Groups = shown {
        let within = Some((by, rows[0].label.clone()));
        let view =
            View { by: GroupBy::Connection, filter: &filter, within: within.as_ref().map(|(by, of)| (*by, &**of)) };
        rows.splice(1..1, live::rows(&now, &view).0);
    }
    let opened = if let Shown::Row(label) = shown { Some(label) } else { None }.map(|label| {
        let row = rows.iter().find(|row| row.label == label).cloned();
        let cookies = row.iter().flat_map(|row| row.sockets.cookies.clone());
        let ancestors = vec![(900, "nginx".to_owned()), (1, "systemd".to_owned())];
        let sockets = cookies.filter_map(|cookie| sockets.get(cookie)).map(|live| ShownSocket {
            live: live.clone(),
            place: names.places[&7].clone(),
            user: "www-data".into(),
            ancestors: ancestors.clone(),
            now: sockets.read(),
        });
        let over_time = series.over_time(label, |key| now.is_in(key, by, label));
        Opened { label: label.into(), sockets: sockets.collect(), row, over_time, ..Opened::default() }
    });
    rows.iter_mut().for_each(|row| row.label = row.named());
    let columns = Columns::default();
    let top = Top {
        target: "this machine",
        rows: &rows,
        by,
        sort: SortBy::Trouble,
        reversed: false,
        in_all,
        selected: 0,
        filter: if shown == Shown::Filter { "port:443 p9:" } else { "" },
        typing: shown == Shown::Filter,
        wrong: if shown == Shown::Filter { "there is no field p9" } else { "" },
        paused: false,
        frozen: false,
        help: shown == Shown::Help,
        columns: &columns,
        choosing: (shown == Shown::Columns).then_some(4),
        looked_at: 1.0,
        cpu: 0.004,
        stuck: &[],
        missed: "",
        updated: None,
        pace: None,
        message: "",
        recorder: false,
        opened: opened.as_ref(),
        below: false,
        scrolled: 0,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let canvas = Canvas { width: 0, colour, unicode: true };
    terminal.draw(|frame| drop(super::top(frame, &canvas, &top))).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(line).collect()
}

/// All that is shown, each with its name.
const ALL: [(&str, Shown); 6] = [
    ("rows", Shown::Rows),
    ("row", Shown::Row(":443 → 203.0.113.9:51514")),
    ("groups", Shown::Groups),
    ("help", Shown::Help),
    ("columns", Shown::Columns),
    ("filter", Shown::Filter),
];

#[test]
fn colours_add_nothing_that_is_not_written() {
    // The bar of legs, which wider screens have room for, has letters in place of colours.
    for (width, height) in [(60, 20), (80, 24)] {
        for (name, shown) in ALL {
            let [plain, coloured] = [false, true].map(|colour| screen(width, height, shown, colour));
            assert_eq!(plain, coloured, "{name}");
        }
    }
}

#[test]
fn screens_are_as_they_are_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let mut changed = BTreeSet::new();
    for (width, height) in [(60, 20), (80, 24), (200, 60)] {
        for (name, shown) in ALL {
            let drawn = screen(width, height, shown, false);
            let path = folder.join(format!("{name}-{width}x{height}.txt"));
            if std::env::var_os("WIRELAPSE_WRITE_SNAPSHOTS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &drawn).unwrap();
            }
            if std::fs::read_to_string(&path).unwrap_or_default() != drawn {
                changed.insert(format!("{}:\n{drawn}", path.display()));
            }
        }
    }
    let changed: Vec<String> = changed.into_iter().collect();
    assert!(changed.is_empty(), "where this was meant, WIRELAPSE_WRITE_SNAPSHOTS=1 writes it:\n{}", changed.join("\n"));
}
