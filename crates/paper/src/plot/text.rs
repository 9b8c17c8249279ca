//! Plots in the characters of a terminal.
//!
//! Drawn by hand: ratatui's `Chart` and `Canvas` have no logarithmic axes, no rows of names, no
//! intervals, boxes or shades, and no ASCII.

use unicode_width::UnicodeWidthStr as _;

use super::names::apart;
use super::{Axis, Hue, Layer, Plot, Scale};
use crate::canvas::{Canvas, Ink};

/// Rows of a plot without names.
const HEIGHT: usize = 14;
/// What marks a series where there is no colour to recognise it by; more than a plot has series.
const MARKS: [char; 14] = ['*', '+', 'o', 'x', '#', '%', '@', '=', '&', '~', '^', '$', '?', '!'];
/// What marks a line or points that have no name.
const UNNAMED: char = '.';

/// Characters with their inks. Lines are drawn finer than characters, in dots of two by four to
/// each.
struct Grid {
    columns: usize,
    rows: usize,
    cells: Vec<(char, Option<Ink>)>,
    dots: Vec<(u8, Option<Ink>)>,
}

impl Grid {
    fn new(columns: usize, rows: usize) -> Self {
        let n = columns * rows;
        Self { columns, rows, cells: vec![(' ', None); n], dots: vec![(0, None); n] }
    }

    fn put(&mut self, column: usize, row: usize, c: char, ink: Ink) {
        if column < self.columns && row < self.rows {
            self.cells[row * self.columns + column] = (c, Some(ink));
        }
    }

    /// A dot at this place of a grid of twice the columns and four times the rows.
    fn dot(&mut self, x: usize, y: usize, ink: Ink) {
        const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let (column, row) = (x / 2, y / 4);
        if column < self.columns && row < self.rows {
            let cell = &mut self.dots[row * self.columns + column];
            *cell = (cell.0 | BITS[x % 2][y % 4], Some(ink));
        }
    }

    fn row(&self, row: usize, canvas: &Canvas) -> String {
        let mut line = String::new();
        let from = row * self.columns;
        for (cell, dots) in self.cells[from..from + self.columns].iter().zip(&self.dots[from..]) {
            let (c, ink) = match (cell.0, dots.0) {
                (' ', 0) => (' ', None),
                (' ', bits) => (char::from_u32(0x2800 + u32::from(bits)).unwrap_or('.'), dots.1),
                _ => *cell,
            };
            match ink {
                Some(ink) => line.push_str(&canvas.paint(ink, c.encode_utf8(&mut [0; 4]))),
                None => line.push(c),
            }
        }
        line
    }
}

/// Draws the plot with its title and its caption. Names that are wider than two fifths of the
/// canvas stand above their rows.
pub fn draw(canvas: &Canvas, out: &mut String, plot: &Plot) {
    if plot.strips {
        return super::strips::draw(canvas, out, plot);
    }
    out.push('\n');
    canvas.title(out, &plot.title);
    let named = matches!(plot.y.scale, Scale::Names { .. });
    let ticks = plot.y.ticks(if named { usize::MAX } else { 4 });
    let longest = ticks.iter().map(|t| canvas.plain(&t.1).width()).max().unwrap_or(0);
    let most = canvas.width * 2 / 5;
    let above = named && longest > most;
    let label = if above { 0 } else { longest.min(most) };
    let columns = canvas.width.clamp(40, 120).saturating_sub(label + 2).max(16);
    let rows = if named { ticks.len() } else { HEIGHT };
    let mut grid = Grid::new(columns, rows);
    let fine = canvas.colour && canvas.unicode;
    for ((layer, letter), mark) in plot.lettered().zip(marks(plot)) {
        let (unicode, colour) = (canvas.unicode, canvas.colour);
        Drawing { grid: &mut grid, plot, named, fine, unicode, colour, letter }.layer(layer, mark);
    }
    legend(canvas, out, plot, fine);
    if !plot.y.label.is_empty() && !named {
        out.push_str(&canvas.paint(Ink::Faint, &canvas.cut(&plot.y.label, canvas.width)));
        out.push('\n');
    }
    let names: Vec<&str> = ticks.iter().map(|t| t.1.as_str()).collect();
    let room = if above { canvas.width } else { label };
    let names = apart(&names, &|name| canvas.cut(name, room));
    for row in 0..rows {
        let of_row = ticks.iter().zip(&names).find(|(t, _)| row_of(&plot.y, t.0, rows, named) == row);
        let mut words = of_row.map_or("", |(_, name)| name);
        if above {
            out.push_str(&canvas.paint(Ink::Faint, words));
            out.push('\n');
            words = "";
        }
        let fill = " ".repeat(label.saturating_sub(words.width()));
        let bar = if canvas.unicode { '│' } else { '|' };
        let line = format!("{}{} {}", canvas.paint(Ink::Faint, &format!("{fill}{words}")), bar, grid.row(row, canvas));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    axis(canvas, out, &plot.x, label + 2, columns);
    canvas.lines(out, Ink::Faint, &plot.caption);
}

/// The mark of each layer: one for each name of lines and points.
fn marks(plot: &Plot) -> Vec<char> {
    let mut names: Vec<&str> = Vec::new();
    let mut marks = Vec::with_capacity(plot.layers.len());
    for layer in &plot.layers {
        marks.push(match layer {
            Layer::Line { name, .. } | Layer::Dots { name, .. } if !name.is_empty() => {
                let at = names.iter().position(|known| known == name).unwrap_or(names.len());
                if at == names.len() {
                    names.push(name);
                }
                MARKS[at % MARKS.len()]
            }
            _ => UNNAMED,
        });
    }
    marks
}

fn legend(canvas: &Canvas, out: &mut String, plot: &Plot, fine: bool) {
    let mut found: Vec<(&str, Hue, String)> = Vec::new();
    let glyph = |unicode: &str, ascii: &str| if canvas.unicode { unicode } else { ascii }.to_owned();
    for ((layer, letter), mark) in plot.lettered().zip(marks(plot)) {
        let Some((name, hue, dashed)) = layer.key().filter(|k| found.iter().all(|known| known.0 != k.0)) else {
            continue;
        };
        // What is drawn.
        let mark = match layer {
            Layer::Line { .. } | Layer::Dots { .. } if !fine => mark.into(),
            Layer::Line { .. } if dashed => "⠒⠐".into(),
            Layer::Line { .. } => "⠒⠒".into(),
            Layer::Dots { .. } => "•".into(),
            Layer::Rule { upright: true, .. } => glyph("┊", ":"),
            Layer::Rule { .. } => glyph("╌", "-"),
            Layer::Intervals { .. } => glyph("●", "o"),
            Layer::Boxes { .. } => glyph("▒", "="),
            Layer::Spans { .. } => letter.map_or_else(|| glyph("█", "#"), String::from),
            Layer::Heat { .. } => continue,
        };
        found.push((name, hue, mark));
    }
    let names: Vec<&str> = found.iter().map(|key| key.0).collect();
    let names = apart(&names, &|name| canvas.cut(name, canvas.width.saturating_sub(3)));
    let keys: Vec<(usize, String)> = found
        .iter()
        .zip(&names)
        .map(|((_, hue, mark), name)| {
            (mark.width() + 1 + name.width(), format!("{} {name}", canvas.paint(Ink::Hue(*hue), mark)))
        })
        .collect();
    if keys.len() < 2 {
        return;
    }
    let mut used = 0;
    for (width, key) in keys {
        if used > 0 && used + 3 + width > canvas.width {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push_str("   ");
            used += 3;
        }
        out.push_str(&key);
        used += width;
    }
    out.push('\n');
}

fn row_of(axis: &Axis, value: f64, rows: usize, named: bool) -> usize {
    let place = axis.place(value).clamp(0.0, 1.0);
    let down = if named { place } else { 1.0 - place };
    ((down * rows as f64) as usize).min(rows.saturating_sub(1))
}

fn axis(canvas: &Canvas, out: &mut String, axis: &Axis, indent: usize, columns: usize) {
    let (line, tick) = if canvas.unicode { ('─', '┴') } else { ('-', '+') };
    let mut rule = vec![line; columns];
    let mut words = String::new();
    for (value, text) in axis.ticks(columns / 14) {
        let at = ((axis.place(value) * columns as f64) as usize).min(columns - 1);
        let text = canvas.plain(&text);
        let start = at.saturating_sub(text.width() / 2).min(columns.saturating_sub(text.width()));
        let used = words.width();
        if start >= used + usize::from(used > 0) {
            rule[at] = tick;
            words.push_str(&" ".repeat(start - used));
            words.push_str(&text);
        }
    }
    let pad = " ".repeat(indent);
    let label = canvas.cut(&axis.label, columns);
    for line in [rule.into_iter().collect::<String>(), words, label] {
        if !line.trim().is_empty() {
            out.push_str(&canvas.paint(Ink::Faint, &format!("{pad}{line}")));
            out.push('\n');
        }
    }
}

/// Dots from one dash to the next.
const DASH: usize = 6;

struct Drawing<'a> {
    grid: &'a mut Grid,
    plot: &'a Plot,
    named: bool,
    fine: bool,
    unicode: bool,
    colour: bool,
    /// The letter that is written in bars.
    letter: Option<char>,
}

impl Drawing<'_> {
    fn across(&self, value: f64, columns: usize) -> usize {
        ((self.plot.x.place(value).clamp(0.0, 1.0) * columns as f64) as usize).min(columns.saturating_sub(1))
    }

    fn column(&self, value: f64) -> usize {
        self.across(value, self.grid.columns)
    }

    fn row(&self, value: f64) -> usize {
        row_of(&self.plot.y, value, self.grid.rows, self.named)
    }

    fn layer(&mut self, layer: &Layer, mark: char) {
        let fancy = self.unicode;
        let glyph = |unicode: char, ascii: char| if fancy { unicode } else { ascii };
        let (bar, low_end, high_end, dot, dash) =
            (glyph('█', '#'), glyph('├', '|'), glyph('┤', '|'), glyph('●', 'o'), glyph('─', '-'));
        match layer {
            Layer::Line { hue, points, step, dashed, .. } => {
                self.line(points, (*step, *dashed), Ink::Hue(*hue), mark);
            }
            Layer::Dots { hue, points, .. } => {
                for p in points {
                    let (column, row) = (self.column(p[0]), self.row(p[1]));
                    self.grid.put(column, row, if self.fine { '•' } else { mark }, Ink::Hue(*hue));
                }
            }
            Layer::Intervals { hue, items, .. } => {
                for i in items {
                    let ink = Ink::Hue(*hue);
                    if self.named {
                        let row = self.row(i.at);
                        self.stroke(i.low, i.high, row, [low_end, dash, high_end], ink);
                        self.grid.put(self.column(i.value), row, dot, ink);
                    } else {
                        let column = self.column(i.at);
                        for row in self.row(i.high)..=self.row(i.low) {
                            self.grid.put(column, row, glyph('│', '|'), ink);
                        }
                        self.grid.put(column, self.row(i.value), dot, ink);
                    }
                }
            }
            Layer::Boxes { hue, items, .. } => {
                for b in items {
                    let (row, ink) = (self.row(b.at), Ink::Hue(*hue));
                    self.stroke(b.figures[0], b.figures[4], row, [low_end, dash, high_end], ink);
                    self.stroke(b.figures[1], b.figures[3], row, [glyph('▒', '='); 3], ink);
                    self.grid.put(self.column(b.figures[2]), row, bar, ink);
                }
            }
            Layer::Spans { hue, items, .. } => {
                for s in items {
                    let row = self.row(s.at);
                    // In colour the letter stands at the beginning alone.
                    let filled = match self.letter {
                        Some(letter) if self.colour && fancy => [letter, bar, bar],
                        Some(letter) => [letter; 3],
                        None => [bar; 3],
                    };
                    self.stroke(s.from, s.to, row, filled, Ink::Hue(*hue));
                }
            }
            Layer::Heat { cells, .. } => self.heat(cells),
            Layer::Rule { upright: true, value, .. } => {
                let column = self.column(*value);
                for row in 0..self.grid.rows {
                    if self.grid.cells[row * self.grid.columns + column].0 == ' ' {
                        self.grid.put(column, row, glyph('┊', ':'), Ink::Faint);
                    }
                }
            }
            Layer::Rule { value, .. } => {
                let row = self.row(*value);
                for column in (0..self.grid.columns).step_by(2) {
                    self.grid.put(column, row, glyph('╌', '-'), Ink::Faint);
                }
            }
        }
    }

    fn stroke(&mut self, from: f64, to: f64, row: usize, [first, middle, last]: [char; 3], ink: Ink) {
        let (from, to) = (self.column(from), self.column(to));
        for column in from..=to {
            let c = if column == to {
                last
            } else if column == from {
                first
            } else {
                middle
            };
            self.grid.put(column, row, c, ink);
        }
    }

    /// Only the fine dots of a dashed line leave gaps: otherwise its mark distinguishes it.
    fn line(&mut self, points: &[[f64; 2]], (step, dashed): (bool, bool), ink: Ink, mark: char) {
        let (wide, high) = if self.fine { (2, 4) } else { (1, 1) };
        let (columns, rows) = (self.grid.columns * wide, self.grid.rows * high);
        let at = |d: &Self, p: &[f64; 2]| (d.across(p[0], columns), row_of(&d.plot.y, p[1], rows, d.named));
        let put = |grid: &mut Grid, x: usize, y: usize| {
            if wide == 1 {
                grid.put(x, y, mark, ink);
            } else if !dashed || x % DASH < DASH / 2 {
                grid.dot(x, y, ink);
            }
        };
        let mut before: Option<(usize, usize)> = None;
        for p in points {
            if !p[0].is_finite() || !p[1].is_finite() {
                before = None;
                continue;
            }
            let to = at(self, p);
            if let Some((x, y)) = before {
                let corner = if step { vec![(to.0, y), to] } else { vec![to] };
                let (mut x, mut y) = (x, y);
                for (u, v) in corner {
                    let steps = u.abs_diff(x).max(v.abs_diff(y)).max(1);
                    for i in 1..=steps {
                        let between = |a: usize, b: usize| {
                            (a as f64 + (b as f64 - a as f64) * i as f64 / steps as f64).round() as usize
                        };
                        put(self.grid, between(x, u), between(y, v));
                    }
                    (x, y) = (u, v);
                }
            }
            put(self.grid, to.0, to.1);
            before = Some(to);
        }
    }

    /// The darkest of the cells that share a character decides it.
    fn heat(&mut self, cells: &[super::Cell]) {
        let shades: [char; 5] =
            if self.unicode { ['·', '░', '▒', '▓', '█'] } else { ['.', ':', '+', '*', '#'] };
        let mut darkest = vec![-1.0f64; self.grid.columns * self.grid.rows];
        for c in cells {
            let columns = self.column(c.x[0])..=self.column(c.x[0].max(c.x[1] - (c.x[1] - c.x[0]) * 1e-6));
            let (a, b) = (self.row(c.y[0]), self.row(c.y[1] - (c.y[1] - c.y[0]) * 1e-6));
            for row in a.min(b)..=a.max(b) {
                for column in columns.clone() {
                    let shade = &mut darkest[row * self.grid.columns + column];
                    *shade = shade.max(c.shade);
                }
            }
        }
        for (i, shade) in darkest.into_iter().enumerate().filter(|s| s.1 >= 0.0) {
            let c = shades[((shade * 5.0) as usize).min(4)];
            self.grid.put(i % self.grid.columns, i / self.grid.columns, c, Ink::Hue(Hue(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Cell, Interval, Span, Unit};

    fn drawn(plot: &Plot, canvas: Canvas) -> String {
        let mut out = String::new();
        draw(&canvas, &mut out, plot);
        out
    }

    const ASCII: Canvas = Canvas { width: 60, colour: false, unicode: false };

    #[test]
    fn a_rising_line_rises_and_has_its_ticks() {
        let line = Layer::line("a", Hue(0), (1..=100).map(|i| [f64::from(i) * 1e4, f64::from(i) / 100.0]).collect());
        let other = Layer::line("b", Hue(1), vec![[1e4, 0.1], [1e6, 0.1]]);
        let axes = (Axis::log("time", Unit::Time), Axis::linear("share", Unit::Share));
        let plot = Plot::new("p", "title", "n = 100 sends", axes, vec![line, other]).unwrap();
        let text = drawn(&plot, ASCII);
        assert!(text.is_ascii(), "{text}");
        for word in ["title", "* a", "+ b", "100 us", "1 ms", "100 %", "0 %", "n = 100 sends", "time"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let rows: Vec<usize> = text.lines().filter(|l| l.contains('|')).filter_map(|l| l.rfind('*')).collect();
        assert!(rows.len() > 8 && rows.is_sorted_by(|a, b| a >= b), "{rows:?}\n{text}");
        let fine = drawn(&plot, Canvas { width: 80, colour: true, unicode: true });
        assert!(fine.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{fine}");
        assert!(text.lines().all(|l| l.width() <= 60), "{text}");
    }

    #[test]
    fn every_series_of_a_legend_is_there_once_and_has_another_mark() {
        let name = |i: usize| format!("a tcp_timestamps 1, b tcp_timestamps 1, write 16K, notsent_lowat {i}");
        let curve = |i: usize| {
            let points = vec![[0.0, i as f64], [1.0, i as f64 + 1.0]];
            let predicted = Layer::Line {
                name: format!("{}: predicted", name(i)),
                hue: Hue::nth(i),
                points: points.clone(),
                step: false,
                dashed: true,
            };
            let intervals = Layer::Intervals {
                name: name(i),
                hue: Hue::nth(i),
                items: vec![Interval { at: 0.5, low: i as f64, value: i as f64, high: i as f64, label: String::new() }],
            };
            [predicted, Layer::line(name(i), Hue::nth(i), points), intervals]
        };
        let mut layers = vec![
            Layer::dots("trial", Hue::NEUTRAL, vec![[0.5, 0.5]]),
            Layer::line("", Hue::NEUTRAL, vec![[0.0, 0.0], [1.0, 1.0]]),
        ];
        layers.extend((0..6).flat_map(curve));
        let axes = (Axis::linear("x", Unit::Plain), Axis::linear("y", Unit::Plain));
        let plot = Plot::new("p", "t", "c", axes, layers).unwrap();
        for canvas in [ASCII, Canvas { width: 40, ..ASCII }, Canvas { width: 80, unicode: true, ..ASCII }] {
            let mut legend = String::new();
            super::legend(&canvas, &mut legend, &plot, false);
            let keys: Vec<&str> = legend.lines().flat_map(|line| line.split("   ")).collect();
            let marks: std::collections::BTreeSet<&str> = keys.iter().filter_map(|key| key.split(' ').next()).collect();
            let names: std::collections::BTreeSet<&str> =
                keys.iter().filter_map(|key| key.split_once(' ')).map(|k| k.1).collect();
            assert_eq!((keys.len(), marks.len(), names.len()), (13, 13, 13), "{legend}");
        }
        // In colours a prediction has the colour of its series, and is dashed.
        let fine = Canvas { width: 100, colour: true, unicode: true };
        let mut legend = String::new();
        super::legend(&fine, &mut legend, &plot, true);
        let count = |mark: &str| legend.matches(mark).count();
        assert_eq!((count("⠒⠐"), count("⠒⠒"), count("•")), (6, 6, 1), "{legend}");
    }

    #[test]
    fn bars_end_to_end_are_distinguished_without_colour_and_as_the_legend_says() {
        let spans = |name: &str, from: f64| Layer::Spans {
            name: name.into(),
            hue: Hue(0),
            items: vec![Span { at: 0.0, from, to: from + 0.5, label: String::new() }],
        };
        let axes = (Axis::linear("x", Unit::Share), Axis::names("", ["all"]));
        let plot = Plot::new("p", "t", "c", axes, vec![spans("tcp", 0.0), spans("network", 0.5)]).unwrap();
        let plain = drawn(&plot, ASCII);
        assert!(plain.contains("tttt") && plain.contains("nnnn") && plain.contains("t tcp   n network"), "{plain}");
        let inked = drawn(&plot, Canvas { width: 60, colour: true, unicode: true });
        assert!(inked.contains("t\x1b[0m\x1b[34m█") && inked.contains("n\x1b[0m\x1b[34m█"), "{inked}");
    }

    #[test]
    fn rows_of_names_hold_bars_intervals_and_rules() {
        let spans = vec![Span { at: 0.0, from: 0.0, to: 5.0, label: String::new() }];
        let items = vec![Interval { at: 1.0, low: 2.0, value: 4.0, high: 6.0, label: String::new() }];
        let layers = vec![
            Layer::Spans { name: "s".into(), hue: Hue(0), items: spans },
            Layer::Intervals { name: "i".into(), hue: Hue(1), items },
            Layer::Rule { name: "zero".into(), upright: true, value: 10.0 },
        ];
        let axes = (Axis::linear("x", Unit::Plain), Axis::names("", ["first", "second"]));
        let text = drawn(&Plot::new("p", "t", "c", axes, layers).unwrap(), ASCII);
        let row = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name)).unwrap().to_owned();
        assert!(row("first").contains("#####"), "{text}");
        assert!(
            row("second").contains("|---") && row("second").contains('o') && row("second").ends_with(':'),
            "{text}"
        );
        let cells = vec![Cell { x: [0.0, 1.0], y: [0.0, 1.0], shade: 1.0, label: String::new() }];
        let axes = (Axis::linear("x", Unit::Plain), Axis::linear("y", Unit::Plain));
        let heat = Plot::new("h", "t", "c", axes, vec![Layer::Heat { name: "n".into(), cells }]).unwrap();
        assert!(drawn(&heat, ASCII).contains("###"));
    }
}
