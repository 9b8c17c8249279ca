//! The page of a capture: its connections, what limited them, and what was found.

use record::Nanos;
use store::State;
use store::capture::{Finding, LIMITS, Run};

use super::{command, facts};
use crate::document::{Document, Section, Table};
use crate::plot::{Axis, Hue, Layer, Plot, Span, Unit};

/// Connections that are drawn and listed, the longest first.
const SHOWN: usize = 60;

/// The words of the limits, in the order of [`LIMITS`].
const WORDS: [&str; LIMITS.len()] = [
    "the application",
    "the handshake",
    "slow start",
    "the sender's window",
    "the receive window",
    "loss recovery",
    "waiting for ACKs",
    "the path's rate",
    "not known from here",
];

/// The page of a capture; `name` is what the run is called.
pub fn document(name: &str, run: &Run, state: State) -> Document {
    let p = &run.provenance;
    let n = run.conversations.len() as u64;
    let mut warnings = Vec::new();
    if state == State::Unfinished {
        warnings.push("This run was never finished: its tables may not be whole.".to_owned());
    }
    let mut costs: Vec<(&str, u64, u64)> = Vec::new();
    for f in &run.findings {
        match costs.iter_mut().find(|c| c.0 == f.kind) {
            Some(cost) => (cost.1, cost.2) = (cost.1.saturating_add(f.cost_ns), cost.2 + 1),
            None => costs.push((&f.kind, f.cost_ns, 1)),
        }
    }
    costs.sort_by_key(|c| std::cmp::Reverse((c.1, c.2)));
    let mut costliest: Vec<&Finding> = run.findings.iter().collect();
    costliest.sort_by_key(|f| std::cmp::Reverse(f.cost_ns));
    let mut verdict: Vec<String> = match (n, costliest.first()) {
        (0, _) => vec!["The capture holds no TCP connection.".into()],
        (1, _) => vec![run.conversations[0].verdict.clone()],
        (_, None) => vec![format!("{}, and nothing was found on them.", quantity::counted(n, "connection"))],
        (_, Some(f)) => vec![format!("What cost most, on connection {}: {}.", f.number, f.text.trim_end_matches('.'))],
    };
    verdict.extend(costliest.iter().filter(|f| !f.worth.is_empty()).take(1).map(|f| f.worth.clone()));
    let verdict: Vec<String> = verdict.iter().map(|v| sentence(v)).collect();
    let mut limits = Section::new("What limited the connections");
    limits.plot(budgets(run));
    let mut found = Section::new("Findings");
    found.plot(cost_plot(&costs));
    let mut table = Table::new(
        "Findings, the costliest first",
        &["connection", "kind", "cost", "times", "what", "worth", "packets"],
    );
    for f in costliest.iter().take(500) {
        table.rows.push(vec![
            f.number.to_string(),
            f.kind.clone(),
            Nanos(f.cost_ns).to_string(),
            quantity::count(f.count),
            f.text.clone(),
            f.worth.clone(),
            f.packets.clone(),
        ]);
    }
    if costliest.len() > 500 {
        table.title = format!("The 500 costliest of {} findings", quantity::count(costliest.len() as u64));
    }
    found.table(table);
    let mut connections = Section::new("Connections");
    connections.table(connection_table(run));
    let mut lost = Section::new("What was not seen");
    if p.unread.is_empty() {
        lost.say("Every packet of the capture was read.");
    } else {
        lost.blocks.push(crate::document::Block::List(p.unread.clone()));
    }
    let mut environment = Section::new("Environment");
    environment.table(facts(
        "",
        [
            ("command", command(&p.command_line)),
            ("version", p.version.clone()),
            ("capture", p.source.clone()),
            ("packets", quantity::count(p.packets)),
        ],
    ));
    let mut sections = vec![limits, found, connections, lost, environment];
    sections.retain(|s| !s.blocks.is_empty());
    let (packets, connections) = (quantity::counted(p.packets, "packet"), quantity::counted(n, "TCP connection"));
    let about = format!("The capture {}: {packets}, {connections}.", p.source);
    Document { title: format!("Capture {name}"), about, verdict, warnings, sections }
}

/// With a capital and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn longest(run: &Run) -> Vec<&store::capture::Conversation> {
    let mut all: Vec<_> = run.conversations.iter().collect();
    all.sort_by_key(|c| (std::cmp::Reverse(c.duration_ns), c.number));
    all
}

fn budgets(run: &Run) -> Option<Plot> {
    let all = longest(run);
    let shown = &all[..all.len().min(SHOWN / 2)];
    let mut spans: [Vec<Span>; LIMITS.len()] = std::array::from_fn(|_| Vec::new());
    let mut names = Vec::new();
    for (i, c) in (0u32..).zip(shown) {
        names.push(format!("{}. {} → {}", c.number, c.client, c.server));
        let mut from = 0u64;
        for (limit, &took) in c.limits_ns.iter().enumerate() {
            if took == 0 {
                continue;
            }
            let share = quantity::percent(quantity::share(took.into(), c.duration_ns.into()));
            let label = format!("{}: {} ({share})\n{}", WORDS[limit], Nanos(took), c.verdict);
            let to = from.saturating_add(took);
            spans[limit].push(Span { at: f64::from(i), from: from as f64, to: to as f64, label });
            from = to;
        }
    }
    let layers = spans
        .into_iter()
        .zip(WORDS)
        .enumerate()
        .map(|(i, (items, name))| Layer::Spans { name: name.into(), hue: hue(i), items })
        .collect();
    Plot::new(
        "limits",
        "Each connection's time by what limited it",
        format!(
            "The {} longest of n = {}; parts add up to the connection's duration, and are not in the order in which they came.",
            shown.len(),
            quantity::counted(all.len() as u64, "connection")
        ),
        (Axis::linear("time", Unit::Time).reaching(0.0), Axis::names("", names)),
        layers,
    )
}

/// The color of a limit: eight of them, and the neutral one for what is not known.
fn hue(limit: usize) -> Hue {
    if LIMITS[limit] == "unknown_ns" { Hue::NEUTRAL } else { Hue(((limit + 6) % 8) as u8) }
}

fn cost_plot(costs: &[(&str, u64, u64)]) -> Option<Plot> {
    let items: Vec<Span> = (0u32..)
        .zip(costs)
        .map(|(i, (kind, cost, n))| Span {
            at: f64::from(i),
            from: 0.0,
            to: *cost as f64,
            label: format!("{kind}: {}, on n = {}", Nanos(*cost), quantity::counted(*n, "connection")),
        })
        .collect();
    let names = costs.iter().map(|c| format!("{} (n = {})", c.0.replace('_', " "), c.2)).collect();
    Plot::new(
        "findings",
        "What the findings cost",
        "Time, summed over connections; n is the number of findings of a kind. Findings on one connection can overlap.",
        (Axis::linear("time", Unit::Time).reaching(0.0), Axis::names("", names)),
        vec![Layer::Spans { name: String::new(), hue: Hue(1), items }],
    )
}

fn connection_table(run: &Run) -> Table {
    let all = longest(run);
    let title = match all.len() {
        n if n > SHOWN => format!(
            "The {SHOWN} longest of {} connections; the table conversations holds all",
            quantity::count(n as u64)
        ),
        _ => "Connections, the longest first".into(),
    };
    let mut table = Table::new(
        title,
        &[
            "connection",
            "client → server",
            "duration",
            "bytes out",
            "bytes back",
            "sent again",
            "median round trip",
            "ended",
            "verdict",
        ],
    );
    for c in all.into_iter().take(SHOWN) {
        let rtt = c.to_server.rtt_p50_ns.or(c.to_client.rtt_p50_ns);
        table.rows.push(vec![
            c.number.to_string(),
            format!("{} → {}", c.client, c.server),
            Nanos(c.duration_ns).to_string(),
            quantity::bytes(c.to_server.bytes),
            quantity::bytes(c.to_client.bytes),
            quantity::count(c.to_server.resent_packets + c.to_client.resent_packets),
            rtt.map_or_else(|| "—".into(), |ns| Nanos(ns).to_string()),
            c.ending.replace('_', " "),
            c.verdict.clone(),
        ]);
    }
    table
}
