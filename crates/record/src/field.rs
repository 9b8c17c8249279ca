//! The fields of a live connection, and a reading of them.

use std::fmt;
use std::net::SocketAddr;

use crate::table::NO_END;
use crate::{Nanos, columns, words};

/// What a field's values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// Bytes a second.
    BytesPerSecond,
    /// Hundredths of a whole.
    Percent,
    /// Segments of at most the MSS.
    Segments,
    /// A number of times, or a power of two.
    Count,
}

/// How values are sorted into a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps from the first bound to the last.
    Linear {
        /// The lowest bound.
        from: u64,
        /// The highest.
        to: u64,
        /// Between two bounds.
        step: u64,
    },
    /// Powers of two of a unit.
    PowersOfTwo {
        /// The unit, in the field's own.
        of: u64,
        /// Its name.
        name: &'static str,
    },
}

/// What is known of a field: its line in the table below.
struct Entry {
    name: &'static str,
    meaning: &'static str,
    absence: &'static str,
    unit: Unit,
    scale: Scale,
    settled_at_connect: bool,
    of: fn(&Reading) -> Option<u64>,
}

/// Declares the fields: each one's variant, and its [`Entry`].
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident = $name:literal, $meaning:literal, $unit:expr, $scale:expr, $of:expr,
        absent $absence:literal $(, $settled:ident at connect)?;)*) => {
        /// A field of a connection (`struct tcp_sock`, include/linux/tcp.h).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Field {
            $($(#[$doc])* $field,)*
        }

        impl Field {
            /// Every field.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$field),*];

            const fn entry(self) -> Entry {
                match self {
                    $(Self::$field => Entry {
                        name: $name,
                        meaning: $meaning,
                        absence: $absence,
                        unit: $unit,
                        scale: $scale,
                        settled_at_connect: fields!(@settled $($settled)?),
                        of: $of,
                    },)*
                }
            }
        }
    };
    (@settled settled) => { true };
    (@settled) => { false };
}

const fn linear(from: u64, to: u64, step: u64) -> Scale {
    Scale::Linear { from, to, step }
}

const fn powers_of_two(of: u64, name: &'static str) -> Scale {
    Scale::PowersOfTwo { of, name }
}

fields! {
    /// The TCP header of a segment with data, SACK blocks aside: 20 bytes, 32 with timestamps
    /// (`tcp_header_len`).
    HeaderLength = "header-length", "TCP header of a segment with data: 20 bytes, 32 with timestamps",
        Unit::Bytes, linear(20, 34, 2), |r| Some(r.header_length.into()), absent "the kernel gave none", settled at connect;
    /// The payload of a full segment (`mss_cache`).
    Mss = "mss", "payload of a full segment",
        Unit::Bytes, powers_of_two(1, "bytes"), |r| Some(r.mss.into()), absent "the kernel gave none";
    /// By what power of two the peer's announced windows are multiplied (`snd_wscale`, RFC 7323
    /// section 2); none where the two sides did not agree to.
    WindowScale = "window-scale", "shift of the windows that the peer announces",
        Unit::Count, linear(0, 14, 1), |r| r.peer_window_scale.map(u64::from),
        absent "the two sides did not agree to scale windows", settled at connect;
    /// The smoothed round-trip time (RFC 6298); none before the first reading.
    Srtt = "srtt", "smoothed round-trip time",
        Unit::Nanos, powers_of_two(1_000, "µs"), |r| r.srtt.map(|time| time.0), absent "no round trip was measured yet";
    /// The round-trip time's mean deviation, as `ss` shows it (`mdev_us`).
    Rttvar = "rttvar", "mean deviation of the round-trip time",
        Unit::Nanos, powers_of_two(1_000, "µs"), |r| r.rttvar.map(|time| time.0), absent "no round trip was measured yet";
    /// The congestion window.
    Cwnd = "cwnd", "congestion window",
        Unit::Segments, powers_of_two(1, "segments"), |r| Some(r.cwnd.into()), absent "the kernel gave none";
    /// Segments retransmitted since the connection began (`total_retrans`).
    Retransmits = "retransmits", "segments retransmitted since the connection began",
        Unit::Count, powers_of_two(1, "segments"), |r| Some(r.retransmits.into()), absent "the kernel gave none";
    /// How long an ACK is delayed for now (`icsk_ack.ato`); none before data has come.
    Ato = "ato", "how long an ACK is delayed for",
        Unit::Nanos, powers_of_two(1_000, "µs"), |r| r.ato.map(|time| time.0), absent "no data has come yet";
    /// How many ACKs will still be sent at once (`icsk_ack.quick`).
    QuickAcks = "quick-acks", "ACKs that will still be sent at once",
        Unit::Count, linear(0, 16, 1), |r| Some(r.quick_acks.into()), absent "the kernel gave none";
    /// The count of answers to requests (`icsk_ack.pingpong`): from `net.ipv4.tcp_pingpong_thresh`
    /// on ACKs wait for data to go with.
    PingPong = "ping-pong", "answers to requests that the kernel has counted",
        Unit::Count, linear(0, 8, 1), |r| Some(r.ping_pong.into()), absent "the kernel gave none";
    /// How much of the receive buffer is in use (`sk_rmem_alloc` of `sk_rcvbuf`); data can take
    /// more than the whole for a moment.
    ReceiveBufferUse = "rcvbuf-use", "receive buffer in use",
        Unit::Percent, linear(0, 100, 10),
        |r| (u64::from(r.receive_buffer_used) * 100).checked_div(r.receive_buffer.into()), absent "the kernel gave none";
    /// At what rate the connection may send (`sk_pacing_rate`); none without a limit.
    PacingRate = "pacing-rate", "rate that the connection may send at",
        Unit::BytesPerSecond, powers_of_two(125, "kbit/s"), |r| r.pacing_rate, absent "no limit is set";
}

impl Field {
    /// The word for it on the command line and in output.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it is, in a line.
    pub const fn meaning(self) -> &'static str {
        self.entry().meaning
    }

    /// Why a connection may have no value.
    pub const fn absence(self) -> &'static str {
        self.entry().absence
    }

    /// What its values count.
    pub const fn unit(self) -> Unit {
        self.entry().unit
    }

    /// The ending of a key that holds its values.
    pub const fn suffix(self) -> &'static str {
        match self.unit() {
            Unit::Bytes => "_bytes",
            Unit::Nanos => "_ns",
            Unit::BytesPerSecond => "_bytes_per_second",
            Unit::Percent => "_percent",
            Unit::Segments => "_segments",
            Unit::Count => "",
        }
    }

    /// The histogram that suits it.
    pub const fn scale(self) -> Scale {
        self.entry().scale
    }

    /// Whether it is settled when a connection is established, so that one look is enough.
    pub const fn settled_at_connect(self) -> bool {
        self.entry().settled_at_connect
    }

    /// Its value in a reading, in its [`Unit`].
    pub fn of(self, reading: &Reading) -> Option<u64> {
        (self.entry().of)(reading)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When readings are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Every so often, all that are there.
    Every,
    /// Each when it is established.
    Connect,
    /// Each when it ends.
    Close,
}

words! { Moment: Every = "interval", Connect = "connect", Close = "close"; }

/// What the readings of one histogram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingsBy {
    /// The peer's address.
    Peer,
    /// The port of the service: the lower of the two.
    Port,
    /// The program's name.
    Comm,
}

words! { ReadingsBy: Peer = "peer", Port = "port", Comm = "comm"; }

impl ReadingsBy {
    /// The histogram that a reading belongs to.
    pub fn of(self, reading: &Reading) -> String {
        match self {
            Self::Peer => reading.remote.ip().to_string(),
            // The side that listens has the port that is known; the other's is from the ephemeral
            // range, above it.
            Self::Port => reading.local.port().min(reading.remote.port()).to_string(),
            Self::Comm if reading.comm.is_empty() => "(not known)".into(),
            Self::Comm => reading.comm.clone(),
        }
    }
}

/// The fields of one connection at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The kernel's number for the socket.
    pub cookie: u64,
    /// When it was taken.
    pub moment: Moment,
    /// The socket's own address.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// The process that connected or listened; `None` where that was before the watch and the
    /// process could not be found.
    pub pid: Option<u32>,
    /// Its name; empty where it is not known.
    pub comm: String,
    /// Bytes of TCP header in a segment with data.
    pub header_length: u32,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// The shift of the windows that the peer announces; `None` without window scaling.
    pub peer_window_scale: Option<u8>,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Its mean deviation.
    pub rttvar: Option<Nanos>,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Retransmitted segments.
    pub retransmits: u32,
    /// For how long ACKs are delayed; `None` before data has come.
    pub ato: Option<Nanos>,
    /// ACKs that will still be sent at once.
    pub quick_acks: u8,
    /// The kernel's count of answers to requests.
    pub ping_pong: u8,
    /// Bytes that the receive buffer may hold.
    pub receive_buffer: u32,
    /// Bytes of memory in it.
    pub receive_buffer_used: u32,
    /// Bytes a second that may be sent; `None` without a limit.
    pub pacing_rate: Option<u64>,
}

columns! {
    Reading: "readings", "reading", blank = Reading {
        cookie: 0,
        moment: Moment::Every,
        local: NO_END,
        remote: NO_END,
        pid: None,
        comm: String::new(),
        header_length: 0,
        mss: 0,
        peer_window_scale: None,
        srtt: None,
        rttvar: None,
        cwnd: 0,
        retransmits: 0,
        ato: None,
        quick_acks: 0,
        ping_pong: 0,
        receive_buffer: 0,
        receive_buffer_used: 0,
        pacing_rate: None,
    };
    connection_id = cookie, "the kernel's socket cookie", from "sk_cookie";
    local_address = |r| r.local.ip(), "this host's IP address";
    local_port = |r| r.local.port(), "this host's port", from "skc_num";
    remote_address = |r| r.remote.ip(), "the peer's IP address";
    remote_port = |r| r.remote.port(), "the peer's port", from "skc_dport";
    pid = pid, null "it connected or listened before the watch, and could not be found",
        "process that connected or listened", from "task_struct.tgid";
    comm = comm, "its name; empty where it is not known", from "task_struct.comm";
    at = moment, "when the reading was taken";
}

/// The values of a field, sorted into rows: what a watch says at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFigures {
    /// The field.
    pub field: Field,
    /// Readings with a value.
    pub n: u64,
    /// Readings without one.
    pub absent: u64,
    /// The least value.
    pub min: Option<u64>,
    /// The median; needs two values.
    pub median: Option<u64>,
    /// The largest value.
    pub max: Option<u64>,
    /// Values below the first row.
    pub below: u64,
    /// Values above the last row.
    pub above: u64,
    /// Pairs of the least value in a row, in the field's unit, and how many fell into it; without
    /// the empty rows.
    pub rows: Vec<[u64; 2]>,
}
