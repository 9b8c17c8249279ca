//! Capturing on an interface through libpcap.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use diagnose::Follower;
use timestamping::Ready;
use wire::{Frame, LinkType, Packet, Reassembly};

use super::Reading;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::privileges;

/// Headers with all their options, tunnels included, fit in this; payload is not looked at.
const SNAP_LENGTH: i32 = 256;

/// Waits for a packet, a signal, or the end of the time, and looks up every 100 ms at the latest: the ring hands on a
/// block that is not full only when its own timeout is over.
fn wait(capture: &pcap::Capture<pcap::Active>, left: Option<Duration>) {
    const MOST: Duration = Duration::from_millis(100);
    let time = left.map_or(MOST, |left| left.clamp(Duration::from_millis(1), MOST));
    // An error or a signal only ends the wait early.
    timestamping::wait(capture, Ready { readable: true, ..Ready::default() }, time).ok();
}

/// Captures until Ctrl-C or until `limit` is over. Once the interface is open, this process keeps no right but to write these files.
pub fn capture<'a>(
    interface: &str,
    limit: Option<Duration>,
    follower: &mut Follower,
    files: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<Reading> {
    let opened = pcap::Capture::from_device(interface).and_then(|c| {
        c.snaplen(SNAP_LENGTH).promisc(false).timeout(100).buffer_size(16 << 20).precision(pcap::Precision::Nano).open()
    });
    // libpcap waits for the first packet even with a timeout, so it must not be the one that waits.
    let opened = opened.and_then(pcap::Capture::setnonblock);
    let mut capture = match opened {
        Ok(capture) => capture,
        Err(e @ (pcap::Error::PcapError(_) | pcap::Error::InvalidString)) => {
            return Err(BadInput(format!("cannot capture on {interface}: {e} (it takes root or CAP_NET_RAW, and an interface that `ip link` shows)")).into());
        }
        Err(e) => return Err(e).context(format!("cannot capture on {interface}")),
    };
    let link_type = u16::try_from(capture.get_datalink().0).map_or(LinkType(u16::MAX), LinkType);
    let interrupt = Interrupt::listen()?;
    privileges::keep_for_capture(false, files)?;
    let started = Instant::now();
    let mut reading = Reading::live(interface);
    let mut reassembly = Reassembly::new();
    while !interrupt.came() && limit.is_none_or(|l| started.elapsed() < l) {
        let packet = match capture.next_packet() {
            Ok(packet) => packet,
            Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => {
                wait(&capture, limit.map(|l| l.saturating_sub(started.elapsed())));
                continue;
            }
            Err(_) if interrupt.came() => break,
            Err(e) => return Err(e).context(format!("cannot read packets from {interface}")),
        };
        reading.packets += 1;
        // With nanosecond precision libpcap puts nanoseconds where the name says microseconds.
        let nanos = (packet.header.ts.tv_sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(packet.header.ts.tv_usec as u64);
        let mut frame = Frame::new(reading.packets, record::Instant::from_nanos(nanos), link_type, packet.data);
        frame.original_length = packet.header.len;
        match wire::dissect(&frame, &mut reassembly) {
            Ok(Packet::Tcp(segment)) => follower.take(&segment),
            Ok(_) => reading.not_tcp(None),
            Err(why) => reading.not_tcp(Some(why)),
        }
    }
    let counted = capture.stats().context("cannot read the capture's counters")?;
    reading.dropped(u64::from(counted.dropped) + u64::from(counted.if_dropped));
    Ok(reading)
}
