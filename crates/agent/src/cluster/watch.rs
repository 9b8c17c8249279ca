//! Lists and watches of one kind of object, each in a thread: a list, and from there on every
//! change, as long as the API knows from where.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use super::objects::{Change, List, Object};
use super::{Cluster, MOST};
use crate::counts::{Outcome, To};
use crate::failure::Failure;
use crate::{Counts, Error, tls};

/// How long a watch goes on; the API ends it then.
const WATCHED: Duration = Duration::from_secs(300);
/// How long a request may take: a watch, and a little more.
const TIMEOUT: Duration = Duration::from_secs(330);
/// Objects of one page of a list, so that neither end has to hold all of them as text.
const PAGE: usize = 500;
/// Bytes of a page, and of a change.
const LONGEST: u64 = 64 << 20;
/// The pauses after a failure: the first one, twice as long each time, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What is done here, in words.
const WORK: &str = "asking the API of Kubernetes";

/// The API of a cluster, and who asks.
#[derive(Clone, Debug)]
pub struct Api {
    url: String,
    token: PathBuf,
    client: ureq::Agent,
}

impl Api {
    /// At this URL, with the token in a file, which the kubelet writes anew now and then, and with
    /// the certificate of its authority.
    ///
    /// # Errors
    /// [`Error::File`] where the certificate cannot be read.
    pub fn new(url: &str, token: PathBuf, authority: Option<&std::path::Path>) -> Result<Self, Error> {
        let client = match authority {
            Some(file) => tls::client_of(TIMEOUT, file)?,
            None => tls::client(TIMEOUT),
        };
        Ok(Self { url: url.trim_end_matches('/').to_owned(), token, client })
    }

    fn get(&self, path: &str) -> Result<impl std::io::Read + use<>, Stopped> {
        let token = std::fs::read_to_string(&self.token).map_err(|why| Stopped::failed(Failure::io(&why, &why)))?;
        let asked = self.client.get(format!("{}{path}", self.url));
        let answer = asked.header("authorization", format!("Bearer {}", token.trim())).call();
        let mut answer = answer.map_err(|why| Stopped::failed(Failure::request(&why)))?;
        match answer.status().as_u16() {
            200 => Ok(answer.into_body().into_reader()),
            410 => Err(Stopped::Gone),
            status => {
                let said = answer.body_mut().with_config().limit(4 << 10).read_to_string().unwrap_or_default();
                Err(Stopped::With(Outcome::Refused, Failure::status(status, &said)))
            }
        }
    }
}

/// Why a watch has ended.
#[derive(Debug)]
enum Stopped {
    /// The API does not know any more from where to go on.
    Gone,
    With(Outcome, Failure),
}

impl Stopped {
    fn failed(why: Failure) -> Self {
        Self::With(Outcome::Failed, why)
    }

    fn io(why: std::io::Error) -> Self {
        Self::failed(Failure::io(&why, &why))
    }

    fn json(why: serde_json::Error) -> Self {
        Self::failed(Failure::new("json", why.to_string()))
    }
}

/// A kind of object: where it is, and what is done with what comes.
struct Watched {
    path: &'static str,
    set: fn(&Cluster, Vec<Object>),
    change: fn(&Cluster, &str, Object),
}

const PODS: Watched = Watched {
    path: "/api/v1/pods",
    set: |cluster, all| cluster.set_pods(all.into_iter().map(Object::pod).collect()),
    change: |cluster, what, object| {
        let (name, pod) = object.pod();
        match what {
            "DELETED" => cluster.lock().forget_pod(&name),
            _ => cluster.lock().pod(name, pod),
        }
    },
};

const SERVICES: Watched = Watched {
    path: "/api/v1/services",
    set: |cluster, all| cluster.set_services(all.into_iter().map(Object::service).collect()),
    change: |cluster, what, object| {
        let (name, service) = object.service();
        match what {
            "DELETED" => cluster.lock().forget_service(&name),
            _ => cluster.lock().service(name, service),
        }
    },
};

/// Starts a thread for each kind.
///
/// # Errors
/// [`Error::Thread`].
pub fn start(api: &Api, cluster: &Cluster, counts: &Counts) -> Result<(), Error> {
    for watched in [PODS, SERVICES] {
        let (api, cluster, counts) = (api.clone(), cluster.clone(), counts.clone());
        let run = move || watched.run(&api, &cluster, &counts);
        std::thread::Builder::new().name("kubernetes".into()).spawn(run).map_err(Error::Thread)?;
    }
    Ok(())
}

impl Watched {
    fn run(&self, api: &Api, cluster: &Cluster, counts: &Counts) {
        let (mut from, mut pause) = (None, PAUSES.0);
        loop {
            let stopped = match from.take() {
                None => self.list(api, cluster).map(|version| from = Some(version)),
                Some(version) => self.watch(api, cluster, version).map(|version| from = Some(version)),
            };
            match stopped {
                Ok(()) => {
                    counts.done(To::Kubernetes, Outcome::Done, WORK);
                    pause = PAUSES.0;
                    continue;
                }
                Err(Stopped::Gone) => {}
                Err(Stopped::With(outcome, why)) => counts.failed(To::Kubernetes, outcome, WORK, why),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// All objects, page by page; gives from where changes are to be watched.
    fn list(&self, api: &Api, cluster: &Cluster) -> Result<String, Stopped> {
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("{}?limit={PAGE}&continue={next}", self.path))?;
            let List { metadata, items } =
                serde_json::from_reader(BufReader::new(page.take(LONGEST))).map_err(Stopped::json)?;
            all.extend(items);
            all.truncate(MOST);
            if metadata.next.is_empty() {
                (self.set)(cluster, all);
                return Ok(metadata.resource_version);
            }
            next = metadata.next.bytes().map(|byte| format!("%{byte:02X}")).collect();
        }
    }

    /// The changes from there on, until the API ends them; gives from where to go on.
    fn watch(&self, api: &Api, cluster: &Cluster, mut version: String) -> Result<String, Stopped> {
        let seconds = WATCHED.as_secs();
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}",
            self.path
        );
        let mut lines = BufReader::new(api.get(&path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut lines).take(LONGEST).read_until(b'\n', &mut line).map_err(Stopped::io)? == 0 {
                return Ok(version);
            }
            let Change { what, object } = serde_json::from_slice(&line).map_err(Stopped::json)?;
            if what == "ERROR" {
                // Most of all 410: too long ago.
                return Err(Stopped::Gone);
            }
            version.clone_from(&object.metadata.resource_version);
            if what != "BOOKMARK" {
                (self.change)(cluster, &what, object);
            }
        }
    }
}
