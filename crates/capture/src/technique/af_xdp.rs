//! AF_XDP: frames leave the driver for memory of this process, one socket for each receive queue.
//! The host's own network stack does not see them.

use std::os::fd::AsRawFd as _;
use std::time::Duration;

use clock::{Instant, Nanos, Source, Timestamp};
use libbpf_rs::{MapCore as _, MapFlags};

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::messages;
use crate::xdp::offset::Offset;
use crate::xdp::socket::{CHUNK, QueueSocket};
use crate::xdp::{Attached, Loaded, Mode, QUEUES};
use crate::{About, Counts, Error, Frame, Options, Receiver, Technique, wait};

pub(super) struct AfXdp {
    // Dropped first: no program redirects to sockets that go.
    _attached: Attached,
    sockets: Vec<QueueSocket>,
    loaded: Loaded,
    to_realtime: Offset,
    link: Link,
    options: Options,
    /// The socket that is read first the next time, so that a busy queue does not starve the
    /// others.
    first: usize,
    counts: Counts,
    about: About,
    _hardware: Option<HardwareStamps>,
}

impl AfXdp {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let queues = link.queues.min(QUEUES);
        let loaded = Loaded::new(Technique::AfXdp, link, options, "redirect", 4096)?;
        let bytes = options.buffer_bytes / queues;
        let sockets = (0..queues)
            .map(|queue| QueueSocket::open(link, queue, bytes, options.busy_poll_us))
            .collect::<Result<Vec<_>, _>>()?;
        let map = loaded.map("sockets")?;
        for socket in &sockets {
            map.update(&socket.queue.to_ne_bytes(), &socket.descriptor().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| Error::System {
                    what: "give a socket to the XDP program",
                    source: std::io::Error::other(error),
                })?;
        }
        let attached = loaded.attach()?;
        let mut remarks =
            vec!["frames that match are taken from this host: its own programs do not receive them".into()];
        if attached.mode == Mode::Generic {
            remarks.push(
                "the driver has no XDP: the program runs in the network stack (generic mode), later and slower".into(),
            );
        }
        if sockets.iter().any(|s| !s.zero_copy) {
            remarks.push("the driver copies each frame (no zero-copy mode)".into());
        }
        if link.queues > QUEUES {
            remarks.push(format!("queues from {QUEUES} on are not received: the interface has {}", link.queues));
        }
        remarks.push(format!("frames longer than {} bytes are dropped and counted", CHUNK - 256 - 64));
        Ok(Self {
            _attached: attached,
            sockets,
            loaded,
            to_realtime: Offset::measure(),
            link: link.clone(),
            options: options.clone(),
            first: 0,
            counts: Counts::default(),
            about: about(Technique::AfXdp, link, options, remarks),
            _hardware: hardware,
        })
    }

    fn read(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> usize {
        let Self { sockets, to_realtime, options, counts, first, .. } = self;
        let (most, snap) = (options.batch as usize, options.snap_length as usize);
        let mut count = 0;
        for turn in 0..sockets.len() {
            let at = (*first + turn) % sockets.len();
            let queue = sockets[at].queue;
            count += sockets[at].read(most - count, &mut |stamps, data| {
                let (software, hardware) = stamps.split_at(8);
                let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
                let hardware = word(hardware);
                let frame = Frame {
                    data: &data[..data.len().min(snap)],
                    original_length: data.len() as u32,
                    software: options.stamps.software().then(|| to_realtime.convert(word(software))),
                    hardware: (hardware != 0).then(|| Timestamp {
                        at: Instant::from_nanos(hardware),
                        source: Source::Nic,
                        error: Nanos::ZERO,
                    }),
                    vlan: None,
                    outgoing: false,
                    queue: Some(queue),
                };
                counts.received += 1;
                counts.unstamped += u64::from(!messages::stamped(&frame, options.stamps));
                each(&frame);
            });
            sockets[at].wake(options.busy_poll_us > 0);
            if count >= most {
                break;
            }
        }
        *first = (*first + 1) % sockets.len().max(1);
        count
    }
}

impl Receiver for AfXdp {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        self.to_realtime.refresh();
        let count = self.read(each);
        if count > 0 {
            return Ok(count);
        }
        let descriptors: Vec<_> = self.sockets.iter().map(QueueSocket::descriptor).collect();
        if wait::readable(&descriptors, wait)? {
            let count = self.read(each);
            if count > 0 {
                return Ok(count);
            }
        }
        // A socket stays open when its interface goes.
        if self.link.is_up() { Ok(0) } else { Err(Error::InterfaceGone(self.link.name.clone())) }
    }

    fn counts(&mut self) -> Counts {
        let in_sockets: u64 = self.sockets.iter().filter_map(QueueSocket::dropped).map(|d| d.frames).sum();
        self.counts.dropped = in_sockets + self.loaded.dropped();
        self.counts
    }

    fn about(&self) -> &About {
        &self.about
    }
}
