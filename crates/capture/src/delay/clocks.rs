//! The clocks that two taps stamp by, and how the times of one are read on the other.

use std::time::{Duration, Instant as WallInstant};

use clock::{Conversion, Instant, Nanos, Phc, Realtime};
use timestamping::{HardwareClock, Interface};

use crate::{Error, Frame, Stamps};

/// How often a NIC's clock is compared with the system's: a clock that changes its rate by 1 ppm in
/// that time is off by 0.1 µs.
const AGAIN: Duration = Duration::from_millis(100);

/// The clocks that two taps were stamped by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clocks {
    /// One clock: the kernel's, or that of a NIC that both interfaces belong to.
    One,
    /// Two NICs' clocks, each compared with the kernel's while the run went on.
    Two {
        /// How much faster the second ran than the first, parts in 10⁹; `None` where the run was
        /// too short to say.
        drift_ppb: Option<f64>,
        /// The bound on the error of reading one on the other, to either side.
        error: Nanos,
    },
    /// Two clocks that nothing is known of: the offset and the drift that the delays show were
    /// removed. Delays are above the least.
    Apart {
        /// How much faster the second ran than the first, parts in 10⁹.
        drift_ppb: f64,
        /// The bound on that, to either side.
        drift_error_ppb: f64,
    },
}

/// The clock that one tap is stamped by.
pub(super) enum TapClock {
    /// Its readings are used as they are.
    Direct(Stamps),
    /// A NIC's clock, read on the kernel's.
    Nic(Box<NicClock>),
}

/// A NIC's clock as it is compared with the kernel's.
pub(super) struct NicClock {
    clock: HardwareClock,
    first: Reading,
    last: Reading,
    /// Offset gained in each nanosecond, from the last two readings.
    slope: f64,
    read: WallInstant,
    worst: Nanos,
}

/// One comparison.
#[derive(Clone, Copy)]
struct Reading {
    at: u64,
    offset: i64,
    error: Nanos,
}

/// Two taps' clocks: used as they are where they are one, converted to the kernel's where they are
/// two NICs'.
pub(super) fn pair(interfaces: [&str; 2], stamps: Stamps) -> Result<[TapClock; 2], Error> {
    if !stamps.hardware() {
        return Ok([TapClock::Direct(stamps), TapClock::Direct(stamps)]);
    }
    let number = |name: &str| {
        let known = Interface::by_name(name).and_then(|i| i.timestamping_info()).ok().and_then(|info| info.phc);
        known.ok_or_else(|| unreadable(name, "the driver does not say which clock it stamps by".into()))
    };
    let [one, other] = [number(interfaces[0])?, number(interfaces[1])?];
    if one == other {
        return Ok([TapClock::Direct(stamps), TapClock::Direct(stamps)]);
    }
    let open = |number: u32, name: &str| {
        let clock = HardwareClock::open(number).and_then(NicClock::new);
        clock.map(|clock| TapClock::Nic(Box::new(clock))).map_err(|error| unreadable(name, error.to_string()))
    };
    Ok([open(one, interfaces[0])?, open(other, interfaces[1])?])
}

fn unreadable(interface: &str, reason: String) -> Error {
    Error::Clocks { interface: interface.into(), reason }
}

impl NicClock {
    fn new(clock: HardwareClock) -> Result<Self, timestamping::Error> {
        let reading = Reading::take(&clock)?;
        let (first, last) = (reading, reading);
        Ok(Self { clock, first, last, slope: 0.0, read: WallInstant::now(), worst: reading.error })
    }

    /// Compares it again where that is due. A clock that cannot be read any more keeps its last
    /// comparison.
    fn refresh(&mut self) {
        if self.read.elapsed() < AGAIN {
            return;
        }
        self.read = WallInstant::now();
        let Ok(now) = Reading::take(&self.clock) else { return };
        let passed = now.at.saturating_sub(self.last.at);
        if passed > 0 {
            // What the last comparison did not foresee is an error of the readings since.
            let foreseen = self.last.offset as f64 + self.slope * passed as f64;
            let missed = Nanos((now.offset as f64 - foreseen).abs() as u64);
            let known = self.last.at > self.first.at;
            self.worst = self.worst.max(now.error + if known { missed } else { Nanos::ZERO });
            self.slope = (now.offset - self.last.offset) as f64 / passed as f64;
        }
        self.last = now;
    }

    fn convert(&self, at: u64) -> u64 {
        let since = at as f64 - self.last.at as f64;
        let offset = self.last.offset.saturating_add((self.slope * since).round() as i64);
        at.saturating_add_signed(offset)
    }

    /// How much faster than the kernel's clock it runs, parts in 10⁹.
    fn drift_ppb(&self) -> Option<f64> {
        let passed = self.last.at.saturating_sub(self.first.at);
        // The offset is the kernel's clock minus this one: it falls where this one is fast.
        (passed > 0).then(|| -((self.last.offset - self.first.offset) as f64) / passed as f64 * 1e9)
    }
}

impl Reading {
    fn take(clock: &HardwareClock) -> Result<Self, timestamping::Error> {
        let (conversion, _): (Conversion<Phc, Realtime>, _) = clock.to_realtime()?;
        Ok(Self { at: clock.now()?.as_nanos(), offset: conversion.offset, error: conversion.error })
    }
}

impl TapClock {
    pub fn refresh(&mut self) {
        if let Self::Nic(clock) = self {
            clock.refresh();
        }
    }

    /// When a frame was seen, with the error of that; `None` without the stamp that was asked for.
    pub fn read(&self, frame: &Frame<'_>) -> Option<(u64, Nanos)> {
        match self {
            Self::Direct(stamps) if stamps.hardware() => frame.hardware.map(|s| (s.at.as_nanos(), s.error)),
            Self::Direct(_) => frame.software.map(|s| (s.at.as_nanos(), s.error)),
            Self::Nic(clock) => frame.hardware.map(|s| (clock.convert(s.at.as_nanos()), s.error)),
        }
    }

    /// This moment.
    pub fn now(&self) -> Option<u64> {
        let direct: Instant<Realtime> = timestamping::now();
        match self {
            Self::Direct(stamps) if stamps.hardware() => None,
            Self::Direct(_) | Self::Nic(_) => Some(direct.as_nanos()),
        }
    }
}

/// What two taps' clocks were to each other.
pub(super) fn clocks(taps: [&TapClock; 2]) -> Clocks {
    match taps {
        [TapClock::Nic(one), TapClock::Nic(other)] => Clocks::Two {
            drift_ppb: one.drift_ppb().zip(other.drift_ppb()).map(|(one, other)| other - one),
            error: one.worst + other.worst,
        },
        _ => Clocks::One,
    }
}
