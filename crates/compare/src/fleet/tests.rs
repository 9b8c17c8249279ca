use super::*;
use tier::draw::normal;

fn hours(kind: GroupKind, name: &str) -> Hours {
    let group = Group { kind, name: name.into() };
    let names = FleetGroup { group, before: 24_000, after: 24_000, names: 1, gone: 0, new: 0 };
    Hours::new(&names)
}

fn put(into: &mut Hours, week: usize, hour: u64, legs: [(&str, f64); 2]) {
    let total = ("total", legs.iter().map(|(_, ns)| ns).sum());
    for (leg, ns) in legs.into_iter().chain([total]) {
        let of = Hour { seen: 1000, mean_ns: ns, p99_ns: Some(ns * 3.0) };
        into.legs.entry(leg.into()).or_default().entry(hour).or_default()[week] = Some(of);
    }
}

/// A day of a group in both weeks; in the later one leg network is slower by this factor.
fn day(kind: GroupKind, name: &str, factor: f64) -> Hours {
    let mut of = hours(kind, name);
    for week in [0, 1] {
        for hour in 0..24 {
            let wobble = 1.0 + 0.01 * ((hour * 7 + week as u64) % 5) as f64;
            let slow = if week == 1 { factor } else { 1.0 };
            put(&mut of, week, 1000 + hour, [("network", 1e6 * slow * wobble), ("tcp", 2e5 * wobble)]);
        }
    }
    of
}

fn cell(host: &str, peer: &str, ratio: f64) -> FleetCell {
    let [host, peer] = [host, peer].map(str::to_owned);
    FleetCell { host, peer, service: String::new(), sends: 500.0, before_ns: 1e6, after_ns: 1e6 * ratio }
}

/// Groups that have no sends in common.
fn apart(groups: &[Hours]) -> Verdicts {
    let cells: Vec<FleetCell> = groups.iter().map(|of| cell(&of.group.name, &of.group.name, 1.1)).collect();
    let without = |named: &[Group]| -> Result<Vec<Hours>, ()> {
        Ok(groups.iter().filter(|of| !named.contains(&of.group)).cloned().collect())
    };
    compare(groups, &cells, without).unwrap()
}

fn slower(of: &Verdicts) -> Vec<&Became> {
    of.compared.iter().filter(|one| one.standing != Standing::NotSeen).collect()
}

#[test]
fn what_became_slower_is_found_with_its_leg_and_by_how_much() {
    let found = apart(&[day(GroupKind::Host, "web-1", 1.5), day(GroupKind::Host, "web-2", 1.0)]);
    let [one] = slower(&found)[..] else { panic!("{found:?}") };
    assert_eq!((one.group.name.as_str(), &one.standing), ("web-1", &Standing::Itself));
    assert!(one.leg.as_ref().is_some_and(|grown| grown.leg == "network" && grown.ratio.covers(0.5)), "{one:?}");
    assert!(one.p99.is_seen() && (one.p99.ratio().unwrap() - 1.7 / 1.2).abs() < 0.05, "{one:?}");
    let alike = apart(&[day(GroupKind::Host, "web-1", 1.0), day(GroupKind::Host, "web-2", 1.0)]);
    assert!(slower(&alike).is_empty() && alike.compared.len() == 2, "{alike:?}");
}

/// Peers with p99 that wobble by 15 % around the same level in both weeks, and drift: each hour is
/// like the one before by `memory`. The first one is slower in leg `tcp` by this factor.
fn fleet(number: u64, peers: u64, memory: f64, factor: f64) -> Vec<Hours> {
    let of = |peer: u64| {
        let mut of = hours(GroupKind::Peer, &format!("192.0.2.{peer}"));
        let mut state = normal(&[number, peer, 9_999]);
        for at in 0..48_u64 {
            state = memory * state + (1.0 - memory * memory).sqrt() * normal(&[number, peer, at]);
            let (week, hour) = (usize::from(at >= 24), at % 24);
            let slow = if week == 1 && peer == 0 { factor } else { 1.0 };
            let level = (0.15 * state).exp();
            put(&mut of, week, 1000 + hour, [("tcp", 1e6 * level * (slow * 1.2 - 0.2)), ("network", 2e5 * level)]);
        }
        of
    };
    (0..peers).map(of).collect()
}

#[test]
fn a_fleet_without_a_change_is_rarely_said_to_have_one() {
    for (memory, peers) in [(0.0, 40), (0.3, 40), (0.6, 40), (0.8, 40), (0.6, 2), (0.6, 100)] {
        let fleets = 100;
        let claims =
            (0..fleets).filter(|number| !slower(&apart(&fleet(*number, peers, memory, 1.0))).is_empty()).count();
        assert!(claims * 20 <= fleets as usize, "{claims} of {fleets} with {peers} peers at {memory}");
    }
}

#[test]
fn a_change_is_found_in_its_leg_with_an_interval_that_has_the_truth() {
    for (memory, factor) in [(0.0, 1.3), (0.3, 1.6), (0.6, 3.0)] {
        let (fleets, mut found, mut held) = (100, 0, 0);
        for number in 0..fleets {
            let verdicts = apart(&fleet(number, 40, memory, factor));
            let named: Vec<&Became> = verdicts.compared.iter().filter(|one| one.standing == Standing::Itself).collect();
            let is_it = |one: &Became| {
                one.group.name == "192.0.2.0" && one.leg.as_ref().is_some_and(|grown| grown.leg == "tcp")
            };
            found += usize::from(matches!(named[..], [one] if is_it(one)));
            held += usize::from(verdicts.compared[0].p99.by.unwrap().covers(factor - 1.0));
        }
        assert!(found * 100 >= fleets as usize * 90, "{factor} found in {found} of {fleets} at {memory}");
        assert!(held * 100 >= fleets as usize * 95, "{factor} within {held} of {fleets} at {memory}");
    }
}

#[test]
fn what_shares_sends_with_a_slow_host_is_not_said_to_be_slower_by_itself() {
    let (host, peer) = (GroupKind::Host, GroupKind::Peer);
    let peers = ["192.0.2.1", "192.0.2.2"];
    let groups = [day(host, "web-1", 2.0), day(host, "web-2", 1.0), day(peer, peers[0], 1.5), day(peer, peers[1], 1.5)];
    let cells = peers.map(|peer| [cell("web-1", peer, 2.0), cell("web-2", peer, 1.0)]).concat();
    let without = |_: &[Group]| -> Result<Vec<Hours>, ()> {
        Ok(vec![day(host, "web-2", 1.0), day(peer, peers[0], 1.0), day(peer, peers[1], 1.0)])
    };
    let found = compare(&groups, &cells, without).unwrap();
    let standings: Vec<&Standing> = found.compared.iter().map(|one| &one.standing).collect();
    let with = Standing::With(vec![groups[0].group.clone()]);
    assert_eq!(standings, [&Standing::Itself, &Standing::NotSeen, &with, &with]);
}

#[test]
fn one_hour_is_not_enough() {
    let mut short = day(GroupKind::Host, "web-1", 9.0);
    short.legs.values_mut().for_each(|hours| hours.retain(|hour, _| *hour == 1000));
    let found = apart(&[short]);
    assert_eq!((found.compared.len(), found.without), (0, 1));
}

#[test]
fn rows_go_to_their_groups_and_others_are_skipped() {
    let mut groups = [hours(GroupKind::Host, "web-1")];
    let row = |name: &str, later, sends| FleetHour {
        group: Group { kind: GroupKind::Host, name: name.into() },
        leg: "total".into(),
        hour: 7,
        later,
        sends,
        seen: 120,
        mean_ns: 1e6,
        p99_ns: None,
    };
    add(&mut groups, [row("web-1", false, 1.0), row("web-2", true, 1.0), row("web-1", true, 0.0)]);
    let [before, after] = groups[0].legs["total"][&7];
    assert!(before.is_some_and(|hour| hour.seen == 120) && after.is_none());
}
