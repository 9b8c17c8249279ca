//! What an interface can stamp.

use crate::Flags;

/// Which sent packets the NIC stamps (`enum hwtstamp_tx_types`, `include/uapi/linux/net_tstamp.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransmitType {
    /// None.
    #[default]
    Off,
    /// Those that ask for it.
    On,
    /// As `On`, and PTP sync messages get their time written into them on the way.
    OneStepSync,
    /// As `OneStepSync`, and peer-delay responses too.
    OneStepP2p,
}

impl TransmitType {
    pub(crate) const ALL: [Self; 4] = [Self::Off, Self::On, Self::OneStepSync, Self::OneStepP2p];
}

macro_rules! filters {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Which received packets the NIC stamps (`enum hwtstamp_rx_filters`). A driver may stamp
        /// more than it is asked to.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum ReceiveFilter { $($(#[$doc])* $name,)* }

        impl ReceiveFilter {
            /// All of them, in the order of the kernel's numbers.
            pub const ALL: [Self; 16] = [$(Self::$name,)*];

            /// The word used in output: ethtool's.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

filters! {
    /// None.
    #[default]
    None = "none",
    /// Every packet.
    All = "all",
    /// Some, by the driver's own rule.
    Some = "some",
    /// PTP v1 events over UDP.
    PtpV1L4Event = "ptpv1-l4-event",
    /// PTP v1 sync over UDP.
    PtpV1L4Sync = "ptpv1-l4-sync",
    /// PTP v1 delay requests over UDP.
    PtpV1L4DelayRequest = "ptpv1-l4-delay-req",
    /// PTP v2 events over UDP.
    PtpV2L4Event = "ptpv2-l4-event",
    /// PTP v2 sync over UDP.
    PtpV2L4Sync = "ptpv2-l4-sync",
    /// PTP v2 delay requests over UDP.
    PtpV2L4DelayRequest = "ptpv2-l4-delay-req",
    /// PTP v2 events over Ethernet.
    PtpV2L2Event = "ptpv2-l2-event",
    /// PTP v2 sync over Ethernet.
    PtpV2L2Sync = "ptpv2-l2-sync",
    /// PTP v2 delay requests over Ethernet.
    PtpV2L2DelayRequest = "ptpv2-l2-delay-req",
    /// PTP v2 events over either.
    PtpV2Event = "ptpv2-event",
    /// PTP v2 sync over either.
    PtpV2Sync = "ptpv2-sync",
    /// PTP v2 delay requests over either.
    PtpV2DelayRequest = "ptpv2-delay-req",
    /// NTP.
    NtpAll = "ntp-all",
}

/// What an interface can do (ethtool's time-stamping information).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimestampingInfo {
    /// The stages and reports it has; bits of `SO_TIMESTAMPING`.
    pub flags: Flags,
    /// The index of its clock, for [`crate::HardwareClock::open`].
    pub phc: Option<u32>,
    /// What it can be set to stamp of what is sent.
    pub transmit: Vec<TransmitType>,
    /// What it can be set to stamp of what is received.
    pub receive: Vec<ReceiveFilter>,
    /// What it has counted, where kernel (6.10) and driver report it.
    pub counts: Option<HardwareCounts>,
}

/// What became of hardware stamps of sent packets, by the driver's own count. `None`: the driver
/// does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareCounts {
    /// Packets stamped.
    pub stamped: Option<u64>,
    /// Stamps that the hardware never gave: its slots were taken.
    pub lost: Option<u64>,
    /// Requests that failed for other reasons.
    pub failed: Option<u64>,
}

impl TimestampingInfo {
    pub(crate) fn from_bits(flags: u32, transmit: u32, receive: u32) -> Self {
        let has = |set: u32, i: usize| set & (1 << i) != 0;
        Self {
            flags: Flags::from_bits_truncate(flags),
            transmit: (0..4).filter(|i| has(transmit, *i)).map(|i| TransmitType::ALL[i]).collect(),
            receive: (0..16).filter(|i| has(receive, *i)).map(|i| ReceiveFilter::ALL[i]).collect(),
            phc: None,
            counts: None,
        }
    }

    /// Whether the NIC can stamp what is sent. One may claim so without a mode in which it works,
    /// or without saying the time that it read.
    pub fn has_hardware_transmit(&self) -> bool {
        self.flags.contains(Flags::TX_HARDWARE | Flags::RAW_HARDWARE)
            && self.transmit.iter().any(|t| *t != TransmitType::Off)
    }

    /// Whether the NIC can stamp what is received, as [`Self::has_hardware_transmit`].
    pub fn has_hardware_receive(&self) -> bool {
        self.flags.contains(Flags::RX_HARDWARE | Flags::RAW_HARDWARE)
            && self.receive.iter().any(|r| *r != ReceiveFilter::None)
    }
}
