//! Who sets the rate of sends that TCP paces.

use record::{Nanos, Send, WaitReason};

use crate::sends::held;
use crate::window::NO_THRESHOLD;

/// A share of the paced time that decides.
const MOST: f64 = 0.5;

/// A share of the busy time, by TCP's own clocks, that is more than a connection's beginning.
const LIMITED: f64 = 0.05;

/// A window that sets the rate is near to full for so much of the paced time, unless it is full for
/// most of all time.
const NEAR: f64 = 0.25;

/// The largest standard deviation of the logarithm of a rate that is the path's: a factor of 1.6.
const STEADY: f64 = 0.47;

/// What sends say of the rate while pacing held them, in bounded memory. Each counts by how long
/// pacing did.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacingFigures {
    paced: u128,
    /// Of that, the time of sends which TCP paced at the limit that was set
    /// (`SO_MAX_PACING_RATE`).
    at_limit: u128,
    /// That of sends for which the program had left TCP without data shortly before.
    app_limited: u128,
    /// That of sends which were made while round trips took longer than at rest.
    slower: u128,
    /// That of sends while the congestion control still looked for the path's rate: it had set no
    /// threshold (BBR sets one when it has found the rate, `bbr_check_drain()` in
    /// `net/ipv4/tcp_bbr.c`), or paced at twice the rate at which data were delivered, or more (BBR
    /// at 2.8 times it, later at most at 1.25 times), of a program that has data.
    growing: u128,
    /// That of sends while the peer's window was full to three quarters or more.
    near_window: u128,
    /// The time of those with a rate of delivery, and by it the sums of that rate's logarithm and
    /// of its square.
    rates: [f64; 3],
    /// The size of the latest one's segments, bytes.
    segment: u32,
    /// The latest such limit, and the latest rate at which data were delivered, bytes a second.
    limit: Option<u64>,
    delivered: Option<u64>,
}

/// Who sets the rate, as far as this end can know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateSetBy {
    /// `SO_MAX_PACING_RATE`, bytes a second.
    MaxPacingRate(u64),
    /// The peer's receive window, full for this share of the busy time.
    PeerWindow(f64),
    /// The send buffer, which was the limit for this share of the busy time.
    SendBuffer(f64),
    /// The program, which left TCP without data for this share of the paced time.
    Writer(f64),
    /// The beginning of the connection, for this share of the paced time: its rate was still
    /// growing.
    Beginning(f64),
    /// The path, with data that wait on it; it delivered so many bytes a second.
    Path(Option<u64>),
    /// Nothing that this end sees, and the rate need not be the path's: it is not one, or much is
    /// lost, or the peer's window was full at another time. The congestion control has not found
    /// the path's, or is misled.
    Changing,
    /// Nothing that this end sees.
    NotKnown,
}

impl PacingFigures {
    pub(crate) fn add(&mut self, send: &Send) {
        let time = held(send, WaitReason::Pacing);
        if time == Nanos::ZERO {
            return;
        }
        let (time, state) = (u128::from(time.0), &send.state);
        let counts = |so: bool| if so { time } else { 0 };
        self.paced += time;
        // Congestion controls keep a little below it.
        let at_limit = |(limit, rate)| rate >= limit / 16 * 15;
        self.at_limit += counts(state.max_pacing_rate.zip(state.pacing_rate).is_some_and(at_limit));
        // TCP has no data either while a small buffer is full (`tcp_rate_check_app_limited()`), for
        // which the program waited.
        self.app_limited += counts(state.app_limited == Some(true) && send.buffer.is_none());
        // What is delivered of a program without data says nothing of the rate.
        let is_twice = |(delivered, rate): (u64, u64)| rate / 2 >= delivered && state.app_limited != Some(true);
        let has_no_threshold = state.ssthresh >= NO_THRESHOLD;
        self.growing += counts(has_no_threshold || state.delivery_rate.zip(state.pacing_rate).is_some_and(is_twice));
        self.near_window += counts(u64::from(state.unacked) * 4 >= u64::from(state.peer_window) * 3);
        self.slower += counts(state.is_slower_than_at_rest() == Some(true));
        if let Some(rate) = state.delivery_rate.filter(|rate| *rate > 0) {
            let (weight, rate) = (time as f64, (rate as f64).ln());
            for (sum, more) in self.rates.iter_mut().zip([weight, weight * rate, weight * rate * rate]) {
                *sum += more;
            }
        }
        self.segment = state.mss;
        self.limit = state.max_pacing_rate.or(self.limit);
        self.delivered = state.delivery_rate.or(self.delivered);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.paced += other.paced;
        self.at_limit += other.at_limit;
        self.app_limited += other.app_limited;
        self.slower += other.slower;
        self.growing += other.growing;
        self.near_window += other.near_window;
        for (mine, theirs) in self.rates.iter_mut().zip(other.rates) {
            *mine += theirs;
        }
        self.segment = self.segment.max(other.segment);
        self.limit = self.limit.or(other.limit);
        self.delivered = self.delivered.or(other.delivered);
    }

    /// The size of the segments that were paced, bytes.
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Whether the rates of delivery of connections are what one path carries, each by itself: a
    /// congestion control that has not found the rate, or that losses mislead, goes from one to
    /// another.
    pub(crate) fn are_steady<'a>(all: impl Iterator<Item = &'a Self>) -> bool {
        let (mut paced, mut squares) = (0.0, 0.0);
        for [weight, sum, square] in all.map(|one| one.rates).filter(|[weight, ..]| *weight > 0.0) {
            paced += weight;
            squares += square - sum * sum / weight;
        }
        squares <= STEADY * STEADY * paced
    }

    /// Who sets the rate: `window_full` and `buffer_limited` are the shares of the busy time by
    /// TCP's own clocks, and `steady` is whether each connection has one rate. What holds the rate
    /// down whatever the path does comes first: a limit that is set, the peer's window, the buffer,
    /// a program without data. Only then is it the path. But what a window, a buffer or a program
    /// lets out beyond what the path carries fills the path's queue, which makes round trips
    /// longer: then it is the path all the same. And while the rate still grows, it is not what
    /// these let through: it would have grown further.
    pub(crate) fn set_by(&self, window_full: Option<f64>, buffer_limited: Option<f64>, steady: bool) -> RateSetBy {
        let share = |part: u128| if self.paced > 0 { part as f64 / self.paced as f64 } else { 0.0 };
        if let (true, Some(limit)) = (share(self.at_limit) >= MOST, self.limit) {
            return RateSetBy::MaxPacingRate(limit);
        }
        let [window, buffer] = [window_full, buffer_limited].map(|share| share.unwrap_or(0.0));
        let is_queued = share(self.slower) >= MOST;
        if is_queued {
            return if steady { RateSetBy::Path(self.delivered) } else { RateSetBy::Changing };
        }
        if share(self.growing) >= MOST {
            return RateSetBy::Beginning(share(self.growing));
        }
        if window.max(buffer) >= LIMITED {
            return match window >= buffer {
                true if window < MOST && share(self.near_window) < NEAR => RateSetBy::Changing,
                true => RateSetBy::PeerWindow(window),
                false => RateSetBy::SendBuffer(buffer),
            };
        }
        match share(self.app_limited) {
            share if share >= MOST => RateSetBy::Writer(share),
            _ if steady => RateSetBy::NotKnown,
            _ => RateSetBy::Changing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{SenderState, Waits};

    const MS: u64 = 1_000_000;

    fn figures(state: SenderState) -> PacingFigures {
        let mut figures = PacingFigures::default();
        let wait = Some(Waits::of(WaitReason::Pacing, Nanos(MS)));
        (0..10).for_each(|_| figures.add(&Send { wait, state, ..Send::blank() }));
        // What did not wait for pacing says nothing of it.
        let other = SenderState { app_limited: Some(true), max_pacing_rate: Some(1), ..SenderState::default() };
        figures.add(&Send { wait: Some(Waits::of(WaitReason::Nagle, Nanos(MS))), state: other, ..Send::blank() });
        figures
    }

    #[test]
    fn a_limit_that_is_set_decides_where_the_rate_is_at_it() {
        let at =
            |rate| SenderState { max_pacing_rate: Some(1_000_000), pacing_rate: Some(rate), ..SenderState::default() };
        let set_by = |rate| figures(at(rate)).set_by(Some(0.0), None, true);
        assert_eq!((set_by(1_000_000), set_by(300_000)), (RateSetBy::MaxPacingRate(1_000_000), RateSetBy::NotKnown));
    }

    #[test]
    fn clocks_and_marks_of_the_kernel_tell_who_sets_the_rate() {
        let rest = SenderState { srtt: Nanos(20 * MS), min_rtt: Some(Nanos(20 * MS)), ..SenderState::default() };
        let at_rest = figures(SenderState { unacked: 10, peer_window: 20, ..rest });
        let filled = figures(SenderState { unacked: 15, peer_window: 20, ..rest });
        assert_eq!(filled.set_by(Some(0.3), Some(0.1), true), RateSetBy::PeerWindow(0.3));
        // A window that has room while sends are paced was full at another time.
        assert_eq!(at_rest.set_by(Some(0.3), Some(0.1), true), RateSetBy::Changing);
        assert_eq!(at_rest.set_by(Some(0.6), Some(0.1), true), RateSetBy::PeerWindow(0.6));
        assert_eq!(at_rest.set_by(Some(0.01), Some(0.5), true), RateSetBy::SendBuffer(0.5));
        assert_eq!(at_rest.set_by(Some(0.01), Some(0.01), true), RateSetBy::NotKnown);
        let writer = SenderState { app_limited: Some(true), ..rest };
        assert_eq!(figures(writer).set_by(None, None, true), RateSetBy::Writer(1.0));
        let queued = SenderState { srtt: Nanos(50 * MS), delivery_rate: Some(7), ..rest };
        assert_eq!(figures(queued).set_by(None, None, true), RateSetBy::Path(Some(7)));
        // What fills the window, or waits behind what a program has written, is the path's queue.
        assert_eq!(figures(queued).set_by(Some(0.3), Some(0.1), true), RateSetBy::Path(Some(7)));
        let behind = SenderState { app_limited: Some(true), ..queued };
        assert_eq!(figures(behind).set_by(None, None, true), RateSetBy::Path(Some(7)));
        // A rate that goes from one to another is no path's.
        assert_eq!(figures(queued).set_by(None, None, false), RateSetBy::Changing);
        assert_eq!(at_rest.set_by(None, None, false), RateSetBy::Changing);
    }

    #[test]
    fn a_rate_is_steady_on_each_connection_by_itself() {
        let at = |rate| SenderState { delivery_rate: Some(rate), ..SenderState::default() };
        let [slow, fast] = [figures(at(1_000)), figures(at(50_000))];
        assert!(PacingFigures::are_steady([&slow, &fast].into_iter()));
        let mut both = slow;
        both.merge(&fast);
        assert!(!PacingFigures::are_steady([&both].into_iter()));
    }

    #[test]
    fn a_rate_of_twice_what_is_delivered_is_still_growing() {
        let rest = SenderState { srtt: Nanos(20 * MS), min_rtt: Some(Nanos(20 * MS)), ..SenderState::default() };
        let at = |rate| SenderState { delivery_rate: Some(1_000), pacing_rate: Some(rate), ..rest };
        assert_eq!(figures(at(2_885)).set_by(None, None, true), RateSetBy::Beginning(1.0));
        assert_eq!(figures(at(1_250)).set_by(None, None, true), RateSetBy::NotKnown);
        // A program that waits for room has data.
        let mut waits = PacingFigures::default();
        let buffer = Some(Waits::of(WaitReason::Pacing, Nanos(MS)));
        waits.add(&Send { buffer, state: SenderState { app_limited: Some(true), ..rest }, ..Send::blank() });
        assert_eq!(waits.set_by(None, None, true), RateSetBy::NotKnown);
        // No threshold was set yet, whatever the rate, the peer's window and the program do.
        let young = SenderState { ssthresh: NO_THRESHOLD, app_limited: Some(true), ..at(1_250) };
        assert_eq!(figures(young).set_by(Some(0.3), None, true), RateSetBy::Beginning(1.0));
        // Twice what a program without data lets through says nothing.
        let writer = SenderState { app_limited: Some(true), ..at(2_885) };
        assert_eq!(figures(writer).set_by(None, None, true), RateSetBy::Writer(1.0));
    }
}
