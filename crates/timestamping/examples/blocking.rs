//! A blocking TCP client that times its requests: written, sent, acknowledged.
//!
//! `cargo run -p wirelapse-timestamping --example blocking [HOST:PORT]`; without an address it
//! connects to a thread of this process.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use timestamping::{ErrorQueue, Matcher, Ready, Realtime, Report, Request, Stages, TransmitStage, now, wait};

fn main() -> Result<(), Box<dyn Error>> {
    time_requests(&std::env::args().nth(1).map_or_else(echo_server, Ok)?)
}

pub(crate) fn time_requests(address: &str) -> Result<(), Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    // A TCP socket has to be connected first: its ids are byte positions, counted from this moment.
    let stages = Stages::SCHED | Stages::DRIVER | Stages::ACK;
    let enabled = Request::new().transmit(stages).stats().enable(&stream)?;
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1024);
    let mut queue = ErrorQueue::default();

    for number in 1..=5 {
        let request = format!("request {number}\n");
        let before = now::<Realtime>();
        stream.write_all(request.as_bytes())?;
        matcher.sent(request.len(), before, number);
        let mut answer = vec![0; request.len()];
        stream.read_exact(&mut answer)?;

        // Wait on the error queue until this request's stamps are all there, or a second is over.
        while matcher.pending() > 0 && wait(&stream, Ready::default(), Duration::from_secs(1))?.errors {
            queue.read(&stream, |report| {
                if let Ok(Report::Stamp(stamp)) = report {
                    matcher.stamp(&stamp);
                    if let (TransmitStage::Ack, Ok(Some(stats))) = (stamp.stage, stamp.stats()) {
                        println!(
                            "  TCP says: smoothed RTT {:?}, window {:?}",
                            stats.smoothed_rtt, stats.congestion_window
                        );
                    }
                }
            })?;
        }
        matcher.give_up();
        while let Some(send) = matcher.finished() {
            print!("request {}:", send.tag);
            for stage in enabled.stages().stages() {
                match send.since_sent(stage)? {
                    Some(time) => print!("  {stage} after {time}"),
                    None => print!("  {stage} never came"),
                }
            }
            println!();
        }
    }
    Ok(())
}

/// Answers one connection with what it sends.
pub(crate) fn echo_server() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut reader = stream.try_clone()?;
        std::io::copy(&mut reader, &mut stream).map(drop)
    });
    Ok(address)
}
