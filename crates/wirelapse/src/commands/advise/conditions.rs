//! The conditions of a connection, read by a process of its own: what decodes a capture, which
//! somebody else has written, has none of the rights that a lab takes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use diagnose::conditions::Conditions;
use diagnose::{Follower, Keep, Options, Report};
use record::Nanos;
use serde::{Deserialize, Serialize};
use store::RunKind;

use crate::commands::analyze::{Source, follow, seed};
use crate::commands::trace::packets;
use crate::exit::BadInput;
use crate::output;

/// Packets kept of the connection.
const PACKETS_KEPT: usize = 2_000_000;

/// A connection of a capture.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Chosen {
    pub(super) file: String,
    /// Why it was chosen, where nobody named it, or how much of it was read.
    pub(super) why: Option<String>,
    pub(super) conditions: Conditions,
    /// How long a byte took, ns, on each connection to that server.
    pub(super) byte_ns: Vec<f64>,
}

/// `FILE#N`, where N is digits; a file name may still contain a `#`.
pub(super) fn path(argument: &str) -> anyhow::Result<(PathBuf, Option<usize>)> {
    match argument.rsplit_once('#').and_then(|(file, n)| Some((file, n.parse::<usize>().ok()?))) {
        Some((_, 0)) => Err(BadInput(format!("{argument}: connections are numbered from 1")).into()),
        Some((file, n)) => Ok((file.into(), Some(n))),
        None => Ok((argument.into(), None)),
    }
}

/// Has another process read them.
pub(super) fn read(argument: &str, budget: Nanos) -> anyhow::Result<Chosen> {
    let own = std::env::current_exe().context("find this program, to read the capture in another process")?;
    let budget = format!("{}ns", budget.0);
    let out = Command::new(own)
        .args(["advise", "--conditions", "--budget", &budget, "--", argument])
        .stdin(Stdio::inherit())
        .output()
        .context("read the capture in another process")?;
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.trim();
    match out.status.code() {
        Some(0) if said.is_empty() => {}
        Some(0) => output::note(said),
        Some(2) => return Err(BadInput(said.trim_start_matches("wirelapse: ").to_owned()).into()),
        _ => anyhow::bail!("reading the capture failed: {said}"),
    }
    serde_json::from_slice(&out.stdout).context("read the conditions of the connection")
}

/// Reads and writes them: the other process.
pub(super) fn write(argument: &str, longest: Nanos) -> anyhow::Result<()> {
    let (place, number) = path(argument)?;
    let run = place.is_dir().then_some(place.as_path());
    let source = match run {
        Some(run) => packets_of(run)?,
        None => Source::open(&place)?,
    };
    rights::keep_for_runs(run.as_slice(), &[], false)?;
    let (number, why) = match number {
        Some(n) => (n, None),
        None => choose(&source)?,
    };
    let options = Options { seed: seed(), keep: Keep::Connection(number, PACKETS_KEPT), ..Options::default() };
    let (follower, reading) = follow(&source, options, 1)?;
    reading.warn();
    let name = run.map_or_else(|| source.name().to_owned(), |run| run.display().to_string());
    let Some(report) = follower.report(number) else {
        let n = quantity::counted(follower.len() as u64, "TCP connection");
        return Err(BadInput(format!("{name}: there is no connection {number}: it has {n}")).into());
    };
    let (report, cut) = beginning(report, longest);
    let why = [why, cut].into_iter().flatten().reduce(|a, b| format!("{a} {b}"));
    let mut conditions = Conditions::of(&report);
    if let Some(run) = run {
        traced(run, &mut conditions)?;
    }
    let server = conditions.server;
    let byte_ns = follower.reports().filter(|r| r.server == server).filter_map(|r| byte_ns(&r)).collect();
    output::json_line(&Chosen { file: name, why, conditions, byte_ns })
}

/// How long a byte of it took; `None` where its beginning was not seen, or it carried none.
fn byte_ns(report: &Report) -> Option<f64> {
    let bytes = report.to_server.unique_bytes + report.to_client.unique_bytes;
    (report.handshake_seen && bytes > 0).then(|| report.duration_ns.0 as f64 / bytes as f64)
}

/// The packets of a traced run.
fn packets_of(run: &Path) -> anyhow::Result<Source> {
    let shown = run.display();
    match store::kind(run)? {
        RunKind::Trace => {}
        kind => {
            return Err(BadInput(format!("{shown} is the run of {kind}: name that of a trace, or a capture")).into());
        }
    }
    let file = run.join(packets::IN_RUN);
    if !file.exists() {
        return Err(BadInput(format!(
            "{shown} has no packets ({}), which a twin is made from: trace with `--packets -o RUN`, give the file \
             of `--packets -w FILE`, or let `wirelapse advise` trace by itself (`-p PID`)",
            packets::IN_RUN
        ))
        .into());
    }
    Ok(Source::open(&file)?)
}

/// Adds what the trace knew of the connection.
fn traced(run: &Path, conditions: &mut Conditions) -> anyhow::Result<()> {
    let ends = [conditions.client, conditions.server];
    let mut control = None;
    store::Run::open(run)?.connections(|c| {
        let is_it = ends.contains(&c.local) && ends.contains(&c.remote);
        control = control.take().or(is_it.then_some(c.congestion_control));
    })?;
    if let Some(name) = control.filter(|name| !name.is_empty()) {
        conditions.told(name);
    }
    Ok(())
}

/// The connection that lost most, of a file that can be read twice.
fn choose(source: &Source) -> anyhow::Result<(usize, Option<String>)> {
    if source.file().is_none() {
        return Ok((1, None));
    }
    let (follower, _) = follow(source, Options { seed: seed(), ..Options::default() }, 1)?;
    let most = follower.reports().max_by_key(|r| (::advise::lost(r), std::cmp::Reverse(r.number)));
    let Some(most) = most else {
        return Err(BadInput(format!("{}: there is no TCP connection in it", source.name())).into());
    };
    let why = (follower.len() > 1).then(|| {
        format!(
            "Connection {} was chosen of {}: it lost most time to what could be changed ({}). Name another with #N.",
            most.number,
            quantity::count(follower.len() as u64),
            ::advise::lost(&most)
        )
    });
    Ok((most.number, why))
}

/// Its beginning, where it is longer than is run again.
fn beginning(report: Report, longest: Nanos) -> (Report, Option<String>) {
    if report.duration_ns <= longest && report.records_left_out == 0 {
        return (report, None);
    }
    let end = report.start_ns.saturating_add(longest.0);
    let options = Options { connections: 1, keep: Keep::Connection(1, PACKETS_KEPT), ..Options::default() };
    let mut follower = Follower::new(options);
    report.records.iter().map(|r| &r.segment).filter(|s| s.at.as_nanos() <= end).for_each(|s| follower.take(s));
    match follower.report(1) {
        Some(beginning) => {
            let text = format!("Of its {}, the first {} are looked at.", report.duration_ns, beginning.duration_ns);
            (Report { number: report.number, ..beginning }, Some(text))
        }
        None => (report, None),
    }
}
