//! The processes that a capture names, by their ends of connections.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use record::{Instant, KnownBy, Realtime};

use crate::capture::{ProcessBlocks, Said, flag};
use crate::commented::{Commented, Remark};
use crate::segment::Segment;

/// How many ends are kept, and how many connections with comments.
pub(crate) const MOST: usize = 65_536;

/// A process that a capture names; as text `curl[1234]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name; empty where the capture has none.
    pub name: String,
    /// Number and name of the process on whose behalf it uses the network, where that is another
    /// one (macOS).
    pub works_for: Option<(u32, String)>,
    pub(crate) rank: Rank,
}

/// How well a process is known: of two at one end, the higher stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// By an option of a packet, and not by a comment.
    pub by_option: bool,
    pub known_by: KnownBy,
    /// Found by both ends of the connection, and not by less.
    pub exact: bool,
    /// The packet that says so: an earlier one ranks higher.
    pub packet: Reverse<u64>,
}

impl Process {
    /// Whether it is known better than `other`, or earlier, where readers of a capture's shards
    /// have found both at one end.
    pub fn is_known_better_than(&self, other: &Self) -> bool {
        self.rank > other.rank
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.pid)?;
        match &self.works_for {
            Some((pid, name)) => write!(f, " for {name}[{pid}]"),
            None => Ok(()),
        }
    }
}

/// Processes by their ends.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    ends: BTreeMap<SocketAddr, Owner>,
    commented: Commented,
}

/// A process that an option names.
#[derive(Debug)]
struct Owner {
    process: Process,
    /// Where its name is to be looked up if it has none: section, and moment in nanoseconds.
    seen: (u32, u64),
}

impl Processes {
    /// Takes a packet that was captured `at` a moment, and what its options say. Of several
    /// processes of an end the one stays that is known best.
    pub fn take(
        &mut self,
        segment: &Segment,
        at: Option<Instant<Realtime>>,
        said: Option<Said>,
        blocks: &ProcessBlocks,
    ) {
        // What is said of a tunnel's packet is about its own ends, not about what it carries.
        let said = said.filter(|_| segment.network.tunnels == 0);
        let Some(said) = said else { return self.commented.take(segment, None) };
        let (from, to) = (segment.source, segment.destination);
        let seen = (blocks.section(), at.map_or(u64::MAX, Instant::as_nanos));
        let ours = match said.flags & 3 {
            flag::INBOUND => Some(to),
            flag::OUTBOUND => Some(from),
            _ => None,
        };
        let packet = Reverse(segment.number);
        let rank = |known_by| Rank { by_option: true, known_by, exact: true, packet };
        let context = said.context.unwrap_or_default();
        let known_by = context.socket.map_or(KnownBy::Unknown, |socket| socket.1);
        let process = Process { pid: said.pid, name: context.name, works_for: None, rank: rank(known_by) };
        // The option is about the sender where the packet has no direction.
        self.keep(ours.unwrap_or(from), Owner { process, seen });
        if let Some(receiver) = context.receiver {
            let (owner, rank) = (receiver.owner, rank(receiver.known_by));
            let process = Process { pid: owner.pid, name: owner.comm.to_string(), works_for: None, rank };
            self.keep(to, Owner { process, seen });
        }
        let [own, effective] = [said.place, said.effective_place].map(|place| blocks.at_place(place?));
        if let (Some(end), Some((pid, name))) = (ours, own.or(effective)) {
            let other = effective.filter(|effective| effective.0 != pid);
            let works_for = other.map(|(pid, name)| (pid, name.to_owned()));
            let process = Process { pid, name: name.to_owned(), works_for, rank: rank(KnownBy::Unknown) };
            self.keep(end, Owner { process, seen });
        }
        let (flags, in_container) = (said.flags, said.in_container);
        self.commented.take(segment, said.comment.map(|comment| Remark { comment, flags, in_container }));
    }

    fn keep(&mut self, end: SocketAddr, owner: Owner) {
        let room = self.ends.len() < MOST;
        match self.ends.get_mut(&end) {
            _ if owner.process.pid == 0 => {}
            Some(kept) if owner.process.is_known_better_than(&kept.process) => *kept = owner,
            Some(_) => {}
            None if room => drop(self.ends.insert(end, owner)),
            None => {}
        }
    }

    /// All of them. An option of a packet comes before a comment on it.
    pub fn all(&self, blocks: &ProcessBlocks) -> BTreeMap<SocketAddr, Process> {
        let mut all = self.commented.processes();
        for (end, owner) in &self.ends {
            let mut process = owner.process.clone();
            if process.name.is_empty() {
                process.name = blocks.name(owner.seen.0, process.pid, owner.seen.1).to_owned();
            }
            let commented = all.insert(*end, process);
            if let (Some(commented), Some(process)) = (commented, all.get_mut(end))
                && process.name.is_empty()
                && process.pid == commented.pid
            {
                process.name = commented.name;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::context::Context;
    use record::ConnectionId;

    #[test]
    fn an_end_has_the_process_that_is_known_best() {
        let [client, server]: [SocketAddr; 2] = ["10.0.0.1:4000", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        let context =
            |name: &str, by| Context { socket: Some((ConnectionId(1), by)), name: name.into(), ..Context::default() };
        let (mut all, blocks) = (Processes::default(), ProcessBlocks::default());
        let mut add = |(from, to), pid, flags, context| {
            let said = Said { flags, pid, context, ..Said::default() };
            all.take(&Segment::new(1, Instant::from_nanos(1), from, to), None, Some(said), &blocks);
        };
        add((client, server), 7, flag::INBOUND, Some(context("master", KnownBy::Listens)));
        add((server, client), 8, flag::OUTBOUND, Some(context("worker", KnownBy::Sent)));
        add((client, server), 7, flag::INBOUND, Some(context("master", KnownBy::Listens)));
        // By others, which say only the number.
        add((client, server), 9, flag::OUTBOUND, None);
        add((client, server), 0, flag::OUTBOUND, None);
        let seen: Vec<_> = all.all(&blocks).into_iter().map(|(end, process)| (end, process.to_string())).collect();
        assert_eq!(seen, [(client, "[9]".to_owned()), (server, "worker[8]".to_owned())]);
    }
}
