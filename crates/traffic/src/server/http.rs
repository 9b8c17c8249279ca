//! Responsiveness, as its draft defines a server: a configuration, a large and a small object, and
//! a place to upload to, over HTTP/2 within TLS.

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clock::{Instant, Monotonic, Nanos};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Request, Response, StatusCode, header};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsAcceptor;

use super::accounts::{Event, Served, Shared};
use super::config::Shown;
use super::sessions::Session;
use super::waiting::{Held, Waits};
use crate::channel::Channel;
use crate::limits::{Refusal, WRONG_TOKEN};
use crate::tcp_info::TcpInfo;
use crate::timing;
use crate::tls::Identity;
use crate::workload::Workload;

/// What the large object has at least (draft-ietf-ippm-responsiveness-09, "Responsiveness Test
/// Server").
const LARGE: u64 = 8 << 30;
/// One write of it.
const CHUNK: usize = 16 << 10;
/// What a client may send ahead of our reading, bytes, once it has shown that it may ask.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// The same before that.
const FIRST_WINDOW: u32 = 64 << 10;
/// What waits within HTTP/2 for the socket, bytes: answers to probes stand behind it.
const SEND_BUFFER: usize = 64 << 10;
/// Requests under way on one connection, at most.
const REQUESTS: u32 = 600;
/// Bytes of one request's header.
const HEADER: u32 = 4 << 10;
/// What a connection takes: its thread, TLS, and HTTP/2 with what it buffers, bytes.
const CONNECTION_MEMORY: u64 = 512 << 10;
/// Requests without the right token that end a connection.
const STRIKES: u32 = 3;
/// How long one that is told to go may take to.
const FAREWELL: Duration = Duration::from_secs(1);

/// Answers on one connection until its client ends it. `early` was read of it already. Without a
/// place, all that is asked is answered with 503.
pub(super) fn serve(
    shared: &Arc<Shared>,
    identity: &Identity,
    control: &Channel,
    early: Vec<u8>,
    peer: SocketAddr,
    waits: Option<Arc<Waits>>,
) {
    let Ok(stream) = control.stream().try_clone() else { return shared.count(|c| &c.turned_away) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(())) = (runtime, stream.set_nonblocking(true)) else {
        return shared.count(|c| &c.turned_away);
    };
    let memory = waits.as_ref().map(|_| shared.take_memory(CONNECTION_MEMORY));
    let waits = waits.filter(|_| matches!(memory, Some(Ok(_))));
    let longest = Duration::from_secs(shared.config.limits.duration_s);
    let connection = Connection { shared: shared.clone(), socket: control.stream().clone(), peer, waits };
    runtime.block_on(async {
        let over = async {
            let began = timing::now();
            while !shared.stopping() && timing::now().saturating_since(began) < longest.into() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = over => {}
            () = connection.answer_all(identity, stream, early) => {}
        }
    });
}

/// One client's.
#[derive(Clone)]
struct Connection {
    shared: Arc<Shared>,
    socket: Arc<std::net::TcpStream>,
    peer: SocketAddr,
    /// Its place among those that are not in the middle of a test; none where it has no place.
    waits: Option<Arc<Waits>>,
}

impl Connection {
    async fn answer_all(&self, identity: &Identity, stream: std::net::TcpStream, early: Vec<u8>) {
        let limits = &self.shared.config.limits;
        // Small answers leave without waiting for the ACK of what is before them.
        stream.set_nodelay(true).ok();
        let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
        let (read, write) = tokio::io::split(stream);
        let accepting =
            TlsAcceptor::from(identity.http.clone()).accept(tokio::io::join(Cursor::new(early).chain(read), write));
        let handshake = Duration::from_millis(limits.handshake_ms);
        let Ok(Ok(tls)) = tokio::time::timeout(handshake, accepting).await else {
            return self.shared.count(|c| &c.silent);
        };
        let mut builder = h2::server::Builder::new();
        builder
            .initial_window_size(FIRST_WINDOW)
            .initial_connection_window_size(FIRST_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(HEADER)
            .max_concurrent_streams(REQUESTS);
        let Ok(Ok(mut connection)) = tokio::time::timeout(handshake, builder.handshake::<_, Bytes>(tls)).await else {
            return self.shared.count(|c| &c.silent);
        };
        let under_way = Arc::new(AtomicU32::new(0));
        let (mut strikes, mut admitted, mut patience) = (0, false, Duration::from_millis(limits.idle_ms));
        loop {
            let (request, mut respond) = match tokio::time::timeout(patience, connection.accept()).await {
                Ok(Some(Ok(asked))) => asked,
                Err(_) if strikes < STRIKES && under_way.load(Ordering::Relaxed) > 0 => continue,
                _ => return,
            };
            if self.waits.is_none() {
                full(&mut respond).ok();
                patience = FAREWELL;
                connection.graceful_shutdown();
                continue;
            }
            // One after the other, so that many guesses at once are no faster than one.
            if let Err(refusal) = self.admit(&request) {
                self.shared.count(|c| &c.refused);
                self.shared.tell(Event::Refused { peer: self.peer, refusal });
                tokio::time::sleep(WRONG_TOKEN).await;
                whole(&mut respond, StatusCode::UNAUTHORIZED, "text/plain", Bytes::new()).ok();
                strikes += 1;
                if strikes >= STRIKES {
                    patience = FAREWELL;
                    connection.graceful_shutdown();
                }
                continue;
            }
            if !admitted {
                admitted = true;
                connection.set_target_window_size(CONNECTION_WINDOW);
                // Streams get what they may send ahead with their settings; without it uploads are
                // slower.
                connection.set_initial_window_size(STREAM_WINDOW).ok();
            }
            if let Some(waits) = &self.waits {
                waits.renew();
            }
            let (of, under_way) = (self.clone(), under_way.clone());
            under_way.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                // A client that takes its answer no more needs none.
                of.answer(request, respond).await.ok();
                under_way.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    fn admit(&self, request: &Request<RecvStream>) -> Result<(), Refusal> {
        let header = request.headers().get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        self.shared.config.admit(&Shown { within_tls: true, token, login: None })
    }

    async fn answer(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/.well-known/nq" | "/config") => {
                let host = request.uri().authority().map_or("", |a| a.as_str());
                whole(&mut respond, StatusCode::OK, "application/json", configuration(host).into())
            }
            (&Method::GET, "/small") => {
                whole(&mut respond, StatusCode::OK, "application/octet-stream", Bytes::from_static(b"0"))
            }
            (&Method::GET, "/large") => {
                let Some(mut underway) = self.begin() else { return full(&mut respond) };
                large(&mut respond, &self.socket, &mut underway).await
            }
            (&Method::POST, "/upload" | "/slurp") => {
                let Some(mut underway) = self.begin() else { return full(&mut respond) };
                let mut body = request.into_body();
                while let Some(data) = body.data().await {
                    let bytes = data?.len();
                    underway.received(bytes);
                    body.flow_control().release_capacity(bytes)?;
                }
                whole(&mut respond, StatusCode::OK, "text/plain", Bytes::new())
            }
            _ => whole(&mut respond, StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
        }
    }

    /// Takes the place of a load; none where all are taken.
    fn begin(&self) -> Option<Underway> {
        let session = self.shared.take_session(self.peer.ip(), self.socket.clone()).ok()?;
        self.shared.tell(Event::Began { peer: self.peer, workload: Workload::Responsiveness });
        Some(Underway {
            shared: self.shared.clone(),
            session,
            _held: self.waits.as_ref().map(Waits::hold),
            served: Served::new(self.peer, Workload::Responsiveness),
            began: timing::now(),
        })
    }
}

/// A load under way. Clients end one by closing its connection, so an end of any kind is the end of
/// a test.
struct Underway {
    shared: Arc<Shared>,
    session: Session,
    _held: Option<Held>,
    served: Served,
    began: Instant<Monotonic>,
}

impl Underway {
    fn received(&mut self, bytes: usize) {
        self.served.received_bytes += bytes as u64;
        self.session.advance(bytes as u64);
    }

    fn sent(&mut self, bytes: usize) {
        self.served.sent_bytes += bytes as u64;
        self.session.advance(bytes as u64);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.served.elapsed = timing::now().saturating_since(self.began);
        self.served.ended = self.session.ended().map(|reason| reason.why().into());
        self.shared.count(|c| &c.tests);
        self.shared.tell(Event::Ended(self.served.clone()));
    }
}

/// The names of this revision, and those that clients of earlier ones read.
fn configuration(host: &str) -> String {
    let url = |path: &str| format!("https://{host}/{path}");
    serde_json::json!({
        "version": 1,
        "urls": {
            "large_download_url": url("large"),
            "small_download_url": url("small"),
            "upload_url": url("upload"),
            "large_https_download_url": url("large"),
            "small_https_download_url": url("small"),
            "https_upload_url": url("upload"),
        },
    })
    .to_string()
}

fn whole(
    respond: &mut SendResponse<Bytes>,
    status: StatusCode,
    kind: &'static str,
    content: Bytes,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    let mut body = respond.send_response(response, content.is_empty())?;
    if content.is_empty() { Ok(()) } else { body.send_data(content, true) }
}

fn full(respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    whole(respond, StatusCode::SERVICE_UNAVAILABLE, "text/plain", Bytes::new())
}

async fn large(
    respond: &mut SendResponse<Bytes>,
    socket: &std::net::TcpStream,
    underway: &mut Underway,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, header::HeaderValue::from(LARGE));
    let mut body = respond.send_response(response, false)?;
    let zeros = Bytes::from(vec![0; CHUNK]);
    let (mut left, mut backlog) = (LARGE, Backlog::default());
    while left > 0 {
        backlog.keep_short(socket);
        body.reserve_capacity(CHUNK);
        let Some(capacity) = std::future::poll_fn(|context| body.poll_capacity(context)).await else { return Ok(()) };
        let bytes = (capacity?.min(CHUNK) as u64).min(left);
        left -= bytes;
        underway.sent(bytes as usize);
        body.send_data(zeros.slice(..bytes as usize), left == 0)?;
    }
    Ok(())
}

/// Unsent data in the socket: five milliseconds' worth, as the draft asks of an end that sends.
#[derive(Default)]
struct Backlog {
    set: Option<(Instant<Monotonic>, u64)>,
}

impl Backlog {
    fn keep_short(&mut self, socket: &std::net::TcpStream) {
        let now = timing::now();
        if self.set.is_some_and(|(at, _)| now.saturating_since(at) < Nanos::from_millis(100)) {
            return;
        }
        let Some(tcp) = TcpInfo::of(socket) else { return };
        let bytes_per_second = self.set.map_or(0.0, |(at, acked)| {
            tcp.acked_bytes.saturating_sub(acked) as f64 / now.saturating_since(at).as_secs_f64().max(1e-3)
        });
        self.set = Some((now, tcp.acked_bytes));
        let unsent = (bytes_per_second * 0.005).clamp(16_384.0, 4_194_304.0) as u32;
        // A socket that is going away may refuse.
        socket2::SockRef::from(socket).set_tcp_notsent_lowat(unsent).ok();
    }
}
