//! `wirelapse watch`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::TypedValueParser as _;
use record::{Field, Moment, Nanos, Reading};
use report::Canvas;
use report::field::FieldHistogram;
use trace::watch::Watcher;

use crate::interrupt::Interrupt;
use crate::options::{Criteria, For, Json};
use crate::terminal;
use crate::trace::screen;

/// Show a live histogram of a field of TCP connections: header-length, srtt, cwnd, window-scale, …
///
/// header-length and window-scale are looked at when a connection is established, the others once a second, unless --at says
/// when. Connections are read and never changed. Both ends of a connection within this machine are looked at, each as a
/// connection of its own; --port and --peer tell them apart.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("criteria").multiple(true))]
pub struct Args {
    /// Which field
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Field::ALL.map(possible)).map(|name| field(&name)))]
    field: Field,
    /// When to look: when a connection is established, when it ends, or every so often at all that are there
    #[arg(long, value_enum)]
    at: Option<At>,
    /// How long between two looks, with --at every
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "1s")]
    every: Nanos,
    /// One histogram for each peer, port of the service or program
    #[arg(long, value_enum)]
    by: Option<By>,
    #[command(flatten)]
    criteria: Criteria,
    /// End after this many values
    #[arg(long, value_name = "N", value_parser = quantity::parse::count_within(1..=u64::MAX))]
    count: Option<u64>,
    #[command(flatten)]
    end: For,
    #[command(flatten)]
    json: Json,
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

impl By {
    const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Port => "port",
            Self::Comm => "comm",
        }
    }

    fn of(self, reading: &Reading) -> String {
        match self {
            Self::Peer => reading.remote.ip().to_string(),
            // The side that listens has the port that is known; the other's is from the ephemeral range, above it.
            Self::Port => reading.local.port().min(reading.remote.port()).to_string(),
            Self::Comm if reading.comm.is_empty() => "(not known)".into(),
            Self::Comm => reading.comm.clone(),
        }
    }
}

/// Histograms that are held at most; what comes beyond goes into one for all others.
const GROUPS: usize = 256;
/// Histograms that are shown at most, those with most values first.
const SHOWN: usize = 8;
/// Rows of the terminal that are used.
const ROWS: u16 = 24;
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
    let target = args.criteria.target(args.criteria.is_empty());
    let at = args.at.unwrap_or(if args.field.settled_at_connect() { At::Connect } else { At::Every });
    let moment = match at {
        At::Connect => Moment::Connect,
        At::Close => Moment::Close,
        At::Every => Moment::Every,
    };
    let interrupt = Interrupt::listen()?;
    let mut watcher = Watcher::start(&target, moment)?;
    let (begun, duration, every) = (Instant::now(), args.end.duration(), Duration::from(args.every));
    let mut tally = Tally { field: args.field, by: args.by, groups: BTreeMap::new(), left: args.count };
    let mut screen = (!args.json.json && terminal::is_terminal()).then(|| screen::Screen::open(ROWS)).flatten();
    let mut out = std::io::stdout().lock();
    let mut line = Vec::new();
    let (mut drawn, mut looked) = (Instant::now(), None::<Instant>);
    loop {
        let over = interrupt.came() || tally.left == Some(0) || duration.is_some_and(|d| begun.elapsed() >= d);
        if over {
            break;
        }
        let due = looked.is_none_or(|at| at.elapsed() >= every);
        let readings = if moment != Moment::Every {
            watcher.look(TURN).context("the watch cannot go on")?
        } else if due {
            looked = Some(Instant::now());
            watcher.look(TURN).context("the watch cannot go on")?
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
            screen.draw(|canvas, _| tally.drawn(canvas, lost).trim_start_matches('\n').to_owned());
        }
    }
    drop(screen);
    let lost = watcher.lost();
    if args.json.json {
        line.clear();
        tally.json(&mut line, lost);
        out.write_all(&line)?;
    } else {
        out.write_all(tally.drawn(&terminal::canvas(), lost).trim_start_matches('\n').as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

/// The histograms so far.
struct Tally {
    field: Field,
    by: Option<By>,
    groups: BTreeMap<String, FieldHistogram>,
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
        let mut group = self.by.map_or_else(String::new, |by| by.of(reading));
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&group) {
            group = "all others".into();
        }
        self.groups.entry(group).or_insert_with(|| FieldHistogram::new(self.field)).add(value);
        true
    }

    fn sorted(&self) -> Vec<(&String, &FieldHistogram)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, histogram)| std::cmp::Reverse(histogram.n() + histogram.absent()));
        groups
    }

    fn drawn(&self, canvas: &Canvas, lost: u64) -> String {
        let mut out = String::new();
        let groups = self.sorted();
        for (whose, histogram) in groups.iter().take(SHOWN) {
            histogram.draw(canvas, &mut out, whose);
        }
        if groups.is_empty() {
            FieldHistogram::new(self.field).draw(canvas, &mut out, "");
        }
        if groups.len() > SHOWN {
            let by = self.by.map_or("group", By::name);
            out += &format!("\n{} more, with fewer values each, by {by}: see --json.\n", groups.len() - SHOWN);
        }
        if lost > 0 {
            out += &format!("\nLost: {lost} readings, as this program did not keep up.\n");
        }
        out
    }

    fn json(&self, out: &mut Vec<u8>, lost: u64) {
        for (whose, histogram) in self.sorted() {
            let by = self.by.map(|by| (by.name(), whose.as_str()));
            export::watch::histogram(out, &histogram.figures(), by, lost);
        }
        if self.groups.is_empty() {
            export::watch::histogram(out, &FieldHistogram::new(self.field).figures(), None, lost);
        }
    }
}
