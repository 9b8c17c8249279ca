//! What Wireshark shows of a file of packets by its own fields, and by the profile.

use std::collections::HashMap;
use std::path::Path;

use export::pcapng::{Ask, Details};
use record::{ConnectionId, CopyDropped, Direction, DropReason, Dropped, Event, Instant, Lost, Question, Sink as _};

use crate::packets::{Joined, SCRIPT, begin_with, copy, finish, take, whole};

const MS: u64 = 1_000_000;
const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/profile");

/// What tshark prints of a file; it has to find nothing wrong with it.
fn tshark(file: &Path, words: &[&str]) -> Vec<String> {
    let out = tier::command("tshark").args(words).arg("-r").arg(file).output().unwrap();
    let said = tier::text(&out.stderr);
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("Running as user")).collect();
    assert!(out.status.success() && said.is_empty(), "{words:?}: {said:?}");
    tier::text(&out.stdout).lines().map(ToOwned::to_owned).collect()
}

/// The packet at this millisecond was dropped for this reason.
fn dropped(at: u64, reason: &str) -> Event {
    let dropped = Dropped { at: Instant::from_nanos((at + 1) * MS), reason: DropReason(reason.into()) };
    Event::CopyDropped(Box::new(CopyDropped { socket: ConnectionId(1), buffer: at * MS, dropped }))
}

/// A lookup that found these addresses.
fn looked_up(sink: &mut Joined, name: &str, addresses: &str) {
    let blank = <Question as record::table::Record>::blank();
    let question = Question { name: name.into(), addresses: addresses.into(), ..blank };
    sink.sink.event(&Event::Question(Box::new(question))).unwrap();
}

#[test]
fn verdicts_of_programs_are_in_the_field_of_wireshark() {
    tier::needs!(tier::Need::Program("tshark"));
    let (mut sink, files) = begin_with(u64::MAX, None);
    let reasons = ["TC_EGRESS", "XDP", "QDISC_DROP"];
    for (at, reason) in (1..).zip(reasons) {
        take(&mut sink, [copy(at * MS, Direction::Sent, 7, 0).into(), dropped(at, reason)]);
    }
    finish(sink, Lost::default());
    let file = files.all.lock().unwrap()[0].on_disk();
    let fields = ["-e", "frame.verdict.ebpf_tc", "-e", "frame.verdict.ebpf_xdp", "-e", "frame.packet_flags_direction"];
    let words = [&["-n", "-Y", "ip", "-T", "fields", "-E", "separator=;"][..], &fields].concat();
    let shown = tshark(file.path(), &words);
    // TC_ACT_SHOT, XDP_DROP.
    let verdicts: Vec<Vec<u64>> =
        shown.iter().map(|line| line.split(';').take(2).map(|word| number(word).unwrap_or(0)).collect()).collect();
    assert_eq!(verdicts, [[2, 0], [0, 1], [0, 0]], "{shown:?}");
}

/// As tshark prints it, in either base.
fn number(word: &str) -> Option<u64> {
    word.strip_prefix("0x").map_or_else(|| word.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// In each file of several, for those that are read alone.
#[test]
fn addresses_have_the_names_by_which_the_target_looked_them_up() {
    tier::needs!(tier::Need::Program("tshark"));
    let (mut sink, files) = begin_with(2, None);
    let peer = synthetic::connection(1).remote.ip().to_string();
    looked_up(&mut sink, "web.example.com", &format!("{peer} 2001:db8::7"));
    looked_up(&mut sink, "web.example.com", &peer);
    looked_up(&mut sink, "none.example.com", "");
    take(&mut sink, (1..4).map(|at| copy(at * MS, Direction::Sent, 7, 0).into()));
    finish(sink, Lost::default());
    let files = files.all.lock().unwrap();
    assert_eq!(files.len(), 2);
    for (file, packets) in files.iter().zip([2, 1]) {
        let file = file.on_disk();
        let shown = tshark(file.path(), &["-N", "n", "-Y", "ip", "-T", "fields", "-e", "ip.dst_host"]);
        assert_eq!(shown, vec!["web.example.com"; packets]);
        // A name that is looked up again is not written again.
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.windows(15).filter(|part| part == b"web.example.com").count(), 2);
    }
}

#[test]
fn what_a_process_was_started_with_is_there_where_it_is_asked_for() {
    for asked in [false, true] {
        let (mut sink, files) = begin_with(u64::MAX, None);
        let details = |pid: u32, _| {
            assert_eq!(pid, 77);
            Details { command_line: Some(b"nginx\0-c\0secret".to_vec()), user: Some(33) }
        };
        sink.sink = Box::new((*sink.sink).describing(asked.then(|| Box::new(details) as Ask)));
        take(&mut sink, [copy(MS, Direction::Sent, 7, 0).into(), copy(2 * MS, Direction::Sent, 7, 0).into()]);
        finish(sink, Lost::default());
        let bytes = std::fs::read(files.all.lock().unwrap()[0].on_disk().path()).unwrap();
        // Options 4 and 6 of Wireshark's block: code and length, value, padding.
        let options = [&b"\x04\0\x0f\0nginx\0-c\0secret\0"[..], b"\x06\0\x04\0\x21\0\0\0"];
        let there = options.map(|option| bytes.windows(option.len()).filter(|part| *part == option).count());
        assert_eq!(there, [usize::from(asked); 2]);
    }
}

/// Each graph is of something that a file can have.
#[test]
fn the_graphs_of_the_profile_have_their_packets() {
    tier::needs!(tier::Need::Program("tshark"));
    let file = whole();
    let graphs = std::fs::read_to_string(Path::new(PROFILE).join("io_graphs")).unwrap();
    let graphs: HashMap<&str, Vec<&str>> = graphs
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.trim_matches('"').split("\",\"").collect::<Vec<_>>())
        .map(|columns| (columns[1], columns))
        .collect();
    assert!(graphs.len() >= 5, "{graphs:?}");
    for (name, columns) in graphs {
        let [_, _, filter, colour, _, of, field, _, factor] = columns[..] else { panic!("{columns:?}") };
        assert!(colour.starts_with('#') && factor == "1", "{columns:?}");
        let found = tshark(file.path(), &["-n", "-X", SCRIPT, "-Y", filter, "-T", "fields", "-e", "frame.number"]);
        assert!(!found.is_empty(), "{name}");
        let figure = match of {
            "Packets" => continue,
            "MAX(Y Field)" => format!("io,stat,0,MAX({field}){field}"),
            other => panic!("{other}"),
        };
        let said = tshark(file.path(), &["-n", "-q", "-X", SCRIPT, "-z", &figure]).join("\n");
        assert!(said.contains(&format!("MAX({field})")), "{said}");
    }
}
