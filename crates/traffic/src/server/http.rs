//! Responsiveness, as its draft defines a server: a configuration, a large and a small object, and a place to upload to, over HTTP/2
//! within TLS.

use std::io::Cursor;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
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

use super::accounts::{Event, Served, Shared, Waiting};
use crate::channel::Channel;
use crate::limits::token_matches;
use crate::tcp_info::TcpInfo;
use crate::timing;
use crate::tls::Identity;

/// What the large object has at least (draft-ietf-ippm-responsiveness-09, "Responsiveness Test Server").
const LARGE: u64 = 8 << 30;
/// One write of it.
const CHUNK: usize = 16 << 10;
/// What a client may send ahead of our reading, bytes.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// What waits within HTTP/2 for the socket, bytes: answers to probes stand behind it.
const SEND_BUFFER: usize = 64 << 10;
/// Requests under way on one connection, at most.
const REQUESTS: u32 = 600;

/// Answers on one connection until its client ends it. `early` was read of it already.
pub(super) fn serve(
    shared: &Arc<Shared>,
    identity: &Identity,
    control: Channel,
    early: Vec<u8>,
    peer: SocketAddr,
    waiting: Waiting,
) {
    let Some(stream) = control.into_stream() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(())) = (runtime, stream.set_nonblocking(true)) else {
        return shared.count(|c| &c.turned_away);
    };
    let longest = Duration::from_secs(shared.config.limits.duration_s);
    runtime.block_on(async {
        let over = async {
            let began = timing::now();
            while !shared.stopping() && timing::now().saturating_since(began) < longest.into() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = over => {}
            () = answer_all(shared, identity, stream, early, peer, waiting) => {}
        }
    });
}

async fn answer_all(
    shared: &Arc<Shared>,
    identity: &Identity,
    stream: std::net::TcpStream,
    early: Vec<u8>,
    peer: SocketAddr,
    waiting: Waiting,
) {
    let limits = &shared.config.limits;
    let socket = stream.as_fd().try_clone_to_owned().ok().map(Arc::new);
    // Small answers leave without waiting for the ACK of what is before them.
    stream.set_nodelay(true).ok();
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let (read, write) = tokio::io::split(stream);
    let accepting =
        TlsAcceptor::from(identity.http.clone()).accept(tokio::io::join(Cursor::new(early).chain(read), write));
    let handshake = Duration::from_millis(limits.handshake_ms);
    let Ok(Ok(tls)) = tokio::time::timeout(handshake, accepting).await else {
        return shared.count(|c| &c.silent);
    };
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_streams(REQUESTS);
    let Ok(Ok(mut connection)) = tokio::time::timeout(handshake, builder.handshake::<_, Bytes>(tls)).await else {
        return shared.count(|c| &c.silent);
    };
    drop(waiting);
    let under_way = Arc::new(AtomicU32::new(0));
    loop {
        match tokio::time::timeout(Duration::from_millis(limits.idle_ms), connection.accept()).await {
            Ok(Some(Ok((request, respond)))) => {
                let (shared, socket, under_way) = (shared.clone(), socket.clone(), under_way.clone());
                under_way.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    // A client that takes its answer no more needs none.
                    answer(&shared, request, respond, peer, socket.as_deref()).await.ok();
                    under_way.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Err(_) if under_way.load(Ordering::Relaxed) > 0 => {}
            _ => return,
        }
    }
}

async fn answer(
    shared: &Arc<Shared>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    peer: SocketAddr,
    socket: Option<&OwnedFd>,
) -> Result<(), h2::Error> {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()?.strip_prefix("Bearer "));
    if !token_matches(shared.config.token.as_deref(), bearer) {
        shared.count(|c| &c.refused);
        tokio::time::sleep(crate::limits::WRONG_TOKEN).await;
        return whole(&mut respond, StatusCode::UNAUTHORIZED, "text/plain", Bytes::new());
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/.well-known/nq" | "/config") => {
            let host = request.uri().authority().map_or("", |a| a.as_str());
            whole(&mut respond, StatusCode::OK, "application/json", configuration(host).into())
        }
        (&Method::GET, "/small") => {
            whole(&mut respond, StatusCode::OK, "application/octet-stream", Bytes::from_static(b"0"))
        }
        (&Method::GET, "/large") => {
            let Ok(place) = shared.take_session() else { return full(&mut respond) };
            let _underway = (place, Underway::begin(shared, peer));
            large(&mut respond, socket).await
        }
        (&Method::POST, "/upload" | "/slurp") => {
            let Ok(place) = shared.take_session() else { return full(&mut respond) };
            let _underway = (place, Underway::begin(shared, peer));
            let mut body = request.into_body();
            while let Some(data) = body.data().await {
                body.flow_control().release_capacity(data?.len())?;
            }
            whole(&mut respond, StatusCode::OK, "text/plain", Bytes::new())
        }
        _ => whole(&mut respond, StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
    }
}

/// A load under way. Clients end one by closing its connection, so an end of any kind is the end of a test.
struct Underway {
    shared: Arc<Shared>,
    served: Served,
    began: Instant<Monotonic>,
}

impl Underway {
    fn begin(shared: &Arc<Shared>, peer: SocketAddr) -> Self {
        shared.tell(Event::Began { peer, workload: "responsiveness" });
        Self { shared: shared.clone(), served: Served::new(peer, "responsiveness"), began: timing::now() }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.served.elapsed = timing::now().saturating_since(self.began);
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

async fn large(respond: &mut SendResponse<Bytes>, socket: Option<&OwnedFd>) -> Result<(), h2::Error> {
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
    fn keep_short(&mut self, socket: Option<&OwnedFd>) {
        let now = timing::now();
        if self.set.is_some_and(|(at, _)| now.saturating_since(at) < Nanos::from_millis(100)) {
            return;
        }
        let Some((socket, tcp)) = socket.and_then(|s| Some((s, TcpInfo::of(s)?))) else { return };
        let bytes_per_second = self.set.map_or(0.0, |(at, acked)| {
            tcp.acked_bytes.saturating_sub(acked) as f64 / now.saturating_since(at).as_secs_f64().max(1e-3)
        });
        self.set = Some((now, tcp.acked_bytes));
        let unsent = (bytes_per_second * 0.005).clamp(16_384.0, 4_194_304.0) as u32;
        // A socket that is going away may refuse.
        socket2::SockRef::from(socket).set_tcp_notsent_lowat(unsent).ok();
    }
}
