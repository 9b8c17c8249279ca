//! The kernel's own counters as a trace gives them, beside what `ss -ti` shows of the same socket.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use record::{ConnectionTotals, Event, Nanos, Send, SenderState};
use tier::Need;
use trace::Backend;

use crate::traffic::{self, Trace, counter, drain, in_namespace, on, pair, port};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");
/// Longer than an ACK is delayed (`TCP_DELACK_MAX`, 200 ms).
const QUIET: Duration = Duration::from_millis(300);

/// What `ss -ti` shows of one socket, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown(BTreeMap<String, String>);

impl Shown {
    /// Of the socket at this end, in this thread's namespace.
    fn of(socket: &TcpStream) -> Self {
        let port = socket.local_addr().unwrap().port().to_string();
        let out = Command::new("ss").args(["-tinH", "state", "established", "sport", "=", &port]).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let (_, words) = text.split_once(" reno ").unwrap_or_else(|| panic!("no such socket: {text}"));
        let mut shown = BTreeMap::new();
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            // Most are `name:value`, rates are `name value`, and some are a word alone.
            let (name, value) = match word.split_once(':') {
                Some(pair) => pair,
                None if ["send", "pacing_rate", "delivery_rate"].contains(&word) => (word, words.next().unwrap()),
                None => (word, ""),
            };
            // How long ago something was: it changes by itself.
            if !["lastsnd", "lastrcv", "lastack"].contains(&name) {
                shown.insert(name.to_owned(), value.to_owned());
            }
        }
        Self(shown)
    }

    /// Once all is acknowledged and nothing changes any more.
    fn settled(socket: &TcpStream) -> Self {
        let end = Instant::now() + Duration::from_secs(60);
        let mut last = Self::of(socket);
        loop {
            std::thread::sleep(QUIET);
            let next = Self::of(socket);
            let busy = ["unacked", "notsent"].iter().any(|name| next.0.contains_key(*name));
            if next == last && !busy {
                return next;
            }
            assert!(Instant::now() < end, "{next:?}");
            last = next;
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What is 0 is not shown.
    fn number(&self, name: &str) -> u64 {
        self.text(name).map_or(0, |value| value.parse().unwrap())
    }

    /// Milliseconds, of which ss shows six digits.
    fn nanos(&self, name: &str) -> (u64, u64) {
        let ms: f64 = self.text(name).unwrap().split('/').next().unwrap().trim_end_matches("ms").parse().unwrap();
        let ns = (ms * 1e6).round() as u64;
        (ns, 1_000 + ns / 100_000)
    }

    /// Bytes a second, where ss shows bits.
    fn rate(&self, name: &str) -> u64 {
        self.text(name).unwrap().strip_suffix("bps").unwrap().parse::<u64>().unwrap() / 8
    }

    /// Segments retransmitted since the connection began: the second figure of `retrans:0/7`.
    fn retransmitted(&self) -> u64 {
        self.text("retrans").map_or(0, |both| both.split_once('/').unwrap().1.parse().unwrap())
    }
}

struct Seen {
    before: Shown,
    /// After all but the last send.
    settled: Shown,
    last: Send,
    after: Shown,
    totals: ConnectionTotals,
    written: u64,
}

/// Sends through a queue that overflows, and then once more when all is quiet.
fn seen(backend: Backend) -> Seen {
    in_namespace(Some("rate 10mbit burst 3kb limit 6kb"), move || {
        std::fs::write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0").unwrap();
        let (mut client, server) = pair();
        let before = Shown::of(&client);
        let mut trace = Trace::start(&on(port(server.local_addr().unwrap().port()), backend));
        let reader = drain(server);
        let mut written = 0;
        // Whether the queue overflows is chance: until it did.
        for _ in 0..20 {
            (0..10).for_each(|_| client.write_all(&[0; 30_000]).unwrap());
            written += 300_000;
            trace.poll();
            if counter("snmp", "Tcp", "RetransSegs") > 0 {
                break;
            }
        }
        let settled = Shown::settled(&client);
        client.write_all(&[0; 100]).unwrap();
        written += 100;
        let after = Shown::settled(&client);
        trace.until_bytes(written as usize);
        let (events, _) = trace.finish();
        let last = *traffic::sends(&events).iter().rfind(|send| send.bytes == 100).unwrap();
        let totals = events.iter().find_map(|event| match event {
            Event::Closed { connection, totals } if *connection == last.connection => Some(*totals),
            _ => None,
        });
        drop(client);
        reader.join().unwrap();
        Seen { before, settled, last, after, totals: totals.unwrap(), written }
    })
}

fn near(figure: Nanos, (shown, bound): (u64, u64), name: &str) {
    assert!(figure.0.abs_diff(shown) <= bound, "{name}: {figure}, and ss says {shown} ns");
}

fn as_ss_says(backend: Backend) {
    let Seen { before, settled, last, after, totals, written } = seen(backend);
    eprintln!("{settled:?}\n{:?}\n{totals:?}", last.state);
    assert!(after.retransmitted() > 0, "nothing was retransmitted: {after:?}");
    assert_eq!(u64::from(totals.segments_retransmitted), after.retransmitted() - before.retransmitted());
    // ss counts the SYN, which a trace that begins later does not.
    assert_eq!(totals.bytes_acked, after.number("bytes_acked") - before.number("bytes_acked").max(1));
    assert_eq!((totals.bytes_acked, totals.bytes_written, totals.bytes_armed), (written, written, written));

    let state: &SenderState = &last.state;
    let numbers = [
        ("cwnd", Some(state.cwnd)),
        ("ssthresh", Some(state.ssthresh)),
        ("mss", Some(state.mss)),
        ("snd_wnd", Some(state.peer_window)),
        ("reordering", state.reordering),
    ];
    for (name, figure) in numbers {
        // The usual reordering is not shown.
        let shown = if name == "reordering" && settled.text(name).is_none() { 3 } else { settled.number(name) };
        assert_eq!(figure.map(u64::from), Some(shown), "{name}: {settled:?}");
    }
    near(state.srtt, settled.nanos("rtt"), "rtt");
    near(state.min_rtt.unwrap(), settled.nanos("minrtt"), "minrtt");
    near(state.rto.unwrap(), settled.nanos("rto"), "rto");
    near(state.busy, settled.nanos("busy"), "busy");
    assert_eq!(state.delivery_rate, Some(settled.rate("delivery_rate")));
    assert_eq!((state.in_flight, state.unacked), (0, 0));
}

#[test]
fn counters_are_those_of_ss() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"), Need::Program("ss"));
    as_ss_says(Backend::Timestamping);
    as_ss_says(Backend::Tracepoints);
}
