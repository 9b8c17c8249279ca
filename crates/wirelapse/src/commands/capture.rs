//! `wirelapse capture`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ::capture::output::{Output, OutputError, Settings};
use ::capture::{About, Counts, Direction, Error, Fanout, Options, Receiver, Stamps, Technique};
use clap_complete::engine::ArgValueCandidates;
use paper::document::{Cell, Clause, Column, Document, Section, Table};
use quantity::parse;
use record::{Nanos, Realtime};

use crate::commands::completions::values;
use crate::interrupt::Interrupt;
use crate::options::{self, Rotate, heading};
use crate::output::{json_event, say, shows_progress};
use crate::terminal;

/// Capture the frames of an interface into a pcapng file
///
/// Times are in nanoseconds. Frames that the kernel dropped are counted, in the file too. Ends on
/// Ctrl-C, after -c frames or after --for.
#[derive(clap::Args)]
pub struct Args {
    /// Interface to capture on
    #[arg(short, long, value_name = "IFACE", help_heading = heading::FRAMES, add = ArgValueCandidates::new(values::interfaces))]
    interface: String,
    /// How frames are received: recvmsg, recvmmsg, rx-ring, libpcap, af-xdp, xdp or io-uring
    /// [default: rx-ring]
    #[arg(long, value_name = "TECHNIQUE", help_heading = heading::METHOD)]
    method: Option<Technique>,
    /// Which clocks stamp the frames: of the kernel (software), of the NIC (hardware), or both
    #[arg(long, value_enum, default_value_t = Clocks::Software, help_heading = heading::METHOD)]
    timestamps: Clocks,
    /// File to write; without it frames are only counted
    #[arg(short, long, value_name = "FILE", help_heading = heading::OUTPUT)]
    write: Option<PathBuf>,
    /// Only frames that match a libpcap filter: "tcp port 443"
    #[arg(short, long, value_name = "EXPRESSION", help_heading = heading::FRAMES)]
    filter: Option<String>,
    /// Bytes to keep of each frame
    #[arg(short, long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "262144", help_heading = heading::FRAMES)]
    snap: u32,
    /// Also capture frames for other hosts (promiscuous mode)
    #[arg(long, help_heading = heading::FRAMES)]
    promiscuous: bool,
    /// Only incoming frames, not those that this host sends
    #[arg(long, help_heading = heading::FRAMES)]
    incoming: bool,
    /// End after this many frames
    #[arg(short = 'c', long, value_name = "N", value_parser = parse::count, help_heading = heading::HOW_MUCH)]
    count: Option<u64>,
    #[arg(long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, help = options::FOR, help_heading = heading::HOW_MUCH)]
    duration: Option<Nanos>,
    #[command(flatten)]
    rotate: Rotate,
    /// Keep this many files, and remove the oldest
    #[arg(short = 'W', long, value_name = "N", requires = "write", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::OUTPUT)]
    keep: Option<u32>,
    /// Compress the file with zstd
    #[arg(long, requires = "write", help_heading = heading::OUTPUT)]
    zstd: bool,
    /// Memory for frames that are waiting to be read
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "32MiB", help_heading = heading::COST)]
    buffer: u32,
    /// Share the frames of the interface with other captures of this group, by flow: each gets a
    /// part (recvmsg, recvmmsg, rx-ring, io-uring)
    #[arg(long, value_name = "GROUP", help_heading = heading::METHOD)]
    fanout: Option<u16>,
    /// Poll the driver for this time instead of waiting for an interrupt (af-xdp)
    #[arg(long, value_name = "TIME", value_parser = parse::duration, help_heading = heading::METHOD)]
    busy_poll: Option<Nanos>,
    #[arg(long, help = options::FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    #[command(flatten)]
    ready: options::Ready,
    #[command(flatten)]
    json: options::Json,
}

/// `--timestamps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Clocks {
    /// The kernel's clock
    Software,
    /// The NIC's clock
    Hardware,
    /// Both
    Both,
}

impl From<Clocks> for Stamps {
    fn from(clocks: Clocks) -> Self {
        match clocks {
            Clocks::Software => Self::Software,
            Clocks::Hardware => Self::Hardware,
            Clocks::Both => Self::Both,
        }
    }
}

/// The longest wait for a frame: how late an end by time or a signal can be.
const TURN: Duration = Duration::from_millis(100);
/// How long the kernel may keep a frame back before it hands it over with others.
const HELD_BACK: Duration = Duration::from_millis(2 * HOLD_MS as u64 + 20);
/// How long frames may wait for others: a reader who follows a file does not see it.
const HOLD_MS: u32 = 40;
/// How long reading what is in memory may take at the end.
const REST: Duration = Duration::from_secs(2);
/// How often rates are shown, and what was gathered is written to the file.
const SECOND: Duration = Duration::from_secs(1);

impl Args {
    fn options(&self) -> Options {
        Options {
            interface: self.interface.clone(),
            stamps: self.timestamps.into(),
            snap_length: self.snap,
            filter: self.filter.clone(),
            promiscuous: self.promiscuous,
            direction: if self.incoming { Direction::In } else { Direction::Both },
            buffer_bytes: self.buffer,
            batch: 256,
            hold_ms: HOLD_MS,
            fanout: self.fanout.map(|group| Fanout { group }),
            busy_poll_us: self.busy_poll.map_or(0, |time| u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX)),
        }
    }

    fn settings(&self, path: PathBuf) -> Settings {
        Settings {
            path,
            rotation: self.rotate.keeping(self.keep),
            compress: self.zstd,
            force: self.force,
            application: format!("wirelapse {}", env!("CARGO_PKG_VERSION")),
            filter: self.filter.clone(),
            stamps: self.timestamps.into(),
        }
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut started = args.ready.take()?;
    let interrupt = Interrupt::listen()?;
    let mut receiver = ::capture::open(args.method.unwrap_or(Technique::RxRing), &args.options())?;
    let output = args.write.clone().map(|path| Output::create(args.settings(path), receiver.about())).transpose()?;
    let mut session = Session { output, taken: 0, most: args.count.unwrap_or(u64::MAX), bytes: 0, failed: None };
    // Sockets and programs are open. A hardware setting is put back at the end, which takes one
    // right.
    rights::keep_for_capture(Stamps::from(args.timestamps).hardware(), args.write.as_deref())?;
    let json = args.json.json;
    if !json {
        let about = receiver.about();
        say!("Receiving on {} by {}.", about.interface, about.technique);
        about.remarks.iter().for_each(|remark| say!("Note: {remark}."));
    }
    // The technique receives, and the file is there: what comes from here on is in it.
    started.say(None)?;
    let began = Instant::now();
    let mut shown = (began, Counts::default());
    let mut ended = Ok(());
    while session.taken < session.most
        && !interrupt.came()
        && args.duration.is_none_or(|most| began.elapsed() < Duration::from(most))
        && session.failed.is_none()
    {
        if let Err(error) = receiver.next_batch(TURN, &mut |frame| session.take(frame)) {
            ended = Err(error);
            break;
        }
        if shown.0.elapsed() >= SECOND {
            let counts = receiver.counts();
            show(args, counts, &shown)?;
            shown = (Instant::now(), counts);
            if let Some(output) = &mut session.output {
                output.note(counts);
                session.failed = session.failed.take().or(output.flush().err());
            }
        }
    }
    let lasted = Nanos::from(began.elapsed());
    // Before the rest is taken: what is dropped meanwhile came after the end.
    let dropped = receiver.counts().dropped;
    session.take_rest(receiver.as_mut());
    let counts = Counts { received: session.taken, dropped, ..receiver.counts() };
    finish(args, receiver.about(), session, counts, lasted, ended)
}

/// What becomes of frames.
struct Session {
    output: Option<Output>,
    /// Frames so far, and how many there may be.
    taken: u64,
    most: u64,
    bytes: u64,
    failed: Option<OutputError>,
}

impl Session {
    fn take(&mut self, frame: &::capture::Frame<'_>) {
        if self.taken >= self.most || self.failed.is_some() {
            return;
        }
        self.taken += 1;
        self.bytes += u64::from(frame.wire_length());
        if let Some(output) = &mut self.output {
            self.failed = output.frame(frame).err();
        }
    }

    /// Takes the frames that came before now and are still in memory: without them a frame would be
    /// neither received nor dropped.
    fn take_rest(&mut self, receiver: &mut dyn Receiver) {
        let now = timestamping::now::<Realtime>();
        let until = Instant::now() + REST;
        let mut is_later = false;
        while self.taken < self.most && self.failed.is_none() && !is_later && Instant::now() < until {
            let batch = receiver.next_batch(HELD_BACK, &mut |frame| {
                is_later |= frame.software.is_some_and(|stamp| stamp.at > now);
                if !is_later {
                    self.take(frame);
                }
            });
            // The error that ended the capture was reported before.
            if !matches!(batch, Ok(1..)) {
                break;
            }
        }
    }
}

/// The rates of the last second.
fn show(args: &Args, counts: Counts, before: &(Instant, Counts)) -> anyhow::Result<()> {
    let seconds = before.0.elapsed().as_secs_f64();
    let per_second = (counts.received - before.1.received) as f64 / seconds;
    if args.json.json {
        return json_event(
            "rate",
            &Rate { received: counts.received, dropped: counts.dropped, frames_per_second: per_second },
        );
    }
    if shows_progress(false) {
        let dropped = counts.dropped - before.1.dropped;
        say!(
            "{:>10} frames, {}, {dropped} dropped",
            quantity::count(counts.received),
            quantity::per_second(per_second)
        );
    }
    Ok(())
}

#[derive(serde::Serialize)]
struct Rate {
    received: u64,
    dropped: u64,
    frames_per_second: f64,
}

/// The line of a capture that is over.
#[derive(serde::Serialize)]
struct Ended {
    interface: String,
    technique: &'static str,
    timestamps: &'static str,
    received: u64,
    dropped: u64,
    dropped_by_interface: u64,
    unstamped: u64,
    bytes: u64,
    lasted_ns: Nanos,
    files: Vec<PathBuf>,
    remarks: Vec<String>,
}

fn finish(
    args: &Args,
    about: &About,
    session: Session,
    counts: Counts,
    lasted: Nanos,
    ended: Result<(), Error>,
) -> anyhow::Result<()> {
    let written = match (session.output, session.failed) {
        (_, Some(failed)) => Err(failed),
        (Some(output), None) => output.finish(counts).map(|(files, _)| files),
        (None, None) => Ok(Vec::new()),
    };
    let (files, failed) = match written {
        Ok(files) => (files, None),
        Err(failed) => (Vec::new(), Some(failed)),
    };
    let over = Ended {
        interface: about.interface.clone(),
        technique: about.technique.name(),
        timestamps: Stamps::from(args.timestamps).name(),
        received: counts.received,
        dropped: counts.dropped,
        dropped_by_interface: counts.dropped_by_interface,
        unstamped: counts.unstamped,
        bytes: session.bytes,
        lasted_ns: lasted,
        files,
        remarks: about.remarks.clone(),
    };
    if args.json.json {
        json_event("capture", &over)?;
    } else {
        let text = paper::terminal::text(&terminal::canvas(), &[document(&over)]);
        crate::output::stdout().write_all(text.as_bytes())?;
    }
    if let Some(failed) = failed {
        return Err(failed.into());
    }
    ended.map_err(Into::into)
}

fn document(over: &Ended) -> Document {
    let mut table = Table::new("Frames", [Column::text(""), Column::figures("frames")]);
    let mut row = |what: &str, frames: u64| table.push([what.into(), Cell::count(frames)]);
    row("received", over.received);
    row("dropped: memory for frames was full", over.dropped);
    if over.dropped_by_interface > 0 {
        row("dropped by the interface", over.dropped_by_interface);
    }
    if over.unstamped > 0 {
        row("without a timestamp", over.unstamped);
    }
    let mut section = Section::new("Frames");
    section.table(table);
    let seen = over.received as f64 / (over.received + over.dropped).max(1) as f64;
    let lost = if over.dropped == 0 {
        "none was dropped".into()
    } else {
        format!("{} of all were received", quantity::percent(seen))
    };
    let rate = over.received as f64 / over.lasted_ns.as_secs_f64().max(1e-9);
    let mut verdict = vec![Clause::finding(format!(
        "{} frames, {} in {}: {}, {lost}.",
        quantity::count(over.received),
        quantity::bytes(over.bytes),
        over.lasted_ns,
        quantity::per_second(rate),
    ))];
    verdict.extend(over.files.iter().map(|file| Clause::detail(format!("Written to {}.", file.display()))));
    Document {
        title: format!("wirelapse capture · {}", over.interface).into(),
        about: format!("{} · {} timestamps", over.technique, over.timestamps),
        verdict,
        sections: vec![section],
        ..Document::default()
    }
}
