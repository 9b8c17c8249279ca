//! What to receive, and how.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to receive the frames of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Technique {
    /// `recvmsg` on a packet socket: one system call and one copy a frame.
    Recvmsg,
    /// `recvmmsg` on a packet socket: one system call for a batch, one copy a frame.
    Recvmmsg,
    /// A packet socket's ring in shared memory (`TPACKET_V3`): the kernel copies, no system call
    /// for a batch that is there.
    RxRing,
    /// The library libpcap, as tcpdump uses it.
    Libpcap,
    /// An AF_XDP socket: frames leave the driver for shared memory before the network stack sees
    /// them.
    AfXdp,
    /// An XDP program that stamps frames in the driver and copies their first bytes into a ring
    /// buffer; the frames go on.
    Xdp,
    /// `io_uring` with a multishot `recvmsg` on a packet socket: no system call for a batch that is
    /// there.
    IoUring,
}

impl Technique {
    /// Every technique, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Recvmsg, Self::Recvmmsg, Self::RxRing, Self::Libpcap, Self::AfXdp, Self::Xdp, Self::IoUring];

    /// Its name on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recvmsg => "recvmsg",
            Self::Recvmmsg => "recvmmsg",
            Self::RxRing => "rx-ring",
            Self::Libpcap => "libpcap",
            Self::AfXdp => "af-xdp",
            Self::Xdp => "xdp",
            Self::IoUring => "io-uring",
        }
    }

    /// Whether one frame can carry a software and a hardware timestamp.
    ///
    /// The ring and libpcap hold one timestamp a frame; control messages and XDP metadata hold
    /// both.
    pub const fn gives_both(self) -> bool {
        !matches!(self, Self::RxRing | Self::Libpcap)
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no technique.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no reception technique is called {0:?}: there are recvmsg, recvmmsg, rx-ring, libpcap, af-xdp, xdp and io-uring"
)]
pub struct NoSuchTechnique(pub String);

impl FromStr for Technique {
    type Err = NoSuchTechnique;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| NoSuchTechnique(name.to_owned()))
    }
}

/// The clocks that frames are stamped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// The kernel's.
    #[default]
    Software,
    /// The NIC's.
    Hardware,
    /// Both, on each frame.
    Both,
}

impl Stamps {
    /// Whether the kernel's clock is asked for.
    pub const fn software(self) -> bool {
        matches!(self, Self::Software | Self::Both)
    }

    /// Whether the NIC's clock is asked for.
    pub const fn hardware(self) -> bool {
        matches!(self, Self::Hardware | Self::Both)
    }

    /// Its name on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Hardware => "hardware",
            Self::Both => "both",
        }
    }
}

/// Which frames of an interface to receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received and sent ones.
    #[default]
    Both,
    /// Received ones alone.
    In,
}

/// Several receivers of one interface that share its frames by flow (`PACKET_FANOUT_HASH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fanout {
    /// The number that the receivers have in common.
    pub group: u16,
}

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface's name, in the network namespace of the calling thread.
    pub interface: String,
    /// The clocks asked for.
    pub stamps: Stamps,
    /// The most bytes to keep of a frame, 1 to [`Options::LONGEST_SNAP`].
    pub snap_length: u32,
    /// A filter in libpcap's language; frames that do not match are not received.
    pub filter: Option<String>,
    /// Whether to receive frames for other hosts too (promiscuous mode).
    pub promiscuous: bool,
    /// Which frames.
    pub direction: Direction,
    /// Memory for frames that are not read yet, in bytes: a socket buffer, a ring, or a UMEM.
    pub buffer_bytes: u32,
    /// The most frames of a batch.
    pub batch: u32,
    /// How long a ring's block that is not full waits for more frames, in milliseconds; one that
    /// began in between waits twice as long. Each block wakes the receiver.
    pub hold_ms: u32,
    /// Sharing the interface with other receivers.
    pub fanout: Option<Fanout>,
    /// How long AF_XDP polls the driver instead of waiting for its interrupt, in microseconds; 0 is
    /// not at all.
    pub busy_poll_us: u32,
}

impl Options {
    /// The largest snap length: tcpdump's.
    pub const LONGEST_SNAP: u32 = 262_144;

    /// Everything of this interface, with software timestamps and 32 MiB of memory.
    pub fn of(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            stamps: Stamps::Software,
            snap_length: Self::LONGEST_SNAP,
            filter: None,
            promiscuous: false,
            direction: Direction::Both,
            buffer_bytes: 32 << 20,
            batch: 64,
            hold_ms: 10,
            fanout: None,
            busy_poll_us: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for technique in Technique::ALL {
            assert_eq!(technique.name().parse(), Ok(technique));
        }
        let refused = "mmap".parse::<Technique>().unwrap_err();
        assert!(Technique::ALL.iter().all(|t| refused.to_string().contains(t.name())), "{refused}");
    }
}
