//! The IP datagrams of a direction, by TTL and identification: which of them the capture holds
//! twice, and whether it misses some.

use std::collections::VecDeque;

use wire::{Flags, Segment};

/// How long after a packet its copy comes at most, in units of 2^16 ns, rounded up: 10 ms, and 2 s
/// where a router has lowered the TTL.
const COPY_WITHIN: u32 = 10_000_000 / 65_536 + 1;
const TWO_SECONDS: u32 = 2_000_000_000 / 65_536;

/// So many packets in step show that a sender counts its identification up.
const IN_STEP: u8 = 3;
/// From here on, a step of the identification is one back: by less than 4,096.
const OVERTAKEN: u16 = 0xf000;

/// What a packet is recognised by: IPv4 identification and TCP header in one digest, when it came,
/// in units of 2^16 ns (of which 2^32 are 78 hours), and its TTL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    digest: u32,
    at: u32,
    ttl: u8,
    /// The TTL is another than the first packet's.
    other_ttl: bool,
}

impl Passed {
    #[inline(always)]
    pub(crate) fn has_other_ttl(self) -> bool {
        self.other_ttl
    }
}

/// IPv4 identification and TCP header of a packet.
#[inline(always)]
fn digest(s: &Segment) -> u32 {
    let id = s.network.id.unwrap_or(0);
    // Odd multipliers keep every bit of each field in the digest; the identification alone shows
    // most packets apart.
    (s.seq.0 ^ u32::from(id) << 16 ^ u32::from(id)).wrapping_mul(0x9e37_79b1)
        ^ s.ack.0.rotate_left(16).wrapping_mul(0x85eb_ca6b)
        ^ s.payload.rotate_left(7)
        ^ u32::from(s.flags.bits()) << 20
        ^ u32::from(s.window)
        ^ s.options.timestamps.and_then(|(value, _)| value).unwrap_or(0).wrapping_mul(0xc2b2_ae35)
}

/// The datagrams of a direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Datagrams {
    /// The latest four, of which copies may come: their digests, and when they came; 0 for none.
    digests: [u32; 4],
    at: [u32; 4],
    /// Which of them is the oldest, in its lowest bits.
    oldest: u8,
    /// The identification that a sender which counts up gives its next packet, and how often it has
    /// done so.
    next_id: u16,
    ids_in_step: u8,
    ids_skipped: u8,
    /// The TTL of the first packet.
    first_ttl: u8,
    /// The TTL of copies where it is another than the first packet's; 0 where that is not known.
    copies_ttl: u8,
    /// Copies have come with the first packet's TTL.
    alike: bool,
    /// What is kept to find copies that come after many other packets.
    kept: Option<Box<Kept>>,
}

/// Packets from the first copy on, or the first that has another TTL than its sender's first.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// A copy or another TTL has been seen.
    copies_expected: bool,
    packets: VecDeque<Passed>,
}

impl Datagrams {
    /// Its first packet came with this TTL.
    #[inline(always)]
    pub(crate) fn take_ttl(&mut self, ttl: u8) {
        if self.first_ttl == 0 {
            self.first_ttl = ttl;
        }
    }

    /// The TTL of the first packet; 0 where that is not known.
    #[inline(always)]
    pub(crate) fn first_ttl(&self) -> u8 {
        self.first_ttl
    }

    /// What `s` is recognised by.
    #[inline(always)]
    pub(crate) fn packet(&self, s: &Segment, now: u64) -> Passed {
        let ttl = s.network.ttl;
        let other_ttl = ttl != self.first_ttl && self.first_ttl != 0;
        // A time is never 0, which stands for none.
        Passed { digest: digest(s), at: ((now >> 16) as u32).max(1), ttl, other_ttl }
    }

    /// Whether `s` has the TTL that copies have, which is not the first packet's.
    pub(crate) fn is_ttl_of_copies(&self, s: &Segment) -> bool {
        s.network.ttl == self.copies_ttl
    }

    /// Whether copies have been seen, or may have been.
    pub(crate) fn copies_are_expected(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.copies_expected)
    }

    /// A copy with this TTL was found: from here on more packets are kept, and what is there
    /// already.
    #[cold]
    pub(crate) fn expect_copies(&mut self, ttl: u8) {
        if ttl == self.first_ttl {
            self.alike = true;
        } else {
            self.copies_ttl = ttl;
        }
        self.kept().copies_expected = true;
    }

    /// Packets take another way from here on, so that copies have to show anew.
    pub(crate) fn forget_ttl_of_copies(&mut self) {
        self.copies_ttl = 0;
    }

    /// A packet with the usual TTL, to be kept as the latest; `None` where it may be a copy of one
    /// of those.
    #[inline(always)]
    pub(crate) fn new_packet(&self, s: &Segment, now: u64) -> Option<Passed> {
        let packet = self.packet(s, now);
        (!self.is_among_latest(packet, COPY_WITHIN)).then_some(packet)
    }

    /// This packet is the latest.
    #[inline(always)]
    pub(crate) fn keep(&mut self, packet: Passed) {
        let i = usize::from(self.oldest & 3);
        (self.digests[i], self.at[i]) = (packet.digest, packet.at);
        self.oldest = self.oldest.wrapping_add(1);
    }

    /// Whether `s`, which is `packet`, is a copy of one that is kept. Where the capture
    /// `begins_amid` the connection, it may show many packets before the first copy.
    ///
    /// A stack that retransmits counts its identification on, so equal identification within 10 ms
    /// is a copy, and longer after where a router in between has lowered the TTL. Without an
    /// identification (IPv6; or 0, constant where fragmentation is ruled out) the same TTL says
    /// nothing by itself: nothing is retransmitted within 100 µs, on a path that is `far` longer or
    /// where the SYN has shown that packets come twice, and no SYN within 10 ms (RFC 6298, section
    /// 2: 1 s).
    #[inline(always)]
    pub(crate) fn is_copy(&mut self, packet: Passed, s: &Segment, far: bool, begins_amid: bool) -> bool {
        const SYN_WITHIN: u32 = 500_000_000 / 65_536;
        const SAME_MOMENT: u32 = 100_000 / 65_536 + 1;
        let other_ttl = packet.other_ttl;
        let more_are_kept = self.copies_are_expected() || other_ttl || begins_amid;
        if !more_are_kept && !self.digests.contains(&packet.digest) {
            return false;
        }
        let id = s.network.id.unwrap_or(0);
        let within = if other_ttl && (id != 0 || self.is_ttl_of_copies(s)) {
            TWO_SECONDS
        } else if other_ttl && s.flags.contains(Flags::SYN) {
            SYN_WITHIN
        } else if id != 0 || other_ttl || s.flags.contains(Flags::SYN) {
            COPY_WITHIN
        } else if s.sequence_length() > 0 && (s.network.id.is_some() || self.alike || far) {
            SAME_MOMENT
        } else {
            0
        };
        if within > 0 && self.is_among_latest(packet, within) {
            if id != 0 || other_ttl || s.flags.contains(Flags::SYN) {
                self.expect_copies(packet.ttl);
            }
            return true;
        }
        more_are_kept && self.is_among_kept(packet, id != 0, within.min(COPY_WITHIN))
    }

    /// Whether one of the latest packets is the same and came at most `within` before this one.
    #[inline(always)]
    fn is_among_latest(&self, Passed { digest, at, .. }: Passed, within: u32) -> bool {
        // Hardly ever is one equal.
        let [a, b, c, d] = self.digests;
        (a == digest || b == digest || c == digest || d == digest)
            && (0..4).any(|i| self.digests[i] == digest && self.at[i] > 0 && at.wrapping_sub(self.at[i]) <= within)
    }

    /// The packets that are kept to find copies of them: the latest ones at first.
    fn kept(&mut self) -> &mut Kept {
        let Self { digests, at, oldest, first_ttl, .. } = self;
        self.kept.get_or_insert_with(|| {
            let oldest_first = (0..4).map(|i| usize::from(oldest.wrapping_add(i) & 3)).filter(|&i| at[i] > 0);
            let packets = oldest_first
                .map(|i| Passed { digest: digests[i], at: at[i], ttl: *first_ttl, other_ttl: false })
                .collect();
            Box::new(Kept { copies_expected: false, packets })
        })
    }

    /// Whether the same packet came by with another TTL within the last two seconds, or with the
    /// same where copies are alike; else it is kept.
    #[cold]
    fn is_among_kept(&mut self, packet: Passed, has_id: bool, alike_within: u32) -> bool {
        const KEPT: usize = 512;
        let Passed { digest, at, ttl, other_ttl } = packet;
        let alike = self.alike && alike_within > 0;
        let sought = (has_id || ttl == self.copies_ttl) && other_ttl || alike;
        let kept = self.kept();
        kept.copies_expected |= other_ttl;
        let age = |earlier: &Passed| at.wrapping_sub(earlier.at);
        let found = sought
            && kept.packets.iter().rev().take_while(|earlier| age(earlier) <= TWO_SECONDS).any(|earlier| {
                earlier.digest == digest && (earlier.ttl != ttl || alike && age(earlier) <= alike_within)
            });
        if found {
            if other_ttl {
                self.copies_ttl = ttl;
            }
            return true;
        }
        if kept.packets.len() == KEPT {
            kept.packets.pop_front();
        }
        kept.packets.push_back(packet);
        false
    }

    /// Whether a packet may follow the last one: it has the TTL of all and the identification that
    /// is next.
    #[inline(always)]
    pub(crate) fn is_continued_by(&self, s: &Segment) -> bool {
        let id = s.network.id.unwrap_or(0);
        s.network.ttl == self.first_ttl && (id == 0 || id == self.next_id)
    }

    /// By how much more than the packets since the last one the identification counts up (RFC 6864
    /// leaves that open; Linux, the BSDs and Windows count on each connection or each host). A
    /// sender that counts in larger steps as often as not shows nothing. `limit` is what one packet
    /// may carry; 0 where it is not known.
    #[inline(always)]
    pub(crate) fn skipped_ids(&mut self, s: &Segment, limit: u32) -> u16 {
        let Some(id) = s.network.id.filter(|id| *id != 0) else { return 0 };
        let step = id.wrapping_sub(self.next_id);
        if step == 0 && s.payload <= limit {
            (self.next_id, self.ids_in_step) = (id.wrapping_add(1), self.ids_in_step.saturating_add(1));
            return 0;
        }
        let counts_up = self.ids_in_step >= IN_STEP && self.ids_in_step / 2 >= self.ids_skipped;
        // One that was overtaken was sent before those that it comes behind. After some of them it
        // is believed that the sender counts anew.
        if counts_up && step >= OVERTAKEN {
            self.ids_skipped = self.ids_skipped.saturating_add(1);
            return 0;
        }
        // A frame that offload left whole counts for each of its segments.
        let segments = if s.payload > limit && limit > 0 { s.payload.div_ceil(limit) } else { 1 };
        self.next_id = id.wrapping_add(segments as u16);
        if step == 0 {
            self.ids_in_step = self.ids_in_step.saturating_add(1);
            return 0;
        }
        // Both are halved where one is full, and so keep their ratio.
        if self.ids_in_step == u8::MAX || self.ids_skipped == u8::MAX {
            self.ids_in_step /= 2;
            self.ids_skipped /= 2;
        }
        self.ids_skipped += 1;
        if counts_up && step < 0x4000 { step } else { 0 }
    }

    /// The identification that a sender which counts up gives its next packet.
    pub(crate) fn next_id(&self) -> u16 {
        self.next_id
    }
}
