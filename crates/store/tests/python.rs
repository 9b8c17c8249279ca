//! Readers that know nothing of this program read the tables: DuckDB, pandas and Polars.
//!
//! They are looked for in the virtual environment `target/python` of the checkout and then in the `python3` of the machine.

mod synthetic;

use std::path::Path;
use std::process::Command;

use model::{ConnectionId, Coverage, Event, Instant, Leg, Lost, Send, Stamps};
use store::Writer;

const CHECK: &str = r"
import glob, json, sys
reader, run = sys.argv[1], sys.argv[2]
if reader == 'duckdb':
    import duckdb
    rows = duckdb.sql(f'''SELECT count(*), sum(bytes)::BIGINT, count(total_ns), sum(total_ns)::BIGINT, max(connection_id),
        min(comm), count(nic_ns) FROM '{run}/sends.parquet/*.parquet' ''').fetchall()[0]
    joined = duckdb.sql(f'''SELECT count(*) FROM '{run}/sends.parquet/*.parquet'
        JOIN '{run}/connections.parquet/*.parquet' USING (connection_id)''').fetchall()[0][0]
elif reader == 'pandas':
    import pandas
    t = pandas.read_parquet(f'{run}/sends.parquet')
    rows = (len(t), t.bytes.sum(), t.total_ns.count(), t.total_ns.sum(), t.connection_id.max(), t.comm.min(), t.nic_ns.count())
    joined = len(t.merge(pandas.read_parquet(f'{run}/connections.parquet'), on='connection_id'))
else:
    import polars
    t = polars.read_parquet(f'{run}/sends.parquet/*.parquet')
    rows = (len(t), t['bytes'].sum(), t['total_ns'].count(), t['total_ns'].sum(), t['connection_id'].max(), t['comm'].min(), t['nic_ns'].count())
    joined = len(t.join(polars.read_parquet(f'{run}/connections.parquet/*.parquet'), on='connection_id'))
print(json.dumps([int(r) if not isinstance(r, str) else r for r in rows] + [joined]))
";

fn check(reader: &str, modules: &str) {
    tier::needs!(tier::Need::Program("python3"));
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python"));
    let python = if own.exists() { own } else { Path::new("python3") };
    let has = Command::new(python).args(["-c", &format!("import {modules}")]).output().unwrap();
    if !has.status.success() {
        tier::skip(&format!("{}::{reader}", module_path!()), &format!("needs the Python modules {modules}"));
        return;
    }

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let start = synthetic::provenance().start_ns;
    let mut writer = Writer::create(&path, synthetic::provenance()).unwrap();
    let base = synthetic::plain_send();
    let id = ConnectionId(u64::MAX);
    let connection = model::Connection {
        id,
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "[2001:db8::1]:443".parse().unwrap(),
        owner: base.owner,
        opening: model::Opening::Accepted,
        since: Instant::from_nanos(1),
        congestion_control: "bbr".into(),
    };
    writer.event(&Event::Connection(connection)).unwrap();
    let sends: Vec<Send> = (0..1_000_u32)
        .map(|i| {
            let ack = (i % 3 > 0).then(|| Instant::from_nanos(1_000_000 + u64::from(i) * 7));
            Send { connection: id, bytes: i, stamps: Stamps { ack, ..base.stamps }, ..base }
        })
        .collect();
    for (i, send) in sends.iter().enumerate() {
        writer.event(&Event::Send(*send)).unwrap();
        if i == 500 {
            writer.tick(Instant::from_nanos(start + 10_000_000_000)).unwrap();
        }
    }
    writer.finish(Instant::from_nanos(0), Lost::default(), Coverage::default()).unwrap();
    assert_eq!(std::fs::read_dir(path.join("sends.parquet")).unwrap().count(), 2, "two parts");

    let totals: Vec<u64> = sends.iter().filter_map(|s| s.leg(Leg::Total).unwrap().map(|n| n.0)).collect();
    let want = serde_json::json!([
        sends.len(),
        sends.iter().map(|s| u64::from(s.bytes)).sum::<u64>(),
        totals.len(),
        totals.iter().sum::<u64>(),
        u64::MAX,
        "curl",
        0,
        sends.len()
    ]);
    let got = Command::new(python).args(["-c", CHECK, reader]).arg(&path).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let got: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(got, want, "{reader}");
}

#[test]
fn duckdb_reads_the_tables() {
    check("duckdb", "duckdb");
}

#[test]
fn pandas_reads_the_tables() {
    check("pandas", "pandas, pyarrow");
}

#[test]
fn polars_reads_the_tables() {
    check("polars", "polars");
}
