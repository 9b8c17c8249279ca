//! What README and `docs/` show: pages, their blocks, and the command lines in them.
//!
//! Each test file uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// README and every page of `docs/`, guides included, with their text.
pub fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    for folder in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root.join(folder)).expect("docs can be listed") {
            let path = entry.expect("docs can be listed").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).expect("a page can be read"))).collect()
}

/// The command lines in a page's blocks, with what `\` continues. In a block with prompts (`$`,
/// `host#`) the other lines are output.
pub fn block_lines(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut number = 1;
    for (block, text) in page.split("```").enumerate() {
        let prompts = text.lines().any(|line| prompt(line).is_some());
        let mut lines = text.lines().enumerate();
        while let Some((row, line)) = lines.next().filter(|_| block % 2 == 1) {
            let mut line = if prompts { prompt(line).unwrap_or_default() } else { line.trim_start() }.to_owned();
            while line.ends_with('\\') {
                line.pop();
                line += lines.next().map_or("", |(_, next)| next.trim_start());
            }
            // In a loop of a shell a command stands between `do` and `;`.
            let line = line.split_once("; do ").map_or(line.as_str(), |(_, rest)| rest);
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            if line.starts_with("wirelapse ") {
                found.push((number + row, line.trim_end_matches("; done").to_owned()));
            }
        }
        number += text.matches('\n').count();
    }
    found
}

/// What follows a prompt.
pub fn prompt(line: &str) -> Option<&str> {
    let (prompt, command) = line.split_once(' ')?;
    let host = prompt.strip_suffix(['$', '#'])?;
    host.chars().all(char::is_alphanumeric).then(|| command.trim_start())
}

/// The words of a command line up to its comment, pipe, redirection or a gap of two spaces. Quoted
/// text is one word.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut previous = ' ';
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ') if previous == ' ' => break,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, '#' | '|' | '>' | '&' | ';') if previous == ' ' => break,
            _ => word.push(letter),
        }
        previous = letter;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Every block of a page, with the number of its first line, what it is in and its text.
pub fn blocks(page: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    let mut number = 1;
    for (n, text) in page.split("\n```").enumerate() {
        if n % 2 == 1 {
            let (kind, text) = text.split_once('\n').unwrap_or((text, ""));
            found.push((number + 1, kind, text));
        }
        number += text.matches('\n').count() + 1;
    }
    found
}

/// Copies a run: its files, and those of the tables' folders.
pub fn copy_run(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a run") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_run(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file");
        }
    }
}
