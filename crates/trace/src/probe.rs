//! What a probe is. [`crate::PROBES`] lists those that can be put beside the sends.
//!
//! A probe is a folder of this crate: its BPF programs, what they are for, how they are loaded, and
//! how their records become events. The [`crate::Tracer`] knows the list alone: it loads what the
//! configuration asks for, attaches and detaches it with the sends, hands each record to the probe
//! that owns its kind, and adds up what is lost.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::RangeInclusive;

use libbpf_rs::{Link, Object};
use record::{Event, Instant, Lost, Monotonic, ReceiveStage};

use crate::capabilities::Capability;
use crate::keeper::Keeper;
use crate::layout::RawConfig;
use crate::memory::Memory;
use crate::programs::{At, LoadError, Programs};
use crate::sizes::Sizes;
use crate::{Config, DecodeError, Error};

/// A probe before it is loaded.
pub(crate) trait Probe: Sync {
    /// What it follows, in a word or two: errors begin with it.
    fn what(&self) -> &'static str;

    /// Whether a trace with this configuration has it.
    fn wanted(&self, config: &Config) -> bool;

    /// The kernel memory that its maps take in a trace with this configuration.
    fn memory(&self, config: &Config, sizes: Sizes) -> Memory;

    /// What of it this kernel can do, found out by loading it. `ground` is an error where not even
    /// that can be tried.
    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried>;

    /// Loads it; it is not attached.
    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError>;
}

/// What came of trying one thing that a probe makes use of: why it does not work, where it does
/// not.
pub(crate) type Tried = Capability<Result<(), String>>;

/// What a probe is loaded with.
pub(crate) struct Ground<'a> {
    pub config: &'a Config,
    /// The same as the BPF programs have it.
    pub raw: RawConfig,
    pub sizes: Sizes,
    /// Where programs of cgroups are attached: the root of the hierarchy. Which sockets are the
    /// target's they look up.
    pub cgroups: &'a [File],
    /// The loaded object of the sends: its maps say which sockets are followed. `None` where a
    /// probe is only tried.
    pub sends: Option<&'a Object>,
}

/// A probe that is loaded. [`Loaded::attach`] and [`Loaded::detach`] take turns; after the latter
/// [`Loaded::give_up`] empties it.
pub(crate) trait Loaded: Send {
    /// Its programs.
    fn programs(&mut self) -> &mut Programs;

    /// Begins to observe.
    fn attach(&mut self) -> Result<(), Error> {
        self.programs().attach()
    }

    /// Observes no more; what was gathered stays to be read.
    fn detach(&mut self) {
        self.programs().detach();
    }

    /// Iterators over sockets that run, in this order, after each pass of the sends that picks up
    /// connections or lets them go.
    fn iterators(&mut self) -> Result<Vec<Link>, Error> {
        self.programs().iterators(At::Passes)
    }

    /// The kinds of records that are its own.
    fn kinds(&self) -> RangeInclusive<u32>;

    /// Takes a record of one of its kinds; the events that it completes go to `out`.
    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError>;

    /// To be called about once a second: hands on what shows only as time passes.
    fn tick(&mut self, _now: Instant<Monotonic>, _out: &mut VecDeque<Event>) {}

    /// Hands on what is unfinished, now that nothing more will come, and takes its rows back.
    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error>;

    /// Opens the clocks that NICs stamp by, while this process may.
    fn open_clocks(&mut self) {}

    /// Has the keeper say by which clock an interface stamps.
    fn ask_for_clocks(&mut self, _keeper: &Keeper) {}

    /// What it has lost up to now; the counters of others are zero.
    fn lost(&self) -> Lost;

    /// What it cannot see here, and what it does to programs outside the target.
    fn observation(&self) -> Observation;
}

/// What can be observed beside the stages of sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The calls that write.
    Calls,
    /// How connections are set up and end.
    Connects,
    /// Received bytes.
    Receives,
    /// Packets and datagrams.
    Packets,
    /// What packets begin with.
    Http,
    /// Copies of packets.
    Copies,
    /// Names that are asked for.
    Dns,
}

/// How a probe observes on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What it observes.
    pub observed: Observed,
    /// What cannot be seen here; empty where everything can.
    pub missing: Vec<Missing>,
    /// What reaches beyond the target while the probe is at work, and what it costs there.
    pub host_wide: Vec<&'static str>,
}

/// What a probe may not see on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// How long the calls that write take.
    Call,
    /// When a connection is accepted by a call that asks for no address.
    Accept,
    /// A stage of received bytes.
    Received(ReceiveStage),
    /// What the kernel calls the reasons for which it drops packets.
    NamesOfDropReasons,
    /// Which packets it drops.
    Drops,
    /// Which received ones.
    ReceivedDrops,
    /// When datagrams reach a socket and are read.
    DatagramsRead,
    /// When datagrams are sent on connected sockets.
    DatagramsSent,
    /// When datagrams come from the driver.
    DatagramsReceived,
    /// Packets of connections that have no socket any more.
    AfterClose,
    /// ICMP errors about packets of the target's sockets.
    IcmpErrors,
    /// The fragments of datagrams.
    Fragments,
    /// When the NIC received a packet.
    NicReceived,
    /// Names that are asked for.
    Dns,
}

impl Unseen {
    /// Why received drops are not all seen, where they are not.
    pub(crate) const RECEIVED_DROPS: &'static str = "this kernel's kfree_skb does not say for which socket a packet was (Linux 6.11 brought that). Seen are datagrams that \
         UDP had taken for their socket, a full one's among them; a received packet of TCP that is dropped is mostly not seen";

    /// Its stable word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Accept => "accept() that asks for no address",
            Self::Received(stage) => stage.name(),
            Self::NamesOfDropReasons => "names of drop reasons",
            Self::Drops => "drops",
            Self::ReceivedDrops => "received drops",
            Self::DatagramsRead => "stages ready and read of datagrams",
            Self::DatagramsSent => "stage send of datagrams of connected sockets",
            Self::DatagramsReceived => "stage driver_rx of datagrams",
            Self::AfterClose => "packets of connections without a socket (TIME_WAIT)",
            Self::IcmpErrors => "ICMP errors",
            Self::Fragments => "fragments",
            Self::NicReceived => "stage nic_rx",
            Self::Dns => "DNS",
        }
    }
}

/// What a probe cannot see here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What.
    pub what: Unseen,
    /// Why.
    pub reason: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what.name(), self.reason)
    }
}
