//! `wirelapse top`.

mod advisor;
mod aim;
mod background;
mod captured;
mod feed;
mod jobs;
mod kept;
mod places;
mod recording;
mod redact;
mod remote;
mod replay;
mod replaying;
mod screen;
mod state;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum as _;
use record::histogram::GroupBy;
use record::{Leg, Nanos, Ratio, Sampling};
use rights::Kept;
use summary::{Group, SortBy};
use trace::histograms::{Dimensions, Ports};
use trace::{Config, Histograms, Sockets, Target, Tracer};

use crate::criteria::{Aimed, Criteria, followed};
use crate::exit::BadInput;
use crate::hosts;
use crate::interrupt::Interrupt;
use crate::options::{For, Json, heading};
use crate::terminal;
use feed::Feed;
use jobs::Jobs;
use recording::{Action, Recorder, Rights, Service};
use screen::Pressed;
use state::{Asked, State, Typed};

/// Show who talks to whom, how fast, and why it is slow: live, by peer, name, process, unit or pod
///
/// Histograms in the kernel count the sends. Rows show the last ten intervals. Open a row to see
/// its legs over time, why its sends waited, and its slowest sends. On a busy machine only a share
/// of the time is traced; rates are then estimates, marked with ~.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("criteria").multiple(true))]
pub struct Args {
    /// Show this run of `wirelapse trace -o` or this capture again, with keys that go through its
    /// time; or, where there is no such file, what that host shows, over SSH
    #[arg(value_name = "RUN|FILE|HOST", value_hint = clap::ValueHint::AnyPath)]
    from: Option<String>,
    /// Reach HOST by this program with its options, instead of `ssh -t`
    #[arg(long, value_name = "COMMAND", requires = "from", help_heading = heading::WHAT)]
    ssh: Option<String>,
    #[command(flatten)]
    criteria: Criteria,
    /// What a row is
    #[arg(long, value_enum, default_value_t = By::Peer, help_heading = heading::WHAT)]
    by: By,
    /// Sort rows by this
    #[arg(long, value_enum, default_value_t = Sort::Rate, help_heading = heading::OUTPUT)]
    sort: Sort,
    /// Show only rows that this expression takes: port:443 proc:nginx peer:10.0.0.0/8 p99:>50ms
    /// state:connecting wait:window
    #[arg(long, value_name = "EXPR", default_value = "", hide_default_value = true, help_heading = heading::OUTPUT)]
    filter: String,
    /// Time between two updates
    #[arg(short = 'i', long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "1s", help_heading = heading::HOW_MUCH)]
    interval: Nanos,
    /// Trace a random 1/N of each connection's time; without it everything is traced as long as
    /// --max-rate allows
    #[arg(long, value_name = "1/N", value_parser = quantity::parse::ratio, default_value = "1/1", help_heading = heading::COST)]
    sample: Ratio,
    /// Sample so that at most this many sends a second are recorded
    #[arg(long, value_name = "N/s", value_parser = quantity::parse::whole_per_second, default_value = "1000/s", help_heading = heading::COST)]
    max_rate: std::num::NonZeroU32,
    /// Print one table after one interval, and end
    #[arg(long, help_heading = heading::OUTPUT)]
    once: bool,
    /// With --once: print all columns of the table as comma-separated values
    #[arg(long, requires = "once", conflicts_with = "json", help_heading = heading::OUTPUT)]
    csv: bool,
    /// Also ask the resolver for the names of peers that the traffic itself does not name; --once
    /// waits 3 seconds at most
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    resolve: bool,
    /// Show others in place of addresses, names, programs and cgroups; equal ones stay equal
    #[arg(long, conflicts_with = "resolve", help_heading = heading::OUTPUT)]
    redact: bool,
    #[command(flatten)]
    end: For,
    #[command(flatten)]
    json: Json,
}

/// `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The peer's address
    Peer,
    /// The peer's name, by TLS or DNS; its address where no name is known
    Name,
    /// The program that sends
    Program,
    /// The process
    Process,
    /// The systemd unit
    Unit,
    /// The pod or container
    Pod,
    /// The port of the service: the lower of the two
    #[value(alias = "service")]
    Port,
    /// The cgroup of the socket
    Cgroup,
    /// The peer's address and both ports
    Connection,
}

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Peer => Self::Peer,
            By::Name => Self::Name,
            By::Program => Self::Program,
            By::Process => Self::Process,
            By::Unit => Self::Unit,
            By::Pod => Self::Pod,
            By::Port => Self::Port,
            By::Cgroup => Self::Cgroup,
            By::Connection => Self::Connection,
        }
    }
}

/// `--sort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// Sends a second
    Rate,
    /// Median of the total
    P50,
    /// 99th percentile of the total
    P99,
    /// The share of the time that sends wait in TCP
    Tcp,
    /// Retransmitted segments
    Retransmitted,
    /// What is wrong, the worst first
    Trouble,
    /// Bytes sent
    Sent,
    /// Bytes received
    Received,
    /// The name
    Name,
}

impl From<Sort> for SortBy {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Rate => Self::Rate,
            Sort::P50 => Self::P50,
            Sort::P99 => Self::P99,
            Sort::Tcp => Self::Tcp,
            Sort::Retransmitted => Self::Retransmitted,
            Sort::Trouble => Self::Trouble,
            Sort::Sent => Self::Sent,
            Sort::Received => Self::Received,
            Sort::Name => Self::Name,
        }
    }
}

/// How many series there can be: 3.4 kB of kernel memory each.
const SERIES: u32 = 2048;
/// A series leaves after this time without a send.
const IDLE: Duration = Duration::from_secs(60);
/// Received segments of a connection that can wait to be read and be distinguished.
const ARRIVALS: u32 = 32;
/// Room for records: ten thousand and more, of which at most a tenth come before they are read.
const RING: u32 = 4 << 20;
/// The port of servers of DNS.
const DNS: u16 = 53;
/// How long one wait for keys takes: what the tracer has is taken as often.
const TURN: Duration = Duration::from_millis(100);

pub fn run(args: &Args) -> anyhow::Result<()> {
    let on_screen = !args.once && !args.json.json;
    if on_screen && !terminal::is_terminal() {
        let text = "standard output is no terminal: write one table with --once, or lines with --json";
        return Err(BadInput(text.into()).into());
    }
    let filter = Typed::new(&args.filter).map_err(|error| BadInput(format!("--filter: {error}")))?;
    if let Some(from) = &args.from {
        let path = Path::new(from);
        if !path.exists() {
            return remote::run(from, args.ssh.as_deref(), on_screen, &options(args));
        }
        if !args.criteria.is_empty() || args.resolve {
            let text = "a run or a capture shows what was recorded: choose of it with --filter, and leave out what names a target";
            return Err(BadInput(text.into()).into());
        }
        let state = State { columns: kept::columns(), ..State::new(args.by.into(), args.sort.into(), filter) };
        return replaying::run(args, path, state, on_screen);
    }
    let interrupt = Interrupt::listen()?;
    let Aimed { target, words } = args.criteria.aim(args.criteria.is_empty())?;
    let words = if words.is_empty() { "this machine".into() } else { words.join(" and ") };
    let words = if args.redact { "redacted".into() } else { words };
    let mut read = followed(&target, Path::new("/"));
    read.extend(places::Places::read());
    let users = users();
    let columns = kept::columns();
    let sockets = Sockets::new(target.clone())?;
    let config = config(args, target);
    // Requests are known where what is received can be followed too.
    let mut tracer = match Tracer::start(&config) {
        Err(trace::Error::NeedsRoot { lacks }) => return Err(trace::Error::NeedsRoot { lacks }.into()),
        Err(_) if config.receive => Tracer::start(&Config { receive: false, ..config })?,
        started => started?,
    };
    // Walks through the sockets and recordings take rights, which a separate process keeps; what
    // draws and reads keys has none.
    let advisor = Rc::new(Cell::new(None));
    let limit = || match on_screen {
        true => recording::keep_rights(&advisor),
        false => rights::keep_for_walks_and_owners().map_err(std::io::Error::other),
    };
    let jobs = Jobs::new(args.criteria.options());
    let mut service = Service { hosts: hosts::Names::default(), jobs, advisor: Rc::clone(&advisor), sockets };
    let rights = tracer.hand_over(limit, |request| service.serve(request))?;
    let read: Vec<&Path> = read.iter().map(PathBuf::as_path).collect();
    rights::keep_only(&Kept { read: &read, maps: true, ..Kept::NOTHING })?;
    let mut feed = Feed::new(args.interval, args.resolve, args.redact, users);
    let mut state = State { columns, ..State::new(args.by.into(), args.sort.into(), filter) };
    if !on_screen {
        // The time that is asked for is that of intervals.
        feed.read_first(&mut tracer, &rights)?;
    }
    let end = args.end.duration().map(|time| Instant::now() + time);
    let over = |done: bool| done || interrupt.came() || end.is_some_and(|end| Instant::now() >= end);
    if on_screen {
        let mut recorder = Recorder::default();
        let mut screen = screen::Screen::open()?;
        let mut quit = false;
        while !over(quit) {
            feed.draw_and_take((&mut tracer, &rights), &mut state, &mut screen, &words, &recorder)?;
            for pressed in screen.pressed(TURN)? {
                let asked = match pressed {
                    Pressed::Key(key) => state.key(key),
                    Pressed::Mouse(mouse) => state.mouse(mouse),
                };
                let Some(asked) = asked else { continue };
                match asked {
                    Asked::Quit => quit = true,
                    Asked::Act(action) => {
                        act(action, &mut recorder, &rights, &feed, &mut state)?;
                        feed.redraw();
                    }
                    Asked::Keep => {
                        recorder.keep(&rights, &state.columns)?;
                        feed.redraw();
                    }
                    Asked::Copy => {
                        if let Some(line) = feed.line(&mut state) {
                            screen.copy(&line);
                        }
                    }
                    // What goes on has no other time than this.
                    Asked::Redraw | Asked::Seek(_) | Asked::Faster(_) => feed.redraw(),
                }
            }
            if recorder.tick(&rights)? {
                feed.redraw();
            }
        }
        drop(screen);
        recorder.end(&rights)?;
    } else {
        let mut done = false;
        while !done {
            std::thread::sleep(TURN.min(args.interval.into()));
            // Before what is taken, so that an interval which ends with the time is in it.
            done = over(false);
            if feed.take(&mut tracer, &rights, &mut state)? {
                let began = feed::cpu_time();
                let (rows, _) = feed.rows(&mut state, true);
                feed.ask_names(&rights, &rows, hosts::PATIENCE)?;
                write(args, &feed, &mut state, &words)?;
                feed.costs(began);
                done |= args.once;
            }
        }
    }
    tracer.finish(&mut |_| ()).1.context("the trace did not end as it should")
}

/// The options as another host gets them.
fn options(args: &Args) -> Vec<OsString> {
    let mut all = args.criteria.options();
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
    let mut add = |option: &str, value: String| all.extend([option.into(), value.into()]);
    name(args.by.to_possible_value()).into_iter().for_each(|by| add("--by", by));
    name(args.sort.to_possible_value()).into_iter().for_each(|sort| add("--sort", sort));
    if !args.filter.is_empty() {
        add("--filter", args.filter.clone());
    }
    let time = |time: Nanos| format!("{}ns", time.0);
    add("--interval", time(args.interval));
    add("--sample", args.sample.to_string());
    add("--max-rate", format!("{}/s", args.max_rate));
    args.end.duration().into_iter().for_each(|end| add("--for", time(end.into())));
    let flags = [
        (args.once, "--once"),
        (args.csv, "--csv"),
        (args.resolve, "--resolve"),
        (args.redact, "--redact"),
        (args.json.json, "--json"),
    ];
    all.extend(flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| OsString::from(flag)));
    all
}

/// Does something with the chosen row.
fn act(action: Action, recorder: &mut Recorder, rights: &Rights, feed: &Feed, state: &mut State) -> anyhow::Result<()> {
    let of_all = matches!(action, Action::Record | Action::Flight);
    match feed.aim(state) {
        _ if of_all => recorder.start(rights, action, "", Vec::new())?,
        Some((row, aim)) => recorder.start(rights, action, &row, aim)?,
        None => "what this row is of cannot be told to another command".clone_into(&mut recorder.message),
    }
    Ok(())
}

/// The names of users by their numbers, as far as the file of users has them.
fn users() -> HashMap<u32, String> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    // Of several names the first counts, as it does for the library of C.
    text.lines().rev().filter_map(of_line).collect()
}

fn config(args: &Args, target: Target) -> Config {
    let sampling = if args.sample == Ratio::ALL { Sampling::Every } else { Sampling::Windows(args.sample) };
    // Of a sample, one half of most requests is missing.
    let (receive, arrivals_per_connection) = (sampling == Sampling::Every, ARRIVALS);
    let dimensions = Dimensions { ports: Ports::All, cgroup: true, program: true, ..Dimensions::default() };
    let histograms = Histograms {
        legs: vec![Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total],
        round_trips: false,
        dimensions,
        max_series: SERIES,
        folds: true,
        idle: Some(IDLE.max(Duration::from(args.interval) * 3)),
        records: true,
    };
    let mut config = Config {
        target,
        sampling,
        max_rate: Some(args.max_rate),
        histograms: Some(histograms),
        receive,
        arrivals_per_connection,
        hellos: true,
        dns: vec![DNS],
        exchanges: true,
        ring_bytes: Some(RING),
        ..Config::default()
    };
    config.max_connections = crate::memory::connections(&config);
    config
}

/// Writes the rows as lines of JSON or as a table.
fn write(args: &Args, feed: &Feed, state: &mut State, target: &str) -> anyhow::Result<()> {
    let mut out = crate::output::stdout().lock();
    let (rows, in_all) = feed.rows(state, false);
    // A table of values has names in a column of their own, unless they were asked for.
    let named = if args.csv && !args.resolve { rows.clone() } else { Feed::named(rows.clone()) };
    let recorder = Recorder::default();
    let shown = feed.shown(state, (&named, in_all), target, &recorder);
    if args.json.json {
        let mut lines = Vec::new();
        for row in &rows {
            let quantiles = [0.5, 0.99].map(|share| row.quantile(Leg::Total, share));
            export::top::row(&mut lines, &line(state.by, row, quantiles));
        }
        feed.stuck().iter().for_each(|(send, ends)| export::ndjson::waiting(&mut lines, *ends, send));
        out.write_all(&lines)?;
    } else if args.csv {
        let document = report::live::rows(&shown);
        out.write_all(paper::csv::text(&[document]).as_bytes())?;
    } else {
        let canvas = terminal::canvas();
        // Whoever reads a pipe can leave columns out, and cannot ask for more.
        let width = if terminal::is_terminal() { canvas.width } else { report::live::WIDEST };
        out.write_all(report::live::once(&paper::Canvas { width, ..canvas }, &shown).as_bytes())?;
    }
    Ok(out.flush()?)
}

/// Median and 99th percentile.
fn quantiles_of(times: &record::histogram::Histogram) -> [Option<Nanos>; 2] {
    [0.5, 0.99].map(|share| times.quantile(share).map(|bounds| bounds.middle()))
}

/// A row as a line of JSON has it.
fn line(by: GroupBy, row: &Group, quantiles: [Option<Nanos>; 2]) -> export::top::Row<'_> {
    export::top::Row {
        by,
        label: &row.label,
        name: row.name.as_ref().map(|name| (name.name.as_str(), name.source.name())),
        length: row.length,
        figures: &row.figures,
        zero_windows: row.zero_windows,
        quantiles,
        reason: row.chief_reason().map(|(reason, _)| reason),
        trouble: row.trouble.as_ref().map(|trouble| (trouble.name(), report::live::words(trouble))),
        requests: row.requests.times.count(),
        request_quantiles: quantiles_of(&row.requests.times),
        lookups: [row.requests.lookups.count(), row.requests.unanswered],
        lookup_quantiles: quantiles_of(&row.requests.lookups),
        handshakes: row.requests.handshakes.count(),
        handshake_quantiles: quantiles_of(&row.requests.handshakes),
        sockets: &row.sockets,
        sockets_over: row.sockets_over,
    }
}
