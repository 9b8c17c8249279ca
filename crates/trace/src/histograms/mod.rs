//! Sends as histograms, counted in the kernel: a series for each peer, program, port or cgroup, and
//! in it a histogram for each leg.
//!
//! Where a send is finished, the programs that follow it add it to its series (`histograms.h`).
//! Nothing goes through the ring buffer, so the cost does not depend on how often anyone reads, and
//! [`crate::Tracer::snapshot`] reads what has come together. The buckets are those of
//! [`record::histogram`]. The number of series is fixed when tracing starts: what finds no room is
//! counted in one series for all of it, so the sums over all series are exact. A series that is
//! idle leaves, and its number is used again.
//!
//! The leg of the NIC has no histogram, as the NIC's clock is converted in user space: `network`
//! begins at the driver.

mod bounds;
mod series;
mod setup;

use std::time::Duration;

use record::histogram;
use record::{Instant, Leg, Monotonic};

pub(crate) use series::Reading;
pub(crate) use setup::{flags, memory, set_up};

/// What the histograms are of, and how many series there can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histograms {
    /// Which legs have a histogram in each series: 760 bytes of kernel memory each. [`Leg::Nic`]
    /// has none and is ignored; [`Leg::Call`] stays empty where calls are not timed.
    pub legs: Vec<Leg>,
    /// Whether each series also has a histogram of TCP's round trips.
    pub round_trips: bool,
    /// What series are kept apart by.
    pub dimensions: Dimensions,
    /// How many series there can be at a time, 1 to 65,536, beside that of the sends that find no
    /// room.
    pub max_series: u32,
    /// Whether sends that find no room still have series, up to 256 beside these: by the lower of
    /// the two ports, the cgroup, the program and, as long as there is room for that, the peer.
    pub folds: bool,
    /// A series to which nothing was added for so long leaves at the next snapshot. `None`: never.
    pub idle: Option<Duration>,
    /// Whether sends and connections are events too, not only attempts to connect. Their programs'
    /// names are then those of [`Dimensions::program`].
    pub records: bool,
}

impl Default for Histograms {
    /// The four legs of a send, by the peer's address, in at most 4,096 series: 14 MB.
    fn default() -> Self {
        Self {
            legs: vec![Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total],
            round_trips: false,
            dimensions: Dimensions::default(),
            max_series: 4096,
            folds: false,
            idle: None,
            records: false,
        }
    }
}

/// What series are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// The peer's address.
    pub peer: Option<Prefixes>,
    /// Ports.
    pub ports: Ports,
    /// The cgroup of the socket, by the inode number of its directory.
    pub cgroup: bool,
    /// The program that makes the send: the name of its process.
    pub program: bool,
}

impl Default for Dimensions {
    /// The peer's whole address alone.
    fn default() -> Self {
        Self { peer: Some(Prefixes::default()), ports: Ports::None, cgroup: false, program: false }
    }
}

/// How many bits of a peer's address count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Of an IPv4 address, 0 to 32.
    pub ipv4: u8,
    /// Of an IPv6 address, 0 to 128.
    pub ipv6: u8,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 128 }
    }
}

/// Which ports count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// None.
    #[default]
    None,
    /// Of each connection the one that its server listens at: the local port where it was accepted
    /// here, else the peer's.
    Listening,
    /// Both.
    All,
}

/// All series at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment: whoever divides by the time between two snapshots takes this one, since reading
    /// the histograms of thousands of series takes a part of a second.
    pub at: Instant<Monotonic>,
    /// Each series that has anything, from its beginning.
    pub series: Vec<histogram::Series>,
    /// What was in series that have left.
    pub departed: Departed,
}

/// Series that were idle and have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// How many.
    pub series: u64,
    /// The sends in them.
    pub sends: u64,
}
