//! Writes a generated capture to a file: `make_capture KIND PACKETS SEED OUT.pcap`, a kind being
//! `scattered`, `short`, `lossy` or `bulk`.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use wire::generate::{Scene, write_scene};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, packets, seed, out] = &args[..] else {
        eprintln!("make_capture KIND PACKETS SEED OUT.pcap");
        std::process::exit(2);
    };
    let scene = Scene::ALL.into_iter().find(|s| s.0 == kind).expect("a kind of capture").1;
    let (packets, seed) = (packets.parse().expect("a number"), seed.parse().expect("a number"));
    let mut out = BufWriter::new(File::create(out).expect("a file"));
    write_scene(&mut out, scene, packets, seed).and_then(|()| out.flush()).expect("room for it");
}
