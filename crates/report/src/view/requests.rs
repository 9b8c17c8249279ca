//! Requests in words.

use record::{Component, WaitReason};

use summary::RoleFigures;

/// What separates the network from the peer's program.
pub(crate) fn separated(of: &RoleFigures) -> Option<String> {
    let ways = [
        (of.bases[0], "by the request's own ACK"),
        (of.bases[1], "by the minimum RTT of the connection, as the ACK came with the answer or was delayed"),
        (of.bases[2], "by stamps at both ends, which are on one clock as both are on this host"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|w| w.0 > 0).map(|(n, how)| format!("{} {how}", quantity::count(*n))).collect();
    let both = if of.bases[2] > 0 && of.component(Component::PeerReceive).n() < of.divided() {
        " Where the peer was traced, network is the wire alone."
    } else {
        ""
    };
    (!ways.is_empty())
        .then(|| format!("The network is separated from the peer's program: of {}.{both}", ways.join("; of ")))
}

/// What they waited for TCP for, where that took a hundredth of their time or more.
pub(crate) fn waited(of: &RoleFigures) -> Option<String> {
    let tcp = of.component(Component::Tcp).sum();
    if tcp == 0 || tcp * 100 < of.records.total().sum() {
        return None;
    }
    let waits = of.waits();
    let all = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let named: Vec<String> = waits
        .iter()
        .take(3)
        .map(|(reason, stats)| {
            let what = match reason {
                WaitReason::SendBuffer => "a full send buffer".to_owned(),
                WaitReason::Unknown => "a reason not known".to_owned(),
                reason => reason.to_string(),
            };
            let share = quantity::percent(quantity::share(stats.time.0.into(), all));
            format!("{what} {share} ({})", quantity::counted(stats.sends, "request"))
        })
        .collect();
    Some(format!("What kept them waiting for TCP: {}.", named.join(", ")))
}

/// How many are not divided into components.
pub(crate) fn undivided(of: &RoleFigures) -> Option<String> {
    let lacking = of.records.n.saturating_sub(of.divided()).saturating_sub(of.overlapping);
    (lacking > 0).then(|| {
        format!(
            "{} not divided into components: a stamp of theirs is missing or out of order.",
            quantity::counted(lacking, "request")
        )
    })
}

/// That these are no requests, where messages overlap.
pub(crate) fn overlapping(of: &RoleFigures) -> Option<String> {
    (of.overlapping > 0).then(|| {
        format!(
            "What is counted here are exchanges, not requests: {} of {} overlap another (the answer went on past the next request, or began before its \
             own was whole), as where requests are pipelined or multiplexed. Those are not divided into components.",
            quantity::count(of.overlapping),
            quantity::count(of.records.n)
        )
    })
}
