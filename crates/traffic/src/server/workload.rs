//! A request of one of this project's own workloads.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clock::Nanos;

use super::accounts::{Event, Served, Shared, Taken};
use super::config::Shown;
use super::listening::family_of;
use super::sessions::Session;
use super::waiting::Waits;
use super::{rr, udp};
use crate::channel::Channel;
use crate::control::{Answer, Ready, Request, Workload as Asked};
use crate::error::WireError;
use crate::limits::{Bounded, Limits, Refusal, WRONG_TOKEN};
use crate::timing;
use crate::wire;
use crate::workload::Workload;

/// What a test may take beyond its own time.
const GRACE: Nanos = Nanos::from_secs(10);

/// Threads that answer one `crr`: a slow transaction must not hold up those beside it.
fn workers(at_once: u32) -> u32 {
    at_once.clamp(2, 64)
}

/// Reads the request, and carries it out.
pub(super) fn serve(shared: &Arc<Shared>, control: Channel, peer: SocketAddr, request: Request, waits: Arc<Waits>) {
    let (session, places) = match admit(shared, &control, peer.ip(), &request) {
        Ok(taken) => {
            drop(waits);
            taken
        }
        Err(refusal) => return refuse(shared, &control, peer, refusal),
    };
    if let Err(error) = request.options.apply_connected(control.stream(), family_of(peer)) {
        return refuse(shared, &control, peer, Refusal::Kernel { why: error.to_string() });
    }
    let workload = match request.workload {
        Asked::Rr(_) => Workload::Rr,
        Asked::Crr { .. } => Workload::Crr,
        Asked::Udp(_) => Workload::Udp,
        Asked::Echo { .. } => Workload::Echo,
        Asked::Pass => return give_pass(shared, &control, peer),
    };
    shared.tell(Event::Began { peer, workload });
    let mut served = Served::new(peer, workload);
    let began = timing::now();
    let until = began.after(request.duration).after(GRACE);
    let result = match &request.workload {
        Asked::Rr(exchange) => {
            rr::answer_lasting(shared, &control, (exchange, &request.options), &session, until, &mut served)
        }
        Asked::Crr { exchange, at_once } => {
            let shape = (exchange, workers(*at_once));
            rr::answer_each(shared, &control, shape, &request.options, (&session, until), &mut served)
        }
        Asked::Udp(flow) => udp::carry(shared, &control, *flow, &request, (&session, until), &mut served),
        Asked::Pass => Ok(()),
        Asked::Echo { .. } => udp::echo(shared, &control, &request, (&session, until), &mut served),
    };
    served.elapsed = timing::now().saturating_since(began);
    // A connection that the server ended looks to each workload as one that its client closed.
    let result = match (result, session.ended()) {
        (Err(rr::Broken::Refused(refusal)), _) => Err(rr::Broken::Refused(refusal)),
        (_, Some(reason)) => Err(rr::Broken::Why(reason.why().into())),
        (result, None) => result,
    };
    match result {
        Ok(()) => shared.count(|c| &c.tests),
        Err(rr::Broken::Why(why)) => {
            shared.count(|c| &c.broken_off);
            served.ended = Some(why);
        }
        Err(rr::Broken::Refused(refusal)) => {
            served.ended = Some(refusal.to_string());
            refuse(shared, &control, peer, refusal);
        }
    }
    shared.tell(Event::Ended(served));
    drop((session, places));
}

fn give_pass(shared: &Shared, control: &Channel, peer: SocketAddr) {
    let Some(pass) = shared.passes.give(peer.ip(), timing::now()) else {
        return refuse(shared, control, peer, Refusal::Request { why: "too many ask for a pass; ask again".into() });
    };
    // A client that is gone does not redeem it.
    wire::write_json(control, &Answer::Ready(Ready { pass: Some(pass), ..Ready::default() })).ok();
    control.end_writing();
}

/// Checks the request against the bounds, and takes its place.
fn admit(
    shared: &Arc<Shared>,
    control: &Channel,
    ip: IpAddr,
    request: &Request,
) -> Result<(Session, [Taken; 2]), Refusal> {
    let limits = &shared.config.limits;
    let private = control.is_private();
    if private && matches!(request.workload, Asked::Rr(_)) || !private && request.workload == Asked::Pass {
        return Err(Refusal::Request { why: "TLS is for what is not measured".into() });
    }
    if !request.pass.is_some_and(|pass| shared.passes.redeem(pass, ip, timing::now())) {
        shared.config.admit(&Shown { within_tls: private, token: request.token.as_deref(), login: None })?;
    }
    let (threads, memory) = needs(request, limits)?;
    let session = shared.await_session(ip, control)?;
    Ok((session, [shared.take_threads(threads)?, shared.take_memory(memory)?]))
}

/// The threads and the bytes of memory that a request needs, where each of its figures is within
/// its bound.
pub(crate) fn needs(request: &Request, limits: &Limits) -> Result<(u64, u64), Refusal> {
    Limits::check(Bounded::Duration, request.duration.0.div_ceil(1_000_000_000), limits.duration_s)?;
    request.options.validate().map_err(|e| Refusal::Request { why: e.to_string() })?;
    for bytes in [request.options.send_buffer_bytes, request.options.receive_buffer_bytes].into_iter().flatten() {
        Limits::check(Bounded::SocketBuffer, bytes.into(), limits.socket_buffer_bytes.into())?;
    }
    let message = limits.message_bytes;
    // A lasting connection is answered by its own.
    let threads = match &request.workload {
        Asked::Rr(_) | Asked::Pass => 0,
        Asked::Crr { at_once, .. } => workers(*at_once).into(),
        Asked::Udp(_) | Asked::Echo { .. } => 1,
    };
    let memory = match &request.workload {
        Asked::Rr(exchange) | Asked::Crr { exchange, .. } => {
            exchange.check().map_err(|why| Refusal::Request { why })?;
            Limits::check(Bounded::Message, exchange.request_bytes.into(), message.into())?;
            Limits::check(Bounded::Message, exchange.response_bytes.into(), message.into())?;
            if exchange.think > Nanos::from_secs(60) {
                return Err(Refusal::Request { why: "think time is at most 60 s".into() });
            }
            (u64::from(exchange.response_bytes) + rr::READ_BYTES as u64) * threads.max(1)
        }
        Asked::Pass => 0,
        Asked::Udp(crate::control::UdpRequest { datagram_bytes, .. }) | Asked::Echo { datagram_bytes } => {
            Limits::check(Bounded::Message, (*datagram_bytes).into(), message.min(65_507).into())?;
            65_536
        }
    };
    Ok((threads, memory))
}

/// Says to a client of this project's what was wrong with its request.
pub(super) fn refuse_unread(shared: &Shared, control: &Channel, peer: SocketAddr, why: &WireError) {
    refuse(shared, control, peer, Refusal::Request { why: why.to_string() });
}

fn refuse(shared: &Shared, control: &Channel, peer: SocketAddr, refusal: Refusal) {
    if refusal == Refusal::Token {
        shared.pause(control, timing::now().after(WRONG_TOKEN.into()));
    }
    shared.count(|c| &c.refused);
    shared.tell(Event::Refused { peer, refusal: refusal.clone() });
    wire::write_json(control, &Answer::Refused(refusal)).ok();
    // Closing with bytes that were not read would reset the connection under the client's reading.
    control.end_writing();
    let mut rest = [0; 256];
    wire::read_by(control, &mut rest, timing::now().after(Nanos::from_millis(500)), &shared.stop).ok();
}
