//! The pools of queues and of slots that all rows share, as user space sees them: `bpf/arena.h`.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};

use crate::Error;
use crate::layout::{
    CHUNK, PLACES, POOL_CHUNKS, POOL_DIRECTORIES, POOL_ROWS, Plain, RawPools, RawQueue, RawSend, RawSlot,
};
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
}

impl Pool {
    pub fn new(object: &Object) -> Result<Self, Error> {
        Ok(Self {
            queues: object::map(object, "queues")?,
            free_queues: object::map(object, "free_queues")?,
            slots: object::map(object, "slots")?,
            places: object::map(object, "places")?,
            pools: object::map(object, ".data.pools")?,
            free_chunks: object::map(object, "free_chunks")?,
            free_directories: object::map(object, "free_directories")?,
        })
    }

    /// Puts all numbers into the lists of free ones: on older kernels none is given out otherwise.
    pub fn fill(&self, object: &Object, sizes: Sizes) -> Result<(), Error> {
        let free_rows = object::map(object, "free_rows")?;
        let lists = [
            (&free_rows, 0, sizes.rows),
            (&self.free_queues, 1, sizes.queues),
            (&self.free_chunks, 1, sizes.chunks),
            (&self.free_directories, 1, sizes.directories),
        ];
        for (list, least, count) in lists {
            // The lowest number is to be given out first.
            for number in (least..least + count).rev() {
                list.update(&[], &number.to_ne_bytes(), MapFlags::ANY)
                    .map_err(Error::bpf("cannot fill a free list"))?;
            }
        }
        let mut pools = RawPools::zeroed();
        pools.of[POOL_ROWS as usize].fresh = sizes.rows.into();
        object::write_only(&self.pools, &pools)
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
    /// give back itself any more; the row is to be freed then. Gives its sends as they are `now`.
    /// To be called while no program runs.
    pub fn take_back(&self, number: u32, now: u64) -> Result<Vec<RawSend>, Error> {
        let Some(at) = number.checked_sub(1) else { return Ok(Vec::new()) };
        let bytes = self.queues.lookup(&at.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        let Some(queue) = bytes.and_then(|bytes| RawQueue::from_bytes(&bytes)) else { return Ok(Vec::new()) };
        let on_way = queue.tail.wrapping_sub(queue.head);
        let counters = (0..on_way).map(|n| queue.head.wrapping_add(n));
        let sends = counters
            .filter_map(|counter| self.slot_in(self.chunk(&queue, counter)?, counter))
            .map(|slot| unacknowledged(slot.record, &queue, now))
            .collect();
        let (mut chunks, mut directories) = (vec![queue.near[0], queue.near[1], queue.spare], Vec::new());
        for leaf in self.emptied(queue.directory, &mut directories)? {
            chunks.append(&mut self.emptied(leaf, &mut directories)?);
        }
        chunks.retain(|chunk| *chunk != 0);
        for (free, numbers) in [(&self.free_chunks, &chunks), (&self.free_directories, &directories)] {
            for number in numbers {
                free.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            }
        }
        if let Some(mut pools) = self.read() {
            for (of, gone) in [(POOL_CHUNKS, chunks.len()), (POOL_DIRECTORIES, directories.len())] {
                let taken = &mut pools.of[of as usize].taken;
                *taken = taken.saturating_sub(gone as u64);
            }
            object::write_only(&self.pools, &pools)?;
        }
        self.free_queues.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        Ok(sends)
    }

    /// The numbers in a directory, which are 0 from now on; it is added to `directories`. Of 0,
    /// which is none, there are none.
    fn emptied(&self, directory: u32, directories: &mut Vec<u32>) -> Result<Vec<u32>, Error> {
        if directory == 0 {
            return Ok(Vec::new());
        }
        directories.push(directory);
        let mut numbers = Vec::new();
        for place in 0..PLACES {
            numbers.extend(self.number_in(directory, place));
            if place % 2 == 1 {
                self.places.update(&pair(directory, place), &[0; 8], MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            }
        }
        Ok(numbers)
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

    /// The chunk of a counter of a queue; 0 for none.
    fn chunk(&self, queue: &RawQueue, counter: u32) -> Option<u32> {
        let place = counter / CHUNK;
        if queue.directory == 0 {
            return Some(queue.near[place as usize & 1]);
        }
        self.number_in(self.number_in(queue.directory, place / PLACES)?, place)
    }

    /// A number of a directory.
    fn number_in(&self, directory: u32, place: u32) -> Option<u32> {
        directory.checked_sub(1)?;
        let both = self.places.lookup(&pair(directory, place), MapFlags::ANY).ok()??;
        let at = (place % 2) as usize * 4;
        Some(u32::from_ne_bytes(both.get(at..at + 4)?.try_into().ok()?))
    }

    fn slot_in(&self, chunk: u32, counter: u32) -> Option<RawSlot> {
        let number = chunk.checked_sub(1)? * CHUNK + counter % CHUNK;
        RawSlot::from_bytes(&self.slots.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}

/// The key of the entry that has a number of a directory.
fn pair(directory: u32, place: u32) -> [u8; 4] {
    (((directory - 1) * PLACES + place % PLACES) / 2).to_ne_bytes()
}

/// A send as it is `now`: not acknowledged.
fn unacknowledged(record: RawSend, queue: &RawQueue, now: u64) -> RawSend {
    let idle = now.saturating_sub(record.send.max(queue.progress)) / 1_000 + 1;
    RawSend { ack: now, idle: u32::try_from(idle).unwrap_or(u32::MAX), ..record }
}
