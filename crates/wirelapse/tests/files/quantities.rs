//! Every option that takes a quantity reads it the same way: each spelling is accepted or refused
//! by all commands alike, and a refusal names the option, the value, and what to write.

const TIMES: [&str; 10] = ["10s", "10 s", "500ms", "5m", "1h", "2d", "1.5s", "200us", "200µs", "900ns"];
/// How long a measurement takes may be without a unit.
const LENGTHS: [&str; 11] = ["10", "10s", "10 s", "500ms", "5m", "1h", "2d", "1.5s", "200us", "200µs", "900ns"];
const NO_TIMES: [&str; 7] = ["", "s", "-1s", "1w", "10S", "1,5s", "99999999999s"];
/// Without a unit, these could be seconds or milliseconds.
const NO_UNITS: [&str; 8] = ["", "s", "-1s", "1w", "10S", "1,5s", "99999999999s", "10"];
const BIT_RATES: [&str; 9] = ["10M", "10m", "10Mbps", "10mbit", "10Mbit", "1gbit", "64k", "9600", "1.5G"];
const NO_BIT_RATES: [&str; 6] = ["", "fast", "-1M", "10MBps", "10Mibit", "10 horse"];
const EVENT_RATES: [&str; 4] = ["1000", "1000/s", "20k/s", "2Mpps"];
const NO_EVENT_RATES: [&str; 5] = ["", "0", "-1/s", "10/m", "often"];
const SIZES: [&str; 6] = ["1448", "100B", "1K", "1k", "1KiB", "1kB"];
const NO_SIZES: [&str; 6] = ["", "x", "-1", "1XB", "1kb", "1Kbit"];
const COUNTS: [&str; 4] = ["5", "1,000", "10k", "2M"];
const NO_COUNTS: [&str; 6] = ["", "0", "-5", "1.5", "1,5", "many"];
const SHARES: [&str; 3] = ["0.5%", "1 %", "50%"];
const NO_SHARES: [&str; 6] = ["", "1", "0.5", "150%", "-1%", "%"];
const RATIOS: [&str; 2] = ["1/1", "1/1000"];
const NO_RATIOS: [&str; 5] = ["", "1", "2/3", "1/0", "0.01"];
const ADDRESSES: [&str; 6] = ["localhost", "localhost:80", "192.0.2.1", "::1", "[::1]", "[::1]:80"];
const NO_ADDRESSES: [&str; 6] = ["", ":80", "host:0", "host:99999", "[::1", "two hosts"];

/// What an option takes.
struct Quantity {
    accepted: &'static [&'static str],
    refused: &'static [&'static str],
    /// Words of the advice.
    write: &'static str,
}

const TIME: Quantity = Quantity { accepted: &TIMES, refused: &NO_UNITS, write: "500ms, 10s, 5m" };
const LENGTH: Quantity = Quantity { accepted: &LENGTHS, refused: &NO_TIMES, write: "500ms, 10s, 5m" };
const BIT_RATE: Quantity = Quantity { accepted: &BIT_RATES, refused: &NO_BIT_RATES, write: "10M or 1gbit" };
const EVENT_RATE: Quantity = Quantity { accepted: &EVENT_RATES, refused: &NO_EVENT_RATES, write: "1000/s" };
const SIZE: Quantity = Quantity { accepted: &SIZES, refused: &NO_SIZES, write: "64KiB" };
const COUNT: Quantity = Quantity { accepted: &COUNTS, refused: &NO_COUNTS, write: "1000 or 10k" };
const SHARE: Quantity = Quantity { accepted: &SHARES, refused: &NO_SHARES, write: "0.5%" };
const RATIO: Quantity = Quantity { accepted: &RATIOS, refused: &NO_RATIOS, write: "1/100" };
const ADDRESS: Quantity = Quantity { accepted: &ADDRESSES, refused: &NO_ADDRESSES, write: "HOST:PORT" };

/// A command, and its options with what they take.
type Command = (&'static [&'static str], &'static [(&'static str, Quantity)]);

const OPTIONS: [Command; 14] = [
    (&["trace", "--all"], &[("--for", LENGTH), ("--max-rate", EVENT_RATE), ("--sample", RATIO)]),
    (&["top"], &[("--for", LENGTH), ("--interval", TIME), ("--max-rate", EVENT_RATE), ("--sample", RATIO)]),
    (&["watch", "srtt"], &[("--for", LENGTH), ("--every", TIME), ("--count", COUNT)]),
    (&["probe", "icmp", "::1"], &[("--interval", TIME), ("--timeout", TIME), ("--count", COUNT), ("--size", SIZE)]),
    (&["analyze", "-i", "lo"], &[("--for", LENGTH)]),
    (
        &["lab", "up"],
        &[
            ("--delay", TIME),
            ("--jitter", TIME),
            ("--rate", BIT_RATE),
            ("--loss", SHARE),
            ("--duplicate", SHARE),
            ("--mtu", SIZE),
        ],
    ),
    (&["study", "timestamps"], &[("--budget", TIME), ("--until", SHARE), ("--host", ADDRESS)]),
    (
        &["serve"],
        &[
            ("--max-duration", TIME),
            ("--max-bytes", SIZE),
            ("--max-message", SIZE),
            ("--max-socket-buffer", SIZE),
            ("--max-memory", SIZE),
        ],
    ),
    (&["stream", "::1"], &[("--for", LENGTH), ("--interval", TIME), ("--rate", BIT_RATE), ("--write-size", SIZE)]),
    (&["stream", "::1"], &[("--bytes", SIZE), ("--send-buffer", SIZE), ("--receive-buffer", SIZE), ("--mss", SIZE)]),
    (
        &["rr", "::1"],
        &[("--for", LENGTH), ("--think", TIME), ("--warm-up", TIME), ("--rate", EVENT_RATE), ("--request", SIZE)],
    ),
    (&["crr", "::1"], &[("--for", LENGTH), ("--interval", TIME), ("--rate", EVENT_RATE), ("--response", SIZE)]),
    (&["udp", "::1"], &[("--for", LENGTH), ("--interval", TIME), ("--rate", BIT_RATE), ("--size", SIZE)]),
    (
        &["ping-under-load", "::1"],
        &[("--for", LENGTH), ("--before", TIME), ("--after", TIME), ("--probe-interval", TIME)],
    ),
];

/// Runs a command that does nothing: help is asked for behind what is tried, and a value that is
/// refused is refused before.
fn tried(command: &[&str], tried: &str) -> (Option<i32>, String) {
    let output = tier::wirelapse!(command).args([tried, "--help"]).output().unwrap();
    (output.status.code(), tier::text(&output.stderr))
}

#[test]
fn every_option_accepts_the_same_spellings() {
    for (command, options) in OPTIONS {
        for (option, quantity) in options {
            for value in quantity.accepted {
                let (code, said) = tried(command, &format!("{option}={value}"));
                assert_eq!(code, Some(0), "{command:?} {option}={value}: {said}");
            }
        }
    }
}

#[test]
fn every_option_refuses_the_same_and_says_what_to_write() {
    for (command, options) in OPTIONS {
        for (option, quantity) in options {
            for value in quantity.refused {
                let (code, said) = tried(command, &format!("{option}={value}"));
                let place = format!("{command:?} {option}={value}: {said}");
                assert_eq!(code, Some(2), "{place}");
                assert!(said.contains(option) && said.contains(&format!("'{value}'")), "{place}");
                assert!(said.contains(quantity.write), "{place}");
            }
        }
    }
}

#[test]
fn addresses_are_read_the_same_wherever_they_stand() {
    for command in [&["stream"][..], &["rr"], &["crr"], &["udp"], &["ping-under-load"], &["probe", "tcp"]] {
        for value in ADDRESSES {
            let (code, said) = tried(command, value);
            assert_eq!(code, Some(0), "{command:?} {value}: {said}");
        }
        for value in NO_ADDRESSES {
            let (code, said) = tried(command, value);
            assert_eq!(code, Some(2), "{command:?} {value}: {said}");
            assert!(said.contains(&format!("'{value}'")) && said.contains("HOST:PORT"), "{command:?} {value}: {said}");
        }
    }
}

/// Help in which an option stands, one paragraph a command.
fn help(command: &[&str]) -> String {
    let output = tier::wirelapse!(command).arg("-h").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{command:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_option_has_the_same_text_everywhere() {
    let json = "--json Write one JSON object on each line instead of the report";
    for command in [
        "doctor",
        "trace",
        "top",
        "watch",
        "probe",
        "analyze",
        "compare",
        "study",
        "serve",
        "stream",
        "rr",
        "crr",
        "udp",
        "ping-under-load",
    ] {
        assert!(help(&[command]).contains(json), "{command}");
    }
    assert!(help(&["lab", "up"]).contains(json) && help(&["lab", "list"]).contains(json));
    let end = "--for <TIME> End after this time: 500ms, 10s, 5m (a plain number is seconds)";
    for command in ["trace", "top", "watch", "analyze", "stream", "rr", "crr", "udp", "ping-under-load"] {
        assert!(help(&[command]).contains(end), "{command}");
    }
    let run = "--output <RUN> Save the result as a run, a new directory";
    for command in ["trace", "analyze", "study"] {
        assert!(help(&[command]).contains(run), "{command}");
    }
    for command in ["report", "compare"] {
        assert!(help(&[command]).contains("--force Overwrite existing files"), "{command}");
    }
}
