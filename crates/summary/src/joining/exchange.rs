//! One exchange on one connection: two runs of bytes, and what their stamps say.

use record::{
    Basis, Components, Instant, Leg, Message, Moments, Monotonic, Nanos, Owner, Peer, Receive, Role, Send, WaitReason,
    Waits,
};

use super::threads::Threads;

/// An ACK that comes this much later than the minimum RTT was probably delayed by the peer: delayed
/// ACKs are sent after 40 ms (Linux, at the least) to 500 ms (RFC 9293, section 3.8.6.3).
const DELAYED_ACK: Nanos = Nanos::from_millis(35);

/// A connection that stands longer than this before its first byte was made in advance.
const MADE_FOR_IT: Nanos = Nanos::from_millis(50);

type Moment = Instant<Monotonic>;

/// What this end sent and received of an exchange, up to now.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    pub sent: Message,
    pub received: Message,
    pub moments: Moments,
    /// When TCP took the last frame up: used as `ready` where the kernel reports none.
    taken: Option<Moment>,
    /// When the first frame was readable.
    first_ready: Option<Moment>,
    /// When the program had read the first of it.
    pub first_read: Option<Moment>,
    /// It overlaps another exchange.
    overlapping: bool,
    /// Bytes among them without a report of their arrival.
    untold: bool,
    pub owner: Owner,
    /// Who read and wrote it.
    pub threads: Threads,
    /// How long the program waited for room in the send buffer between its writes, by what held the
    /// queue.
    full: Waits,
    /// What the last write waited for in TCP.
    held: Option<Waits>,
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
    /// The connection was made for this exchange, where the program writes no later than this after
    /// it is established.
    pub fn connected(&mut self, syn: Moment, established: Moment) {
        let m = &mut self.moments;
        if between(Some(established), m.sent).is_some_and(|gap| gap <= MADE_FOR_IT) {
            (m.connecting, m.connected) = (Some(syn), Some(established));
        }
    }

    /// Notes whether bytes of the answer arrived after this write began and did not acknowledge it:
    /// the peer sent them without having all of it. A packet acknowledges whatever its sender had
    /// received, and TCP takes the ACK up before it makes the bytes readable.
    pub fn note_overlap(&mut self, send: &Send) -> bool {
        let m = &self.moments;
        let during = m.last_arrived.is_some_and(|arrived| Some(arrived) > began(send));
        let before_the_ack = m.ready.zip(send.stamps.ack).is_some_and(|(ready, ack)| ready < ack);
        self.overlapping |= during && before_the_ack;
        self.overlapping
    }

    /// The exchange before it overlaps this one.
    pub fn set_overlapping(&mut self) {
        self.overlapping = true;
    }

    /// Whether it overlaps another exchange, for certain.
    pub fn overlaps(&self, role: Role) -> bool {
        let m = &self.moments;
        self.overlapping
            || match role {
                // As in `note_overlap`, where the answer was read after the ACK.
                Role::Client => {
                    m.written.zip(m.arrived).is_some_and(|(written, arrived)| written < arrived)
                        && self.first_ready.zip(m.acked).is_some_and(|(ready, acked)| ready < acked)
                }
                // It answered before it had read all that is counted to the request.
                Role::Server => m.sent.zip(m.read).is_some_and(|(sent, read)| sent < read),
            }
    }

    pub fn add_send(&mut self, send: &Send) {
        let began = began(send);
        let m = &mut self.moments;
        if self.sent.pieces == 0 {
            self.sent.first_seq = send.first_seq;
            m.first_left = send.stamps.driver;
        }
        self.sent.bytes += u64::from(send.bytes);
        self.sent.pieces += 1;
        m.sent = earlier(m.sent, began);
        if let Some(full) = send.buffer {
            // What came before this message is not its wait.
            let since = between(m.written.or(m.sent), Some(send.stamps.send)).unwrap_or_default();
            self.full += full.at_most(since);
        }
        let left = send.leg(Leg::Tcp).is_ok_and(|leg| leg.is_some());
        self.held = send.wait.filter(|waits| left && waits.reason() != WaitReason::SentAtOnce);
        m.written = Some(send.stamps.send);
        m.left = send.stamps.driver;
        m.acked = send.stamps.ack;
        self.owner = send.owner;
        self.threads.add(send.thread);
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
        self.first_ready = earlier(self.first_ready, receive.stamps.ready);
        self.first_read = earlier(self.first_read, receive.stamps.read);
        self.taken = later(self.taken, receive.stamps.tcp_rx);
        m.read = later(m.read, receive.stamps.read);
        if receive.stamps.read.is_some() {
            self.threads.add(receive.thread);
        }
        if receive.reader.pid != 0 {
            self.owner = receive.reader;
        }
    }

    /// The components of its time, with the peer's end where that was traced; `None` where a stamp
    /// is missing or the order is impossible.
    pub fn components(&self, role: Role, least: Option<Nanos>, peer: Option<&Moments>) -> Option<(Components, Basis)> {
        match role {
            _ if self.overlaps(role) => None,
            // They may have been the first to come, or the last.
            _ if self.untold => None,
            Role::Server => self.at_server().map(|components| (components, Basis::Server)),
            Role::Client => match peer.and_then(|peer| self.with_peer(peer)) {
                Some(components) => Some((components, Basis::BothEnds)),
                None => self.at_client(least),
            },
        }
    }

    /// How long the program waited for room before its last write, in all.
    fn full(&self) -> Nanos {
        self.full.sum()
    }

    /// How long the last write waited in TCP.
    fn held(&self) -> Nanos {
        self.held.map_or(Nanos::ZERO, |waits| waits.sum())
    }

    /// Both together.
    fn tcp(&self) -> Option<Waits> {
        let mut waits = self.full;
        waits += self.held.unwrap_or_default();
        (waits.sum() > Nanos::ZERO).then_some(waits)
    }

    fn ready(&self) -> Option<Moment> {
        self.moments.ready.or(self.taken)
    }

    fn at_server(&self) -> Option<Components> {
        let m = &self.moments;
        // An answer that began before the whole request was there is no exchange with components
        // that follow one another.
        let to_write = between(self.ready(), m.sent)?;
        let wakeup = between(self.ready(), m.read).unwrap_or_default().min(to_write);
        Some(Components {
            application: between(self.ready(), m.written)?.saturating_sub(wakeup).saturating_sub(self.full()),
            tcp: self.tcp(),
            kernel: between(m.last_arrived, self.ready())? + between(m.written, m.left)?.saturating_sub(self.held()),
            transfer: between(m.arrived, m.last_arrived)?,
            wakeup: Some(wakeup),
            ..Components::default()
        })
    }

    /// What is known without the peer: all but the way from the driver to the first byte of the
    /// answer.
    fn own_components(&self) -> Option<Components> {
        let m = &self.moments;
        let before = between(m.connected, m.sent).unwrap_or_default();
        Some(Components {
            connect: between(m.connecting, m.connected),
            application: before + between(m.sent, m.written)?.saturating_sub(self.full()),
            tcp: self.tcp(),
            kernel: between(m.written, m.left)?.saturating_sub(self.held()) + between(m.last_arrived, self.ready())?,
            transfer: between(m.arrived, m.last_arrived)?,
            wakeup: Some(between(self.ready(), m.read)?),
            ..Components::default()
        })
    }

    fn at_client(&self, least: Option<Nanos>) -> Option<(Components, Basis)> {
        let m = &self.moments;
        let away = between(m.left, m.arrived)?;
        let own = between(m.left, m.acked).filter(|_| m.acked < m.arrived);
        let (network, basis) = match (own, least) {
            (Some(own), Some(least)) if own > least + DELAYED_ACK => (least, Basis::LeastRoundTrip),
            (Some(own), _) => (own, Basis::OwnAck),
            (None, least) => (least?, Basis::LeastRoundTrip),
        };
        let network = network.min(away);
        let components = Components {
            network: Some(network),
            peer_application: Some(away.saturating_sub(network)),
            ..self.own_components()?
        };
        Some((components, basis))
    }

    fn with_peer(&self, peer: &Moments) -> Option<Components> {
        let m = &self.moments;
        Some(Components {
            network: Some(between(m.left, peer.last_arrived)? + between(peer.first_left, m.arrived)?),
            peer_application: Some(between(peer.ready, peer.sent)?),
            peer: Some(Peer {
                receive: between(peer.last_arrived, peer.ready)?,
                send: between(peer.sent, peer.first_left)?,
            }),
            ..self.own_components()?
        })
    }
}

/// When the first of its bytes were written.
fn began(send: &Send) -> Option<Moment> {
    send.stamps.call.or(Some(send.stamps.send))
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
