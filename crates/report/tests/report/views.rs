//! What people see: it fits the canvas, says what the records say, and nothing that they do not
//! carry.

use paper::{Canvas, terminal};
use record::{Coverage, Event, Instant, Leg, Lost, Nanos, Ratio, Sampling};
use report::page::trace::{self, SLOWEST_SHOWN, Subject, describe};
use report::view::Facts;
use summary::{Limits, TraceSummary};
use unicode_width::UnicodeWidthStr as _;

const PLAIN: Canvas = Canvas { width: 80, colour: false, unicode: true };

pub fn facts() -> Facts {
    Facts {
        target: "port 80".into(),
        backend: "timestamping".into(),
        sampling: Sampling::Every,
        coverage: Coverage { followed: Nanos(100), armed: Nanos(100), bytes_written: 1 << 20, bytes_armed: 1 << 20 },
        lost: Lost::default(),
        lasted: Nanos::from_secs(12),
        no_nic: None,
        calls: Vec::new(),
        receiving: Vec::new(),
        connects: Vec::new(),
        http: Vec::new(),
        packets: Vec::new(),
        copies: Vec::new(),
        dns: Vec::new(),
    }
}

/// The text that a trace ends with.
fn report(canvas: &Canvas, figures: &TraceSummary, facts: &Facts) -> String {
    let provenance = synthetic::provenance();
    terminal::text(canvas, &[describe(&subject(&provenance, facts, figures))])
}

/// A trace with nothing special to it.
pub fn subject<'a>(provenance: &'a store::Provenance, facts: &'a Facts, figures: &'a TraceSummary) -> Subject<'a> {
    Subject { name: Some("run"), provenance, path: None, finished: true, facts, slowest: SLOWEST_SHOWN, figures }
}

pub fn figures(events: &[Event]) -> TraceSummary {
    let mut figures = trace::figures(Instant::from_nanos(0), SLOWEST_SHOWN);
    events.iter().for_each(|e| figures.add(e));
    figures
}

fn summary(events: &[Event]) -> TraceSummary {
    let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
    events.iter().for_each(|e| summary.add(e));
    summary
}

/// `WIRELAPSE_SHOW=1 cargo test -p wirelapse-report --test report -- --nocapture look` prints it,
/// to be looked at.
#[test]
fn the_whole_report_fits_and_says_what_dominated() {
    let s = figures(&synthetic::trace(14, 300));
    for width in [60, 80, 110, 140] {
        for unicode in [true, false] {
            for colour in [true, false] {
                let canvas = Canvas { width, colour, unicode };
                let text = report(&canvas, &s, &facts());
                if std::env::var_os("WIRELAPSE_SHOW").is_some() && colour {
                    println!("{text}\n{}", "=".repeat(width));
                }
                assert!(unicode || text.is_ascii(), "not ASCII: {:?}", text.chars().find(|c| !c.is_ascii()));
                assert!(!text.contains('?'), "a character without a place in ASCII:\n{text}");
                let uncoloured = strip(&text);
                assert_eq!(text != uncoloured, colour);
                for line in uncoloured.lines() {
                    assert!(width < 80 || line.width() <= width, "{width}: {} in {line:?}", line.width());
                    assert_eq!(line.trim_end(), line);
                }
            }
        }
    }
    let text = report(&PLAIN, &s, &facts());
    for part in
        ["The network leg", "congestion window", "Nothing was lost", "4,200 sends", "The 5 slowest sends", "p99.9"]
    {
        assert!(text.replace('\n', " ").contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn receives_and_the_rest_fit_too_and_have_tables_by_connection() {
    let mut events = synthetic::trace(2, 200);
    events.extend(synthetic::others(600, 40_000));
    let s = figures(&events);
    for width in [80, 110, 140] {
        for unicode in [true, false] {
            let canvas = Canvas { width, colour: false, unicode };
            let text = report(&canvas, &s, &facts());
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {} in {line:?}", line.width());
            }
            for part in [
                "# Receives",
                "# Requests seen from the client",
                "# Packets",
                "# Datagrams received",
                "Connections, busiest first",
                "The 5 slowest receives",
                "The 5 slowest datagrams, received",
            ] {
                assert!(text.contains(part), "no {part:?} in\n{text}");
            }
            let connections =
                text.split("# Receives").nth(1).unwrap().split("Connections, busiest first").nth(1).unwrap();
            let rows = connections.lines().skip(2).take(2);
            // In ASCII the arrow is one column wider, and beside a name this long 80 columns have
            // no room for the bytes.
            let bytes = unicode || width > 80;
            rows.for_each(|row| {
                assert!(row.contains("300") && (row.contains("424 KiB") || !bytes), "{row}\n{connections}");
            });
        }
    }
}

#[test]
fn the_live_table_shows_connections_of_receives_beside_those_of_sends() {
    let mut events = synthetic::trace(12, 20);
    events.extend(synthetic::others(100, 40_000).into_iter().filter(|e| matches!(e, Event::Receive(_))));
    let s = summary(&events);
    let rows = report::live::ROWS + report::live::ROWS_OF_RECEIVES;
    let text = live(&PLAIN, &s, &facts(), rows);
    assert!(text.contains("Connections, busiest first") && text.contains("Receives: connections"), "{text}");
    // The rest of either table is its last row, so neither was cut.
    assert!(text.contains("10.0.0.2:80") && text.matches(" more ").count() == 1, "{text}");
    // Where nothing is sent, all room is theirs.
    let events = synthetic::others(100, 40_000).into_iter().filter(|e| matches!(e, Event::Receive(_)));
    let text = live(&PLAIN, &summary(&events.collect::<Vec<_>>()), &facts(), rows);
    assert!(text.contains("Receives: connections") && !text.contains(" more "), "{text}");
}

/// What the screen shows while a trace goes on.
fn live(canvas: &Canvas, s: &TraceSummary, facts: &Facts, rows: u16) -> String {
    let backend = ratatui::backend::TestBackend::new(u16::try_from(canvas.width).unwrap(), rows);
    let mut terminal = ratatui::Terminal::new(backend).unwrap();
    terminal.draw(|frame| report::live::trace(frame, canvas, s, facts)).unwrap();
    terminal.backend().to_string()
}

fn strip(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or("").to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once('m').unwrap().1)
}

#[test]
fn a_leg_shorter_than_the_bound_on_its_error_is_in_no_distribution() {
    let mut events = synthetic::trace(1, 300);
    let sends = events.iter_mut().filter_map(|e| match e {
        Event::Send(send) => Some(send),
        _ => None,
    });
    // Both of its inner stages are timed between the packets around: nothing is known of the qdisc,
    // but the rest is long enough.
    for send in sends.take(40) {
        send.stamps.driver = send.stamps.sched;
        send.stamps.sched_error = Nanos::from_micros(1);
        send.stamps.driver_error = Nanos::from_micros(900);
    }
    let s = figures(&events);
    let figures = [Leg::Tcp, Leg::Qdisc, Leg::Network].map(|leg| {
        let stats = s.total().leg(leg);
        (stats.times.n(), stats.inferred, stats.vague)
    });
    assert_eq!(figures, [(300, 40, 0), (260, 0, 40), (300, 40, 0)]);
    assert!(s.total().leg(Leg::Qdisc).times.min().is_some_and(|min| min >= 800), "no zero that nobody saw");
    let text = report(&PLAIN, &s, &facts()).replace('\n', " ");
    assert!(text.contains("shorter than the bound on their error: 40 of qdisc."), "{text}");
}

#[test]
fn a_leg_with_an_error_larger_than_itself_is_not_resolved() {
    let mut events = synthetic::trace(1, 30);
    let Some(Event::Send(slow)) = events.iter_mut().find(|e| matches!(e, Event::Send(_))) else { panic!("no send") };
    slow.stamps.driver = slow.stamps.sched;
    slow.stamps.driver_error = Nanos::from_micros(1_930);
    slow.stamps.ack = Some(Instant::from_nanos(60_000_000_000));
    for canvas in [PLAIN, Canvas { width: 60, ..PLAIN }] {
        let text = report(&canvas, &figures(&events), &facts());
        let at = text.find("slowest sends").unwrap();
        let qdisc = text[at..].lines().find(|l| l.trim_start().starts_with("qdisc")).unwrap();
        assert!(qdisc.contains("≤ 1.93 ms") && qdisc.ends_with("not resolved"), "{qdisc}\n{text}");
        assert!(text.lines().all(|l| l.chars().count() <= canvas.width), "{text}");
    }
}

#[test]
fn percentiles_that_too_few_sends_carry_are_not_shown() {
    let text = report(&PLAIN, &figures(&synthetic::trace(1, 99)), &facts());
    let row = text.lines().find(|l| l.starts_with("total")).unwrap();
    assert_eq!(row.matches('—').count(), 2, "{row}");
    assert!(text.contains("p99 needs 100 sends, p99.9 needs 1,000 sends, and there are 99"), "{text}");
    let text = report(&PLAIN, &figures(&synthetic::trace(1, 1_000)), &facts());
    let row = text.lines().find(|l| l.starts_with("total")).unwrap();
    assert_eq!(row.matches('—').count(), 0, "{row}");
}

#[test]
fn losses_and_sampling_are_said() {
    let s = figures(&synthetic::trace(2, 200));
    let lost = Lost { ring_buffer: 12_345, inferred: 3, ..Lost::default() };
    let coverage = Coverage { followed: Nanos(1_000), armed: Nanos(11), bytes_written: 1_000_000, bytes_armed: 9_000 };
    let sampling = Sampling::Windows(Ratio(100.try_into().unwrap()));
    let text = report(&PLAIN, &s, &Facts { lost, coverage, sampling, ..facts() });
    for part in [
        "12,345  finished sends that found the ring buffer full",
        "    3  sends with an inferred stage",
        "1/100 of the time",
        "1.1 % of",
        "0.9 % of",
    ] {
        assert!(text.replace('\n', " ").contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains("Nothing was lost"));
}

#[test]
fn an_empty_trace_says_so() {
    let text = report(&PLAIN, &figures(&[]), &facts());
    assert!(text.contains("No TCP connection of port 80 was seen in 12.0 s."), "{text}");
    let only_open = figures(&[Event::Connection(synthetic::connection(1))]);
    let text = report(&PLAIN, &only_open, &facts());
    assert!(text.contains("TCP counted 1.00 MiB written"), "{text}");
}

#[test]
fn too_many_connections_are_folded_and_that_is_said() {
    let limits = Limits { connections: 10, slowest: 3, labels: 8 };
    let mut s = TraceSummary::new(limits, Instant::from_nanos(0));
    let events = synthetic::trace(40, 5);
    events.iter().for_each(|e| s.add(e));
    assert_eq!(s.connections().len(), 10);
    assert_eq!((s.others().connections, s.connection_count()), (30, 40));
    let kept: u64 = s.connections().iter().map(|c| c.sends.sends).sum();
    assert_eq!(kept + s.others().sends.sends, 200, "every send is counted once");
    assert_eq!(s.total().sends, 200);
    let text = report(&PLAIN, &s, &facts());
    assert!(text.contains("30 connections with the fewest sends have no separate figures"), "{text}");
    let row =
        text.lines().find(|l| l.starts_with("all other connections together")).unwrap_or_else(|| panic!("{text}"));
    assert!(row.split_whitespace().any(|cell| cell == "150"), "the sends of thirty connections: {row}");
    // More than a terminal shows: the rest stands under them, whatever the page lists.
    let text = report(&PLAIN, &figures(&synthetic::trace(40, 5)), &facts());
    let row = text.lines().find(|l| l.starts_with("all other connections together")).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "100"), "the sends of twenty connections: {row}");
    assert!(text.contains("20 more rows"), "{text}");
}

#[test]
fn the_table_of_legs_keeps_its_least_times_at_80_columns() {
    let text = report(&PLAIN, &figures(&synthetic::trace(3, 400)), &facts());
    let head = text.lines().find(|l| l.starts_with("leg ")).unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["leg", "n", "min", "p50", "p90", "p99", "p99.9", "max", "share"]);
}

#[test]
fn the_slowest_are_the_slowest() {
    let events = synthetic::trace(3, 100);
    let s = summary(&events);
    let mut totals: Vec<u64> = events
        .iter()
        .filter_map(|e| match e {
            Event::Send(send) => send.leg(Leg::Total).ok().flatten().map(|n| n.0),
            _ => None,
        })
        .collect();
    totals.sort_unstable();
    let kept: Vec<u64> = s.slowest().sorted().iter().map(|slow| slow.total.0).collect();
    assert_eq!(kept, totals.iter().rev().take(5).copied().collect::<Vec<_>>());
}

#[test]
fn a_narrow_live_table_loses_columns_and_never_digits() {
    let s = summary(&synthetic::trace(3, 400));
    let canvas = Canvas { width: 60, ..PLAIN };
    let [wide, narrow] = [PLAIN, canvas].map(|canvas| live(&canvas, &s, &facts(), 9));
    let row = |drawn: &str, leg: &str| -> Vec<String> {
        let row = drawn.lines().find(|l| l.trim_start_matches('"').starts_with(leg)).unwrap_or_default().to_owned();
        row.trim_matches('"').split("  ").map(|c| c.trim().to_owned()).filter(|c| !c.is_empty()).collect()
    };
    for leg in ["leg", "tcp", "qdisc", "network", "total"] {
        let (all, kept) = (row(&wide, leg), row(&narrow, leg));
        assert!(kept.len() >= 5 && kept.iter().all(|cell| all.contains(cell)), "{wide}\n{narrow}");
    }
}

#[test]
fn the_live_table_fits_its_rows() {
    let s = summary(&synthetic::trace(40, 20));
    for width in [80, 140] {
        let lost = Lost { inferred: 1, ..Lost::default() };
        let canvas = Canvas { width, colour: true, unicode: true };
        let drawn = live(&canvas, &s, &Facts { lost, ..facts() }, report::live::ROWS);
        for part in ["wirelapse trace · port 80", "network", "more", "1 record missed or timed only in part"] {
            assert!(drawn.contains(part), "no {part:?} in\n{drawn}");
        }
        assert!(!drawn.contains('\u{1b}'));
    }
}
