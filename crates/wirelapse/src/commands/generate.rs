//! `wirelapse generate`.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ::capture::generate::replay::{self, Pace, ReplayError, Replayed, Way};
use ::capture::generate::{self, Plan, Sending, Sent, Shape, Spread};
use clap_complete::engine::ArgValueCandidates;
use paper::document::{Cell, Clause, Column, Document, Section, Table};
use quantity::parse;
use record::Nanos;

use crate::commands::completions::values;
use crate::commands::trace::lab_path::Networks;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::heading;
use crate::output::json_event;
use crate::{options, terminal};

/// Send UDP frames at a known rate, each with an id and its send time, or replay a capture
///
/// Refuses interfaces of the machine itself, because the frames would enter its real network. In a
/// host of a lab or another network namespace any interface is allowed.
#[derive(clap::Args)]
pub struct Args {
    /// Interface to send on
    #[arg(short, long, value_name = "IFACE", help_heading = heading::FRAMES, add = ArgValueCandidates::new(values::interfaces))]
    interface: String,
    /// Frame length in bytes from the Ethernet header on, without the frame check sequence: 60 to
    /// 9000. A 64-byte frame on the wire is 60 here. Several in turn, each so many times: imix,
    /// which is 60x7,590x4,1514
    #[arg(long, value_name = "BYTES[xN][,...]", value_parser = Sizes::parse, default_value = "60", help_heading = heading::FRAMES)]
    size: Sizes,
    /// Frames a second (14.88Mpps, 1000/s), bits a second (1Gbit/s, with preamble, gap and frame
    /// check sequence), or `line` for as fast as possible
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1000/s",
        default_value_if("replay", clap::builder::ArgPredicate::IsPresent, "own"),
        help_heading = heading::HOW_MUCH
    )]
    rate: String,
    /// Send the frames of this capture instead, with their original gaps; with --rate, at that many
    /// frames a second or as fast as possible (line)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "pattern", "flows", "vlan", "from", "to", "from_mac", "to_mac", "count", "duration", "method"], help_heading = "Replay")]
    replay: Option<PathBuf>,
    /// With --replay: how many times as fast as captured: 0.5, 2
    #[arg(
        long,
        value_name = "N",
        requires = "replay",
        conflicts_with = "rate",
        default_value_t = 1.0,
        help_heading = "Replay"
    )]
    speed: f64,
    /// Frames to send
    #[arg(short = 'c', long, value_name = "N", value_parser = parse::count, required_unless_present_any = ["duration", "replay"], help_heading = heading::HOW_MUCH)]
    count: Option<u64>,
    #[arg(long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, help = options::FOR, help_heading = heading::HOW_MUCH)]
    duration: Option<Nanos>,
    /// How frames are spread over time
    #[arg(long, value_enum, default_value_t = Pattern::Constant, help_heading = heading::HOW_MUCH)]
    pattern: Pattern,
    /// Frames in a burst, with --pattern bursts
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = heading::HOW_MUCH)]
    burst: u32,
    /// Seed of --pattern poisson
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = heading::HOW_MUCH)]
    seed: u64,
    /// Source address and port
    #[arg(long, value_name = "ADDR:PORT", default_value = "10.77.0.1:9000", help_heading = heading::FRAMES)]
    from: SocketAddr,
    /// Destination address and port
    #[arg(long, value_name = "ADDR:PORT", default_value = "10.77.0.2:9", help_heading = heading::FRAMES)]
    to: SocketAddr,
    /// Source MAC address
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:77:00:00:00:01", help_heading = heading::FRAMES)]
    from_mac: [u8; 6],
    /// Destination MAC address
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "02:77:00:00:00:02", help_heading = heading::FRAMES)]
    to_mac: [u8; 6],
    /// VLAN id of an 802.1Q tag
    #[arg(long, value_name = "ID", help_heading = heading::FRAMES)]
    vlan: Option<u16>,
    /// Number of flows (source ports), used in turn
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = heading::FRAMES)]
    flows: u16,
    /// How frames are sent: live-frames, af-xdp, tx-ring or sendmmsg [default: the fastest that
    /// works]
    #[arg(long, value_name = "WAY", help_heading = heading::METHOD)]
    method: Option<Sending>,
    /// Allow sending on an interface of the machine itself
    #[arg(long, help_heading = "Safety")]
    yes_this_interface: bool,
    #[command(flatten)]
    json: options::Json,
}

/// `--pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pattern {
    /// Evenly
    Constant,
    /// With exponentially distributed gaps
    Poisson,
    /// So many at a time, then a pause
    Bursts,
}

/// Lengths of frames, and how often each comes in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes(Vec<(u16, u32)>);

impl Sizes {
    fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self(generate::IMIX.to_vec()));
        }
        let one = |part: &str| {
            let (bytes, times) = part.split_once('x').unwrap_or((part, "1"));
            let times = times.trim().parse::<u32>().ok().filter(|times| *times > 0)?;
            Some((bytes.trim().parse::<u16>().ok()?, times))
        };
        let sizes: Option<Vec<(u16, u32)>> = text.split(',').map(one).collect();
        let sizes = sizes.ok_or("write the bytes of a frame such as 60, several such as 60x7,590x4,1514, or imix")?;
        let most = generate::LONGEST_TURN;
        if sizes.iter().map(|(_, times)| u64::from(*times)).sum::<u64>() > most.into() {
            return Err(format!(
                "a turn has {most} frames at most: divide how often each length comes by the same number"
            ));
        }
        Ok(Self(sizes))
    }

    /// Lengths in turn; empty for a single one.
    fn in_turn(&self) -> Vec<u16> {
        if self.0.len() > 1 { generate::in_turn(&self.0) } else { Vec::new() }
    }

    /// Bytes of a frame on average.
    fn mean(&self) -> f64 {
        let (bytes, frames) = self.0.iter().fold((0.0, 0.0), |(bytes, frames), (size, times)| {
            (bytes + f64::from(*size) * f64::from(*times), frames + f64::from(*times))
        });
        bytes / frames
    }

    /// The one that all frames have.
    fn only(&self) -> Option<u16> {
        if let [(bytes, _)] = self.0[..] { Some(bytes) } else { None }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bytes) = self.only() {
            return write!(f, "{bytes} bytes");
        }
        let all: Vec<String> = self.0.iter().map(|(bytes, times)| format!("{bytes} bytes ({times})")).collect();
        write!(f, "{} in turn, {:.1} bytes on average", all.join(", "), self.mean())
    }
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Vec<u8> =
        text.split(':').filter(|b| b.len() == 2).filter_map(|b| u8::from_str_radix(b, 16).ok()).collect();
    let address = bytes.try_into().ok().filter(|_| text.len() == 17);
    address.ok_or_else(|| "is six bytes in hexadecimal, such as 02:77:00:00:00:01".into())
}

/// Bytes that a frame takes on an Ethernet wire beside its own: frame check sequence, preamble,
/// start and gap.
const ON_THE_WIRE: f64 = 24.0;

impl Args {
    /// Frames a second; `None` for as many as can be.
    fn per_second(&self) -> anyhow::Result<Option<f64>> {
        if self.rate == "line" {
            return Ok(None);
        }
        if let Ok(frames) = parse::per_second(&self.rate) {
            return Ok(Some(frames));
        }
        match parse::bit_rate(&self.rate) {
            Ok(bits) => Ok(Some(bits as f64 / ((self.size.mean() + ON_THE_WIRE) * 8.0))),
            Err(_) => Err(BadInput(format!(
                "--rate {:?}: give frames a second (1000/s, 1.5Mpps), bits a second (100Mbit/s), or line",
                self.rate
            ))
            .into()),
        }
    }

    /// The pace of a capture: its own unless there is a rate.
    fn pace(&self) -> anyhow::Result<Pace> {
        let problem = |what: String| {
            BadInput(format!("{what}: a capture is sent at its own pace, frames a second (1000/s), or line"))
        };
        match self.rate.as_str() {
            "own" if self.speed > 0.0 && self.speed.is_finite() => Ok(Pace::Own(self.speed)),
            "own" => Err(BadInput(format!("--speed {}: give a number above 0", self.speed)).into()),
            "line" => Ok(Pace::Fastest),
            rate => Ok(Pace::PerSecond(parse::per_second(rate).map_err(|_| problem(format!("--rate {rate:?}")))?)),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan {
            interface: self.interface.clone(),
            lengths: self.size.in_turn(),
            shape: Shape {
                bytes: self.size.0.first().map_or(0, |(bytes, _)| *bytes),
                hardware: [self.from_mac, self.to_mac],
                vlan: self.vlan,
                source: self.from,
                destination: self.to,
                flows: self.flows,
            },
            per_second: self.per_second()?,
            spread: match self.pattern {
                Pattern::Constant => Spread::Constant,
                Pattern::Poisson => Spread::Poisson { seed: self.seed },
                Pattern::Bursts => Spread::Bursts { frames: self.burst },
            },
            count: self.count,
            duration: self.duration.map(Into::into),
            sending: self.method,
        })
    }
}

/// Refuses an interface of the machine itself: frames stay on it in a host of a lab, or in a
/// network namespace that is not the first process's.
fn refuse_outside(interface: &str) -> Result<(), BadInput> {
    if Networks::new(Vec::new()).path().is_some() {
        return Ok(());
    }
    let inode = |path: &str| std::fs::metadata(path).map(|m| m.ino());
    let why = match (inode("/proc/self/ns/net"), inode("/proc/1/ns/net")) {
        (Ok(own), Ok(first)) if own != first => return Ok(()),
        (Ok(_), Ok(_)) => format!("{interface} is an interface of this machine: frames would leave for its network"),
        (Err(error), _) | (_, Err(error)) => format!(
            "{interface} may be an interface of the machine itself, as the network namespace of process 1 cannot be read \
             ({error}): frames may enter its network"
        ),
    };
    Err(BadInput(format!("{why}. Send inside a lab (wirelapse lab exec), or add --yes-this-interface")))
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let pace = args.replay.as_ref().map(|_| args.pace()).transpose()?;
    if !args.yes_this_interface {
        refuse_outside(&args.interface)?;
    }
    let interrupt = Interrupt::listen()?;
    if let Some((path, pace)) = args.replay.as_deref().zip(pace) {
        return send_again(args, path, pace, &interrupt);
    }
    let plan = args.plan()?;
    let sent = generate::run(&plan, |_| !interrupt.came())?;
    if args.json.json {
        return json_event("generate", &Line::of(args, &plan, &sent));
    }
    let text = paper::terminal::text(&terminal::canvas(), &[document(args, &plan, &sent)]);
    Ok(crate::output::stdout().write_all(text.as_bytes())?)
}

fn send_again(args: &Args, path: &Path, pace: Pace, interrupt: &Interrupt) -> anyhow::Result<()> {
    let bad = |why: String| BadInput(format!("{}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let way = Way::open(&args.interface)?;
    rights::keep_for_replay()?;
    let sent = match replay::run(way, file, pace, |_| !interrupt.came()) {
        Ok(sent) => sent,
        Err(ReplayError::Capture(error)) => return Err(bad(error.to_string()).into()),
        Err(ReplayError::Interface(error)) => return Err(error.into()),
    };
    if args.json.json {
        return json_event("replay", &ReplayLine::of(args, path, &sent));
    }
    let text = paper::terminal::text(&terminal::canvas(), &[replayed(args, path, &sent)]);
    Ok(crate::output::stdout().write_all(text.as_bytes())?)
}

/// What was sent of a capture.
#[derive(serde::Serialize)]
struct ReplayLine<'a> {
    interface: &'a str,
    file: &'a Path,
    frames: u64,
    bytes: u64,
    cut: u64,
    unsendable: u64,
    dropped: u64,
    took_ns: Nanos,
    frames_per_second: Option<f64>,
    gap_mean_ns: Option<f64>,
    gap_deviation_ns: Option<f64>,
    late_mean_ns: Nanos,
    late_max_ns: Nanos,
}

impl<'a> ReplayLine<'a> {
    fn of(args: &'a Args, file: &'a Path, sent: &Replayed) -> Self {
        Self {
            interface: &args.interface,
            file,
            frames: sent.frames,
            bytes: sent.bytes,
            cut: sent.cut,
            unsendable: sent.unsendable,
            dropped: sent.dropped,
            took_ns: sent.took,
            frames_per_second: sent.per_second,
            gap_mean_ns: sent.gaps.map(|g| g.mean_ns),
            gap_deviation_ns: sent.gaps.map(|g| g.deviation_ns),
            late_mean_ns: sent.late[0],
            late_max_ns: sent.late[1],
        }
    }
}

fn replayed(args: &Args, path: &Path, sent: &Replayed) -> Document {
    let rate = sent.per_second.map_or(String::new(), |rate| format!(": {}", quantity::per_second(rate)));
    let mut table = Table::new("Frames", [Column::text(""), Column::figures("frames")]);
    let mut row = |what: &str, n: u64| table.push([what.into(), Cell::count(n)]);
    row("sent", sent.frames);
    row("not sent: cut when they were captured", sent.cut);
    row("not sent: no Ethernet frame, or too long", sent.unsendable);
    row("dropped by the interface", sent.dropped);
    let mut section = Section::new("Frames");
    section.table(table);
    let mut verdict = vec![Clause::finding(format!(
        "{}, {}, in {}{rate}.",
        quantity::counted(sent.frames, "frame"),
        quantity::bytes(sent.bytes),
        sent.took
    ))];
    if sent.late[1] > Nanos::ZERO {
        let [mean, most] = sent.late;
        verdict.push(Clause::detail(format!("Frames went {mean} later than due on average, {most} at most.")));
    }
    Document {
        title: format!("wirelapse generate · {}", args.interface).into(),
        about: format!("the frames of {}", path.display()),
        verdict,
        sections: vec![section],
        ..Document::default()
    }
}

/// What a run of frames was.
#[derive(serde::Serialize)]
struct Line<'a> {
    interface: &'a str,
    method: &'static str,
    source: IpAddr,
    destination: IpAddr,
    size_bytes: Option<u16>,
    size_mean_bytes: f64,
    asked_frames_per_second: Option<f64>,
    frames: u64,
    dropped: u64,
    took_ns: Nanos,
    frames_per_second: Option<f64>,
    gap_mean_ns: Option<f64>,
    gap_deviation_ns: Option<f64>,
    gap_max_ns: Option<Nanos>,
}

impl<'a> Line<'a> {
    fn of(args: &'a Args, plan: &Plan, sent: &Sent) -> Self {
        Self {
            interface: &args.interface,
            method: sent.sending.name(),
            source: args.from.ip(),
            destination: args.to.ip(),
            size_bytes: args.size.only(),
            size_mean_bytes: args.size.mean(),
            asked_frames_per_second: plan.per_second,
            frames: sent.frames,
            dropped: sent.dropped,
            took_ns: sent.took,
            frames_per_second: sent.per_second,
            gap_mean_ns: sent.gaps.map(|g| g.mean_ns),
            gap_deviation_ns: sent.gaps.map(|g| g.deviation_ns),
            gap_max_ns: sent.gaps.map(|g| g.max),
        }
    }
}

fn document(args: &Args, plan: &Plan, sent: &Sent) -> Document {
    let got = match (sent.per_second, plan.per_second) {
        (Some(got), Some(asked)) => format!(
            ": {}, {} of the {} asked for",
            quantity::per_second(got),
            quantity::percent(got / asked),
            quantity::per_second(asked)
        ),
        (Some(got), None) => format!(": {}", quantity::per_second(got)),
        (None, Some(asked)) => {
            format!(
                "; one moment holds them all, so whether they kept the {} asked for is not known",
                quantity::per_second(asked)
            )
        }
        (None, None) => String::new(),
    };
    let lost = match sent.dropped {
        0 => String::new(),
        dropped => {
            format!(
                " The interface dropped {} of them: its queue or its peer had no room, its peer was down, or they are longer than the MTU.",
                quantity::count(dropped)
            )
        }
    };
    let mut table = Table::new("Gaps between frames, by their send times", [Column::text(""), Column::figures("time")]);
    if let Some(gaps) = sent.gaps {
        let mut row = |what: &str, ns: f64| table.push([what.into(), Cell::time(Nanos(ns.round() as u64))]);
        row("mean", gaps.mean_ns);
        row("standard deviation", gaps.deviation_ns);
        row("longest", gaps.max.0 as f64);
    }
    let mut section = Section::new("Gaps");
    section.table(table);
    Document {
        title: format!("wirelapse generate · {}", args.interface).into(),
        about: format!("{} · frames of {}", sent.sending, args.size),
        verdict: vec![Clause::finding(format!(
            "{} in {}{got}.{lost}",
            quantity::counted(sent.frames, "frame"),
            sent.took
        ))],
        sections: vec![section],
        ..Document::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_one_or_several_in_turn() {
        let sizes = |text| Sizes::parse(text).unwrap();
        assert_eq!((sizes("60").only(), sizes("60").in_turn(), sizes("60").mean()), (Some(60), Vec::new(), 60.0));
        assert_eq!(sizes("IMIX"), sizes("60x7,590x4,1514"));
        assert_eq!(sizes("imix").in_turn().len(), 12);
        assert!((sizes("imix").mean() - 4_294.0 / 12.0).abs() < 1e-9);
        assert_eq!(sizes("100, 200x3").to_string(), "100 bytes (1), 200 bytes (3) in turn, 175.0 bytes on average");
        for text in ["", "x", "60x0", "60,", "60x900,70x900", "70000", "small"] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
    }
}
