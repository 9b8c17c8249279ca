//! Passes through the TCP sockets of every network namespace: the kernel part's iterator does to
//! each socket what the pass says.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use libbpf_rs::{Link, MapHandle, ProgramType};

use crate::Error;
use crate::keeper::{Bytes, Keeper, Neighbours, Reply, Request, unexpected};
use crate::layout::{Pass, RawControl};
use crate::namespace::{self, Network};
use crate::walk::Walk;
use crate::{nic, object};

/// How often the neighbours on the sockets are checked.
const CHECK: Duration = Duration::from_secs(1);

/// The iterator and its settings. One pass at a time: it reads what to do from the controls.
#[derive(Debug)]
pub(crate) struct Passes {
    sockets: Link,
    controls: MapHandle,
    pub(crate) control: RawControl,
    /// Iterators of other probes, which run after each pass that picks up connections or lets them
    /// go.
    pub(crate) beside: Vec<Link>,
    networks: Arc<[Network]>,
    checked: Instant,
    /// The tracer's own program of socket operations; 0 where it has none.
    sockops: u32,
    /// Makes the passes, once this process has given up the rights for them.
    keeper: Option<Keeper>,
}

impl Passes {
    pub(crate) fn new(sockets: Link, controls: MapHandle, control: RawControl, sockops: u32) -> Self {
        Self {
            sockets,
            controls,
            control,
            beside: Vec::new(),
            networks: Arc::default(),
            checked: Instant::now(),
            sockops,
            keeper: None,
        }
    }

    /// Finds out who else is at work on the sockets of this machine. The next pass passes it on to
    /// the programs.
    pub(crate) fn find_neighbours(&mut self) -> Result<(), Error> {
        self.checked = Instant::now();
        let found = match &self.keeper {
            None => neighbours(self.sockops),
            Some(keeper) => match keeper.ask(&Request::Neighbours).map_err(Error::keeper(NEIGHBOURS))? {
                Reply::Neighbours(found) => found,
                _ => return Err(unexpected(NEIGHBOURS)),
            },
        };
        self.control.shared = u32::from(found.tracers);
        self.control.foreign = u32::from(found.foreign);
        Ok(())
    }

    /// Passes on once a second who else is at work.
    pub(crate) fn tick(&mut self) -> Result<(), Error> {
        if self.checked.elapsed() < CHECK {
            return Ok(());
        }
        let before = self.control;
        self.find_neighbours()?;
        if self.control == before { Ok(()) } else { self.write() }
    }

    /// One in `every` stretches of each connection is looked at from now on.
    pub(crate) fn set_every(&mut self, every: u32) -> Result<(), Error> {
        self.control.every = every;
        self.write()
    }

    /// Numbers of series mean others than before: connections are to look theirs up afresh.
    pub(crate) fn renumber(&mut self) -> Result<(), Error> {
        self.control.generation = self.control.generation.wrapping_add(1);
        self.write()
    }

    /// Lets connections that begin be followed.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.find_neighbours()?;
        self.control.ending = 0;
        self.write()
    }

    /// The last pass: connections are let go, and those that begin are not followed any more.
    /// `empty` as in [`Passes::read`].
    pub(crate) fn end(&mut self, empty: Empty<'_>) -> Result<(), Error> {
        self.find_neighbours()?;
        self.find_networks()?;
        self.control.ending = 1;
        self.pass(Pass::Finish, empty)
    }

    /// Writes the settings to the programs' map.
    pub(crate) fn write(&self) -> Result<(), Error> {
        object::write_only(&self.controls, &self.control)
    }

    /// Finds the network namespaces of all processes that are there now.
    pub(crate) fn find_networks(&mut self) -> Result<(), Error> {
        if self.keeper.is_some() {
            // It looks before each pass.
            return Ok(());
        }
        self.networks = namespace::all_networks()?.into();
        Ok(())
    }

    /// One pass over the sockets of every network namespace. `empty` as in [`Passes::read`].
    pub(crate) fn pass(&mut self, pass: Pass, empty: Empty<'_>) -> Result<(), Error> {
        self.read(pass, empty).map(drop)
    }

    /// The same, giving all that the program wrote where this process makes the pass. Of many
    /// connections a pass writes more records than the ring buffer has room for: it rests until
    /// `empty` has read them.
    pub(crate) fn read(&mut self, pass: Pass, empty: Empty<'_>) -> Result<Vec<u8>, Error> {
        self.control.pass = pass as u32;
        self.write()?;
        let with_probes = matches!(pass, Pass::Follow | Pass::Finish);
        let Some(keeper) = &self.keeper else {
            let mut walk = walk(&self.sockets, &self.beside, with_probes, Arc::clone(&self.networks));
            loop {
                match walk.step()? {
                    Some(written) => return Ok(written),
                    None => empty()?,
                }
            }
        };
        let mut request = Request::Pass { with_probes };
        loop {
            match keeper.ask(&request).map_err(Error::keeper(WALK))? {
                Reply::Passed => return Ok(Vec::new()),
                Reply::Rests => empty()?,
                _ => return Err(unexpected(WALK)),
            }
            request = Request::GoOn;
        }
    }

    /// Has a separate process make the passes from now on, and find the neighbours; `limit` gives
    /// up what that process does not need, and `serve` answers what the command asks of it. Gives
    /// that process.
    pub(crate) fn hand_over(
        &mut self,
        limit: impl FnOnce() -> io::Result<()>,
        mut serve: impl FnMut(Bytes) -> io::Result<Bytes>,
    ) -> Result<Keeper, Error> {
        let (sockets, beside, sockops) = (&self.sockets, &self.beside, self.sockops);
        let keep: Vec<_> = std::iter::once(sockets).chain(beside).map(|link| link.as_fd().as_raw_fd()).collect();
        let mut walking: Option<Walk<'_>> = None;
        let mut go_on = move |begin: Option<bool>| {
            if let Some(with_probes) = begin {
                walking = Some(walk(sockets, beside, with_probes, namespace::all_networks()?.into()));
            }
            let written = walking.as_mut().map_or(Ok(Some(Vec::new())), Walk::step)?;
            Ok::<_, Error>(if written.is_some() { Reply::Passed } else { Reply::Rests })
        };
        let answer = move |request| match request {
            Request::Pass { with_probes } => go_on(Some(with_probes)).map_err(io::Error::other),
            Request::GoOn => go_on(None).map_err(io::Error::other),
            Request::Neighbours => Ok(Reply::Neighbours(neighbours(sockops))),
            Request::Clock { network, interface } => Ok(Reply::Clock(nic::phc_within(network, interface))),
            Request::Command(request) => serve(request).map(Reply::Command),
        };
        let keeper = Keeper::fork(c"trace-keeper", &keep, limit, answer).map_err(Error::keeper(START))?;
        self.keeper = Some(keeper.clone());
        Ok(keeper)
    }
}

/// What a pass does, in errors.
const WALK: &str = "cannot walk the sockets of the network namespaces";
/// What else the keeper is for, in errors.
const NEIGHBOURS: &str = "cannot find out who else traces";
const START: &str = "cannot start the process that walks the sockets";

/// Drains the ring buffer.
pub(crate) type Empty<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// A walk of the iterator over the sockets; `with_probes`, those of other probes go through them
/// after it.
fn walk<'a>(sockets: &'a Link, beside: &'a [Link], with_probes: bool, networks: Arc<[Network]>) -> Walk<'a> {
    let beside = beside.iter().filter(|_| with_probes);
    Walk::new(std::iter::once(sockets).chain(beside).collect(), networks)
}

/// The names of this crate's programs of socket operations.
const TRACERS: [&[u8]; 4] = [b"timestamping", b"following", b"callback_floor", b"callback_tagged"];

/// Who is at work on the sockets beside the program `except`.
fn neighbours(except: u32) -> Neighbours {
    let mut found = Neighbours::default();
    let mut tracers = Vec::new();
    for program in ProgInfoIter::default().filter(|program| program.ty == ProgramType::SockOps && program.id != except)
    {
        if TRACERS.contains(&program.name.as_encoded_bytes()) {
            tracers.push(program.id);
        } else {
            found.foreign = true;
        }
    }
    found.tracers = !tracers.is_empty() && LinkInfoIter::default().any(|link| tracers.contains(&link.prog_id));
    found
}
