//! Studies run for real in labs: a difference put in is found, a run goes on where it was, settings
//! are proved.

use record::trial::Response;
use std::cell::Cell;

use record::Nanos;
use study::ledger::{self, Ledger, Provenance};
use study::{Ended, Error, Ground, Limits, Study, Trial, builtin, plan_file};

const LIMITS: Limits = Limits { seed: 1, budget: None };

fn study_of(text: &str) -> Study {
    let plan = plan_file::parse("plan.toml", text).unwrap();
    Study { name: plan.name.clone(), builtin: false, plans: vec![plan], host: None }
}

fn run_all(study: &Study) -> Vec<Trial> {
    let mut trials = Vec::new();
    let ended = study::run(study, &Ground::Lab, LIMITS, &mut trials, &mut |_| Ok(()), &mut |_| {}, &|| true).unwrap();
    assert_eq!(ended, Ended::Planned);
    trials
}

#[test]
fn one_percent_put_in_by_the_lab_is_found_and_covered() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let study = study_of(
        "repetitions = 6\nduration = \"1s\"\nwarm_up = \"1s\"\n[fixed]\ndelay = \"1ms\"\n[factors]\n\
         rate = [\"50mbit\", \"49.5mbit\"]\n",
    );
    let trials = run_all(&study);
    let counting = trials.iter().filter(|t| t.counts()).count();
    assert!(counting >= 8, "{:?}", trials.iter().flat_map(|t| &t.broken).collect::<Vec<_>>());
    let said = builtin::conclude(&study, &trials, 1);
    let c = said.compared[0].comparison;
    // A busy machine widens the interval; it may not move it off the truth by more than a fifth of
    // the difference.
    let near = c.ratio.low - 0.002 <= -0.01 && -0.01 <= c.ratio.high + 0.002;
    assert!(near, "{:#?}", said.verdict);
    // Where the machine was so busy that 1 % could not have been seen, the verdict says how much
    // could.
    let visible = c.smallest_seen < 0.01;
    assert!(c.ratio.high < 0.0 || !visible, "{:#?}", said.verdict);
    assert!(
        c.ratio.high < 0.0 || said.verdict[0].to_string().contains("would have shown a change of"),
        "{:#?}",
        said.verdict
    );
}

#[test]
fn settings_are_proved_by_the_packets() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let study = study_of(
        "repetitions = 1\nduration = \"300ms\"\nwarm_up = \"0\"\n[fixed]\nrate = \"100mbit\"\ndelay = \"2ms\"\n[factors]\n\
         \"net.ipv4.tcp_timestamps\" = [1, 0]\n\"a.net.ipv4.tcp_window_scaling\" = [1, 0]\n",
    );
    for trial in run_all(&study) {
        let on = |i: usize| trial.labels[i] == "1";
        let lengths: Vec<u8> = trial.evidence.header_bytes.keys().copied().collect();
        assert_eq!(lengths, [if on(0) { 32 } else { 20 }], "{trial:?}");
        assert!(trial.evidence.syns.iter().any(|s| !s.from_server && s.window_scale.is_some() == on(1)));
        assert!(trial.evidence.syns.iter().any(|s| s.from_server && s.window_scale.is_some() == on(1)));
        let widest = trial.evidence.windows.iter().map(|w| w.1).max().unwrap();
        assert!((widest > 65_535) == on(1), "{widest} {:?}", trial.labels);
        assert!(
            trial.held.iter().any(|h| h.what.contains("window scaling"))
                && trial.response(Response::Goodput).unwrap() > 0.0
        );
    }
}

#[test]
fn a_run_cut_short_goes_on_where_it_was() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let study = study_of(
        "workload = \"rr\"\nrepetitions = 2\nduration = \"100ms\"\nwarm_up = \"50ms\"\n[factors]\nresponse = [10, 100, 1000]\n",
    );
    let mut ledger = Ledger::create(&run, Provenance::here(&study, 1, vec!["test".into()])).unwrap();
    assert!(matches!(Ledger::create(&run, ledger.provenance().clone()), Err(Error::Run { .. })));
    let second = Ledger::resume(&run).map(drop).unwrap_err().to_string();
    assert!(second.contains("another process"), "{second}");
    let seen = Cell::new(0);
    let mut trials = Vec::new();
    let mut record = |trial: &Trial| {
        seen.set(seen.get() + 1);
        if seen.get() > 3 {
            return Err(Error::Setting("the disk is full".into()));
        }
        ledger.add(trial)
    };
    study::run(&study, &Ground::Lab, LIMITS, &mut trials, &mut record, &mut |_| {}, &|| true).unwrap_err();
    drop(ledger);
    // As SIGKILL in the middle of a line leaves it.
    use std::io::Write as _;
    let mut file = std::fs::File::options().append(true).open(run.join("trials.ndjson")).unwrap();
    file.write_all(b"{\"part\":0,\"blo").unwrap();
    drop(file);
    let (mut ledger, mut trials) = Ledger::resume(&run).unwrap();
    assert_eq!(trials.len(), 3);
    let before = trials.clone();
    let ended =
        study::run(&study, &Ground::Lab, LIMITS, &mut trials, &mut |t| ledger.add(t), &mut |_| {}, &|| true).unwrap();
    ledger.conclude(&builtin::conclude(&study, &trials, 1), true).unwrap();
    let (provenance, kept, _) = ledger::load(&run).unwrap();
    assert_eq!((ended, kept.len(), provenance.state), (Ended::Planned, 6, store::State::Finished));
    assert_eq!(kept[..3], before[..]);
    let mut places: Vec<_> = kept.iter().map(|t| (t.block, t.levels.clone())).collect();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 6);
    assert!(run.join("result.json").exists());
}

#[test]
fn a_budget_and_an_interruption_end_it_early() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let study = study_of(
        "workload = \"crr\"\nrepetitions = 50\nduration = \"100ms\"\nwarm_up = \"0\"\n[factors]\nover = [\"path\", \"loopback\"]\n",
    );
    let mut trials = Vec::new();
    let limits = Limits { budget: Some(Nanos(1)), ..LIMITS };
    let ended = study::run(&study, &Ground::Lab, limits, &mut trials, &mut |_| Ok(()), &mut |_| {}, &|| true).unwrap();
    assert_eq!((ended, trials.len()), (Ended::Budget, 0));
    let left = std::sync::atomic::AtomicU32::new(6);
    let go_on = || left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
    use std::sync::atomic::Ordering::Relaxed;
    let ended = study::run(&study, &Ground::Lab, LIMITS, &mut trials, &mut |_| Ok(()), &mut |_| {}, &go_on).unwrap();
    assert_eq!(ended, Ended::Interrupted);
    assert!(trials.iter().all(Trial::counts) && trials.len() < 6, "{trials:?}");
}

/// As programs that set nothing: Nagle's algorithm holds the second write until the delayed ACK of
/// the first, 40 ms.
#[test]
fn sockets_are_as_the_kernel_has_them_unless_a_plan_says_otherwise() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let rate = |held: &str| {
        let study = study_of(&format!(
            "workload = \"rr\"\nrepetitions = 1\nduration = \"400ms\"\nwarm_up = \"50ms\"\n[fixed]\ndelay = \"500us\"\n\
             response_writes = 2\n{held}[factors]\nresponse = [100]\n"
        ));
        run_all(&study)[0].response(Response::Transactions).unwrap()
    };
    let (unsaid, default, nodelay) = (rate(""), rate("socket = \"default\"\n"), rate("socket = \"nodelay\"\n"));
    assert!(unsaid < 26.0 && default < 26.0 && nodelay > 4.0 * unsaid, "{unsaid} {default} {nodelay}");
}

#[test]
fn datagrams_that_a_path_cannot_carry_are_found_lost() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let study = study_of(
        "workload = \"udp\"\nresponse = \"datagrams_lost\"\nrepetitions = 5\nduration = \"500ms\"\n[fixed]\n\
         rate = \"10mbit\"\ndelay = \"5ms\"\nqueue = \"10ms\"\n[factors]\ndatagram_rate = [\"5M\", \"20M\"]\n",
    );
    let trials = run_all(&study);
    for trial in &trials {
        assert!(trial.series.len() >= 3 && trial.series.iter().all(|p| p.srtt_ns == Nanos::ZERO), "{:?}", trial.series);
        // Nor is there a window: the packets' is that of the connection on which the test is asked
        // for.
        assert!(trial.series.iter().all(|p| p.receive_window_bytes.is_none()), "{:?}", trial.series);
        assert_eq!(trial.response(Response::ReceiveWindow), None);
    }
    // A sender that was held catches up in a burst, which a queue of 10 ms does not hold: the
    // median trial is the path's.
    let median = |level: &str, response: Response| {
        let of_level = trials.iter().filter(|t| t.counts() && t.labels[0] == level);
        let mut values: Vec<f64> = of_level.map(|t| t.response(response).unwrap()).collect();
        assert!(values.len() >= 3, "{trials:?}");
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    // 5 ms on the way, and a full queue of 10 ms where more is sent than passes.
    for (level, lost, delay, goodput) in [("5M", 0.0..0.01, 5e6..10e6, 5e6), ("20M", 0.4..1.0, 12e6..f64::MAX, 9.479e6)]
    {
        let seen =
            [Response::DatagramsLost, Response::OneWayP50, Response::Goodput].map(|response| median(level, response));
        assert!(lost.contains(&seen[0]) && delay.contains(&seen[1]), "{level}: {seen:?}");
        assert!((seen[2] / goodput - 1.0).abs() < 0.1, "{level}: {seen:?}");
    }
    let said = builtin::conclude(&study, &trials, 1);
    assert!(said.verdict.iter().any(|v| v.to_string().contains("no ratio is given")), "{:?}", said.verdict);
}

#[test]
fn the_receive_window_is_that_of_the_packets_in_every_place() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    for direction in ["up", "down"] {
        let study = study_of(&format!(
            "repetitions = 1\nduration = \"1s\"\nwarm_up = \"0\"\n[fixed]\nrate = \"200mbit\"\ndelay = \"10ms\"\n\
             direction = \"{direction}\"\n[factors]\n\"a.net.ipv4.tcp_window_scaling\" = [1, 0]\n",
        ));
        let trials = run_all(&study);
        for trial in &trials {
            let off = trial.labels[0] == "0";
            // A window that no field of 16 bits holds, or the largest that one can.
            let window = trial.response(Response::ReceiveWindow).unwrap();
            assert_eq!(window <= 65_535.0, off, "{direction}: {window}");
            let known: Vec<u64> = trial.series.iter().filter_map(|p| p.receive_window_bytes).collect();
            assert!(known.len() >= trial.series.len() - 1 && known.len() > 5, "{direction}: {:?}", trial.series);
            assert_eq!(known.iter().all(|w| *w <= 65_535), off, "{direction}: {known:?}");
        }
        let directory = run.with_extension(direction);
        let mut ledger = Ledger::create(&directory, Provenance::here(&study, 1, Vec::new())).unwrap();
        trials.iter().for_each(|t| ledger.add(t).unwrap());
        ledger.conclude(&builtin::conclude(&study, &trials, 1), true).unwrap();
        let part = std::fs::read_dir(directory.join("series.parquet")).unwrap().next().unwrap().unwrap().path();
        assert!(std::fs::metadata(part).unwrap().len() > 0);
    }
}
