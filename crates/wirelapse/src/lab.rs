//! `wirelapse lab up|down|exec|list`.

use std::io::{BufRead as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use ::lab::parse::{self, Wrong};
use ::lab::registry::{self, Registration, Remote, Signals};
use ::lab::{
    Achieved, BitRate, Choice, Config, Depth, Direction, DirectionReport, Lab, Loss, PathReport, Reorder, Side,
};
use anyhow::Context as _;
use record::Nanos;
use serde_json::json;

use crate::exit::BadInput;
use crate::options::Json;

/// Two hosts in namespaces, joined by a path of known delay, rate, loss and order
///
/// Hosts a (10.77.0.1, fd77::1) and b (10.77.0.2, fd77::2) exist as long as `lab up` or the lab's detached owner runs;
/// killed in any way, nothing of them stays.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Up(Box<Up>),
    Down(Down),
    Exec(Exec),
    List(List),
}

/// Make a lab; stays in the foreground until Ctrl-C, or detaches
///
/// Settings hold for both directions, or are given as A_TO_B/B_TO_A: `--delay 25ms/5ms`.
#[derive(clap::Args)]
struct Up {
    /// What other commands call it
    #[arg(long, default_value = "lab")]
    name: String,
    /// Return as soon as it is up; `lab down` takes it down
    #[arg(short, long)]
    detach: bool,
    /// One-way delay: 25ms, 200us, 1.5s
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::duration))]
    delay: [Nanos; 2],
    /// The delay varies evenly by this much to either side; order is kept unless --reorder is given
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::duration))]
    jitter: [Nanos; 2],
    /// Bits a second on the wire, each segment with Ethernet's 38 bytes: 1gbit, 10M, none
    #[arg(long, value_name = "RATE[/RATE]", default_value = "none", allow_hyphen_values = true, value_parser = both(parse::rate))]
    rate: [Option<BitRate>; 2],
    /// Share of the segments lost, each by itself: 0.5%
    #[arg(long, value_name = "SHARE[/SHARE]", conflicts_with = "burst_loss", allow_hyphen_values = true, value_parser = both(parse::loss))]
    loss: Option<[Loss; 2]>,
    /// Loss in bursts: 1%x8 loses 1 % of the segments, 8 in a row on average; or Gilbert and Elliott's chances
    /// GOOD_TO_BAD,BAD_TO_GOOD,LOST_IN_BAD,LOST_IN_GOOD
    #[arg(long, value_name = "SHARExLENGTH[/…]", allow_hyphen_values = true, value_parser = both(parse::burst_loss))]
    burst_loss: Option<[Loss; 2]>,
    /// Share of the segments held back, and by how much, so that later ones overtake them: 1%@2ms
    #[arg(long, value_name = "SHARE[@TIME][/…]", allow_hyphen_values = true, value_parser = both(parse::reorder))]
    reorder: Option<[Reorder; 2]>,
    /// Share of the segments that arrive twice: 0.1%
    #[arg(long, value_name = "SHARE[/SHARE]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::share))]
    duplicate: [f64; 2],
    /// What may wait for the wire, in bytes on it or in time: 64KiB, 20ms; more is dropped [default: 1000 full segments]
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = both(parse::depth))]
    queue: Option<[Depth; 2]>,
    /// Mark ECN-capable segments that find more than this waiting: 30KB, 1ms
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = both(parse::depth))]
    ecn: Option<[Depth; 2]>,
    /// IP packets of more bytes than this vanish without a word, as where ICMP is filtered before a smaller MTU: 1400
    #[arg(long, value_name = "BYTES[/BYTES]", default_value = "none", allow_hyphen_values = true, value_parser = both(parse::black_hole))]
    black_hole: [Option<u32>; 2],
    /// Largest IP packet, 1280 to 65521 bytes
    #[arg(long, value_name = "BYTES", value_parser = quantity::parse::bytes_u32, default_value_t = 1_500)]
    mtu: u32,
    /// Where the random draws begin: the same seed meets the same losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Who makes the path
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    #[command(flatten)]
    json: Json,
    /// What `--detach` starts
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Backend {
    /// built-in wherever there is TUN/TAP, else netem
    Auto,
    /// In user space between two TAP devices: seeded, charges and measures every segment
    BuiltIn,
    /// The kernel's netem and tbf on a veth pair
    Netem,
}

/// Take labs down
#[derive(clap::Args)]
struct Down {
    /// Which; may be left out where only one runs
    name: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

/// Run a command in a host; its exit status and signals are handed on
#[derive(clap::Args)]
struct Exec {
    /// a or b, or NAME:a where more than one lab runs
    #[arg(value_name = "[NAME:]HOST")]
    host: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<std::ffi::OsString>,
}

/// Show the labs that run, what was achieved beside what was asked for
#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    json: Json,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Up(up) if up.detach && !up.detached => detach(up),
        What::Up(up) => self::up(up),
        What::Down(down) => self::down(down),
        What::Exec(exec) => self::exec(exec),
        What::List(list) => self::list(list),
    }
}

/// A setting for each direction.
fn both<T>(one: impl Fn(&str) -> Result<T, Wrong> + Clone) -> impl Fn(&str) -> Result<[T; 2], Wrong> + Clone {
    move |text| parse::both(text, &one)
}

fn config(up: &Up) -> Result<Config, ::lab::Error> {
    let (rate, queue, ecn) = (up.rate, up.queue, up.ecn);
    let loss = up.loss.or(up.burst_loss).unwrap_or_default();
    let direction = |i: usize| Direction {
        delay: up.delay[i],
        jitter: up.jitter[i],
        rate: rate[i],
        loss: loss[i],
        reorder: up.reorder.map(|r| r[i]),
        duplicate: up.duplicate[i],
        // A queue or threshold for both directions means those that have a rate.
        queue: queue.map(|q| q[i]).filter(|_| rate[i].is_some() || rate == [None; 2]),
        ecn: ecn.map(|e| e[i]).filter(|_| rate[i].is_some() || rate == [None; 2]),
        black_hole: up.black_hole[i],
    };
    let backend = match up.backend {
        Backend::Auto => Choice::Auto,
        Backend::BuiltIn => Choice::BuiltIn,
        Backend::Netem => Choice::Netem,
    };
    let config = Config { a_to_b: direction(0), b_to_a: direction(1), mtu: up.mtu, seed: up.seed, backend };
    config.check()?;
    Ok(config)
}

fn up(args: &Up) -> anyhow::Result<()> {
    let config = config(args)?;
    let signals = Signals::take()?;
    let registration = Registration::take(&args.name)?;
    let lab = Lab::up(&config)?;
    let report = lab.path().report();
    let mut out = std::io::stdout();
    if args.json.json {
        writeln!(out, "{}", announcement(&args.name, &report))?;
    } else {
        write!(out, "{}", introduction(args, &report))?;
    }
    if args.detached {
        // An empty line tells the process that waits that all is said.
        writeln!(out)?;
    }
    out.flush()?;
    registration.serve(&lab, &signals)?;
    let report = lab.path().report();
    drop(lab);
    drop(registration);
    if args.detached {
        return Ok(());
    }
    if args.json.json {
        let mut line = serde_json::to_value(&report)?;
        line["kind"] = json!("path");
        writeln!(out, "{line}")?;
    } else {
        write!(out, "\n{}", table(&args.name, &report))?;
    }
    Ok(())
}

fn announcement(name: &str, report: &PathReport) -> serde_json::Value {
    let host = |side: Side| json!({"interface": ::lab::INTERFACE, "ipv4": side.ipv4(), "ipv6": side.ipv6()});
    json!({
        "kind": "lab", "name": name, "backend": report.backend, "reason": report.reason, "mtu": report.mtu,
        "seed": report.seed, "a": host(Side::A), "b": host(Side::B),
        "a_to_b": report.a_to_b.asked, "b_to_a": report.b_to_a.asked,
    })
}

fn introduction(args: &Up, report: &PathReport) -> String {
    let name = &args.name;
    let mut text = format!("lab {name}: backend {} ({})\n", report.backend, report.reason);
    for side in Side::ALL {
        text += &format!("  host {}  {}  {}  {}\n", side.name(), ::lab::INTERFACE, side.ipv4(), side.ipv6());
    }
    for (way, direction) in [("a to b", &report.a_to_b), ("b to a", &report.b_to_a)] {
        text += &format!("  {way}  {}\n", words(&direction.asked));
    }
    text += &format!("  mtu {}, seed {}\n", report.mtu, report.seed);
    let example = format!("wirelapse lab exec {name}:a -- ping -c 3 {}", Side::B.ipv4());
    let end = if args.detached { format!("`wirelapse lab down {name}`") } else { "Ctrl-C".into() };
    text + &format!("Try `{example}`. {end} takes it down.\n")
}

/// A direction in words.
fn words(asked: &Direction) -> String {
    let percent = |p: f64| format!("{} %", (p * 1e8).round() / 1e6);
    let mut parts = vec![format!("delay {}", asked.delay)];
    if asked.jitter.0 > 0 {
        parts.push(format!("± {}", asked.jitter));
    }
    parts.push(asked.rate.map_or("no rate limit".into(), |r| format!("rate {}", rate(r.bits() as f64))));
    parts.push(match asked.loss {
        Loss::None => "no loss".into(),
        Loss::Independent(p) => format!("loss {}", percent(p)),
        chain @ Loss::GilbertElliott { .. } => format!("loss {} in bursts", percent(chain.share())),
    });
    if let Some(r) = asked.reorder {
        parts.push(format!("{} held back by {}", percent(r.share), r.by));
    }
    if asked.duplicate > 0.0 {
        parts.push(format!("{} twice", percent(asked.duplicate)));
    }
    let depth = |d: Depth| match d {
        Depth::Bytes(n) => quantity::bytes(n),
        Depth::Time(t) => t.to_string(),
    };
    parts.extend(asked.queue.map(|q| format!("queue {}", depth(q))));
    parts.extend(asked.ecn.map(|e| format!("ECN marks above {}", depth(e))));
    parts.extend(asked.black_hole.map(|n| format!("packets above {n} B vanish")));
    parts.join(", ")
}

/// Four digits: a link is held against what was asked for to a tenth of a per cent.
fn rate(bits: f64) -> String {
    quantity::bit_rate_to(bits, 4)
}

/// What was achieved beside what was asked for.
fn table(name: &str, report: &PathReport) -> String {
    let mut text = format!("lab {name}: up {}, backend {}, mtu {}\n", report.up, report.backend, report.mtu);
    for (way, direction) in [("a to b", &report.a_to_b), ("b to a", &report.b_to_a)] {
        text += &format!("  {way}  asked     {}\n", words(&direction.asked));
        text += &format!("          achieved  {}\n", direction.achieved.as_ref().map_or("not known".into(), achieved));
        if let Some(overhead) = direction.overhead.filter(|o| *o > Nanos::ZERO) {
            let least = if direction.asked.delay < overhead {
                ", the least that the delay can be"
            } else {
                ", part of that delay"
            };
            text += &format!("          {overhead} added by this machine{least}\n");
        }
        text += &losses(direction);
    }
    text
}

fn achieved(a: &Achieved) -> String {
    let mut parts = Vec::new();
    parts.push(a.delay.map_or("delay not known".into(), |d| {
        format!("delay p50 {}, p99 {}, max {} (n {})", d.p50, d.p99, d.max, d.n)
    }));
    parts.extend(a.lateness.map(|l| format!("late by p50 {}, p99 {}, max {}", l.p50, l.p99, l.max)));
    parts.extend(a.busy_rate.map(|r| format!("rate while busy {} over {} (n {})", rate(r), a.busy, a.busy_segments)));
    parts.extend(a.loss.map(|l| format!("loss {:.4} % ({} of {})", l * 100.0, a.lost, a.lost + a.delivered)));
    let segments = quantity::counted(a.delivered, "segment");
    parts.push(format!("{segments}, {} on the wire", quantity::bytes(a.wire_bytes)));
    parts.join(", ")
}

/// Everything that did not arrive as it was sent, where there was any.
fn losses(direction: &DirectionReport) -> String {
    let Some(a) = &direction.achieved else { return String::new() };
    let counted = [
        (a.dropped_queue, "dropped at a full queue"),
        (a.dropped_memory, "dropped for want of memory"),
        (a.refused, "refused by the receiving host"),
        (a.missed_frames, "frames missed by the path"),
        (a.marked, "marked"),
        (a.held, "held back"),
        (a.reordered, "out of order"),
        (a.duplicated, "twice"),
    ];
    let counted: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if counted.is_empty() { String::new() } else { format!("                    {}\n", counted.join(", ")) }
}

/// Starts the same command again as the lab's owner, and leaves once it says that the lab is up.
fn detach(args: &Up) -> anyhow::Result<()> {
    config(args)?;
    let mut owner = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start the lab's owner")?;
    let said = owner.stdout.take().context("the lab's owner has no output")?;
    for line in std::io::BufReader::new(said).lines() {
        let line = line?;
        if line.is_empty() {
            return Ok(());
        }
        writeln!(std::io::stdout(), "{line}")?;
    }
    let mut error = String::new();
    if let Some(mut stderr) = owner.stderr.take() {
        stderr.read_to_string(&mut error)?;
    }
    let status = owner.wait()?;
    let error = error.trim().trim_start_matches("wirelapse: ").to_owned();
    if status.code() == Some(2) {
        return Err(BadInput(error).into());
    }
    anyhow::bail!("the lab did not come up ({status}): {error}")
}

/// The lab called `name`, or the only one that runs.
fn find(name: Option<&str>) -> anyhow::Result<Remote> {
    if let Some(name) = name {
        return Ok(Remote::find(name)?);
    }
    let names = registry::names()?;
    match &names[..] {
        [only] => Ok(Remote::find(only)?),
        [] => Err(BadInput("no lab is running; `wirelapse lab up` makes one".into()).into()),
        several => Err(BadInput(format!("several labs are running, say which: {}", several.join(", "))).into()),
    }
}

fn down(args: &Down) -> anyhow::Result<()> {
    let names = if args.all { registry::names()? } else { args.name.clone() };
    if names.is_empty() && !args.all {
        return Ok(find(None)?.down()?);
    }
    let labs = names.iter().map(|name| find(Some(name))).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(labs.iter().try_for_each(Remote::down)?)
}

fn exec(args: &Exec) -> anyhow::Result<()> {
    let (name, host) = match args.host.rsplit_once(':') {
        Some((name, host)) => (Some(name), host),
        None => (None, args.host.as_str()),
    };
    let side = Side::ALL.into_iter().find(|side| side.name() == host);
    let side = side.ok_or_else(|| BadInput(format!("there is no host {host:?}: the hosts of a lab are a and b")))?;
    let lab = find(name)?;
    let (program, arguments) = args.command.split_first().context("no command")?;
    let mut command = lab.command(side, program)?;
    // Returns only where the program could not be started; otherwise this process waits for it and ends as it does.
    let error = command.args(arguments).exec();
    Err(BadInput(format!("cannot run {:?} in host {host}: {error}", program.display())).into())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let names = registry::names()?;
    if names.is_empty() && !args.json.json {
        writeln!(out, "no lab is running")?;
    }
    for name in names {
        // One that goes down meanwhile is no longer to be listed.
        let Ok(report) = Remote::find(&name).and_then(|lab| lab.report()) else { continue };
        if args.json.json {
            let mut line = serde_json::to_value(&report)?;
            line["kind"] = json!("lab");
            line["name"] = json!(name);
            writeln!(out, "{line}")?;
        } else {
            write!(out, "{}", table(&name, &report))?;
        }
    }
    Ok(())
}
