//! A walk over the TCP sockets of network namespaces, which rests where its program asks for it.

use std::io::{ErrorKind, Read as _};
use std::sync::Arc;

use libbpf_rs::{Iter, Link};

use crate::Error;
use crate::namespace::{self, Network};
use crate::{capabilities, cookies};

/// What a walk does, in errors.
const ITERATE: &str = "cannot iterate over the sockets";

/// Iterators on their way through the sockets: each goes through all network namespaces before the
/// next one begins.
pub(crate) struct Walk<'a> {
    iterators: Vec<&'a Link>,
    networks: Arc<[Network]>,
    /// The iteration that comes next, of all iterators in all network namespaces.
    next: usize,
    /// The one that it is in.
    on: Option<Iter>,
    written: Vec<u8>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(iterators: Vec<&'a Link>, networks: Arc<[Network]>) -> Self {
        Self { iterators, networks, next: 0, on: None, written: Vec::new() }
    }

    /// Goes on to the end, and gives all that the programs wrote; or `None` where a program, or the
    /// kernel after a million sockets, asks for a rest. The next step is to the socket that it
    /// stood before.
    pub(crate) fn step(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            match &mut self.on {
                Some(iteration) => match iteration.read_to_end(&mut self.written) {
                    Ok(_) => self.on = None,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(source) => return Err(Error::System { what: ITERATE, source }),
                },
                None if self.next == self.iterators.len() * self.networks.len() => {
                    return Ok(Some(std::mem::take(&mut self.written)));
                }
                None => {
                    self.on = self.begin()?;
                    self.next += 1;
                }
            }
        }
    }

    /// The next iteration; `None` where this process may not enter its network namespace. It is of
    /// the namespace that it was begun in, wherever it is read.
    fn begin(&self) -> Result<Option<Iter>, Error> {
        let iterator = self.iterators[self.next / self.networks.len()];
        let network = &self.networks[self.next % self.networks.len()];
        // Once for all iterators of the walk.
        let first = self.next < self.networks.len();
        let begin = || {
            if first && capabilities::older() {
                cookies::give()?;
            }
            Iter::new(iterator).map_err(Error::bpf(ITERATE))
        };
        match network.within(begin) {
            // Only with the least rights (`Config::least_rights`): what is in other network
            // namespaces is not picked up.
            Err(Error::System { source, .. }) if !network.is_own() && source.kind() == ErrorKind::PermissionDenied => {
                Ok(None)
            }
            begun => begun.map(Some),
        }
    }
}

/// An iterator through what the caller's namespaces show, without rests; gives what it wrote.
pub(crate) fn through_own(iterator: &Link) -> Result<Vec<u8>, Error> {
    let mut walk = Walk::new(vec![iterator], namespace::networks_of([])?.into());
    loop {
        if let Some(written) = walk.step()? {
            return Ok(written);
        }
    }
}
