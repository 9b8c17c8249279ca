//! The NIC's stamps on the clock of the trace.
//!
//! A NIC stamps by its own clock. Which clock that is the interface says, in its network namespace;
//! what it shows against `CLOCK_MONOTONIC` is measured again for every batch of records that has
//! such stamps, because the two drift apart.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use record::{Conversion, Instant, Monotonic, Nanos, Phc, Source, Timestamp};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use timestamping::{HardwareClock, Interface};

use crate::keeper::{Keeper, Reply, Request};
use crate::namespace;

/// How far two clocks drift apart, parts in a million: IEEE 802.3 allows the oscillator of an
/// interface 100 (clause 40.6.1.2.6), and the system's counter is given the same.
const DRIFT_PPM: u64 = 200;

/// A stamp as the NIC wrote it, and which interface that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NicStamp {
    /// The moment, by the NIC's clock.
    pub at: Instant<Phc>,
    /// The interface's number.
    pub interface: u32,
    /// The inode number of its network namespace.
    pub network: u32,
}

/// What the NIC's clock showed at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant<Monotonic>,
    conversion: Conversion<Phc, Monotonic>,
}

impl Reading {
    /// The stamp by this reading; its error grows with the time between the two.
    fn convert(&self, stamp: Instant<Phc>) -> Timestamp<Monotonic> {
        let mut at = self.conversion.convert(Timestamp { at: stamp, source: Source::Nic, error: Nanos::ZERO });
        at.error += drift(self.at, at.at);
        at
    }

    /// Whether the clock was set in between: it shows what no drift explains.
    fn set_since(&self, earlier: &Self) -> bool {
        let moved = self.conversion.offset.abs_diff(earlier.conversion.offset);
        moved > (self.conversion.error + earlier.conversion.error + drift(earlier.at, self.at)).0
    }
}

fn drift(a: Instant<Monotonic>, b: Instant<Monotonic>) -> Nanos {
    Nanos(a.as_nanos().abs_diff(b.as_nanos()).saturating_mul(DRIFT_PPM).div_ceil(1_000_000))
}

#[derive(Debug)]
struct Clock {
    phc: Arc<HardwareClock>,
    earlier: Option<Reading>,
    latest: Reading,
}

impl Clock {
    fn of(phc: Arc<HardwareClock>) -> Option<Self> {
        let latest = read(&phc)?;
        Some(Self { phc, earlier: None, latest })
    }

    /// The stamp on the trace's clock; `None` where the NIC's was set between the stamp and the
    /// reading.
    fn convert(&mut self, stamp: Instant<Phc>) -> Option<Timestamp<Monotonic>> {
        // A reading after the stamp shows whether the clock was set since.
        if self.latest.convert(stamp).at > self.latest.at {
            let now = read(&self.phc)?;
            self.earlier = (!now.set_since(&self.latest)).then_some(self.latest);
            self.latest = now;
        }
        let by_latest = self.latest.convert(stamp);
        let Some(earlier) = self.earlier else {
            // Nothing is known of the time before the only reading, but that it was just taken.
            let age = self.latest.at.since(by_latest.at).unwrap_or_default();
            return (age < Nanos::from_millis(1_000)).then_some(by_latest);
        };
        let by_earlier = earlier.convert(stamp);
        Some(if by_earlier.error < by_latest.error { by_earlier } else { by_latest })
    }
}

fn read(phc: &HardwareClock) -> Option<Reading> {
    let (conversion, _) = phc.to_monotonic().ok()?;
    Some(Reading { at: timestamping::now(), conversion })
}

/// The number of the clock that an interface of this network namespace stamps by.
fn phc_of(interface: u32) -> Option<u32> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let name = index_to_name(&socket, interface).ok()?;
    Interface::by_name(&name).ok()?.timestamping_info().ok()?.phc
}

/// The number of the clock that an interface of a network namespace stamps by. Entering that
/// namespace takes `CAP_SYS_ADMIN`.
pub(crate) fn phc_within(network: u32, interface: u32) -> Option<u32> {
    namespace::network(network)?.within(|| Ok(phc_of(interface))).ok()?
}

/// The same, found by the keeper. Where that is gone, the tracer's next look at its neighbours says
/// so.
fn ask(keeper: &Keeper, network: u32, interface: u32) -> Option<u32> {
    match keeper.ask(&Request::Clock { network, interface }) {
        Ok(Reply::Clock(number)) => number,
        _ => None,
    }
}

/// The clocks of the interfaces that have stamped.
#[derive(Debug, Default)]
pub(crate) struct NicClocks {
    /// By network namespace and interface; nothing where the clock cannot be had.
    of: HashMap<(u32, u32), Option<Clock>>,
    /// The clocks of this machine by their number, opened while this process had the right to.
    opened: HashMap<u32, Arc<HardwareClock>>,
    /// Finds an interface's clock once this process may not enter other network namespaces.
    keeper: Option<Keeper>,
}

impl NicClocks {
    /// Opens all clocks of this machine: for a process that will not be allowed to.
    pub(crate) fn open_all(&mut self) {
        let names = fs::read_dir("/sys/class/ptp").into_iter().flatten().flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("ptp")?.parse().ok());
        self.opened =
            numbers.filter_map(|number| Some((number, Arc::new(HardwareClock::open(number).ok()?)))).collect();
    }

    /// Has the keeper say from now on by which clock an interface stamps.
    pub(crate) fn ask(&mut self, keeper: Keeper) {
        self.keeper = Some(keeper);
    }

    /// The stamp on the clock of the trace; `None` where the NIC's clock cannot be read.
    pub(crate) fn convert(&mut self, stamp: &NicStamp) -> Option<Timestamp<Monotonic>> {
        let Self { of, opened, keeper } = self;
        let open = || {
            let number = match keeper {
                None => phc_within(stamp.network, stamp.interface),
                Some(keeper) => ask(keeper, stamp.network, stamp.interface),
            }?;
            let clock = match opened.get(&number) {
                Some(clock) => Arc::clone(clock),
                None => Arc::new(HardwareClock::open(number).ok()?),
            };
            Clock::of(clock)
        };
        of.entry((stamp.network, stamp.interface)).or_insert_with(open).as_mut()?.convert(stamp.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: u64, offset: i64) -> Reading {
        Reading { at: Instant::from_nanos(at), conversion: Conversion::new(offset, Nanos(50)) }
    }

    #[test]
    fn the_error_grows_with_the_time_from_the_reading() {
        let reading = reading(2_000_000_000, -37_000_000_000);
        let stamp = reading.convert(Instant::from_nanos(39_000_000_000));
        assert_eq!((stamp.at.as_nanos(), stamp.error), (2_000_000_000, Nanos(50)));
        // 10 ms away, 200 parts in a million are 2 µs.
        assert_eq!(reading.convert(Instant::from_nanos(38_990_000_000)).error, Nanos(2_050));
    }

    #[test]
    fn the_loopback_interface_has_no_clock() {
        let here =
            fs::metadata("/proc/thread-self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m)).unwrap() as u32;
        assert_eq!(phc_within(here, 1), None);
    }

    #[test]
    fn a_clock_that_was_set_is_distinguished_from_one_that_drifts() {
        let first = reading(1_000_000_000, 500);
        assert!(!reading(2_000_000_000, 500 + 200_000).set_since(&first));
        assert!(reading(2_000_000_000, 500 + 200_200).set_since(&first));
    }
}
