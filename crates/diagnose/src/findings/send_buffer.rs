//! What is in flight stood still without a loss: its send buffer is full, or a congestion control
//! holds the window.

use super::{Case, Drawn, FindingKind, Rate, Rule, View};
use record::conversation::{Limit, Way};

/// A congestion window in avoidance grows by a segment each round, so ten rounds on one level are
/// something else.
pub(super) const FLAT_ROUNDS: u16 = 10;

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::SendBuffer,
    find,
    once: false,
    shortens: &[Limit::CongestionWindow, Limit::SlowStart],
    needs: &[View::AllSubflows, View::BothDirections, View::Handshake, View::AllBytes, View::Sender],
    or_unseen: &[View::SenderAndQueue, View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    let cost = case.time(way, Limit::CongestionWindow) + case.time(way, Limit::SlowStart);
    let share = cost.0 as f64 / case.duration.0.max(1) as f64;
    if h.rounds.most_flat().0 < FLAT_ROUNDS || share < 0.25 || cost < case.unclear_time(way) {
        return None;
    }
    let trip = case.round_trip(way)?;
    let rtt = trip.usual();
    // No sender goes through more rounds than there is time for: what was counted as rounds were
    // none.
    if case.vantage.whole().is_some_and(|least| least.0.saturating_mul(h.rounds.most_flat().0.into()) > case.duration.0)
    {
        return None;
    }
    Some(Drawn {
        packets: vec![h.last_data_number],
        at: case.c.first_at,
        count: u64::from(h.rounds.most_flat().0),
        cost,
        text: format!(
            "the {} kept {} bytes in flight for {} rounds on end, with room in the receive window of {} and no queue on the path: its send buffer is full, or its congestion control holds the window (BBR does)",
            way.sender(),
            h.rounds.most_flat().1,
            h.rounds.most_flat().0,
            case.receiver(way).window.largest(),
        ),
        worth: format!(
            "a larger SO_SNDBUF (tcp_wmem), for {} of the time: this flight gives no more than {} over {trip}",
            quantity::percent(share),
            Rate(f64::from(h.rounds.most_flat().1) * 8.0 / rtt.as_secs_f64().max(1e-6))
        ),
    })
}
