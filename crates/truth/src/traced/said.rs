//! From what a trace says to what it claims.
//!
//! The sentences are those that `report` prints; each is known here by the words that carry its
//! meaning, so that a sentence which is not known makes the test fail, and none is judged by
//! something that nobody reads. What a sentence claims, and by which part of the truth it is judged
//! ([`Whole`]):
//!
//! | sentence | claim | whole |
//! |---|---|---|
//! | what limited a transfer, "in shares of the time" | its first name is the largest cause, with this share | from the first write to the last ACK |
//! | the same, "of the time in TCP" | likewise | the time of all sends in TCP |
//! | "What held the queue meanwhile" | its first name held it; no share, as it is of the waits for room alone | from the first write to the last ACK |
//! | "The tcp leg … took 60 %" | the leg is the largest, with this share | where the bytes of each send were |
//! | "Nothing was on its way for 97 %" | the share of the time without data | all looks at the socket |
//! | what to do next | the cause that it is a remedy for | as the headline before it |
//!
//! Which causes a name stands for:
//!
//! - *the congestion window* is [`Cause::CongestionWindow`] and [`Cause::SlowStart`]. A full window
//!   on a path that is full is not that: where a trace says that the window limits, another
//!   congestion control is to help. Only as "what held the queue" may it be either, since that is
//!   true of both and names no remedy; and where it is said that data wait on the path or ACKs come
//!   late, it may be any of them.
//! - *the path* is what the bottleneck limits on either way, also while it repairs what its queue
//!   has dropped; *losses* are what is lost, whether a full queue has dropped it or not.
//! - *the send buffer* is that alone, and, where round trips took longer than at rest, either.
//! - *pacing* without somebody who sets the rate is a mechanism: where no rate was set it names no
//!   cause, so it is withheld.
//! - *the distance* is a network leg that is no longer than the path's round trip, by a quarter and
//!   2 ms; the path's queue makes it longer. *A round trip each*, which no setting shortens, may be
//!   longer, where nothing limits what this connection sends for most of that time.
//! - Where the trace asks for another measurement (a capture, the other end), nothing is claimed.
//!
//! An application that has nothing to send is no part of the time of sends, and no trace of sends
//! names it; where it takes most of the time and more than is left to the limits that are named,
//! the sentence leaves the most of it open: withheld, as far as the share is right.
//!
//! Of `--receive` what to do next is judged (whether the receiving program does something else than
//! read), and of `--requests` which part takes most of their time, by what both programs did: the
//! legs of a byte that was received are too short to be seen otherwise. A limit of what is sent
//! shows as the transfer of a message, or in TCP.
//!
//! A remedy for what takes less than a tenth of the connection's time, and of that of its sends,
//! would help nobody: wrong.

use paper::document::Text;
use record::Leg;

use crate::account::Cause;

/// What a sentence claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Claim {
    /// These causes take most of a time.
    Causes(OfCauses),
    /// This leg, or one of these two, takes most of the time of sends.
    Legs(Vec<Leg>, f64),
    /// Nothing was on its way for this share of the time.
    Quiet(f64),
    /// The network leg is the distance.
    Distance,
    /// It is that, or others' data are before these in a queue.
    RoundTrip,
    /// Losses make the network leg longer.
    LossesOnTheWay,
    /// The receiving program does not read yet what came.
    ReadsLate,
    /// One of these takes most of the time of requests.
    Requests(&'static str, &'static [Share]),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// A part of the time of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// The program of the end that was traced.
    Own,
    /// That of its peer.
    Peer,
    /// What limited sends.
    Limited,
    /// The round trip at rest.
    Way,
    /// What was on its way for longer than that.
    Queue,
}

/// Causes that are named.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfCauses {
    /// How the sentence calls them.
    pub name: &'static str,
    /// Which.
    pub causes: &'static [Cause],
    /// Of which time.
    pub whole: Whole,
    /// Their share of it, where that is said, with the shares of all that is named.
    pub share: Option<(f64, f64)>,
    /// Whether something is to be changed because of it.
    pub is_remedy: bool,
}

/// A part of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// From the first write to the last ACK.
    Transfer,
    /// The time of all sends in TCP.
    InTcp,
    /// The connection's time until it is open.
    SetUp,
}

const WINDOW: &[Cause] = &[Cause::CongestionWindow, Cause::SlowStart];
const PATH: &[Cause] = &[Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate];
const WINDOW_OR_PATH: &[Cause] =
    &[Cause::CongestionWindow, Cause::SlowStart, Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate];
const BUFFER: &[Cause] = &[Cause::SendBuffer];
const BUFFER_OR_PATH: &[Cause] = &[Cause::SendBuffer, Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate];
const PEER: &[Cause] = &[Cause::ReceiveWindow];
const LOSSES: &[Cause] = &[Cause::Loss, Cause::PathRateLosing];
const PEER_OR_PATH: &[Cause] = &[Cause::ReceiveWindow, Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate];
const LOSSES_OR_PATH: &[Cause] = &[Cause::Loss, Cause::PathRate, Cause::PathRateLosing, Cause::AckPathRate];
const PACING: &[Cause] = &[Cause::Pacing];
const PROGRAM: &[Cause] = &[Cause::Application];
const NAGLE: &[Cause] = &[Cause::Nagle];
/// No plan corks, and none has a queue of this host.
const NONE: &[Cause] = &[];

/// What limits a transfer, by its name: longer names before those that begin them.
const LIMITS: [(&str, &[Cause]); 22] = [
    ("the send buffer while data waited on the path", BUFFER_OR_PATH),
    ("the send buffer, by pacing", BUFFER),
    ("the send buffer", BUFFER),
    ("the path (the same rate with any congestion window)", PATH),
    ("the path or late ACKs (congestion window full, round trips longer than at rest)", WINDOW_OR_PATH),
    ("the beginning of the connection, by pacing", WINDOW),
    ("the path, by pacing", PATH),
    ("the congestion window", WINDOW),
    ("the path or the peer's receive window (full, round trips longer than at rest)", PEER_OR_PATH),
    ("the peer's receive window, by pacing", PEER),
    ("the peer's receive window", PEER),
    ("repairing losses while data waited on the path", LOSSES_OR_PATH),
    ("repairing losses", LOSSES),
    ("SO_MAX_PACING_RATE", PACING),
    ("the program, by pacing at the rate that it wrote at", PROGRAM),
    ("pacing", PACING),
    ("Nagle's algorithm", NAGLE),
    ("cork", NONE),
    ("autocork", NONE),
    ("small-queue limit", NONE),
    ("a reason not known", NONE),
    ("sent at once", NONE),
];

/// What held the queue while programs waited for room, likewise.
const HOLDERS: [(&str, &[Cause]); 13] = [
    ("nothing else, while round trips took longer than at rest", BUFFER_OR_PATH),
    ("nothing else, so the buffer is too small for the path", BUFFER),
    ("congestion window", WINDOW_OR_PATH),
    ("receive window while round trips took longer than at rest", PEER_OR_PATH),
    ("receive window", PEER),
    ("retransmission while round trips took longer than at rest", LOSSES_OR_PATH),
    ("retransmission", LOSSES),
    ("pacing", PACING),
    ("Nagle's algorithm", NAGLE),
    ("cork", NONE),
    ("autocork", NONE),
    ("small-queue limit", NONE),
    ("a reason not known", NONE),
];

/// What to do next about a cause: the words that say which, and whether something is to be changed.
const STEPS: [(&str, &[Cause], bool); 25] = [
    ("its rate was the same with any congestion window", PATH, false),
    ("the peer's window was full, and round trips took longer", PEER_OR_PATH, false),
    ("losses are being repaired while data waits on the path", LOSSES_OR_PATH, false),
    ("looks for the rate of the path", WINDOW, false),
    ("while the send buffer was full, round trips took longer", BUFFER_OR_PATH, false),
    ("while the congestion window was full, round trips took longer", WINDOW_OR_PATH, false),
    ("the connections were young", &[Cause::SlowStart], true),
    ("TCP had set the congestion window back", &[Cause::SlowStart], true),
    ("the congestion window is what limits", WINDOW, true),
    ("the peer's window is what limits", PEER, true),
    ("the send buffer is small for the path", BUFFER, true),
    ("write each message with one call, or set TCP_NODELAY", NAGLE, true),
    ("the program asks TCP to wait (TCP_CORK or MSG_MORE)", NONE, true),
    ("TCP waits for earlier packets in the qdisc or the NIC", NONE, true),
    ("this host's own queue below TCP is full", NONE, true),
    ("losses are being repaired", LOSSES, false),
    ("the rate is limited to ", PACING, false),
    ("at the rate that gets through, and the peer's window was full", PEER, true),
    ("at the rate that gets through, and the send buffer was the limit", BUFFER, true),
    ("at the rate that the program has written at before", PROGRAM, true),
    ("at the rate that the path carries", PATH, false),
    ("nor the program held it back, so it is the path's", PATH, false),
    ("packets queue on this host, before the driver", NONE, true),
    ("the NIC held packets", NONE, true),
    ("connections are set up for these requests", &[Cause::Handshake], true),
];

const PEER_OR_QUEUE: &[Share] = &[Share::Peer, Share::Limited, Share::Queue];

/// What to do next about requests, by the words that say which part is meant.
const OF_REQUESTS: [(&str, &str, &[Share]); 8] = [
    ("the peer's program takes the time, or its answer", "the peer's program or the path", PEER_OR_QUEUE),
    ("the peer's program takes the time, or a queue", "the peer's program or the path", PEER_OR_QUEUE),
    ("the peer's program takes the time", "the peer's program", &[Share::Peer]),
    ("between its first write and its last", "this program, between its writes", &[Share::Own]),
    ("from reading the request to the last write", "this program, until it answers", &[Share::Own]),
    ("that is the distance to the peer", "the distance", &[Share::Way]),
    (
        "from the first byte of a message to its last",
        "the transfer of messages",
        &[Share::Limited, Share::Peer, Share::Own],
    ),
    ("this program had not read it yet", "this program reads late", &[Share::Own]),
];

/// The names of legs, as sentences have them.
const LEGS: [(&str, Leg); 4] = [("tcp", Leg::Tcp), ("qdisc", Leg::Qdisc), ("nic", Leg::Nic), ("network", Leg::Network)];

/// A sentence as it is compared: with ordinary spaces.
pub(super) fn plain(text: &Text) -> String {
    text.to_string().replace('\u{a0}', " ")
}

/// The share after a name: `68 %`, `< 0.1 %`.
fn share(text: &str) -> Option<f64> {
    let number = text.trim_start().trim_start_matches(['<', '>']).trim_start();
    Some(number.split_once(" %")?.0.parse::<f64>().ok()? / 100.0)
}

/// Names with their shares, after each other: the first, and the sum of all shares.
fn named(
    list: &str,
    known: &[(&'static str, &'static [Cause])],
) -> Option<(&'static str, &'static [Cause], (f64, f64))> {
    let (mut rest, mut first, mut sum) = (list, None, 0.0);
    loop {
        let (name, causes) = known.iter().find(|(name, _)| rest.starts_with(name))?;
        let after = &rest[name.len()..];
        let of = share(after)?;
        sum += of;
        first.get_or_insert((*name, *causes, of));
        match after.split_once(" %")?.1.strip_prefix(", ") {
            Some(more) => rest = more,
            None => break,
        }
    }
    first.map(|(name, causes, of)| (name, causes, (of, sum)))
}

/// What the headline claims; `None` where it is not known here.
pub(super) fn headline(text: &str) -> Option<Claim> {
    let of = |name, causes, whole, share| Claim::Causes(OfCauses { name, causes, whole, share, is_remedy: false });
    let unknown = |name: &str| matches!(name, "a reason not known" | "pacing" | "sent at once");
    for (introduction, whole) in [
        ("What limited, in shares of the time: ", Whole::Transfer),
        ("What limited, in shares of the time in TCP: ", Whole::InTcp),
    ] {
        if let Some((_, list)) = text.split_once(introduction) {
            let (name, causes, shares) = named(list, &LIMITS)?;
            return Some(of(name, causes, whole, Some(shares))).map(|claim| match unknown(name) {
                true => Claim::Nothing("the reason, or who sets the rate, is not known"),
                false => claim,
            });
        }
    }
    if let Some((_, list)) = text.split_once("What held the queue meanwhile: ") {
        let (name, causes, _) = named(list, &HOLDERS)?;
        return Some(match unknown(name) {
            true => Claim::Nothing("the reason, or who sets the rate, is not known"),
            false => of(name, causes, Whole::Transfer, None),
        });
    }
    if text.contains(" transfer") && text.contains(" in ") && text.contains("bit/s") {
        return Some(Claim::Nothing("no limit is named"));
    }
    if text.starts_with("The qdisc and the network leg") {
        let (_, took) = text.split_once("together took ")?;
        return Some(Claim::Legs(vec![Leg::Qdisc, Leg::Network], share(took)?));
    }
    for (name, leg) in LEGS {
        if text.starts_with(&format!("The {name} leg (")) {
            let (_, took) = text.split_once(") took ")?;
            return Some(Claim::Legs(vec![leg], share(took)?));
        }
        if let Some(rest) = text.strip_prefix("No leg took half of the time of ")
            && rest.split_once(": ")?.1.starts_with(&format!("{name} ("))
        {
            let (_, took) = rest.split_once(") took ")?;
            return Some(Claim::Legs(vec![leg], share(took)?));
        }
    }
    if let Some(rest) = text.strip_prefix("Nothing was on its way for ") {
        return share(rest).map(Claim::Quiet);
    }
    if text.starts_with("Connecting took up to ") {
        return Some(of("connecting", &[Cause::Handshake], Whole::SetUp, None));
    }
    if text.contains(" been stuck for ") {
        let (name, causes) = match text.ends_with("the peer's receive window is full.") {
            true => ("stuck, by the peer's receive window", PEER),
            false => ("stuck, without an ACK", LOSSES),
        };
        return Some(of(name, causes, Whole::Transfer, None));
    }
    let nothing = [
        " is not known, as stages gave no stamp",
        "none of them was acknowledged",
        "cannot be divided among the legs",
        "no send was recorded to its end",
    ];
    nothing.into_iter().find(|words| text.contains(words)).map(|_| Claim::Nothing("nothing could be timed"))
}

/// What the next step claims, after a headline that is judged by `whole`.
pub(super) fn step(text: &str, whole: Whole) -> Option<Claim> {
    if text.starts_with("that is the distance to the peer") {
        return Some(Claim::Distance);
    }
    if text.starts_with("these sends took a round trip each") {
        return Some(Claim::RoundTrip);
    }
    if text.starts_with("packets are lost on the path") {
        return Some(Claim::LossesOnTheWay);
    }
    if text.starts_with("what came was readable, and this program had not read it yet") {
        return Some(Claim::ReadsLate);
    }
    let elsewhere = [
        "trace the other end as well",
        "nothing comes back from",
        "what sets it cannot be seen from here",
        "the SYN or its answer was lost",
        "no answer comes to the SYN",
        "does not read what it has",
    ];
    if elsewhere.into_iter().any(|words| text.contains(words)) {
        return Some(Claim::Nothing("another measurement is asked for"));
    }
    let (name, causes, is_remedy) = *STEPS.iter().find(|(words, ..)| text.contains(words))?;
    Some(Claim::Causes(OfCauses { name, causes, whole, share: None, is_remedy }))
}

/// What the next step of requests claims.
pub(super) fn step_of_requests(text: &str) -> Option<Claim> {
    if let Some((_, name, shares)) = OF_REQUESTS.into_iter().find(|(words, ..)| text.contains(words)) {
        return Some(Claim::Requests(name, shares));
    }
    match step(text, Whole::InTcp)? {
        Claim::Causes(of) if of.name != "connections are set up for these requests" => {
            // A peer that does something else does not read.
            let is_peer = of.causes == PEER || of.causes == PEER_OR_PATH;
            Some(Claim::Requests(of.name, if is_peer { &[Share::Limited, Share::Peer] } else { &[Share::Limited] }))
        }
        claim => Some(claim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_read_with_their_shares() {
        let said = headline(
            "1 transfer: 6.25 MiB in 4.00 s, 13.1 Mbit/s. What limited, in shares of the time: the send buffer 68 %, the congestion window 22 %. \
             Without the first, at most 2.70 s of it could be saved.",
        );
        let Some(Claim::Causes(of)) = said else { panic!("{said:?}") };
        assert_eq!((of.name, of.causes, of.whole), ("the send buffer", BUFFER, Whole::Transfer));
        let (first, all) = of.share.unwrap();
        assert!((first - 0.68).abs() < 1e-9 && (all - 0.9).abs() < 1e-9);
        let legs = headline("The tcp leg (until TCP hands it down) took 63 % of the time of 40 sends (this leg: …).");
        assert_eq!(legs, Some(Claim::Legs(vec![Leg::Tcp], 0.63)));
        assert_eq!(
            headline("Nothing was on its way for 97 % of the time of the connections."),
            Some(Claim::Quiet(0.97))
        );
        // What nobody has thought of is no claim that passes.
        assert_eq!(headline("The moon took 63 % of the time."), None);
        assert_eq!(step("wait for the moon.", Whole::InTcp), None);
    }
}
