//! All connections in a table, the one that something hurt most first.

use std::io::Write;

use diagnose::{Follower, Report};

use super::{Reading, parallel};

/// What a terminal has at least.
const WIDTH: usize = 80;
/// Room for both endpoints; longer ones get a line of their own.
const ENDS: usize = 43;

/// `1793113` as `1,793,113`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in at most eight characters.
fn size(bytes: u64) -> String {
    match bytes {
        0..=99_999 => format!("{} B", grouped(bytes)),
        100_000..=99_999_999 => format!("{} kB", grouped(bytes / 1_000)),
        100_000_000..=99_999_999_999 => format!("{} MB", grouped(bytes / 1_000_000)),
        _ => format!("{} GB", grouped(bytes / 1_000_000_000)),
    }
}

/// Writes `text` in lines of [`WIDTH`], each after `indent` blanks.
pub fn wrapped(out: &mut impl Write, indent: usize, text: &str) -> std::io::Result<()> {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{:indent$}{line}", "")
}

/// `1 packet`, `2,500 packets`.
fn of(n: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(n), if n == 1 { "" } else { "s" })
}

pub fn print(
    out: &mut impl Write,
    name: &str,
    follower: &Follower,
    reading: &Reading,
    rows: usize,
    threads: usize,
) -> anyhow::Result<()> {
    let totals = follower.totals();
    wrapped(
        out,
        0,
        &format!(
            "{name}: {}, {}, {}",
            of(reading.packets, "packet"),
            of(totals.segments, "TCP segment"),
            of(follower.len() as u64, "connection"),
        ),
    )?;
    if totals.beyond_limit > 0 {
        let beyond = of(totals.beyond_limit, "segment");
        writeln!(out, "{beyond} of further connections, beyond --max-connections, are only counted")?;
    }
    if totals.capture_copies > 0 {
        writeln!(out, "{} made by the capture itself left out", of(totals.capture_copies, "duplicate"))?;
    }
    if follower.is_empty() {
        return Ok(());
    }
    // The cost decides, then the size; only numbers are sorted, the reports are made again for the rows shown.
    let mut order: Vec<(u64, u64, usize)> = Vec::with_capacity(follower.len());
    let rank = |r: Report| {
        let cost = r.findings.iter().filter(|f| f.kind != "sender_application").map(|f| f.cost_ns.0).max().unwrap_or(0);
        (cost, r.to_server.unique_bytes + r.to_client.unique_bytes, r.number)
    };
    parallel::in_order(
        follower,
        threads,
        |reports| Ok(reports.map(rank).collect::<Vec<_>>()),
        |ranks| {
            order.extend(ranks);
            Ok(())
        },
    )?;
    order.sort_unstable_by_key(|&(cost, bytes, n)| (std::cmp::Reverse((cost, bytes)), n));
    writeln!(out, "{:>5}  {:<ENDS$}{:>9} {:>9} {:>8}", "no.", "client > server", "there", "back", "time")?;
    for &(_, _, n) in order.iter().take(rows) {
        let Some(r) = follower.report(n) else { continue };
        let ends = format!("{} > {}", reading.endpoint(r.client), reading.endpoint(r.server));
        let figures = format!(
            "{:>9} {:>9} {:>8}",
            size(r.to_server.unique_bytes),
            size(r.to_client.unique_bytes),
            r.duration_ns.to_string()
        );
        if ends.chars().count() > ENDS {
            writeln!(out, "{:>5}  {ends}\n{:7}{:ENDS$}{figures}", r.number, "", "")?;
        } else {
            writeln!(out, "{:>5}  {ends:<ENDS$}{figures}", r.number)?;
        }
        wrapped(out, 7, &r.verdict)?;
    }
    if order.len() > rows {
        writeln!(out, "{} more (--rows {} shows all)", grouped((order.len() - rows) as u64), order.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_and_numbers_grouped() {
        let mut out = Vec::new();
        wrapped(&mut out, 7, &"word ".repeat(60)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH && l.starts_with("       word")), "{text}");
        assert_eq!([0, 999, 1_000, 1_793_113].map(grouped), ["0", "999", "1,000", "1,793,113"]);
        assert_eq!(
            [99_999, 100_000, 1_793_113, u64::from(u32::MAX)].map(size),
            ["99,999 B", "100 kB", "1,793 kB", "4,294 MB"]
        );
    }
}
