//! Echo requests and their answers (RFC 792, 4443).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use record::Nanos;
use wire::packet::EchoOf;

use crate::Distribution;
use crate::tls::Moment;

/// Runs of requests that are kept.
const MOST: usize = 50_000;
/// Requests of one run whose answer may still come; with `ping -f`, thousands are under way.
const WAITING: usize = 4_096;
/// How long after a request a capture must go on for it to be lost, ns.
const GIVEN_UP: u64 = 2_000_000_000;
/// Packets of lost requests whose numbers are kept.
const PACKETS: usize = 12;

/// Requests of one host to another, with one identifier.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) client: IpAddr,
    pub(super) server: IpAddr,
    pub(super) identifier: u16,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) duplicated: u64,
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) times: Distribution,
    /// Those without an answer: sequence numbers and when they came.
    waiting: VecDeque<(u16, Moment)>,
    /// Those that had to make room for later ones.
    lost: u64,
    lost_packets: Vec<u64>,
    first_lost: Option<u64>,
}

/// What became of requests without an answer.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub(super) lost: u64,
    pub(super) not_known: u64,
    pub(super) packets: Vec<u64>,
    pub(super) since: u64,
}

impl Run {
    fn give_up(&mut self, request: (u16, Moment)) {
        self.lost += 1;
        self.first_lost.get_or_insert(request.1.at);
        if self.lost_packets.len() < PACKETS {
            self.lost_packets.push(request.1.packet);
        }
    }

    /// As it is at the end of a capture.
    pub(super) fn unanswered(&self, latest: u64) -> Unanswered {
        let is_over = |request: &&(u16, Moment)| latest.saturating_sub(request.1.at) >= GIVEN_UP;
        let over: Vec<&(u16, Moment)> = self.waiting.iter().filter(is_over).collect();
        let mut packets = self.lost_packets.clone();
        packets.extend(over.iter().map(|request| request.1.packet));
        packets.truncate(PACKETS);
        Unanswered {
            lost: self.lost + over.len() as u64,
            not_known: (self.waiting.len() - over.len()) as u64,
            packets,
            since: self.first_lost.or(over.first().map(|request| request.1.at)).unwrap_or(self.first.at),
        }
    }
}

/// All echoes of a capture.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    pub(super) all: Vec<Run>,
    by_ends: HashMap<(IpAddr, IpAddr, u16), u32>,
    pub(super) beyond: u64,
}

impl Echoes {
    pub(super) fn take(&mut self, (source, destination): (IpAddr, IpAddr), echo: EchoOf, now: Moment) {
        let (client, server) = if echo.is_request { (source, destination) } else { (destination, source) };
        let ends = (client, server, echo.identifier);
        let index = match self.by_ends.get(&ends) {
            Some(index) => *index,
            None if self.all.len() >= MOST => {
                self.beyond += 1;
                return;
            }
            None => {
                let index = self.all.len() as u32;
                self.by_ends.insert(ends, index);
                self.all.push(Run {
                    client,
                    server,
                    identifier: echo.identifier,
                    sent: 0,
                    answered: 0,
                    duplicated: 0,
                    first: now,
                    last: now,
                    times: Distribution::default(),
                    waiting: VecDeque::new(),
                    lost: 0,
                    lost_packets: Vec::new(),
                    first_lost: None,
                });
                index
            }
        };
        let run = &mut self.all[index as usize];
        run.last = now;
        if echo.is_request {
            run.sent += 1;
            if run.waiting.len() == WAITING
                && let Some(oldest) = run.waiting.pop_front()
            {
                run.give_up(oldest);
            }
            run.waiting.push_back((echo.sequence, now));
            return;
        }
        // The latest with this number: they begin at 0 again after 65,535.
        match run.waiting.iter().rposition(|(sequence, _)| *sequence == echo.sequence) {
            Some(i) => {
                let asked = run.waiting.remove(i).map_or(now, |(_, asked)| asked);
                run.answered += 1;
                run.times.add(Nanos(now.at.saturating_sub(asked.at)));
            }
            None => run.duplicated += 1,
        }
    }
}
