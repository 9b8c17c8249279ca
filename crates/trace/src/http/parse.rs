//! From the first bytes of a packet's payload to what they say. Foreign bytes: whatever they are,
//! nothing here panics.

use record::{Label, Method, Says};
use wire::packet::Span;
use wire::packet::tls::ClientHello;

/// What these bytes begin with: a line of HTTP/1, or the preface of HTTP/2; `None` where it is
/// something else.
pub(super) fn line(bytes: &[u8]) -> Option<Says> {
    if let Some(rest) = bytes.strip_prefix(b"HTTP/1.") {
        return status(rest);
    }
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let line = &bytes[..end.unwrap_or(bytes.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line == b"PRI * HTTP/2.0" {
        return Some(Says::Http2);
    }
    let (method, rest) = split(line, b' ')?;
    let method = Method::ALL.into_iter().find(|known| known.name().as_bytes() == method)?;
    if end.is_none() {
        return Some(Says::Cut);
    }
    // RFC 9112, section 3.
    let (target, version) = split(rest, b' ')?;
    let path = path(target, method);
    (version.starts_with(b"HTTP/1.") && !path.is_empty()).then_some(Says::Request(Label { method, path }))
}

/// The status after `HTTP/1.` (RFC 9112, section 4).
fn status(rest: &[u8]) -> Option<Says> {
    let [version, b' ', status @ ..] = rest else { return None };
    let digits = status.first_chunk::<3>()?;
    // No longer number begins with it.
    let ends = status.get(3).is_none_or(|next| !next.is_ascii_digit());
    let number = std::str::from_utf8(digits).ok()?.parse::<u16>().ok()?;
    (ends && version.is_ascii_digit() && (100..=999).contains(&number)).then_some(Says::Answer(number))
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|&byte| byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// The path of a request's target (RFC 9112, section 3.2) without a query, without who logs in, and
/// with visible characters of ASCII alone.
fn path(target: &[u8], method: Method) -> String {
    let target = target.split(|&byte| byte == b'?' || byte == b'#').next().unwrap_or_default();
    let scheme = target.windows(3).position(|three| three == b"://").map(|at| at + 3).filter(|_| target[0] != b'/');
    let (scheme, rest) = match scheme {
        Some(after) => target.split_at(after),
        None => (&[][..], target),
    };
    let host_first = !scheme.is_empty() || method == Method::Connect;
    let host = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let login = rest[..host].iter().rposition(|&byte| byte == b'@').filter(|_| host_first);
    let kept = scheme.iter().chain(&rest[login.map_or(0, |at| at + 1)..]);
    kept.fold(String::new(), |mut text, &byte| {
        match byte {
            0x21..=0x7e => text.push(byte.into()),
            other => text.push_str(&format!("%{other:02X}")),
        }
        text
    })
}

/// Whether a ClientHello, with the header of its record in front, offers HTTP/2 (RFC 8446, section
/// 4.1.2; RFC 7301, section 3.1). `None` where the bytes end before that shows.
pub(super) fn offers_h2(bytes: &[u8]) -> Option<bool> {
    const ALPN: u16 = 16;
    let length = bytes.get(6..9)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    // Header of the record, type and length of the message, version, random.
    let mut rest = Rest(bytes.get(5 + 4 + 2 + 32..)?);
    let session = rest.byte()?;
    rest.take(session.into())?;
    let ciphers = rest.short()?;
    rest.take(ciphers.into())?;
    let compressions = rest.byte()?;
    rest.take(compressions.into())?;
    if rest.0.is_empty() {
        return (bytes.len() >= 5 + 4 + length).then_some(false);
    }
    let mut left = usize::from(rest.short()?);
    while left >= 4 {
        let (kind, length) = (rest.short()?, rest.short()?);
        left = left.checked_sub(4 + usize::from(length))?;
        let body = rest.take(length.into())?;
        if kind == ALPN {
            let mut names = Rest(body.get(2..)?);
            while !names.0.is_empty() {
                let length = names.byte()?;
                if names.take(length.into())? == b"h2" {
                    return Some(true);
                }
            }
            return Some(false);
        }
    }
    Some(false)
}

/// The name of the server that a ClientHello asks for (SNI), with the header of its record in
/// front; `None` where it asks for none, or the bytes end before that shows. Behind an encrypted
/// hello stands another name than the one that is read here, so that none is given.
pub(super) fn server_name(bytes: &[u8]) -> Option<String> {
    let length = bytes.get(6..9)?.iter().fold(0, |length, &byte| length << 8 | u32::from(byte));
    let data = bytes.get(9..)?;
    let hello = ClientHello::parse(Span { data: &data[..data.len().min(length as usize)], wire: length }).ok()?;
    hello.server_name.filter(|name| !name.is_empty() && !hello.has_encrypted_hello)
}

/// Bytes that are taken from the front.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn short(&mut self) -> Option<u16> {
        let taken = self.take(2)?;
        Some(u16::from_be_bytes([taken[0], taken[1]]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(bytes: &[u8]) -> String {
        match line(bytes) {
            Some(Says::Request(label)) => label.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_request_line_gives_method_and_path() {
        for (text, found) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n", "GET /"),
            ("DELETE /a/b%20c;v=1 HTTP/1.0\n", "DELETE /a/b%20c;v=1"),
            ("OPTIONS * HTTP/1.1\r\n", "OPTIONS *"),
            ("GET /find?token=secret HTTP/1.1\r\n", "GET /find"),
            // As the kernel part hands a query on.
            ("GET /find?\0\0\0\0 HTTP/1.1\r\n", "GET /find"),
            ("GET /find#here HTTP/1.1\r\n", "GET /find"),
            ("GET http://user:secret@host/p@th?q HTTP/1.1\r\n", "GET http://host/p@th"),
            ("GET /to/http://user@host/ HTTP/1.1\r\n", "GET /to/http://user@host/"),
            ("CONNECT user@host:443 HTTP/1.1\r\n", "CONNECT host:443"),
            ("GET /\u{1b}[31m\u{7f}\u{e4} HTTP/1.1\r\n", "GET /%1B[31m%7F%C3%A4"),
        ] {
            assert_eq!(label(text.as_bytes()), found, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_whole_request_line_has_no_label() {
        for cut in ["GET ", "GET /a/long/pa", "POST /x HTTP/1.1", "POST /x HTTP/1.1\r"] {
            assert_eq!(line(cut.as_bytes()), Some(Says::Cut), "{cut:?}");
        }
        for other in [
            "",
            "GET",
            "GET key\r\n",
            "GETX / HTTP/1.1\r\n",
            "GET  HTTP/1.1\r\n",
            "PRI * HTTP/1.1\r\n",
            "GET / HTTP/2.0\r\n",
        ] {
            assert_eq!(line(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn a_status_line_gives_its_status() {
        let of = |text: &str| line(text.as_bytes());
        assert_eq!(of("HTTP/1.1 200 OK\r\n"), Some(Says::Answer(200)));
        assert_eq!(of("HTTP/1.0 404"), Some(Says::Answer(404)));
        for other in ["HTTP/1.1 20", "HTTP/1.1 2000 ", "HTTP/1.1 099 x", "HTTP/2 200", "HTTP/1.1  200"] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_preface_is_that_of_http_2() {
        assert_eq!(line(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Says::Http2));
    }

    /// A ClientHello with these extensions.
    fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([4, 1, 2, 3, 4]);
        body.extend([0, 4, 0x13, 1, 0x13, 2]);
        body.extend([1, 0]);
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, of)| {
                let length = (of.len() as u16).to_be_bytes();
                [&kind.to_be_bytes()[..], &length, of].concat()
            })
            .collect();
        body.extend((all.len() as u16).to_be_bytes());
        body.extend(all);
        let mut bytes = vec![0x16, 3, 1];
        bytes.extend((body.len() as u16 + 4).to_be_bytes());
        bytes.extend([1, 0]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_client_hello_offers_http_2_or_not() {
        let alpn = |names: &[&str]| {
            let list: Vec<u8> = names.iter().flat_map(|n| [&[n.len() as u8][..], n.as_bytes()].concat()).collect();
            (16, [&(list.len() as u16).to_be_bytes()[..], &list].concat())
        };
        let name = (0, b"\0\x0b\0\0\x08h2.local".to_vec());
        assert_eq!(offers_h2(&hello(&[name.clone(), alpn(&["http/1.1", "h2"])])), Some(true));
        assert_eq!(offers_h2(&hello(&[name.clone(), alpn(&["http/1.1", "h2c"])])), Some(false));
        assert_eq!(offers_h2(&hello(std::slice::from_ref(&name))), Some(false));
        let whole = hello(&[name, alpn(&["h2"])]);
        for end in 0..whole.len() {
            assert_eq!(offers_h2(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_client_hello_names_a_server_unless_it_hides_another() {
        let name = (0, b"\0\x0b\0\0\x08H2.local".to_vec());
        let whole = hello(&[name.clone(), (16, vec![0, 3, 2, b'h', b'2'])]);
        assert_eq!(server_name(&whole).as_deref(), Some("h2.local"));
        // What follows the name may be in a later packet.
        assert_eq!(server_name(&whole[..whole.len() - 4]).as_deref(), Some("h2.local"));
        assert_eq!(server_name(&hello(&[(16, vec![0, 3, 2, b'h', b'2'])])), None);
        assert_eq!(server_name(&hello(&[name, (0xfe0d, vec![0; 8])])), None);
        for end in 0..60 {
            assert_eq!(server_name(&whole[..end]), None, "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, at in 0..14_usize) {
            let begin = Method::ALL.get(at).map_or("HTTP/1.1 ", |method| method.name());
            for bytes in [bytes.clone(), [begin.as_bytes(), b" ", &bytes].concat()] {
                if let Some(Says::Request(label)) = line(&bytes) {
                    prop_assert!(label.path.bytes().all(|byte| byte.is_ascii_graphic()), "{label}");
                }
                offers_h2(&bytes);
                server_name(&bytes);
            }
        }
    }
}
