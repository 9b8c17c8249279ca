//! What a segment's payload was: new, out of order, or retransmitted, and what its sender did by sending it.

use wire::{Flags, Segment};

use super::{Connection, at_once, segment_limit};
use crate::episode::{Episode, Happening};
use crate::half::{Data, Restart, SHORTEST_TIMEOUT};
use crate::ranges::START;
use crate::resend::{self, Class, Recovery, Repair, Signs};

impl Connection {
    #[inline]
    pub(super) fn take_data(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) -> Data {
        // A window of zero is zero whatever its scale.
        let peer_window_zero = self.halves[1 - dir].zero_since > 0;
        let established = self.established_at.is_some();
        let knows = self.knows_lag(dir);
        let h = &mut self.halves[dir];
        let length = u64::from(s.sequence_length());
        let payload = u64::from(s.payload);
        if length == 0 || s.flags.contains(Flags::RST) {
            let behind = h.place(s.seq).wrapping_add(1) == h.next;
            if behind && h.una == h.next && h.next > START + 1 && s.flags.contains(Flags::ACK) && established {
                return if peer_window_zero {
                    h.rare.window_probes += 1;
                    Data::Probe
                } else {
                    h.rare.keep_alives += 1;
                    Data::KeepAlive
                };
            }
            return Data::None;
        }
        let start = h.place(s.seq);
        let end = start + length;
        if payload > 0 {
            h.count.payload_packets += 1;
            h.count.payload_bytes += payload;
        }
        // SYN comes before the payload, FIN after it.
        let first = start + u64::from(s.flags.contains(Flags::SYN));
        if end <= h.next {
            return self.take_old(dir, s, now, lag, (start, end), first);
        }
        if !h.offered.seen && (h.first_data == 0 || start > h.next && h.is_first_flight()) {
            h.first_data = start;
        }
        let opens_hole = start > h.next && (h.next > START || h.first_data > START);
        if opens_hole {
            h.open_hole(h.next, start, now, s.network.id);
        }
        h.count.unique_bytes += payload;
        if first < h.next && payload > 0 {
            // It begins below what was seen before and goes beyond.
            let filled = h.holes.remove(first, h.next.min(first + payload)).0;
            let again = h.next.saturating_sub(first.max(START)).min(payload).saturating_sub(filled);
            h.count.unique_bytes -= again;
            h.count.resent_bytes += again;
            if again > 0 {
                h.count.resent_packets += 1;
                h.rare.by_class[Class::Unclear as usize] += 1;
            }
        }
        if s.flags.contains(Flags::FIN) && h.fin.is_none() {
            h.fin = Some(s.number);
        }
        self.after_pause(dir, s, now, lag);
        self.released(dir, s, now, lag);
        let h = &mut self.halves[dir];
        let from = h.next.max(start);
        h.reach(end);
        h.sent(from, end, now, s.number, knows.then_some(lag));
        if payload > 0 {
            self.find_limit(dir);
            if s.payload > 1_460 && self.halves[dir].limit == 0 {
                self.infer_limit(dir, s);
            }
            let h = &mut self.halves[dir];
            let size = if h.limit > 0 { s.payload.min(h.limit) } else { s.payload };
            if s.payload > size {
                h.rare.larger_than_mss += 1;
            }
            if size > h.segment_size {
                (h.segment_size, h.full_runs) = (size, 0);
                h.find_full_size();
            } else if size == h.segment_size && h.last_payload == size && h.last_data_at > h.heard_at {
                h.full_runs = h.full_runs.saturating_add(1);
                if h.full_runs == 8 {
                    h.find_full_size();
                }
            }
            if u64::from(s.payload) * 4 < u64::from(h.segment_size.max(536)) {
                h.count.small += 1;
                // Small ones one after the other, without an answer in between: not a dialogue.
                h.count.small_bursts += u64::from(
                    h.last_data_at > h.heard_at && u64::from(h.last_payload) * 4 < u64::from(h.segment_size.max(536)),
                );
            }
            if h.count.payload_packets >= 4 {
                let rtt = h.rtt.base().unwrap_or(0).saturating_add(lag);
                h.bursts.get_or_insert_default().arrivals.add(now, payload, h.segment_size, rtt);
            }
            // SACK blocks take their room from a full segment.
            let sack = if s.options.sack.as_slice().is_empty() {
                0
            } else {
                sack_bytes(s) * s.payload.div_ceil(h.limit.max(1)).clamp(1, 64)
            };
            (h.previous_payload, h.last_payload) = (h.last_payload, s.payload + sack);
            let (answered_at, question) = (self.halves[1 - dir].last_data_at, self.halves[1 - dir].last_data_number);
            if answered_at > 0 && answered_at >= self.halves[dir].last_data_at {
                self.turns[dir].add(now - answered_at.min(now), question, s.number);
            }
            let h = &mut self.halves[dir];
            h.last_data_at = now;
            h.last_data_number = s.number;
            self.full_window(dir, s.number, now);
            if let Some((Some(value), _)) = s.options.timestamps {
                self.halves[dir].rtt.value_sent(value, now);
            }
        }
        if peer_window_zero && payload == 1 {
            self.halves[dir].rare.window_probes += 1;
            return Data::Probe;
        }
        Data::New
    }

    /// A segment that lies wholly below what was seen before.
    #[cold]
    fn take_old(&mut self, dir: usize, s: &Segment, now: u64, lag: u64, span: (u64, u64), first: u64) -> Data {
        let (start, end) = span;
        let answers_seen = self.halves[1 - dir].count.packets > 0;
        let sack_in_use = self.halves.iter().all(|h| h.offered.sack) || self.halves[1 - dir].rare.sack_acks > 0;
        // A window of zero is zero whatever its scale.
        let peer_window_zero = self.halves[1 - dir].zero_since > 0;
        let h = &mut self.halves[dir];
        let payload = u64::from(s.payload);
        let (filled, hole) = if payload > 0 { h.holes.remove(first, first + payload) } else { (0, None) };
        h.count.unique_bytes += filled;
        h.count.resent_bytes += payload - filled;
        if s.flags.contains(Flags::SYN) {
            h.rare.by_class[Class::Syn as usize] += 1;
            h.flight.resend(start, end, now);
            let from = self.first_syn_at.unwrap_or(now);
            let episode =
                Episode { at: from, cost: now - from.min(now), packets: [self.first_number, s.number, 0], detail: 0 };
            self.book.add(Happening::SynRetry, dir, episode);
            return Data::Resent(Class::Syn);
        }
        if payload <= 1
            && !s.flags.contains(Flags::FIN)
            && end == h.next
            && start >= h.una.saturating_sub(1)
            && (h.una == h.next || peer_window_zero)
        {
            if peer_window_zero {
                h.rare.window_probes += 1;
                return Data::Probe;
            }
            h.rare.keep_alives += 1;
            return Data::KeepAlive;
        }
        let full_rtt = h.rtt.smoothed().map(|r| r.saturating_add(lag));
        if let Some(hole) = hole
            && filled == payload
        {
            // Sent before what opened the hole? The identification shows where it counts up; else the time does: a repair
            // takes an RTT at least.
            let older = hole
                .id
                .zip(s.network.id)
                .filter(|(a, b)| *a != 0 && *b != 0)
                .map(|(opened, this)| (this.wrapping_sub(opened) as i16) < 0);
            let soon = now - hole.at.min(now) < full_rtt.map_or(3_000_000, |r| r.saturating_sub(r / 8));
            if hole.at > 0 && (older == Some(true) || soon && older != Some(false)) || hole.at == 0 && start < START {
                h.rare.out_of_order += 1;
                h.rare.reorder_extent = h.rare.reorder_extent.max(h.next - end);
                h.sent(start, end, now, s.number, None);
                return Data::OutOfOrder;
            }
            h.rare.unseen_original += 1;
        }
        let original = h.flight.resend(start, end, now);
        // An ACK reaches the sender, and what it brings about comes here, `lag` later.
        let heard = if h.heard_at > 0 { h.heard_at.saturating_add(lag) } else { 0 };
        let heard = heard.max(original.map_or(h.last_data_at, |o| o.at)).min(now);
        let again = original.is_some_and(|o| o.resends > 0);
        let timeout = h.timeout(lag) / 8 * 7;
        let overdue = |since: u64| since > 0 && now - since.min(now) >= timeout;
        let signs = Signs {
            quiet: now - heard.min(now),
            rtt: full_rtt,
            variation: h.rtt.variation(),
            duplicates: h.duplicates,
            sacked_above: h.sacked.highest().is_some_and(|top| top > end),
            tail: end == h.next && start > h.una,
            alone: end == h.next && start == h.una,
            again,
            stuck: start == h.una && (again && overdue(h.una_at) || overdue(h.suspect_at)),
            recovery: h.recovery.as_ref().map(|r| r.class),
            sack_in_use,
            answers_seen,
        };
        let class = if end <= h.una {
            let last =
                h.repairs.as_ref().and_then(|r| r.last()).filter(|r| now - r.at.min(now) <= full_rtt.unwrap_or(0));
            let disordered =
                h.disordered_at > 0 && now - h.disordered_at.min(now) <= full_rtt.unwrap_or(0).saturating_mul(2);
            resend::belated(last.map(|r| r.class), sack_in_use, disordered)
        } else {
            resend::classify(&signs)
        };
        h.count.resent_packets += 1;
        h.rare.by_class[class as usize] += 1;
        h.rare.resent_fins += u32::from(payload == 0);
        let repair =
            Repair { start, end, at: now, number: s.number, class, value: s.options.timestamps.and_then(|t| t.0) };
        h.repairs.get_or_insert_default().add(repair);
        if h.recovery.as_ref().is_none_or(|r| class == Class::Timeout && r.class != Class::Timeout) && h.next > h.una {
            let began = match class {
                Class::Timeout | Class::TailLossProbe => heard,
                _ if h.suspect_at > 0 => h.suspect_at,
                _ => now,
            };
            let began = h.recovery.as_ref().map_or(began, |r| r.began.min(began));
            h.recovery = Some(Box::new(Recovery {
                point: h.next,
                class,
                began,
                number: s.number,
                original: original.map_or(0, |o| o.number),
                una: h.una,
            }));
            h.rounds.leave_level();
            if class != Class::TailLossProbe {
                h.rounds.past_slow_start = class != Class::Timeout;
                h.rounds.threshold = h.in_flight() / 2;
            }
        }
        if class == Class::Timeout
            && signs.by_timer()
            && let Some(recovery) = h.recovery.as_mut().filter(|r| r.class == Class::Timeout)
        {
            // The timer ran out once more: everything sent until now is to be repaired (RFC 6582, section 4).
            recovery.point = h.next;
        }
        let one = if h.limit > 0 { s.payload.min(h.limit) } else { s.payload };
        if class == Class::Timeout && one > 536 && one > h.largest_acked && one + 64 > h.segment_size {
            let episode = Episode {
                at: now,
                cost: now - heard.min(now),
                packets: [original.map_or(0, |o| o.number), s.number, 0],
                detail: u64::from(one),
            };
            self.book.add(Happening::LargeResend, dir, episode);
        }
        Data::Resent(class)
    }

    /// Looks at new data that comes after a pause.
    #[inline]
    pub(super) fn after_pause(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) {
        let h = &mut self.halves[dir];
        if h.last_data_at == 0 || h.outstanding() || s.payload == 0 {
            return;
        }
        let gap = now - h.last_data_at;
        if gap < SHORTEST_TIMEOUT || gap < h.timeout(lag) {
            return;
        }
        h.rare.idle.0 += 1;
        h.rare.idle.1 = h.rare.idle.1.saturating_add(gap);
        h.rare.idle.2 = h.rare.idle.2.max(gap);
        let prior = h.rounds.recent_peak();
        h.restart = Some(Box::new(Restart {
            at: now,
            number: s.number,
            prior,
            first: 0,
            from: h.next,
            round_end: h.next,
            rounds: 0,
        }));
        h.rounds.peak = 0;
    }

    /// What the handshake lets a packet of this direction carry, as soon as both sides of it are known.
    #[inline]
    fn find_limit(&mut self, dir: usize) {
        if self.halves[dir].limit == 0
            && let Some(limit) = segment_limit(&self.halves, dir)
        {
            self.halves[dir].limit = limit;
            self.halves[dir].find_full_size();
        }
    }

    /// Without a handshake: the segment size that a frame which offload left whole is a multiple of.
    #[cold]
    fn infer_limit(&mut self, dir: usize, s: &Segment) {
        let options = u32::from(s.header_bytes.saturating_sub(20));
        let whole = s.payload;
        // MTUs of Ethernet, of PPPoE, of common tunnels, and what IPv6 guarantees; IPv4 and IPv6 headers.
        let found = [1_500, 1_492, 1_480, 1_476, 1_450, 1_420, 1_400, 1_280, 9_000]
            .into_iter()
            .flat_map(|mtu: u32| [40, 60].map(|headers| mtu - headers - options))
            .find(|size| whole >= 2 * size && whole.is_multiple_of(*size));
        if let Some(size) = found {
            // Other segments have no SACK blocks.
            let size = if s.options.sack.as_slice().is_empty() { size } else { size + sack_bytes(s) };
            let h = &mut self.halves[dir];
            h.limit = size;
            h.segment_size = h.segment_size.min(size);
            h.find_full_size();
        }
    }

    /// Data leaves right after a late ACK: it had stood waiting for it.
    #[inline]
    pub(super) fn released(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) {
        self.find_limit(dir);
        // What the peer sent behind its ACK: the application may have had nothing to send until that came.
        let question = self.halves[1 - dir].last_data_at;
        let h = &mut self.halves[dir];
        let Some(late) = h.late.take() else { return };
        let answers = question > late.at && now - question.min(now) >= lag - lag / 4;
        if answers || now - late.at > at_once(lag) {
            return;
        }
        let full = h.is_full(s.payload);
        let what = if full { Happening::DelayedAckStall } else { Happening::NagleStall };
        let episode = Episode {
            at: late.sent_at,
            cost: late.excess,
            packets: [late.data, late.ack, s.number],
            detail: u64::from(h.last_payload) << 32 | u64::from(s.payload),
        };
        self.book.add(what, dir, episode);
    }

    #[inline]
    pub(super) fn full_window(&mut self, dir: usize, number: u64, now: u64) {
        let (known, largest) = (self.halves[1 - dir].window_known, self.halves[1 - dir].max_window);
        let h = &mut self.halves[dir];
        let room = h.view.edge.saturating_sub(h.next);
        if !known
            || h.view.edge <= START
            || room >= u64::from(h.segment_size)
            || u64::from(h.in_flight()) < 2 * u64::from(h.segment_size)
        {
            return;
        }
        h.filled = h.next;
        let window = h.view.edge.saturating_sub(h.view.una);
        if h.rare.full_windows == 0 {
            h.rare.full_least = window;
        }
        h.rare.full_windows += 1;
        h.rare.full_shrunk += u64::from(window < largest / 2);
        h.rare.full_least = h.rare.full_least.min(window);
        h.rare.full_most = h.rare.full_most.max(window);
        if h.rare.full_windows <= 8 {
            self.book.add(
                Happening::WindowFull,
                dir,
                Episode { at: now, cost: 0, packets: [number, 0, 0], detail: window },
            );
        }
    }
}

/// Bytes of the header beyond the fixed part and timestamps.
fn sack_bytes(s: &Segment) -> u32 {
    u32::from(s.header_bytes).saturating_sub(if s.options.timestamps.is_some() { 32 } else { 20 })
}
