//! What the guides tell people to read is on one screen of an ordinary terminal.

use paper::{Canvas, terminal};
use record::{Event, Instant};
use report::page::trace::describe;
use report::view::Facts;

use super::views::{facts, figures, subject};

const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// The screen with which a trace of these events ends.
fn screen(events: &[Event], facts: &Facts) -> Vec<String> {
    let (figures, provenance) = (figures(events), synthetic::provenance());
    let document = describe(&subject(&provenance, facts, &figures));
    let canvas = Canvas { width: WIDTH, colour: false, unicode: true };
    let drawn = terminal::screen(&canvas, &[document], HEIGHT);
    drawn.lines().map(str::to_owned).collect()
}

fn guide(name: &str) -> String {
    let path = format!("{}/../../docs/guides/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of a table's columns, which are words of one line.
fn has_columns(screen: &[String], columns: &[&str]) -> bool {
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    screen.iter().any(|line| columns.iter().all(|column| words(line).contains(&(*column).to_owned())))
}

#[test]
fn what_the_guide_on_a_bad_p99_tells_people_to_read_fits_on_a_screen() {
    let guide = guide("slow-p99");
    let mut events = synthetic::trace(14, 300);
    for event in &mut events {
        if let Event::Send(send) = event {
            send.stamps.call = Some(Instant::from_nanos(send.stamps.send.as_nanos() - 300));
        }
    }
    let screen = screen(&events, &facts());
    let text = screen.join("\n");
    assert!(screen.len() <= HEIGHT - 3, "{text}");
    // The words of the guide, and what they mean on the screen.
    assert!(guide.contains("p99\ncolumn") && guide.contains("p99 near the shortest"), "the guide has changed");
    assert!(has_columns(&screen, &["leg", "min", "p99"]), "{text}");
    assert!(guide.contains("\"The slowest send\"") && text.contains("The slowest send"), "{text}");
    for leg in ["call", "tcp", "qdisc", "network"] {
        assert!(guide.contains(&format!("the {leg} leg")), "the guide does not explain {leg}");
        assert!(screen.iter().any(|line| line.starts_with(leg)), "no {leg}:\n{text}");
    }
}

#[test]
fn every_component_that_a_guide_explains_is_on_the_screen_of_requests() {
    let guide = guide("network-or-program");
    let mut events = synthetic::trace(2, 200);
    let requests = synthetic::others(600, 40_000);
    events.extend(requests.into_iter().filter(|event| matches!(event, Event::Request(_))));
    let screen = screen(&events, &facts());
    let text = screen.join("\n");
    assert!(screen.len() <= HEIGHT - 3, "{text}");
    let explained: Vec<&str> =
        guide.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`:").map(|(name, _)| name)).collect();
    assert!(explained.len() >= 6, "the guide has changed: {explained:?}");
    for component in explained {
        assert!(screen.iter().any(|line| line.starts_with(component)), "no {component}:\n{text}");
    }
    // Requests are shown, and not the sends that they are made of.
    assert!(screen[0].contains("requests") && has_columns(&screen, &["leg", "p50", "p99"]), "{text}");
    assert!(!screen.iter().any(|line| line.starts_with("qdisc")), "{text}");
}
