//! What is wrong with a row, in words.

use record::{Component, Nanos};
use summary::live::Trouble;

/// The words, with the figure that belongs to them.
pub fn words(trouble: &Trouble) -> String {
    let time = |time: &Nanos| quantity::time_to(time.0 as f64, 2);
    let percent = |share: &f64| quantity::percent(*share);
    match trouble {
        Trouble::NoAnswer(since) => format!("no answer for {}", time(since)),
        Trouble::Attempt(since) => format!("SYN unanswered for {}", time(since)),
        Trouble::NotRead(since) => format!("not read for {}", time(since)),
        Trouble::ReceiveWindow(share)
        | Trouble::SendBuffer(share)
        | Trouble::Retransmissions(share)
        | Trouble::Requests(_, share)
        | Trouble::Waits(_, share) => format!("{} {}", short(trouble), percent(share)),
        Trouble::QueueFull | Trouble::ReadsSlowly => short(trouble),
        Trouble::Lookups(time_of) => format!("{}: {}", short(trouble), time(time_of)),
        Trouble::QueueOverflowed(n) | Trouble::BufferDrops(n) | Trouble::LookupsUnanswered(n) => {
            format!("{}: {}", short(trouble), quantity::count(*n))
        }
        Trouble::HostDrops(n) => format!("{} {}", quantity::count(*n), short(trouble)),
    }
}

/// The words alone, for where there is no room for the figure.
pub fn short(trouble: &Trouble) -> String {
    match trouble {
        Trouble::NoAnswer(_) => "no answer".into(),
        Trouble::Attempt(_) => "SYN unanswered".into(),
        Trouble::NotRead(_) => "not read".into(),
        Trouble::ReadsSlowly => "own program reads slowly".into(),
        Trouble::QueueFull => "accept queue full".into(),
        Trouble::QueueOverflowed(_) => "accept queue dropped".into(),
        Trouble::BufferDrops(_) => "buffer full, dropped".into(),
        Trouble::ReceiveWindow(_) => "receive window".into(),
        Trouble::SendBuffer(_) => "send buffer".into(),
        Trouble::Retransmissions(_) => "retransmissions".into(),
        Trouble::HostDrops(_) => "dropped by this host".into(),
        Trouble::Lookups(_) => "slow DNS".into(),
        Trouble::LookupsUnanswered(_) => "DNS unanswered".into(),
        Trouble::Waits(reason, _) => reason.to_string(),
        Trouble::Requests(component, _) => match component {
            Component::Connect => "connection set-up",
            Component::Application => "own program",
            Component::Tcp => "TCP",
            Component::Kernel => "this host's kernel",
            Component::Network => "network",
            Component::PeerReceive | Component::PeerSend => "peer's kernel",
            Component::PeerApplication => "peer's program",
            Component::Transfer => "transfer",
            Component::Wakeup => "own program's wake-up",
            Component::Upstream => "what the program asked",
        }
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::WaitReason;

    #[test]
    fn a_reason_is_said_with_its_figure() {
        for (trouble, expected) in [
            (Trouble::NoAnswer(Nanos::from_millis(4_000)), "no answer for 4.0\u{a0}s"),
            (Trouble::Waits(WaitReason::Nagle, 1.0), "Nagle's algorithm 100\u{a0}%"),
            (Trouble::Requests(Component::PeerApplication, 0.98), "peer's program 98\u{a0}%"),
            (Trouble::QueueOverflowed(1_200), "accept queue dropped: 1,200"),
            (Trouble::HostDrops(3), "3 dropped by this host"),
            (Trouble::Lookups(Nanos::from_millis(800)), "slow DNS: 800\u{a0}ms"),
            (Trouble::LookupsUnanswered(2), "DNS unanswered: 2"),
        ] {
            assert_eq!(words(&trouble).replace(' ', "\u{a0}"), expected.replace(' ', "\u{a0}"));
        }
    }
}
