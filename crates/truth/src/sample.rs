//! What the kernel says of a socket at one moment (`TCP_INFO` and `TCP_CC_INFO`,
//! include/uapi/linux/tcp.h and inet_diag.h).

use std::os::fd::AsRawFd;

use linux_raw_sys::net::tcp_info;

/// The figures that decide what limits a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// `TCP_ESTABLISHED` and so on.
    pub state: u8,
    /// `TCP_CA_Open` and so on.
    pub recovery: u8,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Of these: reported by SACK.
    pub sacked: u32,
    /// Of these: taken for lost.
    pub lost: u32,
    /// Retransmitted, and not yet acknowledged.
    pub retransmitted_out: u32,
    /// Congestion window, segments.
    pub window: u32,
    /// Slow start ends there, segments.
    pub threshold: u32,
    /// Segment size, bytes.
    pub segment: u32,
    /// Bytes written and not sent.
    pub unsent: u32,
    /// Bytes sent, retransmissions included.
    pub sent: u64,
    /// Of these: retransmissions.
    pub retransmitted: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Segments that arrived, by ACK or SACK.
    pub delivered: u32,
    /// Retransmissions so far.
    pub retransmissions: u32,
    /// Smoothed round trip, µs.
    pub round_trip_us: u32,
    /// How long it was limited by the receiver's window so far, µs.
    pub receive_window_us: u64,
    /// How long it was limited by its send buffer so far, µs.
    pub send_buffer_us: u64,
    /// What the receiver offers, bytes.
    pub receive_window: u32,
    /// BBR is in its first phase (`BBR_STARTUP`).
    pub startup: bool,
}

/// net/ipv4/tcp_bbr.c: `bbr_high_gain`, 2/ln 2 in units of 1/256. Only the first phase paces so
/// fast.
const BBR_HIGH_GAIN: u32 = 739;

impl Sample {
    /// Asks the kernel; `None` where it does not answer.
    pub(crate) fn of(socket: &impl AsRawFd, bbr: bool) -> Option<Self> {
        // SAFETY: numbers alone, for which zero is a value.
        let mut info: tcp_info = unsafe { std::mem::zeroed() };
        ask(socket, libc::TCP_INFO, &mut info)?;
        // struct tcp_bbr_info: bandwidth in two parts, minimum RTT, two gains.
        let mut cc = [0u32; 5];
        // No gain is set before the first ACK (bbr_init(), net/ipv4/tcp_bbr.c).
        let startup = bbr && ask(socket, libc::TCP_CC_INFO, &mut cc).is_some() && matches!(cc[3], 0 | BBR_HIGH_GAIN);
        Some(Self {
            state: info.tcpi_state,
            recovery: info.tcpi_ca_state,
            unacked: info.tcpi_unacked,
            sacked: info.tcpi_sacked,
            lost: info.tcpi_lost,
            retransmitted_out: info.tcpi_retrans,
            window: info.tcpi_snd_cwnd,
            threshold: info.tcpi_snd_ssthresh,
            segment: info.tcpi_snd_mss,
            unsent: info.tcpi_notsent_bytes,
            sent: info.tcpi_bytes_sent,
            retransmitted: info.tcpi_bytes_retrans,
            acked: info.tcpi_bytes_acked,
            delivered: info.tcpi_delivered,
            retransmissions: info.tcpi_total_retrans,
            round_trip_us: info.tcpi_rtt,
            receive_window_us: info.tcpi_rwnd_limited,
            send_buffer_us: info.tcpi_sndbuf_limited,
            receive_window: info.tcpi_snd_wnd,
            startup,
        })
    }

    /// Bytes in flight. The kernel counts a retransmission that it could not hand over as well, so
    /// there may seem to be none.
    pub(crate) fn in_flight(&self) -> u64 {
        let bytes = (self.sent - self.retransmitted.min(self.sent)).saturating_sub(self.acked);
        if self.unacked == 0 { 0 } else { bytes.max(self.unacked.into()) }
    }

    /// Whether it has data that are not acknowledged.
    pub(crate) fn is_busy(&self) -> bool {
        self.unacked > 0 || self.unsent > 0
    }

    /// What the kernel compares with the congestion window (`tcp_packets_in_flight`).
    pub(crate) fn packets_in_flight(&self) -> u32 {
        (self.unacked + self.retransmitted_out).saturating_sub(self.sacked + self.lost)
    }
}

/// One option of TCP. `None` where the kernel refuses.
fn ask<T>(socket: &impl AsRawFd, option: i32, value: &mut T) -> Option<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let to = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `length` bytes into the value, which is of numbers alone
    // and lives through the call.
    let rc = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, to, &raw mut length) };
    (rc == 0).then_some(())
}
