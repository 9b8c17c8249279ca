//! A file that grows by whole blocks: whatever happens, what is on disk ends at the end of a block.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::Path;

/// Bytes gathered before they are written: large enough that a system call costs little for each
/// frame.
const CHUNK: usize = 256 << 10;

/// How hard zstd compresses: its own default.
const LEVEL: i32 = 3;

/// A file that takes blocks, each in one call of `write`.
pub(crate) struct Chunks {
    file: File,
    gathered: Vec<u8>,
    compress: bool,
    /// Bytes on disk, up to the end of a block.
    kept: u64,
    /// Bytes taken, before compression.
    taken: u64,
}

impl Chunks {
    /// A new file with mode 0600, of this user and group where they are given; one that exists is
    /// refused, or emptied with `force`.
    pub fn create(
        path: &Path,
        compress: bool,
        force: bool,
        owner: Option<(Option<u32>, Option<u32>)>,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = match options.clone().create_new(true).open(path) {
            Ok(file) => {
                if let Some((user, group)) = owner {
                    fchown(&file, user, group)?;
                }
                file
            }
            // What is there already stays with whom it belongs to.
            Err(error) if force && error.kind() == io::ErrorKind::AlreadyExists => options.truncate(true).open(path)?,
            Err(error) => return Err(error),
        };
        Ok(Self { file, gathered: Vec::with_capacity(2 * CHUNK), compress, kept: 0, taken: 0 })
    }

    /// Bytes taken so far, before compression.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes what was gathered. Compressed, each chunk is a zstd frame: a file may end after any.
    fn pass_on(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let written = match self.compress {
            true => zstd::bulk::compress(&self.gathered, LEVEL)
                .and_then(|frame| self.file.write_all(&frame).map(|()| frame.len())),
            false => self.file.write_all(&self.gathered).map(|()| self.gathered.len()),
        };
        match written {
            Ok(bytes) => {
                self.kept += bytes as u64;
                self.gathered.clear();
                Ok(())
            }
            Err(error) => {
                // A part of a chunk may have been written; without it the file is whole. Not all
                // files can be cut.
                let _ = self.file.set_len(self.kept);
                self.gathered.clear();
                Err(error)
            }
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if self.gathered.len() + block.len() > CHUNK {
            self.pass_on()?;
        }
        self.gathered.extend_from_slice(block);
        self.taken += block.len() as u64;
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}
