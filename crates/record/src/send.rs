//! One application write, with its byte range, its stages and the connection's state.

use crate::table::{Cell, Value};
use crate::{
    ConnectionId, Disorder, Instant, Leg, Monotonic, Nanos, Owner, SeqNumber, Source, Stage, Timestamp, WaitReason,
    Waits, columns, wait, words,
};

/// One application write as TCP saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The connection it was made on.
    pub connection: ConnectionId,
    /// Who made it.
    pub owner: Owner,
    /// Its thread, by the number that the kernel has for it outside of containers. `None` in runs
    /// of earlier versions.
    pub thread: Option<u32>,
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// How many bytes it wrote. Its last byte, `first_seq + bytes − 1`, is the one that is timed.
    pub bytes: u32,
    /// When its last byte passed each stage.
    pub stamps: Stamps,
    /// The connection's state when the send was made.
    pub state: SenderState,
    /// How long the program waited for room in the send buffer before it could write these bytes,
    /// asleep in its call or for the socket to be writable, by what held the queue meanwhile:
    /// `send_buffer` where nothing did and the buffer itself is too small.
    pub buffer: Option<Waits>,
    /// What held it in TCP, or holds it there where it is not acknowledged: the reasons add up to
    /// the `tcp` leg, or to how long it had taken when it was last seen. `None` where that is not
    /// known.
    pub wait: Option<Waits>,
    /// How often the packet with its last byte was retransmitted; of the oldest one that is not
    /// acknowledged, how often TCP has done so since the last ACK, where that is more.
    pub retransmissions: u16,
    /// Where no ACK was seen: how far it had come.
    pub unacknowledged: Option<Unacknowledged>,
    /// Whether a segment without data acknowledged it and no more than one packet, 35 ms or more
    /// after it was made, while nothing of its connection waited for that: as the timer of a peer
    /// that delays ACKs does. `None` where no ACK was seen, and in runs of earlier versions.
    pub ack_alone: Option<bool>,
}

/// What is known of a send without an ACK: tracing ended first, or its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unacknowledged {
    /// By then no ACK had come.
    pub at: Instant<Monotonic>,
    /// How long by then nothing of its connection had been acknowledged, since this send was made.
    pub idle: Nanos,
}

/// When a byte passed each stage; `None` where the stage gave no stamp.
///
/// A stage that repeats (a retransmission, a second qdisc) keeps its first time. A time with an
/// error is the earliest at which the stage can have been passed, or for the NIC's the one its
/// clock showed; that of an ACK is between two looks, in proportion to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The call that wrote it began. `None` where calls are not timed.
    pub call: Option<Instant<Monotonic>>,
    /// In the write queue.
    pub send: Instant<Monotonic>,
    /// Into the packet scheduler.
    pub sched: Option<Instant<Monotonic>>,
    /// To the driver.
    pub driver: Option<Instant<Monotonic>>,
    /// The bound on the error of `sched`, to either side: zero for a stamp of this very packet;
    /// more where its packet gave none and the time was found between two that are known.
    pub sched_error: Nanos,
    /// The same of `driver`.
    pub driver_error: Nanos,
    /// On the wire, by the NIC, converted to this clock with the error that carries.
    pub nic: Option<Timestamp<Monotonic>>,
    /// Acknowledged.
    pub ack: Option<Instant<Monotonic>>,
    /// The bound on the error of `ack`, to either side. Zero where that very ACK was seen.
    pub ack_error: Nanos,
}

/// The sender's congestion state (the kernel's `icsk_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Congestion {
    /// Nothing amiss.
    #[default]
    Open = 0,
    /// Duplicate ACKs or SACKs are being watched.
    Disorder = 1,
    /// The window is being reduced, after ECN or a local drop.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// A retransmission timeout.
    Loss = 4,
}

words! { Congestion: Open = "open", Disorder = "disorder", Cwr = "cwr", Recovery = "recovery", Loss = "loss"; }

impl Congestion {
    /// From the kernel's number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            _ => return None,
        })
    }
}

/// Hands the fields of [`SenderState`] to the macro `$then`, a line each: name in Rust and type,
/// name in output, how it is made of the kernel part's record and of which field of that, why it
/// can be null, what it is, and the kernel's own field.
///
/// A new field of the state is one line here, and two in the kernel part
/// (`crates/trace/src/bpf/state.h`).
#[macro_export]
macro_rules! sender_state {
    ($then:ident!) => {
        $then! {
            cwnd: u32, cwnd_segments = same(cwnd), "congestion window when the send was made, as all of the following", from "snd_cwnd";
            ssthresh: u32, ssthresh_segments = same(ssthresh), "slow-start threshold", from "snd_ssthresh";
            in_flight: u32, in_flight_segments = same(in_flight), "sent and not acknowledged, as the kernel counts", from "tcp_packets_in_flight()";
            unacked: u32, unacked_bytes = same(unacked), "sent and not acknowledged", from "snd_nxt - snd_una";
            unsent: u32, unsent_bytes = same(unsent), "in the write queue and never sent, with the bytes of this send", from "write_seq - snd_nxt";
            peer_window: u32, peer_window_bytes = same(peer_window), "receive window that the peer allows", from "snd_wnd";
            mss: u32, mss_bytes = same(mss), "the most payload that a segment carries", from "mss_cache";
            srtt: Nanos, srtt_ns = eighths_of_microseconds(srtt_us_8), "smoothed RTT", from "srtt_us";
            min_rtt: Option<Nanos>, min_rtt_ns = microseconds(min_rtt_us), null "none was measured, or the run is of an earlier version", "minimum RTT of the last `tcp_min_rtt_wlen` seconds", from "rtt_min";
            rto: Option<Nanos>, rto_ns = later_jiffies(rto), null "the run is of an earlier version", "retransmission timeout", from "icsk_rto";
            reordering: Option<u32>, reordering_segments = later(reordering), null "the run is of an earlier version", "reordering that TCP takes into account before it takes a segment for lost", from "reordering";
            delivery_rate: Option<u64>, delivery_rate_bytes_per_second = measured(delivery_rate), null "none was measured, or the run is of an earlier version", "rate at which the latest ACKs say that data was delivered", from "tcp_compute_delivery_rate()";
            pacing_rate: Option<u64>, pacing_rate_bytes_per_second = limit(pacing_rate), null "there is no pacing", "pacing rate", from "sk_pacing_rate";
            max_pacing_rate: Option<u64>, max_pacing_rate_bytes_per_second = limit(max_pacing_rate), null "the program sets none, or the run is of an earlier version", "the most that the pacing rate may be (`SO_MAX_PACING_RATE`)", from "sk_max_pacing_rate";
            app_limited: Option<bool>, app_limited = flag(app_limited), null "the run is of an earlier version", "the program had left TCP without data to send, and what was in flight then was not all acknowledged", from "app_limited";
            send_buffer: u32, send_buffer_bytes = same(send_buffer), "size of the send buffer, in memory and not in payload", from "sk_sndbuf";
            send_buffer_used: u32, send_buffer_used_bytes = same(send_buffer_used), "of that, in use", from "sk_wmem_queued";
            congestion: Congestion, congestion = congestion(congestion), "congestion state", from "icsk_ca_state";
            busy: Nanos, busy_ns = jiffies(busy), "time with anything to send since the connection began, by TCP's own clock", from "chrono_stat";
            receive_window_limited: Nanos, receive_window_limited_ns = jiffies(receive_window_limited), "of that, time limited by the peer's receive window", from "chrono_stat";
            send_buffer_limited: Nanos, send_buffer_limited_ns = jiffies(send_buffer_limited), "of that, time limited by the send buffer", from "chrono_stat";
        }
    };
}

impl SenderState {
    /// Whether round trips take longer than at rest, by a fifth and 0.2 ms (what scheduling adds on
    /// a LAN): data wait on the path, or ACKs come late. `None` where one of the two is not known.
    pub fn is_slower_than_at_rest(&self) -> Option<bool> {
        let least = self.min_rtt?;
        (self.srtt > Nanos::ZERO).then(|| self.srtt.0 > least.0.saturating_add(least.0 / 5 + 200_000))
    }
}

macro_rules! declare_state {
    ($($field:ident: $type:ty, $name:ident = $how:ident($raw:ident), $(null $null:literal,)? $doc:literal, from $source:literal;)*) => {
        /// The state of the sending side of a connection at one moment;
        /// [`sender_state!`](crate::sender_state) declares it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SenderState {
            $(#[doc = concat!("`", stringify!($name), "`: ", $doc, ".")] pub $field: $type,)*
        }

        columns! {
            Send: "sends", "send", blank = Send::blank();
            connection_id = connection, "its connection";
            pid = owner.pid, "process that made the send", from "task_struct.tgid";
            comm = owner.comm, "name of its thread", from "task_struct.comm";
            tid = thread, null "the run is of an earlier version", "number of that thread in the host's pid namespace", from "task_struct.pid";
            first_seq = first_seq, "TCP sequence number of the first byte";
            bytes = bytes, "bytes written; the last of them is the one that is timed";
            call_at_ns = stamps.call, null "calls are not timed, or its beginning was not seen", "the call that wrote it began", from "tcp_sendmsg_locked()";
            at_ns = stamps.send, "stage `send`: that byte was in TCP's write queue", from "BPF_SOCK_OPS_TSTAMP_SENDMSG_CB";
            sched_at_ns = stamps.sched, null "there is no stamp", "stage `sched`: it entered the packet scheduler", from "BPF_SOCK_OPS_TSTAMP_SCHED_CB";
            driver_at_ns = stamps.driver, null "there is no stamp", "stage `driver`: it was handed to the driver", from "BPF_SOCK_OPS_TSTAMP_SND_SW_CB";
            nic_at_ns = |s| s.stamps.nic.map(|t| t.at), set |s, v| {
                s.stamps.nic = Option::from_value(v)?.map(|at| Timestamp { at, source: Source::Nic, error: Nanos::ZERO });
                Ok(())
            }, null "the NIC gave no stamp", "stage `nic`: it was on the wire, by the NIC's clock, converted", from "BPF_SOCK_OPS_TSTAMP_SND_HW_CB";
            ack_at_ns = stamps.ack, null "no ACK was seen", "stage `ack`: it was acknowledged", from "BPF_SOCK_OPS_TSTAMP_ACK_CB";
            unacknowledged_at_ns = |s| s.unacknowledged.map(|u| u.at), set |s, v| {
                s.unacknowledged = Option::from_value(v)?.map(|at| Unacknowledged { at, idle: Nanos::ZERO });
                Ok(())
            }, null "an ACK was seen", "no ACK had come by then: tracing, or the connection, ended";
            unacknowledged_ns = |s| s.unacknowledged_for(), null "an ACK was seen", "`send` to that moment: it took longer than this";
            idle_ns = |s| s.unacknowledged.map(|u| u.idle), set |s, v| {
                if let Some(unacknowledged) = &mut s.unacknowledged {
                    unacknowledged.idle = Nanos::from_value(v)?;
                }
                Ok(())
            }, null "an ACK was seen", "how long by then nothing of its connection had been acknowledged, since this send was made";
            sched_error_ns = |s| s.stamps.sched.map(|_| s.stamps.sched_error), set |s, v| {
                s.stamps.sched_error = Option::<Nanos>::from_value(v)?.unwrap_or_default();
                Ok(())
            }, null "there is no `sched_at_ns`",
                "0: the stage is stamped. Otherwise it is inferred: it was passed at `sched_at_ns` or up to so much later ([waiting.md](waiting.md))";
            driver_error_ns = |s| s.stamps.driver.map(|_| s.stamps.driver_error), set |s, v| {
                s.stamps.driver_error = Option::<Nanos>::from_value(v)?.unwrap_or_default();
                Ok(())
            }, null "there is no `driver_at_ns`", "the same of `driver_at_ns`";
            ack_error_ns = |s| s.stamps.ack.map(|_| s.stamps.ack_error), set |s, v| {
                s.stamps.ack_error = Option::<Nanos>::from_value(v)?.unwrap_or_default();
                Ok(())
            }, null "there is no `ack_at_ns`, or the run is of an earlier version",
                "0: that ACK was seen. Otherwise it is one of several, and came at `ack_at_ns`, give or take so much ([waiting.md](waiting.md))";
            nic_error_ns = |s| s.stamps.nic.map(|t| t.error), set |s, v| {
                if let Some(nic) = &mut s.stamps.nic {
                    nic.error = Nanos::from_value(v)?;
                }
                Ok(())
            }, null "there is no `nic_at_ns`", "error bound of `nic_at_ns`, to either side";
            call_ns = |s| s.leg(Leg::Call).ok().flatten(), null "as `call_at_ns`; and by tracepoints where the call neither waits nor fills several packets", "`call` to `send`: the copy, and the sleep for room in the send buffer";
            tcp_ns = |s| s.leg(Leg::Tcp).ok().flatten(), null "a stage is missing, or the two are in an impossible order", "`send` to `sched`";
            qdisc_ns = |s| s.leg(Leg::Qdisc).ok().flatten(), null "as `tcp_ns`", "`sched` to `driver`";
            nic_ns = |s| s.leg(Leg::Nic).ok().flatten(), null "as `tcp_ns`", "`driver` to `nic`";
            network_ns = |s| s.leg(Leg::Network).ok().flatten(), null "as `tcp_ns`", "`nic` (or `driver`, where there is no NIC stamp) to `ack`";
            total_ns = |s| s.leg(Leg::Total).ok().flatten(), null "as `tcp_ns`", "`send` to `ack`";
            waited_for = |s| s.wait.map(|w| w.reason()), set |s, v| wait::set_reason(&mut s.wait, v),
                null "it is not known", "what held it back for the largest share of `tcp_ns`, or has done so far where it is still in TCP";
            waited_ns = |s| s.wait.map(|w| w.by_reason()), set |s, v| s.set_chief_wait(v),
                null "it is not known", "the share of `tcp_ns` that this accounts for";
            waited_sent_at_once_ns = |s| s.wait.map(|w| w.time(WaitReason::SentAtOnce)), set |s, v| wait::set_time(&mut s.wait, WaitReason::SentAtOnce, v),
                null "it is not known", "of `tcp_ns`, time for nothing, as it left within the call that wrote it";
            waited_congestion_window_ns = |s| s.wait.map(|w| w.time(WaitReason::CongestionWindow)), set |s, v| wait::set_time(&mut s.wait, WaitReason::CongestionWindow, v),
                null "it is not known", "of `tcp_ns`, time as the congestion window was full";
            waited_receive_window_ns = |s| s.wait.map(|w| w.time(WaitReason::ReceiveWindow)), set |s, v| wait::set_time(&mut s.wait, WaitReason::ReceiveWindow, v),
                null "it is not known", "of `tcp_ns`, time as the peer's receive window was full";
            waited_pacing_ns = |s| s.wait.map(|w| w.time(WaitReason::Pacing)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Pacing, v),
                null "it is not known", "of `tcp_ns`, time for TCP's pacing";
            waited_nagle_ns = |s| s.wait.map(|w| w.time(WaitReason::Nagle)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Nagle, v),
                null "it is not known", "of `tcp_ns`, time for Nagle's algorithm";
            waited_cork_ns = |s| s.wait.map(|w| w.time(WaitReason::Cork)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Cork, v),
                null "it is not known", "of `tcp_ns`, time for `TCP_CORK` or `MSG_MORE`";
            waited_autocork_ns = |s| s.wait.map(|w| w.time(WaitReason::Autocork)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Autocork, v),
                null "it is not known", "of `tcp_ns`, time for autocorking";
            waited_small_queue_ns = |s| s.wait.map(|w| w.time(WaitReason::SmallQueue)), set |s, v| wait::set_time(&mut s.wait, WaitReason::SmallQueue, v),
                null "it is not known", "of `tcp_ns`, time for the small-queue limit";
            waited_retransmission_ns = |s| s.wait.map(|w| w.time(WaitReason::Retransmission)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Retransmission, v),
                null "it is not known", "of `tcp_ns`, time while losses were repaired";
            waited_unknown_ns = |s| s.wait.map(|w| w.time(WaitReason::Unknown)), set |s, v| wait::set_time(&mut s.wait, WaitReason::Unknown, v),
                null "it is not known", "of `tcp_ns`, time for a reason not known";
            buffer_full_for = |s| s.buffer.map(|w| w.reason()), set |s, v| wait::set_reason(&mut s.buffer, v),
                null "there was room in the send buffer", "what held the queue for the largest share of `buffer_full_ns`; `send_buffer` where nothing did: the buffer is too small";
            buffer_full_ns = |s| s.buffer.map(|w| w.sum()), set |s, v| wait::set_whole(&mut s.buffer, v),
                null "there was room in the send buffer", "how long the program waited for room in the send buffer before it could write these bytes: asleep in the call, or until the socket was writable";
            buffer_full_send_buffer_ns = |s| s.buffer.map(|w| w.time(WaitReason::SendBuffer)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::SendBuffer, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with nothing that held the queue: the buffer is too small";
            buffer_full_congestion_window_ns = |s| s.buffer.map(|w| w.time(WaitReason::CongestionWindow)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::CongestionWindow, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with the congestion window full";
            buffer_full_receive_window_ns = |s| s.buffer.map(|w| w.time(WaitReason::ReceiveWindow)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::ReceiveWindow, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with the peer's receive window full";
            buffer_full_pacing_ns = |s| s.buffer.map(|w| w.time(WaitReason::Pacing)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Pacing, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with TCP's pacing";
            buffer_full_nagle_ns = |s| s.buffer.map(|w| w.time(WaitReason::Nagle)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Nagle, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with Nagle's algorithm";
            buffer_full_cork_ns = |s| s.buffer.map(|w| w.time(WaitReason::Cork)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Cork, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with `TCP_CORK` or `MSG_MORE`";
            buffer_full_autocork_ns = |s| s.buffer.map(|w| w.time(WaitReason::Autocork)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Autocork, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with autocorking";
            buffer_full_small_queue_ns = |s| s.buffer.map(|w| w.time(WaitReason::SmallQueue)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::SmallQueue, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with the small-queue limit met";
            buffer_full_retransmission_ns = |s| s.buffer.map(|w| w.time(WaitReason::Retransmission)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Retransmission, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with losses to repair";
            buffer_full_unknown_ns = |s| s.buffer.map(|w| w.time(WaitReason::Unknown)), set |s, v| wait::set_time(&mut s.buffer, WaitReason::Unknown, v),
                null "there was room in the send buffer", "of `buffer_full_ns`, time with a reason not known";
            retransmissions = retransmissions, "how often the packet with the last byte was retransmitted";
            ack_alone = ack_alone, null "no ACK was seen, or the run is of an earlier version",
                "whether a segment without data acknowledged it, and no more than one packet, 35 ms or more after `at_ns`, while nothing of the connection waited for that";
            $($name = state.$field, $(null $null,)? $doc, from $source;)*
        }
    };
}

sender_state!(declare_state!);

impl Send {
    /// Puts back how long the reason of the largest share held it. Runs of earlier versions say no
    /// more of its wait, so the rest of the leg is not known. In them a send that left at once has
    /// the wait for the send buffer before that, which the `buffer_full` fields say as well.
    fn set_chief_wait(&mut self, time: Value<'_>) -> Result<(), &'static str> {
        let Some(chief) = self.wait.map(|w| w.reason()) else { return Ok(()) };
        let leg = self.leg(Leg::Tcp).ok().flatten().or(self.unacknowledged_for());
        let time = Nanos::from_value(time)?;
        self.wait = Some(match (chief, leg) {
            (WaitReason::SentAtOnce | WaitReason::SendBuffer, leg) => {
                Waits::of(WaitReason::SentAtOnce, leg.unwrap_or_default())
            }
            (chief, leg) => {
                let mut waits = Waits::of(chief, time);
                waits.add(WaitReason::Unknown, leg.unwrap_or(time).saturating_sub(time));
                waits
            }
        });
        Ok(())
    }

    /// A send of no bytes and without stamps, for one that is written down field by field.
    pub fn blank() -> Self {
        Self {
            connection: ConnectionId::default(),
            owner: Owner::default(),
            thread: None,
            first_seq: SeqNumber::default(),
            bytes: 0,
            stamps: Stamps::sent_at(Instant::from_nanos(0)),
            state: SenderState::default(),
            buffer: None,
            wait: None,
            retransmissions: 0,
            unacknowledged: None,
            ack_alone: None,
        }
    }

    /// The sequence number of the byte that is timed: the kernel's `tskey`.
    pub fn last_seq(&self) -> SeqNumber {
        self.first_seq.add(self.bytes.wrapping_sub(1))
    }

    /// How long a leg took: `Ok(None)` where a stage of it gave no stamp.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time.
    #[inline]
    pub fn leg(&self, leg: Leg) -> Result<Option<Nanos>, Disorder> {
        let between = |from: Stage, to: Stage| match (self.stamps.at(from), self.stamps.at(to)) {
            (Some(a), Some(b)) => b.since(a).map(Some),
            _ => Ok(None),
        };
        match leg {
            // By tracepoints the two are one moment where all is copied in one round.
            Leg::Call if self.stamps.call == Some(self.stamps.send) => Ok(None),
            Leg::Call => between(Stage::Call, Stage::Send),
            Leg::Tcp => between(Stage::Send, Stage::Sched),
            Leg::Qdisc => between(Stage::Sched, Stage::Driver),
            Leg::Nic => between(Stage::Driver, Stage::Nic),
            Leg::Network if self.stamps.nic.is_some() => between(Stage::Nic, Stage::Ack),
            Leg::Network => between(Stage::Driver, Stage::Ack),
            Leg::Total => between(Stage::Send, Stage::Ack),
        }
    }

    /// How much longer than the minimum RTT its ACK took for the timer of a peer that delays ACKs,
    /// while nothing waited for that: no time of anybody. Zero where that is not known.
    #[inline]
    pub fn delayed_ack(&self) -> Nanos {
        // Those of Linux (`TCP_DELACK_MIN` and `TCP_DELACK_MAX`, include/net/tcp.h; the latter is
        // Windows' as well) with what ticks and a busy machine add. A queue on the path is rarely
        // just as long.
        const TIMERS_MS: [std::ops::Range<u64>; 2] = [38..56, 195..221];
        if self.ack_alone != Some(true) || self.retransmissions > 0 || self.stamps.ack_error > Nanos::ZERO {
            return Nanos::ZERO;
        }
        let taken = self.leg(Leg::Network).ok().flatten();
        let late = taken.zip(self.state.min_rtt).map_or(Nanos::ZERO, |(taken, least)| taken.saturating_sub(least));
        if TIMERS_MS.iter().any(|timer| timer.contains(&(late.0 / 1_000_000))) { late } else { Nanos::ZERO }
    }

    /// As [`Send::leg`], without a [`Send::delayed_ack`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn awaited(&self, leg: Leg) -> Result<Option<Nanos>, Disorder> {
        let time = self.leg(leg)?;
        Ok(match leg {
            Leg::Network | Leg::Total => time.map(|time| time.saturating_sub(self.delayed_ack())),
            _ => time,
        })
    }

    /// How long it had gone without an ACK when it was last seen; `None` where one came.
    #[inline]
    pub fn unacknowledged_for(&self) -> Option<Nanos> {
        self.unacknowledged?.at.since(self.stamps.send).ok()
    }

    /// How long a leg had taken by then, of a send without an ACK: the leg in which it was, and the
    /// total. `None` of every other leg, and of one that is over.
    #[inline]
    pub fn so_far(&self, leg: Leg) -> Option<Nanos> {
        let until = self.unacknowledged?.at;
        let since = match leg {
            Leg::Total => Some(self.stamps.send),
            // What has left and gave no stamp has no reason for waiting.
            Leg::Tcp if self.stamps.sched.is_none() && self.stamps.driver.is_none() => {
                self.wait.map(|_| self.stamps.send)
            }
            Leg::Network => self.stamps.at(Stage::Nic).or(self.stamps.driver),
            _ => None,
        };
        until.since(since?).ok()
    }

    /// The `qdisc` and the `network` leg together, where no stamp says where the one ends and the
    /// other begins.
    #[inline]
    pub fn below_tcp(&self) -> Option<Nanos> {
        match self.stamps {
            Stamps { sched: Some(sched), driver: None, ack: Some(ack), .. } => ack.since(sched).ok(),
            _ => None,
        }
    }

    /// The bound on the error of a leg, to either side: of the stamps at both of its ends together.
    /// Zero where both are stamps of the packet itself by the kernel.
    #[inline]
    pub fn leg_error(&self, leg: Leg) -> Nanos {
        let nic = self.stamps.nic.map(|nic| nic.error);
        match leg {
            Leg::Tcp => self.stamps.sched_error,
            Leg::Qdisc => self.stamps.sched_error + self.stamps.driver_error,
            Leg::Nic => self.stamps.driver_error + nic.unwrap_or_default(),
            Leg::Network => nic.unwrap_or(self.stamps.driver_error) + self.stamps.ack_error,
            Leg::Total => self.stamps.ack_error,
            Leg::Call => Nanos::ZERO,
        }
    }
}

impl Stamps {
    /// A send that was just made.
    pub const fn sent_at(send: Instant<Monotonic>) -> Self {
        Self {
            call: None,
            send,
            sched: None,
            driver: None,
            sched_error: Nanos::ZERO,
            driver_error: Nanos::ZERO,
            nic: None,
            ack: None,
            ack_error: Nanos::ZERO,
        }
    }

    /// When the byte passed `stage`.
    pub fn at(&self, stage: Stage) -> Option<Instant<Monotonic>> {
        match stage {
            Stage::Call => self.call,
            Stage::Send => Some(self.send),
            Stage::Sched => self.sched,
            Stage::Driver => self.driver,
            Stage::Nic => self.nic.map(|t| t.at),
            Stage::Ack => self.ack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Instant<Monotonic> {
        Instant::from_nanos(ns)
    }

    fn send(stamps: Stamps) -> Send {
        Send {
            connection: ConnectionId(1),
            owner: Owner::default(),
            thread: None,
            first_seq: SeqNumber(u32::MAX),
            bytes: 10,
            stamps,
            state: SenderState::default(),
            buffer: None,
            wait: None,
            retransmissions: 0,
            unacknowledged: None,
            ack_alone: None,
        }
    }

    #[test]
    fn the_timed_byte_is_the_last_one_even_over_a_wrap() {
        assert_eq!(send(Stamps::sent_at(at(0))).last_seq(), SeqNumber(8));
    }

    #[test]
    fn a_call_that_is_not_seen_to_end_has_no_length() {
        let called = |ns| send(Stamps { call: Some(at(ns)), ..Stamps::sent_at(at(5)) }).leg(Leg::Call);
        assert_eq!((called(5), called(3)), (Ok(None), Ok(Some(Nanos(2)))));
    }

    #[test]
    fn a_missing_stage_gives_no_leg() {
        let s = send(Stamps { ack: Some(at(9)), ..Stamps::sent_at(at(1)) });
        assert_eq!(s.leg(Leg::Tcp), Ok(None));
        assert_eq!(s.leg(Leg::Total), Ok(Some(Nanos(8))));
    }

    #[test]
    fn a_send_without_an_ack_has_its_time_so_far_in_the_leg_where_it_is() {
        let unacknowledged = Some(Unacknowledged { at: at(90), idle: Nanos(5) });
        let of = |stamps, wait| Send { unacknowledged, wait, ..send(stamps) };
        let legs = |s: Send| [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total].map(|leg| s.so_far(leg).map(|t| t.0));
        let left = Stamps { sched: Some(at(20)), driver: Some(at(30)), ..Stamps::sent_at(at(10)) };
        assert_eq!(legs(of(left, None)), [None, None, Some(60), Some(80)]);
        let wait = Some(Waits::of(WaitReason::ReceiveWindow, Nanos(1)));
        assert_eq!(legs(of(Stamps::sent_at(at(10)), wait)), [Some(80), None, None, Some(80)]);
        assert_eq!(legs(of(Stamps::sent_at(at(10)), None)), [None, None, None, Some(80)]);
        assert_eq!(legs(send(left)), [None; 4]);
    }

    #[test]
    fn the_timer_of_a_peer_that_delays_acks_is_no_time_of_anybody() {
        let ms = Nanos::from_millis;
        let stamps = |ack: u64| Stamps {
            sched: Some(at(0)),
            driver: Some(at(0)),
            ack: Some(at(ms(ack).0)),
            ..Stamps::sent_at(at(0))
        };
        let of = |ack, alone| Send {
            ack_alone: Some(alone),
            state: SenderState { min_rtt: Some(ms(2)), ..SenderState::default() },
            ..send(stamps(ack))
        };
        let awaited = |s: Send| [Leg::Tcp, Leg::Network, Leg::Total].map(|leg| s.awaited(leg).unwrap().unwrap());
        assert_eq!(awaited(of(43, true)), [Nanos(0), ms(2), ms(2)]);
        assert_eq!(awaited(of(203, true)), [Nanos(0), ms(2), ms(2)]);
        // Something waited for it; a path that is slow; a packet that was lost.
        assert_eq!(of(43, false).delayed_ack(), Nanos::ZERO);
        assert_eq!(of(80, true).delayed_ack(), Nanos::ZERO);
        assert_eq!(Send { retransmissions: 1, ..of(43, true) }.delayed_ack(), Nanos::ZERO);
        assert_eq!(Send { state: SenderState::default(), ..of(43, true) }.delayed_ack(), Nanos::ZERO);
    }

    proptest! {
        #[test]
        fn legs_add_up_to_the_total_or_say_why_not(t in prop::array::uniform4(0u64..1_000)) {
            let s = send(Stamps { sched: Some(at(t[1])), driver: Some(at(t[2])), ack: Some(at(t[3])), ..Stamps::sent_at(at(t[0])) });
            let parts: Result<Vec<_>, _> = Leg::ADDITIVE.into_iter().map(|l| s.leg(l)).collect();
            if let Ok(parts) = parts {
                let sum: Nanos = parts.into_iter().flatten().sum();
                prop_assert_eq!(s.leg(Leg::Total), Ok(Some(sum)));
            }
        }
    }
}
