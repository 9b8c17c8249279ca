//! What a trace needs rights for while it runs, in a separate process: so the process that decodes
//! records, writes files and draws has none.
//!
//! That process is a [`machine::keeper`], forked once everything is attached. It holds the
//! iterators over the sockets; these are the words in which it is asked.

use std::fmt;
use std::io;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    Command(Bytes),
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
    Command(Bytes),
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

/// A message of the command's own, as postcard has it. It goes within the tracer's as a whole:
/// byte by byte it would take as long as what it says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    /// Of this message.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn of(message: &impl Serialize) -> io::Result<Self> {
        postcard::to_extend(message, Vec::new()).map(Self).map_err(io::Error::other)
    }

    /// The message.
    ///
    /// # Errors
    /// Where it is no such message.
    pub fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        postcard::from_bytes(&self.0).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;

        impl serde::de::Visitor<'_> for Whole {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(Whole)
    }
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
        let request = Request::Command(Bytes::of(request).map_err(Error::system(ASK))?);
        match self.keeper.ask(&request).map_err(Error::keeper(ASK))? {
            Reply::Command(reply) => reply.read().map_err(Error::system(ASK)),
            _ => Err(unexpected(ASK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_within_another_comes_as_it_went() {
        let inner = (7_u8, "seven".to_owned(), vec![Some(700_u32), None]);
        let request = Request::Command(Bytes::of(&inner).unwrap());
        let sent = postcard::to_extend(&request, Vec::new()).unwrap();
        let Request::Command(came) = postcard::from_bytes(&sent).unwrap() else { panic!("another request") };
        assert_eq!(came.read::<(u8, String, Vec<Option<u32>>)>().unwrap(), inner);
        assert!(came.read::<(u8, char)>().is_err());
    }
}
