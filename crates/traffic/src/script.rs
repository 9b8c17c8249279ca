//! Two programs that do as those of a recorded connection did: the same writes, each after the same
//! bytes of the peer and the same time of thinking. What the network takes is not in the script.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use record::script::{BUFFERED, Step};
use record::{Instant, Monotonic, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;
use crate::options::{self, SocketOptions};
use crate::stop::Stop;
use crate::tcp_info::TcpInfo;
use crate::timing::now;

/// What one end does.
#[derive(Clone, Copy, Debug)]
pub struct Role<'a> {
    /// Its writes.
    pub steps: &'a [Step],
    /// How many bytes it reads in all.
    pub reads: u64,
    /// Its socket's options. With `quickack`, ACKs are asked for at once after every read.
    pub options: &'a SocketOptions,
    /// The longest that its ACKs are delayed (`TCP_DELACK_MAX_US`, Linux 6.15), where the kernel
    /// takes it.
    pub delayed_ack: Option<Nanos>,
    /// The client's first write goes with its SYN (`TCP_FASTOPEN_CONNECT`).
    pub fast_open: bool,
    /// How often the script is run on the connection, one after the other: once at least.
    pub passes: u32,
    /// When it is given up.
    pub until: Instant<Monotonic>,
}

/// What became of one end's part.
#[derive(Clone, Debug)]
pub struct Played {
    /// When the last pass began: with the first, when the client began to connect.
    pub began: Instant<Monotonic>,
    /// When it had read, and given to the kernel, all of it.
    pub ended: Instant<Monotonic>,
    /// For each write of the last pass that the peer answered before the next one: from the write
    /// to the last byte read before that.
    pub answers: Vec<Nanos>,
    /// The kernel's smoothed round trip, looked at now and then while it wrote in the last pass.
    pub round_trips: Vec<Nanos>,
}

/// A socket that the server's end waits on.
///
/// # Errors
/// [`Error::Listen`], [`Error::SocketOption`].
pub fn listen(at: SocketAddr, options: &SocketOptions) -> Result<TcpListener, Error> {
    let listens = |source| Error::Listen { address: at, source };
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP)).map_err(listens)?;
    options.apply_before_connect(&socket, at.ip())?;
    socket.bind(&at.into()).map_err(listens)?;
    socket.listen(1).map_err(listens)?;
    Ok(socket.into())
}

/// Accepts one connection and plays the server's part.
///
/// # Errors
/// [`Error::Io`] where a socket fails or time is over.
pub fn serve(listener: &TcpListener, role: &Role<'_>) -> Result<Played, Error> {
    let accepted = || -> io::Result<(TcpStream, SocketAddr)> {
        listener.set_nonblocking(true)?;
        wait(listener, PollFlags::IN, None, role.until)?;
        listener.accept()
    };
    let (stream, peer) = accepted().map_err(Error::io("accept the script's connection"))?;
    role.options.apply_connected(&stream, peer.ip())?;
    play(stream, role, now())
}

/// Connects and plays the client's part.
///
/// # Errors
/// [`Error::Connect`], [`Error::SocketOption`], [`Error::Io`] where the socket fails or time is
/// over.
pub fn run(server: SocketAddr, role: &Role<'_>) -> Result<Played, Error> {
    let began = now();
    let (left, never) = (role.until.saturating_since(began), Stop::new()?);
    let socket = match role.fast_open {
        true => options::connect_by_writing(server, role.options, left, &never)?,
        false => options::connect(server, role.options, None, left, &never)?,
    };
    play(socket.into(), role, began)
}

fn play(stream: TcpStream, role: &Role<'_>, mut began: Instant<Monotonic>) -> Result<Played, Error> {
    let failed = Error::io("play a script");
    if let Some(longest) = role.delayed_ack {
        options::delayed_ack(&stream, longest);
    }
    let mut end = End::new(stream, role).map_err(Error::io("play a script"))?;
    let mut played = Played { began, ended: began, answers: Vec::new(), round_trips: Vec::new() };
    let mut all = || -> io::Result<()> {
        for pass in 0..role.passes.max(1) {
            if pass > 0 {
                began = now();
                end.round_trips.clear();
            }
            let answers = end.pass()?;
            played = Played { began, answers, ended: now(), round_trips: end.round_trips.clone() };
        }
        end.close()
    };
    all().map_err(failed)?;
    Ok(played)
}

struct End<'a> {
    stream: TcpStream,
    role: &'a Role<'a>,
    /// Bytes read in this pass, and when the last of them came.
    read: u64,
    read_at: Instant<Monotonic>,
    /// Bytes that came before they belonged to a pass.
    early: u64,
    /// Bytes that are still to come in all passes: at its end, so may the stream be.
    to_come: u64,
    /// When the step that is being thought over could begin: its bytes had been read.
    heard_at: Instant<Monotonic>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
    round_trips: Vec<Nanos>,
    looked_at: Instant<Monotonic>,
}

/// How often the round trip is looked at.
const LOOK: Nanos = Nanos::from_millis(10);

/// Bytes given to the kernel or taken from it at a time.
const CHUNK: usize = 256 * 1024;

impl<'a> End<'a> {
    fn new(stream: TcpStream, role: &'a Role<'a>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let at = now();
        let (buffer, payload) = (vec![0; CHUNK], vec![0x55; CHUNK]);
        let to_come = role.reads.saturating_mul(role.passes.max(1).into());
        Ok(Self {
            stream,
            role,
            read: 0,
            read_at: at,
            early: 0,
            to_come,
            heard_at: at,
            buffer,
            payload,
            round_trips: Vec::new(),
            looked_at: at,
        })
    }

    /// Notes the round trip, where it has not been looked at for a while.
    fn look(&mut self) {
        let at = now();
        if at.saturating_since(self.looked_at) >= LOOK {
            self.looked_at = at;
            self.round_trips.extend(TcpInfo::of(&self.stream).map(|info| info.srtt).filter(|rtt| rtt.0 > 0));
        }
    }

    /// Plays the script once; gives how long each answer took.
    fn pass(&mut self) -> io::Result<Vec<Nanos>> {
        let early = std::mem::take(&mut self.early);
        (self.read, self.heard_at) = (0, now());
        self.came(early);
        let mut answers = Vec::new();
        let (mut base, mut written_at, mut before) = (now(), None::<Instant<Monotonic>>, 0);
        for step in self.role.steps {
            self.read_until(step.after)?;
            if let Some(at) = written_at.filter(|_| step.after > before) {
                answers.push(self.heard_at.saturating_since(at));
            }
            let heard = if step.after > before { self.heard_at } else { base };
            self.think(heard.max(base).after(step.think))?;
            let began = now();
            self.write(step.bytes)?;
            base = if step.bytes > BUFFERED { now() } else { began };
            (written_at, before) = (Some(began), step.after);
        }
        let left = self.role.reads > self.role.steps.last().map_or(0, |step| step.after);
        self.read_until(self.role.reads)?;
        if let Some(at) = written_at.filter(|_| left) {
            answers.push(self.heard_at.saturating_since(at));
        }
        Ok(answers)
    }

    fn came(&mut self, bytes: u64) {
        let room = self.role.reads.saturating_sub(self.read);
        self.read += bytes.min(room);
        self.early += bytes.saturating_sub(room);
        self.read_at = now();
    }

    /// Reads what there is; whether there was something.
    fn take(&mut self) -> io::Result<bool> {
        let mut some = false;
        while self.to_come > 0 {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed it before its end")),
                Ok(n) => {
                    self.came(n as u64);
                    self.to_come = self.to_come.saturating_sub(n as u64);
                    some = true;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if some && self.role.options.quickack == Some(true) {
            options::quickack(&self.stream, true);
        }
        Ok(some)
    }

    /// Reads until so many bytes of the pass have come.
    fn read_until(&mut self, bytes: u64) -> io::Result<()> {
        while self.read < bytes {
            if !self.take()? {
                wait(&self.stream, PollFlags::IN, None, self.role.until)?;
            }
        }
        self.heard_at = self.read_at;
        Ok(())
    }

    /// Lets time go by, and reads meanwhile, as programs with a reader of their own do.
    fn think(&mut self, until: Instant<Monotonic>) -> io::Result<()> {
        while now() < until {
            if self.to_come == 0 {
                // Nothing more comes: an end of the stream is no news.
                std::thread::sleep(until.saturating_since(now()).into());
            } else if wait(&self.stream, PollFlags::IN, Some(until), self.role.until)? {
                let heard = self.heard_at;
                self.take()?;
                self.heard_at = heard;
            }
        }
        Ok(())
    }

    /// Gives the kernel so many bytes in one write where they fit into its buffer, and reads where
    /// it has no room for them.
    fn write(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        // The kernel lets a write fill a packet of 64 KiB, however small the buffer is; a program
        // that is held up by its buffer writes less at a time, and powers of two: a whole number of
        // segments would leave nothing behind to be filled up, so that the buffer held more up.
        let buffer = self.role.options.send_buffer_bytes.map_or(CHUNK, |buffer| buffer as usize / 4);
        let most = 1 << buffer.clamp(1_024, CHUNK).ilog2();
        while left > 0 {
            self.look();
            let chunk = usize::try_from(left).map_or(most, |left| left.min(most));
            match self.stream.write(&self.payload[..chunk]) {
                Ok(n) => left -= n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let both = PollFlags::IN | PollFlags::OUT;
                    let flags = if self.to_come == 0 { PollFlags::OUT } else { both };
                    wait(&self.stream, flags, None, self.role.until)?;
                    self.take()?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Closes its direction, and waits for the peer's close: what was written is acknowledged then.
    fn close(&mut self) -> io::Result<()> {
        // A FIN would push out what Nagle's algorithm holds back, which the original's did not.
        let waits = |info: TcpInfo| info.unacked_segments > 0 || info.notsent_bytes > 0;
        while now() < self.role.until && TcpInfo::of(&self.stream).is_some_and(waits) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stream.shutdown(std::net::Shutdown::Write)?;
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.stream, PollFlags::IN, None, self.role.until)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Waits for a socket, at most to `wake`; whether it is ready.
fn wait(
    socket: &impl AsFd,
    flags: PollFlags,
    wake: Option<Instant<Monotonic>>,
    until: Instant<Monotonic>,
) -> io::Result<bool> {
    let to = wake.map_or(until, |wake| wake.min(until));
    let left = Duration::from(to.saturating_since(now()));
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let fd = socket.as_fd();
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&timeout)) {
        Ok(0) if now() >= until => Err(io::Error::new(io::ErrorKind::TimedOut, "the script did not come to its end")),
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
