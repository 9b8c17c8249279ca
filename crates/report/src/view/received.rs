//! What was received: the legs on the way in, and the slowest receives.

use model::{Nanos, ReceiveLeg};

use super::times::{self, Line};
use crate::canvas::Ink;
use crate::receives::Receives;
use crate::{Canvas, quantity};

/// How a leg is painted: the colours of the legs of a send, in the order of the way.
const fn ink(leg: ReceiveLeg) -> Ink {
    match leg {
        ReceiveLeg::Softirq => Ink::Tcp,
        ReceiveLeg::Socket => Ink::Qdisc,
        ReceiveLeg::Wakeup => Ink::Network,
        ReceiveLeg::Total => Ink::Strong,
    }
}

const fn meaning(leg: ReceiveLeg) -> &'static str {
    match leg {
        ReceiveLeg::Softirq => "from the stack to TCP",
        ReceiveLeg::Socket => "in TCP, until readable",
        ReceiveLeg::Wakeup => "until the program had read it",
        ReceiveLeg::Total => "from arrival to read",
    }
}

fn lines(receives: &Receives) -> Vec<Line<'_>> {
    let whole = receives.time();
    ReceiveLeg::ALL
        .into_iter()
        .map(|leg| Line {
            name: leg.name(),
            ink: ink(leg),
            times: &receives.leg(leg).times,
            whole: (leg != ReceiveLeg::Total).then_some(whole),
        })
        .collect()
}

/// The rows alone, under a blank line; nothing where nothing was received.
pub(super) fn rows(canvas: &Canvas, out: &mut String, receives: &Receives) {
    if receives.receives > 0 {
        out.push('\n');
        times::table(canvas, out, "leg (received)", &lines(receives));
    }
}

pub(super) fn draw(canvas: &Canvas, out: &mut String, receives: &Receives, notes: &[String]) {
    let title = format!(
        "Received: {} in {} of {}",
        quantity::bytes(receives.bytes),
        quantity::counted(receives.receives, "frame"),
        quantity::counted(receives.segments, "segment"),
    );
    canvas.heading(out, &title);
    times::table(canvas, out, "leg", &lines(receives));
    let mut remarks: Vec<String> = ReceiveLeg::ALL.map(|leg| format!("{leg}: {}", meaning(leg))).to_vec();
    remarks = vec![format!("{}.", remarks.join("; "))];
    remarks.extend(times::held(receives.leg(ReceiveLeg::Total).times.n(), "receives"));
    if receives.out_of_order > 0 {
        remarks.push(format!(
            "{} came before bytes that precede them: what follows a hole waits in socket until it is filled.",
            quantity::counted(receives.out_of_order, "frame")
        ));
    }
    if receives.most_queued > 0 {
        remarks.push(format!("At most {} lay unread in a socket.", quantity::bytes(receives.most_queued.into())));
    }
    remarks.extend(notes.iter().cloned());
    times::remarks(canvas, out, &remarks);
    times::histograms(
        canvas,
        out,
        "How long each leg took (time on a logarithmic axis, receives upwards)",
        &lines(receives),
    );
    slowest(canvas, out, receives);
}

fn slowest(canvas: &Canvas, out: &mut String, receives: &Receives) {
    let all = receives.slowest.sorted();
    if all.is_empty() {
        return;
    }
    canvas.heading(out, &times::slowest_title(all.len(), "receive"));
    for (i, (total, slow)) in all.into_iter().enumerate() {
        let r = &slow.receive;
        let since = receives.first.zip(r.stamps.arrived()).and_then(|(first, at)| at.since(first).ok());
        let facts = [
            quantity::bytes(r.bytes.into()),
            quantity::counted(r.segments.into(), "segment"),
            format!("{}[{}]", r.reader.comm, r.reader.pid),
            format!("at +{}", since.unwrap_or_default()),
        ];
        times::headline(canvas, out, i, total, &facts, slow.ends, r.connection);
        let parts: Vec<(&str, Ink, Nanos)> = ReceiveLeg::PARTS
            .into_iter()
            .filter_map(|leg| Some((leg.name(), ink(leg), r.leg(leg).ok().flatten()?)))
            .collect();
        times::waterfall(canvas, out, &parts, total);
        let mut state = vec![
            format!("unread before it {}", quantity::bytes(r.queued.into())),
            format!("buffer {} of {} in use", quantity::bytes(r.buffer_used.into()), quantity::bytes(r.buffer.into())),
        ];
        if r.out_of_order {
            state.push("out of order".into());
        }
        let state: Vec<String> = state.into_iter().map(|p| p.replace(' ', "\u{a0}")).collect();
        canvas.paragraph(out, &state.join(" · "), 3);
    }
}
