//! Options that several commands take: each with one name, one meaning and one text.

use std::path::PathBuf;

use quantity::parse;
use record::Nanos;
use trace::IpNet;

/// `--for` in every command.
pub const FOR: &str = "End after this time: 500ms, 10s, 5m (a number alone is seconds)";
/// `--json` in every command.
pub const JSON: &str = "Write one JSON object a line, and nothing for people";
/// `--output` in every command that keeps a run.
pub const OUTPUT: &str = "Keep what was found in this new directory, a run: run.json and Parquet tables";
/// `--force` in every command that writes files.
pub const FORCE: &str = "Write over files that exist";

/// Machine-readable output.
#[derive(clap::Args)]
pub struct Json {
    #[arg(long, help = JSON)]
    pub json: bool,
}

/// An end by time; without it a command goes on to Ctrl-C.
#[derive(clap::Args)]
pub struct For {
    #[arg(long = "for", value_name = "TIME", value_parser = parse::duration_above_zero, help = FOR)]
    duration: Option<Nanos>,
}

impl For {
    /// How long, where there is an end.
    pub fn duration(&self) -> Option<std::time::Duration> {
        self.duration.map(Into::into)
    }
}

/// Where a run is kept.
#[derive(clap::Args)]
pub struct Output {
    #[arg(short, long, value_name = "RUN", help = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// Which connections: `trace` and `watch`. Options of different kinds must all hold; of one kind, any.
#[derive(clap::Args)]
pub struct Criteria {
    /// Only connections of this process and of every process that it starts; may be repeated
    #[arg(short, long = "pid", value_name = "PID", group = "criteria")]
    pid: Vec<u32>,
    /// Only connections of sockets made in this cgroup or below it
    #[arg(long, value_name = "PATH", group = "criteria")]
    cgroup: Option<PathBuf>,
    /// Only connections with this local or remote port; may be repeated
    #[arg(long, value_name = "PORT", group = "criteria", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Only connections to this address or network; may be repeated
    #[arg(long, value_name = "CIDR", group = "criteria")]
    peer: Vec<IpNet>,
}

impl Criteria {
    /// As the library takes them; `all` where nothing narrows them.
    pub fn target(&self, all: bool) -> trace::Target {
        trace::Target {
            pids: self.pid.clone(),
            cgroup: self.cgroup.clone(),
            ports: self.port.clone(),
            peers: self.peer.clone(),
            all,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pid.is_empty() && self.cgroup.is_none() && self.port.is_empty() && self.peer.is_empty()
    }
}

/// How long, how fine, and where: `stream`, `rr`, `crr` and `udp`.
#[derive(clap::Args)]
pub struct Measure {
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = parse::duration_above_zero, default_value = "10s", help = FOR)]
    duration: Nanos,
    /// Time from one line of the series to the next
    #[arg(short = 'i', long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value = "1s")]
    interval: Nanos,
    /// Bind this side's threads to a CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

impl Measure {
    /// How long to measure.
    pub fn duration(&self) -> Nanos {
        self.duration
    }

    /// The width of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval
    }
}
