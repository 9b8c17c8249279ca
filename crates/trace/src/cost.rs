//! Keeping what tracing costs below a share of the CPU time of the traced programs, by making
//! sampling windows rarer.
//!
//! What a send costs is measured once: the kernel counts how long the BPF programs run until so
//! many sends were traced. After that the number of sends says what they cost.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{FromRawFd as _, OwnedFd};

use record::{Event, Instant, Monotonic, Nanos};

use crate::process;
use crate::rate::{self, Bounds};

/// How often the cost is looked at.
const PERIOD: Nanos = Nanos::from_millis(1_000);

/// So many sends tell what one costs.
const TELLING: u64 = 500;

/// The kernel's own work to call a program back, as a part of what the program takes
/// (docs/overhead.md).
const CALLING: f64 = 1.0;

/// Until it is measured: what a send costs by all that was measured so far, ns.
const USUAL: f64 = 1_500.0;

/// What costs less than this share of one CPU is nothing that rarer windows have to save.
const NOTHING: f64 = 0.000_5;

/// Processes whose CPU time is read.
const PROCESSES: usize = 1_024;

/// How often a second sends cost so much.
#[derive(Debug)]
pub(crate) struct Cost {
    /// The share of the programs' CPU time.
    most: f64,
    /// While it is open, the kernel counts how long BPF programs run.
    counting: Option<OwnedFd>,
    /// ns a send.
    each: f64,
    checked: Instant<Monotonic>,
    sends: u64,
    programs: BTreeSet<u32>,
    used: HashMap<u32, Nanos>,
}

impl Cost {
    /// At most this share from `now` on.
    pub fn new(most: f64, now: Instant<Monotonic>) -> Self {
        // SAFETY: it takes a plain number, and gives a descriptor of its own or a negative number.
        let counting = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
        // SAFETY: the descriptor is open, and nobody else's.
        let counting = (counting >= 0).then(|| unsafe { OwnedFd::from_raw_fd(counting) });
        Self { most, counting, each: USUAL, checked: now, sends: 0, programs: BTreeSet::new(), used: HashMap::new() }
    }

    /// Takes note of the program that an event is of.
    pub fn event(&mut self, event: &Event) {
        if let Event::Send(send) = event
            && self.programs.len() < PROCESSES
        {
            self.programs.insert(send.owner.pid);
        }
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now: Instant<Monotonic>) -> bool {
        now.since(self.checked).is_ok_and(|since| since >= PERIOD)
    }

    /// How rare windows are to be where they are one in `every` window lengths, and `sends` have
    /// come up to `now`. `ran` asks the kernel how long the programs have run.
    pub fn adapt(&mut self, every: u32, sends: u64, now: Instant<Monotonic>, ran: impl FnOnce() -> Nanos) -> u32 {
        if self.counting.is_some() && sends >= TELLING {
            let ran = ran();
            if ran > Nanos::ZERO {
                self.each = ran.0 as f64 * (1.0 + CALLING) / sends as f64;
            }
            self.counting = None;
        }
        let programs = self.programs_used();
        let since = now.since(self.checked).unwrap_or(Nanos::ZERO);
        let cost = sends.saturating_sub(self.sends) as f64 * self.each;
        (self.checked, self.sends) = (now, sends);
        rarer(every, cost, self.most * programs.0 as f64, since)
    }

    /// How much CPU time the programs took since the last time. What ended meanwhile is not in it.
    fn programs_used(&mut self) -> Nanos {
        let now: HashMap<u32, Nanos> =
            self.programs.iter().filter_map(|&pid| Some((pid, process::used(pid)?))).collect();
        let since =
            |(pid, used): (&u32, &Nanos)| used.saturating_sub(self.used.get(pid).copied().unwrap_or(Nanos::ZERO));
        let all = now.iter().map(since).sum();
        self.programs.retain(|pid| now.contains_key(pid));
        self.used = now;
        all
    }
}

/// How rare windows are to be where they cost so many ns in the time `since`, and may cost `most`.
fn rarer(every: u32, cost: f64, most: f64, since: Nanos) -> u32 {
    const BOUNDS: Bounds = Bounds { above: 1.0, margin: 1.2, below: 0.5 };
    let most = most.max(NOTHING * since.0 as f64).max(1.0);
    rate::rarer(every, cost / most, &BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn windows_become_rarer_as_far_as_the_cost_is_too_high_and_more_frequent_again() {
        // Ten times too much.
        assert_eq!(rarer(1, 100e6, 10e6, SECOND), 12);
        assert_eq!(rarer(12, 9e6, 10e6, SECOND), 12);
        assert_eq!(rarer(12, 1e6, 10e6, SECOND), 9);
        assert_eq!([4, 3, 2, 1].map(|every| rarer(every, 0.0, 10e6, SECOND)), [3, 2, 1, 1]);
    }

    #[test]
    fn a_program_that_sends_little_is_traced_whole_however_little_it_computes() {
        // A hundred sends of 2 µs in a second, of a program that used a millisecond.
        assert_eq!(rarer(1, 200e3, 10e3, SECOND), 1);
        // Ten thousand are something.
        assert!(rarer(1, 20e6, 10e3, SECOND) > 1);
    }
}
