//! The server's side of datagrams.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use clock::{Instant, Monotonic};

use super::accounts::{Served, Shared};
use super::listening::family_of;
use super::rr::{Broken, EndOnDrop, wait_for_close};
use super::sessions::Session;
use crate::channel::Channel;
use crate::control::{self, Answer, Ready, Request, UdpRequest};
use crate::limits::Refusal;
use crate::timing::{self, CpuTime};
use crate::udp::flow::{receive, send};
use crate::udp::{Report, Sent};
use crate::wire;

fn no_thread(error: std::io::Error) -> Broken {
    Broken::Why(format!("the server has no thread for the flow: {error}"))
}

/// Answers that it is ready, and waits for the datagram that opens the flow.
fn accept(shared: &Shared, control: &Channel, request: &Request, served: &Served) -> Result<UdpSocket, Broken> {
    let session = u64::from_be_bytes(wire::random_bytes());
    let (to, from) = sync_channel(1);
    let _awaited = shared.await_datagrams(session, served.peer.ip(), to);
    wire::write_json(control, &Answer::Ready(Ready { session, boot_id: control::boot_id(), ..Ready::default() }))?;
    let socket = from
        .recv_timeout(Duration::from_secs(10))
        .map_err(|_| Broken::Why("the client never opened its UDP flow".into()))?;
    request
        .options
        .apply_connected(&socket, family_of(served.peer))
        .map_err(|e| Broken::Refused(Refusal::Kernel { why: e.to_string() }))?;
    Ok(socket.into())
}

/// Sends or receives a flow until the client closes its half of the connection it asked on; then
/// reports this side.
pub(crate) fn carry(
    shared: &Arc<Shared>,
    control: &Channel,
    flow: UdpRequest,
    request: &Request,
    (session, until): (&Session, Instant<Monotonic>),
    served: &mut Served,
) -> Result<(), Broken> {
    let socket = accept(shared, control, request, served)?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (report, ended) = std::thread::scope(|scope| {
        let (socket, stop, done) = (&socket, &stop, &done);
        let _end = EndOnDrop(stop);
        let worker = std::thread::Builder::new().name("serve-udp-flow".into()).spawn_scoped(scope, move || {
            let before = CpuTime::of_this_thread();
            if flow.down {
                let until = timing::now().after(request.duration);
                let rate = (flow.bits_per_second, flow.burst);
                let sent = send(socket, flow.datagram_bytes, rate, until, stop, done)?;
                Ok(Report::Sent(sent, CpuTime::of_this_thread().since(before)))
            } else {
                // The client reports the delays where it receives; here the server does, on the
                // clock they share or not.
                let received = receive(socket, None, true, flow.interval, stop, done)?;
                Ok(Report::Received(Box::new(received), CpuTime::of_this_thread().since(before)))
            }
        });
        let worker = worker.map_err(no_thread)?;
        let ended = wait_for_close(shared, control, until, || session.advance(done.swap(0, Ordering::Relaxed)));
        stop.store(true, Ordering::Relaxed);
        let report: std::io::Result<Report> =
            worker.join().unwrap_or_else(|_| Ok(Report::Sent(Sent::default(), CpuTime::default())));
        Ok::<_, Broken>((report, ended))
    })?;
    let report = report?;
    match &report {
        Report::Sent(sent, _) => served.sent_bytes = sent.bytes,
        Report::Received(received, _) => served.received_bytes = received.bytes,
    }
    ended?;
    wire::write_json(control, &report)?;
    Ok(())
}

/// Sends every datagram back until the client closes the connection it asked on.
pub(crate) fn echo(
    shared: &Arc<Shared>,
    control: &Channel,
    request: &Request,
    (session, until): (&Session, Instant<Monotonic>),
    served: &mut Served,
) -> Result<(), Broken> {
    let socket = accept(shared, control, request, served)?;
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (echoed, ended) = std::thread::scope(|scope| {
        let (socket, stop, done) = (&socket, &stop, &done);
        let _end = EndOnDrop(stop);
        let worker = std::thread::Builder::new().name("serve-udp-echo".into()).spawn_scoped(scope, move || {
            let mut buffer = vec![0u8; 65_536];
            let (mut number, mut bytes) = (0u64, 0u64);
            while !stop.load(Ordering::Relaxed) {
                if let Ok(length) = socket.recv(&mut buffer)
                    && socket.send(&buffer[..length]).is_ok()
                {
                    number += 1;
                    bytes += length as u64;
                    done.store(number, Ordering::Relaxed);
                }
            }
            (number, bytes)
        });
        let worker = worker.map_err(no_thread)?;
        let ended = wait_for_close(shared, control, until, || session.advance(done.swap(0, Ordering::Relaxed)));
        stop.store(true, Ordering::Relaxed);
        Ok::<_, Broken>((worker.join().unwrap_or_default(), ended))
    })?;
    served.transactions = echoed.0;
    (served.received_bytes, served.sent_bytes) = (echoed.1, echoed.1);
    ended
}
