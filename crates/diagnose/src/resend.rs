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
}

impl Class {
    pub(crate) const COUNT: usize = 6;
    /// All, in order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Timeout, Self::Fast, Self::SackRecovery, Self::TailLossProbe, Self::Syn, Self::Unclear];

    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Fast => "fast retransmit",
            Self::SackRecovery => "SACK recovery",
            Self::TailLossProbe => "tail-loss probe",
            Self::Syn => "SYN retry",
            Self::Unclear => "unclear",
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
    list: VecDeque<Repair>,
    /// Retransmissions for which the Eifel test is still to be made; most ACKs come when there is none.
    untested: usize,
}

/// As many as a SACK recovery of a few hundred segments has open in one RTT, in part; older ones stay unjudged.
const KEPT: usize = 32;

impl Repairs {
    pub(crate) fn add(&mut self, repair: Repair) {
        if self.list.len() == KEPT {
            self.forget(0);
        }
        self.untested += usize::from(repair.value.is_some());
        self.list.push_back(repair);
    }

    /// The latest, if it has not been found needless.
    pub(crate) fn last(&self) -> Option<&Repair> {
        self.list.back()
    }

    /// A DSACK names `[start, end)` as received twice (RFC 3708): the retransmission that did it.
    pub(crate) fn named(&mut self, start: u64, end: u64) -> Option<Repair> {
        let i = self.list.iter().position(|r| r.start < end && start < r.end)?;
        self.forget(i)
    }

    fn forget(&mut self, i: usize) -> Option<Repair> {
        let repair = self.list.remove(i)?;
        self.untested -= usize::from(repair.value.is_some());
        Some(repair)
    }

    /// The first ACK to cover a retransmission echoes a value older than the retransmission's own: the original had arrived (RFC 3522).
    pub(crate) fn covered(&mut self, position: u64, echo: Option<u32>) -> Option<Repair> {
        if self.untested == 0 {
            return None;
        }
        let mut needless = None;
        for i in 0..self.list.len() {
            let r = &mut self.list[i];
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
    /// It is the first that is unacknowledged, and that or the first sign of its loss is as old as the retransmission timer.
    pub(crate) stuck: bool,
    pub(crate) recovery: Option<Class>,
    pub(crate) sack_in_use: bool,
    /// The peer's ACKs are in the capture at all.
    pub(crate) answers_seen: bool,
}

impl Signs {
    /// Nothing was heard for so long that a timer ran out.
    pub(crate) fn by_timer(&self) -> bool {
        let rtt = self.rtt.unwrap_or(100_000_000);
        let varied = rtt.saturating_add(self.variation.saturating_mul(2));
        self.quiet >= rtt.saturating_add(rtt / 2).max(varied).max(10_000_000)
    }
}

/// The class by these signs.
///
/// A sender retransmissions because of an ACK, or because a timer ran out: first it is asked which. An ACK-driven one
/// follows an ACK within the reordering window of RACK (a quarter of an RTT; RFC 8985, section 6.2) at the most, a timer
/// waits for at least 1.5 RTT (a probe for two, section 7.2).
pub(crate) fn classify(s: &Signs) -> Class {
    if !s.answers_seen {
        return Class::Unclear;
    }
    let rtt = s.rtt.unwrap_or(100_000_000);
    let by_timer = s.by_timer();
    // The third duplicate ACK and the timer meet by chance only: what comes right behind the ACK is its doing.
    let by_third = !s.again && s.duplicates >= 3 && s.quiet < rtt / 8;
    // Linux lets the retransmission timer run for an RTT and 200 ms at least, and sends a probe after two RTTs. Where but
    // one segment is out, the probe gives a delayed ACK another 200 ms (section 7.2), or comes when the timer would; a
    // sender that knows no probes looks the same then, but those that use SACK and do not are the older ones.
    let before_timeout = if s.alone && s.sack_in_use {
        s.quiet < rtt.saturating_mul(2).saturating_add(250_000_000)
    } else {
        s.quiet < rtt.saturating_add(190_000_000)
    };
    match s.recovery {
        Some(Class::Timeout) => Class::Timeout,
        // ACKs still come, but an earlier repair was lost: they do not set the timer back.
        _ if s.stuck && !by_third => Class::Timeout,
        _ if by_timer && (s.tail || s.alone) && !s.again && before_timeout && s.recovery.is_none() => {
            Class::TailLossProbe
        }
        _ if by_timer => Class::Timeout,
        Some(Class::Fast | Class::SackRecovery) if s.sack_in_use => Class::SackRecovery,
        Some(Class::Fast | Class::SackRecovery) => Class::Fast,
        _ if s.sacked_above || s.duplicates > 0 => Class::Fast,
        // No ACK speaks of a loss, so that only a timer is left.
        _ if s.quiet >= rtt / 4 && s.quiet >= 3_000_000 => Class::Timeout,
        _ => Class::Unclear,
    }
}

/// The class of a segment that was retransmitted although its acknowledgment had passed the capture: its sender had not got
/// that yet, and went on with what it was at in its `last` retransmission, less than an RTT before; or duplicate ACKs and SACK blocks were on their way to it.
pub(crate) fn belated(last: Option<Class>, sack_in_use: bool, disordered: bool) -> Class {
    match last {
        Some(Class::Fast | Class::SackRecovery) if sack_in_use => Class::SackRecovery,
        Some(class @ (Class::Timeout | Class::Fast)) => class,
        _ if disordered => Class::Fast,
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
            (Signs { recovery: Some(Class::Timeout), ..signs() }, Class::Timeout),
            (Signs { quiet: ms, ..signs() }, Class::Unclear),
            (Signs { quiet: 300 * ms, answers_seen: false, ..signs() }, Class::Unclear),
        ] {
            assert_eq!(classify(&case), class, "{case:?}");
        }
    }

    #[test]
    fn an_old_echo_or_a_dsack_convicts_a_resend_once() {
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
}
