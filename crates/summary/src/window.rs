//! Why a congestion window is small, as far as its own history tells.

use record::{Congestion, Instant, Monotonic, Nanos, Send, WaitReason};

use crate::sends::held;

/// TCP's threshold while it knows of no loss (`TCP_INFINITE_SSTHRESH`, `include/net/tcp.h`).
pub(crate) const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The congestion window with which connections begin (RFC 6928), segments.
const INITIAL: u32 = 10;

/// A share of the time that decides.
const MOST: f64 = 0.5;

/// Why the congestion window was small for most of the time in which it held sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallWindow {
    /// The connections were young: it was still growing from the initial window, without a loss.
    Beginning,
    /// TCP had set it back to the initial window, as nothing was sent for a while
    /// (`net.ipv4.tcp_slow_start_after_idle`).
    AfterIdle,
}

/// What the sends of one connection say of how its window came about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowHistory {
    /// The window of the latest send.
    last: u32,
    /// When the latest of its bytes was sent or acknowledged.
    active: Option<Instant<Monotonic>>,
    /// Up to this window it grows back to what it was before it was set back.
    before_idle: Option<u32>,
}

impl WindowHistory {
    /// Takes the next send in, and says why its window is small.
    fn next(&mut self, send: &Send, is_found: bool) -> Option<SmallWindow> {
        let state = &send.state;
        let idle = self.active.and_then(|active| send.stamps.send.since(active).ok());
        let was_idle = idle.zip(state.rto).is_some_and(|(idle, rto)| idle >= rto);
        if was_idle
            && state.congestion == Congestion::Open
            && state.cwnd <= INITIAL.max(self.last / 2)
            && state.cwnd < self.last
            // tcp_cwnd_restart() (net/ipv4/tcp_output.c) sets the threshold to three quarters of
            // what the window was; after a loss it is the window itself.
            && state.cwnd < state.ssthresh
        {
            self.before_idle = Some(self.last);
        }
        if self.before_idle.is_some_and(|before| state.cwnd >= before) || state.congestion != Congestion::Open {
            self.before_idle = None;
        }
        self.last = state.cwnd;
        self.active = self.active.max(Some(send.stamps.ack.unwrap_or(send.stamps.send)));
        if self.before_idle.is_some() {
            Some(SmallWindow::AfterIdle)
        } else {
            // What waited for a repair has lost the window that it was made with.
            let is_repaired = send.wait.is_some_and(|wait| wait.time(WaitReason::Retransmission) > Nanos::ZERO);
            (!is_found && !is_repaired && state.ssthresh >= NO_THRESHOLD).then_some(SmallWindow::Beginning)
        }
    }
}

/// For how long the congestion window held sends, by why it was small.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowFigures {
    all: u128,
    beginning: u128,
    after_idle: u128,
}

impl WindowFigures {
    /// Adds a send of a connection with this history; `is_found`: it was there before the trace.
    pub(crate) fn add(&mut self, history: &mut WindowHistory, send: &Send, is_found: bool) {
        let why = history.next(send, is_found);
        let held = u128::from(held(send, WaitReason::CongestionWindow).0);
        self.all += held;
        match why {
            Some(SmallWindow::Beginning) => self.beginning += held,
            Some(SmallWindow::AfterIdle) => self.after_idle += held,
            None => {}
        }
    }

    pub(crate) fn why(&self) -> Option<SmallWindow> {
        let most = |part: u128| part > 0 && part as f64 >= MOST * self.all as f64;
        match (most(self.after_idle), most(self.beginning)) {
            (true, _) => Some(SmallWindow::AfterIdle),
            (_, true) => Some(SmallWindow::Beginning),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{SenderState, Stamps, Waits};

    const MS: u64 = 1_000_000;

    /// A send at so many milliseconds with this window, which held it for 10 ms.
    fn send(at: u64, cwnd: u32, ssthresh: u32) -> Send {
        let time = |ms| Instant::from_nanos(ms * MS);
        Send {
            stamps: Stamps { ack: Some(time(at + 20)), ..Stamps::sent_at(time(at)) },
            state: SenderState { cwnd, ssthresh, rto: Some(Nanos(220 * MS)), ..SenderState::default() },
            wait: Some(Waits::of(WaitReason::CongestionWindow, Nanos(10 * MS))),
            ..Send::blank()
        }
    }

    fn why(sends: &[Send], is_found: bool) -> Option<SmallWindow> {
        let (mut figures, mut history) = (WindowFigures::default(), WindowHistory::default());
        sends.iter().for_each(|send| figures.add(&mut history, send, is_found));
        figures.why()
    }

    #[test]
    fn a_window_that_grows_from_the_initial_one_is_of_a_young_connection() {
        let young = [send(0, 10, NO_THRESHOLD), send(20, 20, NO_THRESHOLD), send(40, 40, NO_THRESHOLD)];
        assert_eq!(why(&young, false), Some(SmallWindow::Beginning));
        // What was before the trace is not known; and a loss set this one.
        assert_eq!(why(&young, true), None);
        assert_eq!(why(&[send(0, 10, 12), send(20, 12, 12)], false), None);
        let mut repaired = young[0];
        repaired.wait.as_mut().unwrap().set(WaitReason::Retransmission, Nanos(MS));
        assert_eq!(why(&[repaired], false), None);
    }

    #[test]
    fn a_window_that_was_set_back_after_a_pause_is_told_until_it_has_grown_again() {
        let paused = [send(0, 80, 70), send(1_000, 10, 70), send(1_020, 20, 70), send(1_040, 40, 70)];
        assert_eq!(why(&paused, true), Some(SmallWindow::AfterIdle));
        // Without a pause, or after a loss, something else made it small.
        assert_eq!(why(&[send(0, 80, 70), send(50, 10, 70), send(70, 20, 70)], true), None);
        let mut lost = paused;
        lost[1].state.congestion = Congestion::Loss;
        assert_eq!(why(&lost, true), None);
        assert_eq!(why(&[send(0, 80, 70), send(1_000, 10, 10), send(1_020, 11, 10)], true), None);
    }
}
