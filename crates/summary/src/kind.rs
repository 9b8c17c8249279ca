//! The kinds of record that have times. A send, a receive, a request, a packet and a datagram each
//! have legs that follow one another and add up to a total. Whatever shows times reads the legs
//! from here, so that all kinds are shown in the same way.

use record::{Component, Leg, LegName, LegPlace, PacketLeg, ReceiveLeg, TimedLeg};

/// The most legs that a kind of record has.
pub const LEGS: usize = 12;

/// A kind of record with times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimedKind {
    /// Sends of TCP.
    Sends,
    /// Frames that TCP received.
    Receives,
    /// Requests, seen from the end that asks.
    AtClient,
    /// Requests, seen from the end that answers.
    AtServer,
    /// Packets of TCP.
    Packets,
    /// Datagrams of UDP that were sent.
    DatagramsSent,
    /// Datagrams of UDP that were received.
    DatagramsReceived,
}

/// The legs of requests are their [`Component`]s, and the whole.
const AT_CLIENT: &[TimedLeg] = &[
    TimedLeg::adds(LegName::Connect, "setting up the connection that was made for the request"),
    TimedLeg::adds(LegName::Application, "this program, between its writes"),
    TimedLeg::adds(LegName::Tcp, "waiting for TCP to take or to send what this program writes"),
    TimedLeg::adds(LegName::Kernel, "this host's kernel, out and in"),
    TimedLeg::adds(LegName::Network, "wire both ways, and the peer's kernel unless that was traced"),
    TimedLeg::adds(LegName::PeerReceive, "the peer's kernel, until the request was readable")
        .within(Component::Network as usize),
    TimedLeg::adds(LegName::PeerApplication, "the peer's program"),
    TimedLeg::adds(LegName::PeerSend, "the peer's kernel, until the answer was with its driver")
        .within(Component::Network as usize),
    TimedLeg::adds(LegName::Transfer, "from the first byte of the answer to its last"),
    TimedLeg::adds(LegName::Wakeup, "from readable until this program had read")
        .within(Component::Application as usize),
    TimedLeg::adds(LegName::Upstream, "what this program asked others itself"),
    TimedLeg::total(LegName::Whole, "from the first write, or the SYN before it, to the last byte read"),
];

// The same places as at the client, since both are filled from the same components.
const AT_SERVER: &[TimedLeg] = &[
    TimedLeg::adds(LegName::Connect, "setting up the connection"),
    TimedLeg::adds(LegName::Application, "this program, from reading to its last write"),
    TimedLeg::adds(LegName::Tcp, "waiting for TCP to take or to send what this program writes"),
    TimedLeg::adds(LegName::Kernel, "this host's kernel, in and out"),
    TimedLeg::adds(LegName::Network, "wire, both ways"),
    TimedLeg::adds(LegName::PeerReceive, "the peer's kernel, on its way in"),
    TimedLeg::adds(LegName::PeerApplication, "the peer's program"),
    TimedLeg::adds(LegName::PeerSend, "the peer's kernel, on its way out"),
    TimedLeg::adds(LegName::Transfer, "from the first byte of the request to its last"),
    TimedLeg::adds(LegName::Wakeup, "from readable until this program had read")
        .within(Component::Application as usize),
    TimedLeg::adds(LegName::Upstream, "this program waiting for what it asked others")
        .within(Component::Application as usize),
    TimedLeg::total(LegName::Whole, "from the first byte's arrival until the answer was with the driver"),
];

const DATAGRAMS_SENT: &[TimedLeg] = &[
    TimedLeg::adds(LegName::Udp, "from the call to the packet scheduler"),
    TimedLeg::adds(LegName::Qdisc, "in the packet scheduler"),
    TimedLeg::total(LegName::Total, "from the first stage seen to the driver"),
];

const DATAGRAMS_RECEIVED: &[TimedLeg] = &[
    TimedLeg::adds(LegName::Softirq, "from the driver to the socket's queue"),
    TimedLeg::adds(LegName::Socket, "in that queue, until the program had read it"),
    TimedLeg::total(LegName::Total, "from the first stage seen to the read"),
];

impl TimedKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Sends,
        Self::Receives,
        Self::AtClient,
        Self::AtServer,
        Self::Packets,
        Self::DatagramsSent,
        Self::DatagramsReceived,
    ];

    /// Its legs, in the order in which they follow one another.
    pub const fn legs(self) -> &'static [TimedLeg] {
        match self {
            Self::Sends => Leg::TIMED,
            Self::Receives => ReceiveLeg::TIMED,
            Self::AtClient => AT_CLIENT,
            Self::AtServer => AT_SERVER,
            Self::Packets => PacketLeg::TIMED,
            Self::DatagramsSent => DATAGRAMS_SENT,
            Self::DatagramsReceived => DATAGRAMS_RECEIVED,
        }
    }

    /// Which of its legs is the total.
    pub fn total(self) -> usize {
        self.legs().iter().position(|leg| leg.place == LegPlace::Total).unwrap_or(0)
    }

    /// The legs that add up to the total, with their numbers.
    pub fn adding(self) -> impl Iterator<Item = (usize, &'static TimedLeg)> {
        self.legs().iter().enumerate().filter(|(_, leg)| leg.place == LegPlace::Adds)
    }

    /// Its key in JSON and in file names.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Receives => "receives",
            Self::AtClient => "requests-client",
            Self::AtServer => "requests-server",
            Self::Packets => "packets",
            Self::DatagramsSent => "datagrams-sent",
            Self::DatagramsReceived => "datagrams-received",
        }
    }

    /// One of it.
    pub const fn thing(self) -> &'static str {
        match self {
            Self::Sends => "send",
            Self::Receives => "receive",
            Self::AtClient | Self::AtServer => "request",
            Self::Packets => "packet",
            Self::DatagramsSent | Self::DatagramsReceived => "datagram",
        }
    }

    /// All of it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sends => "Sends",
            Self::Receives => "Receives",
            Self::AtClient => "Requests seen from the client",
            Self::AtServer => "Requests seen from the server",
            Self::Packets => "Packets",
            Self::DatagramsSent => "Datagrams sent",
            Self::DatagramsReceived => "Datagrams received",
        }
    }

    /// What is counted of each connection beside number and bytes, with the words of a table's
    /// head.
    pub const fn counted(self) -> &'static [&'static str] {
        match self {
            Self::Sends => &["retransmitted"],
            Self::Receives => &["out of order", "never read"],
            Self::AtClient | Self::AtServer => &["without components"],
            Self::Packets => &["retransmitted", "dropped"],
            Self::DatagramsSent | Self::DatagramsReceived => &["dropped"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_legs_that_add_up_one_total_and_distinct_names() {
        for kind in TimedKind::ALL {
            let legs = kind.legs();
            assert!(legs.len() <= LEGS && kind.adding().count() >= 2, "{kind:?}");
            assert_eq!(legs.iter().filter(|l| l.place == LegPlace::Total).count(), 1, "{kind:?}");
            let mut names: Vec<_> = legs.iter().map(|l| l.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), legs.len(), "{kind:?}");
        }
    }
}
