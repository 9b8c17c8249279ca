//! Transactions of a capture: for each name that a host reached, where the time went from the
//! question for its addresses to the last byte of the answer.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use record::Nanos;
use record::transaction::Transaction;

use super::columns::{ColumnOf, cells, table};
use super::{Names, sentence};
use paper::document::{Cell, Clause, Row, Section, Text};
use paper::plot::{Axis, Hue, Layer, Plot, Span, Unit};

/// Transactions that a page has.
const ROWS: usize = 500;
/// Transactions that are drawn.
const DRAWN: usize = 30;
/// The colours of the parts, in their order.
const HUES: [Hue; 10] = [Hue(8), Hue(3), Hue::NEUTRAL, Hue(4), Hue(7), Hue(0), Hue(5), Hue(9), Hue(10), Hue(2)];

/// What a transaction took long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The hardware address of the next hop.
    Neighbour,
    Name,
    Connect,
    Tls,
    Wait,
}

/// The transaction that took longest, where one part is half of it or more.
pub(super) struct Worst<'a> {
    pub(super) transaction: &'a Transaction,
    pub(super) part: Part,
    pub(super) took: Nanos,
}

impl<'a> Worst<'a> {
    /// `None` where it took long only for the answer itself, a program that paused, or
    /// several parts alike.
    pub(super) fn of(all: &'a [Transaction]) -> Option<Self> {
        let t = all.iter().max_by_key(|t| (t.took_ns, Reverse(t.number)))?;
        let neighbours = [t.name_neighbour_ns, t.neighbour_ns].into_iter().flatten().sum();
        let parts = [
            (Part::Neighbour, neighbours),
            (Part::Name, t.name_ns),
            (Part::Connect, t.attempts_ns + t.connect_ns),
            (Part::Tls, t.tls_ns),
            (Part::Wait, t.wait_ns),
        ];
        let (part, took) = parts.into_iter().max_by_key(|(_, took)| *took)?;
        (took.0 >= t.took_ns.0 / 2 && took > Nanos::ZERO).then_some(Self { transaction: t, part, took })
    }

    /// What is said of it, with what to do.
    pub(super) fn clause(&self, next: Option<&str>) -> Clause {
        let Self { transaction: t, took, .. } = self;
        let what = match self.part {
            Part::Neighbour => {
                "until its host knew the hardware address of the next hop (ARP, neighbour discovery)".to_owned()
            }
            Part::Name if t.tries > 1 => {
                format!("waiting for a DNS answer that came on the {} try", quantity::ordinal(t.tries as usize))
            }
            Part::Name => "waiting for a DNS answer".to_owned(),
            Part::Connect if t.quic_attempts > 0 && t.quic.is_none() => {
                format!("to connect, after {} by QUIC", quantity::counted(t.quic_attempts, "vain attempt"))
            }
            Part::Connect if t.earlier_attempts > 0 => {
                format!("to connect, after {}", quantity::counted(t.earlier_attempts, "vain attempt"))
            }
            Part::Connect => "to connect".to_owned(),
            Part::Tls if t.quic.is_some() => "for the QUIC handshake".to_owned(),
            Part::Tls => "for the TLS handshake".to_owned(),
            Part::Wait => "waiting for the server's answer".to_owned(),
        };
        let text = format!("`{}` took {}: {took} {what}.", t.name, t.took_ns);
        Clause::finding(text).with_next(next.map(|next| Text::from(format!("{next}."))))
    }
}

pub(super) fn section(all: &[Transaction], shown: usize, names: &Names) -> Section {
    let mut section = Section::new("Transactions");
    let mut slowest: Vec<&Transaction> = all.iter().collect();
    slowest.sort_by_key(|t| (Reverse(t.took_ns), t.number));
    section.plot(waterfall(&slowest[..slowest.len().min(shown).min(DRAWN)], all.len()));
    let title = match (all.len(), shown.max(ROWS)) {
        (0 | 1, _) => String::new(),
        (n, rows) if n > rows => {
            format!("From name to last byte, the {rows} of {} that took longest", quantity::count(n as u64))
        }
        _ => "From name to last byte, the longest first".into(),
    };
    let mut rows = table(title, TRANSACTION);
    rows.extend(slowest.into_iter().take(shown.max(ROWS)).map(|t| {
        let mut notes = vec![sentence(&format!("joined to the name: {}", t.certainty.words()))];
        notes.extend(t.withheld.as_ref().map(|why| sentence(&format!("to the last part that is known: {why}"))));
        Row::of(cells(TRANSACTION, t, names)).noted(notes)
    }));
    rows.shown = Some(shown);
    rows.elsewhere = format!("`analyze --rows {}` or a page shows them", all.len());
    section.table(rows);
    section
}

fn waterfall(shown: &[&Transaction], all: usize) -> Option<Plot> {
    let mut spans: [Vec<Span>; HUES.len()] = std::array::from_fn(|_| Vec::new());
    let mut rows = Vec::new();
    for (i, t) in (0u32..).zip(shown) {
        rows.push(format!("{}. {}", t.number, t.name));
        let mut from = 0u64;
        for (part, (what, took)) in spans.iter_mut().zip(t.parts()) {
            let to = from.saturating_add(took.0);
            if took > Nanos::ZERO {
                let label = format!("{what}: {took} of {}", t.took_ns);
                part.push(Span { at: f64::from(i), from: from as f64, to: to as f64, label });
            }
            from = to;
        }
    }
    let layers = spans
        .into_iter()
        .enumerate()
        .zip(HUES)
        .map(|((i, items), hue)| {
            // TLS with TCP, and QUIC, which is both in one.
            let names: BTreeSet<&str> = shown.iter().map(|t| t.parts()[i].0).collect();
            let name = names.into_iter().rev().collect::<Vec<_>>().join(" or ");
            Layer::Spans { name, hue, items }
        })
        .collect();
    let drawn = match shown.len() {
        n if n < all => format!("The longest {n} of n = {}", quantity::count(all as u64)),
        n => format!("n = {}", quantity::counted(n as u64, "transaction")),
    };
    Plot::new(
        "transactions",
        "Each transaction from the question for the name to the last byte",
        format!("{drawn}. Parts stand in the order in which they came."),
        (Axis::linear("time", Unit::Time).reaching(0.0), Axis::names("", rows)),
        layers,
    )
}

fn part(took: Nanos) -> Cell {
    Cell::time_or(Some(took).filter(|took| *took > Nanos::ZERO), "there is no such part")
}

const TRANSACTION: &[ColumnOf<Transaction>] = &[
    ColumnOf::<Transaction>::figures("no.", |t, _| Cell::figure(t.number.to_string())),
    ColumnOf::<Transaction>::text("name", |t, _| t.name.clone().into()),
    ColumnOf::<Transaction>::figures("time", |t, _| Cell::time_or(Some(t.took_ns), "")),
    ColumnOf::<Transaction>::figures("DNS", |t, _| part(t.name_ns)),
    ColumnOf::<Transaction>::figures("connect", |t, _| part(t.attempts_ns + t.connect_ns)),
    ColumnOf::<Transaction>::figures("TLS", |t, _| part(t.tls_ns)),
    ColumnOf::<Transaction>::figures("wait", |t, _| part(t.wait_ns)),
    ColumnOf::<Transaction>::figures("answer", |t, _| part(t.answer_ns)).spare(),
    ColumnOf::<Transaction>::figures("ARP, ND", |t, _| {
        part([t.name_neighbour_ns, t.neighbour_ns].into_iter().flatten().sum())
    })
    .spare(),
    ColumnOf::<Transaction>::figures("pauses", |t, _| part(t.pause_ns + t.request_ns)).spare(),
    ColumnOf::<Transaction>::figures("conn.", |t, _| match t.quic {
        Some(number) => Cell::figure(format!("QUIC {number}")),
        None => Cell::figure(t.connection.to_string()),
    })
    .spare(),
];
