//! `wirelapse lab up|change|down|exec|list`.

mod change;
mod network;

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ::lab::parse::{self, Wrong};
use ::lab::registry::{self, Description, Registration, Remote};
use ::lab::settings::or_none;
use ::lab::{
    BitRate, Capacity, Choice, Config, Depth, Device, Direction, Discipline, JitterShape, Lab, Loss, PathReport,
    Recording, Reorder, Schedule, Side,
};
use ::lab::{rootless, user};
use anyhow::Context as _;
use clap_complete::engine::ArgValueCandidates;
use record::Nanos;
use rights::Kept;
use rustix::thread::CapabilitySet;
use serde_json::json;

use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::Json;
use crate::output::{self, harmless, say};
use report::page;

/// Make hosts in namespaces, joined by paths of known delay, rate, loss and order
///
/// Hosts a (10.77.0.1, fd77::1) and b (10.77.0.2, fd77::2), or those of a topology file, exist as
/// long as `lab up` or the detached owner of the lab runs. Nothing of them is left behind, even if
/// it is killed.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Up(Box<Up>),
    Change(Box<change::Change>),
    Down(Down),
    Exec(Exec),
    List(List),
}

/// Start a lab, in the foreground until Ctrl-C, or detached
///
/// A setting is for both directions, or A_TO_B/B_TO_A for each: `--delay 25ms/5ms`.
#[derive(clap::Args)]
struct Up {
    /// Name of the lab, for other commands
    #[arg(long, default_value = "lab", help_heading = "Lab")]
    name: String,
    /// Return as soon as the lab is up; `lab down` takes it down
    #[arg(short, long, help_heading = "Lab")]
    detach: bool,
    /// One-way delay: 25ms, 200us, 1.5s
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::duration), help_heading = "Path")]
    delay: [Nanos; 2],
    /// How much the delay varies, see --jitter-shape. Packets stay in order unless --reorder is
    /// given (--reorder 0% lets jitter reorder them)
    #[arg(long, value_name = "TIME[/TIME]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::duration), help_heading = "Path")]
    jitter: [Nanos; 2],
    /// uniform: evenly to either side; normal: this is the standard deviation; exponential, pareto:
    /// this is the mean of what is added
    #[arg(long, value_name = "SHAPE[/SHAPE]", default_value = "uniform", value_parser = both(parse::jitter_shape), help_heading = "Path")]
    jitter_shape: [JitterShape; 2],
    /// How much the jitter of a segment depends on the segment before: 50%
    #[arg(long, value_name = "SHARE[/SHARE]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::share), help_heading = "Path")]
    jitter_memory: [f64; 2],
    /// Bits a second on the wire, with the 38 bytes that Ethernet adds to each segment: 1gbit, 10M,
    /// none
    #[arg(long, value_name = "RATE[/RATE]", default_value = "none", allow_hyphen_values = true, value_parser = both(parse::rate), help_heading = "Path")]
    rate: [Option<BitRate>; 2],
    /// Share of segments lost, independently: 0.5%
    #[arg(long, value_name = "SHARE[/SHARE]", conflicts_with = "burst_loss", allow_hyphen_values = true, value_parser = both(parse::loss), help_heading = "Path")]
    loss: Option<[Loss; 2]>,
    /// Loss in bursts: 1%x8 loses 1 % of the segments, 8 in a row on average. Or the probabilities
    /// of the Gilbert-Elliott model: GOOD_TO_BAD,BAD_TO_GOOD,LOST_IN_BAD,LOST_IN_GOOD
    #[arg(long, value_name = "SHARExLENGTH[/…]", allow_hyphen_values = true, value_parser = both(|text| or_none(text, parse::burst_loss).map(Option::unwrap_or_default)), help_heading = "Path")]
    burst_loss: Option<[Loss; 2]>,
    /// Share of segments held back so that later ones overtake them, and for how long: 1%@2ms
    #[arg(long, value_name = "SHARE[@TIME][/…]", allow_hyphen_values = true, value_parser = both(|text| or_none(text, parse::reorder)), help_heading = "Path")]
    reorder: Option<[Option<Reorder>; 2]>,
    /// Share of segments that arrive twice: 0.1%
    #[arg(long, value_name = "SHARE[/SHARE]", default_value = "0", allow_hyphen_values = true, value_parser = both(parse::share), help_heading = "Path")]
    duplicate: [f64; 2],
    /// Queue before the bottleneck, in bytes on the wire or in time: 64KiB, 20ms; more is dropped
    /// [default: 1000 full segments]
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = both(|text| or_none(text, parse::depth)), help_heading = "Path")]
    queue: Option<[Option<Depth>; 2]>,
    /// Queue discipline: fifo, codel, fq_codel or pie, with options such as
    /// codel:target=5ms,interval=100ms,ecn
    #[arg(long, value_name = "DISCIPLINE[/…]", default_value = "fifo", value_parser = both(parse::discipline), help_heading = "Path")]
    qdisc: [Discipline; 2],
    /// Mark ECN-capable segments that find a longer queue than this: 30KB, 1ms
    #[arg(long, value_name = "BYTES|TIME[/…]", allow_hyphen_values = true, value_parser = both(|text| or_none(text, parse::depth)), help_heading = "Path")]
    ecn: Option<[Option<Depth>; 2]>,
    /// Silently drop IP packets larger than this, as a path with a smaller MTU and filtered ICMP
    /// does: 1400
    #[arg(long, value_name = "BYTES[/BYTES]", default_value = "none", allow_hyphen_values = true, value_parser = both(parse::black_hole), help_heading = "Path")]
    black_hole: [Option<u32>; 2],
    /// A recorded link instead of a rate, in the format of mahimahi (each line: a millisecond at
    /// which one full packet may leave). One file for both directions, or one for each
    #[arg(long, value_name = "FILE", num_args = 1..=2, conflicts_with = "rate", help_heading = "Path")]
    recorded: Vec<PathBuf>,
    /// Change the path over time: a CSV file with a header (time,delay,rate,loss,…) and a line for
    /// each step
    #[arg(long, value_name = "FILE", help_heading = "Path")]
    schedule: Option<PathBuf>,
    /// Hosts and links from this TOML file, instead of hosts a and b
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delay", "jitter", "rate", "loss", "burst_loss", "reorder", "duplicate", "queue", "qdisc", "ecn",
        "black_hole", "recorded", "schedule", "mtu", "backend", "testbed", "jitter_shape", "jitter_memory"], help_heading = "Lab")]
    topology: Option<PathBuf>,
    /// Largest IP packet, 1280 to 65521 bytes
    #[arg(long, value_name = "BYTES", value_parser = quantity::parse::bytes_u32, default_value_t = 1_500, help_heading = "Path")]
    mtu: u32,
    /// Seed of all random draws: the same seed gives the same losses
    #[arg(long, default_value_t = 1, help_heading = "Path")]
    seed: u64,
    /// What emulates the path
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = "Lab")]
    backend: Backend,
    /// Let the hosts reach the outside, not through the path: TCP connections and DNS, carried by
    /// the owner of the lab over the network of this machine
    #[arg(long, help_heading = "Lab")]
    uplink: bool,
    /// Put this device between a and b: host m gets a copy of every frame before the device on its
    /// interface `before`, and after it on `after`. In host a, generate frames on `source`
    #[arg(long, value_name = "DEVICE", value_enum, help_heading = "Lab")]
    testbed: Option<DeviceName>,
    #[command(flatten)]
    json: Json,
    /// What `--detach` starts
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Backend {
    /// The kernel's tbf for a path of 5.25 Gbit/s and more that has only a rate, else built-in
    /// wherever there is TUN/TAP, else netem
    Auto,
    /// In user space between two TAP devices: seeded, charges and measures every segment
    BuiltIn,
    /// The kernel's netem and tbf, whichever it takes, on a veth pair
    Netem,
}

/// `--testbed`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum DeviceName {
    /// The path with its delay, rate and loss
    Path,
    /// A plain wire, for calibration
    Wire,
    /// The kernel's bridge
    Bridge,
    /// The kernel as a router; frames to b go to 02:77:00:00:00:11
    Router,
    /// What a program does that is run in host d, between its interfaces `left` and `right`
    Program,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Self {
        match name {
            DeviceName::Path => Self::Path,
            DeviceName::Wire => Self::Wire,
            DeviceName::Bridge => Self::Bridge,
            DeviceName::Router => Self::Router,
            DeviceName::Program => Self::Program,
        }
    }
}

/// Take labs down
#[derive(clap::Args)]
struct Down {
    /// Labs to take down; not needed if only one is up
    #[arg(add = ArgValueCandidates::new(values::labs))]
    name: Vec<String>,
    /// Take all labs down, after confirmation
    #[arg(long, conflicts_with = "name", help_heading = "Lab")]
    all: bool,
    /// With --all: do not ask
    #[arg(long, requires = "all", help_heading = "Lab")]
    yes: bool,
}

/// Run a command in a host; its exit status is passed on, and signals to it
#[derive(clap::Args)]
struct Exec {
    /// a or b; in a testbed also m or d; NAME:a if several labs are up
    #[arg(value_name = "[NAME:]HOST", add = ArgValueCandidates::new(values::lab_hosts))]
    host: String,
    /// As people try it, by `lab up --name`
    #[arg(long, hide = true)]
    name: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<std::ffi::OsString>,
}

/// Show the labs that are up, with requested and achieved figures of their paths
#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    json: Json,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Up(up) if up.detach && !up.detached => detach(up),
        What::Up(up) => self::up(up),
        What::Change(to) => change::run(to),
        What::Down(down) => self::down(down),
        What::Exec(exec) => self::exec(exec),
        What::List(list) => self::list(list),
    }
}

/// A setting for each direction.
fn both<T>(one: impl Fn(&str) -> Result<T, Wrong> + Clone) -> impl Fn(&str) -> Result<[T; 2], Wrong> + Clone {
    move |text| parse::both(text, &one)
}

/// The text of a file that describes a path.
fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|e| BadInput(format!("{}: {e}", file.display())).into())
}

/// The recorded links of a command line, from a to b and back.
fn recorded(files: &[PathBuf]) -> anyhow::Result<[Option<Arc<Recording>>; 2]> {
    let read = |file: &PathBuf| {
        Ok::<_, anyhow::Error>(Some(Arc::new(Recording::read(&file.display().to_string(), &read(file)?)?)))
    };
    Ok(match files {
        [] => [None, None],
        [one] => {
            let recording = read(one)?;
            [recording.clone(), recording]
        }
        [a_to_b, b_to_a, ..] => [read(a_to_b)?, read(b_to_a)?],
    })
}

fn config(up: &Up) -> anyhow::Result<Config> {
    let (rate, queue, ecn) = (up.rate, up.queue, up.ecn);
    let loss = up.loss.or(up.burst_loss).unwrap_or_default();
    let recorded = recorded(&up.recorded)?;
    let none = rate == [None; 2] && up.recorded.is_empty();
    let direction = |i: usize| {
        let recorded = recorded[i].as_ref().map(|recording| recording.about.clone());
        // What waits at a bottleneck is, for both directions, of those that have one; without any
        // it is refused.
        let waits = rate[i].is_some() || recorded.is_some() || none;
        Direction {
            delay: up.delay[i],
            jitter: up.jitter[i],
            jitter_shape: up.jitter_shape[i],
            jitter_memory: up.jitter_memory[i],
            rate: rate[i],
            loss: loss[i],
            reorder: up.reorder.and_then(|r| r[i]),
            duplicate: up.duplicate[i],
            queue: queue.and_then(|q| q[i]).filter(|_| waits),
            qdisc: if waits { up.qdisc[i] } else { Discipline::Fifo },
            ecn: ecn.and_then(|e| e[i]).filter(|_| waits),
            black_hole: up.black_hole[i],
            recorded,
        }
    };
    let (a_to_b, b_to_a) = (direction(0), direction(1));
    let backend = match up.backend {
        Backend::Auto => Choice::Auto,
        Backend::BuiltIn => Choice::BuiltIn,
        Backend::Netem => Choice::Netem,
    };
    let mut config = Config {
        a_to_b,
        b_to_a,
        mtu: up.mtu,
        seed: up.seed,
        backend,
        schedule: Schedule::default(),
        recorded,
        uplink: up.uplink,
    };
    config.check()?;
    if let Some(file) = &up.schedule {
        config.schedule =
            Schedule::read(&file.display().to_string(), &read(file)?, [&config.a_to_b, &config.b_to_a], config.mtu)?;
    }
    Ok(config)
}

fn up(args: &Up) -> anyhow::Result<()> {
    let config = config(args)?;
    let without_root = !user::is_root();
    // While this process has one thread.
    rootless::enter()?;
    let interrupt = Interrupt::listen()?;
    let registration = Registration::take(&args.name)?;
    if let Some(file) = &args.topology {
        return network::up(args, file, &registration, interrupt);
    }
    let lab = match args.testbed {
        None => Lab::up(&config)?,
        Some(device) => Lab::up_testbed(&config, device.into())?,
    };
    let report = lab.path().report();
    let capacity = is_fast(&config).then(|| Capacity::measure(&report).ok()).flatten();
    let mut out = output::stdout();
    if args.json.json {
        writeln!(out, "{}", announcement(&args.name, &report, capacity))?;
    } else {
        let mut notes = notes(args, without_root);
        notes.extend(capacity.map(page::lab::capacity));
        output::document(&page::lab::up(&args.name, &report, &notes, &taken_down_by(args)))?;
    }
    end_of_message(args)?;
    keep_rights()?;
    let served = registration.serve(&lab, &mut || interrupt.came());
    let report = lab.path().report();
    drop(lab);
    drop(registration);
    if args.detached {
        return Ok(served?);
    }
    if args.json.json {
        let mut line = serde_json::to_value(&report)?;
        line["kind"] = json!("path");
        writeln!(out, "{line}")?;
    } else {
        writeln!(out)?;
        output::document(&page::lab::achieved(&args.name, &report))?;
    }
    Ok(served?)
}

/// Whether the path may be faster than this machine: any carries less than this.
fn is_fast(config: &Config) -> bool {
    const SLOW: BitRate = BitRate::mbit(100);
    [&config.a_to_b, &config.b_to_a].into_iter().any(|way| way.rate.is_some_and(|rate| rate > SLOW))
}

/// The last line of what a detached owner says to the process that started it: the symbol for End
/// of Transmission.
const END_OF_MESSAGE: &str = "\u{2404}";

/// Ends what a detached owner says to the process that waits.
fn end_of_message(args: &Up) -> std::io::Result<()> {
    let mut out = output::stdout();
    if args.detached {
        writeln!(out, "{END_OF_MESSAGE}")?;
    }
    out.flush()
}

/// Gives up what a lab that is up does not need.
fn keep_rights() -> Result<(), rights::Error> {
    // What is left to do: to read counters in the hosts' network namespaces and to change their
    // qdiscs and the path's priority, and to remove the files of the lab at its end.
    rights::keep_only(&Kept {
        capabilities: CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::SYS_NICE,
        written: &[registry::directory()],
        namespaces: true,
        // Those of the path are there.
        all_threads: true,
        ..Kept::NOTHING
    })
}

fn announcement(name: &str, report: &PathReport, capacity: Option<Capacity>) -> serde_json::Value {
    let host = |side: Side| json!({"interface": ::lab::INTERFACE, "ipv4": side.ipv4(), "ipv6": side.ipv6()});
    json!({
        "kind": "lab", "name": name, "backend": report.backend, "reason": report.reason, "mtu": report.mtu,
        "seed": report.seed, "a": host(Side::A), "b": host(Side::B),
        "a_to_b": report.a_to_b.asked, "b_to_a": report.b_to_a.asked,
        "carries": capacity,
    })
}

/// What a lab is introduced with beyond its hosts and paths.
fn notes(args: &Up, without_root: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(file) = &args.schedule {
        let file = file.display();
        notes.push(format!("The path changes by {file}; `wirelapse lab list` shows what each step achieved."));
    }
    if let Some(device) = args.testbed.map(Device::from) {
        notes.push("Host m has a copy of every frame at both taps, on `before` and `after`.".into());
        if device == Device::Program {
            notes.push(
                "Host d has `left` and `right`: nothing joins them until a program does that is run there.".into(),
            );
        }
    }
    if args.uplink {
        notes.push(
            "Hosts reach the outside past the path, by TCP and DNS alone; this machine opens the connections for them."
                .into(),
        );
    }
    if without_root {
        notes.push(rootless::MISSING.into());
    }
    notes
}

/// What ends a lab.
fn taken_down_by(args: &Up) -> String {
    if args.detached { format!("`wirelapse lab down {}`", args.name) } else { "Ctrl-C".into() }
}

/// Starts the same command again as the lab's owner, and leaves once it says that the lab is up.
fn detach(args: &Up) -> anyhow::Result<()> {
    match &args.topology {
        Some(file) => drop(network::topology(args, file)?),
        None => drop(config(args)?),
    }
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
        if line == END_OF_MESSAGE {
            return Ok(());
        }
        writeln!(output::stdout(), "{}", harmless(&line))?;
    }
    let mut error = String::new();
    if let Some(mut complaints) = owner.stderr.take() {
        complaints.read_to_string(&mut error)?;
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
        [] => Err(BadInput("no lab is up: start one with `wirelapse lab up`".into()).into()),
        several => Err(BadInput(format!("several labs are up, name one of {}", several.join(", "))).into()),
    }
}

fn down(args: &Down) -> anyhow::Result<()> {
    let names = if args.all { registry::names()? } else { args.name.clone() };
    if names.is_empty() && !args.all {
        return Ok(find(None)?.down()?);
    }
    let labs = names.iter().map(|name| find(Some(name))).collect::<anyhow::Result<Vec<_>>>()?;
    if args.all && !args.yes && !names.is_empty() && !agreed(&names)? {
        return Ok(());
    }
    for (lab, name) in labs.iter().zip(&names) {
        lab.down()?;
        if args.all {
            say!("{name} is down");
        }
    }
    Ok(())
}

/// Whether the person at the terminal wants every one of these labs to end: they may be someone
/// else's work.
fn agreed(names: &[String]) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(
            BadInput(format!("this takes down every lab of this machine ({}): add --yes", names.join(", "))).into()
        );
    }
    output::ask(&format!("End every lab of this machine: {}? [y/N] ", names.join(", ")));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn exec(args: &Exec) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        return Err(BadInput(format!("the lab is part of the host: write {name}:{}", args.host)).into());
    }
    let (name, host) = match args.host.rsplit_once(':') {
        Some((name, host)) => (Some(name), host),
        None => (None, args.host.as_str()),
    };
    let (program, arguments) = args.command.split_first().context("no command")?;
    let lab = find(name)?;
    let hosts = match lab.describe()? {
        Description::Network { hosts, .. } => hosts.into_iter().map(|host| host.name).collect(),
        Description::Lab(_) => ["a", "b", "m", "d"].map(str::to_owned).to_vec(),
    };
    if !hosts.iter().any(|known| known == host) {
        let near = quantity::nearest(host, hosts.iter().map(String::as_str)).unwrap_or_default();
        let hosts = if hosts[..] == ["a", "b", "m", "d"] {
            "a and b, and of a testbed m and d too".into()
        } else {
            hosts.join(", ")
        };
        let problem =
            format!("there is no host {host:?}: the hosts of lab {} are {hosts}; did you mean {near:?}?", lab.name());
        return Err(BadInput(problem).into());
    }
    let mut command = lab.command(host, program)?;
    // Returns only where the program could not be started; otherwise this process waits for it and
    // ends as it does.
    let error = command.args(arguments).exec();
    Err(BadInput(format!("cannot run {:?} in host {host}: {error}", program.display())).into())
}

fn list(args: &List) -> anyhow::Result<()> {
    let mut out = output::stdout();
    let mut documents = Vec::new();
    let names = registry::names()?;
    if names.is_empty() && !args.json.json {
        say!("no lab is up: start one with `wirelapse lab up`");
    }
    for name in names {
        // One that goes down meanwhile is no longer to be listed.
        let Ok(described) = Remote::find(&name).and_then(|lab| lab.describe()) else { continue };
        let report = match described {
            Description::Lab(report) => report,
            Description::Network { hosts, links } => {
                if args.json.json {
                    writeln!(out, "{}", network::line(&name, &hosts, &links))?;
                } else {
                    documents.push(page::lab::network_achieved(&name, &hosts, &links));
                }
                continue;
            }
        };
        if args.json.json {
            let mut line = serde_json::to_value(&report)?;
            line["kind"] = json!("lab");
            line["name"] = json!(name);
            writeln!(out, "{line}")?;
        } else {
            documents.push(page::lab::achieved(&name, &report));
        }
    }
    output::documents(&documents)
}
