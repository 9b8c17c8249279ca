//! The bytes of a capture, decompressed: either all of them at once or a window moving over a
//! stream.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use super::error::Problem;

/// How a capture was compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    #[default]
    None,
    /// gzip (RFC 1952), of any number of members.
    Gzip,
    /// Zstandard (RFC 8878), of any number of frames.
    Zstd,
    /// xz, of any number of streams.
    Xz,
}

impl Compression {
    /// The compression that a stream beginning with `start` has.
    pub fn detect(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A skippable frame first (RFC 8878, section 3.1.2), as pzstd writes.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }
}

/// What is said of a file that takes more memory to decompress than is given to one.
const WIDE_WINDOW: &str = "it was compressed with a window of more than 128 MiB (`zstd --long=28` or more): decompress it first, with `zstd -d --long=31`";

/// What the stream ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The end of the file.
    Clean,
    /// The compression was cut short.
    CutCompression,
    /// The compression is damaged.
    DamagedCompression,
}

/// The most bytes of one record or block that are held at once.
const MOST_HELD: usize = 16 << 20;

/// It stays in the second level of a core's cache, beside what follows the packets.
const READ_SIZE: usize = 128 << 10;

/// How much memory the xz decoder may take: the largest preset (`-9`) needs 65 MiB.
const XZ_MEMORY: u64 = 128 << 20;

enum Source<'a> {
    Whole(&'a [u8]),
    Stream { reader: Box<dyn Read + Send + 'a>, buffer: Vec<u8>, filled: usize, compressed: bool },
    Pieces(Pieces<'a>),
}

/// Bytes of a file that others read too: where each piece lies, but for the records that go over
/// from one to the next.
struct Pieces<'a> {
    next: Box<dyn FnMut() -> io::Result<Arc<Vec<u8>>> + Send + 'a>,
    piece: Arc<Vec<u8>>,
    joint: Option<Joint>,
}

/// The end of some pieces and the beginning of the next, side by side.
struct Joint {
    bytes: Vec<u8>,
    /// Where the bytes of the present piece begin.
    boundary: usize,
}

impl Pieces<'_> {
    #[inline(always)]
    fn held(&self) -> &[u8] {
        self.joint.as_ref().map_or(&self.piece, |joint| &joint.bytes)
    }

    /// Adds to what is held from `position` on, which becomes the first of it, until there are
    /// `need` bytes; false where the file ends before. Twice as many keep the bytes moved few where
    /// a reader asks for as much everywhere.
    fn join(&mut self, position: usize, need: usize) -> io::Result<bool> {
        let bytes = self.held()[position..].to_vec();
        let (mut boundary, mut used) = (bytes.len(), self.piece.len());
        if let Some(joint) = &self.joint {
            boundary = joint.boundary - position;
            used = joint.bytes.len() - joint.boundary;
        }
        let joint = self.joint.insert(Joint { bytes, boundary });
        while joint.bytes.len() < 2 * need {
            if used >= self.piece.len() {
                self.piece = (self.next)()?;
                (joint.boundary, used) = (joint.bytes.len(), 0);
                if self.piece.is_empty() {
                    return Ok(joint.bytes.len() >= need);
                }
                continue;
            }
            let more = (2 * need - joint.bytes.len()).min(self.piece.len() - used);
            joint.bytes.extend_from_slice(&self.piece[used..used + more]);
            used += more;
        }
        Ok(true)
    }
}

pub(crate) struct Window<'a> {
    source: Source<'a>,
    position: usize,
    /// Offset in the decompressed stream of the first byte held.
    base: u64,
    end: Option<End>,
}

impl<'a> Window<'a> {
    /// Over bytes that are all there; decompresses where they are compressed.
    pub(crate) fn over_bytes(bytes: &'a [u8]) -> io::Result<(Self, Compression)> {
        match Compression::detect(bytes) {
            Compression::None => Ok((
                Self { source: Source::Whole(bytes), position: 0, base: 0, end: Some(End::Clean) },
                Compression::None,
            )),
            compression => Ok((Self::decompressing(bytes, compression)?, compression)),
        }
    }

    /// Over a stream; decompresses where it is compressed. Reads no more than it must to give what
    /// is asked.
    pub(crate) fn over_stream(mut reader: impl Read + Send + 'a) -> io::Result<(Self, Compression)> {
        let mut start = [0; 6];
        let mut have = 0;
        while have < start.len() {
            match reader.read(&mut start[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let compression = Compression::detect(&start[..have]);
        let whole = io::Cursor::new(start).take(have as u64).chain(reader);
        Ok((Self::decompressing(whole, compression)?, compression))
    }

    /// Over a file that is not compressed, in pieces; an empty one is its end.
    pub(crate) fn over_pieces(next: impl FnMut() -> io::Result<Arc<Vec<u8>>> + Send + 'a) -> Self {
        let pieces = Pieces { next: Box::new(next), piece: Arc::default(), joint: None };
        Self { source: Source::Pieces(pieces), position: 0, base: 0, end: None }
    }

    fn decompressing(reader: impl Read + Send + 'a, compression: Compression) -> io::Result<Self> {
        let reader: Box<dyn Read + Send + 'a> = match compression {
            Compression::None => Box::new(reader),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(reader))),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(reader)?),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)
                    .map_err(io::Error::other)?;
                Box::new(liblzma::read::XzDecoder::new_stream(reader, stream))
            }
        };
        let compressed = compression != Compression::None;
        Ok(Self {
            source: Source::Stream { reader, buffer: Vec::new(), filled: 0, compressed },
            position: 0,
            base: 0,
            end: None,
        })
    }

    /// The bytes held from the current position on.
    #[inline(always)]
    pub(crate) fn held(&self) -> &[u8] {
        match &self.source {
            Source::Whole(all) => &all[self.position..],
            Source::Stream { buffer, filled, .. } => &buffer[self.position..*filled],
            Source::Pieces(pieces) => &pieces.held()[self.position..],
        }
    }

    /// Offset of the current position in the decompressed stream.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Whether `need` bytes are held from here on, after reading what is missing.
    ///
    /// `need` is at most [`MOST_HELD`]; more is answered with false.
    #[inline]
    pub(crate) fn has(&mut self, need: usize) -> io::Result<bool> {
        if self.held().len() >= need { Ok(true) } else { self.read_until(need) }
    }

    #[cold]
    fn read_until(&mut self, need: usize) -> io::Result<bool> {
        if need > MOST_HELD {
            return Ok(false);
        }
        let (reader, buffer, filled, compressed) = match &mut self.source {
            Source::Whole(_) => return Ok(false),
            Source::Stream { reader, buffer, filled, compressed } => (reader, buffer, filled, compressed),
            Source::Pieces(_) if self.end.is_some() => return Ok(false),
            Source::Pieces(pieces) => {
                let position = std::mem::take(&mut self.position);
                self.base += position as u64;
                let joined = pieces.join(position, need)?;
                if !joined {
                    self.end = Some(End::Clean);
                }
                return Ok(joined);
            }
        };
        while *filled - self.position < need {
            if self.end.is_some() {
                return Ok(false);
            }
            if buffer.len() - self.position < need {
                buffer.copy_within(self.position..*filled, 0);
                *filled -= self.position;
                self.base += self.position as u64;
                self.position = 0;
                // Room beyond what is needed keeps the bytes moved above few for each byte read,
                // also where a reader that looks for the end of damage asks for as much everywhere.
                let room = need + need.max(READ_SIZE);
                if buffer.len() < room {
                    buffer.resize(room, 0);
                }
            }
            match reader.read(&mut buffer[*filled..]) {
                Ok(0) => self.end = Some(End::Clean),
                Ok(n) => *filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if *compressed && e.kind() == io::ErrorKind::UnexpectedEof => {
                    self.end = Some(End::CutCompression);
                }
                // Whole, but made for more memory than any file is given here. The decoder
                // has no other sign of it than its words.
                Err(e) if *compressed && e.to_string().contains("requires too much memory") => {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, WIDE_WINDOW));
                }
                // Decoders report damage with these kinds; an error of the device below has
                // another.
                Err(e)
                    if *compressed
                        && matches!(
                            e.kind(),
                            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other
                        ) =>
                {
                    self.end = Some(End::DamagedCompression);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Moves past `count` bytes that are held.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.held().len());
        self.position += count;
        if let Source::Pieces(pieces) = &mut self.source
            && let Some(boundary) = pieces.joint.as_ref().map(|joint| joint.boundary)
            && self.position >= boundary
            && self.end.is_none()
        {
            // What follows lies in the piece itself.
            pieces.joint = None;
            self.position -= boundary;
            self.base += boundary as u64;
        }
    }

    /// What is wrong with the compression, once that is known.
    pub(crate) fn compression_problem(&self) -> Option<Problem> {
        match self.end? {
            End::Clean => None,
            End::CutCompression => Some(Problem::CutCompression),
            End::DamagedCompression => Some(Problem::DamagedCompression),
        }
    }
}

impl Read for Window<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let held = self.fill_buf()?;
        let count = held.len().min(into.len());
        into[..count].copy_from_slice(&held[..count]);
        self.advance(count);
        Ok(count)
    }
}

/// For formats made of lines.
impl BufRead for Window<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.has(1)?;
        Ok(self.held())
    }

    fn consume(&mut self, count: usize) {
        self.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn compressed(data: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let gz = |d: &[u8]| {
            let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            e.write_all(d).unwrap();
            e.finish().unwrap()
        };
        let (a, b) = data.split_at(data.len() / 2);
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(data).unwrap();
        vec![
            (Compression::None, data.to_vec()),
            (Compression::Gzip, [gz(a), gz(b)].concat()),
            (Compression::Zstd, [zstd::encode_all(a, 1).unwrap(), zstd::encode_all(b, 1).unwrap()].concat()),
            (Compression::Xz, xz.finish().unwrap()),
        ]
    }

    /// Gives one byte a call, as a slow pipe may.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(into.len()).min(1);
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn a_zstd_window_that_is_too_wide_is_said_and_is_no_empty_file() {
        // A frame with a window of 2²⁸ bytes and one empty block (RFC 8878, section 3.1.1).
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3, 1, 0, 0];
        let (mut window, _) = Window::over_stream(&frame[..]).unwrap();
        let said = window.has(4).unwrap_err().to_string();
        assert!(said.contains("128 MiB") && said.contains("zstd -d --long=31"), "{said}");
    }

    #[test]
    fn all_packings_give_the_same_bytes_from_memory_and_a_slow_stream() {
        let data: Vec<u8> = (0..10_000u32).map(|n| (n * n / 7) as u8).collect();
        for (compression, bytes) in compressed(&data) {
            let windows = [Window::over_bytes(&bytes).unwrap(), Window::over_stream(Trickle(&bytes)).unwrap()];
            for (mut window, found) in windows {
                assert_eq!(found, compression);
                assert!(window.has(data.len()).unwrap());
                assert_eq!(window.held(), data);
                assert!(!window.has(data.len() + 1).unwrap());
                assert_eq!(window.end, Some(End::Clean));
            }
        }
    }

    /// Takes the bytes in steps of all lengths, some longer than what is read at once.
    fn all_of(mut window: Window<'_>, seed: u64) -> Vec<u8> {
        let (mut all, mut state) = (Vec::new(), seed);
        loop {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let need = [1, 16, 112, 9_000, 70_000, 400_000][(state >> 33) as usize % 6];
            let whole = window.has(need).unwrap();
            let count = if whole { need } else { window.held().len() };
            all.extend_from_slice(&window.held()[..count]);
            window.advance(count);
            if !whole {
                assert_eq!(window.offset(), all.len() as u64);
                return all;
            }
        }
    }

    #[test]
    fn a_stream_gives_every_byte_whatever_is_asked_for() {
        let data: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for seed in 0..5 {
            assert_eq!(all_of(Window::over_stream(&data[..]).unwrap().0, seed), data);
            for size in [700, 131_072, 4_000_000] {
                let mut pieces = data.chunks(size).map(|piece| Arc::new(piece.to_vec()));
                let next = move || Ok(pieces.next().unwrap_or_default());
                assert_eq!(all_of(Window::over_pieces(next), seed), data);
            }
        }
    }

    #[test]
    fn packings_cut_at_every_byte_end_as_cut_or_damaged() {
        let data: Vec<u8> = (0..300u32).map(|n| (n * 31) as u8).collect();
        for (compression, bytes) in compressed(&data) {
            for cut in 6..bytes.len() {
                let (mut window, _) = Window::over_bytes(&bytes[..cut]).unwrap();
                let whole = window.has(data.len()).unwrap();
                assert!(!whole || compression != Compression::None);
                assert!(data.starts_with(window.held()));
            }
        }
    }
}
