//! The machine is right where the cause is sure, and adds up where it is drawn.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use clock::Nanos;
use lab::{BitRate, Depth, Direction, Loss};
use tier::{Need, needs};
use truth::{
    Act, Cause, End, Host, Outcome, PathPlan, Plan, Program, Step, Talk, each, known::Known, mistakes, tables,
};

/// Plans that are drawn anew for each commit, and how many of them run at a time.
const DRAWN: u64 = 40;
const JOBS: usize = 5;

/// Plans that run beside others deliver late.
static MACHINE: Mutex<()> = Mutex::new(());

/// A path of `ms` there and back, and one bulk upload over it.
fn bulk(seed: u64, ms: u64, bytes: u64) -> Plan {
    let way = Direction { delay: Nanos::from_millis(ms / 2), ..Direction::default() };
    Plan {
        seed,
        path: PathPlan { ways: [way.clone(), way], mtu: 1_500, steps: Vec::new() },
        hosts: [Host::plain(), Host::plain()],
        talks: vec![Talk { after_us: 0, program: Program::bulk(End::Client, bytes) }],
    }
}

fn with(mut plan: Plan, change: impl FnOnce(&mut Plan)) -> Plan {
    change(&mut plan);
    plan
}

/// Plans with one sure cause each.
fn sure() -> Vec<(Cause, Plan)> {
    let rate = |mbit: u32| (Some(BitRate::mbit(mbit)), Some(Depth::Time(Nanos::from_millis(100))));
    vec![
        (Cause::ReceiveWindow, with(bulk(1, 50, 600_000), |p| p.hosts[1].receive_buffer = Some(16 << 10))),
        (Cause::SendBuffer, with(bulk(2, 40, 600_000), |p| p.hosts[0].send_buffer = Some(16 << 10))),
        (Cause::PathRate, with(bulk(3, 20, 2_000_000), |p| (p.path.ways[0].rate, p.path.ways[0].queue) = rate(8))),
        (
            Cause::AckPathRate,
            with(bulk(4, 20, 3_000_000), |p| {
                (p.path.ways[1].rate, p.path.ways[1].queue) = rate(1);
                p.path.ways[1].rate = BitRate::new(120_000);
                p.hosts[0].offloads = false;
                p.hosts[1].offloads = false;
            }),
        ),
        (
            Cause::Loss,
            with(bulk(5, 60, 1_000_000), |p| {
                // Nothing arrives for a second and a half, which the timer's doublings make longer.
                let dead = [0, 1].map(|way| Direction { loss: Loss::Independent(1.0), ..p.path.ways[way].clone() });
                p.path.steps = vec![
                    Step { after_us: 250_000, ways: dead },
                    Step { after_us: 1_750_000, ways: p.path.ways.clone() },
                ];
            }),
        ),
        (Cause::SlowStart, bulk(6, 200, 400_000)),
        (Cause::Pacing, with(bulk(7, 20, 400_000), |p| p.hosts[0].max_pacing = Some(200_000))),
        (
            Cause::Application,
            with(bulk(8, 20, 0), |p| p.talks[0].program = Program::dialogue(10, [200, 1_000], [50_000, 60_000], 1)),
        ),
        (
            Cause::Application,
            with(bulk(9, 20, 0), |p| {
                let paced = vec![Act::Write { bytes: 64_000, piece: 1_000, pause_us: 20_000 }];
                p.talks[0].program = Program { name: "paced".into(), scripts: [paced, vec![]] };
            }),
        ),
    ]
}

#[test]
fn a_sure_cause_is_the_true_one() {
    needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("tcpdump"));
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let sure = sure();
    let seen: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = sure.iter().map(|(_, plan)| scope.spawn(|| plan.run())).collect();
        running.into_iter().map(|r| r.join().unwrap()).collect()
    });
    for ((cause, plan), mut seen) in sure.iter().zip(seen) {
        // A busy machine is no path of the plan's.
        for _ in 0..4 {
            if seen.spoiled.is_some() {
                seen = plan.run();
            }
        }
        assert_eq!(seen.spoiled, None, "{cause:?}");
        let cases = seen.cases();
        let case = cases.first().unwrap();
        let whole: u64 = case.truth.values().sum();
        let share = *case.truth.get(cause).unwrap_or(&0) as f64 / whole as f64;
        println!("{cause:?} of seed {}: {share:.2} of {:.1} s", plan.seed, whole as f64 / 1e9);
        assert!(share > 0.5, "{cause:?} is {share:.2} of {:#?}", case.truth);
    }
}

#[test]
fn a_trace_says_nothing_wrong_of_a_sure_cause() {
    needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Path("/sys/kernel/btf/vmlinux"), Need::Program("tcpdump"));
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut right = Vec::new();
    for (cause, plan) in sure() {
        let (mut seen, mut traced) = plan.run_traced();
        for _ in 0..4 {
            if seen.spoiled.is_some() {
                (seen, traced) = plan.run_traced();
            }
        }
        assert_eq!(seen.spoiled, None, "{cause:?}");
        let verdicts = traced.verdicts(&seen);
        // Both what it says first and what it says to do next are read.
        assert!(verdicts.len() > 1, "{cause:?}: {verdicts:#?}");
        let wrong: Vec<_> = verdicts.iter().filter(|v| v.outcome == Outcome::Wrong).collect();
        assert!(wrong.is_empty(), "{cause:?}: {wrong:#?}");
        let of_it = verdicts.iter().filter(|v| v.cause == cause && v.outcome == Outcome::Right);
        right.extend(of_it.map(|v| (cause, v.claim.clone())));
    }
    println!("{right:#?}");
    for cause in [Cause::ReceiveWindow, Cause::SendBuffer, Cause::SlowStart, Cause::Pacing] {
        assert!(right.iter().any(|of| of.0 == cause), "{cause:?} is named nowhere: {right:#?}");
    }
}

/// What a commit has not seen before: the plans follow from its name.
fn seed_of_the_commit() -> u64 {
    let git = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output();
    let name = git.ok().filter(|g| g.status.success()).map(|g| tier::text(&g.stdout)).unwrap_or_default();
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn drawn_plans_are_accounted_for_to_the_end() {
    needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("tcpdump"));
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    // Half of it, which the numbers of the others fit behind.
    let first = seed_of_the_commit() / 2;
    let judged = Mutex::new(Vec::new());
    each(first..first + DRAWN, JOBS, |seed| {
        let seen = Plan::draw(seed).run();
        for truth in seen.truths().as_flattened() {
            let moments = truth.moments();
            assert!(moments.windows(2).all(|m| m[0].to == m[1].from && m[0].from < m[0].to), "{moments:?}");
        }
        let cases = seen.cases();
        for case in &cases {
            // The account of the kernel is divided among the limits without a rest, whatever part
            // of the connection the capture holds.
            assert!(case.truth.values().all(|time| *time > 0) && case.truth.contains_key(&case.cause), "{case:?}");
            let sum: f64 = case.found.iter().sum();
            assert!((sum - 1.0).abs() < 1e-6 || sum == 0.0, "{case:?}");
        }
        if seen.spoiled.is_none() {
            judged.lock().unwrap().extend(cases);
        }
        Ok(())
    })
    .unwrap();
    let cases = judged.into_inner().unwrap();
    println!("seeds {first} and {} more:\n{}", DRAWN - 1, tables(&cases));
    // A few are wrong of any hundred, and four come together, since a plan has four places.
    let wrong = cases.iter().filter(|c| c.outcome == Outcome::Wrong).count();
    assert!(wrong <= 8 + cases.len() / 8, "{wrong} of {} verdicts are wrong:\n{}", cases.len(), mistakes(&cases));
}

#[test]
fn verdicts_that_were_fixed_stay_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("known");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    let mut known_failures = 0;
    for file in &files {
        let known = Known::read(file);
        let outcome = known.judge(file);
        let holds = matches!(outcome, Some(Outcome::Right | Outcome::Withheld(_)));
        let (seed, verdict) = (known.case.seed, &known.case.verdict);
        assert!(holds || !known.fixed, "{}: {outcome:?}; it was: {verdict}", file.display());
        if !known.fixed {
            known_failures += 1;
            let now = if holds { "holds today: mark it as fixed" } else { "known failure" };
            println!(
                "seed {seed}, {:?}, said {:?}, true {:?}: {now}",
                known.case.place, known.case.named, known.case.cause
            );
        }
    }
    println!("{} captures, {known_failures} known failures", files.len());
}
