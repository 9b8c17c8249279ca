//! The packets of a trace: which of them, where they go, and how much of each.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use capture::PacketFilter;
use capture::output::{Chunks, Rotation, numbered};
use export::pcapng::{Ask, Pcapng, Places};
use quantity::parse;
use record::{End, Event, Instant, Monotonic, Nanos, PacketCopy, Provenance, Sink, SinkError};
use wire::LinkType;

use ::files::Readers;

use super::started;
use crate::exit::BadInput;
use crate::options::{Rotate, heading};
use crate::output::ReaderGone;
use crate::{output, terminal};

/// What the packets are called in a run.
pub const IN_RUN: &str = "packets.pcapng";

/// `--packets`, and what belongs to it. As in `capture` and tcpdump where they have the same.
#[derive(clap::Args)]
pub struct Options {
    /// Copy every packet of the traced TCP and UDP sockets, sent and received, with its process,
    /// socket and send: headers, and payload with --snap
    #[arg(long, help_heading = heading::WHAT)]
    pub packets: bool,
    /// With --packets, load nothing at the kernel's tracepoints, which run for all packets of this
    /// machine: without ICMP errors, fragments, drops, and packets after the end of a connection
    #[arg(long, requires = "packets", help_heading = heading::COST)]
    pub no_tracepoints: bool,
    /// How many bytes of payload --packets copies of each packet
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u16), default_value_t = 0, requires = "packets", help_heading = heading::WHAT)]
    pub snap: u16,
    /// Only packets that match a libpcap filter: "tcp port 443 and not host 192.0.2.1"
    #[arg(short, long, value_name = "EXPRESSION", help_heading = heading::WHAT)]
    pub filter: Option<String>,
    /// End after this many packets
    #[arg(short, long, value_name = "N", value_parser = parse::count, help_heading = heading::HOW_MUCH)]
    pub count: Option<u64>,
    /// Write the packets of --packets to this file, in pcapng for Wireshark; - is standard output,
    /// and the report goes to standard error [default: packets.pcapng in the run of -o]
    #[arg(short, long, value_name = "FILE", requires = "packets", help_heading = heading::OUTPUT)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    rotate: Rotate,
    /// Keep this many files of packets, and remove the oldest
    #[arg(short = 'W', long, value_name = "N", requires = "write", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::OUTPUT)]
    rotate_keep: Option<u32>,
    /// Describe processes in the file of packets with their command line, which can hold passwords,
    /// and their user
    #[arg(long, requires = "packets", help_heading = heading::OUTPUT)]
    command_lines: bool,
    /// Compress the files of packets with zstd
    #[arg(long, requires = "write", help_heading = heading::OUTPUT)]
    zstd: bool,
}

impl Options {
    /// What is to be done with packets, where there are any; without a file of their own they are
    /// in `run`.
    ///
    /// # Errors
    /// What cannot be.
    pub fn packets(&self, run: Option<&Path>, force: bool) -> anyhow::Result<Option<Packets>> {
        if !self.packets {
            let asks = [(self.filter.is_some(), "--filter"), (self.count.is_some(), "--count")];
            return match asks.into_iter().find(|asks| asks.0) {
                Some((_, option)) => Err(bad(&format!("{option} is about packets: add --packets -w FILE, or -r FILE"))),
                None => Ok(None),
            };
        }
        let file = match (&self.write, run) {
            (Some(file), _) => file.clone(),
            (None, Some(run)) => run.join(IN_RUN),
            (None, None) => {
                return Err(bad(
                    "--packets needs a file for the packets: -w FILE (--write), -w - for a pipe, or a run (-o RUN)",
                ));
            }
        };
        let packets = Packets {
            file: (file != Path::new("-")).then_some(file),
            rotation: self.rotate.keeping(self.rotate_keep),
            compress: self.zstd,
            command_lines: self.command_lines,
            payload: self.snap,
            most: self.count,
            filter: self.filter.as_deref().map(filter).transpose()?,
        };
        packets.check(self.write.is_some(), force)?;
        Ok(Some(packets))
    }
}

/// A filter for packets from their IP header on.
///
/// # Errors
/// What libpcap says of it.
pub fn filter(expression: &str) -> anyhow::Result<PacketFilter> {
    PacketFilter::new(LinkType::RAW, expression).map_err(|error| bad(&error.to_string()))
}

fn bad(text: &str) -> anyhow::Error {
    BadInput(text.to_owned()).into()
}

/// What to do with the packets.
#[derive(Clone)]
pub struct Packets {
    /// `None` for standard output.
    file: Option<PathBuf>,
    rotation: Rotation,
    compress: bool,
    /// Whether the file says what processes were started with.
    command_lines: bool,
    /// Bytes of payload that are kept of each.
    pub payload: u16,
    /// After so many packets the trace ends.
    most: Option<u64>,
    filter: Option<PacketFilter>,
}

impl Packets {
    fn check(&self, named: bool, force: bool) -> anyhow::Result<()> {
        let Some(file) = &self.file else {
            if self.rotation.is_on() || self.rotation.keep.is_some() {
                return Err(bad("standard output is one file: name another for packets (-w FILE) to rotate"));
            }
            if terminal::is_terminal() {
                return Err(bad(
                    "standard output is a terminal, which shows no packets: name a file (-w FILE), or write into a pipe (-w - | wireshark -k -i -)",
                ));
            }
            return Ok(());
        };
        if self.rotation.keep.is_some() && !self.rotation.is_on() {
            return Err(bad("--rotate-keep needs --rotate-size, --rotate-time or --rotate-count"));
        }
        // One in a run is made with that.
        if named {
            let first = if self.rotation.is_on() { numbered(file, 1) } else { file.clone() };
            ::files::refuse(&first, force)?;
        }
        Ok(())
    }

    /// The file, where it is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether files are made later, too.
    pub fn rotates(&self) -> bool {
        self.rotation.is_on()
    }

    /// Whether standard output is for packets alone.
    pub const fn on_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Begins to write; gives what the file is called too. It has its name from now on, and is
    /// whole after each block.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin(&self, run: &Provenance, force: bool) -> anyhow::Result<(Box<dyn Sink>, String)> {
        let said = self.file.as_ref().map_or_else(|| "Packets".into(), |path| format!("Packets {}", path.display()));
        let (payload, most) = (self.payload, self.most);
        let ask = || self.command_lines.then(|| Box::new(started::details) as Ask);
        let sink: Box<dyn Sink> = match &self.file {
            Some(path) => {
                let files = Files {
                    path: path.clone(),
                    rotation: self.rotation,
                    compress: self.compress,
                    force,
                    number: 0,
                    finished: VecDeque::new(),
                };
                Box::new(Pcapng::begin(files, run, payload, most)?.describing(ask()))
            }
            None => {
                let pipe = output::stdout_of_bytes().context("cannot write packets to standard output")?;
                Box::new(Pcapng::begin(Pipe(Arc::new(pipe), self.compress), run, payload, most)?.describing(ask()))
            }
        };
        Ok(match &self.filter {
            Some(filter) => (Box::new(Filtered { sink, filter: filter.clone(), missed: HashMap::new() }), said),
            None => (sink, said),
        })
    }
}

/// Standard output.
struct Pipe(Arc<File>, bool);

impl Places for Pipe {
    type To = Read;

    fn next(&mut self) -> Result<(Read, String), SinkError> {
        Ok((Read(Chunks::new(Arc::clone(&self.0), self.1)), "packets on standard output".into()))
    }

    fn is_full(&self, _: &Read, _: u64, _: Nanos) -> bool {
        false
    }
}

/// One file, or one after the other.
struct Files {
    path: PathBuf,
    rotation: Rotation,
    compress: bool,
    force: bool,
    number: u32,
    /// The oldest first.
    finished: VecDeque<PathBuf>,
}

impl Places for Files {
    type To = Read;

    fn next(&mut self) -> Result<(Read, String), SinkError> {
        self.number += 1;
        let path = if self.rotation.is_on() { numbered(&self.path, self.number) } else { self.path.clone() };
        let name = format!("packet file {}", path.display());
        let file = ::files::growing(&path, self.force, Readers::Owner)
            .map_err(|error| SinkError::new(name.clone(), io::Error::from(error)))?;
        self.finished.push_back(path);
        let keep = self.rotation.keep.map_or(usize::MAX, |keep| keep as usize);
        while self.finished.len() > keep
            && let Some(oldest) = self.finished.pop_front()
        {
            std::fs::remove_file(&oldest)
                .map_err(|error| SinkError::new(format!("packet file {}", oldest.display()), error))?;
        }
        Ok((Read(Chunks::new(file, self.compress)), name))
    }

    fn is_full(&self, file: &Read, packets: u64, lasted: Nanos) -> bool {
        let Rotation { bytes, time, frames, .. } = self.rotation;
        packets > 0
            && (bytes.is_some_and(|most| file.0.taken() >= most)
                || frames.is_some_and(|most| packets >= most)
                || time.is_some_and(|most| lasted >= most))
    }
}

/// Packets for somebody who may have seen enough of them: a pipe that breaks ends the trace, and is
/// no error.
struct Read(Chunks);

impl Write for Read {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        self.0.write(block).map_err(enough)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(enough)
    }
}

fn enough(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::BrokenPipe => io::Error::new(kind, ReaderGone),
        _ => error,
    }
}

/// Packets that match a filter.
struct Filtered {
    sink: Box<dyn Sink>,
    filter: PacketFilter,
    /// What was missed before packets that did not match, by interface.
    missed: HashMap<(u32, u32), u32>,
}

impl Filtered {
    fn copy(&mut self, copy: &PacketCopy) -> Result<(), SinkError> {
        let missed = self.missed.entry((copy.interface.network, copy.interface.number)).or_default();
        *missed += copy.missed;
        if !self.filter.passes(&copy.bytes, copy.length) {
            return Ok(());
        }
        self.sink.event(&Event::from(PacketCopy { missed: std::mem::take(missed), ..copy.clone() }))
    }
}

impl Sink for Filtered {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        match event {
            Event::Copy(copy) => self.copy(copy),
            event => self.sink.event(event),
        }
    }

    fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.sink.tick(now)
    }

    fn is_over(&self) -> bool {
        self.sink.is_over()
    }

    fn finish(self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        self.sink.finish(end)
    }
}
