//! NICs' clocks (PTP hardware clocks, `/dev/ptpN`).

use std::fs::File;
use std::os::fd::AsFd;

use clock::{Clock, Conversion, Instant, Monotonic, Nanos, Phc, Realtime, Tai};

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::time::{DynamicClockId, clock_gettime_dynamic};

use crate::clocks::{instant, narrowest};
use crate::{Error, Feature, SystemClock, conversion};

/// How an offset between a NIC's clock and the system's was measured; the best that the driver has
/// is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Both clocks latched by hardware at once (`PTP_SYS_OFFSET_PRECISE`).
    Precise,
    /// The system's clock read right before and after the NIC's register
    /// (`PTP_SYS_OFFSET_EXTENDED`).
    Extended,
    /// The system's clock read around the driver's whole call (`PTP_SYS_OFFSET`).
    Plain,
    /// Three `clock_gettime` calls of this program.
    User,
}

/// The bound kept for a hardware cross-timestamp: one period of the slowest NIC clock in use (25
/// MHz) and of the system's counter, which the driver converts by a ratio known to parts in a
/// million.
const PRECISE_ERROR: Nanos = Nanos(100);

/// An open NIC clock.
#[derive(Debug)]
pub struct HardwareClock {
    device: File,
    index: u32,
}

impl HardwareClock {
    /// Opens `/dev/ptp<index>`; [`crate::TimestampingInfo::phc`] names an interface's.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without the right to read it, [`Error::System`] where there is none.
    pub fn open(index: u32) -> Result<Self, Error> {
        match File::open(format!("/dev/ptp{index}")) {
            Ok(device) => Ok(Self { device, index }),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Err(Error::NotPermitted {
                what: "opening /dev/ptpN",
                remedy: "run as root, or give the group that owns /dev/ptpN to this user",
            }),
            Err(source) => Err(Error::System { call: "open(/dev/ptpN)", source }),
        }
    }

    /// Its number.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`Error::System`] where the clock has gone.
    pub fn now(&self) -> Result<Instant<Phc>, Error> {
        let failed = |source| Error::System { call: "clock_gettime(PHC)", source };
        let time = clock_gettime_dynamic(DynamicClockId::Dynamic(self.device.as_fd())).map_err(|e| failed(e.into()))?;
        let before_epoch = || failed(std::io::ErrorKind::InvalidData.into());
        instant(time).ok_or_else(before_epoch)
    }

    /// The offset from the NIC's clock to `CLOCK_REALTIME` this moment, with how it was measured.
    /// The NIC's clock drifts by parts in a million (1 µs a second and more) unless a PTP daemon
    /// steers it: measure again for each batch.
    ///
    /// # Errors
    /// [`Error::System`] where no way of reading both clocks works.
    pub fn to_realtime(&self) -> Result<(Conversion<Phc, Realtime>, Method), Error> {
        let mut precise = PtpSysOffsetPrecise::default();
        let known = self.ioctl::<{ libc::PTP_SYS_OFFSET_PRECISE as Opcode }, _>(&mut precise);
        if let Some(conversion) = precise.conversion().filter(|_| known) {
            return Ok((conversion, Method::Precise));
        }
        let mut extended = PtpSysOffsetExtended { samples: SAMPLES as u32, ..PtpSysOffsetExtended::default() };
        let known = self.ioctl::<{ libc::PTP_SYS_OFFSET_EXTENDED as Opcode }, _>(&mut extended);
        if let Some(conversion) = extended.conversion().filter(|_| known) {
            return Ok((conversion, Method::Extended));
        }
        let mut plain = PtpSysOffset { samples: SAMPLES as u32, ..PtpSysOffset::default() };
        let known = self.ioctl::<{ libc::PTP_SYS_OFFSET as Opcode }, _>(&mut plain);
        if let Some(conversion) = plain.conversion().filter(|_| known) {
            return Ok((conversion, Method::Plain));
        }
        let bracket = || -> Result<_, Error> { Ok((crate::now::<Realtime>(), self.now()?, crate::now::<Realtime>())) };
        let readings = (0..8).map(|_| bracket()).collect::<Result<Vec<_>, _>>()?;
        narrowest(readings)
            .map(|c| (c.inverse(), Method::User))
            .ok_or(Error::Unsupported { feature: Feature::PtpSysOffset })
    }

    /// The offset to any of the system's clocks: through `CLOCK_REALTIME`, with both errors.
    ///
    /// # Errors
    /// As [`Self::to_realtime`].
    pub fn to<B: SystemClock>(&self) -> Result<(Conversion<Phc, B>, Method), Error> {
        let (to_realtime, method) = self.to_realtime()?;
        Ok((to_realtime.then(conversion::<Realtime, B>()), method))
    }

    /// [`Self::to`] for `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// As [`Self::to_realtime`].
    pub fn to_monotonic(&self) -> Result<(Conversion<Phc, Monotonic>, Method), Error> {
        self.to()
    }

    /// [`Self::to`] for `CLOCK_TAI`.
    ///
    /// # Errors
    /// As [`Self::to_realtime`].
    pub fn to_tai(&self) -> Result<(Conversion<Phc, Tai>, Method), Error> {
        self.to()
    }

    fn ioctl<const OPCODE: Opcode, T>(&self, argument: &mut T) -> bool {
        // SAFETY: each request of this file is made with the structure of
        // include/uapi/linux/ptp_clock.h that its number encodes the size of, and which the kernel
        // fills with numbers.
        let request = unsafe { Updater::<OPCODE, _>::new(argument) };
        // SAFETY: the structure outlives the call.
        unsafe { ioctl(&self.device, request) }.is_ok()
    }
}

/// `PTP_MAX_SAMPLES`.
const SAMPLES: usize = 25;

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PtpClockTime {
    seconds: i64,
    nanos: u32,
    reserved: u32,
}

impl PtpClockTime {
    fn instant<C: Clock>(self) -> Option<Instant<C>> {
        let seconds = u64::try_from(self.seconds).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(self.nanos.into()).map(Instant::from_nanos)
    }
}

/// `struct ptp_sys_offset_precise`.
#[repr(C)]
#[derive(Default)]
struct PtpSysOffsetPrecise {
    device: PtpClockTime,
    realtime: PtpClockTime,
    monotonic_raw: PtpClockTime,
    reserved: [u32; 4],
}

/// `struct ptp_sys_offset_extended`.
#[repr(C)]
#[derive(Default)]
struct PtpSysOffsetExtended {
    samples: u32,
    clock: i32,
    reserved: [u32; 2],
    times: [[PtpClockTime; 3]; SAMPLES],
}

/// `struct ptp_sys_offset`.
#[repr(C)]
struct PtpSysOffset {
    samples: u32,
    reserved: [u32; 3],
    times: [PtpClockTime; 2 * SAMPLES + 1],
}

impl Default for PtpSysOffset {
    fn default() -> Self {
        Self { samples: 0, reserved: [0; 3], times: [PtpClockTime::default(); 2 * SAMPLES + 1] }
    }
}

impl PtpSysOffsetPrecise {
    fn conversion(&self) -> Option<Conversion<Phc, Realtime>> {
        let (device, system) = (self.device.instant::<Phc>()?, self.realtime.instant::<Realtime>()?);
        let exact = Conversion::from_bracket(device, system, device).ok()?;
        Some(Conversion::new(exact.offset, PRECISE_ERROR))
    }
}

impl PtpSysOffsetExtended {
    fn conversion(&self) -> Option<Conversion<Phc, Realtime>> {
        let used = self.times.get(..self.samples as usize)?;
        let readings = used.iter().filter_map(|[a, b, c]| Some((a.instant()?, b.instant()?, c.instant()?)));
        narrowest(readings).map(|c: Conversion<Realtime, Phc>| c.inverse())
    }
}

impl PtpSysOffset {
    fn conversion(&self) -> Option<Conversion<Phc, Realtime>> {
        // System, NIC, system, NIC, …, system: neighbours share a reading of the system's clock.
        let used = self.times.get(..2 * self.samples as usize + 1)?;
        let readings =
            used.windows(3).step_by(2).filter_map(|w| Some((w[0].instant()?, w[1].instant()?, w[2].instant()?)));
        narrowest(readings).map(|c: Conversion<Realtime, Phc>| c.inverse())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ns: u64) -> PtpClockTime {
        PtpClockTime { seconds: (ns / 1_000_000_000) as i64, nanos: (ns % 1_000_000_000) as u32, reserved: 0 }
    }

    #[test]
    fn the_structures_have_the_sizes_that_the_requests_encode() {
        // _IOC_SIZE: 14 bits from bit 16.
        let size = |request: libc::Ioctl| (request >> 16) as usize & 0x3fff;
        assert_eq!(size(libc::PTP_SYS_OFFSET_PRECISE), size_of::<PtpSysOffsetPrecise>());
        assert_eq!(size(libc::PTP_SYS_OFFSET_EXTENDED), size_of::<PtpSysOffsetExtended>());
        assert_eq!(size(libc::PTP_SYS_OFFSET), size_of::<PtpSysOffset>());
    }

    #[test]
    fn every_method_finds_a_known_offset_within_its_error() {
        // The NIC is 37 s ahead; reading it takes 1 µs, once 200 ns.
        let (system, ahead) = (1_700_000_000_000_000_000u64, 37_000_000_000u64);
        let check = |c: Conversion<Phc, Realtime>, most: u64| {
            assert!((c.offset + ahead as i64).unsigned_abs() <= c.error.0, "{c:?}");
            assert!(c.error.0 <= most, "{c:?}");
        };
        let mut extended = PtpSysOffsetExtended { samples: 3, ..Default::default() };
        extended.times[0] = [time(system), time(system + ahead + 900), time(system + 1_000)];
        extended.times[1] = [time(system), time(system + ahead + 30), time(system + 200)];
        extended.times[2] = [time(system), time(system + ahead + 500), time(system + 1_000)];
        check(extended.conversion().unwrap(), 100);

        let mut plain = PtpSysOffset { samples: 2, ..Default::default() };
        plain.times[..5].copy_from_slice(&[
            time(system),
            time(system + ahead + 10),
            time(system + 1_000),
            time(system + ahead + 1_100),
            time(system + 1_200),
        ]);
        check(plain.conversion().unwrap(), 100);

        let precise =
            PtpSysOffsetPrecise { device: time(system + ahead), realtime: time(system), ..Default::default() };
        check(precise.conversion().unwrap(), 100);
    }

    #[test]
    fn what_a_driver_fills_wrongly_is_no_offset() {
        let extended = PtpSysOffsetExtended { samples: 26, ..Default::default() };
        assert_eq!(extended.conversion(), None);
        assert_eq!(PtpSysOffset::default().conversion(), None);
        let before_epoch = PtpClockTime { seconds: -1, nanos: 0, reserved: 0 };
        assert_eq!(PtpSysOffsetPrecise { device: before_epoch, ..Default::default() }.conversion(), None);
    }
}
