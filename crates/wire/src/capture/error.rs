//! What can be wrong with a capture file.

use std::fmt;
use std::io;

use crate::tally::Class;

/// Why a capture cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The reader failed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// Too short to say what it is.
    #[error("the file ends at byte {have}, within its header (byte {offset}): it holds no packet")]
    NoCapture {
        /// Where the header begins.
        offset: u64,
        /// How many bytes of it there are.
        have: usize,
    },
    /// None of the formats known here.
    #[error(
        "not a capture file: it begins with {:02x} {:02x} {:02x} {:02x}; expected pcap, pcapng, snoop (also in gzip, zstd or xz) or tcpdump's text",
        magic[0], magic[1], magic[2], magic[3]
    )]
    UnknownMagic {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// Text, but none of its lines is a packet.
    #[error("neither a capture file nor tcpdump's text: none of its {lines} lines is a packet")]
    NoPacketInText {
        /// How many lines there are.
        lines: u64,
    },
    /// A version or variant of a known format that is not read.
    #[error("byte {offset}: {what} {value} is not supported")]
    Unsupported {
        /// Where.
        offset: u64,
        /// What it is: a version, a link type.
        what: &'static str,
        /// Its number.
        value: u64,
    },
    /// The header contradicts the format.
    #[error("byte {offset}: malformed header: {what}")]
    Malformed {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// Something wrong within a capture of which the rest can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// The file ends within a record or block.
    CutRecord,
    /// The gzip, zstd or xz compression ends early.
    CutCompression,
    /// The gzip, zstd or xz compression is damaged from here on.
    DamagedCompression,
    /// A record claims more bytes than any packet has.
    ImpossibleLength,
    /// A block's length is not a multiple of four, is too short for its kind, or differs from its
    /// repetition.
    BadBlockLength,
    /// A field within a block or record contradicts another.
    BadRecord,
    /// A packet names an interface that the section has not described.
    NoSuchInterface,
    /// A time before 1970 or beyond 2554, or on an interface with a resolution that is not usable.
    NoTime,
    /// An option's length goes beyond its block.
    BadOption,
    /// A comment that is not UTF-8.
    BadComment,
    /// A pcapng block that carries no packet and is of a type not read here.
    UnknownBlock(u32),
    /// A pcapng section of another major version, skipped.
    UnknownVersion(u16),
    /// More interfaces than are kept; packets on them are counted here.
    TooManyInterfaces,
}

impl Problem {
    /// Truncated, malformed or unsupported.
    pub const fn class(self) -> Class {
        match self {
            Self::CutRecord | Self::CutCompression => Class::Truncated,
            Self::UnknownBlock(_) | Self::UnknownVersion(_) | Self::TooManyInterfaces => Class::Unsupported,
            _ => Class::Malformed,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutRecord => "the file ends within a record",
            Self::CutCompression => "the compressed file ends early",
            Self::DamagedCompression => "the compressed file is damaged; nothing after can be decompressed",
            Self::ImpossibleLength => "a record claims to be longer than any packet is",
            Self::BadBlockLength => "a block's length contradicts itself",
            Self::BadRecord => "a record contradicts itself",
            Self::NoSuchInterface => "a packet names an interface that was not described",
            Self::NoTime => "a time out of range",
            Self::BadOption => "an option goes beyond its block",
            Self::BadComment => "a comment that is not UTF-8",
            Self::UnknownBlock(kind) => return write!(f, "block of kind {kind:#x} skipped"),
            Self::UnknownVersion(major) => return write!(f, "pcapng section of version {major} skipped"),
            Self::TooManyInterfaces => "a packet on an interface beyond the 65536 that are kept",
        })
    }
}
