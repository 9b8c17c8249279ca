//! Passes through the TCP sockets of every network namespace: the kernel part's iterator does to each socket what the pass says.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use libbpf_rs::{Link, MapHandle, ProgramType};

use crate::Error;
use crate::keeper::{Ask, Keeper};
use crate::layout::{Pass, RawControl};
use crate::namespace::{self, Network};
use crate::walk::Walk;
use crate::{nic, object};

/// How often it is looked who else is at work on the sockets.
const LOOK: Duration = Duration::from_secs(1);

/// The iterator and its settings. One pass at a time: it reads what to do from the controls.
#[derive(Debug)]
pub(crate) struct Passes {
    sockets: Link,
    controls: MapHandle,
    pub(crate) control: RawControl,
    /// Iterators of other probes, which run after each pass that picks up connections or lets them go.
    pub(crate) beside: Vec<Link>,
    networks: Arc<[Network]>,
    looked: Instant,
    /// The tracer's own program of socket operations; 0 where it has none.
    own: u32,
    /// Makes the passes, once this process has given up the rights for them.
    keeper: Option<Keeper>,
}

impl Passes {
    pub(crate) fn new(sockets: Link, controls: MapHandle, control: RawControl, own: u32) -> Self {
        Self {
            sockets,
            controls,
            control,
            beside: Vec::new(),
            networks: Arc::default(),
            looked: Instant::now(),
            own,
            keeper: None,
        }
    }

    /// Sees who else is at work on the sockets of this machine. The next pass passes it on to the programs.
    pub(crate) fn look_around(&mut self) {
        self.looked = Instant::now();
        let found = match &self.keeper {
            None => neighbours(self.own),
            // Where it is gone, the next pass says so.
            Some(keeper) => match keeper.ask(Ask::Neighbours, &[]).as_deref() {
                Ok(&[tracers, foreign]) => Neighbours { tracers: tracers != 0, foreign: foreign != 0 },
                _ => return,
            },
        };
        self.control.shared = u32::from(found.tracers);
        self.control.foreign = u32::from(found.foreign);
    }

    /// Passes on once a second who else is at work.
    pub(crate) fn keep_looking(&mut self) -> Result<(), Error> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        let before = self.control;
        self.look_around();
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
        self.look_around();
        self.control.ending = 0;
        self.write()
    }

    /// The last pass: connections are let go, and those that begin are not followed any more. `empty` as in [`Passes::read`].
    pub(crate) fn end(&mut self, empty: Empty<'_>) -> Result<(), Error> {
        self.look_around();
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

    /// The same, giving all that the program wrote. Of many connections a pass writes more records than the ring buffer has room for: it rests
    /// until `empty` has read them.
    pub(crate) fn read(&mut self, pass: Pass, empty: Empty<'_>) -> Result<Vec<u8>, Error> {
        self.control.pass = pass as u32;
        self.write()?;
        let both = matches!(pass, Pass::Follow | Pass::Finish);
        let Some(keeper) = &self.keeper else {
            let mut walk = walk(&self.sockets, &self.beside, both, Arc::clone(&self.networks));
            loop {
                match walk.step()? {
                    Some(written) => return Ok(written),
                    None => empty()?,
                }
            }
        };
        let mut ask = if both { Ask::Both } else { Ask::Pass };
        loop {
            let mut answer = keeper.ask(ask, &[]).map_err(Error::system(WALK))?;
            if answer.pop() != Some(RESTS) {
                return Ok(answer);
            }
            empty()?;
            ask = Ask::GoOn;
        }
    }

    /// Has a separate process make the passes from now on, and look who else is at work; `limit` gives up what that process does not need,
    /// and `aside` answers what the command asks of it. Gives that process.
    pub(crate) fn hand_over(
        &mut self,
        limit: impl FnOnce() -> io::Result<()>,
        mut aside: impl FnMut(&[u8]) -> Vec<u8>,
    ) -> io::Result<Keeper> {
        let (sockets, beside, own) = (&self.sockets, &self.beside, self.own);
        let keep: Vec<_> = std::iter::once(sockets).chain(beside).map(|link| link.as_fd().as_raw_fd()).collect();
        let mut walking = None;
        let mut everywhere = move |ask| {
            if ask != Ask::GoOn {
                walking = Some(walk(sockets, beside, ask == Ask::Both, namespace::all_networks()?.into()));
            }
            let written = walking.as_mut().map_or(Ok(Some(Vec::new())), Walk::step)?;
            Ok::<_, Error>(written.map_or(vec![RESTS], |mut written| {
                written.push(DONE);
                written
            }))
        };
        let serve = move |ask, request: &[u8]| match ask {
            Ask::Pass | Ask::Both | Ask::GoOn => everywhere(ask).map_err(io::Error::other),
            Ask::Neighbours => {
                let found = neighbours(own);
                Ok(vec![found.tracers.into(), found.foreign.into()])
            }
            Ask::Clock => nic::answer(request),
            Ask::Aside => Ok(aside(request)),
        };
        let keeper = Keeper::fork(&keep, limit, serve)?;
        self.keeper = Some(keeper.clone());
        Ok(keeper)
    }

    /// What the command asks of that process; `None` where there is none, or it is gone.
    pub(crate) fn aside(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.keeper.as_ref()?.ask(Ask::Aside, request).ok()
    }
}

/// What a pass does, in errors.
const WALK: &str = "cannot walk the sockets of the network namespaces";
/// The last byte of the keeper's answer: whether the walk is over.
const DONE: u8 = 0;
const RESTS: u8 = 1;

/// Reads the ring buffer empty.
pub(crate) type Empty<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// A walk of the iterator over the sockets; where it is of `both`, then of those of other probes.
fn walk<'a>(sockets: &'a Link, beside: &'a [Link], both: bool, networks: Arc<[Network]>) -> Walk<'a> {
    let beside = beside.iter().filter(|_| both);
    Walk::new(std::iter::once(sockets).chain(beside).collect(), networks)
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
