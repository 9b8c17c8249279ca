//! Whether verdicts hold what they say, where the truth is known: thousands of made-up studies with
//! the noise of real trials.
//!
//! No study is run here; `make aa` does that in labs, and docs/study.md has what came of it.

mod binomial;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use record::trial::Response;
use study::analysis;
use study::between::{self, Row, Side};
use study::ledger::Provenance;
use study::{Factor, Known, Place, Plan, Study, Trial};

/// How trials vary from one to the next, as logarithms.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Of each trial by itself.
    own: f64,
    /// Whether that has a heavy tail (Student's t with three degrees of freedom).
    heavy: bool,
    /// Of what follows the trial before.
    lasting: f64,
    /// The correlation of that with what it was at the trial before.
    correlation: f64,
    /// By how much trials are lower while other programs hold the CPUs, which lasts for some trials
    /// and comes again.
    held_up: f64,
    /// Of a block against the one before.
    block: f64,
    /// Of a trial against the one before within a block, always the same way.
    drift: f64,
}

const NONE: Noise =
    Noise { own: 0.0, heavy: false, lasting: 0.0, correlation: 0.8, held_up: 0.0, block: 0.0, drift: 0.0 };
const NOISES: [(&str, Noise); 5] = [
    ("independent", Noise { own: 0.01, ..NONE }),
    ("heavy tail", Noise { own: 0.01, heavy: true, ..NONE }),
    ("autocorrelated", Noise { own: 0.003, lasting: 0.02, ..NONE }),
    ("drift and steps", Noise { own: 0.003, block: 0.05, drift: 0.005, ..NONE }),
    ("all of it", Noise { own: 0.005, heavy: true, lasting: 0.01, block: 0.03, drift: 0.003, ..NONE }),
];

/// A machine on which trials follow one another.
struct Machine {
    random: Pcg64Mcg,
    noise: Noise,
    lasting: f64,
    /// Whether other programs hold the CPUs.
    is_held_up: bool,
    level: f64,
}

impl Machine {
    fn new(noise: Noise, seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), noise, lasting: 0.0, is_held_up: false, level: 0.0 }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0
    }

    fn trial(&mut self) -> f64 {
        let Noise { own, heavy, lasting, correlation, held_up, drift, .. } = self.noise;
        self.lasting = correlation * self.lasting + (1.0 - correlation * correlation).sqrt() * lasting * self.normal();
        if held_up > 0.0 {
            // Three trials on end in the mean, a third of the time.
            let changes = if self.is_held_up { 1.0 / 3.0 } else { 1.0 / 6.0 };
            self.is_held_up ^= self.random.random::<f64>() < changes;
        }
        self.level += drift;
        let mut z = self.normal();
        if heavy {
            let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
            z /= (squares / 3.0).sqrt();
        }
        let lost = if self.is_held_up { held_up * self.random.random::<f64>() } else { 0.0 };
        self.level + self.lasting + own * z - lost
    }

    /// The trials of one block of a plan. The effect of a level is what is measured with it over
    /// the first level, less 1.
    fn block(&mut self, plan: &Plan, block: u32, seed: u64, effect: f64) -> Vec<Trial> {
        self.level = self.noise.block * self.normal();
        let places = plan.block(block, seed);
        places
            .into_iter()
            .map(|place| {
                let effect = if place.levels[0] == 1 { effect } else { 0.0 };
                let goodput = 1e8 * self.trial().exp() * (1.0 + effect);
                trial(plan, &place, goodput)
            })
            .collect()
    }
}

fn trial(plan: &Plan, place: &Place, goodput: f64) -> Trial {
    Trial { responses: [(Response::Goodput, goodput)].into(), ..Trial::at(plan, 0, place) }
}

fn plan(factors: Vec<Factor>, repetitions: u32, until: Option<f64>) -> Plan {
    Plan {
        name: "p".into(),
        factors,
        fixed: Vec::new(),
        response: Response::Goodput,
        repetitions,
        duration: record::Nanos(1),
        warm_up: record::Nanos::ZERO,
        frames: 0,
        until,
    }
}

/// What came of many studies.
#[derive(Default)]
struct Tally {
    studies: u32,
    claims: u32,
    covered: u32,
    blocks: usize,
}

fn run(plan: &Plan, noise: Noise, effect: f64, studies: u32) -> Tally {
    let mut tally = Tally { studies, ..Tally::default() };
    for seed in 0..u64::from(studies) {
        let mut machine = Machine::new(noise, seed.wrapping_mul(0x9e37_79b9) ^ 0x57);
        let mut trials = Vec::new();
        let most = if plan.until.is_some() { 100 } else { plan.repetitions };
        for block in 0..most {
            trials.extend(machine.block(plan, block, seed, effect));
            tally.blocks += 1;
            if study::is_narrow(0, plan, &trials, block + 1) {
                break;
            }
        }
        // What the sentences of a study rest on: comparisons of one factor, or effects of several.
        let seen = if plan.factors.len() == 1 {
            let study = Study { name: "p".into(), builtin: false, plans: vec![plan.clone()], host: None };
            let said = study::builtin::conclude(&study, &trials, seed);
            let first = said.compared.first().map(|c| &c.comparison.ratio);
            tally.covered += u32::from(first.is_some_and(|ratio| ratio.covers(effect)));
            said.compared.iter().any(|c| c.comparison.seen())
        } else {
            analysis::effects(0, plan, &trials).effects.iter().any(|e| !e.size.covers(0.0))
        };
        tally.claims += u32::from(seen);
    }
    tally
}

/// Studies of each design with each kind of noise. With seven designs and five noises, one of forty
/// tests of them at 95 % may well fail by chance: each is held to 99.9 %, and all together to 95 %.
#[test]
fn where_there_is_no_difference_at_most_one_study_in_twenty_claims_one() {
    let levels = |n: usize| vec![Factor::new(Known::Dscp, 0..n)];
    let two_factors = vec![Factor::new(Known::Dscp, 0..2), Factor::new(Known::Flows, 1..3)];
    let designs = [
        ("two levels, 2 blocks", plan(levels(2), 2, None), 1_000),
        ("two levels, 3 blocks", plan(levels(2), 3, None), 1_000),
        ("two levels, 6 blocks", plan(levels(2), 6, None), 1_000),
        ("two levels, 11 blocks", plan(levels(2), 11, None), 1_000),
        ("four levels, 6 blocks", plan(levels(4), 6, None), 1_000),
        ("two factors, 6 blocks", plan(two_factors, 6, None), 1_000),
        ("until 2 %, two levels", plan(levels(2), 5, Some(0.02)), 200),
    ];
    let (mut claims, mut studies) = (0, 0);
    for (design, plan, n) in &designs {
        for (name, noise) in NOISES {
            let tally = run(plan, noise, 0.0, *n);
            let (low, high) = binomial::interval(tally.claims, tally.studies, 0.999);
            eprintln!(
                "{design}, {name}: {} of {} ({low:.3} to {high:.3}), {:.1} blocks each",
                tally.claims,
                tally.studies,
                tally.blocks as f64 / f64::from(tally.studies)
            );
            assert!(low <= 0.05, "{design}, {name}: {} of {}", tally.claims, tally.studies);
            (claims, studies) = (claims + tally.claims, studies + tally.studies);
        }
    }
    let (low, high) = binomial::interval(claims, studies, 0.95);
    eprintln!("all: {claims} of {studies} ({low:.3} to {high:.3})");
    assert!(low <= 0.05 && studies > 20_000, "{claims} of {studies}");
}

#[test]
fn intervals_hold_what_was_put_in_and_find_what_is_large_enough() {
    for effect in [-0.01, 0.05, -0.5, 3.0] {
        let (mut covered, mut studies) = (0, 0);
        for (name, noise) in NOISES {
            let tally = run(&plan(vec![Factor::new(Known::Dscp, 0..2)], 10, None), noise, effect, 1_000);
            let (low, high) = binomial::interval(tally.covered, tally.studies, 0.999);
            eprintln!(
                "{effect}, {name}: held by {} of {} ({low:.3} to {high:.3}), found in {}",
                tally.covered, tally.studies, tally.claims
            );
            assert!(high >= 0.95, "{effect}, {name}: {} of {}", tally.covered, tally.studies);
            // Five times the noise of any of these is always found.
            if effect.abs() > 0.04 {
                assert!(tally.claims * 20 >= tally.studies * 17, "{effect}, {name}: found in {}", tally.claims);
            }
            (covered, studies) = (covered + tally.covered, studies + tally.studies);
        }
        let (_, high) = binomial::interval(covered, studies, 0.95);
        assert!(high >= 0.95, "{effect}: {covered} of {studies}");
    }
}

/// Trials that follow each other closely, within a block and from one block to the next, as
/// `stream` has them on a machine with other work.
const BUSY: [(&str, Noise); 5] = [
    ("correlation 0.5", Noise { own: 0.003, lasting: 0.02, correlation: 0.5, ..NONE }),
    ("correlation 0.95", Noise { own: 0.003, lasting: 0.02, correlation: 0.95, ..NONE }),
    ("correlation 0.99", Noise { own: 0.001, lasting: 0.05, correlation: 0.99, ..NONE }),
    ("held up", Noise { own: 0.002, held_up: 0.3, ..NONE }),
    ("all of it", Noise { own: 0.002, heavy: true, lasting: 0.02, correlation: 0.95, held_up: 0.3, ..NONE }),
];

/// The order within each block is random, so what follows the trial before is no effect of a level.
#[test]
fn trials_that_are_not_independent_make_no_more_claims() {
    let designs = [("two levels, 6 blocks", 2, 6), ("four levels, 6 blocks", 4, 6), ("two levels, 20 blocks", 2, 20)];
    for (design, levels, blocks) in designs {
        let (mut claims, mut studies) = (0, 0);
        for (name, noise) in BUSY {
            let tally = run(&plan(vec![Factor::new(Known::Dscp, 0..levels)], blocks, None), noise, 0.0, 1_000);
            let (low, high) = binomial::interval(tally.claims, tally.studies, 0.999);
            eprintln!("{design}, {name}: {} of {} ({low:.3} to {high:.3})", tally.claims, tally.studies);
            assert!(low <= 0.05, "{design}, {name}: {} of {}", tally.claims, tally.studies);
            (claims, studies) = (claims + tally.claims, studies + tally.studies);
        }
        let (low, high) = binomial::interval(claims, studies, 0.95);
        eprintln!("{design}: {claims} of {studies} ({low:.4} to {high:.4})");
        assert!(low <= 0.05, "{design}: {claims} of {studies}");
    }
}

/// How narrow a study is to become may not decide what it finds.
#[test]
fn until_holds_what_was_put_in_and_finds_it() {
    for (effect, until) in [(0.01, 0.008), (-0.05, 0.02), (-0.5, 0.02), (-0.5, 0.2)] {
        let plan = plan(vec![Factor::new(Known::Dscp, 0..2)], 5, Some(until));
        let (mut covered, mut found, mut studies) = (0, 0, 0);
        for (name, noise) in NOISES {
            let tally = run(&plan, noise, effect, 200);
            let (low, high) = binomial::interval(tally.covered, tally.studies, 0.999);
            eprintln!(
                "{effect} until {until}, {name}: held by {} of {} ({low:.3} to {high:.3}), found in {}, {:.1} blocks each",
                tally.covered,
                tally.studies,
                tally.claims,
                tally.blocks as f64 / f64::from(tally.studies)
            );
            assert!(high >= 0.95, "{effect} until {until}, {name}: {} of {}", tally.covered, tally.studies);
            (covered, found, studies) = (covered + tally.covered, found + tally.claims, studies + tally.studies);
        }
        let (low, high) = binomial::interval(covered, studies, 0.95);
        eprintln!("{effect} until {until}: held by {covered} of {studies} ({low:.4} to {high:.4}), found in {found}");
        assert!(high >= 0.95 && studies >= 1_000, "{effect} until {until}: {covered} of {studies}");
        if effect.abs() > 2.0 * until {
            assert!(found * 20 >= studies * 19, "{effect} until {until}: found in {found} of {studies}");
        }
    }
}

/// Two studies of one machine, the second with an effect on the second level.
fn twice(noise: Noise, seed: u64, blocks: u32, effect: f64) -> Vec<Row> {
    let plan = plan(vec![Factor::new(Known::Dscp, 0..2)], blocks, None);
    let study = Study { name: "p".into(), builtin: false, plans: vec![plan.clone()], host: None };
    let provenance = Provenance::here(&study, seed, Vec::new());
    let seeds = [seed.wrapping_mul(0x9e37_79b9) ^ 0x57, seed.wrapping_mul(0x85eb_ca6b) ^ 0x91];
    let trials = [(seeds[0], 0.0), (seeds[1], effect)].map(|(seed, effect)| {
        let mut machine = Machine::new(noise, seed);
        (0..blocks).flat_map(|block| machine.block(&plan, block, seed, effect)).collect::<Vec<_>>()
    });
    let [a, b] = trials.each_ref().map(|trials| Side { provenance: &provenance, trials });
    between::compare(a, b).rows
}

/// What lasts within a run moves all of its trials, and the other run does not show it: only what
/// is compared within blocks holds then.
#[test]
fn two_studies_of_one_machine_differ_by_what_lasts_in_each_and_within_blocks_they_do_not() {
    for blocks in [6, 20] {
        for (name, noise) in NOISES.into_iter().chain(BUSY) {
            let pairs: Vec<Vec<Row>> = (0..1_000).map(|seed| twice(noise, seed, blocks, 0.0)).collect();
            let claims = |seen: fn(&Row) -> bool| pairs.iter().filter(|rows| rows.iter().any(seen)).count() as u32;
            let (itself, within) = (claims(Row::seen), claims(Row::seen_within_blocks));
            eprintln!("two studies, {blocks} blocks, {name}: {itself} of 1000, within blocks {within}");
            assert!(binomial::interval(within, 1_000, 0.999).0 <= 0.05, "{blocks} blocks, {name}: {within} of 1000");
            let independent = noise.lasting == 0.0 && noise.held_up == 0.0;
            assert!(!independent || binomial::interval(itself, 1_000, 0.999).0 <= 0.05, "{name}: {itself} of 1000");
        }
    }
}

#[test]
fn what_changed_between_two_studies_relative_to_the_first_level_is_held_and_found() {
    for (name, noise) in NOISES {
        let (mut held, mut found) = (0, 0);
        for seed in 0..1_000 {
            let rows = twice(noise, seed, 10, -0.2);
            let within = rows[1].within_blocks.expect("every block has both levels");
            held += u32::from(within.by.expect("an interval").covers(-0.2));
            found += u32::from(rows[1].seen_within_blocks());
        }
        eprintln!("two studies, -20 %, {name}: held by {held} of 1000, found in {found}");
        assert!(binomial::interval(held, 1_000, 0.999).1 >= 0.95, "{name}: {held} of 1000");
        assert!(found >= 950, "{name}: {found} of 1000");
    }
}

/// A trial that counts whole segments between two moments, of which the second is an arrival: what
/// a stream's server measures, with the end of a test that queues behind its data. Moments vary by
/// 20 µs.
fn counted(plan: &Plan, place: &Place, bits_per_second: f64, random: &mut Pcg64Mcg) -> Trial {
    const PAYLOAD_BITS: f64 = 1_448.0 * 8.0;
    let seconds = plan.duration.as_secs_f64() + 20e-6 * (random.random::<f64>() - 0.5);
    let between = (1_500.0 + 38.0) * 8.0 / bits_per_second;
    let segments = (seconds / between).floor() + 1.0;
    trial(plan, place, segments * PAYLOAD_BITS / seconds)
}

/// The largest effect that trials of 0.3 s can be off by in every block alike, because of one
/// segment that is counted or not, is in the interval, however little the blocks differ.
#[test]
fn intervals_hold_what_was_put_in_where_trials_count_whole_segments() {
    for effect in [-0.01, 0.05, -0.5, 3.0] {
        let (mut covered, mut by_spread_alone, mut found, studies) = (0, 0, 0, 1_000);
        for seed in 0..u64::from(studies) {
            let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x5e9);
            let plan = Plan {
                duration: record::Nanos::from_millis(300),
                ..plan(vec![Factor::new(Known::Dscp, 0..2)], 6, None)
            };
            // Each study has another rate: how segments fall into the time differs.
            let rate = 20e6 * (1.0 + random.random::<f64>());
            let mut trials = Vec::new();
            for block in 0..plan.repetitions {
                for place in plan.block(block, seed) {
                    let level = if place.levels[0] == 1 { 1.0 + effect } else { 1.0 };
                    trials.push(counted(&plan, &place, rate * level, &mut random));
                }
            }
            let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
            let said = study::builtin::conclude(&study, &trials, seed);
            let comparison = &said.compared[0].comparison;
            covered += u32::from(comparison.ratio.covers(effect));
            found += u32::from(comparison.seen());
            let alone = stats::Comparison { resolution: 0.0, ..*comparison }.judged(stats::Judgement::ALONE);
            by_spread_alone += u32::from(alone.ratio.covers(effect));
            assert_eq!(comparison.seen(), comparison.p <= stats::LEVEL);
        }
        let (_, high) = binomial::interval(covered, studies, 0.95);
        eprintln!(
            "{effect}, counted: held by {covered} of {studies} ({by_spread_alone} by their spread alone), found in {found}"
        );
        assert!(high >= 0.95, "{effect}: {covered} of {studies}");
        assert!(found * 20 >= studies * 19 || effect.abs() < 0.02, "{effect}: found in {found}");
    }
}

#[test]
fn the_interval_of_a_share_is_that_of_the_tables() {
    // R: binom.test(2, 40)$conf.int and binom.test(0, 40)$conf.int.
    let (low, high) = binomial::interval(38, 40, 0.95);
    assert!((low - 0.830_803).abs() < 1e-5 && (high - 0.993_886).abs() < 1e-5, "{low} {high}");
    let (low, high) = binomial::interval(2, 40, 0.95);
    assert!((low - 0.006_114).abs() < 1e-5 && (high - 0.169_197).abs() < 1e-5, "{low} {high}");
    let (low, high) = binomial::interval(1_050, 21_000, 0.95);
    assert!((low - 0.047).abs() < 2e-4 && (high - 0.053).abs() < 2e-4, "{low} {high}");
    let (low, high) = binomial::interval(0, 40, 0.95);
    assert!(low == 0.0 && (high - 0.088_097).abs() < 1e-5, "{high}");
}
