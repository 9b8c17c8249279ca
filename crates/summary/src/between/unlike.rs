//! What makes two runs unlike each other beside what is compared.

use record::{LegName, Nanos, Sampling};

use super::side::Side;
use crate::TimedKind;

/// Shares above this of what was not recorded are said.
const SAID: f64 = 0.01;
/// Shares of the traffic further apart than this are said.
const APART: f64 = 0.1;

/// One thing to know before a comparison is believed.
#[derive(Clone, Debug, PartialEq)]
pub enum Unlike {
    /// What was said when a run was read.
    Read {
        /// The run.
        run: String,
        /// The warning.
        said: String,
    },
    /// Sends were chosen in different ways.
    Sampling {
        /// The runs.
        runs: [String; 2],
        /// How.
        how: [Sampling; 2],
    },
    /// The stamps were taken by different backends.
    Backend {
        /// The runs.
        runs: [String; 2],
        /// Which.
        which: [String; 2],
    },
    /// The kernels differ.
    Kernel {
        /// The runs.
        runs: [String; 2],
        /// Their releases.
        release: [String; 2],
    },
    /// One run alone separates a leg, so that it is taken together with the one that has its time.
    Leg {
        /// The runs.
        runs: [String; 2],
        /// The kind of record.
        kind: TimedKind,
        /// The leg.
        leg: LegName,
        /// The leg that has its time in the other run.
        within: LegName,
        /// Which run has stamps of it.
        stamped: [bool; 2],
    },
    /// One run alone has records of these kinds.
    Alone(Vec<TimedKind>),
    /// Method and path are known in one run alone.
    Labels {
        /// That run.
        run: String,
        /// Of these requests.
        kind: TimedKind,
    },
    /// Sends of a run were not recorded. If they were the slow ones, it looks faster than it was.
    NotRecorded {
        /// The run.
        run: String,
        /// Their share of all its sends.
        share: f64,
        /// How many they were.
        n: u64,
    },
    /// Sends of a run ended without an ACK and are in no figure of the total.
    Unacknowledged {
        /// The run.
        run: String,
        /// Their share of its sends.
        share: f64,
    },
    /// Connections of a run were stuck at its end ([`crate::is_stuck`]): what they waited for is in
    /// no figure of the total.
    Stuck {
        /// The run.
        run: String,
        /// How many.
        connections: u64,
        /// How many it had.
        of: u64,
        /// For how long nothing was acknowledged, where that was longest.
        idle: Nanos,
    },
    /// The runs observed different shares of the traffic.
    Coverage {
        /// The runs.
        runs: [String; 2],
        /// The share of the bytes.
        share: [f64; 2],
    },
    /// There is one run of each: what runs of one setting differ by is in no interval.
    OneRunOfEach,
}

pub(super) fn of(a: &Side, b: &Side) -> Vec<Unlike> {
    let mut all = Vec::new();
    let (both, runs) = ([a, b], || [a.name.clone(), b.name.clone()]);
    for side in both {
        let read = |said: &String| Unlike::Read { run: side.name.clone(), said: said.clone() };
        all.extend(side.about.warnings.iter().map(read));
    }
    let [how, which, release] = [
        (a.about.sampling != b.about.sampling)
            .then(|| Unlike::Sampling { runs: runs(), how: both.map(|side| side.about.sampling) }),
        (a.about.backend != b.about.backend)
            .then(|| Unlike::Backend { runs: runs(), which: both.map(|side| side.about.backend.clone()) }),
        (a.about.kernel != b.about.kernel)
            .then(|| Unlike::Kernel { runs: runs(), release: both.map(|side| side.about.kernel.clone()) }),
    ];
    all.extend([how, which, release].into_iter().flatten());
    for kind in TimedKind::ALL.into_iter().filter(|kind| both.iter().all(|side| side.timed(*kind) > 0)) {
        for (i, leg) in kind.adding() {
            let Some(within) = leg.within else { continue };
            let stamped = both.map(|side| side.of(kind).n(i) > 0);
            if stamped[0] != stamped[1] {
                let within = kind.legs()[within].name;
                all.push(Unlike::Leg { runs: runs(), kind, leg: leg.name, within, stamped });
            }
        }
    }
    let has = |side: &Side, kind: TimedKind| side.figures.n(kind) > 0;
    let alone: Vec<TimedKind> = TimedKind::ALL.into_iter().filter(|kind| has(a, *kind) != has(b, *kind)).collect();
    if !alone.is_empty() {
        all.push(Unlike::Alone(alone));
    }
    for kind in [TimedKind::AtClient, TimedKind::AtServer] {
        if both.iter().all(|side| side.timed(kind) > 0) && a.is_labelled(kind) != b.is_labelled(kind) {
            let with = if a.is_labelled(kind) { a } else { b };
            all.push(Unlike::Labels { run: with.name.clone(), kind });
        }
    }
    both.into_iter().for_each(|side| all.extend(missing(side)));
    let share = both.map(|side| {
        let seen = side.about.coverage;
        seen.bytes_armed as f64 / seen.bytes_written as f64
    });
    if share.iter().all(|share| share.is_finite()) && (share[0] - share[1]).abs() > APART {
        all.push(Unlike::Coverage { runs: runs(), share });
    }
    all
}

/// What a run has no times of.
fn missing(side: &Side) -> impl Iterator<Item = Unlike> {
    let total = side.figures.total();
    let n = side.about.lost.unrecorded_sends().iter().map(|(n, _)| n).sum::<u64>();
    let not_recorded = n as f64 / (total.sends + n) as f64;
    let unacknowledged = total.unacknowledged as f64 / total.sends as f64;
    let run = side.name.clone();
    let stuck = side.figures.stuck();
    let idle = stuck.first().and_then(|(_, send)| Some(send.unacknowledged?.idle));
    let stuck = idle.map(|idle| Unlike::Stuck {
        run: run.clone(),
        connections: stuck.len() as u64,
        of: side.figures.connection_count(),
        idle,
    });
    [
        stuck,
        (not_recorded > SAID).then(|| Unlike::NotRecorded { run: run.clone(), share: not_recorded, n }),
        (unacknowledged > SAID).then_some(Unlike::Unacknowledged { run, share: unacknowledged }),
    ]
    .into_iter()
    .flatten()
}
