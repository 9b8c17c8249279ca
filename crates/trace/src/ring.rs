//! The ring buffer of a trace, and the probes that write their records to it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use record::{Event, Instant, Lost, Monotonic, Nanos};

use crate::Error;
use crate::decode::{self, DecodeError};
use crate::object;
use crate::probe::Loaded;
use crate::programs::Programs;
use crate::sends::Sends;

/// Records taken from the ring buffer at once, before their events are handed on.
const BATCH: usize = 4096;

/// The probes of a trace, and what they have said that is not handed on yet.
pub(crate) struct Probes {
    pub sends: Sends,
    pub beside: Vec<Box<dyn Loaded>>,
    events: VecDeque<Event>,
    /// Bytes of records since they were asked for.
    bytes: u64,
    failed: Option<DecodeError>,
}

impl Probes {
    /// All of them, the sends first.
    pub fn all(&self) -> impl Iterator<Item = &dyn Loaded> {
        std::iter::once(&self.sends as &dyn Loaded).chain(self.beside.iter().map(AsRef::as_ref))
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Loaded> {
        let beside = self.beside.iter_mut().map(|probe| &mut **probe as &mut dyn Loaded);
        std::iter::once(&mut self.sends as &mut dyn Loaded).chain(beside)
    }

    /// What all of them have lost.
    pub fn lost(&self) -> Lost {
        self.all().map(Loaded::lost).fold(Lost::default(), |all, lost| all + lost)
    }

    /// How long the programs of all of them have run while the kernel counted that.
    pub fn ran(&mut self) -> Nanos {
        self.all_mut().map(|probe| probe.programs().ran()).sum()
    }

    /// Has every probe hand on what shows only as time passes.
    pub fn tick(&mut self, now: Instant<Monotonic>) {
        let mut events = std::mem::take(&mut self.events);
        self.all_mut().for_each(|probe| probe.tick(now, &mut events));
        self.events = events;
    }

    /// Has every probe hand on what is unfinished.
    pub fn give_up(&mut self) -> Result<(), Error> {
        let mut events = std::mem::take(&mut self.events);
        let done = self.all_mut().try_for_each(|probe| probe.give_up(&mut events));
        self.events = events;
        done
    }

    /// How many bytes of records came since this was asked last.
    pub fn take_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }

    /// Hands a record to the probe that owns its kind.
    fn take(&mut self, record: &[u8]) {
        self.bytes += record.len() as u64;
        let taken = decode::kind(record).and_then(|kind| {
            let mut events = std::mem::take(&mut self.events);
            let owner = self.all_mut().find(|probe| probe.kinds().contains(&kind));
            let taken = owner.map_or(Err(DecodeError::Unsupported(kind)), |probe| probe.take(record, &mut events));
            self.events = events;
            taken
        });
        if let Err(error) = taken {
            self.failed = Some(error);
        }
    }
}

/// The ring buffer that all probes of a trace write to.
pub(crate) struct Ring {
    buffer: RingBuffer<'static>,
    probes: Arc<Mutex<Probes>>,
}

impl Ring {
    /// The ring buffer of the sends' object.
    pub fn new(sends: Sends, beside: Vec<Box<dyn Loaded>>) -> Result<Self, Error> {
        let mut probes = Probes { sends, beside, events: VecDeque::new(), bytes: 0, failed: None };
        let records = object::map(Programs::object(probes.sends.programs()), "records")?;
        let probes = Arc::new(Mutex::new(probes));
        let taking = Arc::clone(&probes);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&records, move |record: &[u8]| {
                taking.lock().unwrap_or_else(PoisonError::into_inner).take(record);
                0
            })
            .map_err(Error::bpf("cannot read the ring buffer"))?;
        let buffer = builder.build().map_err(Error::bpf("cannot read the ring buffer"))?;
        Ok(Self { buffer, probes })
    }

    /// The probes. Not to be held while the ring buffer is emptied.
    pub fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the ring buffer once; says whether anything came.
    pub fn deliver(&self, sink: &mut dyn FnMut(Event)) -> Result<bool, Error> {
        let mut any = false;
        loop {
            let more = self.take()?;
            let events = std::mem::take(&mut self.probes().events);
            any |= !events.is_empty();
            events.into_iter().for_each(&mut *sink);
            if !more {
                return Ok(any);
            }
        }
    }

    /// Empties it before events are taken: they are handed on when it is emptied the next time.
    pub fn gather(&self) -> Result<(), Error> {
        while self.take()? {}
        Ok(())
    }

    /// Takes a batch of records; says whether there may be more.
    fn take(&self) -> Result<bool, Error> {
        let read = self.buffer.consume_raw_n(BATCH);
        if read < 0 {
            let source = std::io::Error::from_raw_os_error(-read);
            return Err(Error::System { what: "cannot read the ring buffer", source });
        }
        match self.probes().failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(read as usize == BATCH),
        }
    }
}
