//! What is found on the lookups, handshakes, connections or conversations of a capture, beside
//! those of TCP.

use crate::Nanos;

/// A finding; its kind is a [`DnsFindingKind`](crate::dns::DnsFindingKind), a
/// [`TlsFindingKind`](crate::tls::TlsFindingKind), a
/// [`QuicFindingKind`](crate::quic::QuicFindingKind), a
/// [`UdpFindingKind`](crate::udp::UdpFindingKind) or a
/// [`NetworkFindingKind`](crate::network::NetworkFindingKind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion<K> {
    /// Its kind.
    pub kind: K,
    /// The number of the lookup or connection that shows it most clearly.
    pub shown_by: u64,
    /// When it first showed.
    pub at_ns: Nanos,
    /// Lookups, handshakes or connections concerned.
    pub count: u64,
    /// What the clients waited for it.
    pub cost_ns: Nanos,
    /// What was found, for people.
    pub text: String,
    /// What to do, for people.
    pub next: String,
    /// The packets that show it, by number, separated by blanks.
    pub packets: String,
}

impl<K> Conclusion<K> {
    /// Nothing of this kind yet.
    pub fn new(kind: K) -> Self {
        Self {
            kind,
            shown_by: 0,
            at_ns: Nanos::ZERO,
            count: 0,
            cost_ns: Nanos::ZERO,
            text: String::new(),
            next: String::new(),
            packets: String::new(),
        }
    }
}
