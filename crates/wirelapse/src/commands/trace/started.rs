//! What processes were started with, as `/proc` says.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use export::pcapng::Details;
use record::{Instant, Realtime};
use rustix::time::{ClockId, clock_gettime};

/// How far two readings of one start can lie apart: the time of day is set now and then.
const THE_SAME: Duration = Duration::from_secs(1);

/// What the process with this number was started with, if it is the one that began then.
pub fn details(pid: u32, since: Option<Instant<Realtime>>) -> Details {
    let since = since.map(|since| Duration::from_nanos(since.as_nanos()));
    let is_it = since.zip(began(pid)).is_some_and(|(since, began)| since.abs_diff(began) < THE_SAME);
    if !is_it {
        return Details::default();
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok();
    // The last argument ends with a zero too.
    let command_line = command_line.map(|line| line.strip_suffix(&[0]).unwrap_or(&line).to_vec());
    Details {
        command_line: command_line.filter(|line| !line.is_empty()),
        user: fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid()),
    }
}

/// When it began, in Unix time: the 22nd field of `/proc/PID/stat`, in ticks after the machine did.
fn began(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec as u64, up.tv_nsec as u32);
    let machine = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(up)?;
    Some(machine + Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_asked_where_it_began_then() {
        let own = std::process::id();
        let at = |began: Duration| Some(Instant::from_nanos(began.as_nanos() as u64));
        let began = began(own).unwrap();
        let of = details(own, at(began));
        let arguments: Vec<_> = std::env::args().collect();
        assert_eq!(of.command_line, Some(arguments.join("\0").into_bytes()));
        assert_eq!(of.user, Some(rustix::process::geteuid().as_raw()));
        for other in [at(began - Duration::from_secs(5)), None] {
            assert_eq!(details(own, other), Details::default());
        }
    }
}
