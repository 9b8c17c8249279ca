//! QUIC as far as it is in clear view: headers (RFC 8999; RFC 9000, section 17; RFC 9369, section
//! 3.2), and what Initial packets carry, whose keys anybody can make (RFC 9001, section 5.2).
//!
//! Versions 1 and 2 are read, and the drafts from 23 on, which look the same. Everything that comes
//! after Initial packets is encrypted with keys of the two sides.

mod frame;
mod protection;

use std::borrow::Cow;
use std::fmt;

use super::span::{Fault, Span};

pub use frame::{Frame, frames};
pub use protection::InitialKeys;

/// Version 1 (RFC 9000).
pub const V1: u32 = 1;
/// Version 2 (RFC 9369).
pub const V2: u32 = 0x6b33_43cf;
/// The port that servers of the web have.
pub const PORT: u16 = 443;
/// A client's first datagram has this many bytes at least (RFC 9000, section 14.1).
pub const FIRST_DATAGRAM: u32 = 1_200;
/// The longest connection ID of the versions that are read.
const LONGEST_ID: usize = 20;

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;

/// Whether long headers of this version are read.
pub const fn is_known(version: u32) -> bool {
    matches!(version, V1 | V2 | 0xff00_0017..=0xff00_0022)
}

/// Versions that clients use so that servers name theirs, and servers so that clients learn to pass
/// over what they do not know (RFC 9000, section 15).
pub const fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// The name of a version.
pub fn version_name(version: u32) -> Cow<'static, str> {
    match version {
        V1 => "QUIC v1".into(),
        V2 => "QUIC v2".into(),
        0xff00_0000..=0xff00_00ff => format!("draft {}", version & 0xff).into(),
        other => format!("{other:#010x}").into(),
    }
}

/// The name of an error of the transport (RFC 9000, section 20.1); those of TLS are its alerts.
pub fn error_name(code: u64) -> Cow<'static, str> {
    Cow::Borrowed(match code {
        0x0 => "NO_ERROR",
        0x1 => "INTERNAL_ERROR",
        0x2 => "CONNECTION_REFUSED",
        0x3 => "FLOW_CONTROL_ERROR",
        0x4 => "STREAM_LIMIT_ERROR",
        0x5 => "STREAM_STATE_ERROR",
        0x6 => "FINAL_SIZE_ERROR",
        0x7 => "FRAME_ENCODING_ERROR",
        0x8 => "TRANSPORT_PARAMETER_ERROR",
        0x9 => "CONNECTION_ID_LIMIT_ERROR",
        0xa => "PROTOCOL_VIOLATION",
        0xb => "INVALID_TOKEN",
        0xc => "APPLICATION_ERROR",
        0xd => "CRYPTO_BUFFER_EXCEEDED",
        0xe => "KEY_UPDATE_ERROR",
        0xf => "AEAD_LIMIT_REACHED",
        0x10 => "NO_VIABLE_PATH",
        0x11 => "VERSION_NEGOTIATION_ERROR",
        0x100..=0x1ff => return super::tls::alert_name(code as u8),
        other => return Cow::Owned(format!("error {other:#x}")),
    })
}

/// A connection ID.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    length: u8,
    bytes: [u8; LONGEST_ID],
}

impl Id {
    /// `None` of more than 20 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { length: bytes.len() as u8, bytes: [0; LONGEST_ID] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length.into()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

/// Kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server names the versions that it speaks.
    VersionNegotiation,
    /// Both hellos of TLS, in keys that anybody can make.
    Initial,
    /// Data of the client before it has an answer.
    ZeroRtt,
    /// The rest of the handshake, encrypted.
    Handshake,
    /// The server has the client show that its address is its own.
    Retry,
    /// Everything after the handshake: the only one with a short header.
    OneRtt,
    /// A long header of a version that is not read.
    OtherVersion,
}

/// A packet, of which a datagram may have several.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its version; 0 for a short header.
    pub version: u32,
    /// The connection ID of whom it is for; of a short header it is in
    /// [`Packet::is_for`].
    pub destination: Id,
    /// The connection ID of who sent it.
    pub source: Id,
    /// The length of an Initial packet's token, bytes.
    pub token: u32,
    /// All of it.
    span: Span<'a>,
    /// Where its number is, or what a version negotiation or a Retry says.
    body: usize,
}

impl<'a> Packet<'a> {
    /// Bytes on the wire.
    pub fn wire(&self) -> u32 {
        self.span.wire
    }

    /// Whether the capture has all of it.
    pub fn is_whole(&self) -> bool {
        self.span.data.len() == self.span.wire as usize
    }

    /// The spin bit of a short header.
    pub fn spin(&self) -> bool {
        self.span.data.first().is_some_and(|first| first & SPIN != 0)
    }

    /// Whether a short header is for this connection ID, as far as it says: that of the empty one
    /// says nothing.
    pub fn is_for(&self, id: &Id) -> bool {
        self.span.data.get(1..).is_some_and(|rest| rest.starts_with(id.as_slice()))
    }

    /// The first bytes behind a short header's first one as a connection ID of this length.
    pub fn id_of(&self, length: usize) -> Option<Id> {
        Id::new(self.span.data.get(1..1 + length)?)
    }

    /// The versions that a server names, 64 at most.
    pub fn versions(&self) -> impl Iterator<Item = u32> + use<'a> {
        let is_list = self.kind == Kind::VersionNegotiation;
        let list = self.span.data.get(self.body..).filter(|_| is_list).unwrap_or_default();
        list.chunks_exact(4).take(64).map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]))
    }
}

/// A number of 1 to 8 bytes (RFC 9000, section 16), and what follows.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, length) = (*bytes.first()?, 1 << (bytes.first()? >> 6));
    let (number, rest) = (bytes.get(1..length)?, &bytes[length..]);
    Some((number.iter().fold(u64::from(first & 0x3f), |all, byte| all << 8 | u64::from(*byte)), rest))
}

/// The `max_idle_timeout` among a side's transport parameters, ms (RFC 9000, section 18.2).
pub(super) fn idle_timeout(mut parameters: &[u8]) -> Option<u64> {
    const MAX_IDLE_TIMEOUT: u64 = 1;
    while let Some((kind, rest)) = number(parameters) {
        let (length, rest) = number(rest)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        if kind == MAX_IDLE_TIMEOUT {
            // Nought stands for none.
            return number(value).map(|(ms, _)| ms).filter(|ms| *ms > 0);
        }
        parameters = rest;
    }
    None
}

/// Whether a datagram may begin with a long header: of a version that is read, of one that asks for
/// a version negotiation, or of that.
#[inline]
pub fn begins_long(data: &[u8]) -> bool {
    match *data {
        [first, a, b, c, d, ids, ..] if first & LONG != 0 && usize::from(ids) <= LONGEST_ID => {
            let version = u32::from_be_bytes([a, b, c, d]);
            version == 0 || first & FIXED != 0 && (is_known(version) || is_reserved(version))
        }
        _ => false,
    }
}

/// Whether a datagram may begin with a short header.
#[inline]
pub fn begins_short(data: &[u8]) -> bool {
    data.first().is_some_and(|first| first & (LONG | FIXED) == FIXED)
}

/// Whether a datagram of a connection that is under way has a short header at its beginning, or a
/// long one; `None` where it is none. Sides that agreed to send the fixed bit at random, so that
/// nothing on the way relies on it, leave it out (RFC 9287).
#[inline]
pub fn goes_on_short(data: &[u8]) -> Option<bool> {
    match *data {
        [first, ..] if first & LONG == 0 => Some(true),
        [_, a, b, c, d, ..] if is_known(u32::from_be_bytes([a, b, c, d])) => Some(false),
        _ => begins_long(data).then_some(false),
    }
}

/// The packets of a datagram, up to the first that cannot be read. What is behind a packet may be
/// padding.
pub fn packets(datagram: Span<'_>) -> Packets<'_> {
    Packets { rest: datagram, is_first: true }
}

/// See [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: Span<'a>,
    is_first: bool,
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, span) = (*self.rest.data.first()?, self.rest);
        let is_padding = !self.is_first && first & (LONG | FIXED) == 0 && self.rest.data.iter().all(|byte| *byte == 0);
        self.is_first = false;
        self.rest = Span { data: &[], wire: 0 };
        if is_padding {
            return None;
        }
        if first & LONG == 0 {
            let (kind, ids) = (Kind::OneRtt, Id::default());
            return Some(Ok(Packet { kind, version: 0, destination: ids, source: ids, token: 0, span, body: 1 }));
        }
        Some(self.long(first, span))
    }
}

impl<'a> Packets<'a> {
    fn long(&mut self, first: u8, span: Span<'a>) -> Result<Packet<'a>, Fault> {
        // What is not there was not sent, or not kept.
        let missing = |rest: &[u8]| span.fault_before(span.data.len() - rest.len() + 1);
        let (version, rest) = span.data[1..].split_first_chunk::<4>().ok_or_else(|| span.fault_before(5))?;
        let version = u32::from_be_bytes(*version);
        let id = |rest: &'a [u8]| {
            let (length, rest) = rest.split_first().ok_or_else(|| missing(rest))?;
            let length = usize::from(*length);
            if length > LONGEST_ID {
                return Err(Fault::Malformed);
            }
            let at = span.data.len() - rest.len();
            let (id, rest) = rest.split_at_checked(length).ok_or_else(|| span.fault_before(at + length))?;
            Ok((Id::new(id).ok_or(Fault::Malformed)?, rest))
        };
        let (destination, rest) = id(rest)?;
        let (source, rest) = id(rest)?;
        let at = |rest: &[u8]| span.data.len() - rest.len();
        let packet = Packet { kind: Kind::OtherVersion, version, destination, source, token: 0, span, body: at(rest) };
        let kind = match (version, (first >> 4) & 3) {
            (0, _) => Kind::VersionNegotiation,
            (version, _) if !is_known(version) => Kind::OtherVersion,
            (V2, kind) => [Kind::Retry, Kind::Initial, Kind::ZeroRtt, Kind::Handshake][usize::from(kind)],
            (_, kind) => [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry][usize::from(kind)],
        };
        let packet = Packet { kind, ..packet };
        if matches!(kind, Kind::VersionNegotiation | Kind::OtherVersion | Kind::Retry) {
            return Ok(packet);
        }
        let (mut token, mut rest) = (0, rest);
        if kind == Kind::Initial {
            let (length, behind) = number(rest).ok_or_else(|| missing(rest))?;
            let to = (at(behind) as u64).saturating_add(length);
            rest = usize::try_from(length)
                .ok()
                .and_then(|length| behind.get(length..))
                .ok_or_else(|| span.fault_before(usize::try_from(to).unwrap_or(usize::MAX)))?;
            token = length as u32;
        }
        let (length, rest) = number(rest).ok_or_else(|| missing(rest))?;
        let body = at(rest);
        let end = (body as u64).saturating_add(length);
        if end > span.wire.into() {
            return Err(Fault::Malformed);
        }
        self.rest = span.skip(end as usize);
        Ok(Packet { token, body, span: span.limit(end as u32), ..packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_length_are_those_of_the_rfc() {
        // RFC 9000, appendix A.1.
        for (bytes, wanted) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(number(bytes), Some((wanted, &[][..])));
            assert_eq!(number(&bytes[..bytes.len() - 1]), None);
        }
    }

    fn long(first: u8, version: u32, behind: &[u8]) -> Vec<u8> {
        [&[first][..], &version.to_be_bytes(), &[4, 1, 2, 3, 4, 2, 8, 9], behind].concat()
    }

    #[test]
    fn packets_of_one_datagram_are_parted() {
        let initial = long(0xc0, V1, &[1, 7, 3, 5, 5, 5]);
        let handshake = long(0xe0, V1, &[2, 6, 6]);
        let short = [0x60, 1, 2, 3, 4, 9, 9];
        let datagram = [&initial[..], &handshake, &short].concat();
        let all: Vec<Packet<'_>> = packets(Span::whole(&datagram)).collect::<Result<_, _>>().unwrap();
        let kinds: Vec<Kind> = all.iter().map(|p| p.kind).collect();
        assert_eq!(kinds, [Kind::Initial, Kind::Handshake, Kind::OneRtt]);
        assert_eq!((all[0].token, all[0].wire(), all[1].wire()), (1, initial.len() as u32, handshake.len() as u32));
        assert_eq!((all[1].destination.to_string(), all[1].source.to_string()), ("01020304".into(), "0809".into()));
        assert!(all[2].spin() && all[2].is_for(&all[0].destination) && !all[2].is_for(&all[0].source));
        assert_eq!(all[2].id_of(2), Id::new(&[1, 2]));
        // What is cut off by the capture is no fault of the datagram.
        let wire = datagram.len() as u32;
        for cut in 0..datagram.len() {
            let kept: Vec<_> = packets(Span { data: &datagram[..cut], wire }).collect();
            assert!(kept.iter().all(|p| !matches!(p, Err(Fault::Malformed))), "{cut}: {kept:?}");
        }
        // The same with the fixed bit left out.
        let greased = [&long(0x80, V1, &[1, 7, 3, 5, 5, 5])[..], &[0x20, 1, 2, 3, 4, 9, 9]].concat();
        let kinds: Vec<Kind> = packets(Span::whole(&greased)).map(|p| p.unwrap().kind).collect();
        assert_eq!((kinds, begins_long(&greased)), (vec![Kind::Initial, Kind::OneRtt], false));
        let short = |data: &[u8]| (begins_short(data), goes_on_short(data));
        assert_eq!(
            [short(&greased), short(&[0x20, 1]), short(&[0x60, 1])],
            [(false, Some(false)), (false, Some(true)), (true, Some(true))]
        );
        assert_eq!([short(&[]).1, short(&long(0x80, 0x1234_5678, &[])).1], [None, None]);
        // Padding behind the last.
        let padded = [&initial[..], &[0; 9]].concat();
        assert_eq!(packets(Span::whole(&padded)).count(), 1);
    }

    #[test]
    fn the_types_of_version_2_are_its_own() {
        let kind = |first, version| packets(Span::whole(&long(first, version, &[0, 0]))).next().unwrap().unwrap().kind;
        assert_eq!(
            [0xd0, 0xe0, 0xf0, 0xc0].map(|first| kind(first, V2)),
            [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry]
        );
        assert_eq!(
            [0xc0, 0xd0, 0xe0, 0xf0].map(|first| kind(first, V1)),
            [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry]
        );
        assert_eq!([kind(0x80, 0), kind(0xc0, 0x1a2a_3a4a)], [Kind::VersionNegotiation, Kind::OtherVersion]);
    }

    #[test]
    fn a_version_negotiation_names_versions() {
        let datagram = long(0x80, 0, &[0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf, 1]);
        let packet = packets(Span::whole(&datagram)).next().unwrap().unwrap();
        assert_eq!(packet.versions().collect::<Vec<_>>(), [V1, V2]);
    }

    #[test]
    fn the_idle_timeout_is_found_among_the_parameters() {
        let wanted = |parameters: &[u8]| idle_timeout(parameters);
        assert_eq!(wanted(&[3, 2, 0x45, 0xdc, 1, 4, 0x80, 0, 0x75, 0x30]), Some(30_000));
        assert_eq!([wanted(&[1, 1, 0]), wanted(&[1, 4, 0x80]), wanted(&[3, 0xff]), wanted(&[])], [None; 4]);
    }

    #[test]
    fn lengths_beyond_the_datagram_are_refused() {
        for behind in [&[0, 9, 1][..], &[9, 1], &[0xff; 12], &[]] {
            assert_eq!(
                packets(Span::whole(&long(0xc0, V1, behind))).next().map(|p| p.map(|_| ())),
                Some(Err(Fault::Malformed))
            );
        }
        let mut long_id = long(0xc0, V1, &[0; 40]);
        long_id[5] = 21;
        assert_eq!(packets(Span::whole(&long_id)).next().map(|p| p.map(|_| ())), Some(Err(Fault::Malformed)));
    }
}
