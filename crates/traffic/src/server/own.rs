//! A request of one of this project's own workloads.

use std::net::TcpStream;
use std::sync::Arc;

use clock::Nanos;

use super::accounts::{Event, Served, Shared, Taken, Waiting};
use super::listening::family_of;
use crate::limits::{Bounded, Limits, Refusal, WRONG_TOKEN, token_matches};
use crate::own::{Answer, LIMIT, Request, Workload};
use crate::rr;
use crate::timing;
use crate::udp;
use crate::wire::{self, ReadError};

/// What a test may take beyond its own time.
const GRACE: Nanos = Nanos::from_secs(10);

/// Threads that answer one `crr`: a slow transaction must not hold up those beside it.
fn workers(at_once: u32) -> u32 {
    at_once.clamp(2, 64)
}

/// Reads the request, and carries it out.
pub(super) fn serve(shared: &Arc<Shared>, stream: TcpStream, peer: std::net::SocketAddr, waiting: Waiting) {
    let deadline = timing::now().after(Nanos::from_millis(shared.config.limits.handshake_ms));
    let request: Request = match wire::read_json(&stream, LIMIT, "a workload's request", deadline, &shared.stop) {
        Ok(request) => request,
        Err(ReadError::Wire(why)) => {
            shared.count(|c| &c.garbage);
            refuse(shared, &stream, peer, Refusal::Request { why: why.to_string() });
            shared.tell(Event::Garbage { peer, why });
            return;
        }
        Err(_) => return shared.count(|c| &c.silent),
    };
    let places = match admit(shared, &request) {
        Ok(taken) => {
            drop(waiting);
            taken
        }
        Err(refusal) => return refuse(shared, &stream, peer, refusal),
    };
    if let Err(error) = request.options.apply_connected(&stream, family_of(peer)) {
        return refuse(shared, &stream, peer, Refusal::Kernel { why: error.to_string() });
    }
    let stream = Arc::new(stream);
    let name = match request.workload {
        Workload::Rr(_) => "rr",
        Workload::Crr { .. } => "crr",
        Workload::Udp(_) => "udp",
        Workload::Echo { .. } => "udp echo",
    };
    shared.tell(Event::Began { peer, workload: name });
    let mut served = Served::new(peer, name);
    let began = timing::now();
    let until = began.after(request.duration).after(GRACE);
    let result = match &request.workload {
        Workload::Rr(exchange) => {
            rr::server::answer_lasting(shared, &stream, exchange, &request.options, until, &mut served)
        }
        Workload::Crr { exchange, at_once } => {
            let shape = (exchange, workers(*at_once));
            rr::server::answer_each(shared, &stream, shape, &request.options, until, &mut served)
        }
        Workload::Udp(flow) => udp::server::carry(shared, &stream, *flow, &request, until, &mut served),
        Workload::Echo { .. } => udp::server::echo(shared, &stream, &request, until, &mut served),
    };
    served.elapsed = timing::now().saturating_since(began);
    match result {
        Ok(()) => shared.count(|c| &c.tests),
        Err(rr::server::Broken::Why(why)) => {
            shared.count(|c| &c.broken_off);
            served.ended = Some(why);
        }
        Err(rr::server::Broken::Refused(refusal)) => {
            served.ended = Some(refusal.to_string());
            refuse(shared, &stream, peer, refusal);
        }
    }
    shared.tell(Event::Ended(served));
    drop(places);
}

/// Checks the request against the bounds, and takes its place.
fn admit(shared: &Arc<Shared>, request: &Request) -> Result<[Taken; 3], Refusal> {
    let limits = &shared.config.limits;
    if !token_matches(shared.config.token.as_deref(), request.token.as_deref()) {
        return Err(Refusal::Token);
    }
    Limits::check(Bounded::Duration, request.duration.0.div_ceil(1_000_000_000), limits.duration_s)?;
    request.options.validate().map_err(|e| Refusal::Request { why: e.to_string() })?;
    for bytes in [request.options.send_buffer_bytes, request.options.receive_buffer_bytes].into_iter().flatten() {
        Limits::check(Bounded::SocketBuffer, bytes.into(), limits.socket_buffer_bytes.into())?;
    }
    let message = limits.message_bytes;
    // A lasting connection is answered by its own.
    let threads = match &request.workload {
        Workload::Rr(_) => 0,
        Workload::Crr { at_once, .. } => workers(*at_once).into(),
        Workload::Udp(_) | Workload::Echo { .. } => 1,
    };
    let memory = match &request.workload {
        Workload::Rr(exchange) | Workload::Crr { exchange, .. } => {
            exchange.check().map_err(|why| Refusal::Request { why })?;
            Limits::check(Bounded::Message, exchange.request_bytes.into(), message.into())?;
            Limits::check(Bounded::Message, exchange.response_bytes.into(), message.into())?;
            if exchange.think > Nanos::from_secs(60) {
                return Err(Refusal::Request { why: "think time is at most 60 s".into() });
            }
            (u64::from(exchange.response_bytes) + rr::server::READ_BYTES as u64) * threads.max(1)
        }
        Workload::Udp(crate::own::UdpRequest { datagram_bytes, .. }) | Workload::Echo { datagram_bytes } => {
            Limits::check(Bounded::Message, (*datagram_bytes).into(), message.min(65_507).into())?;
            65_536
        }
    };
    Ok([shared.take_session()?, shared.take_threads(threads)?, shared.take_memory(memory)?])
}

fn refuse(shared: &Shared, stream: &TcpStream, peer: std::net::SocketAddr, refusal: Refusal) {
    if refusal == Refusal::Token {
        std::thread::sleep(WRONG_TOKEN);
    }
    shared.count(|c| &c.refused);
    shared.tell(Event::Refused { peer, refusal: refusal.clone() });
    wire::write_json(stream, &Answer::Refused(refusal)).ok();
    // Closing with bytes that were not read would reset the connection under the client's reading.
    stream.shutdown(std::net::Shutdown::Write).ok();
    let mut rest = [0; 256];
    wire::read_by(stream, &mut rest, timing::now().after(Nanos::from_millis(500)), &shared.stop).ok();
}
