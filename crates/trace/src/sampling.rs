//! Sampling windows: when the followed connections are armed, and the thread that opens the windows.
//!
//! Time is cut into periods of `N` window lengths. Each period has one window, which begins anywhere in it with the same chance, so
//! every moment has the same chance of `1/N` to be in a window, whatever rhythm the traffic has. A pass over the sockets opens it on
//! each of them when it comes by, for a full window length from then, so that no socket is seen less for being late in the pass; the
//! kernel part closes it. A connection that begins between passes draws its own window (`window_draw()` in
//! `bpf/following.h`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::layout::{Pass, WINDOW_LENGTH};
use crate::passes::Passes;

/// Draws when windows open. The caller passes the time (ns of any clock that runs evenly).
#[derive(Debug)]
pub(crate) struct Windows {
    every: u32,
    period_start: u64,
    next: u64,
    random: u64,
}

impl Windows {
    /// One window in each period of `every` window lengths, from `now` on. The same seed draws the same windows.
    pub(crate) fn new(every: u32, now: u64, seed: u64) -> Self {
        let mut windows = Self { every: every.max(1), period_start: now, next: 0, random: seed | 1 };
        windows.draw();
        windows
    }

    fn period(&self) -> u64 {
        u64::from(self.every) * WINDOW_LENGTH
    }

    fn draw(&mut self) {
        // xorshift64*: https://doi.org/10.18637/jss.v072.i06 more than is needed, and costs nothing.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d);
        self.next = self.period_start + ((u128::from(drawn) * u128::from(self.period())) >> 64) as u64;
    }

    /// When the next window is to open.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// It was opened at `now`: on to the next period. A window that opens late keeps its length, and those of periods that were
    /// missed follow at once, so the share stays right; behind by more than four periods the rest is given up. Gives how many windows
    /// that are.
    pub(crate) fn opened(&mut self, now: u64) -> u64 {
        let (next, least) = (self.period_start + self.period(), now.saturating_sub(4 * self.period()));
        let missed = least.saturating_sub(next).div_ceil(self.period());
        self.period_start = next + missed * self.period();
        self.draw();
        missed
    }
}

/// A thread that opens windows until it is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: u32,
    change: Option<mpsc::Sender<u32>>,
    thread: Option<std::thread::JoinHandle<()>>,
    failed: Arc<Mutex<Option<Error>>>,
}

impl Sampler {
    /// Begins with one window in `every` window lengths; 1 is one window without an end, which the kernel part has open already.
    /// Windows that are given up are added to `missed`.
    pub(crate) fn start(
        passes: Arc<Mutex<Passes>>,
        every: u32,
        seed: u64,
        missed: Arc<AtomicU64>,
    ) -> Result<Self, Error> {
        let failed = Arc::new(Mutex::new(None));
        let (change, changes) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("wirelapse-windows".into())
            .spawn({
                let failed = Arc::clone(&failed);
                move || {
                    if let Err(error) = run(&passes, every, seed, &changes, &missed) {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            })
            .map_err(Error::system("cannot start the thread of the sampling windows"))?;
        Ok(Self { every, change: Some(change), thread: Some(thread), failed })
    }

    /// How many window lengths make a period.
    pub(crate) fn every(&self) -> u32 {
        self.every
    }

    /// One window in `every` window lengths from now on.
    pub(crate) fn set_every(&mut self, every: u32) {
        if std::mem::replace(&mut self.every, every) != every {
            // A thread that has failed takes no changes; check() says so.
            let _ = self.change.as_ref().map(|change| change.send(every));
        }
    }

    /// Why no windows open any more, once.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.change.take());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn run(
    passes: &Mutex<Passes>,
    every: u32,
    seed: u64,
    changes: &mpsc::Receiver<u32>,
    missed: &AtomicU64,
) -> Result<(), Error> {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let lock = || passes.lock().unwrap_or_else(PoisonError::into_inner);
    let mut windows = (every > 1).then(|| Windows::new(every, 0, seed));
    loop {
        let wait = windows.as_ref().map_or(u64::MAX >> 1, |windows| windows.next().saturating_sub(now()));
        match changes.recv_timeout(Duration::from_nanos(wait)) {
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(windows) = &mut windows {
                    missed.fetch_add(windows.opened(now()), Ordering::Relaxed);
                    lock().open(WINDOW_LENGTH)?;
                }
            }
            Ok(every) => {
                let mut passes = lock();
                passes.control.every = every;
                if every == 1 {
                    windows = None;
                    passes.open(u64::MAX)?;
                } else {
                    if windows.is_none() {
                        passes.pass(Pass::Close)?;
                    }
                    windows = Some(Windows::new(every, now(), seed ^ now()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_share_is_the_one_asked_for(every in 2u32..200, seed: u64, late in 0u64..3 * WINDOW_LENGTH) {
            let mut windows = Windows::new(every, 0, seed);
            let (mut now, mut opened, mut missed) = (0, 0u64, 0u64);
            let periods = 50;
            while now < periods * u64::from(every) * WINDOW_LENGTH {
                now = now.max(windows.next()) + late;
                missed += windows.opened(now);
                opened += 1;
            }
            // One more or less for where the last period is cut; what is given up is counted. A thread that is late by more than a period
            // each time may have the windows of four still before it.
            let before_it = if late > u64::from(every) * WINDOW_LENGTH { 4 } else { 0 };
            prop_assert!((periods - 1 - before_it..=periods + 2).contains(&(opened + missed)), "{opened} and {missed} in {periods} periods");
            // Lateness of less than a period is always made up for.
            prop_assert!(missed == 0 || late > u64::from(every) * WINDOW_LENGTH);
        }

        #[test]
        fn windows_fall_everywhere_in_a_period(seed: u64) {
            let mut windows = Windows::new(10, 0, seed);
            let mut covered = [0u32; 10];
            for _ in 0..2_000 {
                let begin = windows.next();
                windows.opened(begin);
                // Which tenths of the period the window touches the middle of: a program that sends once a period, at any phase, meets
                // a window equally often.
                for (tenth, n) in covered.iter_mut().enumerate() {
                    let middle = tenth as u64 * WINDOW_LENGTH + WINDOW_LENGTH / 2;
                    let since = (middle + 10 * WINDOW_LENGTH - begin % (10 * WINDOW_LENGTH)) % (10 * WINDOW_LENGTH);
                    *n += u32::from(since < WINDOW_LENGTH);
                }
            }
            // 200 each, 13 the standard deviation; six of them.
            prop_assert!(covered.iter().all(|n| (120..=280).contains(n)), "{covered:?}");
        }
    }
}
