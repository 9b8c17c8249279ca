//! The lines of a plot for a terminal, each as one row of bars: many series take little room so.

use unicode_width::UnicodeWidthStr as _;

use super::names::apart;
use super::{Axis, Hue, Layer, Plot};
use crate::canvas::{Canvas, Ink};

/// From nothing to the top of the scale.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same in ASCII.
const MARKS: [char; 9] = [' ', '.', '.', ':', ':', '+', '+', '#', '#'];
/// Columns of bars, at most.
const COLUMNS: usize = 60;

/// Draws the title with the reach of both axes, and a row for each line, all from zero to the
/// highest mean of a column.
pub(super) fn draw(canvas: &Canvas, out: &mut String, plot: &Plot) {
    let lines: Vec<(&str, Hue, &[[f64; 2]])> = plot
        .layers
        .iter()
        .filter_map(|layer| match layer {
            Layer::Line { name, hue, points, .. } => Some((name.as_str(), *hue, points.as_slice())),
            _ => None,
        })
        .collect();
    let ranges: Vec<String> = lines.iter().map(|line| canvas.plain(&range(&plot.y, line.2))).collect();
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let label = widest(&mut lines.iter().map(|line| line.0.width())).min(canvas.width / 3);
    let figures = widest(&mut ranges.iter().map(|range| range.width()));
    let columns = canvas.width.saturating_sub(label + figures + 6).clamp(10, COLUMNS);
    let end = lines.iter().flat_map(|line| line.2).map(|point| point[0]).fold(0.0, f64::max);
    let drawn: Vec<Vec<Option<f64>>> = lines.iter().map(|line| means(line.2, columns, end)).collect();
    let top = drawn.iter().flatten().flatten().fold(0.0, |a: f64, b| a.max(*b));
    out.push('\n');
    out.push_str(&canvas.paint(Ink::Strong, &canvas.cut(&plot.title, canvas.width)));
    out.push('\n');
    let reach = format!("0 to {}, bars from 0 to {}; {}", words(&plot.x, end), words(&plot.y, top), plot.caption);
    let mut text = String::new();
    canvas.paragraph(&mut text, &reach, 2);
    text.lines().for_each(|line| out.push_str(&format!("{}\n", canvas.paint(Ink::Faint, line))));
    let names: Vec<&str> = lines.iter().map(|line| line.0).collect();
    let names = apart(&names, &|name| canvas.cut(name, label));
    for ((((_, hue, _), name), cells), range) in lines.iter().zip(&names).zip(&drawn).zip(&ranges) {
        let fill = " ".repeat(label.saturating_sub(name.width()));
        let bars: String = cells.iter().map(|cell| bar(canvas, *cell, top)).collect();
        out.push_str(format!("  {name}{fill}  {}  {range}", canvas.paint(Ink::Hue(*hue), &bars)).trim_end());
        out.push('\n');
    }
}

fn bar(canvas: &Canvas, value: Option<f64>, top: f64) -> char {
    let bars = if canvas.unicode { BARS } else { MARKS };
    match value {
        None if canvas.unicode => '·',
        None => '-',
        Some(_) if top <= 0.0 => bars[0],
        Some(value) => bars[((value / top * 8.0).round().clamp(0.0, 8.0)) as usize],
    }
}

/// What each of so many equal columns from zero to `end` shows: the mean of what falls into it, or,
/// where there are fewer points than columns, the nearest point. That is none where it is no number
/// or farther than the points lie from each other.
fn means(points: &[[f64; 2]], columns: usize, end: f64) -> Vec<Option<f64>> {
    let placed: Vec<&[f64; 2]> = points.iter().filter(|p| p[0].is_finite()).collect();
    if placed.len() <= columns {
        let (Some(first), Some(last)) = (placed.first(), placed.last()) else { return vec![None; columns] };
        let apart = if placed.len() > 1 { 1.01 * (last[0] - first[0]) / (placed.len() - 1) as f64 } else { end };
        let away = |p: &[f64; 2], at: f64| (p[0] - at).abs();
        let shown = |at: f64| {
            let nearest = placed.iter().min_by(|a, b| away(a, at).total_cmp(&away(b, at)))?;
            (away(nearest, at) <= apart && nearest[1].is_finite()).then_some(nearest[1])
        };
        return (0..columns).map(|i| shown((i as f64 + 0.5) / columns as f64 * end)).collect();
    }
    let mut cells = vec![(0.0, 0_u32); columns];
    for [x, y] in points.iter().filter(|p| p[0].is_finite() && p[1].is_finite()) {
        let at = if end > 0.0 { (x / end * columns as f64) as usize } else { 0 };
        let cell = &mut cells[at.min(columns - 1)];
        *cell = (cell.0 + y, cell.1 + 1);
    }
    cells.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
}

fn words(axis: &Axis, value: f64) -> String {
    // Three digits.
    let step = if value > 0.0 { 10f64.powf(value.log10().floor() - 2.0) } else { 1.0 };
    axis.words((value / step).round() * step, step)
}

fn range(axis: &Axis, points: &[[f64; 2]]) -> String {
    let values = || points.iter().map(|p| p[1]).filter(|v| v.is_finite());
    match (values().reduce(f64::min), values().reduce(f64::max)) {
        (Some(low), Some(high)) => format!("{} … {}", words(axis, low), words(axis, high)),
        _ => "nothing".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Hue, Unit};

    #[test]
    fn each_of_a_few_points_is_seen_wherever_it_lies_in_its_interval() {
        // Two intervals that end a little late.
        let two = means(&[[1.0006, 19.8], [2.0010, 20.9]], 60, 2.0010);
        assert!(two.iter().all(Option::is_some), "{two:?}");
        assert!(two.contains(&Some(19.8)) && two.contains(&Some(20.9)), "{two:?}");
        // A point that is no number is a gap, and so is the time after a line that ends early.
        let gap = means(&[[0.0, 1.0], [1.0, f64::NAN], [2.0, 3.0]], 9, 8.0);
        assert_eq!(gap[0], Some(1.0));
        assert_eq!(gap[1], None);
        assert_eq!(gap[2], Some(3.0));
        assert_eq!(gap[8], None);
        assert_eq!(means(&[[5.0, 7.0]], 3, 5.0), [Some(7.0); 3]);
        assert_eq!(means(&[], 3, 5.0), [None; 3]);
    }

    #[test]
    fn lines_are_drawn_on_one_scale_and_fit_the_canvas() {
        let on = Layer::line("on (n = 3)", Hue(0), vec![[0.0, 20e6], [1e8, 20e6]]);
        let off = Layer::line("off (n = 3)", Hue(1), vec![[0.0, 10e6], [1e8, 0.0]]);
        let axes = (Axis::linear("time", Unit::Time), Axis::linear("goodput", Unit::Rate));
        let plot = Plot::new("p", "goodput over time", "means", axes, vec![on, off]).unwrap().in_strips();
        for (width, unicode, full, half) in [(60, false, "##", "::"), (100, true, "██", "▄▄")] {
            let mut out = String::new();
            crate::plot::text::draw(&Canvas { width, colour: false, unicode }, &mut out, &plot);
            assert!(out.contains(full) && out.contains(half) && out.matches("20.0 Mbit/s").count() == 3, "{out}");
            assert!(out.lines().all(|line| line.width() <= width), "{out}");
            assert!(out.contains("off (n = 3)"), "{out}");
        }
    }
}
