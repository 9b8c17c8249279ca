//! `TCP_INFO`: what the kernel says of a connection (`struct tcp_info`, include/uapi/linux/tcp.h).

use std::mem::offset_of;
use std::os::fd::AsRawFd;

use clock::Nanos;
use linux_raw_sys::net::tcp_info as Kernel;
use serde::{Deserialize, Serialize};

/// The fields that the workloads report. A kernel that is older than a field gives 0 for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Whether both ends agreed on TCP timestamps.
    pub timestamps: bool,
    /// Whether both ends agreed on SACK.
    pub sack: bool,
    /// Window scale of this end's and the peer's window field, where both ends agreed on scaling.
    pub window_scale: Option<(u8, u8)>,
    /// Largest segment sent, in bytes.
    pub snd_mss_bytes: u32,
    /// Congestion window in segments.
    pub snd_cwnd_segments: u32,
    /// Smoothed round-trip time.
    #[serde(rename = "srtt_ns")]
    pub srtt: Nanos,
    /// Its mean deviation.
    #[serde(rename = "rttvar_ns")]
    pub rttvar: Nanos,
    /// Lowest round-trip time of the last minutes.
    #[serde(rename = "min_rtt_ns")]
    pub min_rtt: Nanos,
    /// Segments retransmitted since the connection began.
    pub retransmitted_segments: u32,
    /// The window that the peer offers, in bytes (Linux 5.4).
    pub snd_wnd_bytes: u32,
    /// The window that this end offers, in bytes (Linux 6.2).
    pub rcv_wnd_bytes: u32,
    /// What the receive buffer is tuned to, in bytes.
    pub rcv_space_bytes: u32,
    /// Path MTU in bytes.
    pub path_mtu_bytes: u32,
    /// Bytes written and not sent yet.
    pub notsent_bytes: u32,
    /// Segments in flight.
    pub unacked_segments: u32,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: u64,
    /// Bytes received in order.
    pub received_bytes: u64,
    /// Delivery rate as the kernel estimates it, in bytes a second.
    pub delivery_rate_bytes_per_second: u64,
    /// Pacing rate in bytes a second; `u64::MAX` where nothing paces.
    pub pacing_rate_bytes_per_second: u64,
    /// Time with data in flight.
    #[serde(rename = "busy_ns")]
    pub busy: Nanos,
    /// Of it, limited by the peer's window.
    #[serde(rename = "rwnd_limited_ns")]
    pub rwnd_limited: Nanos,
    /// Of it, limited by the send buffer.
    #[serde(rename = "sndbuf_limited_ns")]
    pub sndbuf_limited: Nanos,
}

const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALE: u8 = 4;

/// A number of the kernel's structure, of the width that it has there; 0 where the bytes end before
/// it.
trait Number: Sized {
    fn at(bytes: &[u8], offset: usize) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Number for $number {
            fn at(bytes: &[u8], offset: usize) -> Self {
                let bytes = bytes.get(offset..).and_then(<[u8]>::first_chunk);
                bytes.map_or(0, |bytes| Self::from_ne_bytes(*bytes))
            }
        }
    )* };
}

numbers!(u8 u32 u64);

/// What the closure would read of the structure: the type that it gives says how wide the number
/// is.
fn number<T: Number>(bytes: &[u8], offset: usize, _of: fn(&Kernel) -> T) -> T {
    T::at(bytes, offset)
}

impl TcpInfo {
    /// Reads the kernel's structure, as long as the kernel made it.
    pub fn parse(bytes: &[u8]) -> Self {
        macro_rules! at {
            ($field:ident) => {
                number(bytes, offset_of!(Kernel, $field), |kernel| kernel.$field)
            };
        }
        let us = |us: u32| Nanos::from_micros(us.into());
        let options = at!(tcpi_options);
        let scales = u8::at(bytes, offset_of!(Kernel, _bitfield_1));
        // Bit fields are laid out from the low bit on little-endian machines and from the high bit
        // on others.
        let (snd, rcv) =
            if cfg!(target_endian = "little") { (scales & 0xf, scales >> 4) } else { (scales >> 4, scales & 0xf) };
        Self {
            timestamps: options & TIMESTAMPS != 0,
            sack: options & SACK != 0,
            window_scale: (options & WINDOW_SCALE != 0).then_some((rcv, snd)),
            snd_mss_bytes: at!(tcpi_snd_mss),
            unacked_segments: at!(tcpi_unacked),
            path_mtu_bytes: at!(tcpi_pmtu),
            srtt: us(at!(tcpi_rtt)),
            rttvar: us(at!(tcpi_rttvar)),
            snd_cwnd_segments: at!(tcpi_snd_cwnd),
            rcv_space_bytes: at!(tcpi_rcv_space),
            retransmitted_segments: at!(tcpi_total_retrans),
            pacing_rate_bytes_per_second: at!(tcpi_pacing_rate),
            acked_bytes: at!(tcpi_bytes_acked),
            received_bytes: at!(tcpi_bytes_received),
            notsent_bytes: at!(tcpi_notsent_bytes),
            min_rtt: us(at!(tcpi_min_rtt)),
            delivery_rate_bytes_per_second: at!(tcpi_delivery_rate),
            busy: Nanos::from_micros(at!(tcpi_busy_time)),
            rwnd_limited: Nanos::from_micros(at!(tcpi_rwnd_limited)),
            sndbuf_limited: Nanos::from_micros(at!(tcpi_sndbuf_limited)),
            snd_wnd_bytes: at!(tcpi_snd_wnd),
            rcv_wnd_bytes: at!(tcpi_rcv_wnd),
        }
    }

    /// Asks the kernel; `None` where the socket is not TCP.
    pub fn of(socket: &impl AsRawFd) -> Option<Self> {
        let mut bytes = [0u8; 512];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `bytes`, and both live through the
        // call. rustix and socket2 have no TCP_INFO, and what nix makes has a fixed length, where
        // the kernel decides this one's.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        (rc == 0).then(|| Self::parse(&bytes[..(length as usize).min(bytes.len())]))
    }

    /// Congestion window in bytes.
    pub fn snd_cwnd_bytes(&self) -> u64 {
        u64::from(self.snd_cwnd_segments) * u64::from(self.snd_mss_bytes)
    }
}

/// The congestion control of a socket, as the kernel names it.
pub fn congestion_control(socket: &impl std::os::fd::AsFd) -> Option<String> {
    let name = socket2::SockRef::from(socket).tcp_congestion().ok()?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    #[test]
    fn a_live_connection_is_described() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        a.write_all(&[0; 1234]).unwrap();
        let mut read = [0; 1234];
        std::io::Read::read_exact(&mut &b, &mut read).unwrap();
        let (info, other) = (TcpInfo::of(&a).unwrap(), TcpInfo::of(&b).unwrap());
        assert!(info.snd_mss_bytes > 500 && info.snd_cwnd_segments >= 2, "{info:?}");
        assert_eq!(other.received_bytes, 1234);
        assert_eq!(info.retransmitted_segments, 0);
        // Each end's own scale is what the other end sees as the peer's.
        assert_eq!(info.window_scale.map(|s| (s.1, s.0)), other.window_scale);
        assert!(congestion_control(&a).is_some_and(|name| !name.is_empty()));
    }

    #[test]
    fn each_figure_is_read_from_its_own_field() {
        // At each place the place itself: no two fields are equal.
        let mut bytes: Vec<u8> = (0..60u32).flat_map(|word| (word * 4).to_ne_bytes()).collect();
        (bytes[5], bytes[6]) = (TIMESTAMPS | WINDOW_SCALE, 0xa3);
        let long = |at: u64| if cfg!(target_endian = "little") { at | (at + 4) << 32 } else { at << 32 | (at + 4) };
        let (us, long_us) = (Nanos::from_micros, |at| Nanos::from_micros(long(at)));
        let expected = TcpInfo {
            timestamps: true,
            sack: false,
            window_scale: Some(if cfg!(target_endian = "little") { (0xa, 3) } else { (3, 0xa) }),
            snd_mss_bytes: 16,
            unacked_segments: 24,
            path_mtu_bytes: 60,
            srtt: us(68),
            rttvar: us(72),
            snd_cwnd_segments: 80,
            rcv_space_bytes: 96,
            retransmitted_segments: 100,
            pacing_rate_bytes_per_second: long(104),
            acked_bytes: long(120),
            received_bytes: long(128),
            notsent_bytes: 144,
            min_rtt: us(148),
            delivery_rate_bytes_per_second: long(160),
            busy: long_us(168),
            rwnd_limited: long_us(176),
            sndbuf_limited: long_us(184),
            snd_wnd_bytes: 228,
            rcv_wnd_bytes: 232,
        };
        assert_eq!(TcpInfo::parse(&bytes), expected);
        let older = TcpInfo { rcv_wnd_bytes: 0, ..expected };
        assert_eq!(TcpInfo::parse(&bytes[..235]), older);
    }

    proptest! {
        #[test]
        fn any_length_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = TcpInfo::parse(&bytes);
        }
    }
}
