//! What the machine itself adds to a path: from the sending host's socket to its device, and from
//! the path's write to the receiving host. Short delays are asked for less by it, so that hosts see
//! the delay that was asked for.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use clock::{Instant, Nanos, Realtime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use timestamping::{BatchSize, Receiver, Request};

use crate::end::End;

/// Datagrams each way that make the figure.
const ENOUGH: usize = 40;
/// Datagrams each way that are tried for it: the kernel begins to stamp a moment after it is asked
/// to.
const TRIED: usize = 120;
/// How long a datagram is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// More than this is of a machine that was busy at that moment, not of the path.
const MOST: Nanos = Nanos::from_micros(150);
/// Datagrams each way that show what hosts see, each after a pause: what follows another finds CPUs
/// awake.
const PROBES: usize = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// A socket in each host.
pub(crate) struct Sockets([UdpSocket; 2]);

impl Sockets {
    /// # Errors
    /// Where the hosts give no sockets.
    pub(crate) fn open(ends: [End<'_>; 2]) -> io::Result<Self> {
        let open = |end: End<'_>| -> io::Result<UdpSocket> {
            let at = end.address.ipv4();
            let socket = end.run(|| UdpSocket::bind((at, 0))).map_err(io::Error::other)??;
            socket.set_nonblocking(true)?;
            Request::new().receive_software().enable(&socket).map_err(io::Error::other)?;
            Ok(socket)
        };
        Ok(Self([open(ends[0])?, open(ends[1])?]))
    }

    /// The shortest time that a datagram takes, from the call that sends it to the receiving
    /// kernel's stamp: from `a` to `b`, and back. Each is sent as soon as the one before has come:
    /// neither a busy moment nor a CPU that has to leave its idle state must make a path shorter
    /// than asked. Zero where the kernel does not stamp.
    ///
    /// # Errors
    /// Where a socket fails.
    pub(crate) fn shortest(&self) -> io::Result<[Nanos; 2]> {
        let shortest = |times: Vec<Nanos>| {
            let shortest = times.iter().min().filter(|_| times.len() == ENOUGH);
            shortest.copied().unwrap_or_default().min(MOST)
        };
        let [there, back] = self.each_way(ENOUGH, Duration::ZERO)?;
        Ok([shortest(there), shortest(back)])
    }

    /// How long single datagrams take, each way.
    ///
    /// # Errors
    /// Where a socket fails.
    pub(crate) fn probes(&self) -> io::Result<[Vec<Nanos>; 2]> {
        self.each_way(PROBES, PAUSE)
    }

    fn each_way(&self, enough: usize, pause: Duration) -> io::Result<[Vec<Nanos>; 2]> {
        let [a, b] = &self.0;
        Ok([one_way(a, b, enough, pause)?, one_way(b, a, enough, pause)?])
    }
}

fn one_way(from: &UdpSocket, to: &UdpSocket, enough: usize, pause: Duration) -> io::Result<Vec<Nanos>> {
    let address = to.local_addr()?;
    let mut receiver = Receiver::new(BatchSize { messages: 1, payload: 64, control: 256 });
    let mut times = Vec::with_capacity(enough);
    for _ in 0..TRIED.min(enough * 3) {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let sent: Instant<Realtime> = timestamping::now();
        from.send_to(&[0; 16], address)?;
        let mut stamp = None;
        if retry_on_intr(|| poll(&mut [PollFd::new(to, PollFlags::IN)], Some(&PATIENCE)))? > 0 {
            receiver.receive(to, |r| stamp = r.ok().and_then(|r| r.times.software)).map_err(io::Error::other)?;
        }
        times.extend(stamp.and_then(|stamp| stamp.since(sent).ok()));
        if times.len() == enough {
            break;
        }
    }
    Ok(times)
}
