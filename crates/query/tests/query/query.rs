//! Queries as people ask them, of a made-up fleet of 1,000 runs.

use crate::fleet;
use crate::program;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{ask, failed, lines, run};

#[test]
fn rows_of_all_runs_are_one_table_with_host_run_and_time() {
    let root = program::thousand();
    assert_eq!(lines(root, "SELECT count(*) AS n, count(DISTINCT host) AS h FROM sends"), ["n,h", "40000,40"]);
    assert_eq!(lines(root, "SELECT count(*) AS n FROM runs WHERE state = 'finished'"), ["n", "1000"]);
    let first = "SELECT host, run, time, target FROM sends WHERE host = 'web-001' ORDER BY time LIMIT 1";
    // The first of 40 sends is after one of 41 pieces of 3,599 seconds.
    assert_eq!(lines(root, first)[1], "web-001,20260501T000000Z,2026-05-01T00:01:27.780487Z,port 5432");
    let joined = "SELECT count(*) AS n FROM sends s JOIN connections c ON c.host = s.host AND c.run = s.run AND c.connection_id = s.connection_id";
    assert_eq!(lines(root, joined), ["n", "40000"]);
    // Tables that no run has are empty.
    for table in ["receives", "requests", "packets", "datagrams", "histograms", "trials", "findings"] {
        assert_eq!(lines(root, &format!("SELECT count(*) AS n FROM {table}")), ["n", "0"], "{table}");
    }
}

#[test]
fn host_time_run_and_target_choose_the_parts_that_are_opened() {
    let root = program::thousand();
    let reads = |of: &str| {
        let plan = ask(root, &["--explain", &format!("SELECT max(total_ns) FROM sends WHERE {of}")]);
        plan.lines().find(|line| line.starts_with("sends: reads")).unwrap_or(&plan).to_owned()
    };
    assert_eq!(reads("host = 'web-003'"), "sends: reads 1000 rows in 25 parts, of 25 of 1000 runs");
    assert_eq!(reads("host IN ('web-003', 'web-004')"), "sends: reads 2000 rows in 50 parts, of 50 of 1000 runs");
    assert_eq!(
        reads("target = 'port 443' AND host < 'web-004'"),
        "sends: reads 2000 rows in 50 parts, of 50 of 1000 runs"
    );
    assert_eq!(reads("run = '20260501T050000Z'"), "sends: reads 1600 rows in 40 parts, of 40 of 1000 runs");
    // A run of an hour, and those whose clock could reach into it.
    let hour = "time >= '2026-05-01T05:10:00Z' AND time < '2026-05-01T05:20:00Z'";
    assert_eq!(reads(hour), "sends: reads 1600 rows in 40 parts, of 40 of 1000 runs");
    assert_eq!(reads("time > '2030-01-01'"), "sends: reads 0 rows in 0 parts, of 0 of 1000 runs");
    // What is pruned is not missed.
    let of = |sql: &str| lines(root, sql)[1].clone();
    let n = of(&format!("SELECT count(*) AS n FROM sends WHERE {hour}"));
    assert_eq!(n, of(&format!("SELECT sum(CASE WHEN {hour} THEN 1 ELSE 0 END) AS n FROM sends")));
    assert_ne!(n, "0");
}

#[test]
fn every_view_and_named_query_answers() {
    let root = program::few();
    for view in query::VIEWS {
        let rows = lines(root, &format!("SELECT * FROM {} LIMIT 3", view.name));
        let expected = if view.name == "quantiles" { 1 } else { 4 };
        assert!(rows.len() >= expected.min(3), "{}: {rows:?}", view.name);
    }
    for named in query::NAMED {
        let text = ask(root, &["--named", named.name, "--format", "csv"]);
        let rows = text.lines().count();
        // No host of these has histograms, requests or packets.
        let empty = ["slow-peers", "slow-hosts", "slow-requests", "drops"].contains(&named.name);
        assert!(if empty { rows == 1 } else { rows > 1 }, "{}: {text}", named.name);
    }
    // The run of the host with this number missed so many sends; what was inferred has a record.
    assert_eq!(lines(root, "SELECT max(missed) AS m FROM coverage WHERE host = 'web-007'"), ["m", "7"]);
    let slowest = lines(root, "SELECT total_ns, remote_address FROM slowest ORDER BY total_ns DESC LIMIT 1");
    assert!(
        slowest[1].ends_with(&lines(root, "SELECT max(total_ns) AS m FROM sends")[1].replace('\n', ""))
            || slowest[1].starts_with(&lines(root, "SELECT max(total_ns) AS m FROM sends")[1])
    );
}

/// Every table that is read from parts has rows here, each with the time of day that its record was
/// written with.
#[test]
fn rows_of_every_table_have_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..2 {
        fleet::others(root, number, 0, 100);
    }
    fleet::run(root, 2, 0, fleet::Size { hosts: 3, hours: 1, sends: 100, connections: 1 });
    fleet::histograms(root, 3, 0, 1, false);
    fleet::others_than_traces(root);
    // The first of 100 records is after one of 101 pieces of 3,599 seconds.
    let record = "2026-05-01T00:00:35.633663Z";
    for (table, first) in [
        ("connections", "2026-05-01T00:00:00Z"),
        ("connects", record),
        ("sends", record),
        ("receives", record),
        ("requests", record),
        ("packets", record),
        ("datagrams", record),
        ("totals", "2026-05-01T00:00:00Z"),
        ("histograms", "2026-05-01T00:00:00Z"),
        ("hours", "2026-05-01T00:00:00Z"),
        ("trials", "2026-05-01T00:00:01Z"),
        ("findings", "2026-05-01T00:00:01Z"),
    ] {
        let times = lines(root, &format!("SELECT min(time) AS a, count(*) = count(time) AS b FROM {table}"));
        assert_eq!(times[1], format!("{first},true"), "{table}");
        // As a filter, on rows and on the parts that are opened, and as an order.
        let of = |sql: &str| lines(root, &sql.replace("FROM", &format!("FROM {table}")))[1].clone();
        let at_first = of(&format!("SELECT count(*) AS n FROM WHERE time = '{first}'"));
        let compared = of(&format!("SELECT sum(CASE WHEN time = '{first}' THEN 1 ELSE 0 END) AS n FROM "));
        assert!(at_first == compared && at_first != "0", "{table}: {at_first} {compared}");
        assert_eq!(of("SELECT time FROM ORDER BY time LIMIT 1"), first, "{table}");
        assert!(!of("SELECT * FROM ORDER BY time DESC LIMIT 1").is_empty(), "{table}");
    }
    for view in query::VIEWS {
        assert!(lines(root, &format!("SELECT * FROM {}", view.name)).len() > 1, "{}", view.name);
    }
    for named in query::NAMED {
        let rows = lines_named(root, named.name);
        // The one connection of these with totals had no retransmission.
        assert_eq!(rows.len() > 1, named.name != "retransmissions", "{}: {rows:?}", named.name);
    }
    let slowest = lines_named(root, "slow-requests");
    assert_eq!(slowest.len(), 21, "{slowest:?}");
    let longest = lines(root, "SELECT max(whole_ns) / 1e6 AS m FROM requests");
    assert_eq!(slowest[1].split(',').nth(5), Some(longest[1].as_str()), "{slowest:?}");
    // Every dropped packet has a dropped datagram beside it.
    let drops = lines_named(root, "drops");
    let n = drops[1..].iter().map(|row| row.rsplit(',').next().unwrap().parse::<u64>().unwrap()).sum::<u64>();
    let of_packets = lines(root, "SELECT 2 * count(dropped) AS n FROM packets");
    assert!(n > 0 && of_packets[1] == n.to_string(), "{drops:?} {of_packets:?}");
}

#[test]
fn a_client_is_one_peer_whatever_its_ports() {
    let dir = tempfile::tempdir().unwrap();
    fleet::service(dir.path(), 0, 20);
    let sql = "SELECT remote_address, remote_port, n, connections FROM peers ORDER BY n";
    assert_eq!(
        lines(dir.path(), sql),
        ["remote_address,remote_port,n,connections", "10.0.0.9,5432,1,1", "10.0.0.9,,20,20"]
    );
}

/// One host keeps every row, the other one in ten: the views count what there was.
#[test]
fn a_thinned_run_counts_for_what_it_stands_for() {
    let [whole, thinned] = [1_u64, 10].map(|kept_one_in| {
        let dir = tempfile::tempdir().unwrap();
        let size = fleet::Size { hosts: 2, hours: 1, sends: 200, connections: 4 };
        fleet::write(dir.path(), size);
        let file = fleet::directory(dir.path(), 1, 0).join("run.json");
        let mut about: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        about["kept_one_in"] = if kept_one_in > 1 { kept_one_in.into() } else { serde_json::Value::Null };
        fs::write(&file, about.to_string()).unwrap();
        dir
    });
    let number = |root: &Path, sql: &str| lines(root, sql)[1].parse::<f64>().unwrap();
    for sql in [
        "SELECT sum(n) FROM peers",
        "SELECT sum(retransmitted) FROM peers",
        "SELECT sum(n) FROM reasons",
        "SELECT sum(waited_ns) FROM reasons",
        "SELECT sum(weight) FROM sends",
        "SELECT sum(weight) FROM totals",
    ] {
        let of = |root: &Path, host: &str| number(root, &format!("{sql} WHERE host = '{host}'"));
        let [first, second] = ["web-000", "web-001"].map(|host| (of(whole.path(), host), of(thinned.path(), host)));
        assert_eq!(first.0, first.1, "{sql}");
        assert_eq!(second.0 * 10.0, second.1, "{sql}");
    }
    for sql in [
        "SELECT max(mean_ns) FROM peers WHERE host = 'web-001'",
        "SELECT max(longest_ns) FROM peers WHERE host = 'web-001'",
        "SELECT max(share) FROM reasons WHERE host = 'web-001'",
    ] {
        let (of_whole, of_thinned) = (number(whole.path(), sql), number(thinned.path(), sql));
        assert!((of_whole - of_thinned).abs() <= 1e-9 * of_whole, "{sql}: {of_whole} {of_thinned}");
    }
    let sum = |root: &Path, name: &str, column: usize| {
        let rows = lines_named(root, name);
        rows[1..].iter().map(|row| row.split(',').nth(column).unwrap().parse::<f64>().unwrap()).sum::<f64>()
    };
    for (name, column) in [("busy-peers", 1), ("over-time", 1), ("reasons", 1), ("retransmissions", 1)] {
        let (of_whole, of_thinned) = (sum(whole.path(), name, column), sum(thinned.path(), name, column));
        // Half is of the host that keeps every row.
        assert!(of_thinned > 3.0 * of_whole && of_thinned < 8.0 * of_whole, "{name}: {of_whole} {of_thinned}");
    }
    let ratios = "SELECT host, kept_one_in FROM runs ORDER BY host";
    assert_eq!(lines(thinned.path(), ratios), ["host,kept_one_in", "web-000,", "web-001,10"]);
}

#[test]
fn quantiles_are_the_buckets_upper_ends() {
    let dir = tempfile::tempdir().unwrap();
    fleet::histograms(dir.path(), 0, 0, 2, false);
    fleet::histograms(dir.path(), 1, 0, 2, true);
    let of = |host: &str| {
        lines(
            dir.path(),
            &format!(
                "SELECT count(*) AS n, min(n) AS least, max(p50_ns) AS p50 FROM quantiles WHERE host = '{host}' AND stage = 'network'"
            ),
        )
    };
    // Two minutes of four peers. Medians are in the third or fourth bucket above the middle.
    let (quick, slow) = (of("web-000"), of("web-001"));
    assert!(quick[1].starts_with("8,"), "{quick:?}");
    let p50 = |row: &str| row.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    assert!((1.9e6..4.0e6).contains(&p50(&quick[1])), "{quick:?}");
    assert!(p50(&slow[1]) / p50(&quick[1]) > 1.5, "{slow:?} {quick:?}");
    let named = lines_named(dir.path(), "slow-peers");
    assert_eq!(named.len(), 9, "{named:?}");
    assert!(named[1].starts_with("web-001,10.0.0."), "{named:?}");
}

fn lines_named(root: &Path, name: &str) -> Vec<String> {
    ask(root, &["--named", name, "--format", "csv"]).lines().map(str::to_owned).collect()
}

/// The histograms of all runs by hour, in every column that is not summed; then some of them.
const HOURS: [&str; 4] = [
    "SELECT host, run, time, peer, unit, stage, bucket, target, count, sum_ns FROM hours ORDER BY host, run, time, peer, stage, bucket",
    "SELECT peer, sum(count) AS n, sum(sum_ns) AS s FROM hours WHERE stage = 'total' GROUP BY peer ORDER BY peer",
    "SELECT count(*) AS n, sum(count) AS c FROM hours WHERE host IN ('web-000', 'web-002') AND time >= TIMESTAMP '2026-05-01 01:00:00' AND bucket > -70",
    "SELECT count(*) AS n FROM hours h JOIN runs r ON r.host = h.host AND r.run = h.run WHERE h.count = (SELECT max(count) FROM hours)",
];
const ADDED: &str = "(SELECT host, run, date_trunc('hour', time) AS time, peer, unit, stage, bucket, target, sum(count) AS count, sum(sum_ns) AS sum_ns \
    FROM histograms GROUP BY host, run, date_trunc('hour', time), peer, unit, stage, bucket, target) AS hours";

/// `hours` says the same with and without the roll-up, and as the histograms.
fn hours_are_right(root: &Path) {
    for sql in HOURS {
        let expected = lines(root, &sql.replace("FROM hours", &format!("FROM {ADDED}")).replace("AS hours h", "AS h"));
        assert_eq!(lines(root, sql), expected, "{sql}");
        let fresh = run(root, &["--fresh", "--format", "csv", sql]).0;
        assert_eq!(fresh.lines().collect::<Vec<_>>(), expected, "{sql}");
    }
}

/// The roll-up alone answers: it does so once nothing has changed for two seconds.
fn rolled_up(root: &Path, runs: usize) {
    let sql = "SELECT sum(count) AS n FROM hours";
    let said = format!("hours: all {runs} runs are in the roll-up");
    for _ in 0..200 {
        let _ = lines(root, sql);
        if ask(root, &["--explain", sql]).contains(&said) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    panic!("{}", ask(root, &["--explain", sql]));
}

#[test]
fn hours_are_the_histograms_added_up_whatever_the_roll_up_has() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (host, hour) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 24)] {
        fleet::histograms(root, host, hour, 3, false);
    }
    // A part of the runs first.
    let one = "SELECT sum(count) AS n FROM hours WHERE host = 'web-001'";
    assert_eq!(lines(root, one), lines(root, &one.replace("hours", "histograms")));
    assert!(ask(root, &["--explain", one]).contains("hours: 2 of 6 runs are in the roll-up"));
    hours_are_right(root);
    rolled_up(root, 6);
    hours_are_right(root);
    // A run comes, another goes, and one is of other numbers.
    fleet::histograms(root, 3, 1, 3, false);
    hours_are_right(root);
    fs::remove_dir_all(fleet::directory(root, 0, 1)).unwrap();
    hours_are_right(root);
    fs::remove_dir_all(fleet::directory(root, 1, 1)).unwrap();
    fleet::histograms(root, 1, 1, 5, true);
    hours_are_right(root);
    rolled_up(root, 6);
    hours_are_right(root);
    // A run that is being written gets another part, and ends.
    let about = fleet::directory(root, 2, 24).join("run.json");
    let finished = fs::read_to_string(&about).unwrap();
    let unfinished = fleet::directory(root, 2, 24).join(".run.json");
    fs::write(&unfinished, finished.replace("\"finished\"", "\"unfinished\"")).unwrap();
    fs::rename(&unfinished, &about).unwrap();
    fs::remove_dir_all(fleet::directory(root, 2, 0)).unwrap();
    rolled_up(root, 5);
    let parts = fleet::directory(root, 2, 24).join("histograms.parquet");
    let _ = fs::copy(parts.join("part-00000.parquet"), parts.join("part-00001.parquet")).unwrap();
    hours_are_right(root);
    rolled_up(root, 5);
    hours_are_right(root);
}

#[test]
fn a_roll_up_that_is_damaged_or_cannot_be_written_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cache) = (dir.path().join("runs"), dir.path().join("cache"));
    for host in 0..3 {
        fleet::histograms(&root, host, 0, 2, false);
    }
    let ask = |cache: &Path| {
        let done = program::command()
            .env("XDG_CACHE_HOME", cache)
            .arg("--runs")
            .arg(&root)
            .args(["--format", "csv", HOURS[0]])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
        String::from_utf8(done.stdout).unwrap()
    };
    let right = ask(&cache);
    assert!(right.lines().count() > 50, "{right}");
    let folder = fs::read_dir(cache.join("wirelapse")).unwrap().next().unwrap().unwrap().path();
    let files = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    for file in files() {
        let bytes = fs::read(&file).unwrap();
        for damage in [&bytes[..0], &bytes[..bytes.len() / 2], b"{}\n{}".as_slice()] {
            fs::write(&file, damage).unwrap();
            assert_eq!(ask(&cache), right, "{}", file.display());
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(ask(&cache), right, "{}", file.display());
    }
    // What is there is a file, not a directory.
    assert_eq!(ask(&root.join("host=web-000/date=2026-05-01")), right);
    fs::write(dir.path().join("none"), "").unwrap();
    assert_eq!(ask(&dir.path().join("none")), right);
}

#[test]
fn a_part_that_cannot_be_read_is_named_by_every_query_of_hours() {
    let dir = tempfile::tempdir().unwrap();
    for host in 0..3 {
        fleet::histograms(dir.path(), host, 0, 2, false);
    }
    let part = fleet::directory(dir.path(), 1, 0).join("histograms.parquet/part-00000.parquet");
    let bytes = fs::read(&part).unwrap();
    fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    for _ in 0..3 {
        let (out, said) =
            run(dir.path(), &["--format", "csv", "SELECT count(DISTINCT host) AS n, min(host) AS h FROM hours"]);
        assert_eq!(out, "n,h\n2,web-000\n");
        assert!(said.contains("web-001") && said.contains("cut short"), "{said}");
    }
    // Damage within shows when its rows are read.
    let mut bytes = bytes;
    bytes[20..200].fill(0xff);
    fs::write(&part, &bytes).unwrap();
    for _ in 0..2 {
        let (out, said) = run(dir.path(), &["--format", "csv", "SELECT count(DISTINCT host) AS n FROM hours"]);
        assert_eq!(out, "n\n2\n", "{said}");
        assert!(said.contains("web-001") && said.contains("damaged"), "{said}");
    }
}

#[test]
fn errors_say_where_and_what_was_perhaps_meant() {
    let root = program::few();
    let (status, said) = failed(root, &["SELECT totl_ns FROM sends"]);
    assert_eq!(status, 2);
    assert!(said.contains("line 1, column 8: there is no column totl_ns; is it total_ns?"), "{said}");
    // A name that another table has is not meant.
    let (_, said) = failed(root, &["SELECT total_ns FROM requests"]);
    assert!(said.contains("line 1, column 8: there is no column total_ns in what the query reads: --schema"), "{said}");
    let (_, said) =
        failed(root, &["SELECT s.byte FROM sends s JOIN connections c ON c.connection_id = s.connection_id"]);
    assert!(said.contains("line 1, column 8: there is no column byte; is it bytes?"), "{said}");
    let (_, said) = failed(root, &["SELECT 1\nFROM sned"]);
    assert!(said.contains("line 2, column 6: there is no table sned; is it sends?"), "{said}");
    let (_, said) = failed(root, &["SELECT avgg(bytes) FROM sends"]);
    assert!(said.contains("column 8") && said.contains("avgg") && said.contains("is it avg?"), "{said}");
    let (status, said) = failed(root, &["SELECT bytes FORM sends WHERE"]);
    assert!(status == 2 && said.contains("line 1, column"), "{said}");
    for sql in [
        "DROP TABLE sends",
        "INSERT INTO sends SELECT * FROM sends",
        "CREATE TABLE x AS SELECT 1",
        "SET x = 1",
        "COPY sends TO 'x.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "PREPARE x AS SELECT 1",
        "DELETE FROM sends",
        "SELECT 1; DROP TABLE sends",
    ] {
        let (status, said) = failed(root, &[sql]);
        assert_eq!(status, 2, "{sql}: {said}");
    }
    assert!(!Path::new("x.csv").exists());
    let deep = format!("SELECT {}1{}", "(".repeat(3000), ")".repeat(3000));
    assert_ne!(failed(root, &[&deep]).0, 139);
    let (status, said) = failed(root, &["--named", "nothing"]);
    assert!(status == 2 && said.contains("slow-peers"), "{said}");
    // Nothing is waited for where there can be no scheduler.
    for address in ["", "scheduler:", "scheduler:70000", "http://scheduler:50050", "two names"] {
        let (status, said) = failed(root, &["--scheduler", address, "SELECT 1"]);
        assert!(status == 2 && said.contains("HOST:PORT"), "{address}: {said}");
    }
}

#[test]
fn places_without_runs_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (status, said) = failed(dir.path(), &["SELECT 1"]);
    assert!(status == 2 && said.contains("no runs in"), "{said}");
    let (status, said) = failed(&dir.path().join("missing"), &["SELECT 1"]);
    assert!(status == 2 && said.contains("cannot be read"), "{said}");
    let (status, said) = failed(Path::new("gs://bucket"), &["SELECT 1"]);
    assert!(status == 2 && said.contains("gs:// is not read"), "{said}");
}

#[test]
fn damaged_parts_are_named_skipped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let size = fleet::Size { hosts: 5, hours: 1, sends: 400, connections: 2 };
    fleet::write(dir.path(), size);
    let part = |host| fleet::directory(dir.path(), host, 0).join("sends.parquet/part-00000.parquet");
    // Cut short.
    let bytes = fs::read(part(0)).unwrap();
    fs::write(part(0), &bytes[..bytes.len() / 2]).unwrap();
    // Of another table.
    fs::copy(fleet::directory(dir.path(), 1, 0).join("totals.parquet/part-00000.parquet"), part(1)).unwrap();
    // No text in run.json.
    fs::write(fleet::directory(dir.path(), 2, 0).join("run.json"), "{\"schema\": 2, ").unwrap();
    let (out, said) =
        run(dir.path(), &["--format", "csv", "SELECT count(*) AS n, count(DISTINCT host) AS h FROM sends"]);
    assert_eq!(out, "n,h\n800,2\n", "{said}");
    assert!(said.contains("it has no column pid"), "{said}");
    assert!(said.contains("web-000") && said.contains("cut short"), "{said}");
    assert!(said.contains("host=web-002") && said.contains("run.json: ends too early"), "{said}");
    // A later layout.
    let about = fleet::directory(dir.path(), 3, 0).join("run.json");
    fs::write(
        &about,
        fs::read_to_string(&about).unwrap().replace(&format!("\"schema\": {}", store::SCHEMA), "\"schema\": 9"),
    )
    .unwrap();
    let (_, said) = run(dir.path(), &["SELECT count(*) FROM sends"]);
    assert!(said.contains(&format!("of schema 9; this version reads 1 to {}", store::SCHEMA)), "{said}");
    // Damage within, which the footer does not show.
    let mut bytes = fs::read(part(4)).unwrap();
    bytes[100..1400].fill(0xff);
    fs::write(part(4), &bytes).unwrap();
    let (out, said) = run(
        dir.path(),
        &[
            "--format",
            "csv",
            "SELECT host, sum(bytes + first_seq + total_ns) AS s FROM sends GROUP BY host ORDER BY host",
        ],
    );
    assert!(said.contains("web-004") && said.contains("damaged"), "{out} {said}");
    assert!(!out.contains("web-004"), "{out}");
}

#[test]
fn runs_of_schema_1_stand_beside_those_of_this_version() {
    let dir = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/version-1");
    copied(&old, &dir.path().join("old"));
    fleet::run(dir.path(), 1, 0, fleet::SMALL);
    let by_run = lines(dir.path(), "SELECT run, host, count(*) AS n FROM sends GROUP BY run, host ORDER BY run");
    assert_eq!(by_run[1..], ["20260501T000000Z,web-001,40", "old,unknown,10"]);
    let flags = lines(dir.path(), "SELECT DISTINCT flags FROM packets ORDER BY flags");
    assert!(flags.contains(&"S".to_owned()) && flags.contains(&"AP".to_owned()), "{flags:?}");
    // The column is of a later version.
    assert_eq!(lines(dir.path(), "SELECT count(min_rtt_ns) AS n FROM sends WHERE run = 'old'")[0], "n");
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &target);
        } else {
            let _ = fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_page_has_the_answer_and_the_query_and_replaces_a_file_by_force_alone() {
    let root = program::few();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("answer.html");
    let sql = "SELECT host, count(*) AS n FROM sends WHERE host < 'web-003' GROUP BY host ORDER BY host";
    let words = ["--html", page.to_str().unwrap(), "--plot", sql];
    assert_eq!(ask(root, &words), "");
    let written = fs::read_to_string(&page).unwrap();
    for part in ["web-002", "host &lt; 'web-003'", "\"spans\"", "3 rows"] {
        assert!(written.contains(part), "the page lacks {part}: {written}");
    }
    let (_, said) = failed(root, &words);
    assert!(said.contains("exists: name another file, or add --force to overwrite it"), "{said}");
    fs::write(&page, "old").unwrap();
    ask(root, &[&words[..], &["--force"]].concat());
    assert_eq!(fs::read_to_string(&page).unwrap(), written);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing but the page is left");
}

#[test]
fn runs_are_decoded_without_a_right_of_roots() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    const READ_ALL: &str = "0000000000000004";
    const NONE: &str = "0000000000000000";
    tier::needs!(tier::Need::Root);
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Nobody but root keeps anything there.
    let cache = dir.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    // Root's own; those of the user who called sudo; and another's, which takes a right to read.
    for (owner, sudo, user, held) in [
        (0, None, "65534 65534 65534 0", NONE),
        (12_345, Some("12345"), "12345 12345 12345 12345", NONE),
        (777, None, "65534 65534 65534 0", READ_ALL),
    ] {
        let root = dir.path().join(format!("of-{owner}"));
        fs::create_dir(&root).unwrap();
        fleet::write(&root, fleet::Size { hosts: 1, hours: 1, sends: 10, connections: 1 });
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        let mut given = Command::new("chown");
        assert!(given.args(["-R", &format!("{owner}:{owner}")]).arg(&root).status().unwrap().success());
        let mut command = program::command();
        command.arg("--runs").arg(&root).args(["--csv"]).env("XDG_CACHE_HOME", &cache).env("XDG_STATE_HOME", &cache);
        if let Some(sudo) = sudo {
            command.env("SUDO_UID", sudo).env("SUDO_GID", sudo);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = tier::Process::from(child);
        let mut asks = child.stdin.take().unwrap();
        asks.write_all(b"SELECT count(*) AS n FROM sends;\n").unwrap();
        let mut answer = BufReader::new(child.stdout.take().unwrap()).lines();
        let rows = [answer.next(), answer.next()].map(|line| line.transpose().unwrap());
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let mut found: Vec<[String; 3]> = threads
            .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok())
            .map(|status| {
                let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
                [field("Uid:").replace('\t', " "), field("CapPrm:").to_owned(), field("Seccomp:").to_owned()]
            })
            .collect();
        found.dedup();
        drop(asks);
        let done = child.output();
        assert!(done.status.success(), "{done:?}");
        assert_eq!(rows, [Some("n".to_owned()), Some("10".to_owned())], "{owner}: {done:?}");
        assert_eq!(found, [[user, held, "2"]], "{owner}");
    }
}

#[test]
fn answers_come_as_table_json_csv_and_parquet() {
    let root = program::few();
    let sql = "SELECT host, time, total_ns, total_ns / 1e6 AS ms FROM sends WHERE host = 'web-001' AND total_ns > 0 ORDER BY time LIMIT 2";
    let table = ask(root, &[sql]);
    assert!(table.lines().next().unwrap().contains("total_ns") && table.lines().count() == 3, "{table}");
    let json = ask(root, &["--format", "json", sql]);
    let row: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((row["host"].as_str(), row["total_ns"].is_u64()), (Some("web-001"), true), "{json}");
    let parquet = program::output(root, &["--format", "parquet", sql]);
    let file = bytes::Bytes::from(parquet.stdout);
    let read: Vec<_> = datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 100)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(read.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    let plot = ask(
        root,
        &["--plot", "SELECT host, count(*) AS n FROM sends WHERE host < 'web-003' GROUP BY host ORDER BY host"],
    );
    // The name, a row for each host, the axis and its numbers.
    assert_eq!((plot.lines().count(), plot.matches('█').count() > 30), (6, true), "{plot}");
    assert!(ask(root, &["--format", "csv", "SELECT host FROM sends WHERE false"]).starts_with("host"));
    assert_eq!(ask(root, &["--csv", sql]), ask(root, &["--format", "csv", sql]));
    assert!(ask(root, &["--list"]).contains("quantiles"));
    let schema = ask(root, &["--schema", "sends"]);
    assert!(schema.contains("total_ns") && schema.contains("`send` to `ack`"), "{schema}");
}

#[test]
fn little_memory_spills_or_says_so() {
    let root = program::thousand();
    let sql = "SELECT count(*) AS n FROM (SELECT host, run, first_seq, time, comm, sum(bytes) AS b FROM sends GROUP BY host, run, first_seq, time, comm ORDER BY b, time) AS t";
    let done = program::output(root, &["--memory", "2MiB", "--format", "csv", sql]);
    let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    match done.status.success() {
        true => assert_eq!(out, "n\n40000\n"),
        false => assert!(said.contains("needs more memory than --memory allows (2.00 MiB)"), "{said}"),
    }
}

/// Clears the screen, sets the title (OSC), moves (a C1 control), and turns the text around
/// (U+202E, U+2066).
const STEERS: &str = "\u{1b}[2J\u{1b}]0;own\u{7}\u{9b}5A\u{202e}txt\u{2066}";

#[test]
fn no_name_in_a_run_and_no_word_of_a_query_steers_the_terminal() {
    const TURNS: &str = "\u{202e}txt\u{2066}";
    let dir = tempfile::tempdir().unwrap();
    for (number, name) in [(0, TURNS), (1, STEERS)] {
        fleet::histograms(dir.path(), number, 0, 1, false);
        fs::rename(dir.path().join(format!("host=web-00{number}")), dir.path().join(format!("host={name}"))).unwrap();
    }
    let sql = "SELECT DISTINCT host, 1 AS n FROM histograms";
    let quoted = format!("SELECT '{STEERS}' AS \"{STEERS}\", 1 AS n");
    let (option, unknown, wrong) = (format!("--{STEERS}"), format!("SELECT {STEERS}"), format!("SELECT \"{STEERS}\""));
    for (words, succeeds) in [
        (&[sql][..], true),
        (&[sql, "--plot"], true),
        (&[sql, "--format", "csv"], true),
        (&[sql, "--format", "json"], true),
        (&[&quoted], true),
        (&[&quoted, "--plot"], true),
        (&[&quoted, "--format", "csv"], true),
        (&[&quoted, "--format", "json"], true),
        (&[&quoted, "--explain"], true),
        (&["--schema", STEERS], false),
        (&["--named", STEERS], false),
        (&[&unknown], false),
        (&[&wrong], false),
        (&[&option], false),
        (&["--memory", STEERS, "SELECT 1"], false),
        (&["--scheduler", STEERS, "SELECT 1"], false),
    ] {
        let done = program::output(dir.path(), words);
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(done.status.success(), succeeds, "{words:?}: {said}");
        let steers = said.find(|c: char| record::steers(c) && !matches!(c, '\n' | '\t'));
        assert!(steers.is_none() && !said.is_empty(), "{words:?}: {said:?}");
    }
    // What is escaped says the same, and what cannot be named to the engine is named to the user.
    let (rows, said) = run(dir.path(), &[sql, "--format", "json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&rows).unwrap()["host"], TURNS);
    assert_eq!(said.matches("skipped host=\u{fffd}[2J").count(), 2, "{said}");
    let (_, said) = failed(&dir.path().join(STEERS), &["SELECT 1"]);
    assert!(said.contains("[2J") && !said.contains(|c| record::steers(c) && c != '\n'), "{said:?}");
}

#[test]
fn under_a_limit_on_threads_it_answers_or_says_so() {
    tier::needs!(tier::Need::Root);
    let dir = tempfile::tempdir().unwrap();
    fleet::run(dir.path(), 0, 0, fleet::SMALL);
    let sql = "SELECT max(total_ns) AS longest FROM sends";
    let words = ["--runs", dir.path().to_str().unwrap(), "--format", "csv", sql];
    let expected = ask(dir.path(), &["--format", "csv", sql]);
    for most in [1, 2, 3, 4, 6, 9, 12, 100] {
        let Some(group) = tier::PidsCgroup::new("query", most) else {
            return tier::skip(
                "under_a_limit_on_threads_it_answers_or_says_so",
                "needs a cgroup controller of processes",
            );
        };
        let done = group.command(env!("CARGO_BIN_EXE_wirelapse-query"), &words).output().unwrap();
        let (out, said) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        if most == 1 {
            assert!(
                done.status.code() == Some(1) && said.contains("cannot make a thread"),
                "{:?}: {said}",
                done.status
            );
        } else {
            assert!(done.status.success() && out == expected, "{most}: {:?}: {said}", done.status);
        }
        assert!(!said.contains("panicked"), "{most}: {said}");
    }
}

#[test]
fn an_interrupt_ends_a_query_and_only_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    fleet::run(dir.path(), 0, 0, fleet::Size { hosts: 1, hours: 1, sends: 20_000, connections: 4 });
    // Rows of a host times rows of the host: more than anybody waits for.
    let endless = "SELECT count(*) AS n FROM sends a JOIN sends b ON a.host = b.host WHERE a.bytes + b.bytes <> 1";
    let mut command = program::command();
    command.arg("--runs").arg(dir.path()).arg(endless);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    program::works(child.id(), 2.0);
    program::interrupt(child.id());
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!((done.status.code(), said.as_str()), (Some(130), "wirelapse-query: cancelled\n"));
    assert!(done.stdout.is_empty());
}

/// Keeps advice as `wirelapse advise -o` does: a row for each remedy, which helped where it changed
/// something.
fn advice(root: &Path, host: &str, run: &str, at_ns: u64, remedies: &[(&str, f64)]) {
    let path = root.join(format!("host={host}")).join(format!("run={run}"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let writer = store::workload::Writer::create(&path).unwrap();
    let row = |(rank, (remedy, change)): (u64, &(&str, f64))| record::remedy::RemedyRow {
        at_ns,
        client: "10.0.0.1:5000".into(),
        server: "10.0.0.2:80".into(),
        remedy: (*remedy).into(),
        place: "the client's program".into(),
        effect: if *change < 0.0 { record::remedy::Effect::Helps } else { record::remedy::Effect::NoDifference },
        rank,
        change: Some(*change),
        change_low: None,
        change_high: None,
        before_ns: Some(record::Nanos(1_000_000)),
        after_ns: None,
        n: 4,
    };
    let rows: Vec<_> = (1..).zip(remedies).map(row).collect();
    writer.table(&rows).unwrap();
    let head = store::workload::Head {
        provenance: record::table::Record::blank(),
        workload: "advise".into(),
        config: serde_json::Value::Null,
        outcome: serde_json::Value::Null,
    };
    writer.finish(head).unwrap();
}

#[test]
fn what_would_help_most_hosts_is_of_their_newest_advice() {
    let dir = tempfile::tempdir().unwrap();
    fleet::run(dir.path(), 0, 0, fleet::SMALL);
    // The second of web-1 is newer, whatever its name.
    advice(dir.path(), "web-1", "b", 1_000, &[("bbr", -0.9)]);
    advice(dir.path(), "web-1", "a", 2_000, &[("TCP_NODELAY", -0.75), ("reno", 0.0)]);
    advice(dir.path(), "web-2", "a", 1_000, &[("TCP_NODELAY", -0.5), ("bbr", -0.25)]);
    let words = ["weeks", "--runs", dir.path().to_str().unwrap(), "remedies"];
    let done = program::command().args(words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows: Vec<serde_json::Value> =
        String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |row: &serde_json::Value| {
        (row["remedy"].as_str().unwrap().to_owned(), row["hosts"].as_u64().unwrap(), row["change"].as_f64().unwrap())
    };
    assert_eq!(
        rows.iter().map(said).collect::<Vec<_>>(),
        [("TCP_NODELAY".into(), 2, -0.625), ("bbr".into(), 1, -0.25)]
    );
    assert_eq!((rows[0]["host"].as_str(), rows[0]["directory"].as_str()), (Some("web-1"), Some("host=web-1/run=a")));
    assert_eq!((rows[0]["most"].as_f64(), rows[0]["least"].as_f64()), (Some(-0.75), Some(-0.5)));
    let effects = lines(dir.path(), "SELECT effect, count(*) AS n FROM remedies GROUP BY effect ORDER BY effect");
    assert_eq!(effects, ["effect,n", "helps,4", "no_difference,1"]);
}

/// The edges of these hours, each by where it goes, and what is said beside them.
fn map(root: &Path, hours: std::ops::Range<u64>) -> (Vec<(String, Option<u64>)>, String) {
    let hour = |at: u64| (fleet::FIRST_DAY / 3600 + at).to_string();
    let (start, end) = (hour(hours.start), hour(hours.end));
    let words = ["weeks", "--runs", root.to_str().unwrap(), "--start", &start, "--end", &end, "map-edges"];
    let done = program::command().args(words).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    let rows = String::from_utf8(done.stdout).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut edges: Vec<_> = rows
        .filter(|row| row["sends_of"] == "both")
        .map(|row| (row["to"].as_str().unwrap().to_owned(), row["port"].as_u64()))
        .collect();
    edges.sort();
    (edges, said)
}

#[test]
fn a_map_opens_the_connections_of_its_own_hours_alone() {
    let dir = tempfile::tempdir().unwrap();
    let size = fleet::Size { hosts: 1, hours: 5, sends: 40, connections: 4 };
    [0, 2, 4].into_iter().for_each(|hour| fleet::run(dir.path(), 0, hour, size));
    let (edges, said) = map(dir.path(), 2..3);
    let known = |(to, port): &(String, _)| to.starts_with("10.0.0.") && *port == Some(443);
    assert!(!edges.is_empty() && edges.iter().all(known), "{edges:?}");
    assert_eq!(said, "");
    // A part that is opened and is none is named.
    for hour in [0, 4] {
        let parts = fleet::directory(dir.path(), 0, hour).join("connections.parquet");
        for part in fs::read_dir(parts).unwrap() {
            fs::write(part.unwrap().path(), "no part").unwrap();
        }
    }
    assert_eq!(map(dir.path(), 2..3), (edges, said));
    let (_, said) = map(dir.path(), 0..5);
    assert_eq!(said.matches("connections.parquet").count(), 2, "{said}");
}

#[test]
fn a_connection_that_began_before_the_hours_of_a_map_has_its_addresses_there() {
    let dir = tempfile::tempdir().unwrap();
    fleet::lasting(dir.path(), 0, 0..6);
    for hour in [0, 3, 5] {
        assert_eq!(map(dir.path(), hour..hour + 1).0, [("10.0.0.9".to_owned(), Some(443))], "{hour}");
    }
}

#[test]
fn pods_that_come_and_go_are_compared_by_what_owns_them() {
    let dir = tempfile::tempdir().unwrap();
    let pod = |name: &str, owner: Option<&str>| store::Named {
        container: Some("main".into()),
        pod: Some(name.into()),
        namespace: Some("shop".into()),
        owner_kind: owner.map(|_| "deployment".into()),
        owner: owner.map(Into::into),
        ..store::Named::default()
    };
    let unit = store::Named { unit: Some("cron.service".into()), ..store::Named::default() };
    let week = 168;
    fleet::named(dir.path(), 0, 0, &[pod("cart-1", Some("cart")), pod("cart-2", Some("cart")), unit.clone()]);
    // What was kept of a pod before the agent knew of its owner; and a pod that has none.
    let later = [pod("cart-3", None), pod("cart-3", Some("cart")), pod("debug", None), unit];
    fleet::named(dir.path(), 0, week, &later);
    let hour = |at: u64| (fleet::FIRST_DAY / 3600 + at).to_string();
    let of = |rows: &str, without: &[&str]| {
        let (start, end) = (hour(week), hour(week + 1));
        let words = ["weeks", "--runs", dir.path().to_str().unwrap(), "--start", &start, "--end", &end, rows];
        let done = program::command().args(words).args(without).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let rows = String::from_utf8(done.stdout).unwrap();
        rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let services = |without: &[&str]| {
        let rows = of("groups", without).into_iter().filter(|row| row["kind"] == "service");
        let mut all: Vec<_> = rows
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["before"].as_u64(), row["after"].as_u64()))
            .collect();
        all.sort();
        all
    };
    let [cart, cron, debug] = [("shop/cart", 200, 200), ("cron.service", 100, 100), ("debug", 0, 100)]
        .map(|(name, before, after)| (name.to_owned(), Some(before), Some(after)));
    assert_eq!(services(&[]), [cron.clone(), debug.clone(), cart]);
    assert_eq!(services(&["--without", "service=shop/cart"]), [cron, debug]);
    // Nothing of the pods is left where they are examined with hosts and peers.
    let cells = of("cells", &[]);
    let mut cells: Vec<&str> = cells.iter().map(|row| row["service"].as_str().unwrap()).collect();
    cells.sort_unstable();
    assert_eq!(cells, ["cron.service", "shop/cart"]);
}
