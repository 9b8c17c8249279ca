//! The server: one TCP port and the UDP port of the same number answer every workload and stock
//! iperf3 clients.
//!
//! One thread hears all who connect until they have said what they want, for which they have
//! [`Limits::handshake_ms`] in all; then a thread serves each, so that no test waits for another.
//! All are bounded by [`Limits`]; no client holds memory that was only announced.
//!
//! [`Limits`]: crate::Limits
//! [`Limits::handshake_ms`]: crate::Limits::handshake_ms

pub(crate) mod accounts;
pub(crate) mod arrivals;
mod config;
mod datagrams;
mod http;
pub(crate) mod iperf3;
pub(crate) mod listening;
pub(crate) mod lock;
mod passes;
pub(crate) mod reflector;
mod rr;
pub(crate) mod sessions;
mod udp;
pub(crate) mod waiting;
pub(crate) mod workload;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::Socket;

use crate::error::Error;
use crate::timing;

use accounts::Shared;
pub use accounts::{Counts, Event, Served};
pub use config::ServerConfig;
use listening::listener;

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
        let shared = Arc::new(Shared::new(config, Box::new(tell))?);
        let accepting = {
            let shared = shared.clone();
            move || {
                if let Err(error) = arrivals::accept_loop(&shared, &listener) {
                    shared.tell(Event::Failed { error: error.to_string() });
                }
                shared.sessions.check(true, timing::now());
            }
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
        self.shared.stop.ask();
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
