//! What is timed, of every kind, in one form. A send, a receive, a request, a packet and a datagram each have legs that follow one
//! another and add up to a total; whatever shows times shows them from here, so that all kinds are shown alike.

mod timed;

use crate::canvas::Ink;
use crate::plot::Hue;

pub use timed::Timed;

/// What a leg is to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One of those that add up to it.
    Part,
    /// The total itself.
    Total,
    /// A time of its own.
    Beside,
}

/// A leg of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegOf {
    /// The word used in output.
    pub name: &'static str,
    /// What it is, for legends.
    pub meaning: &'static str,
    /// Its colour, the same wherever it is shown.
    pub hue: Hue,
    /// What it is to the total.
    pub place: Place,
    /// The leg that has its time where a machine or a run gives no stamp for it, by number.
    pub within: Option<usize>,
}

impl LegOf {
    const fn part(name: &'static str, meaning: &'static str, hue: u8) -> Self {
        Self { name, meaning, hue: Hue(hue), place: Place::Part, within: None }
    }

    const fn total(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, hue: Hue::NEUTRAL, place: Place::Total, within: None }
    }

    const fn within(self, leg: usize) -> Self {
        Self { within: Some(leg), ..self }
    }

    /// Its colour on a terminal.
    pub(crate) const fn ink(&self) -> Ink {
        match self.place {
            Place::Total => Ink::Strong,
            _ => Ink::Hue(self.hue.0),
        }
    }
}

/// Legs that a family has, at most.
pub const LEGS: usize = 8;

/// A kind of thing with times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
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

const SENDS: &[LegOf] = &[
    LegOf::part("tcp", "waiting in TCP", 0),
    LegOf::part("qdisc", "waiting in the packet scheduler", 3),
    LegOf::part("nic", "waiting in driver and NIC", 2).within(3),
    LegOf::part("network", "wire, peer, and the ACK's way back", 1),
    LegOf::total("total", "from send to ACK"),
];

const RECEIVES: &[LegOf] = &[
    LegOf::part("softirq", "from the stack to TCP", 0),
    LegOf::part("socket", "in TCP, until readable", 3).within(2),
    LegOf::part("wakeup", "until the program had read it", 1),
    LegOf::total("total", "from arrival to read"),
];

const AT_CLIENT: &[LegOf] = &[
    LegOf::part("application", "this program, between its writes and from readable to read", 0),
    LegOf::part("kernel", "this host's kernel, out and in", 3),
    LegOf::part("network", "wire both ways, and the peer's kernel unless that was traced", 1),
    LegOf::part("peer_receive", "the peer's kernel, until the request was readable", 2).within(2),
    LegOf::part("peer_application", "the peer's program", 5),
    LegOf::part("peer_send", "the peer's kernel, until the answer was with its driver", 4).within(2),
    LegOf::part("transfer", "from the first byte of the answer to its last", 7),
    LegOf::total("whole", "from the first write to the last byte read"),
];

// The same places as at the client, since both are filled from the same parts.
const AT_SERVER: &[LegOf] = &[
    LegOf::part("application", "this program, from readable to its last write", 0),
    LegOf::part("kernel", "this host's kernel, in and out", 3),
    LegOf::part("network", "wire, both ways", 1),
    LegOf::part("peer_receive", "the peer's kernel, on its way in", 2),
    LegOf::part("peer_application", "the peer's program", 5),
    LegOf::part("peer_send", "the peer's kernel, on its way out", 4),
    LegOf::part("transfer", "from the first byte of the request to its last", 7),
    LegOf::total("whole", "from the first byte's arrival until the answer was with the driver"),
];

const PACKETS: &[LegOf] = &[
    LegOf::part("qdisc", "in the packet scheduler", 3),
    LegOf::part("network", "from the driver to the ACK of the last byte", 1),
    LegOf::total("total", "from the packet scheduler to the ACK"),
    LegOf {
        name: "gap",
        meaning: "between neighbours of a connection at the driver",
        hue: Hue(5),
        place: Place::Beside,
        within: None,
    },
];

const DATAGRAMS_SENT: &[LegOf] = &[
    LegOf::part("udp", "from the call to the packet scheduler", 0),
    LegOf::part("qdisc", "in the packet scheduler", 3),
    LegOf::total("total", "from the first stage seen to the driver"),
];

const DATAGRAMS_RECEIVED: &[LegOf] = &[
    LegOf::part("softirq", "from the driver to the socket's queue", 0),
    LegOf::part("socket", "in that queue, until the program had read it", 1),
    LegOf::total("total", "from the first stage seen to the read"),
];

impl Family {
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
    pub const fn legs(self) -> &'static [LegOf] {
        match self {
            Self::Sends => SENDS,
            Self::Receives => RECEIVES,
            Self::AtClient => AT_CLIENT,
            Self::AtServer => AT_SERVER,
            Self::Packets => PACKETS,
            Self::DatagramsSent => DATAGRAMS_SENT,
            Self::DatagramsReceived => DATAGRAMS_RECEIVED,
        }
    }

    /// Which of its legs is the total.
    pub fn total(self) -> usize {
        self.legs().iter().position(|leg| leg.place == Place::Total).unwrap_or(0)
    }

    /// The legs that add up to the total, with their numbers.
    pub fn parts(self) -> impl Iterator<Item = (usize, &'static LegOf)> {
        self.legs().iter().enumerate().filter(|(_, leg)| leg.place == Place::Part)
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

    /// What is counted of each connection beside number and bytes, with the words of a table's head.
    pub const fn counted(self) -> &'static [&'static str] {
        match self {
            Self::Sends => &["sent again"],
            Self::Receives => &["out of order", "never read"],
            Self::AtClient | Self::AtServer => &["without parts"],
            Self::Packets => &["sent again", "dropped"],
            Self::DatagramsSent | Self::DatagramsReceived => &["dropped"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_parts_one_total_and_names_of_its_own() {
        for family in Family::ALL {
            let legs = family.legs();
            assert!(legs.len() <= LEGS && family.parts().count() >= 2, "{family:?}");
            assert_eq!(legs.iter().filter(|l| l.place == Place::Total).count(), 1, "{family:?}");
            let mut names: Vec<_> = legs.iter().map(|l| l.name).collect();
            let mut hues: Vec<_> = legs.iter().map(|l| l.hue).collect();
            names.sort_unstable();
            names.dedup();
            hues.sort_unstable();
            hues.dedup();
            assert_eq!((names.len(), hues.len()), (legs.len(), legs.len()), "{family:?}");
        }
    }
}
