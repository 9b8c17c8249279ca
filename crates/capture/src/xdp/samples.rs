//! Reading the ring buffer of samples in place (`kernel/bpf/ringbuf.c`): no copy, and many samples
//! a look.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use libbpf_rs::MapHandle;
use machine::mapping::Mapping;

/// Set in a record's length while the kernel still writes it, and where it was given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes in front of a record: its length, and the kernel's page offset.
const HEADER: usize = 8;

/// A ring buffer map as this process reads it.
pub(crate) struct Samples {
    map: MapHandle,
    consumer: Mapping,
    /// The producer's position, then the data twice in a row, so that no record is cut at the end.
    producer: Mapping,
    page: usize,
    mask: usize,
}

/// `struct sample` of `xdp.bpf.c`, and the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub software: u64,
    pub hardware: u64,
    pub length: u32,
    pub queue: u32,
    pub data: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Reads one record; `None` where it is too short for what it says.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let word = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let long = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let kept = word(20)? as usize;
        Some(Self {
            software: long(0)?,
            hardware: long(8)?,
            length: word(16)?,
            queue: word(24)?,
            data: record.get(32..32 + kept)?,
        })
    }
}

impl Samples {
    /// Maps a ring buffer of `bytes` (a power of two, whole pages).
    pub fn new(map: MapHandle, bytes: u32) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let size = |bytes: usize| NonZeroUsize::new(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
        let consumer = Mapping::of(map.as_fd(), size(page)?, 0)?;
        let producer = Mapping::read_only(map.as_fd(), size(page + 2 * bytes as usize)?, page as u64)?;
        Ok(Self { map, consumer, producer, page, mask: bytes as usize - 1 })
    }

    /// What to wait on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Hands finished records to `each`, at most `most`, and returns how many there were.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        // SAFETY: the position is the first word of its page, aligned, and accessed atomically by
        // both sides.
        let consumed = unsafe { &*self.consumer.at(0).cast::<AtomicUsize>() };
        // SAFETY: as above.
        let produced = unsafe { &*self.producer.at(0).cast::<AtomicUsize>() };
        let mut position = consumed.load(Ordering::Relaxed);
        let mut count = 0;
        while count < most && position < produced.load(Ordering::Acquire) {
            let at = self.page + (position & self.mask);
            // SAFETY: a record's header is aligned to eight bytes and lies within the mapped data.
            let header = unsafe { &*self.producer.at(at).cast::<AtomicU32>() }.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            // A record is never longer than the ring; one that says so would end reading for good.
            let length = length.min(self.mask + 1 - HEADER);
            if header & DISCARDED == 0 {
                // SAFETY: the record lies within the data, which is mapped twice in a row; the
                // kernel does not write it until the consumer's position has passed it.
                each(unsafe { std::slice::from_raw_parts(self.producer.at(at + HEADER), length) });
                count += 1;
            }
            position += (length + HEADER).next_multiple_of(8);
            consumed.store(position, Ordering::Release);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_is_cut_short_is_none() {
        let mut record = vec![0u8; 32 + 64];
        record[0] = 7;
        record[8] = 8;
        record[16] = 100;
        record[20] = 60;
        record[24] = 3;
        record[32] = 9;
        let sample = Sample::read(&record).unwrap();
        assert_eq!((sample.software, sample.hardware, sample.length, sample.queue), (7, 8, 100, 3));
        assert_eq!((sample.data.len(), sample.data[0]), (60, 9));
        record[20] = 65;
        assert_eq!(Sample::read(&record), None);
        assert_eq!(Sample::read(&record[..20]), None);
    }
}
