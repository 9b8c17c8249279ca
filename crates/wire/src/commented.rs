//! Processes that comments name: which end of a connection is theirs is seen from all of its
//! packets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::KnownBy;

use crate::capture::{Opened, ProcessComment, Whose, flag};
use crate::processes::{MOST, Process, Rank};
use crate::segment::{Flags, Integrity, Segment};

/// Connections of which comments name a process, by both ends, the lower one first.
#[derive(Debug, Default)]
pub(crate) struct Commented(BTreeMap<[SocketAddr; 2], Connection>);

/// What is known of a connection; of a pair, the first is of the lower end.
#[derive(Debug, Default)]
struct Connection {
    /// What a comment on a packet of each end says, and the number of that packet.
    said: [Option<(u64, Remark)>; 2],
    /// Whether each end is on the machine that captured.
    here: [bool; 2],
    /// Which end opened it.
    caller: Option<usize>,
    /// A process is in a container.
    in_container: bool,
}

/// A comment, with what the options of its packet say.
#[derive(Debug)]
pub(crate) struct Remark {
    pub comment: ProcessComment,
    /// `epb_flags`.
    pub flags: u32,
    /// A comment on the packet names a container or a pod.
    pub in_container: bool,
}

impl Commented {
    /// Takes a packet, with what a comment on it says.
    pub fn take(&mut self, segment: &Segment, remark: Option<Remark>) {
        if remark.is_none() && self.0.is_empty() {
            return;
        }
        let (mut ends, mut sender) = ([segment.source, segment.destination], 0);
        if ends[0] > ends[1] {
            ends.swap(0, 1);
            sender = 1;
        }
        let room = self.0.len() < MOST;
        let connection = match (self.0.get_mut(&ends), &remark) {
            (Some(known), _) => known,
            (None, Some(_)) if room => self.0.entry(ends).or_default(),
            (None, _) => return,
        };
        // What is to be completed by a network card was sent on this side of it. A segment with
        // payload may instead have been joined from several that arrived.
        connection.here[sender] |= segment.payload == 0 && segment.integrity == Integrity::Offloaded;
        if segment.flags.contains(Flags::SYN) {
            connection.caller = Some(if segment.flags.contains(Flags::ACK) { 1 - sender } else { sender });
        }
        if let Some(remark) = remark {
            connection.keep(sender, segment.number, remark);
        }
    }

    /// The processes by their ends, as far as those are known.
    pub fn processes(&self) -> BTreeMap<SocketAddr, Process> {
        let mut all = BTreeMap::<SocketAddr, Process>::new();
        for (ends, connection) in &self.0 {
            for (end, (packet, Remark { comment, .. })) in connection.owners() {
                let (exact, packet) = (comment.exact, Reverse(*packet));
                let rank = Rank { by_option: false, known_by: KnownBy::Unknown, exact, packet };
                let process = Process { pid: comment.pid, name: comment.name.clone(), works_for: None, rank };
                if all.get(&ends[end]).is_none_or(|kept| process.is_known_better_than(kept)) {
                    all.insert(ends[end], process);
                }
            }
        }
        all
    }
}

impl Connection {
    fn keep(&mut self, sender: usize, packet: u64, remark: Remark) {
        self.in_container |= remark.in_container;
        let other = self.said[1 - sender].as_ref().map(|(_, other)| other.comment.pid);
        let kept = &mut self.said[sender];
        let better = kept.as_ref().is_none_or(|(_, kept)| {
            let (old, new) = (&kept.comment, &remark.comment);
            // What is said of the sender itself shows where it differs from what is said of the
            // other end.
            let of_itself = self.here == [true; 2] && other == Some(old.pid) && new.pid != old.pid;
            let named = old.pid == new.pid && old.name.is_empty();
            new.exact && !old.exact || of_itself || named
        });
        if better {
            *kept = Some((packet, remark));
        }
    }

    /// Ends with their process.
    fn owners(&self) -> impl Iterator<Item = (usize, &(u64, Remark))> {
        let owner = |sender: usize| self.end(sender).zip(self.said[sender].as_ref());
        let mut owners = [owner(0), owner(1)];
        // One process at both ends is more likely one that was taken for its peer's.
        if let [Some((a, first)), Some((b, second))] = owners
            && a != b
            && first.1.comment.pid == second.1.comment.pid
        {
            owners = [None, None];
        }
        owners.into_iter().flatten()
    }

    /// The end of the process that comments on the packets of `sender` name.
    fn end(&self, sender: usize) -> Option<usize> {
        let (_, said) = self.said[sender].as_ref()?;
        let here = match self.here {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        };
        match said.comment.whose {
            Whose::Connection(Some(opened)) if self.caller.is_some() => {
                self.caller.map(|caller| if opened == Opened::Here { caller } else { 1 - caller })
            }
            Whose::Connection(_) => here,
            // Both have sockets here, so each packet is its sender's where that is known.
            Whose::Packet if self.here == [true; 2] => {
                let (_, other) = self.said[1 - sender].as_ref()?;
                (other.comment.pid != said.comment.pid).then_some(sender)
            }
            Whose::Packet => here.or(match said.flags & 3 {
                _ if self.in_container => None,
                flag::INBOUND => Some(1 - sender),
                flag::OUTBOUND => Some(sender),
                _ => None,
            }),
        }
    }
}
