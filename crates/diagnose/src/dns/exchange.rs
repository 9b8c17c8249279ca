//! One question with its answer: a try.

use std::net::{IpAddr, SocketAddr};

use record::dns::Protocol;
use wire::packet::dns::code;

/// A question that was sent, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) client: SocketAddr,
    /// The group's address, for multicast.
    pub(super) server: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) tcp: bool,
    pub(super) id: u16,
    pub(super) name: Box<str>,
    pub(super) kind: u16,
    /// The size of datagrams that the client said it takes, by EDNS.
    pub(super) udp_size: Option<u16>,
    /// On the capture's clock.
    pub(super) asked: u64,
    pub(super) packet: u64,
    /// It has the number and the endpoints of an earlier one without an answer: the answer may be
    /// to either.
    pub(super) repeats: bool,
    pub(super) answer: Option<Box<Answer>>,
    /// ICMP came for the question: when, and the packet.
    pub(super) unreachable: Option<(u64, u64)>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) at: u64,
    pub(super) packet: u64,
    pub(super) from: IpAddr,
    pub(super) code: u16,
    pub(super) truncated: bool,
    pub(super) records: u16,
    pub(super) addresses: Box<[IpAddr]>,
    /// The packet by which the client's host said that nobody waited for it any more.
    pub(super) refused_by: Option<u64>,
    /// It waited for none on this socket, since an answer that was cut short had come there: it
    /// asks for both over TCP.
    pub(super) left_for_tcp: bool,
}

impl Answer {
    /// Whether it says something of the name, rather than of the server.
    pub(super) fn is_of_name(&self) -> bool {
        matches!(self.code, code::NO_ERROR | code::NO_SUCH_NAME)
    }

    /// Whether a client has what it asked for and asks nobody else.
    pub(super) fn is_final(&self) -> bool {
        self.is_of_name() && !self.truncated && self.refused_by.is_none()
    }
}

impl Exchange {
    /// From the question to its answer.
    pub(super) fn took(&self) -> Option<u64> {
        self.answer.as_ref().map(|answer| answer.at.saturating_sub(self.asked))
    }

    /// When the client had an answer of any kind that it took.
    pub(super) fn answered_at(&self) -> Option<u64> {
        let answer = self.answer.as_ref().filter(|answer| answer.refused_by.is_none());
        answer.map(|answer| answer.at).or(self.unreachable.map(|(at, _)| at))
    }

    /// What came back for the question, taken or not: when, and its packet.
    pub(super) fn came(&self) -> Option<(u64, u64)> {
        self.answer.as_ref().map(|answer| (answer.at, answer.packet)).or(self.unreachable)
    }

    /// The answer, where it was cut short.
    pub(super) fn cut(&self) -> Option<&Answer> {
        self.answer.as_deref().filter(|answer| answer.truncated)
    }

    /// The answer, where it came too late for the client.
    pub(super) fn refused(&self) -> Option<&Answer> {
        self.answer.as_deref().filter(|answer| answer.refused_by.is_some() && !answer.left_for_tcp)
    }

    /// Whether the client left the answer, and asked over TCP.
    pub(super) fn is_left_for_tcp(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.left_for_tcp)
    }
}
