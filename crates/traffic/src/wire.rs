//! What every connection begins with, and JSON messages with their length in front.
//!
//! A connection to the server's port opens with 37 bytes. For iperf3 they are its cookie, 36
//! characters of `a-z2-7` and a zero. For this project's own workloads they are [`OWN_OPENING`],
//! with capitals that no cookie has. After that both speak in JSON texts, each behind its length as
//! a 32-bit big-endian number.

use clock::{Instant, Monotonic, Nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::Channel;
use crate::error::{WireError, may_retry};
use crate::stop::Stop;
use crate::timing;

/// Bytes of an opening.
pub const OPENING_BYTES: usize = 37;

/// The opening of this project's own workloads.
pub const OWN_OPENING: [u8; OPENING_BYTES] = *b"WIRELAPSE TRAFFIC 1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The name that ties the connections of one iperf3 test together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; OPENING_BYTES]);

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl Cookie {
    /// Made of 36 bytes that should be random.
    pub fn from_random(random: &[u8; OPENING_BYTES - 1]) -> Self {
        let mut cookie = [0; OPENING_BYTES];
        for (to, from) in cookie.iter_mut().zip(random) {
            *to = ALPHABET[usize::from(from % 32)];
        }
        Self(cookie)
    }

    /// From the kernel's random numbers.
    pub fn random() -> Self {
        Self::from_random(&random_bytes())
    }

    /// As it travels.
    pub fn as_bytes(&self) -> &[u8; OPENING_BYTES] {
        &self.0
    }
}

impl std::fmt::Display for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0[..OPENING_BYTES - 1]))
    }
}

/// Random bytes of the kernel.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Up to 256 bytes come whole once the pool is ready.
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert!(got == Ok(N), "getrandom gave {got:?} of {N} bytes");
    bytes
}

/// Who is calling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// An iperf3 client, or one of its streams.
    Iperf3(Cookie),
    /// A client of this project's own workloads.
    Own,
}

impl Opening {
    /// Reads the first bytes of a connection.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`OPENING_BYTES`], [`WireError::Unsupported`] for
    /// another version of the own opening, [`WireError::Malformed`] for what is neither.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let what = "the opening of a connection";
        let Some(bytes) = bytes.first_chunk::<OPENING_BYTES>() else {
            return Err(WireError::Truncated { what, need: OPENING_BYTES, have: bytes.len() });
        };
        if *bytes == OWN_OPENING {
            return Ok(Self::Own);
        }
        if bytes.starts_with(b"WIRELAPSE TRAFFIC ") {
            return Err(WireError::Unsupported { what, found: "another version of the traffic protocol".into() });
        }
        let (text, end) = bytes.split_at(OPENING_BYTES - 1);
        if end == [0] && text.iter().all(u8::is_ascii_alphanumeric) {
            return Ok(Self::Iperf3(Cookie(*bytes)));
        }
        Err(WireError::Malformed { what, why: "neither an iperf3 cookie nor this project's own".into() })
    }
}

/// Why a message did not come.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection ended, broke, or the time was up.
    Gone,
    /// This side was asked to stop.
    Stopped,
    /// It came and is not right.
    Wire(WireError),
}

impl ReadError {
    pub(crate) fn into_error(self, peer: std::net::SocketAddr, during: &'static str) -> crate::Error {
        match self {
            Self::Gone => crate::Error::Gone { peer, during },
            Self::Stopped => crate::Error::Stopped,
            Self::Wire(source) => crate::Error::Wire { peer, source },
        }
    }
}

/// How long a thread may sit in a system call before it looks whether it should stop.
pub(crate) const SLICE: Nanos = Nanos::from_millis(200);

/// Fills `buffer` before `deadline` on the monotonic clock, however slowly the peer drips.
pub(crate) fn read_by(
    control: &Channel,
    buffer: &mut [u8],
    deadline: Instant<Monotonic>,
    stop: &Stop,
) -> Result<(), ReadError> {
    let mut have = 0;
    while have < buffer.len() {
        let left = deadline.saturating_since(timing::now());
        if left == Nanos::ZERO {
            return Err(ReadError::Gone);
        }
        if stop.asked() {
            return Err(ReadError::Stopped);
        }
        control.set_read_timeout(timing::timeout(left.min(SLICE))).map_err(|_| ReadError::Gone)?;
        match control.read(&mut buffer[have..]) {
            Ok(0) => return Err(ReadError::Gone),
            Ok(n) => have += n,
            Err(e) if may_retry(&e) => {}
            Err(_) => return Err(ReadError::Gone),
        }
    }
    Ok(())
}

/// The length in front of a JSON text.
///
/// # Errors
/// [`WireError::TooLong`] above `limit`, [`WireError::Malformed`] for zero.
pub fn parse_length(bytes: [u8; 4], limit: usize, what: &'static str) -> Result<usize, WireError> {
    match u32::from_be_bytes(bytes) as usize {
        0 => Err(WireError::Malformed { what, why: "its length is zero".into() }),
        length if length > limit => Err(WireError::TooLong { what, length, limit }),
        length => Ok(length),
    }
}

/// A JSON text with its length in front, of at most `limit` bytes. Memory grows with what arrives,
/// not with what was announced.
pub(crate) fn read_json<T: DeserializeOwned>(
    control: &Channel,
    limit: usize,
    what: &'static str,
    deadline: Instant<Monotonic>,
    stop: &Stop,
) -> Result<T, ReadError> {
    let mut length = [0; 4];
    read_by(control, &mut length, deadline, stop)?;
    let length = parse_length(length, limit, what).map_err(ReadError::Wire)?;
    let mut text = Vec::new();
    while text.len() < length {
        let from = text.len();
        text.resize((from + 16_384).min(length), 0);
        read_by(control, &mut text[from..], deadline, stop)?;
    }
    serde_json::from_slice(&text).map_err(|e| ReadError::Wire(WireError::Malformed { what, why: e.to_string() }))
}

/// Sends a JSON text with its length in front, in one write.
pub(crate) fn write_json(control: &Channel, value: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let length = u32::try_from(text.len()).map_err(std::io::Error::other)?;
    let mut message = Vec::with_capacity(4 + text.len());
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(&text);
    control.set_write_timeout(timing::timeout(Nanos::from_secs(10)))?;
    control.write_all(&message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn openings_are_distinguished() {
        assert!(Opening::parse(&OWN_OPENING) == Ok(Opening::Own));
        let cookie = Cookie::random();
        assert!(Opening::parse(cookie.as_bytes()) == Ok(Opening::Iperf3(cookie)));
        assert_eq!(cookie.to_string().len(), 36);
        let mut next = OWN_OPENING;
        next[18] = b'2';
        assert!(matches!(Opening::parse(&next), Err(WireError::Unsupported { .. })));
        assert!(matches!(Opening::parse(&OWN_OPENING[..30]), Err(WireError::Truncated { have: 30, .. })));
        assert!(matches!(Opening::parse(&[b'G'; 64]), Err(WireError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn foreign_openings_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Opening::parse(&bytes);
        }

        #[test]
        fn every_cookie_is_one(random in proptest::array::uniform32(any::<u8>())) {
            let mut bytes = [7; 36];
            bytes[..32].copy_from_slice(&random);
            let cookie = Cookie::from_random(&bytes);
            prop_assert!(Opening::parse(cookie.as_bytes()) == Ok(Opening::Iperf3(cookie)));
        }

        #[test]
        fn lengths_stay_within_their_limit(bytes: [u8; 4], limit in 1usize..1_000_000) {
            if let Ok(length) = parse_length(bytes, limit, "text") {
                prop_assert!(length > 0 && length <= limit);
            }
        }
    }
}
