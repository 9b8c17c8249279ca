//! `wirelapse agent`: observe all sends of a host, always, and give the figures to Prometheus,
//! OpenTelemetry and a store.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::agent::config::{self, Asked, Config, Place, Port, Prometheus};
use ::agent::endpoint::Endpoint;
use ::agent::keeping::Keeper;
use ::agent::naming::Naming;
use ::agent::recorder::{Ask, Recordings, Said};
use ::agent::{Agent, Now, Observed, Rule};
use anyhow::Context as _;
use record::{Coverage, Ratio, Sampling, Utc};
use rights::Kept;
use rustix::thread::CapabilitySet;
use trace::histograms::{Dimensions, Ports, Prefixes};
use trace::{Histograms, Privileged, Target, Tracer};

use crate::criteria::{Criteria, followed};
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::output::{complain, harmless};
use crate::provenance;

/// Run all the time, and export latency histograms of all sends to Prometheus, OpenTelemetry and a
/// store
///
/// The kernel keeps the histograms: by peer, port, cgroup or program, and by stage. SIGHUP reloads
/// the configuration.
#[derive(clap::Args)]
pub struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only check the configuration, and show what is wrong with it
    #[arg(long)]
    check: bool,
    /// Where the root of the host is mounted, if the agent runs in a container: cgroups and
    /// container names are read below it
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = clap::ValueHint::DirPath)]
    root: PathBuf,
}

/// How long one wait for scrapes takes, so that signals are heard soon.
const TURN: Duration = Duration::from_millis(500);
/// The same where sends are records too, which fill a ring buffer.
const SHORT_TURN: Duration = Duration::from_millis(50);
/// How often the coverage is asked for: each time is a pass over all sockets.
const COVERAGE: Duration = Duration::from_secs(30);
/// The target where none is named.
const EVERYTHING: &str = "all TCP connections";
/// The longest configuration.
const LONGEST: u64 = 1 << 20;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = read(&args.config)?;
    if args.check {
        if let Some(endpoint) = &config.prometheus {
            Endpoint::check(endpoint)?;
            open_endpoint(endpoint).iter().for_each(|warning| complain!("{warning}"));
        }
        let written = config.store.iter().map(|store| store.place.directory());
        let recorded = config.recorder.iter().map(|recorder| recorder.directory.as_path());
        written.chain(recorded).try_for_each(Keeper::check)?;
        let mut out = crate::output::stdout().lock();
        writeln!(out, "{} is right.", harmless(&args.config.display().to_string()))?;
        for line in described(&config) {
            writeln!(out, "{}", harmless(&line))?;
        }
        let traced = traced(&config, Target::default());
        writeln!(out, "Memory: {}.", crate::memory::in_words(traced.memory()?, traced.max_connections))?;
        return Ok(());
    }
    let (interrupt, reload) = Interrupt::but_hangup()?;
    let criteria = criteria(&config);
    let mut aimed = criteria.aim_once_there(criteria.is_empty())?;
    // It runs for longer than what it follows: units start after it, and restart.
    (aimed.target.awaited, aimed.target.root) = (true, Some(args.root.clone()));
    let target = if aimed.words.is_empty() { EVERYTHING.into() } else { aimed.words.join(", ") };
    let traced = traced(&config, aimed.target);
    let (sampling, records) = (traced.sampling, traced.histograms.as_ref().is_some_and(|of| of.records));
    let mut tracer = Tracer::start(&traced)?;
    let host = config.host.clone().unwrap_or_else(|| machine::Names::here().host);
    let provenance = provenance::of_trace(target, sampling, &tracer);
    let kept = Needs::of(args, &config, &traced.target);
    let mut recordings = recordings(&config, &args.root)?;
    let mut agent = Agent::open(config, &host, &args.root, provenance, now())?;
    if let Some(address) = agent.address() {
        complain!("listening at {address}");
    }
    // Who may enter other network namespaces, or record, has a second process do it; this one keeps
    // nothing.
    let mut recorder = None;
    let enters = rustix::thread::capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::SYS_ADMIN));
    if enters || recordings.is_some() {
        let folder = recordings.as_ref().map(|of| of.directory().to_owned());
        let limit = || folder.as_deref().map_or_else(rights::keep_for_walks, rights::keep_for_recordings);
        let records = recordings.is_some();
        let asked = tracer.hand_over(
            || limit().map_err(std::io::Error::other),
            |ask| recordings.as_mut().map_or_else(Said::default, |of| of.serve(ask, Utc::from_nanos(now().unix_ns()))),
        )?;
        recorder = records.then_some(Recorder { asked, at: None });
    }
    kept.keep(&agent.ports())?;
    agent.start()?;
    let mut gauge = Gauge { coverage: Coverage::default(), at: None, memory: traced.memory()?.most() };
    while !interrupt.came() {
        if reload.swap(false, Ordering::Relaxed) {
            reread(&args.config, &mut agent);
        }
        let at = timestamping::now();
        tracer.poll(Duration::ZERO, &mut |event| agent.event(&event, at)).context("the agent cannot go on")?;
        agent.targets(named(&tracer));
        agent.see_clock(now().clock);
        if let Some(recorder) = &mut recorder {
            recorder.tick(&mut agent)?;
        }
        if agent.wait(if records { SHORT_TURN } else { TURN }) {
            let observed = gauge.read(&mut tracer)?;
            agent.observe(observed, now());
        }
        agent.news().iter().for_each(|line| complain!("{line}"));
    }
    if let Some(recorder) = &recorder {
        agent.recorded(recorder.asked.ask(&Ask::End)?);
    }
    gauge.at = None;
    let last = gauge.read(&mut tracer)?;
    let at = timestamping::now();
    tracer.finish(&mut |event| agent.event(&event, at)).1.context("the end of the trace cannot be had")?;
    let news = agent.finish(last, now());
    news.iter().for_each(|line| complain!("{line}"));
    Ok(())
}

/// The flight recorder, where the configuration has one. Its cgroups, units and containers are
/// below `root`.
fn recordings(config: &Config, root: &Path) -> anyhow::Result<Option<Recordings>> {
    let more: [OsString; 2] = ["--as-agent".into(), root.into()];
    let open = |of: &config::Recorder| Recordings::open(of.clone(), &config.target, &more);
    Ok(config.recorder.as_ref().map(open).transpose()?)
}

/// Asks the process that records how it goes.
struct Recorder {
    asked: Privileged<Ask, Said>,
    at: Option<std::time::Instant>,
}

impl Recorder {
    fn tick(&mut self, agent: &mut Agent) -> anyhow::Result<()> {
        if self.at.is_none_or(|at| at.elapsed() >= TURN) {
            self.at = Some(std::time::Instant::now());
            agent.recorded(self.asked.ask(&Ask::Tick)?);
        }
        Ok(())
    }
}

/// A warning where whoever reaches the endpoint may read it.
fn open_endpoint(endpoint: &Prometheus) -> Option<String> {
    let open = endpoint.token_file.is_none() && !endpoint.listen.ip().is_loopback();
    open.then(|| {
        format!(
            "whoever reaches {} can read peers, units and programs there: give it a token_file, or listen at 127.0.0.1",
            endpoint.listen
        )
    })
}

/// What each cgroup, unit and container of the target names now.
fn named(tracer: &Tracer) -> Vec<Rule> {
    let of = |named: trace::Named| {
        let trace::Named { kind, name, cgroups, came, missed } = named;
        Rule { labels: vec![("kind", kind.name().to_owned()), ("name", name)], cgroups, came, missed }
    };
    tracer.named().into_iter().map(of).collect()
}

/// Reads the figures of the tracer.
struct Gauge {
    coverage: Coverage,
    at: Option<std::time::Instant>,
    memory: u64,
}

impl Gauge {
    fn read(&mut self, tracer: &mut Tracer) -> anyhow::Result<Observed> {
        if self.at.is_none_or(|at| at.elapsed() >= COVERAGE) {
            self.at = Some(std::time::Instant::now());
            self.coverage = tracer.coverage();
        }
        let snapshot = tracer.snapshot(timestamping::now()).context("the histograms cannot be read")?;
        Ok(Observed {
            series: snapshot.map(|snapshot| snapshot.series).unwrap_or_default(),
            lost: tracer.lost(),
            coverage: self.coverage,
            kernel_memory_bytes: self.memory,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Config> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| BadInput(format!("cannot read {name}: {error}"));
    let text = store::regular::read(path, LONGEST).map_err(cannot)?;
    let text = String::from_utf8(text).map_err(|_| BadInput(format!("{name} is not UTF-8")))?;
    Ok(::agent::config::parse(&name, &text)?)
}

/// What of a changed configuration can be taken over is; the rest is said.
fn reread(path: &Path, agent: &mut Agent) {
    let done = read(path).and_then(|config| Ok(agent.reload(config)?));
    match done {
        Ok(not) if not.is_empty() => complain!("{}: read again", path.display()),
        Ok(not) => complain!("{}: read again, but these need a restart: {}", path.display(), not.join("; ")),
        Err(error) => complain!("{}: not taken over: {}", path.display(), crate::exit::message(&error)),
    }
}

/// The target as the options of `trace` name one.
fn criteria(config: &Config) -> Criteria {
    let of = &config.target;
    Criteria {
        comm: of.programs.clone(),
        cgroup: of.cgroups.clone(),
        unit: of.units.clone(),
        container: of.containers.clone(),
        // The configuration's ports are ranges within the bounds of one.
        port: of.ports.iter().filter_map(|(first, last)| format!("{first}-{last}").parse().ok()).collect(),
        peer: of.peers.clone(),
        ..Criteria::default()
    }
}

fn traced(config: &Config, target: Target) -> trace::Config {
    let of = &config.histograms;
    let sample = config.target.sample;
    let mut traced = trace::Config {
        target,
        sampling: if sample == Ratio::ALL { Sampling::Every } else { Sampling::Windows(sample) },
        calls: of.stages.contains(&record::Leg::Call),
        histograms: Some(Histograms {
            legs: of.stages.clone(),
            round_trips: of.connections,
            dimensions: Dimensions {
                peer: of.peer.then_some(Prefixes { ipv4: of.ipv4_prefix, ipv6: of.ipv6_prefix }),
                ports: match of.port {
                    Port::None => Ports::None,
                    Port::Listening => Ports::Listening,
                    Port::All => Ports::All,
                },
                cgroup: of.cgroup,
                program: of.program,
            },
            max_series: of.max_series,
            folds: false,
            idle: Some(of.idle.into()),
            records: of.requests != Asked::None || config.store.as_ref().is_some_and(|store| store.sample.is_some()),
        }),
        receive: of.requests != Asked::None,
        http: of.requests == Asked::Http,
        connects: of.connections || of.requests != Asked::None,
        dns: of.dns.clone(),
        least_rights: true,
        ..trace::Config::default()
    };
    traced.max_connections = config.target.max_connections.unwrap_or_else(|| crate::memory::connections(&traced));
    traced
}

fn in_words(config: &Config) -> String {
    let of = &config.target;
    let ports =
        of.ports.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    let kinds = [
        ("program", of.programs.clone()),
        ("cgroup", of.cgroups.iter().map(|cgroup| cgroup.display().to_string()).collect()),
        ("unit", of.units.clone()),
        ("container", of.containers.clone()),
        ("port", ports.collect()),
        ("peer", of.peers.clone()),
    ];
    let words: Vec<String> = kinds
        .into_iter()
        .filter(|kind| !kind.1.is_empty())
        .map(|(kind, of)| format!("{kind} {}", of.join(" or ")))
        .collect();
    if words.is_empty() { EVERYTHING.into() } else { words.join(", ") }
}

/// What a configuration makes the agent do, a line each.
fn described(config: &Config) -> Vec<String> {
    let of = &config.histograms;
    let stages: Vec<&str> = of.stages.iter().map(|leg| leg.name()).collect();
    let sample = config.target.sample;
    let sampled = if sample == Ratio::ALL { "every send".into() } else { format!("sends in {sample} of the time") };
    let mut lines = vec![
        format!("Target: {}; {sampled}.", in_words(config)),
        format!(
            "Histograms: {} in at most {} series, of {} at a time.",
            stages.join(", "),
            of.max_series,
            match config.target.max_connections {
                Some(most) => format!("at most {most} connections"),
                None => "as many connections as there is memory for".into(),
            }
        ),
    ];
    match of.requests {
        Asked::None => {}
        Asked::Times => lines.push("Requests: how many, and how long they take.".into()),
        Asked::Http => {
            lines.push("Requests: how many, how long they take, and the status of answers of HTTP/1.".into());
        }
    }
    if let Some(endpoint) = &config.prometheus {
        let secured = match (&endpoint.tls, &endpoint.token_file) {
            (Some(_), Some(_)) => ", by TLS and with a token",
            (Some(_), None) => ", by TLS",
            (None, Some(_)) => ", with a token",
            (None, None) => "",
        };
        lines.push(format!(
            "Prometheus: http{}://{}/metrics{secured}.",
            if endpoint.tls.is_some() { "s" } else { "" },
            endpoint.listen
        ));
    }
    if let Some(otlp) = &config.otlp {
        lines.push(format!("OTLP: {} every {}.", otlp.endpoint, quantity::exact_duration(otlp.interval)));
    }
    if let Some(store) = &config.store {
        let place = match &store.place {
            Place::Directory(path) => path.display().to_string(),
            Place::S3 { bucket, prefix, spool } => format!("s3://{bucket}/{prefix}, by way of {}", spool.display()),
        };
        lines.push(format!(
            "Store: {place}; a run every {}, at most {}.",
            quantity::exact_duration(store.rotate),
            quantity::bytes(store.max_bytes)
        ));
    }
    if config.kubernetes.is_some() {
        lines.push("Kubernetes: pods and services are asked for at the API.".into());
    }
    if let Some(recorder) = &config.recorder {
        let triggers: Vec<String> = recorder.until.iter().map(|trigger| format!("`{trigger}`")).collect();
        lines.push(format!(
            "Recorder: until {}, the last {} in at most {} of memory; runs in {}, at most {}, with a pause of {} after each.",
            triggers.join(" or "),
            quantity::exact_duration(recorder.keep),
            quantity::bytes(recorder.memory),
            recorder.directory.display(),
            quantity::bytes(recorder.max_bytes),
            quantity::exact_duration(recorder.pause)
        ));
    }
    if config.prometheus.is_none() && config.otlp.is_none() && config.store.is_none() {
        lines.push("Nothing takes the figures: add [prometheus], [otlp] or [store].".into());
    }
    lines
}

/// What of files the agent still needs once it is at work.
struct Needs {
    read: Vec<PathBuf>,
    written: Option<PathBuf>,
    connects: bool,
}

impl Needs {
    fn of(args: &Args, config: &Config, target: &Target) -> Self {
        let mut read = Naming::folders(&args.root);
        read.extend(followed(target, &args.root));
        // Files that are replaced by renaming are read in their folders.
        let folder =
            |path: &Path| path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        read.push(folder(&args.config));
        if let Some(endpoint) = &config.prometheus {
            read.extend(endpoint.token_file.as_deref().map(folder));
            read.extend(endpoint.tls.iter().flat_map(|tls| [folder(&tls.certificate), folder(&tls.key)]));
        }
        let s3 = config.store.as_ref().is_some_and(|store| matches!(store.place, Place::S3 { .. }));
        if let Some(kubernetes) = &config.kubernetes {
            read.push(folder(&kubernetes.token_file));
        }
        let connects = config.otlp.is_some() || s3 || config.kubernetes.is_some();
        if connects {
            read.extend(rights::RESOLVER.map(PathBuf::from));
        }
        Self { read, written: config.store.as_ref().map(|store| store.place.directory().to_owned()), connects }
    }

    /// Gives up everything else, for good.
    fn keep(&self, ports: &[u16]) -> anyhow::Result<()> {
        const DNS: u16 = 53;
        let ports: Vec<u16> = ports.iter().copied().chain(self.connects.then_some(DNS)).collect();
        let read: Vec<&Path> = self.read.iter().map(PathBuf::as_path).collect();
        let written: Vec<&Path> = self.written.iter().map(PathBuf::as_path).collect();
        Ok(rights::keep_only(&Kept {
            written: &written,
            read: &read,
            connected: Some(&ports),
            maps: true,
            ..Kept::NOTHING
        })?)
    }
}

/// This moment, and the time of day that it is.
fn now() -> Now {
    Now { at: timestamping::now(), clock: timestamping::conversion().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_described_as_what_it_does() {
        let config = ::agent::config::parse("c", "[target]\nport = [443, \"80-81\"]\n[prometheus]\n").unwrap();
        assert_eq!(
            described(&config),
            [
                "Target: port 443 or 80-81; every send.",
                "Histograms: tcp, qdisc, network, total in at most 4096 series, of as many connections as there is memory for at a time.",
                "Prometheus: http://127.0.0.1:9956/metrics.",
            ]
        );
        let aimed = criteria(&config).aim_once_there(false).unwrap();
        assert_eq!(aimed.words, ["port 443 or 80-81"]);
        assert!(criteria(&::agent::config::parse("c", "").unwrap()).is_empty());
    }
}
