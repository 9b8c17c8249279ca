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
    ClockReading, CopyInterface, Direction, End, Event, Instant, KnownBy, Monotonic, PacketCopy, Provenance, Realtime,
    Sink, SinkError,
};
use wire::capture::context::{self, CarriedSend, Context, Receiver};
use wire::capture::{Interface, Particulars, PcapngWriter, Process, Resolution, WriteError, flag};
use wire::{Frame, LinkType};

use held::{Carried, Held, Ready};
use owners::{Owned, Owners};

/// The most packets that are held.
const MOST: usize = 65_536;

/// Writes packets into a pcapng file.
pub struct Pcapng<W: Write> {
    writer: PcapngWriter<W>,
    /// What errors call it.
    name: String,
    clock: ClockReading,
    interfaces: HashMap<(u32, u32), u32>,
    described: Vec<Described>,
    /// When each process began that is described.
    processes: HashMap<u32, Option<Instant<Realtime>>>,
    owners: Owners,
    held: Held,
    written: u64,
    payload: u16,
}

/// An interface that the file describes, with its counts.
struct Described {
    interface: Interface,
    packets: u64,
    missed: u64,
}

impl<W: Write> Pcapng<W> {
    /// Begins the file. Of each packet `payload` bytes are copied beyond its headers.
    ///
    /// # Errors
    /// What `out` says.
    pub fn begin(out: W, run: &Provenance, payload: u16, name: String) -> Result<Self, SinkError> {
        let application = format!("wirelapse {}", run.version);
        let begun = PcapngWriter::new(out, &application);
        Ok(Self {
            writer: begun.map_err(|error| failed(&name, error))?,
            name,
            clock: run.clock,
            interfaces: HashMap::new(),
            described: Vec::new(),
            processes: HashMap::new(),
            owners: Owners::default(),
            held: Held::default(),
            written: 0,
            payload,
        })
    }

    /// Writes the packets that are ready, up to the first that is not.
    fn release(&mut self, which: Ready) -> Result<(), WriteError> {
        while let Some(carried) = self.held.next(which) {
            self.write(&carried)?;
        }
        Ok(())
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

    fn failed(&self, error: WriteError) -> SinkError {
        failed(&self.name, error)
    }
}

fn failed(name: &str, error: WriteError) -> SinkError {
    SinkError::new(name, std::io::Error::from(error))
}

impl<W: Write> Sink for Pcapng<W> {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.owners.event(event);
        match event {
            Event::Copy(copy) => {
                self.held.push(copy);
                if self.held.len() > MOST {
                    self.release(Ready::AllBut(MOST / 2)).map_err(|error| self.failed(error))?;
                }
            }
            Event::Send(send) => self.held.sent(send),
            Event::Closed { connection, .. } => self.held.over(*connection),
            _ => {}
        }
        Ok(())
    }

    fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.release(Ready::At(now)).map_err(|error| self.failed(error))?;
        self.writer.get_mut().flush().map_err(|error| self.failed(error.into()))
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        self.release(Ready::AllBut(0)).map_err(|error| self.failed(error))?;
        let at = self.clock.realtime_ns(end.at.as_nanos());
        // What was missed after the last packet of an interface is known of all together.
        let told: u64 = self.described.iter().map(|described| described.missed).sum();
        let untold = end.lost.copy_ring_buffer.saturating_sub(told);
        if let [only] = self.described.as_mut_slice() {
            only.missed += untold;
        }
        let mut done = Ok(());
        for (number, described) in self.described.iter_mut().enumerate() {
            described.interface.received = Some(described.packets + described.missed);
            described.interface.dropped_by_system = Some(described.missed);
            done = done.and_then(|()| self.writer.statistics(number as u32, &described.interface, at));
        }
        let flushed = done.and_then(|()| Ok(self.writer.get_mut().flush()?));
        flushed.map_err(|error| failed(&self.name, error))?;
        let missed = end.lost.copy_ring_buffer;
        let packets = quantity::counted(self.written, "packet");
        Ok(Some(match missed {
            0 => packets,
            missed => format!("{packets}, and {} missed", quantity::count(missed)),
        }))
    }
}
