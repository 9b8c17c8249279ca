//! Uploads runs to an S3-compatible store. Of the run that is written each part goes there when it
//! is whole. A run that is over goes there once more, with its intervals joined: first the parts
//! are deleted that it has no more, and `run.json` comes last; then it is removed here.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use store::rotating::{self, Stored};

use crate::counts::{Outcome, To};
use crate::failure::Failure;
use crate::{Counts, Error, tls};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a signature holds.
const SIGNED: Duration = Duration::from_secs(300);
/// Bytes of an answer that are read.
const ANSWER: u64 = 4 << 10;
/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The file of a run that names what the store may have of it. It is no part of the run.
const STREAMED: &str = ".streamed";
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Where to, and as whom.
pub struct Target {
    bucket: Bucket,
    prefix: String,
    credentials: Credentials,
    client: ureq::Agent,
    first_pause: Duration,
}

impl Target {
    /// A bucket, with what the environment says as other programs read it: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` (or `AWS_DEFAULT_REGION`), and
    /// `AWS_ENDPOINT_URL_S3` (or `AWS_ENDPOINT_URL`) for stores that are not Amazon's. `variable`
    /// reads the environment.
    ///
    /// # Errors
    /// [`Error::Lacks`] with the variable that is missing or wrong.
    pub fn new(bucket: &str, prefix: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let needed = |name: &str| {
            set(name).ok_or_else(|| {
                Error::Lacks(format!("{name} is not set: [store] url needs credentials to write to s3://{bucket}"))
            })
        };
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match set("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".into());
        let own = set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL"));
        let style = if own.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let endpoint = own.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let url =
            endpoint.parse().map_err(|e| Error::Lacks(format!("AWS_ENDPOINT_URL {endpoint:?} is no URL: {e}")))?;
        let bucket = Bucket::new(url, style, bucket.to_owned(), region)
            .map_err(|e| Error::Lacks(format!("[store] url: bucket {bucket:?}: {e}")))?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket, prefix, credentials, client: tls::client(TIMEOUT), first_pause: FIRST_PAUSE })
    }

    /// The TCP port of the store.
    pub fn port(&self) -> Option<u16> {
        self.bucket.base_url().port_or_known_default()
    }

    /// Uploads one run that is over. A file that is gone, because the run was removed to make room,
    /// ends it.
    fn upload(&self, run: &Stored, counts: &Counts) -> Result<(), Failed> {
        let files = rotating::files(&run.path).map_err(|_| Failed::Gone)?;
        // Before the joined part comes, so that no send is in the store twice.
        for file in streamed(&run.path).iter().filter(|file| !files.contains(file)) {
            let url = self.bucket.delete_object(Some(&self.credentials), &self.key(run, file)).sign(SIGNED);
            match taken(self.client.delete(url.as_str()).call()) {
                Err(Failed::With(_, why)) if why.kind == "404" => {}
                done => done?,
            }
        }
        files.iter().try_for_each(|file| self.put(run, file, counts))
    }

    /// Uploads what the run that is being written has of whole files, but for those in `sent`.
    fn stream(&self, run: &Stored, sent: &mut BTreeSet<PathBuf>, counts: &Counts) -> Result<(), Failed> {
        for file in rotating::files(&run.path).map_err(|_| Failed::Gone)? {
            if sent.contains(&run.path.join(&file)) {
                continue;
            }
            // Before it is there, so that whoever ends the run knows of it.
            let list = fs::OpenOptions::new().create(true).append(true).open(run.path.join(STREAMED));
            list.and_then(|mut list| writeln!(list, "{}", file.display())).map_err(|_| Failed::Gone)?;
            self.put(run, &file, counts)?;
            sent.insert(run.path.join(file));
        }
        Ok(())
    }

    fn key(&self, run: &Stored, file: &Path) -> String {
        format!("{}{}/{}", self.prefix, run.name, file.display())
    }

    fn put(&self, run: &Stored, file: &Path, counts: &Counts) -> Result<(), Failed> {
        let bytes = fs::read(run.path.join(file)).map_err(|_| Failed::Gone)?;
        let url = self.bucket.put_object(Some(&self.credentials), &self.key(run, file)).sign(SIGNED);
        taken(self.client.put(url.as_str()).send(&bytes[..]))?;
        counts.add(To::Store, Outcome::PartsUploaded);
        Ok(())
    }
}

/// What the store may have of a run that was streamed.
fn streamed(run: &Path) -> BTreeSet<PathBuf> {
    fs::read_to_string(run.join(STREAMED)).unwrap_or_default().lines().map(PathBuf::from).collect()
}

/// Whether the store has done what it was asked for. The clock, the credentials, the bucket: all of
/// them can be put right while the agent runs.
fn taken(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<(), Failed> {
    let mut answer = answer.map_err(|e| Failed::With(Outcome::Failed, Failure::request(&e)))?;
    match answer.status().as_u16() {
        200..=299 => Ok(()),
        status => {
            let said = answer.body_mut().with_config().limit(ANSWER).read_to_string().unwrap_or_default();
            Err(Failed::With(Outcome::Refused, Failure::status(status, &said)))
        }
    }
}

/// What is done here, in words.
const WORK: &str = "the upload of runs";

/// Why a run is not uploaded.
enum Failed {
    /// It was removed meanwhile.
    Gone,
    /// With this outcome.
    With(Outcome, Failure),
}

/// What is uploaded next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// A run that is over.
    Over(Stored),
    /// New parts of the one that is being written.
    Written(Stored),
}

/// The thread that uploads.
pub struct Upload {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    runs: Vec<Stored>,
    /// The run that is being written, where it may have new parts.
    written: Option<Stored>,
    over: bool,
    /// The run that is being uploaded.
    current: Option<PathBuf>,
}

impl Upload {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(target: Target, counts: Counts) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let thread = shared.clone();
        std::thread::Builder::new()
            .name("upload".into())
            .spawn(move || thread.run(&target, &counts))
            .map_err(Error::Thread)?;
        Ok(Self { shared })
    }

    /// The runs that there are to upload, oldest first, and the one that is being written: they
    /// take the place of those that wait.
    pub fn put(&self, runs: Vec<Stored>, written: Option<Stored>) {
        self.shared.put(runs, written);
    }

    /// Waits until everything is uploaded, or the time is over; then the thread ends after its
    /// current request.
    pub fn finish(&self, patience: Duration) {
        let state = self.shared.lock();
        let busy = |state: &mut State| state.current.is_some() || !state.runs.is_empty();
        let waited = self.shared.changed.wait_timeout_while(state, patience, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run that is being uploaded is not put a second time: it puts itself back where that
    /// fails.
    fn put(&self, mut runs: Vec<Stored>, written: Option<Stored>) {
        let mut state = self.lock();
        runs.retain(|run| state.current.as_ref() != Some(&run.path));
        (state.runs, state.written) = (runs, written);
        drop(state);
        self.changed.notify_all();
    }

    /// What comes next: runs that are over first.
    fn take(&self) -> Option<Next> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if !state.runs.is_empty() {
                let run = state.runs.remove(0);
                state.current = Some(run.path.clone());
                return Some(Next::Over(run));
            }
            if let Some(run) = state.written.take() {
                return Some(Next::Written(run));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        self.lock().current = None;
        self.changed.notify_all();
    }

    fn run(&self, target: &Target, counts: &Counts) {
        let mut pause = target.first_pause;
        let mut sent = BTreeSet::new();
        while let Some(next) = self.take() {
            let run = match next {
                Next::Over(run) => run,
                Next::Written(run) => {
                    // Of runs before nothing more is streamed.
                    sent.retain(|file: &PathBuf| file.starts_with(&run.path));
                    match target.stream(&run, &mut sent, counts) {
                        // It is over by now, or the next interval tries again.
                        Ok(()) | Err(Failed::Gone) => {}
                        Err(Failed::With(outcome, why)) => counts.failed(To::Store, outcome, WORK, why),
                    }
                    continue;
                }
            };
            match target.upload(&run, counts) {
                Ok(()) => {
                    pause = target.first_pause;
                    counts.done(To::Store, Outcome::RunsUploaded, WORK);
                    if let Err(why) = rotating::remove(&run.path) {
                        let why = Failure::store(&why);
                        counts.failed(To::Store, Outcome::Failed, "the removal of runs that are uploaded", why);
                    }
                }
                Err(Failed::Gone) => counts.add(To::Store, Outcome::RunsGone),
                Err(Failed::With(outcome, why)) => {
                    counts.failed(To::Store, outcome, WORK, why);
                    let mut state = self.lock();
                    state.current = None;
                    // It is the oldest one still, unless it was removed to make room.
                    if run.path.exists() && !state.runs.iter().any(|other| other.path == run.path) {
                        state.runs.insert(0, run);
                    }
                    let going_on = |state: &mut State| !state.over;
                    let waited = self.changed.wait_timeout_while(state, pause, going_on);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            self.done();
        }
    }
}

/// For messages: where runs go.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("url", &self.bucket.base_url().as_str()).field("prefix", &self.prefix).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> Stored {
        Stored { path: name.into(), name: name.into(), bytes: 1, written_s: 1 }
    }

    #[test]
    fn a_run_that_is_being_uploaded_is_not_uploaded_twice() {
        let shared = Shared::default();
        shared.put(vec![run("1"), run("2")], None);
        assert_eq!(shared.take(), Some(Next::Over(run("1"))));
        shared.put(vec![run("1"), run("2"), run("3")], None);
        assert_eq!(shared.lock().runs, [run("2"), run("3")]);
        shared.done();
        shared.put(vec![run("1"), run("2")], None);
        assert_eq!(shared.take(), Some(Next::Over(run("1"))));
    }

    #[test]
    fn runs_that_are_over_come_before_parts_of_the_one_that_is_written() {
        let shared = Shared::default();
        shared.put(vec![run("1")], Some(run("2")));
        assert_eq!(shared.take(), Some(Next::Over(run("1"))));
        assert_eq!(shared.take(), Some(Next::Written(run("2"))));
        // It is over meanwhile.
        shared.put(vec![run("1"), run("2")], Some(run("3")));
        assert_eq!(shared.take(), Some(Next::Over(run("2"))));
    }
}
