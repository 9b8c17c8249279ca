//! What a transfer tells its series, piece by piece in time.

use record::conversation::{Budget, Limit, Way};

use super::Connection;
use crate::ranges::START;
use crate::series::{LIMITS, Part, Series};
use crate::unclear::Unclear;

/// A direction with fewer data packets has nothing to say of its path.
const ENOUGH: u64 = 16;

impl Connection {
    /// Tells its series what came up to the last packet.
    #[inline(never)]
    pub(super) fn tell(&mut self) {
        let Some(way) = self.series.as_ref().map(|s| s.way).or_else(|| self.transfers()) else { return };
        let (part, first_at) = (self.part(way, &self.budgets[way]), self.first_at);
        let series = self.series.get_or_insert_with(|| Box::new(Series::new(way, first_at)));
        series.tell(self.last_at, &part);
    }

    /// The direction with the most data, where that is enough.
    fn transfers(&self) -> Option<Way> {
        let packets = |way: &Way| self.halves[*way].count.payload_packets;
        Way::ALL.into_iter().max_by_key(packets).filter(|way| packets(way) >= ENOUGH)
    }

    /// What direction `way` has done so far.
    fn part(&self, way: Way, budget: &Budget) -> Part {
        let h = &self.halves[way];
        let una = h.space.una();
        let delivered = una.saturating_sub(START) + h.scoreboard.delivered(una);
        Part { bytes: delivered.cast_signed(), times: LIMITS.map(|limit| budget.of(limit).0.cast_signed()) }
    }

    /// The direction that its series is of.
    pub(crate) fn transfer(&self) -> Option<Way> {
        self.series.as_ref().map(|s| s.way)
    }

    /// Its series up to its last packet, with what it had come to by then, its
    /// [`Connection::settled`] budgets; `None` of a connection that was short.
    pub(crate) fn series(&self, settled: &[Budget; 2]) -> Option<Series> {
        let mut series = self.series.as_deref()?.clone();
        let part = self.part(series.way, &settled[series.way]);
        series.tell(self.last_at, &part);
        let [unknown, queued] = [Limit::Unknown, Limit::PathRate].map(|l| settled[series.way].of(l));
        // What was even for a little before a queue stood may have been the path's beginning.
        let most = self.halves[series.way].anomalies.unclear().most(unknown);
        series.paced = most == Some(Unclear::Pace) && unknown.0 >= queued.0 / 2;
        Some(series)
    }
}
