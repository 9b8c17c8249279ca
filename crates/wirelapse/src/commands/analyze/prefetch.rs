//! Memory of connections, fetched before it is needed.

use diagnose::Fetch;

/// Fetches with the CPU's own instruction, which waits for nothing; without one, not at all.
#[derive(Clone, Copy)]
pub struct Prefetch;

impl Fetch for Prefetch {
    #[inline(always)]
    fn line(self, at: *const u8) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: it changes only what the cache holds, and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: it changes only what the cache holds, and faults at no address.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = at;
    }
}
