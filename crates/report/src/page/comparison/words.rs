//! What a comparison of traces says in words.

use compare::{Change, Verdict};
use record::{LegName, Nanos, WaitReason};
use serde_json::Value;
use stats::{Estimate, Quantile};
use summary::TimedKind;
use summary::between::{
    Compared, Comparison, Figure, LabelRuns, LabelShift, Labels, Measure, PathSplit, Runs, Several, Unlike,
};

use crate::view;
use paper::document::{Clause, Text};

/// Quantiles that a verdict gives the values of.
const GIVEN: [Quantile; 3] = [Quantile::P50, Quantile::P90, Quantile::P99];

/// A time.
pub(super) fn time(ns: f64) -> String {
    Nanos(ns.max(0.0).round() as u64).to_string()
}

/// A time with its sign.
pub(super) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", time(ns.abs()))
}

/// Both ends of an interval of times.
pub(super) fn ends(e: &Estimate) -> String {
    format!("{} to {}", signed(e.low), signed(e.high))
}

pub(super) fn between(e: &Estimate) -> String {
    format!("95 % interval {}", ends(e))
}

/// A change by so many times is given as that: nobody reads "1,100 × faster" out of "−99.9 %".
const TIMES: f64 = 3.0;

/// How much longer something takes, by the ratio to what it took: `+43.0 %`, or `1,100 × faster`
/// where it is [`TIMES`] or more. A dash where nothing was taken before.
pub(super) fn longer(ratio: Option<f64>) -> String {
    match ratio {
        None => "—".into(),
        Some(ratio) if ratio >= TIMES => format!("{} slower", quantity::times(ratio)),
        Some(ratio) if ratio > 0.0 && ratio <= 1.0 / TIMES => format!("{} faster", quantity::times(1.0 / ratio)),
        Some(ratio) => quantity::change(ratio - 1.0),
    }
}

/// The interval of a ratio, less 1, in words; why there is none where it says nothing.
pub(super) fn interval(change: &Estimate) -> String {
    if !compare::is_known(change) {
        return format!("not known: {}", study::response::too_wide(change));
    }
    let [low, high] = [1.0 + change.low, 1.0 + change.high];
    let [nearer, farther] = [1.0 / high, 1.0 / low].map(quantity::times);
    match (low >= TIMES, high <= 1.0 / TIMES) {
        (true, _) => format!("{} to {} slower", quantity::times(low), quantity::times(high)),
        (_, true) => format!("{nearer} to {farther} faster"),
        _ => format!("{} to {}", longer(Some(low)), longer(Some(high))),
    }
}

pub(super) fn percent(share: f64) -> String {
    let p = share * 100.0;
    let digits = usize::from(p.abs() < 9.95);
    let sign = if p <= -0.05 { "−" } else { "" };
    format!("{sign}{:.digits$} %", p.abs())
}

/// `median` or `p99`.
fn called(quantile: Quantile) -> String {
    if quantile == Quantile::P50 { "median".into() } else { quantile.to_string() }
}

/// What stands beside a percentile: the tail beside the median, and the median beside the others.
fn beside(quantile: Quantile) -> Quantile {
    if quantile == Quantile::P50 { Quantile::P99 } else { Quantile::P50 }
}

/// The same of that, with what is known of its change.
fn of_beside(called: &str, change: &Change) -> String {
    let [before, after] = change.values.map(time);
    let known = match change.verdict() {
        Verdict::Higher | Verdict::Lower => longer(change.ratio()),
        Verdict::NotSeen => "no difference seen".into(),
        Verdict::TooFew => "too few for an interval".into(),
    };
    format!("; {called} {before} → {after}, {known}")
}

/// `slower` or `faster`, where a difference is seen.
fn way(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Higher => Some("slower"),
        Verdict::Lower => Some("faster"),
        Verdict::NotSeen | Verdict::TooFew => None,
    }
}

/// All of the first kind, and of the others the total. Requests cover the whole path, so they come
/// first.
pub(super) fn verdict(c: &Comparison) -> Vec<Clause> {
    let mut said = all_stuck(&c.unlike);
    said.extend(of_kinds(c));
    said
}

/// Requests are what is asked where there are any; everything else comes after them.
pub(super) fn comes_later(kind: TimedKind) -> bool {
    !matches!(kind, TimedKind::AtClient | TimedKind::AtServer)
}

/// What is said before all else: it is worse than anything that the figures can say, and in none of
/// them.
fn all_stuck(unlike: &[Unlike]) -> Vec<Clause> {
    unlike.iter().filter_map(stuck).map(Clause::finding).collect()
}

/// All that has to be known before a comparison is believed, but for what the verdict begins with.
pub(super) fn warnings(unlike: &[Unlike]) -> Vec<Text> {
    unlike.iter().filter(|one| stuck(one).is_none()).map(warning).collect()
}

/// That connections of a run were stuck; `None` of anything else.
fn stuck(unlike: &Unlike) -> Option<String> {
    let Unlike::Stuck { run, connections, of, idle } = unlike else { return None };
    let (were, up_to) = if *connections == 1 { ("was", "") } else { ("were", "up to ") };
    Some(format!(
        "{run}: {} of {} {were} stuck at the end, for {up_to}{}; what waited there is in no figure of the total.",
        quantity::count(*connections),
        quantity::counted(*of, "connection"),
        quantity::whole(*idle)
    ))
}

fn of_kinds(c: &Comparison) -> Vec<Clause> {
    let mut order: Vec<&Compared> = c.kinds.iter().collect();
    order.sort_by_key(|kind| comes_later(kind.kind));
    let Some((first, rest)) = order.split_first() else { return Vec::new() };
    let mut said = of_kind(&c.names, first);
    let tells = |kind: &&&Compared| kind.legs.iter().any(|leg| leg.moved.iter().any(|m| m.change.by.is_some()));
    for kind in rest.iter().filter(tells) {
        let words = Words { names: &c.names, c: kind };
        said.push(words.headline().into());
        // Which leg it was, and of the network what is the path's alone.
        if kind.moved().is_some() {
            said.extend(words.explanation().map(Clause::finding));
            said.extend(words.beyond_the_path().map(Clause::finding));
        }
    }
    said
}

/// One sentence each, the most important first.
pub(super) fn of_kind(names: &[String; 2], c: &Compared) -> Vec<Clause> {
    let words = Words { names, c };
    let mut said = vec![words.headline().into()];
    if c.verdict().is_none() {
        return said;
    }
    if c.moved().is_some() {
        said.extend(words.explanation().map(Clause::finding));
        said.extend(words.beyond_the_path().map(Clause::finding));
        said.extend(words.reason().map(Clause::finding));
        said.extend(words.place().map(Clause::finding));
    }
    said.extend(c.labels.as_ref().and_then(|labels| of_labels(labels, names)).map(Clause::finding));
    said.extend(words.in_the_call().map(Clause::finding));
    said.extend(words.quantiles().map(Clause::detail));
    said
}

/// One kind of both runs.
struct Words<'a> {
    names: &'a [String; 2],
    c: &'a Compared,
}

impl Words<'_> {
    /// What became of the total.
    fn headline(&self) -> String {
        let ([first, second], c) = (self.names, self.c);
        let (thing, meaning) = (c.kind.thing(), c.kind.legs()[c.kind.total()].meaning);
        let Some(total) = c.total_leg() else {
            return format!(
                "There is nothing to compare: it is known how long {} of {first} and {} of {second} took.",
                view::counted(c.kind, c.n[0]),
                quantity::count(c.n[1])
            );
        };
        let n = format!("n = {} and {}", quantity::count(total.n[0]), view::counted(c.kind, total.n[1]));
        if let Some((m, how)) = c.moved().and_then(|m| Some((m, way(m.change.verdict())?))) {
            let [before, after] = m.change.values;
            let interval = m.change.by.as_ref().map_or_else(String::new, between);
            return format!(
                "{second} is {how} than {first}: {} of {thing}s {} → {}, {} ({interval}; {n}; {meaning}){}.",
                called(m.quantile),
                time(before),
                time(after),
                longer(m.change.ratio()),
                total
                    .moved
                    .iter()
                    .find(|other| other.quantile == beside(m.quantile))
                    .map_or_else(String::new, |other| { of_beside(&called(other.quantile), &other.change) })
            );
        }
        let Some((m, smallest)) = c.smallest() else {
            return format!("There are too few {thing}s to distinguish a difference from chance: {n}.");
        };
        let others = total.moved.iter().filter(|o| o.quantile != m.quantile);
        let others: Vec<String> =
            others.filter_map(|o| Some(format!("of {} {}", o.quantile, time(o.change.smallest?)))).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        format!(
            "No difference between {first} and {second} is seen in {thing}s {meaning}: these runs would have shown a change of the {} \
             of {} or more{others}; {n}.",
            called(m.quantile),
            time(smallest)
        )
    }

    fn explanation(&self) -> Option<String> {
        let total = self.c.total.as_ref()?.difference_ns?;
        let Some(most) = self.c.most() else {
            return Some(format!(
                "The means do not show which leg it is: they differ by {} ({}).",
                signed(total.value),
                between(&total)
            ));
        };
        let rest: Vec<String> = self
            .c
            .explained
            .iter()
            .filter(|e| e.leg != most.leg)
            .filter_map(|e| Some(format!("{} {}", e.leg, percent(e.share?))))
            .collect();
        Some(format!(
            "The {} leg explains {} of the difference of the means: {} of {} ({}); the rest: {}.",
            most.leg,
            percent(most.share?),
            signed(most.mean_ns[1] - most.mean_ns[0]),
            signed(total.value),
            between(&total),
            rest.join(", ")
        ))
    }

    fn beyond_the_path(&self) -> Option<String> {
        if self.c.most()?.leg != LegName::Network {
            return None;
        }
        beyond(self.c.kind, self.c.path, self.names)
    }

    /// What sends waited for in TCP, where that leg explains most.
    fn reason(&self) -> Option<String> {
        let ([first, second], waited) = (self.names, self.c.reason()?);
        let [before, after] = waited.mean_ns.map(time);
        Some(format!("It waited for the {}: {before} in {first} and {after} in {second}, in the mean.", waited.reason))
    }

    /// What changed in the call that writes.
    fn in_the_call(&self) -> Option<String> {
        let ([first, second], (m, waited)) = (self.names, self.c.in_the_call()?);
        let held = waited.map_or_else(String::new, |w| {
            let by = match w.reason {
                WaitReason::SendBuffer => "limited by the buffer's size alone".to_owned(),
                reason => format!("held by the {reason}"),
            };
            let [before, after] = w.mean_ns.map(time);
            format!("; a send waited {before} and {after} in the mean for room in the send buffer, {by}")
        });
        let [before, after] = m.change.values.map(time);
        Some(format!(
            "The call that writes changed as well, before all of this: {} {before} in {first} → {after} in {second}{held}.",
            called(m.quantile)
        ))
    }

    fn place(&self) -> Option<String> {
        let (c, most) = (self.c, self.c.peers.first()?);
        let name = most.peer.map_or_else(|| "connections that are not known".to_owned(), |p| p.to_string());
        let mut said = if c.peers.len() == 1 {
            format!("All of it is with one peer, {name}")
        } else {
            let how = if most.slower_ns.abs() >= most.mix_ns.abs() {
                format!("with changed {}s", c.kind.thing())
            } else {
                format!("which has another share of the {}s", c.kind.thing())
            };
            let peers = quantity::counted(c.peers.len() as u64, "peer");
            format!("{} of it is with {name}, {how} ({peers} in all)", percent(most.share?))
        };
        // A few connections that make most of it are worth a name.
        if let Some((one, share, remote)) = c.one_connection().and_then(|one| Some((one, one.share?, one.remote?))) {
            let local = one.local.map_or_else(String::new, |local| format!("{local} → "));
            let second = &self.names[1];
            said.push_str(&format!("; one connection of {second}, {local}{remote}, makes {} of it", percent(share)));
            if share > 1.0 {
                said.push_str(", and others work against it");
            }
        }
        said.push('.');
        Some(said)
    }

    /// Below which time most records are.
    fn quantiles(&self) -> impl Iterator<Item = String> {
        let ([first, second], thing) = (self.names, self.c.kind.thing());
        let moved = self.c.total_leg().into_iter().flat_map(|total| &total.moved);
        moved.filter(|m| GIVEN.contains(&m.quantile)).map(move |m| {
            let [before, after] = m.change.values.map(time);
            let share = quantity::percent(m.quantile.share());
            format!("{share} of {thing}s under {before} in {first}, under {after} in {second}.")
        })
    }
}

/// The network leg ends with the ACK, and the peer decides when that leaves: only the minimum RTT
/// is the path's alone.
fn beyond(kind: TimedKind, split: Option<PathSplit>, [first, second]: &[String; 2]) -> Option<String> {
    let of_sends = kind == TimedKind::Sends;
    let Some(split) = split else {
        return of_sends.then(|| {
            "The network leg ends with the ACK: whether the path or the peer took the time cannot be said, since no minimum RTT is known."
                .into()
        });
    };
    let change = |of: [f64; 2]| of[1] - of[0];
    let (path, beyond) = (change(split.least_rtt_ns), change(split.beyond_ns));
    let [least, other] = split.least_rtt_ns.map(time);
    let rtt = format!("the minimum RTT of the connections is {least} in {first} and {other} in {second}");
    Some(if path.abs() >= beyond.abs() {
        let what = if of_sends { "ACK" } else { "network" };
        format!(
            "The path itself changed: {rtt}, {} of the {} more for the {what}.",
            signed(path),
            signed(path + beyond)
        )
    } else {
        let why = match of_sends {
            true => "the peer delays its ACKs, sends them with its answers, or a queue is on the path",
            false => "a queue is on the path, or the peer delays its ACKs",
        };
        format!("The path itself explains {} of that: {rtt}. {} is beyond it: {why}.", signed(path), signed(beyond))
    })
}

/// So many methods and paths, in words.
fn methods(n: usize) -> String {
    if n == 1 { "1 method and path".into() } else { format!("{} methods and paths", quantity::count(n as u64)) }
}

/// What changed in requests by method and path.
fn of_labels(labels: &Labels, [first, second]: &[String; 2]) -> Option<String> {
    let few = labels.each.iter().filter(|label| !label.tells()).count();
    let told = labels.each.len() - few;
    if labels.each.is_empty() {
        return Some(format!("No method and path is known of requests of both {first} and {second}."));
    }
    if told == 0 {
        return Some(format!(
            "There are too few requests of each of {} that both runs have to distinguish a change from chance.",
            methods(few)
        ));
    }
    let changed: Vec<&LabelShift> = labels.each.iter().filter(|label| label.most().is_some()).collect();
    let but = but_few(few);
    let Some(most) = changed.first() else {
        return Some(format!("No change is seen in any of {} that both runs have{but}.", methods(told)));
    };
    let (moved, n) = (most.most()?, most.n.map(quantity::count));
    let [before, after] = moved.change.values.map(time);
    Some(format!(
        "{} of {} that both runs have changed{but}. The largest change, over all its requests, is that of {}: {} {before} in {first} → \
         {after} in {second}, {}; n = {} and {} requests.",
        quantity::count(changed.len() as u64),
        methods(told),
        most.label,
        called(moved.quantile),
        longer(moved.change.ratio()),
        n[0],
        n[1]
    ))
}

fn but_few(few: usize) -> String {
    if few > 0 { format!("; there are too few requests of {}", methods(few)) } else { String::new() }
}

/// What clauses say.
fn said(clauses: Vec<Clause>) -> Vec<Text> {
    clauses.into_iter().map(|clause| clause.text).collect()
}

/// What has to be known before a comparison is believed.
fn warning(unlike: &Unlike) -> Text {
    let differ = |what: &str, [first, second]: &[String; 2], [x, y]: [String; 2], so: &str| {
        Text::from(format!("They differ in {what}: {x} in {first}, {y} in {second}; {so}."))
    };
    match unlike {
        Unlike::Read { run, said } => format!("{run}: {said}").into(),
        Unlike::Sampling { runs, how } => {
            differ("sampling", runs, how.map(view::sampling), "the sends that were traced may not be of the same kind")
        }
        Unlike::Backend { runs, which } => {
            differ("backend", runs, which.clone(), "they do not take their stamps at quite the same places")
        }
        Unlike::Kernel { runs, release } => {
            differ("kernel", runs, release.clone(), "what a leg costs differs between kernels too")
        }
        Unlike::Leg { runs, kind, leg, within, stamped } => differ(
            &format!("the {leg} leg of {}s", kind.thing()),
            runs,
            stamped.map(|stamped| if stamped { "stamped" } else { "not stamped" }.to_owned()),
            &format!("it is taken together with {within} where parts are compared"),
        ),
        Unlike::Alone(kinds) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.title()).collect();
            format!("Only one of the two runs has these, so they are not compared: {}.", kinds.join(", ")).into()
        }
        Unlike::Labels { run, kind } => Text::from(format!("Method and path are known of {run} alone ("))
            .and(Text::code("trace --http"))
            .and(format!("): {} are not compared by them.", kind.title().to_lowercase())),
        Unlike::NotRecorded { run, share, n } => format!(
            "{run}: {} of its sends were not recorded (n = {}); if they were the slow ones, it looks faster than it was.",
            quantity::percent(*share),
            quantity::count(*n)
        )
        .into(),
        Unlike::Unacknowledged { run, share } => format!(
            "{run}: {} of its sends ended without an ACK and are in no figure of the total.",
            quantity::percent(*share)
        )
        .into(),
        Unlike::Stuck { .. } => stuck(unlike).unwrap_or_default().into(),
        Unlike::Coverage { runs: [first, second], share } => format!(
            "They traced different shares of the traffic: {} of the bytes in {first}, {} in {second}.",
            quantity::percent(share[0]),
            quantity::percent(share[1])
        )
        .into(),
        Unlike::OneRunOfEach => Text::from(
            "There is one run of each: how much runs of one setting differ is in no interval. Trace each several times and compare them: ",
        )
        .and(Text::code("wirelapse compare A1 A2 A3 -- B1 B2 B3"))
        .and("."),
    }
}

/// What is said of several runs of each side.
pub(super) fn of_several(s: &Several) -> Vec<Clause> {
    let mut kinds: Vec<&Runs> = s.kinds.iter().collect();
    kinds.sort_by_key(|runs| comes_later(runs.kind));
    let verdict: Vec<Clause> = kinds.into_iter().flat_map(|runs| of_runs(s, runs)).collect();
    if verdict.is_empty() {
        return vec!["There is nothing to compare: no kind of record is in every run.".into()];
    }
    let mut said = all_stuck(&s.unlike);
    said.extend(verdict);
    said
}

/// One kind of several runs.
pub(super) fn of_runs(s: &Several, runs: &Runs) -> Vec<Clause> {
    let kind = runs.kind;
    let (total, thing) = (&kind.legs()[kind.total()], kind.thing());
    let names = [0, 1].map(|side| {
        let (name, n) = (&s.names[side], quantity::counted(s.runs[side].len() as u64, "run"));
        format!("{name} ({n})")
    });
    let mut said: Vec<Clause> = Vec::new();
    if let Some(main) = runs.main() {
        let most = main.runs.spread().into_iter().flatten().fold(0.0, f64::max);
        let noise = format!("Runs of one side differ by up to {}.", quantity::percent(most));
        let interval = main.change.by.as_ref().map_or_else(String::new, interval);
        said.push(Clause::finding(match way(main.change.verdict()) {
            Some(how) => format!(
                "{} is {how} than {}: {} of {thing}s {} → {}, {} ({}; interval {interval}){}. {noise}",
                names[1],
                names[0],
                measured(main),
                time(main.change.values[0]),
                time(main.change.values[1]),
                longer(main.change.ratio()),
                total.meaning,
                beside_of_runs(runs, main).map_or_else(String::new, |other| of_beside(&measured(other), &other.change))
            ),
            None => format!(
                "No difference between {} and {} is seen in {thing}s {}: {} {} (interval {interval}){}. {noise}",
                names[0],
                names[1],
                total.meaning,
                measured(main),
                longer(main.change.ratio()),
                main.change.smallest.and_then(study::response::visible).map_or_else(String::new, |smallest| {
                    format!("; these runs would have shown a change of {smallest} or more")
                })
            ),
        }));
        if let Some((leg, share)) = runs.most().filter(|_| main.change.is_seen()) {
            said.push(
                format!("The {} leg explains {} of the difference of the means.", leg.leg, percent(share)).into(),
            );
            if leg.leg == LegName::Network {
                said.extend(beyond(kind, runs.path, &s.names).map(Clause::finding));
            }
        }
    } else {
        said.push(format!("There are too few {thing}s in a run to compare.").into());
    }
    said.extend(of_label_runs(&runs.labels, &s.names).map(Clause::finding));
    said
}

/// The figure of the total that stands beside the one which speaks for all.
fn beside_of_runs<'a>(runs: &'a Runs, main: &Figure) -> Option<&'a Figure> {
    let quantile = match main.measure {
        Measure::Quantile(quantile) => beside(quantile),
        Measure::Mean => Quantile::P99,
    };
    runs.figures.iter().find(|figure| figure.leg == main.leg && figure.measure == Measure::Quantile(quantile))
}

fn measured(figure: &Figure) -> String {
    match figure.measure {
        Measure::Mean => "mean".into(),
        Measure::Quantile(quantile) => called(quantile),
    }
}

/// What is said of methods and paths, where there are any.
fn of_label_runs(labels: &[LabelRuns], [first, second]: &[String; 2]) -> Option<String> {
    let enough = labels.iter().filter(|label| !label.figures.is_empty()).count();
    if labels.is_empty() {
        return None;
    }
    if enough == 0 {
        return Some(format!("There are too few requests of each of {} to compare by.", methods(labels.len())));
    }
    let changed = labels.iter().filter(|label| label.most().is_some()).count() as u64;
    let but = but_few(labels.len() - enough);
    let Some((label, figure)) = labels.iter().find_map(|label| Some((label, label.most()?))) else {
        return Some(format!("No change is seen in any of {} that every run has{but}.", methods(enough)));
    };
    let [before, after] = figure.change.values.map(time);
    Some(format!(
        "{} of {} that every run has changed{but}. The largest change, over all its requests, is that of {}: {} {before} in {first} → \
         {after} in {second}, {} (interval {}).",
        quantity::count(changed),
        methods(enough),
        label.label,
        measured(figure),
        longer(figure.change.ratio()),
        figure.change.by.as_ref().map_or_else(String::new, interval)
    ))
}

/// A comparison of two runs for programs: its figures, and what is said of them.
///
/// # Errors
/// Those of serialising.
pub fn json(c: &Comparison) -> serde_json::Result<Value> {
    let kinds = c.kinds.iter().map(|kind| of_kind(&c.names, kind));
    worded(serde_json::to_value(c)?, verdict(c), &c.unlike, kinds)
}

/// The same of several runs of each side.
///
/// # Errors
/// Those of serialising.
pub fn json_of_several(s: &Several) -> serde_json::Result<Value> {
    worded(serde_json::to_value(s)?, of_several(s), &s.unlike, s.kinds.iter().map(|runs| of_runs(s, runs)))
}

fn worded(
    mut value: Value,
    verdict: Vec<Clause>,
    unlike: &[Unlike],
    each: impl Iterator<Item = Vec<Clause>>,
) -> serde_json::Result<Value> {
    value["verdict"] = serde_json::to_value(said(verdict))?;
    value["warnings"] = serde_json::to_value(warnings(unlike))?;
    for (kind, clauses) in value["kinds"].as_array_mut().into_iter().flatten().zip(each) {
        kind["verdict"] = serde_json::to_value(said(clauses))?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::Scale;
    use stats::Judgement;

    #[test]
    fn a_change_of_three_times_or_more_is_a_ratio() {
        let said = [1.43, 0.57, 2.9, 3.2, 0.4, 0.3, 1_132.0, 1.0 / 1_132.0].map(|ratio| longer(Some(ratio)));
        assert_eq!(
            said,
            [
                "+43.0 %",
                "−43.0 %",
                "+190.0 %",
                "3.2 × slower",
                "−60.0 %",
                "3.3 × faster",
                "1,100 × slower",
                "1,100 × faster"
            ]
        );
        assert_eq!(longer(None), "—");
    }

    #[test]
    fn the_tail_stands_beside_the_median_with_what_is_known_of_it() {
        assert_eq!(
            [Quantile::P50, Quantile::P99, Quantile::P90].map(beside),
            [Quantile::P99, Quantile::P50, Quantile::P50]
        );
        let change = |values: [f64; 2], error: Option<f64>| Change {
            by: error.map(|error| Judgement::ALONE.around(values[1] - values[0], error, 40)),
            ..Change::without_interval(values, Scale::Difference)
        };
        let said = |change: Change| of_beside("p99", &change);
        assert_eq!(said(change([40e6, 160e6], Some(1e6))), "; p99 40.0 ms → 160 ms, 4.0 × slower");
        assert_eq!(said(change([40e6, 44e6], Some(9e6))), "; p99 40.0 ms → 44.0 ms, no difference seen");
        assert_eq!(said(change([40e6, 44e6], None)), "; p99 40.0 ms → 44.0 ms, too few for an interval");
    }
}
