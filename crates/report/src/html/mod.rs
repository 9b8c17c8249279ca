//! A report as one HTML file that needs nothing else: no network, no second file.
//!
//! Plots stand in the page as data, and the script that draws them beside D3 (scales, axes, brush). Whatever comes from a run
//! is text to the browser: it is escaped, and the page's own policy forbids every request.

use std::fmt::Write as _;

use crate::document::{Block, Document, Table};
use crate::plot::{Plot, Scale};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("chart.js");
const LIBRARY: &str = include_str!("../../assets/d3.min.js");
const LICENCE: &str = include_str!("../../assets/d3-licence.txt");

/// Nothing may be loaded or sent, whatever the page holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// Text that a browser shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What a browser refuses, or reads as the end of something.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON that cannot end the script element it stands in, nor begin a comment or another element.
fn safe_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "[]".into());
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The page of these documents, one after the other. `made_by` says what wrote it.
pub fn page(documents: &[Document], made_by: &str) -> String {
    let plots: Vec<&Plot> = documents.iter().flat_map(Document::plots).collect();
    let title = match documents {
        [one] => one.title.clone(),
        _ => format!("{} runs", documents.len()),
    };
    let mut out = String::with_capacity(LIBRARY.len() + 200_000);
    let mut put = |text: &str| out.push_str(text);
    put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n"));
    put(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n",
    );
    put(&format!("<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n", escaped(&title)));
    let mut number = 0;
    for (i, document) in documents.iter().enumerate() {
        put(&article(document, i, documents.len() > 1, &mut number));
    }
    put(&format!(
        "<p class=\"by\">{} Drag over a plot to look closer, double-click to see all of it again; a name in a legend hides its \
         series.</p>\n",
        escaped(made_by)
    ));
    put("<noscript><p class=\"warning\">The plots need JavaScript; their figures are in the tables.</p></noscript>\n");
    put(&format!(
        "<details><summary>Licence of the charting library</summary><pre>{}</pre></details>\n",
        escaped(LICENCE)
    ));
    put(&format!("<script type=\"application/json\" id=\"plots\">{}</script>\n", safe_json(&plots)));
    put(&format!("<script>\n{LIBRARY}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"));
    out
}

fn article(document: &Document, index: usize, several: bool, number: &mut usize) -> String {
    let mut out = String::new();
    _ = writeln!(out, "<article>\n<header>\n<h1>{}</h1>", escaped(&document.title));
    _ = writeln!(out, "<p class=\"about\">{}</p>\n</header>", escaped(&document.about));
    if !document.verdict.is_empty() {
        out.push_str("<div class=\"verdict\">\n");
        document.verdict.iter().for_each(|v| _ = writeln!(out, "<p>{}</p>", escaped(v)));
        out.push_str("</div>\n");
    }
    for warning in &document.warnings {
        _ = writeln!(out, "<p class=\"warning\">{}</p>", escaped(warning));
    }
    if document.sections.len() > 2 || several {
        out.push_str("<nav aria-label=\"Sections\">");
        for (s, section) in document.sections.iter().enumerate() {
            _ = write!(out, "<a href=\"#s{index}-{s}\">{}</a>", escaped(&section.title));
        }
        out.push_str("</nav>\n");
    }
    for (s, section) in document.sections.iter().enumerate() {
        _ = writeln!(out, "<section id=\"s{index}-{s}\">\n<h2>{}</h2>\n<div class=\"grid\">", escaped(&section.title));
        let wide = widths(&section.blocks);
        section.blocks.iter().zip(wide).for_each(|(b, wide)| block(&mut out, b, wide, number));
        out.push_str("</div>\n</section>\n");
    }
    out.push_str("</article>\n");
    out
}

/// Which blocks take the whole width: all but plots without names that have a neighbour of their kind to stand beside.
fn widths(blocks: &[Block]) -> Vec<bool> {
    let narrow = |b: &Block| match b {
        Block::Plot(p) => ![&p.x, &p.y].iter().any(|axis| matches!(axis.scale, Scale::Names { .. })),
        _ => false,
    };
    let mut wide: Vec<bool> = blocks.iter().map(|b| !narrow(b)).collect();
    let mut i = 0;
    while i < blocks.len() {
        let paired = !wide[i] && wide.get(i + 1) == Some(&false);
        wide[i] |= !paired;
        i += if paired { 2 } else { 1 };
    }
    wide
}

fn block(out: &mut String, block: &Block, wide: bool, number: &mut usize) {
    match block {
        Block::Words(text) => _ = writeln!(out, "<p>{}</p>", escaped(text)),
        Block::Warning(text) => _ = writeln!(out, "<p class=\"warning\">{}</p>", escaped(text)),
        Block::List(lines) => {
            out.push_str("<ul>\n");
            lines.iter().for_each(|l| _ = writeln!(out, "<li>{}</li>", escaped(l)));
            out.push_str("</ul>\n");
        }
        Block::Code { title, text } => {
            _ = writeln!(out, "<div><h3>{}</h3>\n<pre>{}</pre></div>", escaped(title), escaped(text));
        }
        Block::Table(t) => table(out, t),
        Block::Plot(plot) => figure(out, plot, wide, number),
        Block::Waterfalls(of) => figure(out, &of.plot, wide, number),
        // The cumulative curves and the boxes of the same section show them.
        Block::Histograms(_) => {}
    }
}

fn figure(out: &mut String, plot: &Plot, wide: bool, number: &mut usize) {
    let class = if wide { " class=\"wide\"" } else { "" };
    _ = writeln!(out, "<figure{class} data-plot=\"{number}\">");
    _ = writeln!(
        out,
        "<figcaption><h3>{}</h3><p>{}</p></figcaption>\n<div class=\"chart\"></div>",
        escaped(&plot.title),
        escaped(&plot.caption)
    );
    if let Some(t) = &plot.table {
        out.push_str("<details><summary>The same in figures</summary>\n");
        table(out, t);
        out.push_str("</details>\n");
    }
    out.push_str("</figure>\n");
    *number += 1;
}

fn table(out: &mut String, table: &Table) {
    let columns = table.head.len();
    let figures: Vec<bool> = (0..columns).map(|i| table.is_figures(i)).collect();
    let class = |i: usize| if figures.get(i) == Some(&true) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"scroll\"><table>\n");
    if !table.title.is_empty() {
        _ = writeln!(out, "<caption>{}</caption>", escaped(&table.title));
    }
    out.push_str("<thead><tr>");
    for (i, name) in table.head.iter().enumerate() {
        _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(i), escaped(name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            _ = write!(out, "<td{}>{}</td>", class(i), escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Section;
    use crate::plot::{Axis, Hue, Layer, Unit};

    #[test]
    fn what_a_run_says_never_becomes_markup() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{0}--><!--";
        let line = Layer::line(hostile, Hue(0), vec![[1.0, 1.0], [2.0, 2.0]]);
        let axes = (Axis::linear(hostile, Unit::Plain), Axis::names(hostile, vec![hostile.into()]));
        let mut section = Section::new(hostile);
        let mut table = Table::new(hostile, &[hostile]);
        table.rows.push(vec![hostile.into()]);
        section.plot(Plot::new("p", hostile, hostile, axes, vec![line]).map(|p| p.with_table(table.clone())));
        section.say(hostile);
        section.table(table);
        section.blocks.push(Block::List(vec![hostile.into()]));
        section.blocks.push(Block::Warning(hostile.into()));
        section.blocks.push(Block::Code { title: hostile.into(), text: hostile.into() });
        let document = Document {
            title: hostile.into(),
            about: hostile.into(),
            verdict: vec![hostile.into()],
            warnings: vec![hostile.into()],
            sections: vec![section],
        };
        let quiet = Document { title: "quiet".into(), ..Document::default() };
        let page = page(&[document, quiet], hostile);
        assert!(!page.contains("alert(1)</script>") && !page.contains("<img") && !page.contains('\u{0}'));
        // Three script elements: the data, the library, the drawing; each closed once.
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (3, 3));
        assert_eq!(page.matches("<!--").count(), 0);
        let data = page.split("id=\"plots\">").nth(1).unwrap().split("</script>").next().unwrap();
        let plots: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(plots[0]["title"], hostile);
    }

    #[test]
    fn nothing_in_the_page_points_elsewhere() {
        let page = page(&[Document::default()], "");
        let own = page.replace(LIBRARY, "").replace(&escaped(LICENCE), "");
        for elsewhere in ["http://", "https://", "src=", "url(", "@import"] {
            let found = own.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
            assert!(!found.contains(elsewhere), "{elsewhere}");
        }
    }
}
