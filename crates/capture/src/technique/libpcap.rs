//! libpcap, as tcpdump and dumpcap use it.

use std::os::fd::AsFd as _;
use std::time::Duration;

use clock::{Instant, Nanos, Source, Timestamp};
use pcap::{Active, Capture, Direction as PcapDirection, Precision, TimestampType};
use wire::LinkType;

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::{PacketSocket, messages};
use crate::{About, Counts, Direction, Error, Frame, Options, Receiver, Technique, wait};

pub(super) struct Libpcap {
    handle: Capture<Active>,
    link: Link,
    options: Options,
    counts: Counts,
    about: About,
    _hardware: Option<HardwareStamps>,
}

impl Libpcap {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        // libpcap says in words what a socket of ours says by a number: that a right is missing.
        drop(PacketSocket::open(
            Technique::Libpcap,
            link,
            &Options { filter: None, promiscuous: false, ..options.clone() },
        )?);
        let failed = |error: pcap::Error| refused(link, error);
        let clock = if options.stamps.hardware() { TimestampType::AdapterUnsynced } else { TimestampType::Host };
        let handle = Capture::from_device(link.name.as_str())
            .map_err(failed)?
            .promisc(options.promiscuous)
            .snaplen(options.snap_length as i32)
            .buffer_size(options.buffer_bytes.min(i32::MAX as u32) as i32)
            .timeout(options.hold_ms.try_into().unwrap_or(i32::MAX))
            .tstamp_type(clock)
            .precision(Precision::Nano)
            .open()
            .map_err(failed)?;
        let mut handle = handle.setnonblock().map_err(failed)?;
        if options.direction == Direction::In {
            handle.direction(PcapDirection::In).map_err(failed)?;
        }
        if let Some(filter) = &options.filter {
            handle
                .filter(filter, true)
                .map_err(|error| Error::Filter { expression: filter.clone(), reason: words(&error) })?;
        }
        let remarks = vec![format!("a frame that comes alone waits up to {} ms for its block", 2 * options.hold_ms)];
        let mut about = about(Technique::Libpcap, link, options, remarks);
        about.link_type = LinkType(handle.get_datalink().0 as u16);
        Ok(Self {
            handle,
            link: link.clone(),
            options: options.clone(),
            counts: Counts::default(),
            about,
            _hardware: hardware,
        })
    }

    /// Frames that are there, at most a batch.
    fn read(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        while count < self.options.batch as usize {
            let packet = match self.handle.next_packet() {
                Ok(packet) => packet,
                Err(pcap::Error::TimeoutExpired | pcap::Error::NoMorePackets) => break,
                // libpcap gives words and no number: the interface itself says whether it went.
                Err(_) if !self.link.is_up() => return Err(Error::InterfaceGone(self.link.name.clone())),
                Err(error) => {
                    let source = std::io::Error::other(words(&error));
                    return Err(Error::System { what: "receive frames by libpcap", source });
                }
            };
            let nanos =
                packet.header.ts.tv_sec.cast_unsigned() * 1_000_000_000 + packet.header.ts.tv_usec.cast_unsigned();
            let hardware = self.options.stamps.hardware();
            let frame = Frame {
                data: packet.data,
                original_length: packet.header.len,
                software: (!hardware).then(|| Timestamp {
                    at: Instant::from_nanos(nanos),
                    source: Source::Kernel,
                    error: Nanos::ZERO,
                }),
                hardware: hardware.then(|| Timestamp {
                    at: Instant::from_nanos(nanos),
                    source: Source::Nic,
                    error: Nanos::ZERO,
                }),
                // libpcap puts tags back into the frame itself.
                vlan: None,
                outgoing: false,
                queue: None,
            };
            self.counts.received += 1;
            self.counts.unstamped += u64::from(!messages::stamped(&frame, self.options.stamps));
            each(&frame);
            count += 1;
        }
        Ok(count)
    }
}

fn refused(link: &Link, error: pcap::Error) -> Error {
    let reason = words(&error);
    Error::Technique { technique: Technique::Libpcap, interface: link.name.clone(), reason }
}

/// libpcap's reason, without its wrapper's words.
fn words(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(reason) => reason.clone(),
        other => other.to_string(),
    }
}

impl Receiver for Libpcap {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        let mut count = self.read(each)?;
        if count == 0 && wait::readable(&[self.handle.as_fd()], wait)? {
            count = self.read(each)?;
        }
        // libpcap goes on where an interface goes down, and says nothing.
        if count == 0 && !self.link.is_up() {
            return Err(Error::InterfaceGone(self.link.name.clone()));
        }
        Ok(count)
    }

    fn counts(&mut self) -> Counts {
        if let Ok(statistics) = self.handle.stats() {
            self.counts.dropped = statistics.dropped.into();
            self.counts.dropped_by_interface = statistics.if_dropped.into();
        }
        self.counts
    }

    fn about(&self) -> &About {
        &self.about
    }
}
