//! The testbed: source, tap, device, tap, sink, with a copy of every frame at both taps on two
//! interfaces that measure.
//!
//! All of it is veth pairs in a network namespace of the calling thread, joined by the kernel's
//! `mirred` action: what arrives from the source is copied to the first of [`Bed::taps`] and goes
//! on into the device, a plain pair; what leaves it is copied to the second and dropped, as a sink
//! would. There is one such chain for each kind of interface. The namespace goes with its last
//! thread, however that ends.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;

use capture::generate::Shape;
use lab::mirror::{self, Action, Hook};

use super::plan::Interface;
use crate::Error;

/// Where the source of the lab's path sends.
pub(super) const SOURCE: &str = "source";

/// The chain of one kind of interface.
pub(super) struct Bed {
    /// Where the source sends, the copies leave, and the device begins: pairs of devices in the
    /// order of the chain.
    pairs: [[&'static CStr; 2]; 4],
    /// Where the source sends.
    pub source: &'static str,
    /// The interfaces that a copy of every frame arrives on: before and behind the device.
    pub taps: [&'static str; 2],
}

const VETH: Bed = Bed {
    pairs: [[c"source", c"split"], [c"copy0", c"before"], [c"wire0", c"wire1"], [c"copy1", c"after"]],
    source: SOURCE,
    taps: ["before", "after"],
};

const MACVLAN: Bed = Bed {
    pairs: [[c"source-m", c"split-m"], [c"copy0-m", c"lower0-m"], [c"wire0-m", c"wire1-m"], [c"copy1-m", c"lower1-m"]],
    source: "source-m",
    taps: ["before-m", "after-m"],
};

impl Bed {
    pub const fn of(interface: Interface) -> &'static Self {
        match interface {
            Interface::Veth => &VETH,
            Interface::Macvlan => &MACVLAN,
        }
    }

    fn make(&self) -> io::Result<()> {
        let [[_, split], [copy0, _], [wire0, wire1], [copy1, _]] = self.pairs;
        mirror::make_pairs(&self.pairs)?;
        mirror::every_frame(split, Hook::Arrival, &[Action::Copy(copy0), Action::Move(wire0)])?;
        mirror::every_frame(wire1, Hook::Arrival, &[Action::CopyAndDrop(copy1)])?;
        mirror::wait_for(self.pairs.as_flattened());
        Ok(())
    }

    /// Frames that have arrived at each tap's interface so far.
    pub fn arrived(&self) -> [u64; 2] {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        self.taps.map(|tap| frames_of(&table, tap).unwrap_or(0))
    }
}

/// Puts the calling thread into a new network namespace and makes the testbed there. Threads that
/// it starts are in it too.
pub(super) fn enter() -> Result<(), Error> {
    let step = |step| move |source| Error::System { step, source };
    machine::enter_new_network().map_err(step("make a network namespace (it takes root)"))?;
    VETH.make().map_err(step("make the testbed of veth pairs and mirrors (tc bpf and mirred)"))
}

/// Makes the chain with macvlan interfaces in the calling thread's network namespace.
///
/// # Errors
/// The kernel's: it may have no macvlan.
pub(super) fn add_macvlan() -> io::Result<()> {
    MACVLAN.make()?;
    mirror::make_macvlan(c"before-m", c"lower0-m")?;
    mirror::make_macvlan(c"after-m", c"lower1-m")?;
    mirror::wait_for(&[c"before-m", c"after-m"]);
    Ok(())
}

/// Makes a source in the calling thread's network namespace: what is sent on [`SOURCE`] leaves by
/// `device`, where packet sockets see it. Frames that are sent on `device` past its queue are seen
/// by no packet socket.
pub(super) fn feed(device: &CStr) -> io::Result<()> {
    mirror::make_pairs(&VETH.pairs[..1])?;
    mirror::every_frame(c"split", Hook::Arrival, &[Action::Move(device)])?;
    mirror::wait_for(VETH.pairs[..1].as_flattened());
    Ok(())
}

/// The frames that a device has received, from `/proc/net/dev`: the second figure of its line.
fn frames_of(table: &str, device: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Frames of this size on the wire, frame check sequence included.
pub(super) fn shape(frame_size: u16) -> Shape {
    let at = |last, port| SocketAddr::from(([10, 0, 0, last], port));
    Shape {
        bytes: frame_size.saturating_sub(4),
        hardware: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        vlan: None,
        source: at(1, 9),
        destination: at(2, 9),
        flows: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_frames_are_read_from_the_line_of_the_device() {
        let table = "Inter-|   Receive\n face |bytes    packets\nbefore: 6000 100 0 0\n  after:12 2 0 0\n";
        assert_eq!(VETH.taps.map(|tap| frames_of(table, tap)), [Some(100), Some(2)]);
        assert_eq!(frames_of(table, "wire0"), None);
    }
}
