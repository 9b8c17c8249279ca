//! Pushes to an OpenTelemetry collector: OTLP over HTTP with protocol buffers.
//!
//! Figures are cumulative, so only the newest ones are worth sending: while a collector is away one
//! snapshot waits, and a newer one takes its place.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Snapshot, otlp};

use crate::config::Otlp;
use crate::counts::{self, To};
use crate::failure::Failure;
use crate::{Counts, Error, tls};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a request is tried before the next snapshot is waited for.
const TRIES: u32 = 5;
/// Bytes of an answer that are read.
const ANSWER: u64 = 64 << 10;

/// The thread that pushes, and what it is to push next.
pub struct Push {
    next: Arc<Next>,
}

#[derive(Default)]
struct Next {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    snapshot: Option<Arc<Snapshot>>,
    settings: Option<Otlp>,
    over: bool,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The collector took it.
    Done,
    /// It may work later; the collector may have said when.
    Later(Option<Duration>, Failure),
    /// It will not work.
    Refused(Failure),
}

impl Push {
    /// Starts the thread. `host` is the name of this host.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(settings: Otlp, client: ureq::Agent, host: String, counts: Counts) -> Result<Self, Error> {
        let next = Arc::new(Next::default());
        next.lock().settings = Some(settings);
        let thread = next.clone();
        std::thread::Builder::new()
            .name("otlp".into())
            .spawn(move || thread.run(&client, &host, &counts))
            .map_err(Error::Thread)?;
        Ok(Self { next })
    }

    /// The client to start with; made before files can no longer be read.
    pub fn client() -> ureq::Agent {
        tls::client(TIMEOUT)
    }

    /// Gives the thread a newer snapshot; one that waits gives way.
    pub fn put(&self, snapshot: Arc<Snapshot>) {
        self.next.lock().snapshot = Some(snapshot);
        self.next.changed.notify_one();
    }

    /// Takes over changed settings.
    pub fn set(&self, settings: Otlp) {
        self.next.lock().settings = Some(settings);
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.next.lock().over = true;
        self.next.changed.notify_one();
    }
}

impl Next {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a snapshot and its settings; `None` at the end.
    fn take(&self) -> Option<(Arc<Snapshot>, Otlp)> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if let (Some(settings), Some(snapshot)) = (state.settings.clone(), state.snapshot.take()) {
                return Some((snapshot, settings));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, but not longer than until there is something newer.
    fn pause(&self, pause: Duration) {
        let state = self.lock();
        let nothing = |state: &mut State| state.snapshot.is_none() && !state.over;
        drop(self.changed.wait_timeout_while(state, pause, nothing).unwrap_or_else(PoisonError::into_inner));
    }

    fn run(&self, client: &ureq::Agent, host: &str, counts: &Counts) {
        // The pause goes on growing over several snapshots, until one is taken.
        let (mut pause, mut last_taken_ns) = (FIRST_PAUSE, 0);
        while let Some((snapshot, settings)) = self.take() {
            let body = otlp::request(&snapshot, &[("host.name", host), ("service.name", "wirelapse")], last_taken_ns);
            for _ in 0..TRIES {
                match post(client, &settings, &body, counts) {
                    Outcome::Done => {
                        counts.done(To::Otlp, counts::Outcome::Done, WORK);
                        (pause, last_taken_ns) = (FIRST_PAUSE, snapshot.taken_ns);
                        break;
                    }
                    Outcome::Refused(why) => {
                        counts.failed(To::Otlp, counts::Outcome::Refused, WORK, why);
                        break;
                    }
                    Outcome::Later(asked, why) => {
                        counts.failed(To::Otlp, counts::Outcome::Failed, WORK, why);
                        self.pause(asked.unwrap_or(pause).min(LONGEST_PAUSE));
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        if self.lock().snapshot.is_some() {
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// What is done here, in words.
const WORK: &str = "the export to the collector";

/// One request. Which answers are worth another try is OTLP's rule: 429, 502, 503 and 504.
fn post(client: &ureq::Agent, settings: &Otlp, body: &[u8], counts: &Counts) -> Outcome {
    let mut request = client.post(&settings.endpoint).content_type(otlp::CONTENT_TYPE);
    for (name, value) in &settings.headers {
        request = request.header(name, value);
    }
    let mut answer = match request.send(body) {
        Ok(answer) => answer,
        Err(error) => return Outcome::Later(None, Failure::request(&error)),
    };
    let later = answer.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
    let status = answer.status().as_u16();
    let read = answer.body_mut().with_config().limit(ANSWER).read_to_vec().unwrap_or_default();
    let why = || Failure::status(status, &String::from_utf8_lossy(&read));
    match status {
        200..=299 => {
            if let Some((points, _)) = otlp::rejected(&read) {
                counts.add_many(To::Otlp, counts::Outcome::RejectedPoints, points);
            }
            Outcome::Done
        }
        429 | 502..=504 => Outcome::Later(later.map(Duration::from_secs), why()),
        _ => Outcome::Refused(why()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::Exemplar;
    use record::{Nanos, Role, SpanId, TraceContext, TraceId};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    /// A collector that gives these answers, one a connection, and passes on what it was sent.
    fn collector(answers: &'static [&'static str]) -> (String, mpsc::Receiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = Vec::new();
                let mut chunk = [0; 4096];
                let whole = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes).to_lowercase();
                    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
                    let length: usize = text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
                    (bytes.len() >= head + length).then_some(head)
                };
                let head = loop {
                    let n = stream.read(&mut chunk).unwrap();
                    bytes.extend_from_slice(&chunk[..n]);
                    if let Some(head) = whole(&bytes) {
                        break head;
                    }
                };
                write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
                sender.send(bytes.split_off(head)).unwrap();
            }
        });
        (url, received)
    }

    fn settings(endpoint: String) -> Otlp {
        Otlp { endpoint, interval: Nanos::from_secs(1), headers: [("x-token".into(), "t".into())].into() }
    }

    #[test]
    fn a_request_is_tried_again_where_the_collector_asks_for_it() {
        let (url, received) = collector(&["503 Busy\r\nretry-after: 0", "200 OK"]);
        let counts = Counts::default();
        let push = Push::start(settings(url), Push::client(), "h".into(), counts.clone()).unwrap();
        let snapshot = Snapshot { time_ns: 7, ..Snapshot::default() };
        push.put(Arc::new(snapshot.clone()));
        let (first, second) = (received.recv().unwrap(), received.recv().unwrap());
        assert_eq!(first, second);
        assert_eq!(first, otlp::request(&snapshot, &[("host.name", "h"), ("service.name", "wirelapse")], 0));
        while counts.of(To::Otlp, counts::Outcome::Done) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(
            (counts.of(To::Otlp, counts::Outcome::Failed), counts.of(To::Otlp, counts::Outcome::Refused)),
            (1, 0)
        );
    }

    /// Figures of which a request became known at 5, taken at this time.
    fn with_an_exemplar(taken_ns: u64) -> Arc<Snapshot> {
        let context = TraceContext { trace: TraceId([7; 16]), span: SpanId([8; 8]), sampled: true };
        let of = (Role::Client, Some(2));
        let mut labelled = metrics::Labelled::default();
        labelled.requests.answered.insert(of, [Nanos(1_000)].into_iter().collect());
        labelled.exemplars.entry(of).or_default().offer(Exemplar {
            context,
            took: Nanos(1_000),
            ended_ns: 3,
            known_ns: 5,
        });
        Arc::new(Snapshot { taken_ns, series: vec![labelled], ..Snapshot::default() })
    }

    #[test]
    fn an_exemplar_is_sent_until_a_collector_has_taken_it() {
        let (url, received) = collector(&["400 Bad", "200 OK", "200 OK"]);
        let push = Push::start(settings(url), Push::client(), "h".into(), Counts::default()).unwrap();
        let has_one = [10, 20, 30].map(|taken_ns| {
            push.put(with_an_exemplar(taken_ns));
            received.recv().unwrap().windows(16).any(|bytes| bytes == [7; 16])
        });
        assert_eq!(has_one, [true, true, false]);
    }

    #[test]
    fn a_refusal_is_final_and_an_absent_collector_is_waited_for() {
        let (url, received) = collector(&["400 Bad"]);
        let counts = Counts::default();
        let refused = post(&Push::client(), &settings(url.clone()), b"x", &counts);
        assert_eq!(refused, Outcome::Refused(Failure::status(400, "")));
        assert_eq!(received.recv().unwrap(), b"x");
        // It accepted one connection only.
        let away = post(&Push::client(), &settings("http://127.0.0.1:1/".into()), b"x", &counts);
        assert!(matches!(&away, Outcome::Later(None, why) if why.kind == "connection_refused"), "{away:?}");
    }
}
