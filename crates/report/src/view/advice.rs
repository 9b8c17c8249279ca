//! What to do about what dominated.

use std::net::SocketAddr;

use paper::document::Text;
use record::{Component, Leg, LegName, Role, WaitReason};
use stats::{Distribution, Quantile};
use summary::{RateSetBy, SendFigures, SmallWindow, TimedKind, TraceSummary, WaitStats};

use super::others::were;

/// What is to be typed.
fn code(text: &str) -> Text {
    Text::code(text)
}

/// A share of the time that is worth acting on.
pub(super) const MOST: f64 = 0.5;

/// Fewer sends than this are over before a queue on the path would empty.
const SEVERAL: u64 = 5;

/// A share that is worth acting on where nothing shortens the rest.
const SOME: f64 = 0.1;

/// One sentence on what to look at or change next, where one leg took half of the time or more and
/// the trace says why; it names the place where that is decided, and where it cannot know, the
/// measurement that can. Where programs waited for room in the send buffer for most of the trace,
/// it is on that.
pub(crate) fn advice(summary: &TraceSummary, blocked: bool) -> Option<Text> {
    let total = summary.total();
    if blocked && let Some(reason) = most(&total.buffer_waits()) {
        let slower = total.buffer_full_while_slower(reason);
        return in_tcp(summary, reason, slower);
    }
    let time = total.time();
    let (leg, took) = Leg::ADDITIVE.into_iter().map(|leg| (leg, total.leg(leg).sum())).max_by_key(|p| p.1)?;
    if time == 0 || quantity::share(took, time) < MOST {
        return None;
    }
    let waited = || {
        let reason = most(&total.waits())?;
        in_tcp(summary, reason, total.waited_while_slower(reason))
    };
    let next = match leg {
        Leg::Tcp => waited()?,
        Leg::Qdisc => Text::from("packets queue on this host, before the driver: ")
            .and(code("tc -s qdisc"))
            .and(" shows the queue's length and drops, and ")
            .and(code("--every-packet"))
            .and(" the packets in it."),
        Leg::Network => match is_steady(&total.leg(Leg::Network).times)? && total.is_at_distance() {
            // Nothing shortens the distance, and the rest may be a round trip as well.
            true if quantity::share(total.leg(Leg::Tcp).sum(), time) >= SOME => waited()?,
            // What requests took is said of them.
            true if !summary.requests().is_empty() => return None,
            true if total.leg(Leg::Network).times.n() < SEVERAL => Text::from(
                "these sends took a round trip each, which no setting of this host shortens: it is the distance to the peer, or others' data that \
                 stood in a queue all the time; so few sends do not show which. How long the peer's program takes to answer is not in it: ",
            )
            .and(code("--requests"))
            .and(" shows that, and how many round trips a request needs."),
            true => Text::from(
                "that is the distance to the peer, which no setting shortens. How long the peer's program takes to \
                 answer is not in it: ",
            )
            .and(code("--requests"))
            .and(" shows that, and how many round trips a request needs."),
            false if is_by_loss(total) => lost(total),
            false => on_the_path(),
        },
        Leg::Nic => Text::from("the NIC held packets: look at its queues with ")
            .and(code("ethtool -S"))
            .and(", and at its pause frames."),
        Leg::Call | Leg::Total => return None,
    };
    Some(next)
}

/// The reason that most of the time goes to.
fn most(waits: &[(WaitReason, WaitStats)]) -> Option<WaitReason> {
    let all: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let (reason, stats) = waits.first()?;
    (all > 0 && quantity::share(stats.time.0.into(), all) >= MOST).then_some(*reason)
}

/// By the reason that held sends for most of the time, and whether round trips took longer than at
/// rest meanwhile.
fn in_tcp(summary: &TraceSummary, reason: WaitReason, slower: bool) -> Option<Text> {
    let next = match reason {
        WaitReason::CongestionWindow if slower && let Some((least, most)) = summary.rate_with_any_window() => {
            return Some(Text::from(format!(
                "data waited on the path, which limits: its rate was the same with any congestion window from {} to {most} segments, so a larger one \
                 only lengthens its queue. A faster path helps, or less of other traffic on it.",
                quantity::count(least.into())
            )));
        }
        WaitReason::CongestionWindow | WaitReason::SendBuffer if slower => {
            let (full, larger) = match reason {
                WaitReason::SendBuffer => ("send buffer", "larger buffer"),
                _ => ("congestion window", "larger window"),
            };
            let waited = format!(
                "while the {full} was full, round trips took longer than at rest: data waited on the path, which then limits, or ACKs came late. "
            );
            let queue =
                format!(" on a capture distinguishes them. Where it is the path, a {larger} only lengthens its queue.");
            return Some(Text::from(waited).and(code("wirelapse analyze")).and(queue));
        }
        WaitReason::ReceiveWindow if slower => {
            return Some(
                Text::from(
                    "the peer's window was full, and round trips took longer than at rest meanwhile: either data waited on the path, which then \
                     limits, or ACKs come late, and the window does. ",
                )
                .and(code("wirelapse analyze"))
                .and(" on a capture distinguishes them. Where it is the path, a larger window only lengthens its queue."),
            );
        }
        WaitReason::Retransmission if slower => {
            return Some(
                Text::from(
                    "losses are being repaired while data waits on the path, as round trips took longer than at rest: where it is a full queue that \
                     drops packets, the path limits, and fewer losses would not make it faster. Capture a minute of it (",
                )
                .and(code("wirelapse capture"))
                .and(") and let ")
                .and(code("wirelapse analyze"))
                .and(" say which packets and why."),
            );
        }
        WaitReason::Pacing => return Some(paced(summary)),
        WaitReason::CongestionWindow => congestion_window(summary),
        WaitReason::ReceiveWindow => Text::from(
            "the peer's window is what limits: its program reads slowly, or its buffer is small for the path. \
                 Look at that program and at net.ipv4.tcp_rmem there; ",
        )
        .and(code("wirelapse study window-scaling"))
        .and(" shows what a larger one is worth."),
        WaitReason::SendBuffer => Text::from(
            "the send buffer is small for the path: raise net.ipv4.tcp_wmem, or let the program set no SO_SNDBUF, \
                 and compare the two traces with ",
        )
        .and(code("wirelapse compare"))
        .and("."),
        WaitReason::Nagle => Text::from("write each message with one call, or set TCP_NODELAY in the program; ")
            .and(code("wirelapse study small-messages"))
            .and(" shows what it is worth."),
        WaitReason::Cork => {
            "the program asks TCP to wait (TCP_CORK or MSG_MORE): it has to end that with each message.".into()
        }
        WaitReason::Autocork => {
            "TCP waits for earlier packets in the qdisc or the NIC (net.ipv4.tcp_autocorking): look at the qdisc leg, \
             and write larger pieces."
                .into()
        }
        WaitReason::SmallQueue => {
            "this host's own queue below TCP is full: look at the qdisc leg, and at net.ipv4.tcp_limit_output_bytes \
             where the rate is high."
                .into()
        }
        WaitReason::Retransmission => Text::from("losses are being repaired. Capture a minute of it (")
            .and(code("wirelapse capture"))
            .and(") and let ")
            .and(code("wirelapse analyze"))
            .and(" say which packets and why."),
        WaitReason::SentAtOnce | WaitReason::Unknown => return None,
    };
    Some(next)
}

/// By why the congestion window is small.
fn congestion_window(summary: &TraceSummary) -> Text {
    match summary.small_window() {
        Some(SmallWindow::Beginning) => {
            Text::from("the connections were young: TCP begins with ten packets, and its window grows with each round trip. Keep connections open and \
                        use them again, send less at first, or raise ")
                .and(code("initcwnd"))
                .and(" of the route (")
                .and(code("ip route change"))
                .and(").")
        }
        Some(SmallWindow::AfterIdle) => {
            "TCP had set the congestion window back to that of a new connection, as nothing was sent for a while: \
             net.ipv4.tcp_slow_start_after_idle = 0 keeps it."
                .into()
        }
        None if summary.retransmissions() == 0 => {
            Text::from("the congestion window is what limits, and it is not for losses: nothing was retransmitted. ")
                .and(code("wirelapse study congestion"))
                .and(" shows what another congestion control is worth.")
        }
        None => Text::from(format!(
            "the congestion window is what limits, and losses make it smaller: {} retransmitted. ",
            were(summary.retransmissions(), "segment")
        ))
        .and(code("wirelapse study congestion"))
        .and(" shows what another congestion control is worth."),
    }
}

/// Whether most of what sends took on the path beyond the least is that of retransmitted ones.
pub(crate) fn is_by_loss(total: &SendFigures) -> bool {
    total.late_by_retransmission().is_some_and(|(_, share)| share >= MOST)
}

fn lost(total: &SendFigures) -> Text {
    Text::from(format!(
        "packets are lost on the path: {} of {} retransmitted. ",
        quantity::count(total.retransmitted),
        were(total.sends, "send")
    ))
    .and(code("wirelapse analyze"))
    .and(" on a capture says which, and whether a queue was full before.")
}

/// Whether the congestion control of each paced connection looks for the rate of the path itself.
fn sets_their_rate(summary: &TraceSummary) -> bool {
    let is_paced = |sends: &SendFigures| {
        [sends.waits(), sends.buffer_waits()].iter().flatten().any(|(reason, _)| *reason == WaitReason::Pacing)
    };
    let connections = summary.connections();
    let mut controls =
        connections.iter().filter(|c| is_paced(&c.sends)).map(|c| c.connection.congestion_control.as_str()).peekable();
    controls.peek().is_some() && summary.others().connections == 0 && controls.all(record::congestion::sets_its_rate)
}

/// Who sets the rate of paced sends, and whether their congestion control looks for the path's
/// itself.
pub(crate) fn rate_set_by(summary: &TraceSummary) -> (RateSetBy, bool) {
    let set_by = summary.paced_rate_set_by();
    (set_by, sets_their_rate(summary))
}

/// By who sets the rate at which TCP paces.
fn paced(summary: &TraceSummary) -> Text {
    let share = |share: f64| quantity::whole(quantity::percent(share));
    let (set_by, looks_for_the_paths) = rate_set_by(summary);
    match set_by {
        RateSetBy::MaxPacingRate(rate) => Text::from(format!(
            "the rate is limited to {} a second by SO_MAX_PACING_RATE, which the program sets, or a BPF program for its cgroup.",
            quantity::whole(quantity::bytes(rate))
        )),
        RateSetBy::PeerWindow(full) => Text::from(format!(
            "TCP paces these sends at the rate that gets through, and the peer's window was full for {} of the time: its program reads slowly, or \
             its buffer is small for the path. Look at that program and at net.ipv4.tcp_rmem there; ",
            share(full)
        ))
        .and(code("wirelapse study window-scaling"))
        .and(" shows what a larger one is worth."),
        RateSetBy::SendBuffer(limited) => Text::from(format!(
            "TCP paces these sends at the rate that gets through, and the send buffer was the limit for {} of the time: raise \
             net.ipv4.tcp_wmem, or let the program set no SO_SNDBUF, and compare the two traces with ",
            share(limited)
        ))
        .and(code("wirelapse compare"))
        .and("."),
        RateSetBy::Writer(without) => Text::from(format!(
            "TCP paces these sends at the rate that the program has written at before: it had left TCP without data before {} of the paced \
             time. It has to write earlier, or more at a time.",
            share(without)
        )),
        RateSetBy::Beginning(growing) => Text::from(format!(
            "TCP paced these sends at a rate that was still growing, for {} of the paced time: its congestion control looks for the rate of the \
             path when a connection is young. Keep connections open and use them again.",
            share(growing)
        )),
        RateSetBy::Path(rate) => Text::from(format!(
            "TCP paces these sends at the rate that the path carries{}, with data that wait on it: round trips took longer than at rest. \
             No setting of this host makes it faster. ",
            rate.map_or_else(String::new, |rate| format!(" ({} a second at last)", quantity::whole(quantity::bytes(rate))))
        ))
        .and(beside(summary)),
        RateSetBy::Changing => Text::from(format!(
            "TCP paces these sends at the rate at which data arrived before, which may be less than the path carries: {} retransmitted. Whether losses or others' \
             traffic mislead the congestion control, or the path changes, what sets it cannot be seen from here. ",
            match summary.retransmissions() {
                0 => "nothing was".to_owned(),
                n => were(n, "segment"),
            }
        ))
        .and(code("wirelapse study congestion"))
        .and(" shows what another congestion control is worth."),
        RateSetBy::NotKnown if looks_for_the_paths => Text::from(
            "TCP paces these sends at the rate that gets through. Neither the peer's window nor the send buffer nor the program held it back, so it \
             is the path's. ",
        )
        .and(beside(summary)),
        RateSetBy::NotKnown => {
            Text::from("TCP paces these sends at the rate at which data arrived before. Neither the peer's window nor the send buffer nor the program \
                 held it back, and no data waited on the path: what sets it cannot be seen from here. ")
                .and(code("wirelapse study congestion"))
                .and(" shows what another congestion control is worth.")
        }
    }
}

/// What else takes part of a path's rate.
fn beside(summary: &TraceSummary) -> String {
    let losses = match summary.retransmissions() {
        0 => "Nothing was retransmitted, so no loss takes part".into(),
        n => format!("{} retransmitted, so losses take part", were(n, "segment")),
    };
    format!("{losses} of it; others' traffic cannot be seen from here.")
}

/// Where the path takes longer than at rest, or may.
pub(super) fn on_the_path() -> Text {
    Text::from("trace the other end as well (")
        .and(code("wirelapse trace --receive"))
        .and(" there), or let ")
        .and(code("wirelapse analyze"))
        .and(" read a capture: it distinguishes queues and losses on the path from a peer that answers late.")
}

/// Whether nearly all of these times are near the least of them, and so is their mean: a few that
/// took very long may have most of the time.
fn is_steady(times: &Distribution) -> Option<bool> {
    let least = times.min()?;
    let tail = [Quantile::P99, Quantile::P90].into_iter().find_map(|q| times.quantile(q)).or_else(|| times.max())?;
    let near = least.saturating_add(least / 4);
    Some(tail <= near && times.sum() <= u128::from(near) * u128::from(times.n()))
}

/// The port of the peer where every connection is with one of this host.
fn peer_here(summary: &TraceSummary) -> Option<u16> {
    let all = summary.connections();
    let port = all.first()?.connection.remote.port();
    let is_here = |local: SocketAddr, remote: SocketAddr| remote.ip().is_loopback() || remote.ip() == local.ip();
    let mut connections = all.iter().map(|of| &of.connection);
    let all_here = connections.all(|c| c.remote.port() == port && is_here(c.local, c.remote));
    (all_here && summary.others().connections == 0).then_some(port)
}

/// The same of requests, where one component took half of their time or more; nothing where most of
/// them overlap.
pub(crate) fn of_requests(summary: &TraceSummary, role: Role) -> Option<Text> {
    let (of, total) = (summary.requests().of(role), summary.total());
    let took = |c: Component| of.component(c).sum();
    let all: u128 = Component::ALL.into_iter().map(took).sum();
    let most_of_all = Component::ALL.into_iter().max_by_key(|&c| took(c))?;
    if all == 0 || of.overlapping > of.divided() || quantity::share(took(most_of_all), all) < MOST {
        return None;
    }
    let next = match (most_of_all, role) {
        (Component::PeerApplication, Role::Client) if of.bases[2] > of.divided() / 2 => Text::from(
            "the time goes by in the peer's program, which is on this host: it works, or waits for something else, such as a database. ",
        )
        .and(code("--peer"))
        .and(" traces what it asks there."),
        (Component::PeerApplication, Role::Client) if of.bases[2] == 0 && peer_here(summary).is_some() => {
            let port = peer_here(summary)?;
            Text::from("the peer's program takes the time, and it is on this host: ")
                .and(code(&format!("wirelapse trace --requests --port {port}")))
                .and(" traces both ends, and shows whether it works or waits.")
        }
        (Component::PeerApplication, Role::Client) if of.bases[1] > of.divided() / 2 => {
            Text::from(
                "the peer's program takes the time, or a queue on the path: the ACK came with the answer, so the \
                 network is taken to be the minimum RTT. ",
            )
                .and(code("wirelapse trace --requests"))
                .and(" on the peer's host distinguishes them.")
        }
        (Component::PeerApplication, Role::Client) => {
            Text::from(
                "the peer's program takes the time, or its answer comes late on the way (a queue, or a loss that the peer repairs), which cannot \
                 be seen from here: ",
            )
                .and(code("wirelapse trace --requests"))
                .and(" on its host distinguishes them.")
        }
        (Component::Application, Role::Client) => {
            "the time goes by in this program, between its first write and its last: it writes each request in \
             several calls."
                .into()
        }
        (Component::Application, Role::Server) => {
            Text::from(
                "the time goes by in this program, from reading the request to the last write of its answer: it \
                 works, or waits for something else, such as a database. ",
            )
                .and(code("--peer"))
                .and(" traces what it asks there.")
        }
        (Component::Tcp, _) => {
            let reason = most(&of.waits())?;
            let slower = total.waited_while_slower(reason) || total.buffer_full_while_slower(reason);
            return in_tcp(summary, reason, slower);
        }
        (Component::Network, _) if is_steady(of.component(Component::Network))? && total.is_at_distance() => {
            "that is the distance to the peer: fewer round trips for each request help, or a peer that is nearer, and \
             no setting."
                .into()
        }
        (Component::Network, _) => on_the_path(),
        (Component::Connect, _) => {
            "connections are set up for these requests: keep them open, and use one for the next request.".into()
        }
        (Component::Transfer, _) => {
            Text::from(
                "the time goes from the first byte of a message to its last: the peer writes in pieces, or something \
                 limits how fast they come. ",
            )
                .and(code("wirelapse analyze"))
                .and(" on a capture says which.")
        }
        (Component::Wakeup, _) => {
            "what came was readable, and this program had not read it yet: it was busy, or waited for a CPU. Look at its threads, and at how busy \
             this host is.".into()
        }
        // What was asked for requests is said of those that are joined.
        (Component::Upstream, _) => return None,
        // A server does not divide what its client does.
        (Component::PeerApplication, Role::Server) => return None,
        (Component::Kernel | Component::PeerReceive | Component::PeerSend, _) => return None,
    };
    Some(next)
}

/// What a program takes at most to be woken up where nothing is wrong, ns: longer than a tick of
/// any kernel (10 ms), it did something else.
const WOKEN_UP: u64 = 10_000_000;

/// The same of receives, where the program let half of them wait.
pub(crate) fn of_receives(summary: &TraceSummary) -> Option<Text> {
    let times = summary.times(TimedKind::Receives);
    let of = |name| times.iter().find(|(leg, _)| leg.name == name).map(|(_, times)| *times);
    // Without the moment when they were readable, what waits for bytes before it is in the same
    // leg.
    let (socket, wakeup) = (of(LegName::Socket)?, of(LegName::Wakeup)?);
    (socket.n() > 0 && wakeup.quantile(Quantile::P50)? > WOKEN_UP).then(|| {
        "what came was readable, and this program had not read it yet: it was busy, reads slowly on purpose, or waited for a CPU. Look at its \
         threads, and at how busy this host is. The peer sends on only as far as the receive buffer has room."
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{
        Arrival, Basis, Components, Connection, ConnectionId, Event, Instant, Message, Moments, Nanos, Owner, Receive,
        Request, Send, SenderState, SeqNumber, Stamps, Waits,
    };
    use summary::Limits;

    const MS: u64 = 1_000_000;

    fn followed(control: &str) -> TraceSummary {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        summary.add(&Event::Connection(Connection {
            since: Instant::from_nanos(0),
            congestion_control: control.into(),
            ..synthetic::connection(1)
        }));
        summary
    }

    /// The send at so many milliseconds, with its times in TCP and on the path, ms.
    fn send(at: u64, [tcp, network]: [u64; 2], state: SenderState) -> Send {
        let time = |ms: u64| Some(Instant::from_nanos((at + ms) * MS));
        Send {
            connection: ConnectionId(1),
            first_seq: SeqNumber(at as u32),
            bytes: 1,
            stamps: Stamps {
                sched: time(tcp),
                driver: time(tcp),
                ack: time(tcp + network),
                ..Stamps::sent_at(Instant::from_nanos(at * MS))
            },
            state,
            ..Send::blank()
        }
    }

    /// Forty sends over a path of 20 ms that waited for one reason for 100 ms in TCP, or
    /// (`blocked`) before they were written, with round trips of so many milliseconds, and the
    /// peer's window full for such a share of the time.
    fn held(reason: WaitReason, blocked: bool, round_trip: u64, control: &str, window_full: f64) -> TraceSummary {
        let mut summary = followed(control);
        for at in (1..=40).map(|i| i * 100) {
            let state = SenderState {
                srtt: Nanos(round_trip * MS),
                min_rtt: Some(Nanos(20 * MS)),
                busy: Nanos(at * MS),
                receive_window_limited: Nanos((at as f64 * window_full) as u64 * MS),
                ..SenderState::default()
            };
            let wait = Some(Waits::of(reason, Nanos(100 * MS)));
            summary.add(&Event::Send(Send {
                buffer: wait.filter(|_| blocked),
                wait: wait.filter(|_| !blocked),
                ..send(at, [if blocked { 0 } else { 100 }, 20], state)
            }));
        }
        summary
    }

    fn said(reason: WaitReason, blocked: bool, round_trip: u64, control: &str, window_full: f64) -> String {
        advice(&held(reason, blocked, round_trip, control, window_full), blocked).expect("a sentence").to_string()
    }

    #[test]
    fn a_full_buffer_or_window_is_small_only_where_nothing_waits_on_the_path() {
        for (reason, blocked, small) in [
            (WaitReason::SendBuffer, true, "the send buffer is small for the path"),
            (WaitReason::CongestionWindow, false, "the congestion window is what limits"),
            (WaitReason::CongestionWindow, true, "the congestion window is what limits"),
        ] {
            let at_rest = said(reason, blocked, 21, "cubic", 0.0);
            assert!(at_rest.contains(small), "{at_rest}");
            let on_the_path = said(reason, blocked, 96, "cubic", 0.0);
            assert!(!on_the_path.contains(small) && on_the_path.contains("data waited on the path"), "{on_the_path}");
        }
    }

    #[test]
    fn a_full_peer_s_window_or_a_repair_is_the_limit_only_where_nothing_waits_on_the_path() {
        for (reason, sure) in [
            (WaitReason::ReceiveWindow, "the peer's window is what limits"),
            (WaitReason::Retransmission, "losses are being repaired. Capture"),
        ] {
            for blocked in [true, false] {
                let at_rest = said(reason, blocked, 21, "cubic", 0.0);
                assert!(at_rest.contains(sure), "{at_rest}");
                let queued = said(reason, blocked, 96, "cubic", 0.0);
                assert!(!queued.contains(sure) && queued.contains("round trips took longer than at rest"), "{queued}");
            }
        }
    }

    #[test]
    fn few_sends_or_a_few_long_ones_are_no_distance() {
        let state = SenderState { srtt: Nanos(20 * MS), min_rtt: Some(Nanos(20 * MS)), ..SenderState::default() };
        let of = |times: &[u64]| {
            let mut summary = followed("cubic");
            (1..).zip(times).for_each(|(i, ms)| summary.add(&Event::Send(send(i * 500, [0, *ms], state))));
            advice(&summary, false).expect("a sentence").to_string()
        };
        assert!(of(&[20; 12]).starts_with("that is the distance"));
        let few = of(&[20; 2]);
        assert!(
            few.contains("or others' data that stood in a queue all the time")
                && !few.contains("that is the distance."),
            "{few}"
        );
        // Nine tenths are near the least, and one has most of the time.
        let mut long = vec![20; 30];
        long[7] = 900;
        assert!(!of(&long).starts_with("that is the distance"));
    }

    #[test]
    fn who_sets_the_rate_of_paced_sends_is_told_by_clocks_and_marks() {
        // A socket may keep the pacing of a congestion control that it had before.
        for (control, wanted) in [("cubic", "cannot be seen from here"), ("bbr", "so it is the path's")] {
            let none = said(WaitReason::Pacing, false, 21, control, 0.0);
            assert!(none.contains(wanted) && !none.contains("SO_MAX_PACING_RATE"), "{none}");
        }
        let window = said(WaitReason::Pacing, true, 21, "bbr", 0.3);
        assert!(window.contains("the peer's window was full for 30\u{a0}% of the time"), "{window}");
        let path = said(WaitReason::Pacing, true, 96, "bbr", 0.0);
        assert!(path.contains("at the rate that the path carries"), "{path}");
        assert!(path.contains("Nothing was retransmitted, so no loss takes part of it"), "{path}");
    }

    #[test]
    fn what_held_the_programs_is_what_to_change() {
        // The network leg has nearly all of the time of the sends themselves.
        let summary = held(WaitReason::ReceiveWindow, true, 21, "cubic", 1.0);
        assert!(advice(&summary, true).expect("a sentence").to_string().contains("the peer's window is what limits"));
        assert!(advice(&summary, false).expect("a sentence").to_string().contains("that is the distance"));
    }

    /// Forty sends over a path of 20 ms, which each waited for so long in TCP, ms.
    fn steady(waited: Option<(WaitReason, u64)>) -> TraceSummary {
        let mut summary = followed("cubic");
        let state = SenderState { srtt: Nanos(20 * MS), min_rtt: Some(Nanos(20 * MS)), ..SenderState::default() };
        for at in (1..=40).map(|i| i * 100) {
            let wait = waited.map(|(reason, ms)| Waits::of(reason, Nanos(ms * MS)));
            summary.add(&Event::Send(Send { wait, ..send(at, [waited.map_or(0, |w| w.1), 20], state) }));
        }
        summary
    }

    /// Twenty requests, each with these components, the network separated so.
    fn asked(summary: &mut TraceSummary, role: Role, basis: Basis, components: Components) {
        for at in (1..=20).map(|i| i * 100) {
            let time = |ms: u64| Some(Instant::from_nanos((at + ms) * MS));
            let end = time(components.sum().0 / MS);
            summary.add(&Event::Request(Box::new(Request {
                connection: ConnectionId(1),
                role,
                owner: Owner::default(),
                request: Message::default(),
                answer: Message::default(),
                moments: match role {
                    Role::Client => Moments { sent: time(0), read: end, ..Moments::default() },
                    Role::Server => Moments { arrived: time(0), left: end, ..Moments::default() },
                },
                components: Some(components),
                basis,
                overlapping: Some(false),
                http: record::Http::default(),
                upstream: None,
            })));
        }
    }

    #[test]
    fn a_wait_that_can_end_comes_before_a_distance_that_cannot() {
        let nagle = advice(&steady(Some((WaitReason::Nagle, 19))), false).expect("a sentence").to_string();
        assert!(nagle.contains("TCP_NODELAY"), "{nagle}");
        let alone = advice(&steady(None), false).expect("a sentence").to_string();
        assert!(
            alone.contains("that is the distance") && alone.contains("program takes to answer is not in it"),
            "{alone}"
        );
    }

    #[test]
    fn requests_that_wait_for_the_peers_program_are_not_the_distance() {
        let slow = Components {
            network: Some(Nanos(20 * MS)),
            peer_application: Some(Nanos(50 * MS)),
            ..Components::default()
        };
        for (basis, wanted) in
            [(Basis::OwnAck, "or its answer comes late"), (Basis::LeastRoundTrip, "or a queue on the path")]
        {
            let mut summary = steady(None);
            asked(&mut summary, Role::Client, basis, slow);
            let said = of_requests(&summary, Role::Client).expect("a sentence").to_string();
            assert!(said.contains("the peer's program takes the time") && said.contains(wanted), "{said}");
            // The sends' own legs say nothing of it.
            assert_eq!(advice(&summary, false), None);
        }
    }

    #[test]
    fn what_takes_most_of_a_request_is_what_to_change() {
        let wait = Waits::of(WaitReason::Nagle, Nanos(50 * MS));
        let of = |role, components: Components| {
            let mut summary = steady(None);
            asked(&mut summary, role, Basis::OwnAck, Components { network: Some(Nanos(20 * MS)), ..components });
            of_requests(&summary, role)
        };
        let long = Nanos(50 * MS);
        let said = [
            of(Role::Client, Components { tcp: Some(wait), ..Components::default() }),
            of(Role::Client, Components { connect: Some(long), ..Components::default() }),
            of(Role::Client, Components { wakeup: Some(long), ..Components::default() }),
            of(Role::Client, Components { transfer: long, ..Components::default() }),
            of(Role::Server, Components { application: long, ..Components::default() }),
            of(Role::Client, Components::default()),
        ];
        let wanted = [
            "TCP_NODELAY",
            "keep them open",
            "had not read it yet",
            "writes in pieces",
            "from reading the request",
            "the distance",
        ];
        for (said, wanted) in said.into_iter().zip(wanted) {
            let said = said.expect("a sentence").to_string();
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
        // No component has half.
        let equal = Components { wakeup: Some(Nanos(20 * MS)), connect: Some(Nanos(20 * MS)), ..Components::default() };
        assert_eq!(of(Role::Client, equal), None);
    }

    #[test]
    fn a_program_that_reads_late_is_named_where_data_were_readable() {
        let said = |late: u64, ready: bool| {
            let mut summary = followed("cubic");
            for at in (1..=40).map(|i| i * 100) {
                let time = |ms: u64| Some(Instant::from_nanos((at + ms) * MS));
                let stamps = Arrival {
                    driver_rx: time(0),
                    tcp_rx: time(0),
                    ready: time(1).filter(|_| ready),
                    read: time(1 + late),
                };
                summary.add(&Event::Receive(Receive {
                    connection: ConnectionId(1),
                    reader: Owner::default(),
                    thread: None,
                    first_seq: SeqNumber(at as u32),
                    bytes: 1,
                    segments: 1,
                    stamps,
                    out_of_order: false,
                    queued: 0,
                    buffer: 0,
                    buffer_used: 0,
                }));
            }
            of_receives(&summary)
        };
        assert!(said(140, true).expect("a sentence").to_string().contains("had not read it yet"));
        assert_eq!(said(5, true), None);
        assert_eq!(said(140, false), None);
    }

    #[test]
    fn acks_that_all_come_late_are_no_distance() {
        for (least, distance) in [(Some(38), true), (Some(10), false), (None, false)] {
            let mut summary = followed("cubic");
            let state = SenderState { min_rtt: least.map(|ms| Nanos(ms * MS)), ..SenderState::default() };
            (1..=400).for_each(|i| summary.add(&Event::Send(send(i * 50, [0, 40], state))));
            let said = advice(&summary, false).expect("a sentence").to_string();
            assert_eq!(said.contains("that is the distance"), distance, "{least:?}: {said}");
        }
    }
}
