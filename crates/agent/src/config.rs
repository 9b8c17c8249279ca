//! The agent's configuration, in TOML.

mod read;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use record::histogram::SeriesKey;
use record::{Connect, Connection, IpPrefix, Leg, Nanos, Opening, Question, Ratio};
use summary::Trigger;

pub use read::parse;
pub(crate) use read::port;
pub use settings::Wrong;

/// Everything that the file says, with the defaults in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Name of this host; `None` asks the system.
    pub host: Option<String>,
    /// Which connections.
    pub target: Target,
    /// What the histograms are of.
    pub histograms: Histograms,
    /// The endpoint; `None` without the section.
    pub prometheus: Option<Prometheus>,
    /// Where figures are pushed to; `None` without the section.
    pub otlp: Option<Otlp>,
    /// Where runs are kept; `None` without the section.
    pub store: Option<Store>,
    /// The API that is asked for names; `None` without the section.
    pub kubernetes: Option<Kubernetes>,
    /// The flight recorder; `None` without the section.
    pub recorder: Option<Recorder>,
}

/// `[target]`: which connections. Without any criterion all of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// First and last port of each range.
    pub ports: Vec<(u16, u16)>,
    /// Addresses or networks, as they are written.
    pub peers: Vec<String>,
    /// Folders of the cgroup hierarchy.
    pub cgroups: Vec<PathBuf>,
    /// Names of programs.
    pub programs: Vec<String>,
    /// systemd units.
    pub units: Vec<String>,
    /// Names or ids of containers.
    pub containers: Vec<String>,
    /// Which share of the time sends are observed.
    pub sample: Ratio,
    /// The most connections that are followed at a time; `None` for as many as the machine has
    /// memory for.
    pub max_connections: Option<u32>,
}

/// `[histograms]`: what series are kept apart by, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histograms {
    /// Which legs.
    pub stages: Vec<Leg>,
    /// Whether by the peer's address.
    pub peer: bool,
    /// How many bits of an IPv4 address count.
    pub ipv4_prefix: u8,
    /// Of an IPv6 address.
    pub ipv6_prefix: u8,
    /// Whether, and by which, ports.
    pub port: Port,
    /// Whether by cgroup: unit, container and pod.
    pub cgroup: bool,
    /// Whether by program.
    pub program: bool,
    /// Whether attempts to connect, and how connections end, are counted too.
    pub connections: bool,
    /// Whether requests and their answers are counted, and by what.
    pub requests: Asked,
    /// The ports of servers of DNS whose questions and answers are counted; none for none.
    pub dns: Vec<u16>,
    /// The most series that the kernel counts, and the store keeps.
    pub max_series: u32,
    /// How many of these are published by themselves, those with most sends.
    pub busiest: u32,
    /// How long a series without sends stays.
    pub idle: Nanos,
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Not at all.
    #[default]
    None,
    /// By the order of what is sent and received.
    Times,
    /// Likewise, and by the status of answers of HTTP/1.
    Http,
}

/// Which ports are dimensions of series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// None.
    #[default]
    None,
    /// The one that the server of each connection listens at.
    Listening,
    /// Both.
    All,
}

/// `[prometheus]`: the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prometheus {
    /// Where it listens.
    pub listen: SocketAddr,
    /// A file that holds the token which a request has to show.
    pub token_file: Option<PathBuf>,
    /// The certificate chain and the key, PEM files.
    pub tls: Option<Tls>,
    /// The exponential buckets with upper bounds that classic ones have, in their order.
    pub buckets: Vec<i32>,
}

/// `[kubernetes]`: the API of the cluster, which names peers and the owners of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Its URL; `None`: as the kubelet tells every container.
    pub url: Option<String>,
    /// A file with the token.
    pub token_file: PathBuf,
    /// A PEM file with the certificate of its authority.
    pub authority: PathBuf,
    /// Labels of pods that become labels of series.
    pub labels: Vec<String>,
}

impl Kubernetes {
    /// The URL of the API. `variable` reads the environment.
    pub fn url(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        self.url.clone().or_else(|| {
            let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
            Some(if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") })
        })
    }
}

/// What a TLS server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// `[otlp]`: where figures are pushed to.
#[derive(Clone, PartialEq, Eq)]
pub struct Otlp {
    /// The whole URL.
    pub endpoint: String,
    /// How often.
    pub interval: Nanos,
    /// Headers of every request; they may be secret.
    pub headers: BTreeMap<String, String>,
}

/// Without the values of the headers.
impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<&String> = self.headers.keys().collect();
        let mut debug = f.debug_struct("Otlp");
        debug.field("endpoint", &self.endpoint).field("interval", &self.interval).field("headers", &headers).finish()
    }
}

/// `[store]`: where runs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where.
    pub place: Place,
    /// Length of a run.
    pub rotate: Nanos,
    /// Length of an interval of the histograms.
    pub interval: Nanos,
    /// Length that the intervals of a run that is over are joined to.
    pub join: Nanos,
    /// Runs older than this are removed from the directory.
    pub keep: Option<Nanos>,
    /// The most that all runs in the directory take.
    pub max_bytes: u64,
    /// Which share of the observed sends has a row; `None`: none has.
    pub sample: Option<Ratio>,
}

/// Where runs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// An S3-compatible store; runs wait in a directory until they are there.
    S3 {
        /// The bucket.
        bucket: String,
        /// What its keys begin with; empty, or without a slash at its ends.
        prefix: String,
        /// Where runs wait.
        spool: PathBuf,
    },
}

impl Place {
    /// The directory that runs are written to.
    pub fn directory(&self) -> &std::path::Path {
        match self {
            Self::Directory(path) | Self::S3 { spool: path, .. } => path,
        }
    }
}

/// `[recorder]`: what is written with what led to it once it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorder {
    /// Any of these.
    pub until: Vec<Trigger>,
    /// How much of what came before is kept, and how long it goes on afterwards.
    pub keep: Nanos,
    /// The most memory for what is kept, bytes.
    pub memory: u64,
    /// Whether packets are kept too.
    pub packets: bool,
    /// Where the runs are written.
    pub directory: PathBuf,
    /// How long nothing is recorded once a run was written.
    pub pause: Nanos,
    /// The most that all runs in the directory take; the oldest make room.
    pub max_bytes: u64,
}

impl Target {
    /// Whether no criterion is there: it is all connections of the machine.
    pub fn is_everything(&self) -> bool {
        let Self { ports, peers, cgroups, programs, units, containers, sample: _, max_connections: _ } = self;
        ports.is_empty()
            && cgroups.is_empty()
            && [peers, programs, units, containers].into_iter().all(|names| names.is_empty())
    }
}

impl Default for Target {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            peers: Vec::new(),
            cgroups: Vec::new(),
            programs: Vec::new(),
            units: Vec::new(),
            containers: Vec::new(),
            sample: Ratio::ALL,
            max_connections: None,
        }
    }
}

impl Default for Histograms {
    fn default() -> Self {
        Self {
            stages: vec![Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total],
            peer: true,
            ipv4_prefix: 32,
            ipv6_prefix: 128,
            port: Port::None,
            cgroup: true,
            program: false,
            connections: true,
            requests: Asked::None,
            dns: Vec::new(),
            max_series: 4096,
            busiest: 80,
            idle: Nanos::from_secs(600),
        }
    }
}

impl Histograms {
    /// The key of the series that an attempt to connect is counted in, as that of the connection's
    /// sends is made in the kernel.
    pub(crate) fn key_of(&self, connect: &Connect) -> SeriesKey {
        SeriesKey {
            cgroup: connect.cgroup.filter(|_| self.cgroup),
            program: self.program.then(|| connect.owner.comm.to_string()),
            ..self.key_between(connect.local, connect.remote, connect.opening)
        }
    }

    /// The key of a connection of which no set-up was seen: its cgroup is not known.
    pub(crate) fn key_of_connection(&self, connection: &Connection) -> SeriesKey {
        SeriesKey {
            program: self.program.then(|| connection.owner.comm.to_string()),
            ..self.key_between(connection.local, connection.remote, connection.opening)
        }
    }

    fn key_between(&self, local: SocketAddr, remote: SocketAddr, opening: Opening) -> SeriesKey {
        let bits = if remote.is_ipv4() { self.ipv4_prefix } else { self.ipv6_prefix };
        let here = (self.port == Port::All || opening == Opening::Accepted).then(|| local.port());
        let there = (self.port == Port::All || opening != Opening::Accepted).then(|| remote.port());
        let by_port = self.port != Port::None;
        SeriesKey {
            peer: self.peer.then(|| IpPrefix::new(remote.ip(), bits)),
            peer_port: there.filter(|_| by_port),
            local_port: here.filter(|_| by_port),
            ..SeriesKey::default()
        }
    }

    /// The key of the series that a question of DNS is counted in. Its server is kept apart,
    /// whatever peers are: there are few.
    pub(crate) fn key_of_question(&self, question: &Question) -> SeriesKey {
        let server = question.server.ip();
        SeriesKey {
            peer: Some(IpPrefix::new(server, if server.is_ipv4() { 32 } else { 128 })),
            cgroup: question.cgroup.filter(|_| self.cgroup),
            program: self.program.then(|| question.owner.comm.to_string()),
            ..SeriesKey::default()
        }
    }
}

impl Config {
    /// What a running agent cannot take over from `new`, section and key: it needs a restart.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let listen = |config: &Self| {
            config.prometheus.as_ref().map(|p| (p.listen, p.token_file.clone(), p.tls.clone(), p.buckets.clone()))
        };
        let port = |config: &Self| config.otlp.as_ref().map(|otlp| port(&otlp.endpoint));
        let place = |config: &Self| config.store.as_ref().map(|store| (store.place.clone(), store.sample.is_some()));
        [
            ("host", self.host != new.host),
            ("[target]", self.target != new.target),
            ("[histograms]", self.histograms != new.histograms),
            ("[prometheus] listen, token_file, tls and buckets", listen(self) != listen(new)),
            ("[otlp] the port of endpoint", port(self) != port(new)),
            ("[store] url, spool, and whether there is a sample", place(self) != place(new)),
            ("[kubernetes]", self.kubernetes != new.kubernetes),
            ("[recorder]", self.recorder != new.recorder),
        ]
        .into_iter()
        .filter_map(|(key, changed)| changed.then_some(key))
        .collect()
    }

    /// The TCP port that figures are pushed to.
    pub fn otlp_port(&self) -> Option<u16> {
        self.otlp.as_ref().and_then(|otlp| port(&otlp.endpoint))
    }
}
