//! Histograms of the kernel part against the records of the same sends, and against what the
//! sending program counted.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use record::histogram::{Histogram, Series};
use record::{ConnectionId, Event, Instant, Leg, Monotonic, Nanos, Send, WaitReason};
use tier::Need;
use trace::histograms::{Dimensions, Ports, Prefixes, Snapshot};
use trace::{Backend, Config, Histograms, Target};

use crate::traffic::{self, Trace, accept_one, counter, in_namespace, on, pair};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// One series for all.
const TOGETHER: Dimensions = Dimensions { peer: None, ports: Ports::None, cgroup: false, program: false };

fn with(histograms: Histograms, config: Config) -> Config {
    Config { connects: histograms.records, histograms: Some(histograms), ..config }
}

fn now() -> Instant<Monotonic> {
    timestamping::now()
}

fn snapshot(trace: &mut Trace) -> Snapshot {
    trace.tracer.snapshot(now()).unwrap().unwrap()
}

/// Sends in all series, and in those that have left.
fn finished(snapshot: &Snapshot) -> u64 {
    snapshot.series.iter().map(|series| series.sends).sum::<u64>() + snapshot.departed.sends
}

/// What the records say of the sends that `of` gives, as a series has it.
fn series_of<'a>(sends: impl Iterator<Item = &'a Send>) -> Series {
    let mut series = Series::default();
    for send in sends {
        series.sends += 1;
        series.unacked += u64::from(send.stamps.ack.is_none());
        series.bytes += u64::from(send.bytes);
        for leg in Leg::ALL {
            match send.leg(leg) {
                Ok(Some(time)) if send.leg_error(leg) > time => series.vague += 1,
                Ok(Some(time)) => series.legs.entry(leg).or_default().add(time),
                _ => {}
            }
        }
        series.waited[WaitReason::SendBuffer as usize] += send.buffer.map_or(Nanos::ZERO, |full| full.sum());
        if let Some(wait) = send.wait {
            for (reason, time) in wait.each().into_iter().filter(|(reason, _)| *reason != WaitReason::SentAtOnce) {
                series.waited[reason as usize] += time;
            }
        }
    }
    series
}

/// What records say, with the key of a series and what TCP alone knows of it.
fn with_the_kernels(series: &Series, of_records: Series) -> Series {
    Series {
        key: series.key.clone(),
        retransmitted_for: series.retransmitted_for,
        spurious_segments: series.spurious_segments,
        window_limited: series.window_limited,
        zero_windows: series.zero_windows,
        ..of_records
    }
}

/// Each quantile of a histogram holds that of the values themselves.
fn quantiles_hold(histogram: &Histogram, mut values: Vec<Nanos>) {
    values.sort_unstable();
    for share in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let (exact, bounds) = (values[rank - 1], histogram.quantile(share).unwrap());
        let holds = (exact > bounds.above && exact <= bounds.up_to) || exact == bounds.up_to;
        assert!(holds, "{share}: {exact} is not in {bounds:?}");
    }
}

/// Writes of many sizes, answers, and writes that share a packet.
fn mixed(client: &mut TcpStream, server: &mut TcpStream, rounds: usize) {
    for round in 0..rounds {
        client.write_all(&vec![0; 1 + round * 40]).unwrap();
        server.read_exact(&mut vec![0; 1 + round * 40]).unwrap();
        server.write_all(b"k").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    traffic::set(client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    for _ in 0..50 {
        client.write_all(&[0; 10]).unwrap();
    }
    traffic::set(client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
    server.read_exact(&mut [0; 500]).unwrap();
}

fn against_records(backend: Backend) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mut found, mut found_server) = accept_one(&listener);
    let dimensions = Dimensions { ports: Ports::Listening, cgroup: true, program: true, ..Dimensions::default() };
    let histograms = Histograms { legs: Leg::ALL.into(), dimensions, records: true, ..Histograms::default() };
    let config = Config { calls: true, ..with(histograms, traffic::port(port)) };
    let mut trace = Trace::start(&on(config, backend));
    let (mut client, mut server) = accept_one(&listener);
    mixed(&mut client, &mut server, 300);
    mixed(&mut found, &mut found_server, 100);
    trace.until(1);
    trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
    let taken = snapshot(&mut trace);
    let (events, summary) = trace.finish();
    assert_eq!((summary.lost.ring_buffer, summary.lost.disorder), (0, 0), "{:?}", summary.lost);
    let ends: BTreeMap<ConnectionId, SocketAddr> = events
        .iter()
        .filter_map(|event| if let Event::Connection(c) = event { Some((c.id, c.local)) } else { None })
        .collect();
    let sends = traffic::sends(&events);
    assert!(sends.len() >= 800, "{}", sends.len());
    assert_eq!(taken.series.len(), 2, "{:?}", taken.series.iter().map(|s| &s.key).collect::<Vec<_>>());
    for series in &taken.series {
        let key = &series.key;
        assert_eq!(key.peer.unwrap().to_string(), "127.0.0.1");
        // The process's name, not the thread's.
        assert!(key.program.as_ref().unwrap().starts_with("kernel-"), "{key:?}");
        assert!(key.cgroup.is_some_and(|id| id > 0), "{key:?}");
        let at_server = key.local_port.is_some();
        assert_eq!((key.local_port, key.peer_port), if at_server { (Some(port), None) } else { (None, Some(port)) });
        let of_it = || sends.iter().filter(|s| (ends[&s.connection].port() == port) == at_server);
        // Sends that share a packet are in one segment with another.
        let (sends, segments) = (series.sends, series.sent_segments);
        assert!(segments > 0 && segments <= sends, "{backend}: {segments} segments of {sends} sends");
        let exact = Series { sent_segments: segments, ..with_the_kernels(series, series_of(of_it())) };
        assert_eq!(series, &exact, "{backend}");
        // By tracepoints these calls have no length.
        let legs = if backend == Backend::Tracepoints { 4 } else { 5 };
        assert!(series.legs.len() >= legs, "{backend}: {:?}", series.legs.keys());
        for (leg, histogram) in &series.legs {
            let values = of_it().filter_map(|s| s.leg(*leg).ok()?.filter(|time| s.leg_error(*leg) <= *time));
            quantiles_hold(histogram, values.collect());
        }
    }
}

#[test]
fn histograms_by_timestamping_are_those_of_the_records() {
    tier::needs!(Need::Root, BTF);
    against_records(Backend::Timestamping);
}

#[test]
fn histograms_by_tracepoints_are_those_of_the_records() {
    tier::needs!(Need::Root, BTF);
    against_records(Backend::Tracepoints);
}

/// What one connection through a short queue of its own host gave.
struct Overflowed {
    taken: Snapshot,
    sends: Vec<Send>,
    /// Segments, by the socket's own count.
    retransmitted: u64,
    /// By the queue's own count, ACKs among them.
    dropped: u64,
}

fn overflowed(backend: Backend) -> Overflowed {
    // With this burst the queue cuts every packet of several segments up, so what it drops is one
    // segment each.
    in_namespace(Some("rate 40mbit burst 2kb limit 20kb"), move || {
        let (client, server) = pair();
        let histograms = Histograms { dimensions: TOGETHER, records: true, ..Histograms::default() };
        let config = with(histograms, traffic::port(server.local_addr().unwrap().port()));
        let mut trace = Trace::start(&on(config, backend));
        let reader = traffic::drain(server);
        let mut writer = client.try_clone().unwrap();
        // Whether the queue overflows is chance: until it did.
        for round in 0..20 {
            (0..400).for_each(|_| writer.write_all(&[0; 8 << 10]).unwrap());
            trace.poll();
            if round > 0 && counter("snmp", "Tcp", "RetransSegs") > 0 {
                break;
            }
        }
        drop((client, writer));
        reader.join().unwrap();
        trace.poll();
        trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
        let taken = snapshot(&mut trace);
        let (events, summary) = trace.finish();
        assert_eq!(summary.lost.slots_full, 0);
        let closed = events.iter().filter_map(|event| match event {
            Event::Closed { totals, .. } => Some(u64::from(totals.segments_retransmitted)),
            _ => None,
        });
        Overflowed {
            taken,
            sends: traffic::sends(&events),
            retransmitted: closed.sum(),
            dropped: traffic::dropped_on_loopback(),
        }
    })
}

/// Packets are dropped in a short queue.
#[test]
fn retransmitted_segments_and_reasons_are_those_of_the_kernel_and_of_the_records() {
    tier::needs!(Need::Root, BTF);
    for backend in [Backend::Timestamping, Backend::Tracepoints] {
        let Overflowed { taken, sends, retransmitted, dropped } = overflowed(backend);
        assert_eq!(taken.series.len(), 1);
        let series = &taken.series[0];
        assert!(retransmitted > 0, "{backend}: no packet was dropped");
        assert_eq!(series.retransmitted_segments, retransmitted, "{backend}: {series:?}");
        // Every byte left in a segment, of at most 64 KiB.
        let fewest = series.bytes.div_ceil(64 << 10) + retransmitted;
        assert!((fewest..=series.bytes).contains(&series.sent_segments), "{backend}: {series:?}");
        // The short queue is the only place where anything is dropped.
        assert!((1..=dropped).contains(&series.dropped_segments), "{backend}: {series:?}, {dropped}");
        let of_records = Series {
            retransmitted_segments: series.retransmitted_segments,
            dropped_segments: series.dropped_segments,
            sent_segments: series.sent_segments,
            ..with_the_kernels(series, series_of(sends.iter()))
        };
        let legs = |series: &Series| Series { legs: BTreeMap::new(), ..series.clone() };
        assert_eq!(legs(series), legs(&of_records), "{backend}");
        for (leg, histogram) in &series.legs {
            assert_eq!(histogram, &of_records.legs[leg], "{leg}, {backend}");
        }
        assert!(series.waited.into_iter().sum::<Nanos>() > Nanos::ZERO);
    }
}

/// Bytes that the kernel has for those maps of this process of which the number of entries is
/// `wanted`.
pub fn kernel_bytes_where(wanted: impl Fn(u64) -> bool) -> u64 {
    let fds = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let of = |text: &str| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
        Some((field("map_id:")?, field("max_entries:")?, field("memlock:")?))
    };
    let maps = fds.filter_map(|fd| of(&std::fs::read_to_string(fd.ok()?.path()).ok()?));
    let wanted = maps.filter(|map| wanted(map.1));
    wanted.map(|(id, _, bytes)| (id, bytes)).collect::<BTreeMap<_, _>>().into_values().sum()
}

/// The same, with so many entries.
pub fn kernel_bytes(entries: &[u32]) -> u64 {
    kernel_bytes_where(|of| entries.iter().any(|entries| u64::from(*entries) == of))
}

#[test]
fn a_hundred_thousand_peers_are_in_as_many_series_as_there_may_be_and_one_more() {
    const PEERS: u32 = 100_000;
    // So many as no other test has: maps are known by their sizes, and tests run beside one
    // another.
    const SERIES: u32 = 4_090;
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target { ports: vec![port.into()], ..Target::default() };
    let histograms = Histograms { max_series: SERIES, ..Histograms::default() };
    let mut trace = Trace::start(&with(histograms, traffic::config(target)));
    // Of the series, their figures, histograms and blocks, and the blocks that are free.
    let memory = || {
        let blocks = 4 * (20 + SERIES * 10);
        kernel_bytes(&[SERIES, SERIES + 1, 4 * (SERIES + 1), blocks, blocks + 1])
    };
    let begun = memory();
    let megabytes = begun as f64 / 1e6;
    assert!((12.0..15.0).contains(&megabytes), "{megabytes:.1} MB");
    let server = std::thread::spawn(move || {
        for connection in listener.incoming().take(PEERS as usize) {
            let mut connection = connection.unwrap();
            connection.read_exact(&mut [0; 4]).unwrap();
            connection.write_all(b"pong").unwrap();
        }
    });
    for i in 0..PEERS {
        let address = std::net::Ipv4Addr::from(0x7f00_0001 + i * 7);
        let mut client = TcpStream::connect((address, port)).unwrap();
        client.write_all(b"ping").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(client.read(&mut [0; 4]).unwrap(), 0);
        if i % 20_000 == 0 {
            assert!(snapshot(&mut trace).series.len() <= SERIES as usize + 1);
        }
    }
    server.join().unwrap();
    std::thread::sleep(Duration::from_millis(100)); // The last ACK may wait for ksoftirqd.
    trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
    let taken = snapshot(&mut trace);
    assert_eq!(memory(), begun, "memory of the kernel part is fixed");
    let (events, summary) = trace.finish();
    let lost = summary.lost;
    assert_eq!(taken.series.len(), SERIES as usize + 1);
    // A program of another test takes the stamps away from all sockets for a moment.
    let missed = lost.slots_full + lost.connections_full + lost.unstamped;
    assert_eq!(finished(&taken) + missed, 2 * u64::from(PEERS), "{lost:?}");
    assert_eq!(taken.series.iter().map(|s| s.bytes).sum::<u64>(), 4 * (finished(&taken) + lost.unstamped));
    let totals = taken.series.iter().filter_map(|s| s.legs.get(&Leg::Total)).map(Histogram::count).sum::<u64>();
    let unacked = taken.series.iter().map(|s| s.unacked + s.vague).sum::<u64>();
    assert!(totals <= finished(&taken) && totals + unacked >= finished(&taken), "{totals} {unacked}");
    let (over, named): (Vec<_>, Vec<_>) = taken.series.iter().partition(|series| series.key.overflow);
    assert_eq!((over.len(), over[0].key.peer), (1, None));
    assert!(named.iter().all(|series| series.key.peer.is_some()));
    // Nothing came through the ring buffer, and coverage is known all the same.
    assert!(events.is_empty() && lost.connection_records == 0 && lost.ring_buffer == 0, "{lost:?}");
    assert_eq!(summary.coverage.bytes_armed + 4 * lost.unstamped, summary.coverage.bytes_written);
}

#[test]
fn what_finds_no_room_is_still_known_by_port_program_and_peer() {
    // Beyond the room of those with a peer.
    const PEERS: u32 = 140;
    tier::needs!(Need::Root, BTF);
    // Below those that clients have.
    let listener = (21_000_u16..).find_map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let dimensions = Dimensions { ports: Ports::All, program: true, ..Dimensions::default() };
    let histograms = Histograms { max_series: 3, folds: true, dimensions, ..Histograms::default() };
    let mut trace = Trace::start(&with(histograms, Config { max_connections: 1_024, ..traffic::port(port) }));
    let connect = |peer: u32| {
        let client = TcpStream::connect((std::net::Ipv4Addr::from(0x7f09_0001 + peer), port)).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let mut pairs: Vec<_> = (0..PEERS).flat_map(|peer| [connect(peer), connect(peer)]).collect();
    for (client, server) in &mut pairs {
        client.write_all(b"ping").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100)); // The ACK may be delayed.
    let taken = snapshot(&mut trace).series;
    let (over, own): (Vec<_>, Vec<_>) = taken.iter().filter(|one| one.sends > 0).partition(|one| one.key.overflow);
    assert!(own.len() <= 3, "{own:?}");
    assert_eq!(taken.iter().map(|one| one.sends).sum::<u64>(), u64::from(2 * PEERS));
    let (named, rest): (Vec<&Series>, Vec<&Series>) = over.into_iter().partition(|one| one.key.peer.is_some());
    assert!(named.len() >= 100 && named.iter().all(|one| one.sends <= 2), "{named:?}");
    assert!(rest.len() == 1 && rest[0].sends > 0, "{rest:?}");
    for key in named.into_iter().chain(rest).map(|one| &one.key) {
        assert_eq!((key.local_port, key.peer_port, key.program.is_some()), (None, Some(port), true), "{key:?}");
    }
    trace.finish();
}

/// The map of this name with so many entries.
fn map(name: &str, entries: u32) -> MapHandle {
    let found = MapInfoIter::default().find(|map| map.name.to_str() == Some(name) && map.max_entries == entries);
    MapHandle::from_map_id(found.unwrap().id).unwrap()
}

#[test]
fn legs_that_find_no_block_are_in_the_overflow() {
    tier::needs!(Need::Root, BTF);
    let mut exchange = pair();
    let port = exchange.0.peer_addr().unwrap().port();
    let histograms = Histograms { max_series: 3, dimensions: TOGETHER, ..Histograms::default() };
    let mut trace = Trace::start(&with(histograms, traffic::port(port)));
    let free = map("free_blocks", 4 * (20 + 3 * 10));
    let taken = |of: &MapHandle| of.lookup_and_delete(&[]).unwrap().unwrap();
    let numbers: Vec<Vec<u8>> = (0..3 * 4 * 10).map(|_| taken(&free)).collect();
    assert_eq!(free.lookup_and_delete(&[]).unwrap(), None, "those of the overflow are not free");
    let mut send = |times: usize| {
        for _ in 0..times {
            exchange.0.write_all(b"ping").unwrap();
            exchange.1.read_exact(&mut [0; 4]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100)); // The ACK may be delayed.
    };
    let totals = |trace: &mut Trace| {
        let series = snapshot(trace).series;
        let of = |series: &Series| {
            let total = series.legs.get(&Leg::Total);
            (series.key.overflow, series.sends, total.map_or(0, Histogram::count), total.is_some_and(|t| t.sum.0 > 0))
        };
        series.iter().map(of).collect::<Vec<_>>()
    };
    send(20);
    let mut first = totals(&mut trace);
    first.sort();
    assert_eq!(first, [(false, 20, 0, false), (true, 0, 20, true)]);
    for number in &numbers {
        free.update(&[], number, MapFlags::ANY).unwrap();
    }
    send(30);
    let mut second = totals(&mut trace);
    second.sort();
    assert_eq!(second, [(false, 50, 30, true), (true, 0, 20, true)]);
    trace.finish();
}

#[test]
fn idle_series_leave_and_their_numbers_are_used_again() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let histograms = Histograms { max_series: 2, idle: Some(Duration::from_secs(4)), ..Histograms::default() };
    let mut trace = Trace::start(&with(histograms, traffic::port(port)));
    let connect = |last: u8| {
        let client = TcpStream::connect((std::net::Ipv4Addr::new(127, 9, 9, last), port)).unwrap();
        client.set_nodelay(true).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let mut pairs = [connect(1), connect(2), connect(3)];
    let mut send = |which: usize, times: usize| {
        for _ in 0..times {
            pairs[which].0.write_all(b"ping").unwrap();
            pairs[which].1.read_exact(&mut [0; 4]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(60)); // The ACK may be delayed.
    };
    let (start, mut trace_at) = (now(), Duration::ZERO);
    let mut taken = |trace: &mut Trace, seconds: u64| {
        trace_at += Duration::from_secs(seconds);
        let at = start.after(Nanos::from_millis(trace_at.as_millis() as u64));
        let mut taken = trace.tracer.snapshot(at).unwrap().unwrap();
        taken.series.sort_by(|a, b| a.key.cmp(&b.key));
        let of = |s: &Series| (s.key.peer.map_or("overflow".into(), |peer| peer.to_string()), s.sends);
        (taken.series.iter().map(of).collect::<Vec<_>>(), taken.departed)
    };
    let peer = |last: u8, sends: u64| (format!("127.9.9.{last}"), sends);
    send(0, 3);
    send(1, 5);
    send(2, 7);
    let (series, departed) = taken(&mut trace, 0);
    assert_eq!((series, departed.sends), (vec![("overflow".into(), 7), peer(1, 3), peer(2, 5)], 0));
    send(0, 1);
    taken(&mut trace, 3);
    send(0, 1);
    let (series, departed) = taken(&mut trace, 3);
    assert_eq!(series, [("overflow".into(), 7), peer(1, 5)]);
    assert_eq!((departed.series, departed.sends), (1, 5));
    // Its number is not free yet, and that of another is not taken for it.
    send(1, 2);
    let (series, _) = taken(&mut trace, 2);
    assert_eq!(series, [("overflow".into(), 9), peer(1, 5)]);
    send(2, 4);
    let (series, departed) = taken(&mut trace, 1);
    assert_eq!(series, [("overflow".into(), 9), peer(1, 5), peer(3, 4)]);
    assert_eq!((departed.series, departed.sends), (1, 5));
}

/// Pins the calling thread to a CPU.
fn pin(cpu: usize) {
    // SAFETY: the set is zeroed, which is an empty one, and a CPU is added that it has room for;
    // the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

#[test]
fn sends_that_finish_on_both_cpus_are_all_counted() {
    tier::needs!(Need::Root, BTF);
    const EACH: u64 = 30_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let histograms = Histograms { dimensions: TOGETHER, ..Histograms::default() };
    let mut trace = Trace::start(&with(histograms, traffic::port(listener.local_addr().unwrap().port())));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (mut client, server) = accept_one(&listener);
            client.set_nodelay(true).unwrap();
            let reader = traffic::drain(server);
            std::thread::spawn(move || {
                pin(worker % 2);
                (0..EACH).for_each(|_| client.write_all(&[0; 700]).unwrap());
                drop(client);
                reader.join().unwrap();
            })
        })
        .collect();
    // Read meanwhile: a later snapshot holds all of an earlier one.
    let mut before = snapshot(&mut trace);
    while !workers.iter().all(std::thread::JoinHandle::is_finished) {
        let taken = snapshot(&mut trace);
        assert!(taken.series.len() <= 1 && finished(&taken) >= finished(&before));
        before = taken;
        std::thread::sleep(Duration::from_millis(20));
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    trace.tracer.suspend(&mut |_| ()).unwrap();
    let taken = snapshot(&mut trace);
    let (_, summary) = trace.finish();
    let (series, lost) = (&taken.series[0], summary.lost);
    assert_eq!(series.sends + lost.slots_full + lost.unstamped, 4 * EACH, "{lost:?}");
    // Those of sends without a slot too.
    assert_eq!((series.bytes, summary.coverage.bytes_written), (4 * 700 * EACH, 4 * 700 * EACH), "{lost:?}");
    assert_eq!(series.legs[&Leg::Total].count() + series.unacked, series.sends, "{lost:?}");
}

/// A snapshot of many series takes long, and its figures are of the moment that it names.
#[test]
fn a_snapshot_names_the_moment_that_its_figures_are_of() {
    tier::needs!(Need::Root, BTF);
    const CONNECTIONS: u32 = 400;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let dimensions = Dimensions { ports: Ports::All, ..TOGETHER };
    let histograms = Histograms { dimensions, max_series: 2 * CONNECTIONS, ..Histograms::default() };
    let config = Config { max_connections: 2 * CONNECTIONS, ..traffic::port(port) };
    let mut trace = Trace::start(&with(histograms, config));
    let mut pairs: Vec<_> = (0..CONNECTIONS).map(|_| accept_one(&listener)).collect();
    let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (until, rounds) = (Arc::clone(&over), Arc::clone(&turns));
    let worker = std::thread::spawn(move || {
        // When each request was answered, so that its send is acknowledged.
        let mut answered = Vec::new();
        while !until.load(Ordering::Relaxed) {
            for (client, server) in &mut pairs {
                client.write_all(b"ping").unwrap();
                server.read_exact(&mut [0; 4]).unwrap();
                server.write_all(b"pong").unwrap();
                client.read_exact(&mut [0; 4]).unwrap();
                answered.push(now());
            }
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        answered
    });
    tier::until("every series has something", || turns.load(Ordering::Relaxed) > 1);
    let began = now();
    let taken = snapshot(&mut trace);
    let ended = now();
    over.store(true, Ordering::Relaxed);
    let answered = worker.join().unwrap();
    assert!(began <= taken.at && taken.at <= ended);
    let requests: u64 = taken.series.iter().filter(|series| series.key.peer_port == Some(port)).map(|s| s.sends).sum();
    // As many as had been answered then, give or take what comes while the map is copied.
    let by = |at: u64| answered.partition_point(|then| then.as_nanos() <= at) as u64;
    let (at, slack) = (taken.at.as_nanos(), 5_000_000);
    let between = by(at - slack)..=by(at + slack) + 1;
    let whole = by(ended.as_nanos()) - by(began.as_nanos());
    assert!(between.contains(&requests), "{requests} not in {between:?}; {whole} came during the snapshot");
    trace.finish();
}

/// Capabilities are a thread's own.
#[test]
fn snapshots_are_taken_without_any_capability() {
    tier::needs!(Need::Root, BTF);
    std::thread::spawn(|| {
        let (mut client, mut server) = pair();
        let histograms = Histograms {
            dimensions: Dimensions { peer: Some(Prefixes { ipv4: 8, ipv6: 32 }), ..Dimensions::default() },
            idle: Some(Duration::from_secs(1)),
            ..Histograms::default()
        };
        let mut trace = Trace::start(&with(histograms, traffic::port(server.local_addr().unwrap().port())));
        let header = [0x2008_0522_u32, 0];
        // SAFETY: the header names version 3 and this thread; three words for each half of the sets
        // follow, all zero.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), [0u32; 6].as_ptr()) }, 0);
        for _ in 0..20 {
            client.write_all(b"ping").unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
            server.write_all(b"pong").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(60));
        let taken = snapshot(&mut trace);
        assert_eq!((taken.series.len(), taken.series[0].sends), (1, 40));
        assert_eq!(taken.series[0].key.peer.unwrap().to_string(), "127.0.0.0/8");
        let later = trace.tracer.snapshot(now().after(Nanos::from_millis(5_000))).unwrap().unwrap();
        assert_eq!((later.series.len(), later.departed.sends), (0, 40));
        drop(trace);
    })
    .join()
    .unwrap();
}
