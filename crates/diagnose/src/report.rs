//! What is said of one connection.

use std::net::SocketAddr;

use record::Nanos;
use serde::Serialize;
use wire::Flags;

use crate::budget::{Budget, Limit};
use crate::connection::{Connection, TO_CLIENT, TO_SERVER, scale, segment_limit};
use crate::distribution::Quantiles;
use crate::findings::{self, Case, Finding, Withheld};
use crate::half::Half;
use crate::idle::Idle;
use crate::kept::Record;
use crate::next;
use crate::retransmission::Class;
use crate::unclear::Unclear;
use crate::vantage::Vantage;

/// TCP header lengths: bytes and how many packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderBytes(pub Vec<(u8, u32)>);

/// As an object with the lengths as keys.
impl Serialize for HeaderBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// Retransmissions by what brought them about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retransmissions {
    /// The timer.
    pub timeout: u32,
    /// Duplicate ACKs or SACK.
    pub fast: u32,
    /// Further holes in the same recovery.
    pub sack_recovery: u32,
    /// Tail-loss probes.
    pub tail_loss_probe: u32,
    /// A timer of which it is not known whether it was the retransmission timer or a probe's.
    pub timer: u32,
    /// SYNs; not among `retransmitted_packets`.
    pub syn: u32,
    /// Not known from this capture.
    pub unclear: u32,
}

/// How this side acknowledges what it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Acknowledging {
    /// Pure ACKs that moved the window on.
    pub acks: u64,
    /// Segments that they acknowledged.
    pub segments: u64,
    /// Delayed ACKs: how much later than the path's own delay they came.
    pub delayed: Quantiles,
    /// ACKs of a single segment that came at once.
    pub at_once: u64,
    /// Runs of four or more such ACKs.
    pub quick_ack_phases: u32,
    /// The longest run.
    pub longest_quick_ack_phase: u32,
}

/// One handshake option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OptionState {
    /// The client offered it; `None` where its SYN is not in the capture or was cut short.
    pub client: Option<bool>,
    /// The server did.
    pub server: Option<bool>,
    /// It is in use.
    pub in_use: Option<bool>,
    /// The side that left it out where it is not in use: `client`, `server`. A server may answer only what it was asked,
    /// so where the client left it out, that is the one. A box on the way may have taken it out instead.
    pub left_out_by: Option<&'static str>,
}

/// One direction of a connection; the sender's side of it.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// Packets, copies made by the capture not among them.
    pub packets: u64,
    /// Packets with payload.
    pub payload_packets: u64,
    /// Payload bytes that were seen for the first time.
    pub unique_bytes: u64,
    /// Payload bytes that were seen before. Both together are all payload.
    pub retransmitted_bytes: u64,
    /// Packets that brought data (or a FIN) again, whether or not the capture saw the original.
    pub retransmitted_packets: u64,
    /// Of them, those that were not needed by DSACK or Eifel.
    pub spurious_retransmissions: u32,
    /// Retransmissions by class.
    pub retransmissions: Retransmissions,
    /// Retransmissions of segments that were lost before it reached the capture.
    pub lost_before_capture: u32,
    /// Packets that changed places before the capture.
    pub out_of_order_packets: u32,
    /// Cases where packets changed places beyond the capture, by duplicate ACKs or SACK without a retransmission.
    pub reordered_beyond: u32,
    /// How many bytes a packet was overtaken by at most.
    pub reorder_extent_bytes: u64,
    /// ACKs without payload.
    pub pure_acks: u64,
    /// Duplicate ACKs that this side sent (RFC 5681, section 2).
    pub duplicate_acks: u64,
    /// ACKs with SACK blocks that this side sent.
    pub sack_acks: u64,
    /// Packets that advertise a window of zero.
    pub zero_window_packets: u64,
    /// Keep-alives.
    pub keep_alives: u32,
    /// Probes of the peer's closed window.
    pub window_probes: u32,
    /// Packets larger than the MSS: offload left them whole.
    pub larger_than_mss: u64,
    /// Copies of packets that the capture made itself.
    pub capture_copies: u64,
    /// Bytes that the peer acknowledged and the capture does not hold.
    pub unseen_bytes: u64,
    /// The MSS that this side announced.
    pub mss: Option<u16>,
    /// The largest payload of one segment that was sent.
    pub segment_bytes: u32,
    /// The payload that the handshake lets a segment of this direction carry, timestamps taken off.
    pub segment_limit: Option<u32>,
    /// The window scale that this side offered.
    pub window_scale: Option<u8>,
    /// The scale applied to its windows: 0 without scaling, `None` where the handshake does not show.
    pub window_scale_in_use: Option<u8>,
    /// The least scale that fits what the peer had in flight, where the handshake does not show.
    pub window_scale_inferred: Option<u8>,
    /// This side announced SACK.
    pub sack_permitted: bool,
    /// This side announced timestamps.
    pub timestamps: bool,
    /// This side's SYN has an MPTCP option.
    pub mptcp: bool,
    /// Fast Open on its SYN: the cookie's length, 0 for a request.
    pub fast_open: Option<u8>,
    /// Packets marked "congestion experienced" on their way to the capture.
    pub ce_marks: u32,
    /// Packets with a wrong TCP checksum where checksums are right otherwise: damaged on the way, and not delivered. Their data are among
    /// neither the unique nor the retransmitted bytes.
    pub damaged_packets: u32,
    /// Packets with a wrong TCP checksum of which it cannot be said whether they were damaged: too many are wrong, a packet is larger than
    /// any with a right one, or what was in one arrived all the same.
    pub wrong_checksums: u32,
    /// Its checksums wait for the network card (offload) in some packets, so nothing is known from these.
    pub checksum_offload: bool,
    /// TCP header lengths.
    pub header_bytes: HeaderBytes,
    /// The largest window that this side advertised, in bytes.
    pub max_window: u64,
    /// The most that this side had in flight by its own view, in bytes.
    pub max_in_flight: u32,
    /// From its data passing the capture to the ACK passing it (Karn's rule).
    pub rtt: Quantiles,
    /// The same from timestamp echoes, for connections with 16 samples or more.
    pub rtt_timestamps: Quantiles,
    /// From its SYN (or SYN-ACK) to the answer.
    pub handshake_rtt_ns: Option<Nanos>,
    /// How it acknowledges the other direction's data.
    pub acknowledging: Acknowledging,
    /// Pauses longer than the retransmission timeout with nothing outstanding.
    pub idle_times: u32,
    /// Their sum.
    pub idle_ns: Nanos,
    /// The longest.
    pub longest_idle_ns: Nanos,
    /// How often the sender had filled the receiver's window.
    pub window_full_packets: u64,
    /// Rounds of one RTT with data in them, as the sender went through them.
    pub rounds: u32,
    /// ACKs of this side that echo a congestion mark (ECE), and packets on which it says that it reduced its window (CWR).
    pub ecn_echoes: u32,
    /// The latter.
    pub window_reductions: u32,
    /// From the capture to this direction's sender and back, by its timestamp echoes: with the queue in between. None where the
    /// sender is beside the capture.
    pub rtt_to_sender: Quantiles,
}

/// All about one connection.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `connection`.
    pub kind: &'static str,
    /// Its number, from 1 in the order of first packets.
    pub number: usize,
    /// Who opened it; by the ports where the handshake is not in the capture.
    pub client: SocketAddr,
    /// Who was called.
    pub server: SocketAddr,
    /// Its first packet, on the capture's clock.
    pub start_ns: u64,
    /// From its first packet to its last.
    pub duration_ns: Nanos,
    /// One line, which ends in what to do.
    pub verdict: String,
    /// The limit to which the time belongs that what to do would save: the largest one, or the line says why it is another.
    pub step_shortens: Limit,
    /// Its duration by what limited it; adds up exactly.
    pub limits: Budget,
    /// Why most of the time that is not known is not known, where several causes look the same.
    pub unclear: Option<&'static str>,
    /// The sides that the application's share of it belongs to; they add up to it.
    pub idle: Idle,
    /// The handshake is in the capture, both ways.
    pub handshake_seen: bool,
    /// Both sides opened it at once.
    pub simultaneous_open: bool,
    /// How it ended: `closed`, `reset`, `half_closed` or `open`.
    pub ending: &'static str,
    /// Where the capture was taken.
    pub vantage: Vantage,
    /// Window scaling.
    pub window_scaling: OptionState,
    /// SACK.
    pub sack: OptionState,
    /// Timestamps.
    pub timestamps: OptionState,
    /// ECN, classic (RFC 3168) or accurate (RFC 9768).
    pub ecn: OptionState,
    /// Accurate ECN was asked for and answered.
    pub accurate_ecn: bool,
    /// Packets that have an earlier time than the one before.
    pub backwards: u64,
    /// From the client to the server.
    pub to_server: Direction,
    /// From the server to the client.
    pub to_client: Direction,
    /// What was found, the costliest first.
    pub findings: Vec<Finding>,
    /// What this capture can neither show nor rule out, and why.
    pub withheld: Vec<Withheld>,
    /// Its packets, where they were kept.
    #[serde(skip)]
    pub records: Vec<Record>,
    /// Packets that found no room among the kept ones.
    pub records_left_out: u64,
}

pub(crate) fn make(number: usize, c: &Connection) -> Report {
    let case = Case::new(c);
    let (findings, withheld) = findings::draw(&case);
    let limits = case.budgets[0].plus(&case.budgets[1]);
    let step = next::step(&case, &limits, &findings);
    let duration = case.duration;
    let [client, server] = &c.halves;
    let reset = client.rare.reset.is_some() || server.rare.reset.is_some();
    let ending = match (client.fin.is_some(), server.fin.is_some()) {
        _ if reset => "reset",
        (true, true) => "closed",
        (false, false) => "open",
        _ => "half_closed",
    };
    let report = Report {
        kind: "connection",
        number,
        client: c.client(),
        server: c.server(),
        start_ns: c.first_at,
        duration_ns: duration,
        verdict: format!("{}; what to do: {}", verdict(&case, &limits, &findings), step.text),
        step_shortens: step.shortens,
        limits,
        unclear: case.unclear().map(Unclear::reason),
        idle: case.idle,
        handshake_seen: client.offered.seen && server.offered.seen,
        simultaneous_open: c.halves.iter().any(|h| h.rare.simultaneous),
        ending,
        vantage: case.vantage,
        window_scaling: option(c, |h| h.offered.window_scale.is_some()),
        sack: option(c, |h| h.offered.sack),
        timestamps: option(c, |h| h.offered.timestamps),
        ecn: ecn(c),
        accurate_ecn: case.is_accurate_ecn(),
        backwards: c.steps.as_ref().map_or(0, |s| s.backwards.into()),
        to_server: Direction { rounds: rounds(&case, TO_SERVER), ..direction(&c.halves, TO_SERVER) },
        to_client: Direction { rounds: rounds(&case, TO_CLIENT), ..direction(&c.halves, TO_CLIENT) },
        findings,
        withheld,
        records: c.recorder.as_ref().map(|r| r.records.clone()).unwrap_or_default(),
        records_left_out: c.recorder.as_ref().map_or(0, |r| r.left_out),
    };
    debug_assert_eq!(report.contradiction(), None);
    report
}

impl Report {
    /// What of it cannot be so; `None` where all figures agree with one another.
    pub fn contradiction(&self) -> Option<String> {
        let duration = self.duration_ns;
        if self.limits.total() != duration {
            return Some(format!("limits of {} in {duration}: {:?}", self.limits.total(), self.limits));
        }
        let idle: Nanos = self.idle.parts().into_iter().map(|p| p.0).sum();
        if idle != self.limits.of(Limit::Application) {
            return Some(format!("the application's parts are {idle}: {:?}, {:?}", self.idle, self.limits));
        }
        for d in [&self.to_server, &self.to_client] {
            let least = self.vantage.whole().map_or(0, |rtt| rtt.0.saturating_mul(d.rounds.saturating_sub(1).into()));
            if least > duration.0 {
                return Some(format!("{} rounds of {:?} in {duration}", d.rounds, self.vantage.whole()));
            }
        }
        let costly = self.findings.iter().find(|f| f.cost_ns > duration);
        if let Some(f) = costly {
            return Some(format!("{} cost {} of {duration}", f.kind, f.cost_ns));
        }
        let largest = self.limits.largest();
        if self.step_shortens != largest && !self.verdict.contains(next::INSTEAD) {
            return Some(format!("{largest:?} is the largest limit, and the advice is on {:?}", self.step_shortens));
        }
        let whole = |word: &str| word.parse::<f64>().is_ok_and(|share| share > 100.0);
        self.findings.iter().find_map(|f| {
            let words: Vec<&str> = f.text.split([' ', '(', ')', ',', ';']).collect();
            words.windows(2).any(|w| w[1].starts_with('%') && whole(w[0])).then(|| format!("{}: {}", f.kind, f.text))
        })
    }
}

/// Rounds of direction `dir` that there was time for: a round takes the path's round trip at least, and one is under way at the end.
fn rounds(case: &Case<'_>, dir: usize) -> u32 {
    let possible = case.vantage.whole().map_or(u64::MAX, |rtt| (case.duration.0 / rtt.0.max(1)).saturating_add(1));
    case.c.halves[dir].rounds.count.min(u32::try_from(possible).unwrap_or(u32::MAX))
}

/// Where it was captured, if that decides what can be said; the largest limit; then the finding that cost most.
fn verdict(case: &Case<'_>, limits: &Budget, findings: &[Finding]) -> String {
    let (c, duration) = (case.c, case.duration);
    let bytes: u64 = c.halves.iter().map(|h| h.count.unique_bytes).sum();
    if !case.vantage.shows_time() {
        let seen = findings.first().map_or(String::new(), |f| format!("; {}: {}", f.words, f.text));
        return format!("captured {}: what limited it is not known from here{seen}", case.vantage.evidence());
    }
    if !c.established {
        let never = findings.iter().find(|f| f.kind == "reset" || f.kind == "syn_retries");
        return never.map_or("no handshake was completed".into(), |f| f.text.clone());
    }
    let largest = limits.largest();
    let application = limits.of(Limit::Application).0;
    let rest = duration.0.saturating_sub(application);
    // What the application left is judged by itself: a user notices 100 ms, however long the connection lay idle.
    let noticeable = (duration.0 / 20).min((rest / 10 * 3).max(100_000_000));
    let costly = findings.iter().find(|f| f.cost_ns.0 >= noticeable.max(1) && f.kind != "sender_application");
    let share = quantity::percent(quantity::share(limits.of(largest).0.into(), duration.0.into()));
    let limited = if duration.0 == 0 {
        "over within one tick of the capture's clock".to_owned()
    } else if largest == Limit::Application {
        let (most, side) = case.idle.parts()[0];
        let side = format!("{side} {}", quantity::percent(quantity::share(most.0.into(), duration.0.into())));
        let slowed = costly.map_or(": TCP held nothing up that mattered", |_| "");
        format!("{} {share} of {duration} ({side}){slowed}", largest.words())
    } else if largest == Limit::Unknown {
        let why = case.unclear().map_or(String::new(), |why| format!(": {}", why.reason()));
        format!("what limited it is not known from here for {share} of {duration}{why}")
    } else {
        format!("{} {share} of {duration}", largest.words())
    };
    match costly {
        Some(f) if f.cost_ns.0 < duration.0 / 20 => {
            format!("{limited}; of the other {}, {} took {}: {}", Nanos(rest), f.words, f.cost_ns, f.text)
        }
        Some(f) => format!("{limited}; {}: {}", f.words, f.text),
        None => format!("{limited} ({bytes} bytes)"),
    }
}

fn option(c: &Connection, offered: fn(&Half) -> bool) -> OptionState {
    let by = |h: &Half| match (h.offered.seen, offered(h), h.offered.cut) {
        (false, _, _) | (true, false, true) => None,
        (true, yes, _) => Some(yes),
    };
    let (client, server) = (by(&c.halves[0]), by(&c.halves[1]));
    let (in_use, left_out_by) = match (client, server) {
        (Some(true), Some(true)) => (Some(true), None),
        (Some(false), _) => (Some(false), Some("client")),
        (_, Some(false)) => (Some(false), client.map(|_| "server")),
        _ => (None, None),
    };
    OptionState { client, server, in_use, left_out_by }
}

/// On the SYN both bits ask; on the SYN-ACK, ECE without CWR answers (RFC 3168, section 6.1.1).
fn ecn(c: &Connection) -> OptionState {
    let [client, server] = &c.halves;
    let asked = client.offered.seen.then(|| client.offered.flags.contains(Flags::ECE | Flags::CWR));
    let answered = server.offered.seen.then(|| server.offered.flags.intersects(Flags::ECE | Flags::CWR | Flags::AE));
    let in_use = asked.zip(answered).map(|(a, b)| a && b);
    let left_out_by = match (asked, answered) {
        (Some(false), _) => Some("client"),
        (Some(true), Some(false)) => Some("server"),
        _ => None,
    };
    OptionState { client: asked, server: answered, in_use, left_out_by }
}

fn direction(halves: &[Half; 2], dir: usize) -> Direction {
    let (h, p) = (&halves[dir], &halves[1 - dir]);
    let c = &h.count;
    let in_use = scale(h, p);
    let by = |class: Class| h.rare.by_class[class as usize];
    Direction {
        packets: c.packets,
        payload_packets: c.payload_packets,
        unique_bytes: c.unique_bytes,
        retransmitted_bytes: h.rare.retransmitted_bytes,
        retransmitted_packets: h.rare.retransmitted_packets,
        spurious_retransmissions: h.rare.spurious,
        retransmissions: Retransmissions {
            timeout: by(Class::Timeout),
            fast: by(Class::Fast),
            sack_recovery: by(Class::SackRecovery),
            tail_loss_probe: by(Class::TailLossProbe),
            timer: by(Class::Timer),
            syn: by(Class::Syn),
            unclear: by(Class::Unclear),
        },
        lost_before_capture: h.rare.unseen_original,
        out_of_order_packets: h.rare.out_of_order,
        reordered_beyond: h.rare.reordered_beyond,
        reorder_extent_bytes: h.rare.reorder_extent,
        pure_acks: c.pure_acks,
        duplicate_acks: h.rare.duplicate_acks,
        sack_acks: h.rare.sack_acks,
        zero_window_packets: h.rare.zero_windows,
        keep_alives: h.rare.keep_alives,
        window_probes: h.rare.window_probes,
        larger_than_mss: h.rare.larger_than_mss,
        capture_copies: h.rare.capture_copies,
        unseen_bytes: h.unseen_bytes(),
        mss: h.offered.mss,
        segment_bytes: h.segment_size,
        segment_limit: segment_limit(halves, dir),
        window_scale: h.offered.window_scale,
        window_scale_in_use: in_use,
        window_scale_inferred: (in_use.is_none() && c.packets > 0).then_some(h.least_scale),
        sack_permitted: h.offered.sack,
        timestamps: h.offered.timestamps,
        mptcp: h.offered.mptcp,
        fast_open: h.offered.fast_open,
        ce_marks: h.rare.ce_marks,
        damaged_packets: h.rare.damage.as_ref().map_or(0, |d| d.count),
        wrong_checksums: h.rare.damage.as_ref().map_or(0, |d| d.unclear),
        checksum_offload: h.checksums.offloaded,
        header_bytes: HeaderBytes(h.headers.with(&h.rare)),
        max_window: h.max_window,
        max_in_flight: h.peak,
        rtt: h.rtt.samples.summary(),
        rtt_timestamps: h.rtt.detail.as_ref().map(|d| d.echoes.summary()).unwrap_or_default(),
        handshake_rtt_ns: (h.rtt.handshake != u64::MAX).then_some(Nanos(h.rtt.handshake)),
        acknowledging: Acknowledging {
            acks: h.habits.acks,
            segments: h.habits.segments,
            delayed: h.habits.lateness.as_ref().map(|l| l.acks.summary()).unwrap_or_default(),
            at_once: h.habits.at_once,
            quick_ack_phases: h.habits.phases,
            longest_quick_ack_phase: h.habits.longest_phase,
        },
        idle_times: h.rare.idle.0,
        idle_ns: Nanos(h.rare.idle.1),
        longest_idle_ns: Nanos(h.rare.idle.2),
        window_full_packets: h.rare.full_windows,
        rounds: h.rounds.count,
        ecn_echoes: h.rare.ece,
        window_reductions: h.rare.cwr,
        rtt_to_sender: h.sender.as_ref().filter(|s| s.is_known()).map(|s| s.samples.summary()).unwrap_or_default(),
    }
}
