//! Requests in words.

use record::Part;

use summary::RoleFigures;

/// What tells the network from the peer's program.
pub(crate) fn told_by(of: &RoleFigures) -> Option<String> {
    let ways = [
        (of.bases[0], "by the request's own ACK"),
        (of.bases[1], "by the least round trip of the connection, as the ACK came with the answer or late"),
        (of.bases[2], "by stamps at both ends, which are on one clock as both are on this host"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|w| w.0 > 0).map(|(n, how)| format!("{} {how}", quantity::count(*n))).collect();
    let both = if of.bases[2] > 0 && of.part(Part::PeerReceive).n() < of.divided() {
        " Where the peer was traced, network is the wire alone."
    } else {
        ""
    };
    (!ways.is_empty()).then(|| format!("The network is told from the peer's program: of {}.{both}", ways.join("; of ")))
}

/// How many have no parts.
pub(crate) fn undivided(of: &RoleFigures) -> Option<String> {
    (of.divided() < of.records.n).then(|| {
        format!(
            "{} not divided into parts: a stamp of theirs is missing or out of order.",
            quantity::counted(of.records.n - of.divided(), "request")
        )
    })
}
