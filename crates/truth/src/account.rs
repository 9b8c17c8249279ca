//! The true account of a connection: what limited it at each moment.
//!
//! Nothing here is inferred from packets as `analyze` does it. What decides, the first that holds
//! at a moment:
//!
//! 1. **Handshake**: the client's `connect` has not returned; at the server, its ACK has not come.
//! 2. **The path's rate**: the sender has data, or what it sent drains from a queue, and 85 % of
//!    what the bottleneck can carry over the round trip around this moment (`tcpi_rtt`) was in use.
//!    The lab says what it can carry, and the capture behind it what it did. It goes first because
//!    a larger window or fewer losses would not make the transfer faster; while losses are
//!    repaired, or a window, a buffer or Nagle's algorithm holds data back, it has to be this
//!    connection that uses it, with at least half of its fair share: beside others, more would be
//!    its own without them. The way of the ACKs counts where this connection's ACKs fill it.
//! 3. **Loss**: the kernel is in `TCP_CA_Recovery` or `TCP_CA_Loss`, or has segments that are lost
//!    or retransmitted (`tcpi_lost`, `tcpi_retrans`); also the silence before, from a round trip
//!    after the last sign of life until the kernel retransmitted (`tcpi_total_retrans`), and the
//!    `TCP_CA_Disorder` that led to it. Of that time as much is the path's as it carries of this
//!    connection's fair share: without losses the rest would be gained, and no more.
//! 4. **The receive window** and **the send buffer**: as long as the kernel counted them
//!    (`tcpi_rwnd_limited`, `tcpi_sndbuf_limited`; it counts in ticks of its timer, so that what a
//!    tick brought goes to the time up to it).
//! 5. Data wait to be sent (`tcpi_notsent_bytes`): less than a segment behind data in flight, with
//!    room in the congestion window and without `TCP_NODELAY`, is **Nagle's**. With
//!    `SO_MAX_PACING_RATE` and room in the congestion window it is the **pacing** that the program
//!    asked for. BBR paces at the rate that it has measured, and that is what the receive window
//!    lets through: with room in the congestion window and three quarters of the receive window in
//!    flight, it is **the receive window**, of which the kernel counts only the moments in which no
//!    pacing timer runs. Else it is **slow start** below `tcpi_snd_ssthresh` (of BBR: in its first
//!    phase), and **the congestion window** above.
//! 6. Nothing waits: the program is asleep in `write` for **the send buffer**, or **the
//!    application** had nothing to send.

use std::collections::BTreeMap;

use record::conversation::{Budget, Limit};
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::plan::{End, Plan};
use crate::run::{Doing, Observed, Tick};
use crate::sample::Sample;

/// What limited a connection, in more detail than [`Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// An application had nothing to send.
    Application,
    /// Not open yet.
    Handshake,
    /// The congestion window, in slow start.
    SlowStart,
    /// The congestion window, later.
    CongestionWindow,
    /// The send buffer.
    SendBuffer,
    /// The receive window.
    ReceiveWindow,
    /// Losses.
    Loss,
    /// Nagle's algorithm.
    Nagle,
    /// The bottleneck on the way of the data.
    PathRate,
    /// The same, while what it had dropped was repaired.
    PathRateLosing,
    /// The bottleneck on the way of the ACKs.
    AckPathRate,
    /// `SO_MAX_PACING_RATE`.
    Pacing,
    /// The machine was too busy to see it.
    Unseen,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 13] = [
        Self::Application,
        Self::Handshake,
        Self::SlowStart,
        Self::CongestionWindow,
        Self::SendBuffer,
        Self::ReceiveWindow,
        Self::Loss,
        Self::Nagle,
        Self::PathRate,
        Self::PathRateLosing,
        Self::AckPathRate,
        Self::Pacing,
        Self::Unseen,
    ];

    /// What `analyze` calls it. Pacing is what the sending program asked for.
    pub const fn limit(self) -> Limit {
        match self {
            Self::Application | Self::Pacing => Limit::Application,
            Self::Handshake => Limit::Handshake,
            Self::SlowStart => Limit::SlowStart,
            Self::CongestionWindow | Self::SendBuffer => Limit::CongestionWindow,
            Self::ReceiveWindow => Limit::ReceiveWindow,
            Self::Loss => Limit::LossRecovery,
            Self::Nagle => Limit::AckWaiting,
            Self::PathRate | Self::PathRateLosing | Self::AckPathRate => Limit::PathRate,
            Self::Unseen => Limit::Unknown,
        }
    }
}

/// What limited a connection from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// ns on the captures' clock.
    pub from: u64,
    /// ns on the captures' clock.
    pub to: u64,
    /// What.
    pub cause: Cause,
}

/// The moments of a connection, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    moments: Vec<Moment>,
}

/// Without a look for longer than this, ns, what happened is not known.
const BLIND: u64 = 40_000_000;
/// TCP's states (include/net/tcp_states.h) and those of its congestion control
/// (include/uapi/linux/tcp.h).
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const DISORDER: u8 = 1;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

impl Truth {
    /// The account of a connection as it is at one end: they differ in when it is open. At each
    /// moment it is of the end that has most under way.
    pub(crate) fn of(plan: &Plan, seen: &Observed, capacity: &[Capacity; 2], at: End) -> Self {
        Self::by(plan, seen, capacity, at, |tick| {
            let outstanding = |end: End| tick.ends[end as usize].map_or(0, |s| s.in_flight() + u64::from(s.unsent));
            if outstanding(End::Client) >= outstanding(End::Server) { End::Client } else { End::Server }
        })
    }

    /// The account of what one end sends, whatever the other does.
    pub(crate) fn of_sends(plan: &Plan, seen: &Observed, capacity: &[Capacity; 2], end: End) -> Self {
        Self::by(plan, seen, capacity, end, |_| end)
    }

    /// The account at one end, at each moment of the end that `whose` names.
    fn by(plan: &Plan, seen: &Observed, capacity: &[Capacity; 2], at: End, whose: impl Fn(&Tick) -> End) -> Self {
        let mut truth = Self::default();
        let later = if at == End::Server { plan.path.least_delay(End::Client).0 } else { 0 };
        let mut established = seen.established.map(|open| open + later);
        if at == End::Server {
            // The client's ACK may be lost, and then its first data open the connection.
            let accepted = seen.ticks.iter().find(|t| t.ends[End::Server as usize].is_some());
            established = established.map(|open| open.max(accepted.map_or(0, |t| t.at)));
        }
        let lossy = End::ALL.map(|end| recovering(&seen.ticks, end));
        let mut counted = [Counted::default(); 2];
        let mut draining = [false; 2];
        for (place, pair) in seen.ticks.windows(2).enumerate() {
            let [before, tick] = [pair[0], pair[1]];
            for end in End::ALL {
                counted[end as usize].add(&before, &tick, end);
                drain(&mut draining[end as usize], tick.ends[end as usize].as_ref());
            }
            let (mut from, to) = (before.at, tick.at);
            if established.is_none_or(|open| to <= open) {
                truth.add(from, to, Cause::Handshake);
                continue;
            }
            if let Some(open) = established.filter(|open| *open > from) {
                truth.add(from, open, Cause::Handshake);
                from = open;
            }
            if to - from > BLIND {
                truth.add(from, to, Cause::Unseen);
                continue;
            }
            let end = whose(&tick);
            let Some(sample) = tick.ends[end as usize] else {
                truth.add(from, to, Cause::Application);
                continue;
            };
            let blocked = seen.spans[end as usize].iter().any(|s| {
                // A call that takes so long is asleep.
                s.doing == Doing::Write && s.from < from && s.to > to
            });
            let lossy = lossy[end as usize][place + 1];
            let middle = from + (to - from) / 2;
            // What the kernel counts while something else is to blame is over with that time.
            let window = counted[end as usize].receive_window.take(to - from);
            let buffer = counted[end as usize].send_buffer.take(to - from - window);
            let waits = waiting(plan, &sample, end, blocked);
            let held = lossy || window + buffer > 0 || waits == Cause::Nagle;
            let has_data = blocked || sample.unsent > 0 || draining[end as usize];
            let limited = if has_data && sample.is_busy() {
                path(&sample, (lossy, held), (end, seen.client.port()), middle, capacity)
            } else {
                None
            };
            let cause = if let Some(cause) = limited {
                cause
            } else if lossy {
                let there = &capacity[end as usize];
                let used = there.used_share(seen.client.port(), middle, u64::from(sample.round_trip_us) * 1_000);
                let path = ((to - from) as f64 * used) as u64;
                truth.add(from, from + path, Cause::PathRateLosing);
                from += path;
                Cause::Loss
            } else {
                truth.add(from, from + window, Cause::ReceiveWindow);
                truth.add(from + window, from + window + buffer, Cause::SendBuffer);
                from += window + buffer;
                waits
            };
            truth.add(from, to, cause);
        }
        truth
    }

    fn add(&mut self, from: u64, to: u64, cause: Cause) {
        match self.moments.last_mut() {
            _ if from >= to => {}
            Some(last) if last.cause == cause && last.to == from => last.to = to,
            _ => self.moments.push(Moment { from, to, cause }),
        }
    }

    /// The part of it from one moment to another.
    pub(crate) fn part(&self, from: u64, to: u64) -> Self {
        let cut = |m: &Moment| Moment { from: m.from.max(from), to: m.to.min(to), ..*m };
        Self { moments: self.moments.iter().map(cut).filter(|m| m.from < m.to).collect() }
    }

    /// Its moments.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// The time from one moment to another, ns, by cause. What lies beyond the account, after the
    /// programs have closed, is the application's.
    pub fn causes(&self, from: u64, to: u64) -> BTreeMap<Cause, u64> {
        let mut all = BTreeMap::new();
        let mut seen = 0;
        for m in &self.moments {
            let time = m.to.min(to).saturating_sub(m.from.max(from));
            *all.entry(m.cause).or_insert(0) += time;
            seen += time;
        }
        // A SYN leaves a little before the first look.
        let before = self.moments.first().map_or(0, |m| m.from.min(to).saturating_sub(from));
        *all.entry(Cause::Handshake).or_insert(0) += before;
        *all.entry(Cause::Application).or_insert(0) += (to.saturating_sub(from)).saturating_sub(seen + before);
        all.retain(|_, time| *time > 0);
        all
    }

    /// The same as `analyze` divides it.
    pub fn budget(&self, from: u64, to: u64) -> Budget {
        let mut budget = Budget::default();
        for (cause, time) in self.causes(from, to) {
            budget.add(cause.limit(), time);
        }
        budget
    }
}

/// Time, ns, that the kernel has counted and that is not given to a moment yet.
#[derive(Clone, Copy, Default)]
struct Time(u64);

impl Time {
    /// As much of it as there is, at most `time`.
    fn take(&mut self, time: u64) -> u64 {
        let taken = self.0.min(time);
        self.0 -= taken;
        taken
    }
}

#[derive(Clone, Copy, Default)]
struct Counted {
    receive_window: Time,
    send_buffer: Time,
}

impl Counted {
    fn add(&mut self, before: &Tick, tick: &Tick, end: End) {
        let Some(now) = tick.ends[end as usize] else { return };
        let before = before.ends[end as usize].unwrap_or_default();
        self.receive_window.0 += now.receive_window_us.saturating_sub(before.receive_window_us) * 1_000;
        self.send_buffer.0 += now.send_buffer_us.saturating_sub(before.send_buffer_us) * 1_000;
    }
}

/// At which looks an end was recovering from losses.
fn recovering(ticks: &[Tick], end: End) -> Vec<bool> {
    let samples: Vec<Option<Sample>> = ticks.iter().map(|t| t.ends[end as usize]).collect();
    let is =
        |s: &Sample| s.unacked > 0 && (matches!(s.recovery, RECOVERY | LOSS) || s.lost > 0 || s.retransmitted_out > 0);
    let mut lossy: Vec<bool> = samples.iter().map(|s| s.as_ref().is_some_and(is)).collect();
    for place in 1..samples.len() {
        let [Some(before), Some(now)] = [samples[place - 1], samples[place]] else { continue };
        let handshake = matches!(now.state, SYN_SENT | SYN_RECV);
        if now.retransmissions == before.retransmissions || handshake {
            continue;
        }
        // Back to the last sign of life. Between two looks a loss may be noticed and repaired while
        // others arrive: only what lasted for longer is silence.
        let sign = |s: &Sample| (s.acked, s.delivered, s.sent);
        let silent = (0..place)
            .rev()
            .take_while(|back| samples[*back].is_some_and(|s| s.unacked > 0 && sign(&s) == sign(&before)));
        let since = silent.last().unwrap_or(place);
        if since + 1 < place {
            // A round trip goes by without a sign after a window that was sent at once.
            let due = ticks[since].at + u64::from(before.round_trip_us) * 1_000;
            let late = (since + 1..=place).filter(|at| ticks[*at].at > due);
            late.for_each(|at| lossy[at] = true);
        }
        // And through the doubt before it was sure.
        for back in (0..=since.min(place - 1)).rev() {
            if samples[back].is_none_or(|s| s.recovery != DISORDER) {
                break;
            }
            lossy[back] = true;
        }
    }
    lossy
}

/// Whether what an end has sent may drain from a queue: more than a few segments, up to the last of
/// them.
fn drain(draining: &mut bool, now: Option<&Sample>) {
    let few = |s: &Sample| s.in_flight() < 4 * u64::from(s.segment.max(1));
    *draining = now.is_some_and(|s| s.unacked > 0 && (*draining || !few(s)));
}

/// Whether the path's rate limits what an end of the connection with this port sends, which may be
/// losing and be `held` back by something else as well.
fn path(
    s: &Sample,
    (lossy, held): (bool, bool),
    (end, port): (End, u16),
    at: u64,
    capacity: &[Capacity; 2],
) -> Option<Cause> {
    let round_trip = u64::from(s.round_trip_us) * 1_000;
    let [there, back] = [&capacity[end as usize], &capacity[end.other() as usize]];
    if there.is_full(at, round_trip) && (!held || there.has_its_share(port, at, round_trip)) {
        Some(if lossy { Cause::PathRateLosing } else { Cause::PathRate })
    } else if back.is_full(at, round_trip) && back.has_its_share(port, at, round_trip) {
        Some(Cause::AckPathRate)
    } else {
        None
    }
}

/// What a sender waits for that neither path, losses nor the peer's window hold up.
fn waiting(plan: &Plan, s: &Sample, end: End, blocked: bool) -> Cause {
    let host = &plan.hosts[end as usize];
    if s.unsent == 0 {
        return if blocked { Cause::SendBuffer } else { Cause::Application };
    }
    // A burst of offloaded segments waits until a third of the window is free
    // (`tcp_tso_should_defer`).
    let has_room = s.packets_in_flight() < s.window - s.window / 3;
    let paces = record::congestion::sets_its_rate(&host.congestion_control);
    if has_room && !host.no_delay && s.unsent < s.segment && s.unacked > 0 {
        Cause::Nagle
    } else if has_room && host.max_pacing.is_some() {
        Cause::Pacing
    } else if has_room && paces && s.in_flight() >= u64::from(s.receive_window) * 3 / 4 {
        Cause::ReceiveWindow
    } else if s.startup || !paces && s.window < s.threshold {
        Cause::SlowStart
    } else {
        Cause::CongestionWindow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_adds_up_whatever_part_is_asked_for() {
        let mut truth = Truth::default();
        truth.add(100, 150, Cause::Handshake);
        truth.add(150, 250, Cause::SlowStart);
        truth.add(250, 250, Cause::Loss);
        truth.add(250, 300, Cause::SlowStart);
        assert_eq!(truth.moments().len(), 2);
        for (from, to) in [(0, 400), (100, 300), (120, 260), (300, 400), (0, 50), (200, 200)] {
            assert_eq!(truth.budget(from, to).total().0, to - from, "{from}..{to}");
        }
        assert_eq!(truth.causes(120, 260)[&Cause::SlowStart], 110);
        assert_eq!(truth.causes(0, 400)[&Cause::Handshake], 150);
        assert_eq!(truth.causes(0, 400)[&Cause::Application], 100);
    }

    #[test]
    fn a_flight_of_several_segments_drains_up_to_the_last() {
        let out =
            |unacked: u32| Sample { unacked, segment: 1_000, sent: u64::from(unacked) * 1_000, ..Sample::default() };
        let mut draining = false;
        let mut seen = Vec::new();
        for unacked in [3, 4, 2, 1, 0, 1] {
            drain(&mut draining, Some(&out(unacked)));
            seen.push(draining);
        }
        assert_eq!(seen, [false, true, true, true, false, false]);
    }

    #[test]
    fn silence_before_a_retransmission_is_the_losses() {
        let at = |n: u64, acked: u64, retransmissions: u32| {
            let sample = Sample { unacked: 3, acked, retransmissions, ..Sample::default() };
            Tick { at: n, ends: [Some(sample), None] }
        };
        let ticks = [at(0, 1, 0), at(1, 2, 0), at(2, 2, 0), at(3, 2, 0), at(4, 2, 1), at(5, 3, 1)];
        assert_eq!(recovering(&ticks, End::Client), [false, false, true, true, true, false]);
        // Nothing can have come before a round trip is over.
        let away = |tick: &Tick| Tick {
            at: tick.at,
            ends: tick.ends.map(|end| end.map(|sample| Sample { round_trip_us: 1, ..sample })),
        };
        let far: Vec<Tick> = ticks.iter().map(away).map(|tick| Tick { at: tick.at * 400, ..tick }).collect();
        assert_eq!(recovering(&far, End::Client), [false, false, false, false, true, false]);
        // Others arrive all the time: the loss held nothing up for as long as a look takes.
        let ticks = [at(0, 1, 0), at(1, 2, 0), at(2, 3, 1), at(3, 4, 1)];
        assert_eq!(recovering(&ticks, End::Client), [false; 4]);
    }
}
