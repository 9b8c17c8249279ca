//! What the records of all probes have in common, and why bytes are none.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::layout::Plain;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the record's kind has.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// How many there are.
        have: usize,
        /// How many there have to be.
        need: usize,
    },
    /// A field has a value that no kernel part writes.
    #[error("malformed: {field} is {value}")]
    Malformed {
        /// Which field.
        field: &'static str,
        /// What it is.
        value: u32,
    },
    /// A kind of record that this version does not know.
    #[error("unsupported: record of kind {0}")]
    Unsupported(u32),
}

/// What kind of record it is: its first word.
pub(crate) fn kind(bytes: &[u8]) -> Result<u32, DecodeError> {
    let first = bytes.first_chunk().ok_or(DecodeError::Truncated { have: bytes.len(), need: 4 })?;
    Ok(u32::from_ne_bytes(*first))
}

/// The structure that the bytes of a record are.
pub(crate) fn raw<T: Plain>(bytes: &[u8]) -> Result<T, DecodeError> {
    T::from_bytes(bytes).ok_or(DecodeError::Truncated { have: bytes.len(), need: size_of::<T>() })
}

/// An address of 16 bytes, where IPv4 is IPv4-mapped.
pub(crate) fn address(bytes: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(), port)
}
