//! The columns of `wirelapse top`: what each shows, and which a screen has room for.

use record::{Leg, Nanos};
use summary::live::{PeerName, STRETCHES};
use summary::{Group, SortBy};
use unicode_width::UnicodeWidthStr as _;

use super::Top;
use super::trouble::{short, words};
use paper::Canvas;

/// A column beside the name of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// What is wrong.
    Why,
    /// Sends a second.
    Sends,
    /// Bytes sent a second.
    Sent,
    /// Bytes received a second.
    Received,
    /// Median of the time of sends.
    P50,
    /// Their 99th percentile.
    P99,
    /// Median of the time of requests.
    RequestP50,
    /// Their 99th percentile.
    RequestP99,
    /// State of the sockets, or how many there are.
    State,
    /// Segments retransmitted.
    Retransmitted,
    /// Zero windows of the peers.
    ZeroWindows,
    /// Segments dropped by this host.
    Drops,
    /// Round-trip time.
    Rtt,
    /// How long ago the latest byte was.
    Idle,
    /// The accept queue.
    Queue,
    /// The process.
    Owner,
    /// The name of the peer.
    Name,
    /// The slowest send or request of each few seconds of the last minute.
    Heat,
    /// What sends waited for longest in TCP.
    WaitsFor,
    /// The share of each leg.
    Legs,
}

impl Column {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 20] = [
        Self::Sends,
        Self::Sent,
        Self::Received,
        Self::P50,
        Self::P99,
        Self::RequestP50,
        Self::RequestP99,
        Self::Heat,
        Self::Why,
        Self::State,
        Self::Owner,
        Self::Name,
        Self::Rtt,
        Self::Retransmitted,
        Self::ZeroWindows,
        Self::Drops,
        Self::Idle,
        Self::Queue,
        Self::WaitsFor,
        Self::Legs,
    ];

    /// The order in which they find room, unless a person has chosen.
    const BY_NEED: [Self; 20] = [
        Self::Why,
        Self::P99,
        Self::Sends,
        Self::Sent,
        Self::Heat,
        Self::P50,
        Self::Received,
        Self::Legs,
        Self::State,
        Self::Owner,
        Self::Retransmitted,
        Self::RequestP99,
        Self::RequestP50,
        Self::Drops,
        Self::ZeroWindows,
        Self::Rtt,
        Self::Queue,
        Self::Idle,
        Self::WaitsFor,
        Self::Name,
    ];

    /// Its head, which also names it in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Why => "why slow",
            Self::Sends => "sends/s",
            Self::Sent => "sent/s",
            Self::Received => "recv/s",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::RequestP50 => "req p50",
            Self::RequestP99 => "req p99",
            Self::State => "state",
            Self::Retransmitted => "retr.",
            Self::ZeroWindows => "zero win.",
            Self::Drops => "drops",
            Self::Rtt => "rtt",
            Self::Idle => "idle",
            Self::Queue => "queue",
            Self::Owner => "owner",
            Self::Name => "name",
            Self::Heat => "last minute",
            Self::WaitsFor => "waits for",
            Self::Legs => LEGS,
        }
    }

    /// What it is, for those who choose.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Why => "what is wrong, where something is",
            Self::Sends => "sends a second",
            Self::Sent => "bytes sent a second",
            Self::Received => "bytes received a second",
            Self::P50 => "send to ACK, median",
            Self::P99 => "send to ACK, 99th percentile",
            Self::RequestP50 => "request to answer, median",
            Self::RequestP99 => "request to answer, 99th percentile",
            Self::State => "state of the sockets",
            Self::Retransmitted => "segments retransmitted",
            Self::ZeroWindows => "times the peer's window closed",
            Self::Drops => "segments dropped by this host",
            Self::Rtt => "largest round-trip time",
            Self::Idle => "time since the latest byte",
            Self::Queue => "accept queue and its limit",
            Self::Owner => "process that has the sockets",
            Self::Name => "name of the peer",
            Self::Heat => "slowest of each 3 s, last minute",
            Self::WaitsFor => "what sends wait for in TCP",
            Self::Legs => "share of each leg of sends",
        }
    }

    /// What rows are sorted by to have its largest first.
    pub(super) fn sort(self) -> Option<SortBy> {
        match self {
            Self::Why => Some(SortBy::Trouble),
            Self::Sends => Some(SortBy::Rate),
            Self::Sent => Some(SortBy::Sent),
            Self::Received => Some(SortBy::Received),
            Self::P50 => Some(SortBy::P50),
            Self::P99 => Some(SortBy::P99),
            Self::Retransmitted => Some(SortBy::Retransmitted),
            Self::Legs => Some(SortBy::Tcp),
            _ => None,
        }
    }

    /// Its width on a screen of this width.
    pub(super) fn width(self, screen: usize) -> usize {
        match self {
            Self::Why if screen < 80 => 21,
            Self::Why => 26,
            Self::Received | Self::Sent => 9,
            Self::Sends | Self::P50 | Self::P99 | Self::RequestP50 | Self::RequestP99 | Self::Rtt | Self::Idle => 8,
            Self::Retransmitted | Self::Drops => 6,
            Self::Queue | Self::ZeroWindows => 9,
            Self::State => 11,
            Self::Owner => 18,
            Self::Name => 26,
            Self::Heat => STRETCHES,
            Self::WaitsFor => 24,
            Self::Legs => LEGS.len(),
        }
    }

    /// Whether it is of words rather than of figures.
    pub(super) fn is_words(self) -> bool {
        matches!(self, Self::Why | Self::State | Self::Owner | Self::Name | Self::Heat | Self::WaitsFor | Self::Legs)
    }

    /// What a row has in it, in at most so many columns of the screen. The strip of the last minute
    /// and the bar of legs are drawn.
    pub(super) fn cell(self, row: &Group, top: &Top<'_>, width: usize) -> String {
        let sockets = &row.sockets;
        match self {
            Self::Why => row.trouble.as_ref().map_or_else(String::new, |trouble| {
                let whole = words(trouble);
                if whole.width() <= width { whole } else { short(trouble) }
            }),
            Self::Sends if row.length == Nanos::ZERO => NONE.into(),
            Self::Sends => rate(row.per_second(row.figures.sends), top),
            Self::Sent if !row.counts_bytes() => NONE.into(),
            Self::Sent => bytes(row.sent_per_second()),
            Self::Received if !row.counts_bytes() => NONE.into(),
            Self::Received => bytes(row.received_per_second()),
            Self::P50 => time(row.quantile(Leg::Total, 0.5)),
            Self::P99 => time(row.quantile(Leg::Total, 0.99)),
            Self::RequestP50 => time(row.requests.quantile(0.5)),
            Self::RequestP99 => time(row.requests.quantile(0.99)),
            Self::State => match (sockets.alive(), sockets.state()) {
                (0, _) if sockets.closed > 0 => "closed".into(),
                (1, Some(state)) => state.name().into(),
                (n, Some(_)) => quantity::counted(n, "socket"),
                _ => NONE.into(),
            },
            Self::Retransmitted => quantity::count(row.retransmitted()),
            Self::ZeroWindows => row.zero_windows.map_or_else(|| NONE.into(), |n| zero_windows(n, top)),
            Self::Drops => quantity::count(row.figures.dropped_segments + sockets.drops),
            Self::Rtt => time(sockets.rtt.map(|[_, largest]| largest)),
            Self::Idle => time(sockets.quiet),
            Self::Queue => sockets.queue.map_or_else(|| NONE.into(), |[now, most]| format!("{now}/{most}")),
            Self::Owner => match &sockets.owner {
                Some((pid, name)) if sockets.one_owner => format!("{name}[{pid}]"),
                Some((_, name)) => format!("{name}, …"),
                None => NONE.into(),
            },
            Self::Name => row.name.as_ref().map_or_else(|| NONE.into(), PeerName::shown),
            Self::Heat => time(row.heat.times().flatten().max()),
            Self::WaitsFor => row
                .chief_reason()
                .map_or_else(|| NONE.into(), |(reason, share)| format!("{reason} {}", quantity::percent(share))),
            Self::Legs => row.shares().map_or_else(String::new, |shares| {
                shares.map(|(_, share)| quantity::percent(share).to_string()).join(" ")
            }),
        }
    }
}

/// The head of the bar of legs.
pub(super) const LEGS: &str = "tcp qdisc network";
/// Where a row has nothing to show.
const NONE: &str = "—";

/// Which columns a person wants, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    all: Vec<(Column, bool)>,
    chosen: bool,
}

/// As many as there is room for.
impl Default for Columns {
    fn default() -> Self {
        Self { all: Column::ALL.map(|column| (column, true)).to_vec(), chosen: false }
    }
}

impl Columns {
    /// Those with these names, in this order; the others are not shown. What is no column is
    /// skipped.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let find = |name: &str| Column::ALL.into_iter().find(|column| column.name() == name);
        let mut all: Vec<(Column, bool)> = Vec::new();
        for column in names.into_iter().filter_map(find) {
            if !all.contains(&(column, true)) {
                all.push((column, true));
            }
        }
        if all.is_empty() {
            return Self::default();
        }
        let rest = Column::ALL.into_iter().filter(|column| !all.contains(&(*column, true)));
        let rest: Vec<_> = rest.map(|column| (column, false)).collect();
        Self { chosen: true, all: all.into_iter().chain(rest).collect() }
    }

    /// The names of those that are wanted; `None` where nobody has chosen.
    pub fn names(&self) -> Option<Vec<&'static str>> {
        let wanted = self.all.iter().filter(|(_, wanted)| *wanted);
        self.chosen.then(|| wanted.map(|(column, _)| column.name()).collect())
    }

    /// All, each with whether it is wanted.
    pub fn all(&self) -> &[(Column, bool)] {
        &self.all
    }

    /// Wants the column at this place, or does not any more.
    pub fn toggle(&mut self, at: usize) {
        if let Some((_, wanted)) = self.all.get_mut(at) {
            *wanted = !*wanted;
            self.chosen = true;
        }
    }

    /// Puts a column in another place; gives that place.
    pub fn shift(&mut self, from: usize, to: usize) -> usize {
        if from < self.all.len() && to < self.all.len() {
            let moved = self.all.remove(from);
            self.all.insert(to, moved);
            self.chosen = true;
        }
        to
    }

    /// Those that a screen of this width has room for beside a name, in their order, and what is
    /// left for the name.
    pub(super) fn fitting(&self, screen: usize) -> (Vec<Column>, usize) {
        let least = match screen {
            0..80 => 18,
            80..140 => 22,
            _ => 34,
        };
        let mut left = screen.saturating_sub(MARK);
        let mut found = Vec::new();
        let wanted = || self.all.iter().filter(|(_, wanted)| *wanted).map(|(column, _)| *column);
        let order: Vec<Column> = match self.chosen {
            true => wanted().collect(),
            false => Column::BY_NEED.to_vec(),
        };
        for column in order {
            let takes = column.width(screen) + 1;
            if left >= least + takes {
                left -= takes;
                found.push(column);
            } else if self.chosen {
                break;
            }
        }
        (wanted().filter(|column| found.contains(column)).collect(), left)
    }
}

/// A width that has room for every column.
pub const WIDEST: usize = 310;
/// What stands before the name: the mark of the chosen row.
pub(super) const MARK: usize = 2;

fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| NONE.into(), |time| quantity::time_to(time.0 as f64, 2))
}

fn bytes(per_second: f64) -> String {
    quantity::bytes_to(per_second, 2).to_string()
}

/// About so much: with a sign where it is an estimate from a sample.
fn about(text: String, top: &Top<'_>) -> String {
    if top.is_whole() { text } else { format!("~{text}") }
}

fn rate(per_second: f64, top: &Top<'_>) -> String {
    let whole = per_second / top.looked_at.max(1e-6);
    about(if whole < 9.95 { format!("{whole:.1}") } else { few(whole) }, top)
}

/// How often windows closed; where sends are sampled, that is what was seen of it.
fn zero_windows(n: u64, top: &Top<'_>) -> String {
    if n == 0 || top.is_whole() { quantity::count(n) } else { format!("≥ {}", quantity::count(n)) }
}

/// A number in at most five characters.
fn few(n: f64) -> String {
    match n {
        ..9_999.5 => format!("{n:.0}"),
        ..999_500.0 => format!("{:.0}k", n / 1e3),
        _ => format!("{:.1}M", n / 1e6),
    }
}

/// The lines of the list of columns.
pub(super) fn list(canvas: &Canvas, columns: &Columns, chosen: usize, visible: usize) -> Vec<(String, bool)> {
    let first = (chosen + 1).saturating_sub(visible);
    let shown = columns.all.iter().enumerate().skip(first).take(visible);
    shown
        .map(|(at, (column, wanted))| {
            let (mark, is_in) = (if at == chosen { ">" } else { " " }, if *wanted { "[x]" } else { "[ ]" });
            let line = format!("{mark} {is_in} {:<18} {}", column.name(), column.meaning());
            (canvas.cut(&line, canvas.width), at == chosen)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_has_the_columns_that_matter_most() {
        let names = |screen| {
            let (columns, label) = Columns::default().fitting(screen);
            (columns.into_iter().map(Column::name).collect::<Vec<_>>(), label)
        };
        assert_eq!(names(60), (vec!["sends/s", "p99", "why slow"], 18));
        assert_eq!(names(80), (vec!["sends/s", "sent/s", "p99", "why slow"], 23));
        let (wide, label) = names(200);
        assert!(wide.len() > 10 && label >= 22, "{wide:?} {label}");
        for screen in 0..300 {
            let (columns, label) = Columns::default().fitting(screen);
            let used: usize = columns.iter().map(|column| column.width(screen) + 1).sum();
            assert!(MARK + used + label <= screen.max(MARK), "{screen}");
        }
    }

    #[test]
    fn chosen_columns_stay_in_their_order_by_name() {
        let columns = Columns::named(["rtt", "p99", "nothing", "rtt"]);
        assert_eq!(columns.fitting(80).0, [Column::Rtt, Column::P99]);
        assert_eq!(columns.names(), Some(vec!["rtt", "p99"]));
        assert_eq!(Columns::named([]), Columns::default());
        let mut columns = columns;
        assert_eq!(columns.shift(1, 0), 0);
        columns.toggle(1);
        assert_eq!(columns.names(), Some(vec!["p99"]));
        assert_eq!(Columns::default().names(), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names = Column::ALL.map(Column::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Column::ALL.len());
        assert!(Column::ALL.iter().all(|column| Column::BY_NEED.contains(column)));
    }
}
