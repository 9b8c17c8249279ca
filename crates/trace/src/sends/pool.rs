//! The pools of queues and of slots that all rows share, as user space sees them: `bpf/arena.h`.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};

use crate::Error;
use crate::layout::{CHUNK, POOL_CHUNKS, POOL_ROWS, Plain, RawPools, RawQueue, RawSend, RawSlot};
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
    /// give back itself any more; the row is to be freed then. Gives its sends as they are `now`. To
    /// be called while no program runs.
    pub fn take_back(&self, number: u32, now: u64) -> Result<Vec<RawSend>, Error> {
        let Some(at) = number.checked_sub(1) else { return Ok(Vec::new()) };
        let bytes = self.queues.lookup(&at.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        let Some(queue) = bytes.and_then(|bytes| RawQueue::from_bytes(&bytes)) else { return Ok(Vec::new()) };
        let places = if queue.directory == 0 { queue.near.to_vec() } else { self.empty(queue.directory)? };
        let on_way = queue.tail.wrapping_sub(queue.head);
        let sends = (0..on_way)
            .filter_map(|n| self.slot(&places, queue.head.wrapping_add(n)))
            .map(|slot| unacknowledged(slot.record, &queue, now))
            .collect();
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

    /// The oldest send of the queue with this number, as it is `now`; `None` where none is on its
    /// way. The kernel part goes on meanwhile: what it hands on just now is `None`, too.
    pub fn oldest(&self, number: u32, now: u64) -> Option<RawSend> {
        let at = number.checked_sub(1)?;
        let read = || RawQueue::from_bytes(&self.queues.lookup(&at.to_ne_bytes(), MapFlags::ANY).ok()??);
        let queue = read().filter(|queue| queue.head != queue.tail)?;
        let chunk = self.chunk(&queue, queue.head)?;
        let slot = self.slot_in(chunk, queue.head)?;
        read().filter(|again| (again.row, again.head) == (queue.row, queue.head))?;
        Some(unacknowledged(slot.record, &queue, now))
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
        self.slot_in(*places.get((counter / CHUNK) as usize % places.len())?, counter)
    }

    /// The chunk of a counter of a queue; 0 for none.
    fn chunk(&self, queue: &RawQueue, counter: u32) -> Option<u32> {
        let place = counter / CHUNK;
        let Some(directory) = queue.directory.checked_sub(1) else { return Some(queue.near[place as usize & 1]) };
        let place = directory * self.each + place % self.each;
        let both = self.places.lookup(&(place / 2).to_ne_bytes(), MapFlags::ANY).ok()??;
        let at = (place % 2) as usize * 4;
        Some(u32::from_ne_bytes(both.get(at..at + 4)?.try_into().ok()?))
    }

    fn slot_in(&self, chunk: u32, counter: u32) -> Option<RawSlot> {
        let number = chunk.checked_sub(1)? * CHUNK + counter % CHUNK;
        RawSlot::from_bytes(&self.slots.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}

/// A send as it is `now`: not acknowledged.
fn unacknowledged(record: RawSend, queue: &RawQueue, now: u64) -> RawSend {
    let idle = now.saturating_sub(record.send.max(queue.progress)) / 1_000 + 1;
    RawSend { ack: now, idle: u32::try_from(idle).unwrap_or(u32::MAX), ..record }
}
