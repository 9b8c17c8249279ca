//! What each side of a connection did, in figures side by side: one line for each figure.

use diagnose::{Direction, Quantiles};
use record::Nanos;

use paper::document::Table;

/// A figure of a direction: its name, and its cell where there is something to show.
type Figure = (&'static str, fn(&Direction) -> Option<String>);

/// A count, where it is not zero.
fn some(n: impl Into<u64>) -> Option<String> {
    let n = n.into();
    (n > 0).then(|| quantity::count(n))
}

fn time(at: Option<Nanos>) -> Option<String> {
    at.map(|t| t.to_string())
}

/// Shown where either side has it.
const FIGURES: &[Figure] = &[
    ("packets", |d| Some(quantity::count(d.packets))),
    ("· with payload", |d| Some(quantity::count(d.payload_packets))),
    ("bytes, each counted once", |d| Some(quantity::count(d.unique_bytes))),
    ("retransmitted bytes", |d| some(d.retransmitted_bytes)),
    ("retransmitted packets", |d| some(d.retransmitted_packets)),
    ("· by timeout", |d| some(d.retransmissions.timeout)),
    ("· by fast retransmit", |d| some(d.retransmissions.fast)),
    ("· by SACK recovery", |d| some(d.retransmissions.sack_recovery)),
    ("· by tail-loss probe", |d| some(d.retransmissions.tail_loss_probe)),
    ("· by a timer: timeout or probe", |d| some(d.retransmissions.timer)),
    ("· for a reason not known from here", |d| some(d.retransmissions.unclear)),
    ("· needlessly", |d| some(d.spurious_retransmissions)),
    ("· lost before the capture", |d| some(d.lost_before_capture)),
    ("retransmitted SYNs", |d| some(d.retransmissions.syn)),
    ("out of order before the capture", |d| some(d.out_of_order_packets)),
    ("out of order beyond the capture", |d| some(d.reordered_beyond)),
    ("· overtaken by bytes, at most", |d| some(d.reorder_extent_bytes)),
    ("packets larger than the MSS (TSO, GRO)", |d| some(d.larger_than_mss)),
    ("copies made by the capture, omitted", |d| some(d.capture_copies)),
    ("bytes acknowledged but not captured", |d| some(d.unseen_bytes)),
    ("packets damaged on the way, by checksum", |d| some(d.damaged_packets)),
    ("wrong checksums for a reason not known from here", |d| some(d.wrong_checksums)),
    ("packets marked \"congestion experienced\"", |d| some(d.ce_marks)),
    ("window scale", |d| d.window_scale_in_use.map(|s| s.to_string())),
    ("window scale not known, at least", |d| {
        d.window_scale_inferred.filter(|_| d.window_scale_in_use.is_none()).map(|s| s.to_string())
    }),
    ("largest window, bytes", |d| Some(quantity::count(d.max_window))),
    ("in flight, bytes at most", |d| Some(quantity::count(d.max_in_flight.into()))),
    ("largest segment, bytes", |d| Some(quantity::count(d.segment_bytes.into()))),
    ("RTT of the handshake", |d| time(d.handshake_rtt_ns)),
    ("RTT, n", |d| some(d.rtt.samples)),
    ("· minimum", |d| time(d.rtt.min_ns)),
    ("· median", |d| time(d.rtt.median_ns)),
    ("· p99", |d| time(d.rtt.p99_ns)),
    ("· maximum", |d| time(d.rtt.max_ns)),
    ("RTT by timestamps, n", |d| some(d.rtt_timestamps.samples)),
    ("· minimum", |d| time(d.rtt_timestamps.min_ns)),
    ("· median", |d| time(d.rtt_timestamps.median_ns)),
    ("· p99", |d| time(d.rtt_timestamps.p99_ns)),
    ("· maximum", |d| time(d.rtt_timestamps.max_ns)),
    ("pure ACKs that advance", |d| some(d.acknowledging.acks)),
    ("· segments each, on average", |d| {
        let a = &d.acknowledging;
        (a.acks > 0).then(|| format!("{:.1}", a.segments as f64 / a.acks as f64))
    }),
    ("· of one segment, without delay", |d| some(d.acknowledging.at_once)),
    ("· quick-ACK phases", |d| some(d.acknowledging.quick_ack_phases)),
    ("· ACKs in the longest of these", |d| some(d.acknowledging.longest_quick_ack_phase)),
    ("duplicate ACKs", |d| some(d.duplicate_acks)),
    ("ACKs with SACK", |d| some(d.sack_acks)),
    ("delayed ACKs", |d| some(d.acknowledging.delayed.samples)),
    ("· later than the path by, minimum", |d| late(d, |q| q.min_ns)),
    ("· median", |d| late(d, |q| q.median_ns)),
    ("· p99", |d| late(d, |q| q.p99_ns)),
    ("· maximum", |d| late(d, |q| q.max_ns)),
    ("zero windows", |d| some(d.zero_window_packets)),
    ("window probes", |d| some(d.window_probes)),
    ("keep-alives", |d| some(d.keep_alives)),
    ("idle times", |d| some(d.idle_times)),
    ("· together", |d| (d.idle_times > 0).then(|| d.idle_ns.to_string())),
    ("· longest", |d| (d.idle_times > 0).then(|| d.longest_idle_ns.to_string())),
];

fn late(d: &Direction, of: fn(&Quantiles) -> Option<Nanos>) -> Option<String> {
    time(of(&d.acknowledging.delayed))
}

/// Both directions beside each other.
pub(super) fn table(to_server: &Direction, to_client: &Direction) -> Table {
    let mut table = Table::new("", ["", "client to server", "server to client"]);
    let mut row = |name: &str, cells: [Option<String>; 2]| {
        if cells.iter().any(Option::is_some) {
            let [a, b] = cells.map(|c| c.unwrap_or_else(|| "—".into()));
            table.push(vec![name.to_owned(), a, b]);
        }
    };
    for (name, figure) in FIGURES {
        row(name, [figure(to_server), figure(to_client)]);
    }
    let mut lengths: Vec<u8> = [to_server, to_client].iter().flat_map(|d| &d.header_bytes.0).map(|h| h.0).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for length in lengths {
        let of = |d: &Direction| d.header_bytes.0.iter().find(|h| h.0 == length).and_then(|h| some(h.1));
        row(&format!("headers of {length} B"), [of(to_server), of(to_client)]);
    }
    table
}
