//! Answers to the datagrams of `wirelapse probe udp`, for addresses that receive what is sent to
//! them.
//!
//! A probe carries a cookie. One without a valid cookie is answered with a new one, in fewer bytes
//! than came, so a forged address gets less than the forger sends. The server keeps no state: a
//! cookie is a keyed hash of the address, the port and the time.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;

use clock::{Instant, Monotonic};

/// How a probe begins, how its answer begins, and how a challenge does. No answer is a probe, so
/// two servers cannot be made to answer each other.
const PROBE: &[u8] = b"WLUP";
const ANSWER: &[u8] = b"WLUA";
const CHALLENGE: &[u8] = b"WLUK";
const COOKIE: usize = 16;
/// Shorter datagrams are no probes: they would be shorter than the challenge.
const LEAST_PROBE: usize = 24;
/// A cookie is taken for at least this long, and for at most twice as long.
const LIFETIME_NS: u64 = 60_000_000_000;

/// What distinguishes senders that hold a cookie. Its key is drawn once a server (SipHash,
/// `std::hash::RandomState`).
#[derive(Default)]
pub(crate) struct Reflector {
    key: RandomState,
}

impl Reflector {
    fn cookie(&self, peer: SocketAddr, period: u64) -> [u8; COOKIE] {
        let mut cookie = [0; COOKIE];
        for (half, bytes) in (0u8..).zip(cookie.chunks_mut(8)) {
            bytes.copy_from_slice(&self.key.hash_one((peer, period, half)).to_be_bytes());
        }
        cookie
    }

    /// The answer to a probe of `peer`, or the datagram itself where it is none.
    pub fn answer(&self, mut datagram: Vec<u8>, peer: SocketAddr, now: Instant<Monotonic>) -> Result<Vec<u8>, Vec<u8>> {
        if datagram.len() < LEAST_PROBE || !datagram.starts_with(PROBE) {
            return Err(datagram);
        }
        let period = now.as_nanos() / LIFETIME_NS;
        let given = &datagram[PROBE.len()..][..COOKIE];
        let current = self.cookie(peer, period);
        if given != current && period.checked_sub(1).is_none_or(|last| given != self.cookie(peer, last)) {
            return Ok([CHALLENGE, &current].concat());
        }
        datagram[..ANSWER.len()].copy_from_slice(ANSWER);
        Ok(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(cookie: &[u8]) -> Vec<u8> {
        [PROBE, cookie, b"the rest"].concat()
    }

    #[test]
    fn only_who_received_the_cookie_is_answered_in_full() {
        let (reflector, at) = (Reflector::default(), |s: u64| Instant::from_nanos(s * 1_000_000_000));
        let (peer, other): (SocketAddr, SocketAddr) = ("192.0.2.1:5".parse().unwrap(), "192.0.2.2:5".parse().unwrap());
        let asked = probe(&[0; COOKIE]);
        let challenge = reflector.answer(asked.clone(), peer, at(100)).unwrap();
        assert!(challenge.starts_with(CHALLENGE) && challenge.len() < asked.len());
        let with = probe(&challenge[4..]);
        let answered = reflector.answer(with.clone(), peer, at(100)).unwrap();
        assert_eq!((&answered[..4], &answered[4..]), (ANSWER, &with[4..]));
        for (who, when) in [(other, 100), (peer, 100 + 120)] {
            assert!(reflector.answer(with.clone(), who, at(when)).unwrap().starts_with(CHALLENGE), "{who} at {when}");
        }
        assert!(reflector.answer(with, peer, at(100 + 60)).unwrap().starts_with(ANSWER));
    }

    #[test]
    fn what_is_no_probe_is_given_back_and_no_answer_is_answered() {
        let (reflector, peer) = (Reflector::default(), "[2001:db8::1]:5".parse().unwrap());
        let now = Instant::from_nanos(1);
        let challenge = reflector.answer(probe(&[0; COOKIE]), peer, now).unwrap();
        let answer = reflector.answer(probe(&challenge[4..]), peer, now).unwrap();
        for datagram in [challenge, answer, b"WLUP too short".to_vec(), vec![0; 100], Vec::new()] {
            assert_eq!(reflector.answer(datagram.clone(), peer, now), Err(datagram));
        }
    }
}
