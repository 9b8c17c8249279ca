//! `TCP_INFO`: what the kernel says of a connection (`struct tcp_info`, include/uapi/linux/tcp.h).

use std::os::fd::AsRawFd;

use clock::Nanos;
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

impl TcpInfo {
    /// Reads the kernel's structure, as long as the kernel made it.
    pub fn parse(bytes: &[u8]) -> Self {
        let u8_at = |i: usize| bytes.get(i).copied().unwrap_or(0);
        let u32_at = |i: usize| bytes.get(i..i + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let u64_at = |i: usize| bytes.get(i..i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let us = |i: usize| Nanos::from_micros(u32_at(i).into());
        let long_us = |i: usize| Nanos::from_micros(u64_at(i));
        let options = u8_at(5);
        let scales = u8_at(6);
        // Bit fields are laid out from the low bit on little-endian machines and from the high bit on others.
        let (snd, rcv) =
            if cfg!(target_endian = "little") { (scales & 0xf, scales >> 4) } else { (scales >> 4, scales & 0xf) };
        Self {
            timestamps: options & TIMESTAMPS != 0,
            sack: options & SACK != 0,
            window_scale: (options & WINDOW_SCALE != 0).then_some((rcv, snd)),
            snd_mss_bytes: u32_at(16),
            unacked_segments: u32_at(24),
            path_mtu_bytes: u32_at(60),
            srtt: us(68),
            rttvar: us(72),
            snd_cwnd_segments: u32_at(80),
            rcv_space_bytes: u32_at(96),
            retransmitted_segments: u32_at(100),
            pacing_rate_bytes_per_second: u64_at(104),
            acked_bytes: u64_at(120),
            received_bytes: u64_at(128),
            notsent_bytes: u32_at(144),
            min_rtt: us(148),
            delivery_rate_bytes_per_second: u64_at(160),
            busy: long_us(168),
            rwnd_limited: long_us(176),
            sndbuf_limited: long_us(184),
            snd_wnd_bytes: u32_at(228),
            rcv_wnd_bytes: u32_at(232),
        }
    }

    /// Asks the kernel; `None` where the socket is not TCP.
    pub fn of(socket: &impl AsRawFd) -> Option<Self> {
        let mut bytes = [0u8; 512];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `bytes`, and both live through the call. rustix and socket2
        // have no TCP_INFO, and what nix makes has a fixed length, where the kernel decides this one's.
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

    proptest! {
        #[test]
        fn any_length_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = TcpInfo::parse(&bytes);
        }
    }
}
