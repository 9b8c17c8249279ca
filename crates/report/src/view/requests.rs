//! Requests and answers: which part took which share, and the slowest of them.

use model::{Nanos, Part, Role};

use super::times::{self, Line};
use crate::canvas::Ink;
use crate::requests::{Requests, RoleRequests};
use crate::{Canvas, quantity};

const fn ink(part: Part) -> Ink {
    match part {
        Part::Application => Ink::Tcp,
        Part::Kernel => Ink::Qdisc,
        Part::Network => Ink::Network,
        Part::PeerReceive | Part::PeerApplication | Part::PeerSend => Ink::Nic,
        Part::Transfer => Ink::Faint,
    }
}

fn meaning(role: Role, part: Part, split: bool) -> &'static str {
    match (role, part) {
        (Role::Client, Part::Application) => "this program, between its writes and from readable to read",
        (Role::Server, Part::Application) => "this program, from readable to its last write",
        (_, Part::Kernel) => "this host's kernel, out and in",
        (_, Part::Network) if split => "wire, both ways (and the peer's kernel where the peer was not traced)",
        (_, Part::Network) => "wire, both ways, and the peer's kernel",
        (_, Part::PeerReceive) => "the peer's kernel, until the request was readable",
        (_, Part::PeerApplication) => "the peer's program",
        (_, Part::PeerSend) => "the peer's kernel, until the answer was with its driver",
        (Role::Client, Part::Transfer) => "from the first byte of the answer to its last",
        (Role::Server, Part::Transfer) => "from the first byte of the request to its last",
    }
}

fn lines(of: &RoleRequests) -> Vec<Line<'_>> {
    let whole: u128 = of.whole.sum();
    let part = |part: Part| Line { name: part.name(), ink: ink(part), times: of.part(part), whole: Some(whole) };
    let mut lines: Vec<_> = Part::ALL.into_iter().map(part).filter(|line| line.times.n() > 0).collect();
    lines.push(Line { name: "whole", ink: Ink::Strong, times: &of.whole, whole: None });
    lines
}

/// The rows alone for a screen that has little room: of the role with the most requests.
pub(super) fn rows(canvas: &Canvas, out: &mut String, requests: &Requests) {
    let most = Role::ALL.into_iter().map(|role| (role, requests.of(role))).max_by_key(|(_, of)| of.requests);
    if let Some((role, of)) = most.filter(|(_, of)| of.divided > 0) {
        out.push('\n');
        times::table(canvas, out, &format!("part (as {role})"), &lines(of));
    }
}

pub(super) fn draw(canvas: &Canvas, out: &mut String, requests: &Requests) {
    for role in Role::ALL {
        let of = requests.of(role);
        if of.requests == 0 {
            continue;
        }
        let title = format!(
            "{} seen from the {role}: {} asked, {} answered",
            quantity::counted(of.requests, "request"),
            quantity::bytes(of.request_bytes),
            quantity::bytes(of.answer_bytes),
        );
        canvas.heading(out, &title);
        if of.divided > 0 {
            times::table(canvas, out, "part", &lines(of));
        }
        times::remarks(canvas, out, &notes(role, of));
        slowest(canvas, out, requests, role);
    }
}

fn notes(role: Role, of: &RoleRequests) -> Vec<String> {
    let split = of.part(Part::PeerReceive).n() > 0;
    let there: Vec<String> = Part::ALL
        .into_iter()
        .filter(|&part| of.part(part).n() > 0)
        .map(|part| format!("{part}: {}", meaning(role, part, split)))
        .collect();
    let mut notes = Vec::new();
    if !there.is_empty() {
        notes.push(format!("{}.", there.join("; ")));
    }
    notes.extend(times::held(of.whole.n(), "requests"));
    let ways = [
        (of.bases[0], "by the request's own ACK"),
        (of.bases[1], "by the least round trip of the connection, as the ACK came with the answer or late"),
        (of.bases[2], "by stamps at both ends, which are on one clock as both are on this host"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|w| w.0 > 0).map(|(n, how)| format!("{} {how}", quantity::count(*n))).collect();
    if !ways.is_empty() {
        notes.push(format!("The network is told from the peer's program: of {}.", ways.join("; of ")));
    }
    if of.divided < of.requests {
        notes.push(format!(
            "{} not divided into parts: a stamp of theirs is missing or out of order.",
            quantity::counted(of.requests - of.divided, "request")
        ));
    }
    notes
}

fn slowest(canvas: &Canvas, out: &mut String, requests: &Requests, role: Role) {
    let all = requests.of(role).slowest.sorted();
    if all.is_empty() {
        return;
    }
    canvas.heading(out, &format!("{}, seen from the {role}", times::slowest_title(all.len(), "request")));
    for (i, (whole, slow)) in all.into_iter().enumerate() {
        let r = &slow.request;
        let since = requests.first.zip(r.began()).and_then(|(first, at)| at.since(first).ok());
        let facts = [
            format!("{} asked, {} answered", quantity::bytes(r.request.bytes), quantity::bytes(r.answer.bytes)),
            format!("{}[{}]", r.owner.comm, r.owner.pid),
            format!("at +{}", since.unwrap_or_default()),
        ];
        times::headline(canvas, out, i, whole, &facts, slow.ends, r.connection);
        let parts: Vec<(&str, Ink, Nanos)> = Part::ALL
            .into_iter()
            .filter_map(|part| Some((part.name(), ink(part), r.parts.as_ref()?.get(part)?)))
            .collect();
        times::waterfall(canvas, out, &parts, whole);
    }
}
