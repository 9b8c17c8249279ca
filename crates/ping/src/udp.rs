//! UDP datagrams to a port that echoes them, to `wirelapse serve`, or to a closed one, for which the host answers with an ICMP error.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use socket2::{Protocol, Type};

use crate::datagram::Exchanger;
use crate::{Answerer, Error, Probe, Prober, Settings, socket};

/// How a probe begins, and what `wirelapse serve` puts there in its answer.
const PROBE: &[u8] = b"WLUP";
const ANSWER: &[u8] = b"WLUA";

/// The payload of a probe.
fn payload(size: usize, own: u64, number: u64) -> Vec<u8> {
    let mut payload: Vec<u8> = PROBE.iter().copied().chain([0; 4]).take(size).collect();
    payload.extend(socket::payload(size.saturating_sub(payload.len()), own, number));
    payload
}

/// Whether this came back for `payload`: the same, or with the mark of an answer.
fn answers(payload: &[u8], came: &[u8]) -> bool {
    came == payload || came.strip_prefix(ANSWER).is_some_and(|came| payload.strip_prefix(PROBE) == Some(came))
}

/// Probes by datagram.
pub struct UdpProber {
    exchanger: Exchanger,
    own: u64,
    size: usize,
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
        Ok(Self { exchanger, own: socket::own_number(), size: settings.size, limits })
    }
}

impl Prober for UdpProber {
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error> {
        let payload = payload(self.size, self.own, number);
        self.exchanger.exchange(
            number,
            &payload,
            stop,
            |bytes| answers(&payload, bytes).then_some(bytes.len()),
            // As much of the datagram as came back with the error has to be this one's.
            |error| payload.starts_with(error.payload) || error.payload.starts_with(&payload),
        )
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
        let one = payload(56, 7, 1);
        assert_eq!((one.len(), &one[..4]), (56, PROBE));
        let marked = [ANSWER, &one[4..]].concat();
        assert!(answers(&one, &one) && answers(&one, &marked));
        assert!(!answers(&one, &payload(56, 7, 2)) && !answers(&one, &marked[..55]) && !answers(&one, b""));
        for short in 0..8 {
            let one = payload(short, 7, 1);
            assert!(one.len() == short && answers(&one, &one));
        }
    }
}
