//! Memory that is shared with the kernel.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapped range; unmapped when it is dropped.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: NonZeroUsize,
}

// SAFETY: the range is owned by this value alone; what the kernel writes into it is synchronised by
// status words and ring indices, which its users access atomically.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` of a descriptor from `offset` on, for reading and writing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(fd: BorrowedFd<'_>, bytes: NonZeroUsize, offset: u64) -> io::Result<Self> {
        Self::map(fd, bytes, offset, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps `bytes` of a descriptor from `offset` on, for reading.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_only(fd: BorrowedFd<'_>, bytes: NonZeroUsize, offset: u64) -> io::Result<Self> {
        Self::map(fd, bytes, offset, ProtFlags::READ)
    }

    fn map(fd: BorrowedFd<'_>, bytes: NonZeroUsize, offset: u64, protection: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice; nothing of ours is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes.get(), protection, flags, fd, offset) }?;
        Ok(Self { start: start.cast(), bytes })
    }

    /// Memory that belongs to no file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn anonymous(bytes: NonZeroUsize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: as in `map`.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes.get(), ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        Ok(Self { start: start.cast(), bytes })
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// Where it is not within the range: a caller's mistake, never the kernel's, since callers
    /// check what it says.
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
        unsafe { munmap(self.start.cast(), self.bytes.get()) }.ok();
    }
}
