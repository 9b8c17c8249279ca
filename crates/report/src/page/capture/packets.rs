//! A connection packet by packet, as tcpdump printed it in 1999: microseconds from the start, one
//! packet a line.

use std::fmt::Write as _;

use diagnose::{Record, Report};
use wire::{Flags, TcpOptions};

use super::Names;
use paper::document::{Block, Document, Section};

fn options(o: &TcpOptions, syn: bool) -> String {
    let mut all = Vec::new();
    if let Some(mss) = o.mss {
        all.push(format!("mss {mss}"));
    }
    if o.sack_permitted {
        all.push("sackOK".into());
    }
    if let Some((value, echo)) = o.timestamps {
        if !syn {
            all.extend(["nop".to_owned(), "nop".to_owned()]);
        }
        let number = |n: Option<u32>| n.map_or(String::new(), |n| format!(" {n}"));
        all.push(format!("timestamp{}{}", number(value), number(echo)));
    }
    if let Some(scale) = o.window_scale {
        all.push(format!("nop,wscale {scale}"));
    }
    for (left, right) in o.sack.as_slice() {
        all.push(format!("sack {left}:{right}"));
    }
    if all.is_empty() && !o.cut {
        return String::new();
    }
    format!(" <{}{}>", all.join(","), if o.cut { "[|tcp]" } else { "" })
}

fn flags(f: Flags) -> String {
    let letters: String = [(Flags::SYN, 'S'), (Flags::FIN, 'F'), (Flags::RST, 'R'), (Flags::PSH, 'P')]
        .iter()
        .filter(|(flag, _)| f.contains(*flag))
        .map(|(_, c)| *c)
        .collect();
    if letters.is_empty() { ".".into() } else { letters }
}

fn packet(r: &Record, start: u64, names: &Names) -> String {
    let s = &r.segment;
    let syn = s.flags.contains(Flags::SYN);
    let us = s.at.as_nanos().saturating_sub(start) / 1_000;
    // tcpdump sets ports off with a dot.
    let address = |a: std::net::SocketAddr| {
        let host = names.hosts.get(&a.ip()).cloned().unwrap_or_else(|| a.ip().to_string());
        format!("{host}.{}", a.port())
    };
    // SYNs have the numbers themselves, what follows is relative to them.
    let first = if syn { u64::from(s.seq.0) } else { r.seq.unwrap_or(u64::from(s.seq.0)) };
    let range = if syn || s.payload > 0 || s.flags.intersects(Flags::FIN | Flags::RST) {
        format!(" {first}:{}({})", first + u64::from(s.payload), s.payload)
    } else {
        String::new()
    };
    let ack = match (s.flags.contains(Flags::ACK), syn, r.ack) {
        (false, _, _) => String::new(),
        (true, false, Some(ack)) => format!(" ack {ack}"),
        (true, _, _) => format!(" ack {}", s.ack),
    };
    format!(
        "{us} {} > {}: {}{range}{ack} win {}{}{}",
        address(s.source),
        address(s.destination),
        flags(s.flags),
        s.window,
        options(&s.options, syn),
        if s.network.dont_fragment { " (DF)" } else { "" }
    )
}

/// The packets that were kept of a connection. Only their lines are in the document, so that other
/// programs can read them.
pub fn document(report: &Report, names: &Names) -> Document {
    let mut text = String::new();
    for r in &report.records {
        let _ = writeln!(text, "{}", packet(r, report.start_ns, names));
    }
    if report.records_left_out > 0 {
        let _ = writeln!(text, "[{}]", quantity::counted(report.records_left_out, "more packet"));
    }
    let mut section = Section::default();
    section.blocks.push(Block::Code { title: String::new(), text });
    Document { sections: vec![section], ..Document::default() }
}
