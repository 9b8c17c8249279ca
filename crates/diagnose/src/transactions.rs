//! Transactions: what a host did to reach a name, from the question for its addresses to the last
//! byte of the first answer.
//!
//! Nothing in packets says which connection a question was asked for. They are joined by the
//! client, the address in the answer, and time; a name in a TLS hello makes the join certain, and
//! each transaction says how certain it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

use record::Nanos;
use record::conversation::Way;
use record::quic::{Outcome as QuicOutcome, QuicConnection};
use record::tls::{Handshake, Outcome};
use record::transaction::{Certainty, Transaction};

use crate::connection::Connection;
use crate::dns::Resolved;
use crate::idle::FirstTurns;
use crate::network::{NextHop, NextHops};
use crate::quic::Reached;

/// A connection that begins this long after the answer did not wait for it, ns.
const WAITED: u64 = 1_000_000_000;
/// An attempt to connect that is given up is followed by the next one within this, ns: four SYNs
/// of Linux.
const ATTEMPT: u64 = 15_000_000_000;
/// The next question of a search follows the answer to the one before within this, ns.
const AT_ONCE: u64 = 20_000_000;
/// Lookups that are considered for a connection: the latest ones before it.
const LOOKUPS: usize = 256;
/// Transactions at most.
const MOST: usize = 200_000;

/// What there is of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    number: u64,
    /// It is one of QUIC.
    quic: Option<&'a QuicConnection>,
    client: SocketAddr,
    server: SocketAddr,
    /// Its first packet; the SYN, where that is in the capture.
    start: u64,
    turns: FirstTurns,
    /// The last data of each side; 0 without any.
    client_last: u64,
    server_last: u64,
    /// Bytes of the server.
    server_bytes: u64,
}

impl<'a> Call<'a> {
    pub(crate) fn new(number: usize, c: &Connection) -> Self {
        Self {
            number: number as u64,
            quic: None,
            client: c.client(),
            server: c.server(),
            start: c.first_syn_at.map_or(c.first_at, NonZeroU64::get),
            turns: c.idle.as_ref().map(|idle| idle.turns).unwrap_or_default(),
            client_last: c.halves[Way::ToServer].last_data_at,
            server_last: c.halves[Way::ToClient].last_data_at,
            server_bytes: c.halves[Way::ToClient].count.unique_bytes,
        }
    }

    pub(crate) fn over_quic(of: Reached<'a>) -> Self {
        let row = of.row;
        Self {
            number: row.number,
            quic: Some(row),
            client: row.client,
            server: row.server,
            start: row.start_ns.0,
            turns: FirstTurns::default(),
            client_last: if row.outcome == QuicOutcome::Done { of.end } else { 0 },
            server_last: 0,
            server_bytes: row.server_bytes,
        }
    }

    /// Whether the client got as far as to use it.
    fn is_used(&self) -> bool {
        self.client_last > 0
    }
}

/// The lookups that gave an address, in the order of their first questions, and who asked.
#[derive(Debug, Default)]
pub(crate) struct Given<'a> {
    lookups: Vec<&'a Resolved<'a>>,
    clients: BTreeSet<IpAddr>,
}

pub(crate) fn given<'a>(resolved: &'a [Resolved<'a>]) -> HashMap<IpAddr, Given<'a>> {
    let mut given: HashMap<IpAddr, Given<'_>> = HashMap::new();
    for lookup in resolved.iter().filter(|lookup| lookup.end.is_some()) {
        for address in lookup.addresses {
            let of = given.entry(*address).or_default();
            of.lookups.push(lookup);
            of.clients.insert(lookup.client);
        }
    }
    given
}

/// Who asked for the address of a call: its client, or the only host that was given the address,
/// which is the same one with its address of the other family, or a resolver on it.
fn asker(call: &Call<'_>, given: Option<&Given<'_>>) -> IpAddr {
    let client = call.client.ip();
    let others = given.filter(|given| !given.clients.contains(&client) && given.clients.len() == 1);
    others.and_then(|given| given.clients.first().copied()).unwrap_or(client)
}

/// The latest of these lookups that had begun at a time.
fn latest<'l, 'a>(lookups: &'l [&'a Resolved<'a>], at: u64) -> &'l [&'a Resolved<'a>] {
    let begun = lookups.partition_point(|lookup| lookup.start <= at);
    &lookups[begun.saturating_sub(LOOKUPS)..begun]
}

/// A connection with its name.
struct Named<'a> {
    call: Call<'a>,
    certainty: Certainty,
    handshake: Option<&'a Handshake>,
    name: &'a str,
}

/// The transactions of a capture: `calls` are the connections to addresses that are `given`, those
/// with a handshake, and those of QUIC.
pub(crate) fn gather<'a>(
    calls: Vec<Call<'a>>,
    handshakes: &HashMap<u64, &'a Handshake>,
    (resolved, given): (&'a [Resolved<'a>], &HashMap<IpAddr, Given<'a>>),
    hops: &NextHops,
) -> Vec<Transaction> {
    // The connections of one host to one name, by their beginnings.
    let mut by_name: BTreeMap<(IpAddr, &str), Vec<Named<'_>>> = BTreeMap::new();
    for call in calls {
        let handshake = handshakes.get(&call.number).copied().filter(|_| call.quic.is_none());
        let given = given.get(&call.server.ip());
        let asker = asker(&call, given);
        let lookups = latest(given.map_or(&[], |given| given.lookups.as_slice()), call.start);
        let before = lookups.iter().filter(|l| l.client == asker && l.end.is_some_and(|end| end <= call.start));
        let said = handshake.and_then(|h| h.name.as_deref()).or(call.quic.and_then(|quic| quic.name.as_deref()));
        let named = said.map(|name| (name, Certainty::Named)).or_else(|| {
            let latest = before.clone().max_by_key(|lookup| lookup.end)?;
            let is_only = before.clone().all(|lookup| lookup.name == latest.name);
            Some((latest.name, if is_only { Certainty::OnlyName } else { Certainty::LatestName }))
        });
        let Some((name, certainty)) = named else { continue };
        by_name.entry((asker, name)).or_default().push(Named { call, certainty, handshake, name });
    }
    let mut lookups: HashMap<(IpAddr, &str), Vec<&Resolved<'_>>> = HashMap::new();
    for lookup in resolved {
        lookups.entry((lookup.client, lookup.name)).or_default().push(lookup);
    }
    let mut by_end: HashMap<IpAddr, Vec<&Resolved<'_>>> = HashMap::new();
    for lookup in resolved.iter().filter(|lookup| lookup.end.is_some() && lookup.addresses.is_empty()) {
        by_end.entry(lookup.client).or_default().push(lookup);
    }
    by_end.values_mut().for_each(|of| of.sort_by_key(|lookup| lookup.end));
    let mut all = Vec::new();
    for ((asker, name), mut calls) in by_name {
        calls.sort_by_key(|named| (named.call.start, named.call.number));
        let lookups = lookups.get(&(asker, name)).map(Vec::as_slice).unwrap_or_default();
        let mut attempts: Vec<&Call<'_>> = Vec::new();
        for (i, named) in calls.iter().enumerate() {
            let is_last = calls.get(i + 1).is_none_or(|next| next.call.start - named.call.start > ATTEMPT);
            if !named.call.is_used() && !is_last {
                attempts.push(&named.call);
                continue;
            }
            attempts.retain(|attempt| named.call.start - attempt.start <= ATTEMPT);
            let vain = by_end.get(&asker).map(Vec::as_slice).unwrap_or_default();
            all.push(transaction(named, &attempts, (lookups, vain), hops));
            attempts.clear();
        }
    }
    all.sort_by_key(|t| (t.start_ns, t.connection, t.quic));
    all.truncate(MOST);
    (1..).zip(&mut all).for_each(|(number, t)| t.number = number);
    all
}

/// `lookups` are those of the name, and those of its host that brought no address, by their ends.
fn transaction(
    named: &Named<'_>,
    attempts: &[&Call<'_>],
    (lookups, vain): (&[&Resolved<'_>], &[&Resolved<'_>]),
    hops: &NextHops,
) -> Transaction {
    let Named { call, certainty, handshake, name } = *named;
    let attempt = attempts.iter().copied().min_by_key(|attempt| attempt.start).unwrap_or(&call);
    let first = attempt.start;
    // Of an address that was asked for while the name was, it is not known how much of the time
    // was for which.
    let is_apart =
        |hop: &NextHop| latest(lookups, first).iter().all(|l| l.end.is_none_or(|end| end <= hop.asked || end > first));
    let for_first = hops.before((attempt.client.ip(), attempt.server.ip()), first).filter(is_apart);
    let before_first = for_first.map_or(first, |hop| hop.asked);
    let waited = waited(before_first, latest(lookups, before_first));
    let waited = waited.map(|w| Waited { start: searched(name, vain, w.start), ..w });
    let for_name = waited.and_then(|w| hops.before((w.lookup.client, w.lookup.server), w.start));
    let mut t = Transaction {
        name: name.to_owned(),
        certainty,
        client: call.client.ip(),
        server: call.server,
        connection: if call.quic.is_none() { call.number } else { 0 },
        quic: call.quic.map(|quic| quic.number),
        lookup: waited.map(|w| w.lookup.number),
        tries: waited.map_or(0, |w| w.lookup.tries),
        earlier_attempts: attempts.len() as u64,
        quic_attempts: attempts.iter().filter(|attempt| attempt.quic.is_some()).count() as u64,
        name_neighbour: for_name.map(|hop| hop.number),
        neighbour: for_first.map(|hop| hop.number),
        start_ns: Nanos(waited.map_or(before_first, |w| for_name.map_or(w.start, |hop| hop.asked))),
        ..Transaction::blank()
    };
    let mut at = t.start_ns.0;
    let mut until = |to: u64| {
        let took = to.saturating_sub(at);
        at = at.max(to);
        Nanos(took)
    };
    if let Some(w) = waited {
        t.name_neighbour_ns = for_name.map(|_| until(w.start));
        t.name_ns = until(w.end);
        t.pause_ns = until(before_first);
    }
    t.neighbour_ns = for_first.map(|_| until(first));
    t.attempts_ns = until(call.start);
    t.withheld = follow(&call, handshake, &mut t, &mut until).err().map(str::to_owned);
    t.took_ns = t.parts().into_iter().map(|(_, took)| took).sum();
    t
}

/// From the connection's first packet on. Says why it is not followed to its end.
fn follow(
    call: &Call<'_>,
    handshake: Option<&Handshake>,
    t: &mut Transaction,
    until: &mut impl FnMut(u64) -> Nanos,
) -> Result<(), &'static str> {
    if let Some(quic) = call.quic {
        return Err(follow_quic(quic, t, until));
    }
    if !call.is_used() {
        return Err("the client sent no data on this connection");
    }
    let (answer, sends_on) = match handshake {
        Some(h) => {
            t.connect_ns = until(h.start_ns.0);
            match (h.outcome, h.took_ns) {
                (Outcome::Failed, _) => return Err("the TLS handshake failed"),
                (_, None) => return Err("the end of the TLS handshake is not in the capture"),
                (_, Some(took)) => t.tls_ns = until(h.start_ns.0.saturating_add(took.0)),
            }
            let request = h.request_ns.ok_or("there is no request in the capture")?;
            t.request_ns = until(request.0);
            // With HTTP/2, a client sends while it is answered.
            let multiplexes = match h.protocol.as_deref() {
                Some(chosen) => chosen == "h2",
                None => h.offered_protocols.split(' ').any(|offered| offered == "h2"),
            };
            (h.answer_ns.ok_or("there is no answer in the capture")?.0, multiplexes)
        }
        None => {
            let (asked, answered) =
                call.turns.first_answer().ok_or("there is no request with an answer in the capture")?;
            t.connect_ns = until(asked);
            (answered, false)
        }
    };
    t.wait_ns = until(answer);
    if sends_on && call.client_last > answer {
        return Err(
            "the client sends while it is answered (HTTP/2), so that the end of the first answer does not show",
        );
    }
    let end = call.turns.end_of_answer(answer, (call.server_last, call.server_bytes));
    t.answer_ns = until(end.ok_or("there are too many requests before this answer")?);
    Ok(())
}

/// The same with QUIC, which encrypts where an answer ends.
fn follow_quic(quic: &QuicConnection, t: &mut Transaction, until: &mut impl FnMut(u64) -> Nanos) -> &'static str {
    let Some(took) = quic.took_ns else {
        return match quic.outcome {
            QuicOutcome::Failed => "the QUIC handshake failed",
            QuicOutcome::Unanswered => "the server did not answer QUIC",
            QuicOutcome::Unreachable => "the server cannot be reached by QUIC",
            QuicOutcome::Done | QuicOutcome::NotKnown => "the QUIC handshake is not whole in the capture",
        };
    };
    t.tls_ns = until(quic.start_ns.0.saturating_add(took.0));
    let (Some(request), Some(answer)) = (quic.request_ns, quic.answer_ns) else {
        return "no packet of the server after the QUIC handshake is in the capture";
    };
    t.request_ns = until(request.0);
    t.wait_ns = until(answer.0);
    "QUIC encrypts what comes after its handshake: the server's first packet shows, and no answer's end"
}

/// What a client waited for the name, before it began to connect.
#[derive(Clone, Copy)]
struct Waited<'a> {
    /// The one that it waited for longest.
    lookup: &'a Resolved<'a>,
    start: u64,
    end: u64,
}

/// When the search for a name began that was asked for with suffixes before (`ndots` in
/// resolv.conf): each such question follows the answer to the one before. `vain` are the lookups of
/// its host that brought no address, by their ends.
fn searched(name: &str, vain: &[&Resolved<'_>], mut start: u64) -> u64 {
    let until = vain.partition_point(|lookup| lookup.end.is_some_and(|end| end <= start));
    for lookup in vain[..until].iter().rev().take(LOOKUPS) {
        if lookup.end.is_none_or(|end| start.saturating_sub(end) > AT_ONCE) {
            break;
        }
        let has_suffix = lookup.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        if has_suffix {
            start = start.min(lookup.start);
        }
    }
    start
}

/// The latest lookup before `connected`, if the client can have waited for it, with those of other
/// types that it asked for at the same time.
fn waited<'a>(connected: u64, lookups: &[&'a Resolved<'a>]) -> Option<Waited<'a>> {
    let answered = |l: &&&Resolved<'_>| l.end.is_some_and(|end| end <= connected) && !l.addresses.is_empty();
    let found = *lookups.iter().filter(answered).max_by_key(|l| l.end)?;
    let (start, end) = (found.start, found.end?);
    let mut waited = Waited { lookup: found, start, end };
    for other in lookups.iter().filter(|l| l.start <= end && l.end.unwrap_or(u64::MAX) >= start) {
        // A client that was not answered goes on when its patience ends.
        let until = other.end.unwrap_or(if other.last_try <= connected { connected } else { u64::MAX });
        if until <= connected {
            waited.start = waited.start.min(other.start);
            if until > waited.end {
                waited = Waited { lookup: other, end: until, ..waited };
            }
        }
    }
    (connected - waited.end <= WAITED).then_some(waited)
}
