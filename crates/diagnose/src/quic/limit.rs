//! The anti-amplification limit (RFC 9000, section 8.1): before the client's address is confirmed,
//! a server may send three times the bytes that it has received. A flight that is longer waits for
//! the client's next packet.

use crate::tls::Moment;

/// A server that is let go sends on within the round trip to it and this, ns.
const AT_ONCE: u64 = 5_000_000;
/// What a server that was held sends on is a piece of its flight, and no ACK: bytes.
const PIECE: u32 = 400;

/// What both sides have sent so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    received: u64,
    sent: u64,
    is_confirmed: bool,
    /// The server's last packet, its bytes, and what it had received by then.
    last: Option<(Moment, u64)>,
    /// The client's packet that came after that.
    released: Option<Moment>,
    /// How long the server was held, and when first.
    pub(super) held: u64,
    pub(super) first: Option<(Moment, Moment)>,
}

impl Limit {
    /// A datagram of the client of so many bytes; `confirms` says that nobody else can have sent
    /// it, or that it has a token, and `acknowledges` that it answers a packet of the server.
    pub(super) fn client(&mut self, bytes: u32, now: Moment, confirms: bool, acknowledges: bool) {
        if self.is_confirmed {
            return;
        }
        if self.last.is_some() && acknowledges {
            self.released.get_or_insert(now);
        }
        self.received += u64::from(bytes);
        self.is_confirmed = confirms;
    }

    /// A datagram of the server of so many bytes, with so many of its flight where that has begun
    /// and the client does not have all of it; `trip` is the round trip to it.
    pub(super) fn server(&mut self, bytes: u32, of_flight: u32, now: Moment, trip: Option<u64>) {
        if let (Some((last, received)), Some(released)) = (self.last, self.released.take()) {
            let is_held = self.sent + u64::from(bytes) > 3 * received && of_flight >= PIECE;
            let is_at_once = trip.is_some_and(|trip| now.at.saturating_sub(released.at) <= trip + trip / 2 + AT_ONCE);
            let waited = now.at.saturating_sub(last.at);
            if is_held && is_at_once && waited >= 1_000_000 {
                self.held += waited;
                self.first.get_or_insert((last, now));
            }
        }
        if !self.is_confirmed {
            self.sent += u64::from(bytes);
            self.last = Some((now, self.received));
        } else {
            self.last = None;
        }
    }

    /// A token or a Retry has confirmed the address before.
    pub(super) fn confirm(&mut self) {
        *self = Self { is_confirmed: true, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Moment {
        Moment { at: ms * MS, packet: ms }
    }

    /// A flight of so many datagrams before the client's ACK, and one after it.
    fn flight(before: u64, size: u32, after: u32, answered: u64) -> u64 {
        let mut limit = Limit::default();
        limit.client(1_200, at(0), false, false);
        (0..before).for_each(|_| limit.server(size, size, at(40), Some(40 * MS)));
        limit.client(1_200, at(45), false, true);
        limit.server(1_200, after, at(answered), Some(40 * MS));
        limit.held / MS
    }

    #[test]
    fn a_flight_that_stops_at_three_times_what_came_is_held() {
        assert_eq!(flight(3, 1_200, 1_200, 86), 46);
        // It had room for more; what follows is no flight; it is not the ACK that let it go.
        assert_eq!([flight(2, 1_200, 1_200, 86), flight(3, 1_200, 90, 86), flight(3, 1_200, 1_200, 300)], [0; 3]);
        let mut confirmed = Limit::default();
        confirmed.confirm();
        confirmed.client(1_200, at(0), false, false);
        (0..3).for_each(|_| confirmed.server(1_200, 1_200, at(40), Some(40 * MS)));
        confirmed.client(1_200, at(45), false, true);
        confirmed.server(1_200, 1_200, at(86), Some(40 * MS));
        assert_eq!(confirmed.held, 0);
    }
}
