//! What a page shows before all words: a few large figures, and one bar.

use crate::plot::Hue;

/// A few figures and one bar, for pages: the headline says the same in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// What each figure is, and the figure with its unit.
    pub figures: Vec<(String, String)>,
    /// What the bar divides, in words.
    pub whole: String,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of the bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub hue: Hue,
    /// Its share of the whole, 0 to 1.
    pub share: f64,
}

impl Glance {
    /// The parts as ranges of the bar, each from where the one before ends: shares of a hundred,
    /// cut where together they are more than the whole.
    pub fn ranges(&self) -> impl Iterator<Item = (&Part, f64, f64)> {
        let mut from = 0.0;
        self.parts.iter().map(move |part| {
            let to = (from + part.share.clamp(0.0, 1.0) * 100.0).min(100.0);
            let range = (part, from, to - from);
            from = to;
            range
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_and_end_with_the_bar() {
        let part = |share| Part { name: String::new(), hue: Hue(0), share };
        let glance = Glance { parts: [0.5, 0.25, 0.75].map(part).into(), ..Glance::default() };
        let ranges: Vec<(f64, f64)> = glance.ranges().map(|(_, from, length)| (from, length)).collect();
        assert_eq!(ranges, [(0.0, 50.0), (50.0, 25.0), (75.0, 25.0)]);
    }
}
