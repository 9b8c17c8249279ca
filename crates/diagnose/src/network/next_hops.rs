//! Which packet waited until its sender knew a hardware address: that of its receiver, or of a
//! router to it.
//!
//! Nothing in a packet says that it waited. A host sends what waits for an answer of ARP or
//! neighbour discovery as soon as that comes, so that they are joined by the host and time; where
//! the address is not the receiver's, only if nothing else of the capture goes there.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// What waits for a hardware address leaves within this after the answer, ns.
const LEAVES: u64 = 1_000_000;

/// A question who has an address, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// The number of its row.
    pub(crate) number: u64,
    /// Who asked.
    pub(crate) client: IpAddr,
    /// The address that was asked for.
    pub(crate) address: IpAddr,
    /// When it was first asked for, and answered.
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// All of a capture that were answered.
#[derive(Debug, Default)]
pub(crate) struct NextHops {
    /// Of each host, in the order of their answers.
    by_client: HashMap<IpAddr, Vec<NextHop>>,
    /// Those of the addresses that hosts of the capture exchange packets with.
    spoken_to: HashSet<IpAddr>,
}

impl NextHops {
    /// `hosts` are all that exchange packets in the capture; they are asked for where there is a
    /// question.
    pub(crate) fn new(all: impl Iterator<Item = NextHop>, hosts: impl Iterator<Item = IpAddr>) -> Self {
        let mut by_client: HashMap<IpAddr, Vec<NextHop>> = HashMap::new();
        let mut asked_for = HashSet::new();
        for hop in all {
            by_client.entry(hop.client).or_default().push(hop);
            asked_for.insert(hop.address);
        }
        if by_client.is_empty() {
            return Self::default();
        }
        by_client.values_mut().for_each(|of| of.sort_by_key(|hop| hop.answered));
        Self { by_client, spoken_to: hosts.filter(|host| asked_for.contains(host)).collect() }
    }

    /// What a packet of `client` to `receiver` waited for that left at a time.
    pub(crate) fn before(&self, (client, receiver): (IpAddr, IpAddr), left: u64) -> Option<NextHop> {
        let of = self.by_client.get(&client)?;
        let until = of.partition_point(|hop| hop.answered <= left);
        let mut near = of[..until].iter().rev().take_while(|hop| left - hop.answered <= LEAVES);
        near.find(|hop| hop.address == receiver || !self.spoken_to.contains(&hop.address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn a_packet_waited_for_the_answer_that_it_follows_at_once() {
        let hop = |number, last, asked, answered| NextHop {
            number,
            client: host(1),
            address: host(last),
            asked: asked * LEAVES,
            answered: answered * LEAVES,
        };
        // 53 is a host that others speak to, and 254 is not.
        let hops = NextHops::new([hop(1, 53, 0, 10), hop(2, 254, 20, 50)].into_iter(), [host(1), host(53)].into_iter());
        let before = |client, receiver, left: u64| hops.before((host(client), receiver), left).map(|hop| hop.number);
        assert_eq!(before(1, host(53), 11 * LEAVES), Some(1));
        assert_eq!(before(1, host(53), 11 * LEAVES + 1), None, "it left later");
        assert_eq!(before(1, host(53), 10 * LEAVES - 1), None, "it left before the answer");
        assert_eq!(before(2, host(53), 11 * LEAVES), None, "another host asked");
        let far: IpAddr = [198, 51, 100, 7].into();
        assert_eq!(before(1, far, 50 * LEAVES), Some(2), "through a router");
        assert_eq!(before(1, far, 10 * LEAVES), None, "what is asked for is the end of other packets");
        assert!(NextHops::new(std::iter::empty(), std::iter::once(far)).before((host(1), far), 0).is_none());
    }
}
