//! Findings: conclusions with their evidence, what they cost, and what a remedy is worth.
//!
//! A rule is one file that holds one [`Rule`]; adding one touches that file, [`RULES`], and the
//! list of kinds in `record`.

use record::Nanos;
use record::conversation::{Budget, Finding, FindingKind, Limit, Way, Withheld};
use wire::Flags;

use crate::claims::{Claims, RoundTrip};
use crate::connection::Connection;
use crate::distance::Distance;
use crate::event::Occurrences;
use crate::half::Half;
use crate::idle::Idle;
use crate::ranges::START;
use crate::together::{Paths, Settled};
use crate::unclear::{Times, Unclear};
use crate::vantage::{Vantage, View};

mod bufferbloat;
mod capture;
mod congestion_window;
mod damage;
mod delay_step;
mod delayed_ack;
mod dialogue;
mod ecn;
mod idle_restart;
mod intermediary;
mod loss;
mod mtu;
mod nagle;
mod receive_window;
mod receiver_application;
mod reordering;
mod reset;
mod saving;
mod send_buffer;
mod sender_application;
mod stalls;
mod syn_retries;
mod timestamps;
mod tiny_segments;
mod window_scaling;
mod zero_window;

/// All rules, in the order in which findings of equal cost are given.
static RULES: [Rule; 25] = [
    window_scaling::RULE,
    nagle::RULE,
    delayed_ack::RULE,
    zero_window::RULE,
    receiver_application::RULE,
    receive_window::RULE,
    mtu::RULE,
    loss::RULE,
    damage::RULE,
    reordering::RULE,
    syn_retries::RULE,
    ecn::RULE,
    stalls::RULE,
    bufferbloat::RULE,
    congestion_window::RULE,
    send_buffer::RULE,
    idle_restart::RULE,
    tiny_segments::RULE,
    reset::RULE,
    delay_step::RULE,
    dialogue::RULE,
    intermediary::RULE,
    timestamps::RULE,
    sender_application::RULE,
    capture::RULE,
];

/// Draws a finding of one kind on one connection, or on one direction of it.
struct Rule {
    kind: FindingKind,
    find: fn(&Case<'_>, Way) -> Option<Drawn>,
    /// Asked once for the connection rather than for each direction.
    once: bool,
    /// The limits to which the time belongs that its remedy would save.
    shortens: &'static [Limit],
    /// What the capture must show for it to be drawn at all.
    needs: &'static [View],
    /// What it must show for its absence to mean anything: without, nothing seen is nothing known.
    or_unseen: &'static [View],
}

/// What a rule gives.
#[derive(Default)]
struct Drawn {
    packets: Vec<u64>,
    at: u64,
    count: u64,
    cost: Nanos,
    text: String,
    worth: String,
}

impl Drawn {
    /// What a list of cases gives: its packets, how many there are, and what they cost together.
    fn of(cases: &Occurrences) -> Self {
        Self {
            packets: cases.packets(),
            at: cases.first_at(),
            count: cases.count,
            cost: cases.total,
            ..Self::default()
        }
    }
}

/// A connection as the rules see it.
pub(crate) struct Case<'a> {
    pub(crate) c: &'a Connection,
    pub(crate) budgets: [Budget; 2],
    /// For how long it was unclear what limited a direction, and why.
    unclear: [Times; 2],
    pub(crate) idle: Idle,
    pub(crate) duration: Nanos,
    pub(crate) vantage: Vantage,
    pub(crate) claims: Claims,
}

impl<'a> Case<'a> {
    /// The connection beside the others over its path.
    pub(crate) fn new(c: &'a Connection, paths: &Paths) -> Self {
        let Settled { mut budgets, unclear } = paths.settled(c);
        let (mut idle, vantage) = (c.idle.as_deref().copied().unwrap_or_default(), Vantage::of(c));
        let unexplained = c.unexplained_end();
        if unexplained > 0 {
            idle.take_pauses(unexplained, c.ended_by());
            budgets.iter_mut().fold(unexplained, |left, b| left - b.shift(Limit::Application, Limit::Unknown, left));
        }
        for way in Way::ALL {
            if c.halves[!way].rtt.acknowledged_nearer().is_some() {
                let unresolved = idle.take_thinking(way.sender());
                budgets.iter_mut().fold(unresolved, |left, b| left - b.shift(Limit::Application, Limit::Unknown, left));
            }
        }
        if vantage.is_subflow {
            // A sender that gives this subflow nothing may be busy on another one, and a full
            // window may wait for what another one lost.
            idle.forget();
            for budget in &mut budgets {
                for limit in [Limit::Application, Limit::CongestionWindow, Limit::ReceiveWindow, Limit::AckWaiting] {
                    budget.shift(limit, Limit::Unknown, u64::MAX);
                }
            }
        }
        if !vantage.shows_time() {
            idle.forget();
            budgets.iter_mut().for_each(Budget::forget);
        }
        let application = budgets[0].of(Limit::Application) + budgets[1].of(Limit::Application);
        idle.add_up_to(application, c.waiting_side().sender());
        let duration = Nanos(c.last_at - c.first_at);
        let mut case = Self { c, budgets, unclear, idle, duration, vantage, claims: Claims::default() };
        for way in Way::ALL {
            if case.window_fits_path(way) {
                let full = case.budgets[way].shift(Limit::ReceiveWindow, Limit::Unknown, u64::MAX);
                case.unclear[way].add(Unclear::Fits, full);
            }
        }
        let unknown = case.time(Way::ToServer, Limit::Unknown) + case.time(Way::ToClient, Limit::Unknown);
        case.vantage.unknown_permille = unknown.0.saturating_mul(1_000) / duration.0.max(1);
        case
    }

    /// Whether nothing was seen to get through much faster than the receive window lets it: where
    /// round trips are short, a queue that a full path has does not show.
    fn window_fits_path(&self, way: Way) -> bool {
        const FASTER: f64 = 1.4;
        let (Some(burst), Some(rtt)) = (self.burst_rate(way), self.rtt(way)) else { return false };
        self.keeps_up(way) && burst.0 < FASTER * self.window_rate(way, rtt).0.max(self.rate(way).0)
    }

    /// Whether the receiver of a direction read as fast as data came.
    fn keeps_up(&self, way: Way) -> bool {
        let sent = &self.sender(way).anomalies;
        sent.full_shrunk * 4 <= sent.full_windows && self.receiver(way).anomalies.zero_windows == 0
    }

    /// What the largest receive window that was full lets through with this round trip.
    fn window_rate(&self, way: Way, rtt: Nanos) -> Rate {
        Rate(self.sender(way).anomalies.full_most as f64 * 8.0 / rtt.as_secs_f64().max(1e-6))
    }

    fn sender(&self, way: Way) -> &'a Half {
        &self.c.halves[way]
    }

    fn receiver(&self, way: Way) -> &'a Half {
        &self.c.halves[!way]
    }

    /// Whether it was captured beside the sender of most of the data.
    pub(crate) fn is_beside_sender(&self) -> bool {
        let bytes = |way: Way| self.c.halves[way].count.unique_bytes;
        let way = if bytes(Way::ToClient) > bytes(Way::ToServer) { Way::ToClient } else { Way::ToServer };
        self.c.distance(way) == Distance::Near
    }

    /// The round trip that a window has to span: what the sender's data usually took (the smallest
    /// may be that of a proxy or of an empty path), and the part between capture and sender where
    /// it is known. No shorter than at rest: an echo within the tick of its clock took some time.
    fn rtt(&self, way: Way) -> Option<Nanos> {
        let h = self.sender(way);
        let echoed = h.sender.as_ref().filter(|s| s.is_known());
        let usual = h.rtt.samples.quantile(0.5).or(h.rtt.base().map(Nanos))?;
        let beyond = echoed.and_then(|s| s.samples.quantile(0.5)).or(self.receiver(way).rtt.base().map(Nanos));
        Some((usual + beyond.unwrap_or(Nanos::ZERO)).max(self.rest(way).unwrap_or_default()))
    }

    /// The round trip at rest, as far as its parts are known.
    fn rest(&self, way: Way) -> Option<Nanos> {
        let beyond = self.receiver(way).rtt.base().or(self.sender(way).sender.as_ref().and_then(|s| s.base()));
        Some(Nanos(self.sender(way).rtt.base()?.saturating_add(beyond.unwrap_or(0))))
    }

    /// The round trip that a window has to span, for text.
    fn round_trip(&self, way: Way) -> Option<RoundTrip> {
        RoundTrip::of(&self.claims, self.rtt(way)?, self.rest(way))
    }

    /// Why most of the time that is not known is not known, where several causes look the same.
    pub(crate) fn unclear(&self) -> Option<Unclear> {
        let unknown = self.budgets[0].of(Limit::Unknown) + self.budgets[1].of(Limit::Unknown);
        self.unclear[0].plus(&self.unclear[1]).most(unknown)
    }

    /// How long it was unclear what limited a direction, because several causes look the same. A
    /// window that is named for less time than that may have been none.
    fn unclear_time(&self, way: Way) -> Nanos {
        self.unclear[way].total()
    }

    fn time(&self, way: Way, limit: Limit) -> Nanos {
        self.budgets[way].of(limit)
    }

    /// A limit's part of the connection's duration.
    fn share(&self, way: Way, limit: Limit) -> f64 {
        self.time(way, limit).0 as f64 / (self.duration.0.max(1)) as f64
    }

    /// Bits a second over the connection's duration.
    fn rate(&self, way: Way) -> Rate {
        Rate(self.sender(way).count.unique_bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-9))
    }

    /// Accurate ECN (RFC 9768) was asked for and answered.
    pub(crate) fn is_accurate_ecn(&self) -> bool {
        let [client, server] = &self.c.halves;
        client.offered.flags.contains(Flags::AE | Flags::CWR | Flags::ECE)
            && server.offered.flags.intersects(Flags::AE | Flags::CWR)
    }

    /// Whether there are data in a direction (or anywhere) of which something could be said.
    /// Acknowledged bytes are data too where the capture holds the ACKs only.
    fn carries(&self, way: Way, anywhere: bool) -> bool {
        let data = |way: Way| {
            let h = &self.c.halves[way];
            h.count.payload_packets > 0 || h.count.packets == 0 && h.space.una() > START + 1
        };
        if anywhere { Way::ALL.into_iter().any(data) } else { data(way) }
    }

    /// The handshake is not in the capture, and what a sender had in flight came up to the largest
    /// window without scaling and no further: a hint.
    pub(crate) fn unscaled_window_in_view(&self) -> bool {
        const LARGEST: u32 = 65_535;
        Way::ALL.into_iter().any(|way| {
            let (h, p) = (self.sender(way), self.receiver(way));
            let near = h.space.peak() <= LARGEST && h.space.peak().saturating_add(h.sizes.largest()) > LARGEST;
            self.vantage.from_the_middle
                && near
                && p.window.least_scale() == 0
                && p.window.largest() + 2_000 > u64::from(LARGEST)
        })
    }

    /// The fastest that bytes were seen to get through in a burst: what the path can do at least.
    fn burst_rate(&self, way: Way) -> Option<Rate> {
        let h = self.sender(way);
        let bursts = h.bursts.as_ref()?;
        let best = match (bursts.passing(), bursts.delivered()) {
            (0, _) | (_, 0) => return None,
            (a, b) => a.min(b),
        };
        Some(Rate(best as f64 * 8.0))
    }
}

/// Bits a second, for text.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Rate(f64);

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&quantity::bit_rate(self.0))
    }
}

/// `1 time`, `5 times`.
fn times(n: u64) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

/// To the microsecond, where three digits would hide what two packets differ by.
pub(crate) fn precise(time: Nanos) -> String {
    if time.0 >= 1_000_000 { format!("{:.3} ms", time.as_millis_f64()) } else { time.to_string() }
}

/// All findings on a connection, the costliest first, and what it cannot show.
pub(crate) fn draw(case: &Case<'_>) -> (Vec<Finding>, Vec<Withheld>) {
    let (mut findings, mut withheld) = (Vec::new(), Vec::new());
    // Many rules ask for the same.
    let missing = Way::ALL.map(|way| View::ALL.map(|view| case.vantage.lacks(case.c, way, view)));
    for rule in &RULES {
        let directions: &[Way] = if rule.once { &[Way::ToServer] } else { &Way::ALL };
        for &way in directions {
            let direction = (!rule.once).then_some(way);
            let lacks = |views: &[View]| views.iter().find_map(|v| missing[way][*v as usize]);
            let lacking = lacks(rule.needs);
            let drawn = if lacking.is_none() { (rule.find)(case, way) } else { None };
            if let Some(mut drawn) = drawn {
                drawn.packets.truncate(24);
                let transfer = saving::transfer(case, way);
                let saves_ns = saving::saving(case, way, rule.kind, &drawn, &transfer);
                let gained = saves_ns.and_then(|saved| saving::words(&case.claims, &transfer, saved));
                drawn.worth.extend(gained.map(|words| format!("; {words}")));
                findings.push(Finding {
                    kind: rule.kind,
                    direction,
                    packets: drawn.packets,
                    at_ns: drawn.at,
                    count: drawn.count,
                    cost_ns: drawn.cost.min(case.duration),
                    saves_ns,
                    shortens: rule.shortens,
                    text: drawn.text,
                    worth: drawn.worth,
                });
            } else if case.carries(way, rule.once)
                && let Some(reason) = lacking.or_else(|| lacks(rule.or_unseen))
            {
                withheld.push(Withheld { kind: rule.kind, direction, reason });
            }
        }
    }
    findings.sort_by_key(|f| std::cmp::Reverse(f.cost_ns));
    (findings, withheld)
}
