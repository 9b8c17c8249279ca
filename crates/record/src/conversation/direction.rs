//! The figures of one direction, each described in one line: its type, what it means, and its name
//! on pages.

use serde::Serialize;

use super::Side;
use crate::table::{Cell, Kind, Row, Shown, Value};
use crate::{Nanos, columns, inside, json};

/// Declares records of figures: the struct, its field table, and that it can be a field of another
/// record.
macro_rules! figures {
    ($($(#[$meta:meta])* $record:ident: $table:literal {
        $($name:ident: $type:ty, $(null $null:literal,)? $doc:literal $(, shown $shown:literal)? $(, under $under:literal)?;)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $record {
            $(#[doc = $doc] pub $name: $type,)*
        }

        columns! {
            $record: $table, "", blank = Self::default();
            $($name = $name, $(null $null,)? $doc $(, shown $shown)? $(, under $under)?;)*
        }
        inside!($record);
    )*};
}

figures! {
    /// A distribution of durations in five figures.
    #[derive(Copy, Serialize)]
    Quantiles: "quantiles" {
        samples: u64, "how many values", shown "n";
        min_ns: Option<Nanos>, null "there is none", "the smallest", under "minimum";
        median_ns: Option<Nanos>, null "there is none", "the median", under "median";
        p99_ns: Option<Nanos>, null "there is none", "the 99th percentile", under "p99";
        max_ns: Option<Nanos>, null "there is none", "the largest", under "maximum";
    }

    /// Retransmissions by what brought them about.
    #[derive(Copy)]
    Retransmissions: "retransmissions" {
        timeout: u32, "the timer", under "by timeout";
        fast: u32, "duplicate ACKs or SACK", under "by fast retransmit";
        sack_recovery: u32, "further holes in the same recovery", under "by SACK recovery";
        tail_loss_probe: u32, "tail-loss probes", under "by tail-loss probe";
        timer: u32, "a timer of which it is not known whether it was the retransmission timer or a probe's", under "by a timer: timeout or probe";
        syn: u32, "SYNs; not among `retransmitted_packets`", under "SYNs, not among these";
        unclear: u32, "not known from this capture", under "for a reason not known from here";
    }

    /// How this side acknowledges what it receives.
    #[derive(Copy)]
    Acknowledging: "acknowledging" {
        acks: u64, "pure ACKs that moved the window on", shown "pure ACKs that advance";
        segments: u64, "segments that they acknowledged", under "segments acknowledged";
        delayed: Quantiles, "delayed ACKs: how much later than the path's own delay they came", shown "delayed ACKs, later than the path";
        at_once: u64, "ACKs of a single segment that came at once", shown "ACKs of one segment, without delay";
        quick_ack_phases: u32, "runs of four or more such ACKs", under "quick-ACK phases";
        longest_quick_ack_phase: u32, "the longest run", under "ACKs in the longest of these";
    }

    /// One handshake option.
    #[derive(Copy)]
    OptionState: "option state" {
        client: Option<bool>, null "its SYN is not in the capture or was cut short", "the client offered it";
        server: Option<bool>, null "its SYN-ACK is not in the capture or was cut short", "the server did";
        in_use: Option<bool>, null "the handshake does not show", "it is in use";
        left_out_by: Option<Side>, null "it is in use, or the handshake does not show", "the side that left it out where it is not in use. A server may answer only what it was asked, so where the client left it out, that is the one. A box on the way may have taken it out instead";
    }

    /// One direction of a connection; the sender's side of it.
    Direction: "direction" {
        packets: u64, "packets, copies made by the capture not among them", shown "packets";
        payload_packets: u64, "packets with payload", under "with payload";
        unique_bytes: u64, "payload bytes that were seen for the first time", shown "bytes, each counted once";
        retransmitted_bytes: u64, "payload bytes that were seen before. Both together are all payload", shown "retransmitted bytes";
        retransmitted_packets: u64, "packets that brought data (or a FIN) again, whether or not the capture saw the original", shown "retransmitted packets";
        spurious_retransmissions: u32, "of them, those that were not needed by DSACK or Eifel", under "needlessly";
        retransmissions: Retransmissions, "retransmissions by class";
        lost_before_capture: u32, "retransmissions of segments that were lost before it reached the capture", under "lost before the capture";
        out_of_order_packets: u32, "packets that changed places before the capture", shown "out of order before the capture";
        reordered_beyond: u32, "cases where packets changed places beyond the capture, by duplicate ACKs or SACK without a retransmission", shown "out of order beyond the capture";
        reorder_extent_bytes: u64, "how many bytes a packet was overtaken by at most", under "overtaken by bytes, at most";
        pure_acks: u64, "ACKs without payload", shown "ACKs without payload";
        duplicate_acks: u64, "duplicate ACKs that this side sent (RFC 5681, section 2)", under "duplicate ACKs";
        sack_acks: u64, "ACKs with SACK blocks that this side sent", under "ACKs with SACK";
        zero_window_packets: u64, "packets that advertise a window of zero", shown "zero windows";
        keep_alives: u32, "keep-alives", shown "keep-alives";
        window_probes: u32, "probes of the peer's closed window", shown "window probes";
        larger_than_mss: u64, "packets larger than the MSS: offload left them whole", shown "packets larger than the MSS (TSO, GRO)";
        capture_copies: u64, "copies of packets that the capture made itself", shown "copies made by the capture, omitted";
        unseen_bytes: u64, "bytes that the peer acknowledged and the capture does not hold", shown "bytes acknowledged but not captured";
        mss: Option<u16>, null "no SYN of this side announces one", "the MSS that this side announced";
        segment_bytes: u32, "the largest payload of one segment that was sent", shown "largest segment, bytes";
        segment_limit: Option<u32>, null "the handshake does not show", "the payload that the handshake lets a segment of this direction carry, timestamps taken off";
        window_scale: Option<u8>, null "it offered none", "the window scale that this side offered";
        window_scale_in_use: Option<u8>, null "the handshake does not show", "the scale applied to its windows: 0 without scaling", shown "window scale";
        window_scale_inferred: Option<u8>, null "the handshake shows it", "the least scale that fits what the peer had in flight, where the handshake does not show", shown "window scale not known, at least";
        sack_permitted: bool, "this side announced SACK";
        timestamps: bool, "this side announced timestamps";
        mptcp: bool, "this side's SYN has an MPTCP option";
        fast_open: Option<u8>, null "its SYN has no such option", "Fast Open on its SYN: the cookie's length, 0 for a request";
        ce_marks: u32, "packets marked \"congestion experienced\" on their way to the capture", shown "packets marked \"congestion experienced\"";
        damaged_packets: u32, "packets with a wrong TCP checksum where checksums are right otherwise: damaged on the way, and not delivered. Their data are among neither the unique nor the retransmitted bytes", shown "packets damaged on the way, by checksum";
        wrong_checksums: u32, "packets with a wrong TCP checksum of which it cannot be said whether they were damaged: too many are wrong, a packet is larger than any with a right one, or what was in one arrived all the same", shown "wrong checksums for a reason not known from here";
        checksum_offload: bool, "its checksums wait for the network card (offload) in some packets, so nothing is known from these";
        header_bytes: HeaderBytes, "TCP header lengths: how many packets have each";
        max_window: u64, "the largest window that this side advertised, in bytes", shown "largest window, bytes";
        max_in_flight: u32, "the most that this side had in flight by its own view, in bytes", shown "in flight, bytes at most";
        rtt: Quantiles, "from its data passing the capture to the ACK passing it (Karn's rule)", shown "RTT";
        rtt_timestamps: Quantiles, "the same from timestamp echoes, for connections with 16 samples or more", shown "RTT by timestamps";
        handshake_rtt_ns: Option<Nanos>, null "the handshake does not show", "from its SYN (or SYN-ACK) to the answer", shown "RTT of the handshake";
        acknowledging: Acknowledging, "how it acknowledges the other direction's data";
        idle_times: u32, "pauses longer than the retransmission timeout with nothing outstanding", shown "idle times";
        idle_ns: Nanos, "their sum", under "together";
        longest_idle_ns: Nanos, "the longest", under "longest";
        window_full_packets: u64, "how often the sender had filled the receiver's window";
        rounds: u32, "rounds of one RTT with data in them, as the sender went through them";
        ecn_echoes: u32, "ACKs of this side that echo a congestion mark (ECE), and packets on which it says that it reduced its window (CWR)";
        window_reductions: u32, "the latter";
        rtt_to_sender: Quantiles, "from the capture to this direction's sender and back, by its timestamp echoes: with the queue in between. It has no samples where the sender is beside the capture";
    }
}

/// TCP header lengths: bytes and how many packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderBytes(pub Vec<(u8, u32)>);

/// An object with the lengths as keys.
impl Cell for HeaderBytes {
    const KIND: Kind = Kind::Json;
    const INSIDE: Option<&'static str> = Some("header_bytes");
    fn value(&self) -> Value<'_> {
        let object = self.0.iter().map(|(length, n)| (length.to_string(), (*n).into()));
        Value::Json(std::borrow::Cow::Owned(serde_json::Value::Object(object.collect())))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        const NOT: &str = "is no object of counts by length";
        let Value::Json(json) = value else { return Err(NOT) };
        let object = json.as_object().ok_or(NOT)?.iter();
        let read =
            |(length, n): (&String, &serde_json::Value)| Some((length.parse().ok()?, u32::try_from(n.as_u64()?).ok()?));
        object.map(|pair| read(pair).ok_or(NOT)).collect::<Result<Vec<_>, _>>().map(Self)
    }
    fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (i, (length, n)) in self.0.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
            json::number(out, (*length).into());
            out.extend_from_slice(b"\":");
            json::number(out, (*n).into());
        }
        out.push(b'}');
    }
    fn rows(&self, path: &str, _within: Option<Shown>, rows: &mut Vec<Row>) {
        // A row for each length that there can be (RFC 9293, section 3.1), so that the rows of two
        // directions match.
        rows.extend((20u8..=60).step_by(4).map(|length| Row {
            path: format!("{path}.{length}"),
            label: format!("headers of {length} B").into(),
            under: false,
            kind: Kind::Number,
            value: self.0.iter().find(|of| of.0 == length).map_or(Value::Null, |of| Value::Number(of.1.into())),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::rows;

    #[test]
    fn pages_show_figures_with_those_inside_them() {
        let direction = Direction {
            packets: 3,
            retransmissions: Retransmissions { fast: 2, ..Retransmissions::default() },
            header_bytes: HeaderBytes(vec![(20, 1), (32, 2)]),
            rtt: Quantiles { samples: 1, min_ns: Some(Nanos(0)), ..Quantiles::default() },
            window_scale_in_use: Some(0),
            ..Direction::default()
        };
        let shown = rows(&direction);
        let found: Vec<(&str, &str, bool, &Value<'_>)> =
            shown.iter().filter(|r| r.value != Value::Null).map(|r| (&*r.path, &*r.label, r.under, &r.value)).collect();
        assert_eq!(
            found,
            [
                ("packets", "packets", false, &Value::Number(3)),
                ("retransmissions.fast", "by fast retransmit", true, &Value::Number(2)),
                ("window_scale_in_use", "window scale", false, &Value::Number(0)),
                ("header_bytes.20", "headers of 20 B", false, &Value::Number(1)),
                ("header_bytes.32", "headers of 32 B", false, &Value::Number(2)),
                ("rtt.samples", "RTT, n", false, &Value::Number(1)),
                ("rtt.min_ns", "minimum", true, &Value::Number(0)),
            ]
        );
    }

    #[test]
    fn a_direction_reads_back_from_its_json() {
        let direction = Direction {
            mss: Some(1_460),
            sack_permitted: true,
            header_bytes: HeaderBytes(vec![(20, 1), (32, 2)]),
            rtt: Quantiles { samples: 7, median_ns: Some(Nanos(5)), ..Quantiles::default() },
            ..Direction::default()
        };
        let mut out = Vec::new();
        direction.write_json(&mut out);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&json["header_bytes"]["32"], &json["rtt"]["median_ns"]), (&2.into(), &5.into()));
        assert_eq!(Direction::from_value(Value::Json(std::borrow::Cow::Owned(json))), Ok(direction));
    }
}
