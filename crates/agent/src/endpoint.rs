//! The endpoint that Prometheus scrapes.
//!
//! Connections, headers and times are bounded. One answer is made at a time and goes out in pieces,
//! so a slow reader costs a connection and no memory.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{Either, Full};
use hyper::body::Frame;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::{Snapshot, native, openmetrics, text};
use rustls::ServerConfig;
use subtle::ConstantTimeEq as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::config::Prometheus;
use crate::counts::{Outcome, To};
use crate::failure::Failure;
use crate::places::{Place, Places};
use crate::{Counts, Error, tls};

/// Connections at a time; for one more, another gives way.
const CONNECTIONS: usize = 16;
/// How long a connection may last; a scraper makes another one.
const LONGEST: Duration = Duration::from_secs(120);
/// How long a request's header, and a TLS handshake, may take.
const HEADER: Duration = Duration::from_secs(5);
/// Bytes of a request's header.
const HEADER_BYTES: usize = 16 << 10;
/// How long a scrape waits for figures.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a piece of an answer, and how many wait for a reader.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;
/// What is done here, in words.
const SCRAPES: &str = "the answering of scrapes";
const ADMISSION: &str = "the admission of scrapes";
/// The largest token.
const TOKEN: u64 = 4 << 10;

/// A scrape that asks for figures; the answer goes back through it.
pub type Ask = oneshot::Sender<Arc<Snapshot>>;

/// What may change while it runs.
#[derive(Clone, Default)]
struct Secrets {
    token: Option<String>,
    tls: Option<Arc<ServerConfig>>,
}

/// The endpoint: it listens from [`Endpoint::open`] on, and answers from [`Endpoint::start`] on.
pub struct Endpoint {
    listener: TcpListener,
    secrets: Arc<RwLock<Secrets>>,
}

impl Endpoint {
    /// Listens, and reads token and certificate.
    ///
    /// # Errors
    /// [`Error::Listen`], and [`Error::File`] for the files that the configuration names.
    pub fn open(settings: &Prometheus) -> Result<Self, Error> {
        let secrets = Arc::new(RwLock::new(secrets(settings)?));
        let listen = || {
            let listener = TcpListener::bind(settings.listen)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|why| Error::Listen { address: settings.listen, why })?;
        Ok(Self { listener, secrets })
    }

    /// Reads the files that the configuration names, as [`Self::open`] does.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn check(settings: &Prometheus) -> Result<(), Error> {
        secrets(settings).map(drop)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Reads token and certificate anew.
    ///
    /// # Errors
    /// [`Error::File`]: those from before stay.
    pub fn reload(&self, settings: &Prometheus) -> Result<(), Error> {
        let new = secrets(settings)?;
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Answers, in a thread. Each scrape asks through `asks`.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(&self, asks: std::sync::mpsc::Sender<Ask>, counts: Counts) -> Result<(), Error> {
        let listener = self.listener.try_clone().map_err(Error::Thread)?;
        let shared = Arc::new(Shared { asks, counts, secrets: self.secrets.clone(), answers: Semaphore::new(1) });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()
            .map_err(Error::Thread)?;
        std::thread::Builder::new()
            .name("endpoint".into())
            .spawn(move || runtime.block_on(accept(listener, shared)))
            .map_err(Error::Thread)?;
        Ok(())
    }
}

fn secrets(settings: &Prometheus) -> Result<Secrets, Error> {
    let token = settings.token_file.as_deref().map(token).transpose()?;
    let tls = settings.tls.as_ref().map(tls::server).transpose()?;
    Ok(Secrets { token, tls })
}

fn token(path: &Path) -> Result<String, Error> {
    let wrong = |why: String| Error::File { path: path.to_owned(), why };
    let length = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?.len();
    if length > TOKEN {
        return Err(wrong(format!("a token has at most {TOKEN} bytes, this file {length}")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(wrong("there is no token in it".into()));
    }
    Ok(token.to_owned())
}

struct Shared {
    asks: std::sync::mpsc::Sender<Ask>,
    counts: Counts,
    secrets: Arc<RwLock<Secrets>>,
    /// One answer is made at a time.
    answers: Semaphore,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = Places::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                // Out of descriptors, or the peer is gone already.
                if why.kind() != io::ErrorKind::ConnectionAborted {
                    shared.counts.failed(To::Prometheus, Outcome::Failed, SCRAPES, Failure::io(&why, &why));
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = places.take(from.ip(), CONNECTIONS, Instant::now()) else { continue };
        let (shared, number) = (shared.clone(), place.number());
        let serving = tokio::spawn(async move {
            let tls = shared.secrets.read().unwrap_or_else(PoisonError::into_inner).tls.clone();
            let place = Arc::new(place);
            // Whatever becomes of a connection is its peer's affair.
            let _ = tokio::time::timeout(LONGEST, async {
                match tls {
                    None => serve(stream, shared, &place).await,
                    Some(config) => {
                        let handshake = TlsAcceptor::from(config).accept(stream);
                        if let Ok(Ok(stream)) = tokio::time::timeout(HEADER, handshake).await {
                            serve(stream, shared, &place).await;
                        }
                    }
                }
            })
            .await;
        });
        Place::runs(&places, number, serving.abort_handle());
    }
}

async fn serve<S>(stream: S, shared: Arc<Shared>, place: &Arc<Place>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let (shared, place) = (shared.clone(), place.clone());
        async move { Ok::<_, Infallible>(answer(&request, shared, place).await) }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Body = Either<Full<Bytes>, Pieces>;

fn plain(status: StatusCode, body: &'static str) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from_static(body.as_bytes()))));
    *response.status_mut() = status;
    response
}

async fn answer<B>(request: &Request<B>, shared: Arc<Shared>, place: Arc<Place>) -> Response<Body> {
    if request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    match request.uri().path() {
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/metrics" if !allowed(request, &shared) => {
            let why = Failure::new("401", "a request without the token of token_file, or with another one");
            shared.counts.failed(To::Prometheus, Outcome::Refused, ADMISSION, why);
            let mut response = plain(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
        "/metrics" => scrape(request, shared, Answering::begin(place)).await,
        "/" => plain(StatusCode::OK, "wirelapse agent: figures are at /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

fn allowed<B>(request: &Request<B>, shared: &Shared) -> bool {
    let token = shared.secrets.read().unwrap_or_else(PoisonError::into_inner).token.clone();
    let Some(token) = token else { return true };
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    shown.is_some_and(|shown| shown.trim().as_bytes().ct_eq(token.as_bytes()).into())
}

/// A connection that is being answered, until dropped.
struct Answering(Arc<Place>);

impl Answering {
    fn begin(place: Arc<Place>) -> Self {
        place.answering();
        Self(place)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered();
    }
}

async fn scrape<B>(request: &Request<B>, shared: Arc<Shared>, answering: Answering) -> Response<Body> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (form, compressed) = (Form::preferred(header(ACCEPT)), accepts_gzip(header(ACCEPT_ENCODING)));
    let figures = tokio::time::timeout(PATIENCE, async {
        let turn = shared.answers.acquire().await.ok()?;
        let (ask, figures) = oneshot::channel();
        shared.asks.send(ask).ok()?;
        Some((figures.await.ok()?, turn))
    })
    .await;
    let Ok(Some((snapshot, turn))) = figures else {
        let why = format!("there were no figures within {} s: the host is too busy", PATIENCE.as_secs());
        shared.counts.failed(To::Prometheus, Outcome::Failed, SCRAPES, Failure::new("timeout", why));
        return plain(StatusCode::SERVICE_UNAVAILABLE, "there are no figures yet\n");
    };
    let (sender, pieces) = mpsc::channel(PIECES);
    let counts = shared.counts.clone();
    tokio::task::spawn_blocking(move || {
        let mut out = Sender { sender, piece: Vec::with_capacity(PIECE) };
        let write = |mut out: &mut dyn Write| match form {
            Form::Native => native::write(&snapshot, &mut out),
            Form::OpenMetrics => openmetrics::write(&snapshot, &mut out),
            Form::Text => text::write(&snapshot, &mut out),
        };
        let written = if compressed {
            let mut encoder = GzEncoder::new(out, Compression::fast());
            write(&mut encoder).and_then(|()| encoder.finish()?.flush())
        } else {
            write(&mut out).and_then(|()| out.flush())
        };
        // Memory takes all that is written: only a client that left ends it earlier.
        match written {
            Ok(()) => counts.done(To::Prometheus, Outcome::Done, SCRAPES),
            Err(_) => counts.add(To::Prometheus, Outcome::Abandoned),
        }
    });
    drop(turn);
    let mut response = Response::new(Either::Right(Pieces { pieces, _answering: answering }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether the scraper takes an answer that is compressed by gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(accept: &str) -> bool {
    accept.split(',').any(|coding| {
        let mut words = coding.split(';').map(str::trim);
        let named = words.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let weight = words.find_map(|word| word.strip_prefix("q=")).map_or(Some(1.0), |q| q.trim().parse::<f64>().ok());
        named && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// A form that figures can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// With exemplars.
    OpenMetrics,
    /// Delimited protocol buffers: native histograms, and exemplars.
    Native,
}

impl Form {
    /// That to which the scraper gives most weight (RFC 9110, section 12.5.1), the richer of two
    /// with the same; text where it names none.
    fn preferred(accept: &str) -> Self {
        let weight = |form: Self| {
            let ranges = accept.split(',').filter(|range| form.is_named_by(&range.to_ascii_lowercase()));
            let weight = |range: &str| {
                let q = range.split(';').filter_map(|p| p.trim().strip_prefix("q=")).next();
                q.map_or(Some(1.0), |q| q.trim().parse().ok()).unwrap_or(0.0)
            };
            ranges.map(weight).fold(0.0_f64, f64::max)
        };
        let richest_last = [Self::Text, Self::OpenMetrics, Self::Native];
        let preferred = richest_last.into_iter().max_by(|a, b| weight(*a).total_cmp(&weight(*b)));
        preferred.filter(|form| weight(*form) > 0.0).unwrap_or(Self::Text)
    }

    /// Whether a range of media types, in small letters, is of it.
    fn is_named_by(self, range: &str) -> bool {
        match self {
            Self::Text => range.trim().starts_with("text/plain"),
            Self::OpenMetrics => {
                let version = range.split(';').find_map(|parameter| parameter.trim().strip_prefix("version="));
                range.trim().starts_with("application/openmetrics-text")
                    && version.is_none_or(|version| version.trim() == "1.0.0")
            }
            Self::Native => {
                range.contains("application/vnd.google.protobuf")
                    && range.contains("io.prometheus.client.metricfamily")
                    && range.contains("delimited")
            }
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Text => text::CONTENT_TYPE,
            Self::OpenMetrics => openmetrics::CONTENT_TYPE,
            Self::Native => native::CONTENT_TYPE,
        }
    }
}

/// A body that comes in pieces. Its connection is being answered as long as it is there.
struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    _answering: Answering,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// The other end of it.
struct Sender {
    sender: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.sender.blocking_send(piece.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpStream;

    fn started(settings: &Prometheus) -> (SocketAddr, Counts) {
        let endpoint = Endpoint::open(settings).unwrap();
        let (asks, asked) = std::sync::mpsc::channel::<Ask>();
        let counts = Counts::default();
        endpoint.start(asks, counts.clone()).unwrap();
        std::thread::spawn(move || {
            for ask in asked {
                let _ = ask.send(Arc::new(Snapshot { max_series: 42, ..Snapshot::default() }));
            }
        });
        (endpoint.address().unwrap(), counts)
    }

    fn settings() -> Prometheus {
        Prometheus {
            listen: "127.0.0.1:0".parse().unwrap(),
            token_file: None,
            tls: None,
            buckets: text::usual_bounds(),
        }
    }

    fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";

    #[test]
    fn figures_come_as_the_scraper_asks_for_them() {
        let (address, counts) = started(&settings());
        let text = get(address, &format!("{METRICS}\r\n"));
        assert!(
            text.starts_with("HTTP/1.1 200")
                && text.contains("text/plain")
                && text.contains("wirelapse_series_limit 42"),
            "{text}"
        );
        let open = get(address, &format!("{METRICS}Accept: application/openmetrics-text; version=1.0.0\r\n\r\n"));
        assert!(open.contains("openmetrics-text; version=1.0.0") && open.contains("# EOF\n"), "{open}");
        let accept = "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
        let native = get(address, &format!("{METRICS}{accept}\r\n"));
        assert!(
            native.contains("application/vnd.google.protobuf") && native.contains("wirelapse_series_limit"),
            "{native}"
        );
        assert_eq!(counts.of(To::Prometheus, Outcome::Done), 3);
    }

    #[test]
    fn figures_are_compressed_for_who_accepts_that() {
        let (address, _) = started(&settings());
        let plain = get(address, &format!("{METRICS}Accept-Encoding: gzip;q=0\r\n\r\n"));
        let url = format!("http://{address}/metrics");
        // This client decompresses nothing.
        let mut answer = ureq::get(&url).header("accept-encoding", "gzip").call().unwrap();
        assert_eq!(answer.headers()["content-encoding"], "gzip");
        let compressed = answer.body_mut().read_to_vec().unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
        assert!(text.contains("wirelapse_series_limit 42") && compressed.len() < text.len() / 2, "{text}");
        assert!(plain.contains("wirelapse_series_limit 42") && !plain.contains("content-encoding"), "{plain}");
    }

    #[test]
    fn gzip_is_accepted_where_it_is_named_with_a_weight() {
        assert!(["gzip", "deflate, GZIP;q=0.5", "*"].into_iter().all(accepts_gzip));
        assert!(!["", "gzip;q=0", "deflate, br", "gzip;q=x"].into_iter().any(accepts_gzip));
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let (address, _) = started(&settings());
        assert!(
            get(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(get(address, "GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(get(address, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ends_with("ok\n"));
        let long = format!("{METRICS}X: {}\r\n\r\n", "a".repeat(HEADER_BYTES));
        assert!(!get(address, &long).starts_with("HTTP/1.1 200"));
        assert!(!get(address, "\x16\x03\x01 not http\r\n\r\n").starts_with("HTTP/1.1 200"));
    }

    /// Somebody looks with `curl … | head`.
    #[test]
    fn a_client_that_hangs_up_is_no_failure() {
        let endpoint = Endpoint::open(&settings()).unwrap();
        let (asks, asked) = std::sync::mpsc::channel::<Ask>();
        let counts = Counts::default();
        endpoint.start(asks, counts.clone()).unwrap();
        // More than the buffers on the way take.
        let series: Vec<_> = (0..40_000_u32)
            .map(|n| metrics::Labelled { labels: vec![("a", n.to_string())], ..metrics::Labelled::default() })
            .collect();
        let snapshot = Arc::new(Snapshot { series, ..Snapshot::default() });
        std::thread::spawn(move || {
            for ask in asked {
                let _ = ask.send(snapshot.clone());
            }
        });
        let mut stream = TcpStream::connect(endpoint.address().unwrap()).unwrap();
        stream.write_all(format!("{METRICS}\r\n").as_bytes()).unwrap();
        stream.read_exact(&mut [0; 1024]).unwrap();
        drop(stream);
        tier::until("the end of the answer", || counts.of(To::Prometheus, Outcome::Abandoned) == 1);
        assert_eq!((counts.of(To::Prometheus, Outcome::Failed), counts.news()), (0, vec![]));
    }

    #[test]
    fn a_token_is_asked_for_and_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "secret\n").unwrap();
        let settings = Prometheus { token_file: Some(file.clone()), ..settings() };
        let (address, counts) = started(&settings);
        assert!(get(address, &format!("{METRICS}\r\n")).starts_with("HTTP/1.1 401"));
        assert!(get(address, &format!("{METRICS}Authorization: Bearer secre\r\n\r\n")).starts_with("HTTP/1.1 401"));
        assert!(get(address, &format!("{METRICS}Authorization: Bearer secret\r\n\r\n")).starts_with("HTTP/1.1 200"));
        assert_eq!(counts.of(To::Prometheus, Outcome::Refused), 2);
        assert_eq!(counts.news().len(), 1);
        std::fs::write(&file, "").unwrap();
        assert!(matches!(Endpoint::open(&settings), Err(Error::File { .. })));
    }

    #[test]
    fn idle_connections_take_no_more_than_their_room() {
        let (address, _) = started(&settings());
        let idle: Vec<_> = (0..CONNECTIONS + 8).map(|_| TcpStream::connect(address).unwrap()).collect();
        // Those that send no header are closed, and then there is room again.
        assert!(get(address, &format!("{METRICS}\r\n")).starts_with("HTTP/1.1 200"));
        drop(idle);
    }

    #[test]
    fn connections_that_are_kept_alive_lock_no_scraper_out() {
        let (address, _) = started(&settings());
        let keep: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200");
                stream
            })
            .collect();
        let began = Instant::now();
        for _ in 0..5 {
            assert!(get(address, &format!("{METRICS}\r\n")).starts_with("HTTP/1.1 200"));
        }
        // Not when those are closed for their silence, which takes five seconds.
        assert!(began.elapsed() < HEADER, "{:?}", began.elapsed());
        drop(keep);
    }

    #[test]
    fn certificates_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = crate::config::Tls { certificate: certificate.clone(), key };
        let (address, _) = started(&Prometheus { tls: Some(tls), ..settings() });
        let root = ureq::tls::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
        let client = ureq::tls::TlsConfig::builder()
            .root_certs(ureq::tls::RootCerts::Specific(Arc::new(vec![root])))
            .unversioned_rustls_crypto_provider(tls::provider())
            .build();
        let client: ureq::Agent = ureq::Agent::config_builder().tls_config(client).build().into();
        let url = format!("https://localhost:{}/metrics", address.port());
        let text = client.get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        assert!(text.contains("wirelapse_series_limit 42"));
        assert!(!get(address, &format!("{METRICS}\r\n")).contains("200 OK"), "plain text on a TLS port");
    }

    #[test]
    fn a_scraper_gets_the_form_that_it_prefers() {
        const NATIVE: &str =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        const OPEN: &str = "application/openmetrics-text";
        for (accept, form) in [
            ("", Form::Text),
            ("*/*", Form::Text),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Form::Text),
            ("application/vnd.google.protobuf", Form::Text),
            (OPEN, Form::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", Form::OpenMetrics),
            (&format!("{OPEN};version=0.0.1"), Form::Text),
            (&format!("{OPEN};version=1.0.0;q=0"), Form::Text),
            // As Prometheus asks, without native histograms and with them.
            (
                &format!("{OPEN};version=1.0.0,{OPEN};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
                Form::OpenMetrics,
            ),
            (&format!("{NATIVE},{OPEN};version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"), Form::Native),
            (&format!("{NATIVE};q=0.4,{OPEN};version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"), Form::OpenMetrics),
            (&format!("{NATIVE};q=0.5,text/plain;q=0.5"), Form::Native),
            (&format!("{OPEN};q=0.4,text/plain;q=0.5"), Form::Text),
        ] {
            assert_eq!(Form::preferred(accept), form, "{accept:?}");
        }
    }
}
