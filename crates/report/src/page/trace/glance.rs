//! What a page of a trace shows at a glance: the figures that its question asks for, and where the
//! time went.

use paper::document::{Glance, Part};
use paper::plot::Hue;
use record::{Component, Leg, Nanos, Role};
use stats::{Distribution, Quantile};
use summary::{RoleFigures, TimedKind, TraceSummary};

use crate::colour::hue_of;
use crate::view::{self, Facts};

/// Parts of a bar that are smaller are not drawn: they cannot be seen.
const SEEN: f64 = 0.005;

/// Of requests where there are any, else of transfers, else of sends; `None` without any of them.
pub(super) fn glance(summary: &TraceSummary, facts: &Facts) -> Option<Glance> {
    if let Some(proxied) = view::leading_proxied(summary) {
        return Some(of_requests(&proxied.of, TimedKind::AtServer));
    }
    let kinds = [(TimedKind::AtClient, Role::Client), (TimedKind::AtServer, Role::Server)];
    let asked = kinds.into_iter().max_by_key(|(kind, _)| summary.n(*kind)).filter(|(kind, _)| summary.n(*kind) > 0);
    if let Some((kind, role)) = asked {
        return Some(of_requests(summary.requests().of(role), kind));
    }
    of_transfers(summary, facts).or_else(|| of_sends(summary))
}

fn figure(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

/// Number, median and tail, as far as there are enough for a tail.
fn spread(thing: &str, times: &Distribution) -> Vec<(String, String)> {
    let quantiles = [("median", Quantile::P50), ("p99", Quantile::P99)];
    let shown = quantiles.into_iter().filter_map(|(name, q)| Some(figure(name, Nanos(times.quantile(q)?).to_string())));
    let most = times.max().map(|most| figure("slowest", Nanos(most).to_string()));
    [figure(thing, quantity::count(times.n()))].into_iter().chain(shown).chain(most).collect()
}

fn parts(all: impl IntoIterator<Item = (String, Hue, f64)>) -> Vec<Part> {
    let mut parts: Vec<Part> =
        all.into_iter().map(|(name, hue, share)| Part { name, hue, share }).filter(|part| part.share >= SEEN).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts
}

fn of_requests(of: &RoleFigures, kind: TimedKind) -> Glance {
    let times = of.records.total();
    let slowest = of.profile.slowest();
    let whole = if slowest.is_some() {
        "Where the slowest 1 % of requests spent their time"
    } else {
        "Where requests spent their time"
    };
    let share = |component: Component| match &slowest {
        Some(part) => quantity::share(part.mean_of(component).0.into(), part.whole().0.into()),
        None => quantity::share(of.component(component).sum(), times.sum()),
    };
    let legs = Component::ALL.into_iter().zip(kind.legs());
    let all = legs.map(|(component, leg)| (view::capital(leg.meaning), hue_of(leg), share(component)));
    Glance { figures: spread("requests", times), whole: whole.to_owned(), parts: parts(all) }
}

fn of_transfers(summary: &TraceSummary, facts: &Facts) -> Option<Glance> {
    let (of, limits) = view::limits_of_transfers(summary, facts)?;
    let figures = vec![
        figure("sent", quantity::bytes(of.bytes)),
        figure("in", of.lasted.to_string()),
        figure("rate", quantity::bit_rate(of.rate() as f64 * 8.0)),
        figure("transfers", quantity::count(of.all.len() as u64)),
    ];
    let all = (0..).zip(limits).map(|(i, (name, share))| (view::capital(&name), Hue::nth(i), share));
    Some(Glance { figures, whole: "What limited it".into(), parts: parts(all) })
}

fn of_sends(summary: &TraceSummary) -> Option<Glance> {
    let total = summary.total();
    let times = &total.leg(Leg::Total).times;
    let legs = Leg::ALL.into_iter().zip(TimedKind::Sends.legs());
    let all = legs.filter(|(leg, _)| Leg::ADDITIVE.contains(leg)).map(|(leg, of)| {
        (format!("{leg}: {}", of.meaning), hue_of(of), quantity::share(total.leg(leg).sum(), total.time()))
    });
    (times.n() > 0).then(|| Glance {
        figures: spread("sends", times),
        whole: "Where sends spent their time".into(),
        parts: parts(all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests_of_connections::facts;
    use record::Instant;
    use summary::Limits;

    #[test]
    fn sends_are_seen_at_a_glance_where_nothing_else_is_asked() {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        assert!(glance(&summary, &facts(0)).is_none());
        synthetic::trace(1, 400).iter().for_each(|event| summary.add(event));
        let seen = glance(&summary, &facts(0)).expect("figures");
        let names: Vec<&str> = seen.figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, seen.figures[0].1.as_str()), (vec!["sends", "median", "p99", "slowest"], "400"));
        assert!(seen.parts.iter().map(|part| part.share).sum::<f64>() > 0.95, "{seen:?}");
        assert!(seen.parts.is_sorted_by(|a, b| a.share >= b.share));
    }
}
