//! The load that is observed: one long-lived connection over the loopback of a separate network
//! namespace, its sender bound to one CPU and its receiver to another.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use machine::netlink;
use netlink_packet_route::link::LinkFlags;
use rustix::thread::CpuSet;
use traffic::{now, pin_this_thread};

use super::stamps::{Stamping, Stamps};
use crate::Error;

/// What the connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Sends of so many bytes, as fast as they are taken.
    Stream(usize),
    /// Requests and responses of 64 bytes, one at a time.
    Exchange,
}

/// Bytes of a request, and of a response.
const MESSAGE: usize = 64;

/// Reads that the receiver of a stream makes at most.
const READ: usize = 256 << 10;

impl Load {
    /// `1 KiB sends`, or `rr`.
    pub fn name(self) -> String {
        match self {
            Self::Stream(bytes) if bytes >= 1024 && bytes % 1024 == 0 => format!("{} KiB sends", bytes / 1024),
            Self::Stream(bytes) => format!("{bytes} B sends"),
            Self::Exchange => "rr".into(),
        }
    }

    /// A stable name for files: `send_1024`, or `rr`.
    pub fn key(self) -> String {
        match self {
            Self::Stream(bytes) => format!("send_{bytes}"),
            Self::Exchange => "rr".into(),
        }
    }
}

/// The CPUs that a measurement is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The sender's: what is measured happens here, and nothing else of the measurement runs here.
    pub sender: usize,
    /// The receiver's, and the observers' threads.
    pub others: usize,
}

impl Cpus {
    /// The first two that this thread may run on.
    ///
    /// # Errors
    /// [`Error::Setting`] where there is one alone.
    pub fn choose() -> Result<Self, Error> {
        let set =
            rustix::thread::sched_getaffinity(None).map_err(|error| step("ask which CPUs there are")(error.into()))?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
        match (allowed.next(), allowed.next()) {
            (Some(sender), Some(others)) => Ok(Self { sender, others }),
            _ => Err(Error::Setting("what observing costs is measured on two CPUs, and here is only one".into())),
        }
    }
}

/// What one slice of time showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Sends, or exchanges.
    pub count: u64,
    /// Those a second.
    pub rate: f64,
    /// CPU time of the sending thread for each, ns. The kernel's work on loopback up to the
    /// receiver's socket is in it.
    pub cpu_ns: f64,
    /// CPU time of all processes of the machine for each, from a rest before the warm-up to one
    /// after the slice, ns.
    pub machine_ns: f64,
    /// 99th percentile of the round trip, ns; of exchanges only.
    pub p99_ns: Option<f64>,
}

/// The connection.
pub(super) struct Connection {
    load: Load,
    client: TcpStream,
    port: u16,
    data: Vec<u8>,
    reply: [u8; MESSAGE],
}

fn step(step: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { step, source }
}

/// A new network namespace for the calling thread and those that it starts from then on, with
/// loopback up.
pub(super) fn own_network() -> Result<(), Error> {
    machine::enter_new_network().map_err(step("make a network namespace (this needs root)"))?;
    let up = netlink::Netlink::open()
        .and_then(|mut kernel| kernel.request(netlink::link_flags(netlink::LOOPBACK, LinkFlags::Up), 0));
    up.map_err(step("bring loopback up"))
}

/// A port of loopback to open connections to.
pub(super) fn listener() -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("listen on loopback"))
}

/// Cubic, which does not pace, whatever the machine's default is.
fn unpaced(socket: &TcpStream) -> Result<(), Error> {
    rustix::net::sockopt::set_tcp_congestion(socket, "cubic")
        .map_err(|error| step("choose cubic for a socket")(error.into()))
}

impl Connection {
    /// Opens it in the calling thread's network namespace. The receiver is a thread on that CPU,
    /// which ends with the connection.
    pub fn open(load: Load, receiver: usize) -> Result<Self, Error> {
        Self::open_to(&listener()?, load, receiver)
    }

    /// The same, to a port that other connections have too.
    pub fn open_to(listener: &TcpListener, load: Load, receiver: usize) -> Result<Self, Error> {
        let address = listener.local_addr().map_err(step("listen on loopback"))?;
        let client = TcpStream::connect(address).map_err(step("connect over loopback"))?;
        let (mut server, _) = listener.accept().map_err(step("accept over loopback"))?;
        for socket in [&client, &server] {
            unpaced(socket)?;
            // A stream leaves Nagle's algorithm on, as most do: its small sends then share packets.
            socket.set_nodelay(load == Load::Exchange).map_err(step("set TCP_NODELAY"))?;
        }
        // Room for the stamps of the ways that ask for some; the same in all.
        timestamping::reserve_stamps(&client, 4096).map_err(super::stamps::error)?;
        std::thread::Builder::new()
            .name("receiver".into())
            .spawn(move || {
                // Where it cannot be bound, the kernel chooses: noisier, not wrong.
                let _ = pin_this_thread(receiver);
                let mut buffer = vec![0; READ];
                match load {
                    Load::Stream(_) => while server.read(&mut buffer).is_ok_and(|n| n > 0) {},
                    Load::Exchange => {
                        let message = &mut buffer[..MESSAGE];
                        while server.read_exact(message).and_then(|()| server.write_all(message)).is_ok() {}
                    }
                }
            })
            .map_err(step("start a thread"))?;
        let bytes = if let Load::Stream(bytes) = load { bytes } else { MESSAGE };
        Ok(Self { load, client, port: address.port(), data: vec![0x5a; bytes], reply: [0; MESSAGE] })
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Carries the load for `length`; `stamps` is what the sender itself asks the socket for.
    pub fn slice(&mut self, length: Duration, stamps: Stamps) -> Result<Slice, Error> {
        let mut stamping = Stamping::begin(&self.client, stamps)?;
        let mut round_trips = Vec::new();
        // The clock is asked after so many.
        let turn = if self.load == Load::Exchange { 1 } else { 16 };
        let length = length.as_nanos() as u64;
        let (begin, cpu) = (now().as_nanos(), traffic::thread_cpu_time().0);
        let (mut last, mut count) = (begin, 0u64);
        loop {
            for _ in 0..turn {
                stamping.send(&self.client, &self.data)?;
            }
            count += turn;
            if self.load == Load::Exchange {
                self.receive()?;
            }
            let now = now().as_nanos();
            if self.load == Load::Exchange {
                round_trips.push((now - last) as f64);
            }
            last = now;
            if now - begin >= length {
                break;
            }
        }
        let cpu_ns = (traffic::thread_cpu_time().0 - cpu) as f64 / count as f64;
        stamping.end(&self.client)?;
        let p99_ns = stats::quantile(&round_trips, 0.99);
        let rate = count as f64 * 1e9 / (last - begin) as f64;
        Ok(Slice { count, rate, cpu_ns, machine_ns: f64::NAN, p99_ns })
    }

    /// Makes so many sends or exchanges; `stamping` is what the sender itself asks the socket for.
    pub fn carry(&mut self, count: u64, stamping: &mut Stamping) -> Result<(), Error> {
        for _ in 0..count {
            stamping.send(&self.client, &self.data)?;
            if self.load == Load::Exchange {
                self.receive()?;
            }
        }
        Ok(())
    }

    /// Begins to ask its socket for these stamps.
    pub fn stamping(&self, stamps: Stamps) -> Result<Stamping, Error> {
        Stamping::begin(&self.client, stamps)
    }

    /// Ends it.
    pub fn end(&self, stamping: Stamping) -> Result<(), Error> {
        stamping.end(&self.client)
    }

    fn receive(&mut self) -> Result<(), Error> {
        self.client.read_exact(&mut self.reply).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => step("receive a response: the receiver ended")(source),
            _ => step("receive a response")(source),
        })
    }
}
