//! What is said of one connection.

use std::net::{Ipv4Addr, SocketAddr};

use record::conversation::{
    Acknowledging, Budget, ConversationRow, Direction, Ending, Finding, FindingKind, FindingRow, HeaderBytes, Limit,
    OptionState, Retransmissions, Side, Verdict, Way, Withheld,
};
use record::{Nanos, columns, json};
use wire::Flags;

use crate::connection::{Connection, scale, segment_limit};
use crate::findings::{self, Case};
use crate::half::Half;
use crate::idle::Idle;
use crate::kept::Record;
use crate::next;
use crate::retransmission::Class;
use crate::together::Paths;
use crate::unclear::Unclear;
use crate::vantage::Vantage;

/// All about one connection.
#[derive(Clone, Debug)]
pub struct Report {
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
    /// What is said of it in one line, which ends in what to do.
    pub verdict: Verdict,
    /// The limit to which the time belongs that what to do would save: the largest one, or
    /// `step_instead` says why it is another.
    pub step_shortens: Limit,
    /// Why what to do does not shorten the largest limit; `None` where it does.
    pub step_instead: Option<String>,
    /// Its duration by what limited it; adds up exactly.
    pub limits: Budget,
    /// Why most of the time that is not known is not known, where several causes look the same.
    pub unclear: Option<Unclear>,
    /// The sides that the application's share of it belongs to; they add up to it.
    pub idle: Idle,
    /// The handshake is in the capture, both ways.
    pub handshake_seen: bool,
    /// Both sides opened it at once.
    pub simultaneous_open: bool,
    /// How it ended.
    pub ending: Ending,
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
    /// Figures that broke their bounds and are not given: mistakes of this program.
    pub broken_claims: u32,
    /// Its packets, where they were kept.
    pub records: Vec<Record>,
    /// Packets that found no room among the kept ones.
    pub records_left_out: u64,
}

columns! {
    Report: "connection", "connection", blank = Self::blank();
    number = |r| r.number as u64, "its number, from 1 in the order of first packets";
    client = client, "who opened it; by the ports where the handshake is not in the capture";
    server = server, "who was called";
    start_ns = start_ns, "its first packet, on the capture's clock";
    duration_ns = duration_ns, "from its first packet to its last";
    verdict = |r| r.verdict.to_string(), "what is said of it in one line, which ends in what to do";
    step_shortens = |r| r.step_shortens, "the limit to which the time belongs that what to do would save: the largest one, or the line says why it is another";
    limits = limits, "its duration by what limited it; adds up exactly";
    unclear = |r| r.unclear.map(Unclear::reason), null "no time is, or its cause is plain", "why most of the time that is not known is not known, where several causes look the same";
    idle = idle, "the sides that the application's share of it belongs to; they add up to it";
    handshake_seen = handshake_seen, "the handshake is in the capture, both ways";
    simultaneous_open = simultaneous_open, "both sides opened it at once";
    ending = ending, "how it ended";
    vantage = vantage, "where the capture was taken";
    window_scaling = window_scaling, "window scaling";
    sack = sack, "SACK";
    timestamps = timestamps, "timestamps";
    ecn = ecn, "ECN, classic (RFC 3168) or accurate (RFC 9768)";
    accurate_ecn = accurate_ecn, "accurate ECN was asked for and answered";
    backwards = backwards, "packets that have an earlier time than the one before";
    to_server = to_server, "from the client to the server";
    to_client = to_client, "from the server to the client";
    findings = findings, "what was found, the costliest first";
    withheld = withheld, "what this capture can neither show nor rule out, and why";
    broken_claims = |r| u64::from(r.broken_claims), "figures that broke their bounds and are not given: mistakes of this program";
    records_left_out = records_left_out, "packets that found no room among the kept ones";
}

pub(crate) fn make(number: usize, c: &Connection, paths: &Paths) -> Report {
    let case = Case::new(c, paths);
    let (findings, withheld) = findings::draw(&case);
    let limits = case.budgets[0].plus(&case.budgets[1]);
    let step = next::step(&case, &limits, &findings);
    let duration = case.duration;
    let [client, server] = &c.halves;
    let reset = client.anomalies.reset.is_some() || server.anomalies.reset.is_some();
    let ending = match (client.fin.is_some(), server.fin.is_some()) {
        _ if reset => Ending::Reset,
        (true, true) => Ending::Closed,
        (false, false) => Ending::Open,
        _ => Ending::HalfClosed,
    };
    let report = Report {
        number,
        client: c.client(),
        server: c.server(),
        start_ns: c.first_at,
        duration_ns: duration,
        verdict: Verdict { step: Some(step.to_string()), ..verdict(&case, &limits, &findings) },
        step_shortens: step.shortens,
        step_instead: step.instead,
        limits,
        unclear: case.unclear(),
        idle: case.idle,
        handshake_seen: client.offered.seen && server.offered.seen,
        simultaneous_open: c.halves.iter().any(|h| h.anomalies.simultaneous),
        ending,
        vantage: case.vantage,
        window_scaling: option(c, |h| h.offered.window_scale.is_some()),
        sack: option(c, |h| h.offered.sack),
        timestamps: option(c, |h| h.offered.timestamps),
        ecn: ecn(c),
        accurate_ecn: case.is_accurate_ecn(),
        backwards: c.steps.as_ref().map_or(0, |s| s.backwards.into()),
        to_server: Direction { rounds: rounds(&case, Way::ToServer), ..direction(&c.halves, Way::ToServer) },
        to_client: Direction { rounds: rounds(&case, Way::ToClient), ..direction(&c.halves, Way::ToClient) },
        findings,
        withheld,
        broken_claims: case.claims.broken(),
        records: c.recorder.as_ref().map(|r| r.records.clone()).unwrap_or_default(),
        records_left_out: c.recorder.as_ref().map_or(0, |r| r.left_out),
    };
    debug_assert_eq!(report.contradiction(), None);
    report
}

impl Report {
    /// What was seen of a direction.
    pub const fn of(&self, way: Way) -> &Direction {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }

    /// Appends it as one JSON object, without a line's end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        json::object(out, self);
    }

    /// Its row in a run.
    pub fn row(&self) -> ConversationRow {
        ConversationRow {
            number: self.number as u64,
            client: self.client,
            server: self.server,
            start_ns: Nanos(self.start_ns),
            duration_ns: self.duration_ns,
            verdict: self.verdict.clone(),
            ending: self.ending,
            to_server: (&self.to_server).into(),
            to_client: (&self.to_client).into(),
            limits: self.limits,
        }
    }

    /// The rows of its findings.
    pub fn finding_rows(&self) -> impl Iterator<Item = FindingRow> {
        self.findings.iter().map(|f| f.row(self.number as u64))
    }

    fn blank() -> Self {
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self {
            number: 0,
            client: nowhere,
            server: nowhere,
            start_ns: 0,
            duration_ns: Nanos::ZERO,
            verdict: Verdict::default(),
            step_shortens: Limit::Unknown,
            step_instead: None,
            limits: Budget::default(),
            unclear: None,
            idle: Idle::default(),
            handshake_seen: false,
            simultaneous_open: false,
            ending: Ending::default(),
            vantage: Vantage::default(),
            window_scaling: OptionState::default(),
            sack: OptionState::default(),
            timestamps: OptionState::default(),
            ecn: OptionState::default(),
            accurate_ecn: false,
            backwards: 0,
            to_server: Direction::default(),
            to_client: Direction::default(),
            findings: Vec::new(),
            withheld: Vec::new(),
            broken_claims: 0,
            records: Vec::new(),
            records_left_out: 0,
        }
    }

    /// What of it cannot be so; `None` where all figures agree with one another.
    pub fn contradiction(&self) -> Option<String> {
        let duration = self.duration_ns;
        if self.broken_claims > 0 {
            return Some(format!("{} claims broke their bounds", self.broken_claims));
        }
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
        if self.step_shortens != largest && self.step_instead.is_none() {
            return Some(format!("{largest:?} is the largest limit, and the advice is on {:?}", self.step_shortens));
        }
        let whole = |word: &str| word.parse::<f64>().is_ok_and(|share| share > 100.0);
        self.findings.iter().find_map(|f| {
            let words: Vec<&str> = f.text.split([' ', '(', ')', ',', ';']).collect();
            words.windows(2).any(|w| w[1].starts_with('%') && whole(w[0])).then(|| format!("{}: {}", f.kind, f.text))
        })
    }
}

/// Rounds of direction `way` that there was time for: a round takes the path's round trip at least,
/// and one is under way at the end.
fn rounds(case: &Case<'_>, way: Way) -> u32 {
    let possible = case.vantage.whole().map_or(u64::MAX, |rtt| (case.duration.0 / rtt.0.max(1)).saturating_add(1));
    case.c.halves[way].rounds.count.min(u32::try_from(possible).unwrap_or(u32::MAX))
}

/// Where it was captured, if that decides what can be said; the largest limit; then the finding
/// that cost most.
fn verdict(case: &Case<'_>, limits: &Budget, findings: &[Finding]) -> Verdict {
    let (c, duration) = (case.c, case.duration);
    let bytes: u64 = c.halves.iter().map(|h| h.count.unique_bytes).sum();
    if !case.vantage.shows_time() {
        let limited = format!("captured {}: what limited it is not known from here", case.vantage.evidence());
        return Verdict { limited, finding: findings.first().map(in_words), step: None };
    }
    if !c.established {
        let never = findings.iter().find(|f| matches!(f.kind, FindingKind::Reset | FindingKind::SynRetries));
        let limited = never.map_or("no handshake was completed".into(), |f| f.text.clone());
        return Verdict { limited, ..Verdict::default() };
    }
    let largest = limits.largest();
    let application = limits.of(Limit::Application).0;
    let rest = duration.0.saturating_sub(application);
    // What the application left is judged by itself: a user notices 100 ms, however long the
    // connection lay idle.
    let noticeable = (duration.0 / 20).min((rest / 10 * 3).max(100_000_000));
    let costly = findings.iter().find(|f| f.cost_ns.0 >= noticeable.max(1) && f.kind != FindingKind::SenderApplication);
    let share_of = |limit: Limit| quantity::percent(quantity::share(limits.of(limit).0.into(), duration.0.into()));
    let (share, leading) = (share_of(largest), limits.leading());
    let limited = if duration.0 == 0 {
        "over within one tick of the capture's clock".to_owned()
    } else if largest == Limit::Application {
        let (most, side) = case.idle.parts()[0];
        let side = format!("{side}: {}", quantity::percent(quantity::share(most.0.into(), duration.0.into())));
        let slowed = costly.map_or(": TCP was not the limit", |_| "");
        format!("{} of the {duration} ({side}){slowed}", took(largest, &share))
    } else if largest == Limit::Unknown && limits.of(leading[0]) > limits.of(Limit::Unknown) {
        undecided(limits, duration, &share_of)
    } else if largest == Limit::Unknown {
        let why = case.unclear().map_or(String::new(), |why| format!(": {}", why.reason()));
        format!("what limited it is not known from here for {share} of the {duration}{why}")
    } else if largest == Limit::LossRecovery {
        format!("lost packets cost the most: {share} of the {duration} went into recovering them")
    } else {
        format!("{} of the {duration}", took(largest, &share))
    };
    let (limited, finding) = match costly {
        Some(f) if f.cost_ns.0 < duration.0 / 20 => {
            let (rest, words) = (Nanos(rest), f.kind.words());
            (limited, Some(format!("of the other {rest}, {words} took {}: {}", f.cost_ns, f.text)))
        }
        Some(f) => (limited, Some(in_words(f))),
        None => (format!("{limited} ({} transferred)", quantity::bytes(bytes)), None),
    };
    Verdict { limited, finding, step: None }
}

/// That more than one limit may have been the largest, where the largest known one is.
fn undecided(limits: &Budget, duration: Nanos, share_of: &dyn Fn(Limit) -> String) -> String {
    let parts = limits.leading().map(|limit| took(limit, &share_of(limit)));
    let hidden = share_of(Limit::Unknown);
    if limits.is_near(Limit::Unknown) {
        return format!("{} of the {duration}; what took {hidden} cannot be told from here", parts[0]);
    }
    let why = if limits.is_near(limits.leading()[1]) {
        "shares are good to some 10 points".to_owned()
    } else {
        format!("{hidden} cannot be told from here")
    };
    format!("of the {duration}, {}; which was more is not known, since {why}", parts.join(" and "))
}

/// That a limit took a share of the time, without what it is a share of.
fn took(limit: Limit, share: &str) -> String {
    let verb = match limit {
        Limit::CongestionWindow | Limit::ReceiveWindow | Limit::PathRate => "was the limit for",
        _ => "took",
    };
    format!("{} {verb} {share}", limit.words())
}

fn in_words(f: &Finding) -> String {
    format!("{}: {}", f.kind.words(), f.text)
}

fn option(c: &Connection, offered: fn(&Half) -> bool) -> OptionState {
    let by = |h: &Half| match (h.offered.seen, offered(h), h.offered.cut) {
        (false, _, _) | (true, false, true) => None,
        (true, yes, _) => Some(yes),
    };
    let (client, server) = (by(&c.halves[0]), by(&c.halves[1]));
    let (in_use, left_out_by) = match (client, server) {
        (Some(true), Some(true)) => (Some(true), None),
        (Some(false), _) => (Some(false), Some(Side::Client)),
        (_, Some(false)) => (Some(false), client.map(|_| Side::Server)),
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
        (Some(false), _) => Some(Side::Client),
        (Some(true), Some(false)) => Some(Side::Server),
        _ => None,
    };
    OptionState { client: asked, server: answered, in_use, left_out_by }
}

fn direction(halves: &[Half; 2], way: Way) -> Direction {
    let (h, p) = (&halves[way], &halves[!way]);
    let c = &h.count;
    let in_use = scale(h, p);
    let by = |class: Class| h.anomalies.by_class[class as usize];
    Direction {
        packets: c.packets,
        payload_packets: c.payload_packets,
        unique_bytes: c.unique_bytes,
        retransmitted_bytes: h.anomalies.retransmitted_bytes,
        retransmitted_packets: h.anomalies.retransmitted_packets,
        spurious_retransmissions: h.anomalies.spurious,
        retransmissions: Retransmissions {
            timeout: by(Class::Timeout),
            fast: by(Class::Fast),
            sack_recovery: by(Class::SackRecovery),
            tail_loss_probe: by(Class::TailLossProbe),
            timer: by(Class::Timer),
            syn: by(Class::Syn),
            unclear: by(Class::Unclear),
        },
        lost_before_capture: h.anomalies.unseen_original,
        out_of_order_packets: h.anomalies.out_of_order,
        reordered_beyond: h.anomalies.reordered_beyond,
        reorder_extent_bytes: h.anomalies.reorder_extent,
        pure_acks: c.pure_acks,
        duplicate_acks: h.anomalies.duplicate_acks,
        sack_acks: h.anomalies.sack_acks,
        zero_window_packets: h.anomalies.zero_windows,
        keep_alives: h.anomalies.keep_alives,
        window_probes: h.anomalies.window_probes,
        larger_than_mss: h.anomalies.larger_than_mss,
        capture_copies: h.anomalies.capture_copies,
        unseen_bytes: h.unseen_bytes(),
        mss: h.offered.mss,
        segment_bytes: h.sizes.largest(),
        segment_limit: segment_limit(halves, way),
        window_scale: h.offered.window_scale,
        window_scale_in_use: in_use,
        window_scale_inferred: (in_use.is_none() && c.packets > 0).then_some(h.window.least_scale()),
        sack_permitted: h.offered.sack,
        timestamps: h.offered.timestamps,
        mptcp: h.offered.mptcp,
        fast_open: h.offered.fast_open,
        ce_marks: h.anomalies.ce_marks,
        damaged_packets: h.anomalies.damage.as_ref().map_or(0, |d| d.count),
        wrong_checksums: h.anomalies.damage.as_ref().map_or(0, |d| d.unclear),
        checksum_offload: h.checksums.offloaded,
        header_bytes: HeaderBytes(h.headers.with(&h.anomalies)),
        max_window: h.window.largest(),
        max_in_flight: h.space.peak(),
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
        idle_times: h.anomalies.idle.0,
        idle_ns: Nanos(h.anomalies.idle.1),
        longest_idle_ns: Nanos(h.anomalies.idle.2),
        window_full_packets: h.anomalies.full_windows,
        rounds: h.rounds.count,
        ecn_echoes: h.anomalies.ece,
        window_reductions: h.anomalies.cwr,
        rtt_to_sender: h.sender.as_ref().filter(|s| s.is_known()).map(|s| s.samples.summary()).unwrap_or_default(),
    }
}
