//! A fleet made up: hosts and hours, a run of each, written by the store's own writer. The same
//! numbers give the same fleet.

#![allow(dead_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use record::histogram::{Series, SeriesKey};
use record::table::Record as _;
use record::{
    Arrival, Basis, Comm, Components, Connect, ConnectStamps, Connection, ConnectionId, ConnectionTotals, Coverage,
    Datagram, DatagramStamps, Direction, DropReason, Dropped, Event, Http, Instant, IpPrefix, Leg, Lost, Message,
    Moments, Nanos, Opening, Owner, Packet, Receive, Request, Role, Send, SenderState, SeqNumber, Stamps, TcpFlags,
    Utc, WaitReason, Waits,
};
use store::rotating::Rotating;
use store::{ClockReading, HistogramRow, Named, Provenance, SamplingAsked, SamplingMethod, Writer};

/// 2026-05-01 00:00 UTC, in seconds since 1970.
pub const FIRST_DAY: u64 = 1_777_593_600;
/// When each made-up host had been up for no time, by `CLOCK_MONOTONIC`.
const BOOTED: u64 = FIRST_DAY - 1_000_000;

/// How large a fleet is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Hosts.
    pub hosts: u64,
    /// Hours, a run each.
    pub hours: u64,
    /// Sends of a run.
    pub sends: u64,
    /// Connections of a run.
    pub connections: u64,
}

/// The runs of the tests: 1,000.
pub const SMALL: Size = Size { hosts: 40, hours: 25, sends: 40, connections: 4 };

/// A number that follows from these, and looks like none (SplitMix64).
fn drawn(of: [u64; 3]) -> u64 {
    of.into_iter().fold(0x9e37_79b9_7f4a_7c15, |state, value| {
        let mut z = (state ^ value.wrapping_mul(0xbf58_476d_1ce4_e5b9)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The name of a host.
pub fn host(number: u64) -> String {
    format!("web-{number:03}")
}

/// Where a run is below the root.
pub fn directory(root: &Path, number: u64, hour: u64) -> PathBuf {
    let day = FIRST_DAY / 86_400 + hour / 24;
    let of_month = day - FIRST_DAY / 86_400 + 1;
    root.join(format!("host={}/date=2026-05-{of_month:02}/run=202605{of_month:02}T{:02}0000Z", host(number), hour % 24))
}

fn provenance(number: u64, hour: u64) -> Provenance {
    Provenance {
        version: "0.0.0".into(),
        command_line: vec!["wirelapse".into(), "trace".into(), "--port".into(), "443".into()],
        host: None,
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        cpus: 2,
        backend: "timestamping".into(),
        target: if number.is_multiple_of(2) { "port 443".into() } else { "port 5432".into() },
        sampling: SamplingAsked { method: SamplingMethod::Every, one_in: 1 },
        max_rate: None,
        cost_ppm: None,
        kept_one_in: None,
        clock_stepped_ns: None,
        clock: ClockReading {
            realtime_offset_ns: i64::try_from(BOOTED * 1_000_000_000).unwrap(),
            realtime_offset_error_ns: 120,
        },
        start_ns: moment(hour, 0),
        calls: None,
        connects: None,
        min_latency: None,
        receiving: None,
        http: None,
        packets: None,
        fired: None,
        dns: None,
    }
}

/// A moment of an hour on every host's monotonic clock.
fn moment(hour: u64, ns: u64) -> u64 {
    (FIRST_DAY - BOOTED + hour * 3600) * 1_000_000_000 + ns
}

fn peer(number: u64) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, (number / 250) as u8, (number % 250) as u8 + 1)), 443)
}

/// The writer of a new run.
fn begun(root: &Path, number: u64, hour: u64) -> Writer {
    let path = directory(root, number, hour);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Writer::create(&path, provenance(number, hour)).unwrap()
}

/// Writes one run.
pub fn run(root: &Path, number: u64, hour: u64, size: Size) {
    let mut writer = begun(root, number, hour);
    let at = Instant::from_nanos;
    for c in 0..size.connections {
        writer
            .event(&Event::Connection(Connection {
                id: ConnectionId(u64::MAX - c),
                local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000 + c as u16),
                remote: peer(drawn([number, 7, c]) % 20),
                owner: Owner { pid: 100, comm: Comm::from("nginx") },
                opening: Opening::Connected,
                since: at(moment(hour, c)),
                congestion_control: "cubic".into(),
                accepted: None,
            }))
            .unwrap();
    }
    for s in 0..size.sends {
        let draw = drawn([number, hour, s]);
        let sent = moment(hour, (s + 1) * (3_599_000_000_000 / (size.sends + 1)));
        // Long tails, as sends have them.
        let network = 100_000 + (draw % 1_000) * (draw % 97) * (draw % 31) * 10;
        let tcp = (draw >> 32) % 50_000;
        let acked = (!draw.is_multiple_of(50)).then(|| at(sent + tcp + 2_000 + network));
        writer
            .event(&Event::Send(Send {
                connection: ConnectionId(u64::MAX - s % size.connections),
                owner: Owner { pid: 100, comm: Comm::from(if draw.is_multiple_of(3) { "nginx" } else { "worker" }) },
                thread: None,
                first_seq: SeqNumber(s as u32),
                bytes: (draw % 16_384) as u32,
                stamps: Stamps {
                    sched: Some(at(sent + tcp)),
                    driver: Some(at(sent + tcp + 2_000)),
                    ack: acked,
                    ..Stamps::sent_at(at(sent))
                },
                state: SenderState { cwnd: 10, ..SenderState::default() },
                buffer: None,
                wait: Some(if draw.is_multiple_of(4) {
                    let mut waits = Waits::of(WaitReason::CongestionWindow, Nanos(tcp - tcp / 4));
                    waits.add(WaitReason::Pacing, Nanos(tcp / 4));
                    waits
                } else {
                    Waits::of(WaitReason::SentAtOnce, Nanos(tcp))
                }),
                retransmissions: u16::from(draw.is_multiple_of(40)),
                unacknowledged: None,
                ack_alone: None,
            }))
            .unwrap();
    }
    for c in 0..size.connections {
        let totals = ConnectionTotals {
            segments_retransmitted: c as u32,
            bytes_acked: 1_000 * c,
            ..ConnectionTotals::default()
        };
        writer.event(&Event::Closed { connection: ConnectionId(u64::MAX - c), totals }).unwrap();
    }
    let coverage = Coverage { bytes_written: 1_000, bytes_armed: 900 + number % 100, ..Coverage::default() };
    writer
        .finish(
            at(moment(hour, 3_600_000_000_000)),
            Lost { ring_buffer: number, inferred: 1_000, ..Lost::default() },
            coverage,
        )
        .unwrap();
}

/// Writes one run of a service at port 443 that one client connects to so often, each time from
/// another port and with one send, and that connects once to the same client's port 5432.
pub fn service(root: &Path, number: u64, times: u16) {
    let mut writer = begun(root, number, 0);
    let at = Instant::from_nanos;
    let client = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    for n in 0..=times {
        let id = ConnectionId(u64::from(n) + 1);
        let (opening, local, remote) = match n {
            0 => (Opening::Connected, 40_000, 5_432),
            _ => (if n % 2 == 0 { Opening::Accepted } else { Opening::Found }, 443, 50_000 + n),
        };
        let connection = Connection {
            id,
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), local),
            remote: SocketAddr::new(client, remote),
            owner: Owner { pid: 100, comm: Comm::from("nginx") },
            opening,
            since: at(moment(0, 1)),
            congestion_control: "cubic".into(),
            accepted: None,
        };
        writer.event(&Event::Connection(connection)).unwrap();
        writer.event(&Event::Send(Send { connection: id, ..<Send as record::table::Record>::blank() })).unwrap();
    }
    writer.finish(at(moment(0, 3_600_000_000_000)), Lost::default(), Coverage::default()).unwrap();
}

/// Writes the runs of hours through which one connection to port 443 of 10.0.0.9 goes on, with a
/// send in the middle of each.
pub fn lasting(root: &Path, number: u64, hours: Range<u64>) {
    let (at, id) = (Instant::from_nanos, ConnectionId(1));
    for hour in hours.clone() {
        let mut writer = begun(root, number, hour);
        let connection = Connection {
            id,
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000),
            remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 443),
            owner: Owner { pid: 100, comm: Comm::from("nginx") },
            opening: Opening::Connected,
            since: at(moment(hours.start, 1)),
            congestion_control: "cubic".into(),
            accepted: None,
        };
        writer.event(&Event::Connection(connection)).unwrap();
        let stamps = Stamps::sent_at(at(moment(hour, 1_800_000_000_000)));
        let send = Send { connection: id, stamps, ..<Send as record::table::Record>::blank() };
        writer.event(&Event::Send(send)).unwrap();
        writer.finish(at(moment(hour, 3_600_000_000_000)), Lost::default(), Coverage::default()).unwrap();
    }
}

/// Calls it for each host and hour.
pub fn each(hosts: u64, hours: Range<u64>, make: impl Fn(u64, u64)) {
    for host in 0..hosts {
        for hour in hours.clone() {
            make(host, hour);
        }
    }
}

/// Writes the runs of all hosts and hours.
pub fn write(root: &Path, size: Size) {
    each(size.hosts, 0..size.hours, |host, hour| run(root, host, hour, size));
}

/// Writes one run of attempts to connect, receives, requests, packets of TCP and datagrams of UDP,
/// so many of each, the first of all at the same moment. Of the packets and datagrams one in 50 was
/// dropped.
pub fn others(root: &Path, number: u64, hour: u64, n: u64) {
    let mut writer = begun(root, number, hour);
    let at = Instant::from_nanos;
    let owner = Owner { pid: 100, comm: Comm::from("nginx") };
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);
    for i in 0..n {
        let draw = drawn([number, hour, i]);
        let began = moment(hour, (i + 1) * (3_599_000_000_000 / (n + 1)));
        let (network, application) = (100_000 + (draw % 1_000) * (draw % 97) * 10, (draw >> 32) % 5_000_000);
        let (id, remote, first_seq) = (ConnectionId(u64::MAX - i % 64), peer(draw % 20), SeqNumber(i as u32));
        let dropped = draw.is_multiple_of(50).then(|| Dropped {
            at: at(began + 3_000),
            reason: DropReason(if draw.is_multiple_of(3) { "QDISC_DROP" } else { "SOCKET_RCVBUFF" }.into()),
        });
        let arrived = at(began + network);
        writer
            .event(&Event::Connect(Box::new(Connect {
                connection: Some(id),
                local,
                remote,
                owner,
                stamps: ConnectStamps { syn: Some(at(began)), established: Some(arrived), ..ConnectStamps::default() },
                ..Connect::blank()
            })))
            .unwrap();
        writer
            .event(&Event::Receive(Receive {
                connection: id,
                reader: owner,
                thread: None,
                first_seq,
                bytes: (draw % 16_384) as u32,
                segments: 1,
                // On every other kernel the first of its moments is missing.
                stamps: Arrival {
                    driver_rx: number.is_multiple_of(2).then(|| at(began)),
                    tcp_rx: Some(at(began)),
                    ready: Some(at(began + 1_000)),
                    read: Some(arrived),
                },
                ..Receive::blank()
            }))
            .unwrap();
        let moments = Moments {
            sent: Some(at(began)),
            written: Some(at(began)),
            left: Some(at(began + 2_000)),
            arrived: Some(arrived),
            last_arrived: Some(arrived),
            ready: Some(arrived),
            read: Some(at(began + network + application)),
            ..Moments::default()
        };
        let components =
            Components { application: Nanos(application), network: Some(Nanos(network)), ..Components::default() };
        writer
            .event(&Event::Request(Box::new(Request {
                connection: id,
                role: Role::Client,
                owner,
                request: Message { first_seq, bytes: draw % 1_000, pieces: 1 },
                answer: Message { first_seq, bytes: draw % 16_384, pieces: 1 },
                moments,
                components: Some(components),
                basis: Basis::OwnAck,
                overlapping: Some(false),
                http: Http::default(),
                upstream: None,
            })))
            .unwrap();
        writer
            .event(&Event::Packet(Box::new(Packet {
                connection: id,
                local,
                remote,
                direction: Direction::Sent,
                first_seq,
                bytes: (draw % 1_448) as u32,
                frame_bytes: (draw % 1_448) as u32 + 66,
                segments: 1,
                flags: TcpFlags(0x18),
                retransmission: draw.is_multiple_of(40),
                sched: Some(at(began)),
                driver: dropped.is_none().then(|| at(began + 2_000)),
                ack: dropped.is_none().then_some(arrived),
                gap: None,
                dropped: dropped.clone(),
            })))
            .unwrap();
        writer
            .event(&Event::Datagram(Box::new(Datagram {
                socket: id,
                owner,
                local,
                remote,
                bytes: (draw % 1_400) as u32,
                segments: 1,
                stamps: DatagramStamps::Sent {
                    send: Some(at(began)),
                    sched: Some(at(began + 1_000)),
                    driver: dropped.is_none().then(|| at(began + 2_000)),
                },
                dropped,
            })))
            .unwrap();
    }
    writer.finish(at(moment(hour, 3_600_000_000_000)), Lost::default(), Coverage::default()).unwrap();
}

/// Writes histograms beside the runs of one host and hour: a row for each minute, peer, leg and
/// bucket. From hour `slow_from` on, this host's network takes twice as long.
pub fn histograms(root: &Path, number: u64, hour: u64, minutes: u64, slow: bool) {
    let path = directory(root, number, hour);
    let directory = path.join("histograms.parquet");
    std::fs::create_dir_all(&directory).unwrap();
    let (mut time, mut peers, mut stages, mut buckets, mut counts, mut sums) =
        (vec![], vec![], vec![], vec![], vec![], vec![]);
    for minute in 0..minutes {
        for p in 0..4_u64 {
            for (stage, middle) in
                [("network", if slow { -64_i64 } else { -72 }), ("tcp", -100), ("total", if slow { -64 } else { -71 })]
            {
                let n = 5 + drawn([number, hour, minute]) % 5;
                let each: Vec<(i64, i64)> = (0..n as i64).map(|i| (middle + i, 10 + i)).collect();
                let sum: f64 = each.iter().map(|(b, c)| (*b as f64 / 8.0 - 0.06).exp2() * 1e9 * *c as f64).sum();
                for (at, (bucket, count)) in each.into_iter().enumerate() {
                    time.push(((FIRST_DAY + hour * 3600 + minute * 60) * 1_000_000) as i64);
                    peers.push(peer(p).ip().to_string());
                    stages.push(stage);
                    buckets.push(bucket);
                    counts.push(count);
                    sums.push(if at == 0 { sum as i64 } else { 0 });
                }
            }
        }
    }
    let rows = time.len();
    if !path.join("run.json").exists() {
        let about = serde_json::json!({"schema": store::SCHEMA, "kind": "trace", "state": "finished", "start_ns": moment(hour, 0),
            "end_ns": moment(hour, 3_600_000_000_000), "rows": {"histograms": rows}, "clock": {"realtime_offset_ns": BOOTED * 1_000_000_000}});
        std::fs::write(path.join("run.json"), about.to_string()).unwrap();
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(TimestampMicrosecondArray::from(time).with_timezone("UTC"))),
        ("interval_ns", Arc::new(Int64Array::from(vec![60_000_000_000; rows]))),
        ("peer", Arc::new(StringArray::from(peers))),
        ("cgroup", Arc::new(UInt64Array::from(vec![9; rows]))),
        ("unit", Arc::new(StringArray::from(vec!["nginx.service"; rows]))),
        ("overflow", Arc::new(Int64Array::from(vec![0; rows]))),
        ("stage", Arc::new(StringArray::from(stages))),
        ("schema", Arc::new(Int64Array::from(vec![3; rows]))),
        ("bucket", Arc::new(Int64Array::from(buckets))),
        ("count", Arc::new(Int64Array::from(counts))),
        ("sum_ns", Arc::new(Int64Array::from(sums))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![KeyValue::new("wirelapse.schema".to_owned(), store::SCHEMA.to_string())]))
        .build();
    let file = std::fs::File::create(directory.join("part-00000.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Writes a run of one hour with the histograms of a hundred sends of each of these, to one peer.
pub fn named(root: &Path, number: u64, hour: u64, of: &[Named]) {
    let mut rotating = Rotating::open(root, &host(number)).unwrap();
    let time = |hour: u64| Utc((FIRST_DAY + hour * 3600) * 1_000_000);
    rotating.begin(time(hour), provenance(number, hour)).unwrap();
    for (cgroup, named) in (1..).zip(of) {
        let key = SeriesKey { peer: Some(IpPrefix::from(peer(0).ip())), cgroup: Some(cgroup), ..SeriesKey::default() };
        let legs = [(Leg::Total, (1..=100).map(|ms| Nanos(ms * 1_000_000)).collect())].into();
        let series = Series { key, legs, ..Series::default() };
        let rows = HistogramRow::of(time(hour), Nanos(60_000_000_000), &series, named);
        rows.for_each(|row| rotating.histogram(&row).unwrap());
    }
    let end = Instant::from_nanos(moment(hour, 3_600_000_000_000));
    rotating.finish(time(hour + 1), end, Lost::default(), Coverage::default()).unwrap();
}

/// Writes a study of one trial and the run of a capture with one finding, both of the first second
/// of the first day.
pub fn others_than_traces(root: &Path) {
    let study = root.join("study");
    std::fs::create_dir_all(&study).unwrap();
    std::fs::write(study.join("run.json"), r#"{"schema": 3, "kind": "study", "state": "finished"}"#).unwrap();
    let first = Nanos((FIRST_DAY + 1) * 1_000_000_000);
    let mut writer = store::study::Writer::open(&study, Nanos(0)).unwrap();
    let trial = record::trial::Trial { started_ns: first, plan: "delay".into(), ..Default::default() };
    writer.add(&store::study::Rows { trial, ..Default::default() }, Nanos(0)).unwrap();
    writer.close().unwrap();
    let finding =
        record::conversation::FindingRow { number: 1, kind: "nagle".into(), at_ns: first, ..Default::default() };
    let provenance = store::capture::Provenance { source: "slow.pcap".into(), ..Default::default() };
    store::capture::Run {
        provenance,
        conversations: Vec::new(),
        findings: vec![finding],
        dns: Default::default(),
        tls: Default::default(),
        quic: Default::default(),
        udp: Default::default(),
        network: Default::default(),
        transactions: Vec::new(),
    }
    .write(&root.join("capture"))
    .unwrap();
}
