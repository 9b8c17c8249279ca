//! Packets of a trace as a pcapng file that Wireshark reads: each with its process, its socket and
//! the send that it carries (`docs/packets.md`), as [`packets`](crate::packets) joins them.

mod words;

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use record::{
    ClockReading, CopyInterface, CopyStages, Direction, DropReason, End, Event, Instant, KnownBy, Monotonic, Nanos,
    Owner, PacketCopy, Provenance, Question, Realtime, Sink, SinkError,
};
use wire::capture::context::{self, CarriedSend, Context, Receiver};
use wire::capture::{Interface, Particulars, PcapngWriter, Process, Resolution, Verdict, WriteError, flag};
use wire::{Frame, LinkType};

/// How many names of addresses are kept.
const NAMES: usize = 4_096;

/// What a process was started with, which the file has only where that is asked for: arguments can
/// hold passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Its arguments, the program first, separated by zeros; none where they are not known.
    pub command_line: Option<Vec<u8>>,
    /// The number of its user.
    pub user: Option<u32>,
}

/// Says what a process was started with, by its number and its start.
pub type Ask = Box<dyn FnMut(u32, Option<Instant<Realtime>>) -> Details + Send>;

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
    /// Asked of each process that is described.
    ask: Option<Ask>,
    /// What the addresses are called that the target looked up.
    names: HashMap<IpAddr, String>,
    /// A packet whose arrival on this host comes next.
    arrives: Option<Box<PacketCopy>>,
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
            ask: None,
            names: HashMap::new(),
            arrives: None,
            written: 0,
            missed: 0,
            payload,
            most,
        })
    }

    /// Describes processes with what `ask` says of them, too, where there is one.
    #[must_use]
    pub fn describing(mut self, ask: Option<Ask>) -> Self {
        self.ask = ask;
        self
    }

    /// The addresses that a question found are called by its name from here on.
    fn answered(&mut self, question: &Question) -> Result<(), WriteError> {
        for address in question.addresses.split(' ').filter_map(|address| address.parse().ok()) {
            let known = self.names.get(&address);
            if known.is_some_and(|name| *name == question.name) || (known.is_none() && self.names.len() >= NAMES) {
                continue;
            }
            self.writer.name(address, &question.name)?;
            self.names.insert(address, question.name.clone());
        }
        Ok(())
    }

    /// Writes a packet that arrived at these times, into the next file where this one is full.
    fn packet(&mut self, copy: &PacketCopy, arrived: &CopyStages) -> Result<(), SinkError> {
        if self.is_over() {
            return Ok(());
        }
        let lasted = self.first.and_then(|first| copy.at.since(first).ok()).unwrap_or(Nanos::ZERO);
        if self.places.is_full(self.writer.get_ref(), self.in_file, lasted) {
            self.rotate(copy.at)?;
        }
        self.first = self.first.or(Some(copy.at));
        self.in_file += 1;
        self.write(copy, arrived).map_err(|error| failed(&self.name, error))
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
        let mut named = self.names.iter();
        let named = named.try_for_each(|(&address, name)| self.writer.name(address, name));
        named.map_err(|error| failed(&self.name, error))
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

    fn write(&mut self, copy: &PacketCopy, arrived: &CopyStages) -> Result<(), WriteError> {
        let interface = self.interface(&copy.interface)?;
        self.process(copy.owner, copy.owner_since)?;
        if let Some(receiver) = &copy.receiver {
            self.process(receiver.owner, receiver.owner_since)?;
        }
        let context = self.context(copy, arrived);
        let comment = words::comment(&context, copy, arrived);
        let option = context.value();
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
                id: Some(copy.id),
                verdict: context.dropped.as_ref().and_then(|(_, reason)| verdict(reason)),
                process: (copy.owner.pid != 0).then_some((copy.owner.pid, copy.thread.unwrap_or(0))),
                local: Some((context::CODE, &option)),
            },
        )
    }

    /// What is known of a packet beyond its bytes.
    fn context(&self, copy: &PacketCopy, arrived: &CopyStages) -> Context {
        let real = |at: Instant<Monotonic>| self.clock.realtime_ns(at.as_nanos());
        let known = |at: Option<Instant<Monotonic>>| at.map_or(0, real);
        let stages = &copy.stages;
        Context {
            socket: Some((copy.socket, copy.known_by)),
            name: if copy.known_by == KnownBy::Unknown { String::new() } else { copy.owner.comm.to_string() },
            send: copy.carried.map(|of| CarriedSend {
                number: of.number,
                first_seq: of.first_seq,
                bytes: of.bytes,
                sends: of.sends,
                stages: [stages.send, stages.sched, stages.driver, stages.nic, stages.ack].map(known),
                wait: of.wait,
            }),
            again: copy.again,
            segments: (copy.segments > 1).then_some((copy.segments, copy.segment_bytes)),
            receiver: copy.receiver.map(|of| Receiver {
                socket: of.socket,
                at: real(of.at),
                owner: of.owner,
                known_by: of.known_by,
            }),
            place: copy.place.as_deref().cloned().unwrap_or_default(),
            dropped: copy.dropped.as_ref().map(|of| (real(of.at), of.reason.clone())),
            arrival: [arrived.nic_rx, arrived.driver_rx, arrived.tcp_rx, arrived.ready, arrived.read].map(known),
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
    fn process(&mut self, owner: Owner, since: Option<Instant<Realtime>>) -> Result<(), WriteError> {
        let pid = owner.pid;
        if pid == 0 {
            return Ok(());
        }
        match self.processes.get(&pid) {
            Some(described) if since.is_none() || *described == since => return Ok(()),
            _ => {}
        }
        self.processes.insert(pid, since);
        let Details { command_line, user } = self.ask.as_mut().map(|ask| ask(pid, since)).unwrap_or_default();
        let command_line = command_line.as_deref();
        self.writer.process(&Process { pid, name: &owner.comm.text(), since, command_line, user })
    }
}

/// What a program said of a packet that the kernel dropped for that reason, if one did.
fn verdict(reason: &DropReason) -> Option<Verdict> {
    match &*reason.0 {
        "TC_INGRESS" | "TC_EGRESS" => Some(Verdict::DROPPED_BY_TC),
        "XDP" => Some(Verdict::DROPPED_BY_XDP),
        _ => None,
    }
}

fn failed(name: &str, error: WriteError) -> SinkError {
    SinkError::new(name, std::io::Error::from(error))
}

impl<P: Places> Sink for Pcapng<P> {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        match event {
            // It is written once, with what the arrival says, which comes next.
            Event::Copy(copy) if copy.receiver.is_some() => {
                self.arrives = Some(copy.clone());
                Ok(())
            }
            Event::Copy(arrival) if arrival.is_arrival => match self.arrives.take() {
                Some(copy) => self.packet(&copy, &arrival.stages),
                None => Ok(()),
            },
            Event::Copy(copy) => self.packet(copy, &copy.stages),
            Event::Question(question) => self.answered(question).map_err(|error| failed(&self.name, error)),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, _: Instant<Monotonic>) -> Result<(), SinkError> {
        self.writer.get_mut().flush().map_err(|error| failed(&self.name, error.into()))
    }

    fn is_over(&self) -> bool {
        self.most.is_some_and(|most| self.written >= most)
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
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
