//! Writes a fleet made up, for benchmarks: `fleet ROOT HOSTS HOURS SENDS`, sends a run. With SENDS 0 its runs have histograms alone.

#[path = "../tests/fleet/mod.rs"]
mod fleet;

fn main() {
    let mut words = std::env::args().skip(1);
    let root = std::path::PathBuf::from(words.next().expect("fleet ROOT HOSTS HOURS SENDS"));
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("fleet ROOT HOSTS HOURS SENDS");
    let size = fleet::Size { hosts: number(), hours: number(), sends: number(), connections: 64 };
    if size.sends > 0 {
        return fleet::write(&root, size);
    }
    for host in 0..size.hosts {
        for hour in 0..size.hours {
            fleet::histograms(&root, host, hour, 60, false);
        }
    }
}
