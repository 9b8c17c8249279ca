//! Targets of fuzzing: any bytes as the files of a run, read and drawn.

use std::fs;
use std::path::PathBuf;

use crate::page;
use paper::document::Document;
use paper::{Canvas, html, terminal};

/// A directory of this process, on a file system in memory where there is one.
fn directory(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let directory = parent.join(format!("wirelapse-fuzz-{}-{name}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn draw(document: &Document) {
    let documents = std::slice::from_ref(document);
    let canvas = Canvas { width: 80, colour: true, unicode: true };
    terminal::text(&canvas, documents);
    let _ = html::page(documents, "");
}

/// `run.json` of a trace on the first line, the number of a table on the second, then one part of
/// that table.
pub fn trace(bytes: &[u8]) {
    const TABLES: [&str; 9] =
        ["connections", "sends", "receives", "requests", "packets", "datagrams", "dns", "copies", "totals"];
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let (Some(json), Some(table), Some(part)) = (lines.next(), lines.next(), lines.next()) else { return };
    let run = directory("trace");
    fs::write(run.join("run.json"), json).expect("written");
    let wanted = usize::from(table.first().copied().unwrap_or_default()) % TABLES.len();
    for (number, name) in TABLES.iter().enumerate() {
        let folder = run.join(format!("{name}.parquet"));
        fs::create_dir_all(&folder).expect("a directory");
        let file = folder.join("part-00000.parquet");
        if number == wanted {
            fs::write(file, part).expect("written");
        }
    }
    if let Ok(opened) = store::Run::open(&run)
        && let Ok(document) = page::trace::document("run", &opened)
    {
        draw(&document);
    }
    fs::remove_dir_all(run).expect("removed");
}

/// `run.json` of a study on the first line, its trials on the lines after it.
pub fn study(bytes: &[u8]) {
    let Some((json, trials)) = bytes.iter().position(|byte| *byte == b'\n').map(|at| bytes.split_at(at)) else {
        return;
    };
    let run = directory("study");
    fs::write(run.join("run.json"), json).expect("written");
    fs::write(run.join("trials.ndjson"), trials).expect("written");
    if let Ok((provenance, trials, _)) = study::ledger::load(&run) {
        draw(&page::study::document(Some("run"), &provenance, &trials));
    }
    fs::remove_dir_all(run).expect("removed");
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("run_trace", super::trace);
        replay("run_study", super::study);
    }
}
