//! What the pages say to do with a live service, and the SQL and Python that they show, is done:
//! the guides step by step on connections of the test, the queries on runs of every kind that they
//! read.

use crate::shown;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::shown::{block_lines, blocks, pages, words};
use tier::{Need, Process};

const BTF: Need<'_> = Need::Path("/sys/kernel/btf/vmlinux");

/// A service on loopback that is asked some hundred times a second.
struct Service {
    port: String,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port().to_string();
        let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        [&client, &server].into_iter().for_each(|socket| socket.set_nodelay(true).expect("no delay"));
        let over = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let (asked, counts) = (Arc::clone(&over), Arc::clone(&answered));
        let asks = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                client.write_all(&[0; 100]).expect("bytes are taken");
                client.read_exact(&mut [0; 3_000]).expect("bytes come");
                counts.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let answers = std::thread::spawn(move || {
            while server.read_exact(&mut [0; 100]).is_ok() {
                server.write_all(&[0; 3_000]).expect("bytes are taken");
            }
        });
        Self { port, over, answered, threads: vec![asks, answers] }
    }

    /// Waits for so many further answers.
    fn goes_on(&self, answers: u64) {
        let until = self.answered.load(Ordering::Relaxed) + answers;
        while self.answered.load(Ordering::Relaxed) < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A step of a guide for the service here: its port in place of a unit, a program or a peer,
/// loopback in place of the interface, and a second of time.
fn here(step: &[String], port: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut rest = step.iter().skip(1);
    while let Some(word) = rest.next() {
        let value = match word.as_str() {
            "--unit" | "--comm" | "--port" => Some(["--port", port]),
            "--peer" => Some(["--peer", "127.0.0.1"]),
            "--for" => Some(["--for", "1s"]),
            "-i" => Some(["-i", "lo"]),
            "-f" => Some(["-f", "tcp"]),
            _ => None,
        };
        match value {
            Some(pair) => {
                rest.next();
                done.extend(pair.map(str::to_owned));
            }
            None => done.push(word.clone()),
        }
    }
    if step[1] == "trace" && !done.iter().any(|word| word == "--for") {
        done.extend(["--for".to_owned(), "1s".to_owned()]);
    }
    done
}

/// The steps of README and the guides that watch a service, and those on the files that they leave,
/// in the order of each page.
#[test]
fn the_guides_are_followed_on_a_live_service() {
    tier::needs!(Need::Root, BTF);
    let service = Service::start();
    let mut traced = 0;
    for (path, page) in pages() {
        if !path.ends_with("README.md") && !path.parent().is_some_and(|folder| folder.ends_with("guides")) {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut left: Vec<String> = Vec::new();
        for (number, line) in block_lines(&page) {
            // A loop of a shell over `n`.
            let rounds = if line.contains("$n") { &["1", "2", "3"][..] } else { &[""] };
            for round in rounds {
                let step = words(&line.replace("$n", round));
                let live = ["trace", "capture"].contains(&step[1].as_str());
                // Other steps on files are those of docs.rs, on files of its own; requests at both
                // ends are traced in compare_hosts.rs.
                let on_ours = ["analyze", "report", "compare"].contains(&step[1].as_str())
                    && step.iter().skip(2).any(|word| left.contains(word))
                    && !step.iter().any(|word| word == "--join");
                if !live && !on_ours {
                    continue;
                }
                let args = here(&step, &service.port);
                let place = format!("{}:{number}: wirelapse {}", path.display(), args.join(" "));
                let done = tier::wirelapse!(&args).current_dir(folder.path()).output().expect("wirelapse runs");
                let (text, errors) = (tier::text(&done.stdout), tier::text(&done.stderr));
                assert!(done.status.success(), "{place}: {errors}");
                if live {
                    traced += 1;
                    let made = args.windows(2).find(|pair| ["-o", "-w"].contains(&pair[0].as_str()));
                    if let Some([_, made]) = made {
                        assert!(folder.path().join(made).exists(), "{place}: it leaves no {made}");
                        left.push(made.clone());
                    }
                }
                if step[1] == "trace" {
                    assert!(text.contains(" sends") && text.contains("Time by leg"), "{place}: {text}{errors}");
                }
                assert!(!text.is_empty() || step[1] == "capture", "{place}: it shows nothing");
                if let Some([_, page]) = args.windows(2).find(|pair| pair[0] == "--html") {
                    assert!(folder.path().join(page).exists(), "{place}: there is no {page}");
                }
            }
        }
    }
    assert!(traced >= 12, "{traced} steps watched the service");
}

/// The Python of the checkout, or of the machine, that has these modules; records the skip where
/// there is none.
pub(super) fn python(modules: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let python = if own.exists() { own } else { "python3".into() };
    let has = tier::command(&python).args(["-c", &format!("import {modules}")]).stderr(Stdio::null()).status();
    if has.is_ok_and(|has| has.success()) {
        return Some(python);
    }
    tier::skip(&format!("{}::{modules}", module_path!()), &format!("needs the Python modules {modules}"));
    None
}

/// Prints the columns and the number of rows of an SQL query, and for Python the lengths of what
/// the lines that are no assignment give.
const ASK: &str = r"
import ast, json, sys
kind, text = sys.argv[1:3]
if kind == 'sql':
    import duckdb
    asked = duckdb.sql(text)
    print(json.dumps([asked.columns, len(asked.fetchall())]))
else:
    names = {}
    if 'spark.' in text:
        from pyspark.sql import SparkSession
        settings = {'spark.ui.enabled': 'false', 'spark.driver.bindAddress': '127.0.0.1', 'spark.driver.host': '127.0.0.1', 'spark.sql.shuffle.partitions': '2'}
        names['spark'] = SparkSession.builder.master('local[1]').config(map=settings).getOrCreate()
    else:
        import pandas, polars
        names |= {'pandas': pandas, 'polars': polars}
    lengths = []
    for line in ast.parse(text).body:
        if isinstance(line, ast.Expr):
            value = eval(compile(ast.Expression(line.value), 'page', 'eval'), names)
            lengths.append(len(value.collect() if 'spark' in names else value))
        else: exec(compile(ast.Module([line], []), 'page', 'exec'), names)
    print(json.dumps([[], min(lengths)]))
";

/// Runs of the kinds that pages read, each below `folder`.
struct Runs {
    folder: tempfile::TempDir,
}

impl Runs {
    fn make() -> Self {
        let runs = Self { folder: tempfile::tempdir().expect("a folder") };
        shown::copy_run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/run"), &runs.at("trace"));
        runs.study();
        runs.workloads();
        runs.agent();
        runs
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Two trials, at 5 ms and without delay.
    fn study(&self) {
        fs::create_dir(self.at("study")).expect("a folder");
        let mut writer = store::study::Writer::open(&self.at("study"), record::Nanos(0)).expect("a run");
        for (number, level) in [(1, "5ms"), (2, "0")] {
            let responses = [(record::trial::Response::Goodput, 1e6)].into();
            let trial =
                record::trial::Trial { trial: number, plan: "p".into(), responses, ..record::trial::Trial::default() };
            let factor = record::trial::Factor { trial: number, factor: "delay".into(), level: level.into() };
            let rows = store::study::Rows { trial, factors: vec![factor], ..store::study::Rows::default() };
            writer.add(&rows, record::Nanos(0)).expect("a trial");
        }
        writer.close().expect("the end of a run");
    }

    /// The runs of `ping-under-load` and `stream`, over loopback.
    fn workloads(&self) {
        let mut serve = tier::wirelapse!(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut serve = Process::from(serve.stdout(Stdio::piped()).spawn().expect("a server"));
        let (line, _out) = serve.first_line();
        let listening: serde_json::Value = serde_json::from_str(&line).expect("an event");
        let to = listening["address"].as_str().expect("an address");
        let short = ["--before", "300ms", "--for", "500ms", "--after", "300ms", "-P", "1"];
        for args in [&[&["ping-under-load", to][..], &short].concat()[..], &["stream", to, "--for", "500ms"]] {
            let out = tier::wirelapse!(args).args(["-o", args[0]]).current_dir(self.folder.path()).output();
            let out = out.expect("wirelapse runs");
            assert!(out.status.success(), "{args:?}: {}", tier::text(&out.stderr));
        }
    }

    /// What an agent keeps: histograms, and each send.
    fn agent(&self) {
        let service = Service::start();
        let toml = format!(
            "[target]\nport = {}\n[prometheus]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{}\"\ninterval = \"1s\"\nsample = \"1/1\"\n",
            service.port,
            self.at("fleet").display()
        );
        fs::write(self.at("agent.toml"), toml).expect("a file");
        let mut agent = tier::wirelapse!(["agent", "--config"]);
        let mut agent = Process::start(agent.arg(self.at("agent.toml")).stderr(Stdio::piped()));
        // What it says first, it says once it observes; what follows goes into its store.
        let mut said = BufReader::new(agent.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert!(line.contains("listening at"), "{line}");
        service.goes_on(600);
        // SAFETY: signals a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(agent.id().cast_signed(), libc::SIGTERM) }, 0);
        let ended = agent.output();
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        assert!(ended.status.success(), "{rest}");
    }
}

/// The queries of the pages by page and beginning (after comments), the run that they read, and the
/// columns of the answer.
const QUERIES: [(&str, &str, &str, &str); 9] = [
    ("agent.md", "WITH buckets AS", "fleet", "peer, p99_ms"),
    ("query.md", "SELECT c.remote_address", "fleet", "remote_address, n, mean_ms"),
    ("query.md", "SELECT host, count(*)", "fleet", "host, count_star()"),
    ("query.md", "spark.read", "fleet", ""),
    ("runs.md", "SELECT remote_address", "trace", "remote_address, n, p99_ms"),
    ("runs.md", "pandas.read_parquet", "trace", ""),
    ("runs.md", "SELECT level", "study", "level, n, mbit_per_second"),
    ("runs.md", "SELECT probe", "ping-under-load", "probe, phase, n, lost, median_ms"),
    ("runs.md", "t = pandas.read_parquet", "stream", ""),
];

#[test]
fn the_queries_that_pages_show_are_answered() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    let runs = Runs::make();
    let mut found = Vec::new();
    for (path, page) in pages() {
        let page_name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for (number, kind, text) in blocks(&page) {
            if !["sql", "python"].contains(&kind) {
                continue;
            }
            let place = format!("{page_name}:{number}");
            let begins = text.lines().find(|line| !line.starts_with(['-', '#'])).expect("a line");
            let known = QUERIES.iter().find(|(on, begin, _, _)| *on == page_name && begins.starts_with(begin));
            let (_, _, run, columns) = known.unwrap_or_else(|| panic!("{place}: no test has a run for it: {begins}"));
            found.push(begins.to_owned());
            let at = runs.at(run);
            let text = text.replace("ROOT", &at.display().to_string()).replace("RUN", &at.display().to_string());
            // Where a time of day is asked for, the engine is that of `wirelapse query`.
            if text.contains("s.time") {
                let out = tier::wirelapse!(["query", "--runs"]).arg(&at).arg(&text).args(["--format", "csv"]).output();
                let out = out.expect("wirelapse runs");
                if tier::text(&out.stderr).contains("wirelapse-query is neither") {
                    tier::skip(&place, "needs the program wirelapse-query");
                    continue;
                }
                let answer = tier::text(&out.stdout);
                assert_eq!(answer.lines().next(), Some(columns.replace(", ", ",").as_str()), "{place}: {out:?}");
                assert!(answer.lines().count() > 1, "{place}: {answer}");
                continue;
            }
            let modules = match kind {
                "sql" => "duckdb",
                _ if begins.starts_with("spark") => "pyspark",
                _ => "pandas, pyarrow, polars",
            };
            // Spark runs on Java.
            if modules == "pyspark" && Need::Program("java").unmet().is_some() {
                tier::skip(&place, "needs the program java");
                continue;
            }
            let Some(python) = python(modules) else { continue };
            let out = tier::command(python).args(["-c", ASK, kind, &text]).output().expect("Python runs");
            assert!(out.status.success(), "{place}: {}", tier::text(&out.stderr));
            let (given, rows): (Vec<String>, u64) = serde_json::from_slice(&out.stdout).expect("an answer");
            assert_eq!(given.join(", "), *columns, "{place}");
            assert!(rows > 0, "{place}: no row");
        }
    }
    assert_eq!(found.len(), QUERIES.len(), "{found:?}");
}

/// What docs/query.md types is answered by `wirelapse query`, with the runs of an agent in place of
/// a fleet's.
#[test]
fn the_commands_of_a_query_are_answered() {
    tier::needs!(Need::Root, BTF);
    let there = tier::wirelapse!(["query", "--help"]).output().expect("wirelapse runs");
    if !there.status.success() {
        tier::skip("the_commands_of_a_query_are_answered", "needs the program wirelapse-query");
        return;
    }
    let runs = Runs { folder: tempfile::tempdir().expect("a folder") };
    runs.agent();
    let (_, page) = pages().into_iter().find(|(path, _)| path.ends_with("docs/query.md")).expect("docs/query.md");
    let mut answered = 0;
    for (number, line) in block_lines(&page) {
        let step = words(&line);
        // One of another machine, the prompt, and the mistake that is shown with its answer.
        let asks = step.len() > 4 && step.iter().any(|word| word == "/var/lib/wirelapse");
        if !asks || line.contains("totl_ns") {
            continue;
        }
        let step: Vec<String> = step
            .into_iter()
            .skip(1)
            .map(|word| if word == "/var/lib/wirelapse" { runs.at("fleet").display().to_string() } else { word })
            .collect();
        let out = tier::wirelapse!(&step).stdin(Stdio::null()).output().expect("wirelapse runs");
        assert!(out.status.success(), "docs/query.md:{number}: {step:?}: {}", tier::text(&out.stderr));
        assert!(tier::text(&out.stdout).lines().count() > 1, "docs/query.md:{number}: {out:?}");
        answered += 1;
    }
    assert!(answered >= 4, "{answered} commands");
}
