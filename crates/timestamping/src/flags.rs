//! The bits of `SO_TIMESTAMPING`, each with what it needs and the kernel that brought it.

use crate::KernelVersion;

bitflags::bitflags! {
    /// The bits of `SO_TIMESTAMPING` (`include/uapi/linux/net_tstamp.h`), under the kernel's names.
    ///
    /// Most programs do not touch them: [`crate::Request`] sets what belongs together.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u32 {
        /// Ask the NIC for a stamp of what is sent.
        const TX_HARDWARE = 1 << 0;
        /// Stamp where the packet is handed to the driver.
        const TX_SOFTWARE = 1 << 1;
        /// Ask the NIC for stamps of what is received.
        const RX_HARDWARE = 1 << 2;
        /// Stamp where a packet enters the stack.
        const RX_SOFTWARE = 1 << 3;
        /// Report software stamps.
        const SOFTWARE = 1 << 4;
        /// Once: NIC stamps converted to system time. The kernel ignores it.
        const SYS_HARDWARE = 1 << 5;
        /// Report NIC stamps, on the NIC's clock.
        const RAW_HARDWARE = 1 << 6;
        /// Give each stamp the id of its send.
        const OPT_ID = 1 << 7;
        /// Stamp where the packet enters the packet scheduler.
        const TX_SCHED = 1 << 8;
        /// Stamp where the peer's TCP acknowledged the last byte.
        const TX_ACK = 1 << 9;
        /// Control messages (`IP_PKTINFO`) for IPv4 transmit stamps too.
        const OPT_CMSG = 1 << 10;
        /// Do not loop the payload back with a stamp.
        const OPT_TSONLY = 1 << 11;
        /// TCP's own figures with each stamp. Needs `OPT_TSONLY`.
        const OPT_STATS = 1 << 12;
        /// Interface and length as the NIC saw them, with each NIC stamp of a received packet.
        const OPT_PKTINFO = 1 << 13;
        /// Both the software and the NIC stamp of one send; otherwise the NIC's replaces the other.
        const OPT_TX_SWHW = 1 << 14;
        /// NIC stamps on a virtual PTP clock.
        const BIND_PHC = 1 << 15;
        /// Count TCP's ids from what was written when the option was set, not from what was
        /// acknowledged then.
        const OPT_ID_TCP = 1 << 16;
        /// No receive stamps but those this socket asked for.
        const OPT_RX_FILTER = 1 << 17;
        /// Stamp where the device reports to the driver that the packet went out (Bluetooth).
        const TX_COMPLETION = 1 << 18;
    }
}

impl Flags {
    /// The bits that make a stamp of a send: those a control message may set for one send.
    pub const TRANSMIT: Self =
        Self::TX_HARDWARE.union(Self::TX_SOFTWARE).union(Self::TX_SCHED).union(Self::TX_ACK).union(Self::TX_COMPLETION);

    /// The first kernel that has all of these bits.
    pub fn since(self) -> KernelVersion {
        // The versions are those of the first release that holds the commit adding the bit to
        // net_tstamp.h.
        let newest = self.iter().map(|flag| match flag {
            Self::OPT_ID | Self::TX_SCHED | Self::TX_ACK => (3, 17),
            Self::OPT_CMSG => (3, 19),
            Self::OPT_TSONLY => (4, 0),
            Self::OPT_STATS => (4, 11),
            Self::OPT_PKTINFO | Self::OPT_TX_SWHW => (4, 13),
            Self::BIND_PHC => (5, 14),
            Self::OPT_ID_TCP => (6, 2),
            Self::OPT_RX_FILTER => (6, 12),
            Self::TX_COMPLETION => (6, 15),
            _ => (2, 6),
        });
        let (major, minor) = newest.max().unwrap_or((2, 6));
        KernelVersion { major, minor }
    }

    /// The bits without which the kernel refuses this one.
    pub(crate) fn prerequisites(self) -> Self {
        match self {
            Self::OPT_STATS => Self::OPT_TSONLY,
            Self::OPT_ID_TCP => Self::OPT_ID,
            _ => Self::empty(),
        }
    }
}

/// Where the kernel stamps something that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransmitStage {
    /// It enters the packet scheduler (`SCM_TSTAMP_SCHED`).
    Sched = 0,
    /// It is handed to the driver (`SCM_TSTAMP_SND`, software).
    Driver = 1,
    /// The NIC put it on the wire (`SCM_TSTAMP_SND`, hardware clock).
    Nic = 2,
    /// The device reported to the driver that it went out (`SCM_TSTAMP_COMPLETION`).
    Completion = 3,
    /// The peer acknowledged its last byte (`SCM_TSTAMP_ACK`, TCP only).
    Ack = 4,
}

impl TransmitStage {
    /// All of them, in the order a packet passes them.
    pub const ALL: [Self; 5] = [Self::Sched, Self::Driver, Self::Nic, Self::Completion, Self::Ack];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Driver => "driver",
            Self::Nic => "nic",
            Self::Completion => "completion",
            Self::Ack => "ack",
        }
    }
}

impl std::fmt::Display for TransmitStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

bitflags::bitflags! {
    /// A choice of stages to stamp of what is sent. The fewer, the cheaper: each is a separate
    /// message.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Stages: u8 {
        /// [`TransmitStage::Sched`].
        const SCHED = 1 << TransmitStage::Sched as u8;
        /// [`TransmitStage::Driver`].
        const DRIVER = 1 << TransmitStage::Driver as u8;
        /// [`TransmitStage::Nic`].
        const NIC = 1 << TransmitStage::Nic as u8;
        /// [`TransmitStage::Completion`].
        const COMPLETION = 1 << TransmitStage::Completion as u8;
        /// [`TransmitStage::Ack`].
        const ACK = 1 << TransmitStage::Ack as u8;
    }
}

impl Stages {
    /// The bits that make the kernel stamp these stages.
    pub fn flags(self) -> Flags {
        let bits = [
            (Self::SCHED, Flags::TX_SCHED),
            (Self::DRIVER, Flags::TX_SOFTWARE),
            (Self::NIC, Flags::TX_HARDWARE),
            (Self::COMPLETION, Flags::TX_COMPLETION),
            (Self::ACK, Flags::TX_ACK),
        ];
        bits.into_iter().filter(|(stage, _)| self.contains(*stage)).map(|(_, flag)| flag).collect()
    }

    /// Whether `stage` is among them.
    pub const fn has(self, stage: TransmitStage) -> bool {
        self.bits() & (1 << stage as u8) != 0
    }

    /// The stages chosen, in the order a packet passes them.
    pub fn stages(self) -> impl Iterator<Item = TransmitStage> {
        TransmitStage::ALL.into_iter().filter(move |s| self.has(*s))
    }
}

impl From<TransmitStage> for Stages {
    fn from(stage: TransmitStage) -> Self {
        Self::from_bits_retain(1 << stage as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_kernel_headers() {
        assert_eq!(Flags::OPT_RX_FILTER.bits(), libc::SOF_TIMESTAMPING_OPT_RX_FILTER);
        assert_eq!(Flags::OPT_ID_TCP.bits(), libc::SOF_TIMESTAMPING_OPT_ID_TCP);
        assert_eq!(Flags::TX_ACK.bits(), libc::SOF_TIMESTAMPING_TX_ACK);
        assert_eq!(Flags::RAW_HARDWARE.bits(), libc::SOF_TIMESTAMPING_RAW_HARDWARE);
    }

    #[test]
    fn the_readme_has_every_flag_with_its_version() {
        let readme = include_str!("../README.md");
        for (name, flag) in Flags::all().iter_names() {
            let row = format!("| `{name}` | {}", flag.since());
            assert!(readme.contains(&row), "no row begins with: {row}");
        }
    }

    #[test]
    fn the_kernel_knows_the_flags_of_its_age_and_no_others() {
        let supported = Flags::supported().unwrap();
        assert!(supported.contains(Flags::SOFTWARE | Flags::OPT_ID | Flags::OPT_TSONLY), "{supported:?}");
        // Flags came in the order of their bits: what a kernel has is all bits up to one.
        let newest = Flags::all().iter().filter(|f| supported.contains(*f)).max_by_key(|f| f.bits()).unwrap();
        let missing = Flags::all() - supported;
        assert!(missing.iter().all(|f| f.bits() > newest.bits()), "{missing:?} older than {newest:?}");
    }

    #[test]
    fn a_set_is_as_new_as_its_newest_bit() {
        let set = Flags::OPT_ID | Flags::OPT_ID_TCP | Flags::SOFTWARE;
        assert_eq!(set.since().to_string(), "6.2");
        assert_eq!(Flags::SOFTWARE.since().to_string(), "2.6");
    }

    #[test]
    fn stages_and_flags_agree() {
        assert_eq!(Stages::all().flags(), Flags::TRANSMIT);
        assert_eq!(Stages::all().stages().count(), TransmitStage::ALL.len());
        assert!(Stages::from(TransmitStage::Ack).has(TransmitStage::Ack));
    }
}
