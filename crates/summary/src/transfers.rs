//! Connections that carry bulk data: how much, for how long, and what limited them.

use record::{Instant, Monotonic, Nanos, Send};

use crate::{ConnectionSummary, TraceSummary};

/// Less than this many bytes are no transfer.
const LEAST: u64 = 256 << 10;

/// With so many packets on their way or waiting, a program that writes more does not wait for
/// answers: what a new connection sends at once.
const AHEAD: u32 = 10;

/// What the sends of one connection say of it as a transfer, in bounded memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flowing {
    /// Bytes that were written while many earlier ones were on their way or waited, or after a wait
    /// for room.
    queued: u64,
    acknowledged: u64,
    began: Option<Instant<Monotonic>>,
    ended: Option<Instant<Monotonic>>,
    /// Of the time since, that with anything to send, by TCP's own clock.
    busy: Nanos,
}

impl Flowing {
    /// Adds a send; `busy` is how far TCP's clock went since the one before.
    pub(crate) fn add(&mut self, send: &Send, busy: Nanos) {
        let bytes = u64::from(send.bytes);
        // With its own bytes or, by tracepoints, without.
        let before = send.state.unacked + send.state.unsent.saturating_sub(send.bytes);
        if before >= AHEAD * send.state.mss || send.buffer.is_some() {
            self.queued += bytes;
        }
        let began = send.stamps.call.unwrap_or(send.stamps.send);
        self.began = Some(self.began.map_or(began, |first| first.min(began)));
        if let Some(ack) = send.stamps.ack {
            self.acknowledged += bytes;
            self.ended = self.ended.max(Some(ack));
        }
        self.busy += busy;
    }

    fn lasted(&self) -> Option<Nanos> {
        self.ended?.since(self.began?).ok().filter(|lasted| *lasted > Nanos::ZERO)
    }
}

/// A connection that carries bulk data.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// The connection.
    pub connection: &'a ConnectionSummary,
    /// Bytes that were acknowledged.
    pub bytes: u64,
    /// From the first write to the last ACK.
    pub lasted: Nanos,
}

impl Transfer<'_> {
    /// The rate over all that time, bytes a second.
    pub fn rate(&self) -> u64 {
        rate(self.bytes, self.lasted)
    }
}

fn rate(bytes: u64, time: Nanos) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(time.0.max(1))).unwrap_or(u64::MAX)
}

/// Transfers that carry most of what was sent.
#[derive(Clone, Debug)]
pub struct Transfers<'a> {
    /// Each, the most bytes first.
    pub all: Vec<Transfer<'a>>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// From the first write of any to the last ACK.
    pub lasted: Nanos,
    /// How long programs waited for room in the send buffer, all transfers together, and their own
    /// time together.
    pub blocked: Nanos,
    /// See there.
    pub time: Nanos,
}

impl Transfers<'_> {
    /// The rate of all together, bytes a second.
    pub fn rate(&self) -> u64 {
        rate(self.bytes, self.lasted)
    }

    /// Whether their programs waited for room in the send buffer for most of the time.
    pub const fn are_blocked(&self) -> bool {
        self.blocked.0 * 2 >= self.time.0
    }

    /// The one with the lowest rate of its own.
    pub fn slowest(&self) -> Option<&Transfer<'_>> {
        self.all.iter().min_by_key(|transfer| transfer.rate())
    }
}

impl TraceSummary {
    /// The connections that carry bulk data: programs write on them before what they wrote earlier
    /// has arrived. `None` where those do not have half of the bytes: then something else is asked.
    ///
    /// Only of traces of every send: of a sample neither bytes nor times are those of the
    /// connection.
    pub fn transfers(&self) -> Option<Transfers<'_>> {
        let mut all: Vec<Transfer<'_>> = Vec::new();
        let (mut began, mut ended): (Option<Instant<Monotonic>>, _) = (None, None);
        let (mut blocked, mut time) = (Nanos::ZERO, Nanos::ZERO);
        for connection in self.connections() {
            let of = &connection.flowing;
            let Some(lasted) = of.lasted() else { continue };
            if connection.sends.bytes < LEAST || of.queued * 2 < connection.sends.bytes || of.busy.0 * 2 < lasted.0 {
                continue;
            }
            blocked += connection.sends.buffer_waits().iter().map(|(_, stats)| stats.time).sum();
            time += lasted;
            began = began.into_iter().chain(of.began).min();
            ended = ended.max(of.ended);
            all.push(Transfer { connection, bytes: of.acknowledged, lasted });
        }
        let bytes: u64 = all.iter().map(|transfer| transfer.bytes).sum();
        let lasted = ended?.since(began?).ok()?;
        all.sort_by_key(|transfer| (std::cmp::Reverse(transfer.bytes), transfer.connection.connection.id));
        (bytes * 2 >= self.total().bytes).then_some(Transfers { all, bytes, lasted, blocked, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use record::{Connection, ConnectionId, Event, SenderState, Stamps, WaitReason, Waits};

    const MS: u64 = 1_000_000;

    /// So many writes of 16 KiB, one each 10 ms on connection `id`, each acknowledged after 40 ms;
    /// `queued`: each finds the one before still here.
    fn written(summary: &mut TraceSummary, id: u64, writes: u64, queued: bool) {
        let since = Instant::from_nanos(0);
        summary.add(&Event::Connection(Connection { since, ..synthetic::connection(id) }));
        for i in 0..writes {
            let at = |ms: u64| Instant::from_nanos((i * 10 + ms) * MS);
            let busy = Nanos(if queued { i * 10 * MS } else { i * MS });
            summary.add(&Event::Send(Send {
                connection: ConnectionId(id),
                bytes: 16 << 10,
                stamps: Stamps { ack: Some(at(40)), ..Stamps::sent_at(at(0)) },
                state: SenderState {
                    mss: 1_448,
                    unacked: if queued { 40 << 10 } else { 0 },
                    unsent: 16 << 10,
                    busy,
                    ..SenderState::default()
                },
                buffer: queued.then(|| Waits::of(WaitReason::SendBuffer, Nanos(9 * MS))),
                ..Send::blank()
            }));
        }
    }

    #[test]
    fn a_transfer_is_what_is_written_before_earlier_bytes_have_arrived() {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        written(&mut summary, 1, 100, true);
        let transfers = summary.transfers().expect("one");
        let [one] = transfers.all.as_slice() else { panic!("one") };
        assert_eq!((one.bytes, one.lasted), (1_600 << 10, Nanos(1_030 * MS)));
        assert_eq!(one.rate(), 1_638_400 * 100 / 103);
        assert_eq!((transfers.blocked, transfers.time), (Nanos(900 * MS), Nanos(1_030 * MS)));
        // Beside more that is none, it is not the answer.
        written(&mut summary, 2, 400, false);
        assert!(summary.transfers().is_none());
    }

    #[test]
    fn answers_that_arrive_before_the_next_one_is_written_are_no_transfer() {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        written(&mut summary, 1, 100, false);
        assert!(summary.transfers().is_none());
        let mut few = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        written(&mut few, 1, 10, true);
        assert!(few.transfers().is_none());
    }
}
