//! sock_diag(7): the sockets of one network namespace, and a report of each that is closed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use record::socket::Transport;
use record::{Instant, Monotonic};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::message::{DONE, ERROR, Message, messages, number, request};

/// How many sockets of a protocol a file such as `/proc/net/sockstat` counts; `None` where it has
/// no such line.
fn in_use(text: &str, transport: Transport) -> Option<u64> {
    let name = transport.name().to_uppercase();
    let line = text.lines().find_map(|line| {
        let (of, rest) = line.split_once(": inuse ")?;
        (of == name || of.strip_suffix('6') == Some(&name)).then_some(rest)
    })?;
    line.split(' ').next()?.parse().ok()
}

/// The kernel writes at most so much at once.
const CHUNK: usize = 1 << 16;
/// Room for reports of sockets that are closed between two readings.
const ROOM: usize = 1 << 21;
/// An answer takes microseconds: whoever waits longer than this waits in vain.
const PATIENCE: Duration = Duration::from_secs(5);
/// The groups of `<linux/sock_diag.h>` that report what is closed: TCP of IPv4 and IPv6.
const CLOSED: u32 = 1 << 0 | 1 << 2;

/// Two sockets in one network namespace, which they are of wherever they are read, and the
/// kernel's counts of its sockets.
#[derive(Debug)]
pub(super) struct Diagnostics {
    asks: OwnedFd,
    closed: OwnedFd,
    /// Of IPv4 and IPv6; `None` where there is no such file.
    counts: [Option<File>; 2],
}

/// Each family with the file that counts its sockets.
const FAMILIES: [(AddressFamily, &str); 2] = [
    (AddressFamily::INET, "/proc/thread-self/net/sockstat"),
    (AddressFamily::INET6, "/proc/thread-self/net/sockstat6"),
];
/// Such a file is a few hundred bytes.
const COUNTS: usize = 1 << 10;

impl Diagnostics {
    /// In the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        let open = |groups, flags| -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | flags;
            let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
            net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
            Ok(socket)
        };
        let asks = open(0, SocketFlags::empty())?;
        sockopt::set_socket_timeout(&asks, sockopt::Timeout::Recv, Some(PATIENCE))?;
        let closed = open(CLOSED, SocketFlags::NONBLOCK)?;
        // Without the right to more the usual room has to do.
        let _ = sockopt::set_socket_recv_buffer_size_force(&closed, ROOM)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&closed, ROOM));
        Ok(Self { asks, closed, counts: FAMILIES.map(|(_, file)| File::open(file).ok()) })
    }

    /// Each socket of TCP and UDP. The kernel has a dump of each family and protocol, for which it
    /// walks the table of all namespaces: where the namespace has no such socket, none is asked
    /// for.
    pub(super) fn dump(&self, each: &mut dyn FnMut(Message<'_>)) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        for ((family, _), counts) in FAMILIES.into_iter().zip(&self.counts) {
            let mut text = [0; COUNTS];
            let read = counts.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
            let counted = read.map(|read| String::from_utf8_lossy(&text[..read]).into_owned());
            for transport in Transport::ALL {
                if counted.as_deref().and_then(|text| in_use(text, transport)) == Some(0) {
                    continue;
                }
                net::send(&self.asks, &request(family.as_raw() as u8, transport), SendFlags::empty())?;
                let mut filled = timestamping::now();
                while !self.chunk(&mut buffer, (transport, &mut filled), each)? {}
            }
        }
        Ok(())
    }

    /// Reads a part of an answer, which the kernel had filled at this moment; gives whether it was
    /// the last. The kernel fills the first part when it is asked, and the next one when a part is
    /// taken: that is the moment of the next.
    fn chunk(
        &self,
        buffer: &mut [u8],
        (transport, filled): (Transport, &mut Instant<Monotonic>),
        each: &mut dyn FnMut(Message<'_>),
    ) -> io::Result<bool> {
        let (length, _) = net::recv(&self.asks, &mut *buffer, RecvFlags::empty())?;
        let read = std::mem::replace(filled, timestamping::now());
        for (kind, body) in messages(&buffer[..length]) {
            match kind {
                DONE => return Ok(true),
                ERROR => match number(body, 0).unwrap_or(0).cast_signed() {
                    0 => return Ok(true),
                    // A kernel without diagnostics of this kind has no such sockets to show.
                    error if -error == rustix::io::Errno::NOENT.raw_os_error() => return Ok(true),
                    error => return Err(io::Error::from_raw_os_error(-error)),
                },
                _ => each(Message { body, transport, read }),
            }
        }
        Ok(length == 0)
    }

    /// Each socket that was closed since the last call, as of this moment; gives whether none is
    /// missed.
    pub(super) fn closed(&self, read: Instant<Monotonic>, each: &mut dyn FnMut(Message<'_>)) -> bool {
        let mut buffer = vec![0; CHUNK];
        let mut whole = true;
        loop {
            match net::recv(&self.closed, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) if length > 0 => messages(&buffer[..length])
                    .filter(|(kind, _)| !matches!(*kind, DONE | ERROR))
                    .for_each(|(_, body)| each(Message { body, transport: Transport::Tcp, read })),
                Err(rustix::io::Errno::NOBUFS) => whole = false,
                _ => return whole,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_namespace_has_of_each_protocol_is_read() {
        let v4 =
            "sockets: used 290\nTCP: inuse 12 orphan 0 tw 3 alloc 15 mem 2\nUDP: inuse 0 mem 1\nUDPLITE: inuse 7\n";
        let v6 = "TCP6: inuse 0\nUDP6: inuse 3\nUDPLITE6: inuse 0\n";
        let read = |text| Transport::ALL.map(|transport| in_use(text, transport));
        assert_eq!((read(v4), read(v6), read("")), ([Some(12), Some(0)], [Some(0), Some(3)], [None; 2]));
    }

    #[test]
    fn a_family_with_sockets_is_listed_and_one_without_is_not_asked_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = |diagnostics: &Diagnostics| {
            let (mut found, mut last) = (false, timestamping::now());
            let each = &mut |message: Message<'_>| {
                assert!(message.read >= last, "parts come in order");
                last = message.read;
                let socket = message.socket(1);
                found |= socket.is_some_and(|socket| socket.local.port() == port);
            };
            diagnostics.dump(each).unwrap();
            assert!(last <= timestamping::now());
            found
        };
        let mut diagnostics = Diagnostics::open().unwrap();
        assert!(found(&diagnostics));
        let empty = tempfile("TCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0\nUDP: inuse 0 mem 0\n");
        diagnostics.counts[0] = Some(empty);
        assert!(!found(&diagnostics));
        diagnostics.counts = [None, None];
        assert!(found(&diagnostics), "without counts everything is asked for");
    }

    fn tempfile(text: &str) -> File {
        let path = std::env::temp_dir().join(format!("wirelapse-sockstat-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }
}
