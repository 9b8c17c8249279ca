//! TCP's own figures that come with a stamp.

use timestamping::{CongestionState, TcpStats};

use crate::result::{Failure, run, wlts_result};

/// One of TCP's figures, where the kernel sent it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_figure {
    /// Whether it did: older kernels know fewer.
    pub known: bool,
    /// The figure.
    pub value: u64,
}

/// The figure that a field of the library is.
trait ToFigure {
    fn figure(self) -> u64;
}

macro_rules! whole {
    ($($of:ty),*) => {$(
        impl ToFigure for $of {
            fn figure(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

whole!(u8, u16, u32, u64, bool);

impl ToFigure for timestamping::Nanos {
    fn figure(self) -> u64 {
        self.0
    }
}

impl ToFigure for timestamping::Instant<timestamping::Monotonic> {
    fn figure(self) -> u64 {
        self.as_nanos()
    }
}

/// `enum tcp_ca_state` of <linux/tcp.h>.
impl ToFigure for CongestionState {
    fn figure(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::Disorder => 1,
            Self::Cwr => 2,
            Self::Recovery => 3,
            Self::Loss => 4,
            Self::Unknown(number) => number.into(),
        }
    }
}

impl<T: ToFigure> From<Option<T>> for wlts_figure {
    fn from(field: Option<T>) -> Self {
        Self { known: field.is_some(), value: field.map_or(0, ToFigure::figure) }
    }
}

/// TCP's own figures at the moment of a stamp (`TCP_NLA_*` of <linux/tcp.h>).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct wlts_stats {
    /// How long there was data to send, ns.
    pub busy_ns: wlts_figure,
    /// How long the peer's window was what limited it, ns.
    pub window_limited_ns: wlts_figure,
    /// How long the send buffer was what limited it, ns.
    pub buffer_limited_ns: wlts_figure,
    /// Data segments sent, with retransmissions.
    pub data_segments_out: wlts_figure,
    /// Segments retransmitted.
    pub total_retransmissions: wlts_figure,
    /// Pacing rate, bytes a second.
    pub pacing_rate: wlts_figure,
    /// Delivery rate, bytes a second.
    pub delivery_rate: wlts_figure,
    /// Congestion window, segments.
    pub congestion_window: wlts_figure,
    /// Reordering metric, segments.
    pub reordering: wlts_figure,
    /// Minimum RTT seen, ns.
    pub min_rtt_ns: wlts_figure,
    /// How often the first unacknowledged segment has been retransmitted.
    pub recurring_retransmissions: wlts_figure,
    /// Whether `delivery_rate` was limited by the application, 0 or 1.
    pub delivery_rate_application_limited: wlts_figure,
    /// Bytes in the send queue.
    pub send_queue_bytes: wlts_figure,
    /// State of congestion control (`enum tcp_ca_state`).
    pub congestion_state: wlts_figure,
    /// Slow-start threshold, segments.
    pub slow_start_threshold: wlts_figure,
    /// Segments delivered, also out of order.
    pub delivered: wlts_figure,
    /// Of these, with a congestion mark.
    pub delivered_ce: wlts_figure,
    /// Bytes sent, with retransmissions.
    pub bytes_sent: wlts_figure,
    /// Bytes retransmitted.
    pub bytes_retransmitted: wlts_figure,
    /// DSACK blocks received: retransmissions that were not needed.
    pub dsack_duplicates: wlts_figure,
    /// Reordering events.
    pub reordering_events: wlts_figure,
    /// Smoothed round-trip time, ns.
    pub smoothed_rtt_ns: wlts_figure,
    /// New flow hashes picked after a timeout.
    pub timeout_rehashes: wlts_figure,
    /// Bytes in the write queue that were never sent.
    pub bytes_not_sent: wlts_figure,
    /// Earliest departure time of the packet, ns on CLOCK_MONOTONIC.
    pub earliest_departure_ns: wlts_figure,
    /// TTL or hop limit of the packet that brought the ACK.
    pub ttl: wlts_figure,
    /// New flow hashes picked after a timeout or by protective load balancing.
    pub rehashes: wlts_figure,
    /// Figures that have no name here: the kernel is newer.
    pub unknown: u32,
}

impl From<TcpStats> for wlts_stats {
    fn from(stats: TcpStats) -> Self {
        // Without `..`, so that a new field of the library is an error here.
        let TcpStats {
            busy,
            window_limited,
            buffer_limited,
            data_segments_out,
            total_retransmissions,
            pacing_rate,
            delivery_rate,
            congestion_window,
            reordering,
            min_rtt,
            recurring_retransmissions,
            delivery_rate_application_limited,
            send_queue_bytes,
            congestion_state,
            slow_start_threshold,
            delivered,
            delivered_ce,
            bytes_sent,
            bytes_retransmitted,
            dsack_duplicates,
            reordering_events,
            smoothed_rtt,
            timeout_rehashes,
            bytes_not_sent,
            earliest_departure,
            ttl,
            rehashes,
            unknown,
        } = stats;
        Self {
            busy_ns: busy.into(),
            window_limited_ns: window_limited.into(),
            buffer_limited_ns: buffer_limited.into(),
            data_segments_out: data_segments_out.into(),
            total_retransmissions: total_retransmissions.into(),
            pacing_rate: pacing_rate.into(),
            delivery_rate: delivery_rate.into(),
            congestion_window: congestion_window.into(),
            reordering: reordering.into(),
            min_rtt_ns: min_rtt.into(),
            recurring_retransmissions: recurring_retransmissions.into(),
            delivery_rate_application_limited: delivery_rate_application_limited.into(),
            send_queue_bytes: send_queue_bytes.into(),
            congestion_state: congestion_state.into(),
            slow_start_threshold: slow_start_threshold.into(),
            delivered: delivered.into(),
            delivered_ce: delivered_ce.into(),
            bytes_sent: bytes_sent.into(),
            bytes_retransmitted: bytes_retransmitted.into(),
            dsack_duplicates: dsack_duplicates.into(),
            reordering_events: reordering_events.into(),
            smoothed_rtt_ns: smoothed_rtt.into(),
            timeout_rehashes: timeout_rehashes.into(),
            bytes_not_sent: bytes_not_sent.into(),
            earliest_departure_ns: earliest_departure.into(),
            ttl: ttl.into(),
            rehashes: rehashes.into(),
            unknown,
        }
    }
}

/// Reads the figures that came with a stamp: `stats` and `stats_length` of its report.
///
/// # Safety
/// `bytes` is null or points to `length` bytes, `stats` is null or points to room for the figures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wlts_stats_read(bytes: *const u8, length: usize, stats: *mut wlts_stats) -> wlts_result {
    run(|| {
        // SAFETY: the caller's part.
        let stats = unsafe { stats.as_mut() }.filter(|_| !bytes.is_null());
        let stats = stats.ok_or(Failure::Argument("wlts_stats_read: a null pointer"))?;
        // SAFETY: the caller's part.
        *stats = TcpStats::parse(unsafe { std::slice::from_raw_parts(bytes, length) })?.into();
        Ok(())
    })
}
