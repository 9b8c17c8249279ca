//! Receiving with stamps.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use timestamping::{ParseError, Received, Receiver};

use crate::queue::{batch_size, wlts_times};
use crate::request::borrow;
use crate::result::{Failure, c_text, run, wlts_result};

/// One datagram, or what a stream had to give.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wlts_received {
    /// What came, as far as there was room.
    pub payload: *const u8,
    /// Its bytes.
    pub payload_length: usize,
    /// Whether more came than there was room for.
    pub cut: bool,
    /// Whether `interface` is known.
    pub has_interface: bool,
    /// Whether `link_interface` and `link_length` are known.
    pub has_link: bool,
    /// Whether `ttl` is known.
    pub has_ttl: bool,
    /// Whether `dropped` is known.
    pub has_dropped: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Index of the interface that it came in by.
    pub interface: u32,
    /// Index of the interface that the NIC's stamp was taken on.
    pub link_interface: u32,
    /// Its bytes on the link there.
    pub link_length: u32,
    /// Datagrams that the socket dropped so far, modulo 2³².
    pub dropped: u32,
    /// When it entered the stack, and when the NIC received it.
    pub times: wlts_times,
    /// Address and port of who sent it; null for a stream.
    pub from: *const c_char,
    /// Why its control messages cannot be read; null where they can. Then there is nothing else.
    pub broken: *const c_char,
}

const NOTHING: wlts_received = wlts_received {
    payload: null(),
    payload_length: 0,
    cut: false,
    has_interface: false,
    has_link: false,
    has_ttl: false,
    has_dropped: false,
    ttl: 0,
    interface: 0,
    link_interface: 0,
    link_length: 0,
    dropped: 0,
    times: wlts_times { has_software: false, has_hardware: false, software_ns: 0, hardware_ns: 0 },
    from: null(),
    broken: null(),
};

fn told(message: Result<Received<'_>, ParseError>, each: impl FnOnce(&wlts_received)) {
    match message {
        Ok(received) => {
            let from = received.from.map(|address| c_text(&address.to_string()));
            each(&wlts_received {
                payload: received.payload.as_ptr(),
                payload_length: received.payload.len(),
                cut: received.cut,
                has_interface: received.interface.is_some(),
                has_link: received.packet_info.is_some(),
                has_ttl: received.ttl.is_some(),
                has_dropped: received.dropped.is_some(),
                ttl: received.ttl.unwrap_or(0),
                interface: received.interface.unwrap_or(0),
                link_interface: received.packet_info.map_or(0, |link| link.interface),
                link_length: received.packet_info.map_or(0, |link| link.length),
                dropped: received.dropped.unwrap_or(0),
                times: received.times.into(),
                from: from.as_ref().map_or(null(), |address| address.as_ptr()),
                broken: null(),
            });
        }
        Err(broken) => {
            let text = c_text(&broken.to_string());
            each(&wlts_received { broken: text.as_ptr(), ..NOTHING });
        }
    }
}

/// A receiver, with its buffers.
pub struct wlts_receiver(Receiver);

/// A receiver that takes up to `messages` with one system call and keeps up to `payload` and
/// `control` bytes of each; 0 for 64, 128 and 512. To be freed by wlts_receiver_free().
#[unsafe(no_mangle)]
pub extern "C" fn wlts_receiver_new(messages: usize, payload: usize, control: usize) -> *mut wlts_receiver {
    Box::into_raw(Box::new(wlts_receiver(Receiver::new(batch_size(messages, payload, control)))))
}

/// Frees it.
///
/// # Safety
/// `receiver` is null or from wlts_receiver_new(), and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_receiver_free(receiver: *mut wlts_receiver) {
    if !receiver.is_null() {
        // SAFETY: it was made by Box::into_raw, and the caller gives it up.
        drop(unsafe { Box::from_raw(receiver) });
    }
}

/// What a callback is handed.
pub type wlts_each_received = Option<unsafe extern "C" fn(context: *mut c_void, received: *const wlts_received)>;

/// Receives what is there, at most a batch, and hands each message to `each`; `*count` is how many
/// there were. Never waits. A stream that has ended gives messages of length 0.
///
/// # Safety
/// `receiver` is null or from wlts_receiver_new(), and `count` is null or points to room for the
/// number. `each` takes `context`, and does not use `receiver`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_receiver_read(
    receiver: *mut wlts_receiver,
    socket: c_int,
    each: wlts_each_received,
    context: *mut c_void,
    count: *mut usize,
) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let (receiver, count) = unsafe { (receiver.as_mut(), count.as_mut()) };
        let (Some(receiver), Some(count), Some(each)) = (receiver, count, each) else {
            return Err(Failure::Argument("wlts_receiver_read: a null pointer"));
        };
        let socket = borrow(socket)?;
        // SAFETY: a call of the caller's function, with the context it came with.
        *count = receiver.0.receive(socket, |message| told(message, |received| unsafe { each(context, received) }))?;
        Ok(())
    })
}
