//! One HTTP/2 connection over TLS, each of its steps timed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use clock::Nanos;
use h2::client::SendRequest;
use http::{Method, Request, Uri, header};
use rustls::{ProtocolVersion, SupportedCipherSuite};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpSocket;

use super::endpoint::Endpoint;
use crate::error::Error;
use crate::timing;

/// How long a connection may take to be made.
const PATIENCE: Nanos = Nanos::from_secs(15);
/// What a peer may send ahead of reading, so that HTTP/2's own flow control does not limit what
/// TCP's window would let through.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// What waits within HTTP/2 for the socket, bytes: probes stand behind it.
const SEND_BUFFER: usize = 64 << 10;

/// Such a connection.
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    /// How long the TCP handshake took.
    pub tcp: Nanos,
    /// A round trip of the TLS handshake.
    pub tls: Nanos,
    /// The TLS version.
    pub version: Option<ProtocolVersion>,
    /// The socket, to look at.
    pub socket: Option<OwnedFd>,
}

impl Connection {
    /// Connects; the runtime of the caller drives it from then on.
    pub async fn open(to: &Endpoint) -> Result<Self, Error> {
        Self::open_within(to, PATIENCE).await
    }

    /// The same within a time.
    pub async fn open_within(to: &Endpoint, within: Nanos) -> Result<Self, Error> {
        tokio::time::timeout(within.into(), Self::make(to))
            .await
            .unwrap_or_else(|_| Err(Error::Connect { peer: to.address, source: std::io::ErrorKind::TimedOut.into() }))
    }

    async fn make(to: &Endpoint) -> Result<Self, Error> {
        let refused = |source| Error::Connect { peer: to.address, source };
        let socket = socket(to)?;
        let began = timing::now();
        let stream = socket.connect(to.address).await.map_err(refused)?;
        let tcp = timing::now().saturating_since(began);
        // A request follows what opens HTTP/2: Nagle's algorithm would hold it until that is
        // acknowledged, a round trip that no browser waits.
        stream.set_nodelay(to.options.nodelay.unwrap_or(true)).map_err(Error::io("TCP socket"))?;
        to.options.apply_connected(&stream, to.address.ip())?;
        let socket = std::os::fd::AsFd::as_fd(&stream).try_clone_to_owned().ok();
        let began = timing::now();
        let tls = to.tls.connect(to.name.clone(), stream).await.map_err(|e| Error::tls(to.address, &e))?;
        let took = timing::now().saturating_since(began);
        let session = tls.get_ref().1;
        let version = session.protocol_version();
        if session.alpn_protocol() != Some(b"h2") {
            let why =
                "the server does not speak HTTP/2; of `wirelapse serve` it needs --tls-cert and --tls-key".to_owned();
            return Err(Error::Tls { peer: to.address, why });
        }
        // TLS 1.3 is ready after one round trip, TLS 1.2 after two (RFC 8446, section 2; RFC 5246,
        // section 7.3).
        let round_trips =
            if session.negotiated_cipher_suite().is_some_and(|s| matches!(s, SupportedCipherSuite::Tls13(_))) {
                1
            } else {
                2
            };
        let broken = |e: h2::Error| Error::Http { url: to.small.to_string(), why: e.to_string() };
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .enable_push(false)
            .handshake::<_, Bytes>(tls)
            .await
            .map_err(broken)?;
        // What ends it is seen by the requests on it.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self { requests, tcp, tls: Nanos(took.0 / round_trips), version, socket })
    }

    /// Another handle for requests.
    pub fn requests(&self) -> SendRequest<Bytes> {
        self.requests.clone()
    }

    /// The content at `uri`, at most `longest` bytes of it.
    pub async fn get(&mut self, to: &Endpoint, uri: &Uri, longest: usize) -> Result<Vec<u8>, String> {
        get(self.requests(), to, uri, longest).await
    }
}

fn socket(to: &Endpoint) -> Result<TcpSocket, Error> {
    let of = Error::io("TCP socket");
    let socket = Socket::new(Domain::for_address(to.address), Type::STREAM, Some(Protocol::TCP)).map_err(of)?;
    to.options.apply_before_connect(&socket, to.address.ip())?;
    if let Some(local) = to.local {
        let address = std::net::SocketAddr::new(local, 0);
        socket.bind(&address.into()).map_err(|source| Error::Listen { address, source })?;
    }
    socket.set_nonblocking(true).map_err(Error::io("TCP socket"))?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Until a request may be made.
async fn ready(requests: SendRequest<Bytes>) -> Result<SendRequest<Bytes>, String> {
    requests.ready().await.map_err(|e| e.to_string())
}

fn request(method: Method, to: &Endpoint, uri: &Uri) -> Result<Request<()>, String> {
    let mut request = Request::builder()
        .method(method.clone())
        .uri(uri.clone())
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, concat!("wirelapse/", env!("CARGO_PKG_VERSION")));
    if method == Method::POST {
        request = request.header(header::CONTENT_TYPE, "application/octet-stream");
    }
    if let Some(token) = &to.token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(()).map_err(|e| e.to_string())
}

/// Asks for `uri` and reads all of it.
pub(super) async fn get(
    requests: SendRequest<Bytes>,
    to: &Endpoint,
    uri: &Uri,
    longest: usize,
) -> Result<Vec<u8>, String> {
    let mut requests = ready(requests).await?;
    let (response, _) = requests.send_request(request(Method::GET, to, uri)?, true).map_err(|e| e.to_string())?;
    let mut body = accepted(response.await.map_err(|e| e.to_string())?)?;
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|e| e.to_string())?;
        body.flow_control().release_capacity(data.len()).ok();
        all.extend_from_slice(&data);
        if all.len() > longest {
            return Err(format!("it is longer than {longest} bytes"));
        }
    }
    Ok(all)
}

fn accepted(response: http::Response<h2::RecvStream>) -> Result<h2::RecvStream, String> {
    match response.status() {
        http::StatusCode::OK => Ok(response.into_body()),
        http::StatusCode::UNAUTHORIZED => Err("the server wants a token (--token-file)".into()),
        status => Err(format!("the server answers {status}")),
    }
}

/// Downloads without end, counting what arrives.
pub(super) async fn download(
    requests: SendRequest<Bytes>,
    to: &Endpoint,
    counted: Arc<AtomicU64>,
) -> Result<(), String> {
    let mut requests = ready(requests).await?;
    loop {
        let (response, _) =
            requests.send_request(request(Method::GET, to, &to.large)?, true).map_err(|e| e.to_string())?;
        let mut body = accepted(response.await.map_err(|e| e.to_string())?)?;
        while let Some(data) = body.data().await {
            let data = data.map_err(|e| e.to_string())?;
            body.flow_control().release_capacity(data.len()).map_err(|e| e.to_string())?;
            counted.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        requests = ready(requests).await?;
    }
}

/// Uploads without end.
pub(super) async fn upload(requests: SendRequest<Bytes>, to: &Endpoint) -> Result<(), String> {
    let zeros = Bytes::from(vec![0; 16 << 10]);
    let mut requests = ready(requests).await?;
    let (mut response, mut body) =
        requests.send_request(request(Method::POST, to, &to.upload)?, false).map_err(|e| e.to_string())?;
    loop {
        body.reserve_capacity(zeros.len());
        let capacity = tokio::select! {
            answer = &mut response => {
                // A server that answers before the end wants no more.
                return Err(answer.map_or_else(|e| e.to_string(), |a| format!("the server answers {} to the upload", a.status())));
            }
            capacity = std::future::poll_fn(|context| body.poll_capacity(context)) => capacity,
        };
        match capacity {
            Some(Ok(capacity)) => {
                let data = zeros.slice(..capacity.min(zeros.len()));
                body.send_data(data, false).map_err(|e| e.to_string())?;
            }
            Some(Err(e)) => return Err(e.to_string()),
            None => return Err("the server ended the upload".into()),
        }
    }
}
