//! The table that `trace` draws on a terminal while it goes on: under a pseudo-terminal of several
//! sizes, resized, interrupted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::scene::terminal::Terminal;
use tier::Need;

/// Waits until the screen shows one whole table of this many sends.
#[track_caller]
fn until_table(terminal: &mut Terminal, sends: usize) {
    terminal.until_shown(|terminal| missing_of_table(terminal, sends).map_err(|why| format!("{sends} sends: {why}")));
}

/// Sends so many messages, each in a packet of its own.
fn say(client: &mut TcpStream, server: &mut TcpStream, times: usize) {
    for _ in 0..times {
        client.write_all(&[7; 50]).unwrap();
        server.read_exact(&mut [0; 50]).unwrap();
    }
}

/// The table on a terminal of one size and then of another, and the report after Ctrl-C.
fn watched(first: (u16, u16), second: (u16, u16)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let mut terminal = Terminal::start(first.0, first.1, &["trace", "--port", &port]);
    terminal.until("table", |row| row.starts_with("wirelapse trace · "));
    terminal.until("connections", |row| row.contains("2 connections"));
    say(&mut client, &mut server, 40);
    until_table(&mut terminal, 40);

    terminal.resize(second.0, second.1);
    say(&mut client, &mut server, 60);
    until_table(&mut terminal, 100);

    let status = terminal.interrupt();
    assert!(status.success(), "{status}");
    terminal.assert_restored();
    let all = terminal.scrollback();
    // The report has what the table showed last, in its headline or in the row of a total; nothing
    // of the table is left.
    let is_of_all = |row: &str| row.contains("100 sends") || row.split_whitespace().take(2).eq(["total", "100"]);
    assert!(all.lines().any(is_of_all), "{all}");
    // Where the table fills the terminal, the echo of Ctrl-C and a terminal that shrinks scroll
    // rows of it out of anyone's reach.
    let headlines = all.matches("wirelapse trace · ").count();
    assert!(headlines == 0 || first.0.min(second.0) < 20, "the table is still there:\n{all}");
    let report = all.rfind("--full shows").or_else(|| all.rfind("What was not seen")).expect("a report");
    assert!(all[report..].contains("Memory: at most "), "{all}");
    let below = &all[all.find("Memory: at most ").unwrap()..];
    assert!(!below.contains("wirelapse trace · ") && !below.contains(" sends · "), "{all}");
}

/// Why the screen does not show one whole table of this many sends: its headline, and the legs
/// under it in their order. A screen is drawn in several writes, and may be seen between two of
/// them.
fn missing_of_table(terminal: &Terminal, sends: usize) -> Result<(), &'static str> {
    let rows = terminal.rows();
    let at = |begins: &str| rows.iter().rposition(|row| row.trim_start().starts_with(begins));
    let headline = at("wirelapse trace · ").ok_or("no headline")?;
    at(&format!("{sends} sends · {:.2} KiB · ", (sends * 50) as f64 / 1024.0)).ok_or("not this many sends")?;
    if usize::from(terminal.size.0) < headline + 9 {
        return Ok(());
    }
    let legs = ["leg", "tcp", "qdisc", "nic", "network", "total"].map(at);
    if legs.contains(&None) || !legs.is_sorted() || legs[0] < Some(headline) || legs[5] > legs[0].map(|at| at + 6) {
        return Err("the legs are not under the headline in their order");
    }
    // Of a hundred sends with all their stamps the sum of each leg is over as many.
    let n = |leg: Option<usize>| rows[leg?].split_whitespace().nth(1);
    if n(legs[5]).is_none() || n(legs[1]) != n(legs[5]) {
        return Err("the legs are not over as many sends as their total");
    }
    Ok(())
}

#[test]
fn the_table_follows_the_terminals_size_and_gives_way_to_the_report() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    for (first, second) in [((40, 100), (30, 140)), ((50, 160), (24, 80)), ((24, 80), (50, 132))] {
        watched(first, second);
    }
}

#[test]
fn a_terminal_too_small_for_the_table_shows_its_beginning() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    watched((10, 60), (8, 72));
}

#[test]
fn a_report_on_a_terminal_is_one_screen_with_its_headline_and_the_rest_is_asked_for() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    for (size, full) in [((44, 60), false), ((44, 100), false), ((44, 100), true)] {
        let mut args = vec!["trace", "--port", &port, "--no-live", "--for", "2s"];
        args.extend(full.then_some("--full"));
        let mut terminal = Terminal::start(size.0, size.1, &args);
        terminal.until("begin", |row| row.starts_with("Tracing started: "));
        say(&mut client, &mut server, 100);
        terminal.until("report", |row| row.starts_with("Memory: "));
        terminal.turn();
        let (all, shown) = (terminal.scrollback(), terminal.rows().join("\n"));
        assert_eq!(all.contains("What was not seen"), full, "{all}");
        assert_eq!(all.contains("--full shows the rest"), !full, "{all}");
        for what in ["Trace", "A trace of port", "of 100 sends", "Time by leg", "total"] {
            assert!(full || shown.contains(what), "no {what} on one screen:\n{shown}");
        }
        assert!(all.lines().all(|line| line.chars().count() <= size.1.into()), "{all}");
    }
}
