//! What `advise` found: what limits the connection, how like it the twin is, what each remedy was
//! worth there, and how the best one is set and taken back.

use advise::{Advice, Applied, Effect, Fit, Goal, Left, Outcome, Together};
use diagnose::conditions::{Basis, Conditions, Known};
use paper::document::{Cell, Clause, Document, Section, Table, Text, columns};
use quantity::{bit_rate, bytes, change, percent};
use record::conversation::{Limit, Way};
use record::{Nanos, Opening, WaitReason};

use super::command;
use summary::TraceSummary;

/// What a page on a connection of a capture ends in, where `advise` has something to try on it.
pub fn try_on(capture: &str, connection: usize, lost: Nanos) -> Text {
    let words = ["wirelapse".to_owned(), "advise".to_owned(), format!("{capture}#{connection}")];
    let why = format!(": it measures in a lab which setting would save how much of these {lost}.");
    Text::from("Try ").and(Text::code(command(&words))).and(why)
}

/// What sends wait for that a remedy can be for.
const REMEDIED: [WaitReason; 5] = [
    WaitReason::CongestionWindow,
    WaitReason::ReceiveWindow,
    WaitReason::SendBuffer,
    WaitReason::Nagle,
    WaitReason::Retransmission,
];

/// What the page on the trace of a process ends in, where `advise` has something to try: its sends
/// waited long for what remedies are for, and it opens connections, whose beginning can be seen.
pub fn try_on_process(summary: &TraceSummary, pid: u32) -> Option<Text> {
    let opens = summary.connections().iter().any(|c| c.connection.opening != Opening::Found);
    let sends = summary.total();
    let waited = |reason| sends.wait(reason).time;
    let most = REMEDIED.into_iter().max_by_key(|reason| waited(*reason))?;
    let is_much = waited(most) >= NOTICED && u128::from(waited(most).0) * 20 >= sends.time();
    let words = ["wirelapse", "advise", "-p", &pid.to_string()].map(str::to_owned);
    let why = format!(
        ": it measures in a lab which setting would save how much of the {} that sends waited for ({most}).",
        waited(most)
    );
    (opens && is_much).then(|| Text::from("Try ").and(Text::code(command(&words))).and(why))
}

/// Below this, nobody waits for what could be saved.
const NOTICED: Nanos = Nanos::from_millis(10);

/// The page.
pub fn document(file: &str, advice: &Advice) -> Document {
    let c = &advice.conditions;
    let title = Text::from(format!("Connection {} of {file}: ", c.connection)).and(Text::ends(c.client, c.server));
    let mut warnings: Vec<Text> = advice.chosen.iter().map(|why| why.as_str().into()).collect();
    if let Some(taken) = advice.fit.as_ref().and_then(|fit| fit.taken.as_ref()) {
        let text = format!("What the capture does not show was chosen so that the twin agrees best: {taken}.");
        warnings.push(text.into());
    }
    let sections = vec![remedies(advice), apply(advice), twin(advice), conditions(c), not_tried(advice)];
    Document {
        title,
        about: format!("captured {}", c.captured),
        verdict: verdict(advice),
        warnings,
        sections: sections.into_iter().filter(|s| !s.blocks.is_empty()).collect(),
        ..Document::default()
    }
}

fn verdict(advice: &Advice) -> Vec<Clause> {
    let c = &advice.conditions;
    let mut all: Vec<Clause> = Vec::new();
    if !advice.withheld.is_empty() {
        let why = advice.withheld.join("; ");
        all.push(format!("No setting is advised: {why}.").into());
    } else if let Some(best) = advice.best() {
        all.push(Clause::finding(worth(best, advice.goal)).with_next(next(best)));
        all.extend(as_good(advice).map(Clause::detail));
        all.extend(advice.combination.as_ref().map(|of| Clause::detail(together(of))));
        let over = advice.goal != Goal::Latency && best.unfinished == [0, 0];
        all.extend(a_second(best).filter(|_| over).map(Clause::detail));
    } else {
        let whose = advice.program().map(|(side, share)| format!(": the {side}'s program took {}", percent(share)));
        let whose = whose.unwrap_or_default();
        let tried = quantity::counted(advice.remedies.len() as u64, "setting");
        let close = advice.remedies.iter().filter_map(|r| r.smallest_seen).reduce(f64::max);
        let least =
            close.map_or(String::new(), |least| format!("; a change of {} would have been seen", percent(least)));
        all.push(format!("No setting of the network helps{whose}. Tried in the twin: {tried}{least}.").into());
    }
    all.extend(advice.applied.as_ref().map(applied));
    all.push(Clause::detail(format!("What limits it: {}.", c.verdict.trim_end_matches('.'))));
    if let Some(fit) = &advice.fit {
        all.push(Clause::detail(agreement(fit)));
    }
    all
}

/// What a remedy was worth, in a sentence.
fn worth(best: &Outcome, goal: Goal) -> String {
    let (low, high) = best.within.unwrap_or_default();
    let [before, after] = [(best.before_ns, best.unfinished[0]), (best.after_ns, best.unfinished[1])].map(|(of, n)| {
        let time = of.unwrap_or_default();
        if n * 2 > best.n { format!("not over after {time}") } else { time.to_string() }
    });
    format!(
        "{} at {} saves {} of {}: {before} → {after} (95 % interval {} to {}, {} in the twin)",
        best.remedy,
        best.place,
        percent(-best.change.unwrap_or_default()),
        compared(goal),
        percent(-high),
        percent(-low),
        quantity::counted(best.n as u64, "paired run")
    )
}

/// What is compared.
const fn compared(goal: Goal) -> &'static str {
    match goal {
        Goal::Completion | Goal::Throughput => "its time",
        Goal::Latency => "the wait for an answer, or of the round trip where nothing is answered",
    }
}

/// What does as much as the best.
fn as_good(advice: &Advice) -> Option<String> {
    let names: Vec<&str> = advice.level().map(|o| o.remedy.as_str()).collect();
    let does = if names.len() > 1 { "do" } else { "does" };
    (!names.is_empty()).then(|| format!("As far as these trials can tell, {} {does} as much.", names.join(" or ")))
}

/// Whether several remedies do more than the best of them.
fn together(of: &Together) -> String {
    let [before, after] = of.medians_ns.unwrap_or_default();
    let (low, high) = of.within.unwrap_or_default();
    format!(
        "Together, {} save another {}: {before} → {after} (95 % interval {} to {}, n = {}).",
        of.remedies.join(" and "),
        percent(-of.change.unwrap_or_default()),
        percent(-high),
        percent(-low),
        of.n
    )
}

/// What it did to the real program.
fn applied(of: &Applied) -> Clause {
    let set: Vec<String> = of.set.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let (promised, low, high) = of.promised;
    let [before, after] = of.n.map(|n| quantity::counted(n as u64, "connection"));
    Clause::finding(format!(
        "{} on this host ({}): the time that a byte took went {} ({before} before, {after} after), promised was {} ({} to {}): the \
         promise {}. {}.",
        of.remedy,
        set.join(", "),
        change(of.change()),
        change(promised),
        change(low),
        change(high),
        if of.held() { "held" } else { "did not hold" },
        match of.left {
            Left::PutBack => "It was put back",
            Left::Watched => "It stays set while `advise` watches it",
            Left::Set => "It was left set until the next boot",
        }
    ))
}

/// How many such connections there would be a second, one after the other.
fn a_second(best: &Outcome) -> Option<String> {
    let short = |time: Option<Nanos>| time.filter(|t| (1..200_000_000).contains(&t.0));
    let [before, after] = [short(best.before_ns)?, short(best.after_ns)?].map(|t| quantity::count(1_000_000_000 / t.0));
    Some(format!("One after the other, that is {before} such connections a second, and {after} with it."))
}

fn next(best: &Outcome) -> Option<Text> {
    best.set.first().map(|line| Text::from(format!("set it ({}): ", line.place)).and(Text::code(line.text.as_str())))
}

fn agreement(fit: &Fit) -> String {
    format!(
        "The twin took {} where the original took {} ({}); no limit's share is off by more than {} points (n = {}).",
        fit.twin_ns,
        fit.original_ns,
        change(fit.apart()),
        (fit.points * 100.0).round(),
        fit.runs
    )
}

fn remedies(advice: &Advice) -> Section {
    let mut section = Section::new("Remedies");
    let groups = [
        (Effect::Helps, "What helps"),
        (Effect::NoDifference, "What makes no difference that was seen"),
        (Effect::Harms, "What makes it worse"),
        (Effect::NotTried, "What would be tried"),
    ];
    for (effect, title) in groups {
        let figures = ["without", "with", "change", "95 % interval", "would have been seen", "with it, by theory", "n"];
        let mut table = Table::new(title, columns(["remedy", "where"], figures));
        for o in advice.that(effect) {
            let signed = |share: Option<f64>| Cell::or(share, |s| Cell::figure(change(s)), "it was not tried");
            let within = |(low, high): (f64, f64)| Cell::figure(format!("{} to {}", change(low), change(high)));
            table.push([
                Cell::from(o.remedy.as_str()),
                Cell::from(o.place.as_str()),
                Cell::time_or(o.before_ns, "it was not tried"),
                Cell::time_or(o.after_ns, "it was not tried"),
                signed(o.change),
                Cell::or(o.within, within, "it was not tried"),
                Cell::or(o.smallest_seen, |s| Cell::figure(percent(s)), "it was not tried"),
                Cell::time_or(o.predicted_ns, "no finding says what it is worth"),
                Cell::count(o.n as u64),
            ]);
        }
        section.table(table);
    }
    let given_up = |o: &Outcome| {
        let [before, after] = o.unfinished;
        let n = quantity::count(o.n as u64);
        let text = format!(
            "{}: {before} of {n} runs without it and {after} with it were given up; their bound is their time.",
            o.remedy
        );
        (before + after > 0).then_some(text)
    };
    section.list(advice.remedies.iter().filter_map(given_up));
    section.list(advice.remedies.iter().filter_map(|o| Some(format!("{}: {}", o.remedy, o.failed.as_ref()?))));
    section
}

fn apply(advice: &Advice) -> Section {
    let Some(best) = advice.best() else { return Section::default() };
    let mut section = Section::new(format!("{} at {}", best.remedy, best.place));
    section.say(format!("To {}.", best.what));
    let mut table = Table::new("How it is set and taken back", columns(["", "where", "what"], []));
    for (what, lines) in [("set", &best.set), ("take back", &best.undo)] {
        table.extend(lines.iter().map(|line| {
            [Cell::from(what), Cell::from(line.place.as_str()), Cell::from(Text::code(line.text.as_str()))]
        }));
    }
    section.table(table);
    section.say(format!("What it costs: {}. Source: {}.", best.costs, best.source));
    section
}

fn twin(advice: &Advice) -> Section {
    let mut section = Section::new("Where the time goes");
    let Some(fit) = &advice.fit else { return budget_alone(&advice.conditions, section) };
    let with = advice.after.as_ref().map(|_| match advice.combination {
        Some(_) => "twin with the combination",
        None => "twin with the remedy",
    });
    let mut table =
        Table::new("Time by what limited it", columns(["limit"], ["original", "twin"].into_iter().chain(with)));
    for limit in Limit::ALL {
        let of = |shares: &[(String, f64)]| shares.iter().find(|(name, _)| name == limit.name()).map_or(0.0, |s| s.1);
        let all =
            [Some(advice.conditions.share(limit)), Some(of(&fit.shares)), advice.after.as_ref().map(|a| of(&a.shares))];
        if all.iter().flatten().any(|share| *share >= 0.005) {
            let shares = all.into_iter().flatten().map(Cell::share);
            table.push([Cell::from(limit.words())].into_iter().chain(shares).collect::<Vec<_>>());
        }
    }
    section.table(table);
    if let Some(after) = &advice.after {
        section.say(format!(
            "Shares are of the time without the remedy; with it, the twin took {} in the run that was analysed again.",
            after.duration_ns
        ));
    }
    section
}

fn budget_alone(c: &Conditions, mut section: Section) -> Section {
    let mut table = Table::new("Time by what limited it", columns(["limit"], ["original"]));
    for limit in Limit::ALL.into_iter().filter(|limit| c.share(*limit) >= 0.005) {
        table.push([Cell::from(limit.words()), Cell::share(c.share(limit))]);
    }
    section.table(table);
    section
}

fn basis<T>(known: &Known<T>) -> String {
    let word = match known.basis {
        Basis::Seen => "seen",
        Basis::AtLeast => "at least",
        Basis::Assumed => "assumed",
    };
    format!("{word}: {}", known.from)
}

fn conditions(c: &Conditions) -> Section {
    let mut section = Section::new("Conditions");
    let mut table = Table::new("What the twin is made from", columns(["condition", "value", "how it is known"], []));
    let mut row = |what: &str, value: String, how: String| table.push([what.to_owned(), value, how]);
    fn with<T: Copy>(known: &Known<T>, text: impl Fn(T) -> String) -> String {
        let within = known.within.map(|(low, high)| format!(" ({} to {})", text(low), text(high)));
        format!("{}{}", text(known.value), within.unwrap_or_default())
    }
    row("round trip of the empty path", with(&c.round_trip, |t| t.to_string()), basis(&c.round_trip));
    row("largest IP packet", format!("{} B", c.mtu.value), basis(&c.mtu));
    for way in Way::ALL {
        let lane = &c.lanes[way as usize];
        let to = format!("to the {}", way.receiver());
        match &lane.rate {
            Some(rate) => {
                row(&format!("rate {to}"), with(rate, |r| bit_rate(r as f64)), basis(rate));
                row(&format!("queue {to}"), with(&lane.queue, |t| t.to_string()), basis(&lane.queue));
            }
            None => row(
                &format!("rate {to}"),
                "not known".into(),
                "too little was sent at once; the twin's path has no limit".into(),
            ),
        }
        row(&format!("loss {to}"), with(&lane.loss, percent), basis(&lane.loss));
        if let Some(of) = &lane.reordering {
            let text = format!("{} of the segments by {}", percent(of.value.share), of.value.by);
            row(&format!("reordering {to}"), text, basis(of));
        }
        if let Some(of) = &lane.black_hole {
            row(&format!("largest packet that passes {to}"), with(of, |n| format!("{n} B")), basis(of));
        }
    }
    for way in Way::ALL {
        let (host, of) = (&c.hosts[way as usize], way.sender());
        let offered: Vec<&str> =
            [("window scaling", &host.window_scaling), ("SACK", &host.sack), ("timestamps", &host.timestamps)]
                .into_iter()
                .filter_map(|(name, known)| known.value.then_some(name))
                .collect();
        row(&format!("the {of} offers"), offered.join(", "), basis(&host.window_scaling));
        if let Some(window) = &host.receive_window {
            row(&format!("receive window of the {of}"), bytes(window.value), basis(window));
        }
        if let Some(limit) = &host.send_limit {
            row(&format!("send buffer of the {of}"), bytes(limit.value), basis(limit));
        }
        if let Some(level) = &host.drains_to {
            row(
                &format!("in flight when the full send buffer of the {of} lets it go on"),
                bytes(level.value),
                basis(level),
            );
        }
        let nodelay = if host.nodelay.value { "on" } else { "off" };
        row(&format!("TCP_NODELAY of the {of}"), nodelay.into(), basis(&host.nodelay));
        if let Some(delay) = &host.delayed_ack {
            row(&format!("delayed ACKs of the {of}"), delay.value.to_string(), basis(delay));
        }
        if host.held_close {
            let how = "seen: its FIN left only when a small segment was acknowledged; the twin writes a byte instead";
            row(&format!("close of the {of}"), "waits as a small write does".into(), how.into());
        }
        let window = format!("{} segments", host.initial_window.value);
        row(&format!("initial window of the {of}"), window, basis(&host.initial_window));
        let steps = quantity::counted(c.script.of(way).len() as u64, "write");
        let thought = c.programs_ns[way as usize];
        row(
            &format!("program of the {of}"),
            format!("{steps}, {}, {thought} of its own", bytes(c.script.bytes(way))),
            "seen: sizes, pauses, and what each waited for".into(),
        );
    }
    row("congestion control", c.congestion_control.value.clone(), basis(&c.congestion_control));
    section.table(table);
    section
}

fn not_tried(advice: &Advice) -> Section {
    let mut section = Section::new("Not tried");
    let mut table = Table::new("Not tried here, because", columns(["remedy", "because"], []));
    table.extend(advice.not_tried.iter().map(|r| [r.remedy.clone(), r.because.clone()]));
    section.table(table);
    section
}
