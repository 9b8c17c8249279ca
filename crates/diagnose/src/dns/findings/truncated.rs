//! An answer that does not fit into a datagram: the question goes over TCP, with a handshake.

use record::Nanos;
use record::dns::DnsFinding;

use super::{Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let mut shown = Shown::default();
    for case in view.unusual() {
        if let Some((_, cut)) = case.cut() {
            shown.add(case, cut.at..case.end().unwrap_or(cut.at).max(cut.at));
        }
    }
    let more = shown.more();
    let text = |case: &Case<'_>| {
        let cut = case.cut().map(|(e, _)| e);
        let took = case.udp_to_tcp();
        let size = cut.and_then(|e| e.udp_size).map_or_else(|| "512".to_owned(), |size| size.to_string());
        let by = cut.map_or_else(String::new, |e| host(e.server));
        let then = match took {
            Some(took) => format!("over TCP it took {} more", Nanos(took)),
            None if case.tries.iter().any(|e| e.tcp) => "the question over TCP was not answered".to_owned(),
            None => "the capture holds no question over TCP after it".to_owned(),
        };
        format!(
            "{by} could not fit the answer for {} into the {size} bytes that the client takes: {then}{more}",
            case.name()
        )
    };
    let next = "make the answer smaller (fewer records, smaller keys), or let the client take more: `options edns0`, with 1,232 \
                bytes where the path carries them"
        .to_owned();
    shown.finding(text, next)
}
