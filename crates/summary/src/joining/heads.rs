//! What was read of the beginnings of a connection's packets, until the exchange that they are of
//! has ended.

use std::collections::VecDeque;

use record::{Direction, Head, Http, Label, Message, Protocol, Role, Says};

/// So many beginnings wait at the most: an exchange has one in each direction, and a trace, but for
/// what is pipelined or was not joined.
const WAITING: usize = 64;

/// The beginnings that wait, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    waiting: VecDeque<Head>,
    /// What its connection was seen to be, up to the exchange that ended last.
    protocol: Option<Protocol>,
}

impl Heads {
    pub fn add(&mut self, head: &Head) {
        // A packet that was retransmitted says the same once more.
        if self.waiting.contains(head) {
            return;
        }
        if self.waiting.len() >= WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.protocol = of_connection(&oldest.says).or(self.protocol);
        }
        self.waiting.push_back(head.clone());
    }

    /// Takes out what was read of an exchange that ends, and of what was before it.
    pub fn take(&mut self, role: Role, request: &Message, answer: &Message) -> Http {
        let (asked, answered) = match role {
            Role::Client => (Direction::Sent, Direction::Received),
            Role::Server => (Direction::Received, Direction::Sent),
        };
        let (mut label, mut cut, mut trace, mut status, mut statements, mut upgrades) =
            (None, false, None, None, 0_u32, false);
        let mut kept = VecDeque::with_capacity(self.waiting.len());
        for head in self.waiting.drain(..) {
            let of = if head.direction == asked { request } else { answer };
            if of.bytes == 0 || !head.first_seq.is_before(of.end_seq()) {
                kept.push_back(head);
                continue;
            }
            self.protocol = of_connection(&head.says).or(self.protocol);
            let (first, within) = (head.first_seq == of.first_seq, !head.first_seq.is_before(of.first_seq));
            match head.says {
                Says::Request(found) if first && head.direction == asked => label = Some(found),
                Says::Cut if first && head.direction == asked => cut = true,
                Says::Trace(found) if first && head.direction == asked => trace = Some(found),
                Says::Answer(found) if first && head.direction == answered => {
                    status = Some(found);
                    upgrades = found == 101;
                }
                Says::Statements(n) if within && head.direction == asked => statements = statements.saturating_add(n),
                _ => {}
            }
        }
        self.waiting = kept;
        let seen = match (&label, cut, statements) {
            (Some(_), ..) => Some(Protocol::Http1),
            (None, true, _) => Some(Protocol::Http1Cut),
            (None, false, 1) => Some(Protocol::Postgresql),
            (None, false, 2..) => Some(Protocol::PostgresqlPipeline),
            (None, false, 0) => None,
        };
        let http = Http {
            protocol: if label.is_some() { seen } else { self.protocol.or(seen) },
            method: label.as_ref().map(|label| label.method),
            path: label.map(|Label { path, .. }| path),
            status,
            // Beside another first line it is no header of HTTP/1.
            trace: trace.filter(|_| matches!(seen, Some(Protocol::Http1 | Protocol::Http1Cut))),
        };
        if upgrades {
            // The preface comes after it, where it was to HTTP/2.
            self.protocol = self.protocol.or(Some(Protocol::Upgraded));
        }
        http
    }
}

/// What a connection is, by the beginning of one of its packets.
fn of_connection(says: &Says) -> Option<Protocol> {
    match says {
        Says::Http2 => Some(Protocol::Http2),
        Says::Tls { h2: Some(true), .. } => Some(Protocol::TlsH2Offered),
        Says::Tls { .. } => Some(Protocol::Tls),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
