//! Connections that are open now, for lines about records that do not name their ends.

use std::collections::HashMap;
use std::net::SocketAddr;

use record::{ConnectionId, Event, Owner};

/// By their numbers.
#[derive(Default)]
pub struct Open(HashMap<ConnectionId, ((SocketAddr, SocketAddr), Owner)>);

impl Open {
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Connection(c) => drop(self.0.insert(c.id, ((c.local, c.remote), c.owner))),
            Event::Closed { connection, .. } => drop(self.0.remove(connection)),
            _ => {}
        }
    }

    /// The ends and the owner of the connection of an event that does not name its ends.
    pub fn of_event(&self, event: &Event) -> Option<((SocketAddr, SocketAddr), Owner)> {
        let id = match event {
            Event::Copy(copy) => Some(copy.socket),
            event => event.connection_without_ends(),
        };
        id.and_then(|id| self.0.get(&id)).copied()
    }
}
