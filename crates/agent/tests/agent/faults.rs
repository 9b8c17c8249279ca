//! An agent that is killed while it writes, rotates and uploads, many times: what is visible is
//! whole. And one with the collector, Prometheus and the store away for as many runs as an hour
//! has: bounded, counted, taken up again.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::made_up::{AtWork, free_port, get};
use crate::moto::Moto;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use record::Nanos;
use tier::{Process, needs};

/// Where the agent of another process finds its configuration.
const CONFIG: &str = "WIRELAPSE_TEST_CONFIG";
/// How long its runs are, where not shorter than a second, ms.
const ROTATE: &str = "WIRELAPSE_TEST_ROTATE";
const KILLS: u64 = 40;

/// The agent that the other tests start: this program once more. Its times are shorter than a
/// configuration may have them.
#[test]
fn an_agent_in_a_separate_process() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let rotate = std::env::var(ROTATE).map_or(120, |text| text.parse().unwrap());
    let shorter = |config: &mut agent::config::Config| {
        if let Some(store) = &mut config.store {
            (store.interval, store.rotate) = (Nanos::from_millis(rotate / 3), Nanos::from_millis(rotate));
        }
        if let Some(otlp) = &mut config.otlp {
            otlp.interval = Nanos::from_millis(100);
        }
    };
    let agent = AtWork::with(&config, 5, shorter);
    println!("at {}", agent.address.map_or_else(String::new, |address| address.to_string()));
    // It ends by a signal, or with the one who started it.
    let _ = std::io::stdin().read(&mut [0]);
    agent.finish();
}

struct Started {
    process: Process,
    address: String,
}

fn started(config: &str, environment: &[(&str, String)]) -> Started {
    let mut command = tier::command(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::an_agent_in_a_separate_process", "--nocapture"]).env(CONFIG, config);
    command.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
    let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(process.stdout.take().unwrap()));
    let address = lines.find_map(|line| line.unwrap().split_once("at ").map(|(_, address)| address.to_owned()));
    // What it says later has a reader still.
    std::thread::spawn(move || lines.for_each(drop));
    Started { process, address: address.unwrap() }
}

fn s3(port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", "test".into()),
        ("AWS_SECRET_ACCESS_KEY", "test".into()),
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
    ]
}

/// All visible files below a directory.
fn visible(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            _ if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
            true => found.extend(visible(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Reads every row of a part.
fn rows(part: &Path) -> u64 {
    let reader =
        SerializedFileReader::new(File::open(part).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", part.display()));
    let declared = reader.metadata().file_metadata().num_rows();
    let read = reader.get_row_iter(None).unwrap().map(Result::unwrap).count();
    assert_eq!(read as i64, declared, "{}", part.display());
    read as u64
}

/// Reads everything that is visible; gives how many parts there are, and how many runs are
/// finished.
fn whole(directory: &Path) -> (usize, usize) {
    let (mut parts, mut finished) = (0, 0);
    for file in visible(directory) {
        if file.extension().is_some_and(|ext| ext == "parquet") {
            rows(&file);
            parts += 1;
            continue;
        }
        assert!(file.ends_with("run.json"), "{}", file.display());
        let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        if run["state"] != "finished" {
            continue;
        }
        finished += 1;
        let histograms = visible(&file.with_file_name("histograms.parquet"));
        let there: u64 = histograms.iter().map(|part| rows(part)).sum();
        assert_eq!(run["rows"]["histograms"], there, "{}", file.display());
    }
    (parts, finished)
}

/// Kills agents after times that differ, so that they are at all the things that they do: [`KILLS`]
/// times and more, until so many runs are finished. Gives how often.
fn kill_many(
    config: &str,
    environment: &[(&str, String)],
    after_ms: u64,
    runs: usize,
    mut finished: impl FnMut() -> usize,
) -> u64 {
    for kill in 1..10 * KILLS {
        let mut agent = started(config, environment);
        std::thread::sleep(Duration::from_millis(after_ms + kill * 7919 % 613));
        agent.process.kill().unwrap();
        agent.process.wait().unwrap();
        if kill >= KILLS && finished() >= runs {
            return kill;
        }
    }
    panic!("{} kills, and {} runs are finished", 10 * KILLS, finished())
}

#[test]
fn an_agent_that_is_killed_leaves_whole_parts() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"{}\"\nmax_bytes = \"100MiB\"\n", dir.path().display());
    let mut seen = (0, 0);
    let kills = kill_many(&config, &[], 60, 20, || {
        seen = whole(dir.path());
        seen.1
    });
    println!("{kills} kills: {} parts, {} finished runs", seen.0, seen.1);
    assert!(seen.0 > seen.1, "each run has parts: {seen:?}");
}

#[test]
fn an_agent_that_is_killed_while_it_uploads_leaves_whole_parts_in_the_store() {
    needs!(tier::Need::Program("python3"));
    let Some(moto) = Moto::or_skip("an_agent_that_is_killed_while_it_uploads_leaves_whole_parts_in_the_store") else {
        return;
    };
    let spool = tempfile::tempdir().unwrap();
    let config = format!(
        "[store]\nurl = \"s3://bucket/fleet\"\nspool = \"{}\"\nmax_bytes = \"100MiB\"\n",
        spool.path().display()
    );
    let uploaded = || moto.finished().len();
    // Runs are named by the second. A run is uploaded when it ends: agents are killed in the half
    // second around that.
    let environment = [s3(moto.port), vec![(ROTATE, "1000".into())]].concat();
    let kills = kill_many(&config, &environment, 900, 10, uploaded);
    let there = tempfile::tempdir().unwrap();
    let keys = moto.keys();
    for key in &keys {
        let file = there.path().join(key);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, moto.object(key)).unwrap();
    }
    // `run.json` says last that a run is finished, so every such run is whole.
    let (parts, finished) = whole(there.path());
    let half = keys.iter().filter(|key| key.ends_with(".parquet")).filter(|key| {
        let run = key.rsplitn(3, '/').last().unwrap();
        !keys.iter().any(|other| *other == format!("{run}/run.json"))
    });
    println!(
        "{kills} kills: {parts} parts in the store, {finished} runs, {} parts of runs that are not whole yet",
        half.count()
    );
    assert!(finished >= 10, "{finished} {keys:?}");
    whole(spool.path());
    // What a killed agent left waiting is uploaded by the next one.
    let waiting = || visible(spool.path()).iter().filter(|file| file.ends_with("run.json")).count();
    let left = waiting();
    let last = started(&config, &s3(moto.port));
    tier::until("the runs that were left", || {
        let finished = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.contains("\"finished\""));
        visible(spool.path()).iter().filter(|file| file.ends_with("run.json") && finished(file)).count() <= 3
    });
    println!("{left} runs in the spool after the kills, {} later", waiting());
    drop(last);
}

#[test]
fn each_interval_is_in_the_store_at_once_and_one_part_is_left_of_a_run_that_is_over() {
    needs!(tier::Need::Program("python3"));
    let Some(moto) = Moto::or_skip("each_interval_is_in_the_store_at_once_and_one_part_is_left_of_a_run_that_is_over")
    else {
        return;
    };
    let spool = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"s3://bucket/fleet\"\nspool = \"{}\"\n", spool.path().display());
    let environment = [s3(moto.port), vec![(ROTATE, "4000".into())]].concat();
    let agent = started(&config, &environment);
    let of_run = |run: &str| -> Vec<String> {
        let keys = moto.keys().into_iter().filter_map(|key| key.strip_prefix(run).map(str::to_owned));
        keys.collect()
    };
    // The first run, while it goes on.
    let mut run = String::new();
    tier::until("two intervals in the store", || {
        let keys = moto.keys();
        let second = keys.iter().find_map(|key| key.strip_suffix("/histograms.parquet/part-00001.parquet"));
        run = second.unwrap_or_default().to_owned();
        !run.is_empty()
    });
    assert!(of_run(&run).contains(&"/run.json".to_owned()), "{:?}", of_run(&run));
    let state = || String::from_utf8_lossy(&moto.object(&format!("{run}/run.json"))).into_owned();
    tier::until("the end of the run", || state().contains("\"finished\""));
    let left = ["/histograms.parquet/part-00000.parquet", "/run.json", "/runs.parquet/part-00000.parquet"];
    assert_eq!(of_run(&run), left);
    let there = tempfile::tempdir().unwrap();
    for file in left {
        let path = there.path().join(&file[1..]);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, moto.object(&format!("{run}{file}"))).unwrap();
    }
    assert_eq!(whole(there.path()), (2, 1));
    drop(agent);
}

/// Memory of a process, KiB.
fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The requests that a collector takes, until so many have come.
fn collector(port: u16, requests: usize) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for _ in 0..requests {
        let (mut stream, _) = listener.accept().unwrap();
        let mut taken = Vec::new();
        let mut some = [0; 4096];
        let length = loop {
            let n = stream.read(&mut some).unwrap();
            taken.extend_from_slice(&some[..n]);
            if let Some(end) = taken.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&taken[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
                break end + 4 + length.trim().parse::<usize>().unwrap();
            }
            assert!(n > 0, "{}", String::from_utf8_lossy(&taken));
        };
        while taken.len() < length {
            let n = stream.read(&mut some).unwrap();
            assert!(n > 0, "a request that is cut off");
            taken.extend_from_slice(&some[..n]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    }
}

#[test]
fn an_hour_without_collector_prometheus_and_store_is_bounded_counted_and_made_up_for() {
    needs!(tier::Need::Program("python3"));
    let Some(moto) = Moto::or_skip("an_hour_without_collector_prometheus_and_store_is_bounded_counted_and_made_up_for")
    else {
        return;
    };
    let port = moto.port;
    drop(moto);
    let (spool, otlp) = (tempfile::tempdir().unwrap(), free_port());
    const MOST: u64 = 100_000;
    let config = format!(
        "[prometheus]\nlisten = \"127.0.0.1:0\"\n[otlp]\nendpoint = \"http://127.0.0.1:{otlp}\"\n\
         [store]\nurl = \"s3://bucket/fleet\"\nspool = \"{}\"\nmax_bytes = \"{MOST}B\"\n",
        spool.path().display()
    );
    let agent = started(&config, &s3(port));
    // 60 runs of a minute each, in 120 ms each; without a scrape.
    let (begun, mut largest, mut memory) = (Instant::now(), 0, Vec::new());
    while begun.elapsed() < Duration::from_millis(60 * 130) {
        let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |of| of.len());
        largest = largest.max(visible(spool.path()).iter().map(size).sum::<u64>());
        memory.push(resident(&agent.process));
        std::thread::sleep(Duration::from_millis(50));
    }
    let (early, late) = (memory[memory.len() / 3], *memory.last().unwrap());
    println!("spool at most {largest} B of {MOST} B; memory {early} KiB after a third, {late} KiB at the end");
    assert!(largest <= MOST && largest > MOST / 4, "{largest}");
    assert!(late <= early + early / 10 + 2048, "{early} KiB, then {late} KiB");
    let metrics = || get(&format!("http://{}/metrics", agent.address));
    let figure = |name: &str| {
        let metrics = metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        line.unwrap_or(0.0) as u64
    };
    let exports = |to: &str, outcome: &str| {
        let label =
            |text: &str| text.contains(&format!("to=\"{to}\"")) && text.contains(&format!("outcome=\"{outcome}\""));
        let metrics = metrics();
        let line = metrics.lines().find(|line| line.starts_with("wirelapse_agent_exports_total{") && label(line));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
    };
    let counted = || [exports("otlp", "failed"), exports("store", "failed"), exports("store", "runs_dropped")];
    tier::until("everything that failed, counted", || counted().iter().all(|n| *n > 0));
    println!("otlp failed, store failed, runs dropped: {:?}", counted());
    assert_eq!(exports("otlp", "done"), 0);
    assert!(figure("wirelapse_agent_waiting_bytes") <= MOST);
    // All three are back.
    let collecting = std::thread::spawn(move || collector(otlp, 3));
    let back = Moto::start(port);
    tier::until("three requests of figures", || exports("otlp", "done") >= 3);
    collecting.join().unwrap();
    tier::until("runs in the store", || exports("store", "runs_uploaded") >= 3);
    assert!(back.keys().iter().any(|key| key.ends_with("/run.json")));
}
