//! Tables as comma-separated values (RFC 4180).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::document::{Block, Document, Table};

/// Every table of the documents, those behind plots included: each under a line with `#` and its title, with an empty line between two.
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
            let title = if table.title.is_empty() { &section.title } else { &table.title };
            out.push_str(&format!("# {title}\r\n{}", values(table)));
        }
    }
    out
}

fn cell(text: &str) -> String {
    let quoted = text.contains(['"', ',', '\n', '\r']);
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn line<'c>(cells: impl Iterator<Item = &'c str>) -> String {
    let mut line = cells.map(cell).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

/// The head and the rows; sentences under a row stand in a last column.
fn values(table: &Table) -> String {
    let noted = table.notes.iter().any(|notes| !notes.is_empty());
    let mut text = line(table.head.iter().map(String::as_str).chain(noted.then_some("notes")));
    for (n, row) in table.rows.iter().enumerate() {
        let notes = noted.then(|| table.notes.get(n).map(|notes| notes.join(" ")).unwrap_or_default());
        text.push_str(&line(row.iter().map(String::as_str).chain(notes.as_deref())));
    }
    text
}

/// The table as the address of a file, in a link that any browser can save without a server. It begins with a byte order mark, by which spreadsheets know UTF-8.
pub fn address(table: &Table) -> String {
    let text = format!("\u{feff}{}", values(table));
    format!("data:text/csv;charset=utf-8;base64,{}", STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_quotes_and_line_ends_are_quoted() {
        let mut table = Table::new("t", &["delay, ms", "goodput"]);
        table.rows.push(vec!["5".into(), "9 \"and\" 8".into()]);
        table.noted(vec!["7".into(), "two\nlines".into()], vec!["one.".into(), "two.".into()]);
        assert_eq!(
            values(&table),
            "\"delay, ms\",goodput,notes\r\n5,\"9 \"\"and\"\" 8\",\r\n7,\"two\nlines\",one. two.\r\n"
        );
        let bytes = STANDARD.decode(address(&table).split(',').nth(1).unwrap()).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("\u{feff}{}", values(&table)));
    }
}
