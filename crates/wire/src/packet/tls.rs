//! TLS as far as it is in clear view: the header of a record, and both hellos (RFC 8446, sections
//! 4.1 and 5.1; RFC 5246, sections 6.2.1 and 7.4.1).
//!
//! What an analysis asks for is read: versions, the server's name (RFC 6066), application protocols
//! (RFC 7301), and what says whether an earlier session goes on. Other extensions are skipped.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::address::be16;
use super::span::{Fault, Span};

/// The most that a record may carry: 2^14 bytes, and what encryption adds (RFC 5246, section
/// 6.2.3).
const LONGEST_RECORD: u16 = (1 << 14) + 2_048;
/// Versions, protocols and key shares that are kept of a hello.
const MOST: usize = 32;

/// Kinds of records.
pub mod content {
    /// The sender's next records are encrypted; in TLS 1.3 it says nothing.
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    /// An alert.
    pub const ALERT: u8 = 21;
    /// Messages of the handshake.
    pub const HANDSHAKE: u8 = 22;
    /// Data of the application; in TLS 1.3 all that is encrypted.
    pub const APPLICATION_DATA: u8 = 23;
}

/// Kinds of messages of the handshake.
pub mod message {
    /// The client's first.
    pub const CLIENT_HELLO: u8 = 1;
    /// The server's first, or its wish for another first one of the client.
    pub const SERVER_HELLO: u8 = 2;
    /// The last of the server's flight, up to TLS 1.2.
    pub const SERVER_HELLO_DONE: u8 = 14;
    /// The client's key, up to TLS 1.2.
    pub const CLIENT_KEY_EXCHANGE: u8 = 16;
}

/// TLS 1.3 as a version.
pub const TLS13: u16 = 0x0304;

/// The random number by which a `ServerHello` is a `HelloRetryRequest` (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const ALPN: u16 = 16;
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const KEY_SHARE: u16 = 51;
    pub(super) const QUIC_PARAMETERS: u16 = 57;
    /// Of the drafts of QUIC.
    pub(super) const QUIC_PARAMETERS_OF_DRAFTS: u16 = 0xffa5;
    pub(super) const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record carries.
    pub content: u8,
    /// How many bytes of it.
    pub length: u16,
}

impl Header {
    /// `None` where these bytes are no header of a record of SSL 3.0 or TLS.
    pub fn parse(bytes: &[u8; 5]) -> Option<Self> {
        let [content, major, minor, ..] = *bytes;
        let length = be16(bytes, 3);
        // 24 is a heartbeat.
        let is_one = matches!(content, 20..=24) && major == 3 && minor <= 4 && length <= LONGEST_RECORD;
        is_one.then_some(Self { content, length })
    }
}

/// The kind of hello that a payload begins with.
#[inline(always)]
pub fn hello_at(payload: &[u8]) -> Option<u8> {
    match *payload {
        [content::HANDSHAKE, 3, 0..=4, _, _, kind @ (message::CLIENT_HELLO | message::SERVER_HELLO), ..] => Some(kind),
        _ => None,
    }
}

/// The client's hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The number of the session that it wants to go on with up to TLS 1.2, or anything.
    pub session: Vec<u8>,
    /// The name of the server that it wants (SNI), in small letters.
    pub server_name: Option<String>,
    /// The application protocols that it offers, in its order of preference.
    pub protocols: Vec<String>,
    /// The versions that it offers: those of the extension, or the one of the message itself.
    pub versions: Vec<u16>,
    /// The groups of which it sent a share of the key.
    pub key_shares: Vec<u16>,
    /// It wants to go on with an earlier session of TLS 1.3.
    pub has_pre_shared_key: bool,
    /// It sends data of the application before it has an answer.
    pub has_early_data: bool,
    /// It wants to go on with an earlier session by its ticket, up to TLS 1.2.
    pub has_ticket: bool,
    /// It has an encrypted hello within, or pretends to: the name may be that of a front.
    pub has_encrypted_hello: bool,
    /// After so long without a packet the client gives the connection up, ms (QUIC's
    /// `max_idle_timeout`; RFC 9000, section 18.2).
    pub idle_timeout: Option<u64>,
    /// Why the rest was not read.
    pub rest: Option<Fault>,
}

/// The server's hello, or its wish for another one of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerHello {
    /// It is a `HelloRetryRequest`.
    pub is_retry: bool,
    /// The version chosen.
    pub version: u16,
    /// The cipher suite chosen.
    pub cipher: u16,
    /// The number of the session.
    pub session: Vec<u8>,
    /// The application protocol chosen; TLS 1.3 encrypts it.
    pub protocol: Option<String>,
    /// The group of its key, or the one it asks for.
    pub group: Option<u16>,
    /// It goes on with an earlier session of TLS 1.3.
    pub has_pre_shared_key: bool,
    /// Why the rest was not read.
    pub rest: Option<Fault>,
}

impl ClientHello {
    /// Reads the message, which begins behind its header of four bytes.
    ///
    /// # Errors
    /// [`Fault`] where it ends, or was cut off, before its extensions.
    pub fn parse(span: Span<'_>) -> Result<Self, Fault> {
        let mut reader = Reader { span, at: 0 };
        let version = reader.u16()?;
        reader.bytes(32)?;
        let session = reader.list8()?.data.to_vec();
        let (suites, _compressions) = (reader.list16()?, reader.list8()?);
        if suites.wire % 2 != 0 {
            return Err(Fault::Malformed);
        }
        let mut hello = Self { session, versions: vec![version], ..Self::default() };
        hello.rest = extensions(reader, |kind, data| hello.extension(kind, data)).err();
        Ok(hello)
    }

    fn extension(&mut self, kind: u16, data: Span<'_>) -> Result<(), Fault> {
        let mut reader = Reader { span: data, at: 0 };
        match kind {
            // Servers' names are all of type 0, a name of a host.
            extension::SERVER_NAME => {
                let mut names = Reader { span: reader.list16()?, at: 0 };
                if names.u8()? == 0 {
                    self.server_name = Some(readable(names.list16()?.whole_data()?).to_ascii_lowercase());
                }
            }
            extension::ALPN => {
                let mut list = Reader { span: reader.list16()?, at: 0 };
                while list.has_more() {
                    let protocol = readable(list.list8()?.whole_data()?);
                    if self.protocols.len() < MOST {
                        self.protocols.push(protocol);
                    }
                }
            }
            extension::SUPPORTED_VERSIONS => {
                let mut list = Reader { span: reader.list8()?, at: 0 };
                self.versions.clear();
                while list.has_more() {
                    let version = list.u16()?;
                    if !is_grease(version) && self.versions.len() < MOST {
                        self.versions.push(version);
                    }
                }
            }
            extension::KEY_SHARE => {
                let mut list = Reader { span: reader.list16()?, at: 0 };
                while list.has_more() {
                    let (group, _key) = (list.u16()?, list.list16()?);
                    if !is_grease(group) && self.key_shares.len() < MOST {
                        self.key_shares.push(group);
                    }
                }
            }
            extension::SESSION_TICKET => self.has_ticket = data.wire > 0,
            extension::PRE_SHARED_KEY => self.has_pre_shared_key = true,
            extension::EARLY_DATA => self.has_early_data = true,
            extension::ENCRYPTED_CLIENT_HELLO => self.has_encrypted_hello = true,
            extension::QUIC_PARAMETERS | extension::QUIC_PARAMETERS_OF_DRAFTS => {
                self.idle_timeout = super::quic::idle_timeout(data.data);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ServerHello {
    /// Reads the message, which begins behind its header of four bytes.
    ///
    /// # Errors
    /// [`Fault`] where it ends, or was cut off, before its extensions.
    pub fn parse(span: Span<'_>) -> Result<Self, Fault> {
        let mut reader = Reader { span, at: 0 };
        let version = reader.u16()?;
        let is_retry = reader.bytes(32)? == RETRY;
        // Drafts of TLS 1.3 have neither a session nor a compression.
        let is_draft = version >> 8 == 0x7f;
        let session = if is_draft { Vec::new() } else { reader.list8()?.data.to_vec() };
        let cipher = reader.u16()?;
        if !is_draft {
            let _compression = reader.u8()?;
        }
        let mut hello = Self { is_retry, version, cipher, session, ..Self::default() };
        hello.rest = extensions(reader, |kind, data| hello.extension(kind, data)).err();
        Ok(hello)
    }

    fn extension(&mut self, kind: u16, data: Span<'_>) -> Result<(), Fault> {
        let mut reader = Reader { span: data, at: 0 };
        match kind {
            extension::ALPN => {
                let mut list = Reader { span: reader.list16()?, at: 0 };
                self.protocol = Some(readable(list.list8()?.whole_data()?));
            }
            extension::SUPPORTED_VERSIONS => self.version = reader.u16()?,
            extension::KEY_SHARE => self.group = Some(reader.u16()?),
            extension::PRE_SHARED_KEY => self.has_pre_shared_key = true,
            _ => {}
        }
        Ok(())
    }
}

/// Gives the extensions at the end of a hello one by one; there may be none.
fn extensions(mut reader: Reader<'_>, mut each: impl FnMut(u16, Span<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
    if !reader.has_more() {
        return Ok(());
    }
    let mut list = Reader { span: reader.list16()?, at: 0 };
    while list.has_more() {
        let (kind, data) = (list.u16()?, list.list16()?);
        each(kind, data)?;
    }
    Ok(())
}

/// Reserved values that clients send so that servers learn to pass over what they do not know
/// (RFC 8701).
const fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// Bytes as text in which nothing steers a terminal, ends a quotation or parts a list.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' | b'"' | b'`' => text.extend(['\\', byte.into()]),
            0x21..0x7f => text.push(byte.into()),
            _ => _ = write!(text, "\\{byte:03}"),
        }
    }
    text
}

struct Reader<'a> {
    span: Span<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn has_more(&self) -> bool {
        self.at < self.span.wire as usize
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let to = self.at + count;
        let bytes = self.span.data.get(self.at..to).ok_or_else(|| self.span.fault_before(to))?;
        self.at = to;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.bytes(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        Ok(be16(self.bytes(2)?, 0))
    }

    /// What follows its length of one byte.
    fn list8(&mut self) -> Result<Span<'a>, Fault> {
        let length = self.u8()?;
        self.list(length.into())
    }

    /// What follows its length of two bytes.
    fn list16(&mut self) -> Result<Span<'a>, Fault> {
        let length = self.u16()?;
        self.list(length.into())
    }

    /// The capture may have kept less of it than it has.
    fn list(&mut self, length: usize) -> Result<Span<'a>, Fault> {
        if self.at + length > self.span.wire as usize {
            return Err(Fault::Malformed);
        }
        let list = self.span.skip(self.at).limit(length as u32);
        self.at += length;
        Ok(list)
    }
}

/// The name of a version.
pub fn version_name(version: u16) -> Cow<'static, str> {
    Cow::Borrowed(match version {
        0x0300 => "SSL 3.0",
        0x0301 => "TLS 1.0",
        0x0302 => "TLS 1.1",
        0x0303 => "TLS 1.2",
        TLS13 => "TLS 1.3",
        // Drafts of TLS 1.3 have 0x7f and their number.
        other => return Cow::Owned(format!("{other:#06x}")),
    })
}

/// The name of a group (RFC 8446, section 4.2.7, and IANA's registry).
pub fn group_name(group: u16) -> Cow<'static, str> {
    Cow::Borrowed(match group {
        0x0017 => "secp256r1",
        0x0018 => "secp384r1",
        0x0019 => "secp521r1",
        0x001d => "x25519",
        0x001e => "x448",
        0x0100 => "ffdhe2048",
        0x0101 => "ffdhe3072",
        0x11eb => "SecP256r1MLKEM768",
        0x11ec => "X25519MLKEM768",
        0x11ed => "SecP384r1MLKEM1024",
        other => return Cow::Owned(format!("{other:#06x}")),
    })
}

/// The name of an alert (RFC 8446, section 6).
pub fn alert_name(alert: u8) -> Cow<'static, str> {
    Cow::Borrowed(match alert {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        other => return Cow::Owned(format!("alert {other}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list16(data: &[u8]) -> Vec<u8> {
        [&(data.len() as u16).to_be_bytes(), data].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &list16(data)].concat()
    }

    fn client_hello(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut hello = vec![3, 3];
        hello.extend_from_slice(&[7; 32]);
        hello.extend_from_slice(&[2, 0xaa, 0xbb, 0, 4, 0x13, 1, 0xc0, 0x2f, 1, 0]);
        hello.extend_from_slice(&list16(&extensions.concat()));
        hello
    }

    fn usual() -> Vec<u8> {
        client_hello(&[
            extension(0x1a1a, &[]),
            extension(0, &list16(&[&[0][..], &list16(b"WWW.example.com")].concat())),
            extension(16, &list16(b"\x02h2\x08http/1.1")),
            extension(43, &[6, 0x2a, 0x2a, 3, 4, 3, 3]),
            extension(51, &list16(&[&[0x3a, 0x3a][..], &list16(&[0]), &[0, 0x1d], &list16(&[9; 32])].concat())),
            extension(35, &[]),
            extension(41, &[1, 2, 3]),
        ])
    }

    #[test]
    fn a_hello_says_whom_it_wants_and_what_it_can() {
        let hello = ClientHello::parse(Span::whole(&usual())).unwrap();
        assert_eq!(hello.server_name.as_deref(), Some("www.example.com"));
        assert_eq!((hello.protocols.join(" ").as_str(), &hello.versions[..]), ("h2 http/1.1", &[TLS13, 0x0303][..]));
        assert_eq!((hello.session.as_slice(), hello.key_shares.as_slice()), (&[0xaa, 0xbb][..], &[0x1d][..]));
        assert!(hello.has_pre_shared_key && !hello.has_ticket && !hello.has_early_data, "an empty ticket is none");
        assert_eq!(hello.rest, None);
        // Without extensions, as old clients send it: the version is that of the message.
        let old = client_hello(&[]);
        let hello = ClientHello::parse(Span::whole(&old[..old.len() - 2])).unwrap();
        assert_eq!((hello.versions.as_slice(), hello.server_name, hello.rest), (&[0x0303][..], None, None));
    }

    #[test]
    fn a_servers_hello_has_its_choice_and_a_retry_its_number() {
        let hello = |random: [u8; 32], extensions: &[Vec<u8>]| {
            let mut hello = vec![3, 3];
            hello.extend_from_slice(&random);
            hello.extend_from_slice(&[0, 0x13, 2, 0]);
            hello.extend_from_slice(&list16(&extensions.concat()));
            ServerHello::parse(Span::whole(&hello)).unwrap()
        };
        let chosen = hello([1; 32], &[extension(43, &[3, 4]), extension(51, &[0, 0x1d, 0, 0]), extension(41, &[0, 0])]);
        assert_eq!((chosen.version, chosen.cipher, chosen.group), (TLS13, 0x1302, Some(0x1d)));
        assert!(chosen.has_pre_shared_key && !chosen.is_retry);
        let retry = hello(RETRY, &[extension(43, &[3, 4]), extension(51, &[0, 0x17])]);
        assert!(retry.is_retry && retry.group == Some(0x17));
        let draft = [&[0x7f, 18][..], &[1; 32], &[0x13, 3], &list16(&extension(51, &[0, 0x1d, 0, 0]))].concat();
        let draft = ServerHello::parse(Span::whole(&draft)).unwrap();
        assert_eq!((draft.version, draft.cipher, draft.group), (0x7f12, 0x1303, Some(0x1d)));
        let old = hello([1; 32], &[extension(16, &list16(b"\x02h2"))]);
        assert_eq!((old.version, old.protocol.as_deref()), (0x0303, Some("h2")));
    }

    #[test]
    fn what_the_capture_cut_off_is_no_fault_of_the_hello() {
        let whole = usual();
        let full = ClientHello::parse(Span::whole(&whole)).unwrap();
        for cut in 0..whole.len() {
            let data = &whole[..cut];
            match ClientHello::parse(Span { data, wire: whole.len() as u32 }) {
                Err(fault) => assert!(fault == Fault::Truncated && cut < 47, "{cut}"),
                Ok(hello) => {
                    assert!(hello.rest == Some(Fault::Truncated) || hello == full, "{cut}: {hello:?}");
                    assert!(hello.server_name.is_none() || hello.server_name == full.server_name, "{cut}: {hello:?}");
                }
            }
            let short = ClientHello::parse(Span::whole(data));
            assert!(short.is_err_and(|f| f == Fault::Malformed) || cut >= 45, "{cut}");
        }
    }

    #[test]
    fn a_name_steers_no_terminal() {
        let hello = client_hello(&[extension(0, &list16(&[&[0][..], &list16(b"a\x1b[`b")].concat()))]);
        assert_eq!(ClientHello::parse(Span::whole(&hello)).unwrap().server_name.as_deref(), Some("a\\027[\\`b"));
    }

    #[test]
    fn what_is_no_header_of_a_record_is_none() {
        assert_eq!(Header::parse(&[22, 3, 1, 2, 0]), Some(Header { content: 22, length: 512 }));
        for other in [[21, 3, 1, 0xff, 0], [19, 3, 1, 0, 9], [22, 2, 1, 0, 9], [22, 3, 9, 0, 9], *b"GET /"] {
            assert_eq!(Header::parse(&other), None, "{other:?}");
        }
        assert_eq!(
            (hello_at(&[22, 3, 1, 2, 0, 1]), hello_at(&[22, 3, 1, 2, 0, 11])),
            (Some(message::CLIENT_HELLO), None)
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>, wire: u32) {
            let span = Span { data: &bytes, wire: wire.max(bytes.len() as u32) };
            let _ = (ClientHello::parse(span), ServerHello::parse(span));
        }

        #[test]
        fn a_damaged_hello_is_read_or_refused(at in 0usize..160, value: u8) {
            let mut hello = usual();
            let at = at % hello.len();
            hello[at] = value;
            if let Ok(hello) = ClientHello::parse(Span::whole(&hello)) {
                prop_assert!(hello.protocols.len() <= MOST && hello.versions.len() <= MOST);
            }
        }
    }
}
