//! DNS of a capture: which names were asked for, by whom, what became of it, and what it cost.
//!
//! Messages come one by one ([`Dns::take`]) and become exchanges: a question with its answer. At
//! the end, the exchanges of one client for one name become a lookup, with its tries; the servers
//! are compared, and findings are drawn.

mod analysis;
mod attempts;
mod exchange;
mod findings;
mod live;
mod lookup;
mod servers;
mod stream;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hashbrown::HashTable;
use record::dns::Protocol;
use record::{columns, inside};
use wire::packet::dns::{LLMNR_PORT, MULTICAST_PORT, Message, Question};
use wire::packet::{Icmp, Span};
use wire::{Carrier, Payload};

use crate::key::Key;
use crate::unread;
pub use analysis::Analysis;
pub(crate) use analysis::Resolved;
use attempts::Attempts;
use exchange::{Answer, Exchange};
pub use live::Live;
pub(crate) use lookup::joined;
use stream::Streams;

/// Questions kept at most: 400 MB with what is made of them at the end. Those of further ones are
/// counted.
const MOST: usize = 500_000;
/// The same question from the same port so soon after the first is a copy: of the capture, or of a
/// client that sends twice. A try that follows one that was waited for comes later.
const COPY: u64 = 100_000_000;
/// Exchanges among which the one is looked for that an ICMP error belongs to: the latest ones.
const RECENT: usize = 256;

/// Counts over all of DNS in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages read.
    pub messages: u64,
    /// Questions.
    pub questions: u64,
    /// Answers to them.
    pub answers: u64,
    /// Questions that came twice within 100 ms.
    pub copies: u64,
    /// Answers that came again.
    pub answered_again: u64,
    /// Answers whose question is not in the capture.
    pub without_question: u64,
    /// Messages that are no queries: updates, notifications, ….
    pub other: u64,
    /// Messages that contradict themselves.
    pub malformed: u64,
    /// Messages of which the capture kept too little.
    pub truncated: u64,
    /// Questions beyond those that are kept, and their answers.
    pub beyond_limit: u64,
    /// Times that bytes of DNS over TCP were missing.
    pub gaps: u64,
}

columns! {
    Totals: "dns totals", "", blank = Self::default();
    messages = messages, "messages read";
    questions = questions, "questions";
    answers = answers, "answers to them";
    copies = copies, "questions that came twice within 100 ms, counted once";
    answered_again = answered_again, "answers that came again";
    without_question = without_question, "answers whose question is not in the capture: they are not timed";
    other = other, "messages that are no queries: updates, notifications, …";
    malformed = malformed, "messages that contradict themselves";
    truncated = truncated, "messages of which the capture kept too little to know what is asked";
    beyond_limit = beyond_limit, "messages beyond 500,000 questions, or beyond the connections that are followed if those are fewer";
    gaps = gaps, "times that bytes of DNS over TCP were missing";
}
inside!(Totals);

impl Totals {
    /// What could not be read or timed, in words.
    pub fn not_read(&self) -> Vec<String> {
        unread::in_words(&[
            (self.without_question, "DNS answers whose question is not in the capture, not timed"),
            (self.malformed, "malformed DNS messages"),
            (self.truncated, "DNS messages cut short by the capture before the end of the question"),
            (self.beyond_limit, "DNS messages beyond the limit of questions"),
            (self.gaps, "gaps in DNS over TCP"),
        ])
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        let Self {
            messages,
            questions,
            answers,
            copies,
            answered_again,
            without_question,
            other,
            malformed,
            truncated,
            beyond_limit,
            gaps,
        } = other;
        self.messages += messages;
        self.questions += questions;
        self.answers += answers;
        self.copies += copies;
        self.answered_again += answered_again;
        self.without_question += without_question;
        self.other += other;
        self.malformed += malformed;
        self.truncated += truncated;
        self.beyond_limit += beyond_limit;
        self.gaps += gaps;
    }
}

/// What a question and its answer have in common.
#[derive(Clone, Copy, Debug)]
struct Ends {
    client: SocketAddr,
    /// Unspecified for LLMNR, where others answer than were asked.
    server: SocketAddr,
    id: u16,
    tcp: bool,
}

impl Ends {
    fn new(client: SocketAddr, server: SocketAddr, protocol: Protocol, id: u16, tcp: bool) -> Self {
        let anyone = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), LLMNR_PORT);
        Self { client, server: if protocol == Protocol::Llmnr { anyone } else { server }, id, tcp }
    }

    fn of(e: &Exchange) -> Self {
        Self::new(e.client, e.server, e.protocol, e.id, e.tcp)
    }

    fn hash(&self, [a, b]: [u64; 2]) -> u64 {
        // Client and server may change places in the key: of two with one hash, `is_of` decides.
        Key::new(&self.client, &self.server).0.hash([a ^ u64::from(self.id) << 1 ^ u64::from(self.tcp), b])
    }

    fn is_of(&self, e: &Exchange) -> bool {
        let Self { client, server, id, tcp } = Self::of(e);
        (self.client, self.server, self.id, self.tcp) == (client, server, id, tcp) && e.protocol != Protocol::Mdns
    }
}

/// Where a message was met.
#[derive(Clone, Copy, Debug)]
struct Met {
    source: SocketAddr,
    destination: SocketAddr,
    tcp: bool,
    at: u64,
    packet: u64,
}

/// Follows DNS in a capture.
#[derive(Debug)]
pub struct Dns {
    most: usize,
    /// The same question from the same port so soon after the first is a copy.
    copy: u64,
    /// In the order in which they were asked.
    exchanges: Vec<Exchange>,
    seed: [u64; 2],
    /// The latest exchange between these ends, beside the hash of them: to look for that in the
    /// exchange takes a wait for memory.
    by_ends: HashTable<(u64, u32)>,
    /// The latest exchange of each question to a multicast group.
    by_question: HashMap<Question, u32>,
    streams: Streams,
    attempts: Attempts,
    totals: Totals,
    /// The latest packet of the capture that is known.
    latest: u64,
}

impl Dns {
    /// One of so many that share a capture, which has seen nothing; it keeps so many questions, and
    /// its share of 500,000 at most. The seed is that of [`crate::Options`].
    pub fn new(most: usize, shards: usize, seed: [u64; 2]) -> Self {
        Self {
            most: most.min(MOST.div_ceil(shards)),
            copy: COPY,
            exchanges: Vec::new(),
            seed,
            by_ends: HashTable::new(),
            by_question: HashMap::new(),
            streams: Streams::new(shards),
            attempts: Attempts::new(shards),
            totals: Totals::default(),
            latest: 0,
        }
    }

    /// Takes what DNS has to do with the next packet, in the order of the capture.
    pub fn take(&mut self, payload: &Payload) {
        let (at, packet) = (payload.at().as_nanos(), payload.number());
        self.reaches(at);
        match *payload.carrier() {
            Carrier::Datagram { source, destination } => {
                self.message(Met { source, destination, tcp: false, at, packet }, payload.span());
            }
            Carrier::Segment { source, destination, seq, flags } => {
                self.attempts.take((source, destination), flags, at);
                let mut streams = std::mem::take(&mut self.streams);
                streams.take((source, destination), (seq, flags), payload.span(), |span| {
                    self.message(Met { source, destination, tcp: true, at, packet }, span);
                });
                self.streams = streams;
            }
            Carrier::Error(icmp) => self.error(&icmp, at, packet),
            Carrier::Quic { .. } => {}
        }
    }

    /// The capture goes on to this time at least.
    pub fn reaches(&mut self, at: u64) {
        self.latest = self.latest.max(at);
    }

    /// The latest packet of the capture that is known.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// The clients that had an answer.
    pub(crate) fn answered(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.exchanges.iter().filter(|e| e.answer.is_some()).map(|e| e.client.ip())
    }

    /// Who was asked.
    pub(crate) fn servers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.exchanges.iter().map(|e| e.server.ip())
    }

    fn message(&mut self, met: Met, span: Span<'_>) {
        let Some(message) = self.parse(span) else { return };
        let asked = if message.is_response { met.source } else { met.destination };
        let protocol = match asked.port() {
            MULTICAST_PORT => Protocol::Mdns,
            LLMNR_PORT => Protocol::Llmnr,
            _ => Protocol::Dns,
        };
        self.read(met, protocol, message);
    }

    fn parse(&mut self, span: Span<'_>) -> Option<Message> {
        match Message::parse(span) {
            Ok(message) => return Some(message),
            Err(wire::packet::Fault::Truncated) => self.totals.truncated += 1,
            Err(wire::packet::Fault::Malformed) => self.totals.malformed += 1,
        }
        None
    }

    fn read(&mut self, met: Met, protocol: Protocol, message: Message) {
        self.totals.messages += 1;
        if message.opcode != 0 {
            self.totals.other += 1;
            return;
        }
        match (message.is_response, protocol) {
            (false, Protocol::Mdns) => {
                // A host that announces its name asks for it too, of type ANY, with the records.
                for question in message.questions {
                    self.ask(met, protocol, (message.id, message.udp_size), question);
                }
            }
            (false, _) => match message.questions.into_iter().next() {
                Some(question) => self.ask(met, protocol, (message.id, message.udp_size), question),
                None => self.totals.other += 1,
            },
            (true, Protocol::Mdns) => self.answer_group(met, &message),
            (true, _) => self.answer(met, protocol, &message),
        }
    }

    /// The latest exchange between these ends.
    fn latest_between(&self, ends: &Ends) -> Option<u32> {
        let (exchanges, hash) = (&self.exchanges, ends.hash(self.seed));
        let found = self.by_ends.find(hash, |(of, i)| *of == hash && ends.is_of(&exchanges[*i as usize]));
        found.map(|(_, i)| *i)
    }

    fn ask(&mut self, met: Met, protocol: Protocol, (id, udp_size): (u16, Option<u16>), mut question: Question) {
        let Met { source: client, destination: server, tcp, at, packet } = met;
        let ends = Ends::new(client, server, protocol, id, tcp);
        let earlier = match protocol {
            Protocol::Mdns => self.by_question.get(&question).copied(),
            Protocol::Dns | Protocol::Llmnr => self.latest_between(&ends),
        };
        let earlier = earlier.and_then(|i| self.exchanges.get(i as usize));
        let same = |e: &&Exchange| e.client.ip() == client.ip() && *e.name == *question.name && e.kind == question.kind;
        let earlier = earlier.filter(same);
        if earlier.is_some_and(|e| at.saturating_sub(e.asked) < self.copy) {
            self.totals.copies += 1;
            return;
        }
        if self.exchanges.len() >= self.most {
            self.totals.beyond_limit += 1;
            return;
        }
        let name: Box<str> = match protocol {
            Protocol::Mdns => question.name.as_str().into(),
            Protocol::Dns | Protocol::Llmnr => std::mem::take(&mut question.name).into_boxed_str(),
        };
        let repeats = protocol != Protocol::Mdns && earlier.is_some_and(|e| e.answer.is_none());
        let index = self.exchanges.len() as u32;
        self.totals.questions += 1;
        self.exchanges.push(Exchange {
            client,
            server,
            protocol,
            tcp,
            id,
            name,
            kind: question.kind,
            udp_size,
            asked: at,
            packet,
            repeats,
            answer: None,
            unreachable: None,
        });
        if protocol == Protocol::Mdns {
            self.by_question.insert(question, index);
            return;
        }
        self.latest_is(&ends, index);
    }

    /// From here on this is the latest exchange between its ends.
    fn latest_is(&mut self, ends: &Ends, index: u32) {
        let (exchanges, hash) = (&self.exchanges, ends.hash(self.seed));
        match self.by_ends.find_mut(hash, |(of, i)| *of == hash && ends.is_of(&exchanges[*i as usize])) {
            Some((_, latest)) => *latest = index,
            None => _ = self.by_ends.insert_unique(hash, (hash, index), |(hash, _)| *hash),
        }
    }

    fn answer(&mut self, met: Met, protocol: Protocol, message: &Message) {
        let ends = Ends::new(met.destination, met.source, protocol, message.id, met.tcp);
        let is_full = self.exchanges.len() >= self.most;
        let exchange = self.latest_between(&ends).and_then(|i| self.exchanges.get_mut(i as usize));
        // Some servers send an error without the question.
        let is_to =
            |e: &&mut Exchange| message.questions.first().is_none_or(|q| *e.name == *q.name && e.kind == q.kind);
        match exchange.filter(is_to) {
            Some(exchange) if exchange.answer.is_none() => {
                exchange.answer = Some(answer_of(met, message));
                self.totals.answers += 1;
            }
            Some(_) => self.totals.answered_again += 1,
            None if is_full => self.totals.beyond_limit += 1,
            None => self.totals.without_question += 1,
        }
    }

    /// An answer of multicast DNS has no number, and often more records than one asked for.
    fn answer_group(&mut self, met: Met, message: &Message) {
        let mut is_answer = false;
        for owner in message.owners.iter().chain(&message.questions) {
            let exchange = self.by_question.get(owner).and_then(|&i| self.exchanges.get_mut(i as usize));
            if let Some(exchange) = exchange.filter(|e| e.answer.is_none() && e.asked <= met.at) {
                exchange.answer = Some(answer_of(met, message));
                self.totals.answers += 1;
                is_answer = true;
            }
        }
        if !is_answer {
            self.totals.without_question += 1;
        }
    }

    /// An error for a question means that nobody can answer it there; one for an answer, that the
    /// client no longer waits for it.
    fn error(&mut self, icmp: &Icmp, at: u64, packet: u64) {
        let (is_unreachable, is_port) =
            if icmp.v6 { (icmp.kind == 1, icmp.code == 4) } else { (icmp.kind == 3, icmp.code == 3) };
        let Some(quoted) = icmp.quoted.filter(|_| is_unreachable) else { return };
        let from = self.exchanges.len().saturating_sub(RECENT);
        for i in (from..self.exchanges.len()).rev() {
            let exchange = &mut self.exchanges[i];
            let ends = (exchange.client, exchange.server);
            if exchange.tcp {
                continue;
            }
            if ends == (quoted.source, quoted.destination)
                && exchange.answer.is_none()
                && exchange.unreachable.is_none()
            {
                exchange.unreachable = Some((at, packet));
                return;
            }
            if let Some(answer) = &mut exchange.answer
                && is_port
                && ends == (quoted.destination, quoted.source)
                && answer.refused_by.is_none()
            {
                answer.refused_by = Some(packet);
                let came = answer.at;
                let is_cut = |e: &Exchange| {
                    // One that the client has taken.
                    let cut = e.cut().filter(|cut| cut.at <= came && cut.refused_by.is_none());
                    (e.client, e.server) == ends && cut.is_some()
                };
                let has_cut = self.exchanges[from..].iter().any(is_cut);
                if let Some(answer) = &mut self.exchanges[i].answer {
                    answer.left_for_tcp = has_cut;
                }
                return;
            }
        }
    }

    /// Joins two that saw different conversations of one capture, in the order of packet numbers.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.most = self.most.saturating_add(other.most);
        self.totals.add(&other.totals());
        self.latest = self.latest.max(other.latest);
        self.attempts.join(other.attempts);
        self.exchanges.extend(other.exchanges);
        self.exchanges.sort_by_key(|e| e.packet);
        // Their numbers have changed: what comes from here on has no question.
        (self.by_ends, self.by_question) = (HashTable::new(), HashMap::new());
        self
    }

    /// Messages beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.totals().beyond_limit
    }

    /// Whether the capture has nothing of DNS.
    pub fn is_empty(&self) -> bool {
        self.totals() == Totals::default()
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        let beyond_limit = self.totals.beyond_limit + self.streams.beyond;
        Totals { gaps: self.totals.gaps + self.streams.gaps, beyond_limit, ..self.totals }
    }

    /// What all of it means.
    pub fn analysis(&self) -> Analysis<'_> {
        Analysis::new(self)
    }
}

fn answer_of(met: Met, message: &Message) -> Box<Answer> {
    let from: IpAddr = met.source.ip();
    Box::new(Answer {
        at: met.at,
        packet: met.packet,
        from,
        code: message.code,
        truncated: message.truncated,
        records: message.answers,
        addresses: message.addresses.as_slice().into(),
        refused_by: None,
        left_for_tcp: false,
    })
}
