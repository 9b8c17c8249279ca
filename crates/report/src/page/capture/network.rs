//! What the network itself said in a capture: errors of ICMP, echoes, who has an address, packets
//! that are not whole, and what was found.

use std::cmp::Reverse;

use diagnose::network::Analysis;
use record::network::{Echo, IcmpError, Incomplete, Neighbour, NetworkFinding};

use super::Names;
use super::columns::{ColumnOf, cells, cost, count, findings, table};
use paper::document::{Cell, Row, Section, Table};

/// What a document shows of the network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Errors of ICMP, the most frequent first.
    pub errors: Vec<IcmpError>,
    /// Echoes, those that lost most first.
    pub echoes: Vec<Echo>,
    /// Questions who has an address, those that took longest first.
    pub neighbours: Vec<Neighbour>,
    /// Packets of which fragments never came.
    pub incomplete: Vec<Incomplete>,
    /// How many there are of each.
    pub counts: [u64; 4],
    /// What was found, the costliest first.
    pub findings: Vec<NetworkFinding>,
}

impl Network {
    /// Of what was read, with so many rows of each.
    pub fn new(analysis: &Analysis, rows: usize) -> Self {
        let lists = (analysis.errors(), analysis.echoes(), analysis.neighbours(), analysis.incomplete());
        Self::gather(lists, analysis.findings(), rows)
    }

    /// Of a run, with so many rows of each.
    pub(super) fn of_run(run: &store::capture::Network, rows: usize) -> Self {
        let lists = (&run.errors[..], &run.echoes[..], &run.neighbours[..], &run.incomplete[..]);
        Self::gather(lists, &run.findings, rows)
    }

    fn gather(
        (errors, echoes, neighbours, incomplete): (&[IcmpError], &[Echo], &[Neighbour], &[Incomplete]),
        findings: &[NetworkFinding],
        rows: usize,
    ) -> Self {
        fn first<T: Clone, K: Ord>(all: &[T], rows: usize, key: impl Fn(&T) -> K) -> Vec<T> {
            let mut all: Vec<&T> = all.iter().collect();
            all.sort_by_key(|one| key(one));
            all.into_iter().take(rows).cloned().collect()
        }
        Self {
            errors: first(errors, rows, |e| (Reverse(e.count), e.number)),
            echoes: first(echoes, rows, |e| (Reverse(e.lost), Reverse(e.max_ns), e.number)),
            neighbours: first(neighbours, rows, |n| (n.answered, Reverse(n.took_ns), Reverse(n.tries), n.number)),
            incomplete: first(incomplete, rows, |p| p.number),
            counts: [errors.len(), echoes.len(), neighbours.len(), incomplete.len()].map(|n| n as u64),
            findings: findings.to_vec(),
        }
    }
}

/// What is said where nothing was found; `None` where there is nothing at all.
pub(super) fn calm(network: &Network) -> Option<String> {
    let [errors, echoes, neighbours, incomplete] = network.counts;
    if let Some(echo) = network.echoes.first() {
        let others = if echoes > 1 { format!(" ({} like it)", quantity::count(echoes - 1)) } else { String::new() };
        let times = match (echo.median_ns, echo.max_ns) {
            (Some(median), Some(max)) => format!(": median {median}, longest {max}"),
            _ => String::new(),
        };
        let sent = quantity::counted(echo.sent, "echo request");
        return Some(format!(
            "{sent} from {} to {}, {} answered{times}{others}.",
            echo.client, echo.server, echo.answered
        ));
    }
    let kinds = [
        (errors, "kind of ICMP error", "kinds of ICMP error"),
        (neighbours, "question who has an address", "questions who has an address"),
        (incomplete, "packet that is not whole", "packets that are not whole"),
    ];
    let parts = kinds.into_iter().filter(|(n, ..)| *n > 0);
    let parts: Vec<String> =
        parts.map(|(n, one, more)| format!("{} {}", quantity::count(n), if n == 1 { one } else { more })).collect();
    (!parts.is_empty()).then(|| format!("{}.", parts.join(", ")))
}

pub(super) fn section(network: &Network, shown: usize, names: &Names) -> Section {
    let mut section = Section::new("The network");
    section.table(findings(FINDING, &network.findings, names));
    let [errors, echoes, neighbours, incomplete] = network.counts;
    section.table(rows("Errors of ICMP", ERROR, (&network.errors, errors), shown, names));
    section.table(rows("Echoes", ECHO, (&network.echoes, echoes), shown, names));
    section.table(rows("Who has an address", NEIGHBOUR, (&network.neighbours, neighbours), shown, names));
    section.table(rows("Packets that are not whole", INCOMPLETE, (&network.incomplete, incomplete), shown, names));
    section
}

fn rows<T>(title: &str, columns: &[ColumnOf<T>], (some, all): (&[T], u64), shown: usize, names: &Names) -> Table {
    let title = match all {
        n if n > some.len() as u64 => format!("{title}, {} of {}", some.len(), quantity::count(n)),
        _ => title.to_owned(),
    };
    let mut rows = table(title, columns);
    rows.extend(some.iter().map(|one| Row::of(cells(columns, one, names))));
    rows.shown = Some(shown);
    rows.elsewhere = format!("`analyze --rows {all}` or a page shows them");
    rows
}

const FINDING: &[ColumnOf<NetworkFinding>] = &[
    ColumnOf::<NetworkFinding>::text("finding", |f, _| f.kind.words().into()),
    ColumnOf::<NetworkFinding>::figures("cost", cost),
    ColumnOf::<NetworkFinding>::figures("times", count),
];

const ERROR: &[ColumnOf<IcmpError>] = &[
    ColumnOf::<IcmpError>::text("what", |e, _| e.meaning.clone().into()),
    ColumnOf::<IcmpError>::text("said by", |e, _| e.source.into()),
    ColumnOf::<IcmpError>::text("of packets to", |e, _| match e.transport {
        Some(_) => e.receiver.into(),
        None => e.receiver.ip().into(),
    }),
    ColumnOf::<IcmpError>::figures("times", |e, _| Cell::count(e.count)),
    ColumnOf::<IcmpError>::text("about", |e, _| match (e.connection, e.conversation) {
        (Some(n), _) => format!("connection {n}").into(),
        (None, Some(n)) => format!("UDP {n}").into(),
        (None, None) => "".into(),
    })
    .spare(),
    ColumnOf::<IcmpError>::text("MTU", |e, _| match (e.mtu, e.obeyed) {
        (Some(mtu), Some(false)) => format!("{mtu}, not heeded").into(),
        (Some(mtu), Some(true)) => format!("{mtu}, heeded").into(),
        (Some(mtu), None) => mtu.to_string().into(),
        (None, _) => "".into(),
    })
    .spare(),
];

const ECHO: &[ColumnOf<Echo>] = &[
    ColumnOf::<Echo>::text("client", |e, _| e.client.into()),
    ColumnOf::<Echo>::text("server", |e, _| e.server.into()),
    ColumnOf::<Echo>::figures("requests", |e, _| Cell::count(e.sent)),
    ColumnOf::<Echo>::figures("lost", |e, _| Cell::count(e.lost)),
    ColumnOf::<Echo>::figures("median", |e, _| Cell::time_or(e.median_ns, "there is no answer")),
    ColumnOf::<Echo>::figures("slowest", |e, _| Cell::time_or(e.max_ns, "there is no answer")),
];

const NEIGHBOUR: &[ColumnOf<Neighbour>] = &[
    ColumnOf::<Neighbour>::text("address", |n, _| n.address.into()),
    ColumnOf::<Neighbour>::text("asked by", |n, _| n.client.into()),
    ColumnOf::<Neighbour>::figures("questions", |n, _| Cell::count(n.tries)),
    ColumnOf::<Neighbour>::figures("time", |n, _| Cell::time_or(n.took_ns, "there is no answer")),
    ColumnOf::<Neighbour>::text("answer", |n, _| match (&n.hardware, n.answered) {
        (Some(hardware), _) => hardware.clone().into(),
        (None, Some(true)) => "came".into(),
        (None, Some(false)) => "none".into(),
        (None, None) => "not known".into(),
    }),
    ColumnOf::<Neighbour>::text("by", |n, _| n.protocol.words().into()).spare(),
];

const INCOMPLETE: &[ColumnOf<Incomplete>] = &[
    ColumnOf::<Incomplete>::text("from", |p, _| p.source.into()),
    ColumnOf::<Incomplete>::text("to", |p, _| p.destination.into()),
    ColumnOf::<Incomplete>::figures("fragments", |p, _| Cell::count(p.fragments)),
    ColumnOf::<Incomplete>::figures("came", |p, _| Cell::bytes(p.bytes)),
    ColumnOf::<Incomplete>::figures("packet", |p, _| Cell::figure(p.first_packet.to_string())).spare(),
];
