//! TCP's own figures at the moment of a stamp (`SCM_TIMESTAMPING_OPT_STATS`).

use clock::{Instant, Monotonic, Nanos};

use crate::ParseError;
use crate::attribute::attributes;

/// The state of congestion control (`enum tcp_ca_state`, `include/uapi/linux/tcp.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CongestionState {
    /// Nothing out of the ordinary.
    Open,
    /// Duplicate ACKs or SACKs have been seen.
    Disorder,
    /// The window was reduced because of congestion marks.
    Cwr,
    /// Fast retransmit is repairing a loss.
    Recovery,
    /// A retransmission timer ran out.
    Loss,
    /// A number this library has no name for.
    Unknown(u8),
}

impl From<u8> for CongestionState {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            other => Self::Unknown(other),
        }
    }
}

macro_rules! stats {
    ($($(#[$doc:meta])* $number:literal $name:ident: $of:ty;)*) => {
        /// Every attribute of `SCM_TIMESTAMPING_OPT_STATS` (`TCP_NLA_*`,
        /// `include/uapi/linux/tcp.h`), typed. A field is `None` where the kernel did not send it:
        /// older kernels know fewer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TcpStats {
            $($(#[$doc])* pub $name: Option<$of>,)*
            /// Attributes this library has no name for: the kernel is newer than it.
            pub unknown: u32,
        }

        impl TcpStats {
            /// Reads the attributes of one control message.
            ///
            /// # Errors
            /// [`ParseError`] where an attribute is cut short or its length is not that of a
            /// number.
            pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
                let mut stats = Self::default();
                for attribute in attributes(bytes) {
                    let attribute = attribute?;
                    if attribute.kind == PAD {
                        continue;
                    }
                    let number = || attribute.number().ok_or(ParseError::Malformed {
                        what: "a TCP_NLA attribute",
                        offset: attribute.data.as_ptr() as usize - bytes.as_ptr() as usize,
                        why: "its length is not 1, 2, 4 or 8 bytes",
                    });
                    match attribute.kind {
                        $($number => stats.$name = Some(<$of>::from_number(number()?)),)*
                        _ => stats.unknown += 1,
                    }
                }
                // The kernel's numbers for "none yet" and "no pacing".
                stats.min_rtt = stats.min_rtt.filter(|rtt| *rtt != Nanos::from_micros(u32::MAX.into()));
                stats.pacing_rate = stats.pacing_rate.filter(|rate| *rate != u64::MAX);
                Ok(stats)
            }
        }
    };
}

/// `TCP_NLA_PAD`.
const PAD: u16 = 0;

/// The type of a field, made from the number of its attribute.
trait FromNumber {
    fn from_number(number: u64) -> Self;
}

/// Numbers that the kernel sends as wide as they are here.
macro_rules! numbers {
    ($($of:ty),*) => {$(
        impl FromNumber for $of {
            fn from_number(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl FromNumber for bool {
    fn from_number(number: u64) -> Self {
        number != 0
    }
}

/// Durations come in microseconds.
impl FromNumber for Nanos {
    fn from_number(number: u64) -> Self {
        Self::from_micros(number)
    }
}

impl FromNumber for Instant<Monotonic> {
    fn from_number(number: u64) -> Self {
        Self::from_nanos(number)
    }
}

impl FromNumber for CongestionState {
    fn from_number(number: u64) -> Self {
        Self::from(number as u8)
    }
}

stats! {
    /// How long there was data to send.
    1 busy: Nanos;
    /// How long the peer's window was what limited it.
    2 window_limited: Nanos;
    /// How long the send buffer was what limited it.
    3 buffer_limited: Nanos;
    /// Data segments sent, with retransmissions.
    4 data_segments_out: u64;
    /// Segments retransmitted.
    5 total_retransmissions: u64;
    /// Pacing rate in bytes a second; none without pacing.
    6 pacing_rate: u64;
    /// Delivery rate in bytes a second.
    7 delivery_rate: u64;
    /// Congestion window in segments.
    8 congestion_window: u32;
    /// Reordering metric in segments.
    9 reordering: u32;
    /// Minimum RTT seen; none before the first sample.
    10 min_rtt: Nanos;
    /// How often the first unacknowledged segment has been retransmitted.
    11 recurring_retransmissions: u8;
    /// Whether `delivery_rate` was limited by the application.
    12 delivery_rate_application_limited: bool;
    /// Bytes in the send queue.
    13 send_queue_bytes: u32;
    /// State of congestion control.
    14 congestion_state: CongestionState;
    /// Slow-start threshold in segments.
    15 slow_start_threshold: u32;
    /// Segments delivered, also out of order.
    16 delivered: u32;
    /// Of these, with a congestion mark.
    17 delivered_ce: u32;
    /// Bytes sent, with retransmissions.
    18 bytes_sent: u64;
    /// Bytes retransmitted.
    19 bytes_retransmitted: u64;
    /// DSACK blocks received: retransmissions that were not needed.
    20 dsack_duplicates: u32;
    /// Reordering events.
    21 reordering_events: u32;
    /// Smoothed round-trip time.
    22 smoothed_rtt: Nanos;
    /// New flow hashes picked after a timeout.
    23 timeout_rehashes: u16;
    /// Bytes in the write queue that were never sent.
    24 bytes_not_sent: u32;
    /// Earliest departure time of the packet.
    25 earliest_departure: Instant<Monotonic>;
    /// TTL or hop limit of the packet that brought the ACK.
    26 ttl: u8;
    /// New flow hashes picked after a timeout or by protective load balancing.
    27 rehashes: u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::put;
    use proptest::prelude::*;

    #[test]
    fn every_attribute_lands_in_its_field() {
        let mut bytes = Vec::new();
        put(&mut bytes, 0, &[]);
        put(&mut bytes, 1, &7u64.to_ne_bytes());
        put(&mut bytes, 8, &10u32.to_ne_bytes());
        put(&mut bytes, 14, &[3]);
        put(&mut bytes, 22, &250u32.to_ne_bytes());
        put(&mut bytes, 23, &2u16.to_ne_bytes());
        put(&mut bytes, 25, &99u64.to_ne_bytes());
        put(&mut bytes, 26, &[64]);
        put(&mut bytes, 40, &[1, 2, 3]);
        put(&mut bytes, 6, &u64::MAX.to_ne_bytes());
        put(&mut bytes, 10, &u32::MAX.to_ne_bytes());
        let stats = TcpStats::parse(&bytes).unwrap();
        assert_eq!(stats.busy, Some(Nanos(7_000)));
        assert_eq!(stats.congestion_window, Some(10));
        assert_eq!(stats.congestion_state, Some(CongestionState::Recovery));
        assert_eq!(stats.smoothed_rtt, Some(Nanos(250_000)));
        assert_eq!(stats.earliest_departure, Some(Instant::from_nanos(99)));
        assert_eq!((stats.timeout_rehashes, stats.ttl, stats.unknown), (Some(2), Some(64), 1));
        assert_eq!((stats.min_rtt, stats.pacing_rate), (None, None), "the numbers that stand for none");
    }

    #[test]
    fn a_number_of_three_bytes_is_malformed() {
        let mut bytes = Vec::new();
        put(&mut bytes, 1, &[1, 2, 3]);
        assert!(matches!(TcpStats::parse(&bytes), Err(ParseError::Malformed { offset: 4, .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = TcpStats::parse(&bytes);
        }
    }
}
