//! How fast a capture is read down to segments, from memory: nanoseconds a packet and packets a second.
//!
//! `read_speed [PACKETS] [CONNECTIONS]`, by default 2,000,000 of 1,000; the best of 7 passes and their median.

use std::hint::black_box;
use std::time::Instant;

use wire::generate::{Traffic, write_traffic};
use wire::{Capture, Packet, Reassembly, dissect};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let packets = numbers.next().unwrap_or(2_000_000);
    let connections = numbers.next().unwrap_or(1_000) as u32;
    let mut file = Vec::new();
    write_traffic(&mut file, &Traffic { packets, connections, seed: 1, loss_one_in: 100 }).expect("memory");
    for streamed in [false, true] {
        let mut times = Vec::new();
        for _ in 0..7 {
            let start = Instant::now();
            let mut capture =
                if streamed { Capture::from_reader(&file[..]) } else { Capture::from_bytes(&file) }.expect("a capture");
            let (mut reassembly, mut payload) = (Reassembly::new(), 0u64);
            while let Some(frame) = capture.next_frame().expect("memory") {
                if let Ok(Packet::Tcp(segment)) = black_box(dissect(&frame, &mut reassembly)) {
                    payload += u64::from(segment.payload);
                }
            }
            black_box(payload);
            times.push(start.elapsed().as_nanos() as f64 / packets as f64);
        }
        times.sort_by(f64::total_cmp);
        let how = if streamed { "streamed" } else { "in memory" };
        println!(
            "{how}: best {:.1} ns, median {:.1} ns a packet of 7 passes over {packets} packets ({:.1} million packets a second at the median)",
            times[0],
            times[3],
            1_000.0 / times[3]
        );
    }
}
