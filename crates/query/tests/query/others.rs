//! Other engines read the same layout and give the same answers: DuckDB row by row, pandas, Polars,
//! ClickHouse (chdb) and Spark (pyspark) for one query.
//!
//! They are looked for in the virtual environment `target/python` of the checkout (`setup/python`)
//! and then in the `python3` of the machine.

use crate::fleet;
use crate::program;
use std::path::Path;
use std::process::Command;

/// Asks queries of DuckDB and of this program, and prints where they differ. DuckDB has no column
/// time: views add it.
const COMPARE: &str = r#"
import duckdb, glob, json, subprocess, sys
program, root, offset = sys.argv[1:4]
queries = json.loads(sys.argv[4])
db = duckdb.connect()
db.sql("SET TimeZone = 'UTC'")
moments = {'sends': 'at_ns', 'connections': 'since_ns', 'totals': 'NULL', 'connects': 'syn_at_ns', 'receives': 'coalesce(driver_rx_at_ns, tcp_rx_at_ns)',
    'requests': 'sent_at_ns', 'packets': 'sched_at_ns', 'datagrams': 'send_at_ns'}
for table, moment in moments.items():
    if not glob.glob(f'{root}/host=*/date=*/run=*/{table}.parquet/*.parquet'): continue
    db.sql(f"""CREATE VIEW {table} AS SELECT make_timestamp((({moment} + {offset}) // 1000)::BIGINT) AS time, *
        FROM read_parquet('{root}/host=*/date=*/run=*/{table}.parquet/*.parquet', hive_partitioning=true)""")
def plain(value):
    if value is None or isinstance(value, (bool, int)): return value
    if isinstance(value, float): return float(f'{value:.9g}')
    text = str(value)
    try: return float(f'{float(text):.9g}')
    except ValueError: return text.replace(' ', 'T').removesuffix('Z').removesuffix('+00:00')
def rows_of(rows): return [tuple(float(f'{v:.9g}') if isinstance(v, int) else plain(v) for v in row) for row in rows]
for query in queries:
    theirs = rows_of(db.sql(query).fetchall())
    done = subprocess.run([program, '--runs', root, '--format', 'json', query], capture_output=True, text=True)
    if done.returncode: print('FAILED', query, done.stderr); continue
    ours = rows_of([tuple(json.loads(line).values()) for line in done.stdout.splitlines()])
    if ours != theirs:
        print('DIFFERS', query, len(ours), len(theirs), [pair for pair in zip(ours, theirs) if pair[0] != pair[1]][:2])
    else: print('same', len(ours))
"#;

/// One query by each of the others: n, bytes, the total of total_ns, the greatest connection_id,
/// and n of one host after a join.
const SAME: &str = r#"
import glob, json, sys
reader, root = sys.argv[1:3]
def parts(table): return f'{root}/host=*/date=*/run=*/{table}.parquet/*.parquet'
if reader == 'pandas':
    import pandas, re
    def read(table):
        frames = []
        for path in glob.glob(parts(table)):
            frame = pandas.read_parquet(path, dtype_backend='pyarrow', partitioning=None)
            frames.append(frame.assign(host=re.search('host=([^/]*)', path)[1], run=re.search('run=([^/]*)', path)[1]))
        return pandas.concat(frames)
    s, c = read('sends'), read('connections')
    j = s.merge(c, on=['host', 'run', 'connection_id'])
    row = (len(s), s.bytes.sum(), s.total_ns.sum(), s.connection_id.max(), len(j[j.host == 'web-003']))
elif reader == 'polars':
    import polars
    s, c = (polars.scan_parquet(parts(t), hive_partitioning=True, try_parse_hive_dates=False) for t in ('sends', 'connections'))
    j = s.join(c, on=['host', 'run', 'connection_id']).filter(polars.col('host') == 'web-003')
    t = s.select(polars.len(), polars.col('bytes').sum(), polars.col('total_ns').sum(), polars.col('connection_id').max()).collect()
    row = (*t.row(0), j.select(polars.len()).collect().item())
elif reader == 'spark':
    from pyspark.sql import SparkSession, functions
    settings = {'spark.ui.enabled': 'false', 'spark.driver.bindAddress': '127.0.0.1', 'spark.driver.host': '127.0.0.1', 'spark.sql.shuffle.partitions': '2',
        'spark.sql.sources.partitionColumnTypeInference.enabled': 'false'}
    spark = SparkSession.builder.master('local[2]').config(map=settings).getOrCreate()
    s, c = (spark.read.option('basePath', root).parquet(f'{root}/host=*/date=*/run=*/{t}.parquet') for t in ('sends', 'connections'))
    whole = s.agg(functions.count('*'), functions.sum('bytes'), functions.sum('total_ns'), functions.max('connection_id')).first()
    row = (*whole, s.join(c, ['host', 'run', 'connection_id']).filter("host = 'web-003'").count())
else:
    import chdb
    sends, connections = (f"(SELECT *, extract(_path, 'host=([^/]*)') AS h, extract(_path, 'run=([^/]*)') AS r FROM file('{parts(t)}', Parquet))" for t in ('sends', 'connections'))
    row = json.loads(str(chdb.query(f"""SELECT count(), sum(bytes), sum(total_ns), max(connection_id) FROM {sends}
        SETTINGS output_format_json_quote_64bit_integers = 0""", 'JSONCompactEachRow')))
    row += json.loads(str(chdb.query(f"""SELECT count() FROM {sends} AS s JOIN {connections} AS c ON s.h = c.h AND s.r = c.r AND s.connection_id = c.connection_id
        WHERE s.h = 'web-003' SETTINGS output_format_json_quote_64bit_integers = 0""", 'JSONCompactEachRow')))
print(json.dumps([int(value) for value in row]))
"#;

/// The Python that has the module; records the skip where there is none.
fn python(module: &str) -> Option<&'static Path> {
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python"));
    let python = if own.exists() { own } else { Path::new("python3") };
    let has = Command::new(python).args(["-c", &format!("import {module}")]).output();
    if has.is_ok_and(|has| has.status.success()) {
        return Some(python);
    }
    tier::skip(&format!("{}::{module}", module_path!()), &format!("needs the Python module {module}"));
    None
}

fn same(reader: &str, module: &str) {
    tier::needs!(tier::Need::Program("python3"));
    let Some(python) = python(module) else { return };
    let root = program::few();
    let got = Command::new(python).args(["-c", SAME, reader]).arg(root).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let theirs: Vec<u64> = serde_json::from_slice(&got.stdout).unwrap();
    let whole = program::lines(
        root,
        "SELECT count(*) AS n, sum(bytes) AS b, sum(total_ns) AS t, max(connection_id) AS c FROM sends",
    );
    let joined = program::lines(
        root,
        "SELECT count(*) AS n FROM sends s JOIN connections c ON c.host = s.host AND c.run = s.run \
         AND c.connection_id = s.connection_id WHERE s.host = 'web-003'",
    );
    let ours: Vec<u64> = format!("{},{}", whole[1], joined[1]).split(',').map(|n| n.parse().unwrap()).collect();
    assert_eq!(theirs, ours);
    // The largest cookies there can be are kept.
    assert_eq!(ours[3], u64::MAX);
}

#[test]
fn pandas_gives_the_same_answer() {
    same("pandas", "pandas, pyarrow");
}

#[test]
fn polars_gives_the_same_answer() {
    same("polars", "polars");
}

#[test]
fn clickhouse_gives_the_same_answer() {
    same("chdb", "chdb");
}

#[test]
fn spark_gives_the_same_answer() {
    // It runs on Java, of version 17 at least; Debian has it as default-jre-headless.
    tier::needs!(tier::Need::Program("java"));
    same("spark", "pyspark");
}

#[test]
fn answers_are_those_of_duckdb_to_the_row() {
    tier::needs!(tier::Need::Program("python3"));
    let Some(python) = python("duckdb") else { return };
    let root = program::few();
    let peers = "SELECT c.remote_address, count(*) AS n, sum(s.bytes) AS b, max(s.total_ns) AS m FROM sends s \
        JOIN connections c ON c.host = s.host AND c.run = s.run AND c.connection_id = s.connection_id GROUP BY 1 ORDER BY 1";
    let queries = [
        "SELECT count(*), count(total_ns), sum(bytes), max(connection_id), min(total_ns) FROM sends",
        "SELECT host, count(*) AS n, avg(total_ns) AS mean FROM sends GROUP BY host ORDER BY host",
        "SELECT host, run, at_ns, total_ns, comm, waited_for, connection_id FROM sends ORDER BY host, run, at_ns",
        "SELECT date_trunc('hour', time) AS h, count(*) AS n, sum(tcp_ns) AS t FROM sends GROUP BY 1 ORDER BY 1",
        "SELECT host, run, time, total_ns FROM sends WHERE time >= TIMESTAMP '2026-05-01 05:10:00' AND time < TIMESTAMP '2026-05-01 07:20:00' ORDER BY time, host",
        peers,
        "SELECT waited_for, count(*) AS n, sum(waited_ns) AS w FROM sends WHERE host IN ('web-001', 'web-030') GROUP BY 1 ORDER BY 1",
        "SELECT host, run, total_ns FROM sends WHERE total_ns IS NOT NULL ORDER BY total_ns DESC, host, run, at_ns LIMIT 20",
        "SELECT c.host, sum(t.segments_retransmitted) AS s FROM totals t JOIN connections c ON c.host = t.host AND c.run = t.run AND c.connection_id = t.connection_id GROUP BY 1 ORDER BY 1",
    ];
    as_duckdb(python, root, &queries);
    // What else a run can hold.
    let others = tempfile::tempdir().unwrap();
    for number in 0..3 {
        fleet::others(others.path(), number, 0, 500);
    }
    let named = |name: &str| query::NAMED.iter().find(|named| named.name == name).unwrap().sql;
    let queries = [
        "SELECT host, run, time, connection_id, remote_address FROM connects ORDER BY host, time",
        "SELECT host, run, time, bytes, total_ns FROM receives ORDER BY host, time",
        "SELECT host, time, whole_ns FROM requests WHERE time >= TIMESTAMP '2026-05-01 00:20:00' ORDER BY time, host",
        "SELECT host, time, bytes, dropped FROM packets ORDER BY host, time",
        "SELECT date_trunc('minute', time) AS m, count(dropped) AS n, sum(bytes) AS b FROM datagrams GROUP BY 1 ORDER BY 1",
        named("slow-requests"),
        named("drops"),
    ];
    as_duckdb(python, others.path(), &queries);
}

fn as_duckdb(python: &Path, root: &Path, queries: &[&str]) {
    let offset = ((fleet::FIRST_DAY - 1_000_000) * 1_000_000_000).to_string();
    let done = Command::new(python)
        .args(["-c", COMPARE, env!("CARGO_BIN_EXE_wirelapse-query")])
        .arg(root)
        .args([&offset, &serde_json::to_string(queries).unwrap()])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("same")).count(), queries.len(), "{said}");
}
