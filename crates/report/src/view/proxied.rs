//! Requests that a program answered with what it asked others, as a proxy does: in words.

use std::net::SocketAddr;

use paper::document::{Clause, Text};
use record::{Component, Nanos};
use summary::{Part, ProxiedFigures, TraceSummary};

use super::advice::{MOST, on_the_path};
use super::others::spread;
use super::profile::place;

/// The least share of a request's time that a part has to take to be named beside the others.
const NAMED: f64 = 0.1;

/// The least share of what was seen at servers that is worth beginning with.
const WORTH: u64 = 4;

/// The requests that are joined with what was asked for them, where they are most of those that
/// could be, and a good part of all that was seen at servers: then they are what is asked.
pub(crate) fn leading(summary: &TraceSummary) -> Option<&ProxiedFigures> {
    let proxied = summary.requests().proxied();
    let of_all = summary.n(summary::TimedKind::AtServer);
    let leads = proxied.of.divided() > 0 && proxied.joined() >= proxied.withheld && proxied.joined() * WORTH >= of_all;
    leads.then_some(proxied)
}

/// What is said of them, with what to do: how long they took, how long the program waited for
/// others, and which part of them is known. Nothing where few are joined.
pub(crate) fn proxied(summary: &TraceSummary) -> Vec<Clause> {
    let Some(of) = leading(summary) else { return Vec::new() };
    let n = match (of.joined(), of.all()) {
        (joined, all) if joined == all => format!("{} to this program", quantity::counted(all, "request")),
        (joined, all) => {
            format!("{} of {} to this program", quantity::count(joined), quantity::counted(all, "request"))
        }
    };
    let said =
        Text::from(format!("{n}, joined with what it asked others for them: {}.", spread(of.of.records.total())));
    let profile = &of.of.profile;
    let parts = [(profile.typical(), " Typical: "), (profile.slowest(), " The slowest 1\u{a0}%: ")];
    let said = parts.into_iter().fold(said, |said, (part, whose)| match part {
        Some(part) => said.and(whose).and(spent(of, &part)).and("."),
        None => said,
    });
    let first = Clause::finding(said).with_next(next(summary, of));
    [first].into_iter().chain(rest(of).map(Clause::caveat)).collect()
}

/// `50.1 ms of 52.0 ms waiting for 10.0.0.2:9000 (48.9 ms in the program there, 0.4 ms on the
/// network), 1.6 ms in this program`.
fn spent(of: &ProxiedFigures, part: &Part) -> Text {
    let show = |time: Nanos| quantity::whole(time);
    let mut said =
        Text::from(format!("{} of {} waiting for ", show(part.mean_of(Component::Upstream)), show(part.whole())));
    said = match of.remote() {
        Some((remote, true)) => said.and(remote),
        Some((remote, false)) => said.and(remote).and(" and others"),
        None => said.and("what it asked"),
    };
    if let Some([program, network]) = part.upstream() {
        said = said.and(format!(" ({} in the program there, {} on the network", show(program), show(network)));
        // From the first byte of the answer to its last, and what the kernels took.
        let rest = part.mean_of(Component::Upstream).saturating_sub(program + network);
        if quantity::share(rest.0.into(), part.whole().0.into()) >= NAMED {
            said = said.and(format!(", {} until its answer was whole", show(rest)));
        }
        said = said.and(")");
    }
    let own = part.mean_of(Component::Application) + part.mean_of(Component::Wakeup);
    said = said.and(format!(", {} in this program", show(own)));
    let others = Component::ALL.into_iter().filter(|component| {
        !matches!(component, Component::Upstream | Component::Application | Component::Wakeup)
            && quantity::share(part.mean_of(*component).0.into(), part.whole().0.into()) >= NAMED
    });
    others.fold(said, |said, component| {
        said.and(format!(", {} {}", show(part.mean_of(component)), place(component, part.reason())))
    })
}

/// Of the requests that are not joined: how many, and why.
fn rest(of: &ProxiedFigures) -> Option<String> {
    let nothing = format!("for {} nothing was seen to be asked", quantity::count(of.nothing));
    let withheld = format!(
        "{} cannot be joined for certain, as this program had several requests open when it asked, or not all was seen",
        quantity::count(of.withheld)
    );
    let said = match (of.nothing, of.withheld) {
        (0, 0) => return None,
        (_, 0) => nothing,
        (0, _) => withheld,
        _ => format!("{nothing}; {withheld}"),
    };
    Some(format!("Of the other {}: {said}.", quantity::count(of.nothing + of.withheld)))
}

/// Where few are joined: what they took, and what was asked meanwhile, each as a whole.
pub(crate) fn apart(summary: &TraceSummary) -> Option<Clause> {
    if leading(summary).is_some() {
        return None;
    }
    let of = summary.requests().proxied();
    let [served, asked] = of.in_all();
    (of.withheld > 0 && served.0 > 0 && asked.0 > 0).then(|| {
        let took = |sum: u128| quantity::whole(Nanos(u64::try_from(sum).unwrap_or(u64::MAX)));
        Clause::caveat(format!(
            "{} of {} to a program that asks others itself cannot be joined with what it asked: several were open at the same time, or not all was \
             seen. In all, the {} that it answered took {}, and the {} that it made took {}.",
            quantity::count(of.withheld),
            quantity::counted(of.all(), "request"),
            quantity::count(served.0),
            took(served.1),
            quantity::count(asked.0),
            took(asked.1),
        ))
    })
}

/// What to look at next: the program that was asked, if that is not traced already, the network to
/// it, or this program.
fn next(summary: &TraceSummary, proxied: &ProxiedFigures) -> Option<Text> {
    let took = |component| proxied.of.component(component).sum();
    let all: u128 = Component::ALL.into_iter().map(took).sum();
    let share = |time: u128| quantity::share(time, all);
    if share(took(Component::Application)) >= MOST {
        return Some(
            "the time goes by in this program, beside its waits for what it asks others: it works, or waits for something that is no request, such \
             as a lock, a disk or a connection of its pool."
                .into(),
        );
    }
    if share(took(Component::Upstream)) < MOST {
        return None;
    }
    let (remote, _) = proxied.remote()?;
    // As far as it is known of those that are joined.
    let (program, network) = (proxied.program.sum(), proxied.network.sum());
    let rest = took(Component::Upstream).saturating_sub(program + network);
    if network > program.max(rest) {
        return Some(Text::from("that is the network to ").and(remote).and(": ").and(on_the_path()));
    }
    if proxied.program.n() == proxied.joined() && rest > program {
        // What was asked is said of the requests that this program made.
        return None;
    }
    Some(match (proxied.both_ends * 2 > proxied.joined(), is_here(summary, remote)) {
        (true, _) => Text::from("the program at ")
            .and(remote)
            .and(", which is traced as well, takes that time: look at what it does, or at what it waits for itself."),
        (false, true) => Text::from(remote)
            .and(" is on this host: ")
            .and(Text::code(format!("wirelapse trace --requests --port {}", remote.port())))
            .and(" traces both ends, and shows whether the program there works or waits."),
        (false, false) => Text::code("wirelapse trace --requests")
            .and(" on the host of ")
            .and(remote)
            .and(" shows whether the program there works or waits, and distinguishes it from the path."),
    })
}

/// Whether this end is on this host.
fn is_here(summary: &TraceSummary, remote: SocketAddr) -> bool {
    let connections = summary.connections();
    let mut ends = connections.iter().map(|of| &of.connection).filter(|c| c.remote == remote).peekable();
    ends.peek().is_some() && ends.all(|c| remote.ip().is_loopback() || c.local.ip() == remote.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Components, Event, Instant, Join, Moments, Request, Role, Upstream};
    use summary::Limits;

    /// So many requests to a program that are joined with what it asked another one, which took so
    /// many milliseconds there, so many on the network, and so many in the program itself; and some
    /// that are not joined.
    fn seen(joined: u64, others: [u64; 2], times: [u64; 3], both_ends: bool) -> TraceSummary {
        seen_with(joined, others, times, Nanos::ZERO, both_ends)
    }

    /// The same with an answer that takes so long from its first byte to its last.
    fn seen_with(
        joined: u64,
        [withheld, nothing]: [u64; 2],
        times: [u64; 3],
        transfer: Nanos,
        both_ends: bool,
    ) -> TraceSummary {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        let [program, network, own] = times.map(Nanos::from_millis);
        let mut add = |n, upstream: Upstream, components: Components, role| {
            for _ in 0..n {
                let (began, ended) = (Some(Instant::from_nanos(0)), Some(Instant::from_nanos(components.sum().0)));
                let mut request = <Request as record::table::Record>::blank();
                request.moments = match role {
                    Role::Server => Moments { arrived: began, left: ended, ..Moments::default() },
                    Role::Client => Moments { sent: began, read: ended, ..Moments::default() },
                };
                (request.role, request.owner.pid) = (role, 7);
                request.components = Some(components);
                request.upstream = Some(upstream).filter(|_| role == Role::Server);
                summary.add(&Event::Request(Box::new(request)));
            }
        };
        let upstream = Upstream {
            join: Join::Joined,
            requests: 1,
            remote: Some("10.0.0.2:9000".parse().expect("an address")),
            program: Some(program),
            network: Some(network),
            both_ends,
        };
        let waits =
            Components { application: own, upstream: Some(program + network + transfer), ..Components::default() };
        let undivided = Components { application: own + program + network, ..Components::default() };
        add(joined, upstream, waits, Role::Server);
        add(withheld, Upstream { join: Join::Withheld, ..Upstream::default() }, undivided, Role::Server);
        add(nothing, Upstream::default(), Components { application: own, ..Components::default() }, Role::Server);
        let asked = Components { network: Some(network), peer_application: Some(program), ..Components::default() };
        let asked = Components { transfer, ..asked };
        add(joined + withheld, upstream, asked, Role::Client);
        summary
    }

    fn said(summary: &TraceSummary) -> Vec<(String, Option<String>)> {
        let plain = |text: &Text| text.to_string().replace('\u{a0}', " ");
        proxied(summary).iter().map(|clause| (plain(&clause.text), clause.next.as_ref().map(plain))).collect()
    }

    #[test]
    fn a_proxy_that_waits_names_whom_it_waited_for() {
        let all = said(&seen(40, [0, 0], [48, 2, 2], false));
        let [(first, Some(next))] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            first,
            "40 requests to this program, joined with what it asked others for them: median 52.0 ms, at most 52.0 ms. Typical: 50.0 ms of 52.0 ms \
             waiting for 10.0.0.2:9000 (48.0 ms in the program there, 2.00 ms on the network), 2.00 ms in this program."
        );
        assert!(next.starts_with("`wirelapse trace --requests` on the host of 10.0.0.2:9000"), "{next}");
    }

    #[test]
    fn an_upstream_that_is_traced_is_looked_at_and_not_traced_again() {
        let next = |times| said(&seen(40, [0, 0], times, true))[0].1.clone().expect("what to do");
        assert!(next([48, 2, 2]).starts_with("the program at 10.0.0.2:9000, which is traced as well"));
        assert!(next([2, 48, 2]).starts_with("that is the network to 10.0.0.2:9000"));
        assert!(next([2, 2, 48]).starts_with("the time goes by in this program"));
        // An answer that comes in pieces: what limits it is said of the requests that were made.
        let summary = seen(40, [0, 0], [20, 2, 2], true);
        let pieces = seen_with(40, [0, 0], [20, 2, 2], Nanos::from_millis(30), true);
        assert!(said(&summary)[0].1.is_some());
        let (text, next) = said(&pieces).swap_remove(0);
        assert!(text.contains("2.00 ms on the network, 30.0 ms until its answer was whole)"), "{text}");
        assert_eq!(next, None);
    }

    #[test]
    fn what_is_not_joined_is_counted() {
        let all = said(&seen(40, [3, 5], [48, 2, 2], true));
        assert!(all[0].0.starts_with("40 of 48 requests to this program, joined"), "{all:?}");
        assert!(
            all[1].0.starts_with("Of the other 8: for 5 nothing was seen to be asked; 3 cannot be joined"),
            "{all:?}"
        );
    }

    #[test]
    fn few_that_are_joined_stand_for_no_others() {
        let summary = seen(10, [30, 0], [48, 2, 2], false);
        assert_eq!(said(&summary), []);
        let first = apart(&summary).expect("a sentence").text.to_string().replace('\u{a0}', " ");
        assert!(
            first.starts_with("30 of 40 requests to a program that asks others itself cannot be joined"),
            "{first}"
        );
        assert!(
            first.ends_with("the 40 that it answered took 2.08 s, and the 40 that it made took 2.00 s."),
            "{first}"
        );
        assert!(apart(&seen(40, [3, 5], [48, 2, 2], true)).is_none());
        assert!(apart(&seen(0, [0, 0], [48, 2, 2], false)).is_none());
    }
}
