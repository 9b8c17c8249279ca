//! What a host's TCP counts (`/proc/net/netstat` and `snmp`), over one trial.

use std::collections::BTreeMap;

/// The counters that show what timestamps give and what their absence costs; names as the kernel
/// has them.
const KEPT: [&str; 12] = [
    "TcpRetransSegs",
    "TcpExtTCPTimeouts",
    "TcpExtTCPLostRetransmit",
    "TcpExtTCPFullUndo",
    "TcpExtTCPPartialUndo",
    "TcpExtTCPDSACKUndo",
    "TcpExtTCPLossUndo",
    "TcpExtTCPSpuriousRTOs",
    "TcpExtPAWSActive",
    "TcpExtPAWSEstab",
    "TcpExtTCPDSACKRecv",
    "TcpExtTCPFastRetrans",
];

/// Those of the network namespace of the calling thread; empty where `/proc` cannot be read.
pub(crate) fn read() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for file in ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"] {
        parse(&std::fs::read_to_string(file).unwrap_or_default(), &mut all);
    }
    all
}

/// What was added between two readings.
pub(crate) fn since(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    after.iter().map(|(name, n)| (name.clone(), n.saturating_sub(before.get(name).copied().unwrap_or(0)))).collect()
}

/// Pairs of lines: names, then numbers, both behind the same prefix.
fn parse(text: &str, all: &mut BTreeMap<String, u64>) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (Some((prefix, names)), Some((_, numbers))) = (pair[0].split_once(": "), pair[1].split_once(": ")) else {
            continue;
        };
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
            let name = format!("{prefix}{name}");
            if let (true, Ok(number)) = (KEPT.contains(&name.as_str()), number.parse()) {
                all.insert(name, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let mut all = BTreeMap::new();
        parse("Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\nTcpExt: PAWSEstab Other\nTcpExt: 3 4\nhalf\n", &mut all);
        assert_eq!(all, BTreeMap::from([("TcpRetransSegs".to_owned(), 7), ("TcpExtPAWSEstab".to_owned(), 3)]));
        let before = BTreeMap::from([("TcpRetransSegs".to_owned(), 2)]);
        assert_eq!(since(&before, &all)["TcpRetransSegs"], 5);
        assert!(read().contains_key("TcpRetransSegs"), "{:?}", read());
    }
}
