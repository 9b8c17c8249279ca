//! A made-up trace, the same in every run.

use model::{
    Comm, Connection, ConnectionId, ConnectionTotals, Event, Instant, Merged, Nanos, Opening, Owner, Send, SenderState,
    SeqNumber, Stamps, Wait, WaitReason,
};

/// A generator of numbers that scatter well enough for test data (xorshift, Marsaglia 2003).
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

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
    }
}

/// `sends` sends on each of `connections` connections over a path of 20 ms there and back, one in five held by the window.
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
                bytes: 16_384,
                stamps: Stamps {
                    sched: Some(time(at + tcp)),
                    driver: Some(time(at + tcp + qdisc)),
                    ack: Some(time(at + tcp + qdisc + network)),
                    ..Stamps::sent_at(time(at))
                },
                merged: Merged::default(),
                state: SenderState {
                    cwnd: 10,
                    in_flight: if held { 10 } else { 3 },
                    peer_window: 65_536,
                    unsent: if held { 131_072 } else { 16_384 },
                    mss: 1_448,
                    srtt: Nanos(20_300_000),
                    pacing_rate: u64::MAX,
                    ..SenderState::default()
                },
                wait: Some(if held {
                    let reason =
                        if random.below(6) == 0 { WaitReason::ReceiveWindow } else { WaitReason::CongestionWindow };
                    Wait { reason, by_reason: Nanos(tcp - 100_000) }
                } else {
                    Wait { reason: WaitReason::SentAtOnce, by_reason: Nanos::ZERO }
                }),
                retransmissions: u16::from(random.below(400) == 0),
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
