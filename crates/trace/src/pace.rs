//! How long the reader of the ring buffer may sleep: the kernel part never wakes it, which would
//! cost the traced programs, and each time that it wakes by itself it takes a CPU from one of them.

use std::time::Duration;

/// The longest sleep: what a person at a live screen does not notice.
const LONGEST: Duration = Duration::from_millis(100);
/// The shortest: under any load, its cost in wake-ups is far below that of reading.
const SHORTEST: Duration = Duration::from_millis(5);
/// The sleep of a reader that no record comes for. It still looks who else is at work, which it
/// does once a second.
pub(crate) const WITHOUT_RECORDS: Duration = Duration::from_secs(1);
/// A sleep is to fill this part of the ring buffer at most, at the rate of the last period. The
/// rest is for bursts.
const PART: f64 = 8.0;
/// Bytes a second that a burst out of nothing is taken to bring: a million records of sends.
const BURST: f64 = 200e6;

/// How long the next sleep may be, where `bytes` were read from a ring buffer of so many since the
/// last one, in the time `since`. Of a burst, one in `part` records comes.
pub(crate) fn pause(ring: u32, part: u32, bytes: u64, since: Duration) -> Duration {
    let rate = bytes as f64 / since.as_secs_f64().max(1e-6);
    let ring = f64::from(ring);
    let filled = (ring / PART / rate).min(ring * f64::from(part) / BURST);
    Duration::from_secs_f64(filled.clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_reader_sleeps_long_and_a_busy_one_so_that_the_buffer_never_fills() {
        let after = |ring: u32, bytes: u64| pause(ring, 1, bytes, Duration::from_secs(1)).as_millis();
        assert_eq!(after(16 << 20, 0), 83);
        assert_eq!(after(256 << 20, 0), 100);
        assert_eq!(after(4096, 0), 5);
        // A smaller buffer where few sends are traced: the same burst brings as much fewer records.
        assert_eq!(pause(4 << 20, 4, 0, Duration::from_secs(1)).as_millis(), 83);
        // 100 MB a second fill an eighth of 16 MiB in 20 ms.
        assert_eq!(after(16 << 20, 100_000_000), 20);
        assert_eq!(after(16 << 20, 10_000_000_000), 5);
    }

    #[test]
    fn no_time_at_all_is_no_division_by_it() {
        assert_eq!(pause(16 << 20, 1, 0, Duration::ZERO).as_millis(), 83);
        assert_eq!(pause(16 << 20, 1, 1 << 20, Duration::ZERO), SHORTEST);
    }
}
