//! What the machine itself adds to a path: from the sending host's socket to the path's read, and from its write to the receiving
//! host. Short delays are asked for less by it, so that hosts see the delay that was asked for.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use clock::{Instant, Nanos, Realtime};
use timestamping::{BatchSize, Receiver, Request};

use crate::host::{Host, Side};

/// Datagrams each way that make the figure.
const ENOUGH: usize = 15;
/// Datagrams each way that are tried for it: the kernel begins to stamp a moment after it is asked to.
const TRIED: usize = 60;
/// Between two datagrams, so that the path's threads sleep as they do between short exchanges.
const PAUSE: Duration = Duration::from_micros(500);
/// How long a datagram is waited for.
const PATIENCE: Duration = Duration::from_millis(20);
/// More than this is of a machine that was busy at that moment, not of the path.
const MOST: Nanos = Nanos::from_micros(150);

/// The time that a datagram takes over a path without delay, from the call that sends it to the receiving kernel's stamp: from `a` to
/// `b`, and back. A quarter of them take no longer: what a busy moment adds to the others must not make a path shorter than asked.
/// Zero where the kernel does not stamp.
///
/// # Errors
/// Where the hosts give no sockets.
pub(crate) fn measure(hosts: [Host<'_>; 2]) -> io::Result<[Nanos; 2]> {
    let open = |host: Host<'_>, at: Ipv4Addr| -> io::Result<UdpSocket> {
        let socket = host.run(|| UdpSocket::bind((at, 0))).map_err(io::Error::other)??;
        socket.set_nonblocking(true)?;
        Request::new().receive_software().enable(&socket).map_err(io::Error::other)?;
        Ok(socket)
    };
    let sockets = [open(hosts[0], Side::A.ipv4())?, open(hosts[1], Side::B.ipv4())?];
    let [a, b] = &sockets;
    Ok([one_way(a, b)?, one_way(b, a)?])
}

fn one_way(from: &UdpSocket, to: &UdpSocket) -> io::Result<Nanos> {
    let address = to.local_addr()?;
    let mut receiver = Receiver::new(BatchSize { messages: 1, payload: 64, control: 256 });
    let mut times = Vec::with_capacity(ENOUGH);
    for _ in 0..TRIED {
        std::thread::sleep(PAUSE);
        let sent: Instant<Realtime> = timestamping::now();
        from.send_to(&[0; 16], address)?;
        let mut stamp = None;
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            let came =
                receiver.receive(to, |r| stamp = r.ok().and_then(|r| r.times.software)).map_err(io::Error::other)?;
            if came > 0 {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        times.extend(stamp.and_then(|stamp| stamp.since(sent).ok()));
        if times.len() == ENOUGH {
            break;
        }
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 4).copied().filter(|_| times.len() == ENOUGH).unwrap_or_default().min(MOST))
}
