//! How busy the machine's CPUs are (PSI, the kernel's `Documentation/accounting/psi.rst`).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// How long tasks waited for a CPU, from a moment on.
#[derive(Debug)]
pub struct CpuPressure {
    file: File,
    since: Instant,
    waited: Duration,
}

impl CpuPressure {
    /// Counts from now on; `None` where the kernel does not account for it. Nothing is opened
    /// later, so that rights can be dropped.
    pub fn begin() -> Option<Self> {
        let file = File::open("/proc/pressure/cpu").ok()?;
        Some(Self { waited: waited(&file)?, file, since: Instant::now() })
    }

    /// The share of the time since then, 0 to 1, in which at least one task of this machine waited
    /// for a CPU.
    pub fn share(&self) -> Option<f64> {
        let waited = waited(&self.file)?.saturating_sub(self.waited);
        Some((waited.as_secs_f64() / self.since.elapsed().as_secs_f64()).min(1.0))
    }
}

/// The sum of all waits: `some … total=` in microseconds.
fn waited(file: &File) -> Option<Duration> {
    let mut text = [0; 256];
    let n = file.read_at(&mut text, 0).ok()?;
    total(std::str::from_utf8(&text[..n]).ok()?)
}

fn total(text: &str) -> Option<Duration> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_all_waits_is_read() {
        let text = "some avg10=9.59 avg60=10.21 avg300=8.30 total=13038175041\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_micros(13_038_175_041)));
        assert_eq!(total("full avg10=0.00 total=7\n"), None);
        assert_eq!(total("some avg10=0.00 total=x\n"), None);
    }

    #[test]
    fn more_programs_than_cpus_wait() {
        let Some(pressure) = CpuPressure::begin() else { return tier::skip("more_programs_than_cpus_wait", "no PSI") };
        let cpus = std::thread::available_parallelism().unwrap().get();
        std::thread::scope(|scope| {
            for _ in 0..2 * cpus {
                scope.spawn(|| while pressure.since.elapsed() < Duration::from_millis(300) {});
            }
        });
        let share = pressure.share().unwrap();
        assert!(share > 0.5 && share <= 1.0, "{share}");
    }
}
