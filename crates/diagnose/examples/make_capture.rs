//! Writes a generated capture to a file: `make_capture PATTERN PACKETS CONNECTIONS OUT.pcap`, a pattern being `download`, `both-ways`,
//! `messages`, `short` or `mixed`. One segment in a hundred is lost.

use std::fs::File;
use std::io::BufWriter;

use wire::generate::{Pattern, Traffic, write_traffic};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [pattern, packets, connections, out] = &args[..] else {
        eprintln!("make_capture PATTERN PACKETS CONNECTIONS OUT.pcap");
        std::process::exit(2);
    };
    let pattern = Pattern::ALL.into_iter().find(|p| p.0 == pattern).expect("a pattern").1;
    let traffic = Traffic {
        pattern,
        packets: packets.parse().expect("a number"),
        connections: connections.parse().expect("a number"),
        seed: 1,
        loss_one_in: 100,
    };
    write_traffic(&mut BufWriter::new(File::create(out).expect("a file")), &traffic).expect("room for it");
}
