//! Where typical requests spend their time, and where the slowest do.

use paper::document::Text;
use record::{Component, Label, WaitReason};
use summary::{Part, RoleFigures, grouped};

use super::waits::called;

/// The least share of the time of a part that is worth naming.
const CHIEF: f64 = 0.25;

/// Both in one sentence each; nothing where too few requests have a slowest hundredth.
pub(crate) fn typical_and_slowest(of: &RoleFigures) -> Option<Text> {
    let (typical, slowest) = (of.profile.typical()?, of.profile.slowest()?);
    let said = Text::from(format!("Typical: {}. The slowest 1\u{a0}%: {}", spent(&typical), spent(&slowest)));
    let label = label_of_slowest(of).map(|label| Text::from(", ").and(Text::code(label.to_string())));
    Some(said.and(label.unwrap_or_default()).and("."))
}

/// `40.0 of 42.0 ms waiting for TCP (Nagle's algorithm)`.
fn spent(part: &Part) -> String {
    let (component, time) = part.chief();
    let whole = part.whole();
    if quantity::share(time.0.into(), whole.0.into()) < CHIEF {
        return format!("{}, in no component a quarter of it", quantity::whole(whole));
    }
    format!("{} of {} {}", quantity::whole(time), quantity::whole(whole), place(component, part.reason()))
}

pub(super) fn place(component: Component, reason: WaitReason) -> String {
    match component {
        Component::Connect => "in setting up the connection".to_owned(),
        Component::Application => "in this program".to_owned(),
        Component::Tcp => format!("waiting for TCP ({})", called(reason)),
        Component::Kernel => "in this host's kernel".to_owned(),
        Component::Network => "on the network".to_owned(),
        Component::PeerReceive | Component::PeerSend => "in the peer's kernel".to_owned(),
        Component::PeerApplication => "in the peer's program".to_owned(),
        Component::Transfer => "from the first byte to the last".to_owned(),
        Component::Wakeup => "until this program had read".to_owned(),
        Component::Upstream => "waiting for what this program asked others".to_owned(),
    }
}

/// Method and path of the slowest requests, where most of those that are kept whole have the same,
/// or are of one kind.
fn label_of_slowest(of: &RoleFigures) -> Option<Label> {
    let slowest = of.records.slowest.sorted();
    let labels: Vec<Label> = slowest.iter().filter_map(|(_, slow)| slow.record.http.label()).collect();
    let most = |labels: Vec<Label>| {
        let same = |label: &&Label| labels.iter().filter(|other| other == label).count() * 2 > slowest.len();
        labels.iter().find(same).cloned()
    };
    most(labels.clone()).or_else(|| most(labels.into_iter().map(grouped).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Components, Event, Http, Instant, Method, Moments, Nanos, Request, Role, Waits};
    use summary::{Limits, TraceSummary};

    #[test]
    fn a_tail_of_another_cause_is_told_beside_what_is_typical() {
        let ms = Nanos::from_millis;
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        let mut add = |n, components: Components, path: &str| {
            for _ in 0..n {
                let end = Some(Instant::from_nanos(components.sum().0));
                let mut request = <Request as record::table::Record>::blank();
                request.moments = Moments { sent: Some(Instant::from_nanos(0)), read: end, ..Moments::default() };
                request.components = Some(components);
                request.http = Http { method: Some(Method::Get), path: Some(path.to_owned()), ..Http::default() };
                summary.add(&Event::Request(Box::new(request)));
            }
        };
        let nagle = Some(Waits::of(WaitReason::Nagle, ms(40)));
        add(990, Components { tcp: nagle, network: Some(ms(2)), ..Components::default() }, "/");
        add(10, Components { tcp: nagle, peer_application: Some(ms(121)), ..Components::default() }, "/cart");
        let said = typical_and_slowest(summary.requests().of(Role::Client)).expect("both");
        assert_eq!(
            said.to_string().replace('\u{a0}', " "),
            "Typical: 40.0 ms of 42.0 ms waiting for TCP (Nagle's algorithm). The slowest 1 %: 121 ms of 161 ms in the peer's program, `GET /cart`."
        );
    }

    #[test]
    fn few_requests_have_no_slowest_hundredth() {
        let summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        assert_eq!(typical_and_slowest(summary.requests().of(Role::Server)), None);
    }
}
