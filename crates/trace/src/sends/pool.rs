//! The pool of slots that all rows share, as user space sees it: `bpf/slots.h`.

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};

use crate::Error;
use crate::layout::{CHUNK, Plain, RawPool, RawSlot};
use crate::object::{self, Sizes};

const TAKE_BACK: &str = "cannot take slots back";

pub(super) struct Pool {
    slots: MapHandle,
    places: MapHandle,
    pools: MapHandle,
    free_chunks: MapHandle,
    /// How many places a row has.
    each: u32,
}

impl Pool {
    pub fn new(object: &Object, sizes: Sizes) -> Result<Self, Error> {
        Ok(Self {
            slots: object::map(object, "slots")?,
            places: object::map(object, "places")?,
            pools: object::map(object, "pools")?,
            free_chunks: object::map(object, "free_chunks")?,
            each: sizes.slots / CHUNK,
        })
    }

    /// How many slots rows have now.
    pub fn taken(&self) -> u64 {
        self.read().map_or(0, |pool| pool.taken * u64::from(CHUNK))
    }

    fn read(&self) -> Option<RawPool> {
        RawPool::from_bytes(&self.pools.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??)
    }

    /// Takes the chunks of a row that the kernel part does not give back itself any more. Gives the sends in them, from `head` up to
    /// `tail`. To be called while no program runs.
    pub fn take_back(&self, row: u32, head: u32, tail: u32) -> Result<Vec<RawSlot>, Error> {
        let places = self.places_of(row)?;
        let sends = (0..tail.wrapping_sub(head)).filter_map(|behind| self.slot(&places, head.wrapping_add(behind)));
        let sends = sends.collect();
        for chunk in places.iter().filter(|chunk| **chunk != 0) {
            self.free_chunks.update(&[], &chunk.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
        }
        if let Some(mut pool) = self.read() {
            pool.taken -= places.iter().filter(|chunk| **chunk != 0).count() as u64;
            object::write_only(&self.pools, &pool)?;
        }
        Ok(sends)
    }

    /// The chunks of a row's places, which have none after that.
    fn places_of(&self, row: u32) -> Result<Vec<u32>, Error> {
        let mut of_row = Vec::new();
        for place in row * self.each..(row + 1) * self.each {
            let pair = (place / 2).to_ne_bytes();
            let Some(mut both) = self.places.lookup(&pair, MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))? else {
                continue;
            };
            let at = (place % 2) as usize * 4;
            let chunk = both.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
            of_row.push(chunk);
            if chunk != 0 {
                both[at..at + 4].fill(0);
                self.places.update(&pair, &both, MapFlags::ANY).map_err(Error::bpf(TAKE_BACK))?;
            }
        }
        Ok(of_row)
    }

    fn slot(&self, places: &[u32], counter: u32) -> Option<RawSlot> {
        let chunk = places.get((counter / CHUNK & (self.each - 1)) as usize).filter(|chunk| **chunk != 0)?;
        let number = (chunk - 1) * CHUNK + counter % CHUNK;
        RawSlot::from_bytes(&self.slots.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??)
    }
}
