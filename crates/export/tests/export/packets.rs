//! Packets with their process and send, written and read again.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use export::packets::{Packets, Traced};
use export::pcapng::{Pcapng, Places};
use record::{
    Again, ConnectionId, CopyDropped, CopyInterface, CopyPlace, Coverage, Direction, DropReason, Dropped, End, Event,
    Figures, Instant, KnownBy, Lost, Nanos, Owner, PacketCopy, Send, SeqNumber, Sink, SinkError, SocketState, TcpFlags,
    WaitReason, Waits,
};
use wire::capture::{Capture, flag};

const MS: u64 = 1_000_000;

/// The script for Wireshark, as tshark takes it.
pub const SCRIPT: &str = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/wirelapse.lua");

/// A file in memory, to be read while it is written.
#[derive(Clone, Default)]
pub struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    pub fn on_disk(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.0.lock().unwrap().as_slice()).unwrap();
        file
    }
}

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
pub struct Files {
    pub all: Arc<Mutex<Vec<File>>>,
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
pub fn copy(at: u64, direction: Direction, first_seq: u32, payload: u32) -> PacketCopy {
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
        ..<PacketCopy as record::table::Record>::blank()
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

/// A file of packets with what belongs to them.
pub struct Joined {
    packets: Packets,
    pub sink: Box<Pcapng<Files>>,
    /// What the file was given.
    rows: Vec<PacketCopy>,
}

impl Joined {
    fn pass_on(&mut self, act: impl FnOnce(&mut Packets, &mut dyn FnMut(Event))) {
        let (sink, rows) = (&mut self.sink, &mut self.rows);
        act(&mut self.packets, &mut |event| {
            sink.event(&event).unwrap();
            let Event::Copy(copy) = event else { panic!("not a packet: {event:?}") };
            rows.push(*copy);
        });
    }

    fn tick(&mut self, ms: u64) {
        let now = Instant::from_nanos(ms * MS);
        self.pass_on(|packets, leave| packets.tick(now, leave));
        self.sink.tick(now).unwrap();
    }

    fn is_over(&self) -> bool {
        self.sink.is_over()
    }
}

fn begin() -> (Joined, File) {
    let (sink, files) = begin_with(u64::MAX, None);
    let file = files.all.lock().unwrap()[0].clone();
    (sink, file)
}

pub fn begin_with(each: u64, most: Option<u64>) -> (Joined, Files) {
    let files = Files { all: Arc::default(), each };
    let run = record::Provenance { version: "0".into(), ..<record::Provenance as record::table::Record>::blank() };
    let sink = Box::new(Pcapng::begin(files.clone(), &run, 0, most).unwrap());
    let packets = Packets::new(Traced::default());
    (Joined { packets, sink, rows: Vec::new() }, files)
}

pub fn finish(mut joined: Joined, lost: Lost) -> Option<String> {
    joined.pass_on(Packets::finish);

    let (coverage, figures) = (Coverage::default(), Figures::default());
    let end = End {
        at: Instant::from_nanos(9_000 * MS),
        lost: &lost,
        coverage: &coverage,
        figures: &figures,
        path: None,
        fired: 0,
    };
    joined.sink.finish(&end).unwrap()
}

fn sent(first_seq: u32, bytes: u32) -> Event {
    let trace = synthetic::trace(1, 1);
    let send = trace.iter().find_map(|event| if let Event::Send(send) = event { Some(*send) } else { None }).unwrap();
    Event::Send(Send { first_seq: SeqNumber(first_seq), bytes, ..send })
}

pub fn take(sink: &mut Joined, events: impl IntoIterator<Item = Event>) {
    events.into_iter().for_each(|event| sink.pass_on(|packets, leave| packets.event(&event, leave)));
}

#[test]
fn a_packet_waits_for_its_send_and_those_behind_it_for_their_turn() {
    let (mut sink, file) = begin();
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    take(&mut sink, [copy(10 * MS, Direction::Sent, 100, 50).into(), copy(11 * MS, Direction::Received, 7, 0).into()]);
    sink.tick(12);
    assert_eq!(seen(&file), []);
    // Two sends in one packet.
    take(&mut sink, [sent(100, 20), sent(120, 30)]);
    sink.tick(13);
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
    sink.tick(1_019);
    assert_eq!(seen(&file).len(), 2);
    take(&mut sink, [sent(150, 2_000)]);
    sink.tick(1_019);
    assert_eq!(seen(&file)[2..].iter().map(|seen| seen.send).collect::<Vec<_>>(), [Some((3, 2_000, 1)); 2]);
    sink.tick(1_021);
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
    sink.tick(2);
    assert_eq!(seen(&file).len(), 1);
    finish(sink, Lost::default());
    let comments: Vec<_> = seen(&file).into_iter().map(|seen| seen.comment).collect();
    assert_eq!(comments, ["master[77] (listens) | to nginx[88] (listens)", "master[77] (listens)"]);
}

/// Rows have both directions, each with its owner; the two of one packet have one number.
#[test]
fn a_packet_that_arrives_is_a_row_too_and_has_the_same_number() {
    let (mut sink, file) = begin();
    let on_loopback = |copy: PacketCopy| PacketCopy { interface: interface("lo", 1), ..copy };
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    let leaves = on_loopback(copy(MS, Direction::Sent, 100, 50));
    let mut arrives =
        PacketCopy { at: Instant::from_nanos(MS + 900), direction: Direction::Received, ..leaves.clone() };
    (arrives.socket, arrives.owner) = (ConnectionId(2), Owner { pid: 88, comm: "nginx".into() });
    (arrives.missed, arrives.buffer) = (3, 4);
    take(&mut sink, [leaves.into(), arrives.into(), sent(100, 50)]);
    sink.tick(2);
    let rows = std::mem::take(&mut sink.rows);
    let whose: Vec<_> = rows.iter().map(|row| (row.id, row.direction, row.owner.pid, row.known_by)).collect();
    assert_eq!(whose, [(1, Direction::Sent, 4001, KnownBy::Sent), (1, Direction::Received, 88, KnownBy::Listens)]);
    let send = rows[0].carried.unwrap();
    assert_eq!((send.number, send.sends, send.bytes, send.first_seq), (1, 1, 50, SeqNumber(100)));
    assert!(rows[0].stages.send.is_some() && rows[0].stages.ack.is_some() && rows[1].carried.is_none());
    // What was missed is told once.
    assert_eq!((rows[0].missed, rows[1].missed), (3, 0));
    assert_eq!(seen(&file).len(), 1);
}

/// A path that takes longer than a packet is held: it has left when it arrives.
#[test]
fn a_packet_that_arrives_late_has_its_number() {
    for (name, between) in [("lo", 400), ("eth0", 60)] {
        let (mut sink, _) = begin();
        let on = |copy: PacketCopy| PacketCopy { interface: interface(name, 1), ..copy };
        let leaves = [0, 1].map(|n| on(copy((1 + n) * MS, Direction::Sent, 1 + n as u32, 0)));
        let arrives = leaves.clone().map(|copy| PacketCopy {
            at: copy.at.after(Nanos(between * MS)),
            direction: Direction::Received,
            socket: ConnectionId(2),
            ..copy
        });
        take(&mut sink, leaves.map(Event::from));
        sink.tick(56);
        assert_eq!(sink.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2]);
        take(&mut sink, arrives.map(Event::from));
        // The same once more is another packet.
        take(&mut sink, [on(copy(900 * MS, Direction::Received, 1, 0)).into()]);
        sink.pass_on(Packets::finish);
        assert_eq!(sink.rows[2..].iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2, 5], "{name}");
        assert!(sink.rows.iter().all(|row| !row.is_arrival));
    }
}

/// Bytes that were read at so many nanoseconds after the first millisecond.
fn receive(first_seq: u32, bytes: u32, read: u64) -> Event {
    let at = |ns| Some(Instant::from_nanos(MS + ns));
    let stamps = record::Arrival { driver_rx: at(0), tcp_rx: at(1_000), ready: at(1_200), read: at(read) };
    Event::Receive(record::Receive {
        connection: ConnectionId(1),
        reader: Owner { pid: 4001, comm: "reader".into() },
        thread: Some(4002),
        first_seq: SeqNumber(first_seq),
        bytes,
        stamps,
        ..<record::Receive as record::table::Record>::blank()
    })
}

#[test]
fn a_packet_that_arrives_waits_to_be_read() {
    let (mut sink, file) = begin();
    sink.packets = Packets::new(Traced { receives: true, datagrams: false });
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    let data = |at, seq, bytes| Event::from(copy(MS + at, Direction::Received, seq, bytes));
    // The second comes before the first, and twice; an ACK has nothing to read.
    take(&mut sink, [data(1_100, 200, 100), data(1_300, 100, 100), data(1_400, 200, 100), data(1_500, 300, 0)]);
    sink.tick(3);
    assert_eq!(sink.rows, []);
    take(&mut sink, [receive(100, 100, 5_000), receive(200, 100, 6_000)]);
    sink.tick(3);
    let read = |row: &PacketCopy| row.stages.read.map(|at| at.as_nanos() - MS);
    let rows: Vec<_> = sink.rows.iter().map(|row| (row.first_seq.0, read(row), row.thread)).collect();
    let (first, second) = ((100, Some(5_000), Some(4002)), (200, Some(6_000), Some(4002)));
    assert_eq!(rows[..2], [second, first]);
    assert_eq!((rows[2].0, rows[3]), (200, (300, None, None)));
    let comment = &seen(&file)[1].comment;
    assert!(comment.ends_with(" | arrival: softirq 1.00 µs, socket 200 ns, wakeup 3.80 µs"), "{comment}");
    // On the loopback interface the one packet of the file says both.
    let on_loopback = |copy: PacketCopy| PacketCopy { interface: interface("lo", 1), ..copy };
    let leaves = PacketCopy { socket: ConnectionId(2), ..on_loopback(copy(MS + 1_000, Direction::Sent, 300, 10)) };
    let arrives = PacketCopy { socket: ConnectionId(1), direction: Direction::Received, ..leaves.clone() };
    take(&mut sink, [leaves.into(), arrives.into(), receive(300, 10, 7_000)]);
    sink.pass_on(Packets::finish);
    let comment = &seen(&file)[4].comment;
    let says = " | arrival: softirq 1.00 µs, socket 200 ns, wakeup 5.80 µs | to curl[4001] (connected)";
    assert!(comment.ends_with(says), "{comment}");
    // The stages as our own reader has them: the clock of these files is 1,000 s behind.
    let bytes = file.0.lock().unwrap().clone();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut last = None;
    while let Some(frame) = capture.next_frame().unwrap() {
        last = frame.context();
    }
    let at = |ns| MS + ns;
    assert_eq!(last.unwrap().arrival, [0, at(0), at(1_000), at(1_200), at(7_000)]);
}

#[test]
fn a_datagram_has_the_stages_of_its_time() {
    let (mut sink, file) = begin();
    sink.packets = Packets::new(Traced { receives: false, datagrams: true });
    let udp = |at, direction, bytes| PacketCopy {
        state: SocketState::Udp { held: false },
        flags: TcpFlags(0),
        ..copy(MS + at, direction, 0, bytes)
    };
    let of = |stamps| {
        let connection = synthetic::connection(1);
        Event::from(record::Datagram {
            socket: ConnectionId(1),
            owner: Owner { pid: 77, comm: "master".into() },
            local: connection.local,
            remote: connection.remote,
            bytes: 50,
            segments: 1,
            stamps,
            dropped: None,
        })
    };
    let at = |ns| Some(Instant::from_nanos(MS + ns));
    let sent = |send| record::DatagramStamps::Sent { send: at(send), sched: at(send + 500), driver: at(send + 800) };
    let leaves = [(200, 50), (10_200, 50), (20_200, 60)].map(|(ns, n)| udp(ns, Direction::Sent, n).into());
    take(&mut sink, leaves);
    take(&mut sink, [udp(30_000, Direction::Received, 50).into()]);
    // Records come in another order; one of 60 bytes is missed.
    let read = record::DatagramStamps::Received {
        driver_rx: at(29_000),
        udp_rx: at(30_010),
        ready: at(30_300),
        read: at(40_000),
    };
    take(&mut sink, [of(read), of(sent(10_000)), of(sent(0))]);
    sink.tick(10);
    let stamps: Vec<_> = sink.rows.iter().map(|row| row.stages.driver.map(|at| at.as_nanos() - MS)).collect();
    assert_eq!(stamps, [Some(800), Some(10_800)]);
    sink.pass_on(Packets::finish);
    assert_eq!(sink.rows[2].carried, None);
    assert_eq!(sink.rows[3].stages.read, at(40_000));
    let comments: Vec<_> = seen(&file).into_iter().map(|seen| seen.comment).collect();
    assert_eq!(comments[0], "master[77] (made) | send 2, 50 bytes: udp 500 ns, qdisc 300 ns");
    assert_eq!(comments[2], "master[77] (made)");
    assert_eq!(comments[3], "master[77] (made) | arrival: softirq 1.01 µs, socket 290 ns, wakeup 9.70 µs");
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

#[test]
fn an_icmp_error_waits_for_nothing_and_says_what_it_is() {
    let (mut sink, file) = begin();
    sink.packets = Packets::new(Traced { receives: true, datagrams: true });
    let error = |kind, code| PacketCopy {
        icmp: Some(record::CopyIcmp { kind, code }),
        state: SocketState::Udp { held: false },
        ..copy(MS, Direction::Received, 0, 0)
    };
    take(&mut sink, [error(3, 3).into(), error(11, 0).into()]);
    sink.tick(2);
    assert_eq!(sink.rows.len(), 2);
    let comments: Vec<String> = seen(&file).into_iter().map(|seen| seen.comment).collect();
    assert!(comments[0].ends_with(" (made) | ICMP error (port unreachable)"), "{}", comments[0]);
    assert!(comments[1].ends_with(" | ICMP error (time to live exceeded)"), "{}", comments[1]);
}

/// A fragment of 8 bytes of UDP's header and `bytes` beyond, or of as many without it.
fn fragment(at: u64, direction: Direction, offset: u32, bytes: u32) -> PacketCopy {
    let mut head = vec![0x45, 0, 0, 0, 0, 9, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    if offset == 0 {
        head.extend([0x1f, 0x90, 0, 53, 0, 38, 1, 2]);
    }
    let datagram = if offset == 0 { 30 } else { 0 };
    PacketCopy {
        bytes: head.into(),
        fragment: Some(record::CopyFragment { offset, datagram }),
        state: SocketState::Udp { held: false },
        ..copy(at, direction, 0, bytes)
    }
}

/// The datagram of two of them.
fn datagram(at: u64, direction: Direction) -> PacketCopy {
    PacketCopy { fragment: None, missed: 3, is_cut: direction == Direction::Sent, ..fragment(at, direction, 0, 30) }
}

#[test]
fn fragments_stand_for_the_datagram_that_they_are_of() {
    let stranger = |piece: PacketCopy| PacketCopy { socket: ConnectionId(0), owner: Owner::default(), ..piece };
    let (mut sink, file) = begin();
    let way = Direction::Sent;
    take(
        &mut sink,
        [datagram(MS, way).into(), fragment(MS + 1, way, 0, 16).into(), fragment(MS + 2, way, 24, 14).into()],
    );
    let way = Direction::Received;
    let arrive = [stranger(fragment(2 * MS, way, 0, 16)), stranger(fragment(2 * MS + 1, way, 24, 14))];
    take(&mut sink, arrive.map(Event::from).into_iter().chain([datagram(3 * MS, way).into()]));
    sink.tick(10);
    let rows: Vec<_> = sink.rows.iter().map(|row| (row.at.as_nanos() - MS, row.payload, row.missed)).collect();
    assert_eq!(rows, [(1, 16, 3), (2, 14, 0), (MS, 16, 3), (MS + 1, 14, 0)]);
    assert!(sink.rows.iter().all(|row| row.socket.0 == 1 && row.fragment.unwrap().datagram == 30));
    assert_eq!(seen(&file).len(), 4);
}

#[test]
fn a_datagram_without_all_of_its_fragments_is_whole() {
    let (mut sink, _) = begin();
    // None leaves, and one of two arrives.
    take(&mut sink, [datagram(MS, Direction::Sent).into()]);
    take(
        &mut sink,
        [fragment(2 * MS, Direction::Received, 0, 16).into(), datagram(3 * MS, Direction::Received).into()],
    );
    sink.tick(40);
    assert_eq!(sink.rows.len(), 0, "it waits for its fragments");
    sink.tick(60);
    let rows: Vec<_> = sink.rows.iter().map(|row| (row.direction, row.payload, row.fragment)).collect();
    assert_eq!(rows, [(Direction::Sent, 30, None), (Direction::Received, 30, None)]);
}

/// A file with all that the script for Wireshark shows.
pub fn whole() -> tempfile::NamedTempFile {
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
    let stamp = |ns| Some(Instant::from_nanos(60 * MS + ns));
    let stages = record::CopyStages {
        nic_rx: Some(Instant::from_nanos(60 * MS - 400)),
        driver_rx: stamp(0),
        tcp_rx: stamp(1_000),
        ready: stamp(1_200),
        read: stamp(5_000),
        ..record::CopyStages::default()
    };
    let arrived = PacketCopy { stages, ..copy(60 * MS, Direction::Received, 7, 10) };
    take(&mut sink, [first.into(), again.into(), unknown.into(), arrived.into(), Event::Send(slow)]);
    take(&mut sink, [dropped(1, 51 * MS, 52 * MS)]);
    finish(sink, Lost::default());
    file.on_disk()
}

/// The fields that Wireshark shows are those of the file, whatever a program is called.
#[test]
fn wireshark_has_the_fields() {
    tier::needs!(tier::Need::Program("tshark"));
    let file = whole();
    let fields = "pid comm known_by send sends send_bytes tcp_wait_ms reason qdisc_us network_ms retransmission segments segment_bytes unit container drop_reason nic_rx_us softirq_us socket_us wakeup_us";
    let mut tshark = tier::command("tshark");
    tshark.args(["-n", "-X", SCRIPT, "-Y", "ip", "-T", "fields", "-E", "separator=;", "-r"]).arg(file.path());
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
            format!("{common};;3;1448;web.service;0123456789ab;;;;;").as_str(),
            format!("{common};retransmission timeout;;;;;QDISC_DROP;;;;").as_str(),
            ";;unknown;;;;;;;;;;;;;;;;;",
            "4001;curl;connected;;;;;;;;;;;;;;0.4;1;0.2;3.8"
        ]
    );
}

#[test]
fn files_follow_one_another_and_each_describes_what_is_in_it() {
    let (mut sink, files) = begin_with(4, Some(10));
    take(&mut sink, [Event::Connection(synthetic::connection(1))]);
    take(&mut sink, (0..15).map(|at| PacketCopy { missed: 1, ..copy(at * MS, Direction::Received, 7, 0) }.into()));
    assert!(!sink.is_over());
    sink.tick(100);
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
