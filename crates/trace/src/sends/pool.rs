//! The pools of queues and of slots that all rows share, as user space sees them: `bpf/arena.h`.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};

use crate::Error;
use crate::layout::{CHUNK, POOL_CHUNKS, POOL_ROWS, Plain, RawPools, RawQueue, RawSlot};
use crate::object;
use crate::sizes::Sizes;

const TAKE_BACK: &str = "cannot take slots back";

pub(super) struct Pool {
    queues: MapHandle,
    free_queues: MapHandle,
    slots: MapHandle,
    places: MapHandle,
    pools: MapHandle,
    free_chunks: MapHandle,
    free_directories: MapHandle,
    /// How many places a directory has.
    each: u32,
}

impl Pool {
    pub fn new(object: &Object, sizes: Sizes) -> Result<Self, Error> {
        Ok(Self {
            queues: object::map(object, "queues")?,
            free_queues: object::map(object, "free_queues")?,
            slots: object::map(object, "slots")?,
            places: object::map(object, "places")?,
            pools: object::map(object, ".data.pools")?,
            free_chunks: object::map(object, "free_chunks")?,
            free_directories: object::map(object, "free_directories")?,
            each: sizes.slots / CHUNK,
        })
    }

    /// How many slots connections have now.
    pub fn taken(&self) -> u64 {
        self.read().map_or(0, |pools| pools.of[POOL_CHUNKS as usize].taken * u64::from(CHUNK))
    }

    /// Rows beyond this number were never used.
    pub fn rows(&self) -> u32 {
        self.read().map_or(u32::MAX, |pools| u32::try_from(pools.of[POOL_ROWS as usize].fresh).unwrap_or(u32::MAX))
    }

    fn read(&self) -> Option<RawPools> {
        RawPools::from_bytes(&self.pools.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??)
    }

    /// Takes back the queue with this number, 0 for none, of a row that the kernel part does not
    /// give back itself any more; the row is to be freed then. Gives its sends. To be called while
    /// no program runs.
    pub fn take_back(&self, number: u32) -> Result<Vec<RawSlot>, Error> {
        let Some(at) = number.checked_sub(1) else { return Ok(Vec::new()) };
        let bytes = self.queues.lookup(&at.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        let Some(queue) = bytes.and_then(|bytes| RawQueue::from_bytes(&bytes)) else { return Ok(Vec::new()) };
        let places = if queue.directory == 0 { queue.near.to_vec() } else { self.empty(queue.directory)? };
        let on_way = queue.tail.wrapping_sub(queue.head);
        let sends = (0..on_way).filter_map(|n| self.slot(&places, queue.head.wrapping_add(n))).collect();
        let mut chunks = 0;
        for chunk in places.iter().filter(|chunk| **chunk != 0) {
            self.free_chunks.update(&[], &chunk.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            chunks += 1;
        }
        if let Some(mut pools) = self.read() {
            let taken = &mut pools.of[POOL_CHUNKS as usize].taken;
            *taken = taken.saturating_sub(chunks);
            object::write_only(&self.pools, &pools)?;
        }
        self.free_queues.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        Ok(sends)
    }

    /// Takes a directory back; gives the chunks that were in it.
    fn empty(&self, directory: u32) -> Result<Vec<u32>, Error> {
        let mut chunks = Vec::new();
        let first = (directory - 1) * self.each;
        for place in first..first + self.each {
            let pair = (place / 2).to_ne_bytes();
            let both = self.places.lookup(&pair, MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            let at = (place % 2) as usize * 4;
            let chunk = both.as_ref().and_then(|both| both.get(at..at + 4)?.try_into().ok());
            chunks.push(chunk.map_or(0, u32::from_ne_bytes));
            if place % 2 == 1 {
                self.places.update(&pair, &[0; 8], MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            }
        }
        self.free_directories.update(&[], &directory.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        Ok(chunks)
    }

    /// The slot of a counter: a queue without a directory has two places, one with a directory all
    /// of them.
    fn slot(&self, places: &[u32], counter: u32) -> Option<RawSlot> {
        let chunk = places.get((counter / CHUNK) as usize % places.len()).filter(|chunk| **chunk != 0)?;
        let number = (chunk - 1) * CHUNK + counter % CHUNK;
        RawSlot::from_bytes(&self.slots.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}
