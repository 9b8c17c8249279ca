//! A day of an agent in ten minutes: more runs, scrapes and settings than a day has, by rotations
//! of two seconds. What it holds is level, each send is in one of its runs, and the kernel has
//! nothing of it when it has ended. `cargo test` takes half a minute (`WIRELAPSE_DAY`: seconds, 600
//! for the day).

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::scene::command::{fdinfo, held_by, signal};
use crate::scene::{BTF, median, turn};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use record::Leg;
use store::HistogramRow;
use tier::{Need, Process};

/// Peers that come and go, and the series that there is room for.
const PEERS: u32 = 4_000;
const SERIES: usize = 128;
/// Connections of a round, and requests of each: as many answers.
const CONNECTIONS: u32 = 10;
const REQUESTS: u64 = 5;
const BYTES: usize = 100;

/// What the agent and the process that walks for it hold.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
    /// Of the tables in the kernel.
    tables_kib: u64,
    /// Programs, tables and links in the kernel.
    objects: u64,
}

impl Held {
    fn of(processes: &[u32]) -> Self {
        let status = |pid: &u32, name: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let (mut tables_kib, mut seen) = (0, HashSet::new());
        for text in processes.iter().flat_map(|pid| fdinfo(*pid)) {
            let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
            if let (Some(id), Some(bytes)) = (field("map_id:"), field("memlock:"))
                && seen.insert(id)
            {
                tables_kib += bytes / 1024;
            }
        }
        let all = |of: &dyn Fn(&u32) -> u64| processes.iter().map(of).sum();
        let ids = Ids::of(processes);
        Self {
            resident_kib: all(&|pid| status(pid, "VmRSS:")),
            descriptors: all(&|pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64),
            threads: all(&|pid| status(pid, "Threads:")),
            tables_kib,
            objects: (ids.programs.len() + ids.tables.len() + ids.links.len()) as u64,
        }
    }
}

/// The BPF objects of the agent. Other tests have theirs at the same time.
struct Ids {
    programs: HashSet<u32>,
    tables: HashSet<u32>,
    links: HashSet<u32>,
}

impl Ids {
    fn of(processes: &[u32]) -> Self {
        let held = |what: &str| processes.iter().flat_map(|pid| held_by(*pid, what)).collect();
        Self { programs: held("prog_id"), tables: held("map_id"), links: held("link_id") }
    }

    fn left(&self) -> usize {
        let programs = ProgInfoIter::default().filter(|program| self.programs.contains(&program.id)).count();
        let tables = MapInfoIter::default().filter(|table| self.tables.contains(&table.id)).count();
        programs + tables + LinkInfoIter::default().filter(|link| self.links.contains(&link.id)).count()
    }
}

/// The processes that a process started.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok())
    };
    pids.filter(|pid| parent(pid) == Some(of)).collect()
}

/// Answers each request with as many bytes, one connection after the other.
fn answering() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut bytes = [0; BYTES];
            while stream.read_exact(&mut bytes).is_ok() {
                stream.write_all(&bytes).unwrap();
            }
        }
    });
    port
}

/// A collector that takes what comes, and refuses three of ten requests. Gives its port and how
/// many it took.
fn collector() -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, taken) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU64::new(0)));
    let counted = taken.clone();
    std::thread::spawn(move || {
        for (request, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).is_ok_and(|n| n > 2) {
                if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            let takes = request % 10 < 7;
            let status = if takes { "200 OK" } else { "503 Service Unavailable" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if stream.get_mut().write_all(answer.as_bytes()).is_ok() {
                counted.fetch_add(u64::from(takes), Ordering::Relaxed);
            }
        }
    });
    (port, taken)
}

/// One scrape in turn: as text, as protocol buffers, and one that is broken off.
fn scrape(address: &str, round: u32) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let protobuf =
        "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n";
    let accept = if round % 4 == 1 { protobuf } else { "" };
    // By version 1.0, whose answers do not come in chunks that may divide a line.
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: x\r\n{accept}\r\n").unwrap();
    let mut answer = Vec::new();
    if round % 4 == 3 {
        stream.take(1000).read_to_end(&mut answer).unwrap();
        return None;
    }
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200 "), "{}", tier::text(&answer[..answer.len().min(200)]));
    (accept.is_empty()).then(|| tier::text(&answer))
}

/// The runs that are finished and were not counted yet are counted: sends of all series by what
/// their connections took.
fn count(runs: &Path, counted: &mut HashSet<std::path::PathBuf>) -> u64 {
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sends = 0;
    for run in folders(runs)
        .flat_map(|host| folders(&host).collect::<Vec<_>>())
        .flat_map(|date| folders(&date).collect::<Vec<_>>())
    {
        let hidden = run.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || counted.contains(&run) || !run.join("run.json").exists() {
            continue;
        }
        let opened = store::Run::open(&run).unwrap();
        if opened.state() != store::State::Finished {
            continue;
        }
        // One that ended at once has none.
        let rows: Vec<HistogramRow> = match run.join("histograms.parquet").exists() {
            true => store::workload::rows(&run).unwrap(),
            false => Vec::new(),
        };
        sends += rows.iter().filter(|row| row.stage == Leg::Total.name()).map(|row| row.count).sum::<u64>();
        counted.insert(run);
    }
    sends
}

#[test]
fn a_day_leaves_what_it_holds_as_it_was() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let lasts = std::env::var("WIRELAPSE_DAY").map_or(30, |text| text.parse().expect("WIRELAPSE_DAY: seconds"));
    let dir = tempfile::tempdir().unwrap();
    let (runs, config) = (dir.path().join("runs"), dir.path().join("agent.toml"));
    let (port, (collecting, taken)) = (answering(), collector());
    let toml = format!(
        "[target]\nport = {port}\n[histograms]\nmax_series = {SERIES}\nidle = \"2s\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n\
         [otlp]\nendpoint = \"http://127.0.0.1:{collecting}\"\ninterval = \"1s\"\n\
         [store]\nurl = \"{}\"\ninterval = \"1s\"\nrotate = \"2s\"\nkeep = \"10m\"\nsample = \"1/10\"\n",
        runs.display()
    );
    fs::write(&config, toml).unwrap();
    // Without the time limit of other tests: a day lasts as long as it is asked to.
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    command.arg("agent").arg("--config").arg(&config).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut agent = Process::start(&mut command);
    let mut said = BufReader::new(agent.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("wirelapse: listening at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    let rest = std::thread::spawn(move || {
        said.lines().map_while(Result::ok).filter(|l| !l.ends_with("read again")).collect::<Vec<_>>()
    });
    let mut counted = HashSet::new();
    assert!(
        tier::wait_for(|| fs::read_dir(&runs).is_ok_and(|mut hosts| hosts
            .next()
            .is_some_and(|host| { fs::read_dir(host.unwrap().path()).unwrap().next().is_some() }))),
        "no run begins"
    );
    scrape(&address, 0);
    let processes: Vec<u32> = [agent.id()].into_iter().chain(children(agent.id())).collect();
    let objects = Ids::of(&processes);
    assert!(objects.programs.len() > 3 && objects.tables.len() > 3 && !objects.links.is_empty());

    let (began, mut series, mut round, mut in_runs, mut most_series) = (Instant::now(), Vec::new(), 0_u32, 0, 0.0);
    while began.elapsed() < Duration::from_secs(lasts) {
        for connection in 0..CONNECTIONS {
            let peer = (round * CONNECTIONS + connection) * 7 % PEERS;
            let mut stream = TcpStream::connect((Ipv4Addr::from_bits(0x7f01_0001 + peer), port)).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut bytes = [0; BYTES];
            for _ in 0..REQUESTS {
                stream.write_all(&bytes).unwrap();
                stream.read_exact(&mut bytes).unwrap();
            }
        }
        if let Some(figures) = scrape(&address, round) {
            let there = figures.lines().find_map(|line| line.strip_prefix("wirelapse_series ")?.parse::<f64>().ok());
            most_series = there.unwrap_or_else(|| panic!("{figures}")).max(most_series);
        }
        if round % 20 == 0 {
            signal(&agent, libc::SIGHUP);
        }
        in_runs += count(&runs, &mut counted);
        series.push(Held::of(&processes));
        round += 1;
        std::thread::sleep(Duration::from_millis(60));
    }
    let sends = u64::from(round) * u64::from(CONNECTIONS) * REQUESTS * 2;
    // Those that were sent last finish before the agent's last look.
    std::thread::sleep(Duration::from_millis(500));
    signal(&agent, libc::SIGTERM);
    assert!(agent.wait().unwrap().success());
    let (said, seconds) = (rest.join().unwrap(), began.elapsed().as_secs());
    in_runs += count(&runs, &mut counted);
    println!(
        "{round} rounds in {seconds} s: {sends} sends, {in_runs} of them in {} runs; {} requests taken; at most {most_series} series of {SERIES} and one; \
         the agent said {said:?}",
        counted.len(),
        taken.load(Ordering::Relaxed),
    );
    assert_eq!(in_runs, sends);
    assert!(most_series <= SERIES as f64 + 1.0);
    assert!(series.len() >= 8, "only {} rounds: give it longer (WIRELAPSE_DAY)", series.len());
    let quarter = series.len() / 4;
    let figure = |name: &str, of: fn(&Held) -> u64| {
        let early = median(series[2 * quarter..3 * quarter].iter().map(of));
        let late = median(series[3 * quarter..].iter().map(of));
        println!("{name}: {early}, then {late} (medians of the third and the last quarter)");
        (early, late)
    };
    let memory = figure("memory, KiB", |held| held.resident_kib);
    // In a short run the buffers still fill: it finds what grows with each run, a long one what
    // grows slowly.
    let allowed = if lasts < 600 { memory.0 / 4 } else { memory.0 / 20 };
    assert!(memory.1 <= memory.0 + allowed + 4096, "memory grows");
    let descriptors = figure("descriptors", |held| held.descriptors);
    let threads = figure("threads", |held| held.threads);
    assert!(descriptors.1 <= descriptors.0 + 16 && threads.1 <= threads.0 + 4, "descriptors or threads grow");
    let objects_held = figure("BPF objects", |held| held.objects);
    assert_eq!(objects_held.0, objects_held.1);
    let tables = figure("tables in the kernel, KiB", |held| held.tables_kib);
    assert!(tables.1 <= tables.0 + tables.0 / 50, "tables grow");
    // Objects end a moment after their process.
    assert!(tier::wait_for(|| objects.left() == 0), "{} BPF objects are left", objects.left());
}
