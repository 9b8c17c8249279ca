//! Stamps in a tokio program: one task sends, another takes stamps as they come.
//!
//! The kernel reports stamps as `EPOLLERR`, which tokio calls [`Interest::ERROR`]; an [`AsyncFd`]
//! over a duplicate of the socket's descriptor waits for that alone, so sending and receiving are
//! left to the socket itself.
//!
//! `cargo run -p wirelapse-timestamping --example tokio`

use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use timestamping::{ErrorQueue, Matcher, Realtime, Report, Request, Stages, TransmitStage, now};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;

const DATAGRAMS: usize = 20;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let peer = UdpSocket::bind("127.0.0.1:0").await?;
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(peer.local_addr()?).await?;
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&socket)?;
    let matcher = Mutex::new(Matcher::new(enabled.counting(), enabled.stages(), 1024));

    let errors = socket.as_fd().try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` gives the same open descriptor whenever it is asked, until it is
    // dropped.
    let errors: AsyncFd<OwnedFd> = unsafe { AsyncFd::register_with_interest(errors, Interest::ERROR) }?;
    let take_stamps = async {
        let mut queue = ErrorQueue::default();
        let mut taken = 0;
        while taken < 2 * DATAGRAMS {
            let mut ready = errors.ready(Interest::ERROR).await?;
            let count = queue.read(&socket, |report| {
                if let Ok(Report::Stamp(stamp)) = report {
                    matcher.lock().expect("no task panics with it").stamp(&stamp);
                }
            })?;
            taken += count;
            // A batch that was not full has emptied the queue: wait for the next event.
            if count < queue.capacity() {
                ready.clear_ready();
            }
        }
        Ok::<_, Box<dyn Error>>(taken)
    };
    let send = async {
        for number in 0..DATAGRAMS {
            socket.writable().await?;
            {
                // Held over the send: the stamps task must not see a stamp before its send is
                // noted.
                let mut matcher = matcher.lock().expect("no task panics with it");
                let before = now::<Realtime>();
                let bytes = socket.try_send(b"hello")?;
                matcher.sent(bytes, before, number);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok::<_, Box<dyn Error>>(())
    };
    let both = async { tokio::try_join!(take_stamps, send) };
    match tokio::time::timeout(Duration::from_secs(5), both).await {
        Ok(done) => println!("{} stamps taken", done?.0),
        Err(_) => println!("some stamps did not come within five seconds"),
    }

    let mut matcher = matcher.into_inner()?;
    matcher.give_up();
    while let Some(send) = matcher.finished() {
        if let Some(time) = send.since_sent(TransmitStage::Driver)? {
            println!("datagram {} reached the driver after {time}", send.tag);
        }
    }
    println!("{:?}", matcher.counts());
    Ok(())
}
