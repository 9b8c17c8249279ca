//! What the two programs of a connection do, as far as a network sees it: what each writes, after
//! what it has read, and how long it takes over it.

use clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::conversation::Way;

/// A write of so much does not wait for the network: the socket's buffer has room for it. Of a
/// larger one it is only known when it ended.
pub const BUFFERED: u64 = 128 * 1024;

/// A write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How many bytes of the peer, from the connection's beginning, are read first.
    pub after: u64,
    /// How long the program takes from then on, or from its last write where that was later: from
    /// the beginning of one of at most [`BUFFERED`] bytes, and else from its end.
    #[serde(rename = "think_ns")]
    pub think: Nanos,
    /// How many bytes it writes.
    pub bytes: u64,
}

/// What both programs do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The client's writes, in their order.
    pub client: Vec<Step>,
    /// The server's.
    pub server: Vec<Step>,
}

impl Script {
    /// The writes of a direction's sender.
    pub fn of(&self, way: Way) -> &[Step] {
        match way {
            Way::ToServer => &self.client,
            Way::ToClient => &self.server,
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, way: Way) -> &mut Vec<Step> {
        match way {
            Way::ToServer => &mut self.client,
            Way::ToClient => &mut self.server,
        }
    }

    /// What a direction carries in all.
    pub fn bytes(&self, way: Way) -> u64 {
        self.of(way).iter().fold(0, |sum, step| sum.saturating_add(step.bytes))
    }

    /// Whether it can be run to its end: nobody waits for bytes that the other writes only later.
    pub fn ends(&self) -> bool {
        let mut next = [0usize; 2];
        let mut written = [0u64; 2];
        loop {
            let mut moved = false;
            for way in Way::ALL {
                let peer = written[(!way) as usize];
                while let Some(step) = self.of(way).get(next[way as usize]).filter(|step| step.after <= peer) {
                    written[way as usize] = written[way as usize].saturating_add(step.bytes);
                    next[way as usize] += 1;
                    moved = true;
                }
            }
            if !moved {
                return Way::ALL.into_iter().all(|way| next[way as usize] == self.of(way).len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_ends_where_each_waits_for_what_the_other_can_write() {
        let step = |after, bytes| Step { after, think: Nanos::ZERO, bytes };
        let exchange = Script { client: vec![step(0, 10), step(5, 10)], server: vec![step(10, 5), step(20, 5)] };
        assert!(exchange.ends());
        assert_eq!((exchange.bytes(Way::ToServer), exchange.bytes(Way::ToClient)), (20, 10));
        let both_wait = Script { client: vec![step(5, 10)], server: vec![step(10, 5)] };
        assert!(!both_wait.ends());
        assert!(!Script { client: vec![step(1, 1)], server: vec![] }.ends());
    }
}
