//! Ctrl-C, SIGTERM and SIGHUP: the first asks a command to end with its report, a later one ends
//! the process without it.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

/// How many signals came.
static CAME: AtomicU32 = AtomicU32::new(0);
/// Set by the first.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens from its making to the end of the process.
#[derive(Clone, Copy)]
pub struct Interrupt(());

impl Interrupt {
    /// From here on the first signal asks for the end, and the second ends the process with status
    /// 128 + its number.
    ///
    /// # Errors
    /// Where the kernel takes no handler.
    pub fn listen() -> io::Result<Self> {
        Self::with_patience(1)
    }

    /// The same, where the command answers to so many signals itself before one more ends the
    /// process.
    ///
    /// # Errors
    /// Where the kernel takes no handler.
    pub fn with_patience(answered: u32) -> io::Result<Self> {
        Self::of(heeded(), answered)
    }

    /// The same, but SIGHUP asks for something else: it sets the flag.
    ///
    /// # Errors
    /// Where the kernel takes no handler.
    pub fn but_hangup() -> io::Result<(Self, Arc<AtomicBool>)> {
        let hangup = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, hangup.clone())?;
        Ok((Self::of([SIGINT, SIGTERM].into_iter(), 1)?, hangup))
    }

    fn of(signals: impl Iterator<Item = libc::c_int>, answered: u32) -> io::Result<Self> {
        for signal in signals {
            let handler = move || {
                ASKED.store(true, Ordering::Relaxed);
                if CAME.fetch_add(1, Ordering::Relaxed) >= answered {
                    low_level::exit(128 + signal);
                }
            };
            // SAFETY: the handler stores to atomics and ends the process by `_exit`, which may be
            // done in a signal handler.
            unsafe { low_level::register(signal, handler) }?;
        }
        Ok(Self(()))
    }

    /// Whether the end was asked for.
    pub fn came(self) -> bool {
        self.times() > 0
    }

    /// How often the end was asked for.
    pub fn times(self) -> u32 {
        CAME.load(Ordering::Relaxed)
    }

    /// The same as a flag, for those who look at one while they wait.
    pub fn flag(self) -> &'static AtomicBool {
        &ASKED
    }

    /// What the progress of a workload answers.
    pub fn go_on(self) -> ControlFlow<()> {
        if self.came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The signals that ask for the end. `nohup` ignores SIGHUP, and what it ignores stays ignored.
fn heeded() -> impl Iterator<Item = libc::c_int> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let left_alone = move |signal: &libc::c_int| *signal == SIGHUP && ignored >> (SIGHUP - 1) & 1 == 1;
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| !left_alone(signal))
}
