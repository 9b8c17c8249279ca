//! The hot loops of UDP flows in iperf3's format.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::RecvFlags;
use socket2::Socket;

use super::plan::{Meter, Plan};
use crate::error::may_retry;
use crate::iperf3::UdpHeader;
use crate::sending::Pacer;
use crate::timing;
use stats::sequence::{Datagrams, Tracker};

/// iperf3's rate of UDP where none is given.
const DEFAULT_BITS_PER_SECOND: u64 = 1 << 20;

pub(super) fn send(
    socket: &Socket,
    plan: &Plan,
    bytes: Option<u64>,
    meter: &Meter,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0u8; plan.write_bytes.max(UdpHeader::BYTES)];
    let rate = plan.pace_bits_per_second.unwrap_or(DEFAULT_BITS_PER_SECOND);
    // A rate of 0 is iperf3's word for as fast as it goes.
    let mut pacer = (rate > 0).then(|| Pacer::new(rate).in_bursts(plan.burst));
    let end = bytes.unwrap_or(u64::MAX);
    let (mut total, mut number) = (0u64, 0u64);
    while total < end && !stop.load(Ordering::Relaxed) {
        if let Some(pacer) = &mut pacer {
            pacer.wait(total, stop);
        }
        number += 1;
        UdpHeader { sent: timing::realtime(), number }.emit(&mut buffer, plan.wide);
        match socket.send(&buffer) {
            Ok(n) => {
                total += n as u64;
                meter.bytes.store(total, Ordering::Relaxed);
                meter.datagrams.store(number, Ordering::Relaxed);
            }
            // It did not leave: the next one takes its number.
            Err(e) if may_retry(&e) || e.raw_os_error() == Some(libc::ENOBUFS) => number -= 1,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

pub(super) fn receive(socket: &Socket, plan: &Plan, meter: &Meter, stop: &AtomicBool) -> (Datagrams, io::Result<()>) {
    let mut buffer = vec![0u8; 65_536];
    let mut tracker = Tracker::default();
    let mut total = 0u64;
    // More than any socket buffer holds: a peer that goes on sending must not hold us after the
    // end.
    let mut left = 1_000_000;
    let result = loop {
        // After the end only what already arrived is taken.
        let stopping = stop.load(Ordering::Relaxed);
        if stopping {
            left -= 1;
            if left == 0 {
                break Ok(());
            }
        }
        let flags = if stopping { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let n = match rustix::net::recv(socket, &mut buffer[..], flags) {
            Ok((n, _)) => n,
            Err(errno) => {
                let error = io::Error::from(errno);
                if may_retry(&error) && !stopping {
                    continue;
                }
                // An ICMP error for a datagram of ours is no end of theirs.
                if error.raw_os_error() == Some(libc::ECONNREFUSED) && !stopping {
                    continue;
                }
                break if stopping { Ok(()) } else { Err(error) };
            }
        };
        match UdpHeader::parse(&buffer[..n], plan.wide) {
            Ok(header) => tracker.arrived(header.number, header.sent, timing::realtime()),
            // What opened the flow may come once more.
            Err(_) if n == 4 => continue,
            Err(_) => tracker.malformed(),
        }
        total += n as u64;
        meter.bytes.store(total, Ordering::Relaxed);
        let counts = tracker.counts();
        meter.datagrams.store(counts.expected, Ordering::Relaxed);
        meter.lost.store(counts.lost, Ordering::Relaxed);
    };
    let mut counts = tracker.counts();
    counts.dropped_at_socket = timestamping::socket_memory(socket).map_or(0, |m| m.drops.into());
    (counts, result)
}
