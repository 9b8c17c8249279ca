//! Files of a run that others may have made: a name may be a pipe that never ends, a device, or a
//! link to one, and a file may be longer than memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file, and nothing else. It never waits.
///
/// # Errors
/// As [`File::open`]; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] for a longer one.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

/// Reads to the end, which comes within `most` bytes.
///
/// # Errors
/// As [`io::Read::read_to_end`]; [`io::ErrorKind::FileTooLarge`] where there is more.
pub fn whole(from: impl io::Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, long) = (dir.path().join("pipe"), dir.path().join("long"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&pipe, Path::new("/dev/zero"), dir.path()] {
            assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        // A terabyte of nothing.
        File::create(&long).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&long, 1 << 20).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&long, "12345").unwrap();
        assert_eq!(read(&long, 5).unwrap(), b"12345");
        assert_eq!(read(&long, 4).unwrap_err().to_string(), "it is longer than 4 bytes");
    }
}
