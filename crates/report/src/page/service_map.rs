//! The page of a fleet's service map: who connects to whom, how much, how long it takes, and in
//! which leg.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;

use paper::document::{Block, Cell, Clause, Column, Document, Section, Table, Text, texts};
use paper::graph::{Edge, Graph, Node};
use paper::plot::Hue;
use record::LegName;
use record::fleet::FOR_P99;
use record::service_map::{MapEdge, MapRuns, SendsOf};

use super::NONE;
use super::fleet::date;
use crate::colour;

/// Edges that the table of a terminal lists.
const LISTED: usize = 20;
/// Boxes that are drawn: those of the edges with most time.
const DRAWN: usize = 40;
/// From this share of failed attempts on they are said first of what fails.
const MANY_FAILED: f64 = 0.01;

const TOO_FEW: &str = "fewer than 100 sends";
const HISTOGRAMS: &str = "only histograms have these sends";

/// What the page is made of.
#[derive(Clone, Debug)]
pub struct Map<'a> {
    /// Where the runs are.
    pub place: &'a str,
    /// The period, hours since 1970.
    pub hours: Range<u64>,
    /// Its runs.
    pub runs: &'a MapRuns,
    /// The edges in order: of each the sends of both ends, and of each end alone.
    pub edges: &'a [MapEdge],
}

/// The page.
pub fn document(map: &Map<'_>) -> Document {
    let of_both = |edge: &&MapEdge| edge.sends_of == SendsOf::Both;
    let (whole, each): (Vec<&MapEdge>, Vec<&MapEdge>) = map.edges.iter().partition(of_both);
    let mut listed = Section::new("Who talks to whom");
    listed.blocks.push(Block::Graph(graph(&whole)));
    listed.table(table(
        "Connections between services: those whose sends took most time first",
        &whole[..whole.len().min(LISTED)],
    ));
    if whole.len() > LISTED {
        let more = Text::from(format!("{} more took less time: ", whole.len() - LISTED));
        listed.say(
            more.and(Text::code("--html FILE"))
                .and(", ")
                .and(Text::code("--csv"))
                .and(" and ")
                .and(Text::code("--json"))
                .and(" have them."),
        );
        listed.blocks.push(Block::OnPage(table("The others", &whole[LISTED..])));
    }
    if !each.is_empty() {
        listed.blocks.push(Block::OnPage(each_way(&each)));
    }
    let hosts = quantity::counted(map.runs.hosts, "host");
    Document {
        title: format!("Service map of the fleet in {}", map.place).into(),
        about: format!(
            "{} to {} UTC · {hosts}, {} · times are from a send to its ACK",
            date(map.hours.start),
            date(map.hours.end),
            quantity::counted(map.runs.runs, "run")
        ),
        verdict: verdict(map, &whole),
        warnings: texts(warnings(map, &whole)),
        sections: vec![listed],
        ..Document::default()
    }
}

/// A service with its host, or what is known of who it is.
fn end(host: &str, service: &str, port: Option<u64>) -> Text {
    match (host, service) {
        ("", "") => "peers that are not kept apart".into(),
        ("", outside) => outside.parse::<IpAddr>().map_or_else(|_| outside.into(), Text::from),
        (host, "") => match port {
            Some(port) => format!("port {port} on {host}").into(),
            None => format!("a service on {host}").into(),
        },
        (host, service) => format!("{service} on {host}").into(),
    }
}

fn from(edge: &MapEdge) -> Text {
    end(&edge.from_host, &edge.from, None)
}

fn to(edge: &MapEdge) -> Text {
    end(&edge.to_host, &edge.to, edge.port)
}

/// `web.service on web-1 → db.service on db-1 (port 5432)`.
fn both(edge: &MapEdge) -> Text {
    let arrow = if edge.directed { " → " } else { " and " };
    let port = edge.port.filter(|_| !edge.to.is_empty()).map_or_else(String::new, |port| format!(" (port {port})"));
    from(edge).and(arrow).and(to(edge)).and(port)
}

/// Whose rows an edge is from.
fn seen_by(edge: &MapEdge) -> &'static str {
    match (edge.at_client, edge.at_server) {
        (true, true) => "both ends",
        (true, false) => "client",
        (false, true) => "server",
        (false, false) => "one end",
    }
}

fn verdict(map: &Map<'_>, edges: &[&MapEdge]) -> Vec<Clause> {
    let all = all_time(edges);
    let mut said = Vec::new();
    if let Some(first) = edges.first().filter(|edge| edge.total_ns > 0) {
        let more = if first.edges > edges.len() as u64 { " that are listed" } else { "" };
        let share = quantity::percent(first.total_ns as f64 / all);
        said.push(Clause::finding(
            Text::from("Most time went into ")
                .and(both(first))
                .and(format!(": {share} of the time of all sends{more}; {}.", took(first))),
        ));
    }
    let slow = edges
        .iter()
        .filter(|edge| edge.p99_ns.is_some())
        .max_by_key(|edge| (edge.p99_ns, std::cmp::Reverse(edge.place)));
    if let Some(slow) = slow.filter(|slow| slow.place > 1) {
        said.push(Clause::finding(
            Text::from("The longest p99 has ").and(both(slow)).and(format!(": {}.", took(slow))),
        ));
    }
    let failing = edges.iter().filter(|edge| failed_share(edge) >= MANY_FAILED);
    if let Some(worst) = failing.max_by(|a, b| a.failed.cmp(&b.failed).then(b.place.cmp(&a.place))) {
        let (failed, opened) = (worst.failed.unwrap_or(0), worst.opened.unwrap_or(0));
        let about = if map.runs.kept_one_in > 1 { "About " } else { "" };
        said.push(Clause::finding(
            Text::from(format!(
                "{about}{} of {} attempts to connect failed: ",
                quantity::count(failed),
                quantity::count(failed + opened)
            ))
            .and(both(worst))
            .and("."),
        ));
    }
    if said.is_empty() {
        said.push(Clause::finding("No send has a time: only attempts to connect are known."));
    }
    said.extend(caveats(map, edges).into_iter().map(Clause::caveat));
    said
}

/// How long all sends took together.
fn all_time(edges: &[&MapEdge]) -> f64 {
    edges.iter().map(|edge| edge.total_ns as f64).sum()
}

fn failed_share(edge: &MapEdge) -> f64 {
    let (failed, opened) = (edge.failed.unwrap_or(0) as f64, edge.opened.unwrap_or(0) as f64);
    if failed > 0.0 { failed / (failed + opened) } else { 0.0 }
}

/// `median 1.20 ms, p99 43.0 ms, 80 % of it in leg network`.
fn took(edge: &MapEdge) -> String {
    let time = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", quantity::time_to(ns as f64, 3)));
    let leg = edge
        .leg
        .zip(edge.leg_share)
        .map(|(leg, share)| format!("{} of the time in leg {leg}", quantity::percent(share)));
    let parts = [time("median", edge.p50_ns), time("p99", edge.p99_ns), leg];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What has to be kept in mind.
fn caveats(map: &Map<'_>, edges: &[&MapEdge]) -> Vec<String> {
    let mut said = Vec::new();
    let any = |is: fn(&MapEdge) -> bool| edges.iter().filter(|edge| is(edge)).count() as u64;
    if map.runs.kept_one_in > 1 {
        said.push(format!(
            "Numbers are estimates: one row in up to {} is kept. A number that rests on n rows has a standard error of about 1/√n of its size; the column rows has n.",
            quantity::count(map.runs.kept_one_in)
        ));
    }
    let (written, armed) = (map.runs.bytes_written, map.runs.bytes_armed);
    if armed < written {
        said.push(format!(
            "{} of the bytes that these runs saw written are in observed sends; the rest is not in this map.",
            quantity::percent(armed as f64 / written as f64)
        ));
    }
    let one_end = any(|edge| {
        let within = !edge.from_host.is_empty() && !edge.to_host.is_empty();
        within && edge.at_client != edge.at_server
    });
    if one_end > 0 {
        said.push(format!(
            "{} between hosts of the fleet {} rows at one end only; the other end is known by its address.",
            quantity::counted(one_end, "edge"),
            if one_end == 1 { "has" } else { "have" }
        ));
    }
    let no_service = any(|edge| {
        (!edge.from_host.is_empty() && edge.from.is_empty()) || (!edge.to_host.is_empty() && edge.to.is_empty())
    });
    if no_service > 0 {
        said.push(format!("Which service it is at one end is not known of {}.", quantity::counted(no_service, "edge")));
    }
    let undirected = any(|edge| !edge.directed);
    if undirected > 0 {
        said.push(format!(
            "Who connected is not known of {}: its first end is the one with rows.",
            quantity::counted(undirected, "edge")
        ));
    }
    let folded = any(|edge| edge.addresses > 1);
    if folded > 0 {
        said.push(format!(
            "Addresses outside the fleet are folded into networks in {}: the column addresses has how many.",
            quantity::counted(folded, "edge")
        ));
    }
    let counted: u64 = edges.iter().map(|edge| edge.counted).sum();
    if counted > 0 {
        said.push(format!(
            "{} are from histograms, of runs that keep no sends: they have no bytes and no retransmissions, and their quantiles are the upper ends of buckets.",
            quantity::counted(counted, "send")
        ));
    }
    said
}

fn warnings(map: &Map<'_>, edges: &[&MapEdge]) -> Vec<String> {
    let mut warnings = Vec::new();
    let all = edges.first().map_or(0, |edge| edge.edges);
    if all > edges.len() as u64 {
        warnings.push(format!(
            "{} of {} are given: those whose sends took most time.",
            quantity::count(edges.len() as u64),
            quantity::counted(all, "edge")
        ));
    }
    if map.runs.hosts == 1 {
        warnings.push("There are runs of one host only: what it talks to cannot be joined with another end.".into());
    }
    warnings
}

fn table(title: &str, edges: &[&MapEdge]) -> Table {
    let all = all_time(edges);
    let mut table = Table::new(
        title,
        [
            Column::figures("#"),
            Column::text("from"),
            Column::text("to"),
            Column::figures("port").spare(5),
            Column::figures("opened").spare(6),
            Column::figures("failed").spare(10),
            Column::figures("sends"),
            Column::figures("rows").spare(0),
            Column::figures("bytes").spare(7),
            Column::figures("retransmitted").spare(9),
            Column::figures("no time").spare(1),
            Column::figures("median"),
            Column::figures("p99"),
            Column::figures("of all time").spare(8),
            Column::text("most in leg"),
            Column::figures("of its time").spare(4),
            Column::text("seen by").spare(3),
            Column::figures("addresses").spare(2),
        ],
    );
    for edge in edges {
        const NO_ATTEMPTS: &str = "attempts were not recorded";
        let by_rows = edge.sends.saturating_sub(edge.counted);
        let retransmitted = edge.retransmitted.filter(|_| by_rows > 0).map(|n| n as f64 / by_rows as f64);
        table.push([
            Cell::count(edge.place),
            from(edge).into(),
            to(edge).into(),
            Cell::or(edge.port, |port| Cell::figure(port.to_string()), "it is not known who connected"),
            Cell::or(edge.opened, Cell::count, NO_ATTEMPTS),
            Cell::or(edge.failed, Cell::count, NO_ATTEMPTS),
            Cell::count(edge.sends),
            Cell::count(edge.seen),
            Cell::or(edge.bytes, Cell::bytes, HISTOGRAMS),
            Cell::or(retransmitted, Cell::share, HISTOGRAMS),
            Cell::count(edge.untimed),
            Cell::ns_or(edge.p50_ns, NONE),
            Cell::ns_or(edge.p99_ns, TOO_FEW),
            Cell::share(if all > 0.0 { edge.total_ns as f64 / all } else { 0.0 }),
            Cell::or(edge.leg, |leg| leg.name().into(), NONE),
            Cell::or(edge.leg_share, Cell::share, NONE),
            seen_by(edge).into(),
            Cell::or((edge.addresses > 0).then_some(edge.addresses), Cell::count, "both ends are in the fleet"),
        ]);
    }
    table
}

/// The sends of each end by itself.
fn each_way(each: &[&MapEdge]) -> Table {
    let mut table = Table::new(
        format!("Sends of each end; a p99 needs {FOR_P99}"),
        [
            Column::figures("#"),
            Column::text("sends of"),
            Column::text("to"),
            Column::figures("sends"),
            Column::figures("bytes"),
            Column::figures("mean"),
            Column::figures("median"),
            Column::figures("p99"),
            Column::text("most in leg"),
        ],
    );
    for edge in each {
        let (sender, receiver) =
            if edge.sends_of == SendsOf::Client { (from(edge), to(edge)) } else { (to(edge), from(edge)) };
        table.push([
            Cell::count(edge.place),
            sender.into(),
            receiver.into(),
            Cell::count(edge.sends),
            Cell::or(edge.bytes, Cell::bytes, HISTOGRAMS),
            Cell::or(edge.mean_ns(), |ns| Cell::figure(quantity::time_to(ns, 3)), NONE),
            Cell::ns_or(edge.p50_ns, NONE),
            Cell::ns_or(edge.p99_ns, TOO_FEW),
            Cell::or(
                edge.leg.zip(edge.leg_share),
                |(leg, share)| format!("{leg} ({})", quantity::percent(share)).into(),
                NONE,
            ),
        ]);
    }
    table
}

/// The edges as a graph, those with most time first, as far as there is room for their boxes.
fn graph(edges: &[&MapEdge]) -> Graph {
    let mut nodes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut graph = Graph { id: "service-map".into(), title: "Map".into(), ..Graph::default() };
    let most = edges.iter().map(|edge| edge.total_ns).max().unwrap_or(0).max(1) as f64;
    let mut left = 0;
    let mut legs: BTreeSet<LegName> = BTreeSet::new();
    for edge in edges {
        let ends = [(edge.from_host.as_str(), edge.from.as_str()), (edge.to_host.as_str(), edge.to.as_str())];
        let new = ends.iter().collect::<BTreeSet<_>>().iter().filter(|end| !nodes.contains_key(**end)).count();
        if nodes.len() + new > DRAWN {
            left += 1;
            continue;
        }
        let [from, to] = ends.map(|(host, service)| {
            let next = nodes.len();
            *nodes.entry((host, service)).or_insert_with(|| {
                graph.nodes.push(node(host, service));
                next
            })
        });
        legs.extend(edge.leg);
        graph.edges.push(Edge {
            from,
            to,
            directed: edge.directed,
            hue: edge.leg.map_or(Hue::NEUTRAL, colour::named),
            weight: (edge.total_ns as f64 / most).sqrt(),
            mark: edge.place.to_string(),
            label: label(edge),
        });
    }
    graph.keys = legs.into_iter().map(|leg| (colour::named(leg), format!("most time in leg {leg}"))).collect();
    if graph.edges.iter().any(|edge| edge.hue == Hue::NEUTRAL) {
        graph.keys.push((Hue::NEUTRAL, "no leg is known".into()));
    }
    let omitted = if left > 0 {
        format!(" {} of less time have no room here.", quantity::counted(left, "edge"))
    } else {
        String::new()
    };
    graph.caption = format!(
        "An arrow goes from who connected to who accepted; its number is that of the table, and it is the thicker, the more time its sends \
         took. Dashed boxes are outside the fleet.{omitted}"
    );
    graph
}

fn node(host: &str, service: &str) -> Node {
    let name = if host.is_empty() || !service.is_empty() { end("", service, None) } else { "service not known".into() };
    let place = if host.is_empty() { "outside the fleet".to_owned() } else { host.to_owned() };
    Node { label: format!("{name}, {place}"), name, place, faint: host.is_empty() }
}

fn label(edge: &MapEdge) -> String {
    let failed = edge
        .failed
        .filter(|n| *n > 0)
        .map_or_else(String::new, |n| format!(", {} to connect failed", quantity::counted(n, "attempt")));
    let took = Some(took(edge)).filter(|took| !took.is_empty()).map_or_else(String::new, |took| format!("; {took}"));
    format!("{}: {}{failed}{took}", both(edge), quantity::counted(edge.sends, "send"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::table::Record as _;

    fn edge(place: u64, from: (&str, &str), to: (&str, &str)) -> MapEdge {
        MapEdge {
            from_host: from.0.into(),
            from: from.1.into(),
            to_host: to.0.into(),
            to: to.1.into(),
            port: Some(5432),
            at_client: true,
            at_server: true,
            opened: Some(100),
            failed: Some(0),
            sends: 1000,
            seen: 1000,
            bytes: Some(1 << 20),
            retransmitted: Some(10),
            total_ns: 4_000_000_000 / place,
            p50_ns: Some(1_000_000),
            p99_ns: Some(20_000_000 * place),
            leg: Some(LegName::Network),
            leg_share: Some(0.8),
            place,
            edges: 2,
            ..MapEdge::blank()
        }
    }

    fn page(runs: &MapRuns, edges: &[MapEdge]) -> Document {
        document(&Map { place: "/runs", hours: 493_824..493_848, runs, edges })
    }

    fn said(page: &Document) -> Vec<String> {
        page.verdict.iter().map(|clause| clause.text.to_string()).collect()
    }

    const RUNS: MapRuns = MapRuns { hosts: 2, runs: 4, kept_one_in: 1, bytes_written: 100, bytes_armed: 100 };

    #[test]
    fn where_most_time_went_is_said_first_and_then_what_is_slowest_and_what_fails() {
        let web_to_db = edge(1, ("web-1", "web.service"), ("db-1", "db.service"));
        let to_cache = MapEdge { failed: Some(300), ..edge(2, ("web-1", "web.service"), ("db-1", "cache.service")) };
        let page = page(&RUNS, &[web_to_db, to_cache]);
        assert_eq!(
            said(&page),
            [
                "Most time went into web.service on web-1 → db.service on db-1 (port 5432): 67 % of the time of all sends; median 1.00 ms, p99 20.0 ms, 80 % of the time in leg network.",
                "The longest p99 has web.service on web-1 → cache.service on db-1 (port 5432): median 1.00 ms, p99 40.0 ms, 80 % of the time in leg network.",
                "300 of 400 attempts to connect failed: web.service on web-1 → cache.service on db-1 (port 5432).",
            ]
        );
        assert!(page.warnings.is_empty(), "{:?}", page.warnings);
        let Block::Graph(graph) = &page.sections[0].blocks[0] else { panic!("{:?}", page.sections) };
        assert_eq!((graph.nodes.len(), graph.edges.len(), graph.keys.len()), (3, 2, 1), "{graph:?}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let runs = MapRuns { hosts: 1, kept_one_in: 50, bytes_armed: 60, ..RUNS };
        let outside =
            MapEdge { addresses: 37, at_server: false, ..edge(1, ("web-1", "web.service"), ("", "192.0.0.0/16")) };
        let no_service = MapEdge { at_client: false, ..edge(2, ("web-2", ""), ("web-1", "web.service")) };
        let undirected = MapEdge {
            directed: false,
            port: None,
            counted: 1000,
            edges: 300,
            ..edge(3, ("web-1", "web.service"), ("", ""))
        };
        let page = page(&runs, &[MapEdge { edges: 300, ..outside }, no_service, undirected]);
        let said = said(&page).join("\n");
        for words in [
            "one row in up to 50 is kept",
            "60 % of the bytes",
            "1 edge between hosts of the fleet has rows at one end only",
            "Which service it is at one end is not known of 1 edge",
            "Who connected is not known of 1 edge",
            "folded into networks in 1 edge",
            "1,000 sends are from histograms",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(page.warnings.len(), 2, "{:?}", page.warnings);
        assert!(format!("{page:?}").contains("3 of 300 edges are given"), "{:?}", page.warnings);
    }

    #[test]
    fn of_many_edges_a_terminal_has_the_first_and_the_graph_those_with_room() {
        let edges: Vec<MapEdge> =
            (1..=60).map(|n| edge(n, ("web-1", "web.service"), ("db-1", &format!("shard-{n}.service")))).collect();
        let page = page(&RUNS, &edges);
        let tables: Vec<usize> = page.sections[0]
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Table(table) | Block::OnPage(table) => Some(table.rows.len()),
                _ => None,
            })
            .collect();
        assert_eq!(tables, [LISTED, 40]);
        let Block::Graph(graph) = &page.sections[0].blocks[0] else { panic!("{:?}", page.sections) };
        assert_eq!((graph.nodes.len(), graph.edges.len()), (DRAWN, DRAWN - 1));
        assert!(graph.caption.contains("21 edges of less time have no room"), "{}", graph.caption);
    }
}
