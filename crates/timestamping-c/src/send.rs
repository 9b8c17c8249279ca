//! Sending, with stages and an id for one send.

use std::ffi::{CStr, c_char, c_int};
use std::io::IoSlice;

use timestamping::SendOptions;

use crate::request::{borrow, stages, wlts_enabled};
use crate::result::{Failure, run, wlts_result};

/// What one send asks for. All zeroes ask nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wlts_send_options {
    /// Stamp this send at `stages`, whatever the socket's own are.
    pub has_stages: bool,
    /// `WLTS_SCHED | …`; 0 for none.
    pub stages: u8,
    /// `id` is the id of its stamps, in place of the kernel's count (Linux 6.13; not for TCP).
    pub has_id: bool,
    /// That id.
    pub id: u32,
    /// Where to, for a socket that is not connected: `192.0.2.1:53` or `[2001:db8::1]:53`. Null
    /// otherwise.
    pub to: *const c_char,
}

/// Sends `length` bytes as one write or one datagram; `*sent` is how many of them were taken.
///
/// # Safety
/// `enabled` is null or from wlts_enable(); `bytes` points to `length` bytes, and `options` to
/// options with text in `to`; or they are null. `sent` is null or points to room for the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_send(
    enabled: *const wlts_enabled,
    socket: c_int,
    bytes: *const u8,
    length: usize,
    options: *const wlts_send_options,
    sent: *mut usize,
) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let (enabled, options, sent) = unsafe { (enabled.as_ref(), options.as_ref(), sent.as_mut()) };
        let (Some(enabled), Some(sent)) = (enabled, sent) else {
            return Err(Failure::Argument("wlts_send: a null pointer"));
        };
        let bytes = match (bytes.is_null(), length) {
            (_, 0) => &[][..],
            (true, _) => return Err(Failure::Argument("wlts_send: no bytes at a null pointer")),
            // SAFETY: the caller's part.
            (false, _) => unsafe { std::slice::from_raw_parts(bytes, length) },
        };
        let mut asked = SendOptions::default();
        if let Some(options) = options {
            asked.stages = if options.has_stages { Some(stages(options.stages)?) } else { None };
            asked.id = options.has_id.then_some(options.id);
            if !options.to.is_null() {
                // SAFETY: the caller's part.
                let to = unsafe { CStr::from_ptr(options.to) }.to_str().ok().and_then(|text| text.parse().ok());
                asked.to = Some(to.ok_or(Failure::Argument("wlts_send: `to` is not an IP address with a port"))?);
            }
        }
        *sent = enabled.0.send(borrow(socket)?, &[IoSlice::new(bytes)], &asked)?;
        Ok(())
    })
}
