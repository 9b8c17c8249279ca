//! A plot as a description: axes, layers and the words around them. The renderers draw the same
//! description: [`crate::html`] for browsers, [`image`] as SVG and PNG, [`text`] for terminals.

pub mod image;
pub mod names;
mod scale;
mod strips;
pub mod text;

use serde::Serialize;

pub use crate::hue::Hue;
use crate::table::Table;
pub use scale::{Axis, Scale, Unit};

/// A mark at one place: an interval around a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its place on the axis of names, or on the other axis.
    pub at: f64,
    /// Lower end.
    pub low: f64,
    /// The value.
    pub value: f64,
    /// Upper end.
    pub high: f64,
    /// What it says when pointed at.
    pub label: String,
}

/// Five figures of a sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Boxed {
    /// Its row.
    pub at: f64,
    /// Whiskers, ends of the box, and the middle: rising.
    pub figures: [f64; 5],
    /// What it says when pointed at.
    pub label: String,
}

/// A bar along the horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Its row.
    pub at: f64,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it says when pointed at.
    pub label: String,
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Left and right.
    pub x: [f64; 2],
    /// Bottom and top.
    pub y: [f64; 2],
    /// How dark, 0 to 1.
    pub shade: f64,
    /// What it says when pointed at.
    pub label: String,
}

/// What is drawn. Later layers lie above earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Layer {
    /// Points joined by a line, which a point that is not a number breaks.
    Line {
        /// Its name in the legend; empty for none.
        name: String,
        /// Its colour.
        hue: Hue,
        /// The points, x rising.
        points: Vec<[f64; 2]>,
        /// Whether it keeps its height until the next point.
        step: bool,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// Points by themselves.
    Dots {
        /// Its name in the legend; empty for none.
        name: String,
        /// Its colour.
        hue: Hue,
        /// The points.
        points: Vec<[f64; 2]>,
        /// For each point the name of the row that it stands for (see
        /// [`crate::document::Row::anchor`]); none where there are none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        links: Vec<String>,
    },
    /// Values with intervals: along x where y has names, otherwise along y.
    Intervals {
        /// Its name in the legend; empty for none.
        name: String,
        /// Its colour.
        hue: Hue,
        /// The intervals.
        items: Vec<Interval>,
    },
    /// Boxes with whiskers, along x.
    Boxes {
        /// Its name in the legend; empty for none.
        name: String,
        /// Its colour.
        hue: Hue,
        /// The boxes.
        items: Vec<Boxed>,
    },
    /// Bars along x.
    Spans {
        /// Its name in the legend; empty for none.
        name: String,
        /// Its colour.
        hue: Hue,
        /// The bars.
        items: Vec<Span>,
    },
    /// A heat map.
    Heat {
        /// What darkness says.
        name: String,
        /// The cells.
        cells: Vec<Cell>,
    },
    /// A line across the plot at a value.
    Rule {
        /// What it is.
        name: String,
        /// Whether it stands upright, at a value of x.
        upright: bool,
        /// The value.
        value: f64,
    },
}

impl Layer {
    /// A plain line.
    pub fn line(name: impl Into<String>, hue: Hue, points: Vec<[f64; 2]>) -> Self {
        Self::Line { name: name.into(), hue, points, step: false, dashed: false }
    }

    /// Points by themselves that link nowhere.
    pub fn dots(name: impl Into<String>, hue: Hue, points: Vec<[f64; 2]>) -> Self {
        Self::Dots { name: name.into(), hue, points, links: Vec::new() }
    }

    /// A name, and the colour of its key, where it has a place in the legend.
    pub fn key(&self) -> Option<(&str, Hue, bool)> {
        let (name, hue, dashed) = match self {
            Self::Line { name, hue, dashed, .. } => (name, *hue, *dashed),
            Self::Dots { name, hue, .. }
            | Self::Intervals { name, hue, .. }
            | Self::Boxes { name, hue, .. }
            | Self::Spans { name, hue, .. } => (name, *hue, false),
            Self::Heat { .. } => return None,
            Self::Rule { name, .. } => (name, Hue::NEUTRAL, true),
        };
        (!name.is_empty()).then_some((name.as_str(), hue, dashed))
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Line { points, .. } | Self::Dots { points, .. } => pieces(points).next().is_none(),
            Self::Intervals { items, .. } => items.is_empty(),
            Self::Boxes { items, .. } => items.is_empty(),
            Self::Spans { items, .. } => items.is_empty(),
            Self::Heat { cells, .. } => cells.is_empty(),
            Self::Rule { .. } => false,
        }
    }

    /// Every position on both axes.
    fn each(&self, upright_intervals: bool, mut see: impl FnMut(Option<f64>, Option<f64>)) {
        match self {
            Self::Line { points, .. } | Self::Dots { points, .. } => {
                points.iter().for_each(|p| see(Some(p[0]), Some(p[1])));
            }
            Self::Intervals { items, .. } => {
                for i in items {
                    for end in [i.low, i.high, i.value] {
                        if upright_intervals { see(Some(i.at), Some(end)) } else { see(Some(end), Some(i.at)) }
                    }
                }
            }
            Self::Boxes { items, .. } => {
                items.iter().for_each(|b| b.figures.iter().for_each(|f| see(Some(*f), Some(b.at))));
            }
            Self::Spans { items, .. } => {
                for s in items {
                    see(Some(s.from), Some(s.at));
                    see(Some(s.to), Some(s.at));
                }
            }
            Self::Heat { cells, .. } => {
                for c in cells {
                    see(Some(c.x[0]), Some(c.y[0]));
                    see(Some(c.x[1]), Some(c.y[1]));
                }
            }
            Self::Rule { upright: true, value, .. } => see(Some(*value), None),
            Self::Rule { value, .. } => see(None, Some(*value)),
        }
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// Its name in a file's name: letters, digits and dashes.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it, with n, and what was omitted.
    pub caption: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left.
    pub y: Axis,
    /// What is drawn.
    pub layers: Vec<Layer>,
    /// The letter of each layer of bars that stand end to end, which distinguishes them where
    /// colours do not.
    letters: Vec<Option<char>>,
    /// Whether a terminal draws each line as one row of bars: for many plots of a few lines.
    #[serde(skip)]
    pub strips: bool,
    /// The same in figures, for whoever cannot see it.
    #[serde(skip)]
    pub table: Option<Table>,
}

impl Plot {
    /// A plot of these layers, without the empty ones; `None` where nothing is left. Axes are laid
    /// over what is drawn.
    pub fn new(
        id: &str,
        title: impl Into<String>,
        caption: impl Into<String>,
        (x, y): (Axis, Axis),
        mut layers: Vec<Layer>,
    ) -> Option<Self> {
        layers.retain(|l| !l.is_empty());
        if layers.iter().all(|l| matches!(l, Layer::Rule { .. })) {
            return None;
        }
        let upright = !matches!(y.scale, Scale::Names { .. });
        let (mut xs, mut ys) = (scale::Reach::default(), scale::Reach::default());
        for layer in &layers {
            layer.each(upright, |x, y| {
                x.into_iter().for_each(|x| xs.see(x));
                y.into_iter().for_each(|y| ys.see(y));
            });
        }
        let (x, y) = (x.over(xs), y.over(ys));
        Some(Self {
            id: id.into(),
            title: title.into(),
            caption: caption.into(),
            x,
            y,
            letters: letters(&layers),
            layers,
            strips: false,
            table: None,
        })
    }

    /// The layers, each with the letter that is written in its bars.
    pub fn lettered(&self) -> impl Iterator<Item = (&Layer, Option<char>)> {
        self.layers.iter().zip(self.letters.iter().copied())
    }

    /// With the same in figures.
    #[must_use]
    pub fn with_table(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }

    /// With each line as one row of bars on a terminal.
    #[must_use]
    pub fn in_strips(mut self) -> Self {
        self.strips = true;
        self
    }

    /// How high it is drawn, in pixels, for a plot of ordinary width.
    pub fn height(&self) -> u32 {
        match &self.y.scale {
            Scale::Names { names } => 110 + 30 * u32::try_from(names.len()).unwrap_or(60).clamp(2, 60),
            _ => 380,
        }
    }
}

/// A letter for each layer of bars that has a name, where there are several: one of its name that
/// no other has, or else any.
fn letters(layers: &[Layer]) -> Vec<Option<char>> {
    let name = |layer: &Layer| match layer {
        Layer::Spans { name, .. } if !name.is_empty() => Some(name.clone()),
        _ => None,
    };
    if layers.iter().filter_map(name).count() < 2 {
        return vec![None; layers.len()];
    }
    let mut taken = std::collections::BTreeSet::new();
    let mut letter = |name: String| {
        let own = name.to_lowercase();
        own.chars().filter(char::is_ascii_lowercase).chain('A'..='Z').find(|c| taken.insert(*c)).unwrap_or('?')
    };
    layers.iter().map(|layer| name(layer).map(&mut letter)).collect()
}

/// The stretches of a line that nothing breaks.
pub fn pieces(points: &[[f64; 2]]) -> impl Iterator<Item = &[[f64; 2]]> {
    points.split(|p| !p[0].is_finite() || !p[1].is_finite()).filter(|piece| !piece.is_empty())
}

/// As many points as a screen shows: of each of its columns the first, the lowest, the highest and
/// the last, so that no extreme is lost. About `most` of them, x rising; where there are no more
/// they stay as they are.
pub fn thinned(points: Vec<[f64; 2]>, most: usize) -> Vec<[f64; 2]> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return points };
    if points.len() <= most {
        return points;
    }
    let (from, width) = (first[0], (last[0] - first[0]).max(1.0) * 4.0 / most as f64);
    let column = |p: &[f64; 2]| ((p[0] - from) / width) as u64;
    let mut kept = Vec::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_height = |a: &usize, b: &usize| group[*a][1].total_cmp(&group[*b][1]);
        let low = (0..group.len()).min_by(by_height).unwrap_or(0);
        let high = (0..group.len()).max_by(by_height).unwrap_or(0);
        let mut places = [0, low, high, group.len() - 1];
        places.sort_unstable();
        kept.extend(places.iter().enumerate().filter(|(i, p)| *i == 0 || places[i - 1] != **p).map(|(_, p)| group[*p]));
    }
    kept
}

/// Five significant figures: what no screen shows more of, and no file needs to hold.
pub fn tidy(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_stand_end_to_end_have_a_letter_each() {
        let spans = |name: &str| Layer::Spans {
            name: name.into(),
            hue: Hue(0),
            items: vec![Span { at: 0.0, from: 0.0, to: 1.0, label: String::new() }],
        };
        let of = |names: &[&str]| letters(&names.iter().map(|name| spans(name)).collect::<Vec<_>>());
        assert_eq!(of(&["tcp", "transfer", "network", "t"]), [Some('t'), Some('r'), Some('n'), Some('A')]);
        assert_eq!(of(&["tcp", ""]), [None, None]);
        assert_eq!(of(&["tcp"]), [None]);
    }

    #[test]
    fn thinning_keeps_a_single_spike_and_a_single_dip() {
        let mut points: Vec<[f64; 2]> = (0..100_000).map(|i| [f64::from(i) * 1e6, 50.0]).collect();
        (points[31_337][1], points[77_777][1]) = (900.0, 1.0);
        let thin = thinned(points.clone(), 400);
        assert!(thin.len() <= 404, "{}", thin.len());
        assert!(thin.contains(&points[31_337]) && thin.contains(&points[77_777]));
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
        assert!(thin.is_sorted_by(|a, b| a[0] < b[0]));
        assert_eq!(thinned(points[..400].to_vec(), 400).len(), 400);
    }
}
