//! Where the time of joined requests went.

use record::{Component, Nanos};
use serde::Serialize;
use stats::{Distribution, Precision, Quantile};

use super::{FoundBy, Join, Joined};

/// Requests that are listed one by one, the slowest.
const SLOWEST: usize = 10;

/// What part of a request a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// One of the components that add up to it.
    Component(Component),
    /// Of the network, the way from the client to the server. How the network's time divides
    /// between its two ways rests on the clocks; together they are one component.
    There,
    /// Of the network, the way from the server to the client.
    Back,
    /// The whole request.
    Whole,
}

impl Piece {
    /// All of them, in the order in which a request passes them; the ways of the network after it,
    /// and the whole last.
    pub fn all() -> impl Iterator<Item = Self> {
        let ways = |component| if component == Component::Network { &[Self::There, Self::Back][..] } else { &[] };
        let with_ways =
            move |component| std::iter::once(Self::Component(component)).chain(ways(component).iter().copied());
        Component::ALL.into_iter().flat_map(with_ways).chain([Self::Whole])
    }

    /// Its word in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Component(component) => component.name(),
            Self::There => "network_there",
            Self::Back => "network_back",
            Self::Whole => "whole",
        }
    }

    /// How long it took in one request.
    fn of(self, joined: &Joined) -> Option<Nanos> {
        match self {
            Self::Component(component) => joined.request.components?.get(component),
            Self::There => Some(joined.there),
            Self::Back => Some(joined.back),
            Self::Whole => joined.request.whole(),
        }
    }
}

fn piece<S: serde::Serializer>(piece: &Piece, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(piece.name())
}

/// How long one part of requests took.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Which.
    #[serde(rename = "component", serialize_with = "piece")]
    pub piece: Piece,
    /// Requests that have it.
    pub n: u64,
    /// Percentiles, nanoseconds; `None` where too few requests carry one.
    pub p50_ns: Option<u64>,
    /// As `p50_ns`.
    pub p90_ns: Option<u64>,
    /// As `p50_ns`.
    pub p99_ns: Option<u64>,
    /// All together, nanoseconds.
    pub sum_ns: u64,
    /// Of the whole.
    pub share: f64,
    /// The largest bound on the error of one that the clocks leave, nanoseconds: 0 but for the
    /// network's two ways.
    pub error_ns: u64,
}

/// The server's clock by the client's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clock {
    /// How far it was ahead in the middle of the requests, nanoseconds; negative where it was
    /// behind.
    pub ahead_ns: i64,
    /// The bound on the error of that, to either side.
    pub error_ns: u64,
    /// By how much it ran faster, millionths; `None` for less than a second.
    pub drift_ppm: Option<f64>,
    /// The bound on the error of that, to either side.
    pub drift_error_ppm: Option<f64>,
    /// Stretches of time in each of which both clocks ran steadily.
    pub stretches: u64,
}

/// By what the two ends of connections were found.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Found {
    /// Connections, by addresses, ports and sequence numbers.
    pub addresses: u64,
    /// Connections, by sequence numbers and sizes: the addresses differ.
    pub sequence_numbers: u64,
}

/// A request that both hosts saw.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Slow {
    /// Its connection, by the client's id.
    pub connection_id: u64,
    /// When it began, by the client's clock.
    pub began_at_ns: Option<u64>,
    /// How long it took.
    pub whole_ns: u64,
    /// The longest of its components.
    pub longest: Component,
    /// From the client's driver to the server.
    pub network_there_ns: u64,
    /// From the server's driver to the client.
    pub network_back_ns: u64,
    /// In the server's program.
    pub peer_application_ns: u64,
}

/// Two hosts' runs, joined.
#[derive(Clone, Debug, Serialize)]
pub struct Hosts {
    /// What the runs are called: the client's, the server's.
    pub names: [String; 2],
    /// Requests that the client made.
    pub asked: u64,
    /// Of those, on connections that both runs have.
    pub shared: u64,
    /// Of those, divided with the stamps of both ends.
    pub joined: u64,
    /// Of those, seen by both and without a stamp, or with two out of order.
    pub undivided: u64,
    /// Connections that both runs have.
    pub found_by: Found,
    /// The server's clock; `None` where nothing was joined.
    pub clock: Option<Clock>,
    /// The components, in the order in which a request passes them.
    pub components: Vec<Figure>,
    /// The slowest requests.
    pub slowest: Vec<Slow>,
}

impl Hosts {
    /// The figure of a part of requests; `None` where no request has it.
    pub fn of(&self, piece: Piece) -> Option<&Figure> {
        self.components.iter().find(|figure| figure.piece == piece)
    }

    /// The component that took most of the time.
    pub fn most(&self) -> Option<(Component, &Figure)> {
        let component = |figure| match figure {
            figure @ &Figure { piece: Piece::Component(component), .. } => Some((component, figure)),
            _ => None,
        };
        self.components.iter().filter_map(component).max_by_key(|(_, figure)| figure.sum_ns)
    }
}

/// Gathers what two joined runs say.
pub fn gather(names: [&str; 2], join: &Join) -> Hosts {
    let mut found_by = Found::default();
    for (_, _, by) in &join.connections {
        match by {
            FoundBy::Addresses => found_by.addresses += 1,
            FoundBy::SequenceNumbers => found_by.sequence_numbers += 1,
        }
    }
    Hosts {
        names: names.map(str::to_owned),
        asked: join.asked,
        shared: join.shared,
        joined: join.joined.len() as u64,
        undivided: join.undivided,
        found_by,
        clock: clock(join),
        components: figures(&join.joined),
        slowest: slowest(&join.joined),
    }
}

fn clock(join: &Join) -> Option<Clock> {
    let clocks = join.clocks.as_ref()?;
    let middle = join.joined.get(join.joined.len() / 2)?.request.moments.left?;
    let ahead = clocks.ahead(middle);
    let drift = clocks.drift();
    Some(Clock {
        ahead_ns: i64::try_from(ahead.by).unwrap_or(if ahead.by < 0 { i64::MIN } else { i64::MAX }),
        error_ns: ahead.error.0,
        drift_ppm: drift.map(|d| d.ppm),
        drift_error_ppm: drift.map(|d| d.error_ppm),
        stretches: clocks.stretches() as u64,
    })
}

fn figures(joined: &[Joined]) -> Vec<Figure> {
    let times = |piece: Piece| {
        let mut of = Distribution::new(Precision::Fine);
        joined.iter().filter_map(|one| piece.of(one)).for_each(|time| of.record(time.0));
        of
    };
    let whole = times(Piece::Whole).sum();
    let error = joined.iter().map(|j| j.error.0).max().unwrap_or(0);
    let figure = |piece| {
        let of = times(piece);
        Figure {
            piece,
            n: of.n(),
            p50_ns: of.quantile(Quantile::P50),
            p90_ns: of.quantile(Quantile::P90),
            p99_ns: of.quantile(Quantile::P99),
            sum_ns: u64::try_from(of.sum()).unwrap_or(u64::MAX),
            share: of.sum() as f64 / whole as f64,
            error_ns: if matches!(piece, Piece::There | Piece::Back) { error } else { 0 },
        }
    };
    Piece::all().map(figure).filter(|f| f.n > 0).collect()
}

fn slowest(joined: &[Joined]) -> Vec<Slow> {
    let mut all: Vec<&Joined> = joined.iter().collect();
    all.sort_by_key(|j| std::cmp::Reverse(j.request.whole()));
    let one = |joined: &&Joined| {
        let components = joined.request.components?;
        let longest = Component::ALL.into_iter().max_by_key(|component| components.get(*component))?;
        Some(Slow {
            connection_id: joined.request.connection.0,
            began_at_ns: joined.request.began().map(|at| at.as_nanos()),
            whole_ns: joined.request.whole()?.0,
            longest,
            network_there_ns: joined.there.0,
            network_back_ns: joined.back.0,
            peer_application_ns: components.peer_application?.0,
        })
    };
    all.iter().take(SLOWEST).filter_map(one).collect()
}
