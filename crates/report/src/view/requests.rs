//! Requests in words.

use record::{Component, Protocol, WaitReason};

use summary::RoleFigures;

use super::others::were;
use super::waits::called;

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
                reason => called(*reason),
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

/// The same where the beginning of packets shows it.
pub(crate) fn multiplexed(of: &RoleFigures) -> Option<String> {
    let n = |protocol| of.of_protocol(protocol);
    let certain = [
        (n(Protocol::Http2), "on connections of HTTP/2, by its preface"),
        (n(Protocol::Upgraded), "after an answer 101, on connections that went over to another protocol"),
        (n(Protocol::PostgresqlPipeline), "with several statements of PostgreSQL, sent together"),
    ];
    let certain: Vec<String> =
        certain.iter().filter(|way| way.0 > 0).map(|(n, how)| format!("{} {how}", quantity::count(*n))).collect();
    let mut said = Vec::new();
    if !certain.is_empty() {
        said.push(format!(
            "Some of the {} counted are exchanges, each of which may hold several requests: {}.",
            quantity::count(of.records.n),
            certain.join("; ")
        ));
    }
    let offered = n(Protocol::TlsH2Offered);
    if offered > 0 {
        said.push(format!(
            "{} on connections with TLS that offered HTTP/2; whether the server chose it is encrypted. Where it did, these are exchanges, too.",
            were(offered, "request")
        ));
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// How many have a label, and why the others have none.
pub(crate) fn labelled(of: &RoleFigures) -> Option<String> {
    let seen: u64 = Protocol::ALL.into_iter().map(|protocol| of.of_protocol(protocol)).sum();
    if seen == 0 {
        return None;
    }
    let (n, with) = (of.records.n, of.labels.n());
    if with == n {
        return Some("Each has its method and path.".into());
    }
    let at = |protocol| of.of_protocol(protocol);
    let why = [
        (at(Protocol::Http1Cut), "with a request line that is not whole in its packet"),
        (at(Protocol::Http2), "of HTTP/2"),
        (at(Protocol::Upgraded), "after an answer 101"),
        (at(Protocol::Tls) + at(Protocol::TlsH2Offered), "with TLS"),
        (at(Protocol::Postgresql) + at(Protocol::PostgresqlPipeline), "of PostgreSQL"),
        (n.saturating_sub(seen), "with a beginning that was not seen, or that is no request line"),
    ];
    let why: Vec<String> =
        why.iter().filter(|why| why.0 > 0).map(|(n, how)| format!("{} {how}", quantity::count(*n))).collect();
    let (with, n) = (quantity::count(with), quantity::count(n));
    Some(format!("Method and path are known of {with} of {n}; not of {}.", why.join(", ")))
}
