//! A network interface: asking what it can stamp, and how that is set.

use std::ffi::CString;
use std::net::UdpSocket;

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::netdevice::name_to_index;

use crate::info::{ReceiveFilter, TimestampingInfo, TransmitType};
use crate::{Error, tsinfo};

/// How an interface's hardware stamps are set (`struct hwtstamp_config`). One setting for the whole
/// machine: a PTP daemon may be relying on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareConfig {
    /// What is stamped of what is sent.
    pub transmit: TransmitType,
    /// What is stamped of what is received.
    pub receive: ReceiveFilter,
}

/// A network interface by name, in the network namespace of the calling thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: CString,
    index: u32,
}

impl Interface {
    /// Looks the interface up.
    ///
    /// # Errors
    /// [`Error::NoInterface`] where there is none of this name.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let none = || Error::NoInterface(name.to_owned());
        let c_name = CString::new(name).map_err(|_| none())?;
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(|source| Error::System { call: "socket", source })?;
        let index = name_to_index(&socket, name).map_err(|_| none())?;
        Ok(Self { name: c_name, index })
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// [`Error::System`] where the kernel does not list them.
    pub fn all() -> Result<Vec<Self>, Error> {
        // One line an interface, after two of headings: its name, a colon, its counters.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev")
            .map_err(|source| Error::System { call: "reading /proc/thread-self/net/dev", source })?;
        let names = table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
        // One that has gone since is skipped.
        let mut all: Vec<_> = names.filter_map(|name| Self::by_name(name).ok()).collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Its number.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.to_str().unwrap_or("?")
    }

    /// What it can do: asked over netlink (`ETHTOOL_MSG_TSINFO_GET`, Linux 5.7), else with the
    /// older ioctl.
    ///
    /// # Errors
    /// [`Error::NotByInterface`] where its driver does not report it, [`Error::NoInterface`] where
    /// it has gone, and [`Error::System`] for the rest.
    pub fn timestamping_info(&self) -> Result<TimestampingInfo, Error> {
        tsinfo::by_netlink(self.index).or_else(|_| self.timestamping_info_by_ioctl())
    }

    /// As [`Self::timestamping_info`], by the ioctl alone (`ETHTOOL_GET_TS_INFO`). It knows no
    /// counts.
    ///
    /// # Errors
    /// As [`Self::timestamping_info`].
    pub fn timestamping_info_by_ioctl(&self) -> Result<TimestampingInfo, Error> {
        let mut info = EthtoolTsInfo { command: ETHTOOL_GET_TS_INFO, ..EthtoolTsInfo::default() };
        self.ioctl::<SIOCETHTOOL, _>(&mut info, "the driver does not report what it can stamp")?;
        let mut out = TimestampingInfo::from_bits(info.flags, info.transmit_types, info.receive_filters);
        out.phc = u32::try_from(info.phc_index).ok();
        Ok(out)
    }

    /// How its hardware stamps are set (`SIOCGHWTSTAMP`).
    ///
    /// # Errors
    /// [`Error::NotByInterface`] where it has none.
    pub fn hardware(&self) -> Result<HardwareConfig, Error> {
        let mut config = HwtstampConfig::default();
        self.ioctl::<{ libc::SIOCGHWTSTAMP as Opcode }, _>(&mut config, "it has no hardware timestamps")?;
        Ok(config.read())
    }

    /// Sets its hardware stamps (`SIOCSHWTSTAMP`), for every program of the machine; gives what the
    /// driver made of it. The setting stays: put back what [`Self::hardware`] gave before.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without `CAP_NET_ADMIN`, [`Error::NotByInterface`] where it has none
    /// or cannot do this.
    pub fn set_hardware(&self, config: HardwareConfig) -> Result<HardwareConfig, Error> {
        let mut config = HwtstampConfig { flags: 0, transmit: config.transmit as i32, receive: config.receive as i32 };
        self.ioctl::<{ libc::SIOCSHWTSTAMP as Opcode }, _>(&mut config, "it has no hardware timestamps, or not these")?;
        Ok(config.read())
    }

    fn ioctl<const OPCODE: Opcode, T>(&self, argument: &mut T, cannot: &'static str) -> Result<(), Error> {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(|source| Error::System { call: "socket", source })?;
        let mut name = [0 as libc::c_char; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(self.name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let mut ifreq = libc::ifreq {
            ifr_name: name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: std::ptr::from_mut(argument).cast() },
        };
        // SAFETY: each request of this file takes an ifreq with the structure that it is made with
        // behind `ifr_data`.
        let request = unsafe { Updater::<OPCODE, _>::new(&mut ifreq) };
        // SAFETY: both structures outlive the call.
        let Err(errno) = (unsafe { ioctl(socket, request) }) else { return Ok(()) };
        let source = std::io::Error::from(errno);
        Err(match source.raw_os_error() {
            Some(libc::ENODEV) => Error::NoInterface(self.name().to_owned()),
            Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL | libc::ENOTTY) => {
                Error::NotByInterface { interface: self.name().to_owned(), what: cannot }
            }
            Some(libc::EPERM | libc::EACCES) => Error::NotPermitted {
                what: "setting a NIC's timestamps",
                remedy: "it takes CAP_NET_ADMIN: run as root",
            },
            _ => Error::System { call: "ioctl", source },
        })
    }
}

/// `SIOCETHTOOL` (`include/uapi/linux/sockios.h`).
const SIOCETHTOOL: Opcode = 0x8946;
/// `ETHTOOL_GET_TS_INFO` (`include/uapi/linux/ethtool.h`).
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Default)]
struct EthtoolTsInfo {
    command: u32,
    flags: u32,
    phc_index: i32,
    transmit_types: u32,
    transmit_reserved: [u32; 3],
    receive_filters: u32,
    receive_reserved: [u32; 3],
}

/// `struct hwtstamp_config`.
#[repr(C)]
#[derive(Default)]
struct HwtstampConfig {
    flags: i32,
    transmit: i32,
    receive: i32,
}

impl HwtstampConfig {
    /// A number without a name is taken as "some".
    fn read(&self) -> HardwareConfig {
        let index = |n: i32| usize::try_from(n).ok();
        HardwareConfig {
            transmit: index(self.transmit).and_then(|i| TransmitType::ALL.get(i)).copied().unwrap_or(TransmitType::On),
            receive: index(self.receive)
                .and_then(|i| ReceiveFilter::ALL.get(i))
                .copied()
                .unwrap_or(ReceiveFilter::Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(TransmitType::ALL.map(|t| t as i32), [0, 1, 2, 3]);
        assert_eq!(ReceiveFilter::NtpAll as i32, 15);
        assert_eq!(ReceiveFilter::PtpV2Event as i32, 12);
    }

    #[test]
    fn loopback_has_software_stamps_and_both_ways_of_asking_agree() {
        let lo = Interface::by_name("lo").unwrap();
        assert!(Interface::all().unwrap().contains(&lo));
        let info = lo.timestamping_info().unwrap();
        assert!(info.flags.contains(Flags::TX_SOFTWARE | Flags::RX_SOFTWARE | Flags::SOFTWARE), "{info:?}");
        assert_eq!((info.phc, info.has_hardware_transmit()), (None, false));
        let by_ioctl = lo.timestamping_info_by_ioctl().unwrap();
        assert_eq!((by_ioctl.flags, by_ioctl.phc), (info.flags, info.phc));
        assert_eq!(tsinfo::by_netlink(lo.index()).unwrap().flags, info.flags);
    }

    #[test]
    fn loopback_has_no_hardware_to_set_and_no_interface_is_named() {
        let lo = Interface::by_name("lo").unwrap();
        assert!(matches!(lo.hardware(), Err(Error::NotByInterface { .. })));
        assert!(matches!(Interface::by_name("nosuch0"), Err(Error::NoInterface(n)) if n == "nosuch0"));
        assert!(matches!(Interface::by_name(&"x".repeat(40)), Err(Error::NoInterface(_))));
    }
}
