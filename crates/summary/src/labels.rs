//! Requests by method and path, in bounded memory.

use record::{Label, Request};
use stats::{Distribution, Precision};

use crate::largest::{Figures, Largest};
use crate::timed::Timed;

/// A segment of a path with as many digits of a number of base 16 is taken for the name of one
/// thing.
const HEX: usize = 8;

/// The label with what names one thing of many put together: `/item/14` and `/item/15` are requests
/// of one kind, `/item/…`. Segments are put together that are a number, or eight or more digits of
/// base 16 with or without dashes (UUIDs, hashes), one of them below ten.
pub fn grouped(label: Label) -> Label {
    let names_one = |segment: &str| {
        let digits = || segment.bytes().filter(u8::is_ascii_digit).count();
        let hex = segment.bytes().filter(u8::is_ascii_hexdigit).count();
        let dashes = segment.bytes().filter(|byte| *byte == b'-').count();
        !segment.is_empty()
            && (digits() == segment.len() || (hex >= HEX && digits() > 0 && hex + dashes == segment.len()))
    };
    if !label.path.split('/').any(names_one) {
        return label;
    }
    let segments = label.path.split('/').map(|segment| if names_one(segment) { "…" } else { segment });
    Label { path: segments.collect::<Vec<_>>().join("/"), ..label }
}

/// The figures of the requests with one label.
#[derive(Clone, Debug)]
pub struct LabelFigures {
    /// Requests.
    pub n: u64,
    /// How long those took that are divided into components, nanoseconds.
    pub total: Distribution,
    /// How many were answered with each class of status, from 1xx to 5xx; the last are those with
    /// another status, or with none that was seen.
    pub answers: [u64; 6],
}

impl LabelFigures {
    fn new() -> Self {
        Self { n: 0, total: Distribution::new(Precision::Coarse), answers: [0; 6] }
    }

    fn add(&mut self, request: &Request) {
        self.n += 1;
        if let Ok(Some(total)) = request.time(request.kind().total()) {
            self.total.record(total.0);
        }
        let class = request.http.status.map_or(0, |status| usize::from(status / 100));
        self.answers[class.checked_sub(1).filter(|&class| class < 5).unwrap_or(5)] += 1;
    }

    /// Adds the requests of another label.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.total.merge(&other.total);
        self.answers.iter_mut().zip(other.answers).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl Figures for LabelFigures {
    fn of_others() -> Self {
        Self::new()
    }

    fn n(&self) -> u64 {
        self.n
    }

    fn add_all(&mut self, other: &Self) {
        self.merge(other);
    }
}

/// The labels with the most requests.
#[derive(Clone, Debug)]
pub struct LabelTable(Largest<Label, LabelFigures>);

impl LabelTable {
    /// None yet; keeps at most this many, and at least half as many.
    pub(crate) fn new(keep: usize) -> Self {
        Self(Largest::new(keep))
    }

    pub(crate) fn add(&mut self, request: &Request) {
        if let Some(label) = request.http.label() {
            self.0.of(grouped(label), LabelFigures::new).add(request);
        }
    }

    /// Those with separate figures, the most requests first.
    pub fn sorted(&self) -> Vec<(&Label, &LabelFigures)> {
        let mut all: Vec<_> = self.0.each().collect();
        all.sort_by_key(|&(label, figures)| (std::cmp::Reverse(figures.n), label));
        all
    }

    /// Those that were put together because there were too many, and how many they were.
    pub fn others(&self) -> Option<(&LabelFigures, u64)> {
        self.0.others()
    }

    /// How many requests have a label.
    pub fn n(&self) -> u64 {
        self.0
            .each()
            .map(|(_, figures)| figures)
            .chain(self.others().map(|(others, _)| others))
            .map(|figures| figures.n)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::table::Record as _;
    use record::{Http, Method};

    fn request(path: &str, status: Option<u16>) -> Request {
        let http = Http { method: Some(Method::Get), path: Some(path.into()), status, ..Http::default() };
        Request { http, ..Request::blank() }
    }

    #[test]
    fn every_request_with_a_label_is_in_its_figures_or_in_those_of_the_others() {
        let mut table = LabelTable::new(4);
        for n in 0..100 {
            table.add(&request("/often", Some(200)));
            table.add(&request(&format!("/page{n}"), None));
        }
        table.add(&Request::blank());
        assert_eq!(table.n(), 200);
        let sorted = table.sorted();
        assert!(sorted.len() <= 4);
        assert_eq!((sorted[0].0.to_string().as_str(), sorted[0].1.n), ("GET /often", 100));
        let (others, folded) = table.others().unwrap();
        assert_eq!((others.n, folded), (101 - sorted.len() as u64, 101 - sorted.len() as u64));
    }

    #[test]
    fn paths_that_name_one_thing_of_many_are_one_kind() {
        let path = |path: &str| grouped(Label { method: Method::Get, path: path.into() }).path;
        for (one, kind) in [
            ("/item/14", "/item/…"),
            ("/user/7/order/2026", "/user/…/order/…"),
            ("/f/9f86d081884c7d65", "/f/…"),
            ("/f/123e4567-e89b-12d3-a456-426614174000/x", "/f/…/x"),
            ("/v2/cart", "/v2/cart"),
            ("/facade", "/facade"),
            ("/deadbeef", "/deadbeef"),
            ("/", "/"),
            ("*", "*"),
        ] {
            assert_eq!(path(one), kind);
        }
    }

    #[test]
    fn answers_are_counted_by_the_class_of_their_status() {
        let mut table = LabelTable::new(4);
        let all = [Some(101), Some(200), Some(204), Some(302), Some(404), Some(599), Some(600), None];
        all.into_iter().for_each(|status| table.add(&request("/", status)));
        assert_eq!(table.sorted()[0].1.answers, [1, 2, 1, 1, 1, 2]);
    }
}
