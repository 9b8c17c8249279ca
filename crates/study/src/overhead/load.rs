//! The load that is observed: one long-lived connection over the loopback of a separate network namespace, its sender bound to
//! one CPU and its receiver to another.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

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
        // SAFETY: a zeroed set is an empty one.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live set of the given size.
        if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
            return Err(step("ask which CPUs there are")(std::io::Error::last_os_error()));
        }
        // SAFETY: the numbers are below the size of the set.
        let mut allowed = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
        match (allowed.next(), allowed.next()) {
            (Some(sender), Some(others)) => Ok(Self { sender, others }),
            _ => Err(Error::Setting("what observing costs is measured on two CPUs, and here is only one".into())),
        }
    }
}

/// What one slice of time showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// Sends, or exchanges, a second.
    pub rate: f64,
    /// CPU time of the sending thread for each, ns. The kernel's work on loopback up to the receiver's socket is in it.
    pub cpu_ns: f64,
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

/// A new network namespace for the calling thread and those that it starts from then on, with loopback up.
pub(super) fn own_network() -> Result<(), Error> {
    // SAFETY: unshare changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(step("make a network namespace (this needs root)")(std::io::Error::last_os_error()));
    }
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(step("open a socket"))?;
    // SAFETY: ifreq is plain data; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a live ifreq with a name that ends in a zero byte.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } != 0 {
        return Err(step("bring loopback up")(std::io::Error::last_os_error()));
    }
    Ok(())
}

/// Cubic, which does not pace, whatever the machine's default is.
fn unpaced(socket: &TcpStream) -> Result<(), Error> {
    let name = b"cubic";
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: the option takes a name of the given length.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, name.as_ptr().cast(), name.len() as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(step("choose cubic for a socket")(std::io::Error::last_os_error())) }
}

impl Connection {
    /// Opens it in the calling thread's network namespace. The receiver is a thread that ends with the connection.
    pub fn open(load: Load, cpus: Cpus) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("listen on loopback"))?;
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
                let _ = pin_this_thread(cpus.others);
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
        Ok(Slice { rate: count as f64 * 1e9 / (last - begin) as f64, cpu_ns, p99_ns })
    }

    fn receive(&mut self) -> Result<(), Error> {
        self.client.read_exact(&mut self.reply).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => step("receive a response: the receiver ended")(source),
            _ => step("receive a response")(source),
        })
    }
}
