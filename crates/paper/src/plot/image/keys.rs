//! What the legend of an image names, and the room that it takes.

use super::words::{cut, text_width};
use super::{LETTER, WIDTH};
use crate::plot::names::apart;
use crate::plot::{Hue, Layer, Plot};

/// Pixels left of what is written.
pub(super) const MARGIN: i32 = 14;
/// Pixels from one row of the legend to the next.
pub(super) const LEGEND_ROW: i32 = 20;

/// Pixels of a name, at most: two of them fit beside each other.
const NAME: f64 = 440.0;

/// A name in the legend, with the pixels that it takes.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) hue: Hue,
    pub(super) symbol: Symbol,
    pub(super) width: i32,
}

/// What is drawn before a name: what its layer is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Line,
    Dashes,
    Dot,
    Interval,
    /// A bar or a box, and the letter in it.
    Bar(Option<char>),
}

impl Symbol {
    fn of(layer: &Layer, letter: Option<char>) -> Self {
        match layer {
            Layer::Line { dashed: false, .. } => Self::Line,
            Layer::Line { .. } | Layer::Rule { .. } => Self::Dashes,
            Layer::Dots { .. } => Self::Dot,
            Layer::Intervals { .. } => Self::Interval,
            Layer::Boxes { .. } | Layer::Spans { .. } | Layer::Heat { .. } => Self::Bar(letter),
        }
    }
}

/// The legend in rows; none where one plain series needs no name.
pub(super) fn keys(plot: &Plot) -> Vec<Vec<Key>> {
    let mut named: Vec<(&str, Hue, Symbol)> = Vec::new();
    for (layer, letter) in plot.lettered() {
        if let Some((name, hue, _)) = layer.key().filter(|key| named.iter().all(|known| known.0 != key.0)) {
            named.push((name, hue, Symbol::of(layer, letter)));
        }
    }
    if named.len() < 2 && !named.iter().any(|key| key.2 == Symbol::Dashes) {
        return Vec::new();
    }
    rows(&named)
}

/// Keys in rows of a legend.
pub(super) fn rows(named: &[(&str, Hue, Symbol)]) -> Vec<Vec<Key>> {
    let mut rows: Vec<Vec<Key>> = vec![Vec::new()];
    let mut x = MARGIN;
    let names: Vec<&str> = named.iter().map(|key| key.0).collect();
    let names = apart(&names, &|name| cut(name, NAME));
    for (&(_, hue, symbol), name) in named.iter().zip(names) {
        let width = text_width(&name, LETTER) as i32 + 44;
        if x + width > WIDTH as i32 && x > MARGIN {
            rows.push(Vec::new());
            x = MARGIN;
        }
        x += width;
        rows.iter_mut()
            .next_back()
            .into_iter()
            .for_each(|row| row.push(Key { name: name.clone(), hue, symbol, width }));
    }
    rows
}

/// The height of the legend's rows but the first.
pub(super) fn further_rows(plot: &Plot) -> u32 {
    keys(plot).len().saturating_sub(1) as u32 * LEGEND_ROW as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plot::{Axis, Unit};

    #[test]
    fn names_that_are_too_long_for_a_legend_differ_in_it() {
        let name =
            |i: usize| format!("tcp_timestamps 1, congestion cubic, {i}, b.net.ipv4.tcp_rmem 4096 131072 67108864");
        let layers = (0..6).map(|i| Layer::line(name(i), Hue::nth(i), vec![[0.0, 0.0], [1.0, i as f64]])).collect();
        let axes = (Axis::linear("x", Unit::Plain), Axis::linear("y", Unit::Plain));
        let plot = Plot::new("p", "t", "c", axes, layers).unwrap();
        let keys: Vec<String> = keys(&plot).into_iter().flatten().map(|key| key.name).collect();
        let different: BTreeSet<&String> = keys.iter().collect();
        assert_eq!((keys.len(), different.len()), (6, 6), "{keys:?}");
        assert!(keys.iter().all(|key| text_width(key, LETTER) <= NAME), "{keys:?}");
    }
}
