//! Passes over the TCP sockets of every network namespace: the kernel part's iterator does to each socket what the pass says.

use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link, MapHandle};

use crate::Error;
use crate::layout::{Pass, RawControl};
use crate::namespace::{self, Network};
use crate::object;

/// Network namespaces are looked up again after this long: reading all of `/proc` at every window would cost too much.
const NETWORKS_LAST: Duration = Duration::from_secs(1);

/// The iterator and what it is told. One pass at a time: it reads what to do from the controls.
#[derive(Debug)]
pub(crate) struct Passes {
    sockets: Link,
    controls: MapHandle,
    pub(crate) control: RawControl,
    /// An iterator of another probe, which runs after each pass that picks up connections.
    pub(crate) after_follow: Option<Link>,
    networks: Vec<Network>,
    networks_read: Option<Instant>,
}

impl Passes {
    pub(crate) fn new(sockets: Link, controls: MapHandle, control: RawControl) -> Self {
        Self { sockets, controls, control, after_follow: None, networks: Vec::new(), networks_read: None }
    }

    /// Tells the programs what is set.
    pub(crate) fn write(&self) -> Result<(), Error> {
        object::write_only(&self.controls, &self.control)
    }

    /// Finds the network namespaces of all processes that are there now.
    pub(crate) fn find_networks(&mut self) -> Result<(), Error> {
        self.networks = namespace::all_networks()?;
        self.networks_read = Some(Instant::now());
        Ok(())
    }

    /// One pass over the sockets of every network namespace.
    pub(crate) fn pass(&mut self, pass: Pass) -> Result<(), Error> {
        self.control.pass = pass as u32;
        self.write()?;
        self.walk(&self.sockets)?;
        self.after_follow.as_ref().filter(|_| pass == Pass::Follow).map_or(Ok(()), |also| self.walk(also))
    }

    /// Runs an iterator over the sockets of every network namespace.
    fn walk(&self, sockets: &Link) -> Result<(), Error> {
        for network in &self.networks {
            network.within(|| {
                let mut iter = Iter::new(sockets).map_err(Error::bpf("cannot iterate over the sockets"))?;
                let mut bytes = [0u8; 64];
                while std::io::Read::read(&mut iter, &mut bytes)
                    .map_err(Error::system("cannot iterate over the sockets"))?
                    > 0
                {}
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Opens a window of `length` ns on every followed connection; `u64::MAX` is one without an end.
    pub(crate) fn open(&mut self, length: u64) -> Result<(), Error> {
        if self.networks_read.is_none_or(|read| read.elapsed() > NETWORKS_LAST) {
            self.find_networks()?;
            self.control.shared = u32::from(others_at_work());
        }
        self.control.window = length;
        self.pass(Pass::Open)
    }
}

/// Whether another tracer's program is loaded on this machine: it wants the sockets to stay armed.
pub(crate) fn others_at_work() -> bool {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.as_encoded_bytes() == b"timestamping")
        .count()
        > 1
}
