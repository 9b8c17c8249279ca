use super::power::{Fleet, Planted};
use super::*;

const HOST: usize = 0;
const PEER: usize = 1;
const SERVICE: usize = 2;

/// The day of a made-up fleet that is asked about.
fn day() -> Asked {
    Asked::Within(1_000..1_024)
}

fn planted(kind: usize, factor: f64, hours: Range<u64>) -> Planted {
    Planted { kind, number: 2, factor, hours }
}

fn names(found: &[Slowdown]) -> Vec<(Option<Group>, Range<u64>)> {
    found.iter().map(|one| (one.group.clone(), one.hours.clone())).collect()
}

#[test]
fn an_incident_of_hours_is_named_with_its_hours_and_by_how_much() {
    for (kind, name) in [(HOST, "web-2"), (PEER, "192.0.2.2"), (SERVICE, "service-2.service")] {
        for hours in [1_018..1_024, 1_005..1_011] {
            let fleet = Fleet { planted: vec![planted(kind, 3.0, hours.clone())], ..Fleet::of(7) };
            let found = slowdowns(&fleet.rows(), &day());
            let group = Group { kind: GroupKind::ALL[kind], name: name.into() };
            assert_eq!(names(&found.named), [(Some(group), hours)], "{found:?}");
            assert!(found.named[0].ratio.covers(2.0) && found.named[0].ratio.low > 0.5, "{found:?}");
        }
    }
}

#[test]
fn who_is_asked_about_since_when_is_found_where_it_would_not_be_seen_by_itself() {
    let hours = 1_021..1_024;
    let all = |asked: &Asked| {
        let of = |seed| {
            let fleet = Fleet { planted: vec![planted(HOST, 1.4, hours.clone())], ..Fleet::of(seed) };
            slowdowns(&fleet.rows(), asked).named.len()
        };
        (0..20).map(of).filter(|named| *named == 1).count()
    };
    let (by_itself, asked) = (all(&day()), all(&Asked::Exactly(hours.clone())));
    assert!(asked > by_itself && asked >= 15, "{asked}, by itself {by_itself}, of 20");
}

#[test]
fn what_came_nearest_is_ranked_with_intervals_where_nothing_is_sure() {
    let found = slowdowns(&Fleet::of(3).rows(), &day());
    assert!(found.named.is_empty() && found.nearest.len() == NEAREST, "{found:?}");
    for one in &found.nearest {
        assert!(one.ratio.low <= 0.0 && one.ratio.high.is_finite() && crate::is_known(&one.ratio), "{one:?}");
    }
}

#[test]
fn a_fleet_that_is_slower_as_a_whole_is_not_said_to_be_one_of_its_groups() {
    let hours = 1_010..1_016;
    let all = (0..6).map(|peer| Planted { kind: PEER, number: peer, factor: 3.0, hours: hours.clone() });
    let fleet = Fleet { planted: all.collect(), ..Fleet::of(5) };
    let found = slowdowns(&fleet.rows(), &day());
    assert_eq!(names(&found.named), [(None, hours)], "{found:?}");
}

#[test]
fn two_that_are_slow_at_different_times_are_named_with_their_own() {
    let both = vec![planted(HOST, 2.5, 1_002..1_008), planted(PEER, 2.5, 1_014..1_020)];
    let found = slowdowns(&Fleet { planted: both, ..Fleet::of(11) }.rows(), &day());
    let mut hours: Vec<Range<u64>> = found.named.iter().map(|one| one.hours.clone()).collect();
    hours.sort_by_key(|hours| hours.start);
    assert_eq!(hours, [1_002..1_008, 1_014..1_020], "{found:?}");
}

/// A host that is slow to one of six peers: few of its sends.
#[test]
fn what_is_slower_for_few_of_its_sends_is_not_named() {
    let mut rows = Fleet::of(13).rows();
    for row in &mut rows {
        if row.later && row.host == "web-2" && row.peer == "192.0.2.1" && row.hour >= 1_012 {
            row.mean_ns *= 60.0;
        }
    }
    let found = slowdowns(&rows, &day());
    assert!(found.named.is_empty(), "{found:?}");
    assert!(found.of_few.iter().any(|one| one.group.as_ref().is_some_and(|group| group.name == "web-2")), "{found:?}");
}

/// Hosts that come and go, without sends in some hours, and a store without the week before.
#[test]
fn gaps_and_a_missing_week_before_do_no_harm() {
    let mut rows = Fleet { planted: vec![planted(HOST, 3.0, 1_014..1_020)], ..Fleet::of(17) }.rows();
    rows.retain(|row| {
        row.later && !(row.host == "web-4" && row.hour < 1_012) && !(row.host == "web-2" && row.hour == 1_009)
    });
    let found = slowdowns(&rows, &day());
    let [one] = &found.named[..] else { panic!("{found:?}") };
    assert_eq!(one.hours, 1_014..1_020, "{found:?}");
    for rows in [&rows[..0], &rows[..1]] {
        assert_eq!(slowdowns(rows, &day()).named, [], "{rows:?}");
    }
    assert_eq!(slowdowns(&rows, &Asked::Within(5..9)), Slowdowns::default());
}

/// The nights are slow in both weeks, on one host more than on others.
#[test]
fn the_rhythm_of_a_day_is_no_change() {
    let mut rows = Fleet::of(19).rows();
    for row in &mut rows {
        let of_host = if row.host == "web-1" { 3.0 } else { 1.5 };
        if (1_000..1_004).contains(&row.hour) || (976..980).contains(&row.hour) {
            row.mean_ns *= of_host;
        }
    }
    let found = slowdowns(&rows, &day());
    assert!(found.named.is_empty(), "{found:?}");
}
