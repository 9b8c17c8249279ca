//! What a trace needs rights for while it runs, in a separate process: so the process that decodes
//! records, writes files and draws has none.
//!
//! That process is a [`machine::keeper`], forked once everything is attached. It holds the
//! iterators over the sockets; these are the words in which it is asked.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What the tracer asks its keeper for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A pass over the sockets of every network namespace.
    Pass {
        /// Whether the iterators of other probes go through them too.
        with_probes: bool,
    },
    /// On with the pass, which has asked for a rest.
    GoOn,
    /// Who else is at work on the sockets.
    Neighbours,
    /// By which clock an interface stamps.
    Clock {
        /// The inode number of its network namespace.
        network: u32,
        /// Its number there.
        interface: u32,
    },
    /// What the command itself asks for: its own request.
    Command(serde_json::Value),
}

/// The keeper's reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The pass is over.
    Passed,
    /// The pass rests until the ring buffer has been read.
    Rests,
    /// Who else is at work on the sockets.
    Neighbours(Neighbours),
    /// The number of the clock, where the interface has one.
    Clock(Option<u32>),
    /// The command's own reply.
    Command(serde_json::Value),
}

/// Who else wants callbacks of sockets on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Neighbours {
    /// Another tracer is attached: it wants the sockets to stay armed.
    pub tracers: bool,
    /// A program of socket operations that is no tracer's is loaded: callbacks that a socket has
    /// may be its.
    pub foreign: bool,
}

/// The tracer's keeper.
pub(crate) type Keeper = machine::keeper::Keeper<Request, Reply>;

/// The reply that is of another kind than what was asked for.
pub(crate) fn unexpected(what: &'static str) -> Error {
    let source = machine::keeper::Error::Refused("the keeper gave the reply to another request".into());
    Error::Keeper { what, source }
}

/// The process that keeps the rights of a trace, as the command asks it: with its own requests and
/// replies.
#[derive(Debug)]
pub struct Privileged<Q, A> {
    pub(crate) keeper: Keeper,
    pub(crate) says: PhantomData<fn(Q) -> A>,
}

/// What the command asks for, in errors.
const ASK: &str = "the process that keeps the rights of the trace does not answer";

impl<Q: Serialize, A: DeserializeOwned> Privileged<Q, A> {
    /// The reply to a request.
    ///
    /// # Errors
    /// [`Error::Keeper`] where the process has ended, with the cause, or something went wrong
    /// there.
    pub fn ask(&self, request: &Q) -> Result<A, Error> {
        let json = |error: serde_json::Error| Error::system(ASK)(error.into());
        let request = Request::Command(serde_json::to_value(request).map_err(json)?);
        match self.keeper.ask(&request).map_err(Error::keeper(ASK))? {
            Reply::Command(reply) => serde_json::from_value(reply).map_err(json),
            _ => Err(unexpected(ASK)),
        }
    }
}
