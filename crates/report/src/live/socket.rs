//! The sockets of a row that is open: what the kernel knows of each.

use record::socket::{OwnerSource, SocketState, TcpState};
use record::{Instant, Monotonic, Nanos};
use summary::live::{Live, Placement};
use unicode_width::UnicodeWidthStr as _;

/// A socket of a row that is open.
#[derive(Clone, Debug)]
pub struct ShownSocket {
    /// The socket.
    pub live: Live,
    /// What is known of its cgroup.
    pub place: Placement,
    /// The user who made it.
    pub user: String,
    /// The processes that its owner descends from, the parent first.
    pub ancestors: Vec<(u32, String)>,
    /// The time of the latest reading.
    pub now: Instant<Monotonic>,
}

/// What is to be said of a socket in lines of this width: its ends and owner first, then its state
/// in the kernel.
pub(super) fn lines(shown: &ShownSocket, width: usize) -> Vec<String> {
    parts(shown).into_iter().flat_map(|parts| wrapped(parts, width)).collect()
}

/// The same in one line: its ends, state and owner.
pub(super) fn line(shown: &ShownSocket) -> String {
    parts(shown).into_iter().take(2).flatten().collect::<Vec<_>>().join(SEPARATOR)
}

const SEPARATOR: &str = " · ";

/// Parts that stay whole, in as many lines as it takes; all but the first are indented.
fn wrapped(parts: Vec<String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.width() + SEPARATOR.width() + part.width() <= width => {
                line.push_str(SEPARATOR);
                line.push_str(&part);
            }
            Some(_) => lines.push(format!("  {part}")),
            None => lines.push(part),
        }
    }
    lines
}

fn parts(shown: &ShownSocket) -> Vec<Vec<String>> {
    let socket = &shown.live.socket;
    let time = |time: Nanos| quantity::time_to(time.0 as f64, 2);
    let ends = match socket.remote.port() {
        0 => socket.local.to_string(),
        _ => format!("{} → {}", socket.local, socket.remote),
    };
    let state = if shown.live.closed.is_some() { "closed" } else { socket.state.name() };
    let mut first = vec![format!("{} {ends}", socket.transport.name().to_uppercase()), state.to_owned()];
    first.extend(shown.live.connecting(shown.now).map(|age| format!("for {}", time(age))));
    first.extend(shown.live.quiet(shown.now).map(|quiet| format!("last byte {} ago", time(quiet))));
    let mut second = owners(shown);
    // The user and the queues are the kernel's to say: of a run and a capture they are not known.
    let is_live = socket.network != 0;
    second.extend(is_live.then(|| format!("user {}", shown.user)));
    second.extend(shown.place.pod.as_ref().map(|pod| format!("pod {pod}")));
    second.extend(shown.place.unit.as_ref().map(|unit| format!("unit {unit}")));
    if shown.place.unit.is_none() && !shown.place.path.is_empty() {
        second.push(format!("cgroup {}", shown.place.path));
    }
    second.extend(is_live.then(|| format!("network namespace {}", socket.network)));
    let mut queues = match socket.state {
        _ if !is_live => Vec::new(),
        SocketState::Listening => vec![format!("accept queue {} of {}", socket.receive_queue, socket.send_queue)],
        _ => vec![
            format!("not yet read {}", quantity::bytes(socket.receive_queue.into())),
            format!("unacknowledged {}", quantity::bytes(socket.send_queue.into())),
        ],
    };
    if socket.drops > 0 {
        queues.push(format!("{} dropped", quantity::count(socket.drops.into())));
    }
    let buffers = [("receive", socket.buffers[0]), ("send", socket.buffers[1])].into_iter();
    let buffers = buffers.filter(|(_, bytes)| *bytes > 0);
    let buffers: Vec<String> =
        buffers.map(|(name, bytes)| format!("{name} {}", quantity::bytes(bytes.into()))).collect();
    queues.extend((!buffers.is_empty()).then(|| format!("buffers: {}", buffers.join(", "))));
    let mut lines = vec![first, second, queues];
    lines.retain(|line| !line.is_empty());
    if let Some(tcp) = socket.tcp.as_deref().filter(|_| socket.state != SocketState::Listening) {
        lines.extend(of_tcp(tcp));
    }
    lines
}

/// Who has it, how that is known, and the processes above.
fn owners(shown: &ShownSocket) -> Vec<String> {
    let socket = &shown.live.socket;
    let Some(owner) = &socket.owner else {
        let none = socket.inode == 0 && socket.network != 0;
        return vec![if none { "no process has it" } else { "owner not known" }.into()];
    };
    let above = shown.ancestors.iter().map(|(pid, name)| format!(" ← {name}[{pid}]"));
    let mut all = vec![format!("{}[{}]{}", owner.name, owner.pid, above.collect::<String>())];
    match owner.others {
        0 => {}
        1 => all.push("1 other process has it too".into()),
        n => all.push(format!("{n} other processes have it too")),
    }
    if owner.source == OwnerSource::Tracer {
        all.push("seen by the tracer".into());
    }
    all
}

fn of_tcp(tcp: &TcpState) -> [Vec<String>; 3] {
    let time = |time: Nanos| quantity::time_to(time.0 as f64, 2);
    let rate = |bytes: u64| quantity::bit_rate(bytes as f64 * 8.0);
    let [window, threshold] = tcp.window;
    let mut sending = vec![tcp.congestion_control.clone()];
    sending.retain(|name| !name.is_empty());
    sending.extend((window > 0).then(|| format!("cwnd {window}")));
    // The kernel's TCP_INFINITE_SSTHRESH: nothing was lost yet.
    sending.extend((window > 0 && threshold < 0x7fff_ffff).then(|| format!("ssthresh {threshold}")));
    sending.extend(tcp.receive_window.map(|bytes| format!("rwnd {}", quantity::bytes(bytes.into()))));
    sending.extend((tcp.segment > 0).then(|| format!("mss {}", tcp.segment)));
    // The kernel's "no limit" is all bits.
    if !matches!(tcp.rates[0], 0 | u64::MAX) {
        sending.push(format!("pacing {}", rate(tcp.rates[0])));
    }
    if tcp.rates[1] > 0 {
        sending.push(format!("delivery {}", rate(tcp.rates[1])));
    }
    let mut times = Vec::new();
    if tcp.rtt[0] > Nanos::ZERO {
        let deviation = if tcp.rtt[1] > Nanos::ZERO { format!(" ± {}", time(tcp.rtt[1])) } else { String::new() };
        times.push(format!("rtt {}{deviation}", time(tcp.rtt[0])));
    }
    times.extend(tcp.least_rtt.map(|least| format!("least {}", time(least))));
    times.extend((tcp.timeout > Nanos::ZERO).then(|| format!("rto {}", time(tcp.timeout))));
    if tcp.timeouts > 0 {
        times.push(quantity::counted(tcp.timeouts.into(), "timeout"));
    }
    let options = tcp.options();
    times.extend((!options.is_empty()).then(|| format!("options: {}", options.join(", "))));
    let mut bytes = vec![
        format!("sent {}", quantity::bytes(tcp.sent)),
        format!("received {}", quantity::bytes(tcp.received)),
        format!("retransmitted {} of {}", tcp.retransmitted, quantity::counted(tcp.segments.into(), "segment")),
    ];
    if tcp.busy > Nanos::ZERO {
        let share = |part: Nanos| quantity::percent(part.0 as f64 / tcp.busy.0 as f64);
        let limits = [("receive window", tcp.receive_window_limited), ("send buffer", tcp.send_buffer_limited)];
        bytes.push(format!("busy {}", time(tcp.busy)));
        bytes.extend(
            limits
                .into_iter()
                .filter(|(_, part)| *part > Nanos::ZERO)
                .map(|(name, part)| format!("{name} {}", share(part))),
        );
    }
    [sending, times, bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_whole() {
        let parts = ["one", "two", "three"].map(str::to_owned).to_vec();
        assert_eq!(wrapped(parts.clone(), 9), ["one · two", "  three"]);
        assert_eq!(wrapped(parts, 1), ["one", "  two", "  three"]);
        assert!(wrapped(Vec::new(), 9).is_empty());
    }
}
