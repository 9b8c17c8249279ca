//! What is found on UDP: a file for each kind.

mod bursts;
mod jitter;
mod loss;
mod pause;
mod reordered;
mod retries;
mod slow;
mod unanswered;

use record::udp::{UdpFinding, UdpFindingKind, UdpStream};

use super::analysis::Case;
use super::numbers::Numbers;
use crate::drawn::{self, Shown};

/// A rule says of a conversation when somebody waited for what the rule finds, and what there is to
/// say. When its kind of finding is drawn: [`UdpFindingKind::rule`].
type Rule = fn(&Case<'_>) -> Option<Shown>;

const RULES: [(UdpFindingKind, Rule); 8] = [
    (UdpFindingKind::Unanswered, unanswered::draw),
    (UdpFindingKind::Retries, retries::draw),
    (UdpFindingKind::Slow, slow::draw),
    (UdpFindingKind::Loss, loss::draw),
    (UdpFindingKind::Bursts, bursts::draw),
    (UdpFindingKind::Reordered, reordered::draw),
    (UdpFindingKind::Jitter, jitter::draw),
    (UdpFindingKind::Pause, pause::draw),
];

/// Everything found, the costliest first: one finding for each rule and server.
pub(super) fn draw(cases: &[Case<'_>]) -> Vec<UdpFinding> {
    drawn::draw(cases, RULES, "conversation")
}

/// So many of 1,000 datagrams may be lost without a word.
const LOST_OF_1000: u64 = 1;

/// Whether more of a stream was lost than that.
fn is_lossy(stream: &UdpStream) -> bool {
    stream.lost > 0 && stream.lost * 1_000 >= stream.expected * LOST_OF_1000
}

/// Whether most of what is lost was lost where datagrams came close together, although most did
/// not.
fn is_of_bursts(stream: &UdpStream) -> bool {
    is_lossy(stream) && stream.lost_in_bursts * 5 >= stream.lost * 4
}

/// The stream of a conversation that lost most.
fn worst<'c, 'a>(case: &'c Case<'a>, is_it: impl Fn(&UdpStream) -> bool) -> Option<(&'c UdpStream, &'a Numbers)> {
    let all = case.streams.iter().filter(|(stream, _)| is_it(stream));
    all.max_by_key(|(stream, _)| stream.lost).map(|(stream, numbers)| (stream, *numbers))
}

/// A stream as a text names it.
fn named(case: &Case<'_>, stream: &UdpStream) -> String {
    let which = if stream.stream.is_empty() { String::new() } else { format!(" {}", stream.stream) };
    let to = match stream.way {
        record::conversation::Way::ToServer => case.row.server,
        record::conversation::Way::ToClient => case.row.client,
    };
    format!("{}{which} to {to}", stream.numbering.words())
}

/// How much was lost.
fn lost(stream: &UdpStream) -> String {
    format!(
        "{} of {} ({})",
        quantity::count(stream.lost),
        quantity::counted(stream.expected, "datagram"),
        quantity::percent(quantity::share(stream.lost.into(), stream.expected.into()))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let kinds: Vec<UdpFindingKind> = RULES.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, UdpFindingKind::ALL);
    }
}
