//! How busy this machine's CPUs are while a trial runs: a figure taken on a full machine is one of
//! the machine.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Twenty of the kernel's ticks (100 a second) on each CPU.
const SLOT: Duration = Duration::from_millis(200);

/// Looks at the CPUs from now on.
pub(crate) struct Busy {
    stop: Sender<()>,
    thread: Option<JoinHandle<Vec<f64>>>,
}

impl Busy {
    pub(crate) fn start() -> Self {
        let (stop, stopped) = channel();
        let look = move || {
            let mut shares = Vec::new();
            let Some(mut before) = read() else { return shares };
            while stopped.recv_timeout(SLOT) == Err(RecvTimeoutError::Timeout) {
                let Some(now) = read() else { break };
                shares.extend(share(before, now));
                before = now;
            }
            shares
        };
        Self { stop, thread: std::thread::Builder::new().name("study-processors".into()).spawn(look).ok() }
    }

    /// The share of the CPUs' time that was in use, 0 to 1: the upper quartile of fifths of a
    /// second, so that the time before and after a load does not hide it. `None` where `/proc/stat`
    /// does not say, or the trial did not last that long.
    pub(crate) fn end(self) -> Option<f64> {
        drop(self.stop);
        stats::quantile(&self.thread?.join().ok()?, 0.75)
    }
}

/// Ticks in use and in all, of all CPUs since the machine started.
type Ticks = (u64, u64);

fn read() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// From the first line of `/proc/stat` (Documentation/filesystems/proc.rst): user, nice, system,
/// idle, iowait, irq, softirq, steal. Guests' time is among user's and nice's.
fn parse(stat: &str) -> Option<Ticks> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8).map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    let all = ticks.iter().sum();
    let idle: u64 = ticks.get(3..5)?.iter().sum();
    Some((all - idle, all))
}

fn share(before: Ticks, now: Ticks) -> Option<f64> {
    let all = now.1.checked_sub(before.1).filter(|all| *all > 0)?;
    // iowait may go down (proc.rst), so the sum of the others can grow by more than all.
    Some((now.0.saturating_sub(before.0) as f64 / all as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_in_use() {
        let stat = "cpu  100 5 50 800 45 0 10 20 7 3\ncpu0 1 2 3\n";
        assert_eq!(parse(stat), Some((185, 1_030)));
        assert_eq!(parse("cpu  100 5 50\n"), None);
        assert_eq!(parse("intr 1"), None);
        assert_eq!(share((100, 1_000), (130, 1_040)), Some(0.75));
        assert_eq!(share((100, 1_000), (100, 1_000)), None);
        assert_eq!(share((100, 1_000), (150, 1_040)), Some(1.0));
    }

    #[test]
    fn this_machine_has_cpus() {
        let busy = Busy::start();
        std::thread::sleep(SLOT * 3);
        assert!(busy.end().is_some_and(|share| (0.0..=1.0).contains(&share)));
        assert_eq!(Busy::start().end(), None, "too short for a figure");
    }
}
