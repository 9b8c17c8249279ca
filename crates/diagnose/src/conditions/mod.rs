//! Under which conditions a connection ran, as far as its capture shows them: the path, the two
//! hosts and what the programs did. With them it can be run again elsewhere.
//!
//! Each value says how it is known. What the capture does not show is [`Basis::Assumed`], with what
//! was assumed, or stands in [`Conditions::missing`] where nothing can be.

mod path;
mod programs;
mod send_buffer;

use std::net::SocketAddr;

use record::Nanos;
use record::conversation::{Direction, FindingKind, Limit, Side, Way};
use record::script::Script;
use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::vantage::Place;

/// How a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Packets show it.
    Seen,
    /// Packets show that it is no less.
    AtLeast,
    /// They do not show it.
    Assumed,
}

/// A value with how it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Between which values it is, where that can be said.
    pub within: Option<(T, T)>,
    /// How it is known.
    pub basis: Basis,
    /// From what, or why it is assumed.
    pub from: String,
}

impl<T> Known<T> {
    fn seen(value: T, from: &str) -> Self {
        Self { value, within: None, basis: Basis::Seen, from: from.into() }
    }

    fn at_least(value: T, from: &str) -> Self {
        Self { basis: Basis::AtLeast, ..Self::seen(value, from) }
    }

    fn assumed(value: T, why: &str) -> Self {
        Self { basis: Basis::Assumed, ..Self::seen(value, why) }
    }

    fn between(self, low: T, high: T) -> Self {
        Self { within: Some((low, high)), ..self }
    }
}

/// One direction of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Its rate, bits a second on the wire of an Ethernet. `None` where nothing shows it: too
    /// little was sent at once.
    pub rate: Option<Known<u64>>,
    /// How long the queue before it can become.
    #[serde(rename = "queue_ns")]
    pub queue: Known<Nanos>,
    /// The share of segments that it loses whatever its queue does.
    pub loss: Known<f64>,
    /// Packets that brought data again, needed or not.
    pub retransmitted: u64,
    /// How it changes their order; `None` where it was not seen to.
    pub reordering: Option<Known<Reordering>>,
    /// The largest IP packet that it carries, where it swallows larger ones without a word.
    pub black_hole: Option<Known<u32>>,
}

/// Segments that others overtake.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reordering {
    /// The share of segments that are held back, 0 to 1.
    pub share: f64,
    /// By how much.
    #[serde(rename = "by_ns")]
    pub by: Nanos,
}

/// One of the two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// It offers window scaling.
    pub window_scaling: Known<bool>,
    /// It offers SACK.
    pub sack: Known<bool>,
    /// It offers timestamps.
    pub timestamps: Known<bool>,
    /// The receive window at which its buffer stops growing, bytes; `None` where it was never what
    /// the peer waited for.
    pub receive_window: Option<Known<u64>>,
    /// What its send buffer lets be in flight, bytes; `None` where that was never the limit.
    pub send_limit: Option<Known<u64>>,
    /// What it has in flight when it goes on after its send buffer was full, bytes; `None` where no
    /// such pause was seen.
    #[serde(default)]
    pub drains_to: Option<Known<u64>>,
    /// `TCP_NODELAY` is set on its socket.
    pub nodelay: Known<bool>,
    /// Its initial congestion window, segments.
    pub initial_window: Known<u32>,
    /// How long it delays ACKs; `None` where nothing shows that it does.
    #[serde(rename = "delayed_ack_ns")]
    pub delayed_ack: Option<Known<Nanos>>,
    /// Its close waited for an ACK as a small write does: a write of one byte in the script.
    pub held_close: bool,
}

/// A finding, as far as a remedy needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Its kind, by its word.
    pub kind: String,
    /// The direction of the data that it is on, by its word.
    pub direction: Option<String>,
    /// What it cost.
    pub cost_ns: Nanos,
    /// How much sooner the connection would be over without it, at most.
    pub saves_ns: Option<Nanos>,
    /// What was found, for people.
    pub text: String,
}

impl Cause {
    /// Whether it is of this kind, on the data that go that way.
    fn is(&self, kind: FindingKind, way: Way) -> bool {
        self.kind == kind.name() && self.direction.as_deref() == Some(way.name())
    }
}

/// The conditions of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Its number in the capture.
    pub connection: usize,
    /// Who opened it.
    pub client: SocketAddr,
    /// Who was called.
    pub server: SocketAddr,
    /// Where it was captured, in words.
    pub captured: String,
    /// The host next to which it was captured, or the nearer one: `client` or `server`.
    pub near: String,
    /// How long it lasted, from its first packet to its last.
    pub duration_ns: Nanos,
    /// From its first packet to the last with new data or the first ACK of that.
    pub span_ns: Nanos,
    /// What is said of it in one line.
    pub verdict: String,
    /// Its duration by what limited it, by the limit's word.
    pub limits: Vec<(String, Nanos)>,
    /// Whose time the application's is, without the crossing of questions and answers.
    pub programs_ns: [Nanos; 2],
    /// What was found.
    pub causes: Vec<Cause>,
    /// The round trip of the empty path.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Known<Nanos>,
    /// The largest IP packet, bytes.
    pub mtu: Known<u32>,
    /// The path to the server and to the client.
    pub lanes: [Lane; 2],
    /// The client's host and the server's.
    pub hosts: [Host; 2],
    /// The congestion control of both.
    pub congestion_control: Known<String>,
    /// What the programs did.
    pub script: Script,
    /// Why it cannot be run again, where it cannot.
    pub missing: Vec<String>,
}

/// Conditions show no more than this of a connection: what comes after its first packets of so many
/// bytes would take a replay too long.
pub const MOST_BYTES: u64 = 1_000_000_000;

impl Conditions {
    /// Those of a connection whose packets were kept.
    pub fn of(report: &Report) -> Self {
        let mtu = path::mtu(report);
        let programs = programs::read(report);
        let limits = Limit::ALL.into_iter().map(|l| (l.name().to_owned(), report.limits.of(l))).collect();
        let idle = &report.idle;
        let causes = report.findings.iter().map(|f| Cause {
            kind: f.kind.name().into(),
            direction: f.direction.map(|way| way.name().into()),
            cost_ns: f.cost_ns,
            saves_ns: f.saves_ns,
            text: format!("{}: {}", f.kind.words(), f.text),
        });
        let drained = Way::ALL.map(|way| send_buffer::drained(report, way));
        let mut causes: Vec<Cause> = causes.collect();
        for (way, drained) in Way::ALL.into_iter().zip(&drained) {
            let is_found = causes.iter().any(|of| of.is(FindingKind::SendBuffer, way));
            causes.extend(drained.as_ref().filter(|_| !is_found).map(|of| of.cause(way)));
        }
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.cost_ns));
        let span_ns = programs.span;
        Self {
            connection: report.number,
            client: report.client,
            server: report.server,
            captured: report.vantage.evidence(),
            near: near(report).name().into(),
            duration_ns: report.duration_ns,
            span_ns,
            verdict: report.verdict.to_string(),
            limits,
            programs_ns: [
                idle.client_thinking_ns + idle.client_pausing_ns,
                idle.server_thinking_ns + idle.server_pausing_ns,
            ],
            causes,
            round_trip: path::round_trip(report),
            lanes: Way::ALL.map(|way| path::lane(report, way, mtu.value)),
            hosts: Way::ALL.map(|way| host(report, way, &programs, drained[way as usize].as_ref())),
            mtu,
            congestion_control: Known::assumed("cubic".into(), "no packet names it; cubic is the default of Linux"),
            missing: missing(report, &programs.script),
            script: programs.script,
        }
    }

    /// Takes what the kernel of one of its hosts said while it was traced: its congestion control.
    pub fn told(&mut self, congestion_control: String) {
        self.congestion_control = Known::seen(congestion_control, "the traced socket");
    }

    /// How much of the duration belongs to a limit, 0 to 1.
    pub fn share(&self, limit: Limit) -> f64 {
        let of = self.limits.iter().find(|(name, _)| name == limit.name()).map_or(0, |(_, ns)| ns.0);
        quantity::share(of.into(), self.duration_ns.0.into())
    }

    /// The costliest finding of this type.
    pub fn cause(&self, kind: FindingKind) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.kind == kind.name())
    }

    /// The direction that most was found on: of the costliest finding with one, else the one with
    /// more bytes.
    pub fn main_way(&self) -> Way {
        let named = self.causes.iter().filter(|c| c.cost_ns.0 > self.duration_ns.0 / 20);
        let named = named.max_by_key(|c| c.cost_ns).and_then(|c| c.direction.as_deref());
        let by_bytes = || Way::ALL.into_iter().max_by_key(|way| self.script.bytes(*way)).unwrap_or(Way::ToServer);
        named.and_then(|name| Way::ALL.into_iter().find(|way| way.name() == name)).unwrap_or_else(by_bytes)
    }
}

/// What a full segment of a direction carries, bytes: what its handshake allows, else as on
/// Ethernet with timestamps.
fn full_segment(of: &Direction) -> u64 {
    u64::from(of.segment_limit.unwrap_or(1_448)).max(1)
}

/// The host that the capture is nearer to.
fn near(report: &Report) -> Side {
    let v = &report.vantage;
    match v.place {
        Place::NearServer => Side::Server,
        Place::Middle if v.to_server_ns < v.to_client_ns => Side::Server,
        Place::NearClient | Place::Middle | Place::Anywhere | Place::Unknown => Side::Client,
    }
}

/// The host that sends the data of a direction.
fn host(report: &Report, way: Way, programs: &programs::Programs, drained: Option<&send_buffer::Drained>) -> Host {
    let own = report.of(way);
    let offers = |offered: Option<bool>| match offered {
        Some(on) => Known::seen(on, "its SYN"),
        None => Known::assumed(true, "its SYN is not in the capture; Linux offers it"),
    };
    let of = |state: &record::conversation::OptionState| match way {
        Way::ToServer => state.client,
        Way::ToClient => state.server,
    };
    let left_out = |state: &record::conversation::OptionState| {
        state.left_out_by.map(|side| side != way.sender()).or(of(state).filter(|on| *on))
    };
    let found = |kind: FindingKind, data: Way| {
        report.findings.iter().any(|f| f.kind == kind && f.direction.is_none_or(|of| of == data))
    };
    let is_level = found(FindingKind::SendBuffer, way) || drained.is_some_and(|of| of.to_its_size);
    let nodelay = match &programs.nodelay[way as usize] {
        // What waits in the socket would make room for more than the buffer holds.
        known if is_level && known.basis == Basis::Assumed => {
            Known::assumed(true, "what is in flight stays at the send buffer's level, so nothing waits behind it")
        }
        known => known.clone(),
    };
    Host {
        window_scaling: offers(left_out(&report.window_scaling)),
        sack: offers(left_out(&report.sack)),
        timestamps: offers(left_out(&report.timestamps)),
        receive_window: found(FindingKind::ReceiveWindow, !way)
            .then(|| Known::seen(own.max_window, "the largest window that it offered, which the peer filled")),
        send_limit: found(FindingKind::SendBuffer, way)
            .then(|| Known::seen(own.max_in_flight.into(), "the level at which what it had in flight stayed")),
        nodelay,
        initial_window: programs.initial_window[way as usize].clone(),
        delayed_ack: own.acknowledging.delayed.median_ns.map(|delay| {
            let n = quantity::counted(own.acknowledging.delayed.samples, "delayed ACK");
            Known::seen(delay, &format!("the median of {n}, beyond what the path takes"))
        }),
        drains_to: drained.map(|of| of.level.clone()),
        held_close: programs.held_close[way as usize],
    }
}

/// What of it the capture does not hold, so that no other connection can be like it.
fn missing(report: &Report, script: &Script) -> Vec<String> {
    let mut missing = obstacles(report);
    let mut need = |lacks: bool, why: &str| missing.extend(lacks.then(|| why.to_owned()));
    need(script.client.is_empty() && script.server.is_empty(), "it carried no data");
    let ends = script.ends();
    need(!ends, "its packets do not show which program waited for which");
    let bytes = Way::ALL.into_iter().map(|way| script.bytes(way)).sum::<u64>();
    need(bytes > MOST_BYTES, "it carried more than a twin can send in reasonable time");
    missing
}

/// Why a connection cannot be run again, as far as that is known without its packets: none where
/// nothing stands against it so far.
pub fn obstacles(report: &Report) -> Vec<String> {
    let mut missing = Vec::new();
    let mut need = |lacks: bool, why: &str| missing.extend(lacks.then(|| why.to_owned()));
    need(report.vantage.only_direction.is_some(), "the capture holds one direction only: capture both");
    need(
        !report.handshake_seen && report.vantage.only_direction.is_none(),
        "the handshake is not in the capture, so window scales, options and how far the congestion window had grown \
         are not known: capture from the start of the connection",
    );
    need(
        report.vantage.missed_share() > 0.02,
        "packets are missing from the capture: capture again with a larger buffer",
    );
    need(
        report.vantage.out_of_step,
        "ACKs stand before the data that they acknowledge: capture both directions with one clock",
    );
    need(report.vantage.without_acks, "ACKs without data are missing: capture without a display filter");
    need(report.vantage.is_subflow, "it is a subflow of MPTCP, of which the other subflows are not part");
    need(report.backwards > 0, "the clock of the capture stepped backwards");
    missing
}
