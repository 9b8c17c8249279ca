//! `wirelapse trace`.

mod blind;
mod files;
pub mod lab_path;
mod observed;
mod open;
mod outputs;
pub mod packets;
mod read;
mod recorder;
pub mod request;
mod rights;
pub mod screen;
mod slow;
mod started;

use std::collections::HashMap;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use machine::Caller;
use record::{Monotonic, Nanos, Ratio};
use rustix::process::{Gid, Uid};
use summary::{Needs, Trigger};
use trace::command::Stopped;
use trace::{Memory, Tracer};

use crate::criteria::{Criteria, followed};
use crate::exit::{BadInput, is_closed_pipe, message};
use crate::interrupt::Interrupt;
use crate::options::{self, For, Json, Output, Ready, heading};
use crate::output::{self, Shown, complain, note};
use crate::{hosts, memory, terminal};
use lab_path::Networks;
use outputs::Outputs;
use recorder::Plan;
use request::{Backend, Calls, Request};
use rights::{Rights, Service};

/// Trace programs: the time of every TCP send at each stage from send() to the ACK, and what they
/// receive
///
/// Different filters are combined with AND, repeated ones with OR. The report comes when the trace
/// ends: after --for, when CMD ends, or on Ctrl-C. The output of CMD is not changed, and the report
/// follows it. With --json, the standard output of CMD goes to standard error, so that standard
/// output has only JSON.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("criteria").multiple(true))]
pub struct Args {
    #[command(flatten)]
    criteria: Criteria,
    /// Trace every TCP connection of this machine
    #[arg(long, group = "criteria", help_heading = heading::WHAT)]
    all: bool,
    /// Also time every packet: through the qdisc, the driver, retransmissions and the ACK, and each
    /// drop with the reason the kernel gives
    #[arg(long, help_heading = heading::WHAT)]
    every_packet: bool,
    /// Also trace UDP sockets, each datagram in both directions
    #[arg(long, help_heading = heading::WHAT)]
    udp: bool,
    /// Look for DNS questions and answers of the traced, at the cost of a program that runs for
    /// each packet of this machine: the default with CMD
    #[arg(long, help_heading = heading::WHAT)]
    dns: bool,
    /// The same, and another port of DNS servers, beside 53
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = heading::WHAT)]
    dns_port: Vec<u16>,
    /// Do not look for DNS questions and answers of CMD
    #[arg(long, conflicts_with_all = ["dns", "dns_port"], help_heading = heading::WHAT)]
    no_dns: bool,
    #[command(flatten)]
    copies: packets::Options,
    #[command(flatten)]
    end: For,
    /// Write nothing until this happens, then what came before and what follows (--keep), and end:
    /// 'send > 40ms' (also receive, request, packet, datagram, connect, or a leg: 'send.tcp >
    /// 1ms'), 'connect failed', reset, retransmission, 'retransmission timeout', drop, or signal.
    /// SIGUSR1 always does. Several are combined with OR
    #[arg(long, value_name = "TRIGGER", value_parser = Trigger::parse, requires = "output", conflicts_with = "min_latency", help_heading = heading::HOW_MUCH)]
    until: Vec<Trigger>,
    /// How much of the time before --until is kept in memory, and how long to go on after it
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::seconds_above_zero, default_value = "30s", requires = "until", help_heading = heading::HOW_MUCH)]
    keep: Nanos,
    /// The most memory for what --keep keeps; where that is full, less time is kept
    #[arg(long, value_name = "BYTES", value_parser = quantity::parse::bytes, default_value = "256MiB", requires = "until", help_heading = heading::COST)]
    keep_memory: u64,
    /// Trace a random 1/N of each connection's time
    #[arg(long, value_name = "1/N", value_parser = quantity::parse::ratio, default_value = "1/1", help_heading = heading::COST)]
    sample: Ratio,
    /// Sample individual sends instead of stretches of time: more exact, costs as much as tracing
    /// all
    #[arg(long, help_heading = heading::COST)]
    draw: bool,
    /// Record at most this many sends a second
    #[arg(long, value_name = "N/s", value_parser = quantity::parse::whole_per_second, help_heading = heading::COST)]
    max_rate: Option<std::num::NonZeroU32>,
    /// Keep what tracing costs under this share of the CPU time that the traced programs use, by
    /// tracing less of each connection's time where all of it costs more; the report says how much
    /// was covered. A program that sends little is traced whole
    #[arg(long, value_name = "SHARE", value_parser = cost, conflicts_with_all = ["sample", "draw", "max_rate", "every_packet", "udp", "packets"], help_heading = heading::COST)]
    cost: Option<f64>,
    /// Follow at most this many connections at the same time [default: as many as fit into a
    /// sixteenth of the free memory (of the machine or its control group), at most 64 MiB, at least
    /// 1,024]. The memory is reported when tracing starts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576), help_heading = heading::COST)]
    max_connections: Option<u32>,
    /// Show this many of the slowest sends
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = heading::OUTPUT)]
    slowest: usize,
    /// When to time the calls that write, and how long they wait for space in the send buffer. With
    /// BPF timestamping this runs a program on every TCP write of the machine
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Calls::Auto, help_heading = heading::WHAT)]
    calls: Calls,
    /// Also time received bytes, from the network stack to the program that reads them
    #[arg(long, help_heading = heading::WHAT)]
    receive: bool,
    /// Match requests with their answers, and show how their time divides between programs, kernels
    /// and network, and how long a proxy waited for what it asked others; implies --receive
    #[arg(long, help_heading = heading::WHAT)]
    requests: bool,
    /// Name requests by HTTP/1 method and path (without the query) and by the trace in their header
    /// traceparent, and report connections with several requests at a time; implies --requests
    #[arg(long, help_heading = heading::WHAT)]
    http: bool,
    /// Show a live table while tracing: the default on a terminal, unless CMD or --json uses it
    #[arg(long, conflicts_with_all = ["no_live", "json"], help_heading = heading::OUTPUT)]
    live: bool,
    /// Show nothing while tracing
    #[arg(long, help_heading = heading::OUTPUT)]
    no_live: bool,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    output: Output,
    #[command(flatten, next_help_heading = heading::OUTPUT)]
    files: files::Files,
    /// Print the packets of a file that --packets wrote, with what the trace knew of each, and end;
    /// -c and --filter choose among them
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["criteria", "packets", "output", "json", "command"], help_heading = heading::OUTPUT)]
    read: Option<std::path::PathBuf>,
    /// Show addresses and ports as numbers: the default
    #[arg(short = 'n', long = "numeric", conflicts_with = "resolve", help_heading = heading::OUTPUT)]
    _numeric: bool,
    #[arg(long, help = options::FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    /// Keep and print only what takes at least this long, one line each as it happens; the report
    /// still covers everything
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, help_heading = heading::OUTPUT)]
    min_latency: Option<Nanos>,
    #[arg(long, help = options::RESOLVE, help_heading = heading::OUTPUT)]
    resolve: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    ready: Ready,
    /// Run CMD as root even if another user called sudo
    #[arg(long, requires = "command", help_heading = "Program to run")]
    as_root: bool,
    /// Trace as the agent does, whose recorder this is: with its rights alone, and wait for
    /// cgroups, units and containers, which are below this root
    #[arg(long, value_name = "ROOT", hide = true)]
    as_agent: Option<std::path::PathBuf>,
    /// How the stages are timed
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = heading::COST)]
    backend: Backend,
    /// Trace this program from its first byte to its end, as the user who called sudo. It keeps
    /// running if the trace ends first. Its exit status is passed on (128 plus the number of a
    /// signal that ended it)
    #[arg(last = true, value_name = "CMD", help_heading = None::<&str>)]
    command: Vec<std::ffi::OsString>,
}

/// A share of CPU time above nothing.
fn cost(text: &str) -> Result<f64, String> {
    match quantity::parse::share(text).map_err(|wrong| wrong.to_string())? {
        share if share > 0.0 => Ok(share),
        _ => Err("tracing always costs something: give a share above zero, such as 1%".to_owned()),
    }
}

impl Args {
    /// What a flight recorder is to do, where `--until` asks for one.
    ///
    /// # Errors
    /// What has to be traced too, for a trigger to be seen.
    fn recorder(&self) -> anyhow::Result<Option<Plan>> {
        for trigger in &self.until {
            let (is_traced, with) = match trigger.needs() {
                Needs::Nothing => (true, ""),
                Needs::Receives => (self.receive || self.requests || self.http, "--receive"),
                Needs::Requests => (self.requests || self.http, "--requests"),
                Needs::Packets => (self.every_packet, "--every-packet"),
                Needs::Datagrams => (self.udp, "--udp"),
                Needs::PacketsOrDatagrams => (
                    self.every_packet || self.udp || self.copies.packets,
                    "--every-packet (for TCP), --udp (for UDP), or --packets (for both)",
                ),
                Needs::Copies => (self.copies.packets, "--packets"),
            };
            if !is_traced {
                return Err(BadInput(format!(
                    "--until {trigger:?} needs {with}: add it",
                    trigger = trigger.to_string()
                ))
                .into());
            }
        }
        let (triggers, keep, memory) = (self.until.clone(), self.keep, self.keep_memory);
        // Records of packets and datagrams say it of theirs: each drop is to count once.
        let drops_of_copies = self.copies.packets && !self.every_packet && !self.udp;
        Ok((!triggers.is_empty()).then_some(Plan { triggers, keep, memory, drops_of_copies }))
    }
}

/// How often the tracer is asked for what it has, and the files are given what came.
const TURN: Duration = Duration::from_millis(100);
/// How often the table on the terminal is drawn.
const REDRAW: Duration = Duration::from_millis(250);
/// How often it is looked at which sends wait for their ACK, with --min-latency.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait, after CMD ended, for the ACKs of what it sent last.
const LAST_ACKS: Duration = Duration::from_millis(500);
/// How long a CMD that was interrupted may take to end before the report comes without it.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.read {
        read::print(file, &args.copies)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut started = args.ready.take()?;
    let request = Request::from_args(args)?;
    let caller = if args.as_root || request.command.is_empty() { None } else { Caller::of_sudo()? };
    // Before anything is attached: what cannot be written is found at once.
    let files = match request.recorder {
        Some(_) => Vec::new(),
        None => request.files.open(request.force)?,
    };
    let named: Vec<_> = files.iter().filter_map(|file| file.named_at_the_end().map(Path::to_owned)).collect();
    // A flight recorder makes all of its files later.
    let (run, named) = match request.recorder {
        Some(_) => (None, request.later_files()),
        None => (request.run.as_deref(), named.into_iter().chain(request.next_files()).collect()),
    };
    // From here on Ctrl-C ends the trace with its report, however early it comes. Where there is a
    // CMD, a second one ends the wait for it, so that the report comes. One more ends this program.
    let interrupt = Interrupt::with_patience(if request.command.is_empty() { 1 } else { 2 })?;
    let kernel = request.config.memory()?;
    memory::beforehand(kernel, request.config.max_connections).iter().for_each(|line| note(line));
    let mut tracer = Tracer::start(&request.config)?;
    if let Some(plan) = &request.recorder {
        let seen_in_part = blind::check(plan, &tracer.observations()).map_err(anyhow::Error::msg)?;
        seen_in_part.iter().for_each(|line| note(line));
    }

    let stopped = match request.command.is_empty() {
        true => None,
        false => Some(start_stopped(&request, caller, &mut tracer)?),
    };
    let provenance = observed::provenance(&request, &tracer);
    let begun = timestamping::now::<Monotonic>();
    started.say(request.started(tracer.backend(), kernel))?;
    let mut outputs = Outputs::open(&request, &provenance, files)?;
    let mut screen = request.live.then(|| screen::Screen::open(request.rows())).flatten();
    let mut child = stopped.map(|s| release(s, &request).inspect_err(|_| request.discard())).transpose()?;

    let networks =
        Networks::new(request.config.target.pids.iter().copied().chain(child.as_ref().map(Child::id)).collect());
    let no_nic = observed::no_nic();
    // CMD runs with its own rights by now. From here on a separate process has those that walking
    // the sockets takes, and this one none.
    let limit = || ::rights::keep_for_walks().map_err(std::io::Error::other);
    let mut service = Service { hosts: hosts::Names::default(), networks };
    let rights = Rights(tracer.hand_over(limit, |request| service.serve(request))?);
    let read = followed(&request.config.target, args.as_agent.as_deref().unwrap_or(Path::new("/")));
    // What packets are of is read from the paths of cgroups.
    let cgroups = request.packets.as_ref().and_then(|_| machine::who::mount());
    let read: Vec<_> = read.into_iter().chain(cgroups).collect();
    ::rights::keep_for_trace(run, &named, &read)?;

    let mut labs_seen = None::<Instant>;
    let mut drawn = Instant::now();
    let mut looked = Instant::now();
    let mut stopping = Stopping::new(&request, interrupt);
    let mut ended = None;
    // What fails ends the trace; what was gathered is reported all the same, and then the failure.
    let mut failure = None;
    while failure.is_none()
        && !outputs.are_over(timestamping::now())
        && !stopping.over(&tracer, child.as_mut(), &mut ended)?
    {
        failure = tracer
            .poll(TURN, &mut |event| outputs.event(&event))
            .context("the trace cannot go on")
            .and_then(|()| outputs.turn(&request, timestamping::now(), || tracer.lost()))
            .err();
        if let Some(least) = outputs.tells_waiting()
            && looked.elapsed() >= LOOK
        {
            looked = Instant::now();
            outputs.waiting(tracer.waiting(timestamping::now(), least));
        }
        if request.run.is_some() && labs_seen.is_none_or(|at| at.elapsed() >= lab_path::AGAIN) {
            labs_seen = Some(Instant::now());
            failure = failure.or_else(|| rights.see_labs().context("the trace cannot go on").err());
        }
        if let Some(screen) = &mut screen
            && drawn.elapsed() >= REDRAW
        {
            drawn = Instant::now();
            let facts = observed::facts(&request, &tracer, begun, no_nic.clone());
            screen.frame(|frame, canvas| report::live::trace(frame, canvas, outputs.summary(), &facts));
        }
    }

    let mut facts = observed::facts(&request, &tracer, begun, no_nic);
    let path = rights.lab_path().ok().flatten();
    // Names are asked for while there is a process that may, for as long as a person waits without
    // a word.
    let names = match request.resolve {
        true => {
            let connections = outputs.summary().connections();
            let peers = connections.iter().map(|c| c.connection.remote.ip());
            rights.names(peers).unwrap_or_default()
        }
        false => HashMap::new(),
    };
    let (last, asked) = tracer.finish(&mut |event| outputs.event(&event));
    // Where the trace failed before, that is the cause.
    let failure = failure.or_else(|| asked.context("the end of the trace cannot be had").err());
    outputs.end_requests(&last.lost);
    facts.lost = last.lost + outputs.lost();
    facts.coverage = last.coverage;
    drop(screen);
    if let (Some(child), None) = (&mut child, ended) {
        ended = last_output_of(child, &mut stopping)?;
    }
    let reported = outputs
        .finish(&request, &mut facts, path, &names)
        .and_then(|()| Ok(tell_memory(&request, kernel)?))
        .and_then(|()| Ok(tell_end_of_command(&request, ended)?));
    // CMD's exit status is its own, whoever reads the report.
    let [unreported, failure] = [reported.err(), failure].map(|error| error.filter(|error| !is_closed_pipe(error)));
    match (unreported, failure) {
        (Some(unreported), Some(failure)) => {
            complain!("{}", message(&unreported));
            Err(failure)
        }
        (Some(error), None) | (None, Some(error)) => Err(error),
        (None, None) => Ok(ended.map_or(ExitCode::SUCCESS, passed_on)),
    }
}

/// The report comes after CMD's own output, so it waits for the rest of that; an interrupt ends the
/// wait. How CMD ended, where it did.
fn last_output_of(child: &mut Child, stopping: &mut Stopping) -> std::io::Result<Option<ExitStatus>> {
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || stopping.impatient() {
            return Ok(ended);
        }
        std::thread::sleep(TURN);
    }
}

/// Says to a person how much memory the trace could have taken, which does not depend on its
/// length.
fn tell_memory(request: &Request, kernel: Memory) -> std::io::Result<()> {
    if request.json || request.shown.csv || terminal::quiet() {
        return Ok(());
    }
    let kept = request.recorder.as_ref().map_or(0, |plan| plan.memory);
    let own = request.limits().memory_bound(&request.families()) + kept;
    let line = format!(
        "Memory: at most {}, {} of it in the kernel, for {} connections.",
        quantity::bytes(kernel.most() + own),
        quantity::bytes(kernel.most()),
        quantity::count(request.config.max_connections.into())
    );
    paper::terminal::paragraph(&terminal::canvas(), &line).lines().try_for_each(|line| request.tell(line))
}

/// Says to a person how CMD ended.
fn tell_end_of_command(request: &Request, ended: Option<ExitStatus>) -> std::io::Result<()> {
    let Some(name) = request.command.first().filter(|_| !request.shown.csv && !terminal::quiet()) else {
        return Ok(());
    };
    let name = Path::new(name).display();
    request.tell(&match ended.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("{name} ended with exit status {code}."),
        Some((None, Some(signal))) => format!("{name} was ended by signal {signal}."),
        Some((None, None)) => format!("{name} ended."),
        None => format!("{name} is still running."),
    })
}

/// CMD's exit status, as a shell gives it.
fn passed_on(ended: ExitStatus) -> ExitCode {
    let signal = ended.signal().map(|signal| 128 + signal);
    ended.code().or(signal).and_then(|status| u8::try_from(status).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// When to stop.
struct Stopping {
    interrupt: Interrupt,
    until: Option<Instant>,
    lingering: Option<Instant>,
    interrupted: Option<Instant>,
    with_command: bool,
}

impl Stopping {
    fn new(request: &Request, interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            until: request.duration.map(|d| Instant::now() + d),
            lingering: None,
            interrupted: None,
            with_command: !request.command.is_empty(),
        }
    }

    /// Whether the trace is over; writes to `ended` how CMD ended.
    fn over(
        &mut self,
        tracer: &Tracer,
        child: Option<&mut Child>,
        ended: &mut Option<ExitStatus>,
    ) -> anyhow::Result<bool> {
        let now = Instant::now();
        // A target that has ended takes the trace with it; what of it is on its way is waited for.
        if !self.with_command && self.lingering.is_none() && tracer.processes_are_over() {
            self.lingering = Some(now + LAST_ACKS);
        }
        if let (Some(child), None) = (child, ended.as_ref()) {
            *ended = child.try_wait()?;
            if ended.is_some() {
                self.lingering = Some(now + LAST_ACKS);
            }
        }
        let interrupted = self.interrupt.came() && !self.with_command;
        Ok(interrupted
            || self.until.is_some_and(|until| now >= until)
            || self.lingering.is_some_and(|until| now >= until)
            || self.impatient())
    }

    /// Whether an interrupted CMD has been waited for long enough: a terminal's Ctrl-C reaches CMD
    /// by itself, and what it still sends while it ends belongs to the trace. A second Ctrl-C ends
    /// the wait.
    fn impatient(&mut self) -> bool {
        let requests = self.interrupt.times();
        if requests > 0 && self.interrupted.is_none() {
            self.interrupted = Some(Instant::now());
        }
        requests > 1 || self.interrupted.is_some_and(|at| at.elapsed() >= PATIENCE)
    }
}

/// CMD, held before its first instruction and followed.
fn start_stopped(request: &Request, caller: Option<Caller>, tracer: &mut Tracer) -> anyhow::Result<Stopped> {
    let mut command = Command::new(&request.command[0]);
    command.args(&request.command[1..]);
    if request.json || request.stdout_is_of_packets() {
        command.stdout(output::stderr_of_a_program());
    }
    let stopped = Stopped::start(as_caller(command, caller)).context("cannot start a program")?;
    tracer.follow_pid(stopped.pid())?;
    Ok(stopped)
}

/// `command` with the user, the groups and the home of who called. It is run with fewer rights than
/// this program has, so our token, which root may have set, is not handed to it.
fn as_caller(mut command: Command, caller: Option<Caller>) -> Command {
    let Some(Caller { name, uid, gid, groups, home }) = caller else { return command };
    command.env("HOME", home).env("USER", &name).env("LOGNAME", &name).env_remove(crate::server::TOKEN);
    let groups: Vec<_> = groups.into_iter().map(Gid::from_raw).collect();
    let set_user = move || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
    };
    // SAFETY: the closure makes three system calls and allocates nothing; the forked child has one
    // thread.
    unsafe { command.pre_exec(set_user) };
    command
}

fn release(stopped: Stopped, request: &Request) -> anyhow::Result<Child> {
    stopped.release().map_err(|error| {
        let name = Path::new(&request.command[0]).display();
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
                BadInput(format!("cannot run {name}: {error}; check its name, and PATH")).into()
            }
            _ => anyhow::Error::new(error).context(format!("cannot run {name}")),
        }
    })
}
