//! What a remedy that a finding names really saves: the same plan again, with the remedy applied.

use std::fmt;

use clock::Nanos;
use diagnose::{FindingKind, Report};
use lab::{Depth, Discipline, Loss};
use serde::{Deserialize, Serialize};

use crate::account::Cause;
use crate::plan::{Act, End, Plan};
use crate::run::Observation;
use crate::score::{Place, analysed};

/// A remedy that a plan can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The kernel's receive buffer, with window scaling and without a clamp.
    ReceiveWindow,
    /// The kernel's send buffer.
    SendBuffer,
    /// A path that loses nothing, with a queue that has room for a second.
    NoLoss,
    /// A path that keeps order.
    Order,
    /// `TCP_NODELAY` at both ends.
    NoDelay,
    /// A receiver that reads without a pause.
    Reading,
}

impl Remedy {
    /// The remedy of a finding; `None` where no setting of a plan is one.
    fn of(kind: FindingKind) -> Option<Self> {
        match kind {
            FindingKind::ReceiveWindow | FindingKind::WindowScalingMissing => Some(Self::ReceiveWindow),
            FindingKind::SendBuffer => Some(Self::SendBuffer),
            FindingKind::Loss => Some(Self::NoLoss),
            FindingKind::ReorderingTakenForLoss => Some(Self::Order),
            FindingKind::NagleDelayedAck => Some(Self::NoDelay),
            FindingKind::ReceiverApplication | FindingKind::ZeroWindow => Some(Self::Reading),
            _ => None,
        }
    }
}

impl Remedy {
    /// The causes of which it takes the time away.
    const fn causes(self) -> &'static [Cause] {
        match self {
            Self::ReceiveWindow | Self::Reading => &[Cause::ReceiveWindow],
            Self::SendBuffer => &[Cause::SendBuffer],
            Self::NoLoss | Self::Order => &[Cause::Loss],
            Self::NoDelay => &[Cause::Nagle],
        }
    }
}

impl Plan {
    /// The plan with a remedy for what `sender` sends.
    #[must_use]
    pub fn with(&self, remedy: Remedy, sender: End) -> Self {
        let mut plan = self.clone();
        let way = sender as usize;
        match remedy {
            Remedy::ReceiveWindow => {
                plan.hosts.iter_mut().for_each(|h| h.window_scaling = true);
                let host = &mut plan.hosts[sender.other() as usize];
                (host.receive_buffer, host.window_clamp) = (None, None);
            }
            Remedy::SendBuffer => plan.hosts[way].send_buffer = None,
            Remedy::NoLoss => {
                let steps = plan.path.steps.iter_mut().map(|s| &mut s.ways);
                for ways in [&mut plan.path.ways].into_iter().chain(steps) {
                    let way = &mut ways[way];
                    (way.loss, way.qdisc) = (Loss::None, Discipline::Fifo);
                    way.queue = way.rate.map(|_| Depth::Time(Nanos::from_secs(1)));
                }
            }
            Remedy::Order => {
                plan.path.ways[way].reorder = None;
                plan.path.steps.iter_mut().for_each(|s| s.ways[way].reorder = None);
            }
            Remedy::NoDelay => plan.hosts.iter_mut().for_each(|h| h.no_delay = true),
            Remedy::Reading => {
                for talk in &mut plan.talks {
                    for act in &mut talk.program.scripts[sender.other() as usize] {
                        match act {
                            Act::Read { pause_us, piece, .. } => (*pause_us, *piece) = (0, 1 << 20),
                            Act::Think { us } => *us = 0,
                            _ => {}
                        }
                    }
                }
            }
        }
        plan
    }
}

/// A promise, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worth {
    /// The plan's seed.
    pub seed: u64,
    /// Where it was captured.
    pub place: Place,
    /// The remedy.
    pub remedy: Remedy,
    /// How long the connection took, ns.
    pub took: u64,
    /// How much of it was promised, at most, ns.
    pub promised: u64,
    /// How much of it the remedy takes away by the true account, at most, ns. A check of the
    /// account: it knows nothing of the second run.
    pub due: u64,
    /// How much sooner it was over with the remedy, ns; negative where it took longer.
    pub saved: i64,
    /// What was said.
    pub verdict: String,
}

/// What a promise was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// At least half of what was promised came, and no more than it by a tenth of the duration.
    Kept,
    /// Less than half of it came.
    TooMuch,
    /// More came.
    TooLittle,
}

impl Worth {
    /// Whether the promise was kept.
    pub fn kept(&self) -> Kept {
        let slack = self.took as i64 / 10;
        if self.saved + slack < self.promised as i64 / 2 {
            Kept::TooMuch
        } else if self.saved > self.promised as i64 + slack {
            Kept::TooLittle
        } else {
            Kept::Kept
        }
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: i64| ns / 1_000_000;
        write!(
            f,
            "{} {:?} {:?}: {:?}: took {} ms, promised {}, true {}, saved {}; said: {}",
            self.seed,
            self.place,
            self.remedy,
            self.kept(),
            ms(self.took as i64),
            ms(self.promised as i64),
            ms(self.due as i64),
            ms(self.saved),
            self.verdict
        )
    }
}

/// A promise is looked at from this part of the duration on, one in so many.
const WORTHWHILE: u64 = 10;
/// A plan that takes so long, ns, was ended by its deadline.
const ENDED: u64 = 9_500_000_000;

/// Two runs of the same plan are to take the same time, but for this part of it: how losses and
/// timers meet is chance, and a remedy's part in it is not known where that is much.
const ALIKE: u64 = 10;

/// Runs the plan of a seed and, for each promise of its first connection's reports at either end,
/// once more with the remedy. Gives nothing where the plan takes another time on each run.
pub fn worth(seed: u64) -> Vec<Worth> {
    let plan = Plan::draw(seed);
    let seen = plan.run();
    let mut all: Vec<Worth> = Vec::new();
    if seen.spoiled.is_some() {
        return all;
    }
    let sender = seen.beside(0, Place::Sender);
    let mut repeated: Option<Observation> = None;
    let mut again: Vec<(Remedy, Observation)> = Vec::new();
    for place in [Place::Sender, Place::Receiver] {
        let Some(report) = report(&seen, place) else { continue };
        let took = report.duration_ns.0;
        let worthwhile = |saves: u64| saves >= took / WORTHWHILE;
        let best = report.findings.iter().filter_map(|f| Some((Remedy::of(f.kind)?, f.saves_ns?.0)));
        let Some((remedy, promised)) = best.filter(|b| worthwhile(b.1)).max_by_key(|b| b.1) else { continue };
        if took > ENDED {
            continue;
        }
        let repeated = repeated.get_or_insert_with(|| plan.run());
        let alike = self::report(repeated, place).is_some_and(|r| r.duration_ns.0.abs_diff(took) < took / ALIKE);
        if !alike || repeated.spoiled.is_some() {
            continue;
        }
        if !again.iter().any(|a| a.0 == remedy) {
            again.push((remedy, plan.with(remedy, sender).run()));
        }
        let Some((_, with)) = again.iter().find(|a| a.0 == remedy && a.1.spoiled.is_none()) else { continue };
        let Some(with) = self::report(with, place) else { continue };
        let saved = took as i64 - with.duration_ns.0 as i64;
        let truth = &seen.truths()[0][seen.beside(0, place) as usize];
        let causes = truth.causes(report.start_ns, report.start_ns + took);
        let due = remedy.causes().iter().filter_map(|c| causes.get(c)).sum();
        all.push(Worth { seed, place, remedy, took, promised, due, saved, verdict: report.verdict.to_string() });
    }
    all
}

fn report(seen: &Observation, place: Place) -> Option<Report> {
    analysed(&seen.captured(0, place), seen.talks[0].client.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_can_be_made_with_every_remedy() {
        let all = [
            Remedy::ReceiveWindow,
            Remedy::SendBuffer,
            Remedy::NoLoss,
            Remedy::Order,
            Remedy::NoDelay,
            Remedy::Reading,
        ];
        for seed in 0..300 {
            let plan = Plan::draw(seed);
            for (remedy, sender) in all.into_iter().flat_map(|r| End::ALL.map(|end| (r, end))) {
                let with = plan.with(remedy, sender);
                with.path.config(seed).check().unwrap_or_else(|e| panic!("seed {seed}, {remedy:?}: {e}"));
                assert_eq!(with.with(remedy, sender), with, "seed {seed}, {remedy:?}: once is enough");
            }
        }
    }

    #[test]
    fn a_promise_is_kept_where_at_least_half_of_it_comes() {
        let worth = |promised: u64, saved: i64| {
            let verdict = String::new();
            Worth {
                seed: 1,
                place: Place::Sender,
                remedy: Remedy::NoLoss,
                took: 1_000,
                promised,
                due: 0,
                saved,
                verdict,
            }
            .kept()
        };
        assert_eq!(worth(600, 500), Kept::Kept);
        assert_eq!(worth(600, 150), Kept::TooMuch);
        assert_eq!(worth(600, -500), Kept::TooMuch);
        assert_eq!(worth(200, 250), Kept::Kept);
        assert_eq!(worth(200, 400), Kept::TooLittle);
    }
}
