//! A host, with or without a port. Names are not looked up here.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::error::{Kind, Problem, Wrong};

/// A host by name or address, and its port where one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name, or an address without brackets; a link-local IPv6 address may have a zone
    /// (`fe80::1%eth0`).
    pub host: String,
    /// Never zero.
    pub port: Option<u16>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl FromStr for Address {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Self, Wrong> {
        parse(text)
    }
}

/// Reads `HOST`, `HOST:PORT`, an IPv6 address by itself, `[IPV6]` and `[IPV6]:PORT`.
///
/// # Errors
/// No host, a port that is none, an IPv6 address with a port but without brackets, and characters
/// that no host has.
pub fn parse(text: &str) -> Result<Address, Wrong> {
    let wrong = |problem| Kind::Address.wrong(problem);
    let text = text.trim();
    if text.is_empty() {
        return Err(wrong(Problem::Empty));
    }
    let port = |text: &str| match text.parse() {
        // `+80` reads as a number.
        Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(wrong(Problem::Port(text.into()))),
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong(Problem::Brackets))?;
        if !is_ipv6(host) {
            return Err(wrong(if host.is_empty() { Problem::NoHost } else { Problem::NotAHost }));
        }
        let port = match rest.strip_prefix(':') {
            Some(text) => Some(port(text)?),
            None if rest.is_empty() => None,
            None => return Err(wrong(Problem::Brackets)),
        };
        return Ok(Address { host: host.into(), port });
    }
    if is_ipv6(text) {
        return Ok(Address { host: text.into(), port: None });
    }
    let (host, port) = match text.split_once(':') {
        // More than one colon and no address: which of them comes before the port cannot be known.
        Some((_, rest)) if rest.contains(':') => return Err(wrong(Problem::Brackets)),
        Some((host, rest)) => (host, Some(port(rest)?)),
        None => (text, None),
    };
    if host.is_empty() {
        return Err(wrong(Problem::NoHost));
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || "[]/%@?#".contains(c)) {
        return Err(wrong(Problem::NotAHost));
    }
    Ok(Address { host: host.into(), port })
}

/// Whether this is an IPv6 address, with or without a zone.
fn is_ipv6(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, zone)) => {
            let named =
                !zone.is_empty() && !zone.contains(|c: char| c.is_whitespace() || c.is_control() || "[]%".contains(c));
            named && address.parse::<Ipv6Addr>().is_ok()
        }
        None => text.parse::<Ipv6Addr>().is_ok(),
    }
}

impl Address {
    /// The host as an address, where it is one; a zone is not looked at.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.split('%').next().and_then(|host| host.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, host, port) in [
            ("example.org", "example.org", None),
            ("example.org:80", "example.org", Some(80)),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:5201", "192.0.2.1", Some(5201)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:80", "fe80::1%eth0", Some(80)),
        ] {
            assert_eq!(parse(text), Ok(Address { host: host.into(), port }), "{text}");
        }
        assert_eq!(parse("[::1]:80").unwrap().ip(), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(parse("localhost").unwrap().ip(), None);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, problem) in [
            ("", Problem::Empty),
            (":80", Problem::NoHost),
            ("[]:80", Problem::NoHost),
            ("host:", Problem::Port(String::new())),
            ("host:0", Problem::Port("0".into())),
            ("host:65536", Problem::Port("65536".into())),
            ("host:+80", Problem::Port("+80".into())),
            ("host:http", Problem::Port("http".into())),
            ("[::1", Problem::Brackets),
            ("[::1]80", Problem::Brackets),
            ("1:2:3", Problem::Brackets),
            ("2001:db8::1:70000", Problem::Brackets),
            ("[host]:80", Problem::NotAHost),
            ("two hosts", Problem::NotAHost),
            ("http://host", Problem::Port("//host".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::Address.wrong(problem)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,16}|[0-9a-f:.%\\[\\]]{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(ip: IpAddr, port in 1..=u16::MAX, with_port: bool) {
            let address = Address { host: ip.to_string(), port: with_port.then_some(port) };
            prop_assert_eq!(parse(&address.to_string()), Ok(address));
        }
    }
}
