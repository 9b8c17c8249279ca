//! Packets of a trace as a pcapng file that Wireshark reads: each with its process, its socket and
//! the send that it carries (`docs/packets.md`).
//!
//! A packet comes before the record of the send that it carries, which comes with the ACK. So
//! packets are held for a while, and leave in the order in which they came. What is held is
//! bounded.

mod held;
mod owners;
mod words;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use record::{
    ClockReading, CopyInterface, Direction, End, Event, Instant, KnownBy, Monotonic, Nanos, PacketCopy, Provenance,
    Realtime, Sink, SinkError,
};
use wire::capture::context::{self, CarriedSend, Context, Receiver};
use wire::capture::{Interface, Particulars, PcapngWriter, Process, Resolution, WriteError, flag};
use wire::{Frame, LinkType};

use held::{Carried, Held, Ready};
use owners::{Owned, Owners};

/// The most packets that are held.
const MOST: usize = 65_536;

/// Where packets go: into one file, or into one after the other.
pub trait Places {
    /// A file.
    type To: Write;

    /// The next file, and what errors call it.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn next(&mut self) -> Result<(Self::To, String), SinkError>;

    /// Whether a file gives way to the next, with so many packets in it that came in so much time.
    fn is_full(&self, file: &Self::To, packets: u64, lasted: Nanos) -> bool;
}

/// Writes packets into pcapng files.
pub struct Pcapng<P: Places> {
    places: P,
    application: String,
    writer: PcapngWriter<P::To>,
    /// What errors call the file.
    name: String,
    files: u64,
    /// Packets in the file, and the time of the first.
    in_file: u64,
    first: Option<Instant<Monotonic>>,
    clock: ClockReading,
    interfaces: HashMap<(u32, u32), u32>,
    described: Vec<Described>,
    /// When each process began that is described.
    processes: HashMap<u32, Option<Instant<Realtime>>>,
    owners: Owners,
    held: Held,
    written: u64,
    /// Packets that were missed, by the files that have ended.
    missed: u64,
    payload: u16,
    /// The most packets that are written.
    most: Option<u64>,
}

/// An interface that the file describes, with its counts.
struct Described {
    interface: Interface,
    packets: u64,
    missed: u64,
}

impl<P: Places> Pcapng<P> {
    /// Begins the first file. Of each packet `payload` bytes are copied beyond its headers; after
    /// `most` packets no more are written.
    ///
    /// # Errors
    /// Where it cannot be made or written.
    pub fn begin(mut places: P, run: &Provenance, payload: u16, most: Option<u64>) -> Result<Self, SinkError> {
        let application = format!("wirelapse {}", run.version);
        let (file, name) = places.next()?;
        let begun = PcapngWriter::new(file, &application);
        Ok(Self {
            writer: begun.map_err(|error| failed(&name, error))?,
            places,
            application,
            name,
            files: 1,
            in_file: 0,
            first: None,
            clock: run.clock,
            interfaces: HashMap::new(),
            described: Vec::new(),
            processes: HashMap::new(),
            owners: Owners::default(),
            held: Held::default(),
            written: 0,
            missed: 0,
            payload,
            most,
        })
    }

    /// Writes the packets that are ready, up to the first that is not.
    fn release(&mut self, which: Ready) -> Result<(), SinkError> {
        while let Some(carried) = self.held.next(which) {
            if self.is_over() {
                continue;
            }
            let lasted = self.first.and_then(|first| carried.copy.at.since(first).ok()).unwrap_or(Nanos::ZERO);
            if self.places.is_full(self.writer.get_ref(), self.in_file, lasted) {
                self.rotate(carried.copy.at)?;
            }
            self.first = self.first.or(Some(carried.copy.at));
            self.in_file += 1;
            self.write(&carried).map_err(|error| failed(&self.name, error))?;
        }
        Ok(())
    }

    /// Ends the file, and begins the next one: what describes comes again there.
    fn rotate(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.end_file(now)?;
        let (file, name) = self.places.next()?;
        self.writer = PcapngWriter::new(file, &self.application).map_err(|error| failed(&name, error))?;
        self.name = name;
        self.files += 1;
        (self.in_file, self.first) = (0, None);
        self.interfaces.clear();
        self.missed += self.described.drain(..).map(|described| described.missed).sum::<u64>();
        self.processes.clear();
        Ok(())
    }

    /// The statistics of each interface, and the end of the file.
    fn end_file(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        let at = self.clock.realtime_ns(now.as_nanos());
        let mut done = Ok(());
        for (number, described) in self.described.iter_mut().enumerate() {
            described.interface.received = Some(described.packets + described.missed);
            described.interface.dropped_by_system = Some(described.missed);
            done = done.and_then(|()| self.writer.statistics(number as u32, &described.interface, at));
        }
        let flushed = done.and_then(|()| Ok(self.writer.get_mut().flush()?));
        flushed.map_err(|error| failed(&self.name, error))
    }

    fn write(&mut self, carried: &Carried) -> Result<(), WriteError> {
        let copy = &carried.copy;
        let owned = self.owners.of(copy, carried.send.as_ref());
        let interface = self.interface(&copy.interface)?;
        self.process(&owned, copy)?;
        let receiver = carried.twin.as_deref().map(|twin| (twin, self.owners.of(twin, None)));
        if let Some((twin, owned)) = &receiver {
            self.process(owned, twin)?;
        }
        let context = self.context(carried, &owned, receiver.as_ref().map(|(twin, owned)| (*twin, owned)));
        let comment = words::comment(&context, &owned);
        let at = Instant::from_nanos(self.clock.realtime_ns(copy.at.as_nanos()));
        self.written += 1;
        let mut frame = Frame::new(self.written, at, LinkType::RAW, &copy.bytes);
        frame.interface = interface;
        frame.original_length = copy.length;
        let mut flags = match copy.direction {
            Direction::Sent => flag::OUTBOUND,
            Direction::Received => flag::INBOUND,
        };
        if copy.checksum_pending {
            flags |= flag::CHECKSUM_PENDING;
        }
        if copy.segments > 1 {
            flags |= flag::SEGMENTATION_OFFLOADED;
        }
        let missed = copy.missed.into();
        let described = &mut self.described[interface as usize];
        described.packets += 1;
        described.missed += missed;
        self.writer.packet(
            &frame,
            &Particulars {
                comments: &[comment.as_str()],
                flags,
                dropped: missed,
                id: Some(carried.id),
                process: (owned.owner.pid != 0).then_some((owned.owner.pid, 0)),
                local: Some((context::CODE, &context.value())),
            },
        )
    }

    /// What is known of a packet beyond its bytes.
    fn context(&self, carried: &Carried, owned: &Owned, receiver: Option<(&PacketCopy, &Owned)>) -> Context {
        let copy = &carried.copy;
        let real = |at: Instant<Monotonic>| self.clock.realtime_ns(at.as_nanos());
        let known = |at: Option<Instant<Monotonic>>| at.map_or(0, real);
        Context {
            socket: Some((owned.socket, owned.known_by)),
            name: if owned.known_by == KnownBy::Unknown { String::new() } else { owned.owner.comm.to_string() },
            send: carried.send.as_ref().map(|(number, sends, send)| {
                let stamps = &send.stamps;
                let nic = stamps.nic.as_ref().map(|stamp| stamp.at);
                CarriedSend {
                    number: *number,
                    first_seq: send.first_seq,
                    bytes: send.bytes,
                    sends: *sends,
                    stages: [
                        real(stamps.send),
                        known(stamps.sched),
                        known(stamps.driver),
                        known(nic),
                        known(stamps.ack),
                    ],
                    wait: send.wait.map(|wait| (wait.reason(), wait.by_reason())),
                }
            }),
            again: copy.again,
            segments: (copy.segments > 1).then_some((copy.segments, copy.segment_bytes)),
            receiver: receiver.map(|(twin, owned)| Receiver {
                socket: owned.socket,
                at: real(twin.at),
                owner: owned.owner,
                known_by: owned.known_by,
            }),
            place: copy.place.as_deref().cloned().unwrap_or_default(),
            dropped: carried.dropped.as_ref().map(|of| (real(of.at), of.reason.clone())),
        }
    }

    /// The number of an interface in the file, which describes it the first time.
    fn interface(&mut self, of: &Arc<CopyInterface>) -> Result<u32, WriteError> {
        if let Some(&number) = self.interfaces.get(&(of.network, of.number)) {
            return Ok(number);
        }
        let mut interface = Interface::new(LinkType::RAW, Resolution::NANOSECONDS);
        interface.name = Some(words::interface(of));
        interface.description = Some(match self.payload {
            0 => "headers of traced sockets, as IP hands packets on; CLOCK_REALTIME".to_owned(),
            payload => format!(
                "headers and {payload} bytes of payload of traced sockets, as IP hands packets on; CLOCK_REALTIME"
            ),
        });
        self.writer.interface(&interface)?;
        let number = self.described.len() as u32;
        self.described.push(Described { interface, packets: 0, missed: 0 });
        self.interfaces.insert((of.network, of.number), number);
        Ok(number)
    }

    /// Describes the owner of a packet, the first time and when another process has its number.
    fn process(&mut self, owned: &Owned, copy: &PacketCopy) -> Result<(), WriteError> {
        let pid = owned.owner.pid;
        if pid == 0 {
            return Ok(());
        }
        let since = if pid == copy.owner.pid { copy.owner_since } else { None };
        match self.processes.get(&pid) {
            Some(described) if since.is_none() || *described == since => return Ok(()),
            _ => {}
        }
        self.processes.insert(pid, since);
        self.writer.process(&Process { pid, name: &owned.owner.comm.text(), since })
    }
}

fn failed(name: &str, error: WriteError) -> SinkError {
    SinkError::new(name, std::io::Error::from(error))
}

impl<P: Places> Sink for Pcapng<P> {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.owners.event(event);
        match event {
            Event::Copy(copy) => {
                self.held.push(copy);
                if self.held.len() > MOST {
                    self.release(Ready::AllBut(MOST / 2))?;
                }
            }
            Event::CopyDropped(of) => self.held.dropped(of),
            Event::Send(send) => self.held.sent(send),
            Event::Closed { connection, .. } => self.held.over(*connection),
            _ => {}
        }
        Ok(())
    }

    fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.release(Ready::At(now))?;
        self.writer.get_mut().flush().map_err(|error| failed(&self.name, error.into()))
    }

    fn is_over(&self) -> bool {
        self.most.is_some_and(|most| self.written >= most)
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        self.release(Ready::AllBut(0))?;
        // What was missed after the last packet of an interface is known of all together.
        let told: u64 = self.missed + self.described.iter().map(|described| described.missed).sum::<u64>();
        let untold = end.lost.copy_ring_buffer.saturating_sub(told);
        if let [only] = self.described.as_mut_slice() {
            only.missed += untold;
        }
        self.end_file(end.at)?;
        let missed = end.lost.copy_ring_buffer;
        let mut packets = quantity::counted(self.written, "packet");
        if self.files > 1 {
            packets = format!("{packets} in {}", quantity::counted(self.files, "file"));
        }
        Ok(Some(match missed {
            0 => packets,
            missed => format!("{packets}, and {} missed", quantity::count(missed)),
        }))
    }
}
