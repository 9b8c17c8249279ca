//! Tables as comma-separated values (RFC 4180).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::document::{Block, Document, Table};

/// Every table of the documents, those behind plots included: each under a line with `#` and its
/// title, with an empty line between two.
pub fn text(documents: &[Document]) -> String {
    let mut out = String::new();
    for section in documents.iter().flat_map(|document| &document.sections) {
        for block in &section.blocks {
            let counts;
            let table = match block {
                Block::Table(table) | Block::OnPage(table) => table,
                Block::Counts(of) => {
                    counts = of.table();
                    &counts
                }
                Block::Plot(plot) => match &plot.table {
                    Some(table) => table,
                    None => continue,
                },
                Block::Waterfalls(of) => match &of.plot.table {
                    Some(table) => table,
                    None => continue,
                },
                _ => continue,
            };
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            let title = if table.title.is_empty() { section.title.clone() } else { table.heading() };
            out.push_str(&format!("# {}\r\n{}", harmless(&title), values(table)));
        }
    }
    out
}

/// Text without what steers a terminal: names of processes and of files are in tables, and CSV is
/// printed too. Line ends and tabs are values of their own right in a quoted cell.
fn harmless(text: &str) -> String {
    text.replace(|c| crate::steers(c) && !matches!(c, '\n' | '\r' | '\t'), "\u{fffd}")
}

fn cell(text: &str) -> String {
    let text = harmless(text);
    let quoted = text.contains(['"', ',', '\n', '\r']);
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut line = cells.map(|text| cell(&text)).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

/// The head and the rows; paragraphs under a row stand in a last column.
fn values(table: &Table) -> String {
    let noted = table.rows.iter().any(|row| !row.notes.is_empty());
    let mut text = line(table.columns.iter().map(|c| c.name.clone()).chain(noted.then(|| "notes".to_owned())));
    for row in &table.rows {
        let notes = || row.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        text.push_str(&line(row.cells.iter().map(ToString::to_string).chain(noted.then(notes))));
    }
    text
}

/// The table as the address of a file, in a link that any browser can save without a server. It
/// begins with a byte order mark, by which spreadsheets know UTF-8.
pub fn address(table: &Table) -> String {
    let text = format!("\u{feff}{}", values(table));
    format!("data:text/csv;charset=utf-8;base64,{}", STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Row;

    #[test]
    fn cells_with_commas_quotes_and_line_ends_are_quoted_and_none_steers_a_terminal() {
        let mut table = Table::new("t", ["delay, ms", "goodput"]);
        table.push(["5", "9 \"and\" 8"]);
        table.push(Row::of(["7", "two\nlines"]).noted(["one.", "two."]));
        assert_eq!(
            values(&table),
            "\"delay, ms\",goodput,notes\r\n5,\"9 \"\"and\"\" 8\",\r\n7,\"two\nlines\",one. two.\r\n"
        );
        table.push(["\u{1b}[2J\u{9b}31m", "\u{202e}x"]);
        assert!(values(&table).ends_with("\r\n\u{fffd}[2J\u{fffd}31m,\u{fffd}x,\r\n"));
        let bytes = STANDARD.decode(address(&table).split(',').nth(1).unwrap()).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("\u{feff}{}", values(&table)));
    }
}
