//! A report as one HTML file that needs nothing else: no network, no second file.
//!
//! Plots stand in the page as data, and the script that draws them beside D3 (scales, axes, brush).
//! Whatever comes from a run is text to the browser: it is escaped by construction, and the page's
//! own policy forbids every request.

mod anchor;
mod graph;

use anchor::Anchors;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::document::{Block, Cell, Clause, ClauseKind, Document, Glance, Piece, Row, Table, Text, Value};
use crate::plot::{Hue, Plot, Scale};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("chart.js");
const LIBRARY: &str = include_str!("../../assets/d3.min.js");
const LICENCE: &str = include_str!("../../assets/d3-licence.txt");

/// Nothing may be loaded or sent, whatever the page holds, and no style or script runs but these.
fn policy(style: &str, scripts: [&str; 2]) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let [library, drawing] = scripts.map(hash);
    format!(
        "default-src 'none'; style-src {}; script-src {library} {drawing}; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(style)
    )
}

/// The widths that columns of words can have, in letters.
const COLUMN: std::ops::RangeInclusive<usize> = 8..=40;

/// The style sheet. The policy allows no element a style of its own, so each width of a column is a
/// class, and so is each colour of a part of a bar.
fn style() -> String {
    let widths =
        COLUMN.fold(STYLE.to_owned(), |style, letters| style + &format!(".w{letters} {{ min-width: {letters}ch; }}\n"));
    (0..Hue::COUNT).fold(widths, |style, hue| style + &format!(".hue{hue} {{ fill: var(--h{hue}); }}\n"))
}

/// JSON that cannot end the script element it stands in, nor begin a comment or another element.
fn safe_json(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    Ok(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

/// The page of these documents, one after the other. `made_by` says what wrote it.
///
/// # Errors
/// Plots that JSON cannot hold.
pub fn page(documents: &[Document], made_by: &str) -> serde_json::Result<String> {
    let plots: Vec<&Plot> = documents.iter().flat_map(Document::plots).collect();
    let title = match documents {
        [one] => one.title.to_string(),
        _ => format!("{} runs", documents.len()),
    };
    let mut place = Place::default();
    let style = style();
    let drawn = safe_json(&plots)?;
    // Only what this program itself brings goes in unescaped: style, library, script, and the
    // plots, which `safe_json` makes harmless.
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style, [LIBRARY, SCRIPT]));
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(&style)) }
            }
            body {
                @for document in documents {
                    (article(document, documents.len() > 1, &mut place))
                }
                p.by {
                    (made_by)
                    @if !plots.is_empty() {
                        " Drag over a plot to look closer, double-click to see all of it again; a name in a legend hides its series, and a point that stands for a trial leads to its row."
                    }
                }
                noscript { p.warning { "The plots need JavaScript; their figures are in the tables." } }
                details { summary { "Licence of the charting library" } pre { (LICENCE) } }
                script type="application/json" id="plots" { (PreEscaped(drawn)) }
                script { (PreEscaped(LIBRARY)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // What a browser refuses, or reads as the end of something.
    Ok(page.into_string().replace(|c: char| crate::steers(c) && !matches!(c, '\n' | '\t'), "\u{fffd}"))
}

/// Where in the page is being written.
#[derive(Default)]
struct Place {
    /// Plots so far.
    plots: usize,
    anchors: Anchors,
}

fn article(document: &Document, several: bool, place: &mut Place) -> Markup {
    place.anchors.begin(document, several);
    let named: Vec<String> = document.sections.iter().map(|section| place.anchors.of(&section.title)).collect();
    html! {
        article {
            header {
                h1 { (document.title.to_string()) }
                p.about { (document.about) }
            }
            @for piece in document.sections.iter().flat_map(|section| &section.blocks) {
                @if let Block::Glance(of) = piece { (glance(of)) }
            }
            @if !document.verdict.is_empty() {
                .verdict { @for clause in &document.verdict { (said(clause)) } }
            }
            @for warning in &document.warnings { p.warning { (prose(warning)) } }
            @if document.sections.len() > 2 || several {
                nav aria-label="Sections" {
                    @for (section, name) in document.sections.iter().zip(&named) {
                        a href={ "#" (name) } { (section.title) }
                        " "
                    }
                }
            }
            @for (section, name) in document.sections.iter().zip(&named) {
                section id=(name) {
                    h2 { (section.title) (link_to(name)) }
                    .grid {
                        @for (piece, wide) in section.blocks.iter().zip(widths(&section.blocks)) {
                            (block(piece, wide, place))
                        }
                    }
                }
            }
            @if let Some(then) = &document.then { p.next { (prose(then)) } }
        }
    }
}

/// A few large figures, and under them one bar with its parts named.
fn glance(of: &Glance) -> Markup {
    html! {
        .glance {
            dl { @for (name, figure) in &of.figures { div { dt { (name) } dd { (figure) } } } }
            @if !of.parts.is_empty() {
                p { (of.whole) }
                svg.whole role="img" aria-label=(of.whole) viewBox="0 0 100 4" preserveAspectRatio="none" {
                    @for (part, from, length) in of.ranges() {
                        rect.{ "hue" (part.hue.0) } x=(format!("{from:.2}")) y="0" width=(format!("{length:.2}")) height="4" {
                            title { (part.name) " " (quantity::percent(part.share)) }
                        }
                    }
                }
                ul {
                    @for part in &of.parts {
                        li { svg viewBox="0 0 10 10" { rect.{ "hue" (part.hue.0) } width="10" height="10" {} } " " (part.name) " " b { (quantity::percent(part.share)) } }
                    }
                }
            }
        }
    }
}

/// A clause of a verdict, and what to do about it.
fn said(clause: &Clause) -> Markup {
    html! {
        p.caveat[clause.kind == ClauseKind::Caveat] { (prose(&clause.text)) }
        @if let Some(next) = &clause.next { p.next { b { "Next: " } (prose(next)) } }
    }
}

/// Which blocks take the whole width: all but plots without names that have a neighbour of their
/// kind to stand beside.
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

/// A sign beside a heading that links to it, to be copied.
fn link_to(name: &str) -> Markup {
    html! { " " a.anchor href={ "#" (name) } aria-label="Link to this place" { "#" } }
}

/// A sentence; what is to be typed is set as code.
fn prose(text: &Text) -> Markup {
    html! {
        @for piece in text.pieces() {
            @match piece { Piece::Code(text) => code { (text) }, other => (other.to_string()) }
        }
    }
}

/// Lines of a listing that are shown without being asked for.
const CODE: usize = 60;

fn block(block: &Block, wide: bool, place: &mut Place) -> Markup {
    html! {
        @match block {
            Block::Words(text) => p { (prose(text)) },
            Block::Warning(text) => p.warning { (prose(text)) },
            Block::List(lines) => ul { @for line in lines { li { (prose(line)) } } },
            Block::Code { title, text } if text.lines().count() > CODE => details {
                summary { (title) " (" (quantity::counted(text.lines().count() as u64, "line")) ")" }
                pre { (text) }
            },
            Block::Code { title, text } => div {
                @if !title.is_empty() { h3 { (title) } }
                pre { (text) }
            },
            Block::Table(t) => (table(t, &t.title, place)),
            Block::OnPage(t) => details.rows {
                summary { (t.heading()) " (" (quantity::counted(t.rows.len() as u64, "row")) ")" }
                (table(t, &t.title, place))
            },
            Block::Counts(of) => (table(&of.table(), &of.table().title, place)),
            Block::Graph(of) => (graph::figure(of, place)),
            Block::Plot(plot) => (figure(plot, wide, place)),
            Block::Waterfalls(of) => (figure(&of.plot, wide, place)),
            // The cumulative curves and the boxes of the same section show the histograms; and what
            // is seen at a glance stands at the head.
            Block::Histograms(_) | Block::Glance(_) => {},
        }
    }
}

fn figure(plot: &Plot, wide: bool, place: &mut Place) -> Markup {
    let number = place.plots;
    place.plots += 1;
    let name = place.anchors.of(&plot.id);
    html! {
        figure id=(name) class=[wide.then_some("wide")] data-plot=(number) data-rows=(place.anchors.prefix()) {
            figcaption {
                h3 { (plot.title) (link_to(&name)) }
                p { (plot.caption) }
            }
            .chart {}
            @if let Some(t) = &plot.table {
                details { summary { "The same in figures" } (table(t, &format!("{} figures", plot.id), place)) }
            }
        }
    }
}

fn letters(row: &Row, column: usize) -> usize {
    row.cells.get(column).map_or(0, |cell| cell.to_string().chars().count())
}

/// A cell. A part stands further to the right than what it is a part of, a bar is as long as its
/// share, and what is absent says why when pointed at.
fn cell(cell: &Cell, figures: bool) -> Markup {
    let class = match (figures, cell.indent) {
        (true, _) => Some("n"),
        (false, 1..) => Some("part"),
        _ => None,
    };
    html! {
        @match &cell.value {
            Value::Absent(why) => td class=[class] title=[(!why.is_empty()).then_some(why)] { (cell.to_string()) },
            Value::Bar(share) => td class=[class] {
                svg.bar width={ (format!("{:.1}", share.clamp(0.0, 1.0) * 8.0)) "rem" } {}
            },
            Value::Text(text) => td class=[class] { (prose(text)) },
            value => td class=[class] { (value.to_string()) },
        }
    }
}

/// A table; `name` is what its place and its file are called after.
fn table(table: &Table, name: &str, place: &mut Place) -> Markup {
    let name = place.anchors.of(if name.is_empty() { "table" } else { name });
    let row_name = |row: &Row| row.anchor.as_ref().map(|name| format!("{}{name}", place.anchors.prefix()));
    let columns = table.columns.len();
    let figures = |i: usize| table.columns.get(i).is_some_and(|column| column.figures);
    let widths: Vec<usize> =
        (0..columns).map(|i| table.rows.iter().map(|row| letters(row, i)).max().unwrap_or(0)).collect();
    // A column of words is as wide as they are, up to a few words, and of longer ones half as wide:
    // what has no room scrolls. Two columns have room on a telephone too.
    let long = |letters: usize| if columns > 2 { letters.min(2 * COLUMN.end()) / 2 } else { 0 };
    let wide = |letters: usize| letters.clamp(*COLUMN.start(), 24).max(long(letters));
    let class = |i: usize| if figures(i) { "n".to_owned() } else { format!("w{}", wide(widths[i])) };
    html! {
        .scroll id=(name) {
            a.csv download={ (name) ".csv" } href=(crate::csv::address(table)) { "CSV" }
            table {
                @if !table.title.is_empty() { caption { (table.heading()) } }
                thead {
                    tr { @for (i, column) in table.columns.iter().enumerate() { th class=(class(i)) scope="col" { (column.name) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr id=[row_name(row)] { @for (i, of) in row.cells.iter().enumerate() { (cell(of, figures(i))) } }
                        @if !row.notes.is_empty() {
                            tr.notes { td colspan=(columns) { @for note in &row.notes { p { (prose(note)) } } } }
                        }
                    }
                }
            }
        }
    }
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
        let axes = (Axis::linear(hostile, Unit::Plain), Axis::names(hostile, [hostile]));
        let mut section = Section::new(hostile);
        let mut table = Table::new(hostile, [hostile]);
        table.push([hostile]);
        section.plot(Plot::new("p", hostile, hostile, axes, vec![line]).map(|p| p.with_table(table.clone())));
        section.say(hostile);
        let mut noted = Table::new(hostile, [hostile]);
        noted.push(Row::of([hostile]).noted([hostile]));
        section.table(table);
        section.table(noted);
        section.blocks.push(Block::List(vec![hostile.into()]));
        section.blocks.push(Block::Warning(hostile.into()));
        section.blocks.push(Block::Code { title: hostile.into(), text: hostile.into() });
        let document = Document {
            title: hostile.into(),
            about: hostile.into(),
            verdict: vec![Clause::finding(hostile).with_next(Some(hostile.into()))],
            warnings: vec![hostile.into()],
            sections: vec![section],
            then: Some(hostile.into()),
        };
        let quiet = Document { title: "quiet".into(), ..Document::default() };
        let page = page(&[document, quiet], hostile).unwrap();
        assert!(!page.contains("alert(1)</script>") && !page.contains("<img") && !page.contains('\u{0}'));
        // Three script elements: the data, the library, the drawing; each closed once.
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (3, 3));
        assert_eq!(page.matches("<!--").count(), 0);
        let data = page.split("id=\"plots\">").nth(1).unwrap().split("</script>").next().unwrap();
        let plots: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(plots[0]["title"], hostile);
    }

    #[test]
    fn what_is_to_be_typed_is_set_as_code() {
        let text = Text::from("look: ").and(Text::code("ss -ti")).and(", ").and(Text::code("a<b")).and(".");
        assert_eq!(prose(&text).into_string(), "look: <code>ss -ti</code>, <code>a&lt;b</code>.");
        // What a run says is never read as more than words.
        assert_eq!(prose(&"a `b` <".into()).into_string(), "a `b` &lt;");
    }

    #[test]
    fn no_element_has_a_style_or_a_script_of_its_own() {
        let mut table = Table::new("", ["words", "share"]);
        table.push(Row::of([Cell::from("a few words"), Cell::bar(0.5)]));
        let mut section = Section::new("s");
        section.table(table);
        let page = page(&[Document { sections: vec![section], ..Document::default() }], "").unwrap();
        let (_, body) = page.split_once("<body>").unwrap();
        let markup = body.split("<script").next().unwrap();
        assert!(markup.contains("class=\"w11\"") && markup.contains("width=\"4.0rem\""), "{markup}");
        assert!(!markup.contains("style=") && !page.contains("unsafe-inline"));
        // What would be replaced as steering the reader would no longer be what the hash is of.
        assert!([LIBRARY, SCRIPT, STYLE].iter().all(|own| page.contains(own)));
    }

    #[test]
    fn nothing_in_the_page_points_elsewhere() {
        let page = page(&[Document::default()], "").unwrap();
        let own = page.replace(LIBRARY, "").replace(&html! { (LICENCE) }.into_string(), "");
        for elsewhere in ["http://", "https://", "src=", "url(", "@import"] {
            let found = own.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
            assert!(!found.contains(elsewhere), "{elsewhere}");
        }
    }

    /// What a browser is left with of a page: its tags with the names of their attributes, up to
    /// the first element with content that is not markup. Names of places and files are made of
    /// headings, and differ.
    fn tags(page: &str) -> Vec<String> {
        let body = page.split_once("<body>").unwrap().1.split_once("<details><summary>Licence").unwrap().0;
        let outside_quotes = |tag: &str| tag.split('"').step_by(2).collect::<Vec<_>>().join("\"");
        body.split('<').skip(1).map(|t| outside_quotes(t.split_once('>').unwrap().0)).collect()
    }

    proptest::proptest! {
        #[test]
        fn foreign_text_adds_no_tag_and_no_attribute(foreign in "[<>&\"'=/!a-z \\-\u{0}-\u{20}\u{80}-\u{9f}]{0,40}") {
            let with = |text: &str| {
                let mut section = Section::new(text);
                let line = Layer::line(text, Hue(0), vec![[1.0, 1.0], [2.0, 2.0]]);
                let axes = (Axis::linear(text, Unit::Plain), Axis::linear(text, Unit::Plain));
                let mut table = Table::new(format!("t{text}"), [text]);
                table.push(Row::of([text]).noted([text]));
                section.plot(Plot::new("p", text, text, axes, vec![line]).map(|p| p.with_table(table.clone())));
                section.table(table);
                section.say(text);
                section.blocks.push(Block::List(vec![text.into()]));
                section.blocks.push(Block::Warning(text.into()));
                section.blocks.push(Block::Code { title: format!("c{text}"), text: text.into() });
                let document = Document { title: text.into(), about: text.into(), verdict: vec![Clause::finding(text).with_next(Some(text.into()))], warnings: vec![text.into()], sections: vec![section], then: Some(text.into()) };
                page(&[document.clone(), document], text).unwrap()
            };
            let (page, plain) = (with(&format!("x{foreign}")), with("x"));
            proptest::prop_assert_eq!(tags(&page), tags(&plain));
            proptest::prop_assert!(!page.contains(|c: char| crate::steers(c) && !matches!(c, '\n' | '\t')));
        }
    }
}
