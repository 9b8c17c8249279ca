//! XDP: a program in the driver stamps each frame and copies its first bytes into a ring buffer;
//! the frame goes on.

use std::time::Duration;

use clock::{Instant, Nanos, Source, Timestamp};

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::messages;
use crate::xdp::offset::Offset;
use crate::xdp::samples::{Sample, Samples};
use crate::xdp::{Attached, Loaded, Mode};
use crate::{About, Counts, Error, Frame, Options, Receiver, Technique, wait};

/// The most bytes that a sample keeps: the largest room of `xdp.bpf.c`.
const MOST: u32 = 2048;

pub(super) struct Xdp {
    // Dropped first: no program writes into a map that goes.
    _attached: Attached,
    samples: Samples,
    loaded: Loaded,
    to_realtime: Offset,
    link: Link,
    options: Options,
    counts: Counts,
    about: About,
    _hardware: Option<HardwareStamps>,
}

impl Xdp {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let mut options = options.clone();
        let mut remarks = Vec::new();
        if options.snap_length > MOST {
            options.snap_length = MOST;
            remarks.push(format!("it keeps at most {MOST} bytes of a frame"));
        }
        let bytes = options.buffer_bytes.next_power_of_two().clamp(1 << 16, 1 << 30);
        let loaded = Loaded::new(Technique::Xdp, link, &options, "sample", bytes)?;
        let samples = Samples::new(loaded.map("samples")?, bytes).map_err(Error::system("map a ring buffer"))?;
        let attached = loaded.attach()?;
        if attached.mode == Mode::Generic {
            remarks.push(
                "the driver has no XDP: the program runs in the network stack (generic mode), later and slower".into(),
            );
        }
        Ok(Self {
            _attached: attached,
            samples,
            loaded,
            to_realtime: Offset::measure(),
            link: link.clone(),
            about: about(Technique::Xdp, link, &options, remarks),
            options,
            counts: Counts::default(),
            _hardware: hardware,
        })
    }

    fn read(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> usize {
        let Self { samples, to_realtime, options, counts, .. } = self;
        samples.read(options.batch as usize, |record| {
            let Some(sample) = Sample::read(record) else { return };
            let frame = Frame {
                data: sample.data,
                original_length: sample.length,
                software: options.stamps.software().then(|| to_realtime.convert(sample.software)),
                hardware: (sample.hardware != 0).then(|| Timestamp {
                    at: Instant::from_nanos(sample.hardware),
                    source: Source::Nic,
                    error: Nanos::ZERO,
                }),
                vlan: None,
                outgoing: false,
                queue: Some(sample.queue),
            };
            counts.received += 1;
            counts.unstamped += u64::from(!messages::stamped(&frame, options.stamps));
            each(&frame);
        })
    }
}

impl Receiver for Xdp {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        self.to_realtime.refresh();
        let count = self.read(each);
        if count > 0 {
            return Ok(count);
        }
        if wait::readable(&[self.samples.descriptor()], wait)? {
            return Ok(self.read(each));
        }
        // A ring buffer does not say that its interface went.
        if self.link.is_up() { Ok(0) } else { Err(Error::InterfaceGone(self.link.name.clone())) }
    }

    fn counts(&mut self) -> Counts {
        self.counts.dropped = self.loaded.dropped();
        self.counts
    }

    fn about(&self) -> &About {
        &self.about
    }
}
