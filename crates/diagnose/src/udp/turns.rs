//! Request and response by alternation: what the client sends before the server's next datagram is
//! a request, and that datagram is its answer.

use record::Nanos;
use wire::packet::Udp;

use crate::Distribution;
use crate::tls::Moment;

/// The same datagram again within this is a copy, or one of a series.
const AGAIN: u64 = 100_000_000;
/// Tries of a request whose packets are kept.
const TRIES: usize = 8;
/// What a client waits for an answer is known after so many.
const ENOUGH: u64 = 8;
/// A client that goes on sooner than this after its request may not have waited, ns.
const WAITS: u64 = 5_000_000;

/// A request that no answer has come to yet.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) first: Moment,
    /// The latest datagram of it.
    pub(super) last: Moment,
    /// What the latest one is recognised by: its length and its beginning.
    digest: u64,
    /// How often the same datagram came.
    pub(super) tries: u64,
    /// It is made of one datagram, as far as is known.
    is_single: bool,
    pub(super) packets: Vec<u64>,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) asked: Moment,
    pub(super) answered: Moment,
    pub(super) tries: u64,
}

impl Answered {
    pub(super) fn took(&self) -> u64 {
        self.answered.at.saturating_sub(self.asked.at)
    }
}

/// The turns of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    pub(super) requests: u64,
    pub(super) answered: u64,
    pub(super) repeated: u64,
    pub(super) times: Distribution,
    pub(super) open: Option<Box<Open>>,
    /// The slowest answer to a single try, and the slowest to several, from the first of them.
    pub(super) slowest: Option<Answered>,
    pub(super) late: Option<Answered>,
    /// Answers that came after several tries.
    pub(super) later_tries: u64,
    /// Answers to a single datagram.
    singles: u64,
    /// Datagrams after which the client waited for at least twice as long as any answer had taken,
    /// and then sent another one; and the longest of these waits.
    passed: u64,
    longest_passed: Option<(Moment, Moment)>,
    /// Datagrams of the server before the first request.
    pub(super) unasked: u64,
}

/// Of a datagram's length and beginning (FNV-1a).
fn digest(udp: &Udp) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ u64::from(udp.payload);
    udp.head.as_slice().iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Turns {
    pub(super) fn client(&mut self, udp: &Udp) {
        let now = Moment { at: udp.at.as_nanos(), packet: udp.number };
        let digest = digest(udp);
        let Some(open) = &mut self.open else {
            self.requests += 1;
            let packets = vec![now.packet];
            self.open = Some(Box::new(Open { first: now, last: now, digest, tries: 1, is_single: true, packets }));
            return;
        };
        if open.digest == digest && now.at.saturating_sub(open.last.at) >= AGAIN {
            open.tries += 1;
            self.repeated += 1;
            if open.packets.len() < TRIES {
                open.packets.push(now.packet);
            }
        } else if open.digest != digest {
            // Another one, while nothing has come for the one before.
            let waited = now.at.saturating_sub(open.last.at);
            let longest = self.times.max().map_or(u64::MAX, |longest| longest.0.saturating_mul(2));
            let has_waited = self.times.count() >= ENOUGH && waited >= longest.max(WAITS);
            if has_waited {
                self.passed += 1;
                let before = self.longest_passed.map_or(0, |(from, to)| to.at.saturating_sub(from.at));
                if waited > before {
                    self.longest_passed = Some((open.last, now));
                }
            }
            (open.tries, open.first, open.packets) = (1, now, vec![now.packet]);
            open.is_single = has_waited;
        }
        (open.last, open.digest) = (now, digest);
    }

    pub(super) fn server(&mut self, udp: &Udp) {
        let now = Moment { at: udp.at.as_nanos(), packet: udp.number };
        let Some(open) = self.open.take() else {
            self.unasked += u64::from(self.requests == 0);
            return;
        };
        self.answered += 1;
        self.singles += u64::from(open.is_single);
        let answered = Answered { asked: open.first, answered: now, tries: open.tries };
        let place = if open.tries == 1 {
            let took = now.at.saturating_sub(open.last.at);
            self.times.add(Nanos(took));
            &mut self.slowest
        } else {
            // Which of the tries it answers is not known.
            self.later_tries += 1;
            &mut self.late
        };
        if place.is_none_or(|slowest| answered.took() > slowest.took()) {
            *place = Some(answered);
        }
    }

    /// Requests that the client gave up before it sent another one, and the longest that it waited
    /// for one of them. None where requests are made of several datagrams now and then: those may
    /// have pauses between them.
    pub(super) fn passed(&self) -> Option<(u64, Moment, Moment)> {
        let is_strict = self.singles * 10 >= self.answered * 9;
        let (from, to) = self.longest_passed.filter(|_| is_strict)?;
        Some((self.passed, from, to))
    }
}
