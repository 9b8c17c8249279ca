//! Writes a fleet made up, for benchmarks: `fleet KIND ROOT HOSTS HOURS N [FIRST]`, a run of each
//! host and hour, hours from the FIRST on (0). KIND is `sends`, N of them a run; `others`, N
//! requests, packets and datagrams a run; or `histograms` of N minutes, with one host of 50 slow
//! from hour 168 on, the second week.

#[path = "../tests/fleet/mod.rs"]
mod fleet;

const USAGE: &str = "fleet sends|others|histograms ROOT HOSTS HOURS N [FIRST]";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, root, numbers @ ..] = words.as_slice() else { panic!("{USAGE}") };
    let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().expect(USAGE)).collect();
    let ([hosts, hours, n] | [hosts, hours, n, _]) = numbers[..] else { panic!("{USAGE}") };
    let first = numbers.get(3).copied().unwrap_or(0);
    let root = std::path::Path::new(root);
    fleet::each(hosts, first..first + hours, |host, hour| match kind.as_str() {
        "sends" => fleet::run(root, host, hour, fleet::Size { hosts, hours, sends: n, connections: 64 }),
        "others" => fleet::others(root, host, hour, n),
        "histograms" => fleet::histograms(root, host, hour, n, hour >= 168 && host % 50 == 7),
        _ => panic!("{USAGE}"),
    });
}
