//! UDP of a capture: each conversation, each numbered stream in it, and what was found.

use std::net::SocketAddr;

use crate::conclusion::Conclusion;
use crate::conversation::Way;
use crate::kinds::kinds;
use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// Who numbers the datagrams of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Numbering {
    /// RTP (RFC 3550).
    #[default]
    Rtp,
    /// `wirelapse udp`.
    Wirelapse,
    /// `wirelapse generate`.
    Generate,
    /// iperf3.
    Iperf3,
    /// irtt.
    Irtt,
}

words! {
    Numbering: Rtp = "rtp", Wirelapse = "wirelapse_udp", Generate = "wirelapse_generate", Iperf3 = "iperf3", Irtt = "irtt";
}

impl Numbering {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Rtp => "RTP",
            Self::Wirelapse => "wirelapse udp",
            Self::Generate => "wirelapse generate",
            Self::Iperf3 => "iperf3",
            Self::Irtt => "irtt",
        }
    }
}

/// How a protocol is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KnownBy {
    /// By what the payload says.
    Payload,
    /// By the port alone, which another protocol may use too.
    Port,
}

words! {
    KnownBy: Payload = "payload", Port = "port";
}

/// How the two sides of a conversation take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// One side alone sends.
    #[default]
    OneWay,
    /// The client sends and waits for the server's answer, by turns.
    RequestResponse,
    /// Both send, and neither waits for the other.
    BothWays,
}

words! {
    Shape: OneWay = "one_way", RequestResponse = "request_response", BothWays = "both_ways";
}

impl Shape {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OneWay => "one way",
            Self::RequestResponse => "request and response",
            Self::BothWays => "both ways",
        }
    }
}

/// What one side of a conversation sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// The smallest and the largest payload, in bytes.
    pub smallest: u64,
    /// See `smallest`.
    pub largest: u64,
    /// The median time from one to the next.
    pub gap_median_ns: Option<Nanos>,
    /// The longest.
    pub gap_max_ns: Option<Nanos>,
    /// The most datagrams in a row that came eight times closer to one another than on average.
    pub burst_datagrams: u64,
    /// Their rate, in bits of payload per second.
    pub burst_bits_per_second: Option<u64>,
}

/// A conversation of UDP. Moments are on the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpConversation {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// Who sent the first datagram, or the other one where only that is the port of a service.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// What it is of.
    pub protocol: Option<String>,
    /// How that is known.
    pub known_by: Option<KnownBy>,
    /// The QUIC connection that it is.
    pub quic: Option<u64>,
    /// How the sides take turns.
    pub shape: Shape,
    /// Its first datagram.
    pub start_ns: Nanos,
    /// From there to its last.
    pub duration_ns: Nanos,
    /// What the client sent.
    pub by_client: Sent,
    /// What the server sent.
    pub by_server: Sent,
    /// What the client sent before the server's next datagram, counted once.
    pub requests: u64,
    /// Those that the server answered.
    pub answered: u64,
    /// Datagrams that the client repeated, byte for byte as far as is seen.
    pub repeated: u64,
    /// The fastest answer, from the last datagram of the request.
    pub answer_min_ns: Option<Nanos>,
    /// The median.
    pub answer_median_ns: Option<Nanos>,
    /// The slowest.
    pub answer_max_ns: Option<Nanos>,
    /// Hops that its first datagram had to live at the capture.
    pub hops: u64,
    /// What is said of it in one line.
    pub verdict: String,
    /// Its first packet.
    pub first_packet: u64,
    /// Why something of it is not known.
    pub withheld: Option<String>,
}

impl UdpConversation {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            number: 0,
            client: NO_END,
            server: NO_END,
            protocol: None,
            known_by: None,
            quic: None,
            shape: Shape::default(),
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            by_client: Sent::default(),
            by_server: Sent::default(),
            requests: 0,
            answered: 0,
            repeated: 0,
            answer_min_ns: None,
            answer_median_ns: None,
            answer_max_ns: None,
            hops: 0,
            verdict: String::new(),
            first_packet: 0,
            withheld: None,
        }
    }

    /// Payload of both sides, in bytes.
    pub fn bytes(&self) -> u64 {
        self.by_client.bytes + self.by_server.bytes
    }
}

columns! {
    UdpConversation: "udp_conversations", "udp_conversation", blank = Self::blank();
    conversation = number, "its number, from 1 in the order of first packets";
    client_address = |c| c.client.ip(), set |c, v| set_address(&mut c.client, v), "IP address of who sent the first datagram, or of the other one where that alone has the port of a service (below 1024)";
    client_port = |c| c.client.port(), set |c, v| set_port(&mut c.client, v), "port of the client";
    server_address = |c| c.server.ip(), set |c, v| set_address(&mut c.server, v), "IP address of the other end, perhaps a group's";
    server_port = |c| c.server.port(), set |c, v| set_port(&mut c.server, v), "port of the server";
    protocol = protocol, null "it is not known", "what it is of: NTP, STUN, syslog, RTP, iperf3, …";
    known_by = known_by, null "as `protocol`", "what shows the protocol: the payload, or the port alone, which another protocol may use too";
    quic_connection = quic, null "it is none", "the number of the QUIC connection that it is";
    shape = shape, "how the sides take turns: one alone sends, the client waits for answers, or both send and neither waits";
    start_ns = start_ns, "its first datagram";
    duration_ns = duration_ns, "from there to its last";
    client_datagrams = by_client.datagrams, "datagrams of the client";
    client_bytes = by_client.bytes, "their payload";
    client_smallest_bytes = by_client.smallest, "their smallest payload";
    client_largest_bytes = by_client.largest, "their largest payload";
    client_gap_median_ns = by_client.gap_median_ns, null "there are not two", "the median time from one to the next";
    client_gap_max_ns = by_client.gap_max_ns, null "as `client_gap_median_ns`", "the longest";
    client_burst_datagrams = by_client.burst_datagrams, "the most in a row that came eight times closer to one another than on average";
    client_burst_bits_per_second = by_client.burst_bits_per_second, null "there is no such row", "the rate of their payload";
    server_datagrams = by_server.datagrams, "datagrams of the server";
    server_bytes = by_server.bytes, "their payload";
    server_smallest_bytes = by_server.smallest, "their smallest payload";
    server_largest_bytes = by_server.largest, "their largest payload";
    server_gap_median_ns = by_server.gap_median_ns, null "there are not two", "the median time from one to the next";
    server_gap_max_ns = by_server.gap_max_ns, null "as `server_gap_median_ns`", "the longest";
    server_burst_datagrams = by_server.burst_datagrams, "the most in a row that came eight times closer to one another than on average";
    server_burst_bits_per_second = by_server.burst_bits_per_second, null "there is no such row", "the rate of their payload";
    requests = requests, "what the client sent before the server's next datagram, each time counted once";
    answered = answered, "those that the server answered";
    repeated = repeated, "datagrams that the client repeated 100 ms or more later, without an answer in between, the same in length and in their first 40 bytes";
    answer_min_ns = answer_min_ns, null "there is no answer, or it is not known to which of several tries", "the fastest answer, from the request's last datagram, at the capture";
    answer_median_ns = answer_median_ns, null "as `answer_min_ns`", "the median of these times";
    answer_max_ns = answer_max_ns, null "as `answer_min_ns`", "the slowest answer";
    hops = hops, "hops that its first datagram had to live at the capture (IPv4's time to live, IPv6's hop limit)";
    verdict = verdict, "what is said of it, in one line";
    first_packet = first_packet, "the number of its first packet";
    withheld = withheld, null "everything is known", "why something of it is not known";
}

/// The numbered datagrams of one direction of a conversation. Moments are on the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpStream {
    /// The number of its conversation.
    pub conversation: u64,
    /// Its direction.
    pub way: Way,
    /// Who numbers it.
    pub numbering: Numbering,
    /// Which stream of its sender: RTP's SSRC, irtt's token.
    pub stream: String,
    /// RTP's payload type, the last one.
    pub payload_type: Option<u64>,
    /// Ticks per second of the sender's stamps.
    pub clock_hz: Option<u64>,
    /// Its first datagram.
    pub start_ns: Nanos,
    /// From there to its last.
    pub duration_ns: Nanos,
    /// Datagrams, copies among them.
    pub datagrams: u64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Datagrams between the first number and the highest.
    pub expected: u64,
    /// Different ones that are in the capture.
    pub received: u64,
    /// Those that are not.
    pub lost: u64,
    /// How often something was missing, of whatever length.
    pub gaps: u64,
    /// The most that were missing in a row.
    pub longest_loss: u64,
    /// Those lost within, or at the end of, eight or more that left close together.
    pub lost_in_bursts: u64,
    /// Came after a higher number.
    pub reordered: u64,
    /// Came again.
    pub duplicated: u64,
    /// Came so late that they may be copies.
    pub too_late: u64,
    /// Times that the numbers began anew.
    pub restarts: u64,
    /// Interarrival jitter at the end.
    pub jitter_ns: Option<Nanos>,
    /// The highest that it was.
    pub jitter_max_ns: Option<Nanos>,
    /// The median time from one to the next.
    pub gap_median_ns: Option<Nanos>,
    /// The longest.
    pub gap_max_ns: Option<Nanos>,
}

impl UdpStream {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            conversation: 0,
            way: Way::ToServer,
            numbering: Numbering::default(),
            stream: String::new(),
            payload_type: None,
            clock_hz: None,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            datagrams: 0,
            bytes: 0,
            expected: 0,
            received: 0,
            lost: 0,
            gaps: 0,
            longest_loss: 0,
            lost_in_bursts: 0,
            reordered: 0,
            duplicated: 0,
            too_late: 0,
            restarts: 0,
            jitter_ns: None,
            jitter_max_ns: None,
            gap_median_ns: None,
            gap_max_ns: None,
        }
    }
}

columns! {
    UdpStream: "udp_streams", "udp_stream", blank = Self::blank();
    conversation = conversation, "the number of its conversation";
    way = way, "its direction";
    numbering = numbering, "who numbers its datagrams";
    stream = stream, "which stream of its sender, where there are several: RTP's SSRC, irtt's token, in hexadecimal digits";
    payload_type = payload_type, null "it is not RTP", "RTP's payload type, the last one";
    clock_hz = clock_hz, null "the sender's stamps do not show it, or there are none", "ticks per second of the sender's stamps: for RTP, of the clocks in use (RFC 3551) the one that its stamps agree with";
    start_ns = start_ns, "its first datagram";
    duration_ns = duration_ns, "from there to its last";
    datagrams = datagrams, "datagrams, copies among them";
    bytes = bytes, "their payload";
    expected = expected, "datagrams from the first number to the highest: those that are in the capture, and those that are not";
    received = received, "different ones that are in the capture";
    lost = lost, "those that are not: lost before they came to the capture, or left out by it";
    gaps = gaps, "how often some were missing, whatever their number";
    longest_loss = longest_loss, "the most that were missing in a row";
    lost_in_bursts = lost_in_bursts, "those of them lost within, or directly after, eight or more datagrams that came close together";
    reordered = reordered, "came after a higher number (RFC 4737)";
    duplicated = duplicated, "came again";
    too_late = too_late, "came so late that they may have come before; they are in `lost`";
    restarts = restarts, "times that the numbers began anew; what is counted before and after is added";
    jitter_ns = jitter_ns, null "`clock_hz` is", "interarrival jitter (RFC 3550, section 6.4.1), as it was at the end";
    jitter_max_ns = jitter_max_ns, null "`clock_hz` is", "the highest that it was";
    gap_median_ns = gap_median_ns, null "there are not two", "the median time from one to the next";
    gap_max_ns = gap_max_ns, null "as `gap_median_ns`", "the longest";
}

kinds! {
    /// What kind of finding on UDP it is. Each has the file of its name in
    /// `diagnose/src/udp/findings/`.
    UdpFindingKind:
    Unanswered = "udp_unanswered", "requests by UDP that nobody answers",
        "the client sent the same datagram again and nothing came back for 5 s or more after the last time, in a capture that holds packets to this client; or, among answered ones, a request was followed by another after at least twice the longest time that an answer took";
    Retries = "udp_retries", "requests by UDP that are answered on a later try",
        "the client sent the same datagram again 100 ms or more later, and the answer came after that";
    Slow = "udp_slow", "a server that is slow to answer by UDP",
        "the median of a server's answers is 100 ms or more; or a single answer took 500 ms and ten times its median";
    Loss = "udp_loss", "datagrams lost before the capture",
        "numbers are missing in a stream: one in 1,000 or more, and not more of them in bursts than of its datagrams";
    Bursts = "udp_bursts", "datagrams lost in bursts",
        "numbers are missing in a stream, one in 1,000 or more, and four of five of them within or directly after eight or more datagrams that came close together";
    Reordered = "udp_reordered", "datagrams out of order",
        "one in 100 datagrams of a stream, and three or more, came after a later one";
    Jitter = "udp_jitter", "jitter beyond what players buffer",
        "the interarrival jitter of a stream reached 20 ms or more, while less than one in 1,000 of its datagrams was lost";
    Pause = "udp_pause", "a stream that paused",
        "the time between two datagrams of a numbered stream, none of which was lost between them, was 100 ms or more and ten times its median, and the sender's stamps, where there are some, show that it did not pause";
}

/// A conclusion on UDP.
pub type UdpFinding = Conclusion<UdpFindingKind>;

columns! {
    UdpFinding: "udp_findings", "udp_finding", blank = Self::new(UdpFindingKind::Unanswered);
    finding = kind, "its kind, which [analyze.md](analyze.md#udp) describes";
    conversation = shown_by, "the conversation that shows it most clearly, by its number";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "conversations concerned";
    cost_ns = cost_ns, "what the clients waited for it, or how long a stream stood still; what was waited at the same time counts once";
    text = text, "what was found, for people";
    next_step = next, "what to do, for people";
    packets = packets, "numbers of the packets that show it, at most 24, separated by blanks";
}
