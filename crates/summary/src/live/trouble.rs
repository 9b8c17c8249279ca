//! What is wrong with a row: the worst of its troubles.

use record::{Component, Nanos, WaitReason};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing was acknowledged for this long, though TCP has sent it again.
    NoAnswer(Nanos),
    /// A SYN has had no answer for this long.
    Attempt(Nanos),
    /// The accept queue is full.
    QueueFull,
    /// So many connections found the accept queue full.
    QueueOverflowed(u64),
    /// So many datagrams found the receive buffer full.
    BufferDrops(u64),
    /// What came was not read by this host's program for so long.
    NotRead(Nanos),
    /// This host's program reads more slowly than it gets data.
    ReadsSlowly,
    /// This share of the time sending waited for the peer's receive window.
    ReceiveWindow(f64),
    /// This share of the time sending waited for room in the send buffer.
    SendBuffer(f64),
    /// This share of the segments was retransmitted.
    Retransmissions(f64),
    /// This host dropped so many segments.
    HostDrops(u64),
    /// Lookups of DNS take so long.
    Lookups(Nanos),
    /// So many lookups of DNS were not answered.
    LookupsUnanswered(u64),
    /// Requests take long, and this share of that is this component.
    Requests(Component, f64),
    /// Sends take long, and of what they wait for in TCP this share is this.
    Waits(WaitReason, f64),
}

impl Trouble {
    /// The word used in machine-readable output and in filters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoAnswer(_) => "no_answer",
            Self::Attempt(_) => "attempt_unanswered",
            Self::QueueFull => "accept_queue_full",
            Self::QueueOverflowed(_) => "accept_queue_overflowed",
            Self::BufferDrops(_) => "receive_buffer_full",
            Self::NotRead(_) => "not_read",
            Self::ReadsSlowly => "reads_slowly",
            Self::ReceiveWindow(_) => "receive_window",
            Self::SendBuffer(_) => "send_buffer",
            Self::Retransmissions(_) => "retransmissions",
            Self::HostDrops(_) => "host_drops",
            Self::Lookups(_) => "slow_dns",
            Self::LookupsUnanswered(_) => "dns_unanswered",
            Self::Requests(component, _) => component.name(),
            Self::Waits(reason, _) => reason.name(),
        }
    }

    /// How bad it is beside others: what does not work at all, then what was lost, then what is
    /// slow, each by its time or share.
    pub fn weight(&self) -> f64 {
        let within = |base: f64, part: f64| base + part.clamp(0.0, 1.0) * 99.0;
        let long = |time: &Nanos| (time.0 as f64 / 1e9).ln_1p() / 10.0;
        match self {
            Self::NoAnswer(time) => within(900.0, long(time)),
            Self::Attempt(time) => within(800.0, long(time)),
            Self::QueueFull => 790.0,
            Self::ReadsSlowly => 195.0,
            Self::NotRead(time) => within(600.0, long(time)),
            Self::QueueOverflowed(n) => within(600.0, (*n as f64).ln_1p() / 10.0),
            Self::BufferDrops(n) => within(500.0, (*n as f64).ln_1p() / 10.0),
            Self::LookupsUnanswered(n) => within(700.0, (*n as f64).ln_1p() / 10.0),
            Self::Lookups(time) => within(300.0, 0.5 + long(time) / 2.0),
            Self::HostDrops(n) => within(400.0, (*n as f64).ln_1p() / 10.0),
            Self::Requests(_, share) => within(300.0, *share),
            Self::Waits(_, share) => within(200.0, *share),
            Self::ReceiveWindow(share) => within(190.0, *share),
            Self::SendBuffer(share) => within(150.0, *share),
            Self::Retransmissions(share) => within(180.0, *share * 10.0),
        }
    }
}
