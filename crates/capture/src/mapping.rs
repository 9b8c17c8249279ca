//! Memory that is shared with the kernel.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::RawFd;

/// A mapped range; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    bytes: NonZeroUsize,
}

// SAFETY: the range is owned by this value alone; what the kernel writes into it is synchronised by status words and ring
// indices, which its users access atomically.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` of a descriptor from `offset` on, for reading and writing.
    pub fn of(fd: RawFd, bytes: NonZeroUsize, offset: i64) -> io::Result<Self> {
        Self::map(fd, bytes, offset, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// Maps `bytes` of a descriptor from `offset` on, for reading.
    pub fn read_only(fd: RawFd, bytes: NonZeroUsize, offset: i64) -> io::Result<Self> {
        Self::map(fd, bytes, offset, libc::PROT_READ, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// Memory that belongs to no file.
    pub fn anonymous(bytes: NonZeroUsize) -> io::Result<Self> {
        Self::map(
            -1,
            bytes,
            0,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        )
    }

    fn map(fd: RawFd, bytes: NonZeroUsize, offset: i64, protection: i32, flags: i32) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice; nothing of ours is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes.get(), protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start: start.cast(), bytes })
        }
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// Where it is not within the range: a caller's mistake, never the kernel's, since callers check what it says.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes.get(), "{offset} is outside a mapping of {} bytes", self.bytes);
        // SAFETY: within the mapped range (just asserted).
        unsafe { self.start.add(offset) }
    }

    /// Its length in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this very range was mapped by `map` and is not used afterwards.
        unsafe { libc::munmap(self.start.cast(), self.bytes.get()) };
    }
}
