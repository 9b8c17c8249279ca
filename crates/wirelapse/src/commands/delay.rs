//! `wirelapse delay`.

mod calibration;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::capture::delay::in_kernel::InKernel;
use ::capture::delay::live::{SoFar, Taps};
use ::capture::delay::records::{ClockWord, Delay};
use ::capture::delay::survey::{Survey, Way};
use ::capture::delay::{Account, Clocks, Drift, Identity, Offset, Recording, Tap, files};
use ::capture::{Counts, Direction, Options, Stamps, Technique};
use clap_complete::engine::ArgValueCompleter;
use export::ndjson;
use machine::CpuPressure;
use paper::document::Document;
use quantity::parse;
use record::Nanos;
use report::page;

use crate::commands::capture::Clocks as StampClocks;
use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::heading;
use crate::output::{complain, harmless, say, shows_progress};
use crate::{options, terminal};
use calibration::Calibration;

/// Measure the delay of a device from the frames before and after it
///
/// Two interfaces, or two capture files, see the frames at the two sides of a device. Frames are
/// matched, and the report shows what the device did: delay, loss, duplicates, order, and changes
/// over time. Ends on Ctrl-C, after -c frames or after --for.
#[derive(clap::Args)]
pub struct Args {
    /// Interface or capture file that sees frames before they enter the device
    #[arg(long, value_name = "IFACE|FILE", help_heading = "Taps", add = ArgValueCompleter::new(values::interface_or_file))]
    before: String,
    /// Interface or capture file that sees frames after they leave the device
    #[arg(long, value_name = "IFACE|FILE", help_heading = "Taps", add = ArgValueCompleter::new(values::interface_or_file))]
    after: String,
    /// How a frame is recognised at the second tap
    #[arg(long = "match", value_name = "BY", value_enum, default_value_t = MatchBy::Auto, help_heading = "Taps")]
    match_by: MatchBy,
    /// How frames are received: recvmsg, recvmmsg, rx-ring, libpcap, af-xdp, xdp or io-uring
    /// [default: rx-ring]
    #[arg(long, value_name = "TECHNIQUE", help_heading = heading::METHOD)]
    method: Option<Technique>,
    /// Which clocks stamp the frames: of the kernel (software) or of the NICs (hardware)
    #[arg(long, value_enum, default_value_t = StampClocks::Software, help_heading = heading::METHOD)]
    timestamps: StampClocks,
    /// Only frames that match a libpcap filter: "udp port 9"
    #[arg(short, long, value_name = "EXPRESSION", help_heading = heading::FRAMES)]
    filter: Option<String>,
    /// Bytes to read of each frame; frames are recognised by these
    #[arg(short, long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "256", help_heading = heading::FRAMES)]
    snap: u32,
    /// Only frames that arrive at each tap, not those that this host sends there
    #[arg(long, help_heading = heading::FRAMES)]
    incoming: bool,
    /// End after this many matched frames
    #[arg(short = 'c', long, value_name = "N", value_parser = parse::count, help_heading = heading::HOW_MUCH)]
    count: Option<u64>,
    #[arg(long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, help = options::FOR, help_heading = heading::HOW_MUCH)]
    duration: Option<Nanos>,
    /// Memory at each tap for frames that are waiting to be read
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "32MiB", help_heading = heading::COST)]
    buffer: u32,
    /// Match frames in the kernel, with XDP programs on both interfaces (tc programs where one is
    /// made of software, such as veth): for rates that no socket can keep up with. Frames need an
    /// increasing id; quantiles are accurate to 1/8
    #[arg(long, conflicts_with_all = ["calibrate", "calibration", "different_clocks", "method", "filter", "incoming"], help_heading = heading::METHOD)]
    in_kernel: bool,
    /// With --in-kernel: drop frames at the taps. For taps that get copies which nothing else needs
    #[arg(long, requires = "in_kernel", help_heading = heading::METHOD)]
    drop_frames: bool,
    /// Measure the offset between the taps, with a plain wire in place of the device, and write it
    /// to this file
    #[arg(long, value_name = "FILE", help_heading = "Calibration")]
    calibrate: Option<PathBuf>,
    /// Subtract the offset that --calibrate measured
    #[arg(long, value_name = "FILE", conflicts_with = "calibrate", help_heading = "Calibration")]
    calibration: Option<PathBuf>,
    /// The taps have different clocks: remove their offset and drift, and report delays relative to
    /// the shortest
    #[arg(long, conflicts_with_all = ["calibrate", "calibration"], help_heading = "Calibration")]
    different_clocks: bool,
    /// Write the report as one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    html: Option<PathBuf>,
    #[arg(long, help = options::FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    #[command(flatten)]
    json: options::Json,
}

/// `--match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MatchBy {
    /// By what the frames are: their ids where they have such, else by content, or as nat in files
    /// where only that finds them again; the report says which
    Auto,
    /// By the id that `wirelapse generate` puts into each frame
    Id,
    /// By what a device does not change: not hardware addresses, VLAN, DSCP, TTL and checksums
    Content,
    /// The same for a device that translates addresses: not addresses and ports either
    Nat,
}

impl MatchBy {
    const fn identity(self) -> Option<Identity> {
        match self {
            Self::Auto => None,
            Self::Id => Some(Identity::Id),
            Self::Content => Some(Identity::Content { translated: false }),
            Self::Nat => Some(Identity::Content { translated: true }),
        }
    }
}

/// An identity as `--match` names it.
const fn named(identity: Identity) -> &'static str {
    match identity {
        Identity::Id => "id",
        Identity::Content { translated: false } => "content",
        Identity::Content { translated: true } => "nat",
    }
}

/// What was measured, wherever it came from.
struct Measured {
    /// The tap that saw the frames first, and the other one.
    taps: [String; 2],
    in_parts: [u64; 2],
    identity: Identity,
    account: Account,
    recording: Recording,
    clocks: Clocks,
    clock_error: Nanos,
    dropped: [u64; 2],
    unstamped: [u64; 2],
    lasted: Nanos,
    method: String,
    cpu_waited: Option<f64>,
    failed: Option<anyhow::Error>,
}

/// How often progress is shown.
const SECOND: Duration = Duration::from_secs(1);

/// A drift below this is not said to be one: clocks of one machine are steered by more.
const LEAST_DRIFT_PPB: f64 = 50.0;

/// Whether a tap is a file: one that is there, or has a name that no interface can have.
fn is_file(tap: &str) -> bool {
    tap.contains('/') || tap.contains(".pcap") || (Path::new(tap).is_file() && !is_interface(tap))
}

fn is_interface(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let taps = [args.before.as_str(), args.after.as_str()];
    if taps[0] == taps[1] {
        return Err(BadInput(format!("--before and --after are both {}: a device has two sides", taps[0])).into());
    }
    for path in [&args.html, &args.calibrate].into_iter().flatten() {
        ::files::refuse(path, args.force)?;
    }
    if args.in_kernel {
        let (delay, failed) = in_kernel(args)?;
        write(args, std::slice::from_ref(&delay))?;
        failed.map_or(Ok(()), |error| Err(anyhow::Error::from(error)))?;
        let account = delay.figures.as_ref().map(|figures| figures.account).unwrap_or_default();
        return something_matched(args, Identity::Id, &account);
    }
    let calibration = args.calibration.as_deref().map(Calibration::read).transpose()?;
    let mut measured = match taps.map(is_file) {
        [true, true] => from_files(args)?,
        [false, false] => vec![from_interfaces(args)?],
        _ => {
            let problem = "--before and --after are two interfaces, or two capture files: their clocks have to be one";
            return Err(BadInput(problem.into()).into());
        }
    };
    let mut delays = Vec::with_capacity(measured.len());
    for way in &mut measured {
        let drift = one_time(args, way)?;
        let offset = calibration.as_ref().map(|c| c.offset(&way.method)).transpose()?;
        delays.push(record_of(args, way, drift, offset));
    }
    if let (Some(path), Some(delay)) = (&args.calibrate, delays.first()) {
        Calibration::of(delay)?.write(path, args.force)?;
    }
    write(args, &delays)?;
    for way in measured {
        way.failed.map_or(Ok(()), Err)?;
        something_matched(args, way.identity, &way.account)?;
    }
    Ok(())
}

/// An error that says what to try, where no frame was seen at both taps.
fn something_matched(args: &Args, identity: Identity, account: &Account) -> anyhow::Result<()> {
    if account.matched > 0 {
        return Ok(());
    }
    let unseen = [(account.before, &args.before), (account.after, &args.after)];
    if let Some((_, tap)) = unseen.into_iter().find(|(seen, _)| *seen == 0) {
        anyhow::bail!("no frame was seen at {tap}: is it the interface or file on the way of the traffic?");
    }
    let advice = match identity {
        Identity::Id => {
            "frames without an id of wirelapse generate are matched by --match content, or by --match nat where addresses change"
        }
        Identity::Content { translated: false } => {
            "--match nat finds frames again behind a device that translates addresses and ports; one that changes the payload leaves nothing to match"
        }
        Identity::Content { translated: true } => {
            "are both of the same traffic, at the same time? A device that changes the payload leaves nothing to match"
        }
    };
    anyhow::bail!("no frame that entered was seen leaving, by {}: {advice}", named(identity))
}

/// Each direction by itself, if frames of both are in the files.
fn from_files(args: &Args) -> anyhow::Result<Vec<Measured>> {
    let folders: Vec<&Path> =
        [&args.html, &args.calibrate].into_iter().flatten().map(|file| ::files::folder(file)).collect();
    rights::keep_for_runs(&[&args.before, &args.after].map(Path::new), &folders, false)?;
    let open = |path: &str| {
        store::regular::open(Path::new(path)).map_err(|error| BadInput(format!("cannot open {path}: {error}")))
    };
    let both = || -> anyhow::Result<[File; 2]> { Ok([open(&args.before)?, open(&args.after)?]) };
    let bad = |(tap, error)| {
        let path = if tap == Tap::Before { &args.before } else { &args.after };
        BadInput(format!("{path}: {error}"))
    };
    let survey = Survey::of(both()?, args.match_by.identity(), !args.different_clocks).map_err(bad)?;
    survey.ways().iter().map(|way| of_files(args, &both, bad, &survey, *way)).collect()
}

/// The frames of two files that go one way.
fn of_files(
    args: &Args,
    both: &impl Fn() -> anyhow::Result<[File; 2]>,
    bad: impl Fn((Tap, wire::CaptureError)) -> BadInput + Copy,
    survey: &Survey,
    way: Way,
) -> anyhow::Result<Measured> {
    let swap = |(tap, error)| match (way, tap) {
        (Way::There, tap) => bad((tap, error)),
        (Way::Back, Tap::Before) => bad((Tap::After, error)),
        (Way::Back, Tap::After) => bad((Tap::Before, error)),
    };
    let mut taps = [&args.before, &args.after];
    let mut opened = both()?;
    if way == Way::Back {
        taps.reverse();
        opened.reverse();
    }
    let ahead = || -> anyhow::Result<i64> { Ok(files::clock_difference(both()?, survey).map_err(bad)?.unwrap_or(0)) };
    let ahead_ns = if args.different_clocks { ahead()? } else { 0 };
    let read = files::read(opened, survey, way, ahead_ns).map_err(swap)?;
    if read.account.matched == 0 && ahead_ns == 0 && way == Way::There && ahead()? != 0 {
        return Err(BadInput(format!(
            "frames leave the device {} after they enter it, by the times in the files: their clocks differ (--different-clocks removes \
             that, and gives delays above the least)",
            quantity::time_to(ahead()? as f64, 3)
        ))
        .into());
    }
    for (path, tap) in taps.into_iter().zip(&read.taps).filter(|(_, tap)| tap.damaged > 0 && way == Way::There) {
        complain!("{path}: {} could not be decoded", quantity::counted(tap.damaged, "record"));
    }
    let described: Vec<&str> = read.taps.iter().filter_map(|tap| tap.description.as_deref()).collect();
    let mut method = described.join("; ");
    if let [one, other] = described[..]
        && one == other
    {
        method = one.into();
    }
    let of = |count: fn(&files::FileTap) -> u64| [count(&read.taps[0]), count(&read.taps[1])];
    Ok(Measured {
        taps: taps.map(String::clone),
        identity: survey.identity,
        lasted: read.recording.lasted(),
        account: read.account,
        // Files do not say how exact their stamps are: what they are counted in is the least that
        // they are off by.
        clock_error: read.recording.slot().unwrap_or(Nanos::ZERO),
        clocks: Clocks::One,
        dropped: of(|tap| tap.dropped),
        unstamped: of(|tap| tap.untimed),
        in_parts: of(|tap| tap.in_parts),
        recording: read.recording,
        method,
        cpu_waited: None,
        failed: None,
    })
}

fn from_interfaces(args: &Args) -> anyhow::Result<Measured> {
    let stamps = Stamps::from(args.timestamps);
    if stamps == Stamps::Both {
        return Err(BadInput(
            "--timestamps is software or hardware here: a delay is between two stamps of one clock".into(),
        )
        .into());
    }
    let technique = args.method.unwrap_or(Technique::RxRing);
    let options = [&args.before, &args.after].map(|interface| Options {
        stamps,
        snap_length: args.snap,
        filter: args.filter.clone(),
        // A tap hands over frames that are for others.
        promiscuous: true,
        direction: if args.incoming { Direction::In } else { Direction::Both },
        buffer_bytes: args.buffer,
        batch: 1024,
        // Frames are matched by their own times.
        hold_ms: 40,
        ..Options::of(interface)
    });
    let interrupt = Interrupt::listen()?;
    let taps = Taps::open(technique, [&options[0], &options[1]], args.match_by.identity())?;
    let pressure = CpuPressure::begin();
    rights::keep_for_capture(
        stamps.hardware(),
        [&args.html, &args.calibrate].into_iter().flatten().map(PathBuf::as_path),
    )?;
    if !args.json.json {
        say!("Watching {} and {} by {technique}.", args.before, args.after);
        for about in taps.about() {
            about.remarks.iter().for_each(|remark| say!("Note: {}: {remark}.", about.interface));
        }
    }
    let watched = taps.watch(watching(args, &interrupt));
    let each = |of: fn(&Counts) -> u64| [of(&watched.counts[0]), of(&watched.counts[1])];
    let clock_error = match watched.clocks {
        Clocks::Two { error, .. } => error + watched.stamp_error,
        _ => watched.stamp_error,
    };
    Ok(Measured {
        taps: [args.before.clone(), args.after.clone()],
        in_parts: [0; 2],
        identity: watched.identity,
        account: watched.account,
        recording: watched.recording,
        clocks: watched.clocks,
        clock_error,
        dropped: each(|c| c.dropped + c.dropped_by_interface),
        unstamped: each(|c| c.unstamped),
        lasted: watched.lasted,
        method: format!("{technique}, {} timestamps", stamps.name()),
        cpu_waited: pressure.and_then(|p| p.share()),
        failed: watched.failed.map(Into::into),
    })
}

fn in_kernel(args: &Args) -> anyhow::Result<(Delay, Option<::capture::Error>)> {
    let by_id = matches!(args.match_by, MatchBy::Auto | MatchBy::Id);
    if !by_id || args.timestamps != StampClocks::Software || is_file(&args.before) {
        let problem = "--in-kernel matches frames by their id on two interfaces, by the kernel's clock";
        return Err(BadInput(problem.into()).into());
    }
    let interrupt = Interrupt::listen()?;
    let taps = InKernel::open([&args.before, &args.after], args.drop_frames)?;
    if !args.json.json {
        say!("Matching the frames of {} and {} inside the kernel.", args.before, args.after);
        taps.remarks().iter().for_each(|remark| say!("Note: {remark}."));
    }
    let (pressure, method) = (CpuPressure::begin(), taps.method());
    let seen = taps.watch(watching(args, &interrupt))?;
    let delay = Delay {
        before: args.before.clone(),
        after: args.after.clone(),
        method: method.into(),
        matched_by: named(Identity::Id).into(),
        lasted: seen.lasted,
        dropped: seen.dropped,
        unstamped: seen.unstamped,
        figures: Some(Box::new(seen.figures)),
        cpu_waited: pressure.and_then(|p| p.share()),
        ..Delay::default()
    };
    Ok((delay, seen.failed))
}

/// Shows progress, and says whether to go on.
fn watching<'a>(args: &'a Args, interrupt: &'a Interrupt) -> impl FnMut(&SoFar) -> bool + 'a {
    let mut shown = Instant::now();
    move |so_far| {
        if shown.elapsed() >= SECOND && shows_progress(args.json.json) {
            shown = Instant::now();
            say!(
                "{:>10} matched, {} lost",
                quantity::count(so_far.account.matched),
                quantity::count(so_far.account.lost)
            );
        }
        !interrupt.came()
            && args.duration.is_none_or(|most| so_far.lasted < most)
            && args.count.is_none_or(|most| so_far.account.matched < most)
    }
}

/// Delays that are of one clock: as they are, or with the offset and drift of two removed. Two
/// clocks that are taken for one are refused.
fn one_time(args: &Args, measured: &mut Measured) -> anyhow::Result<Option<Drift>> {
    let drift = measured.recording.drift();
    if args.different_clocks {
        let Some(drift) = drift else {
            let problem = "--different-clocks: there are too few matched frames to see how the clocks run";
            return Err(BadInput(problem.into()).into());
        };
        measured.recording.remove(&drift);
        measured.clocks = Clocks::Apart { drift_ppb: drift.ppb, drift_error_ppb: drift.error_ppb };
        measured.clock_error += Nanos(drift.wander_ns.ceil() as u64);
        return Ok(Some(drift));
    }
    // Of two live interfaces the clocks are known.
    if !is_file(&args.before) {
        return Ok(None);
    }
    if let Some(drift) = drift.filter(|d| d.is_straight && d.ppb.abs() > LEAST_DRIFT_PPB && d.error_ppb < d.ppb.abs()) {
        return Err(BadInput(format!(
            "the delays rise by {:+.3} ± {:.3} µs every second, as two clocks do that run at different rates: these captures were not \
             stamped by one clock. --different-clocks removes that, and gives delays above the least",
            drift.ppb / 1e3,
            drift.error_ppb / 1e3
        ))
        .into());
    }
    let negative = measured.recording.share_below_zero().filter(|share| *share > 0.5);
    if negative.is_some() && args.calibrate.is_none() && args.calibration.is_none() {
        return Err(BadInput(
            "most frames leave the device before they enter it: --before and --after are swapped, or their clocks differ \
             (--different-clocks removes that, and gives delays above the least)"
                .into(),
        )
        .into());
    }
    Ok(None)
}

fn record_of(args: &Args, measured: &Measured, drift: Option<Drift>, offset: Option<Offset>) -> Delay {
    let mut figures = measured.recording.figures(measured.account, offset.unwrap_or_default());
    if is_file(&args.before) {
        figures.allow_for(measured.clock_error);
    }
    let [before, after] = measured.taps.clone();
    Delay {
        before,
        after,
        in_parts: measured.in_parts,
        method: measured.method.clone(),
        matched_by: named(measured.identity).into(),
        lasted: measured.lasted,
        dropped: measured.dropped,
        unstamped: measured.unstamped,
        figures: Some(Box::new(figures)),
        offset,
        clocks: ClockWord::from(&measured.clocks),
        drift_ppb: match measured.clocks {
            Clocks::Two { drift_ppb, .. } => drift_ppb,
            _ => drift.map(|d| d.ppb),
        },
        drift_error_ppb: drift.map(|d| d.error_ppb),
        clock_error: measured.clock_error,
        cpu_waited: measured.cpu_waited,
    }
}

/// Writes what was measured, of each direction.
fn write(args: &Args, delays: &[Delay]) -> anyhow::Result<()> {
    let documents: Vec<Document> = delays.iter().map(page::delay::document).collect();
    if let Some(path) = &args.html {
        let inputs = crate::files::inputs([&args.before, &args.after].map(Path::new));
        let readers = crate::files::readers(&inputs);
        crate::files::write_page(path, &documents, args.force, readers)?;
    }
    let mut out = crate::output::stdout().lock();
    if args.json.json {
        let mut lines = Vec::new();
        for delay in delays {
            ndjson::line(&mut lines, delay);
            if let Some(figures) = &delay.figures {
                figures.changes.iter().for_each(|change| ndjson::line(&mut lines, change));
                figures.histogram.iter().for_each(|bin| ndjson::line(&mut lines, bin));
                figures.series.iter().for_each(|stretch| ndjson::line(&mut lines, stretch));
            }
        }
        return Ok(out.write_all(&lines)?);
    }
    out.write_all(paper::terminal::text(&terminal::canvas(), &documents).as_bytes())?;
    for path in [&args.html, &args.calibrate].into_iter().flatten() {
        writeln!(out, "Written to {}.", harmless(&path.to_string_lossy()))?;
    }
    Ok(())
}
