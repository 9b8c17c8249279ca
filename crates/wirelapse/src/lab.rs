//! `wirelapse lab up|down|exec|list`.

use std::io::{BufRead as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use ::lab::registry::{self, Registration, Remote, Signals};
use ::lab::{Achieved, Choice, Config, Direction, DirectionReport, Lab, Loss, PathReport, Side, parse};
use anyhow::Context as _;
use serde_json::json;

use crate::exit::BadInput;

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
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true)]
    delay: String,
    /// The delay varies evenly by this much to either side; order is kept unless --reorder is given
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true)]
    jitter: String,
    /// Bits a second on the wire, each segment with Ethernet's 38 bytes: 1gbit, 10mbit, none
    #[arg(long, value_name = "RATE[/RATE]", default_value = "none", allow_hyphen_values = true)]
    rate: String,
    /// Share of the segments lost, each by itself: 0.5%
    #[arg(long, value_name = "SHARE[/SHARE]", conflicts_with = "burst_loss", allow_hyphen_values = true)]
    loss: Option<String>,
    /// Loss in bursts: 1%x8 loses 1 % of the segments, 8 in a row on average; or Gilbert and Elliott's chances
    /// GOOD_TO_BAD,BAD_TO_GOOD,LOST_IN_BAD,LOST_IN_GOOD
    #[arg(long, value_name = "SHARExLENGTH[/…]", allow_hyphen_values = true)]
    burst_loss: Option<String>,
    /// Share of the segments held back, and by how much, so that later ones overtake them: 1%@2ms
    #[arg(long, value_name = "SHARE[@TIME][/…]", allow_hyphen_values = true)]
    reorder: Option<String>,
    /// Share of the segments that arrive twice: 0.1%
    #[arg(long, value_name = "SHARE[/SHARE]", default_value = "0", allow_hyphen_values = true)]
    duplicate: String,
    /// What may wait for the wire, in bytes on it or in time: 64KiB, 20ms; more is dropped [default: 1000 full segments]
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true)]
    queue: Option<String>,
    /// Mark ECN-capable segments that find more than this waiting: 30KB, 1ms
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true)]
    ecn: Option<String>,
    /// IP packets of more bytes than this vanish without a word, as where ICMP is filtered before a smaller MTU: 1400
    #[arg(long, value_name = "BYTES[/BYTES]", default_value = "none", allow_hyphen_values = true)]
    black_hole: String,
    /// Largest IP packet, 1280 to 65521 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_500)]
    mtu: u32,
    /// Where the random draws begin: the same seed meets the same losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Who makes the path
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
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
    /// One JSON object a line
    #[arg(long)]
    json: bool,
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

/// Wrong use ends in exit status 2, as the house has it.
fn blame(error: ::lab::Error) -> anyhow::Error {
    if error.is_wrong_use() { BadInput(error.to_string()).into() } else { error.into() }
}

fn config(up: &Up) -> Result<Config, ::lab::Error> {
    let delay = parse::both(&up.delay, |t| parse::duration("delay", t))?;
    let jitter = parse::both(&up.jitter, |t| parse::duration("jitter", t))?;
    let rate = parse::both(&up.rate, parse::rate)?;
    let loss = match (&up.loss, &up.burst_loss) {
        (Some(loss), _) => parse::both(loss, |t| {
            let p = parse::share("loss", t)?;
            Ok(if p > 0.0 { Loss::Independent(p) } else { Loss::None })
        })?,
        (None, Some(bursts)) => parse::both(bursts, parse::burst_loss)?,
        (None, None) => [Loss::None; 2],
    };
    let duplicate = parse::both(&up.duplicate, |t| parse::share("duplicate", t))?;
    let reorder = up.reorder.as_deref().map(|t| parse::both(t, parse::reorder)).transpose()?;
    let queue = up.queue.as_deref().map(|t| parse::both(t, |t| parse::depth("queue", t))).transpose()?;
    let ecn = up.ecn.as_deref().map(|t| parse::both(t, |t| parse::depth("ecn", t))).transpose()?;
    let black_hole = parse::both(&up.black_hole, parse::black_hole)?;
    let direction = |i: usize| Direction {
        delay: delay[i],
        jitter: jitter[i],
        rate: rate[i],
        loss: loss[i],
        reorder: reorder.map(|r| r[i]),
        duplicate: duplicate[i],
        // A queue or threshold for both directions means those that have a rate.
        queue: queue.map(|q| q[i]).filter(|_| rate[i].is_some() || rate == [None; 2]),
        ecn: ecn.map(|e| e[i]).filter(|_| rate[i].is_some() || rate == [None; 2]),
        black_hole: black_hole[i],
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
    let config = config(args).map_err(blame)?;
    let signals = Signals::take().map_err(blame)?;
    let registration = Registration::take(&args.name).map_err(blame)?;
    let lab = Lab::up(&config).map_err(blame)?;
    let report = lab.path().report();
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", announcement(&args.name, &report))?;
    } else {
        write!(out, "{}", introduction(args, &report))?;
    }
    if args.detached {
        // An empty line tells the process that waits that all is said.
        writeln!(out)?;
    }
    out.flush()?;
    registration.serve(&lab, &signals).map_err(blame)?;
    let report = lab.path().report();
    drop(lab);
    drop(registration);
    if args.detached {
        return Ok(());
    }
    if args.json {
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
    let depth = |d: ::lab::Depth| match d {
        ::lab::Depth::Bytes(n) => format!("{n} B"),
        ::lab::Depth::Time(t) => t.to_string(),
    };
    parts.extend(asked.queue.map(|q| format!("queue {}", depth(q))));
    parts.extend(asked.ecn.map(|e| format!("ECN marks above {}", depth(e))));
    parts.extend(asked.black_hole.map(|n| format!("packets above {n} B vanish")));
    parts.join(", ")
}

fn rate(bits: f64) -> String {
    match bits {
        b if b >= 1e9 => format!("{:.3} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.3} Mbit/s", b / 1e6),
        b => format!("{:.3} kbit/s", b / 1e3),
    }
}

/// What was achieved beside what was asked for.
fn table(name: &str, report: &PathReport) -> String {
    let mut text = format!("lab {name}: up {}, backend {}, mtu {}\n", report.up, report.backend, report.mtu);
    for (way, direction) in [("a to b", &report.a_to_b), ("b to a", &report.b_to_a)] {
        text += &format!("  {way}  asked     {}\n", words(&direction.asked));
        text += &format!("          achieved  {}\n", direction.achieved.as_ref().map_or("not known".into(), achieved));
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
    parts.push(format!("{} segments, {} B on the wire", a.delivered, a.wire_bytes));
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
    config(args).map_err(blame)?;
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
        return Remote::find(name).map_err(blame);
    }
    let names = registry::names().map_err(blame)?;
    match &names[..] {
        [only] => Remote::find(only).map_err(blame),
        [] => Err(BadInput("no lab is running; `wirelapse lab up` makes one".into()).into()),
        several => Err(BadInput(format!("several labs are running, say which: {}", several.join(", "))).into()),
    }
}

fn down(args: &Down) -> anyhow::Result<()> {
    let names = if args.all { registry::names().map_err(blame)? } else { args.name.clone() };
    if names.is_empty() && !args.all {
        return find(None)?.down().map_err(blame);
    }
    let labs = names.iter().map(|name| find(Some(name))).collect::<anyhow::Result<Vec<_>>>()?;
    labs.iter().try_for_each(|lab| lab.down().map_err(blame))
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
    let mut command = lab.command(side, program).map_err(blame)?;
    // Returns only where the program could not be started; otherwise this process waits for it and ends as it does.
    let error = command.args(arguments).exec();
    Err(BadInput(format!("cannot run {:?} in host {host}: {error}", program.display())).into())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let names = registry::names().map_err(blame)?;
    if names.is_empty() && !args.json {
        writeln!(out, "no lab is running")?;
    }
    for name in names {
        // One that goes down meanwhile is no longer to be listed.
        let Ok(report) = Remote::find(&name).and_then(|lab| lab.report()) else { continue };
        if args.json {
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
