//! Requests and answers: which part took which share, the connections, and the slowest of them.

use record::{Part, Role};

use super::{tallies, times};
use crate::Canvas;
use summary::{RequestFigures, RoleFigures};

/// The rows alone for a screen that has little room: of the role with the most requests.
pub(super) fn rows(canvas: &Canvas, out: &mut String, requests: &RequestFigures) {
    let most = Role::ALL.into_iter().map(|role| (role, requests.of(role))).max_by_key(|(_, of)| of.records.n);
    if let Some((role, of)) = most.filter(|(_, of)| of.divided() > 0) {
        out.push('\n');
        times::table(canvas, out, &format!("part (as {role})"), &times::lines(&of.records));
    }
}

pub(super) fn draw(canvas: &Canvas, out: &mut String, requests: &RequestFigures, connections: usize) {
    for role in Role::ALL {
        let of = requests.of(role);
        let records = &of.records;
        if records.n == 0 {
            continue;
        }
        let title = format!(
            "{} seen from the {role}: {} asked, {} answered",
            quantity::counted(records.n, "request"),
            quantity::bytes(of.request_bytes),
            quantity::bytes(of.answer_bytes),
        );
        canvas.heading(out, &title);
        if of.divided() > 0 {
            times::table(canvas, out, "part", &times::lines(records));
        }
        times::remarks(canvas, out, &notes(of));
        tallies::table(canvas, out, records.kind(), &records.tallies, connections);
        let title = times::slowest_title(records.slowest.sorted().len(), "request");
        times::slowest(canvas, out, &format!("{title}, seen from the {role}"), records);
    }
}

fn notes(of: &RoleFigures) -> Vec<String> {
    let mut notes = Vec::new();
    if of.divided() > 0 {
        notes.push(times::meanings(&of.records));
    }
    notes.extend(times::held(of.divided(), "requests"));
    notes.extend(told_by(of));
    notes.extend(undivided(of));
    notes
}

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
