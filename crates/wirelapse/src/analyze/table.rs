//! All connections in a table, the one that something hurt most first.

use std::io::Write;

use diagnose::{Follower, Report};
use quantity::{bytes, count, counted};

use super::{Reading, parallel};

/// What a terminal has at least.
const WIDTH: usize = 80;
/// Room for both endpoints; longer ones get a line of their own.
const ENDS: usize = 43;

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
            counted(reading.packets, "packet"),
            counted(totals.segments, "TCP segment"),
            counted(follower.len() as u64, "connection"),
        ),
    )?;
    if totals.beyond_limit > 0 {
        let beyond = counted(totals.beyond_limit, "segment");
        writeln!(out, "{beyond} of further connections, beyond --max-connections, are only counted")?;
    }
    if totals.capture_copies > 0 {
        writeln!(out, "{} made by the capture itself left out", counted(totals.capture_copies, "duplicate"))?;
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
            bytes(r.to_server.unique_bytes),
            bytes(r.to_client.unique_bytes),
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
        writeln!(out, "{} more (--rows {} shows all)", count((order.len() - rows) as u64), order.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped() {
        let mut out = Vec::new();
        wrapped(&mut out, 7, &"word ".repeat(60)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH && l.starts_with("       word")), "{text}");
    }
}
