//! Datagrams of a capture that alternate, as the programs of a live trace see them
//! (`trace/src/dns/exchanges.h`).

use record::{Connection, Exchange, Instant, Monotonic, Nanos, Role};
use wire::packet::Span;
use wire::packet::quic::{self, Kind};

/// How the datagrams of a conversation follow each other.
#[derive(Default)]
pub(super) struct Datagrams {
    /// When the datagram passed that has no answer yet.
    asked: Option<Instant<Monotonic>>,
    /// Datagrams in a row of the end that asks, and of the other one.
    questions: u32,
    answers: u32,
    /// Which ends began a datagram with version 2 of RTP.
    speak: [bool; 2],
    is_quic: bool,
    /// When the first Initial packet of a client of QUIC passed, and whether that is the local end.
    initial: Option<(Instant<Monotonic>, bool)>,
}

impl Datagrams {
    /// Takes a datagram with so many bytes that begins with `head`; `local` says that this host
    /// sent it, and `asks` that this host asks. Gives what it answers, or begins of QUIC.
    pub(super) fn take(
        &mut self,
        of: &Connection,
        [local, asks]: [bool; 2],
        (head, bytes): (&[u8], u32),
        at: Instant<Monotonic>,
    ) -> Option<Exchange> {
        let exchange = |asked, took, is_quic| Exchange {
            socket: of.id,
            owner: of.owner,
            cgroup: None,
            local: of.local,
            peer: of.remote,
            // How much of it is this host's own cannot be told without knowing how far away it is.
            role: Role::Client,
            asked,
            took,
            is_quic,
            times: 1,
        };
        let since = |then| at.since(then).unwrap_or(Nanos::ZERO);
        if self.is_quic {
            let (began, _) = self.initial.filter(|(_, client)| *client == local && quic::begins_short(head))?;
            self.initial = None;
            return Some(exchange(began, Some(since(began)), true));
        }
        let first = quic::begins_long(head).then(|| quic::packets(Span { data: head, wire: bytes }).next()).flatten();
        if first.is_some_and(|first| first.is_ok_and(|first| first.kind == Kind::Initial)) {
            (self.is_quic, self.initial) = (true, Some((at, local)));
            return Some(exchange(at, None, true));
        }
        self.speak[usize::from(local)] |= head.first().is_some_and(|first| first >> 6 == 2);
        if local == asks {
            // After several answers the next datagram may be an acknowledgement.
            self.questions = match self.answers {
                0 => self.questions + 1,
                1 => 1,
                _ => 2,
            };
            (self.answers, self.asked) = (0, Some(at));
            return None;
        }
        self.answers += 1;
        let asked = self.asked.take().filter(|_| self.questions == 1 && self.speak != [true; 2])?;
        Some(exchange(asked, Some(since(asked)), false))
    }
}

#[cfg(test)]
mod tests {
    use record::table::Record as _;

    use super::*;

    const ASKS: [bool; 2] = [true, true];
    const ANSWERS: [bool; 2] = [false, true];

    /// What comes of datagrams that begin so, one each millisecond: in ms, and whether it is QUIC.
    fn of(all: &[([bool; 2], &[u8])]) -> Vec<(Option<u64>, bool)> {
        let (mut datagrams, connection) = (Datagrams::default(), Connection::blank());
        let at = |n: usize| Instant::from_nanos(n as u64 * 1_000_000);
        let taken = all
            .iter()
            .enumerate()
            .filter_map(|(n, (whose, head))| datagrams.take(&connection, *whose, (head, 1_200), at(n)));
        taken.map(|one| (one.took.map(|took| took.0 / 1_000_000), one.is_quic)).collect()
    }

    #[test]
    fn only_what_alternates_is_timed() {
        assert_eq!(of(&[(ASKS, b"a"), (ANSWERS, b"b"), (ASKS, b"a"), (ANSWERS, b"b")]), [(Some(1), false); 2]);
        assert_eq!(of(&[(ASKS, b"a"), (ASKS, b"a"), (ANSWERS, b"b")]), []);
        // One after several answers may be an acknowledgement.
        let stream = [(ASKS, &b"a"[..]), (ANSWERS, b"b"), (ANSWERS, b"b"), (ASKS, b"a"), (ANSWERS, b"b")];
        assert_eq!(of(&stream), [(Some(1), false)]);
        let call = [(ASKS, &b"\x80a"[..]), (ANSWERS, b"\x80b"), (ASKS, b"\x80a"), (ANSWERS, b"\x80b")];
        assert_eq!(of(&call), []);
    }

    #[test]
    fn quic_is_known_by_its_first_packet_and_its_handshake_ends_with_the_first_short_header() {
        let initial = [&[0xc3, 0, 0, 0, 1, 1, 7, 0, 0, 0x44, 0xa0][..], &[0; 29]].concat();
        let all =
            [(ASKS, &initial[..]), (ANSWERS, &initial), (ASKS, b"\xe3\0\0\0\x01"), (ANSWERS, b"Cab"), (ASKS, b"Cab")];
        assert_eq!(of(&all), [(None, true), (Some(4), true)]);
    }
}
