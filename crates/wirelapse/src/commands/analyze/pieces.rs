//! A file that several threads read at the same time: each piece of it is copied from the system
//! once for all of them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Two of them stay in the second level of a core's cache, beside what follows the packets.
const SIZE: usize = 128 << 10;
/// By so many a reader may be ahead of the last one: 2 MiB, a few batches of segments.
const AHEAD: usize = 16;

/// A regular file up to the size that it had at first.
///
/// Not a map of the file: reading a map beyond the end of a file that somebody cuts short meanwhile
/// ends the process.
pub struct Pieces<'a> {
    file: &'a File,
    end: u64,
    kept: Mutex<Kept>,
    /// A piece was read, or the last reader has gone on.
    changed: Condvar,
}

/// The pieces that some of the readers have not had yet, in the order of the file.
#[derive(Default)]
struct Kept {
    /// The number of the first.
    first: u64,
    pieces: VecDeque<Piece>,
    /// The number of the piece that each reader asks for next; `None` for one that is gone.
    readers: Vec<Option<u64>>,
    /// Pieces that all have had: their room is for others.
    done: Vec<Arc<Vec<u8>>>,
    /// How many readers wait for a change.
    waiting: usize,
}

enum Piece {
    /// One of the readers is about to read it.
    Claimed,
    Read(Arc<Vec<u8>>),
    /// It could not be read: each reader is to find out why.
    Failed,
}

/// What there is to do for a reader that asks for a piece.
enum Next {
    Take(Arc<Vec<u8>>),
    /// To read the piece with this number: the one asked for, or one after it while another reader
    /// reads that.
    Read(u64),
    /// To find out why it cannot be read.
    ReadAlone,
    Wait,
}

impl Kept {
    fn next(&mut self, reader: usize) -> Next {
        let Some(number) = self.readers[reader] else { return Next::ReadAlone };
        match self.pieces.get((number - self.first) as usize) {
            Some(Piece::Read(bytes)) => {
                let bytes = Arc::clone(bytes);
                self.go_on(reader, Some(number + 1));
                Next::Take(bytes)
            }
            Some(Piece::Failed) => {
                self.go_on(reader, Some(number + 1));
                Next::ReadAlone
            }
            Some(Piece::Claimed) | None if self.pieces.len() >= AHEAD => Next::Wait,
            Some(Piece::Claimed) | None => {
                self.pieces.push_back(Piece::Claimed);
                Next::Read(self.first + self.pieces.len() as u64 - 1)
            }
        }
    }

    /// A reader asks for this one next, or for none any more. What all have had is forgotten.
    fn go_on(&mut self, reader: usize, next: Option<u64>) {
        self.readers[reader] = next;
        let last = self.readers.iter().flatten().min().copied();
        while last.is_none_or(|last| self.first < last)
            && let Some(piece) = self.pieces.pop_front()
        {
            self.first += 1;
            if let Piece::Read(bytes) = piece {
                self.done.push(bytes);
            }
        }
    }

    /// Room for a piece.
    fn room(&mut self) -> Vec<u8> {
        // The reader that had it last may still be at it.
        let free = self.done.iter().position(|bytes| Arc::strong_count(bytes) == 1);
        free.and_then(|i| Arc::into_inner(self.done.swap_remove(i))).unwrap_or_default()
    }
}

impl<'a> Pieces<'a> {
    pub fn new(file: &'a File, end: u64) -> Self {
        Self { file, end, kept: Mutex::default(), changed: Condvar::new() }
    }

    /// Another reader. All are made before one of them begins, and each has to have a thread, or to
    /// be dropped: the others wait for it.
    pub fn reader(&self) -> Reader<'_> {
        let mut kept = self.kept();
        kept.readers.push(Some(0));
        Reader { pieces: self, index: kept.readers.len() - 1 }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, kept: &Kept) {
        if kept.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Reads a piece into `room`.
    fn read(&self, number: u64, mut room: Vec<u8>) -> io::Result<Vec<u8>> {
        let begin = number.saturating_mul(SIZE as u64);
        let length = self.end.saturating_sub(begin).min(SIZE as u64) as usize;
        room.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            match self.file.read_at(&mut room[filled..], begin + filled as u64) {
                // Somebody cut it short.
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        room.truncate(filled);
        Ok(room)
    }
}

/// One of those who read a file in [`Pieces`].
pub struct Reader<'a> {
    pieces: &'a Pieces<'a>,
    index: usize,
}

impl Reader<'_> {
    /// The next piece; an empty one is the end of the file.
    pub fn next(&mut self) -> io::Result<Arc<Vec<u8>>> {
        let pieces = self.pieces;
        let mut kept = pieces.kept();
        loop {
            let number = kept.readers[self.index];
            match kept.next(self.index) {
                Next::Take(bytes) => {
                    pieces.wake(&kept);
                    return Ok(bytes);
                }
                Next::ReadAlone => {
                    pieces.wake(&kept);
                    drop(kept);
                    return pieces.read(number.unwrap_or(u64::MAX), Vec::new()).map(Arc::new);
                }
                Next::Wait => {
                    kept.waiting += 1;
                    kept = pieces.changed.wait(kept).unwrap_or_else(PoisonError::into_inner);
                    kept.waiting -= 1;
                }
                Next::Read(claimed) => {
                    let room = kept.room();
                    drop(kept);
                    let piece = pieces.read(claimed, room).map_or(Piece::Failed, |bytes| Piece::Read(Arc::new(bytes)));
                    kept = pieces.kept();
                    // Nobody goes past it before it is read, so that it is still there.
                    let i = (claimed - kept.first) as usize;
                    kept.pieces[i] = piece;
                    pieces.wake(&kept);
                }
            }
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut kept = self.pieces.kept();
        kept.go_on(self.index, None);
        self.pieces.wake(&kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn all_of(mut reader: Reader<'_>) -> Vec<u8> {
        let pieces = std::iter::from_fn(|| Some(reader.next().unwrap()).filter(|piece| !piece.is_empty()));
        pieces.flat_map(|piece| piece.to_vec()).collect()
    }

    #[test]
    fn each_reader_has_every_byte() {
        let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let file = file(&bytes);
        for readers in [1, 2, 5] {
            let pieces = Pieces::new(&file, 4_999_999);
            let readers: Vec<_> = (0..readers).map(|_| pieces.reader()).collect();
            std::thread::scope(|scope| {
                for reader in readers {
                    scope.spawn(|| assert!(all_of(reader) == bytes[..4_999_999]));
                }
            });
        }
    }

    #[test]
    fn readers_share_one_copy_and_its_room() {
        let file = file(&vec![7; 64 * SIZE]);
        let pieces = Pieces::new(&file, 64 * SIZE as u64);
        let (mut one, mut other) = (pieces.reader(), pieces.reader());
        let mut rooms = std::collections::BTreeSet::new();
        for _ in 0..64 {
            let (a, b) = (one.next().unwrap(), other.next().unwrap());
            assert!(Arc::ptr_eq(&a, &b));
            rooms.insert(a.as_ptr());
        }
        assert!(rooms.len() <= 3, "{}", rooms.len());
        assert!(one.next().unwrap().is_empty() && other.next().unwrap().is_empty());
    }

    #[test]
    fn nobody_waits_for_a_reader_that_is_gone() {
        let file = file(&vec![7; 64 * SIZE]);
        let pieces = Pieces::new(&file, 64 * SIZE as u64);
        let (one, mut other) = (pieces.reader(), pieces.reader());
        let first = other.next().unwrap();
        std::thread::scope(|scope| {
            let all = scope.spawn(|| all_of(one));
            drop(other);
            assert_eq!(all.join().unwrap().len(), 64 * SIZE);
        });
        assert_eq!(first.len(), SIZE);
    }

    #[test]
    fn a_file_that_was_cut_short_ends_where_it_does() {
        let file = file(&[1; 300_000]);
        let pieces = Pieces::new(&file, 2_000_000);
        let mut reader = pieces.reader();
        assert_eq!(reader.next().unwrap().len(), SIZE);
        file.set_len(200_000).unwrap();
        assert_eq!(all_of(reader).len(), 200_000 - SIZE);
    }
}
