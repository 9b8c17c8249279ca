//! Histograms of times as text, one above the other over one logarithmic axis.
//!
//! Two rows of block characters for each series: plots of libraries take eight rows or more for the
//! same, and a trace has five legs.

use record::Nanos;

use crate::canvas::{Canvas, Ink};
use crate::document::Histograms;

/// Rows of text that a series is high.
const HEIGHT: usize = 2;
const LABEL: usize = 9;

/// Draws the histograms; height is linear in the count and as high as the fullest bin of the
/// series.
pub(super) fn draw(canvas: &Canvas, out: &mut String, of: &Histograms) {
    let values = || of.series.iter().flat_map(|s| &s.values).map(|v| v.0);
    let (Some(least), Some(most)) = (values().min(), values().max()) else { return };
    canvas.heading(out, &of.title);
    let label = of.series.iter().map(|s| s.name.len() + 1).max().unwrap_or(0).max(LABEL);
    let columns = canvas.width.clamp(40, 120) - label;
    let axis = Axis::over(least, most, columns);
    for series in &of.series {
        let mut bins = vec![0_u64; columns];
        for (value, n) in &series.values {
            bins[axis.column(*value)] += n;
        }
        let ink = series.hue.map_or(Ink::Strong, Ink::Hue);
        for row in (0..HEIGHT).rev() {
            let name = if row == 0 { series.name.as_str() } else { "" };
            let bars: String = bars(&bins, row, canvas.unicode);
            let line =
                format!("{}{}", canvas.paint(ink, &format!("{name:<label$}")), canvas.paint(ink, bars.trim_end()));
            let line = line.trim_end();
            // The upper half of a leg that nothing reaches would only be a gap.
            if !line.is_empty() {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    let (rule, labels) = axis.labels(canvas);
    for line in [rule, labels] {
        out.push_str(&canvas.paint(Ink::Faint, &canvas.plain(format!("{}{line}", " ".repeat(label)).trim_end())));
        out.push('\n');
    }
}
/// One row of the bars. A bin with anything in it shows at least the lowest mark.
fn bars(bins: &[u64], row: usize, unicode: bool) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const MARKS: [char; 9] = [' ', '.', '.', '.', ':', ':', ':', '#', '#'];
    let fullest = bins.iter().copied().max().unwrap_or(0).max(1);
    bins.iter()
        .map(|&n| {
            let eighths = (u128::from(n) * (HEIGHT * 8) as u128).div_ceil(u128::from(fullest)) as usize;
            let here = eighths.saturating_sub(row * 8).min(8);
            if unicode { BLOCKS[here] } else { MARKS[here] }
        })
        .collect()
}

/// Time on a logarithmic scale, from one power of ten to another.
struct Axis {
    low: f64,
    high: f64,
    columns: usize,
}

impl Axis {
    fn over(least: u64, most: u64, columns: usize) -> Self {
        let low = (least.max(1) as f64).log10().floor();
        let high = (most.max(1) as f64).log10().floor() + 1.0;
        Self { low, high, columns }
    }

    fn at(&self, log: f64) -> usize {
        let share = (log - self.low) / (self.high - self.low);
        ((share * self.columns as f64) as usize).min(self.columns - 1)
    }

    /// Where a value is drawn; zero is drawn with one nanosecond.
    fn column(&self, value: u64) -> usize {
        self.at((value.max(1) as f64).log10())
    }

    /// A rule with a tick at each power of ten, and the times under the ticks that have room.
    fn labels(&self, canvas: &Canvas) -> (String, String) {
        let (line, tick) = if canvas.unicode { ('─', '┴') } else { ('-', '+') };
        let mut rule = vec![line; self.columns];
        let mut text = String::new();
        for power in self.low as u32..=self.high as u32 {
            let at = self.at(power.into());
            rule[at] = tick;
            let label = Nanos(10_u64.saturating_pow(power)).to_string().replace(".00", "").replace(".0", "");
            let start = at.min(self.columns.saturating_sub(label.chars().count()));
            let used = text.chars().count();
            if start >= used + usize::from(used > 0) {
                text.push_str(&" ".repeat(start - used));
                text.push_str(&label);
            }
        }
        (rule.into_iter().collect(), text)
    }
}
