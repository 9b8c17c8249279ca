//! A file that grows by whole blocks: whatever happens, what is on disk ends at the end of a block,
//! and it is known how many blocks are there.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

/// Bytes gathered before they are written: large enough that a system call costs little for each
/// frame.
const CHUNK: usize = 256 << 10;

/// How hard zstd compresses: its own default.
const LEVEL: i32 = 3;

/// A file that takes blocks, each in one call of `write`.
#[derive(Debug)]
pub struct Chunks {
    file: Arc<File>,
    gathered: Vec<u8>,
    /// Where each block of `gathered` ends.
    ends: Vec<usize>,
    compress: bool,
    /// Bytes and blocks on disk, up to the end of a block.
    kept: u64,
    blocks: u64,
    /// Bytes taken, before compression.
    taken: u64,
}

impl Chunks {
    /// Into a file that is empty.
    pub fn new(file: Arc<File>, compress: bool) -> Self {
        let gathered = Vec::with_capacity(2 * CHUNK);
        Self { file, gathered, ends: Vec::new(), compress, kept: 0, blocks: 0, taken: 0 }
    }

    /// Bytes taken so far, before compression.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Blocks that are on disk.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that were taken, and are on disk or gathered.
    pub const fn taken_blocks(&self) -> u64 {
        self.blocks + self.ends.len() as u64
    }

    /// Writes what was gathered. Compressed, each chunk is a zstd frame: a file may end after any.
    fn pass_on(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let (blocks, bytes, failed) = match self.compress {
            true => match zstd::bulk::compress(&self.gathered, LEVEL)
                .and_then(|frame| (&*self.file).write_all(&frame).map(|()| frame.len()))
            {
                Ok(bytes) => (self.ends.len(), bytes, None),
                Err(error) => (0, 0, Some(error)),
            },
            false => {
                let (written, failed) = write_most(&self.file, &self.gathered);
                let whole = self.ends.partition_point(|end| *end <= written);
                (whole, self.ends[..whole].last().copied().unwrap_or(0), failed)
            }
        };
        self.kept += bytes as u64;
        self.blocks += blocks as u64;
        self.gathered.clear();
        self.ends.clear();
        let Some(error) = failed else { return Ok(()) };
        // A part of a block may have been written; without it the file is whole. Not all files can
        // be cut.
        let _ = self.file.set_len(self.kept);
        Err(error)
    }
}

/// Writes until the file takes no more: how many bytes it took, and why no more.
fn write_most(mut file: &File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

impl Write for Chunks {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if self.gathered.len() + block.len() > CHUNK {
            self.pass_on()?;
        }
        self.gathered.extend_from_slice(block);
        self.ends.push(self.gathered.len());
        self.taken += block.len() as u64;
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    /// A pipe that nobody reads takes 64 KiB and no more, as a disk that fills up.
    #[test]
    fn blocks_that_are_counted_are_those_that_are_there() {
        const BLOCK: usize = 1_000;
        let (mut read, write) = io::pipe().unwrap();
        let write = OwnedFd::from(write);
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let mut chunks = Chunks::new(Arc::new(File::from(write)), false);
        for _ in 0..100 {
            assert_eq!(chunks.write(&[7; BLOCK]).unwrap(), BLOCK);
        }
        assert_eq!((chunks.blocks(), chunks.taken_blocks()), (0, 100));
        assert_eq!(chunks.flush().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let counted = chunks.blocks();
        assert!((1..100).contains(&counted), "{counted}");
        drop(chunks);
        let mut there = Vec::new();
        read.read_to_end(&mut there).unwrap();
        assert_eq!(there.len() / BLOCK, counted as usize);
    }
}
