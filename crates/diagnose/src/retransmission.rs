//! Retransmissions: what brought each about, and whether it was needed.

use std::collections::VecDeque;

/// What brought a retransmission about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// The retransmission timer ran out (RFC 6298), or this segment followed one for which it did.
    Timeout,
    /// Duplicate ACKs or SACK blocks above it (RFC 5681, section 3.2; RFC 8985).
    Fast,
    /// A further hole, filled within the same recovery by what SACK said (RFC 6675).
    SackRecovery,
    /// A tail-loss probe (RFC 8985, section 7).
    TailLossProbe,
    /// A SYN or SYN-ACK.
    Syn,
    /// The capture does not show.
    Unclear,
    /// A timer ran out, and whether it was the retransmission timer or a tail-loss probe's is not
    /// known: where one segment is out, both are set to the same moment (RFC 8985, section 7.2: two
    /// RTTs and a delayed ACK, and no later than the retransmission timer).
    Timer,
}

impl Class {
    pub(crate) const COUNT: usize = 7;
    /// All, in order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Timeout, Self::Fast, Self::SackRecovery, Self::TailLossProbe, Self::Syn, Self::Unclear, Self::Timer];

    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Fast => "fast retransmit",
            Self::SackRecovery => "SACK recovery",
            Self::TailLossProbe => "tail-loss probe",
            Self::Syn => "SYN retry",
            Self::Unclear => "unclear",
            Self::Timer => "timer (timeout or tail-loss probe)",
        }
    }
}

/// A recovery under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// It ends when everything before this is acknowledged.
    pub(crate) point: u64,
    pub(crate) class: Class,
    /// When the sender began to lose time over it.
    pub(crate) began: u64,
    pub(crate) number: u64,
    pub(crate) original: u64,
    /// What was acknowledged when it began.
    pub(crate) una: u64,
}

/// One segment retransmitted, until its fate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) at: u64,
    pub(crate) number: u64,
    pub(crate) class: Class,
    /// Its timestamp value, for the Eifel test.
    pub(crate) value: Option<u32>,
}

/// The last few retransmissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    /// Retransmissions for which the Eifel test is still to be made; most ACKs come when there is
    /// none.
    untested: u32,
    made: Option<Box<Made>>,
}

/// What there is from the first retransmission on.
#[derive(Clone, Debug, Default)]
struct Made {
    list: VecDeque<Repair>,
    /// The latest, whatever became of it.
    latest: Option<Repair>,
    /// How often the sender let its timer run out where one that knows probes would have sent one;
    /// 255 once it has sent one.
    unprobed: u8,
    /// See [`Repairs::renewed`].
    renewed_at: u64,
    /// The latest recovery that an ACK ended.
    ended: Option<Recovery>,
}

/// As many as a SACK recovery of a few hundred segments has open in one RTT, in part; older ones
/// stay unjudged.
const KEPT: usize = 32;

impl Repairs {
    pub(crate) fn add(&mut self, repair: Repair) {
        if self.made.as_ref().is_some_and(|m| m.list.len() == KEPT) {
            self.forget(0);
        }
        self.untested += u32::from(repair.value.is_some());
        let made = self.made.get_or_insert_default();
        made.latest = Some(repair);
        made.list.push_back(repair);
    }

    /// The latest, even where it has been found needless.
    pub(crate) fn latest(&self) -> Option<Repair> {
        self.made.as_ref()?.latest
    }

    /// When an ACK ended a recovery and left a hole, so that another recovery began; 0 for never.
    pub(crate) fn renewed_at(&self) -> u64 {
        self.made.as_ref().map_or(0, |m| m.renewed_at)
    }

    /// An ACK ended a recovery and left a hole.
    pub(crate) fn renewed(&mut self, at: u64) {
        if let Some(made) = &mut self.made {
            made.renewed_at = at;
        }
    }

    /// An ACK of everything before its point ended a recovery.
    pub(crate) fn ended(&mut self, recovery: Recovery) {
        self.made.get_or_insert_default().ended = Some(recovery);
    }

    /// The latest recovery, though an ACK that ended it has passed the capture, where the sender
    /// had not received that when it knew of no more than `una`.
    pub(crate) fn still_for_sender(&self, una: u64) -> Option<Recovery> {
        self.made.as_ref()?.ended.filter(|r| una < r.point)
    }

    /// A DSACK names `[start, end)` as received twice (RFC 3708): the retransmission that did it.
    pub(crate) fn named(&mut self, start: u64, end: u64) -> Option<Repair> {
        let i = self.made.as_ref()?.list.iter().position(|r| r.start < end && start < r.end)?;
        self.forget(i)
    }

    /// The sender let its timer run out with two segments or more out, or sent a probe.
    pub(crate) fn probed(&mut self, probed: bool) {
        let made = self.made.get_or_insert_default();
        made.unprobed = if probed { u8::MAX } else { made.unprobed.saturating_add(1) };
    }

    /// Whether earlier timeouts show that the sender sends no probes. Once may have another reason:
    /// no probe follows a timeout before new data are acknowledged.
    pub(crate) fn knows_no_probes(&self) -> bool {
        self.made.as_ref().is_some_and(|m| (2..u8::MAX).contains(&m.unprobed))
    }

    /// Whether the sender has sent a probe where a timeout would have come later.
    pub(crate) fn knows_probes(&self) -> bool {
        self.made.as_ref().is_some_and(|m| m.unprobed == u8::MAX)
    }

    fn forget(&mut self, i: usize) -> Option<Repair> {
        let repair = self.made.as_mut()?.list.remove(i)?;
        self.untested -= u32::from(repair.value.is_some());
        Some(repair)
    }

    /// Whether an ACK may yet show that a retransmission was not needed.
    pub(crate) fn may_be_needless(&self) -> bool {
        self.untested > 0
    }

    /// The first ACK to cover a retransmission echoes a value older than the retransmission's own:
    /// the original had arrived (RFC 3522).
    #[inline]
    pub(crate) fn covered(&mut self, position: u64, echo: Option<u32>) -> Option<Repair> {
        if self.untested == 0 { None } else { self.test(position, echo) }
    }

    #[cold]
    fn test(&mut self, position: u64, echo: Option<u32>) -> Option<Repair> {
        let mut needless = None;
        for (i, r) in self.made.as_mut()?.list.iter_mut().enumerate() {
            if r.end > position {
                continue;
            }
            // It stays in the list for a DSACK that may still come, but the test is made only once.
            let Some(value) = r.value.take() else { continue };
            self.untested -= 1;
            if echo.is_some_and(|echo| (echo.wrapping_sub(value) as i32) < 0) && needless.is_none() {
                needless = Some(i);
            }
        }
        needless.and_then(|i| self.forget(i))
    }
}

/// What is known when a segment is retransmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    /// Since the last ACK of any kind, or since this segment was last sent, whichever is later.
    pub(crate) quiet: u64,
    /// The path's RTT, the whole of it, where known.
    pub(crate) rtt: Option<u64>,
    pub(crate) variation: u64,
    /// Duplicate ACKs since the last advance.
    pub(crate) duplicates: u32,
    /// SACK reported something above the segment.
    pub(crate) sacked_above: bool,
    /// It is the last one that was sent, and not the first that is unacknowledged.
    pub(crate) tail: bool,
    /// It is all that is in flight.
    pub(crate) alone: bool,
    /// It was retransmitted before.
    pub(crate) again: bool,
    /// It is the first that is unacknowledged, and that or the first sign of its loss is as old as
    /// the retransmission timer.
    pub(crate) stuck: bool,
    pub(crate) recovery: Option<Class>,
    /// The capture lies behind a place where packets are lost, and the recovery's first
    /// retransmission must have come earlier.
    pub(crate) missed_first: bool,
    /// It follows the repair of another segment within half a round trip, and the sender cannot
    /// have learnt of an advance in between.
    pub(crate) back_to_back: bool,
    /// Earlier timeouts show that the sender sends no probes.
    pub(crate) knows_no_probes: bool,
    pub(crate) sack_in_use: bool,
    /// The peer's ACKs are in the capture at all.
    pub(crate) answers_seen: bool,
}

impl Signs {
    /// Without SACK, fast recovery repairs one segment for each ACK that advances (RFC 6582,
    /// section 3.2). Who retransmits more at a time begins anew from the first segment that is not
    /// acknowledged, which a sender does when its timer ran out.
    fn goes_back(&self) -> bool {
        !self.sack_in_use && self.back_to_back
    }

    /// Nothing was heard for so long that a timer ran out.
    pub(crate) fn by_timer(&self) -> bool {
        let rtt = self.rtt.unwrap_or(100_000_000);
        let varied = rtt.saturating_add(self.variation.saturating_mul(2));
        self.quiet >= rtt.saturating_add(rtt / 2).max(varied).max(10_000_000)
    }
}

/// The class by these signs.
///
/// A sender retransmits because of an ACK, or because a timer ran out: first it is asked which. An
/// ACK-driven one follows an ACK within the reordering window of RACK (a quarter of an RTT; RFC
/// 8985, section 6.2) at the most, a timer waits for at least 1.5 RTT (a probe for two, section
/// 7.2).
pub(crate) fn classify(s: &Signs) -> Class {
    if !s.answers_seen {
        return Class::Unclear;
    }
    let rtt = s.rtt.unwrap_or(100_000_000);
    let by_timer = s.by_timer();
    // The ACK that shows a loss and the timer meet by chance only: what comes right behind the ACK
    // is its doing.
    let shown = s.duplicates >= 3 || s.sacked_above && s.recovery.is_none();
    let by_ack = !s.again && shown && s.quiet < rtt / 8;
    // Linux lets the retransmission timer run for an RTT and 200 ms at least, and sends a probe
    // after two RTTs. Where but one segment is out, the probe gives a delayed ACK another 200 ms
    // (section 7.2), or comes when the timer would; a sender that knows no probes looks the same
    // then, but those that use SACK and do not are the older ones.
    let before_timeout = if s.alone && s.sack_in_use {
        s.quiet < rtt.saturating_mul(2).saturating_add(250_000_000)
    } else {
        s.quiet < rtt.saturating_add(190_000_000)
    };
    // RACK's reordering timer: a quarter of an RTT, and up to three ticks of the kernel's clock (of
    // 10 ms at most).
    let by_rack = s.sacked_above && !s.again && s.recovery.is_none() && s.quiet < rtt / 4 + 30_000_000;
    let probe = (s.tail || s.alone) && !s.again && before_timeout && s.recovery.is_none();
    match s.recovery {
        Some(Class::Timeout) => Class::Timeout,
        _ if s.goes_back() => Class::Timeout,
        // ACKs still come, but an earlier repair was lost: they do not set the timer back.
        _ if s.stuck && !by_ack => Class::Timeout,
        _ if by_timer && probe && !s.knows_no_probes => Class::TailLossProbe,
        _ if by_timer && !by_rack => Class::Timeout,
        Some(Class::Fast | Class::SackRecovery) if s.sack_in_use => Class::SackRecovery,
        Some(Class::Fast | Class::SackRecovery) => Class::Fast,
        _ if s.missed_first => Class::SackRecovery,
        _ if s.sacked_above || s.duplicates > 0 => Class::Fast,
        // No ACK speaks of a loss, so that only a timer is left.
        _ if s.quiet >= rtt / 4 && s.quiet >= 3_000_000 => Class::Timeout,
        _ => Class::Unclear,
    }
}

/// The class as it is reported: a probe of a single segment looks like a timeout, unless it comes
/// before any retransmission timer or its sender is known to send probes.
pub(crate) fn reported(class: Class, s: &Signs, knows_probes: bool) -> Class {
    let timeout = s.rtt.unwrap_or(100_000_000).saturating_add(190_000_000);
    if class == Class::TailLossProbe && s.alone && s.quiet >= timeout && !knows_probes { Class::Timer } else { class }
}

/// What is known of a segment that was retransmitted although its acknowledgment had passed the
/// capture: its sender had not got that yet, or never got it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belated {
    /// Since the sender last sent anything.
    pub(crate) silent: u64,
    /// The sender's latest retransmission, less than an RTT before.
    pub(crate) last: Option<Class>,
    /// Duplicate ACKs and SACK blocks were on their way to the sender.
    pub(crate) disordered: bool,
}

/// The class of such a segment. Its sender went on with what it was at; where it had been silent,
/// the ACK was lost and a timer ran out.
pub(crate) fn belated(b: &Belated, s: &Signs) -> Class {
    let unheard = Signs { quiet: b.silent, stuck: false, ..*s };
    match b.last {
        _ if s.goes_back() => Class::Timeout,
        _ if unheard.by_timer() => {
            classify(&Signs { recovery: s.recovery.filter(|c| *c == Class::Timeout), ..unheard })
        }
        Some(Class::Fast | Class::SackRecovery) if s.sack_in_use => Class::SackRecovery,
        Some(class @ (Class::Timeout | Class::Fast)) => class,
        _ if b.disordered => Class::Fast,
        _ => Class::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs() -> Signs {
        Signs {
            quiet: 0,
            rtt: Some(50_000_000),
            variation: 1_000_000,
            duplicates: 0,
            sacked_above: false,
            tail: false,
            alone: false,
            again: false,
            stuck: false,
            recovery: None,
            missed_first: false,
            back_to_back: false,
            knows_no_probes: false,
            sack_in_use: true,
            answers_seen: true,
        }
    }

    #[test]
    fn each_class_has_its_signs() {
        let ms = 1_000_000;
        for (case, class) in [
            (Signs { quiet: 260 * ms, ..signs() }, Class::Timeout),
            (Signs { quiet: 260 * ms, duplicates: 5, sacked_above: true, ..signs() }, Class::Timeout),
            (Signs { quiet: 110 * ms, tail: true, ..signs() }, Class::TailLossProbe),
            (Signs { quiet: 260 * ms, alone: true, ..signs() }, Class::TailLossProbe),
            (Signs { quiet: 260 * ms, alone: true, sack_in_use: false, ..signs() }, Class::Timeout),
            (Signs { quiet: 360 * ms, alone: true, ..signs() }, Class::Timeout),
            (Signs { quiet: 110 * ms, tail: true, again: true, ..signs() }, Class::Timeout),
            (Signs { duplicates: 3, again: true, stuck: true, ..signs() }, Class::Timeout),
            (Signs { duplicates: 3, ..signs() }, Class::Fast),
            (Signs { sacked_above: true, recovery: Some(Class::Fast), ..signs() }, Class::SackRecovery),
            (Signs { recovery: Some(Class::Fast), sack_in_use: false, ..signs() }, Class::Fast),
            (Signs { recovery: Some(Class::Fast), sack_in_use: false, back_to_back: true, ..signs() }, Class::Timeout),
            (Signs { recovery: Some(Class::Fast), back_to_back: true, ..signs() }, Class::SackRecovery),
            (Signs { recovery: Some(Class::Timeout), ..signs() }, Class::Timeout),
            (Signs { quiet: ms, ..signs() }, Class::Unclear),
            (Signs { quiet: 300 * ms, answers_seen: false, ..signs() }, Class::Unclear),
        ] {
            assert_eq!(classify(&case), class, "{case:?}");
        }
    }

    #[test]
    fn a_probe_of_a_single_segment_is_one_only_where_no_timeout_can_have_been_it() {
        let alone = |ms: u64| Signs { quiet: ms * 1_000_000, alone: true, ..signs() };
        assert_eq!(reported(Class::TailLossProbe, &alone(250), false), Class::Timer);
        assert_eq!(reported(Class::TailLossProbe, &alone(110), false), Class::TailLossProbe);
        assert_eq!(reported(Class::TailLossProbe, &alone(250), true), Class::TailLossProbe);
        assert_eq!(reported(Class::TailLossProbe, &Signs { tail: true, ..signs() }, false), Class::TailLossProbe);
        assert_eq!(reported(Class::Timeout, &alone(250), false), Class::Timeout);
    }

    #[test]
    fn an_old_echo_or_a_dsack_shows_a_retransmission_as_spurious_once() {
        let mut repairs = Repairs::default();
        let repair = Repair { start: 10, end: 20, at: 0, number: 7, class: Class::Fast, value: Some(100) };
        repairs.add(repair);
        assert!(repairs.covered(15, Some(50)).is_none());
        assert_eq!(repairs.covered(20, Some(50)).map(|r| r.number), Some(7));
        assert!(repairs.named(10, 20).is_none());
        repairs.add(repair);
        assert!(repairs.covered(20, Some(100)).is_none(), "the retransmission itself was echoed");
        assert_eq!(repairs.named(10, 20).map(|r| r.number), Some(7));
    }
    #[test]
    fn a_recovery_lasts_for_its_sender_until_that_learns_of_the_ack_which_ended_it() {
        let mut repairs = Repairs::default();
        assert!(repairs.still_for_sender(0).is_none());
        repairs.ended(Recovery { point: 50, class: Class::Fast, began: 1, number: 2, original: 3, una: 10 });
        assert_eq!(repairs.still_for_sender(49).map(|r| r.class), Some(Class::Fast));
        assert!(repairs.still_for_sender(50).is_none());
    }
}
