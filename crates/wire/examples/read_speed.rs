//! How fast a capture is read down to segments, from memory: nanoseconds a packet and packets a
//! second.
//!
//! `read_speed [PACKETS] [CONNECTIONS]`, by default 2,000,000 of 1,000; the best of 7 passes and
//! their median.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Capture, Packet, PacketReader, Segment, Shard};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let packets = numbers.next().unwrap_or(2_000_000);
    let connections = numbers.next().unwrap_or(1_000) as u32;
    let mut file = Vec::new();
    write_traffic(&mut file, &Traffic { pattern: Pattern::Download, packets, connections, seed: 1, loss_one_in: 100 })
        .expect("memory");
    measure("frames only, in memory", packets, || {
        let (mut capture, mut bytes) = (Capture::from_bytes(&file).expect("a capture"), 0u64);
        while let Some(frame) = capture.next_frame().expect("memory") {
            bytes += u64::from(frame.original_length);
        }
        bytes
    });
    measure("segments, in memory", packets, || payload(PacketReader::from_bytes(&file).expect("a capture")));
    measure("segments of every other connection, in memory", packets, || {
        let part = Shard::all(2, 1).next().expect("two");
        payload(PacketReader::from_bytes(&file).expect("a capture").only(part))
    });
    measure("segments, streamed", packets, || payload(PacketReader::from_reader(&file[..]).expect("a capture")));
    let path = std::env::temp_dir().join(format!("read_speed-{}", std::process::id()));
    std::fs::write(&path, &file).expect("room for the file");
    let file = File::open(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    measure("segments, from a file", packets, || {
        payload(PacketReader::from_reader(OnDisk(&file, 0)).expect("a capture"))
    });
    measure("segments, from a file, half of the connections in each of two threads", packets, || {
        in_two_threads(|shard| payload(PacketReader::from_reader(OnDisk(&file, 0)).expect("a capture").only(shard)))
    });
}

/// A file from an offset on.
struct OnDisk<'a>(&'a File, u64);

impl io::Read for OnDisk<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read_at(into, self.1)?;
        self.1 += count as u64;
        Ok(count)
    }
}

fn in_two_threads(one: impl Fn(Shard) -> u64 + Sync) -> u64 {
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = Shard::all(2, 1).map(|shard| scope.spawn(move || one(shard))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn payload(mut packets: PacketReader<'_>) -> u64 {
    let nobody = SocketAddr::from(([0; 4], 0));
    let mut room = [Segment::new(0, record::Instant::from_nanos(0), nobody, nobody); 64];
    let mut payload = 0;
    loop {
        let filled = packets.fill(&mut room);
        payload += black_box(&room[..filled]).iter().map(|s| u64::from(s.payload)).sum::<u64>();
        if filled == room.len() {
            continue;
        }
        match packets.next_packet().expect("memory") {
            Some(Packet::Tcp(segment)) => payload += u64::from(black_box(segment).payload),
            Some(_) => {}
            None => return payload,
        }
    }
}

fn measure(what: &str, packets: u64, pass: impl Fn() -> u64) {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(pass());
            start.elapsed().as_nanos() as f64 / packets as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{what}: best {:.1} ns, median {:.1} ns a packet of 7 skips {packets} packets ({:.1} million packets a second at the median)",
        times[0],
        times[3],
        1_000.0 / times[3]
    );
}
