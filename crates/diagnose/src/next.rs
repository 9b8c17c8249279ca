//! What to do next: one sentence for each connection.

use std::fmt;

use record::Nanos;
use record::conversation::{Budget, Finding, FindingKind, Limit, Way};

use crate::claims::Times;
use crate::findings::Case;
use crate::idle::Pause;
use crate::unclear::Unclear;

/// What to do, and the limit to which the time belongs that it would save.
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) shortens: Limit,
    /// Why it is not the largest limit; `None` where it is.
    pub(crate) instead: Option<String>,
}

/// The sentence: what to do, and why not on the largest limit.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.instead {
            Some(why) => write!(f, " (this concerns {}, since {why})", self.shortens.words()),
            None => Ok(()),
        }
    }
}

/// What would help most, by the findings; by the largest limit where none of them does. Advice on
/// another limit than the largest says so, and why.
pub(crate) fn step(case: &Case<'_>, limits: &Budget, findings: &[Finding]) -> Step {
    let largest = limits.largest();
    let on_largest = |text: String| Step { text, shortens: largest, instead: None };
    if !case.c.established && case.vantage.only_direction.is_none() {
        return on_largest(never_opened(case, findings));
    }
    if case.unscaled_window_in_view() {
        return on_largest(
            "capture the handshake too: 65,535 bytes were in flight at most, as under a window without scaling".into(),
        );
    }
    // A window without a burst that shows what the path carries: what it held back is the most that
    // can be gained.
    let windows = [
        FindingKind::WindowScalingMissing,
        FindingKind::ReceiveWindow,
        FindingKind::SendBuffer,
        FindingKind::CongestionWindow,
    ];
    let gain = |f: &Finding| match f.saves_ns {
        None if windows.contains(&f.kind) => f.cost_ns,
        saved => saved.unwrap_or_default(),
    };
    // The first of equals: what costs most comes first.
    let best_of = |all: &mut dyn Iterator<Item = &Finding>| -> Option<usize> {
        let places = all.map(|f| findings.iter().position(|other| std::ptr::eq(f, other)));
        places.flatten().max_by_key(|i| (gain(&findings[*i]), std::cmp::Reverse(*i)))
    };
    let worthwhile = (case.duration.0 / 20).max(1);
    let best = best_of(&mut findings.iter()).map(|i| &findings[i]).filter(|f| gain(f).0 >= worthwhile);
    if let Some(best) = best {
        // What shortens the largest limit comes before what saves a little more elsewhere.
        let named = best_of(&mut findings.iter().filter(|f| f.shortens.contains(&largest))).map(|i| &findings[i]);
        if let Some(named) = named.filter(|f| gain(f).0 >= worthwhile && gain(f).0 >= gain(best).0 / 2) {
            return on_largest(named.worth.clone());
        }
        let shortens = best.shortens.first().copied().unwrap_or(largest);
        let instead = (shortens != largest).then(|| left_alone(limits, largest));
        return Step { text: best.worth.clone(), shortens, instead };
    }
    if are_equal(limits) {
        let [first, _] = limits.leading();
        let instead = Some(left_alone(limits, largest));
        return Step { text: by_limit(case, first, findings), shortens: first, instead };
    }
    on_largest(by_limit(case, largest, findings))
}

/// Whether two known limits have the largest share, as far as shares are good, and what is not
/// known has less.
fn are_equal(limits: &Budget) -> bool {
    limits.is_near(limits.leading()[1]) && !limits.is_near(Limit::Unknown)
}

/// Why there is nothing to advise on a limit that took most of the time.
fn left_alone(limits: &Budget, largest: Limit) -> String {
    match largest {
        Limit::Unknown if are_equal(limits) => "two limits took nearly as much".into(),
        Limit::Application => "TCP cannot shorten the application's time".into(),
        Limit::PathRate => "only a faster path would shorten the rest".into(),
        Limit::Unknown => "what took most of the time is not known from here".into(),
        other => format!("less can be saved on {}, which took most of the time", other.words()),
    }
}

fn never_opened(case: &Case<'_>, findings: &[Finding]) -> String {
    let answered = case.c.halves[Way::ToClient].count.packets > 0;
    match findings.iter().find(|f| matches!(f.kind, FindingKind::SynRetries | FindingKind::Reset)) {
        Some(f) if f.kind == FindingKind::SynRetries => f.worth.clone(),
        Some(_) => "find what listens at the server's address and port, and which firewall is before it".into(),
        None if answered => {
            "find what became of the client's answer to the SYN-ACK: the capture ends, or it was lost".into()
        }
        None => "find whether the SYN reaches the server: the capture holds no answer".into(),
    }
}

/// What the largest limit asks for, where no finding says more.
fn by_limit(case: &Case<'_>, largest: Limit, findings: &[Finding]) -> String {
    if case.vantage.only_direction.is_some() {
        return "capture both directions".into();
    }
    if case.vantage.out_of_step {
        return "shift the times of one direction (editcap -t on a file of its own), or capture both with one clock"
            .into();
    }
    if case.vantage.without_acks {
        return "save the capture without a display filter: its ACKs are missing".into();
    }
    if case.vantage.missed_share() > 0.1 {
        return "capture again with a larger buffer or a shorter snap length: much of the connection is missing".into();
    }
    match largest {
        Limit::Application => {
            let pause = case.idle.longest.first();
            let longest = pause.map_or(Nanos::ZERO, |p| p.ns);
            let pace = case.idle.pace().filter(|(_, times)| longest.0 < times.total.0 / 20);
            if let Some((words, times)) = pace {
                return match times.checked(&case.claims).filter(|times| times.longest.0 < times.total.0 / 2) {
                    Some(Times { total, longest, .. }) => format!(
                        "find what sets the application's pace: {words}, {total} in all, none longer than {longest}"
                    ),
                    None => format!("find what sets the application's pace: {words}, {} in all", times.total),
                };
            }
            match pause.filter(|p| p.from_packet > 0) {
                None if case.budgets.iter().map(|b| b.of(Limit::Application).0).sum::<u64>() > case.duration.0 / 2 => {
                    "the network and TCP have nothing to gain here".into()
                }
                None => "find what the applications waited for".into(),
                Some(Pause { who, thinking: true, ns, from_packet, to_packet }) => {
                    format!("find what the {who} did for {ns} between packets {from_packet} and {to_packet}")
                }
                Some(Pause { who, ns, from_packet, .. }) => {
                    format!("find why the {who} sent nothing for {ns} after packet {from_packet}")
                }
            }
        }
        Limit::Unknown if case.vantage.is_subflow => {
            "look at the MPTCP connection as a whole: ss -Mi on a host, and captures of its other subflows".into()
        }
        Limit::Unknown | Limit::ReceiveWindow if findings.iter().any(|f| f.kind == FindingKind::Intermediary) => {
            "capture beyond what acknowledges on the way, too".into()
        }
        Limit::Handshake => "reuse connections: the handshake took most of the time".into(),
        Limit::SlowStart => {
            "reuse connections, or raise the initial window (ip route … initcwnd): the transfer was over before the window had grown".into()
        }
        Limit::CongestionWindow => "raise the sender's buffer, or use a congestion control that grows faster".into(),
        Limit::ReceiveWindow => "raise the receiver's buffer, or let its application read faster".into(),
        Limit::LossRecovery => "find where packets are dropped: counters of interfaces, policers and queues on the path".into(),
        Limit::AckWaiting => "set TCP_NODELAY, or write what belongs together in one call".into(),
        Limit::PathRate if findings.iter().any(|f| f.kind == FindingKind::PathStalls) => {
            "find what makes the path stand still; beside that, only a faster one helps".into()
        }
        Limit::PathRate => "only a faster path helps: this one was in use all the time".into(),
        Limit::Unknown if case.unclear().is_some() => case.unclear().map_or("", Unclear::step).into(),
        Limit::Unknown => match (case.vantage.from_the_middle, case.is_beside_sender()) {
            (true, true) => "capture from the handshake on".into(),
            (true, false) => "capture from the handshake on, next to the sender".into(),
            (false, true) => "trace the sending host (wirelapse trace): it shows what held the data".into(),
            (false, false) => "capture next to the sender".into(),
        },
    }
}
