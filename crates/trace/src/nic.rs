//! The NIC's stamps on the clock of the trace.
//!
//! A NIC stamps by its own clock. Which clock that is the interface says, in its network namespace; what it shows against
//! `CLOCK_MONOTONIC` is measured again for every batch of records that has such stamps, because the two drift apart.

use std::collections::HashMap;

use record::{Conversion, Instant, Monotonic, Nanos, Phc, Source, Timestamp};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use timestamping::{HardwareClock, Interface};

use crate::namespace;

/// How far two clocks drift apart, parts in a million: IEEE 802.3 allows the oscillator of an interface 100 (clause 40.6.1.2.6), and
/// the system's counter is given the same.
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
    phc: HardwareClock,
    earlier: Option<Reading>,
    latest: Reading,
}

impl Clock {
    fn open(interface: u32, network: u32) -> Option<Self> {
        let index = namespace::all_networks()
            .ok()?
            .into_iter()
            .find(|n| n.inode() == Some(network.into()))?
            .within(|| Ok(phc_of(interface)))
            .ok()??;
        let phc = HardwareClock::open(index).ok()?;
        let latest = read(&phc)?;
        Some(Self { phc, earlier: None, latest })
    }

    /// The stamp on the trace's clock; `None` where the NIC's was set between the stamp and the reading.
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

/// The clocks of the interfaces that have stamped.
#[derive(Debug, Default)]
pub(crate) struct NicClocks(HashMap<(u32, u32), Option<Clock>>);

impl NicClocks {
    /// The stamp on the clock of the trace; `None` where the NIC's clock cannot be read.
    pub(crate) fn convert(&mut self, stamp: &NicStamp) -> Option<Timestamp<Monotonic>> {
        self.0
            .entry((stamp.network, stamp.interface))
            .or_insert_with(|| Clock::open(stamp.interface, stamp.network))
            .as_mut()?
            .convert(stamp.at)
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
    fn a_clock_that_was_set_is_told_from_one_that_drifts() {
        let first = reading(1_000_000_000, 500);
        assert!(!reading(2_000_000_000, 500 + 200_000).set_since(&first));
        assert!(reading(2_000_000_000, 500 + 200_200).set_since(&first));
    }
}
