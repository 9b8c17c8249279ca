//! What the child of a fork needs that has no wrapper, or none that the child may call: it has one
//! thread, and locks and memory may be in any state, so system calls alone are allowed
//! (signal-safety(7)).

use std::ffi::CStr;
use std::os::fd::RawFd;

use nix::sys::signal::{SigSet, SigmaskHow};

/// Signals as they were before [`block_signals`].
#[derive(Clone, Copy, Debug)]
pub struct Mask(SigSet);

/// Has every signal of the calling thread wait, so that no handler runs in a child that is forked
/// now.
pub fn block_signals() -> Mask {
    // It fails only for a wrong first argument.
    Mask(SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap_or(SigSet::empty()))
}

/// Puts back what [`block_signals`] found.
pub fn restore_signals(mask: Mask) {
    mask.0.thread_set_mask().ok();
}

/// Closes every descriptor of this process but these.
///
/// # Safety
/// Nothing in this process uses another descriptor from now on.
pub unsafe fn close_all_but<const N: usize>(mut keep: [RawFd; N]) {
    keep.sort_unstable();
    let mut from = 0;
    for kept in keep.map(|fd| fd as u32) {
        if kept > from {
            // SAFETY: the caller's promise.
            unsafe { close_range(from, kept - 1) };
        }
        from = kept + 1;
    }
    // SAFETY: the caller's promise.
    unsafe { close_range(from, u32::MAX) };
}

/// Makes this process the guardian of what its maker may leave behind: it has this name and these
/// descriptors alone, and a session of its own, so that what ends its maker's group leaves it to
/// its work.
///
/// # Safety
/// As [`close_all_but`].
pub unsafe fn guard<const N: usize>(name: &CStr, keep: [RawFd; N]) {
    // SAFETY: the caller's promise.
    unsafe { close_all_but(keep) };
    rustix::thread::set_name(name).ok();
    rustix::process::setsid().ok();
    rustix::process::chdir(c"/").ok();
}

/// Closes descriptors from `first` to `last`.
///
/// # Safety
/// As [`close_all_but`].
unsafe fn close_range(first: u32, last: u32) {
    // SAFETY: the caller's promise. rustix and nix have no `close_range`; the C library's is
    // younger than the call.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Ends this process, without the work that `exit` does: that is the parent's.
pub fn end(status: i32) -> ! {
    // SAFETY: takes a number, and runs nothing of this program.
    unsafe { libc::_exit(status) }
}
