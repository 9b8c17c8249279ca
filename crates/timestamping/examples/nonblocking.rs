//! A program with its own `poll` loop that sends datagrams, receives answers, and takes stamps
//! whenever there are some, without ever waiting for one. One datagram goes to a closed port, so
//! that an ICMP error lies among the stamps.
//!
//! `cargo run -p wirelapse-timestamping --example nonblocking`

use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use timestamping::{
    BatchSize, ErrorQueue, Matcher, Ready, Realtime, Receiver, Report, Request, SendOptions, Stages, TransmitStage,
    now, wait,
};

const DATAGRAMS: u32 = 10;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    let closed = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let enabled =
        Request::new().transmit(Stages::SCHED | Stages::DRIVER).receive_software().icmp_errors().enable(&socket)?;

    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 64);
    let mut stamps = ErrorQueue::default();
    let mut datagrams = Receiver::new(BatchSize { messages: 16, payload: 64, ..BatchSize::default() });
    let (mut sent, mut answers, mut errors, start) = (0, 0, 0, Instant::now());
    let mut buffer = [0; 64];

    while start.elapsed() < Duration::from_secs(2) && (answers < DATAGRAMS - 1 || matcher.pending() > 0 || errors == 0)
    {
        if sent < DATAGRAMS {
            let to = if sent == 4 { closed } else { peer.local_addr()? };
            let options = SendOptions { to: Some(to), ..SendOptions::default() };
            let before = now::<Realtime>();
            match enabled.send(&socket, &[std::io::IoSlice::new(&sent.to_ne_bytes())], &options) {
                Ok(bytes) => {
                    matcher.sent(bytes, before, sent);
                    sent += 1;
                }
                // A pending ICMP error, or no room just now: nothing was sent, try again next time
                // round.
                Err(e) if matches!(e.kind(), Some(ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)) => {}
                Err(e) => return Err(e.into()),
            }
        }
        // The peer answers; in a real program it is another host.
        peer.set_nonblocking(true)?;
        while let Ok((length, from)) = peer.recv_from(&mut buffer) {
            peer.send_to(&buffer[..length], from)?;
        }

        let ready = wait(&socket, Ready { readable: true, ..Ready::default() }, Duration::from_millis(10))?;
        if ready.errors {
            stamps.read(&socket, |report| match report {
                Ok(Report::Stamp(stamp)) => drop(matcher.stamp(&stamp)),
                Ok(Report::Icmp(error)) => {
                    errors += 1;
                    println!("{} says: {}", error.offender.map_or("?".into(), |o| o.to_string()), error.name());
                }
                other => println!("{other:?}"),
            })?;
        }
        if ready.readable {
            datagrams.receive(&socket, |datagram| {
                if let Ok(d) = datagram {
                    answers += 1;
                    println!("answer {answers}, in the stack at {:?}", d.times.software);
                }
            })?;
        }
        while let Some(send) = matcher.finished() {
            let in_qdisc = send.between(TransmitStage::Sched, TransmitStage::Driver)?;
            println!("datagram {}: in the qdisc for {}", send.tag, in_qdisc.map_or("?".into(), |t| t.to_string()));
        }
    }
    println!("{answers} answers, {errors} ICMP error, {:?}", matcher.counts());
    Ok(())
}
