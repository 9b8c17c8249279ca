//! Who has an address on a link: questions of ARP and neighbour discovery, with their answers.

use std::collections::HashMap;
use std::net::IpAddr;

use record::network::Resolving;

use crate::tls::Moment;

/// Questions, with all their tries, that are kept.
const MOST: usize = 50_000;
/// A question that comes so long after the one before is a new one: Linux gives up after three, a
/// second apart.
const PATIENCE: u64 = 10_000_000_000;
/// Packets of one question whose numbers are kept.
const PACKETS: usize = 8;

/// A question with all its tries.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) protocol: Resolving,
    pub(super) client: IpAddr,
    pub(super) address: IpAddr,
    pub(super) tries: u64,
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) answer: Option<(Moment, Option<[u8; 6]>)>,
    pub(super) packets: Vec<u64>,
}

/// All of a capture.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub(super) all: Vec<Question>,
    by_ends: HashMap<(IpAddr, IpAddr), u32>,
    pub(super) beyond: u64,
}

impl Neighbours {
    pub(super) fn asks(&mut self, protocol: Resolving, (client, address): (IpAddr, IpAddr), now: Moment) {
        let open = self.by_ends.get(&(client, address)).map(|index| &mut self.all[*index as usize]);
        let goes_on = |q: &&mut Question| q.answer.is_none() && now.at.saturating_sub(q.last.at) <= PATIENCE;
        if let Some(question) = open.filter(goes_on) {
            question.tries += 1;
            question.last = now;
            if question.packets.len() < PACKETS - 1 {
                question.packets.push(now.packet);
            }
            return;
        }
        if self.all.len() >= MOST {
            self.beyond += 1;
            return;
        }
        self.by_ends.insert((client, address), self.all.len() as u32);
        let packets = vec![now.packet];
        self.all.push(Question { protocol, client, address, tries: 1, first: now, last: now, answer: None, packets });
    }

    /// The host that has an address answers another one.
    pub(super) fn answers(&mut self, (address, client): (IpAddr, IpAddr), hardware: Option<[u8; 6]>, now: Moment) {
        let question = self.by_ends.get(&(client, address)).map(|index| &mut self.all[*index as usize]);
        if let Some(question) = question.filter(|q| q.answer.is_none()) {
            question.answer = Some((now, hardware));
            question.packets.push(now.packet);
        }
    }
}
