//! One exchange on one connection: two runs of bytes, and what their stamps say.

use record::{Basis, Instant, Leg, Message, Moments, Monotonic, Nanos, Owner, Parts, Peer, Receive, Role, Send};

/// An ACK that comes this much later than the minimum RTT was probably delayed by the peer: delayed ACKs are sent after
/// 40 ms (Linux, at the least) to 500 ms (RFC 9293, section 3.8.6.3).
const DELAYED_ACK: Nanos = Nanos::from_millis(35);

type Moment = Instant<Monotonic>;

/// What this end sent and received of an exchange, up to now.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    pub sent: Message,
    pub received: Message,
    pub moments: Moments,
    /// When TCP took the last frame up: stands in for `ready` where the kernel reports none.
    taken: Option<Moment>,
    /// Bytes among them without a report of their arrival.
    untold: bool,
    pub owner: Owner,
}

fn later(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    a.max(b)
}

fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Exchange {
    pub fn add_send(&mut self, send: &Send) {
        let began = send.merged.oldest.unwrap_or(send.stamps.send);
        let m = &mut self.moments;
        if self.sent.pieces == 0 {
            self.sent.first_seq = send.first_seq.add(send.merged.bytes.wrapping_neg());
            m.first_left = send.stamps.driver;
        }
        self.sent.bytes += u64::from(send.bytes) + u64::from(send.merged.bytes);
        self.sent.pieces += 1 + send.merged.sends;
        m.sent = earlier(m.sent, Some(began));
        m.written = Some(send.stamps.send);
        m.left = send.stamps.driver;
        m.acked = send.stamps.ack;
        self.owner = send.owner;
    }

    pub fn add_receive(&mut self, receive: &Receive) {
        let arrived = receive.stamps.arrived();
        self.untold |= arrived.is_none();
        let m = &mut self.moments;
        if self.received.pieces == 0 {
            self.received.first_seq = receive.first_seq;
        }
        self.received.bytes += u64::from(receive.bytes);
        self.received.pieces += 1;
        m.arrived = earlier(m.arrived, arrived);
        m.last_arrived = later(m.last_arrived, arrived);
        m.ready = later(m.ready, receive.stamps.ready);
        self.taken = later(self.taken, receive.stamps.tcp_rx);
        m.read = later(m.read, receive.stamps.read);
        if receive.reader.pid != 0 {
            self.owner = receive.reader;
        }
    }

    /// The stages in which the time went, with the peer's end where that was traced; `None` where a stamp is missing or the
    /// order is impossible.
    pub fn parts(&self, role: Role, least: Option<Nanos>, peer: Option<&Moments>) -> Option<(Parts, Basis)> {
        match role {
            // They may have been the first to come, or the last.
            _ if self.untold => None,
            Role::Server => self.at_server().map(|parts| (parts, Basis::Server)),
            Role::Client => match peer.and_then(|peer| self.with_peer(peer)) {
                Some(parts) => Some((parts, Basis::BothEnds)),
                None => self.at_client(least),
            },
        }
    }

    fn ready(&self) -> Option<Moment> {
        self.moments.ready.or(self.taken)
    }

    fn at_server(&self) -> Option<Parts> {
        let m = &self.moments;
        Some(Parts {
            application: between(self.ready(), m.written)?,
            kernel: between(m.last_arrived, self.ready())? + between(m.written, m.left)?,
            transfer: between(m.arrived, m.last_arrived)?,
            ..Parts::default()
        })
        // An answer that began before the whole request was there is no exchange with components that follow one another.
        .filter(|_| between(self.ready(), m.sent).is_some())
    }

    /// What is known without the peer: all but the way from the driver to the first byte of the answer.
    fn own_parts(&self) -> Option<Parts> {
        let m = &self.moments;
        Some(Parts {
            application: between(m.sent, m.written)? + between(self.ready(), m.read)?,
            kernel: between(m.written, m.left)? + between(m.last_arrived, self.ready())?,
            transfer: between(m.arrived, m.last_arrived)?,
            ..Parts::default()
        })
    }

    fn at_client(&self, least: Option<Nanos>) -> Option<(Parts, Basis)> {
        let m = &self.moments;
        let away = between(m.left, m.arrived)?;
        let own = between(m.left, m.acked).filter(|_| m.acked < m.arrived);
        let (network, basis) = match (own, least) {
            (Some(own), Some(least)) if own > least + DELAYED_ACK => (least, Basis::LeastRoundTrip),
            (Some(own), _) => (own, Basis::OwnAck),
            (None, least) => (least?, Basis::LeastRoundTrip),
        };
        let network = network.min(away);
        let parts =
            Parts { network: Some(network), peer_application: Some(away.saturating_sub(network)), ..self.own_parts()? };
        Some((parts, basis))
    }

    fn with_peer(&self, peer: &Moments) -> Option<Parts> {
        let m = &self.moments;
        Some(Parts {
            network: Some(between(m.left, peer.last_arrived)? + between(peer.first_left, m.arrived)?),
            peer_application: Some(between(peer.ready, peer.sent)?),
            peer: Some(Peer {
                receive: between(peer.last_arrived, peer.ready)?,
                send: between(peer.sent, peer.first_left)?,
            }),
            ..self.own_parts()?
        })
    }
}

/// `None` where a moment is missing, or the later one has the earlier time.
fn between(from: Option<Moment>, to: Option<Moment>) -> Option<Nanos> {
    to?.since(from?).ok()
}

/// What a send says of the round trip: both are upper bounds of what the path takes.
pub(super) fn round_trip(send: &Send) -> Option<Nanos> {
    let srtt = Some(send.state.srtt).filter(|srtt| *srtt > Nanos::ZERO);
    match (send.leg(Leg::Network).ok().flatten(), srtt) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
