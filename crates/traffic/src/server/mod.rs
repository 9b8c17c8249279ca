//! The server: one TCP port and the UDP port of the same number answer every workload and stock iperf3 clients.
//!
//! A thread for each connection, all of them bounded by [`Limits`]. Whoever connects has [`Limits::handshake_ms`] in all
//! to say what it wants; no client holds memory that was only announced.
//!
//! [`Limits`]: crate::Limits
//! [`Limits::handshake_ms`]: crate::Limits::handshake_ms

pub(crate) mod accounts;
mod config;
mod datagrams;
mod iperf3;
pub(crate) mod lasting;
pub(crate) mod listening;
mod lock;
mod own;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Nanos;
use socket2::Socket;

use crate::error::Error;
use crate::timing;
use crate::wire::{OPENING_BYTES, Opening, ReadError, read_by};

use accounts::Shared;
pub use accounts::{Counts, Event, Served};
pub use config::ServerConfig;
use listening::{SLICE, canonical, listener};

/// A server that runs until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    local: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers from threads in the caller's network namespace.
    ///
    /// # Errors
    /// [`Error::Listen`] where the address cannot be had.
    pub fn start(config: ServerConfig) -> Result<Self, Error> {
        Self::start_with(config, |_| {})
    }

    /// As [`Server::start`]; `tell` hears of every test as it begins and ends, from many threads.
    ///
    /// # Errors
    /// [`Error::Listen`] where the address cannot be had.
    pub fn start_with(config: ServerConfig, tell: impl Fn(Event) + Send + Sync + 'static) -> Result<Self, Error> {
        let (listener, udp, local) = listen(config.listen)?;
        let shared = Arc::new(Shared::new(config, Box::new(tell)));
        let accepting = {
            let shared = shared.clone();
            move || accept_loop(&shared, &listener)
        };
        let receiving = {
            let shared = shared.clone();
            move || datagrams::receive_loop(&shared, udp, local)
        };
        let failed = Error::io("starting the server's threads");
        let first = std::thread::Builder::new().name("serve-tcp".into()).spawn(accepting).map_err(failed)?;
        let mut server = Self { shared, local, threads: vec![first] };
        let failed = Error::io("starting the server's threads");
        server.threads.push(std::thread::Builder::new().name("serve-udp".into()).spawn(receiving).map_err(failed)?);
        Ok(server)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Ends every test, closes every connection, and gives the final counts.
    pub fn stop(mut self) -> Counts {
        self.end();
        self.shared.counts()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
        // The threads of connections look at the flag every fifth of a second.
        for _ in 0..500 {
            if self.shared.connections_open() == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The TCP listener and the UDP socket of the same port.
fn listen(address: SocketAddr) -> Result<(Socket, Socket, SocketAddr), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let failed = |source| Error::Listen { address, source };
        let tcp = listener(address, 1024).map_err(failed)?;
        let local = tcp.local_addr().ok().and_then(|a| a.as_socket()).unwrap_or(address);
        match datagrams::bind(local) {
            Ok(udp) => return Ok((tcp, udp, local)),
            // A free TCP port with its UDP port taken: the next one.
            Err(e) if address.port() == 0 && e.kind() == io::ErrorKind::AddrInUse && tries < 32 => {}
            Err(source) => return Err(failed(source)),
        }
    }
}

fn accept_loop(shared: &Arc<Shared>, listener: &Socket) {
    // iperf3 distinguishes flows by the order in which they were accepted, and each opening is read on its own thread.
    let mut order = 0;
    let mut next_check = timing::now();
    while !shared.stopping() {
        let now = timing::now();
        if now >= next_check {
            next_check = now.after(SLICE.into());
            shared.lasting.check(false, Nanos::from_millis(shared.config.limits.idle_ms), now);
        }
        match listener.accept() {
            Ok((socket, peer)) => {
                let Some(peer) = peer.as_socket() else { continue };
                let Some(slot) = shared.take_connection() else {
                    // A byte that an iperf3 client takes for "busy", and ours too.
                    let _ = io::Write::write(&mut &socket, &[0xff]);
                    shared.count(|c| &c.turned_away);
                    continue;
                };
                order += 1;
                let on_thread = shared.clone();
                let spawned = std::thread::Builder::new().name("serve-connection".into()).spawn(move || {
                    connection(&on_thread, TcpStream::from(socket), canonical(peer), order);
                    drop(slot);
                });
                if spawned.is_err() {
                    shared.count(|c| &c.turned_away);
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // Out of descriptors, or the peer gave up: neither is worth spinning for.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    shared.lasting.check(true, Nanos::ZERO, timing::now());
}

/// Finds out who it is and serves it.
fn connection(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, order: u64) {
    let deadline = timing::now().after(Nanos::from_millis(shared.config.limits.handshake_ms));
    let Some(waiting) = shared.wait_from(peer.ip()) else {
        let _ = io::Write::write(&mut &stream, &[0xff]);
        shared.count(|c| &c.turned_away);
        return;
    };
    let mut bytes = [0; OPENING_BYTES];
    let opening = match read_by(&stream, &mut bytes, deadline, &shared.stop) {
        Ok(()) => Opening::parse(&bytes),
        Err(ReadError::Wire(e)) => Err(e),
        Err(_) => {
            shared.count(|c| &c.silent);
            return;
        }
    };
    match opening {
        Ok(Opening::Iperf3(cookie)) => {
            if let Some(stream) = shared.hand_over(&cookie, order, stream) {
                iperf3::serve(shared, &stream, peer, cookie, waiting);
            }
        }
        Ok(Opening::Own) => own::serve(shared, stream, peer, waiting),
        Err(why) => {
            shared.count(|c| &c.garbage);
            shared.tell(Event::Garbage { peer, why });
        }
    }
}
