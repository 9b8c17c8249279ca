//! Ctrl-C and SIGTERM end the trace, not the program: what was gathered is reported.

use std::sync::atomic::{AtomicU32, Ordering};

static REQUESTS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

/// From here on the two signals are counted.
pub fn listen() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only adds to an atomic, which is async-signal-safe; the structure is plain data.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// How often the trace was asked to end.
pub fn requests() -> u32 {
    REQUESTS.load(Ordering::Relaxed)
}
