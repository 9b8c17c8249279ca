//! What processes were started with, as `/proc` says.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use export::pcapng::Details;
use record::{Instant, Nanos, Realtime};

/// How far two readings of one start can lie apart: the time of day is set now and then.
const THE_SAME: Nanos = Nanos::from_secs(1);

/// What the process with this number was started with, if it is the one that began then.
pub fn details(pid: u32, since: Option<Instant<Realtime>>) -> Details {
    let starts = since.zip(trace::process_began(pid));
    let is_it = starts.is_some_and(|(since, began)| since.as_nanos().abs_diff(began.as_nanos()) < THE_SAME.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_asked_where_it_began_then() {
        let own = std::process::id();
        let began = trace::process_began(own).unwrap();
        let of = details(own, Some(began));
        let arguments: Vec<_> = std::env::args().collect();
        assert_eq!(of.command_line, Some(arguments.join("\0").into_bytes()));
        assert_eq!(of.user, Some(rustix::process::geteuid().as_raw()));
        let earlier = Instant::from_nanos(began.as_nanos() - Nanos::from_secs(5).0);
        for other in [Some(earlier), None] {
            assert_eq!(details(own, other), Details::default());
        }
    }
}
