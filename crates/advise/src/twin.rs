//! The twin: what is built of a connection's conditions.

use std::collections::BTreeMap;

use diagnose::conditions::{Conditions, Host, Lane};
use lab::{BitRate, Config, Depth, Direction, Loss, Side};
use record::Nanos;
use record::conversation::Way;
use record::script::Script;
use traffic::SocketOptions;

/// One of the twin's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Its sysctls.
    pub sysctls: BTreeMap<String, String>,
    /// The options of its socket.
    pub options: SocketOptions,
    /// The initial congestion window of its route, where that is not the kernel's.
    pub initial_window: Option<u32>,
    /// The initial receive window of its route, segments, where that is not the kernel's.
    pub initial_receive_window: Option<u32>,
    /// The longest that its socket's ACKs are delayed, where that is not the kernel's.
    pub delayed_ack: Option<Nanos>,
}

/// A path, two hosts and two programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Twin {
    /// The path: host a is the client's, host b the server's.
    pub path: Config,
    /// The client's host and the server's.
    pub ends: [End; 2],
    /// What the programs do.
    pub script: Script,
    /// How often they do it on one connection; the last time counts.
    pub passes: u32,
    /// The client's first write goes with its SYN.
    pub fast_open: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

/// The smallest MTU of a lab; a smaller MSS is announced by the client's socket.
const LEAST_MTU: u32 = 1_280;
const MOST_MTU: u32 = 65_521;
/// The kernel's.
const INITIAL_WINDOW: u32 = 10;
/// The kernel's least (`TCP_DELACK_MIN`); it cannot be made to delay them for longer.
const DELAYED_ACK: Nanos = Nanos::from_millis(40);

impl Twin {
    /// That of a connection.
    pub fn of(c: &Conditions) -> Self {
        let delay = Nanos(c.round_trip.value.0 / 2);
        let mtu = c.mtu.value;
        let headers = if c.client.is_ipv6() { 60 } else { 40 };
        let mut ends = c.hosts.each_ref().map(|host| end(host, &c.congestion_control.value));
        if mtu < LEAST_MTU {
            ends[0].options.mss_bytes = u16::try_from(mtu.saturating_sub(headers)).ok();
        }
        let path = Config {
            a_to_b: direction(&c.lanes[0], delay, mtu),
            b_to_a: direction(&c.lanes[1], delay, mtu),
            mtu: mtu.clamp(LEAST_MTU, MOST_MTU),
            ..Config::default()
        };
        Self { path, ends, script: c.script.clone(), passes: 1, fast_open: false, ipv6: c.client.is_ipv6() }
    }

    /// The host that sends the data of a direction.
    pub fn sender(&mut self, way: Way) -> &mut End {
        &mut self.ends[way as usize]
    }

    /// The host that receives them.
    pub fn receiver(&mut self, way: Way) -> &mut End {
        &mut self.ends[(!way) as usize]
    }

    /// That direction of the path.
    pub fn lane(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::ToServer => &mut self.path.a_to_b,
            Way::ToClient => &mut self.path.b_to_a,
        }
    }

    /// The lab's name of the client's or the server's host.
    pub(crate) const SIDES: [Side; 2] = Side::ALL;
}

fn end(host: &Host, congestion: &str) -> End {
    // The kernel takes twice what a program asks for, lets a writer go on when a third of that is
    // free, and counts some more than the bytes.
    let drains = host.drains_to.as_ref().map(|level| level.value / 6 * 5);
    let send_buffer = drains.or(host.send_limit.as_ref().map(|limit| limit.value));
    let switch = |name: &str, on: bool| (format!("net.ipv4.tcp_{name}"), u8::from(on).to_string());
    End {
        sysctls: [
            switch("window_scaling", host.window_scaling.value),
            switch("sack", host.sack.value),
            switch("timestamps", host.timestamps.value),
        ]
        .into(),
        options: SocketOptions {
            nodelay: host.nodelay.value.then_some(true),
            congestion_control: Some(congestion.into()),
            receive_buffer_bytes: host.receive_window.as_ref().map(|w| u32::try_from(w.value).unwrap_or(u32::MAX / 2)),
            send_buffer_bytes: send_buffer.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX / 2)),
            ..SocketOptions::default()
        },
        initial_window: Some(host.initial_window.value).filter(|n| *n != INITIAL_WINDOW),
        initial_receive_window: None,
        delayed_ack: host.delayed_ack.as_ref().map(|delay| delay.value).filter(|delay| *delay < DELAYED_ACK),
    }
}

fn direction(lane: &Lane, delay: Nanos, mtu: u32) -> Direction {
    let rate = lane.rate.as_ref().and_then(|rate| BitRate::new(rate.value.clamp(1_000, 100_000_000_000)));
    // A queue holds some full segments at least.
    let least = rate.map_or(0, |rate| 8 * 4 * u64::from(mtu + 38) * 1_000_000_000 / rate.bits().max(1));
    Direction {
        delay,
        queue: rate.map(|_| Depth::Time(Nanos(lane.queue.value.0.max(least).min(lab::LONGEST.0)))),
        rate,
        reorder: lane.reordering.as_ref().map(|of| lab::Reorder { share: of.value.share, by: of.value.by }),
        black_hole: lane.black_hole.as_ref().map(|of| of.value),
        loss: if lane.loss.value > 0.0 { Loss::Independent(lane.loss.value) } else { Loss::None },
        ..Direction::default()
    }
}
