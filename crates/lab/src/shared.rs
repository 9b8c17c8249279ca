//! What the thread of a direction shares with those who ask it: changes on the way in, reports on
//! the way out.

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::Nanos;

use crate::Error;
use crate::direction::Direction;
use crate::report::{Achieved, StepReport, Tally};

/// How long a thread may take to take a change.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state, and what wakes both sides.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub wake: OwnedFd,
    /// Rung when a change holds.
    pub changed: Condvar,
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// What is asked and what was achieved.
#[derive(Debug)]
pub(crate) struct State {
    /// What the line is asked to be, as it holds it.
    pub asked: Direction,
    pub tally: Tally,
    pub in_flight: u64,
    pub change: Option<Direction>,
    /// Changes that were asked for and hold.
    pub taken: u64,
    pub stop: bool,
}

impl Shared {
    pub(crate) fn new(wake: OwnedFd, asked: Direction, mtu: u32) -> Self {
        let state = State { tally: Tally::new(&asked), asked, in_flight: 0, change: None, stop: false, taken: 0 };
        Self { state: Mutex::new(state), wake, changed: Condvar::new(), mtu }
    }

    /// The state is counters and flags, each valid by itself, so a panic elsewhere does not spoil
    /// it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A full counter wakes just as well.
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).ok();
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.ring();
    }

    /// Has the line become `to`, and waits until it is.
    pub(crate) fn change(&self, to: Direction) -> Result<(), Error> {
        let mut state = self.lock();
        let before = state.taken;
        state.change = Some(to);
        self.ring();
        let waiting = |state: &mut State| state.taken == before;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, waiting).unwrap_or_else(PoisonError::into_inner);
        if waited.1.timed_out() {
            let source = std::io::ErrorKind::TimedOut.into();
            return Err(Error::System { step: "change the path: its thread does not answer".into(), source });
        }
        Ok(())
    }

    /// What the line holds and what was achieved so far.
    pub(crate) fn report(&self, now: Nanos, missed_frames: u64) -> Reported {
        let state = self.lock();
        Reported {
            asked: state.asked.clone(),
            achieved: state.tally.achieved(state.in_flight, missed_frames),
            changes: state.tally.changes,
            steps_refused: state.tally.steps_refused,
            steps: state.tally.steps(now),
        }
    }
}

/// What a direction reports.
pub(crate) struct Reported {
    pub asked: Direction,
    pub achieved: Achieved,
    pub changes: u64,
    pub steps_refused: u64,
    pub steps: Vec<StepReport>,
}
