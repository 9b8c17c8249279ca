//! Verdicts beside the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;

use diagnose::{Follower, Options, Report};
use record::conversation::Limit;
use serde::{Deserialize, Serialize};
use wire::Segment;

use crate::account::{Cause, Truth};
use crate::capacity::Capacity;
use crate::draw::Draw;
use crate::packet::{self, Packet};
use crate::plan::End;
use crate::run::Observation;
use crate::transform::Transform;

/// Where a capture is taken, along the way of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At the host that sends most.
    Sender,
    /// Between it and the bottleneck.
    Before,
    /// Between the bottleneck and the receiver.
    After,
    /// At the receiver.
    Receiver,
}

impl Place {
    /// Every place.
    pub const ALL: [Self; 4] = [Self::Sender, Self::Before, Self::After, Self::Receiver];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "at the sender",
            Self::Before => "before the bottleneck",
            Self::After => "behind the bottleneck",
            Self::Receiver => "at the receiver",
        }
    }
}

/// What a verdict is worth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The limit and its share are true.
    Right,
    /// The limit is true, and its share is off by more than ten points.
    Share,
    /// Not known from this capture, and why.
    Withheld(String),
    /// Another limit.
    Wrong,
    /// The truth is not known.
    NotJudged,
}

/// One verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The plan's seed.
    pub seed: u64,
    /// Its connection's place in the plan.
    pub talk: usize,
    /// What the programs do.
    pub program: String,
    /// Where it was captured.
    pub place: Place,
    /// What became of the capture.
    pub transforms: Vec<Transform>,
    /// The largest cause of the limit with the largest true share.
    pub cause: Cause,
    /// The true time by cause, ns.
    pub truth: BTreeMap<Cause, u64>,
    /// What was said.
    pub verdict: String,
    /// The limit that was named.
    #[serde(deserialize_with = "limit::read")]
    pub named: Limit,
    /// The limits that were found, in shares of the duration; in the order of [`Limit::ALL`].
    pub found: Vec<f64>,
    /// What it is worth.
    pub outcome: Outcome,
}

/// [`Limit`], which is only written elsewhere.
mod limit {
    use super::Limit;
    use serde::{Deserialize as _, Deserializer, de::Error as _};

    pub(super) fn named(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|l| l.name() == name)
    }

    pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Limit, D::Error> {
        let name = String::deserialize(from)?;
        named(&name).ok_or_else(|| D::Error::custom(format!("no limit {name}")))
    }
}

/// A verdict is right where the limit that it names has this part of the largest true share.
pub(crate) const NEARLY: f64 = 0.8;
/// Its share may be off by this.
pub(crate) const OFF: f64 = 0.1;
/// The truth is not known where more of it than this was not seen.
pub(crate) const UNSEEN: f64 = 0.1;

/// Judges a report by the true account of the time that the capture holds.
pub(crate) fn judge(report: &Report, truth: &Truth, (from, to): (u64, u64)) -> Outcome {
    let budget = truth.budget(from, to);
    let whole = budget.total().0.max(1) as f64;
    let share = |limit: Limit| budget.of(limit).0 as f64 / whole;
    if share(Limit::Unknown) > UNSEEN {
        return Outcome::NotJudged;
    }
    let duration = report.duration_ns.0.max(1) as f64;
    let found = |limit: Limit| report.limits.of(limit).0 as f64 / duration;
    let named = report.limits.largest();
    if named == Limit::Unknown {
        let one_sided = report.vantage.only_direction.map(|_| "the capture holds one direction only");
        let unclear = report.unclear.map(diagnose::Unclear::reason);
        let why = unclear.or(one_sided).or(report.withheld.first().map(|w| w.reason));
        return Outcome::Withheld(why.unwrap_or("no reason is given").to_owned());
    }
    let most = Limit::ALL.into_iter().map(share).fold(0.0, f64::max);
    if share(named) < NEARLY * most {
        return Outcome::Wrong;
    }
    // Repairs behind a bottleneck that is in use may be called either; they are no reason to name
    // the losses first.
    let either = truth.causes(from, to).get(&Cause::PathRateLosing).map_or(0.0, |time| *time as f64 / whole);
    let (least, most) = match named {
        Limit::PathRate => (share(named) - either, share(named)),
        Limit::LossRecovery => (share(named), share(named) + either),
        _ => (share(named), share(named)),
    };
    // What is not known may be the same limit's.
    let is_off = found(named) > most + OFF || found(named) + found(Limit::Unknown) < least - OFF;
    if is_off { Outcome::Share } else { Outcome::Right }
}

/// What `analyze` says of the connection with this port of the client, beside the others of its
/// capture.
///
/// # Panics
/// Where `diagnose` does; then the capture is in the folder for temporary files.
pub(crate) fn analysed(packets: &[Packet], port: u16) -> Option<Report> {
    match std::panic::catch_unwind(|| said(packets, port)) {
        Ok(report) => report,
        Err(cause) => {
            let file = std::env::temp_dir().join(format!("broken-{}-{port}.pcap.zst", std::process::id()));
            match std::fs::write(&file, packet::write(packets)) {
                Ok(()) => eprintln!("the capture is {}", file.display()),
                Err(e) => eprintln!("{}: {e}", file.display()),
            }
            std::panic::resume_unwind(cause)
        }
    }
}

fn said(packets: &[Packet], port: u16) -> Option<Report> {
    let mut follower = Follower::new(Options::default());
    let segments: Vec<Segment> = (1..).zip(packets).filter_map(|(n, p)| p.segment(n)).collect();
    segments.iter().for_each(|s| follower.take(s));
    let is = |r: &Report| r.client.port() == port || r.server.port() == port;
    follower.reports().filter(is).max_by_key(|r| r.to_server.packets + r.to_client.packets)
}

/// Above this, bit/s, the lab's own CPU time limits a transfer, of which no figure here knows.
pub(crate) const FASTEST: f64 = 4e8;

/// How many changed captures of each place are judged beside the whole one.
pub(crate) const CHANGED: u64 = 2;

/// A verdict with the capture that it is on.
pub(crate) struct Judged<'a> {
    /// Names it among those of all plans.
    pub(crate) name: String,
    /// The client's port.
    pub(crate) port: u16,
    pub(crate) truth: &'a Truth,
    pub(crate) case: Case,
    pub(crate) packets: Vec<Packet>,
}

impl Observation {
    /// What the path could carry, and what it did, on the ways from client and server.
    pub(crate) fn capacity(&self) -> [Capacity; 2] {
        End::ALL.map(|from| {
            let behind = &self.captures[from.other() as usize];
            Capacity::of(&self.path, from as usize, self.plan.path.mtu, behind, from.address())
        })
    }

    /// The true account of each connection, at client and server.
    pub fn truths(&self) -> Vec<[Truth; 2]> {
        let capacity = self.capacity();
        self.talks.iter().map(|t| End::ALL.map(|at| Truth::of(&self.plan, t, &capacity, at))).collect()
    }

    /// What a capture at `place`, which is one of connection `talk`, holds: all connections of the
    /// hosts, as a real one does.
    pub(crate) fn captured(&self, talk: usize, place: Place) -> Vec<Packet> {
        let beside = self.beside(talk, place);
        let mut packets = self.captures[beside as usize].clone();
        if matches!(place, Place::Before | Place::After) {
            // Half the way of the constant delay: what leaves the near host comes by later, and
            // what goes there has come by earlier.
            for p in &mut packets {
                let Some(from) = p.sender() else { continue };
                let half = self.plan.path.least_delay(from).0 / 2;
                p.at = if from == beside { p.at + half } else { p.at - half };
                p.truly_at = p.at;
            }
            packets.sort_by_key(|p| p.at);
        }
        packets
    }

    /// The end that is nearer to `place`. The sender is who sent most of a connection's bytes.
    pub(crate) fn beside(&self, talk: usize, place: Place) -> End {
        let sent = |end: End| self.talks[talk].ticks.iter().filter_map(|t| t.ends[end as usize]).map(|s| s.sent).max();
        let sender = if sent(End::Client) >= sent(End::Server) { End::Client } else { End::Server };
        if matches!(place, Place::Sender | Place::Before) { sender } else { sender.other() }
    }

    /// Every verdict on it: each connection from each place, whole and changed.
    pub fn cases(&self) -> Vec<Case> {
        let mut all = Vec::new();
        let Ok(()) = self.each_judged(CHANGED, |judged| {
            all.push(judged.case);
            Ok::<(), Infallible>(())
        });
        all
    }

    /// Gives `take` each verdict on it, of each place that of the whole capture and of as many
    /// changed ones, until it fails. A plan that the machine spoiled has none.
    ///
    /// # Errors
    /// The first of `take`.
    pub(crate) fn each_judged<E>(
        &self,
        changed: u64,
        mut take: impl FnMut(Judged<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.spoiled.is_some() {
            return Ok(());
        }
        for (talk, truths) in self.truths().iter().enumerate() {
            let port = self.talks[talk].client.port();
            for place in Place::ALL {
                let truth = &truths[self.beside(talk, place) as usize];
                for number in 0..=changed {
                    let Some((case, packets)) = self.case(talk, place, number, truth) else { continue };
                    let name = format!("{}-{talk}-{place:?}-{number}", self.plan.seed).to_lowercase();
                    take(Judged { name, port, truth, case, packets })?;
                }
            }
        }
        Ok(())
    }

    /// The verdict on the capture with this number, and its packets. `None` where the capture has
    /// none of the connection.
    fn case(&self, talk: usize, place: Place, number: u64, truth: &Truth) -> Option<(Case, Vec<Packet>)> {
        let draw = &mut Draw::new(self.plan.seed, 1 + number * 8 + place as u64 + talk as u64 * 64);
        // The first one is whole.
        let count = if number == 0 { 0 } else { 1 + u64::from(draw.chance(0.3)) };
        let transforms: Vec<Transform> = (0..count).map(|_| Transform::draw(draw)).collect();
        let whole = self.captured(talk, place);
        let packets = transforms.iter().fold(whole, |packets, t| t.apply(packets, self.plan.path.mtu, draw));
        let port = self.talks[talk].client.port();
        let (from, to) = packet::span(&packets, port)?;
        let report = analysed(&packets, port).filter(|_| from < to)?;
        let causes = truth.causes(from, to);
        let [largest, _] = truth.budget(from, to).leading();
        let bytes: u64 = self.talks[talk].ticks.last()?.ends.iter().flatten().map(|s| s.acked).sum();
        let fast = bytes as f64 * 8e9 / (to - from) as f64 > FASTEST;
        let case = Case {
            seed: self.plan.seed,
            talk,
            program: self.plan.talks[talk].program.name.to_string(),
            place,
            transforms,
            cause: *causes.iter().filter(|c| c.0.limit() == largest).max_by_key(|c| c.1)?.0,
            truth: causes,
            verdict: String::new(),
            named: Limit::Unknown,
            found: Vec::new(),
            outcome: if fast { Outcome::NotJudged } else { Outcome::Wrong },
        };
        Some((case.said_anew(&report, truth, (from, to)), packets))
    }
}

impl Case {
    /// The same with what a report says, judged by the truth of its span; not judged where it was
    /// not.
    pub(crate) fn said_anew(self, report: &Report, truth: &Truth, span: (u64, u64)) -> Self {
        Self {
            verdict: report.verdict.to_string(),
            named: report.limits.largest(),
            found: Limit::ALL.map(|l| report.limits.of(l).0 as f64 / report.duration_ns.0.max(1) as f64).to_vec(),
            outcome: if self.outcome == Outcome::NotJudged { Outcome::NotJudged } else { judge(report, truth, span) },
            ..self
        }
    }
}

/// Verdicts counted by their worth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    right: u32,
    share: u32,
    withheld: u32,
    wrong: u32,
    not_judged: u32,
}

impl Count {
    /// Counts one more.
    pub fn add(&mut self, outcome: &Outcome) {
        let of = match outcome {
            Outcome::Right => &mut self.right,
            Outcome::Share => &mut self.share,
            Outcome::Withheld(_) => &mut self.withheld,
            Outcome::Wrong => &mut self.wrong,
            Outcome::NotJudged => &mut self.not_judged,
        };
        *of += 1;
    }

    /// Those that were judged.
    pub fn judged(&self) -> u32 {
        self.right + self.share + self.withheld + self.wrong
    }
}

/// The shares that `hits` of `n` are compatible with at 95 % (Wilson 1927).
fn interval(hits: u32, n: u32) -> (f64, f64) {
    const Z: f64 = 1.96;
    let (n, p) = (f64::from(n.max(1)), f64::from(hits) / f64::from(n.max(1)));
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.judged();
        let (low, high) = interval(self.wrong, n);
        let percent = |hits: u32| 100.0 * f64::from(hits) / f64::from(n.max(1));
        write!(
            f,
            "{n} | {:.0} % | {:.0} % | {:.0} % | {:.1} % ({:.1} to {:.1}) |",
            percent(self.right),
            percent(self.share),
            percent(self.withheld),
            percent(self.wrong),
            low * 100.0,
            high * 100.0
        )
    }
}

/// The head of a table of verdicts, as Markdown.
pub(crate) fn head(title: &str) -> String {
    format!(
        "\n| {title} | verdicts | right | share off | withheld | wrong (95 % interval) |\n|---|---|---|---|---|---|\n"
    )
}

/// A row of it; none where nothing was judged.
pub(crate) fn row<'a>(name: &str, outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let mut count = Count::default();
    outcomes.for_each(|outcome| count.add(outcome));
    if count.judged() == 0 { String::new() } else { format!("| {name} | {count}\n") }
}

/// Tables of the verdicts, as Markdown.
pub fn tables(cases: &[Case]) -> String {
    let mut text = String::new();
    let row = |name: &str, of: &dyn Fn(&Case) -> bool| row(name, cases.iter().filter(|c| of(c)).map(|c| &c.outcome));
    let whole = |c: &Case| c.transforms.is_empty();
    text += &head("place, whole captures");
    for place in Place::ALL {
        text += &row(place.name(), &|c| whole(c) && c.place == place);
    }
    text += &head("true cause, whole captures at either end");
    for cause in Cause::ALL {
        let at_an_end = |c: &Case| matches!(c.place, Place::Sender | Place::Receiver);
        text += &row(&cause_name(cause), &|c| whole(c) && at_an_end(c) && c.cause == cause);
    }
    text += &head("what became of the capture, all places");
    text += &row("whole", &whole);
    let names: BTreeSet<&str> = cases.iter().flat_map(|c| &c.transforms).map(|t| t.name()).collect();
    for name in names {
        text += &row(name, &|c| c.transforms.iter().any(|t| t.name() == name));
    }
    text
}

/// The cause in words.
pub fn cause_name(cause: Cause) -> String {
    let name = serde_json::to_value(cause).ok();
    name.as_ref().and_then(|v| v.as_str()).unwrap_or_default().replace('_', " ")
}

/// Seeds that are shown of each kind of mistake.
const SHOWN: usize = 8;

/// The wrong verdicts by what was said of what, the most frequent first, with some seeds of each.
pub fn mistakes(cases: &[Case]) -> String {
    let mut kinds: BTreeMap<(String, String), Vec<&Case>> = BTreeMap::new();
    for c in cases.iter().filter(|c| c.outcome == Outcome::Wrong) {
        let kind = (c.named.words().to_owned(), cause_name(c.cause));
        kinds.entry(kind).or_default().push(c);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|k| std::cmp::Reverse(k.1.len()));
    let mut text = String::from("\n| said | true | times | of these whole captures | seeds |\n|---|---|---|---|---|\n");
    for ((said, truth), cases) in kinds {
        let whole: Vec<_> = cases.iter().filter(|c| c.transforms.is_empty()).collect();
        let mut seeds: Vec<String> = Vec::new();
        // Those of whole captures first: they are the plainest.
        for seed in whole.iter().map(|c| c.seed).chain(cases.iter().map(|c| c.seed)).map(|s| s.to_string()) {
            if seeds.len() < SHOWN && !seeds.contains(&seed) {
                seeds.push(seed);
            }
        }
        text += &format!("| {said} | {truth} | {} | {} | {} |\n", cases.len(), whole.len(), seeds.join(", "));
    }
    text
}
