//! The connection on which a test is asked for and reported: plain, or within TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Nanos;
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection, Stream};

use crate::error::{Error, may_retry};
use crate::stop::Stop;
use crate::timing;
use crate::tls::Trusted;
use crate::wire::SLICE;

/// Such a connection. What is measured never goes over one within TLS.
pub(crate) struct Channel {
    stream: Arc<TcpStream>,
    session: Option<Mutex<Session>>,
}

struct Session {
    tls: Connection,
    /// What was read before it was known to be TLS.
    early: io::Cursor<Vec<u8>>,
}

trait Both: Read + Write {}

impl<T: Read + Write> Both for T {}

/// The socket below TLS.
struct Below<'a> {
    early: &'a mut io::Cursor<Vec<u8>>,
    stream: &'a TcpStream,
}

impl Read for Below<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.early.read(buffer)? {
            0 => self.stream.read(buffer),
            early => Ok(early),
        }
    }
}

impl Write for Below<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel {
    /// Without TLS.
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), session: None }
    }

    /// Goes on within TLS, to a server that `trusted` recognises. The handshake follows with the
    /// first write.
    ///
    /// # Errors
    /// [`Error::Tls`] where the certificate file cannot be used.
    pub fn within_tls(self, trusted: &Trusted, peer: SocketAddr) -> Result<Self, Error> {
        let tls =
            trusted.load().and_then(|(config, name)| ClientConnection::new(config, name).map_err(|e| e.to_string()));
        let tls = tls.map_err(|why| Error::Tls { peer, why })?;
        let session = Session { tls: tls.into(), early: io::Cursor::default() };
        Ok(Self { session: Some(Mutex::new(session)), ..self })
    }

    /// Sends the first bytes of a client, and with them the handshake of TLS, which may take so
    /// long.
    ///
    /// # Errors
    /// [`Error::Tls`] where the handshake fails; [`Error::Io`] with what was being done;
    /// [`Error::Stopped`].
    pub fn begin(
        &self,
        peer: SocketAddr,
        mut bytes: &[u8],
        (patience, stop): (Nanos, &Stop),
        during: &'static str,
    ) -> Result<(), Error> {
        self.set_read_timeout(timing::timeout(SLICE)).map_err(Error::io(during))?;
        let deadline = timing::now().after(patience);
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                // A handshake goes on where it was.
                Err(e) if may_retry(&e) && timing::now() < deadline => {}
                Err(source) if self.is_private() => return Err(Error::tls(peer, &source)),
                Err(source) => return Err(Error::io(during)(source)),
            }
            if stop.asked() {
                return Err(Error::Stopped);
            }
        }
        self.with_session(|stream| stream.flush()).unwrap_or(Ok(())).map_err(|source| Error::tls(peer, &source))
    }

    /// Goes on within TLS, on the server; `early` was read already.
    ///
    /// # Errors
    /// Of the configuration.
    pub fn accept_tls(&mut self, config: Arc<ServerConfig>, early: Vec<u8>) -> Result<(), rustls::Error> {
        let tls = ServerConnection::new(config)?.into();
        self.session = Some(Mutex::new(Session { tls, early: io::Cursor::new(early) }));
        Ok(())
    }

    /// Whether it is within TLS.
    pub fn is_private(&self) -> bool {
        self.session.is_some()
    }

    /// The connection below.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// As [`Read::read`]; zero where the peer has ended its side.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with_session(|stream| stream.read(buffer)).unwrap_or_else(|| (&*self.stream).read(buffer))
    }

    /// As [`Write::write_all`].
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.with_session(|stream| stream.write_all(bytes).and_then(|()| stream.flush()))
            .unwrap_or_else(|| (&*self.stream).write_all(bytes))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.with_session(|stream| stream.write(bytes)).unwrap_or_else(|| (&*self.stream).write(bytes))
    }

    /// As of [`TcpStream`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// As of [`TcpStream`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_write_timeout(timeout)
    }

    /// Ends this side. The peer may go on.
    pub fn end_writing(&self) {
        if let Some(session) = &self.session {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.tls.send_close_notify();
            // A peer that is gone needs no word of it.
            session.tls.write_tls(&mut &*self.stream).ok();
        }
        self.stream.shutdown(Shutdown::Write).ok();
    }

    fn with_session<T>(&self, act: impl FnOnce(&mut dyn Both) -> io::Result<T>) -> Option<io::Result<T>> {
        let session = self.session.as_ref()?;
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let Session { tls, early } = &mut *session;
        let mut below = Below { early, stream: &self.stream };
        Some(match tls {
            Connection::Client(tls) => act(&mut Stream::new(tls, &mut below)),
            Connection::Server(tls) => act(&mut Stream::new(tls, &mut below)),
        })
    }
}

impl std::os::fd::AsFd for Channel {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
