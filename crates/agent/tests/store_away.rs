//! An S3-compatible store (moto): whole parts and `run.json` last; away for a while: bounded,
//! counted, and taken up again.

mod made_up;
#[path = "made_up/moto.rs"]
mod moto;

use made_up::AtWork;
use moto::Moto;
use tier::{Need, needs};

/// One test: what the environment says is of the whole process.
#[test]
fn runs_reach_the_store_whole_also_when_it_was_away() {
    needs!(Need::Program("python3"));
    let Some(moto) = Moto::or_skip("runs_reach_the_store_whole_also_when_it_was_away") else { return };
    let spool = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ENDPOINT_URL", &format!("http://127.0.0.1:{}", moto.port)),
    ] {
        // SAFETY: this process has one test, and no thread of it is started yet.
        unsafe { std::env::set_var(name, value) };
    }
    let config = format!(
        "[store]\nurl = \"s3://bucket/fleet\"\nspool = \"{}\"\ninterval = \"1s\"\nrotate = \"2s\"\nmax_bytes = \"10MiB\"\n",
        spool.path().display()
    );
    let agent = AtWork::start(&config, 5);
    tier::until("a run in the store", || !moto.finished().is_empty());
    let whole = |moto: &Moto| {
        let (runs, keys) = (moto.finished(), moto.keys());
        for run in &runs {
            let tables = ["histograms.parquet", "runs.parquet"];
            assert!(
                tables.iter().all(|table| keys.iter().any(|key| key == &format!("{run}/{table}/part-00000.parquet"))),
                "{run} of {keys:?}"
            );
            assert!(run.starts_with("fleet/host=test-host/date="), "{run}");
        }
        runs.len()
    };
    assert!(whole(&moto) > 0);
    let port = moto.port;
    drop(moto);
    let waiting = || {
        let host = spool.path().join("host=test-host");
        let dates = std::fs::read_dir(host).into_iter().flatten().flatten();
        dates.flat_map(|date| std::fs::read_dir(date.path()).into_iter().flatten().flatten()).count()
    };
    tier::until("runs that wait", || waiting() >= 4);
    let back = Moto::start(port);
    let wait = waiting();
    tier::until("the runs that waited", || whole(&back) >= wait - 1);
    agent.finish();
    assert!(whole(&back) > 0);
    assert!(waiting() <= 1, "all but what was written last is there");
}
