//! Matching stamps to sends.

use timestamping::{Instant, Matched, Matcher, Stages, Times, TransmitStage, TransmitStamp};

use crate::queue::{wlts_kind, wlts_report};
use crate::request::wlts_enabled;

/// Matches stamps to the sends they are of, and counts what never came.
pub struct wlts_matcher(Matcher<u64>);

/// A send with the stamps that came for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_matched {
    /// Its id in 64 bits.
    pub id: u64,
    /// What the program gave with the send.
    pub tag: u64,
    /// When the program says it sent, nanoseconds on CLOCK_REALTIME.
    pub sent_ns: u64,
    /// The stages that it has stamps of.
    pub got: u8,
    /// The stages whose stamps never came.
    pub missing: u8,
    /// The kernel's times, nanoseconds on CLOCK_REALTIME, in the order of the stages' bits; 0 for
    /// those that are not in `got`, and for the NIC's, which is `nic_ns`.
    pub at_ns: [u64; 5],
    /// When the NIC put it on the wire, nanoseconds on its own clock, where `got` has `WLTS_NIC`.
    pub nic_ns: u64,
}

impl From<Matched<u64>> for wlts_matched {
    fn from(matched: Matched<u64>) -> Self {
        let mut got = Stages::empty();
        let mut at_ns = [0; TransmitStage::ALL.len()];
        for stage in TransmitStage::ALL {
            if let Some(at) = matched.at(stage) {
                got |= stage.into();
                at_ns[stage as usize] = at.as_nanos();
            }
        }
        if matched.nic().is_some() {
            got |= Stages::NIC;
        }
        Self {
            id: matched.id,
            tag: matched.tag,
            sent_ns: matched.sent.as_nanos(),
            got: got.bits(),
            missing: matched.missing().bits(),
            at_ns,
            nic_ns: matched.nic().map_or(0, |at| at.as_nanos()),
        }
    }
}

/// What became of the stamps: `sent` = `complete` + `incomplete` + the pending ones, always.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_counts {
    /// Sends that were noted.
    pub sent: u64,
    /// Of these, finished with every stamp.
    pub complete: u64,
    /// Of these, finished with stamps missing.
    pub incomplete: u64,
    /// Stamps that never came, in the order of the stages' bits.
    pub never_came: [u64; 5],
    /// Stamps matched to a send.
    pub matched: u64,
    /// Second stamps of a stage: the first is kept.
    pub repeated: u64,
    /// Stamps of sends that are not known.
    pub unknown: u64,
    /// Sends that wait for stamps.
    pub pending: u64,
}

/// A matcher for the socket of `enabled`, that holds up to `capacity` sends; null for null. To be
/// freed by wlts_matcher_free().
///
/// # Safety
/// `enabled` is null or from wlts_enable().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_new(enabled: *const wlts_enabled, capacity: usize) -> *mut wlts_matcher {
    // SAFETY: the caller's part.
    let Some(enabled) = (unsafe { enabled.as_ref() }) else { return std::ptr::null_mut() };
    let matcher = Matcher::new(enabled.0.counting(), enabled.0.stages(), capacity);
    Box::into_raw(Box::new(wlts_matcher(matcher)))
}

/// Frees it.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new(), and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_free(matcher: *mut wlts_matcher) {
    if !matcher.is_null() {
        // SAFETY: it was made by Box::into_raw, and the caller gives it up.
        drop(unsafe { Box::from_raw(matcher) });
    }
}

/// Notes a send of `bytes` at `at_ns` (wlts_now_ns() before it), after it succeeded. False for
/// null, and for a write of no bytes, which has no id.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_sent(matcher: *mut wlts_matcher, bytes: usize, at_ns: u64, tag: u64) -> bool {
    // SAFETY: the caller's part.
    let Some(matcher) = (unsafe { matcher.as_mut() }) else { return false };
    matcher.0.sent(bytes, Instant::from_nanos(at_ns), tag).is_some()
}

/// Notes a send of `bytes` that asked for no stamps: on a stream its bytes count all the same.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_sent_unstamped(matcher: *mut wlts_matcher, bytes: usize) {
    // SAFETY: the caller's part.
    if let Some(matcher) = unsafe { matcher.as_mut() } {
        matcher.0.sent_unstamped(bytes);
    }
}

/// Notes a send with an id that the program chose, which must be larger than those before. False
/// where it is not, and for null.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_sent_with_id(matcher: *mut wlts_matcher, id: u64, at_ns: u64, tag: u64) -> bool {
    // SAFETY: the caller's part.
    let Some(matcher) = (unsafe { matcher.as_mut() }) else { return false };
    matcher.0.sent_with_id(id, Instant::from_nanos(at_ns), tag)
}

/// Matches a stamp to its send. False where it is no stamp or no send waits for it, and for null.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new(); `report` is null or what a callback was handed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_stamp(matcher: *mut wlts_matcher, report: *const wlts_report) -> bool {
    // SAFETY: the caller's part.
    let (matcher, report) = unsafe { (matcher.as_mut(), report.as_ref()) };
    let (Some(matcher), Some(report)) = (matcher, report) else { return false };
    let stage = TransmitStage::ALL.into_iter().find(|stage| report.stage == 1 << *stage as u8);
    let (wlts_kind::WLTS_STAMP, Some(stage)) = (report.kind, stage) else { return false };
    let times = Times {
        software: report.times.has_software.then(|| Instant::from_nanos(report.times.software_ns)),
        hardware: report.times.has_hardware.then(|| Instant::from_nanos(report.times.hardware_ns)),
    };
    let stamp = TransmitStamp { stage, id: report.id, times, interface: None, raw_stats: None, payload: &[] };
    matcher.0.stamp(&stamp).is_some()
}

/// The next send that no stamp is expected for, in the order of sending. False where there is none,
/// and for null.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new(), `matched` null or points to room for a send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_finished(matcher: *mut wlts_matcher, matched: *mut wlts_matched) -> bool {
    // SAFETY: the caller's part.
    let (matcher, matched) = unsafe { (matcher.as_mut(), matched.as_mut()) };
    let (Some(matcher), Some(matched)) = (matcher, matched) else { return false };
    match matcher.0.finished() {
        Some(finished) => *matched = finished.into(),
        None => return false,
    }
    true
}

/// Gives up every send before `moment_ns`, so that wlts_matcher_finished() gives it with the stamps
/// that came; UINT64_MAX gives up all.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_give_up(matcher: *mut wlts_matcher, moment_ns: u64) {
    // SAFETY: the caller's part.
    if let Some(matcher) = unsafe { matcher.as_mut() } {
        match moment_ns {
            u64::MAX => matcher.0.give_up(),
            _ => matcher.0.give_up_before(Instant::from_nanos(moment_ns)),
        }
    }
}

/// What became of the stamps so far; all zeroes for null.
///
/// # Safety
/// `matcher` is null or from wlts_matcher_new().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_matcher_counts(matcher: *const wlts_matcher) -> wlts_counts {
    // SAFETY: the caller's part.
    let Some(matcher) = (unsafe { matcher.as_ref() }) else { return wlts_counts::default() };
    let counts = matcher.0.counts();
    wlts_counts {
        sent: counts.sent,
        complete: counts.complete,
        incomplete: counts.incomplete,
        never_came: counts.never_came,
        matched: counts.matched,
        repeated: counts.repeated,
        unknown: counts.unknown,
        pending: matcher.0.pending() as u64,
    }
}
