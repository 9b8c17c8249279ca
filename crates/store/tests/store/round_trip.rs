//! What is written reads back equal, and nothing half-written bears a final name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::any::{closed, connect, connection, copy, datagram, packet, provenance, question, receive, request, send};
use proptest::prelude::*;
use record::{Coverage, Event, Instant, Lost, Nanos};
use store::{Error, Run, State, Writer};

fn parts(run: &Path, table: &str) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        fs::read_dir(run.join(format!("{table}.parquet"))).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    names
}

fn read_all(run: &Run) -> Vec<Event> {
    let mut events = Vec::new();
    run.records(&mut |event| events.push(event), &mut |read| read).unwrap();
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_reads_back_equal(
        connections in prop::collection::vec(connection(), 0..5),
        connects in prop::collection::vec(connect(), 0..20),
        sends in prop::collection::vec(send(), 0..80),
        receives in prop::collection::vec(receive(), 0..20),
        requests in prop::collection::vec(request(), 0..20),
        packets in prop::collection::vec(packet(), 0..20),
        datagrams in prop::collection::vec(datagram(), 0..20),
        questions in prop::collection::vec(question(), 0..20),
        copies in prop::collection::vec(copy(), 0..20),
        ends in prop::collection::vec(closed(), 0..5),
        cut in 0usize..80,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut writer = Writer::create(&path, provenance()).unwrap();
        let events: Vec<Event> = connections.into_iter().map(Event::Connection)
            .chain(connects.into_iter().map(|c| Event::Connect(Box::new(c))))
            .chain(sends.into_iter().map(Event::Send))
            .chain(receives.into_iter().map(Event::Receive))
            .chain(requests.into_iter().map(|r| Event::Request(Box::new(r))))
            .chain(packets.into_iter().map(|p| Event::Packet(Box::new(p))))
            .chain(datagrams.into_iter().map(|d| Event::Datagram(Box::new(d))))
            .chain(questions.into_iter().map(Event::from))
            .chain(copies.into_iter().map(Event::from))
            .chain(ends.into_iter().map(|(connection, totals)| Event::Closed { connection, totals }))
            .collect();
        for (i, event) in events.iter().enumerate() {
            writer.event(event).unwrap();
            if i == cut {
                writer.tick(Instant::from_nanos(provenance().start_ns + 11_000_000_000)).unwrap();
            }
        }
        let (lost, coverage) = (Lost { inferred: 3, ..Lost::default() }, Coverage { bytes_written: 7, ..Coverage::default() });
        let rows = writer.finish(Instant::from_nanos(99), lost, coverage).unwrap();
        let run = Run::open(&path).unwrap();
        prop_assert_eq!(read_all(&run), events.clone());
        prop_assert_eq!(run.provenance(), &provenance());
        prop_assert_eq!((run.state(), run.lost(), run.coverage(), run.end_ns()), (State::Finished, Some(lost), Some(coverage), Some(99)));
        prop_assert_eq!(rows.connections + rows.connects + rows.sends + rows.receives + rows.requests + rows.packets + rows.datagrams + rows.dns + rows.copies + rows.totals, events.len() as u64);
    }
}

#[test]
fn many_rows_make_row_groups_and_parts_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut writer = Writer::create(&path, provenance()).unwrap();
    let base = synthetic::send();
    let n = 600_000_u32;
    for i in 0..n {
        writer.event(&Event::Send(record::Send { bytes: i, ..base })).unwrap();
    }
    writer.finish(Instant::from_nanos(0), Lost::default(), Coverage::default()).unwrap();
    assert_eq!(parts(&path, "sends").len(), 2);
    let mut next = 0;
    Run::open(&path)
        .unwrap()
        .sends(|s| {
            assert_eq!(s.bytes, next);
            next += 1;
        })
        .unwrap();
    assert_eq!(next, n);
}

#[test]
fn a_killed_writer_leaves_its_finished_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut writer = Writer::create(&path, provenance()).unwrap();
    let send = synthetic::send();
    let start = provenance().start_ns;
    writer.event(&Event::Send(send)).unwrap();
    writer.tick(Instant::from_nanos(start + 9_000_000_000)).unwrap();
    assert_eq!(parts(&path, "sends").len(), 0, "not due yet");
    writer.tick(Instant::from_nanos(start + 10_000_000_000)).unwrap();
    for _ in 0..40_000 {
        writer.event(&Event::Send(send)).unwrap();
    }
    // What SIGKILL leaves: no destructor runs.
    std::mem::forget(writer);
    let run = Run::open(&path).unwrap();
    assert_eq!((run.state(), run.lost(), run.rows()), (State::Unfinished, None, None));
    assert_eq!(read_all(&run), [Event::Send(send)]);
    let left = parts(&path, "sends");
    assert_eq!(left.len(), 2, "one finished part and one hidden file: {left:?}");
    assert!(left[0].file_name().unwrap().to_str().unwrap().starts_with('.'), "{left:?}");
}

#[test]
fn an_existing_directory_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let error = Writer::create(dir.path(), provenance()).err().unwrap();
    assert!(matches!(error, Error::Exists(_)), "{error}");
    assert!(error.to_string().contains("name another one"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let missing = dir.path().join("no/such/run");
    assert!(matches!(Writer::create(&missing, provenance()).err().unwrap(), Error::Create { .. }));
}

#[test]
fn truncated_malformed_and_unsupported_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Run::open(dir.path()).unwrap_err(), Error::NotARun(_)));
    let path = dir.path().join("run");
    let mut writer = Writer::create(&path, provenance()).unwrap();
    for _ in 0..100 {
        writer.event(&Event::Send(synthetic::send())).unwrap();
    }
    writer.finish(Instant::from_nanos(0), Lost::default(), Coverage::default()).unwrap();

    let json = path.join("run.json");
    let good = fs::read_to_string(&json).unwrap();
    for (text, kind) in [
        (good[..good.len() / 2].to_owned(), "truncated"),
        (good.replace(&format!("\"schema\": {}", store::SCHEMA), "\"schema\": 77"), "unsupported"),
        (good.replace("\"kernel\"", "\"colonel\""), "malformed"),
        ("[]".to_owned(), "malformed"),
        (String::new(), "truncated"),
    ] {
        fs::write(&json, &text).unwrap();
        let error = Run::open(&path).unwrap_err();
        let got = match error {
            Error::Truncated { .. } => "truncated",
            Error::Malformed { .. } => "malformed",
            Error::Unsupported { found, .. } => {
                assert_eq!(found, 77);
                "unsupported"
            }
            _ => "other",
        };
        assert_eq!(got, kind, "{error} for {text:.60}");
    }
    fs::write(&json, &good).unwrap();

    let part = &parts(&path, "sends")[0];
    let whole = fs::read(part).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        fs::write(part, &whole[..cut]).unwrap();
        let error = Run::open(&path).unwrap().sends(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. } | Error::Malformed { .. }), "{error}");
    }
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x55;
        fs::write(part, &flipped).unwrap();
        // Whatever it reads, it must not panic.
        let _ = Run::open(&path).unwrap().sends(|_| ());
    }
}

/// `/dev/full` cannot stand in for a directory, so a small file system is mounted where root may do
/// that.
#[test]
fn a_full_disk_says_so_and_keeps_what_was_finished() {
    tier::needs!(tier::Need::Root, tier::Need::Program("unshare"));
    // The mount lives in a mount namespace of a child that runs this very test binary, and goes
    // away with it.
    if std::env::var_os("WIRELAPSE_TEST_FULL_DISK").is_none() {
        let status = std::process::Command::new("unshare")
            .args(["--mount", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "round_trip::a_full_disk_says_so_and_keeps_what_was_finished", "--nocapture"])
            .env("WIRELAPSE_TEST_FULL_DISK", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(mounted.success(), "cannot mount a tmpfs");
    let path = dir.path().join("run");
    let mut writer = Writer::create(&path, provenance()).unwrap();
    let base = synthetic::send();
    let start = provenance().start_ns;
    let mut written = 0_u64;
    let error = (1..=100_u64)
        .find_map(|second| {
            for _ in 0..10_000 {
                // Numbers that do not compress.
                written = written.wrapping_add(1);
                let noise = written.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let state = record::SenderState { srtt: Nanos(noise >> 1), unacked: noise as u32, ..base.state };
                if let Err(e) = writer.event(&Event::Send(record::Send { state, ..base })) {
                    return Some(e);
                }
            }
            writer.tick(Instant::from_nanos(start + second * 10_000_000_000)).err()
        })
        .expect("a file system of one megabyte holds a million rows");
    let text = error.to_string();
    assert!(text.contains("No space left") && text.contains("free some space"), "{text}");
    let Error::Write { rows, .. } = error else { panic!("{text}") };
    drop(writer);
    let mut read = 0;
    Run::open(&path).unwrap().sends(|_| read += 1).unwrap();
    assert_eq!(read, rows);
    assert!(rows > 0);
    for table in ["connections", "sends", "totals"] {
        for part in parts(&path, table) {
            assert_eq!(part.extension().unwrap(), "parquet", "{part:?}");
        }
    }
    let _ = std::process::Command::new("umount").arg(dir.path()).status();
}

#[test]
fn a_run_is_for_the_eyes_of_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    Writer::create(&run, provenance()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&run), mode(&run.join("sends.parquet")), mode(&run.join("run.json"))), (0o700, 0o700, 0o600));
}
