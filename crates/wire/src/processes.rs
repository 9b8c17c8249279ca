//! The processes that a capture names, by their ends of connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::KnownBy;

use crate::capture::context::Context;
use crate::capture::flag;

/// How many ends are kept.
const MOST: usize = 65_536;

/// A process that a capture names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name; empty where the capture has none.
    pub name: String,
    known_by: KnownBy,
}

/// Processes by their ends.
#[derive(Debug, Default)]
pub(crate) struct Processes(BTreeMap<SocketAddr, Process>);

impl Processes {
    /// A packet from one end to the other is said to be of process `pid`, whose end its direction
    /// says. Of several processes the one stays that is known best.
    pub fn add(&mut self, (from, to): (SocketAddr, SocketAddr), pid: u32, flags: u32, context: Option<Context>) {
        let context = context.unwrap_or_default();
        let end = if flags & 3 == flag::INBOUND { to } else { from };
        let known_by = context.socket.map_or(KnownBy::Unknown, |socket| socket.1);
        self.keep(end, Process { pid, name: context.name, known_by });
        if let Some(receiver) = context.receiver {
            let (owner, known_by) = (receiver.owner, receiver.known_by);
            self.keep(to, Process { pid: owner.pid, name: owner.comm.to_string(), known_by });
        }
    }

    fn keep(&mut self, end: SocketAddr, process: Process) {
        let room = self.0.len() < MOST;
        match self.0.get_mut(&end) {
            _ if process.pid == 0 => {}
            Some(kept) if process.known_by > kept.known_by => *kept = process,
            Some(_) => {}
            None if room => drop(self.0.insert(end, process)),
            None => {}
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, &Process)> {
        self.0.iter().map(|(&end, process)| (end, process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::ConnectionId;

    #[test]
    fn an_end_has_the_process_that_is_known_best() {
        let [client, server]: [SocketAddr; 2] = ["10.0.0.1:4000", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        let context =
            |name: &str, by| Context { socket: Some((ConnectionId(1), by)), name: name.into(), ..Context::default() };
        let mut all = Processes::default();
        all.add((client, server), 7, flag::INBOUND, Some(context("master", KnownBy::Listens)));
        all.add((server, client), 8, flag::OUTBOUND, Some(context("worker", KnownBy::Sent)));
        all.add((client, server), 7, flag::INBOUND, Some(context("master", KnownBy::Listens)));
        // By others, which say only the number.
        all.add((client, server), 9, flag::OUTBOUND, None);
        all.add((client, server), 0, flag::OUTBOUND, None);
        let seen: Vec<_> = all.iter().map(|(end, process)| (end, process.pid, process.name.as_str())).collect();
        assert_eq!(seen, [(client, 9, ""), (server, 8, "worker")]);
    }
}
