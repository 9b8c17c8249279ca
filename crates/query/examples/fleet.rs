//! Writes a fleet made up, for benchmarks: `fleet ROOT HOSTS HOURS SENDS [FIRST [OTHERS]]`, sends a run, hours from the FIRST on (0). With SENDS 0 its runs have histograms
//! alone; from hour 168 on, the second week, one host of 50 is slow. With OTHERS they have so many requests, packets and datagrams.

#[path = "../tests/fleet/mod.rs"]
mod fleet;

const USAGE: &str = "fleet ROOT HOSTS HOURS SENDS [FIRST [OTHERS]]";

fn main() {
    let mut words = std::env::args().skip(1);
    let root = std::path::PathBuf::from(words.next().expect(USAGE));
    let numbers: Vec<u64> = words.map(|word| word.parse().expect(USAGE)).collect();
    let (hosts, hours, sends, first, others) = match numbers[..] {
        [hosts, hours, sends] => (hosts, hours, sends, 0, 0),
        [hosts, hours, sends, first] => (hosts, hours, sends, first, 0),
        [hosts, hours, sends, first, others] => (hosts, hours, sends, first, others),
        _ => panic!("{USAGE}"),
    };
    for host in 0..hosts {
        for hour in first..first + hours {
            match sends {
                _ if others > 0 => fleet::others(&root, host, hour, others),
                0 => fleet::histograms(&root, host, hour, 60, hour >= 168 && host % 50 == 7),
                _ => fleet::run(&root, host, hour, fleet::Size { hosts, hours, sends, connections: 64 }),
            }
        }
    }
}
