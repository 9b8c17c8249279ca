//! DNS of a capture: each name that a host asked for, each server that it asked, what was found.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::conclusion::Conclusion;
use crate::kinds::kinds;
use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// A protocol of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// DNS (RFC 1035).
    #[default]
    Dns,
    /// Multicast DNS (RFC 6762).
    Mdns,
    /// LLMNR (RFC 4795).
    Llmnr,
}

words! {
    Protocol: Dns = "dns", Mdns = "mdns", Llmnr = "llmnr";
}

/// What became of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answered {
    /// With what was asked for.
    Found,
    /// The name has no record of this type.
    NoData,
    /// The name does not exist.
    NoSuchName,
    /// With an error, or with ICMP.
    Failed,
    /// Not answered.
    Unanswered,
    /// The capture does not show it.
    #[default]
    NotKnown,
}

words! {
    Answered: Found = "found", NoData = "no_data", NoSuchName = "no_such_name", Failed = "failed", Unanswered = "unanswered", NotKnown = "not_known";
}

impl Answered {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::NoData => "no such record",
            Self::NoSuchName => "no such name",
            Self::Failed => "failed",
            Self::Unanswered => "no answer",
            Self::NotKnown => "not known",
        }
    }
}

/// One host's search for one name and type, with all its tries. Moments are on the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its number, from 1 in the order of first questions.
    pub number: u64,
    /// Who asked.
    pub client: IpAddr,
    /// The name.
    pub name: String,
    /// The type of record.
    pub kind: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The first question.
    pub start_ns: Nanos,
    /// To the answer that the client could use, or the last one that it got.
    pub took_ns: Option<Nanos>,
    /// What became of it.
    pub answered: Answered,
    /// The response code.
    pub code: Option<String>,
    /// Who gave that answer.
    pub server: Option<IpAddr>,
    /// Questions sent.
    pub tries: u64,
    /// Which of them that answer came after.
    pub answered_try: Option<u64>,
    /// From the first question to that one.
    pub earlier_tries_ns: Nanos,
    /// From the first question to the last one.
    pub last_try_ns: Nanos,
    /// Who was asked, in that order.
    pub servers: String,
    /// An answer did not fit into a datagram.
    pub truncated: bool,
    /// That answer came over TCP.
    pub over_tcp: bool,
    /// Answers that came when the client no longer waited for them.
    pub too_late: u64,
    /// The addresses found.
    pub addresses: String,
    /// Its packets: each question, and its answer.
    pub packets: String,
    /// Why it is not known what became of it.
    pub withheld: Option<String>,
}

/// Names of one address that are kept.
const NAMES: usize = 16;

/// The names that were asked for, by the addresses that were found for each: the latest first, at
/// most 16.
pub fn names<'a, A: IntoIterator<Item = IpAddr>>(
    found: impl IntoIterator<Item = (&'a str, A)>,
) -> BTreeMap<IpAddr, Vec<String>> {
    let mut names: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for (name, addresses) in found {
        for address in addresses {
            let of = names.entry(address).or_default();
            if of.first().is_some_and(|latest| latest == name) {
                continue;
            }
            of.retain(|known| known != name);
            of.insert(0, name.to_owned());
            of.truncate(NAMES);
        }
    }
    names
}

impl Lookup {
    /// The name with the addresses that were found for it; none where others were asked for.
    pub fn found(&self) -> (&str, impl Iterator<Item = IpAddr> + '_) {
        let addresses = if matches!(self.kind.as_str(), "A" | "AAAA") { self.addresses.as_str() } else { "" };
        (&self.name, addresses.split(' ').filter_map(|address| address.parse().ok()))
    }

    /// What the client waited: to the answer or, where there is none, to the last question.
    pub fn waited(&self) -> Nanos {
        self.took_ns.unwrap_or(self.last_try_ns)
    }

    fn blank() -> Self {
        Self {
            number: 0,
            client: Ipv4Addr::UNSPECIFIED.into(),
            name: String::new(),
            kind: String::new(),
            protocol: Protocol::default(),
            start_ns: Nanos::ZERO,
            took_ns: None,
            answered: Answered::default(),
            code: None,
            server: None,
            tries: 0,
            answered_try: None,
            earlier_tries_ns: Nanos::ZERO,
            last_try_ns: Nanos::ZERO,
            servers: String::new(),
            truncated: false,
            over_tcp: false,
            too_late: 0,
            addresses: String::new(),
            packets: String::new(),
            withheld: None,
        }
    }
}

columns! {
    Lookup: "lookups", "lookup", blank = Self::blank();
    lookup = number, "its number, from 1 in the order of first questions";
    client = client, "IP address of who asked";
    name = name, "the name, in small letters";
    "type" = kind, "the type of record: A, AAAA, …";
    protocol = protocol, "the protocol";
    start_ns = start_ns, "the first question";
    took_ns = took_ns, null "there is no answer", "from there to the answer that the client could use, or the last one that it got";
    answered = answered, "what became of it";
    code = code, null "there is no answer", "the response code";
    server = server, null "there is no answer", "IP address of who gave that answer";
    tries = tries, "questions sent";
    answered_try = answered_try, null "there is no answer", "which of them that answer came after, from 1";
    earlier_tries_ns = earlier_tries_ns, "from the first question to that one";
    last_try_ns = last_try_ns, "from the first question to the last one";
    servers = servers, "who was asked, in that order, separated by blanks";
    truncated = truncated, "an answer did not fit into a datagram";
    over_tcp = over_tcp, "that answer came over TCP";
    too_late = too_late, "answers that came when the client no longer waited for them: it refused them with ICMP";
    addresses = addresses, "the addresses found, separated by blanks";
    packets = packets, "numbers of its packets, separated by blanks: each question, and its answer";
    withheld = withheld, null "it is known", "why it is not known what became of it";
}

/// A server of names, with what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address and port; the group's, for multicast.
    pub server: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// Questions to it.
    pub questions: u64,
    /// Those that it answered.
    pub answered: u64,
    /// Those that it did not answer.
    pub unanswered: u64,
    /// Those of which the capture does not show whether it did.
    pub not_known: u64,
    /// Answers with an error other than that the name does not exist.
    pub failed: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// Questions that were answered by ICMP: it cannot be reached, or nothing listens there.
    pub unreachable: u64,
    /// Its fastest answer.
    pub min_ns: Option<Nanos>,
    /// The median of its answers' times.
    pub median_ns: Option<Nanos>,
    /// Its slowest answer.
    pub max_ns: Option<Nanos>,
}

impl Server {
    /// One that was not asked yet.
    pub const fn new(server: SocketAddr, protocol: Protocol) -> Self {
        Self {
            server,
            protocol,
            questions: 0,
            answered: 0,
            unanswered: 0,
            not_known: 0,
            failed: 0,
            truncated: 0,
            unreachable: 0,
            min_ns: None,
            median_ns: None,
            max_ns: None,
        }
    }
}

columns! {
    Server: "name_servers", "name_server", blank = Self::new(NO_END, Protocol::Dns);
    address = |s| s.server.ip(), set |s, v| set_address(&mut s.server, v), "its IP address; the group's, for multicast";
    port = |s| s.server.port(), set |s, v| set_port(&mut s.server, v), "its port";
    protocol = protocol, "the protocol";
    questions = questions, "questions to it";
    answered = answered, "those that it answered";
    unanswered = unanswered, "those that it did not answer";
    not_known = not_known, "those of which the capture does not show whether it did";
    failed = failed, "answers with an error other than that the name does not exist";
    truncated = truncated, "answers that did not fit into a datagram";
    unreachable = unreachable, "questions that ICMP answered: it cannot be reached, or nothing listens there";
    min_ns = min_ns, null "it answered none", "its fastest answer: from question to answer, at the capture";
    median_ns = median_ns, null "it answered none", "the median of these times";
    max_ns = max_ns, null "it answered none", "its slowest answer";
}

kinds! {
    /// What kind of finding on DNS it is. Each has the file of its name in
    /// `diagnose/src/dns/findings/`.
    DnsFindingKind:
    Silent = "dns_silent", "a name server that does not answer",
        "a server answered none of its questions, and at least one of them was given up";
    Retries = "dns_retries", "DNS answered on a later try",
        "a server that answers others left a question without an answer, so that it was asked again";
    Unanswered = "dns_unanswered", "names that nobody resolved",
        "no try of a lookup was answered, by a server that answers others";
    Unreachable = "dns_unreachable", "a name server that cannot be reached",
        "ICMP came in answer to a question: nothing listens on the server's port, or it cannot be reached";
    Failed = "dns_failed", "a name server that refuses or fails",
        "answers with an error (SERVFAIL, REFUSED, …) other than that the name does not exist";
    Slow = "dns_slow", "slow answers of DNS",
        "the median of a server's answers is 100 ms or more, or 20 ms or more and four times that of another one; or a single answer took 500 ms and ten times its median";
    Truncated = "dns_truncated", "answers too large for UDP",
        "an answer was cut short for UDP, so that the question had to be asked over TCP, if the server could be reached so";
    Search = "dns_search", "a search through suffixes",
        "the same name was asked for with suffixes that do not exist, directly before it was found without them";
    LateAaaa = "dns_late_aaaa", "AAAA that waits",
        "A and AAAA of a name were asked for together, A was found, and AAAA was answered 100 ms or more later, with an error or not at all";
    TooLate = "dns_too_late", "answers to a closed socket",
        "ICMP port unreachable came back for an answer: the client had given up";
}

/// A conclusion on DNS.
pub type DnsFinding = Conclusion<DnsFindingKind>;

columns! {
    DnsFinding: "dns_findings", "dns_finding", blank = Self::new(DnsFindingKind::Silent);
    finding = kind, "its kind, which [analyze.md](analyze.md#dns) describes";
    lookup = shown_by, "the lookup that shows it most clearly";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "lookups concerned";
    cost_ns = cost_ns, "what the clients waited for it; what two lookups waited at the same time counts once";
    text = text, "what was found, for people";
    next_step = next, "what to do, for people";
    packets = packets, "numbers of the packets that show it, at most 24, separated by blanks";
}
