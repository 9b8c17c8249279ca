//! Which timestamps each network interface gives, asked of its driver, and the clocks that go with
//! them.

use std::fs;
use std::io;

use timestamping::{Flags, ReceiveFilter, TimestampingInfo, TransmitType};

use crate::{Capability, Group, State};

/// Who reads the clock of an interface's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamps {
    /// The driver, by the system's clock.
    Software,
    /// The NIC, by a clock of its own.
    Hardware,
}

impl Stamps {
    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Hardware => "hardware",
        }
    }
}

/// An interface and the timestamps its driver says it gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What its driver says.
    pub info: TimestampingInfo,
    /// Whether the NIC is set to stamp what is sent; `None` where it does not say.
    pub transmit_on: Option<bool>,
    /// Whether it is set to stamp what is received, or some of that; likewise.
    pub receive_on: Option<bool>,
}

impl Interface {
    fn software(&self) -> State {
        let has = |flag| self.info.flags.contains(flag);
        match (has(Flags::TX_SOFTWARE), has(Flags::RX_SOFTWARE)) {
            (true, true) => State::Available("sent and received".into()),
            (false, true) => State::Missing("the driver stamps only what it receives".into()),
            (true, false) => State::Missing("the driver stamps only what it sends".into()),
            (false, false) => State::Missing("the driver gives none".into()),
        }
    }

    fn hardware(&self) -> State {
        let clock = self.info.phc.map_or_else(String::new, |number| format!(", clock /dev/ptp{number}"));
        match (self.info.has_hardware_transmit(), self.info.has_hardware_receive()) {
            (true, true) => State::Available(format!("sent and received{clock}{}", self.transmit())),
            (true, false) => State::Available(format!("sent only{clock}{}", self.transmit())),
            (false, true) => State::Available(format!("received only{clock}")),
            (false, false) => State::Missing("the driver gives none".into()),
        }
    }

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
        self.info.has_hardware_transmit() && self.transmit_on == Some(false)
    }
}

/// The interfaces of this network namespace, in the order of their names.
///
/// # Errors
/// Where interfaces cannot be listed. One with a driver that does not answer is given without any
/// timestamp.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let all = timestamping::Interface::all().map_err(io::Error::other)?;
    Ok(all
        .iter()
        .map(|interface| (interface, interface.hardware().ok()))
        .map(|(interface, config)| Interface {
            name: interface.name().to_owned(),
            info: interface.timestamping_info().unwrap_or_default(),
            transmit_on: config.map(|config| config.transmit != TransmitType::Off),
            receive_on: config.map(|config| config.receive != ReceiveFilter::None),
        })
        .collect())
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
        let of = |stamps: Stamps, state, purpose, instead| Capability {
            of: Some((interface.name.clone(), stamps)),
            ..Capability::new(
                Group::Interfaces,
                format!("{} {}", interface.name, stamps.name()),
                state,
                purpose,
                instead,
            )
        };
        all.push(of(
            Stamps::Software,
            interface.software(),
            "stages driver and driver_rx",
            "trace takes driver from a tracepoint; probe has sched and ack",
        ));
        all.push(of(
            Stamps::Hardware,
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
        let both = Flags::TX_HARDWARE | Flags::RX_HARDWARE | Flags::RAW_HARDWARE | Flags::TX_SOFTWARE;
        let info = TimestampingInfo {
            flags: both | Flags::RX_SOFTWARE,
            phc: Some(3),
            transmit: vec![TransmitType::Off],
            receive: vec![ReceiveFilter::None],
            counts: None,
        };
        let off = Interface { name: "x".into(), info: info.clone(), ..Interface::default() };
        assert!(matches!(off.software(), State::Available(_)));
        assert!(matches!(off.hardware(), State::Missing(_)) && !off.transmit_is_off());
        let info = TimestampingInfo {
            transmit: vec![TransmitType::Off, TransmitType::On],
            receive: vec![ReceiveFilter::None, ReceiveFilter::All],
            ..info
        };
        let set = |transmit_on| Interface { name: "x".into(), info: info.clone(), transmit_on, receive_on: None };
        assert_eq!(set(None).hardware(), State::Available("sent and received, clock /dev/ptp3".into()));
        let said = |on| match set(Some(on)).hardware() {
            State::Available(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(said(true).ends_with("; on for what is sent"));
        assert!(said(false).contains("hwstamp_ctl -i x -t 1"));
        assert!(set(Some(false)).transmit_is_off() && !set(Some(true)).transmit_is_off());
    }

    #[test]
    fn loopback_is_listed_with_software_timestamps() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.name == "lo").unwrap();
        assert!(
            lo.info.flags.contains(Flags::RX_SOFTWARE) && !lo.info.has_hardware_transmit() && lo.info.phc.is_none()
        );
    }
}
