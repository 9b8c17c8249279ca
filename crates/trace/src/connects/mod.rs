//! How connections are set up and how they end: every attempt of the target, also one that fails.
//!
//! The sends' programs of socket operations write a record for each attempt to the storage of its
//! socket (`bpf/connects.h`). This probe adds what takes programs beside them (`connects.bpf.c`),
//! and makes events of the records. None of its programs runs for other sockets, but for one look
//! at each change of state of the machine's TCP sockets, and at each `accept()` where the kernel
//! takes a program on the function's return.

mod decode;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use record::{Connect, Event, Instant, Lost, Monotonic, Nanos};

use crate::decode::DecodeError;
use crate::layout::{Plain as _, RECORD_CONNECT, RECORD_SET_UP, RawConnect, RawConnectLost, RawRequest, RawRequestKey};
use crate::memory::Memory;
use crate::object::{self, compiled};
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::refusal::Refusal;
use crate::sizes::Sizes;
use crate::{Config, Error, Target};

/// Programs that have to load.
const NEEDED: [Planned; 3] =
    [("reset_received", At::Section), ("answered_again", At::Section), ("state_set", At::Section)];
/// What gives the moment of `accept()`, the best first.
const WAYS: [&[Planned]; 3] = [
    &[("accept_returned", At::Section)],
    &[("accept_returned_before", At::Section)],
    &[("peer_asked4", At::Cgroup), ("peer_asked6", At::Cgroup)],
];
/// Maps that belong to the sending side.
const SHARED: [&str; 11] = [
    "sockets",
    "records",
    "controls",
    "pids",
    "pids_full",
    "ports",
    "peers",
    "cgroups",
    "setup_retries",
    "requests",
    "connect_losses",
];

/// How long a SYN-ACK without an answer may still be retransmitted: the kernel's longest time
/// between two.
const NO_LONGER_ASKED: Nanos = Nanos::from_secs(130);

/// The probe of connections.
pub(crate) struct Connects;

impl Probe for Connects {
    fn what(&self) -> &'static str {
        "the setup of connections"
    }

    fn wanted(&self, config: &Config) -> bool {
        config.wants_connects()
    }

    /// Its tables are the sending side's.
    fn memory(&self, _: &Config, _: Sizes) -> Memory {
        Memory::default()
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground
            .map_err(ToString::to_string)
            .and_then(|ground| load(ground).map(|(_, asked)| asked).map_err(|error| error.of(self.what()).reason()));
        vec![
            Tried {
                name: "connection_setup",
                purpose: "how connections are set up and end: tracepoints that run where a RST comes, a SYN-ACK is retransmitted, or a TCP \
                          socket changes its state",
                instead: "nothing: trace needs it",
                state: loaded.clone().map(drop),
            },
            Tried {
                name: "accept_stage",
                purpose: "when a program accepts a connection: a program on the return of inet_csk_accept(), which runs at each accept() \
                          of this machine",
                instead: "the getpeername hook of the target's cgroup, which shows the accept() calls that ask for the peer's address",
                state: loaded.and_then(|asked| asked.map_or(Ok(()), |refusal| Err(refusal.to_string()))),
            },
        ]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let (programs, refusal) = load(ground)?;
        let object = programs.object();
        let missing = refusal.map(|why| Missing {
            what: Unseen::Accept,
            reason: format!("the kernel takes no program on the return of inet_csk_accept(): {why}"),
        });
        Ok(Box::new(Connecting {
            requests: object::map(object, "requests")?,
            losses: object::map(object, "connect_losses")?,
            target: ground.config.target.clone(),
            missing: missing.into_iter().collect(),
            programs,
        }))
    }
}

/// The probe while it is at work.
struct Connecting {
    programs: Programs,
    requests: MapHandle,
    losses: MapHandle,
    target: Target,
    missing: Vec<Missing>,
}

impl Connecting {
    /// Takes out the SYNs that came before `until` and were never answered by an ACK.
    fn unanswered(&self, until: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        let keys: Vec<_> = self.requests.keys().collect();
        for bytes in keys {
            let Ok(Some(value)) = self.requests.lookup(&bytes, MapFlags::ANY) else { continue };
            let (Some(key), Some(request)) = (RawRequestKey::from_bytes(&bytes), RawRequest::from_bytes(&value)) else {
                continue;
            };
            let connect = decode::unanswered(&key, &request);
            if connect.stamps.syn.is_none_or(|syn| syn >= until) {
                continue;
            }
            // Where the ACK has come meanwhile there is nothing to delete, and the record of the
            // socket is the one that counts.
            if self.requests.delete(&bytes).is_ok() && self.aimed_at(&connect) {
                out.push_back(Event::Connect(Box::new(connect)));
            }
        }
    }

    /// Whether the target's ports and peers are those of a connection that has no socket, which the
    /// kernel part has not asked of it.
    fn aimed_at(&self, connect: &Connect) -> bool {
        self.target.matches_addresses(connect.local, connect.remote)
    }
}

impl Loaded for Connecting {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_CONNECT..=RECORD_SET_UP
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let raw: RawConnect = crate::decode::raw(record)?;
        let connect = decode::connect(&raw)?;
        out.push_back(match raw.kind {
            RECORD_SET_UP => Event::SetUp(Box::new(connect)),
            _ => Event::Connect(Box::new(connect)),
        });
        Ok(())
    }

    fn tick(&mut self, now: Instant<Monotonic>, out: &mut VecDeque<Event>) {
        self.unanswered(Instant::from_nanos(now.as_nanos().saturating_sub(NO_LONGER_ASKED.0)), out);
    }

    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error> {
        self.unanswered(Instant::from_nanos(u64::MAX), out);
        Ok(())
    }

    fn lost(&self) -> Lost {
        object::sum_per_cpu::<RawConnectLost>(&self.losses).as_ref().map(decode::lost).unwrap_or_default()
    }

    fn observation(&self) -> Observation {
        let everywhere = "to see when connections are accepted, a program runs at each accept() of this machine";
        let host_wide = self.missing.is_empty().then_some(everywhere);
        Observation {
            observed: Observed::Connects,
            missing: self.missing.clone(),
            host_wide: host_wide.into_iter().collect(),
        }
    }
}

/// Loads the object by the best way to see `accept()`; where that is not the first kind, with the
/// reason.
fn load(ground: &Ground<'_>) -> Result<(Programs, Option<Refusal>), LoadError> {
    let mut first = None;
    for way in WAYS {
        match load_with(ground, way) {
            Ok(programs) => {
                let cgroup = way.iter().any(|(_, at)| *at == At::Cgroup);
                return Ok((programs, first.filter(|_| cgroup)));
            }
            Err(LoadError::Refused(why)) => first = first.or(Some(why)),
            Err(failed) => return Err(failed),
        }
    }
    Err(LoadError::Refused(first.unwrap_or(Refusal::All(Vec::new()))))
}

fn load_with(ground: &Ground<'_>, way: &[Planned]) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled!("connects"), "wirelapse_setup", &ground.raw, ground.sizes)?;
    object::set_maps(&mut object, |name, map| match name {
        name if name.starts_with(".rodata") || SHARED.contains(&name) => Ok(()),
        _ => map.set_autocreate(false),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, NEEDED.into_iter().chain(way.iter().copied()).collect(), ground.cgroups)
}
