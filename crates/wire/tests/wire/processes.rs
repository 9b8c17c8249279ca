//! The processes that pcapng files of other programs name: from Wireshark, macOS, ptcpdump and
//! rustnet, in both byte orders.

use std::io::Write as _;
use std::net::SocketAddrV4;
use std::process::Command;

use record::SeqNumber;
use wire::capture::Problem;
use wire::packet::{Ethernet, Ipv4, Tcp, ether_type, ip_protocol, transport_checksum};
use wire::{Flags, PacketReader};

use crate::samples::{BIG, LITTLE, Order};

const CLIENT: &str = "10.0.0.1:4000";
const SERVER: &str = "10.0.0.2:80";
const IN: u32 = 1;
const OUT: u32 = 2;

/// Who computes the checksum of a segment.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    /// Its sender has.
    Sender,
    /// The network card of the host that captured will.
    Card,
}

/// A frame from one end to another, without payload.
fn frame(from: &str, to: &str, flags: Flags, sum: Sum) -> Vec<u8> {
    let [from, to]: [SocketAddrV4; 2] = [from, to].map(|end| end.parse().expect("an end"));
    let tcp = Tcp {
        source_port: from.port(),
        destination_port: to.port(),
        seq: SeqNumber(1),
        ack: SeqNumber(u32::from(flags.contains(Flags::ACK))),
        flags,
        window: 500,
        header_bytes: 20,
    };
    let mut segment = Vec::new();
    tcp.emit(&[], &mut segment);
    if sum == Sum::Sender {
        let sum = transport_checksum((*from.ip()).into(), (*to.ip()).into(), ip_protocol::TCP, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    let header = Ipv4 {
        source: *from.ip(),
        destination: *to.ip(),
        protocol: ip_protocol::TCP,
        id: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        traffic_class: 0,
    };
    let mut out = Vec::new();
    Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 }.emit(&mut out);
    header.emit(segment.len(), &mut out);
    [out, segment].concat()
}

/// A file that is put together, one packet a nanosecond.
struct File {
    order: Order,
    bytes: Vec<u8>,
    at: u64,
}

impl File {
    fn new(order: Order) -> Self {
        let mut file = Self { order, bytes: Vec::new(), at: 0 };
        file.section();
        file
    }

    fn section(&mut self) {
        self.bytes.extend(self.order.section(1));
        self.bytes.extend(self.order.interface(&self.order.option(9, &[9])));
    }

    /// A packet with options: code and value each.
    fn packet(&mut self, frame: &[u8], options: &[(u16, Vec<u8>)]) {
        self.at += 1;
        let length = frame.len() as u32;
        let mut body = [self.order.words(&[0, 0, self.at as u32, length, length]), frame.to_vec()].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        for (code, value) in options {
            body.extend(self.order.option(*code, value));
        }
        body.extend(self.order.option(0, &[]));
        self.bytes.extend(self.order.block(6, &body));
    }

    /// An ACK from one end to another.
    fn ack(&mut self, from: &str, to: &str, options: &[(u16, Vec<u8>)]) {
        self.packet(&frame(from, to, Flags::ACK, Sum::Sender), options);
    }

    /// Wireshark's process information block: least significant byte first, whatever the rest is.
    fn information(&mut self, pid: u32, options: &[(u16, &[u8])]) {
        let mut entry = pid.to_le_bytes().to_vec();
        for (code, value) in options {
            entry.extend(LITTLE.option(*code, value));
        }
        let entry = [LITTLE.words(&[3, entry.len() as u32]), entry].concat();
        self.bytes.extend(self.order.block(0xbad, &[&self.order.four(32_622)[..], &entry].concat()));
    }

    /// The process event block of macOS.
    fn event(&mut self, pid: u32, name: &str) {
        let options = [self.order.option(2, name.as_bytes()), self.order.option(4, &[7; 16])].concat();
        let body = [&self.order.four(pid)[..], &options, &self.order.option(0, &[])].concat();
        self.bytes.extend(self.order.block(0x8000_0001, &body));
    }

    fn flags(&self, flags: u32) -> (u16, Vec<u8>) {
        (2, self.order.four(flags).to_vec())
    }

    fn pid(&self, pid: u32) -> (u16, Vec<u8>) {
        (8, self.order.words(&[pid, 0]))
    }

    fn place(&self, place: u32) -> (u16, Vec<u8>) {
        (0x8001, self.order.four(place).to_vec())
    }

    fn effective(&self, place: u32) -> (u16, Vec<u8>) {
        (0x8003, self.order.four(place).to_vec())
    }

    /// Its processes by their ends; nothing in it may be wrong.
    fn owners(&self) -> Vec<String> {
        let (owners, problems) = owners(&self.bytes);
        assert_eq!(problems, 0);
        owners
    }
}

fn comment(text: &str) -> (u16, Vec<u8>) {
    (1, text.into())
}

/// The processes of a file by their ends, and how much was wrong with it.
fn owners(file: &[u8]) -> (Vec<String>, u64) {
    let Ok(mut packets) = PacketReader::from_bytes(file) else { return (Vec::new(), 1) };
    while packets.next_packet().expect("memory").is_some() {}
    let owners = packets.processes().into_iter().map(|(end, process)| format!("{end} {process}"));
    (owners.collect(), packets.problems().total())
}

#[test]
fn a_process_that_wireshark_describes_has_its_name_at_its_packets() {
    for order in [LITTLE, BIG] {
        let mut file = File::new(order);
        // The number 7 comes round; 8 has only a path, 9 nothing, and 10 is described too late.
        file.information(7, &[(2, b"curl"), (3, b"/usr/bin/other"), (9, &1_u64.to_le_bytes())]);
        file.information(7, &[(2, b"wget"), (9, &3_u64.to_le_bytes())]);
        file.information(8, &[(3, b"/usr/sbin/nginx"), (4, b"nginx\0-g"), (6, &[0; 4])]);
        file.information(9, &[]);
        file.ack(CLIENT, SERVER, &[file.pid(7), file.flags(OUT)]);
        file.ack(CLIENT, SERVER, &[file.pid(8), file.flags(IN)]);
        file.ack("10.0.0.1:4001", SERVER, &[file.pid(7)]);
        file.ack("10.0.0.1:4002", SERVER, &[file.pid(9)]);
        file.ack("10.0.0.1:4003", SERVER, &[file.pid(10)]);
        file.information(10, &[(2, b"late")]);
        // In another section, numbers are those of another host.
        file.section();
        file.information(8, &[(2, b"sshd")]);
        file.ack("10.0.0.3:22", SERVER, &[file.pid(8)]);
        file.ack("10.0.0.3:4000", SERVER, &[file.pid(7)]);
        let wanted = [
            "10.0.0.1:4000 curl[7]",
            "10.0.0.1:4001 wget[7]",
            "10.0.0.1:4002 [9]",
            "10.0.0.1:4003 late[10]",
            "10.0.0.2:80 nginx[8]",
            "10.0.0.3:22 sshd[8]",
            "10.0.0.3:4000 [7]",
        ];
        assert_eq!(file.owners(), wanted);
    }
}

#[test]
fn the_processes_of_macos_are_found_by_their_place() {
    for order in [LITTLE, BIG] {
        let mut file = File::new(order);
        file.event(312, "nsurlsessiond");
        file.event(871, "Podcasts");
        file.event(u32::MAX, "no number");
        file.ack(CLIENT, SERVER, &[file.place(0), file.effective(1), file.flags(OUT)]);
        file.ack("10.0.0.1:4001", SERVER, &[file.place(1), file.effective(1), file.flags(OUT)]);
        file.ack(SERVER, "10.0.0.1:4002", &[file.effective(0), file.flags(IN)]);
        // Neither a process without a number, nor a place of nothing, nor an end without a
        // direction.
        file.ack("10.0.0.1:4003", SERVER, &[file.place(2), file.flags(OUT)]);
        file.ack("10.0.0.1:4004", SERVER, &[file.place(3), file.flags(OUT)]);
        file.ack("10.0.0.1:4005", SERVER, &[file.place(0)]);
        file.section();
        file.ack("10.0.0.1:4006", SERVER, &[file.place(0), file.flags(OUT)]);
        file.event(7, "curl");
        file.ack("10.0.0.1:4007", SERVER, &[file.place(0), file.flags(OUT)]);
        let wanted = [
            "10.0.0.1:4000 nsurlsessiond[312] for Podcasts[871]",
            "10.0.0.1:4001 Podcasts[871]",
            "10.0.0.1:4002 nsurlsessiond[312]",
            "10.0.0.1:4007 curl[7]",
        ];
        assert_eq!(file.owners(), wanted);
    }
}

const CURL: &str = "PID: 7\nCmd: /usr/bin/curl\nArgs: curl http://10.0.0.2/";
const NGINX: &str = "PID: 8\nCommand: /usr/sbin/nginx\nArgs: nginx: worker process";
const CONTAINER: &str = "ContainerName: web\nContainerId: 0123abcd\nContainerImage: web:1\nContainerLabels: {}";

#[test]
fn a_comment_of_ptcpdump_names_the_end_on_the_machine() {
    for order in [LITTLE, BIG] {
        let mut file = File::new(order);
        file.ack(CLIENT, SERVER, &[comment(CURL), file.flags(OUT)]);
        file.ack(SERVER, CLIENT, &[comment(CURL), file.flags(IN)]);
        // Without a direction, as it was before 0.26.
        file.ack("10.0.0.3:4000", SERVER, &[comment(CURL)]);
        // A container's packets come in from the host's view, where they leave.
        let container = [comment(CURL), comment(CONTAINER), file.flags(IN)];
        file.ack("172.17.0.2:4000", "192.0.2.1:80", &container);
        file.ack("172.17.0.2:4001", "192.0.2.1:80", &container);
        file.packet(&frame("172.17.0.2:4001", "192.0.2.1:80", Flags::ACK, Sum::Card), &[]);
        // Both interfaces of such a packet: the same process at both ends is at neither.
        file.ack("10.0.0.4:4000", "192.0.2.2:80", &[comment(CURL), file.flags(OUT)]);
        file.ack("192.0.2.2:80", "10.0.0.4:4000", &[comment(CURL), file.flags(OUT)]);
        assert_eq!(file.owners(), ["10.0.0.1:4000 curl[7]", "172.17.0.2:4001 curl[7]"]);
    }
}

#[test]
fn two_processes_of_one_machine_have_an_end_each() {
    let lo = |of_server: &[&str]| {
        let mut file = File::new(LITTLE);
        let (client, server) = ("127.0.0.1:4000", "127.0.0.1:80");
        // Each packet twice, as it leaves and as it comes in.
        for flags in [OUT, IN] {
            let options = [comment(CURL), file.flags(flags)];
            file.packet(&frame(client, server, Flags::SYN, Sum::Card), &options);
        }
        for said in of_server {
            for flags in [OUT, IN] {
                let options = [comment(said), file.flags(flags)];
                file.packet(&frame(server, client, Flags::SYN | Flags::ACK, Sum::Card), &options);
            }
        }
        file.owners()
    };
    let both = ["127.0.0.1:80 nginx[8]", "127.0.0.1:4000 curl[7]"];
    assert_eq!(lo(&[NGINX]), both);
    // Before the server's process was known, its packets were said to be of their receiver.
    assert_eq!(lo(&[CURL, NGINX]), both);
    assert_eq!(lo(&[CURL]), [""; 0]);
}

#[test]
fn a_comment_of_rustnet_names_the_end_that_opened_the_connection_or_the_other() {
    let browser = comment("rustnet process=Web_Content pid=42 ppid=1 attr=exact-tuple direction=outgoing app=HTTPS");
    let sshd = comment("rustnet process=sshd pid=9 uid=0 direction=incoming");
    for order in [LITTLE, BIG] {
        let mut file = File::new(order);
        let syn = |file: &mut File, from, to, flags, option: &(u16, Vec<u8>)| {
            file.packet(&frame(from, to, flags, Sum::Sender), std::slice::from_ref(option));
        };
        syn(&mut file, CLIENT, SERVER, Flags::SYN, &browser);
        file.ack(SERVER, CLIENT, std::slice::from_ref(&browser));
        // The server's answer shows who called as well.
        syn(&mut file, "10.0.0.1:22", "192.0.2.9:5000", Flags::SYN | Flags::ACK, &sshd);
        // Neither a handshake nor another sign.
        file.ack("10.0.0.1:4001", SERVER, std::slice::from_ref(&browser));
        // Its checksum shows which end the machine has.
        let known = comment("rustnet process=curl pid=7 attr=procfs-relaxed");
        file.ack(SERVER, "10.0.0.1:4002", &[known]);
        file.packet(&frame("10.0.0.1:4002", SERVER, Flags::ACK, Sum::Card), &[]);
        let wanted = ["10.0.0.1:22 sshd[9]", "10.0.0.1:4000 Web_Content[42]", "10.0.0.1:4002 curl[7]"];
        assert_eq!(file.owners(), wanted);
        // What it found by less gives way to what it found by both ends.
        let better = comment("rustnet process=wget pid=8 attr=exact-tuple");
        file.ack("10.0.0.1:4002", SERVER, &[better]);
        assert_eq!(file.owners()[2], "10.0.0.1:4002 wget[8]");
    }
}

#[test]
fn an_option_comes_before_a_comment_which_may_give_it_a_name() {
    let mut file = File::new(LITTLE);
    file.ack(CLIENT, SERVER, &[comment(CURL), file.flags(OUT), file.pid(7)]);
    file.ack("10.0.0.1:4001", SERVER, &[comment(CURL), file.flags(OUT), file.pid(6)]);
    file.ack("10.0.0.1:4002", SERVER, &[comment("my own: pid=7 Cmd: curl"), file.flags(OUT)]);
    file.ack("10.0.0.1:4003", SERVER, &[comment("look here"), comment(CURL), file.flags(OUT)]);
    assert_eq!(file.owners(), ["10.0.0.1:4000 curl[7]", "10.0.0.1:4001 [6]", "10.0.0.1:4003 curl[7]"]);
}

/// A file with all of it.
fn all(order: Order) -> File {
    let mut file = File::new(order);
    file.information(7, &[(2, b"curl"), (9, &[0; 8])]);
    file.ack(CLIENT, SERVER, &[file.pid(7), file.flags(OUT)]);
    file.event(8, "nginx");
    file.ack(SERVER, CLIENT, &[file.place(0), file.effective(0), file.flags(OUT)]);
    file.ack("10.0.0.1:4001", SERVER, &[comment(CURL), comment(CONTAINER), file.flags(OUT)]);
    file.packet(&frame("10.0.0.1:4001", SERVER, Flags::ACK, Sum::Card), &[]);
    let rustnet = comment("rustnet process=wget pid=9 direction=outgoing");
    file.packet(&frame("10.0.0.1:4002", SERVER, Flags::SYN, Sum::Sender), &[rustnet]);
    file
}

#[test]
fn a_file_cut_at_any_byte_names_no_other_process() {
    for order in [LITTLE, BIG] {
        let file = all(order);
        let whole = file.owners();
        assert_eq!(whole.len(), 4);
        for cut in 0..file.bytes.len() {
            let (owners, _) = owners(&file.bytes[..cut]);
            assert!(owners.iter().all(|owner| whole.contains(owner)), "cut at {cut}: {owners:?}");
        }
    }
}

#[test]
fn blocks_that_contradict_themselves_are_counted_and_passed() {
    for order in [LITTLE, BIG] {
        let mut file = File::new(order);
        let head = order.four(32_622);
        // No entry, an entry longer than its block, one without a number, an option beyond it; an
        // entry of another kind is none of these.
        for entry in [&[][..], &[3, 100], &[3, 0], &[3, 8, 7, 0x00ff_0002], &[99, 0]] {
            file.bytes.extend(order.block(0xbad, &[&head[..], &LITTLE.words(entry)].concat()));
        }
        file.bytes.extend(order.block(0x8000_0001, &[&order.four(8)[..], &order.two(2), &order.two(200)].concat()));
        // The damaged one has its place.
        file.event(9, "nginx");
        file.ack(CLIENT, SERVER, &[file.place(1), file.flags(OUT)]);
        file.ack(SERVER, CLIENT, &[file.place(0), file.flags(OUT)]);
        let (owners, problems) = owners(&file.bytes);
        assert_eq!((owners, problems), (vec!["10.0.0.1:4000 nginx[9]".into(), "10.0.0.2:80 [8]".into()], 5));
        let mut packets = PacketReader::from_bytes(&file.bytes).expect("a capture");
        while packets.next_packet().expect("memory").is_some() {}
        let counts = [Problem::BadRecord, Problem::BadOption].map(|problem| packets.problems().count(problem));
        assert_eq!(counts, [3, 2]);
    }
}

/// The files are what they say: tshark reads them without complaint.
#[test]
fn tshark_reads_the_same_files() {
    tier::needs!(tier::Need::Program("tshark"));
    for order in [LITTLE, BIG] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&all(order).bytes).unwrap();
        let out = Command::new("tshark").args(["-n", "-Y", "tcp", "-r"]).arg(file.path()).output().unwrap();
        let complaints = String::from_utf8(out.stderr).unwrap();
        assert!(
            out.status.success() && complaints.lines().all(|line| line.starts_with("Running as user")),
            "{complaints}"
        );
        assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 5);
    }
}
