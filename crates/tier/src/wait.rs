//! Waiting for what another process or the kernel does.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is asked.
const EVERY: Duration = Duration::from_millis(10);

/// Whether this holds, at once or within two minutes.
pub fn wait_for(holds: impl FnMut() -> bool) -> bool {
    wait_within(PATIENCE, holds)
}

/// Whether this holds, at once or within that time.
pub fn wait_within(most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > most {
            return false;
        }
        thread::sleep(EVERY);
    }
    true
}

/// Waits until this holds.
///
/// # Panics
/// Where it still does not after two minutes.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(wait_for(holds), "waited in vain for {what}");
}

/// What this gives, as soon as it gives something.
///
/// # Panics
/// Where it still gives nothing after two minutes.
#[track_caller]
pub fn until_some<T>(what: &str, mut gives: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = gives();
        found.is_some()
    });
    found.expect("it was found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_holds_or_when_its_time_is_over() {
        let mut asked = 0;
        assert!(wait_for(|| {
            asked += 1;
            asked == 3
        }));
        assert_eq!(asked, 3);
        assert!(!wait_within(Duration::ZERO, || false));
        assert_eq!(until_some("the fourth", || (asked..9).nth(2)), 5);
    }
}
