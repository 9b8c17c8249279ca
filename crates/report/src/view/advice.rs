//! What to do about what dominated.

use record::{Leg, WaitReason};
use stats::Quantile;
use summary::{SendFigures, TraceSummary, WaitStats};

/// A share of the time that is worth acting on.
const MOST: f64 = 0.5;

/// The share of the time with the peer's window full that is more than a connection's beginning.
const WINDOW_FULL: f64 = 0.05;

/// One sentence on what to look at or change next, where one leg took half of the time or more and the trace says why; it names the place where that is
/// decided, and where it cannot know, the measurement that can. Where programs waited for room in the send buffer for most of the trace, it is on that.
pub(crate) fn advice(summary: &TraceSummary, blocked: bool) -> Option<String> {
    let total = summary.total();
    if blocked && let Some(reason) = most(&total.buffer_waits()) {
        let slower = total.buffer_full_while_slower(reason);
        return in_tcp(summary, reason, slower).map(|next| format!("Next: {next}"));
    }
    let time = total.time();
    let (leg, took) = Leg::ADDITIVE.into_iter().map(|leg| (leg, total.leg(leg).times.sum())).max_by_key(|p| p.1)?;
    if time == 0 || quantity::share(took, time) < MOST {
        return None;
    }
    let next = match leg {
        Leg::Tcp => {
            let reason = most(&total.waits())?;
            in_tcp(summary, reason, total.waited_while_slower(reason))?
        }
        Leg::Qdisc => "packets queue on this host, before the driver: `tc -s qdisc` shows the queue's length and drops, and `--every-packet` \
                       the packets in it."
            .to_owned(),
        Leg::Network => on_the_path(total)?.to_owned(),
        Leg::Nic => {
            "the NIC held packets: look at its queues with `ethtool -S`, and at its pause frames.".to_owned()
        }
        Leg::Call | Leg::Total => return None,
    };
    Some(format!("Next: {next}"))
}

/// The reason that most of the time goes to.
fn most(waits: &[(WaitReason, WaitStats)]) -> Option<WaitReason> {
    let all: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let (reason, stats) = waits.first()?;
    (all > 0 && quantity::share(stats.time.0.into(), all) >= MOST).then_some(*reason)
}

/// By the reason that held sends for most of the time, and whether round trips took longer than at rest meanwhile.
fn in_tcp(summary: &TraceSummary, reason: WaitReason, slower: bool) -> Option<String> {
    let next = match reason {
        WaitReason::CongestionWindow | WaitReason::SendBuffer if slower => {
            let (full, larger) = match reason {
                WaitReason::SendBuffer => ("send buffer", "larger buffer"),
                _ => ("congestion window", "larger window"),
            };
            return Some(format!(
                "while the {full} was full, round trips took longer than at rest: data waited on the path, which then limits, or ACKs came \
                 late. `wirelapse analyze` on a capture distinguishes them. Where it is the path, a {larger} only lengthens its queue."
            ));
        }
        WaitReason::Pacing => return Some(paced(summary)),
        WaitReason::CongestionWindow => {
            "the congestion window is what limits. `wirelapse analyze` on a capture says whether losses keep it small, and `wirelapse study \
             congestion` what another congestion control is worth."
        }
        WaitReason::ReceiveWindow => {
            "the peer's window is what limits: its program reads slowly, or its buffer is small for the path. Look at that program and at \
             net.ipv4.tcp_rmem there; `wirelapse study window-scaling` shows what a larger one is worth."
        }
        WaitReason::SendBuffer => {
            "the send buffer is small for the path: raise net.ipv4.tcp_wmem, or let the program set no SO_SNDBUF, and compare the two traces \
             with `wirelapse compare`."
        }
        WaitReason::Nagle => {
            "write each message with one call, or set TCP_NODELAY in the program; `wirelapse study small-messages` shows what it is worth."
        }
        WaitReason::Cork => {
            "the program asks TCP to wait (TCP_CORK or MSG_MORE): it has to end that with each message."
        }
        WaitReason::Autocork => {
            "TCP waits for earlier packets in the qdisc or the NIC (net.ipv4.tcp_autocorking): look at the qdisc leg, and write larger pieces."
        }
        WaitReason::SmallQueue => {
            "this host's own queue below TCP is full: look at the qdisc leg, and at net.ipv4.tcp_limit_output_bytes where the rate is high."
        }
        WaitReason::Retransmission => {
            "losses are being repaired. Capture a minute of it (`wirelapse capture`) and let `wirelapse analyze` say which packets and why."
        }
        WaitReason::SentAtOnce | WaitReason::Unknown => return None,
    };
    Some(next.to_owned())
}

/// By who paces. A congestion control that does so sends at the rate at which the peer got data, whatever sets that.
fn paced(summary: &TraceSummary) -> String {
    let connections = summary.connections();
    let is_paced = |sends: &SendFigures| {
        [sends.waits(), sends.buffer_waits()].iter().flatten().any(|(reason, _)| *reason == WaitReason::Pacing)
    };
    let controls: Vec<&str> =
        connections.iter().filter(|c| is_paced(&c.sends)).map(|c| c.connection.congestion_control.as_str()).collect();
    let is_known = !controls.is_empty() && summary.others().connections == 0;
    if is_known && controls.iter().all(|c| !c.is_empty() && !c.starts_with("bbr")) {
        return "the rate is limited by SO_MAX_PACING_RATE, which the program sets, or a BPF program for its cgroup: `ss -ti` shows it behind \
                the slash of pacing_rate."
            .to_owned();
    }
    let window = match summary.window_full() {
        Some(share) if share >= WINDOW_FULL => {
            format!(
                ", or the peer's window, which was full for {} of the time",
                quantity::whole(quantity::percent(share))
            )
        }
        _ => ", or a peer that reads slowly".to_owned(),
    };
    format!(
        "TCP paces these sends. Where `ss -ti` shows no limit of the program's (SO_MAX_PACING_RATE, behind the slash of pacing_rate), bbr \
         paces at the rate at which the peer gets data: the path sets it{window}. `wirelapse analyze` on a capture distinguishes them."
    )
}

/// By the shape of the network leg: near its minimum, it is the distance, if that is what the minimum RTT takes.
fn on_the_path(total: &SendFigures) -> Option<&'static str> {
    let times = &total.leg(Leg::Network).times;
    let least = times.min()?;
    let tail = [Quantile::P99, Quantile::P90].into_iter().find_map(|q| times.quantile(q)).or_else(|| times.max())?;
    Some(match tail <= least.saturating_add(least / 4) && total.is_at_distance() {
        true => {
            "the distance is what counts here, so only fewer round trips for each request help: `--requests` shows how a request spends them."
        }
        false => {
            "trace the other end as well (`wirelapse trace --receive` there), or let `wirelapse analyze` read a capture: it distinguishes queues \
             and losses on the path from a peer that answers late."
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{
        Connection, ConnectionId, Event, Instant, Merged, Nanos, Opening, Owner, Send, SenderState, SeqNumber, Stamps,
        Wait,
    };
    use summary::Limits;

    const MS: u64 = 1_000_000;

    fn followed(control: &str) -> TraceSummary {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        summary.add(&Event::Connection(Connection {
            id: ConnectionId(1),
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:80".parse().unwrap(),
            owner: Owner::default(),
            opening: Opening::Connected,
            since: Instant::from_nanos(0),
            congestion_control: control.into(),
        }));
        summary
    }

    /// The send at so many milliseconds, with its times in TCP and on the path, ms.
    fn send(at: u64, [tcp, network]: [u64; 2], state: SenderState) -> Send {
        let time = |ms: u64| Some(Instant::from_nanos((at + ms) * MS));
        Send {
            connection: ConnectionId(1),
            owner: Owner::default(),
            first_seq: SeqNumber(at as u32),
            bytes: 1,
            stamps: Stamps {
                sched: time(tcp),
                driver: time(tcp),
                ack: time(tcp + network),
                ..Stamps::sent_at(Instant::from_nanos(at * MS))
            },
            merged: Merged::default(),
            state,
            buffer: None,
            wait: None,
            retransmissions: 0,
        }
    }

    /// Forty sends over a path of 20 ms that waited for one reason for 100 ms in TCP, or (`blocked`) before they were written, with round trips
    /// of so many milliseconds, and the peer's window full for such a share of the time.
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
            let wait = Some(Wait { reason, by_reason: Nanos(100 * MS) });
            summary.add(&Event::Send(Send {
                buffer: wait.filter(|_| blocked),
                wait: wait.filter(|_| !blocked),
                ..send(at, [if blocked { 0 } else { 100 }, 20], state)
            }));
        }
        summary
    }

    fn said(reason: WaitReason, blocked: bool, round_trip: u64, control: &str, window_full: f64) -> String {
        advice(&held(reason, blocked, round_trip, control, window_full), blocked).expect("a sentence")
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
    fn who_paces_is_named_only_where_nothing_else_can() {
        let program = said(WaitReason::Pacing, false, 21, "cubic", 0.0);
        assert!(program.contains("limited by SO_MAX_PACING_RATE"), "{program}");
        let bbr = said(WaitReason::Pacing, true, 21, "bbr", 0.0);
        assert!(bbr.contains("the path sets it, or a peer that reads slowly"), "{bbr}");
        let window = said(WaitReason::Pacing, true, 21, "bbr", 0.3);
        assert!(window.contains("the peer's window, which was full for 30\u{a0}% of the time"), "{window}");
    }

    #[test]
    fn what_held_the_programs_is_what_to_change() {
        // The network leg has nearly all of the time of the sends themselves.
        let summary = held(WaitReason::ReceiveWindow, true, 21, "cubic", 1.0);
        assert!(advice(&summary, true).expect("a sentence").contains("the peer's window is what limits"));
        assert!(advice(&summary, false).expect("a sentence").contains("the distance is what counts"));
    }

    #[test]
    fn acks_that_all_come_late_are_no_distance() {
        for (least, distance) in [(Some(38), true), (Some(10), false), (None, false)] {
            let mut summary = followed("cubic");
            let state = SenderState { min_rtt: least.map(|ms| Nanos(ms * MS)), ..SenderState::default() };
            (1..=400).for_each(|i| summary.add(&Event::Send(send(i * 50, [0, 40], state))));
            let said = advice(&summary, false).expect("a sentence");
            assert_eq!(said.contains("the distance is what counts"), distance, "{least:?}: {said}");
        }
    }
}
