//! Many plans, some at a time: they wait most of their time.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `one` with each seed, `jobs` at a time.
///
/// # Errors
///
/// The first that `one` gave; seeds that had begun by then are finished.
///
/// # Panics
///
/// Where `one` did.
pub fn each(seeds: Range<u64>, jobs: usize, one: impl Fn(u64) -> std::io::Result<()> + Sync) -> std::io::Result<()> {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return Ok(());
                }
                one(seed)?;
            }
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("a worker runs"))
    })
}
