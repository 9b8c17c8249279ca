//! From the words of the command line to what is to be done, with everything checked that can be
//! checked before.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::{Nanos, Question, Ratio, Sampling};
use summary::{Limits, TimedKind};
use trace::{BackendChoice, Config};

use super::Args;
use super::files::Files;
use super::packets::Packets;
use super::recorder::Plan;
use crate::criteria::Aimed;
use crate::exit::BadInput;
use crate::memory;
use crate::output::Shown;
use crate::output::harmless;
use crate::terminal;

/// `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// BPF timestamping where the kernel has it, else tracepoints
    Auto,
    /// BPF timestamping (Linux 6.15 and later)
    Timestamping,
    /// Tracepoints
    Tracepoints,
}

/// `--calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Calls {
    /// Where every send is traced
    Auto,
    /// In a sampled trace too
    Always,
    /// Never
    Never,
}

/// What is to be done.
pub struct Request {
    pub config: Config,
    /// The target in words.
    pub words: String,
    pub command: Vec<std::ffi::OsString>,
    pub duration: Option<Duration>,
    pub slowest: usize,
    /// Whether requests are reported beside their sends and receives.
    pub requests: bool,
    pub live: bool,
    pub json: bool,
    pub run: Option<PathBuf>,
    /// The files beside the run.
    pub files: Files,
    /// What is done with copies of packets, where there are any.
    pub packets: Option<Packets>,
    /// What a flight recorder does, where it is one.
    pub recorder: Option<Plan>,
    /// The least time of what is kept and printed, where there is one.
    pub min_latency: Option<Nanos>,
    /// Whether existing files are overwritten.
    pub force: bool,
    /// Whether the report names hosts.
    pub resolve: bool,
    /// How the report is drawn.
    pub shown: Shown,
}

impl Request {
    /// Whether all that the traced programs send and receive is traced: then it is known what they
    /// ask for the requests that they answer.
    pub fn traces_whole_programs(&self) -> bool {
        let Config { target, sampling, max_rate, cost, .. } = &self.config;
        let by_connection = !target.ports.is_empty() || !target.peers.is_empty();
        !by_connection && *sampling == Sampling::Every && max_rate.is_none() && cost.is_none()
    }

    pub fn from_args(args: &Args) -> anyhow::Result<Self> {
        let Aimed { mut target, words } = match &args.as_agent {
            None => args.criteria.aim(args.all)?,
            Some(_) => args.criteria.aim_once_there(args.all)?,
        };
        if let Some(root) = &args.as_agent {
            (target.awaited, target.root) = (true, Some(root.clone()));
        }
        if target.is_empty() && args.command.is_empty() {
            return Err(bad(
                "nothing to trace: name a process (-p PID, --comm NAME), a program to run (-- CMD), --unit, --container or --cgroup, --port, \
                 --peer, or --all for every TCP connection of this machine",
            ));
        }
        if args.draw && args.sample == Ratio::ALL {
            return Err(bad("--draw needs --sample 1/N to say how many sends to draw"));
        }
        let whole = [(args.every_packet, "--every-packet"), (args.udp, "--udp"), (args.copies.packets, "--packets")]
            .into_iter()
            .find(|w| w.0);
        if let Some((_, option)) = whole
            && (args.sample != Ratio::ALL || args.max_rate.is_some())
        {
            return Err(bad(format!(
                "{option} reports everything and cannot be sampled: remove --sample and --max-rate, or {option}"
            )));
        }
        for pid in &target.pids {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                return Err(bad(format!("there is no process {pid}: find it with ps or pgrep")));
            }
        }
        if let Some(pid) = target.pids.iter().find(|&&pid| is_kernel_thread(pid)) {
            return Err(bad(format!(
                "process {pid} is a kernel thread, and its writes are not traced: name the process of a program, or trace by \
                 --port or --peer"
            )));
        }
        if let Some(run) = &args.output.output {
            crate::files::check_run(run, args.force)?;
        }
        args.files.refuse(args.force)?;
        let recorder = args.recorder()?;
        let packets = args.copies.packets(args.output.output.as_deref(), args.force)?;
        let on_stdout = packets.as_ref().is_some_and(Packets::on_stdout);
        if on_stdout && (args.json.json || args.min_latency.is_some()) {
            return Err(bad(
                "-w - writes packets to standard output, where --json and --min-latency write lines: name a file for one of them",
            ));
        }
        let sampling = match (args.sample, args.draw) {
            (Ratio::ALL, _) => Sampling::Every,
            (ratio, false) => Sampling::Windows(ratio),
            (ratio, true) => Sampling::Draws(ratio),
        };
        let backend = match args.backend {
            Backend::Auto => BackendChoice::Auto,
            Backend::Timestamping => BackendChoice::Timestamping,
            Backend::Tracepoints => BackendChoice::Tracepoints,
        };
        let requests = args.requests || args.http;
        let mut config = Config {
            target,
            sampling,
            max_rate: args.max_rate,
            cost: args.cost,
            backend,
            calls: match args.calls {
                Calls::Auto => sampling == Sampling::Every && args.max_rate.is_none() && args.cost.is_none(),
                Calls::Always => true,
                Calls::Never => false,
            },
            receive: args.receive || requests,
            http: args.http,
            packets: args.every_packet,
            udp: args.udp,
            dns: dns_ports(args)?,
            copies: packets.as_ref().map(|packets| packets.payload),
            copies_tracepoints: !args.copies.no_tracepoints,
            least_rights: args.as_agent.is_some(),
            ..Config::default()
        };
        config.max_connections = args.max_connections.unwrap_or_else(|| memory::connections(&config));
        let terminal = terminal::is_terminal();
        Ok(Self {
            words: in_words(words, &args.command),
            min_latency: args.min_latency,
            force: args.force,
            resolve: args.resolve,
            shown: args.shown,
            config,
            command: args.command.clone(),
            duration: args.end.duration(),
            slowest: args.slowest,
            requests,
            // Lines as they happen and a table cannot share a terminal.
            live: terminal
                && !args.no_live
                && recorder.is_none()
                && !args.json.json
                && !on_stdout
                && args.min_latency.is_none()
                && (args.live || args.command.is_empty()),
            json: args.json.json,
            run: args.output.output.clone(),
            files: args.files.clone(),
            packets,
            recorder,
        })
    }

    /// What a flight recorder makes once it has something to write.
    pub fn later_files(&self) -> Vec<PathBuf> {
        // Packets inside of the run are not: its folder is.
        let run = self.run.as_deref();
        let packets = self.packets.as_ref().and_then(Packets::path).filter(|file| file.parent() != run);
        run.into_iter().chain(packets).chain(self.files.paths()).map(Path::to_owned).collect()
    }

    /// What is made while the trace goes on, beside its run.
    pub fn next_files(&self) -> Option<PathBuf> {
        self.packets.as_ref().filter(|packets| packets.rotates())?.path().map(Path::to_owned)
    }

    /// Whether standard output is for packets alone.
    pub fn stdout_is_of_packets(&self) -> bool {
        self.packets.as_ref().is_some_and(Packets::on_stdout)
    }

    /// Rows of the terminal that the table takes while tracing.
    pub fn rows(&self) -> u16 {
        let more = |on: bool, rows: u16| if on { rows } else { 0 };
        report::live::ROWS
            + more(self.config.receive, report::live::ROWS_OF_RECEIVES)
            + more(self.requests, report::live::ROWS_OF_REQUESTS)
    }

    /// What the trace reports.
    pub fn families(&self) -> Vec<TimedKind> {
        let mut families = vec![TimedKind::Sends];
        families.extend(self.config.receive.then_some(TimedKind::Receives));
        if self.requests {
            families.extend([TimedKind::AtClient, TimedKind::AtServer]);
        }
        families.extend(self.config.packets.then_some(TimedKind::Packets));
        if self.config.udp {
            families.extend([TimedKind::DatagramsSent, TimedKind::DatagramsReceived]);
        }
        families
    }

    /// How much of it is kept for the report.
    pub fn limits(&self) -> Limits {
        let all = Limits::default();
        Limits { labels: if self.config.http { all.labels } else { 0 }, ..all }
    }

    /// What is said as soon as it is true. Where there is a CMD nothing is: it begins when tracing
    /// has, and standard error is its own.
    pub fn started(&self, backend: trace::Backend, kernel: trace::Memory) -> Option<String> {
        let (now, most) = (quantity::bytes(kernel.at_once), quantity::bytes(kernel.most()));
        let waits = self.recorder.as_ref().map_or_else(String::new, |plan| {
            let memory = quantity::bytes(plan.memory);
            format!(" The last {} are kept in at most {memory} of memory until `{}`.", plan.keep, plan.in_words())
        });
        self.command.is_empty().then(|| {
            format!(
                "Tracing started: {}, by {backend}, with {now} of kernel memory, at most {most}.{waits}",
                self.words
            )
        })
    }

    /// Removes the run that is to be overwritten: as late as possible, so that a trace that cannot
    /// start removes nothing.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn remove_old_run(&self) -> anyhow::Result<()> {
        self.run.as_deref().map_or(Ok(()), |run| crate::files::remove_run(run, self.force))
    }

    /// Takes away what was made for a program that then could not be run: the run directory of this
    /// trace holds nothing.
    pub fn discard(&self) {
        if let Some(run) = &self.run {
            let _ = std::fs::remove_dir_all(run);
        }
    }

    /// A line for the person, beside what standard output is for.
    pub fn tell(&self, line: &str) -> io::Result<()> {
        let line = harmless(line);
        match self.json || self.stdout_is_of_packets() {
            true => writeln!(crate::output::stderr(), "{line}"),
            false => writeln!(crate::output::stdout(), "{line}"),
        }
    }
}

/// The port of DNS.
const DNS: u16 = 53;

/// The ports of the servers whose answers are looked for.
fn dns_ports(args: &Args) -> anyhow::Result<Vec<u16>> {
    let sampled = args.sample != Ratio::ALL || args.max_rate.is_some() || args.cost.is_some();
    // It costs every packet of the machine a little, which somebody who runs a command has asked
    // for, and somebody who watches a host has not.
    let by_itself = !args.command.is_empty() && !sampled && !args.no_dns;
    if !by_itself && !args.dns && args.dns_port.is_empty() {
        return Ok(Vec::new());
    }
    let mut ports: Vec<u16> = [DNS].into_iter().chain(args.dns_port.iter().copied()).collect();
    ports.sort_unstable();
    ports.dedup();
    match ports.len() {
        ..=Question::MOST_PORTS => Ok(ports),
        _ => Err(bad(format!("--dns-port can name {} ports beside 53", Question::MOST_PORTS - 1))),
    }
}

/// Whether the kernel runs this process by itself: `PF_KTHREAD` (include/linux/sched.h) in the
/// ninth field of `/proc/PID/stat`, where the second may hold anything in parentheses.
fn is_kernel_thread(pid: u32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

fn bad(text: impl Into<String>) -> anyhow::Error {
    BadInput(text.into()).into()
}

/// What is traced, as a person would say it: criteria of different kinds with "and".
fn in_words(criteria: Vec<String>, command: &[std::ffi::OsString]) -> String {
    let program = command.first().map(|name| {
        let name = Path::new(name);
        name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned()
    });
    let all: Vec<String> = program.into_iter().chain(criteria).collect();
    if all.is_empty() { "this machine".into() } else { all.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_no_thread_of_the_kernel() {
        assert!(!is_kernel_thread(std::process::id()));
    }

    #[test]
    fn the_target_in_words() {
        let criteria = vec!["process 1 or 2".into(), "port 80".into()];
        assert_eq!(in_words(criteria, &[]), "process 1 or 2 and port 80");
        assert_eq!(in_words(Vec::new(), &["/usr/bin/curl".into(), "x".into()]), "curl");
        assert_eq!(in_words(Vec::new(), &[]), "this machine");
    }
}
