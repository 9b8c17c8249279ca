//! The bytes of a file for several readers that go through it at about the same pace: each piece is
//! read once for all of them.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What bytes at offsets are read from, such as a file.
pub trait ReadAt: Send + Sync {
    /// Reads into `into` from `offset` bytes after the start. Gives how many bytes came: 0 at the
    /// end only.
    ///
    /// # Errors
    /// Those of what is read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(into, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        Ok(count)
    }
}

/// Where pieces begin: at every so many bytes. A piece fits into the second level of a core's
/// cache.
const STEP: usize = 256 << 10;

/// How far a piece goes on into the next one, so that few records need bytes of two.
const BEYOND: usize = 4 << 10;

/// How many pieces are kept for each reader, where there are several: they are never exactly
/// abreast.
const EACH: usize = 2;

/// Bytes from one offset on.
pub(super) struct Piece {
    pub(super) start: u64,
    bytes: Vec<u8>,
    filled: usize,
}

impl Piece {
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

enum Slot {
    Empty,
    /// A reader reads the piece of this number.
    Reading(u64),
    /// The piece of this number.
    Read(u64, Arc<Piece>),
}

impl Slot {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Empty => None,
            Self::Reading(number) | Self::Read(number, _) => Some(*number),
        }
    }
}

/// A file in pieces, of which the latest are kept for the other readers. A reader that falls back
/// reads by itself what is gone.
pub struct Pieces<'a> {
    source: Box<dyn ReadAt + 'a>,
    slots: Mutex<Vec<Slot>>,
    /// A piece was read, or reading it failed.
    settled: Condvar,
}

impl<'a> Pieces<'a> {
    /// For so many readers.
    pub fn new(source: impl ReadAt + 'a, readers: usize) -> Self {
        let kept = if readers > 1 { EACH * readers } else { 1 };
        let slots = (0..kept).map(|_| Slot::Empty).collect();
        Self { source: Box::new(source), slots: Mutex::new(slots), settled: Condvar::new() }
    }

    /// A piece that has the byte at `offset` and `need` bytes from there on, or all that there are.
    pub(super) fn at(&self, offset: u64, need: usize) -> io::Result<Arc<Piece>> {
        let number = offset / STEP as u64;
        let within = (offset % STEP as u64) as usize;
        if within + need > STEP + BEYOND {
            // Twice what is needed: a reader that looks for the end of damage asks for as much
            // again at every byte.
            return self.read(offset, need * 2, Vec::new()).map(Arc::new);
        }
        let mut slots = self.lock();
        let mut may_read_ahead = true;
        loop {
            match slots.iter().find(|slot| slot.number() == Some(number)) {
                Some(Slot::Read(_, piece)) => return Ok(Arc::clone(piece)),
                Some(_) => {
                    if std::mem::take(&mut may_read_ahead)
                        && let Some(slot) = claim(&mut slots, number + 1)
                    {
                        // Where this fails, the reader that needs the piece finds out why.
                        let _ = self.fill(slots, slot, number + 1);
                        slots = self.lock();
                    } else {
                        slots = self.settled.wait(slots).unwrap_or_else(PoisonError::into_inner);
                    }
                }
                None => {
                    return match claim(&mut slots, number) {
                        Some(slot) => self.fill(slots, slot, number),
                        None => {
                            drop(slots);
                            self.read(number * STEP as u64, STEP + BEYOND, Vec::new()).map(Arc::new)
                        }
                    };
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a piece into a slot claimed for it, while others may take what is in the rest.
    fn fill(&self, mut slots: MutexGuard<'_, Vec<Slot>>, slot: usize, number: u64) -> io::Result<Arc<Piece>> {
        let before = std::mem::replace(&mut slots[slot], Slot::Reading(number));
        drop(slots);
        let room = match before {
            Slot::Read(_, piece) => Arc::into_inner(piece).map(|piece| piece.bytes).unwrap_or_default(),
            Slot::Empty | Slot::Reading(_) => Vec::new(),
        };
        let read = self.read(number * STEP as u64, STEP + BEYOND, room).map(Arc::new);
        self.lock()[slot] = match &read {
            Ok(piece) => Slot::Read(number, Arc::clone(piece)),
            Err(_) => Slot::Empty,
        };
        self.settled.notify_all();
        read
    }

    /// Reads a piece of `length` bytes into `room`, or less at the end.
    fn read(&self, start: u64, length: usize, mut room: Vec<u8>) -> io::Result<Piece> {
        room.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            match self.source.read_at(&mut room[filled..], start + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Piece { start, bytes: room, filled })
    }
}

/// The slot to read the piece of this number into: an empty one, or that of the piece furthest
/// back. `None` where it is there or being read already, and where readers read into all slots.
fn claim(slots: &mut [Slot], number: u64) -> Option<usize> {
    if slots.iter().any(|slot| slot.number() == Some(number)) {
        return None;
    }
    let free = slots.iter().enumerate().filter(|(_, slot)| !matches!(slot, Slot::Reading(_)));
    free.min_by_key(|(_, slot)| slot.number()).map(|(index, _)| index)
}

/// A reader of a file from its start that shares nothing, for what is compressed.
pub(super) struct Cursor<'a> {
    pieces: &'a Pieces<'a>,
    offset: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn over(pieces: &'a Pieces<'a>) -> Self {
        Self { pieces, offset: 0 }
    }
}

impl io::Read for Cursor<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.pieces.source.read_at(into, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts its readings; those from an offset on fail.
    struct Counted {
        bytes: Vec<u8>,
        readings: AtomicUsize,
        fails_from: u64,
    }

    impl Counted {
        fn new(length: usize, fails_from: u64) -> Self {
            let bytes = (0..length).map(|n| (n / 7) as u8).collect();
            Self { bytes, readings: AtomicUsize::new(0), fails_from }
        }
    }

    impl ReadAt for Counted {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            self.readings.fetch_add(1, Ordering::Relaxed);
            if offset >= self.fails_from {
                return Err(io::Error::other("broken"));
            }
            // Half of what is asked, as a file may.
            let half = into.len().div_ceil(2);
            self.bytes.read_at(&mut into[..half], offset)
        }
    }

    #[test]
    fn readers_that_go_abreast_read_each_piece_once() {
        let source = Counted::new(4 * STEP, u64::MAX);
        let alone = {
            let pieces = Pieces::new(&source, 1);
            (0..4).for_each(|n| drop(pieces.at(n * STEP as u64, 1).unwrap()));
            source.readings.swap(0, Ordering::Relaxed)
        };
        let pieces = Pieces::new(&source, 2);
        for n in 0..4 {
            let offset = n * STEP as u64 + 5;
            let both = [0, 1].map(|_| pieces.at(offset, 100).unwrap());
            assert!(Arc::ptr_eq(&both[0], &both[1]));
            let at = (offset - both[0].start) as usize;
            assert_eq!(both[0].bytes()[at..at + 100], source.bytes[offset as usize..][..100]);
        }
        assert_eq!(source.readings.load(Ordering::Relaxed), alone);
    }

    #[test]
    fn one_that_falls_back_reads_again_what_is_gone() {
        let source = Counted::new(9 * STEP, u64::MAX);
        let pieces = Pieces::new(&source, 2);
        (0..9).for_each(|n| drop(pieces.at(n * STEP as u64, 1).unwrap()));
        assert_eq!(pieces.at(1, STEP).unwrap().bytes()[1..=STEP], source.bytes[1..=STEP]);
    }

    #[test]
    fn an_error_reaches_every_reader_that_comes_to_it_and_no_other() {
        let source = Counted::new(3 * STEP, 2 * STEP as u64 + 3 * BEYOND as u64);
        let pieces = Pieces::new(&source, 3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for n in 0..2 {
                        pieces.at(n * STEP as u64, STEP).unwrap();
                    }
                    let error = pieces.at(2 * STEP as u64, 1).map(|_| ()).unwrap_err();
                    assert_eq!(error.to_string(), "broken");
                });
            }
        });
    }

    #[test]
    fn the_end_is_a_piece_with_less_or_nothing() {
        let source = Counted::new(STEP + 10, u64::MAX);
        let pieces = Pieces::new(&source, 1);
        let last = pieces.at(STEP as u64 + 3, 100).unwrap();
        assert_eq!((last.start, last.bytes().len()), (STEP as u64, 10));
        assert!(pieces.at(5 * STEP as u64, 1).unwrap().bytes().is_empty());
        assert_eq!(pieces.at(7, 10 * STEP).unwrap().bytes().len(), STEP + 3);
    }
}
