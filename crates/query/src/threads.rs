//! The engine's threads, where a limit (`RLIMIT_NPROC`, docker's `--pids-limit`, systemd's
//! `TasksMax`) lets few be made, or none.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Threads beside one a CPU, for reading files: with those the engine works as it does without a
/// limit.
const READERS: usize = 6;
/// A thread that was made stays: under a limit another one may not be had.
const STAYS: Duration = Duration::from_hours(24);

/// The engine's runtime: with a thread a CPU, or, where a limit does not let so many be made, with
/// the caller's alone.
///
/// # Errors
/// Where no thread can be made.
pub fn runtime() -> io::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let made = can_be_made(workers + READERS)?;
    let mut builder =
        if made < workers + READERS { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(workers).thread_keep_alive(STAYS).enable_all().build()
}

/// How many threads can be made, at most `most`: they are made, and have ended when this returns.
fn can_be_made(most: usize) -> io::Result<usize> {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let gate = Arc::new(Mutex::new(()));
    let shut = gate.lock();
    let mut made = Vec::new();
    let mut refused = None;
    while made.len() < most && refused.is_none() {
        let gate = gate.clone();
        match std::thread::Builder::new().spawn(move || drop(gate.lock())) {
            Ok(thread) => made.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(shut);
    let count = made.len();
    made.into_iter().for_each(|thread| drop(thread.join()));
    // A thread counts until the kernel has put it away, which is a moment after its end was seen
    // here.
    while threads() > before {
        std::thread::sleep(Duration::from_millis(1));
    }
    match refused {
        Some(error) if count == 0 => Err(error),
        _ => Ok(count),
    }
}

/// Whether a panic is of a thread that could not be made: the engine's libraries have no other way
/// to say so.
pub fn none_left(panic: &str) -> bool {
    ["OS can't spawn worker thread", "failed to spawn thread"].iter().any(|words| panic.contains(words))
}

/// What is said where threads cannot be made.
pub const NONE: &str = "cannot make a thread: a limit on processes and threads does not allow it (ulimit -u, docker's --pids-limit, systemd's TasksMax)";
