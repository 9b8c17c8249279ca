//! Capture files: pcap, pcapng, snoop, Network Monitor and ERF, compressed or not, from memory or
//! from a stream that still grows.
//!
//! What is in a frame is for [`crate::packet`], which builds on this module, and not the other way
//! round.

pub mod context;
mod erf_file;
mod error;
mod frame;
mod netmon;
mod pcap;
mod pcapng;
mod pcapng_option;
mod pcapng_writer;
mod process_block;
mod process_comment;
mod said;
mod snoop;
mod window;

pub(crate) use erf_file::{ETHERNET as ERF_ETHERNET, is_there as is_erf};
pub use error::{CaptureError, Problem};
pub use frame::{Comments, Frame, Interface, LinkType, Resolution};
pub use pcap::{PcapVariant, write_pcap_header, write_pcap_record};
pub use pcapng_writer::{Particulars, PcapngWriter, Process, Verdict, WriteError, flag};
pub use window::Compression;

use std::io::{self, Read};

use frame::Record;
pub(crate) use process_block::ProcessBlocks;
pub(crate) use process_comment::{Opened, ProcessComment, Whose};
pub(crate) use said::Said;
pub(crate) use window::Window;

use crate::tally::{Place, Tally};

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format of libpcap, in one of its variants.
    Pcap(PcapVariant),
    /// pcapng.
    Pcapng,
    /// Solaris snoop (RFC 1761).
    Snoop,
    /// Microsoft's Network Monitor, versions 1 and 2.
    NetworkMonitor,
    /// Records of Endace's cards.
    Erf,
    /// What tcpdump prints; only [`crate::PacketReader`] reads it.
    Text,
}

impl Format {
    /// The format of a capture that begins with `start`, of which 8 bytes are needed at most.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        let magic = *start.first_chunk::<4>()?;
        if magic == pcapng::SECTION_HEADER {
            Some(Self::Pcapng)
        } else if start.starts_with(b"snoop\0\0\0") {
            Some(Self::Snoop)
        } else if netmon::MAGIC.contains(&magic) {
            Some(Self::NetworkMonitor)
        } else {
            PcapVariant::from_magic(magic).map(Self::Pcap)
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pcap(PcapVariant { nanoseconds: true, .. }) => "pcap (nanoseconds)",
            Self::Pcap(PcapVariant { modified: true, .. }) => "pcap (modified)",
            Self::Pcap(_) => "pcap",
            Self::Pcapng => "pcapng",
            Self::Snoop => "snoop",
            Self::NetworkMonitor => "Network Monitor",
            Self::Erf => "ERF",
            Self::Text => "tcpdump text",
        })
    }
}

enum Parser {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Snoop(snoop::Snoop),
    NetworkMonitor(netmon::Netmon),
    Erf(erf_file::ErfFile),
}

/// What all formats keep while they are read.
struct Progress {
    interfaces: Vec<Interface>,
    /// What pcapng has of processes.
    processes: ProcessBlocks,
    problems: Tally<Problem>,
    /// Number of the latest packet.
    number: u64,
    /// Nothing more can be read: the end, or damage that the format gives no way past.
    over: bool,
}

impl Progress {
    fn problem(&mut self, kind: Problem, offset: u64) {
        self.problems.add(kind, Place { packet: self.number, offset });
    }

    /// Counts a problem with the packet that comes next, and reads no further.
    fn stop_at_next(&mut self, kind: Problem, offset: u64) {
        self.problems.add(kind, Place { packet: self.number + 1, offset });
        self.over = true;
    }

    /// The stream ended at `offset` where a record should go on or begin: clean only where `left`
    /// is 0.
    fn end(&mut self, window: &Window<'_>, left: usize, offset: u64) {
        match window.compression_problem().or((left > 0).then_some(Problem::CutRecord)) {
            Some(kind) => self.stop_at_next(kind, offset),
            None => self.over = true,
        }
    }
}

/// A capture being read. Its memory is one buffer, whatever the file claims.
pub struct Capture<'a> {
    window: Window<'a>,
    compression: Compression,
    parser: Parser,
    progress: Progress,
    /// Bytes of the record given last, passed when the next is asked for.
    given: usize,
}

impl<'a> Capture<'a> {
    /// A capture that is in memory whole, such as a mapped file: nothing is copied unless it is
    /// compressed.
    ///
    /// # Errors
    /// [`CaptureError`] where this is no capture that can be read.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, CaptureError> {
        Self::open(Window::over_bytes(bytes)?)
    }

    /// A capture from a file or a pipe. A frame is given as soon as its last byte is there.
    ///
    /// # Errors
    /// [`CaptureError`] where this is no capture that can be read, or where reading fails.
    pub fn from_reader(reader: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        Self::open(Window::over_stream(reader)?)
    }

    pub(crate) fn open((mut window, compression): (Window<'a>, Compression)) -> Result<Self, CaptureError> {
        let (interfaces, processes, problems) = (Vec::new(), ProcessBlocks::default(), Tally::default());
        let mut progress = Progress { interfaces, processes, problems, number: 0, over: false };
        // The shortest header of all has 16 bytes.
        if !window.has(8)? {
            return Err(CaptureError::NoCapture { offset: 0, have: window.held().len() });
        }
        let parser = match Format::of(window.held()) {
            Some(Format::Pcap(variant)) => Parser::Pcap(pcap::Pcap::open(&mut window, &mut progress, variant)?),
            Some(Format::Pcapng) => Parser::Pcapng(pcapng::Pcapng::open(&mut window, &mut progress)?),
            Some(Format::Snoop) => Parser::Snoop(snoop::Snoop::open(&mut window, &mut progress)?),
            Some(Format::NetworkMonitor) => Parser::NetworkMonitor(netmon::Netmon::open(&mut window, &mut progress)?),
            Some(Format::Erf | Format::Text) | None if erf_file::is_there(&mut window)? => {
                Parser::Erf(erf_file::ErfFile::open(&mut progress))
            }
            Some(Format::Erf | Format::Text) | None => {
                let magic = *window.held().first_chunk::<4>().unwrap_or(&[0; 4]);
                return Err(CaptureError::UnknownMagic { magic });
            }
        };
        Ok(Self { window, compression, parser, progress, given: 0 })
    }

    /// The format found.
    pub fn format(&self) -> Format {
        match &self.parser {
            Parser::Pcap(pcap) => Format::Pcap(pcap.variant),
            Parser::Pcapng(_) => Format::Pcapng,
            Parser::Snoop(_) => Format::Snoop,
            Parser::NetworkMonitor(_) => Format::NetworkMonitor,
            Parser::Erf(_) => Format::Erf,
        }
    }

    /// The compression found.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The interfaces met so far, over all sections; [`Frame::interface`] is an index into it.
    pub fn interfaces(&self) -> &[Interface] {
        &self.progress.interfaces
    }

    /// The processes that blocks have described so far.
    pub(crate) fn process_blocks(&self) -> &ProcessBlocks {
        &self.progress.processes
    }

    /// What was wrong so far, by kind, with packet numbers and byte offsets.
    pub fn problems(&self) -> &Tally<Problem> {
        &self.progress.problems
    }

    /// Packets given so far.
    pub fn packets(&self) -> u64 {
        self.progress.number
    }

    /// Bytes of the decompressed stream read so far.
    pub fn offset(&self) -> u64 {
        self.window.offset() + self.given as u64
    }

    /// The next frame, or `None` at the end. Damage is counted in [`Capture::problems`] and reading
    /// goes on where the format allows it.
    ///
    /// # Errors
    /// Only where the reader itself fails.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        self.pass_given();
        let Some(record) = self.read_record()? else { return Ok(None) };
        Ok(Some(record.frame(self.window.held(), self.window.offset(), self.progress.number)))
    }

    /// Gives each frame to `take` as long as they are of the commonest format and held whole, and
    /// `take` does something with them; the first with which it does nothing is the next one still.
    #[inline(always)]
    pub(crate) fn held_frames(&mut self, mut take: impl FnMut(&Frame<'_>) -> bool) {
        self.pass_given();
        let Parser::Pcap(parser) = &self.parser else { return };
        if self.progress.over {
            return;
        }
        let (mut held, mut offset, start) = (self.window.held(), self.window.offset(), self.window.offset());
        while let Some(record) = parser.whole(held) {
            let length = record.length;
            if !take(&record.frame(held, offset, self.progress.number + 1)) {
                break;
            }
            self.progress.number += 1;
            (held, offset) = (&held[length..], offset + length as u64);
        }
        self.window.advance((offset - start) as usize);
    }

    #[inline(always)]
    fn pass_given(&mut self) {
        self.window.advance(self.given);
        self.given = 0;
    }

    fn read_record(&mut self) -> io::Result<Option<Record>> {
        if self.progress.over {
            return Ok(None);
        }
        let record = match &mut self.parser {
            Parser::Pcap(parser) => parser.next(&mut self.window, &mut self.progress)?,
            Parser::Pcapng(parser) => parser.next(&mut self.window, &mut self.progress)?,
            Parser::Snoop(parser) => parser.next(&mut self.window, &mut self.progress)?,
            Parser::NetworkMonitor(parser) => parser.next(&mut self.window, &mut self.progress)?,
            Parser::Erf(parser) => parser.next(&mut self.window, &mut self.progress)?,
        };
        self.given = record.as_ref().map_or(0, |record| record.length);
        Ok(record)
    }
}

/// Reads 4 bytes at `at`, which the caller knows to be there; 0 where not.
#[inline]
fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

/// How many bytes are zero before the first that is not.
fn zeros(bytes: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let blocks = bytes.chunks_exact(BLOCK).take_while(|block| **block == [0; BLOCK]).count() * BLOCK;
    blocks + bytes[blocks..].iter().take_while(|byte| **byte == 0).count()
}
