//! UDP datagrams to a port that echoes them, to `wirelapse serve`, or to a closed one, for which
//! the host answers with an ICMP error.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use socket2::{Protocol, Type};

use crate::datagram::Exchanger;
use crate::{Answerer, Error, Outcome, Probe, Prober, Settings, socket};

/// How a probe begins, what `wirelapse serve` puts there in its answer, and how it begins where it
/// first wants a cookie.
const PROBE: &[u8] = b"WLUP";
const ANSWER: &[u8] = b"WLUA";
const CHALLENGE: &[u8] = b"WLUK";
/// Bytes of a cookie. It shows the server that the sender's address is not forged.
const COOKIE: usize = 16;
type Cookie = [u8; COOKIE];
/// A cookie that has just run out is renewed once; a server that is still not content is not
/// answered any more.
const ATTEMPTS: usize = 3;

/// The payload of a probe.
fn payload(size: usize, cookie: &Cookie, own: u64, number: u64) -> Vec<u8> {
    let mut payload: Vec<u8> = PROBE.iter().chain(cookie).copied().take(size).collect();
    payload.extend(socket::payload(size.saturating_sub(payload.len()), own, number));
    payload
}

/// Whether this came back for `payload`: the same, or with the mark of an answer.
fn answers(payload: &[u8], came: &[u8]) -> bool {
    came == payload || came.strip_prefix(ANSWER).is_some_and(|came| payload.strip_prefix(PROBE) == Some(came))
}

/// The cookie that the server wants to see.
fn challenge(came: &[u8]) -> Option<Cookie> {
    came.strip_prefix(CHALLENGE)?.try_into().ok()
}

/// Probes by datagram.
pub struct UdpProber {
    exchanger: Exchanger,
    own: u64,
    size: usize,
    cookie: Cookie,
    limits: Vec<String>,
}

impl UdpProber {
    /// A prober for this host and port.
    ///
    /// # Errors
    /// [`Error::System`] where there is no route, and as [`timestamping::Request::enable`].
    pub fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        let socket = socket::open(to.ip(), Type::DGRAM, Protocol::UDP)?;
        let exchanger = Exchanger::new(socket, Answerer::Program, to, settings)?;
        let limits = exchanger.limits();
        Ok(Self { exchanger, own: socket::own_number(), size: settings.size, cookie: [0; COOKIE], limits })
    }
}

impl Prober for UdpProber {
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error> {
        let mut attempts = 1;
        loop {
            let payload = payload(self.size, &self.cookie, self.own, number);
            let wanted = Cell::new(None);
            let probe = self.exchanger.exchange(
                number,
                &payload,
                stop,
                |bytes| {
                    wanted.set(challenge(bytes));
                    (answers(&payload, bytes) || wanted.get().is_some()).then_some(bytes.len())
                },
                // As much of the datagram as came back with the error has to be this one's.
                |error| payload.starts_with(error.payload) || error.payload.starts_with(&payload),
            )?;
            match wanted.get() {
                Some(cookie) if attempts < ATTEMPTS => self.cookie = cookie,
                Some(_) => return Ok(Probe { outcome: Outcome::NoAnswer, ..Probe::new(number) }),
                None => return Ok(probe),
            }
            attempts += 1;
        }
    }

    fn method(&self) -> &'static str {
        "UDP datagrams, echoed or refused"
    }

    fn limits(&self) -> &[String] {
        &self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_answered_by_itself_or_by_itself_with_the_servers_mark() {
        let none = [0; COOKIE];
        let one = payload(56, &none, 7, 1);
        assert_eq!((one.len(), &one[..4]), (56, PROBE));
        let marked = [ANSWER, &one[4..]].concat();
        assert!(answers(&one, &one) && answers(&one, &marked));
        assert!(!answers(&one, &payload(56, &none, 7, 2)) && !answers(&one, &marked[..55]) && !answers(&one, b""));
        for short in 0..28 {
            let one = payload(short, &none, 7, 1);
            assert!(one.len() == short && answers(&one, &one));
        }
    }

    #[test]
    fn a_challenge_holds_the_cookie_and_nothing_else() {
        let cookie = [9; COOKIE];
        let whole = [CHALLENGE, &cookie].concat();
        assert_eq!(challenge(&whole), Some(cookie));
        assert_eq!(challenge(&whole[..19]), None);
        assert_eq!(challenge(&[&whole[..], &[0]].concat()), None);
        assert_eq!(&payload(56, &cookie, 7, 1)[4..20], cookie);
    }
}
