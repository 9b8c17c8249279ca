//! `wirelapse watch`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::TypedValueParser as _;
use record::{Field, Moment, Nanos, Reading, ReadingsBy};
use report::live::ROWS_OF_WATCH;
use report::page;
use rights::Kept;
use summary::{FieldGroups, FieldHistogram};
use trace::watch::Watcher;

use crate::commands::trace::screen;
use crate::criteria::{Criteria, followed};
use crate::interrupt::Interrupt;
use crate::options::{For, Json, Ready, heading};
use crate::output::complain;
use crate::terminal;

/// Show a live histogram of a field of TCP connections: header-length, srtt, cwnd, window-scale, …
///
/// header-length and window-scale are read when a connection is established, the others once a
/// second, unless --at says otherwise. Connections are never changed. If both ends of a connection
/// are on this machine, both are read; --port and --peer select one.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("criteria").multiple(true))]
pub struct Args {
    /// The field
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Field::ALL.map(possible)).map(|name| field(&name)))]
    field: Field,
    /// When to read the field: when a connection is established, when it ends, or at intervals
    #[arg(long, value_enum, help_heading = heading::WHAT)]
    at: Option<At>,
    /// Time between two readings, with --at every
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "1s", help_heading = heading::HOW_MUCH)]
    every: Nanos,
    /// One histogram for each peer, service port or program
    #[arg(long, value_enum, help_heading = heading::WHAT)]
    by: Option<By>,
    #[command(flatten)]
    criteria: Criteria,
    /// End after this many values
    #[arg(long, value_name = "N", value_parser = quantity::parse::count_within(1..=u64::MAX), help_heading = heading::HOW_MUCH)]
    count: Option<u64>,
    #[command(flatten)]
    end: For,
    #[command(flatten)]
    json: Json,
    /// Write only the final histograms, as comma-separated values
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    csv: bool,
    #[command(flatten)]
    ready: Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum At {
    /// When it is established
    Connect,
    /// When it ends
    Close,
    /// Every so often
    Every,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The peer's address
    Peer,
    /// The port of the service: the lower of the two
    Port,
    /// The program's name
    Comm,
}

impl From<By> for ReadingsBy {
    fn from(by: By) -> Self {
        match by {
            By::Peer => Self::Peer,
            By::Port => Self::Port,
            By::Comm => Self::Comm,
        }
    }
}

/// How often what is on the terminal is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);
/// How long one wait for readings takes, so that Ctrl-C is heard soon.
const TURN: Duration = Duration::from_millis(100);

fn possible(field: Field) -> clap::builder::PossibleValue {
    clap::builder::PossibleValue::new(field.name()).help(field.meaning())
}

fn field(name: &str) -> Field {
    // Only names of fields come here.
    Field::ALL.into_iter().find(|field| field.name() == name).unwrap_or(Field::HeaderLength)
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut started = args.ready.take()?;
    let aimed = args.criteria.aim(args.criteria.is_empty())?;
    let at = args.at.unwrap_or(if args.field.settled_at_connect() { At::Connect } else { At::Every });
    let moment = match at {
        At::Connect => Moment::Connect,
        At::Close => Moment::Close,
        At::Every => Moment::Every,
    };
    let interrupt = Interrupt::listen()?;
    let mut watcher = Watcher::start(&aimed.target, moment)?;
    started.say(Some(format!("Watching started: {}.", args.field.name())))?;
    // Looking again and again goes into the network namespaces of other programs, which takes what
    // root may do.
    if moment != Moment::Every {
        let read = followed(&aimed.target, Path::new("/"));
        let read: Vec<&Path> = read.iter().map(PathBuf::as_path).collect();
        rights::keep_only(&Kept { read: &read, maps: true, ..Kept::NOTHING })?;
    }
    let (begun, duration, every) = (Instant::now(), args.end.duration(), Duration::from(args.every));
    let mut tally = Tally {
        field: args.field,
        by: args.by.map(Into::into),
        groups: FieldGroups::new(args.field),
        left: args.count,
    };
    let mut screen = (!args.json.json && !args.csv && terminal::is_terminal())
        .then(|| screen::Screen::open(ROWS_OF_WATCH))
        .flatten();
    let mut out = crate::output::stdout().lock();
    let mut line = Vec::new();
    let (mut drawn, mut looked) = (Instant::now(), None::<Instant>);
    loop {
        let over = interrupt.came() || tally.left == Some(0) || duration.is_some_and(|d| begun.elapsed() >= d);
        if over {
            break;
        }
        let due = looked.is_none_or(|at| at.elapsed() >= every);
        let readings = if moment != Moment::Every {
            watcher.read(TURN).context("the watch cannot go on")?
        } else if due {
            looked = Some(Instant::now());
            watcher.read(TURN).context("the watch cannot go on")?
        } else {
            std::thread::sleep(TURN.min(every));
            Vec::new()
        };
        for reading in &readings {
            if tally.add(reading) && args.json.json {
                line.clear();
                export::watch::reading(&mut line, args.field, reading);
                out.write_all(&line)?;
            }
        }
        if args.json.json && !readings.is_empty() {
            out.flush()?;
        }
        if let Some(screen) = &mut screen
            && drawn.elapsed() >= REDRAW
        {
            drawn = Instant::now();
            let lost = watcher.lost();
            screen.frame(|frame, canvas| report::live::watch(frame, canvas, &tally.groups, lost));
        }
    }
    drop(screen);
    if let processes @ 1.. = watcher.processes_lost() {
        let processes = quantity::counted(processes, "process");
        complain!("{processes} of the target found no room to be followed: their connections were not read");
    }
    let lost = watcher.lost();
    if args.json.json {
        line.clear();
        tally.json(&mut line, lost);
        out.write_all(&line)?;
    } else {
        let most = if args.csv { usize::MAX } else { page::watch::SHOWN };
        let document = page::watch::document(&tally.groups, tally.by, lost, most);
        if args.csv {
            // What is missing in the tables is said beside them.
            document.warnings.iter().for_each(|warning| complain!("{warning}"));
            out.write_all(paper::csv::text(&[document]).as_bytes())?;
            return Ok(out.flush()?);
        }
        out.write_all(paper::terminal::text(&terminal::canvas(), &[document]).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

/// The histograms so far.
struct Tally {
    field: Field,
    by: Option<ReadingsBy>,
    groups: FieldGroups,
    /// Values still wanted, where there is an end to them.
    left: Option<u64>,
}

impl Tally {
    /// Adds a reading; false where there are enough already.
    fn add(&mut self, reading: &Reading) -> bool {
        if self.left == Some(0) {
            return false;
        }
        let value = self.field.of(reading);
        if value.is_some()
            && let Some(left) = &mut self.left
        {
            *left -= 1;
        }
        self.groups.add(self.by.map_or_else(String::new, |by| by.of(reading)), value);
        true
    }

    fn json(&self, out: &mut Vec<u8>, lost: u64) {
        let sorted = self.groups.sorted();
        for (group, histogram) in &sorted {
            let by = self.by.map(|by| (by, *group));
            export::watch::histogram(out, &histogram.figures(), by, lost);
        }
        if sorted.is_empty() {
            export::watch::histogram(out, &FieldHistogram::new(self.field).figures(), None, lost);
        }
    }
}
