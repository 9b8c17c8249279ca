//! What is found on a connection: its kinds, the conclusion, and its row in a run.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::{Limit, Way};
use crate::kinds::kinds;
use crate::{Nanos, columns, inside};

kinds! {
    /// What kind of finding it is. Each has the file of its name in `diagnose/src/findings/`.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    FindingKind:
    WindowScalingMissing = "window_scaling_missing", "no window scaling",
        "a side left the window scale option out, and the sender filled the unscaled window ten times or for 5 % of the time, zero windows not counted";
    NagleDelayedAck = "nagle_delayed_ack", "Nagle's algorithm against a delayed ACK",
        "an ACK of less than two full segments came 10 ms or more later than the path takes, and a part-filled segment or FIN left right after it";
    DelayedAckStall = "delayed_ack_stall", "waiting for a delayed ACK",
        "an ACK of less than two full segments came 10 ms or more later than the path takes, and a full segment left right after it";
    ZeroWindow = "zero_window", "a closed window",
        "the receiver advertised a window of zero";
    ReceiverApplication = "receiver_application", "a slow reader",
        "at least 10 % of the time the receive window was full, and for a quarter of these moments it had shrunk below half of its largest, or to zero";
    ReceiveWindow = "receive_window", "the receive window",
        "at least 10 % of the time the receive window was full, it had not shrunk by then, and scaling is not what is missing";
    MtuBlackHole = "mtu_black_hole", "a path that swallows large packets",
        "the same full-sized segment was retransmitted on a timeout twice or more, nothing of that size was ever acknowledged, and smaller packets were";
    Loss = "loss", "loss",
        "segments were retransmitted, and not all of them needlessly";
    DamagedPackets = "damaged_packets", "damaged packets",
        "a TCP checksum is wrong where they are right otherwise, and what was in it was not acknowledged before it was retransmitted";
    ReorderingTakenForLoss = "reordering_taken_for_loss", "reordering taken for loss",
        "a fast retransmission was not needed by DSACK or Eifel";
    SynRetries = "syn_retries", "SYNs without an answer",
        "a SYN or SYN-ACK was sent more than once";
    CongestionMarks = "congestion_marks", "congestion marks (ECN)",
        "packets arrived marked \"congestion experienced\", or ACKs echoed such marks (ECE)";
    PathStalls = "path_stalls", "a path that stands still at times",
        "nothing came for 30 ms or more although four segments or more were under way, most of what was under way then came late by as much, together, and what was sent afterwards did not; a hundredth of the duration in all";
    Bufferbloat = "bufferbloat", "a queue that is too long",
        "over 32 samples or more the RTT goes with the bytes in flight (r of 0.6 or more) and its 90th percentile is at least twice the minimum and 30 ms above it";
    CongestionWindow = "congestion_window", "the congestion window",
        "at least 25 % of the time the sender waited with full segments out, no receive window full and no queue standing, after slow start";
    SendBuffer = "send_buffer", "the send buffer",
        "the bytes in flight peaked at the same level for ten rounds or more, below the receive window and with no queue standing, for at least 25 % of the time";
    SlowStartAfterIdle = "slow_start_after_idle", "slow start after a pause",
        "after a pause longer than the retransmission timeout the first flight had at most 12 segments and half of what was usual, and the window filled up over the next rounds";
    TinySegments = "tiny_segments", "tiny segments",
        "100 data packets or more, of which 80 % carry less than a quarter of a segment, and half of those follow one another without an answer between";
    Reset = "reset", "a reset",
        "a RST ended the connection before both sides had closed it";
    PathDelayStep = "path_delay_step", "a change of the path's delay",
        "the smallest RTT of every block of 16 samples or more lies on one level before a moment and on another after it, at least 2 ms, 20 % (with a queue, the time between two bunches of ACKs) apart, three blocks or more on each side";
    RoundTrips = "round_trips", "a dialogue of many round trips",
        "five answers or more, each waited for, of which the handshake's round trip (5 ms or more) makes at least 30 % of the duration";
    Intermediary = "intermediary", "something on the way answers for the other end",
        "the handshake took at least 10 ms more than, and 8 times as long as, the median of ten or more data acknowledgments, of which nine tenths took less than half of it";
    Timestamps = "timestamps", "timestamps",
        "missing: the stream went once round the sequence space, or timeouts could not be judged without them; priced: 10 MB or more went at the path's rate with them on";
    SenderApplication = "sender_application", "the application",
        "more than half of the duration, and 100 ms at least, nothing stood ready to be sent";
    CaptureIncomplete = "capture_incomplete", "a capture with gaps",
        "bytes were acknowledged that no packet of the capture carries, though the direction is in it";
}

/// The first of the list: what a record holds until its kind is set.
impl Default for FindingKind {
    fn default() -> Self {
        Self::ALL[0]
    }
}

impl FindingKind {
    /// The kind of this word; `None` for one that another version drew.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of this word for people; the word itself, where another version drew it.
    pub fn words_of(name: &str) -> Cow<'static, str> {
        Self::from_name(name).map_or_else(|| name.replace('_', " ").into(), |kind| kind.words().into())
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A conclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The direction of the data concerned; `None` where it is the whole connection.
    pub direction: Option<Way>,
    /// The packets that it rests on, the clearest first; at most 24.
    pub packets: Vec<u64>,
    /// When it first showed, nanoseconds on the capture's clock.
    pub at_ns: u64,
    /// How often.
    pub count: u64,
    /// What it cost in time.
    pub cost_ns: Nanos,
    /// How much sooner the connection would be over without it, at most. `None` where it would not
    /// be, or cannot be said.
    pub saves_ns: Option<Nanos>,
    /// The limits to which the time belongs that the remedy would save.
    pub shortens: &'static [Limit],
    /// What was found, for people.
    pub text: String,
    /// What to do, and what that is worth, for people.
    pub worth: String,
}

columns! {
    Finding: "finding", "", blank = Finding::default();
    kind = kind, "its kind, which [analyze.md](analyze.md) describes";
    direction = direction, null "it is on the whole connection", "the direction of the data concerned";
    packets = packets, "the packets that it rests on, the clearest first; at most 24";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "how often";
    cost_ns = cost_ns, "what it cost in time";
    saves_ns = saves_ns, null "it would not be, or that cannot be said", "how much sooner the connection would be over without it, at most";
    text = text, "what was found, for people";
    worth = worth, "what to do, and what that is worth, for people";
}
inside!(Finding);

impl Finding {
    /// Its row in a run, where it is on the connection of this number.
    pub fn row(&self, number: u64) -> FindingRow {
        FindingRow {
            number,
            kind: self.kind.name().to_owned(),
            direction: self.direction,
            at_ns: Nanos(self.at_ns),
            count: self.count,
            cost_ns: self.cost_ns,
            text: self.text.clone(),
            worth: self.worth.clone(),
            packets: self.packets.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        }
    }
}

/// A finding in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingRow {
    /// The conversation's number.
    pub number: u64,
    /// Its kind's word: another version may draw kinds that this one does not know.
    pub kind: String,
    /// The direction of the data concerned, where it is one.
    pub direction: Option<Way>,
    /// When it first showed.
    pub at_ns: Nanos,
    /// How often.
    pub count: u64,
    /// What it cost.
    pub cost_ns: Nanos,
    /// In words.
    pub text: String,
    /// What a remedy would be worth, in words.
    pub worth: String,
    /// The packets that show it, by number, apart by blanks.
    pub packets: String,
}

columns! {
    FindingRow: "findings", "", blank = FindingRow::default();
    conversation = number, "number of the conversation that it is on";
    kind = kind, "its kind, as in [analyze.md](analyze.md)";
    direction = direction, null "it is on both", "direction of the data concerned";
    at_ns = at_ns, "when it first showed";
    count = count, "how often";
    cost_ns = cost_ns, "what it cost";
    text = text, "in words";
    worth = worth, "what repairing it would be worth";
    packets = packets, "numbers of the packets that show it, separated by blanks";
}

/// A finding that this capture can neither show nor rule out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Its kind.
    pub kind: FindingKind,
    /// The direction of the data concerned; `None` where it is the whole connection.
    pub direction: Option<Way>,
    /// What the capture lacks, for people.
    pub reason: &'static str,
}

columns! {
    Withheld: "withheld", "", blank = Withheld::default();
    kind = kind, "its kind, which [analyze.md](analyze.md) describes";
    direction = direction, null "it is on the whole connection", "the direction of the data concerned";
    reason = |w| w.reason, "what the capture lacks";
}
inside!(Withheld);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_word() {
        assert!(FindingKind::ALL.into_iter().all(|kind| FindingKind::from_name(kind.name()) == Some(kind)));
        assert_eq!(FindingKind::words_of("zero_window"), "a closed window");
        assert_eq!(FindingKind::words_of("of_a_later_version"), "of a later version");
    }
}
