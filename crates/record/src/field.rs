//! The fields of a live connection, and a reading of them.

use std::fmt;
use std::net::SocketAddr;

use crate::Nanos;

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

/// A field of a connection (`struct tcp_sock`, include/linux/tcp.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The TCP header of a segment with data, SACK blocks aside: 20 bytes, 32 with timestamps (`tcp_header_len`).
    HeaderLength,
    /// The payload of a full segment (`mss_cache`).
    Mss,
    /// By what power of two the peer's announced windows are multiplied (`snd_wscale`, RFC 7323 section 2); none where the two
    /// sides did not agree to.
    WindowScale,
    /// The smoothed round-trip time (RFC 6298); none before the first reading.
    Srtt,
    /// The round-trip time's mean deviation, as `ss` shows it (`mdev_us`).
    Rttvar,
    /// The congestion window.
    Cwnd,
    /// Segments retransmitted since the connection began (`total_retrans`).
    Retransmits,
    /// How long an ACK is delayed for now (`icsk_ack.ato`); none before data has come.
    Ato,
    /// How many ACKs will still be sent at once (`icsk_ack.quick`).
    QuickAcks,
    /// The count of answers to requests (`icsk_ack.pingpong`): from `net.ipv4.tcp_pingpong_thresh` on ACKs wait for data to go with.
    PingPong,
    /// How much of the receive buffer is in use (`sk_rmem_alloc` of `sk_rcvbuf`); data can take more than the whole for a moment.
    ReceiveBufferUse,
    /// At what rate the connection may send (`sk_pacing_rate`); none without a limit.
    PacingRate,
}

impl Field {
    /// Every field.
    pub const ALL: [Self; 12] = [
        Self::HeaderLength,
        Self::Mss,
        Self::WindowScale,
        Self::Srtt,
        Self::Rttvar,
        Self::Cwnd,
        Self::Retransmits,
        Self::Ato,
        Self::QuickAcks,
        Self::PingPong,
        Self::ReceiveBufferUse,
        Self::PacingRate,
    ];

    /// The word for it on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeaderLength => "header-length",
            Self::Mss => "mss",
            Self::WindowScale => "window-scale",
            Self::Srtt => "srtt",
            Self::Rttvar => "rttvar",
            Self::Cwnd => "cwnd",
            Self::Retransmits => "retransmits",
            Self::Ato => "ato",
            Self::QuickAcks => "quick-acks",
            Self::PingPong => "ping-pong",
            Self::ReceiveBufferUse => "rcvbuf-use",
            Self::PacingRate => "pacing-rate",
        }
    }

    /// What it is, in a line.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::HeaderLength => "TCP header of a segment with data: 20 bytes, 32 with timestamps",
            Self::Mss => "payload of a full segment",
            Self::WindowScale => "shift of the windows that the peer announces",
            Self::Srtt => "smoothed round-trip time",
            Self::Rttvar => "mean deviation of the round-trip time",
            Self::Cwnd => "congestion window",
            Self::Retransmits => "segments retransmitted since the connection began",
            Self::Ato => "how long an ACK is delayed for",
            Self::QuickAcks => "ACKs that will still be sent at once",
            Self::PingPong => "answers to requests that the kernel has counted",
            Self::ReceiveBufferUse => "receive buffer in use",
            Self::PacingRate => "rate that the connection may send at",
        }
    }

    /// Why a connection may have no value.
    pub const fn absence(self) -> &'static str {
        match self {
            Self::WindowScale => "the two sides did not agree to scale windows",
            Self::Srtt | Self::Rttvar => "no round trip was measured yet",
            Self::Ato => "no data has come yet",
            Self::PacingRate => "no limit is set",
            _ => "the kernel gave none",
        }
    }

    /// What its values count.
    pub const fn unit(self) -> Unit {
        match self {
            Self::HeaderLength | Self::Mss => Unit::Bytes,
            Self::Srtt | Self::Rttvar | Self::Ato => Unit::Nanos,
            Self::Cwnd => Unit::Segments,
            Self::WindowScale | Self::Retransmits | Self::QuickAcks | Self::PingPong => Unit::Count,
            Self::ReceiveBufferUse => Unit::Percent,
            Self::PacingRate => Unit::BytesPerSecond,
        }
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
        match self {
            Self::HeaderLength => Scale::Linear { from: 20, to: 34, step: 2 },
            Self::WindowScale => Scale::Linear { from: 0, to: 14, step: 1 },
            Self::QuickAcks => Scale::Linear { from: 0, to: 16, step: 1 },
            Self::PingPong => Scale::Linear { from: 0, to: 8, step: 1 },
            Self::ReceiveBufferUse => Scale::Linear { from: 0, to: 100, step: 10 },
            Self::Mss => Scale::PowersOfTwo { of: 1, name: "bytes" },
            Self::Srtt | Self::Rttvar | Self::Ato => Scale::PowersOfTwo { of: 1_000, name: "µs" },
            Self::Cwnd => Scale::PowersOfTwo { of: 1, name: "segments" },
            Self::Retransmits => Scale::PowersOfTwo { of: 1, name: "segments" },
            Self::PacingRate => Scale::PowersOfTwo { of: 125, name: "kbit/s" },
        }
    }

    /// Whether it is settled when a connection is established, so that one look is enough.
    pub const fn settled_at_connect(self) -> bool {
        matches!(self, Self::HeaderLength | Self::WindowScale)
    }

    /// Its value in a reading, in its [`Unit`].
    pub fn of(self, reading: &Reading) -> Option<u64> {
        match self {
            Self::HeaderLength => Some(reading.header_length.into()),
            Self::Mss => Some(reading.mss.into()),
            Self::WindowScale => reading.peer_window_scale.map(u64::from),
            Self::Srtt => reading.srtt.map(|time| time.0),
            Self::Rttvar => reading.rttvar.map(|time| time.0),
            Self::Cwnd => Some(reading.cwnd.into()),
            Self::Retransmits => Some(reading.retransmits.into()),
            Self::Ato => reading.ato.map(|time| time.0),
            Self::QuickAcks => Some(reading.quick_acks.into()),
            Self::PingPong => Some(reading.ping_pong.into()),
            Self::ReceiveBufferUse => {
                (u64::from(reading.receive_buffer_used) * 100).checked_div(reading.receive_buffer.into())
            }
            Self::PacingRate => reading.pacing_rate,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When connections are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Every so often, all that are there.
    Every,
    /// Each when it is established.
    Connect,
    /// Each when it ends.
    Close,
}

/// The fields of one connection at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The kernel's number for the socket.
    pub cookie: u64,
    /// When it was looked at.
    pub moment: Moment,
    /// The socket's own address.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// The process that connected or listened; `None` where that was before the watch and the process could not be found.
    pub pid: Option<u32>,
    /// Its name; empty where it is not known.
    pub comm: String,
    /// Bytes of TCP header in a segment with data.
    pub header_length: u32,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// The shift of the windows that the peer announces; `None` without window scaling.
    pub peer_window_scale: Option<u8>,
    /// The shift of the windows announced here.
    pub own_window_scale: Option<u8>,
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
    /// Pairs of the least value in a row, in the field's unit, and how many fell into it; without the empty rows.
    pub rows: Vec<[u64; 2]>,
}
