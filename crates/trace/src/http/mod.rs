//! What the packets of followed connections begin with: method and path of requests of HTTP/1 and
//! the status of their answers, and what shows that a connection carries something else.
//!
//! The connections are those that the sending side follows; this probe shares its storage of
//! sockets. Its two programs run for every packet of sockets in the target's cgroups, which are all
//! of the machine where the target names none, and return at the first look where the socket is not
//! followed.
//!
//! **Privacy:** the kernel part hands on no byte of a query, and of what follows the first line the
//! value of the header `traceparent` alone. Of a ClientHello it hands on all; only the list of
//! protocols and the name of the server are looked at.

mod parse;
mod traceparent;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use libbpf_rs::MapHandle;
use record::{ConnectionId, Direction, Event, Head, Lost, Says, SeqNumber};

use crate::decode::DecodeError;
use crate::layout::{
    HEAD_HELLO, HEAD_LINE, HEAD_STATEMENTS, HEAD_TRACEPARENT, Plain as _, RECORD_HEAD, RawHead, RawHttpConfig,
    RawHttpLost,
};
use crate::memory::Memory;
use crate::object::{self, compiled};
use crate::probe::{Ground, Loaded, Observation, Observed, Probe, Tried};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::sizes::Sizes;
use crate::{Config, Error};

/// Its programs.
const PROGRAMS: [Planned; 2] = [("leaves", At::Cgroup), ("comes", At::Cgroup)];
/// Maps that belong to the sending side.
const SHARED: [&str; 2] = ["sockets", "records"];
/// The map that only this probe has.
const LOSSES: &str = "http_losses";

/// The probe of what packets begin with.
pub(crate) struct Beginnings;

impl Probe for Beginnings {
    fn what(&self) -> &'static str {
        "the beginnings of packets"
    }

    fn wanted(&self, config: &Config) -> bool {
        config.http || config.hellos
    }

    /// One counter for each CPU; what it knows of sockets is the sending side's.
    fn memory(&self, _: &Config, _: Sizes) -> Memory {
        Memory::default()
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground.map_err(ToString::to_string);
        vec![Tried {
            name: "http_labels",
            purpose: "method and path of requests (--http): two programs that run for every packet of sockets in the target's cgroups, of \
                      this machine where the target is no cgroup, and return at once where the socket is not traced",
            instead: "nothing: --http needs it",
            state: loaded.and_then(|ground| load(ground).map(drop).map_err(|error| error.of(self.what()).reason())),
        }]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let programs = load(ground)?;
        Ok(Box::new(Reading {
            losses: object::map(programs.object(), LOSSES)?,
            everywhere: ground.config.target.cgroups.is_empty(),
            programs,
        }))
    }
}

/// The probe while it is at work.
struct Reading {
    programs: Programs,
    losses: MapHandle,
    /// Whether its programs run for all sockets of the machine.
    everywhere: bool,
}

impl Loaded for Reading {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_HEAD..=RECORD_HEAD
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        out.extend(head(record)?.map(|head| Event::Head(Box::new(head))));
        Ok(())
    }

    fn give_up(&mut self, _out: &mut VecDeque<Event>) -> Result<(), Error> {
        Ok(())
    }

    fn lost(&self) -> Lost {
        let lost = object::sum_per_cpu::<RawHttpLost>(&self.losses);
        Lost { http_ring_buffer: lost.map_or(0, |lost| lost.ring_buffer), ..Lost::default() }
    }

    fn observation(&self) -> Observation {
        let everywhere = "to read what packets begin with, a program runs for each packet that a socket of this machine sends or receives; it \
                          returns at the first look where the socket is not traced";
        Observation {
            observed: Observed::Http,
            missing: Vec::new(),
            host_wide: self.everywhere.then_some(everywhere).into_iter().collect(),
        }
    }
}

fn load(ground: &Ground<'_>) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled!("http"), "wirelapse_http", &ground.raw, ground.sizes)?;
    let config = RawHttpConfig { hellos_only: (!ground.config.http).into() };
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.reading" => map.set_initial_value(config.as_bytes()),
        name if name.starts_with(".rodata") || name == LOSSES || SHARED.contains(&name) => Ok(()),
        _ => map.set_autocreate(false),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, PROGRAMS.to_vec(), ground.cgroups)
}

/// Reads a record of `head_record.h` and the bytes that follow it; `None` where they say nothing.
///
/// # Errors
/// [`DecodeError`] where it is no such record.
pub(crate) fn head(record: &[u8]) -> Result<Option<Head>, DecodeError> {
    let raw: RawHead = crate::decode::raw(record)?;
    let (have, need) = (record.len(), size_of::<RawHead>() + usize::from(raw.bytes));
    let bytes = record.get(size_of::<RawHead>()..need).ok_or(DecodeError::Truncated { have, need })?;
    let says = match raw.says.into() {
        HEAD_LINE => parse::line(bytes),
        HEAD_HELLO => Some(Says::Tls { h2: parse::offers_h2(bytes), server: parse::server_name(bytes) }),
        HEAD_STATEMENTS => Some(Says::Statements(raw.statements)),
        HEAD_TRACEPARENT => traceparent::parse(bytes).map(Says::Trace),
        other => return Err(DecodeError::Malformed { field: "says", value: other }),
    };
    Ok(says.map(|says| Head {
        connection: ConnectionId(raw.cookie),
        direction: if raw.sent != 0 { Direction::Sent } else { Direction::Received },
        first_seq: SeqNumber(raw.first),
        says,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(change: impl FnOnce(&mut RawHead), bytes: &[u8]) -> Vec<u8> {
        let mut raw =
            RawHead { kind: RECORD_HEAD, first: 7, cookie: 9, bytes: bytes.len() as u16, ..RawHead::zeroed() };
        change(&mut raw);
        [raw.as_bytes(), bytes].concat()
    }

    #[test]
    fn a_record_says_what_its_bytes_begin_with() {
        let line = record(|raw| raw.sent = 1, b"HTTP/1.1 204 No Content\r\n");
        let said = head(&line).unwrap().unwrap();
        assert_eq!((said.connection.0, said.first_seq.0, said.direction), (9, 7, Direction::Sent));
        assert_eq!(said.says, Says::Answer(204));
        let statements = record(|raw| (raw.says, raw.statements) = (HEAD_STATEMENTS as u8, 3), b"");
        let said = head(&statements).unwrap().unwrap();
        assert_eq!((said.says, said.direction), (Says::Statements(3), Direction::Received));
        let trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r";
        let said = head(&record(|raw| raw.says = HEAD_TRACEPARENT as u8, trace)).unwrap().unwrap();
        assert!(matches!(said.says, Says::Trace(trace) if trace.sampled), "{:?}", said.says);
        let hello = record(|raw| raw.says = HEAD_HELLO as u8, &[0x16, 3, 1]);
        assert_eq!(head(&hello).unwrap().unwrap().says, Says::Tls { h2: None, server: None });
        assert_eq!(head(&record(|_| {}, b"GET key\r\n")).unwrap(), None);
    }

    #[test]
    fn a_record_that_is_cut_short_or_says_what_none_says_is_an_error() {
        let whole = record(|_| {}, b"GET / HTTP/1.1\r\n");
        for end in 0..whole.len() {
            let error = head(&whole[..end]).unwrap_err();
            assert!(matches!(error, DecodeError::Truncated { have, .. } if have == end), "{end}: {error}");
        }
        let unknown = head(&record(|raw| raw.says = 9, b""));
        assert_eq!(unknown, Err(DecodeError::Malformed { field: "says", value: 9 }));
    }
}
