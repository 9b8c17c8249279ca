//! One connection, packet by packet.

mod ack;
mod damage;
mod data;
mod limit;
mod old;
mod plain;
mod told;
mod unseen;

use std::net::SocketAddr;
use std::num::NonZeroU64;

use data::Taken;
use limit::State;
use plain::Undisturbed;
pub(crate) use unseen::Silences;
use wire::{Flags, Integrity, Segment};

use crate::distance::Distance;
use crate::event::{Event, Events, Occurrence};
use crate::fetch::{self, Fetch};
use crate::gathering::Left;
use crate::half::{AWAY, Data, Half, KERNEL, PROMPT};
use crate::idle::Idle;
use crate::kept::{Facts, Recorder};
use crate::key::Key;
use crate::ranges::START;
use crate::series::{self, Series};
use crate::stall::Heard;
use crate::steps::{self, Steps};
use crate::unclear::Unclear;
use record::conversation::{Budget, Limit, Side, Way};

/// State of the whole connection. Its fields stand in memory as they do here, for the reason that
/// [`Half`] gives.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Connection {
    // Rarely needed.
    /// What the direction with the most data did piece by piece in time, where that is much.
    series: Option<Box<Series>>,
    /// Answers, by their direction.
    pub(crate) turns: [Turns; 2],
    pub(crate) events: Events,
    pub(crate) first_at: u64,
    pub(crate) first_number: u64,
    /// The part of the applications' time that a FIN or a RST without data ended.
    closing_wait: u64,
    pub(crate) first_syn_at: Option<NonZeroU64>,
    pub(crate) recorder: Option<Box<Recorder>>,
    /// The handshake was completed.
    pub(crate) established: bool,

    // For every packet.
    /// Another connection came on this pair of endpoints when there was no room for one more.
    pub(crate) followed_by_uncounted: bool,
    /// Whether the client stands in the key's lower place.
    pub(crate) client_low: bool,
    /// There as long as plain packets may take the short way.
    undisturbed: Option<Undisturbed>,
    held_for: (Way, bool),
    pub(crate) key: Key,
    pub(crate) steps: Option<Box<Steps>>,
    pub(crate) last_at: u64,
    /// The side that the application's share of the time belongs to.
    pub(crate) idle: Option<Box<Idle>>,
    /// The number of the last packet with data, 0 before the first, and its direction.
    last_data: u64,
    /// Time of which the next packets show the cause: waiting with nothing more sent, or (true, in
    /// `held_for`) with a loss suspected.
    held: u64,
    /// The limit of the direction's last bulk phase, for the time ACKs need to reach a distant
    /// sender.
    bulk: [(Limit, Option<Unclear>); 2],
    last_data_of: Way,
    /// What limits it since the last packet, and in which direction.
    state: (State, Way),
    /// By direction of the data that was waited for.
    pub(crate) budgets: [Budget; 2],
    pub(crate) halves: [Half; 2],
}

// Allocators have 1,792 bytes and then 2,048, ours takes seven for itself, and a capture may have a
// million connections.
const _: () = assert!(size_of::<Connection>() <= 1_792 - 7);

/// Answers that came after the other side's last data: one for each time that the direction of the
/// data turned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) count: u32,
    /// Waiting from the question to the answer, in all, ns.
    pub(crate) total: u64,
    longest: u64,
    /// Question and answer of the longest.
    pub(crate) longest_packets: [u64; 2],
}

impl Turns {
    fn add(&mut self, waited: u64, question: u64, answer: u64) {
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(waited);
        if waited >= self.longest {
            (self.longest, self.longest_packets) = (waited, [question, answer]);
        }
    }
}

/// New data that comes within this time of an ACK at the capture was released by it: 2 ms for the
/// sender to act, beside the round trip.
fn at_once(lag: u64) -> u64 {
    lag.saturating_add(lag / 4 + 2_000_000)
}

impl Connection {
    pub(crate) fn new(key: Key, source_low: bool, s: &Segment, recorder: Option<Box<Recorder>>) -> Self {
        let syn = s.flags.contains(Flags::SYN);
        let from_client = match (syn, s.flags.contains(Flags::ACK)) {
            (true, ack) => !ack,
            // Without a handshake, services are where the lower port is, if it is below the
            // ephemeral ranges.
            _ => s.source.port() >= s.destination.port() || s.source.port() >= 32_768,
        };
        let at = s.at.as_nanos();
        Self {
            key,
            client_low: source_low == from_client,
            first_at: at,
            last_at: at,
            first_number: s.number,
            steps: None,
            halves: [Half::default(), Half::default()],
            established: false,
            first_syn_at: None,
            budgets: [Budget::default(); 2],
            idle: None,
            closing_wait: 0,
            last_data: 0,
            last_data_of: Way::ToServer,
            state: (
                State::Known(if syn { Limit::Handshake } else { Limit::Unknown }),
                if from_client { Way::ToServer } else { Way::ToClient },
            ),
            held: 0,
            held_for: (Way::ToServer, false),
            bulk: [(Limit::Unknown, None); 2],
            series: None,
            turns: [Turns::default(); 2],
            events: Events::default(),
            recorder,
            undisturbed: None,
            followed_by_uncounted: false,
        }
    }

    /// Whether a SYN with this sequence number opens another connection on the same pair of
    /// endpoints (RFC 6191).
    pub(crate) fn is_reused_by(&self, way: Way, s: &Segment) -> bool {
        if !s.flags.contains(Flags::SYN) || s.flags.contains(Flags::RST) {
            return false;
        }
        let half = &self.halves[way];
        if half.offered.seen {
            return half.space.place(s.seq) != START;
        }
        // A SYN where none was seen: the other side of a handshake, or a new connection on a
        // half-seen old one.
        let other = &self.halves[!way];
        let answers = other.offered.seen && !half.begun_by_data();
        if s.flags.contains(Flags::ACK) {
            !(answers
                || other.offered.seen && other.space.place(s.ack) == START + 1
                || self.halves.iter().all(|h| h.count.packets == 0))
        } else {
            !answers || self.established
        }
    }

    /// Who opened it; by the ports where the handshake is not in the capture.
    pub(crate) fn client(&self) -> SocketAddr {
        self.key.end(self.client_low)
    }

    /// Who was called.
    pub(crate) fn server(&self) -> SocketAddr {
        self.key.end(!self.client_low)
    }

    /// How far the sender of direction `way` is from the capture, there and back: what the other
    /// direction's packets take to be answered.
    #[inline(always)]
    fn lag(&self, way: Way) -> u64 {
        if let Some(base) = self.halves[way].sender.as_ref().and_then(|s| s.base()) {
            // A sender that always paused before it went on has that in all its echoes; in the
            // handshake no application pauses.
            return base.min(self.halves[!way].rtt.handshake);
        }
        self.halves[!way].rtt.base().filter(|l| *l >= AWAY).unwrap_or(0)
    }

    /// Whether [`Connection::lag`] is more than a guess.
    #[inline(always)]
    fn knows_lag(&self, way: Way) -> bool {
        self.halves[!way].rtt.base().is_some() || self.halves[way].sender.as_ref().is_some_and(|s| s.is_known())
    }

    /// Whether the capture holds the packets of direction `way` only, although its sender's ACKs
    /// show that the peer answered.
    pub(crate) fn is_one_sided(&self, way: Way) -> bool {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        h.count.packets > 0 && p.count.packets == 0 && p.space.is_begun()
    }

    /// The side that ended it first by FIN or RST; the client where none did.
    pub(crate) fn ended_by(&self) -> Side {
        let first = |h: &Half| {
            h.fin.map(NonZeroU64::get).into_iter().chain(h.anomalies.reset.map(|r| r.0)).min().unwrap_or(u64::MAX)
        };
        if first(&self.halves[Way::ToClient]) < first(&self.halves[Way::ToServer]) {
            Side::Server
        } else {
            Side::Client
        }
    }

    /// How it is known what the sender of direction `way` had learnt when it sent.
    #[inline]
    pub(crate) fn distance(&self, way: Way) -> Distance {
        let far = self.halves[way].rtt.base();
        let near = |lag: u64| lag < AWAY || far.is_some_and(|far| lag <= far / 10);
        let answered = self.halves[!way].rtt.base();
        if answered.is_some_and(near) {
            return Distance::Near;
        }
        match (answered, self.halves[way].sender.as_ref().and_then(|s| s.base())) {
            (_, Some(lag)) if near(lag) => Distance::Near,
            (_, Some(_)) => Distance::Echoes,
            (Some(_), None) => Distance::AtRest,
            (None, None) => Distance::Unknown,
        }
    }

    /// Fetches what its own memory points to. Its own is to be there by then.
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        fetch::each(self.idle.as_deref(), with);
        self.halves.iter().for_each(|h| h.fetch_boxes(with));
    }

    /// Fetches what that points to in turn.
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        self.halves.iter().for_each(|h| h.fetch_further(with));
    }

    /// As [`Connection::take`], where that is not called for every packet.
    #[inline(never)]
    pub(crate) fn take_first(&mut self, way: Way, s: &Segment) {
        self.take(way, s);
    }

    /// Whether a round trip takes so long that what comes twice at the same moment is no
    /// retransmission.
    fn is_far(&self) -> bool {
        const FAR: u64 = 400_000;
        self.halves.iter().filter_map(|h| h.rtt.base()).sum::<u64>() > FAR
    }

    /// Takes the next packet, of direction `way`: most of them the short way, which comes to the
    /// same.
    #[inline(never)]
    pub(crate) fn take(&mut self, way: Way, s: &Segment) {
        let begins = series::piece(s.at.as_nanos()) != series::piece(self.last_at);
        if begins {
            self.tell();
        }
        if !self.take_plain(way, s) {
            self.take_any(way, s);
            self.undisturbed = self.find_undisturbed();
        }
        if begins {
            self.tell();
        }
    }

    /// Takes any packet.
    #[inline(never)]
    fn take_any(&mut self, way: Way, s: &Segment) {
        let at = s.at.as_nanos();
        if at < self.last_at {
            if self.is_of_a_second_reading(way, s) {
                self.steps.get_or_insert_default().again = true;
                self.halves[way].anomalies.capture_copies += 1;
                return;
            }
            self.steps.get_or_insert_default().went_back(self.last_at - at);
        }
        let now = at.max(self.last_at);
        let far = s.network.id.is_none() && self.is_far();
        if self.halves[way].is_copy(s, now, far) {
            return;
        }
        if self.halves[way].checksums.take(s) {
            self.take_damaged(way, s, now);
            return;
        }
        if s.integrity == Integrity::Wrong {
            self.halves[way].anomalies.damage.get_or_insert_default().unclear += 1;
        }
        let elapsed = now - self.last_at;
        if steps::may_be(elapsed) || self.steps.as_ref().is_some_and(|s| s.waits_for(way)) {
            self.compare_clocks(way, s, now, elapsed);
        }
        let knows_lag = self.knows_lag(way);
        let (lag, peer_lag) = (self.lag(way), self.lag(!way));
        self.halves[way].take_header(s);
        if self.is_of_an_older_connection(way, s) {
            self.budgets[Way::ToServer].add(Limit::Handshake, elapsed);
            self.last_at = now;
            return;
        }
        let syn = s.flags.contains(Flags::SYN);
        if syn {
            self.first_syn_at = self.first_syn_at.or(NonZeroU64::new(now));
            if !s.flags.contains(Flags::ACK) && way == Way::ToClient && self.halves[Way::ToServer].offered.seen {
                self.halves[way].anomalies.simultaneous = true;
            }
        }
        let fresh = !self.halves[way].space.is_begun();
        self.halves[way].begin(s.seq);
        if fresh && !syn && s.sequence_length() > 0 {
            // Bytes from before the capture have been seen by no one: should they come, they are
            // new, not retransmitted.
            self.halves[way].open_hole(START - (1 << 30), START, 0, None);
        }
        let answered = way == Way::ToClient
            || !self.halves[Way::ToServer].offered.seen
            || self.halves[Way::ToClient].count.packets > 0;
        self.established |= !syn && !s.flags.contains(Flags::RST) && answered;
        let (advanced, duplicate_ack) =
            if s.flags.contains(Flags::ACK) { self.take_ack(way, s, now, peer_lag) } else { (0, false) };
        let held_up = self.echoed(way, s, now);
        let h = &mut self.halves[way];
        let ids_skipped = h.datagrams.skipped_ids(s, h.sizes.limit());
        let was_filled = self.halves[way].filled;
        let Taken { data, opens_hole } = self.take_data(way, s, now, lag);
        if s.flags.contains(Flags::RST) && self.halves[way].anomalies.reset.is_none() {
            self.halves[way].anomalies.reset = Some((s.number, now));
            self.halves[way].anomalies.reset_ttl = s.network.ttl;
        }
        let released = data == Data::New && self.halves[way].late.as_ref().is_some_and(|l| now - l.at <= at_once(lag));
        let mut facts = Facts {
            data,
            advanced,
            opens_hole,
            was_filled,
            knows_lag,
            ids_skipped,
            lost_before: false,
            held_up,
            released,
        };
        if self.was_lost_before(way, s, &facts) {
            facts.lost_before = true;
            self.halves[way].anomalies.lost_before += u32::from(ids_skipped);
        }
        self.conclude(way, s, now, lag, &facts);
        if data == Data::New {
            self.halves[way].late = None;
        }
        let (state, of) = self.limit_now();
        self.enter(state, of, s.number);
        self.follow_repairs(way, s, now);
        if s.flags.contains(Flags::ECE) && !syn {
            // A queue on the path marked what this side received, and the sender is about to reduce
            // its window.
            self.halves[!way].rounds.note_mark();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.add(way, s, &self.halves, data, duplicate_ack);
        }
    }
}

impl Connection {
    /// Gives the time up to this packet to what limited the connection.
    #[inline(always)]
    fn conclude(&mut self, way: Way, s: &Segment, now: u64, lag: u64, facts: &Facts) {
        let (before, (state, of)) = (self.application(), self.state);
        self.share_out(way, s, now - self.last_at, lag, facts);
        let waited = self.application().saturating_sub(before);
        if facts.opens_hole {
            self.judge_silences(way, s);
        }
        if waited > 0 && state == State::Waiting && facts.advanced == 0 {
            self.note_unanswered(of, waited);
        }
        let ends = s.payload > 0 || s.flags.intersects(Flags::FIN | Flags::RST);
        if waited > 0 || ends && self.idle.as_ref().is_some_and(|i| i.is_open()) {
            let since = self.last_data;
            self.idle_until(way, s, waited);
            match state {
                State::Quiet if ends => self.note_silence(way, waited, since),
                State::Waiting | State::Answered if ends => self.note_silence(of, waited, since),
                _ => {}
            }
            if s.payload == 0 && s.flags.intersects(Flags::FIN | Flags::RST) {
                self.closing_wait = self.closing_wait.saturating_add(waited);
            }
        }
        self.halves[way].take_stamp(s, now);
        if s.payload > 0 {
            if facts.data == Data::New {
                self.gather(way, s, lag, waited);
            }
            (self.last_data, self.last_data_of) = (s.number, way);
        }
        self.last_at = now;
    }

    /// `waited` looked like an application's time while data of direction `of` were out: where it
    /// is more than a round trip, whether these are retransmitted shows what it was.
    #[inline(never)]
    fn note_unanswered(&mut self, of: Way, waited: u64) {
        let h = &self.halves[of];
        if h.rtt.base().is_some_and(|rtt| waited > rtt.saturating_add(self.lag(of))) && h.outstanding() {
            let una = h.space.una();
            self.idle.get_or_insert_default().unanswered((of, una), waited, self.last_data);
        }
    }

    /// New data came, before which so much looked like the application's time: what that was may
    /// show in whether they follow the ACK of those before.
    #[inline(always)]
    fn gather(&mut self, way: Way, s: &Segment, lag: u64, waited: u64) {
        let full = s.payload >= self.halves[way].sizes.full();
        if self.last_data_of == way && !(full && waited == 0) {
            self.gather_after_own(way, s, lag, (full, waited));
        } else if self.last_data_of != way && self.last_data > 0 {
            self.halves[!way].anomalies.end_gathering();
        }
    }

    #[inline(never)]
    fn gather_after_own(&mut self, way: Way, s: &Segment, lag: u64, (full, waited): (bool, u64)) {
        let h = &mut self.halves[way];
        let now = s.at.as_nanos();
        let (una, end) = (h.space.una(), h.space.next());
        let after = now.saturating_sub(h.una_at);
        let prompt = lag + lag / 8 + KERNEL;
        if full && waited >= PROMPT {
            let (level, prompted) = (h.in_flight().saturating_sub(s.payload), h.rounds.is_prompted());
            h.anomalies.refill().take((now, end), (level, h.rounds.recent_peak()), prompted, waited);
        }
        let gathering = h.anomalies.gather();
        gathering.note_acknowledged(una, h.una_at);
        if full {
            return gathering.take_full(waited, if after > prompt { una } else { 0 });
        }
        // All that is out beside it are full segments: the last part-filled one is acknowledged.
        let beside = h.space.out().saturating_sub(s.payload.into());
        let only_full = beside.is_multiple_of(h.sizes.full().max(1).into());
        let after_last = now.saturating_sub(gathering.acknowledged_at());
        let known = lag - lag / 8;
        let left = if only_full && [after, after_last].iter().any(|after| (known..=prompt).contains(after)) {
            Left::Prompted
        } else if after_last < known || gathering.acknowledged_at() == 0 {
            Left::Before
        } else {
            Left::Later
        };
        gathering.take_part_filled((s.payload, end), waited, left);
        let write = u32::from(h.sizes.first());
        // The last write may be a shorter one.
        if h.offered.seen && write < h.sizes.full() && !s.flags.contains(Flags::FIN) {
            gathering.take_writes(write, end.saturating_sub(START + 1));
        }
    }

    /// What limits direction `of` from this packet on.
    #[inline(always)]
    fn enter(&mut self, state: State, of: Way, number: u64) {
        if state == State::Known(Limit::PathRate) {
            self.halves[of].rounds.note_queue();
        }
        if state == State::Suspect {
            self.note_limit_beside_doubt(of);
        }
        self.state = (state, of);
        self.note_held(number);
    }

    /// Nothing came for so long before this packet, or none of its direction since such a time.
    #[cold]
    fn compare_clocks(&mut self, way: Way, s: &Segment, now: u64, elapsed: u64) {
        // Without timestamps nothing shows a step, ever.
        if s.options.timestamps.is_none() {
            return;
        }
        let under_way = self.halves[way].under_way(s, now);
        let steps = self.steps.get_or_insert_default();
        if steps::may_be(elapsed) {
            steps.silence(elapsed);
        }
        if steps.waits_for(way) && steps.heard(way, under_way) {
            // Everything from here on would look late.
            self.halves.iter_mut().for_each(|h| h.habits.forget_clock());
        }
    }

    /// A challenge ACK (RFC 5961, section 4), with which the peer of a SYN speaks of an older
    /// connection that it still holds, or the RST that answers it.
    #[inline(always)]
    fn is_of_an_older_connection(&self, way: Way, s: &Segment) -> bool {
        if self.established || s.payload > 0 || s.flags.intersects(Flags::SYN | Flags::FIN) {
            return false;
        }
        let asked = |h: &Half| h.offered.seen && h.space.next() == START + 1 && h.space.una() == START;
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        let challenge =
            !s.flags.contains(Flags::RST) && asked(p) && !h.offered.seen && p.space.place(s.ack) != START + 1;
        let answer = s.flags.contains(Flags::RST) && asked(h) && !p.offered.seen && h.space.place(s.seq) != START + 1;
        challenge || answer && p.count.packets > 0
    }

    /// Whether a packet whose time lies long before that of the latest, and after the first, brings
    /// nothing that was not there: the file holds the same packets twice, one after the other.
    #[cold]
    fn is_of_a_second_reading(&self, way: Way, s: &Segment) -> bool {
        const LONG: u64 = 100_000_000;
        let (h, p, at) = (&self.halves[way], &self.halves[!way], s.at.as_nanos());
        let is_again = self.steps.as_ref().is_some_and(|steps| steps.again);
        let before = if is_again { self.last_at } else { self.last_at.saturating_sub(LONG) };
        let is_amid = (self.first_at..before).contains(&at);
        let (seq, ack) = (h.space.place(s.seq), p.space.place(s.ack));
        is_amid
            && h.space.is_begun()
            && seq.saturating_add(s.sequence_length().into()) <= h.space.next()
            && (!s.flags.contains(Flags::ACK) || ack <= p.space.una())
    }

    /// What the timestamps of a segment show of the way to its sender, where that is away; true
    /// where the path held the segment up, or the ACKs before it.
    #[inline(always)]
    fn echoed(&mut self, way: Way, s: &Segment, now: u64) -> bool {
        if s.payload > 0
            && let Some((Some(value), Some(echo))) = s.options.timestamps
            && self.halves[way].sender.is_some()
        {
            match self.halves[way].echoed((value, echo), now, s) {
                Heard::InTime => {}
                Heard::HeldUp => return true,
                Heard::StoodStill(occurrence) => self.stood_still(way, occurrence),
            }
        }
        false
    }

    /// The path stood still with data of direction `way` under way: the time is the path's,
    /// whatever it had been given to.
    #[cold]
    fn stood_still(&mut self, way: Way, occurrence: Occurrence) {
        if self.steps.as_ref().is_some_and(|s| s.unclear) {
            self.events.add(Event::PossibleStall, way, occurrence);
            return;
        }
        let given = [Limit::LossRecovery, Limit::Unknown, Limit::SlowStart, Limit::CongestionWindow];
        let during_repair = self.halves[way].repairs.latest().is_some_and(|r| r.at >= occurrence.at);
        // A probe goes out while nothing comes, and no other time is a repair's.
        let given = if during_repair { &given[..] } else { &given[1..] };
        let budget = &mut self.budgets[way];
        given.iter().fold(occurrence.cost, |left, limit| left - budget.shift(*limit, Limit::PathRate, left));
        self.events.add(Event::PathStall, way, occurrence);
    }

    /// The time that went to the applications so far.
    #[inline]
    fn application(&self) -> u64 {
        self.budgets[0].of(Limit::Application).0.wrapping_add(self.budgets[1].of(Limit::Application).0)
    }

    /// `waited` is the applications' time, which this packet ended.
    #[inline(always)]
    fn idle_until(&mut self, way: Way, s: &Segment, waited: u64) {
        if s.payload == 0 && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
            // An ACK or a window is no answer: the next data show who was waited for.
            self.idle.get_or_insert_default().wait(waited);
        } else {
            self.idle_until_data(way, s, waited);
        }
    }

    #[inline(never)]
    fn idle_until_data(&mut self, way: Way, s: &Segment, waited: u64) {
        let (last, from) = (self.last_data_of, self.last_data);
        let asked = from > 0 && last != way;
        let path = self.halves[!way].rtt.base().or(self.halves[way].sender.as_ref().and_then(|s| s.base()));
        // What this packet was under way longer than others was no application's time, wherever it
        // was held up.
        let now = s.at.as_nanos().max(self.last_at);
        let held_up = self.halves[way].under_way_at_least(s, now).min(waited);
        let thinking = asked && s.payload > 0;
        // What answers a FIN comes a round trip after it, and its sender need not have paused.
        let closes = s.payload == 0 && self.halves[!way].fin.is_some();
        let idle = self.idle.get_or_insert_default();
        if thinking {
            idle.add(way.sender(), true, waited, path.unwrap_or(0).saturating_add(held_up), [from, s.number]);
        } else {
            let trip = if closes { path.unwrap_or(0) } else { 0 };
            idle.add(way.sender(), false, waited - held_up, trip, [from, s.number]);
            [way, !way]
                .into_iter()
                .fold(held_up, |left, of| left - self.budgets[of].shift(Limit::Application, Limit::Unknown, left));
        }
    }
}

/// The payload that a packet of direction `way` may carry at most, where the handshake shows: the
/// peer's MSS less the timestamp option, which every packet then carries (RFC 6691).
pub(crate) fn segment_limit(halves: &[Half; 2], way: Way) -> Option<u32> {
    let mss = u32::from(halves[!way].offered.mss?);
    let stamped = halves.iter().all(|h| h.offered.timestamps);
    Some(mss.saturating_sub(if stamped { 12 } else { 0 }).max(1))
}

/// The scale of the windows that `h` advertises: its own where both sides offered one.
pub(crate) fn scale(h: &Half, p: &Half) -> Option<u8> {
    match (h.offered.seen, p.offered.seen) {
        (true, true) => match (h.offered.window_scale, p.offered.window_scale) {
            (Some(own), Some(_)) => Some(own.min(14)),
            _ if h.offered.cut || p.offered.cut => None,
            _ => Some(0),
        },
        _ => None,
    }
}
