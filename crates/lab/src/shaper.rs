//! What the kernel's shaper does, by its own statistics: they are read a hundred times a second, so
//! that the rate while frames waited is known, and not only the sum.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use clock::Nanos;
use machine::netlink::{Netlink, QueueCounts};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, move_into_link_name_space};

use crate::ethernet::ETHERNET_OVERHEAD;
use crate::forward::clock;
use crate::links::{Counters, index_of};
use crate::report::{Achieved, BUSY_SEGMENTS, BUSY_TIME};

/// A thread that reads the statistics of the discipline at the root of a host's device. It ends
/// when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    account: Account,
    stop: bool,
}

impl Watch {
    /// Of the host with this network namespace.
    pub(crate) fn start(net: &OwnedFd) -> io::Result<Self> {
        let net = net.try_clone()?;
        let shared = Arc::new((Mutex::new(Shared::default()), Condvar::new()));
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("lab-shaper".into()).spawn(move || {
            // Where the namespace or its device is gone, there is nothing more to count.
            let _ = watch(net, &seen);
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What it saw so far, beside what the sending host's device counted.
    pub(crate) fn achieved(&self, sender: Counters) -> Achieved {
        lock(&self.shared.0).account.achieved(sender)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.shared.0).stop = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(net: OwnedFd, shared: &(Mutex<Shared>, Condvar)) -> io::Result<()> {
    move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))?;
    let index = index_of(c"eth0")?;
    let mut netlink = Netlink::open()?;
    crate::rights::keep(CapabilitySet::empty());
    loop {
        let counts = netlink.root_queue(index)?.unwrap_or_default();
        let mut state = lock(&shared.0);
        state.account.read(clock(), counts);
        let state = shared.1.wait_timeout_while(state, BUSY_TIME.into(), |state| !state.stop);
        if state.unwrap_or_else(PoisonError::into_inner).0.stop {
            return Ok(());
        }
    }
}

/// The state is counters and a flag, each valid by itself.
fn lock(state: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sums over readings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Account {
    last: Option<(u64, QueueCounts)>,
    whole: Sum,
    dropped: u64,
    /// The readings in a row between which frames always waited, and all earlier such periods.
    period: Sum,
    busy: Sum,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    bytes: u64,
    segments: u64,
    ns: u64,
}

impl Sum {
    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, segments: self.segments + other.segments, ns: self.ns + other.ns }
    }

    /// What Ethernet adds to the frames that the discipline counts, which have their header.
    fn wire_bytes(self) -> u64 {
        self.bytes + self.segments * u64::from(ETHERNET_OVERHEAD - 14)
    }
}

impl Account {
    /// A discipline that was put in place anew begins at zero.
    fn read(&mut self, at: u64, now: QueueCounts) {
        let (before, last) = match self.last.replace((at, now)) {
            Some((at, last)) if last.bytes <= now.bytes => (at, last),
            _ => (at, QueueCounts::default()),
        };
        let sum = Sum {
            bytes: now.bytes - last.bytes,
            segments: now.segments.wrapping_sub(last.segments).into(),
            ns: at.saturating_sub(before),
        };
        self.whole = self.whole.and(sum);
        self.dropped += u64::from(now.dropped.wrapping_sub(last.dropped));
        // Frames waited at both ends, and for the rate in between: not for a busy CPU.
        if last.backlog > 0 && now.backlog > 0 && now.held != last.held {
            self.period = self.period.and(sum);
        } else {
            self.busy = self.busy.and(std::mem::take(&mut self.period));
        }
    }

    fn achieved(&self, sender: Counters) -> Achieved {
        let waiting = self.last.map_or(0, |(_, last)| u64::from(last.waiting));
        let busy = self.busy.and(self.period);
        Achieved {
            busy_rate: (busy.segments >= BUSY_SEGMENTS).then(|| busy.wire_bytes() as f64 * 8e9 / busy.ns as f64),
            busy_segments: busy.segments,
            busy: Nanos(busy.ns),
            frames: sender.sent_frames,
            offered: self.whole.segments + self.dropped + waiting,
            delivered: self.whole.segments,
            in_flight: waiting,
            dropped_queue: self.dropped,
            missed_frames: sender.missed_frames,
            bytes: self.whole.bytes,
            wire_bytes: self.whole.wire_bytes(),
            ..Achieved::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(frames: u32, backlog: u32, held: u32) -> QueueCounts {
        QueueCounts {
            bytes: 1_514 * u64::from(frames),
            segments: frames,
            backlog,
            waiting: backlog.min(1),
            dropped: 0,
            held,
        }
    }

    #[test]
    fn the_rate_is_that_of_the_time_in_which_frames_waited() {
        let mut account = Account::default();
        let (tenth, mut at) = (10_000_000, 0);
        // 10 Gbit/s are 8,127 full segments in 10 ms. Half of that in the first, when nothing waits
        // at the beginning, and a tenth in the last, after which nothing waits.
        for (frames, backlog, held) in [(0, 0, 0), (4_063, 9, 1), (12_190, 9, 2), (20_317, 9, 3), (21_130, 0, 4)] {
            account.read(at, counts(frames, backlog, held));
            at += tenth;
        }
        let seen = account.achieved(Counters::default());
        assert_eq!((seen.busy, seen.busy_segments), (Nanos(2 * tenth), 16_254));
        assert!((seen.busy_rate.unwrap() / 10e9 - 1.0).abs() < 1e-3, "{seen:?}");
        assert_eq!((seen.delivered, seen.wire_bytes), (21_130, 21_130 * 1_538));
    }

    #[test]
    fn frames_that_wait_for_a_busy_cpu_give_no_rate() {
        let mut account = Account::default();
        for n in 0..10 {
            account.read(u64::from(n) * 10_000_000, counts(n * 1_000, 9, 7));
        }
        assert_eq!(account.achieved(Counters::default()).busy_rate, None);
    }

    #[test]
    fn counters_wrap_and_begin_again_with_another_discipline() {
        let mut account = Account::default();
        account.read(0, QueueCounts { segments: u32::MAX, bytes: 10, dropped: u32::MAX, ..QueueCounts::default() });
        let before = account.clone();
        account.read(1, QueueCounts { segments: 4, bytes: 20, dropped: 1, ..QueueCounts::default() });
        assert_eq!(account.whole.segments, before.whole.segments + 5);
        assert_eq!(account.dropped, before.dropped + 2);
        account.read(2, QueueCounts { segments: 3, bytes: 7, ..QueueCounts::default() });
        assert_eq!(account.whole.segments, before.whole.segments + 8);
        assert_eq!(account.whole.bytes, 27);
    }
}
