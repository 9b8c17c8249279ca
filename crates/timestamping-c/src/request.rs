//! Asking a socket for timestamps.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use timestamping::{Counting, Enabled, Flags, Ready, Realtime, Request, Stages};

use crate::result::{Failure, run, wlts_result};

/// A stage: the packet enters the packet scheduler.
pub const WLTS_SCHED: u8 = 1 << 0;
/// A stage: the packet is handed to the driver.
pub const WLTS_DRIVER: u8 = 1 << 1;
/// A stage: the NIC put the packet on the wire.
pub const WLTS_NIC: u8 = 1 << 2;
/// A stage: the device reported that the packet went out.
pub const WLTS_COMPLETION: u8 = 1 << 3;
/// A stage: the peer acknowledged the last byte. TCP only.
pub const WLTS_ACK: u8 = 1 << 4;

const _: () = assert!(
    WLTS_SCHED == Stages::SCHED.bits()
        && WLTS_DRIVER == Stages::DRIVER.bits()
        && WLTS_NIC == Stages::NIC.bits()
        && WLTS_COMPLETION == Stages::COMPLETION.bits()
        && WLTS_ACK == Stages::ACK.bits()
);

/// What wlts_wait() waits for or found: something is on the error queue.
pub const WLTS_ERRORS: u8 = 1 << 0;
/// What wlts_wait() waits for or found: something can be received.
pub const WLTS_READABLE: u8 = 1 << 1;
/// What wlts_wait() waits for or found: something can be sent.
pub const WLTS_WRITABLE: u8 = 1 << 2;

/// What to ask of a socket. All zeroes ask nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_request {
    /// Stages (`WLTS_SCHED | …`) at which to stamp what is sent.
    pub stages: u8,
    /// Stamp only sends that ask for it (wlts_send_options), not every one.
    pub per_send: bool,
    /// Stamp what is received where it enters the stack.
    pub receive_software: bool,
    /// Stamp what is received in the NIC.
    pub receive_hardware: bool,
    /// No receive stamps that only other sockets asked for (Linux 6.12).
    pub only_own_receive_stamps: bool,
    /// TCP's own figures with each stamp.
    pub stats: bool,
    /// The interface with each stamp.
    pub packet_info: bool,
    /// The packet with each stamp of a send.
    pub with_payload: bool,
    /// No ids.
    pub without_ids: bool,
    /// ICMP errors on the error queue too.
    pub icmp_errors: bool,
    /// TTL or hop limit with what is received.
    pub ttl: bool,
    /// How many datagrams the socket dropped, with what is received.
    pub count_drops: bool,
    /// Go on without options that the kernel lacks; wlts_enabled_left_out() has them.
    pub lenient: bool,
    /// Hardware stamps on the virtual PTP clock `phc`.
    pub bind_phc: bool,
    /// Index of that clock.
    pub phc: u32,
    /// Further flags, SOF_TIMESTAMPING_* of <linux/net_tstamp.h>.
    pub flags: u32,
}

impl wlts_request {
    fn to_library(self) -> Result<Request, Failure> {
        let mut request = Request::new().flags(Flags::from_bits_retain(self.flags));
        let stages = stages(self.stages)?;
        request = if self.per_send { request.transmit_per_send(stages) } else { request.transmit(stages) };
        type Ask = fn(Request) -> Request;
        let choices: [(bool, Ask); 11] = [
            (self.receive_software, Request::receive_software),
            (self.receive_hardware, Request::receive_hardware),
            (self.only_own_receive_stamps, Request::only_own_receive_stamps),
            (self.stats, Request::stats),
            (self.packet_info, Request::packet_info),
            (self.with_payload, Request::with_payload),
            (self.without_ids, Request::without_ids),
            (self.icmp_errors, Request::icmp_errors),
            (self.ttl, Request::ttl),
            (self.count_drops, Request::count_drops),
            (self.lenient, Request::lenient),
        ];
        for (_, ask) in choices.into_iter().filter(|(chosen, _)| *chosen) {
            request = ask(request);
        }
        Ok(if self.bind_phc { request.bind_phc(self.phc) } else { request })
    }
}

pub(crate) fn stages(bits: u8) -> Result<Stages, Failure> {
    Stages::from_bits(bits).ok_or(Failure::Argument("there is no such stage"))
}

/// What a socket has after wlts_enable().
pub struct wlts_enabled(pub(crate) Enabled);

pub(crate) fn borrow<'fd>(fd: c_int) -> Result<BorrowedFd<'fd>, Failure> {
    if fd < 0 {
        return Err(Failure::Argument("a negative number is no descriptor"));
    }
    // SAFETY: -1 is excluded above. The caller's descriptor is used within its call alone; one that
    // is closed makes system calls fail with EBADF.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Asks `socket` for timestamps. `*enabled` is to be freed by wlts_enabled_free().
///
/// # Safety
/// `request` points to a request, `enabled` to room for a pointer; or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enable(
    socket: c_int,
    request: *const wlts_request,
    enabled: *mut *mut wlts_enabled,
) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let (request, enabled) = unsafe { (request.as_ref(), enabled.as_mut()) };
        let (Some(request), Some(enabled)) = (request, enabled) else {
            return Err(Failure::Argument("wlts_enable: a null pointer"));
        };
        let found = request.to_library()?.enable(borrow(socket)?)?;
        *enabled = Box::into_raw(Box::new(wlts_enabled(found)));
        Ok(())
    })
}

/// Frees it; the socket stays as it is.
///
/// # Safety
/// `enabled` is null or from wlts_enable(), and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enabled_free(enabled: *mut wlts_enabled) {
    if !enabled.is_null() {
        // SAFETY: it was made by Box::into_raw, and the caller gives it up.
        drop(unsafe { Box::from_raw(enabled) });
    }
}

/// The flags that are set, SOF_TIMESTAMPING_* of <linux/net_tstamp.h>; 0 for null.
///
/// # Safety
/// `enabled` is null or from wlts_enable().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enabled_flags(enabled: *const wlts_enabled) -> u32 {
    // SAFETY: the caller's part.
    unsafe { enabled.as_ref() }.map_or(0, |enabled| enabled.0.flags().bits())
}

/// The flags that a lenient request went on without; 0 for null.
///
/// # Safety
/// `enabled` is null or from wlts_enable().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enabled_left_out(enabled: *const wlts_enabled) -> u32 {
    // SAFETY: the caller's part.
    unsafe { enabled.as_ref() }.map_or(0, |enabled| enabled.0.left_out().bits())
}

/// The stages at which sends are stamped; 0 for null.
///
/// # Safety
/// `enabled` is null or from wlts_enable().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enabled_stages(enabled: *const wlts_enabled) -> u8 {
    // SAFETY: the caller's part.
    unsafe { enabled.as_ref() }.map_or(0, |enabled| enabled.0.stages().bits())
}

/// Whether ids are positions of bytes (TCP) and not numbers of datagrams; false for null.
///
/// # Safety
/// `enabled` is null or from wlts_enable().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_enabled_counts_bytes(enabled: *const wlts_enabled) -> bool {
    // SAFETY: the caller's part.
    unsafe { enabled.as_ref() }.is_some_and(|enabled| enabled.0.counting() == Counting::Bytes)
}

/// The flags that the running kernel knows, found by trying each.
///
/// # Safety
/// `flags` is null or points to room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_supported(flags: *mut u32) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let flags = unsafe { flags.as_mut() }.ok_or(Failure::Argument("wlts_supported: a null pointer"))?;
        *flags = Flags::supported()?.bits();
        Ok(())
    })
}

/// Waits until `socket` has something on its error queue, or what `what` names beside that
/// (`WLTS_READABLE | WLTS_WRITABLE`); at most `timeout_ns`. `*found` is 0 where the time is over or
/// a signal came.
///
/// # Safety
/// `found` is null or points to room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_wait(socket: c_int, what: u8, timeout_ns: u64, found: *mut u8) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let found = unsafe { found.as_mut() }.ok_or(Failure::Argument("wlts_wait: a null pointer"))?;
        let asked = Ready { errors: true, readable: what & WLTS_READABLE != 0, writable: what & WLTS_WRITABLE != 0 };
        let ready = timestamping::wait(borrow(socket)?, asked, Duration::from_nanos(timeout_ns))?;
        let bits = [(ready.errors, WLTS_ERRORS), (ready.readable, WLTS_READABLE), (ready.writable, WLTS_WRITABLE)];
        *found = bits.into_iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
        Ok(())
    })
}

/// CLOCK_REALTIME, on which the kernel's stamps are, in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn wlts_now_ns() -> u64 {
    timestamping::now::<Realtime>().as_nanos()
}

/// Makes room for so many stamps in the receive buffer of `socket`, which they share with what is
/// received. `*room` is for how many there is then: fewer where the machine's limit is lower.
///
/// # Safety
/// `room` is null or points to room for the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_reserve_stamps(socket: c_int, stamps: u32, room: *mut u32) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let room = unsafe { room.as_mut() }.ok_or(Failure::Argument("wlts_reserve_stamps: a null pointer"))?;
        *room = timestamping::reserve_stamps(borrow(socket)?, stamps)?;
        Ok(())
    })
}
