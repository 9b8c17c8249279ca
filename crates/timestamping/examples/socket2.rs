//! A `socket2` socket with room for its stamps, and with ids that the program chooses. Only every
//! third send is stamped: sampling costs the other sends nothing.
//!
//! `cargo run -p wirelapse-timestamping --example socket2`

use std::error::Error;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use timestamping::{
    ErrorQueue, Matcher, Ready, Realtime, Report, Request, SendOptions, Stages, TransmitStage, kernel_has_ts_opt_id,
    now, reserve_stamps, wait,
};

const SENDS: u32 = 30;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let peer = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    peer.bind(&address.into())?;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.connect(&peer.local_addr()?)?;

    let stages = Stages::SCHED | Stages::DRIVER;
    let enabled = Request::new().transmit_per_send(stages).enable(&socket)?;
    // Stamps lie in the receive buffer until they are read.
    let fit = reserve_stamps(&socket, 2 * SENDS)?;
    println!("the receive buffer holds {fit} stamps");

    // Ids that the program chooses stay right where a send fails (Linux 6.13). Otherwise the kernel
    // counts stamped sends.
    let own_ids = kernel_has_ts_opt_id();
    let mut matcher = Matcher::new(enabled.counting(), stages, SENDS as usize);
    for number in 0..SENDS {
        let sampled = number % 3 == 0;
        let options = SendOptions {
            stages: sampled.then_some(stages),
            id: (sampled && own_ids).then_some(number),
            ..SendOptions::default()
        };
        let before = now::<Realtime>();
        let bytes = enabled.send(&socket, &[IoSlice::new(b"hello")], &options)?;
        match (sampled, own_ids) {
            (false, _) => {}
            (true, true) => drop(matcher.sent_with_id(number.into(), before, number)),
            (true, false) => drop(matcher.sent(bytes, before, number)),
        }
    }

    let mut queue = ErrorQueue::default();
    while matcher.pending() > 0 && wait(&socket, Ready::default(), Duration::from_secs(1))?.errors {
        queue.read(&socket, |report| {
            if let Ok(Report::Stamp(stamp)) = report {
                matcher.stamp(&stamp);
            }
        })?;
    }
    matcher.give_up();
    while let Some(send) = matcher.finished() {
        let in_qdisc = send.between(TransmitStage::Sched, TransmitStage::Driver)?;
        println!("send {}: in the qdisc for {}", send.tag, in_qdisc.map_or("?".into(), |t| t.to_string()));
    }
    println!("{:?}", matcher.counts());
    assert_eq!(matcher.counts().sent, u64::from(SENDS / 3));
    Ok(())
}
