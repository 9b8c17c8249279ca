//! An answer that does not fit into a datagram: the question goes over TCP, with a handshake, if
//! the server can be reached so.

use record::Nanos;
use record::dns::DnsFinding;

use super::{Shown, View, host};
use crate::dns::attempts::{Attempt, Met};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let mut shown = Shown::default();
    for case in view.unusual() {
        if let Some((_, cut)) = case.cut() {
            let next = || case.tries.iter().map(|e| e.asked).find(|asked| *asked > cut.at);
            let until = match attempt(view, case) {
                Some(Attempt { met: Met::Refusal(at), .. }) => next().unwrap_or(*at),
                Some(Attempt { met: Met::Silence, .. }) => next().unwrap_or(cut.at),
                _ => case.end().unwrap_or(cut.at),
            };
            shown.add(case, cut.at..until.max(cut.at));
        }
    }
    // Whom TCP fails waits in vain: that is the worse of two that waited as long.
    let failed = shown.by_case().find_map(|(case, _)| attempt(view, case).filter(|a| a.met != Met::Answer));
    let more = shown.more();
    let text = |case: &Case<'_>| {
        let cut = case.cut().map(|(e, _)| e);
        let took = case.udp_to_tcp();
        let size = cut.and_then(|e| e.udp_size).map_or_else(|| "512".to_owned(), |size| size.to_string());
        let by = cut.map_or_else(String::new, |e| host(e.server));
        let then = match (took, attempt(view, case)) {
            (Some(took), _) => format!("over TCP it took {} more", Nanos(took)),
            (None, Some(Attempt { met: Met::Refusal(at), at: syn, .. })) => {
                format!("the connection over TCP was refused after {}", Nanos(at.saturating_sub(*syn)))
            }
            (None, Some(Attempt { met: Met::Silence, at, .. })) if case.shows_silence_after(*at) => {
                "nothing answered the connection over TCP".to_owned()
            }
            (None, Some(Attempt { met: Met::Silence, .. })) => {
                "the capture ends before the connection over TCP was answered".to_owned()
            }
            (None, _) if case.tries.iter().any(|e| e.tcp) => "the question over TCP was not answered".to_owned(),
            (None, _) => "the capture holds no question over TCP after it".to_owned(),
        };
        format!(
            "{by} could not fit the answer for {} into the {size} bytes that the client takes: {then}{more}",
            case.name()
        )
    };
    let smaller = "make the answer smaller (fewer records, smaller keys), or let the client take more: `options edns0`, with \
                   1,232 bytes where the path carries them";
    let next = match failed {
        Some(a) => format!("open port 53 of TCP on {}, and on what filters before it; or {smaller}", a.server.ip()),
        None => smaller.to_owned(),
    };
    shown.finding(text, next)
}

/// The connection that followed the answer which was cut short.
fn attempt<'v>(view: &View<'v, '_>, case: &Case<'_>) -> Option<&'v Attempt> {
    let (e, cut) = case.cut()?;
    view.attempts.after(e.client, e.server, cut.at)
}
