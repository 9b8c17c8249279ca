//! What a file says to people.

use record::{Again, CopyInterface, CopyStages, Instant, KnownBy, Monotonic, PacketCopy, WaitReason};
use wire::capture::context::{CarriedSend, Context};
use wire::packet::Icmp;

/// The name of an interface, with its network namespace where that is another than the tracer's.
pub(super) fn interface(of: &CopyInterface) -> String {
    let name = match of.name.as_str() {
        "" => format!("interface {}", of.number),
        name => name.to_owned(),
    };
    match &of.network_name {
        _ if of.own => name,
        Some(network) => format!("{name}@{network}"),
        None => format!("{name}@netns:{}", of.network),
    }
}

/// A packet in one line: `curl[1234] (connected) | send 3, 512 bytes: tcp 40.1 ms (Nagle's
/// algorithm), qdisc 3.10 µs, network 20.2 ms`.
pub(super) fn comment(of: &Context, copy: &PacketCopy, arrived: &CopyStages) -> String {
    let mut parts = vec![owner(&copy.owner.comm.to_string(), copy.owner.pid, copy.known_by)];
    if let Some(unit) = &of.place.unit {
        parts.push(format!("unit {unit}"));
    }
    if let Some(container) = &of.place.container {
        // As container runtimes show it.
        parts.push(format!("container {}", container.get(..12).unwrap_or(container)));
    }
    if let Some(icmp) = copy.icmp.and_then(|of| Some((u8::try_from(of.kind).ok()?, u8::try_from(of.code).ok()?))) {
        parts.push(format!("ICMP error ({})", Icmp::meaning(copy.remote.is_ipv6(), icmp.0, icmp.1)));
    }
    if let Some(again) = of.again {
        parts.push(format!("retransmission ({})", reason(again)));
    }
    if let Some((_, reason)) = &of.dropped {
        parts.push(format!("dropped ({reason})"));
    }
    if let Some(send) = &of.send {
        parts.push(sent(send, if copy.is_tcp() { "tcp" } else { "udp" }));
    }
    if let Some(arrival) = arrival(arrived) {
        parts.push(arrival);
    }
    if let Some((segments, each)) = of.segments {
        parts.push(format!("{segments} segments of up to {each} bytes"));
    }
    if let Some(receiver) = &of.receiver {
        let who = owner(&receiver.owner.comm.to_string(), receiver.owner.pid, receiver.known_by);
        parts.push(format!("to {who}"));
    }
    parts.join(" | ")
}

fn owner(name: &str, pid: u32, known_by: KnownBy) -> String {
    match known_by {
        KnownBy::Unknown => "process unknown".to_owned(),
        by => format!("{name}[{pid}] ({})", by.name()),
    }
}

fn reason(again: Again) -> &'static str {
    match again {
        Again::Probe => "tail loss probe",
        Again::Recovery => "fast recovery",
        Again::Loss => "retransmission timeout",
    }
}

/// `arrival: softirq 3.10 µs, socket 800 ns, wakeup 20.1 µs`, of a packet that was received: the
/// legs whose stages are known.
fn arrival(stages: &CopyStages) -> Option<String> {
    let leg = |name: &str, from: Option<Instant<Monotonic>>, to: Option<Instant<Monotonic>>| {
        let took = to?.since(from?).ok()?;
        Some(format!("{name} {}", quantity::time_to(took.0 as f64, 3)))
    };
    let legs = [
        leg("nic", stages.nic_rx, stages.driver_rx.or(stages.tcp_rx)),
        leg("softirq", stages.driver_rx, stages.tcp_rx),
        leg("socket", stages.tcp_rx, stages.ready),
        leg("wakeup", stages.ready.or(stages.tcp_rx), stages.read),
    ];
    let legs: Vec<String> = legs.into_iter().flatten().collect();
    (!legs.is_empty()).then(|| format!("arrival: {}", legs.join(", ")))
}

/// The first leg is that in TCP or in UDP.
fn sent(send: &CarriedSend, first: &str) -> String {
    let [at, sched, driver, _, ack] = send.stages;
    let leg = |name: &str, from: u64, to: u64| {
        let known = from != 0 && to != 0;
        let ns = to.checked_sub(from).filter(|_| known)?;
        Some(format!("{name} {}", quantity::time_to(ns as f64, 3)))
    };
    let waited = match send.wait {
        Some((reason, _)) if reason != WaitReason::SentAtOnce => format!(" ({reason})"),
        _ => String::new(),
    };
    let legs =
        [leg(first, at, sched).map(|leg| leg + &waited), leg("qdisc", sched, driver), leg("network", driver, ack)];
    let legs: Vec<String> = legs.into_iter().flatten().collect();
    let more = match send.sends {
        0 | 1 => String::new(),
        sends => format!(" and {} more", sends - 1),
    };
    let what = format!("send {}{more}, {}", send.number, quantity::counted(send.bytes.into(), "byte"));
    if legs.is_empty() { what } else { format!("{what}: {}", legs.join(", ")) }
}
