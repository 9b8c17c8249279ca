//! Writing pcapng: one section, its interfaces, and packets with comments.

use std::io::{self, Write};
use std::net::IpAddr;

use record::{Instant, Realtime};

use super::frame::{Frame, Interface};
use super::pcapng::CUSTOM;
use super::pcapng_option::put_option;

/// Why a pcapng file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The writer failed.
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// A frame names an interface that was not given to the writer.
    #[error("packet {number} names interface {interface}, but only {known} are described")]
    NoSuchInterface {
        /// The packet.
        number: u64,
        /// What it names.
        interface: u32,
        /// How many there are.
        known: usize,
    },
}

/// The writer's own error where that is the cause, for those whose errors name the file.
impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(why) => why,
            other => Self::other(other),
        }
    }
}

/// What a file says of a packet beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Particulars<'a> {
    /// Comments after those that the frame has.
    pub comments: &'a [&'a str],
    /// `epb_flags`, of [`flag`]; 0 is not written.
    pub flags: u32,
    /// Packets of its interface that were lost since the one before it; 0 is not written.
    pub dropped: u64,
    /// What it is called in all captures that it is in.
    pub id: Option<u64>,
    /// What a program that judges packets said of it.
    pub verdict: Option<Verdict>,
    /// Its process and thread; 0 is one that is not known.
    pub process: Option<(u32, u32)>,
    /// An option for local use, by its code (0x8000 and above) and its value of at most 65,535
    /// bytes.
    pub local: Option<(u16, &'a [u8])>,
}

/// What a program that judges packets said of one (`epb_verdict`), as the number that it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One of the traffic control: `TC_ACT_*` of the kernel.
    Tc(u64),
    /// One of XDP: `enum xdp_action` of the kernel.
    Xdp(u64),
}

impl Verdict {
    /// `TC_ACT_SHOT`: dropped.
    pub const DROPPED_BY_TC: Self = Self::Tc(2);
    /// `XDP_DROP`.
    pub const DROPPED_BY_XDP: Self = Self::Xdp(1);

    /// Its kind in the option, and the number.
    pub(super) const fn parts(self) -> (u8, u64) {
        match self {
            Self::Tc(number) => (1, number),
            Self::Xdp(number) => (2, number),
        }
    }
}

/// Bits of `epb_flags`.
pub mod flag {
    /// It came in.
    pub const INBOUND: u32 = 1;
    /// It went out.
    pub const OUTBOUND: u32 = 2;
    /// The checksum is not complete yet.
    pub const CHECKSUM_PENDING: u32 = 1 << 9;
    /// It is several segments on the wire.
    pub const SEGMENTATION_OFFLOADED: u32 = 1 << 11;
}

/// Wireshark's number among the enterprises of IANA.
pub(super) const WIRESHARK: u32 = 32_622;
/// The type of the custom block in which it describes a process.
pub(super) const PROCESS_INFORMATION: u32 = 3;

/// A process that packets belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process<'a> {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: &'a str,
    /// When it began: numbers of processes come round.
    pub since: Option<Instant<Realtime>>,
    /// Its arguments, the program first, separated by zeros.
    pub command_line: Option<&'a [u8]>,
    /// The number of its user.
    pub user: Option<u32>,
}

/// Writes a capture as pcapng, least significant byte first, times in nanoseconds.
pub struct PcapngWriter<W: Write> {
    out: W,
    interfaces: usize,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a section; `application` is named in it as the writer of the file.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn new(out: W, application: &str) -> Result<Self, WriteError> {
        let mut writer = Self { out, interfaces: 0, block: Vec::new() };
        writer.begin(0x0a0d_0d0a);
        writer.block.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(4, application.as_bytes());
        writer.end_of_options();
        writer.finish_block()?;
        Ok(writer)
    }

    /// Describes the next interface; the first is number 0. Resolution and offset are not copied,
    /// since times are written as nanoseconds since 1970.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn interface(&mut self, interface: &Interface) -> Result<(), WriteError> {
        self.begin(1);
        self.block.extend_from_slice(&interface.link_type.0.to_le_bytes());
        self.block.extend_from_slice(&[0, 0]);
        self.block.extend_from_slice(&interface.snap_length.to_le_bytes());
        for (code, text) in [(2, &interface.name), (3, &interface.description)] {
            if let Some(text) = text {
                self.option(code, text.as_bytes());
            }
        }
        self.option(9, &[9]);
        if let Some(filter) = &interface.filter {
            self.option(11, &[&[0], filter.as_bytes()].concat());
        }
        if let Some(bytes) = interface.fcs_bytes {
            self.option(13, &[bytes]);
        }
        self.end_of_options();
        self.interfaces += 1;
        self.finish_block()
    }

    /// Describes those of `all` that are not yet described: call it before each frame while a file
    /// with several is copied.
    ///
    /// # Errors
    /// Where `out` fails.
    #[inline]
    pub fn interfaces(&mut self, all: &[Interface]) -> Result<(), WriteError> {
        while let Some(interface) = all.get(self.interfaces) {
            self.interface(interface)?;
        }
        Ok(())
    }

    /// Writes a frame with the comments it has and then `comments`. A frame without a time gets 0.
    /// A comment longer than the format's 65,535 bytes is cut at a character.
    ///
    /// # Errors
    /// Where its interface is not described, or `out` fails.
    pub fn frame(&mut self, frame: &Frame<'_>, comments: &[&str]) -> Result<(), WriteError> {
        self.packet(frame, &Particulars { comments, ..Particulars::default() })
    }

    /// The same with all that is said of it.
    ///
    /// # Errors
    /// As [`Self::frame`].
    pub fn packet(&mut self, frame: &Frame<'_>, of: &Particulars<'_>) -> Result<(), WriteError> {
        if frame.interface as usize >= self.interfaces {
            let (number, interface, known) = (frame.number, frame.interface, self.interfaces);
            return Err(WriteError::NoSuchInterface { number, interface, known });
        }
        let at = frame.at.map_or(0, Instant::as_nanos);
        self.begin(6);
        // A frame that was read or built is never longer than the reader's limit of 8 MiB times
        // two.
        let captured = u32::try_from(frame.data.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        for field in [frame.interface, (at >> 32) as u32, at as u32, captured, frame.original_length] {
            self.block.extend_from_slice(&field.to_le_bytes());
        }
        self.block.extend_from_slice(frame.data);
        self.pad();
        let before = self.block.len();
        for comment in frame.comments().chain(of.comments.iter().copied()) {
            self.option(1, comment.as_bytes());
        }
        if of.flags != 0 {
            self.option(2, &of.flags.to_le_bytes());
        }
        if of.dropped != 0 {
            self.option(4, &of.dropped.to_le_bytes());
        }
        if let Some(id) = of.id {
            self.option(5, &id.to_le_bytes());
        }
        if let Some((kind, number)) = of.verdict.map(Verdict::parts) {
            self.option(7, &[&[kind], &number.to_le_bytes()[..]].concat());
        }
        if let Some((process, thread)) = of.process {
            self.option(8, &[process.to_le_bytes(), thread.to_le_bytes()].concat());
        }
        if let Some((code, value)) = of.local {
            self.option(code, value);
        }
        if self.block.len() > before {
            self.end_of_options();
        }
        self.finish_block()
    }

    /// Describes a process, which packets after it name: Wireshark's process information block, a
    /// custom block of its number at IANA.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn process(&mut self, process: &Process<'_>) -> Result<(), WriteError> {
        self.begin(CUSTOM);
        self.block.extend_from_slice(&WIRESHARK.to_le_bytes());
        self.block.extend_from_slice(&PROCESS_INFORMATION.to_le_bytes());
        let length_at = self.block.len();
        self.block.extend_from_slice(&[0; 4]);
        self.block.extend_from_slice(&process.pid.to_le_bytes());
        self.option(2, process.name.as_bytes());
        if let Some(command_line) = process.command_line {
            self.option(4, command_line);
        }
        if let Some(user) = process.user {
            self.option(6, &user.to_le_bytes());
        }
        if let Some(since) = process.since {
            self.option(9, &since.as_nanos().to_le_bytes());
        }
        self.end_of_options();
        let length = (self.block.len() - length_at - 4) as u32;
        self.block[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        self.finish_block()
    }

    /// Says what an address is called: a name resolution block with one record.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn name(&mut self, address: IpAddr, name: &str) -> Result<(), WriteError> {
        let (kind, address) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        self.begin(4);
        self.option(kind, &[&address, name.as_bytes(), &[0]].concat());
        self.end_of_options();
        self.finish_block()
    }

    /// Writes the statistics of interface `number` (its counts of packets received and dropped).
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn statistics(&mut self, number: u32, interface: &Interface, at: u64) -> Result<(), WriteError> {
        self.begin(5);
        for field in [number, (at >> 32) as u32, at as u32] {
            self.block.extend_from_slice(&field.to_le_bytes());
        }
        for (code, count) in [(4, interface.received), (5, interface.dropped), (7, interface.dropped_by_system)] {
            if let Some(count) = count {
                self.option(code, &count.to_le_bytes());
            }
        }
        self.end_of_options();
        self.finish_block()
    }

    /// What is written to.
    pub const fn get_ref(&self) -> &W {
        &self.out
    }

    /// What is written to; whoever writes to it directly makes the file unreadable.
    pub const fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Flushes, and gives back what was written to.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        put_option(&mut self.block, code, value);
    }

    fn end_of_options(&mut self) {
        self.block.extend_from_slice(&[0; 4]);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn finish_block(&mut self) -> Result<(), WriteError> {
        let length = u32::try_from(self.block.len() + 4).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.block.extend_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)?;
        Ok(())
    }
}
