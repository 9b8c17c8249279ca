//! Texts that are compared with those of an earlier run of the test, line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// How many lines of a difference are shown.
const SHOWN: usize = 60;

/// Compares texts, each with its name, with `tests/snapshots/FOLDER/NAME.txt`;
/// `WIRELAPSE_WRITE_SNAPSHOTS=1` writes them there.
pub fn compare(folder: &str, texts: &[(String, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(folder);
    let write = std::env::var_os("WIRELAPSE_WRITE_SNAPSHOTS").is_some();
    let mut changed = String::new();
    for (name, text) in texts {
        let path = folder.join(format!("{name}.txt"));
        if write {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let earlier = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = difference(&earlier, text);
        if !lines.is_empty() {
            writeln!(changed, "{}:", path.display()).unwrap();
            lines.iter().take(SHOWN).for_each(|line| writeln!(changed, "{line}").unwrap());
            if lines.len() > SHOWN {
                writeln!(changed, "… and {} lines more", lines.len() - SHOWN).unwrap();
            }
        }
    }
    assert!(changed.is_empty(), "where this was meant, WIRELAPSE_WRITE_SNAPSHOTS=1 writes it:\n{changed}");
}

/// The lines that only one of two texts has, `-` before those of the earlier one. Each line names
/// what it is of, so their order says nothing.
fn difference(earlier: &str, later: &str) -> Vec<String> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    earlier.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
    later.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let mark = |(line, n): (&&str, &i64)| (*n != 0).then(|| format!("{} {line}", if *n < 0 { '-' } else { '+' }));
    counts.iter().filter_map(mark).collect()
}

#[test]
fn a_difference_names_the_lines() {
    assert_eq!(difference("1 a: 5\n1 b: 6\n", "1 b: 6\n1 a: 7\n"), ["- 1 a: 5", "+ 1 a: 7"]);
    assert!(difference("x\ny\n", "y\nx\n").is_empty());
}
