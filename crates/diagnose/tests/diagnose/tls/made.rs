//! Small captures of TLS, made packet by packet.

use std::net::SocketAddrV4;

use diagnose::{Follower, Options};
use record::tls::{Handshake, TlsFinding, TlsFindingKind};
use record::transaction::Transaction;
use wire::{Flags, PacketReader};

use crate::dns::made::{CLIENT, Made, follow};

pub const TLS12: u16 = 0x0303;
pub const TLS13: u16 = 0x0304;

fn list16(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u16).to_be_bytes(), data].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &list16(data)].concat()
}

pub fn record(content: u8, data: &[u8]) -> Vec<u8> {
    [&[content, 3, 3][..], &list16(data)].concat()
}

pub fn message(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, 0][..], &list16(data)].concat()
}

/// A record that is encrypted, of so many bytes.
pub fn data(bytes: u16) -> Vec<u8> {
    record(23, &vec![7; bytes.into()])
}

/// The record by which a side changes to encryption.
pub fn change() -> Vec<u8> {
    record(20, &[1])
}

/// A client's hello for this name, with a session that it wants to go on with or none, of TLS 1.3
/// and 1.2 or of 1.2 alone.
pub fn client_hello(name: &str, session: &[u8], versions: &[u16], protocols: &[u8]) -> Vec<u8> {
    let versions: Vec<u8> = versions.iter().flat_map(|v| v.to_be_bytes()).collect();
    let extensions = [
        extension(0, &list16(&[&[0][..], &list16(name.as_bytes())].concat())),
        extension(16, &list16(protocols)),
        extension(43, &[&[versions.len() as u8][..], &versions].concat()),
        extension(51, &list16(&[&[0, 0x1d][..], &list16(&[9; 32])].concat())),
    ];
    let hello = [
        &[3, 3][..],
        &[1; 32],
        &[session.len() as u8],
        session,
        &list16(&[0x13, 1]),
        &[1, 0],
        &list16(&extensions.concat()),
    ];
    record(22, &message(1, &hello.concat()))
}

/// A server's hello, or the wish for a key of secp384r1.
pub fn server_hello(version: u16, is_retry: bool) -> Vec<u8> {
    let retry = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c";
    let random: Vec<u8> = match is_retry {
        true => (0..32).map(|i| u8::from_str_radix(&retry[2 * i..2 * i + 2], 16).unwrap()).collect(),
        false => vec![5; 32],
    };
    let extensions = match (version, is_retry) {
        (TLS13, true) => [extension(43, &TLS13.to_be_bytes()), extension(51, &[0, 0x18])].concat(),
        (TLS13, false) => [extension(43, &TLS13.to_be_bytes()), extension(51, &[0, 0x1d, 0, 0])].concat(),
        _ => Vec::new(),
    };
    let hello = [&[3, 3][..], &random, &[0, 0x13, 1, 0], &list16(&extensions)];
    record(22, &message(2, &hello.concat()))
}

/// A connection being made: what each side sent so far.
pub struct Call<'m> {
    pub made: &'m mut Made,
    pub ends: [SocketAddrV4; 2],
    /// The next sequence number of the client, and of the server.
    pub next: [u32; 2],
}

impl<'m> Call<'m> {
    /// One to a server from this port of the client, whose SYN is answered after `trip`.
    pub fn new(made: &'m mut Made, at: u64, port: u16, server: SocketAddrV4, trip: u64) -> Self {
        let mut call = Self { made, ends: [SocketAddrV4::new(CLIENT, port), server], next: [99, 499] };
        call.send(at, 0, Flags::SYN, &[]);
        call.send(at + trip, 1, Flags::SYN | Flags::ACK, &[]);
        call.send(at + trip + 1_000, 0, Flags::ACK, &[]);
        call
    }

    pub fn send(&mut self, at: u64, side: usize, flags: Flags, payload: &[u8]) {
        let ends = (self.ends[side], self.ends[1 - side]);
        let ack = if flags.contains(Flags::ACK) { self.next[1 - side] } else { 0 };
        self.made.tcp(at, ends, (self.next[side], ack), flags, payload);
        let control = flags.intersects(Flags::SYN | Flags::FIN);
        self.next[side] = self.next[side].wrapping_add(payload.len() as u32 + u32::from(control));
    }

    /// The client sends these records.
    pub fn client(&mut self, at: u64, records: &[Vec<u8>]) {
        self.send(at, 0, Flags::ACK | Flags::PSH, &records.concat());
    }

    /// The server sends these records.
    pub fn server(&mut self, at: u64, records: &[Vec<u8>]) {
        self.send(at, 1, Flags::ACK | Flags::PSH, &records.concat());
    }
}

/// What was found in a capture.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub handshakes: Vec<Handshake>,
    pub findings: Vec<TlsFinding>,
    pub transactions: Vec<Transaction>,
    pub names: Vec<String>,
}

impl Read {
    pub fn only(&self) -> &Handshake {
        assert_eq!(self.handshakes.len(), 1, "{self:#?}");
        &self.handshakes[0]
    }

    pub fn kinds(&self) -> Vec<TlsFindingKind> {
        self.findings.iter().map(|f| f.kind).collect()
    }
}

pub fn of(follower: &Follower) -> Read {
    let (dns, tls) = (follower.dns.analysis(), follower.tls_analysis());
    Read {
        handshakes: tls.handshakes().cloned().collect(),
        findings: tls.findings().to_vec(),
        transactions: follower.transactions(&dns, &tls, &follower.quic_analysis()),
        names: tls.names().into_iter().map(|(address, names)| format!("{address} {}", names.join(" "))).collect(),
    }
}

pub fn read(file: &[u8]) -> Read {
    of(&follow(PacketReader::from_bytes(file).unwrap(), Options::default()))
}
