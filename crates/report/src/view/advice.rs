//! What to do about what dominated.

use record::{Leg, WaitReason};
use stats::Quantile;
use summary::SendFigures;

/// A share of the time that is worth acting on.
const MOST: f64 = 0.5;

/// One sentence on what to look at or change next, where one leg took half of the time or more and the trace says why; it names the place where that is
/// decided, and where it cannot know, the measurement that can.
pub(crate) fn advice(total: &SendFigures) -> Option<String> {
    let time = total.time();
    let (leg, took) = Leg::ADDITIVE.into_iter().map(|leg| (leg, total.leg(leg).times.sum())).max_by_key(|p| p.1)?;
    if time == 0 || quantity::share(took, time) < MOST {
        return None;
    }
    let next = match leg {
        Leg::Tcp => in_tcp(total)?,
        Leg::Qdisc => {
            "packets queue on this host, before the driver: `tc -s qdisc` shows the queue's length and drops, and `--every-packet` the \
             packets in it."
        }
        Leg::Network => on_the_path(total)?,
        Leg::Nic => "the NIC held packets: look at its queues with `ethtool -S`, and at its pause frames.",
        Leg::Call | Leg::Total => return None,
    };
    Some(format!("Next: {next}"))
}

/// By the reason that held sends for most of the time.
fn in_tcp(total: &SendFigures) -> Option<&'static str> {
    let waits = total.waits();
    let all: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let (reason, stats) = waits.first()?;
    if quantity::share(stats.time.0.into(), all) < MOST {
        return None;
    }
    Some(match reason {
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
        WaitReason::Pacing => {
            "TCP paces this connection. `ss -ti` shows at what rate; look for SO_MAX_PACING_RATE in the program, and for a congestion control \
             that paces (bbr)."
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
    })
}

/// By the shape of the network leg: near its minimum, it is the distance.
fn on_the_path(total: &SendFigures) -> Option<&'static str> {
    let times = &total.leg(Leg::Network).times;
    let least = times.min()?;
    let tail = [Quantile::P99, Quantile::P90].into_iter().find_map(|q| times.quantile(q)).or_else(|| times.max())?;
    Some(match tail <= least.saturating_add(least / 4) {
        true => {
            "the distance is what counts here, so only fewer round trips for each request help: `--requests` shows how a request spends them."
        }
        false => {
            "trace the other end as well (`wirelapse trace --receive` there), or let `wirelapse analyze` read a capture: it distinguishes queues \
             and losses on the path from a peer that answers late."
        }
    })
}
