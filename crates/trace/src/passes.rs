//! Passes through the TCP sockets of every network namespace: the kernel part's iterator does to each socket what the pass says.

use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use libbpf_rs::{Link, MapHandle, ProgramType};

use crate::Error;
use crate::layout::{Pass, RawControl};
use crate::namespace::{self, Network};
use crate::{object, programs};

/// Network namespaces are looked up again after this long: reading all of `/proc` at every window would cost too much.
const NETWORKS_LAST: Duration = Duration::from_secs(1);

/// The iterator and its settings. One pass at a time: it reads what to do from the controls.
#[derive(Debug)]
pub(crate) struct Passes {
    sockets: Link,
    controls: MapHandle,
    pub(crate) control: RawControl,
    /// Iterators of other probes, which run after each pass that picks up connections.
    pub(crate) after_follow: Vec<Link>,
    networks: Vec<Network>,
    networks_read: Option<Instant>,
    /// The tracer's own program of socket operations; 0 where it has none.
    own: u32,
}

impl Passes {
    pub(crate) fn new(sockets: Link, controls: MapHandle, control: RawControl, own: u32) -> Self {
        Self { sockets, controls, control, after_follow: Vec::new(), networks: Vec::new(), networks_read: None, own }
    }

    /// Sees who else is at work on the sockets of this machine. The next pass passes it on to the programs.
    pub(crate) fn look_around(&mut self) {
        let found = neighbours(self.own);
        self.control.shared = u32::from(found.tracers);
        self.control.foreign = u32::from(found.foreign);
    }

    /// Lets connections that begin be followed.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.look_around();
        self.control.ending = 0;
        self.write()
    }

    /// The last pass: connections are let go, and those that begin are not followed any more.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.look_around();
        self.find_networks()?;
        self.control.ending = 1;
        self.pass(Pass::Finish)
    }

    /// Writes the settings to the programs' map.
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
        self.read(pass).map(drop)
    }

    /// The same, giving all that the program wrote.
    pub(crate) fn read(&mut self, pass: Pass) -> Result<Vec<u8>, Error> {
        self.control.pass = pass as u32;
        self.write()?;
        let written = self.walk(&self.sockets)?;
        if pass == Pass::Follow {
            for also in &self.after_follow {
                self.walk(also)?;
            }
        }
        Ok(written)
    }

    /// Runs an iterator over the sockets of every network namespace; gives what it wrote.
    fn walk(&self, sockets: &Link) -> Result<Vec<u8>, Error> {
        let mut written = Vec::new();
        for network in &self.networks {
            written.extend(network.within(|| programs::iterate(sockets))?);
        }
        Ok(written)
    }

    /// Opens a window of `length` ns on every followed connection; `u64::MAX` is one without an end.
    pub(crate) fn open(&mut self, length: u64) -> Result<(), Error> {
        if self.networks_read.is_none_or(|read| read.elapsed() > NETWORKS_LAST) {
            self.find_networks()?;
            self.look_around();
        }
        self.control.window = length;
        self.pass(Pass::Open)
    }
}

/// The names of this crate's programs of socket operations.
const OWN: [&[u8]; 4] = [b"timestamping", b"following", b"callback_floor", b"callback_tagged"];

/// Who else wants callbacks of sockets on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Neighbours {
    /// Another tracer is attached: it wants the sockets to stay armed.
    tracers: bool,
    /// A program of socket operations that is no tracer's is loaded: callbacks that a socket has may be its.
    foreign: bool,
}

fn neighbours(own: u32) -> Neighbours {
    let mut found = Neighbours::default();
    let mut tracers = Vec::new();
    for program in ProgInfoIter::default().filter(|program| program.ty == ProgramType::SockOps && program.id != own) {
        if OWN.contains(&program.name.as_encoded_bytes()) {
            tracers.push(program.id);
        } else {
            found.foreign = true;
        }
    }
    found.tracers = !tracers.is_empty() && LinkInfoIter::default().any(|link| tracers.contains(&link.prog_id));
    found
}
