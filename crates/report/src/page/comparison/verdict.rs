//! What a comparison says in words.

use record::{Leg, Nanos, WaitReason};
use stats::Estimate;

use super::{Compared, Moved, PathSplit};
use crate::view;
use summary::TimedKind;

/// A time with its sign.
pub(super) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", Nanos(ns.abs().round() as u64))
}

pub(super) fn between(e: &Estimate) -> String {
    format!("95 % interval {} to {}", signed(e.low), signed(e.high))
}

/// A shift as a share of the first value; a dash where that is 0.
pub(super) fn relative(first: f64, shift: f64) -> String {
    if first > 0.0 { quantity::change(shift / first) } else { "—".into() }
}

pub(super) fn percent(share: f64) -> String {
    let p = share * 100.0;
    let digits = usize::from(p.abs() < 9.95);
    let sign = if p <= -0.05 { "−" } else { "" };
    format!("{sign}{:.digits$} %", p.abs())
}

/// All of the first kind, and of the others the total. Requests cover the whole path, so they come first.
pub(super) fn overall(kinds: &[Compared], [first_name, second_name]: [&String; 2]) -> Vec<String> {
    let mut order: Vec<&Compared> = kinds.iter().collect();
    order.sort_by_key(|c| !matches!(c.kind, TimedKind::AtClient | TimedKind::AtServer));
    let Some((first, rest)) = order.split_first() else { return Vec::new() };
    let mut said = first.verdict.clone();
    let tells =
        |compared: &&&Compared| compared.legs.iter().any(|leg| leg.moved.iter().any(|m| m.figures.shift.is_some()));
    for compared in rest.iter().filter(tells) {
        // That they moved, which leg it was, and of the network what is the path's alone; or that they did not.
        let sentences = match moved(compared) {
            Some(_) => 2 + usize::from(beyond_the_path(compared, [first_name, second_name]).is_some()),
            None => 1,
        };
        said.extend(compared.verdict.iter().take(sentences).cloned());
    }
    said
}

/// The median speaks for the run; where it did not move, the quantile that did most does.
fn moved(c: &Compared) -> Option<&Moved> {
    let total = c.legs.iter().find(|l| l.leg == c.kind.legs()[c.kind.total()].name)?;
    let seen: Vec<&Moved> = total.moved.iter().filter(|m| m.seen).collect();
    let relative = |m: &&&Moved| {
        let f = m.figures;
        (f.second as f64 / f.first.max(1) as f64).ln().abs()
    };
    let main = seen.iter().find(|m| m.quantile == "p50");
    main.or_else(|| seen.iter().max_by(|x, y| relative(x).total_cmp(&relative(y)))).copied()
}

/// One sentence each, the most important first.
pub(super) fn of(c: &Compared, [first, second]: [&String; 2]) -> Vec<String> {
    let (kind, thing) = (c.kind, c.kind.thing());
    let meaning = kind.legs()[kind.total()].meaning;
    let counted = |n: u64| view::counted(kind, n);
    let total = c.legs.iter().find(|l| l.leg == kind.legs()[kind.total()].name);
    let Some(total) = total.filter(|l| l.n.iter().all(|n| *n > 0)) else {
        return vec![format!(
            "There is nothing to compare: of {} of {first} and {} of {second} it is known how long they took.",
            counted(c.n[0]),
            quantity::count(c.n[1])
        )];
    };
    let mut said = Vec::new();
    let n = format!("n = {} and {}", quantity::count(total.n[0]), counted(total.n[1]));
    if let Some(m) = moved(c)
        && let Some(shift) = m.figures.shift
    {
        let how = if shift.value > 0.0 { "slower" } else { "faster" };
        said.push(format!(
            "{second} is {how} than {first}: {meaning}, {} of {thing}s went from {} to {}, {} or {} ({}); {n}.",
            m.quantile,
            Nanos(m.figures.first),
            Nanos(m.figures.second),
            signed(shift.value),
            relative(m.figures.first as f64, shift.value),
            between(&shift)
        ));
        said.extend(explanation(c));
        said.extend(beyond_the_path(c, [first, second]));
        said.extend(reason(c, [first, second]));
        said.extend(place(c, second));
    } else if let Some((m, smallest)) = total.moved.iter().find_map(|m| Some((m, m.figures.smallest_seen?))) {
        let others: Vec<String> = total
            .moved
            .iter()
            .filter(|o| o.quantile != m.quantile)
            .filter_map(|o| Some(format!("{} {}", o.quantile, Nanos(o.figures.smallest_seen? as u64))))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        said.push(format!(
            "No difference between {first} and {second} is seen in {thing}s {meaning}; the smallest shift of {} that these runs could \
             have shown is {}{others}; {n}.",
            m.quantile,
            Nanos(smallest as u64)
        ));
    } else {
        said.push(format!("There are too few to distinguish a difference from chance: {n}."));
    }
    said.extend(c.labels.iter().flat_map(|labels| labels.sentence([first, second])));
    said.extend(in_the_call(c, [first, second]));
    for quantile in ["p50", "p90", "p99"] {
        if let Some(m) = total.moved.iter().find(|m| m.quantile == quantile) {
            said.push(format!(
                "{} % of {thing}s under {} in {first}, under {} in {second}.",
                &quantile[1..],
                Nanos(m.figures.first),
                Nanos(m.figures.second)
            ));
        }
    }
    said
}

fn explanation(c: &Compared) -> Option<String> {
    let total = c.total.as_ref()?.difference_ns?;
    let Some(most) = most(c) else {
        return Some(format!(
            "The means do not show which leg it is: their difference is {} ({}).",
            signed(total.value),
            between(&total)
        ));
    };
    let rest: Vec<String> = c
        .explained
        .iter()
        .filter(|e| e.leg != most.leg)
        .filter_map(|e| Some(format!("{} {}", e.leg, percent(e.share?))))
        .collect();
    Some(format!(
        "The {} leg explains {} of the difference of the means, {} of {} ({}); the rest: {}.",
        most.leg,
        percent(most.share?),
        signed(most.mean_ns[1] - most.mean_ns[0]),
        signed(total.value),
        between(&total),
        rest.join(", ")
    ))
}

/// The leg that explains most of a difference that is seen.
fn most(c: &Compared) -> Option<&super::Explained> {
    let by = |e: &&super::Explained| e.share.unwrap_or(0.0);
    c.explained.iter().filter(|e| e.share.is_some()).max_by(|x, y| by(x).total_cmp(&by(y)))
}

fn beyond_the_path(c: &Compared, names: [&String; 2]) -> Option<String> {
    if most(c)?.leg != Leg::Network.name() {
        return None;
    }
    beyond(c.kind, c.path, names)
}

/// The network leg ends with the ACK, and the peer decides when that leaves: only the minimum RTT is the path's alone.
pub(super) fn beyond(kind: TimedKind, split: Option<PathSplit>, [first, second]: [&String; 2]) -> Option<String> {
    let of_sends = kind == TimedKind::Sends;
    let Some(split) = split else {
        return of_sends.then(|| {
            "The network leg ends with the ACK: whether the path or the peer took the time cannot be said, since no minimum RTT is known."
                .into()
        });
    };
    let change = |of: [f64; 2]| of[1] - of[0];
    let (path, beyond) = (change(split.least_rtt_ns), change(split.beyond_ns));
    let [least, other] = split.least_rtt_ns.map(|ns| Nanos(ns.round() as u64));
    Some(if path.abs() >= beyond.abs() {
        format!(
            "The path itself changed: the connections' minimum RTT is {least} in {first} and {other} in {second}, {} of {} more for \
             the {}.",
            signed(path),
            signed(path + beyond),
            if of_sends { "ACK" } else { "network" }
        )
    } else {
        format!(
            "The path itself explains {} of that: the connections' minimum RTT is {least} in {first} and {other} in {second}. {} is \
             beyond it: {}.",
            signed(path),
            signed(beyond),
            match of_sends {
                true => "the peer delays its ACKs, sends them with its answers, or a queue stands on the path",
                false => "a queue stands on the path, or the peer delays its ACKs",
            }
        )
    })
}

/// What sends waited for in TCP, where that leg explains most.
fn reason(c: &Compared, [first, second]: [&String; 2]) -> Option<String> {
    let leg = most(c).filter(|e| e.leg == Leg::Tcp.name())?;
    let waited = c.waited.iter().find(|w| w.leg == leg.leg)?;
    let [before, after] = waited.mean_ns;
    // What accounts for little of the leg's change is not its reason.
    ((after - before) / (leg.mean_ns[1] - leg.mean_ns[0]) >= 0.5).then(|| {
        format!(
            "It waited for the {}: {} in {first} and {} in {second}, in the mean.",
            waited.reason,
            Nanos(before.round() as u64),
            Nanos(after.round() as u64)
        )
    })
}

/// The call that writes comes before the total, so that its change is in no other sentence.
fn in_the_call(c: &Compared, [first, second]: [&String; 2]) -> Option<String> {
    let call = c.legs.iter().find(|l| c.kind == TimedKind::Sends && l.leg == Leg::Call.name())?;
    let total = c.legs.iter().find(|l| l.leg == Leg::Total.name())?;
    let whole = total.moved.iter().map(|m| m.figures.first.max(m.figures.second)).max().unwrap_or(0) as f64;
    let seen = call.moved.iter().filter(|m| m.seen).filter_map(|m| Some((m, m.figures.shift?.value)));
    let (m, shift) = seen.max_by(|x, y| x.1.abs().total_cmp(&y.1.abs()))?;
    // Of a copy alone, the call takes microseconds.
    if shift.abs() < whole / 20.0 {
        return None;
    }
    let held = c.waited.iter().find(|w| w.leg == Leg::Call.name()).map_or_else(String::new, |w| {
        let by = match w.reason {
            WaitReason::SendBuffer => "limited by the buffer's size alone".to_owned(),
            reason => format!("held by the {reason}"),
        };
        let [before, after] = w.mean_ns.map(|ns| Nanos(ns.round() as u64));
        format!("; a send waited {before} and {after} in the mean for room in the send buffer, {by}")
    });
    Some(format!(
        "The call that writes changed as well, before all of this: {} went from {} in {first} to {} in {second}{held}.",
        m.quantile,
        Nanos(m.figures.first),
        Nanos(m.figures.second)
    ))
}

fn place(c: &Compared, second: &str) -> Option<String> {
    let most = c.peers.first()?;
    let name = most.peer.map_or_else(|| "connections that are not known".to_owned(), |p| p.to_string());
    let mut said = if c.peers.len() == 1 {
        format!("All of it sits in one peer, {name}")
    } else {
        let how = if most.slower_ns.abs() >= most.mix_ns.abs() {
            format!("with changed {}s", c.kind.thing())
        } else {
            format!("which has another share of the {}s", c.kind.thing())
        };
        format!(
            "{} of it sits in {name}, {how}; of {}",
            percent(most.share?),
            quantity::counted(c.peers.len() as u64, "peer")
        )
    };
    // A few connections that make most of it are worth a name.
    if let [one, _, ..] = c.connections.as_slice()
        && let (Some(share @ 0.5..), Some(remote)) = (one.share, one.remote)
    {
        let local = one.local.map_or_else(String::new, |local| format!("{local} → "));
        said.push_str(&format!("; one connection of {second}, {local}{remote}, makes {} of it", percent(share)));
        if share > 1.0 {
            said.push_str(", and others work against it");
        }
    }
    said.push('.');
    Some(said)
}
