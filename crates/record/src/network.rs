//! What the network itself said in a capture: errors of ICMP, echoes, address resolution, packets
//! of which fragments never came, and what was found.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::conclusion::Conclusion;
use crate::kinds::kinds;
use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// What an error of ICMP or ICMPv6 says (RFC 792, 4443).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Says {
    /// A network, host, protocol or port cannot be reached, or may not.
    Unreachable,
    /// A packet is larger than the next link takes.
    TooBig,
    /// Its time to live ran out on the way.
    TimeExceeded,
    /// Not all fragments of it came.
    NotReassembled,
    /// Another router is closer.
    Redirect,
    /// Its header is wrong.
    Problem,
    /// Anything else.
    #[default]
    Other,
}

words! {
    Says: Unreachable = "unreachable", TooBig = "too_big", TimeExceeded = "time_exceeded", NotReassembled = "not_reassembled", Redirect = "redirect", Problem = "parameter_problem", Other = "other";
}

/// The protocol of a packet that an error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

words! {
    Transport: Tcp = "tcp", Udp = "udp";
}

impl Transport {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// Errors of one kind from one host, on the packets of one sender to one receiver. Moments are on
/// the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// Who sent it.
    pub source: IpAddr,
    /// What it says.
    pub says: Says,
    /// ICMP's type.
    pub kind: u64,
    /// ICMP's code.
    pub code: u64,
    /// Both in words.
    pub meaning: String,
    /// The protocol of the packets that it is about.
    pub transport: Option<Transport>,
    /// Who sent them.
    pub sender: SocketAddr,
    /// To whom.
    pub receiver: SocketAddr,
    /// The TCP connection that they are of.
    pub connection: Option<u64>,
    /// The conversation of UDP that they are of.
    pub conversation: Option<u64>,
    /// How often it came.
    pub count: u64,
    /// The first.
    pub start_ns: Nanos,
    /// From there to the last.
    pub duration_ns: Nanos,
    /// The next link's MTU, the smallest that was named.
    pub mtu: Option<u64>,
    /// Packets larger than that, which the sender sent later.
    pub larger: u64,
    /// Whether the sender sent none.
    pub obeyed: Option<bool>,
    /// The number of the first packet with it.
    pub first_packet: u64,
}

impl IcmpError {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            number: 0,
            source: Ipv4Addr::UNSPECIFIED.into(),
            says: Says::default(),
            kind: 0,
            code: 0,
            meaning: String::new(),
            transport: None,
            sender: NO_END,
            receiver: NO_END,
            connection: None,
            conversation: None,
            count: 0,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            mtu: None,
            larger: 0,
            obeyed: None,
            first_packet: 0,
        }
    }
}

columns! {
    IcmpError: "icmp_errors", "icmp_error", blank = Self::blank();
    error = number, "its number, from 1 in the order of first packets";
    source = source, "IP address of who sent it: a router, or the receiver's host";
    says = says, "what it says";
    "type" = kind, "ICMP's type";
    code = code, "ICMP's code";
    meaning = meaning, "type and code in words";
    protocol = transport, null "it quotes neither TCP nor UDP", "the protocol of the packets that it is about";
    sender_address = |e| e.sender.ip(), set |e, v| set_address(&mut e.sender, v), "IP address of who sent these";
    sender_port = |e| e.sender.port(), set |e, v| set_port(&mut e.sender, v), "their source port; 0 where none is quoted";
    receiver_address = |e| e.receiver.ip(), set |e, v| set_address(&mut e.receiver, v), "IP address of who they were for; unspecified where the error does not quote it";
    receiver_port = |e| e.receiver.port(), set |e, v| set_port(&mut e.receiver, v), "their destination port; 0 where none is quoted";
    connection = connection, null "they are of no connection of TCP in the capture", "the number of the TCP connection that they are of";
    conversation = conversation, null "they are of no conversation of UDP in the capture, or of DNS", "the number of the UDP conversation that they are of";
    count = count, "how often it came";
    start_ns = start_ns, "the first";
    duration_ns = duration_ns, "from there to the last";
    mtu_bytes = mtu, null "it names none", "the largest packet that the next link takes, with its IP header: the smallest that was named";
    larger = larger, "packets of this sender to this receiver, larger than that and no larger than the one that was refused, that passed the capture 200 ms or more after the first error";
    obeyed = obeyed, null "it names no MTU, or no packet shows it", "whether there was none of those, and at least one that fits";
    first_packet = first_packet, "the number of the first packet with it";
}

/// Echo requests of one host to another, with the same identifier. Moments are on the capture's
/// clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// Who asked.
    pub client: IpAddr,
    /// Who was asked.
    pub server: IpAddr,
    /// The identifier that all of them have.
    pub identifier: u64,
    /// Requests.
    pub sent: u64,
    /// Those with an answer.
    pub answered: u64,
    /// Those without, although the capture goes on.
    pub lost: u64,
    /// Those of which the capture does not show it.
    pub not_known: u64,
    /// Answers that came again.
    pub duplicated: u64,
    /// The first request.
    pub start_ns: Nanos,
    /// From there to the last packet.
    pub duration_ns: Nanos,
    /// The fastest answer.
    pub min_ns: Option<Nanos>,
    /// The median.
    pub median_ns: Option<Nanos>,
    /// The slowest.
    pub max_ns: Option<Nanos>,
    /// The number of the first packet of it.
    pub first_packet: u64,
    /// Why something of it is not known.
    pub withheld: Option<String>,
}

impl Echo {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        Self {
            number: 0,
            client: nobody,
            server: nobody,
            identifier: 0,
            sent: 0,
            answered: 0,
            lost: 0,
            not_known: 0,
            duplicated: 0,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            min_ns: None,
            median_ns: None,
            max_ns: None,
            first_packet: 0,
            withheld: None,
        }
    }
}

columns! {
    Echo: "echoes", "echo", blank = Self::blank();
    echo = number, "its number, from 1 in the order of first packets";
    client = client, "IP address of who asked";
    server = server, "IP address of who was asked";
    identifier = identifier, "the identifier that all these requests have: one run of `ping`";
    sent = sent, "requests";
    answered = answered, "those with an answer";
    lost = lost, "those without, although the capture goes on for 2 s or more";
    not_known = not_known, "those of which the capture does not show whether they have one";
    duplicated = duplicated, "answers that came again, or whose request is not in the capture";
    start_ns = start_ns, "the first packet";
    duration_ns = duration_ns, "from there to the last";
    min_ns = min_ns, null "there is no answer", "the fastest answer, at the capture";
    median_ns = median_ns, null "as `min_ns`", "the median";
    max_ns = max_ns, null "as `min_ns`", "the slowest";
    first_packet = first_packet, "the number of its first packet";
    withheld = withheld, null "everything is known", "why something of it is not known";
}

/// How an address is resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolving {
    /// ARP (RFC 826).
    #[default]
    Arp,
    /// Neighbour discovery (RFC 4861).
    Discovery,
}

words! {
    Resolving: Arp = "arp", Discovery = "neighbour_discovery";
}

impl Resolving {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Arp => "ARP",
            Self::Discovery => "neighbour discovery",
        }
    }
}

/// The question of one host who has an address on its link, with all its tries. Moments are on the
/// capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// By which protocol.
    pub protocol: Resolving,
    /// Who asked.
    pub client: IpAddr,
    /// The address that was asked for.
    pub address: IpAddr,
    /// Questions.
    pub tries: u64,
    /// Whether it was answered.
    pub answered: Option<bool>,
    /// The hardware address in the answer.
    pub hardware: Option<String>,
    /// The first question.
    pub start_ns: Nanos,
    /// From there to the last question.
    pub last_try_ns: Nanos,
    /// From there to the answer.
    pub took_ns: Option<Nanos>,
    /// The numbers of its packets.
    pub packets: String,
    /// Why it is not known whether it was answered.
    pub withheld: Option<String>,
}

impl Neighbour {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        Self {
            number: 0,
            protocol: Resolving::default(),
            client: nobody,
            address: nobody,
            tries: 0,
            answered: None,
            hardware: None,
            start_ns: Nanos::ZERO,
            last_try_ns: Nanos::ZERO,
            took_ns: None,
            packets: String::new(),
            withheld: None,
        }
    }
}

columns! {
    Neighbour: "neighbours", "neighbour", blank = Self::blank();
    neighbour = number, "its number, from 1 in the order of first questions";
    protocol = protocol, "the protocol of the question";
    client = client, "IP address of who asked";
    address = address, "the IP address that was asked for";
    tries = tries, "questions to all hosts of the link, at most 10 s apart";
    answered = answered, null "`withheld` says why", "whether an answer came";
    hardware = hardware, null "there is no answer, or it names none", "the hardware address in the answer";
    start_ns = start_ns, "the first question";
    last_try_ns = last_try_ns, "from there to the last question";
    took_ns = took_ns, null "there is no answer", "from the first question to the answer";
    packets = packets, "numbers of its packets, at most 8, separated by blanks";
    withheld = withheld, null "it is known", "why it is not known whether it was answered";
}

/// An IP packet of which not all fragments came. Moments are on the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Its number, from 1 in the order of first fragments.
    pub number: u64,
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// The IP protocol of what it carries.
    pub protocol: u64,
    /// IP's identification.
    pub identification: u64,
    /// The ports, where its first fragment is there.
    pub source_port: Option<u64>,
    /// See `source_port`.
    pub destination_port: Option<u64>,
    /// Fragments that came.
    pub fragments: u64,
    /// Bytes that came, without IP headers.
    pub bytes: u64,
    /// Bytes that are missing.
    pub missing: Option<u64>,
    /// The first fragment.
    pub start_ns: Nanos,
    /// The number of the first packet of it.
    pub first_packet: u64,
    /// The TCP connection that it is of.
    pub connection: Option<u64>,
    /// The conversation of UDP that it is of.
    pub conversation: Option<u64>,
}

impl Incomplete {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        Self {
            number: 0,
            source: nobody,
            destination: nobody,
            protocol: 0,
            identification: 0,
            source_port: None,
            destination_port: None,
            fragments: 0,
            bytes: 0,
            missing: None,
            start_ns: Nanos::ZERO,
            first_packet: 0,
            connection: None,
            conversation: None,
        }
    }
}

columns! {
    Incomplete: "incomplete_packets", "incomplete_packet", blank = Self::blank();
    packet = number, "its number, from 1 in the order of first fragments";
    source = source, "IP address of who sent it";
    destination = destination, "IP address of who it was for";
    protocol = protocol, "the number of the protocol over IP: 6 is TCP, 17 UDP";
    identification = identification, "IP's identification, which its fragments share";
    source_port = source_port, null "its first fragment did not come, or the protocol has no ports", "the port of its sender";
    destination_port = destination_port, null "as `source_port`", "the port of its receiver";
    fragments = fragments, "fragments that came";
    bytes = bytes, "their payload";
    missing_bytes = missing, null "its last fragment did not come", "bytes of payload that did not come";
    start_ns = start_ns, "the first fragment that came";
    first_packet = first_packet, "its number";
    connection = connection, null "it is of no connection of TCP in the capture, as far as is known", "the number of the TCP connection that it is of";
    conversation = conversation, null "it is of no conversation of UDP in the capture, as far as is known", "the number of the UDP conversation that it is of";
}

kinds! {
    /// What kind of finding on the network it is. Each has the file of its name in
    /// `diagnose/src/network/findings/`.
    NetworkFindingKind:
    Unreachable = "icmp_unreachable", "a destination that cannot be reached",
        "ICMP said of packets that a network, host or port cannot be reached, or may not; those of DNS and QUIC have findings of their own";
    TooBig = "icmp_too_big", "packets too large for the path",
        "a router said that packets are larger than its next link takes (fragmentation needed, packet too big)";
    TimeExceeded = "icmp_time_exceeded", "packets that ran in circles",
        "ICMP said three times or more of packets to one receiver that their time to live ran out, although they passed the capture with 30 hops or more to live";
    EchoLost = "echo_lost", "echo requests without an answer",
        "echo requests have no answer, although the capture goes on for 2 s or more and holds answers to the same host";
    NeighbourSilent = "neighbour_silent", "an address that nobody on the link has",
        "an address was asked for twice or more by ARP or neighbour discovery, and no answer came for 1 s or more after the last time, in a capture that holds other answers to this host, or where it had asked a third time";
    NeighbourLate = "neighbour_late", "an address that was resolved late",
        "the answer to ARP or neighbour discovery came 50 ms or more after the first question";
    Fragments = "fragments_missing", "packets of which fragments never came",
        "fragments of a packet came, and the others did not within 1 s";
}

/// A conclusion on the network.
pub type NetworkFinding = Conclusion<NetworkFindingKind>;

columns! {
    NetworkFinding: "network_findings", "network_finding", blank = Self::new(NetworkFindingKind::Unreachable);
    finding = kind, "its kind, which [analyze.md](analyze.md#the-network) describes";
    shown_by = shown_by, "the ICMP error, echo, neighbour or incomplete packet that shows it most clearly, by its number";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "errors, echoes, neighbours or packets concerned";
    cost_ns = cost_ns, "what was waited for it; what one host waited for at the same time counts once";
    text = text, "what was found, for people";
    next_step = next, "what to do, for people";
    packets = packets, "numbers of the packets that show it, at most 24, separated by blanks";
}
