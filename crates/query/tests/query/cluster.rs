//! A cluster as people run it: a scheduler and executors as processes.

use crate::fleet;
use crate::program;
use std::fs::DirEntry;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first of two ports in a row that nothing listens on.
fn port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

fn serve(words: &[&str]) -> Server {
    Server(program::command().args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn scheduler() -> (Server, String) {
    let address = format!("127.0.0.1:{}", port());
    (serve(&["scheduler", "--listen", &address]), address)
}

fn executor(scheduler: &str, tasks: &str) -> Server {
    let listen = format!("127.0.0.1:{}", port());
    serve(&["executor", "--scheduler", scheduler, "--listen", &listen, "--tasks", tasks, "--memory", "512MiB"])
}

fn by(runs: &Path, scheduler: &str, sql: &str) -> Vec<String> {
    let words = ["--scheduler", scheduler, "--wait", "60s", "--partitions", "4", "--format", "csv", sql];
    program::run(runs, &words).0.lines().map(str::to_owned).collect()
}

#[test]
fn a_cluster_gives_the_same_rows_and_loses_none_with_an_executor() {
    let root = program::few();
    let (_scheduler, address) = scheduler();
    let _one = executor(&address, "2");
    let two = executor(&address, "2");
    let queries = [
        "SELECT count(*) AS n FROM sends",
        "SELECT count(*) AS n, sum(bytes) AS b FROM sends WHERE host = 'web-003'",
        "SELECT host, count(*) AS n, sum(total_ns) AS t FROM sends GROUP BY host ORDER BY host",
        "SELECT c.remote_address, count(*) AS n FROM sends s JOIN connections c ON c.host = s.host AND c.run = s.run \
         AND c.connection_id = s.connection_id GROUP BY 1 ORDER BY 1",
        "SELECT host, run, time, total_ns FROM slowest ORDER BY total_ns DESC, host, run LIMIT 10",
        "SELECT kind, count(*) AS n FROM runs GROUP BY kind",
        "SELECT count(*) AS n FROM packets",
    ];
    for sql in queries {
        assert_eq!(by(root, &address, sql), program::lines(root, sql), "{sql}");
    }
    // Times that are made of several columns, on executors.
    let others = tempfile::tempdir().unwrap();
    fleet::others(others.path(), 0, 0, 50);
    let sql = "SELECT min(time) AS t FROM connects UNION ALL SELECT min(time) FROM receives UNION ALL SELECT min(time) FROM requests \
         UNION ALL SELECT min(time) FROM packets UNION ALL SELECT min(time) FROM datagrams";
    assert_eq!(by(others.path(), &address, sql), [&["t"][..], &["2026-05-01T00:01:10.568627Z"; 5]].concat());
    // One executor dies while a query runs: its work is done again by the other.
    let sql = "SELECT host, run, count(*) AS n, sum(bytes) AS b, count(DISTINCT comm) AS c FROM sends GROUP BY host, run ORDER BY host, run";
    let expected = program::lines(root, sql);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        drop(two);
    });
    assert_eq!(by(root, &address, sql), expected);
    killer.join().unwrap();
    assert_eq!(by(root, &address, sql), expected);
}

#[test]
fn a_cluster_that_is_not_there_is_waited_for_and_no_longer() {
    let ask = |address: &str| {
        let words = ["--scheduler", address, "--wait", "2s", "SELECT count(*) AS n FROM sends"];
        program::failed(program::few(), &words)
    };
    let (status, said) = ask(&format!("127.0.0.1:{}", port()));
    assert!(status == 1 && said.contains("cannot be reached"), "{said}");
    let (_scheduler, address) = scheduler();
    tier::until("the scheduler to listen", || TcpStream::connect(&address).is_ok());
    // A query that waited on would not come back.
    let (status, said) = ask(&address);
    assert!(status == 1 && said.contains("has no executors"), "{said}");
}

/// Rows of a host times rows of the host: more than anybody waits for.
const ENDLESS: &str = "SELECT count(*) AS n FROM sends a JOIN sends b ON a.host = b.host WHERE a.bytes + b.bytes <> 1";

/// The same without a row to hand on: no stream of it but the lowest is asked for anything.
const FRUITLESS: &str =
    "SELECT count(*) AS n FROM sends a JOIN sends b ON a.host = b.host WHERE a.bytes + b.bytes = -1";

/// Interrupts an endless query that all executors work on. They must come to rest, and give right
/// answers then.
fn interrupted(query: &str, executors: usize) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fleet::write(root, fleet::Size { hosts: 8, hours: 1, sends: 40_000, connections: 4 });
    let (_scheduler, address) = scheduler();
    let executors: Vec<Server> = (0..executors).map(|_| executor(&address, "1")).collect();
    let asks = |words: &[&str]| {
        let mut command = program::command();
        command
            .arg("--runs")
            .arg(root)
            .args(["--scheduler", &address, "--wait", "60s", "--partitions", "4"])
            .args(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let small = "SELECT host, count(*) AS n, sum(bytes) AS b FROM sends GROUP BY host ORDER BY host";
    let expected = program::lines(root, small);
    for _ in 0..2 {
        let before: Vec<f64> = executors.iter().map(worked).collect();
        let mut endless = asks(&[query]);
        for (executor, before) in executors.iter().zip(before) {
            // Far more than it takes to be there.
            let works = tier::wait_within(Duration::from_secs(300), || {
                assert!(endless.try_wait().unwrap().is_none(), "the query ended by itself");
                worked(executor) > before + 3.0
            });
            assert!(works, "an executor does not work");
        }
        program::interrupt(endless.id());
        let done = endless.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.as_str()), (Some(130), "wirelapse-query: cancelled\n"));
        assert!(done.stdout.is_empty());
        // Each task asks every second whether its query goes on; the query would take hours.
        for executor in &executors {
            tier::until("the executor to rest", || rests(executor));
        }
        let done = asks(&["--format", "csv", small]).wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(String::from_utf8(done.stdout).unwrap().lines().collect::<Vec<_>>(), expected);
    }
}

/// CPU time of an executor's tasks so far, in seconds. They have threads of their own, so what it
/// takes to ask the scheduler for work is not in it.
fn worked(executor: &Server) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", executor.0.id())).unwrap().map(|thread| thread.unwrap());
    // Threads come and go.
    let text = |thread: &DirEntry, name: &str| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
    let tasks = threads.filter(|thread| text(thread, "comm") == "task_runner\n");
    tasks.filter_map(|thread| program::cpu_in(&text(&thread, "stat"))).sum()
}

/// Whether no task of an executor works, looked at for some seconds: also beside many other
/// programs one that works gets more than this of them.
fn rests(executor: &Server) -> bool {
    let before = worked(executor);
    std::thread::sleep(Duration::from_secs(5));
    worked(executor) < before + 0.03
}

#[test]
fn ctrl_c_ends_the_tasks_of_a_query_on_one_executor() {
    interrupted(ENDLESS, 1);
}

#[test]
fn ctrl_c_ends_the_tasks_of_a_query_on_two_executors() {
    interrupted(ENDLESS, 2);
}

#[test]
fn ctrl_c_ends_a_join_without_rows() {
    interrupted(FRUITLESS, 1);
}

#[test]
fn an_executor_is_not_lost_for_being_busy() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    // Far longer than the 20 s after which an executor without a sign of life is lost; a query
    // begins anew three times at most.
    const BUSY: f64 = 25.0;
    let (_scheduler, address) = scheduler();
    let one = executor(&address, "1");
    let mut sends = 4_000;
    loop {
        fleet::write(root, fleet::Size { hosts: 1, hours: 1, sends, connections: 4 });
        let sql = "SELECT count(*) AS n FROM sends a JOIN sends b ON a.host = b.host WHERE a.bytes + b.bytes >= 0";
        let before = worked(&one);
        assert_eq!(by(root, &address, sql), ["n".to_owned(), (sends * sends).to_string()]);
        let took = worked(&one) - before;
        if took >= BUSY {
            return;
        }
        std::fs::remove_dir_all(root.join("host=web-000")).unwrap();
        // Pairs, and so the time, grow with the square.
        sends = (sends as f64 * (1.2 * BUSY / took.max(0.1)).sqrt()) as u64;
    }
}

#[test]
fn an_executor_that_is_paused_and_comes_back_counts_no_row_twice() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fleet::write(root, fleet::Size { hosts: 8, hours: 1, sends: 100_000, connections: 4 });
    let sql = "SELECT host, comm, bytes / 1024 AS k, count(*) AS n, sum(total_ns) AS t FROM sends GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let expected = program::lines(root, sql);
    let (_scheduler, address) = scheduler();
    let _one = executor(&address, "1");
    let two = executor(&address, "1");
    let asking = asked(root, &address, &two, sql, "60s");
    signal("-STOP", &two);
    // Longer than the 20 s after which it is lost.
    std::thread::sleep(Duration::from_secs(26));
    signal("-CONT", &two);
    let done = asking.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8(done.stdout).unwrap().lines().collect::<Vec<_>>(), expected);
}

/// A query that is asked, at the moment where this executor works on it.
fn asked(root: &Path, scheduler: &str, one: &Server, sql: &str, wait: &str) -> Child {
    let before = worked(one);
    let mut command = program::command();
    command.arg("--runs").arg(root).args(["--scheduler", scheduler, "--wait", wait, "--partitions", "8"]);
    command.args(["--format", "csv", sql]);
    let mut asking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tier::until("the executor to work", || worked(one) > before + 0.3 || asking.try_wait().unwrap().is_some());
    asking
}

fn signal(name: &str, server: &Server) {
    let done = Command::new("kill").args([name, &server.0.id().to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn executors_that_stay_stopped_cost_time_and_no_rows_and_without_any_the_query_ends() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fleet::write(root, fleet::Size { hosts: 8, hours: 1, sends: 100_000, connections: 4 });
    let sql = "SELECT host, comm, bytes / 1024 AS k, count(*) AS n, sum(total_ns) AS t FROM sends GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let expected = program::lines(root, sql);
    let (_scheduler, address) = scheduler();
    let [one, two] = [executor(&address, "1"), executor(&address, "1")];
    let asking = asked(root, &address, &two, sql, "20s");
    signal("-STOP", &two);
    let done = asking.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8(done.stdout).unwrap().lines().collect::<Vec<_>>(), expected);
    let asking = asked(root, &address, &one, ENDLESS, "20s");
    signal("-STOP", &one);
    let done = asking.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("all executors were lost"), "{said}");
}

#[test]
fn a_scheduler_that_goes_ends_the_query_and_the_work_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fleet::write(root, fleet::Size { hosts: 8, hours: 1, sends: 40_000, connections: 4 });
    let (scheduler, address) = scheduler();
    let one = executor(&address, "1");
    let asking = asked(root, &address, &one, ENDLESS, "20s");
    drop(scheduler);
    let done = asking.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("went away while it worked on the query"), "{said}");
    tier::until("the executor to rest", || rests(&one));
}
