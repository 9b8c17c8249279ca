//! Screens of made-up hosts at three sizes, beside those that are kept in `tests/screens`.

use std::collections::BTreeSet;
use std::path::Path;

use paper::Canvas;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use record::histogram::{GroupBy, Series, SeriesKey};
use record::socket::{Socket, SocketChanges, SocketOwner, SocketState, TcpState, Transport};
use record::{Instant, IpPrefix, Leg, Nanos, WaitReason};
use summary::live::{Filter, Names, RequestHistory, SocketHistory, rows};
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
        owner: Some(SocketOwner { pid: 1_000 + cookie as u32, name: program.into(), others: 0 }),
        receive_queue: 0,
        send_queue: 0,
        drops: 0,
        buffers: [131_072, 87_040],
        tcp: Some(Box::new(tcp)),
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
    ];
    (all[3].receive_queue, all[3].send_queue) = (129, 128);
    (all[5].transport, all[5].tcp) = (Transport::Udp, None);
    let mut history = SocketHistory::new(Nanos(10 * SECOND), Nanos(5 * SECOND));
    let read =
        |at: u64, changed| SocketChanges { read: Some(Instant::from_nanos(at)), changed, ..SocketChanges::default() };
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
    let mut series = Series { sends: 1_200, bytes: 64_000, ..Series::new(key) };
    for (leg, ms) in [(Leg::Tcp, 40), (Leg::Network, 20), (Leg::Total, 60)] {
        series.legs.insert(leg, std::iter::repeat_n(Nanos::from_millis(ms), 1_200).collect());
    }
    series.waited[WaitReason::Nagle as usize] = Nanos(40 * SECOND);
    let mut history = SeriesHistory::new(10);
    history.add(vec![series], Nanos(10 * SECOND));
    history
}

/// The screen of this size: of the rows, or of one that is open.
fn screen(width: u16, height: u16, open: Option<&str>) -> String {
    let (sockets, series) = (sockets(), series());
    let cgroup = |_| "/system.slice/web.service".to_owned();
    let names = Names { cgroup: &cgroup, host: &|_| None };
    let filter = Filter::default();
    let (mut rows, in_all) =
        rows((&series, 10), &sockets, &RequestHistory::default(), GroupBy::Connection, &filter, &names);
    SortBy::Trouble.sort(&mut rows);
    let opened = open.map(|label| {
        let row = rows.iter().find(|row| row.label == label).cloned();
        let cookies = row.iter().flat_map(|row| row.sockets.cookies.clone());
        let shown = cookies.filter_map(|cookie| sockets.get(cookie)).map(|live| {
            let live = live.clone();
            ShownSocket { live, cgroup: cgroup(7), now: sockets.read() }
        });
        let over_time = series.over_time(GroupBy::Connection, label, &cgroup);
        Opened { label: label.into(), sockets: shown.collect(), row, over_time, slowest: Vec::new() }
    });
    let columns = Columns::default();
    let top = Top {
        target: "this machine",
        rows: &rows,
        by: GroupBy::Connection,
        sort: SortBy::Trouble,
        reversed: false,
        in_all,
        selected: 0,
        filter: "",
        typing: false,
        wrong: "",
        paused: false,
        frozen: false,
        help: false,
        columns: &columns,
        choosing: None,
        looked_at: 1.0,
        cpu: 0.004,
        stuck: &[],
        missed: "",
        message: "",
        opened: opened.as_ref(),
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let canvas = Canvas { width: 0, colour: false, unicode: true };
    terminal.draw(|frame| super::top(frame, &canvas, &top)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(line).collect()
}

#[test]
fn screens_are_as_they_are_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let mut changed = BTreeSet::new();
    for (width, height) in [(60, 20), (80, 24), (200, 60)] {
        for (name, open) in [("rows", None), ("row", Some(":443 → 203.0.113.9:51514"))] {
            let drawn = screen(width, height, open);
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
