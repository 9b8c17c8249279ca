//! UDP of a capture: the conversations, their numbered streams, and what was found.

use std::cmp::Reverse;

use diagnose::udp::Analysis;
use record::Nanos;
use record::udp::{KnownBy, UdpConversation, UdpFinding, UdpStream};

use super::columns::{ColumnOf, cells, cost, count, findings, table};
use super::{Names, ends, sentence};
use paper::document::{Cell, Row, Section};

/// What a document shows of UDP.
#[derive(Clone, Debug, Default)]
pub struct Udp {
    /// How many conversations there are.
    pub conversations: u64,
    /// How many of them are QUIC, which is shown elsewhere.
    pub of_quic: u64,
    /// Those with most bytes, without QUIC.
    pub largest: Vec<UdpConversation>,
    /// The numbered streams that lost most.
    pub streams: Vec<UdpStream>,
    /// What was found, the costliest first.
    pub findings: Vec<UdpFinding>,
}

impl Udp {
    /// Of what was read, with so many conversations.
    pub fn new(analysis: &Analysis<'_>, rows: usize) -> Self {
        Self::gather(analysis.conversations().collect(), analysis.streams().collect(), analysis.findings(), rows)
    }

    /// Of a run, with so many conversations.
    pub(super) fn of_run(run: &store::capture::Udp, rows: usize) -> Self {
        Self::gather(run.conversations.iter().collect(), run.streams.iter().collect(), &run.findings, rows)
    }

    fn gather(
        mut all: Vec<&UdpConversation>,
        mut streams: Vec<&UdpStream>,
        findings: &[UdpFinding],
        rows: usize,
    ) -> Self {
        let conversations = all.len() as u64;
        all.retain(|c| c.quic.is_none());
        let of_quic = conversations - all.len() as u64;
        all.sort_by_key(|c| (Reverse(c.bytes()), c.number));
        streams.sort_by_key(|s| (Reverse(s.lost), s.conversation));
        Self {
            conversations,
            of_quic,
            largest: all.into_iter().take(rows).cloned().collect(),
            streams: streams.into_iter().take(rows).cloned().collect(),
            findings: findings.to_vec(),
        }
    }

    /// Conversations that are not QUIC.
    pub(super) fn own(&self) -> u64 {
        self.conversations - self.of_quic
    }
}

/// What is said where nothing was found: how many there are, and of the largest one what it is.
pub(super) fn calm(udp: &Udp) -> String {
    let all = quantity::counted(udp.own(), "UDP conversation");
    let Some(largest) = udp.largest.first() else { return format!("{all}.") };
    let protocol = largest.protocol.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    let which = if udp.own() == 1 { "" } else { " The largest one" };
    match which {
        "" => format!("{all}{protocol}: {}.", largest.verdict),
        which => format!("{all}.{which} ({} → {}{protocol}): {}.", largest.client, largest.server, largest.verdict),
    }
}

pub(super) fn section(udp: &Udp, shown: usize, names: &Names) -> Section {
    let mut section = Section::new("UDP");
    section.table(findings(FINDING, &udp.findings, names));
    let title = match udp.own() {
        0 | 1 => String::new(),
        n if n > udp.largest.len() as u64 => {
            format!("The {} of {} conversations with most bytes", udp.largest.len(), quantity::count(n))
        }
        _ => "Conversations, those with most bytes first".into(),
    };
    let mut rows = table(title, CONVERSATION);
    rows.extend(udp.largest.iter().map(|c| {
        let mut notes = vec![sentence(&c.verdict)];
        notes.extend(c.withheld.as_ref().map(|why| sentence(&format!("not known: {why}"))));
        Row::of(cells(CONVERSATION, c, names)).noted(notes)
    }));
    rows.shown = Some(shown);
    rows.elsewhere = format!("`analyze --rows {}` or a page shows them", udp.own());
    section.table(rows);
    let mut streams =
        table(if udp.streams.is_empty() { "" } else { "Numbered streams, those that lost most first" }, STREAM);
    streams.extend(udp.streams.iter().map(|s| Row::of(cells(STREAM, s, names))));
    streams.shown = Some(shown);
    streams.elsewhere = "`--json` or a page shows them".into();
    section.table(streams);
    section
}

const FINDING: &[ColumnOf<UdpFinding>] = &[
    ColumnOf::<UdpFinding>::text("finding", |f, _| f.kind.words().into()),
    ColumnOf::<UdpFinding>::figures("cost", cost),
    ColumnOf::<UdpFinding>::figures("conversations", count),
];

const CONVERSATION: &[ColumnOf<UdpConversation>] = &[
    ColumnOf::<UdpConversation>::figures("no.", |c, _| Cell::figure(c.number.to_string())),
    ColumnOf::<UdpConversation>::text("client → server", |c, names| ends(names, c.client, c.server).into()),
    ColumnOf::<UdpConversation>::text("protocol", |c, _| match (&c.protocol, c.known_by) {
        (Some(name), Some(KnownBy::Port)) => format!("{name} (by its port)").into(),
        (Some(name), _) => name.clone().into(),
        (None, _) => "".into(),
    }),
    ColumnOf::<UdpConversation>::figures("sent", |c, _| Cell::bytes(c.by_client.bytes)),
    ColumnOf::<UdpConversation>::figures("back", |c, _| Cell::bytes(c.by_server.bytes)),
    ColumnOf::<UdpConversation>::figures("time", |c, _| c.duration_ns.into()),
    ColumnOf::<UdpConversation>::figures("median answer", |c, _| {
        Cell::time_or(c.answer_median_ns, "no answer to a single request is in the capture")
    })
    .spare(),
    ColumnOf::<UdpConversation>::text("turns", |c, _| c.shape.words().into()).spare(),
];

const STREAM: &[ColumnOf<UdpStream>] = &[
    ColumnOf::<UdpStream>::figures("conv.", |s, _| Cell::figure(s.conversation.to_string())),
    ColumnOf::<UdpStream>::text("numbered by", |s, _| s.numbering.words().into()),
    ColumnOf::<UdpStream>::text("direction", |s, _| s.way.words().into()),
    ColumnOf::<UdpStream>::figures("datagrams", |s, _| Cell::count(s.datagrams)),
    ColumnOf::<UdpStream>::figures("lost", |s, _| Cell::count(s.lost)),
    ColumnOf::<UdpStream>::figures("reordered", |s, _| Cell::count(s.reordered)).spare(),
    ColumnOf::<UdpStream>::figures("jitter", |s, _| Cell::time_or(s.jitter_ns, "the clock of its stamps is not known")),
    ColumnOf::<UdpStream>::figures("highest jitter", |s, _| {
        Cell::time_or(s.jitter_max_ns, "the clock of its stamps is not known")
    })
    .spare(),
    ColumnOf::<UdpStream>::figures("longest gap", |s, _| {
        Cell::time_or(Some(s.gap_max_ns.unwrap_or(Nanos::ZERO)).filter(|gap| *gap > Nanos::ZERO), "there is none")
    })
    .spare(),
];
