//! Records made up for tests: a trace of a path of 20 ms, the same in every run.
//!
//! Records of which one property matters are made by the test itself, from [`send`] or
//! `Record::blank`.

#![forbid(unsafe_code)]

use record::{
    Arrival, Basis, Comm, Components, Connect, ConnectStamps, Connection, ConnectionId, ConnectionTotals, Datagram,
    DatagramStamps, Direction, DropReason, Dropped, EndedBy, Ending, Event, Instant, Message, Moments, Nanos, Opening,
    Outcome, Owner, Packet, Receive, Request, Role, Send, SenderState, SeqNumber, Stamps, TcpFlags, WaitReason, Waits,
};

/// A generator of numbers that scatter well enough for test data (xorshift, Marsaglia 2003).
struct Seeded(u64);

impl Seeded {
    /// From 0 to below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

/// Of IPv4, or every third of IPv6; each is of another process.
pub fn connection(id: u64) -> Connection {
    let port = 40_000 + (id % 20_000) as u16;
    let v6 = id % 3 == 2;
    Connection {
        id: ConnectionId(id),
        local: if v6 { format!("[2001:db8::a]:{port}") } else { format!("10.0.0.1:{port}") }.parse().unwrap(),
        remote: if v6 { "[2001:db8::b]:443" } else { "10.0.0.2:80" }.parse().unwrap(),
        owner: Owner { pid: 4_000 + id as u32, comm: Comm::from("curl") },
        opening: Opening::Connected,
        since: Instant::from_nanos(1_000_000_000),
        congestion_control: "cubic".into(),
        accepted: None,
    }
}

/// `sends` sends on each of `connections` connections over a path of 20 ms there and back, one in
/// five held by the window.
pub fn trace(connections: u64, sends: u64) -> Vec<Event> {
    let mut random = Seeded(0x5eed);
    let mut events: Vec<Event> = (1..=connections).map(|id| Event::Connection(connection(id))).collect();
    let mut at = 1_000_000_000;
    for i in 0..sends {
        for id in 1..=connections {
            at += 50_000 + random.below(100_000);
            let held = random.below(5) == 0;
            let tcp = if held { 200_000 + random.below(30_000_000) } else { 1_500 + random.below(2_000) };
            let qdisc = 800 + random.below(1_200);
            let network =
                20_100_000 + random.below(400_000) + if random.below(50) == 0 { random.below(60_000_000) } else { 0 };
            let time = |ns: u64| Instant::from_nanos(ns);
            events.push(Event::Send(Send {
                connection: ConnectionId(id),
                owner: Owner { pid: 4_000 + id as u32, comm: Comm::from("curl") },
                first_seq: SeqNumber((i * 16_384) as u32),
                thread: None,
                bytes: 16_384,
                stamps: Stamps {
                    sched: Some(time(at + tcp)),
                    driver: Some(time(at + tcp + qdisc)),
                    ack: Some(time(at + tcp + qdisc + network)),
                    ..Stamps::sent_at(time(at))
                },
                state: SenderState {
                    cwnd: 10,
                    in_flight: if held { 10 } else { 3 },
                    peer_window: 65_536,
                    unsent: if held { 131_072 } else { 16_384 },
                    mss: 1_448,
                    srtt: Nanos(20_300_000),
                    ..SenderState::default()
                },
                buffer: None,
                wait: Some(if held {
                    let reason =
                        if random.below(6) == 0 { WaitReason::ReceiveWindow } else { WaitReason::CongestionWindow };
                    let mut waits = Waits::of(reason, Nanos(tcp - 100_000));
                    waits.add(WaitReason::Pacing, Nanos(100_000));
                    waits
                } else {
                    Waits::of(WaitReason::SentAtOnce, Nanos(tcp))
                }),
                retransmissions: u16::from(random.below(400) == 0),
                unacknowledged: None,
                ack_alone: None,
            }));
        }
    }
    for id in 1..=connections {
        let totals =
            ConnectionTotals { followed: Nanos(at), bytes_written: sends * 16_384, ..ConnectionTotals::default() };
        events.push(Event::Closed { connection: ConnectionId(id), totals });
    }
    events
}

/// `n` receives, requests from both ends, packets and datagrams both ways, on the connections 1 and
/// 2. The reading program is `late` ns late on the second, and on the average half as late. Each
/// hundredth packet and datagram is dropped.
pub fn others(n: u64, late: u64) -> Vec<Event> {
    let mut random = Seeded(0xface);
    let mut events = Vec::new();
    let owner = |id: u64| Owner { pid: 4_000 + id as u32, comm: Comm::from("</script>") };
    let message = |bytes| Message { first_seq: SeqNumber(1), bytes, pieces: 1 };
    for i in 0..n {
        let id = 1 + i % 2;
        let Connection { local, remote, .. } = connection(id);
        let start = 1_000_000_000 + i * 500_000;
        let at = |ns: u64| Some(Instant::from_nanos(start + ns));
        let noise = random.below(20_000);
        let wakeup = 10_000 + noise + late * (id - 1);
        let dropped = (i % 100 == 99).then(|| Dropped {
            at: Instant::from_nanos(start + 5_000),
            reason: DropReason(if i % 200 == 99 { "QDISC_DROP" } else { "<img src=x>" }.into()),
        });
        events.push(Event::Connect(Box::new(Connect {
            connection: Some(ConnectionId(id)),
            local,
            remote,
            owner: owner(id),
            opening: if i % 2 == 0 { Opening::Connected } else { Opening::Accepted },
            outcome: if i % 10 == 0 { Outcome::Refused } else { Outcome::Established },
            stamps: ConnectStamps {
                syn: at(0),
                established: at(100_000 + noise),
                accepted: at(200_000 + noise),
                ..ConnectStamps::default()
            },
            ending: Some(Ending::Fin),
            ended_by: Some(EndedBy::Peer),
            ..Connect::blank()
        })));
        events.push(Event::Receive(Receive {
            connection: ConnectionId(id),
            reader: owner(id),
            thread: None,
            first_seq: SeqNumber(i as u32),
            bytes: 1_448,
            segments: 2,
            stamps: Arrival { driver_rx: at(0), tcp_rx: at(1_000), ready: at(3_000), read: at(3_000 + wakeup) },
            out_of_order: i % 50 == 0,
            queued: 0,
            buffer: 131_072,
            buffer_used: 4_096,
        }));
        for (role, basis) in [(Role::Client, Basis::OwnAck), (Role::Server, Basis::Server)] {
            let client = role == Role::Client;
            let components = Components {
                connect: (client && i % 7 == 0).then_some(Nanos(500_000)),
                application: Nanos(3_000),
                tcp: (i % 3 == 0).then_some(Waits::of(WaitReason::Nagle, Nanos(9_000))),
                kernel: Nanos(7_000),
                network: client.then_some(Nanos(2_000_000)),
                peer_application: client.then_some(Nanos(300_000)),
                peer: None,
                transfer: Nanos(1_000),
                wakeup: Some(Nanos(wakeup)),
                upstream: None,
            };
            let whole = components.sum().0;
            let moments = match role {
                Role::Client => Moments { sent: at(0), read: at(whole), ..Moments::default() },
                Role::Server => Moments { arrived: at(0), left: at(whole), ..Moments::default() },
            };
            let (request, answer) = (message(200), message(4_000));
            let components = (i % 40 > 0).then_some(components);
            let connection = ConnectionId(id);
            let one = Request {
                connection,
                role,
                owner: owner(id),
                request,
                answer,
                moments,
                components,
                basis,
                overlapping: Some(false),
                http: record::Http::default(),
                upstream: None,
            };
            events.push(Event::Request(Box::new(one)));
        }
        events.push(Event::Packet(Box::new(Packet {
            connection: ConnectionId(id),
            local,
            remote,
            direction: Direction::Sent,
            first_seq: SeqNumber(i as u32 * 1_448),
            bytes: 1_448,
            frame_bytes: 1_514,
            segments: 1,
            flags: TcpFlags(0x18),
            retransmission: i % 30 == 0,
            sched: at(0),
            driver: at(2_000 + noise),
            ack: at(2_050_000 + noise).filter(|_| dropped.is_none()),
            gap: (i > 1).then_some(Nanos(900_000 + noise)),
            dropped: dropped.clone(),
        })));
        for stamps in [
            DatagramStamps::Sent { send: at(0), sched: at(1_500), driver: at(3_000 + noise) },
            DatagramStamps::Received { driver_rx: at(0), udp_rx: at(500), ready: at(900), read: at(900 + wakeup) },
        ] {
            let socket = ConnectionId(77);
            let dropped = dropped.clone();
            let one = Datagram { socket, owner: owner(1), local, remote, bytes: 1_200, segments: 1, stamps, dropped };
            events.push(Event::Datagram(Box::new(one)));
        }
    }
    events
}

/// One send of 100 bytes, 1 µs after the start, acknowledged after 50 ms.
pub fn send() -> Send {
    let at = Instant::from_nanos;
    Send {
        connection: ConnectionId(7),
        owner: Owner { pid: 4_321, comm: Comm::from("curl") },
        thread: None,
        first_seq: SeqNumber(1),
        bytes: 100,
        stamps: Stamps {
            sched: Some(at(2_000)),
            driver: Some(at(3_000)),
            ack: Some(at(50_003_000)),
            ..Stamps::sent_at(at(1_000))
        },
        state: SenderState { cwnd: 10, ..SenderState::default() },
        buffer: None,
        wait: Some(Waits::of(WaitReason::SentAtOnce, Nanos(0))),
        retransmissions: 0,
        unacknowledged: None,
        ack_alone: None,
    }
}

/// Of a trace of every send that came to its end and recorded nothing beside.
pub fn provenance() -> store::Provenance {
    store::Provenance {
        version: "0.0.0".into(),
        command_line: vec!["wirelapse".into(), "trace".into(), "it's".into()],
        host: None,
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        cpus: 2,
        backend: "timestamping".into(),
        target: "port 80".into(),
        sampling: store::SamplingAsked { method: store::SamplingMethod::Every, one_in: 1 },
        max_rate: None,
        cost_ppm: None,
        min_latency: None,
        kept_one_in: None,
        clock_stepped_ns: None,
        clock: store::ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
        start_ns: 1_000_000_000,
        calls: None,
        receiving: None,
        connects: None,
        http: None,
        packets: None,
        fired: None,
        dns: None,
    }
}
