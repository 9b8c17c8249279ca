//! All connections in a table, the one that something hurt most first.

use std::io::Write;

use diagnose::Follower;

use super::Reading;

pub fn print(
    out: &mut impl Write,
    name: &str,
    follower: &Follower,
    reading: &Reading,
    rows: usize,
) -> anyhow::Result<()> {
    let totals = follower.totals();
    writeln!(
        out,
        "{name}: {} packets, {} TCP segments, {} connections{}",
        reading.packets,
        totals.segments,
        follower.len(),
        if totals.beyond_limit > 0 {
            format!("; {} segments of further connections beyond --max-connections", totals.beyond_limit)
        } else {
            String::new()
        }
    )?;
    if totals.capture_copies > 0 {
        writeln!(out, "{} packets are copies that the capture made itself; they are left out", totals.capture_copies)?;
    }
    // The cost decides, then the size; only numbers are sorted, the reports are made again for the rows shown.
    let mut order: Vec<(u64, u64, usize)> = follower
        .reports()
        .map(|r| {
            let cost =
                r.findings.iter().filter(|f| f.kind != "sender_application").map(|f| f.cost_ns.0).max().unwrap_or(0);
            (cost, r.to_server.unique_bytes + r.to_client.unique_bytes, r.number)
        })
        .collect();
    order.sort_unstable_by_key(|&(cost, bytes, n)| (std::cmp::Reverse((cost, bytes)), n));
    for &(_, _, n) in order.iter().take(rows) {
        let Some(r) = follower.report(n) else { continue };
        writeln!(
            out,
            "{:>5}  {} > {}  {} bytes there, {} back, {}",
            r.number,
            reading.endpoint(r.client),
            reading.endpoint(r.server),
            r.to_server.unique_bytes,
            r.to_client.unique_bytes,
            r.duration_ns
        )?;
        writeln!(out, "       {}", r.verdict)?;
    }
    if order.len() > rows {
        writeln!(out, "{} more (--rows {} shows all)", order.len() - rows, order.len())?;
    }
    Ok(())
}
