//! Names that the target asks for: each question of DNS with its answer, by the datagrams of the
//! target's own sockets, and over TCP by their segments. And, where that is wanted, how long other
//! datagrams of UDP wait for their answers where they alternate ([`Exchange`]).
//!
//! UDP sockets are picked up when a task of the target makes one, and by an iterator; TCP sockets
//! are those that the sending side follows. Questions and answers are joined, and the tries of a
//! lookup put together, by [`diagnose::dns::Live`], separately for each process.
//!
//! What reaches beyond the target: two programs run for each packet that a socket of the machine
//! sends or receives. For TCP they compare one port, for UDP they look whether the socket is of the
//! target, and return.
//!
//! **Privacy:** only what goes to or comes from the ports of servers is handed to user space, and
//! of that no more is kept than the name, the type, the code and the addresses found.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

use diagnose::dns::{Live, Totals};
use libbpf_rs::MapHandle;
use record::{Comm, ConnectionId, Event, Exchange, Instant, Lost, Monotonic, Nanos, Owner, Question, Role, SeqNumber};
use wire::Flags;
use wire::packet::Span;

use crate::decode::{DecodeError, address, kind, raw};
use crate::layout::{
    DNS_PORTS, DNS_SENT, DNS_TCP, EXCHANGE_OVER, EXCHANGE_QUIC, EXCHANGE_SERVER, Plain as _, RECORD_DNS,
    RECORD_EXCHANGE, RawDns, RawDnsConfig, RawDnsLost, RawExchange, RawUdpInfo, RawUdpTurns,
};
use crate::memory::{Memory, storage_of};
use crate::object::{self, compiled};
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::sizes::Sizes;
use crate::{Config, Error};

/// Its programs.
const PROGRAMS: [Planned; 5] = [
    ("dns_sent", At::Cgroup),
    ("dns_received", At::Cgroup),
    ("udp_made", At::Cgroup),
    ("udp_held", At::Files),
    ("find_udp", At::Passes),
];
/// Maps that belong to the sending side.
const SHARED: [&str; 8] = ["sockets", "records", "controls", "pids", "pids_full", "ports", "peers", "cgroups"];
/// Questions of all programs that are kept until they are over.
const QUESTIONS: usize = 65_536;
/// Processes whose questions are kept at a time.
const PROCESSES: usize = 1_024;

/// So long after the last message, what is left of one over TCP is forgotten with its process.
const STREAM_STAYS: u64 = 60_000_000_000;

const _: () = assert!(DNS_PORTS as usize == Question::MOST_PORTS);

/// The probe of names.
pub(crate) struct Names;

impl Probe for Names {
    fn what(&self) -> &'static str {
        "DNS"
    }

    fn wanted(&self, config: &Config) -> bool {
        !config.dns.is_empty() || config.exchanges
    }

    /// Each UDP socket of the target takes a block or two more, however many there are.
    fn memory(&self, config: &Config, _: Sizes) -> Memory {
        let turns = if config.exchanges { storage_of::<RawUdpTurns>() } else { 0 };
        Memory { connections: storage_of::<RawUdpInfo>() + turns, ..Memory::default() }
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground.map_err(ToString::to_string);
        vec![Tried {
            name: "dns",
            purpose: "names that are asked for, with the answers and their times: two programs that run for every packet of the sockets \
                      of this machine and return at once where it is none of DNS, or the socket is not traced",
            instead: "nothing: the trace has no lookups (--no-dns)",
            state: loaded
                .and_then(|ground| load(ground, &PROGRAMS).map(drop).map_err(|error| error.of(self.what()).reason())),
        }]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        // It is not what a trace is asked for: where the kernel does not take it, there is the
        // rest.
        let (programs, refused) = match load(ground, &PROGRAMS) {
            Err(LoadError::Refused(why)) => (load(ground, &[])?, Some(why)),
            loaded => (loaded?, None),
        };
        let missing = refused.map(|why| Missing { what: Unseen::Dns, reason: why.to_string() }).into_iter().collect();
        let losses = object::map(programs.object(), "dns_losses")?;
        Ok(Box::new(Asking { losses, lookups: Lookups::default(), missing, programs }))
    }
}

/// The probe while it is at work.
struct Asking {
    programs: Programs,
    losses: MapHandle,
    lookups: Lookups,
    missing: Vec<Missing>,
}

impl Loaded for Asking {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_DNS..=RECORD_EXCHANGE
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        if kind(record)? == RECORD_EXCHANGE {
            out.push_back(Event::Exchange(Box::new(exchange(record)?)));
            return Ok(());
        }
        self.lookups.take(record)
    }

    fn tick(&mut self, now: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        self.lookups.tick(now, out);
    }

    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error> {
        self.lookups.end(timestamping::now(), out);
        Ok(())
    }

    fn lost(&self) -> Lost {
        let lost = object::sum_per_cpu::<RawDnsLost>(&self.losses);
        Lost { dns_ring_buffer: lost.map_or(0, |lost| lost.ring_buffer), ..self.lookups.lost() }
    }

    fn observation(&self) -> Observation {
        let all = "to see DNS, a program runs for each packet that a socket of this machine sends or receives, and for each socket made; it \
                   returns at once where the packet is of TCP on another port, or the socket is not traced";
        let host_wide = self.missing.is_empty().then_some(all).into_iter().collect();
        Observation { observed: Observed::Dns, missing: self.missing.clone(), host_wide }
    }
}

fn load(ground: &Ground<'_>, plan: &[Planned]) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled!("dns"), "wirelapse_dns", &ground.raw, ground.sizes)?;
    let mut ports = [0; Question::MOST_PORTS];
    ports.iter_mut().zip(&ground.config.dns).for_each(|(to, port)| *to = *port);
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.asking" => {
            map.set_initial_value(RawDnsConfig { ports, exchanges: ground.config.exchanges.into() }.as_bytes())
        }
        _ => Ok(()),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, plan.to_vec(), ground.cgroups)
}

/// Reads a record of `exchange_record.h`.
///
/// # Errors
/// [`DecodeError`] where it is no such record.
fn exchange(record: &[u8]) -> Result<Exchange, DecodeError> {
    let of: RawExchange = raw(record)?;
    let has = |mark| of.marks & mark != 0;
    Ok(Exchange {
        socket: ConnectionId(of.cookie),
        owner: Owner { pid: of.pid, comm: Comm(of.comm) },
        cgroup: (of.cgroup != 0).then_some(of.cgroup),
        local: address(of.local, of.local_port),
        peer: address(of.peer, of.peer_port),
        role: if has(EXCHANGE_SERVER) { Role::Server } else { Role::Client },
        asked: Instant::from_nanos(of.asked),
        took: has(EXCHANGE_OVER).then_some(Nanos(of.took)),
        is_quic: has(EXCHANGE_QUIC),
        times: of.times,
    })
}

/// A process that asks.
struct Asker {
    comm: Comm,
    cgroup: Option<u64>,
    live: Live,
    /// Its latest message.
    last: u64,
}

impl Asker {
    /// Whether it has anything that a further message may go on with.
    fn is_busy(&self, now: u64) -> bool {
        self.live.open() > 0 || !self.live.is_idle() && now.saturating_sub(self.last) < STREAM_STAYS
    }
}

/// The lookups of all processes, as far as they are not over.
#[derive(Default)]
struct Lookups {
    by_process: HashMap<u32, Asker>,
    /// Questions that are not over, at the last tick and what has come since.
    open: usize,
    /// Lookups that were handed on.
    numbered: u64,
    /// Counts of those that are not kept any more.
    totals: Totals,
    full: u64,
}

impl Lookups {
    fn take(&mut self, record: &[u8]) -> Result<(), DecodeError> {
        let of: RawDns = raw(record)?;
        let (have, need) = (record.len(), size_of::<RawDns>() + usize::from(of.captured));
        let data = record.get(size_of::<RawDns>()..need).ok_or(DecodeError::Truncated { have, need })?;
        let is_full =
            self.open >= QUESTIONS || self.by_process.len() >= PROCESSES && !self.by_process.contains_key(&of.pid);
        if is_full {
            self.full += 1;
            return Ok(());
        }
        let fresh = || Asker {
            comm: Comm::default(),
            cgroup: None,
            live: Live::new(QUESTIONS, [of.at, of.pid.into()]),
            last: of.at,
        };
        let asker = self.by_process.entry(of.pid).or_insert_with(fresh);
        (asker.comm, asker.last) = (Comm(of.comm), of.at);
        asker.cgroup = (of.cgroup != 0).then_some(of.cgroup);
        let live = &mut asker.live;
        let (local, server) = (address(of.local, of.local_port), address(of.server, of.server_port));
        let is_sent = u32::from(of.marks) & DNS_SENT != 0;
        let (source, destination) = if is_sent { (local, server) } else { (server, local) };
        let (span, before) = (Span { data, wire: of.payload }, live.open());
        if u32::from(of.marks) & DNS_TCP == 0 {
            live.datagram(source, destination, of.at, span);
        } else {
            live.segment(
                (source, destination),
                (SeqNumber(of.first_seq), Flags::from_bits_retain(of.flags.into())),
                of.at,
                span,
            );
        }
        self.open += live.open() - before;
        Ok(())
    }

    fn tick(&mut self, now: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        let now = now.as_nanos();
        self.hand_on(out, |live| live.over(now));
        let totals = &mut self.totals;
        self.by_process.retain(|_, asker| {
            let stays = asker.is_busy(now);
            if !stays {
                totals.add(&asker.live.totals());
            }
            stays
        });
        self.open = self.by_process.values().map(|asker| asker.live.open()).sum();
    }

    fn end(&mut self, now: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        self.hand_on(out, |live| live.end(now.as_nanos()));
        self.totals = self.totals();
        self.by_process.clear();
        self.open = 0;
    }

    /// Hands lookups on, numbered in the order of their first questions.
    fn hand_on(&mut self, out: &mut VecDeque<Event>, over: impl Fn(&mut Live) -> Vec<Vec<Question>>) {
        let mut all: Vec<Vec<Question>> = Vec::new();
        for (&pid, asker) in &mut self.by_process {
            let (owner, cgroup) = (Owner { pid, comm: asker.comm }, asker.cgroup);
            let own = |of: Question| Question { owner, cgroup, ..of };
            all.extend(over(&mut asker.live).into_iter().map(|tries| tries.into_iter().map(own).collect()));
        }
        all.sort_by_key(|tries| tries.first().map(|first| first.asked));
        for tries in all {
            self.numbered += 1;
            let lookup = self.numbered;
            out.extend(tries.into_iter().map(|of| Question { lookup, ..of }.into()));
        }
    }

    fn totals(&self) -> Totals {
        let mut all = self.totals;
        self.by_process.values().for_each(|asker| all.add(&asker.live.totals()));
        all
    }

    fn lost(&self) -> Lost {
        let totals = self.totals();
        Lost {
            dns_full: self.full + totals.beyond_limit,
            dns_unread: totals.malformed + totals.truncated + totals.other + totals.gaps,
            dns_without_question: totals.without_question + totals.answered_again,
            ..Lost::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question for `a.b`, or the answer that there is no such name.
    fn message(pid: u32, id: u16, sent: bool, at: u64) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let (flags, code) = if sent { (1, 0) } else { (0x81, 3) };
        let mut bytes = vec![high, low, flags, code, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x01b\x00\x00\x1c\x00\x01");
        let raw = RawDns {
            kind: RECORD_DNS,
            pid,
            at,
            payload: bytes.len() as u32,
            captured: bytes.len() as u16,
            marks: if sent { DNS_SENT as u8 } else { 0 },
            server_port: 53,
            local_port: 4_000,
            ..RawDns::zeroed()
        };
        [raw.as_bytes(), &bytes].concat()
    }

    fn handed_on(lookups: &mut Lookups, at: u64) -> Vec<Question> {
        let mut out = VecDeque::new();
        lookups.tick(Instant::from_nanos(at), &mut out);
        let question = |event| if let Event::Question(question) = event { *question } else { panic!("{event:?}") };
        out.into_iter().map(question).collect()
    }

    #[test]
    fn each_process_has_its_own_lookups_and_is_forgotten_after_them() {
        let mut lookups = Lookups::default();
        // The same name and number, by two programs at the same time.
        for pid in [7, 8] {
            lookups.take(&message(pid, 1, true, 1_000)).unwrap();
        }
        lookups.take(&message(8, 1, false, 3_000)).unwrap();
        assert_eq!(lookups.open, 2);
        let of = handed_on(&mut lookups, 4_000);
        assert_eq!(of.len(), 1);
        assert_eq!((of[0].owner.pid, of[0].lookup, of[0].took), (8, 1, Some(Nanos(2_000))));
        assert_eq!(
            (of[0].name.as_str(), of[0].kind.as_str(), of[0].code.as_deref()),
            ("a.b", "AAAA", Some("NXDOMAIN"))
        );
        lookups.take(&message(7, 1, false, 5_000)).unwrap();
        assert_eq!(handed_on(&mut lookups, 6_000)[0].lookup, 2);
        assert_eq!((lookups.by_process.len(), lookups.open), (0, 0));
        lookups.take(&message(7, 9, false, 7_000)).unwrap();
        assert_eq!(lookups.lost().dns_without_question, 1);
    }

    #[test]
    fn bytes_that_are_no_dns_are_counted_and_a_record_that_is_cut_short_is_an_error() {
        let mut lookups = Lookups::default();
        let whole = message(7, 1, true, 1);
        for end in 0..whole.len() {
            assert!(matches!(lookups.take(&whole[..end]), Err(DecodeError::Truncated { .. })), "{end}");
        }
        let mut other = message(7, 1, true, 1);
        other[size_of::<RawDns>() + 4] = 0xff;
        lookups.take(&other).unwrap();
        assert_eq!((lookups.lost().dns_unread, lookups.open), (1, 0));
    }

    #[test]
    fn an_exchange_is_read_or_is_too_short() {
        let raw = RawExchange {
            kind: RECORD_EXCHANGE,
            pid: 7,
            cookie: 9,
            asked: 1_000,
            took: 250,
            marks: EXCHANGE_OVER | EXCHANGE_SERVER,
            times: 3,
            peer_port: 443,
            ..RawExchange::zeroed()
        };
        let of = exchange(raw.as_bytes()).unwrap();
        assert_eq!((of.socket, of.owner.pid, of.cgroup, of.role), (ConnectionId(9), 7, None, Role::Server));
        assert_eq!((of.took, of.is_quic, of.times, of.peer.port()), (Some(Nanos(250)), false, 3, 443));
        let begun = RawExchange { marks: EXCHANGE_QUIC, ..raw };
        let of = exchange(begun.as_bytes()).unwrap();
        assert_eq!((of.took, of.is_quic, of.role), (None, true, Role::Client));
        let end = raw.as_bytes().len() - 1;
        assert!(matches!(exchange(&raw.as_bytes()[..end]), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn beyond_so_many_processes_messages_are_counted() {
        let mut lookups = Lookups::default();
        for pid in 1..=PROCESSES as u32 + 3 {
            lookups.take(&message(pid, 1, true, 1)).unwrap();
        }
        assert_eq!((lookups.lost().dns_full, lookups.open), (3, PROCESSES));
    }
}
