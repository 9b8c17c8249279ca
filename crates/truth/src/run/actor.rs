//! A program that plays a script and writes down what it did when.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::Socket;

use super::now;
use crate::plan::Act;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Doing {
    /// In `write`, perhaps asleep because the send buffer is full.
    Write,
    /// In `read`, asleep until something comes.
    Read,
    /// The same, to the end of what the peer sends.
    ReadOut,
    /// Something else.
    Think,
}

/// What a program did from when to when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub from: u64,
    pub to: u64,
    pub doing: Doing,
}

/// Calls that follow each other so closely are one.
const TOGETHER: u64 = 100_000;
/// How long a read waits before it looks at the deadline, and a write that began shortly before it.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Actor<'a> {
    socket: &'a Socket,
    deadline: Instant,
    spans: Vec<Span>,
    buffer: Vec<u8>,
}

/// The script cannot go on: the time is over, or the peer has gone.
struct Over;

impl<'a> Actor<'a> {
    pub(super) fn new(socket: &'a Socket, deadline: Instant) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { socket, deadline, spans: Vec::new(), buffer: vec![0; 1 << 20] }
    }

    /// Plays the script; closes; gives the account.
    pub(super) fn play(mut self, script: &[Act]) -> Vec<Span> {
        let played = self.all(script);
        // A peer that has gone is an end as well.
        _ = self.socket.shutdown(Shutdown::Write);
        if played.is_err() {
            // What is on its way when the time is over need not be waited for at length.
            self.deadline = self.deadline.max(Instant::now() + Duration::from_millis(300));
        }
        while self.call(Doing::ReadOut, |s| (&*s.socket).read(&mut s.buffer)).is_ok() {}
        self.spans
    }

    fn all(&mut self, script: &[Act]) -> Result<(), Over> {
        script.iter().try_for_each(|act| self.act(act))
    }

    fn act(&mut self, act: &Act) -> Result<(), Over> {
        match act {
            Act::Write { bytes, piece, pause_us } => self.pieces(*bytes, *piece, *pause_us, |s, size| {
                let mut left = size;
                while left > 0 {
                    // A program sleeps in `write` for as long as there is no room.
                    let time = s.deadline.saturating_duration_since(Instant::now());
                    _ = s.socket.set_write_timeout(Some(time.max(PATIENCE)));
                    left -= s.call(Doing::Write, |s| (&*s.socket).write(&s.buffer[..left]))?;
                }
                Ok(size)
            }),
            Act::Read { bytes, piece, pause_us } => self.pieces(*bytes, *piece, *pause_us, |s, size| {
                s.call(Doing::Read, |s| (&*s.socket).read(&mut s.buffer[..size]))
            }),
            Act::Think { us } => self.think(*us),
            Act::Repeat { times, acts } => (0..*times).try_for_each(|_| self.all(acts)),
            Act::Shutdown => self.socket.shutdown(Shutdown::Write).map_err(|_| Over),
            Act::Reset => {
                reset(self.socket);
                Err(Over)
            }
        }
    }

    /// `bytes` in pieces, with a pause between two.
    fn pieces(
        &mut self,
        bytes: u64,
        piece: u32,
        pause_us: u64,
        one: impl Fn(&mut Self, usize) -> Result<usize, Over>,
    ) -> Result<(), Over> {
        let mut left = bytes;
        while left > 0 {
            let most = left.min(piece.max(1).into()).min(self.buffer.len() as u64);
            left -= one(self, most as usize)? as u64;
            if pause_us > 0 && left > 0 {
                self.think(pause_us)?;
            }
        }
        Ok(())
    }

    fn think(&mut self, us: u64) -> Result<(), Over> {
        let from = now();
        let left = self.deadline.saturating_duration_since(Instant::now());
        thread::sleep(Duration::from_micros(us).min(left));
        self.note(from, Doing::Think);
        if Instant::now() < self.deadline { Ok(()) } else { Err(Over) }
    }

    /// One call, made again for as long as nothing comes of it; the bytes that it moved.
    fn call(&mut self, doing: Doing, mut call: impl FnMut(&mut Self) -> std::io::Result<usize>) -> Result<usize, Over> {
        let from = now();
        let done = loop {
            match call(self) {
                Ok(0) => break Err(Over),
                Ok(_) if doing == Doing::Write && Instant::now() >= self.deadline => break Err(Over),
                Ok(n) => break Ok(n),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if Instant::now() >= self.deadline {
                        break Err(Over);
                    }
                }
                Err(_) => break Err(Over),
            }
        };
        self.note(from, doing);
        done
    }

    fn note(&mut self, from: u64, doing: Doing) {
        let to = now();
        match self.spans.last_mut() {
            Some(last) if last.doing == doing && from < last.to + TOGETHER => last.to = to,
            _ => self.spans.push(Span { from, to, doing }),
        }
    }
}

/// Ends a connection with a RST, and keeps the descriptor: `connect` to no family (tcp_disconnect).
fn reset(socket: &Socket) {
    // SAFETY: numbers alone, for which zero is a value.
    let mut nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
    nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the address, which lives through the call.
    unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
}
