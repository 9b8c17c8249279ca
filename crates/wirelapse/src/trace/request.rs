//! From the words of the command line to what is to be done, with everything checked that can be checked before.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::{Ratio, Sampling};
use summary::TimedKind;
use trace::{BackendChoice, Config, Target};

use super::Args;
use crate::exit::BadInput;
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

/// What is to be done.
pub struct Request {
    pub config: Config,
    /// The target in words.
    pub words: String,
    pub command: Vec<std::ffi::OsString>,
    pub duration: Option<Duration>,
    pub slowest: usize,
    /// Whether requests are told beside what they are made of.
    pub requests: bool,
    pub live: bool,
    pub json: bool,
    pub run: Option<PathBuf>,
    pub perfetto: Option<PathBuf>,
}

impl Request {
    pub fn from_args(args: &Args) -> anyhow::Result<Self> {
        let target = args.criteria.target(args.all);
        if target.is_empty() && args.command.is_empty() {
            return Err(bad(
                "nothing to trace: name a process (-p PID), a program (-- CMD), --cgroup PATH, --port N, --peer \
                            CIDR, or --all for every TCP connection of this machine",
            ));
        }
        if args.draw && args.sample == Ratio::ALL {
            return Err(bad("--draw needs --sample 1/N to say how many sends to draw"));
        }
        let whole = [(args.every_packet, "--every-packet"), (args.udp, "--udp")].into_iter().find(|w| w.0);
        if let Some((_, option)) = whole
            && (args.sample != Ratio::ALL || args.max_rate.is_some())
        {
            return Err(bad(format!(
                "{option} tells of all there is and takes no sample: leave out --sample and --max-rate, or {option}"
            )));
        }
        for pid in &target.pids {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                return Err(bad(format!("there is no process {pid}: look it up with ps or pgrep")));
            }
        }
        if let Some(run) = &args.output.output {
            check_run(run)?;
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
        let terminal = terminal::is_terminal();
        Ok(Self {
            words: words(&target, &args.command),
            config: Config {
                target,
                sampling,
                max_rate: args.max_rate,
                backend,
                receive: args.receive || args.requests,
                packets: args.every_packet,
                udp: args.udp,
                max_connections: args.max_connections,
                ..Config::default()
            },
            command: args.command.clone(),
            duration: args.end.duration(),
            slowest: args.slowest,
            requests: args.requests,
            live: terminal && !args.no_live && !args.json.json && (args.live || args.command.is_empty()),
            json: args.json.json,
            run: args.output.output.clone(),
            perfetto: args.perfetto.clone(),
        })
    }

    /// Rows of the terminal that the table takes while tracing.
    pub fn rows(&self) -> u16 {
        let more = |on: bool, rows: u16| if on { rows } else { 0 };
        report::live::ROWS
            + more(self.config.receive, report::live::ROWS_OF_RECEIVES)
            + more(self.requests, report::live::ROWS_OF_REQUESTS)
    }

    /// What the trace tells of.
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

    /// The file for `--perfetto`, found writable before anything is attached. One that exists is emptied only when the
    /// trace has begun; the flag tells whether it was made here.
    pub fn open_perfetto(&self) -> anyhow::Result<Option<(File, bool)>> {
        let Some(path) = &self.perfetto else { return Ok(None) };
        let new = File::options().write(true).create_new(true).open(path);
        let file = match new {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                File::options().write(true).open(path).map(|file| (file, false))
            }
            new => new.map(|file| (file, true)),
        };
        file.map(Some)
            .map_err(|e| bad(format!("cannot write {}: {e}; name another file for --perfetto", path.display())))
    }

    /// Takes an empty file away again that was made for a trace that never began.
    pub fn remove_perfetto(&self, made: bool) {
        if let (Some(path), true) = (&self.perfetto, made) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Takes away what was made for a program that then could not be run: the run directory of this trace holds nothing.
    pub fn discard(&self, perfetto_made: bool) {
        self.remove_perfetto(perfetto_made);
        if let Some(run) = &self.run {
            let _ = std::fs::remove_dir_all(run);
        }
    }

    /// A line for the person, beside what standard output is for.
    pub fn tell(&self, line: &str) -> io::Result<()> {
        match self.json {
            true => writeln!(io::stderr(), "{line}"),
            false => writeln!(io::stdout(), "{line}"),
        }
    }
}

fn bad(text: impl Into<String>) -> anyhow::Error {
    BadInput(text.into()).into()
}

/// Whether the run directory can be made; it is made when tracing begins.
fn check_run(run: &Path) -> anyhow::Result<()> {
    if run.symlink_metadata().is_ok() {
        return Err(bad(store::Error::Exists(run.to_owned()).to_string()));
    }
    let parent = match run.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let text = std::ffi::CString::new(parent.as_os_str().as_encoded_bytes()).unwrap_or_default();
    // SAFETY: the path ends in a zero byte, and access() only reads it.
    if unsafe { libc::access(text.as_ptr(), libc::W_OK | libc::X_OK) } != 0 {
        let error = io::Error::last_os_error();
        return Err(bad(format!(
            "cannot make a directory in {}: {error}; name another place for -o",
            parent.display()
        )));
    }
    Ok(())
}

/// What is traced, as a person would say it: criteria of one kind with "or", of different kinds with "and".
fn words(target: &Target, command: &[std::ffi::OsString]) -> String {
    fn any<T: ToString>(kind: &str, values: &[T]) -> Option<String> {
        let values: Vec<String> = values.iter().map(T::to_string).collect();
        (!values.is_empty()).then(|| format!("{kind} {}", values.join(" or ")))
    }
    let program = command.first().map(|name| {
        let name = Path::new(name);
        name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned()
    });
    let cgroup = target.cgroup.as_ref().map(|path| format!("cgroup {}", path.display()));
    let parts: Vec<String> =
        [program, any("process", &target.pids), cgroup, any("port", &target.ports), any("peer", &target.peers)]
            .into_iter()
            .flatten()
            .collect();
    if parts.is_empty() { "this machine".into() } else { parts.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_in_words() {
        let target = Target { pids: vec![1, 2], ports: vec![80], ..Target::default() };
        assert_eq!(words(&target, &[]), "process 1 or 2 and port 80");
        assert_eq!(words(&Target::default(), &["/usr/bin/curl".into(), "x".into()]), "curl");
        assert_eq!(words(&Target { all: true, ..Target::default() }, &[]), "this machine");
    }
}
