//! Whether a connection's rate follows its congestion window, or stays as it is whatever the
//! window: then the path sets it.

use record::{Congestion, Nanos, Send, WaitReason};

use crate::sends::held;

/// Fewer sends than this tell no line from noise.
const FEWEST: u64 = 16;

/// The least standard deviation of the window's logarithm: where the window hardly changed, nothing
/// shows what a larger one brings.
const SPREAD: f64 = 0.15;

/// A window of twice the size brings at most so much of twice the rate where the path sets it.
const FOLLOWS: f64 = 0.3;

/// A share of the time that decides.
const MOST: f64 = 0.5;

/// What the sends that a congestion window held say of it: the line by least squares of the
/// logarithm of the delivery rate over that of the window. Its slope is 1 where the rate follows
/// the window, and 0 where a larger window only lengthens a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateByWindow {
    sends: u64,
    /// Sums of both logarithms, and of their products.
    sum: [f64; 2],
    products: [f64; 3],
    /// The smallest and the largest window, segments.
    windows: Option<(u32, u32)>,
    /// How long the window held all of them.
    held: Nanos,
}

impl RateByWindow {
    pub(crate) fn add(&mut self, send: &Send) {
        let held = held(send, WaitReason::CongestionWindow);
        if held == Nanos::ZERO {
            return;
        }
        self.held += held;
        let state = &send.state;
        let Some(rate) = state.delivery_rate.filter(|rate| *rate > 0) else { return };
        // A program without data, or a repair, sets the rate of its time.
        let repairs = matches!(state.congestion, Congestion::Recovery | Congestion::Loss);
        if repairs || state.app_limited == Some(true) || state.cwnd == 0 {
            return;
        }
        let (x, y) = (f64::from(state.cwnd).ln(), (rate as f64).ln());
        self.sends += 1;
        for (sum, value) in self.sum.iter_mut().zip([x, y]) {
            *sum += value;
        }
        for (sum, product) in self.products.iter_mut().zip([x * x, x * y, y * y]) {
            *sum += product;
        }
        let (least, most) = self.windows.unwrap_or((state.cwnd, state.cwnd));
        self.windows = Some((least.min(state.cwnd), most.max(state.cwnd)));
    }

    /// Whether the rate stays as it is whatever the window: not even with the slope's doubt (twice
    /// its standard error) does the rate follow.
    pub(crate) fn stays(&self) -> bool {
        if self.sends < FEWEST {
            return false;
        }
        let n = self.sends as f64;
        let [x, y] = self.sum;
        let [xx, xy, yy] = self.products;
        let [xx, xy, yy] = [xx - x * x / n, xy - x * y / n, yy - y * y / n];
        if xx < SPREAD * SPREAD * n {
            return false;
        }
        let slope = xy / xx;
        let rest = (yy - slope * xy).max(0.0);
        slope + 2.0 * (rest / (n - 2.0) / xx).sqrt() < FOLLOWS
    }

    /// The smallest and the largest window, in segments, of the connections whose rate stays, where
    /// they are those that the window held for most of the time.
    pub(crate) fn steady(all: impl Iterator<Item = Self>) -> Option<(u32, u32)> {
        let (mut held, mut steady, mut windows) = (0.0, 0.0, None);
        for one in all {
            let time = one.held.0 as f64;
            held += time;
            if let (true, Some((least, most))) = (one.stays(), one.windows) {
                steady += time;
                windows = Some(windows.map_or((least, most), |(a, b): (u32, u32)| (a.min(least), b.max(most))));
            }
        }
        windows.filter(|_| steady >= MOST * held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{SenderState, Waits};

    /// Forty sends with windows of 10 to 49 segments, and the rate that each gets, with an error
    /// that takes turns.
    fn of(rate: impl Fn(f64) -> f64) -> RateByWindow {
        let mut of = RateByWindow::default();
        for cwnd in 10..50 {
            let error = if cwnd % 2 == 0 { 1.05 } else { 0.95 };
            let state = SenderState {
                cwnd,
                delivery_rate: Some((rate(f64::from(cwnd)) * error) as u64),
                congestion: Congestion::Open,
                app_limited: Some(false),
                ..SenderState::default()
            };
            let wait = Some(Waits::of(WaitReason::CongestionWindow, Nanos(1_000_000)));
            of.add(&Send { wait, state, ..Send::blank() });
        }
        of
    }

    #[test]
    fn a_rate_that_is_the_same_with_any_window_is_the_path_s() {
        let [path, window] = [of(|_| 1e6), of(|cwnd| 1e5 * cwnd)];
        assert_eq!((path.stays(), window.stays()), (true, false));
        assert_eq!(RateByWindow::steady([path].into_iter()), Some((10, 49)));
        assert_eq!(RateByWindow::steady([window].into_iter()), None);
        // Half of the time is enough, a third is not.
        assert_eq!(RateByWindow::steady([path, window].into_iter()), Some((10, 49)));
        assert_eq!(RateByWindow::steady([path, window, window].into_iter()), None);
    }

    #[test]
    fn one_window_few_sends_and_repairs_say_nothing() {
        let mut one = RateByWindow::default();
        let state = SenderState { cwnd: 10, delivery_rate: Some(1_000), ..SenderState::default() };
        let wait = Some(Waits::of(WaitReason::CongestionWindow, Nanos(1_000_000)));
        (0..40).for_each(|_| one.add(&Send { wait, state, ..Send::blank() }));
        assert!(!one.stays());
        let mut few = RateByWindow::default();
        for cwnd in [10, 20, 40] {
            few.add(&Send { wait, state: SenderState { cwnd, ..state }, ..Send::blank() });
        }
        assert!(!few.stays());
        let mut repaired = RateByWindow::default();
        for cwnd in 10..50 {
            let state = SenderState { cwnd, congestion: Congestion::Recovery, ..state };
            repaired.add(&Send { wait, state, ..Send::blank() });
        }
        assert_eq!(repaired.sends, 0);
    }
}
