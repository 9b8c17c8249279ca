//! Which timestamps each network interface gives, asked of its driver, and the clocks that go with them.

use std::ffi::{CString, c_void};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;

use crate::sockets::socket;
use crate::{Capability, Group, State};

const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// `<linux/sockios.h>`.
const SIOCGHWTSTAMP: u64 = 0x89b1;

/// `SOF_TIMESTAMPING_*` of `<linux/net_tstamp.h>`.
const TX_HARDWARE: u32 = 1 << 0;
const TX_SOFTWARE: u32 = 1 << 1;
const RX_HARDWARE: u32 = 1 << 2;
const RX_SOFTWARE: u32 = 1 << 3;
const RAW_HARDWARE: u32 = 1 << 6;

/// `struct ethtool_ts_info` of `<linux/ethtool.h>`.
#[repr(C)]
#[derive(Default)]
struct TimestampInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// `struct hwtstamp_config` of `<linux/net_tstamp.h>`.
#[repr(C)]
#[derive(Default)]
struct HardwareConfig {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

/// An interface and the timestamps its driver says it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Software timestamps of packets sent, which the driver must take part in.
    pub software_tx: bool,
    /// Software timestamps of packets received.
    pub software_rx: bool,
    /// Timestamps by the NIC's own clock of packets sent.
    pub hardware_tx: bool,
    /// The same of packets received.
    pub hardware_rx: bool,
    /// The number of the NIC's clock, `/dev/ptpN`.
    pub clock: Option<u32>,
    /// Whether the NIC is set to stamp what is sent; `None` where it does not tell.
    pub transmit_on: Option<bool>,
}

impl Interface {
    fn new(name: String, info: &TimestampInfo, transmit_on: Option<bool>) -> Self {
        let has = |flag| info.so_timestamping & flag != 0;
        Self {
            name,
            software_tx: has(TX_SOFTWARE),
            software_rx: has(RX_SOFTWARE),
            // A NIC may claim a direction without a mode in which it works, or without saying the time it read. Bit 0 of both
            // masks is the mode "off".
            hardware_tx: has(TX_HARDWARE) && has(RAW_HARDWARE) && info.tx_types & !1 != 0,
            hardware_rx: has(RX_HARDWARE) && has(RAW_HARDWARE) && info.rx_filters & !1 != 0,
            clock: u32::try_from(info.phc_index).ok(),
            transmit_on,
        }
    }

    fn software(&self) -> State {
        match (self.software_tx, self.software_rx) {
            (true, true) => State::Available("sent and received".into()),
            (false, true) => State::Missing("the driver stamps only what it receives".into()),
            (true, false) => State::Missing("the driver stamps only what it sends".into()),
            (false, false) => State::Missing("the driver gives none".into()),
        }
    }

    fn hardware(&self) -> State {
        let clock = self.clock.map_or_else(String::new, |number| format!(", clock /dev/ptp{number}"));
        match (self.hardware_tx, self.hardware_rx) {
            (true, true) => State::Available(format!("sent and received{clock}{}", self.transmit())),
            (true, false) => State::Available(format!("sent only{clock}{}", self.transmit())),
            (false, true) => State::Available(format!("received only{clock}")),
            (false, false) => State::Missing("the driver gives none".into()),
        }
    }
}

impl Interface {
    /// What the NIC is set to; one setting for the whole machine.
    fn transmit(&self) -> String {
        match self.transmit_on {
            Some(true) => "; on for what is sent".into(),
            Some(false) => format!(
                "; off for what is sent: `hwstamp_ctl -i {} -t 1` (package linuxptp) switches it on, unless a PTP daemon uses it",
                self.name
            ),
            None => String::new(),
        }
    }

    /// Whether the NIC could stamp what is sent, and is not set to.
    pub fn transmit_is_off(&self) -> bool {
        self.hardware_tx && self.transmit_on == Some(false)
    }
}

/// The interfaces of this network namespace, in the order of their names.
///
/// # Errors
/// Where interfaces cannot be listed. One whose driver does not answer is given without any timestamp.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let asking = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut names: Vec<String> = Vec::new();
    // SAFETY: if_nameindex gives an array that ends with an entry of index 0, or null; it is freed once, below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut at = list;
    // SAFETY: `at` stays within the array, whose last entry has index 0 and stops the loop; names end in NUL.
    unsafe {
        while (*at).if_index != 0 {
            names.push(std::ffi::CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        libc::if_freenameindex(list);
    }
    names.sort_unstable();
    Ok(names
        .into_iter()
        .map(|name| {
            let info =
                ask(asking.as_raw_fd(), &name).unwrap_or(TimestampInfo { phc_index: -1, ..TimestampInfo::default() });
            let on = configured(asking.as_raw_fd(), &name).ok().map(|config| config.tx_type != 0);
            Interface::new(name, &info, on)
        })
        .collect())
}

fn ask(socket: libc::c_int, name: &str) -> io::Result<TimestampInfo> {
    let mut info = TimestampInfo { cmd: ETHTOOL_GET_TS_INFO, phc_index: -1, ..TimestampInfo::default() };
    // SAFETY: SIOCETHTOOL with this command fills a TimestampInfo.
    unsafe { by_name(socket, SIOCETHTOOL, name, &mut info) }.map(|()| info)
}

fn configured(socket: libc::c_int, name: &str) -> io::Result<HardwareConfig> {
    let mut config = HardwareConfig::default();
    // SAFETY: SIOCGHWTSTAMP fills a HardwareConfig.
    unsafe { by_name(socket, SIOCGHWTSTAMP, name, &mut config) }.map(|()| config)
}

/// Asks an interface.
///
/// # Safety
/// The request reads and writes one `T` where the interface request points.
unsafe fn by_name<T>(socket: libc::c_int, what: u64, name: &str, answer: &mut T) -> io::Result<()> {
    // SAFETY: all zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = CString::new(name)?.into_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast::<c_void>().cast();
    // SAFETY: the request reads the name and fills what it points to, which the caller vouches for; both outlive the call.
    if unsafe { libc::ioctl(socket, what as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The PTP hardware clocks: `ptp0: igb`, ….
fn clocks() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/class/ptp") else { return Vec::new() };
    let mut all: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = fs::read_to_string(entry.path().join("clock_name")).unwrap_or_default();
            format!("/dev/{name} ({})", of.trim())
        })
        .collect();
    all.sort_unstable();
    all
}

pub fn capabilities() -> Vec<Capability> {
    let mut all = Vec::new();
    for interface in interfaces().unwrap_or_default() {
        all.push(Capability::new(
            Group::Interfaces,
            format!("{} software", interface.name),
            interface.software(),
            "stages driver and driver_rx",
            "trace takes driver from a tracepoint; probe has sched and ack",
        ));
        all.push(Capability::new(
            Group::Interfaces,
            format!("{} hardware", interface.name),
            interface.hardware(),
            "stages nic and nic_rx, by the NIC's own clock",
            "legs nic and network run from stage driver",
        ));
    }
    let clocks = clocks();
    all.push(Capability::new(
        Group::Interfaces,
        "PTP clocks",
        if clocks.is_empty() { State::Missing("no /dev/ptp*".into()) } else { State::Available(clocks.join(", ")) },
        "hardware timestamps put on the system's time",
        "software timestamps, by the system's clock alone",
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_without_a_working_mode_do_not_count() {
        let claims = TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE | TX_SOFTWARE | RX_SOFTWARE;
        let mut info = TimestampInfo {
            so_timestamping: claims,
            phc_index: 3,
            tx_types: 1,
            rx_filters: 1,
            ..TimestampInfo::default()
        };
        let off = Interface::new("x".into(), &info, None);
        assert!(!off.hardware_tx && !off.hardware_rx && off.software_tx && off.software_rx);
        assert!(matches!(off.hardware(), State::Missing(_)));
        info.tx_types = 3;
        info.rx_filters = 3;
        assert_eq!(
            Interface::new("x".into(), &info, None).hardware(),
            State::Available("sent and received, clock /dev/ptp3".into())
        );
        let said = |on| match Interface::new("x".into(), &info, Some(on)).hardware() {
            State::Available(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(said(true).ends_with("; on for what is sent"));
        assert!(said(false).contains("hwstamp_ctl -i x -t 1"));
        assert!(Interface::new("x".into(), &info, Some(false)).transmit_is_off() && !off.transmit_is_off());
    }

    #[test]
    fn loopback_is_listed_with_software_timestamps() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.name == "lo").unwrap();
        assert!(lo.software_rx && !lo.hardware_tx && lo.clock.is_none());
    }
}
