//! Readers that know nothing of this program read the tables: DuckDB, pandas and Polars.
//!
//! They are looked for in the virtual environment `target/python` of the checkout and then in the
//! `python3` of the machine.

use crate::any;
use std::path::Path;
use std::process::Command;

use record::trial::{Comparison, Factor, Ping, Point};
use record::{
    Arrival, Basis, Components, ConnectionId, Coverage, Datagram, DatagramStamps, Direction, DropReason, Dropped,
    Event, Instant, Leg, Lost, Message, Moments, Nanos, Packet, Receive, Request, Role, Send, SeqNumber, Stamps,
    TcpFlags,
};
use store::{Writer, study};

const CHECK: &str = r"
import glob, json, sys
reader, run = sys.argv[1], sys.argv[2]
if reader == 'duckdb':
    import duckdb
    rows = duckdb.sql(f'''SELECT count(*), sum(bytes)::BIGINT, count(total_ns), sum(total_ns)::BIGINT, max(connection_id),
        min(comm), count(nic_ns) FROM '{run}/sends.parquet/*.parquet' ''').fetchall()[0]
    joined = duckdb.sql(f'''SELECT count(*) FROM '{run}/sends.parquet/*.parquet'
        JOIN '{run}/connections.parquet/*.parquet' USING (connection_id)''').fetchall()[0][0]
elif reader == 'pandas':
    import pandas
    t = pandas.read_parquet(f'{run}/sends.parquet')
    rows = (len(t), t.bytes.sum(), t.total_ns.count(), t.total_ns.sum(), t.connection_id.max(), t.comm.min(), t.nic_ns.count())
    joined = len(t.merge(pandas.read_parquet(f'{run}/connections.parquet'), on='connection_id'))
else:
    import polars
    t = polars.read_parquet(f'{run}/sends.parquet/*.parquet')
    rows = (len(t), t['bytes'].sum(), t['total_ns'].count(), t['total_ns'].sum(), t['connection_id'].max(), t['comm'].min(), t['nic_ns'].count())
    joined = len(t.join(polars.read_parquet(f'{run}/connections.parquet/*.parquet'), on='connection_id'))
print(json.dumps([int(r) if not isinstance(r, str) else r for r in rows] + [joined]))
";

const CHECK_STUDY: &str = r"
import json, sys
reader, run = sys.argv[1], sys.argv[2]
def parts(table): return f'{run}/{table}.parquet/*.parquet'
if reader == 'duckdb':
    import duckdb
    one = lambda query: duckdb.sql(query).fetchall()[0]
    rows = one(f'''SELECT count(*), sum(goodput_bits_per_second)::BIGINT, count(latency_p50_ns), count(broken)
        FROM '{parts('trials')}' ''')
    series = one(f'''SELECT count(*), sum(goodput_down_bits_per_second)::BIGINT, max(receive_buffer_bytes)
        FROM '{parts('series')}' JOIN '{parts('factors')}' USING (trial) WHERE level = '5ms' ''')
    pings = one(f'''SELECT count(*), count(round_trip_ns), min(probe) FROM '{parts('pings')}' ''')
    compared = one(f'''SELECT count(*), max(what) FROM '{parts('comparisons')}' ''')
else:
    if reader == 'pandas':
        import pandas
        read = lambda table: pandas.read_parquet(f'{run}/{table}.parquet')
        join = lambda a, b: a.merge(b, on='trial')
        pick = lambda table, which: table[which]
    else:
        import polars
        read = lambda table: polars.read_parquet(parts(table))
        join = lambda a, b: a.join(b, on='trial')
        pick = lambda table, which: table.filter(which)
    t, p, c, f = read('trials'), read('pings'), read('comparisons'), read('factors')
    rows = (len(t), t['goodput_bits_per_second'].sum(), t['latency_p50_ns'].count(), t['broken'].count())
    s = join(read('series'), pick(f, f['level'] == '5ms'))
    series = (len(s), s['goodput_down_bits_per_second'].sum(), s['receive_buffer_bytes'].max())
    pings = (len(p), p['round_trip_ns'].count(), p['probe'].min())
    compared = (len(c), c['what'].max())
print(json.dumps([r if isinstance(r, str) else int(r) for r in (*rows, *series, *pings, *compared)]))
";

/// The Python that has the modules; tells of the skip where there is none.
fn python(reader: &str, modules: &str) -> Option<&'static Path> {
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python"));
    let python = if own.exists() { own } else { Path::new("python3") };
    let has = Command::new(python).args(["-c", &format!("import {modules}")]).output().unwrap();
    if !has.status.success() {
        tier::skip(&format!("{}::{reader}", module_path!()), &format!("needs the Python modules {modules}"));
        return None;
    }
    Some(python)
}

fn answer(python: &Path, script: &str, reader: &str, run: &Path) -> serde_json::Value {
    let got = Command::new(python).args(["-c", script, reader]).arg(run).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    serde_json::from_slice(&got.stdout).unwrap()
}

/// The tables of a study that was killed after two parts: every other trial at 5 ms, each with a
/// series and probes.
fn check_study(reader: &str, modules: &str) {
    tier::needs!(tier::Need::Program("python3"));
    let Some(python) = python(reader, modules) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut writer = study::Writer::open(dir.path(), Nanos(0)).unwrap();
    let trial = |number: u64| study::Rows {
        trial: record::trial::Trial {
            trial: number,
            plan: "p".into(),
            broken: (number == 3).then(|| "missed".into()),
            responses: [(record::trial::Response::Goodput, 1e6 * number as f64)].into(),
            ..record::trial::Trial::default()
        },
        factors: vec![Factor {
            trial: number,
            factor: "delay".into(),
            level: if number.is_multiple_of(2) { "0" } else { "5ms" }.into(),
        }],
        series: (0..10)
            .map(|i| Point {
                trial: number,
                at_ns: Nanos(i),
                goodput_down_bits_per_second: (i > 0).then_some(100.0),
                receive_buffer_bytes: Some(number * 10 + i),
                ..Point::default()
            })
            .collect(),
        pings: [("udp", Some(Nanos(5))), ("icmp", None)]
            .map(|(probe, round_trip_ns)| Ping { trial: number, probe: probe.into(), at_ns: Nanos(1), round_trip_ns })
            .into(),
    };
    // Parts are closed with the trials that end at 10 and 20 s; the last one is lost.
    for number in 0..6 {
        writer.add(&trial(number), Nanos::from_secs(5 * number)).unwrap();
    }
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path().join("trials.parquet")).unwrap().count(), 2, "two parts");
    let compared = Comparison { what: "delay 5ms against 0".into(), ..Comparison::default() };
    study::write_comparisons(dir.path(), &[compared]).unwrap();
    let want = serde_json::json!([5, 10_000_000, 0, 1, 20, 1_800, 39, 10, 5, "icmp", 1, "delay 5ms against 0"]);
    assert_eq!(answer(python, CHECK_STUDY, reader, dir.path()), want, "{reader}");
}

fn check(reader: &str, modules: &str) {
    tier::needs!(tier::Need::Program("python3"));
    let Some(python) = python(reader, modules) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let start = any::provenance().start_ns;
    let mut writer = Writer::create(&path, any::provenance()).unwrap();
    let base = synthetic::send();
    let id = ConnectionId(u64::MAX);
    let connection = record::Connection {
        id,
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "[2001:db8::1]:443".parse().unwrap(),
        owner: base.owner,
        opening: record::Opening::Accepted,
        since: Instant::from_nanos(1),
        congestion_control: "bbr".into(),
        accepted: None,
    };
    writer.event(&Event::Connection(connection)).unwrap();
    let sends: Vec<Send> = (0..1_000_u32)
        .map(|i| {
            let ack = (i % 3 > 0).then(|| Instant::from_nanos(1_000_000 + u64::from(i) * 7));
            Send { connection: id, bytes: i, stamps: Stamps { ack, ..base.stamps }, ..base }
        })
        .collect();
    for (i, send) in sends.iter().enumerate() {
        writer.event(&Event::Send(*send)).unwrap();
        if i == 500 {
            writer.tick(Instant::from_nanos(start + 10_000_000_000)).unwrap();
        }
    }
    writer.finish(Instant::from_nanos(0), Lost::default(), Coverage::default()).unwrap();
    assert_eq!(std::fs::read_dir(path.join("sends.parquet")).unwrap().count(), 2, "two parts");

    let totals: Vec<u64> = sends.iter().filter_map(|s| s.leg(Leg::Total).unwrap().map(|n| n.0)).collect();
    let want = serde_json::json!([
        sends.len(),
        sends.iter().map(|s| u64::from(s.bytes)).sum::<u64>(),
        totals.len(),
        totals.iter().sum::<u64>(),
        u64::MAX,
        "curl",
        0,
        sends.len()
    ]);
    assert_eq!(answer(python, CHECK, reader, &path), want, "{reader}");
}

/// Of each column: how many values there are, and their sum, or the least of them where they are
/// words.
const COLUMNS: &str = r"
import json, sys
reader, run, wanted = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
out = {}
for table, columns in wanted.items():
    path = f'{run}/{table}.parquet'
    cells = []
    if reader == 'duckdb':
        import duckdb
        for c, words in columns.items():
            what = f'min({c})' if words else f'coalesce(sum({c}), 0)::HUGEINT'
            cells.append(duckdb.sql(f'SELECT count({c}), {what} FROM ' + repr(path + '/*.parquet')).fetchall()[0])
    elif reader == 'pandas':
        import pandas
        # Otherwise whole numbers with gaps become floating point.
        t = pandas.read_parquet(path, dtype_backend='pyarrow')
        cells = [(t[c].count(), t[c].dropna().min() if words else t[c].sum()) for c, words in columns.items()]
    else:
        import polars
        t = polars.read_parquet(f'{path}/*.parquet')
        cells = [(t[c].count(), t[c].min() if words else t[c].sum()) for c, words in columns.items()]
    out[table] = {c: [int(n), v if isinstance(v, str) else int(v)] for c, (n, v) in zip(columns, cells)}
print(json.dumps(out))
";

/// Receives, requests, packets and datagrams, 600 of each, a third of them without their last
/// stage.
fn check_the_rest(reader: &str, modules: &str) {
    tier::needs!(tier::Need::Program("python3"));
    let Some(python) = python(reader, modules) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut writer = Writer::create(&path, any::provenance()).unwrap();
    let (id, end) = (ConnectionId(7), "[2001:db8::1]:443".parse().unwrap());
    let owner = synthetic::send().owner;
    let message = |bytes| Message { first_seq: SeqNumber(1), bytes, pieces: 1 };
    for i in 0..600_u64 {
        // Past 2⁵³ a table that went through floating point would show.
        let at = |ns: u64| Some(Instant::from_nanos((1 << 53) + i * 1_000 + ns));
        let last = |ns: u64| at(ns).filter(|_| i % 3 > 0);
        let dropped = (i % 3 == 0).then(|| Dropped {
            at: Instant::from_nanos(9),
            reason: DropReason(if i == 0 { "QDISC_DROP" } else { "SOCKET_RCVBUFF" }.into()),
        });
        let receive = Receive {
            connection: id,
            reader: owner,
            thread: None,
            first_seq: SeqNumber(0),
            bytes: 10,
            segments: 2,
            stamps: Arrival { driver_rx: at(1), tcp_rx: at(3), ready: at(6), read: last(16) },
            out_of_order: i % 2 == 0,
            queued: 7,
            buffer: 100,
            buffer_used: 50,
        };
        writer.event(&Event::Receive(receive)).unwrap();
        let moments = Moments { sent: at(1), read: last(101), ..Moments::default() };
        let components = Components { network: Some(Nanos(i)), ..Components::default() };
        let request = Request {
            connection: id,
            role: Role::Client,
            owner,
            request: message(3),
            answer: message(4),
            moments,
            components: (i % 3 > 0).then_some(components),
            basis: Basis::OwnAck,
            overlapping: Some(i % 4 == 0),
            http: record::Http::default(),
            upstream: None,
        };
        writer.event(&Event::Request(Box::new(request))).unwrap();
        let packet = Packet {
            connection: id,
            local: end,
            remote: end,
            direction: Direction::Sent,
            first_seq: SeqNumber(0),
            bytes: 100,
            frame_bytes: 166,
            segments: 3,
            flags: TcpFlags(16),
            retransmission: i % 2 == 0,
            sched: at(1),
            driver: at(4),
            ack: last(44),
            gap: (i > 0).then_some(Nanos(i)),
            dropped: dropped.clone(),
        };
        writer.event(&Event::Packet(Box::new(packet))).unwrap();
        let stamps = DatagramStamps::Received { driver_rx: at(1), udp_rx: at(2), ready: at(3), read: last(23) };
        let datagram = Datagram { socket: id, owner, local: end, remote: end, bytes: 5, segments: 1, stamps, dropped };
        writer.event(&Event::Datagram(Box::new(datagram))).unwrap();
    }
    writer.finish(Instant::from_nanos(0), Lost::default(), Coverage::default()).unwrap();

    let (read, odd) = (400_u64, 300_u64);
    let whole = || (0..600_u64).filter(|i| i % 3 > 0);
    let moments: u64 = (0..600_u64).map(|i| (1 << 53) + i * 1_000 + 1).sum();
    let want = serde_json::json!({
        "receives": {
            "comm": [600, "curl"], "bytes": [600, 6_000], "driver_rx_at_ns": [600, moments],
            "read_at_ns": [read, whole().map(|i| (1 << 53) + i * 1_000 + 16).sum::<u64>()], "softirq_ns": [600, 1_200],
            "socket_ns": [600, 1_800], "wakeup_ns": [read, read * 10], "total_ns": [read, read * 15],
            "out_of_order": [600, odd], "segments": [600, 1_200],
        },
        "requests": {
            "role": [600, "client"], "request_bytes": [600, 1_800], "answer_bytes": [600, 2_400], "sent_at_ns": [600, moments],
            "whole_ns": [read, read * 100], "network_ns": [read, whole().sum::<u64>()], "peer_send_ns": [0, 0],
            "basis": [600, "own_ack"],
        },
        "packets": {
            "remote_address": [600, "2001:db8::1"], "remote_port": [600, 600 * 443], "direction": [600, "sent"],
            "sched_at_ns": [600, moments], "qdisc_ns": [600, 1_800], "network_ns": [read, read * 40],
            "gap_ns": [599, (0..600_u64).sum::<u64>()], "retransmission": [600, odd], "dropped": [200, "QDISC_DROP"],
            "dropped_at_ns": [200, 1_800],
        },
        "datagrams": {
            "direction": [600, "received"], "softirq_ns": [600, 1_200], "socket_ns": [read, read * 20], "udp_ns": [0, 0],
            "send_at_ns": [0, 0], "dropped": [200, "QDISC_DROP"],
        },
    });
    // Asked of each column: whether it holds words.
    let mut asked = want.clone();
    for columns in asked.as_object_mut().unwrap().values_mut() {
        columns.as_object_mut().unwrap().values_mut().for_each(|cells| *cells = cells[1].is_string().into());
    }
    let got = Command::new(python).args(["-c", COLUMNS, reader]).arg(&path).arg(asked.to_string()).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let got: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(got, want, "{reader}");
}

#[test]
fn duckdb_reads_the_tables() {
    check("duckdb", "duckdb");
    check_the_rest("duckdb", "duckdb");
    check_study("duckdb", "duckdb");
}

#[test]
fn pandas_reads_the_tables() {
    check("pandas", "pandas, pyarrow");
    check_the_rest("pandas", "pandas, pyarrow");
    check_study("pandas", "pandas, pyarrow");
}

#[test]
fn polars_reads_the_tables() {
    check("polars", "polars");
    check_the_rest("polars", "polars");
    check_study("polars", "polars");
}
