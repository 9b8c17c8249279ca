//! Reading the error queue.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use timestamping::{BatchSize, ErrorQueue, ParseError, Report, Times};

use crate::request::borrow;
use crate::result::{Failure, c_text, run, wlts_result};

/// What lay on the error queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum wlts_kind {
    /// A stamp of a send: `stage`, `id`, the times, `interface`, `payload`, `stats`.
    WLTS_STAMP = 0,
    /// An ICMP error: `icmp_v6`, `icmp_type`, `icmp_code`, `error`, `info`, the times, `payload` as
    /// far as it came back, `text` with what it says, `offender`.
    WLTS_ICMP = 1,
    /// An error of this host itself: `error`, and `info` with the MTU for EMSGSIZE.
    WLTS_LOCAL = 2,
    /// MSG_ZEROCOPY sends `first` to `last` are done with their buffers; `copied` says whether the
    /// kernel copied after all.
    WLTS_ZERO_COPY = 3,
    /// Well-formed, of an origin that is not known: `error`, `info`.
    WLTS_OTHER = 4,
    /// It cannot be read: `text` says why.
    WLTS_BROKEN = 5,
}

use wlts_kind::{WLTS_BROKEN, WLTS_ICMP, WLTS_LOCAL, WLTS_OTHER, WLTS_STAMP, WLTS_ZERO_COPY};

/// The times of a stamp, each where it is there.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_times {
    /// Whether the kernel took a time.
    pub has_software: bool,
    /// Whether the NIC took one.
    pub has_hardware: bool,
    /// The kernel's, nanoseconds on CLOCK_REALTIME.
    pub software_ns: u64,
    /// The NIC's, nanoseconds on its own clock.
    pub hardware_ns: u64,
}

impl From<Times> for wlts_times {
    fn from(times: Times) -> Self {
        Self {
            has_software: times.software.is_some(),
            has_hardware: times.hardware.is_some(),
            software_ns: times.software.map_or(0, |at| at.as_nanos()),
            hardware_ns: times.hardware.map_or(0, |at| at.as_nanos()),
        }
    }
}

/// One message of an error queue. `kind` says which fields it has; the others are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wlts_report {
    /// What it is.
    pub kind: wlts_kind,
    /// One of `WLTS_SCHED`, ….
    pub stage: u8,
    /// Whether `interface` is known.
    pub has_interface: bool,
    /// ICMPv6, not ICMP.
    pub icmp_v6: bool,
    /// The ICMP type.
    pub icmp_type: u8,
    /// The ICMP code.
    pub icmp_code: u8,
    /// Whether the kernel copied the data of zero-copy sends.
    pub copied: bool,
    /// The send's id modulo 2³²: the number of the datagram, or the position of its last byte.
    pub id: u32,
    /// Index of the interface that it left by.
    pub interface: u32,
    /// The error number (errno).
    pub error: u32,
    /// The path MTU, where the packet was too big.
    pub info: u32,
    /// The first of the zero-copy sends.
    pub first: u32,
    /// The last of them.
    pub last: u32,
    /// When.
    pub times: wlts_times,
    /// The packet, from its link-layer header on, where it was asked for.
    pub payload: *const u8,
    /// Its bytes.
    pub payload_length: usize,
    /// TCP's figures, for wlts_stats_read(); null without.
    pub stats: *const u8,
    /// Their bytes.
    pub stats_length: usize,
    /// What an ICMP error or a broken message says; null otherwise.
    pub text: *const c_char,
    /// The address of who sent the ICMP error; null where it is not known.
    pub offender: *const c_char,
}

const NOTHING: wlts_report = wlts_report {
    kind: WLTS_OTHER,
    stage: 0,
    has_interface: false,
    icmp_v6: false,
    icmp_type: 0,
    icmp_code: 0,
    copied: false,
    id: 0,
    interface: 0,
    error: 0,
    info: 0,
    first: 0,
    last: 0,
    times: wlts_times { has_software: false, has_hardware: false, software_ns: 0, hardware_ns: 0 },
    payload: null(),
    payload_length: 0,
    stats: null(),
    stats_length: 0,
    text: null(),
    offender: null(),
};

/// Hands `each` what C is told of a message, which is valid until it returns.
fn told(message: Result<Report<'_>, ParseError>, each: impl FnOnce(&wlts_report)) {
    match message {
        Ok(Report::Stamp(stamp)) => each(&wlts_report {
            kind: WLTS_STAMP,
            stage: 1 << stamp.stage as u8,
            has_interface: stamp.interface.is_some(),
            interface: stamp.interface.unwrap_or(0),
            id: stamp.id,
            times: stamp.times.into(),
            payload: stamp.payload.as_ptr(),
            payload_length: stamp.payload.len(),
            stats: stamp.raw_stats.map_or(null(), <[u8]>::as_ptr),
            stats_length: stamp.raw_stats.map_or(0, <[u8]>::len),
            ..NOTHING
        }),
        Ok(Report::Icmp(icmp)) => {
            let text = c_text(icmp.name());
            let offender = icmp.offender.map(|address| c_text(&address.to_string()));
            each(&wlts_report {
                kind: WLTS_ICMP,
                icmp_v6: icmp.v6,
                icmp_type: icmp.kind,
                icmp_code: icmp.code,
                error: icmp.errno,
                info: icmp.info,
                times: icmp.times.into(),
                payload: icmp.payload.as_ptr(),
                payload_length: icmp.payload.len(),
                text: text.as_ptr(),
                offender: offender.as_ref().map_or(null(), |address| address.as_ptr()),
                ..NOTHING
            });
        }
        Ok(Report::Local { errno, info }) => each(&wlts_report { kind: WLTS_LOCAL, error: errno, info, ..NOTHING }),
        Ok(Report::ZeroCopy { first, last, copied }) => {
            each(&wlts_report { kind: WLTS_ZERO_COPY, first, last, copied, ..NOTHING });
        }
        Ok(Report::Other(error)) => each(&wlts_report { error: error.errno, info: error.info, ..NOTHING }),
        // The enum may grow.
        Ok(_) => each(&NOTHING),
        Err(broken) => {
            let text = c_text(&broken.to_string());
            each(&wlts_report { kind: WLTS_BROKEN, text: text.as_ptr(), ..NOTHING });
        }
    }
}

/// A reader of error queues, with its buffers.
pub struct wlts_queue(ErrorQueue);

/// The size of a batch; 0 takes the library's own figure.
pub(crate) fn batch_size(messages: usize, payload: usize, control: usize) -> BatchSize {
    let usual = BatchSize::default();
    let or = |asked: usize, usual: usize| if asked == 0 { usual } else { asked };
    BatchSize {
        messages: or(messages, usual.messages),
        payload: or(payload, usual.payload),
        control: or(control, usual.control),
    }
}

/// A reader that takes up to `messages` with one system call and keeps up to `payload` and
/// `control` bytes of each; 0 for 64, 128 and 512. To be freed by wlts_queue_free().
#[unsafe(no_mangle)]
pub extern "C" fn wlts_queue_new(messages: usize, payload: usize, control: usize) -> *mut wlts_queue {
    Box::into_raw(Box::new(wlts_queue(ErrorQueue::new(batch_size(messages, payload, control)))))
}

/// Frees it.
///
/// # Safety
/// `queue` is null or from wlts_queue_new(), and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_queue_free(queue: *mut wlts_queue) {
    if !queue.is_null() {
        // SAFETY: it was made by Box::into_raw, and the caller gives it up.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// What a callback is handed.
pub type wlts_each_report = Option<unsafe extern "C" fn(context: *mut c_void, report: *const wlts_report)>;

/// Reads up to one batch of the error queue of `socket` and hands each message to `each`; `*count`
/// is how many there were. Never waits: an empty queue gives 0.
///
/// # Safety
/// `queue` is null or from wlts_queue_new(), and `count` is null or points to room for the number.
/// `each` takes `context`, and does not use `queue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_queue_read(
    queue: *mut wlts_queue,
    socket: c_int,
    each: wlts_each_report,
    context: *mut c_void,
    count: *mut usize,
) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let (queue, count) = unsafe { (queue.as_mut(), count.as_mut()) };
        let (Some(queue), Some(count), Some(each)) = (queue, count, each) else {
            return Err(Failure::Argument("wlts_queue_read: a null pointer"));
        };
        // SAFETY: a call of the caller's function, with the context it came with.
        *count = queue.0.read(borrow(socket)?, |message| told(message, |report| unsafe { each(context, report) }))?;
        Ok(())
    })
}
