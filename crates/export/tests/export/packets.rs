//! Packets with their process and send, written and read again.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use export::pcapng::{Pcapng, Places};
use record::{
    Again, ConnectionId, CopyDropped, CopyInterface, CopyPlace, Coverage, Direction, DropReason, Dropped, End, Event,
    Figures, Instant, KnownBy, Lost, Nanos, Owner, PacketCopy, Send, SeqNumber, Sink, SinkError, SocketState, TcpFlags,
    WaitReason, Waits,
};
use wire::capture::{Capture, flag};

const MS: u64 = 1_000_000;

/// A file in memory, to be read while it is written.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Files one after the other, each of so many packets.
#[derive(Clone)]
struct Files {
    all: Arc<Mutex<Vec<File>>>,
    each: u64,
}

impl Places for Files {
    type To = File;

    fn next(&mut self) -> Result<(File, String), SinkError> {
        let file = File::default();
        self.all.lock().unwrap().push(file.clone());
        Ok((file, "packet file".into()))
    }

    fn is_full(&self, _: &File, packets: u64, _: Nanos) -> bool {
        packets >= self.each
    }
}

fn interface(name: &str, number: u32) -> Arc<CopyInterface> {
    Arc::new(CopyInterface { name: name.into(), number, network: 1, network_name: None, own: true })
}

/// A segment of connection 1, of IPv4 and with these sequence number and payload.
fn copy(at: u64, direction: Direction, first_seq: u32, payload: u32) -> PacketCopy {
    let connection = synthetic::connection(1);
    let (from, to) = match direction {
        Direction::Sent => (connection.local, connection.remote),
        Direction::Received => (connection.remote, connection.local),
    };
    let address = |ip| if let std::net::IpAddr::V4(ip) = ip { ip.octets() } else { panic!("not IPv4") };
    let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    bytes.extend_from_slice(&[address(from.ip()), address(to.ip())].concat());
    bytes.extend_from_slice(&[from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
    bytes.extend_from_slice(&[first_seq.to_be_bytes(), [0; 4]].concat());
    bytes.extend_from_slice(&[0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let length = 40 + payload;
    bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    PacketCopy {
        at: Instant::from_nanos(at),
        socket: ConnectionId(1),
        owner: Owner { pid: 77, comm: "master".into() },
        owner_since: Some(Instant::from_nanos(5)),
        state: SocketState::Open,
        direction,
        interface: interface("eth0", 2),
        length,
        bytes: bytes.into(),
        local: connection.local,
        remote: connection.remote,
        cgroup: None,
        place: None,
        buffer: at,
        first_seq: SeqNumber(first_seq),
        payload,
        flags: TcpFlags(0x10),
        segments: 1,
        segment_bytes: 0,
        checksum_pending: false,
        again: None,
        missed: 0,
    }
}

/// What the tests look at of each packet of a file.
#[derive(Debug, PartialEq)]
struct Seen {
    at: u64,
    process: Option<u32>,
    known_by: KnownBy,
    /// Number, bytes, and how many sends.
    send: Option<(u64, u32, u32)>,
    comment: String,
}

fn seen(file: &File) -> Vec<Seen> {
    let bytes = file.0.lock().unwrap().clone();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut all = Vec::new();
    while let Some(frame) = capture.next_frame().unwrap() {
        let context = frame.context().expect("our option");
        all.push(Seen {
            at: frame.at.unwrap().as_nanos(),
            process: frame.process().map(|process| process.0),
            known_by: context.socket.unwrap().1,
            send: context.send.map(|send| (send.number, send.bytes, send.sends)),
            comment: frame.comments().next().unwrap().to_owned(),
        });
    }
    assert_eq!(capture.problems().total(), 0);
    all
}

fn begin() -> (Box<Pcapng<Files>>, File) {
    let (sink, files) = begin_with(u64::MAX, None);
    let file = files.all.lock().unwrap()[0].clone();
    (sink, file)
}

fn begin_with(each: u64, most: Option<u64>) -> (Box<Pcapng<Files>>, Files) {
    let files = Files { all: Arc::default(), each };
    let run = record::Provenance { version: "0".into(), ..<record::Provenance as record::table::Record>::blank() };
    (Box::new(Pcapng::begin(files.clone(), &run, 0, most).unwrap()), files)
}

fn finish(sink: Box<Pcapng<Files>>, lost: Lost) -> Option<String> {
    let (coverage, figures) = (Coverage::default(), Figures::default());
    let end = End {
        at: Instant::from_nanos(9_000 * MS),
        lost: &lost,
        coverage: &coverage,
        figures: &figures,
        path: None,
        fired: 0,
    };
    sink.finish(&end).unwrap()
}

fn sent(first_seq: u32, bytes: u32) -> Event {
    let trace = synthetic::trace(1, 1);
    let send = trace.iter().find_map(|event| if let Event::Send(send) = event { Some(*send) } else { None }).unwrap();
    Event::Send(Send { first_seq: SeqNumber(first_seq), bytes, ..send })
}

fn take(sink: &mut Pcapng<Files>, events: impl IntoIterator<Item = Event>) {
    events.into_iter().for_each(|event| sink.event(&event).unwrap());
}

#[test]
fn a_packet_waits_for_its_send_and_those_behind_it_for_their_turn() {
    let (mut sink, file) = begin();
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    take(&mut sink, [copy(10 * MS, Direction::Sent, 100, 50).into(), copy(11 * MS, Direction::Received, 7, 0).into()]);
    sink.tick(Instant::from_nanos(12 * MS)).unwrap();
    assert_eq!(seen(&file), []);
    // Two sends in one packet.
    take(&mut sink, [sent(100, 20), sent(120, 30)]);
    sink.tick(Instant::from_nanos(13 * MS)).unwrap();
    let all = seen(&file);
    assert_eq!(all.iter().map(|seen| seen.at).collect::<Vec<_>>(), [10 * MS, 11 * MS]);
    assert_eq!((all[0].known_by, all[0].send), (KnownBy::Sent, Some((1, 20, 2))));
    assert!(all[0].comment.starts_with("curl[4001] (sent) | send 1 and 1 more, 20 bytes: tcp "), "{}", all[0].comment);
    assert_eq!((all[1].process, all[1].known_by, all[1].send), (Some(4001), KnownBy::Connected, None));
    // A send in three packets, of which the last is retransmitted; its record never comes.
    let parts =
        [(150, 1_000), (1_150, 1_000), (2_150, 10)].map(|(seq, n)| copy(20 * MS, Direction::Sent, seq, n).into());
    take(&mut sink, parts);
    let again = PacketCopy { again: Some(Again::Loss), ..copy(21 * MS, Direction::Sent, 2_150, 10) };
    take(&mut sink, [again.into()]);
    sink.tick(Instant::from_nanos(1_019 * MS)).unwrap();
    assert_eq!(seen(&file).len(), 2);
    take(&mut sink, [sent(150, 2_000)]);
    sink.tick(Instant::from_nanos(1_019 * MS)).unwrap();
    assert_eq!(seen(&file)[2..].iter().map(|seen| seen.send).collect::<Vec<_>>(), [Some((3, 2_000, 1)); 2]);
    sink.tick(Instant::from_nanos(1_021 * MS)).unwrap();
    let all = seen(&file);
    assert_eq!(all[4..].iter().map(|seen| seen.send).collect::<Vec<_>>(), [None, None]);
    assert_eq!(all[5].comment, "curl[4001] (connected) | retransmission (retransmission timeout)");
    assert_eq!(finish(sink, Lost::default()).as_deref(), Some("6 packets"));
}

#[test]
fn a_packet_that_stays_on_the_host_is_there_once_with_its_receiver() {
    let (mut sink, file) = begin();
    let on_loopback = |copy: PacketCopy| PacketCopy { interface: interface("lo", 1), ..copy };
    let sent = on_loopback(copy(MS, Direction::Sent, 1, 0));
    let mut received = PacketCopy { at: Instant::from_nanos(MS + 900), direction: Direction::Received, ..sent.clone() };
    (received.socket, received.owner) = (ConnectionId(2), Owner { pid: 88, comm: "nginx".into() });
    // The same bytes once more are another packet.
    take(&mut sink, [sent.clone().into(), sent.into(), received.into()]);
    sink.tick(Instant::from_nanos(2 * MS)).unwrap();
    assert_eq!(seen(&file).len(), 1);
    finish(sink, Lost::default());
    let comments: Vec<_> = seen(&file).into_iter().map(|seen| seen.comment).collect();
    assert_eq!(comments, ["master[77] (listens) | to nginx[88] (listens)", "master[77] (listens)"]);
}

#[test]
fn a_packet_without_a_known_process_names_none() {
    let (mut sink, file) = begin();
    let gone = PacketCopy { state: SocketState::Gone, ..copy(MS, Direction::Received, 1, 0) };
    let nobody = PacketCopy { owner: Owner::default(), ..copy(MS, Direction::Received, 1, 0) };
    let made = PacketCopy { state: SocketState::Udp { held: false }, ..copy(MS, Direction::Received, 0, 0) };
    take(&mut sink, [gone.into(), nobody.into(), made.into()]);
    finish(sink, Lost::default());
    let known: Vec<_> = seen(&file).into_iter().map(|seen| (seen.process, seen.known_by)).collect();
    assert_eq!(known, [(None, KnownBy::Unknown), (None, KnownBy::Unknown), (Some(77), KnownBy::Made)]);
}

#[test]
fn what_was_missed_is_counted_where_it_was() {
    let (mut sink, file) = begin();
    let after = PacketCopy { missed: 5, checksum_pending: true, segments: 3, ..copy(2 * MS, Direction::Sent, 1, 0) };
    take(&mut sink, [copy(MS, Direction::Received, 1, 0).into(), after.into()]);
    let said = finish(sink, Lost { copy_ring_buffer: 7, ..Lost::default() });
    assert_eq!(said.as_deref(), Some("2 packets, and 7 missed"));
    let bytes = file.0.lock().unwrap().clone();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut dropped = Vec::new();
    let mut flags = Vec::new();
    while let Some(frame) = capture.next_frame().unwrap() {
        dropped.push(frame.dropped_before());
        flags.push(frame.flags());
    }
    assert_eq!(dropped, [0, 5]);
    let sent = flag::OUTBOUND | flag::CHECKSUM_PENDING | flag::SEGMENTATION_OFFLOADED;
    assert_eq!(flags, [flag::INBOUND, sent]);
    let interface = &capture.interfaces()[0];
    assert_eq!((interface.received, interface.dropped_by_system), (Some(9), Some(7)));
}

/// The kernel dropped the packet that it called so.
fn dropped(socket: u64, buffer: u64, at: u64) -> Event {
    let dropped = Dropped { at: Instant::from_nanos(at), reason: DropReason("QDISC_DROP".into()) };
    Event::CopyDropped(Box::new(CopyDropped { socket: ConnectionId(socket), buffer, dropped }))
}

#[test]
fn a_drop_is_of_the_last_packet_that_the_kernel_called_so() {
    let (mut sink, file) = begin();
    let at = |at, buffer| PacketCopy { buffer, ..copy(at * MS, Direction::Received, 7, 0) };
    take(&mut sink, [at(1, 5), at(2, 5), at(3, 6), at(4, 5)].map(Event::from));
    // Neither one after it, nor one of another socket.
    take(&mut sink, [dropped(1, 5, 3 * MS), dropped(2, 6, 3 * MS)]);
    let arrives = |copy: PacketCopy| PacketCopy { interface: interface("lo", 1), ..copy };
    let sent = arrives(copy(5 * MS, Direction::Sent, 1, 0));
    let received = PacketCopy { direction: Direction::Received, socket: ConnectionId(9), buffer: 99, ..sent.clone() };
    take(&mut sink, [sent.into(), received.into(), dropped(9, 99, 6 * MS)]);
    finish(sink, Lost::default());
    let dropped: Vec<bool> = seen(&file).iter().map(|seen| seen.comment.contains(" | dropped (QDISC_DROP)")).collect();
    assert_eq!(dropped, [false, true, false, false, true]);
}

/// The fields that Wireshark shows are those of the file, whatever a program is called.
#[test]
fn wireshark_has_the_fields() {
    tier::needs!(tier::Need::Program("tshark"));
    let (mut sink, file) = begin();
    let owner = Owner { pid: 4_001, comm: "a[1] (x) | to b".into() };
    let Event::Send(send) = sent(100, 1_200) else { unreachable!() };
    let stamp = |ns| Instant::from_nanos(10 * MS + ns);
    let mut slow = Send { owner, wait: Some(Waits::of(WaitReason::Nagle, Nanos(40_125_000))), ..send };
    slow.stamps.send = stamp(0);
    slow.stamps.sched = Some(stamp(40_125_000));
    slow.stamps.driver = Some(stamp(40_128_500));
    slow.stamps.nic = None;
    slow.stamps.ack = Some(stamp(61_128_500));
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    let place = CopyPlace { unit: Some("web.service".into()), container: Some("0123456789abcdef".into()) };
    let first = PacketCopy {
        segments: 3,
        segment_bytes: 1_448,
        place: Some(Arc::new(place)),
        ..copy(50 * MS, Direction::Sent, 100, 1_200)
    };
    let again = PacketCopy { again: Some(Again::Loss), ..copy(51 * MS, Direction::Sent, 100, 1_200) };
    let unknown =
        PacketCopy { socket: ConnectionId(9), owner: Owner::default(), ..copy(52 * MS, Direction::Received, 7, 0) };
    take(&mut sink, [first.into(), again.into(), unknown.into(), Event::Send(slow)]);
    take(&mut sink, [dropped(1, 51 * MS, 52 * MS)]);
    finish(sink, Lost::default());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    std::fs::write(&path, file.0.lock().unwrap().as_slice()).unwrap();
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/wirelapse.lua");
    let fields = "pid comm known_by send sends send_bytes tcp_wait_ms reason qdisc_us network_ms retransmission segments segment_bytes unit container drop_reason";
    let mut tshark = tier::command("tshark");
    tshark.args(["-n", "-X", script, "-Y", "ip", "-T", "fields", "-E", "separator=;", "-r"]).arg(&path);
    for field in fields.split(' ') {
        tshark.args(["-e", &format!("wirelapse.{field}")]);
    }
    let out = tshark.output().unwrap();
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let text = tier::text(&out.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let common = "4001;a[1] (x) | to b;sent;1;1;1200;40.1;Nagle's algorithm;3.5;21";
    assert_eq!(
        lines,
        [
            format!("{common};;3;1448;web.service;0123456789ab;").as_str(),
            format!("{common};retransmission timeout;;;;;QDISC_DROP").as_str(),
            ";;unknown;;;;;;;;;;;;;"
        ]
    );
}

#[test]
fn files_follow_one_another_and_each_describes_what_is_in_it() {
    let (mut sink, files) = begin_with(4, Some(10));
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    take(&mut sink, (0..15).map(|at| PacketCopy { missed: 1, ..copy(at * MS, Direction::Received, 7, 0) }.into()));
    assert!(!sink.is_over());
    sink.tick(Instant::from_nanos(100 * MS)).unwrap();
    assert!(sink.is_over());
    let said = finish(sink, Lost { copy_ring_buffer: 10, ..Lost::default() });
    assert_eq!(said.as_deref(), Some("10 packets in 3 files, and 10 missed"));
    let files = files.all.lock().unwrap();
    let times: Vec<Vec<u64>> = files.iter().map(|file| seen(file).iter().map(|seen| seen.at / MS).collect()).collect();
    assert_eq!(times, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    for file in files.iter() {
        let bytes = file.0.lock().unwrap().clone();
        // The process is described in each, by its name.
        assert!(bytes.windows(4).any(|name| name == b"curl"));
        let mut capture = Capture::from_bytes(&bytes).unwrap();
        let mut packets = 0;
        while capture.next_frame().unwrap().is_some() {
            packets += 1;
        }
        assert_eq!(capture.interfaces()[0].name.as_deref(), Some("eth0"));
        assert_eq!(capture.interfaces()[0].dropped_by_system, Some(packets));
    }
}
