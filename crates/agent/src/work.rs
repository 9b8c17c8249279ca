//! The agent at work: what a look brings, and where it goes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant as WallInstant};

use metrics::Snapshot;
use record::ClockReading;
use record::histogram::{Connections, Series};
use record::{Connect, Coverage, Event, Instant, Loss, Lost, Monotonic, Nanos, Provenance};

use crate::accounts::Accounts;
use crate::asking::{Asking, Each};
use crate::cluster::{self, Api, Cluster};
use crate::config::{Asked, Config, Histograms, Place};
use crate::endpoint::{Ask, Endpoint};
use crate::keeping::Keeper;
use crate::naming::Naming;
use crate::presence::Presence;
use crate::push::Push;
use crate::recorder::Said;
use crate::upload::{self, Upload};
use crate::{Counts, Error, Now, now, usage};

/// Two scrapes within this time get the same figures.
const FRESH: Duration = Duration::from_millis(500);
/// What is missed for one reason is said so often at most.
const MISSED: Duration = Duration::from_hours(1);
/// How long the end waits for what is still to be uploaded.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one look at the tracer brings.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All series, cumulative.
    pub series: Vec<Series>,
    /// What was missed.
    pub lost: Lost,
    /// How much was observed.
    pub coverage: Coverage,
    /// The most memory that BPF maps can take, bytes.
    pub kernel_memory_bytes: u64,
}

/// The agent.
pub struct Agent {
    config: Config,
    host: String,
    version: String,
    since: Instant<Monotonic>,
    /// The clock's setting when it was looked at last, and how often it was set.
    clock: ClockReading,
    steps: u64,
    accounts: Accounts,
    /// Where requests are counted.
    asking: Option<Asking>,
    /// The API of the cluster, its port, and what it has told.
    cluster: Option<(Api, Option<u16>, Cluster)>,
    naming: Naming,
    presence: Presence,
    counts: Counts,
    endpoint: Option<Endpoint>,
    asks: (Sender<Ask>, Receiver<Ask>),
    waiting: Vec<Ask>,
    /// The client of the pusher, until it starts; then the pusher.
    client: Option<ureq::Agent>,
    push: Option<Push>,
    keeper: Option<Keeper>,
    target: Option<upload::Target>,
    upload: Option<Upload>,
    last: Option<(WallInstant, Arc<Snapshot>)>,
    /// How the flight recorder goes, where there is one.
    recorder: Option<metrics::Recorder>,
    /// Of what was missed, by counter: how much of it was said, and when.
    missed: BTreeMap<&'static str, (u64, WallInstant)>,
    due: Due,
    /// What was added since the last interval of the store.
    added: Accumulated,
    ending: bool,
}

/// When which look is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    push: Option<WallInstant>,
    keep: Option<WallInstant>,
    idle: WallInstant,
}

/// What was added to each key since the last interval.
struct Accumulated {
    from: Instant<Monotonic>,
    series: BTreeMap<record::histogram::SeriesKey, Series>,
}

impl Agent {
    /// Opens everything that takes rights or files: listens, reads secrets and certificates, takes
    /// up the store. `root` is `/`, or where the host's root is mounted.
    ///
    /// # Errors
    /// [`Error`]: what cannot be used.
    pub fn open(config: Config, host: &str, root: &Path, provenance: Provenance, now: Now) -> Result<Self, Error> {
        let counts = Counts::default();
        let endpoint = config.prometheus.as_ref().map(Endpoint::open).transpose()?;
        let version = provenance.version.clone();
        let keep = |store: &crate::config::Store| Keeper::open(store.clone(), host, provenance.clone(), counts.clone());
        let keeper = config.store.as_ref().map(keep).transpose()?;
        let target = match config.store.as_ref().map(|store| &store.place) {
            Some(Place::S3 { bucket, prefix, .. }) => {
                Some(upload::Target::new(bucket, prefix, |name| std::env::var(name).ok())?)
            }
            _ => None,
        };
        let client = config.otlp.as_ref().map(|_| Push::client());
        let cluster = config.kubernetes.as_ref().map(asked_of).transpose()?;
        let begin = WallInstant::now();
        Ok(Self {
            accounts: Accounts::new(config.histograms.busiest, config.histograms.idle, now.at.as_nanos()),
            asking: match config.histograms.requests {
                Asked::None => None,
                requests => Some(Asking::new(requests == Asked::Http)),
            },
            naming: Naming::new(root, cluster.as_ref().map(|(_, _, cluster)| cluster.clone())),
            cluster,
            presence: Presence::default(),
            due: Due { push: client.as_ref().map(|_| begin), keep: keeper.as_ref().map(|_| begin), idle: begin },
            config,
            host: host.to_owned(),
            version,
            since: now.at,
            clock: now.clock,
            steps: 0,
            counts,
            endpoint,
            asks: std::sync::mpsc::channel(),
            waiting: Vec::new(),
            client,
            push: None,
            keeper,
            target,
            upload: None,
            last: None,
            recorder: None,
            missed: BTreeMap::new(),
            added: Accumulated { from: now.at, series: BTreeMap::new() },
            ending: false,
        })
    }

    /// TCP ports that it connects to: of the collector, of the store, and of the cluster's API.
    pub fn ports(&self) -> Vec<u16> {
        let store = self.target.as_ref().and_then(upload::Target::port);
        let api = self.cluster.as_ref().and_then(|(_, port, _)| *port);
        [self.config.otlp_port(), store, api].into_iter().flatten().collect()
    }

    /// Where the endpoint listens.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.endpoint.as_ref().and_then(|endpoint| endpoint.address().ok())
    }

    /// Starts the threads. They have the rights that the calling thread has left.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(&mut self) -> Result<(), Error> {
        if let Some(endpoint) = &self.endpoint {
            endpoint.start(self.asks.0.clone(), self.counts.clone())?;
        }
        if let (Some(otlp), Some(client)) = (&self.config.otlp, self.client.take()) {
            self.push = Some(Push::start(otlp.clone(), client, self.host.clone(), self.counts.clone())?);
        }
        if let Some((api, _, cluster)) = &self.cluster {
            cluster::start(api, cluster, &self.counts)?;
        }
        if let Some(target) = self.target.take() {
            let upload = Upload::start(target, self.counts.clone())?;
            upload.put(self.keeper.as_ref().map(Keeper::stored).unwrap_or_default(), None);
            self.upload = Some(upload);
        }
        Ok(())
    }

    /// Waits for at most `patience`, and says whether a look is due: because a scrape asks for it,
    /// or because it is time.
    pub fn wait(&mut self, patience: Duration) -> bool {
        if self.is_due(WallInstant::now()) {
            return true;
        }
        match self.asks.1.recv_timeout(patience) {
            Ok(ask) => {
                self.waiting.push(ask);
                self.waiting.extend(self.asks.1.try_iter());
                // Two scrapers at the same moment are one look.
                if let Some((at, snapshot)) = &self.last
                    && at.elapsed() < FRESH
                {
                    for ask in self.waiting.drain(..) {
                        let _ = ask.send(snapshot.clone());
                    }
                    return false;
                }
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.is_due(WallInstant::now()),
        }
    }

    fn is_due(&self, now: WallInstant) -> bool {
        now >= self.due.idle || [self.due.push, self.due.keep].into_iter().flatten().any(|due| now >= due)
    }

    /// Looks at the clock: where it was set, that is said and counted, and ends the run that is
    /// written.
    pub fn see_clock(&mut self, clock: ClockReading) {
        let before = std::mem::replace(&mut self.clock, clock);
        let Some(by) = now::step(before, clock) else {
            // Slow changes add up.
            self.clock = before;
            return;
        };
        self.steps += 1;
        let way = if by < 0 { "back" } else { "forward" };
        let by = quantity::time_to(by.unsigned_abs() as f64, 3);
        self.counts.say(vec![format!("the clock was set {way} by {by}")]);
        self.due.keep = self.due.keep.map(|_| WallInstant::now());
    }

    /// Takes the figures of the tracer.
    pub fn observe(&mut self, mut observed: Observed, now: Now) {
        self.see_clock(now.clock);
        self.ask(now.at, |asking, _, each| asking.tick(now.at, each));
        observed.lost += self.asking.as_ref().map(Asking::lost).unwrap_or_default();
        let naming = &mut self.naming;
        let added = self.accounts.take(observed.series, now.at.as_nanos(), &mut |key| naming.labels(key));
        let wall = WallInstant::now();
        self.say_missed(observed.lost, wall);
        // So often that no series comes and goes unseen.
        self.due.idle = wall
            + Duration::from(Nanos(self.config.histograms.idle.0 / 4))
                .clamp(Duration::from_secs(1), Duration::from_secs(30));
        self.keep(added, observed.lost, observed.coverage, now, wall);
        let (cpu_user, cpu_system, memory_bytes) = usage::of_this_process();
        let snapshot = Arc::new(Snapshot {
            time_ns: now.unix_ns(),
            taken_ns: now.at.as_nanos(),
            since_ns: now.clock.realtime_ns(self.since.as_nanos()),
            series: self.accounts.published(now.clock),
            max_series: self.accounts.limit() as u64,
            bounds: self.config.prometheus.as_ref().map(|prometheus| prometheus.buckets.clone()).unwrap_or_default(),
            lost: observed.lost,
            coverage: observed.coverage,
            targets: self.presence.rules().to_vec(),
            recorder: self.recorder,
            agent: metrics::Agent {
                version: self.version.clone(),
                cpu_user,
                cpu_system,
                memory_bytes,
                kernel_memory_bytes: observed.kernel_memory_bytes,
                clock_steps: self.steps,
                exports: self.counts.labelled(),
                waiting_bytes: self.counts.waiting(),
            },
        });
        for ask in self.waiting.drain(..) {
            let _ = ask.send(snapshot.clone());
        }
        if let (Some(push), Some(otlp), Some(due)) = (&self.push, &self.config.otlp, self.due.push)
            && wall >= due
        {
            push.put(snapshot.clone());
            self.due.push = Some(next(due, wall, otlp.interval));
        }
        self.last = Some((wall, snapshot));
    }

    /// Says what was missed, once an hour for each reason.
    fn say_missed(&mut self, lost: Lost, wall: WallInstant) {
        let missed = lost.kinds().zip(lost.entries()).filter(|((_, loss, _), _)| *loss == Loss::Missed);
        for (_, (key, words, n)) in missed {
            let said = self.missed.get(key);
            let before = said.map_or(0, |(before, _)| *before);
            if n > before && said.is_none_or(|(_, when)| wall.duration_since(*when) >= MISSED) {
                self.missed.insert(key, (n, wall));
                self.counts.say(vec![format!("missed: {} {words} ({key})", quantity::count(n - before))]);
            }
        }
    }

    /// Gathers what was added, and gives it to the store where an interval of it is over.
    fn keep(&mut self, added: Vec<Series>, lost: Lost, coverage: Coverage, now: Now, wall: WallInstant) {
        let (Some(keeper), Some(due)) = (&mut self.keeper, self.due.keep) else { return };
        for more in added {
            match self.added.series.get_mut(&more.key) {
                Some(there) => there.merge(&more),
                None => {
                    self.added.series.insert(more.key.clone(), more);
                }
            }
        }
        if wall < due {
            return;
        }
        let series: Vec<Series> = std::mem::take(&mut self.added.series).into_values().collect();
        let from = std::mem::replace(&mut self.added.from, now.at);
        let naming = &mut self.naming;
        let mut name = |series: &Series| series.key.cgroup.map(|cgroup| naming.who(cgroup)).unwrap_or_default();
        keeper.interval_of(from, now.at.since(from).unwrap_or_default(), &series, &mut name);
        // At the end no further run begins.
        let more = !self.ending && keeper.turn(now, lost, coverage);
        self.due.keep = Some(next(due, wall, keeper.interval()));
        if let Some(upload) = &self.upload {
            let stored = keeper.stored();
            self.counts.set_waiting(stored.iter().map(|run| run.bytes).sum());
            if more {
                upload.put(stored, keeper.unfinished());
            }
        }
    }

    /// Takes what the cgroups, units and containers of the target name now.
    pub fn targets(&mut self, rules: Vec<metrics::Rule>) {
        self.counts.say(self.presence.take(rules, WallInstant::now()));
    }

    /// Takes how the flight recorder goes.
    pub fn recorded(&mut self, said: Said) {
        let Said { at_work, runs, triggers, failures, news } = said;
        self.recorder = Some(metrics::Recorder { at_work, runs, triggers, failures });
        self.counts.say(news);
    }

    /// A record of the tracer, which came at about `at`.
    pub fn event(&mut self, event: &Event, at: Instant<Monotonic>) {
        match event {
            Event::SetUp(connect) => self.count(connect, Connections::set_up, at),
            Event::Connect(connect) => self.count(connect, Connections::over, at),
            Event::Question(question) => {
                let (key, naming) = (self.config.histograms.key_of_question(question), &mut self.naming);
                self.accounts.take_question(&key, question, at.as_nanos(), &mut |key| naming.labels(key));
            }
            _ => {}
        }
        self.ask(at, |asking, histograms, each| asking.event(event, histograms, at, each));
        if let Some(keeper) = &mut self.keeper {
            keeper.event(event);
        }
    }

    /// Counts the requests that something ends, where requests are counted.
    fn ask(&mut self, at: Instant<Monotonic>, ends: impl FnOnce(&mut Asking, &Histograms, Each<'_>)) {
        let Self { asking: Some(asking), accounts, naming, config, clock, .. } = self else { return };
        ends(asking, &config.histograms, &mut |key, request| {
            accounts.take_request(key, request, at.as_nanos(), *clock, &mut |key| naming.labels(key));
        });
    }

    /// Counts what became known of a connection.
    fn count(&mut self, connect: &Connect, take: fn(&mut Connections, &Connect), at: Instant<Monotonic>) {
        let mut more = Connections::default();
        take(&mut more, connect);
        if more != Connections::default() {
            let (key, naming) = (self.config.histograms.key_of(connect), &mut self.naming);
            self.accounts.take_connections(&key, &more, at.as_nanos(), &mut |key| naming.labels(key));
        }
    }

    /// Takes over what can be of a changed configuration, and says what cannot.
    ///
    /// # Errors
    /// [`Error::File`] where a token or certificate cannot be read; all else is taken over then.
    pub fn reload(&mut self, new: Config) -> Result<Vec<&'static str>, Error> {
        let not = self.config.needs_restart(&new);
        let reread = match (&self.endpoint, &self.config.prometheus) {
            (Some(endpoint), Some(settings)) => endpoint.reload(settings),
            _ => Ok(()),
        };
        if let (Some(push), Some(otlp)) = (&self.push, &new.otlp)
            && self.config.otlp_port() == new.otlp_port()
        {
            push.set(otlp.clone());
            self.config.otlp = Some(otlp.clone());
        }
        if let (Some(keeper), Some(store), Some(own)) = (&mut self.keeper, new.store, &mut self.config.store)
            && own.place == store.place
        {
            keeper.set(store.clone());
            *own = store;
        }
        reread.map(|()| not)
    }

    /// What has come to fail, or to succeed again, since this was asked last.
    pub fn news(&self) -> Vec<String> {
        self.counts.news()
    }

    /// Ends the run that is written, and waits a little for what is to be uploaded. Gives the last
    /// news.
    pub fn finish(mut self, last: Observed, now: Now) -> Vec<String> {
        let (lost, coverage) = (last.lost, last.coverage);
        self.ending = true;
        self.ask(now.at, |asking, _, each| asking.finish(each));
        self.due.keep = self.due.keep.map(|_| WallInstant::now());
        self.observe(last, now);
        if let Some(keeper) = &mut self.keeper {
            keeper.end(now.at, lost, coverage);
            if let Some(upload) = &self.upload {
                upload.put(keeper.stored(), None);
                upload.finish(PATIENCE);
            }
        }
        self.counts.news()
    }
}

/// The API of a cluster as the configuration names it.
fn asked_of(settings: &crate::config::Kubernetes) -> Result<(Api, Option<u16>, Cluster), Error> {
    let url = settings.url(|name| std::env::var(name).ok()).ok_or_else(|| {
        Error::Lacks("[kubernetes] needs url where KUBERNETES_SERVICE_HOST and _PORT are not set".into())
    })?;
    let authority = url.starts_with("https").then_some(settings.authority.as_path());
    let api = Api::new(&url, settings.token_file.clone(), authority)?;
    Ok((api, crate::config::port(&url), Cluster::new(&settings.labels)))
}

/// The next time: in step with the ones before, unless it is late by more than an interval.
fn next(due: WallInstant, now: WallInstant, interval: Nanos) -> WallInstant {
    let next = due + Duration::from(interval);
    if next > now { next } else { now + Duration::from(interval) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::table::Record as _;

    #[test]
    fn what_is_missed_is_said_once_and_what_is_only_noted_is_not() {
        let now = Now {
            at: Instant::from_nanos(1),
            clock: ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
        };
        let mut agent = Agent::open(Config::default(), "h", Path::new("/"), Provenance::blank(), now).unwrap();
        for n in 1..=3 {
            let lost = Lost { connections_full: 1_000 * n, inferred: n, repeated: n, ..Lost::default() };
            agent.observe(Observed { lost, ..Observed::default() }, now);
        }
        let said = agent.news();
        assert_eq!(said, ["missed: 1,000 connections that found no room to be followed in (connections_full)"]);
    }
}
