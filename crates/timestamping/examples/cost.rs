//! What stamps cost a sender, and how fast the error queue can be read. Prints two tables.
//!
//! One: the throughput of a TCP stream over loopback under each way of using stamps, against none. The ways take turns in
//! slices of some tens of milliseconds, each is compared with the slice of no stamps of its own round, and the figure is the
//! median of those ratios with its 95 % interval (by order statistics), so a machine that is busy now and then does not
//! matter. Two: stamps a second through the error queue on one core.
//!
//! `cargo run --release -p wirelapse-timestamping --example cost [ROUNDS]`

use std::error::Error;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use model::Realtime;
use timestamping::{Enabled, ErrorQueue, Matcher, Report, Request, Room, SendOptions, Stages, now};

const SLICE: Duration = Duration::from_millis(25);

/// A way of using stamps on a stream.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    None,
    /// Stamps are made and nobody reads them: the queue is full, the kernel makes each and throws it away.
    Floor,
    /// One `recvmsg` a message until there are none, after each send; the packet comes back with each stamp.
    Plain,
    /// As `Plain`, without the packet.
    PlainTsOnly,
    /// This library: read in batches after so many sends, and put to sends.
    Batched(u32),
    /// Taken off the queue in batches unseen, with no room for what they say: the least that reading can cost.
    Unseen(u32),
    /// As `Batched`, for one stage only.
    AckOnly(u32),
    /// This library, one send in so many asking for stamps.
    Sampled(u32),
}

const WAYS: [(&str, Way); 12] = [
    ("no stamps", Way::None),
    ("no stamps, again (what noise there is)", Way::None),
    ("floor: sched+driver+ack made, never read", Way::Floor),
    ("floor of reading: taken off unseen, every 32", Way::Unseen(32)),
    ("recvmsg after each send, with the packet", Way::Plain),
    ("recvmsg after each send, OPT_TSONLY", Way::PlainTsOnly),
    ("library: batches every 8 sends, matched", Way::Batched(8)),
    ("library: batches every 32 sends, matched", Way::Batched(32)),
    ("library: ack alone, every 32 sends, matched", Way::AckOnly(32)),
    ("library: 1 send in 10 stamped", Way::Sampled(10)),
    ("library: 1 send in 100 stamped", Way::Sampled(100)),
    ("library: 1 send in 1000 stamped", Way::Sampled(1000)),
];

struct Sender {
    way: Way,
    stream: TcpStream,
    enabled: Option<Enabled>,
    matcher: Option<Matcher<()>>,
    queue: ErrorQueue,
    sends: u64,
}

impl Sender {
    fn new(way: Way) -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (mut sink, _) = listener.accept()?;
        std::thread::spawn(move || {
            pin(1);
            let mut buffer = vec![0; 1 << 20];
            while sink.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        let all = Stages::SCHED | Stages::DRIVER | Stages::ACK;
        let request = match way {
            Way::None => None,
            Way::Floor | Way::Unseen(_) | Way::PlainTsOnly | Way::Batched(_) => Some(Request::new().transmit(all)),
            Way::Plain => Some(Request::new().transmit(all).with_payload()),
            Way::AckOnly(_) => Some(Request::new().transmit(Stages::ACK)),
            Way::Sampled(_) => Some(Request::new().transmit_per_send(all)),
        };
        let enabled = request.map(|r| r.enable(&stream)).transpose()?;
        if !matches!(way, Way::None | Way::Floor) {
            timestamping::reserve_stamps(&stream, 4096)?;
        }
        let matched = matches!(way, Way::Batched(_) | Way::AckOnly(_) | Way::Sampled(_));
        let matcher = enabled.filter(|_| matched).map(|e| Matcher::new(e.counting(), e.stages(), 4096));
        Ok(Self {
            way,
            stream,
            enabled,
            matcher,
            queue: ErrorQueue::new(Room { payload: 0, ..Room::default() }),
            sends: 0,
        })
    }

    fn send(&mut self, data: &[u8]) -> Result<(), Box<dyn Error>> {
        self.sends += 1;
        match (self.way, self.enabled, &mut self.matcher) {
            (Way::Sampled(one_in), Some(enabled), Some(matcher)) => {
                if self.sends.is_multiple_of(one_in.into()) {
                    let before = now::<Realtime>();
                    let options = SendOptions { stages: Some(enabled.stages()), ..SendOptions::default() };
                    let sent = enabled.send(&self.stream, &[IoSlice::new(data)], &options)?;
                    matcher.sent(sent, before, ());
                    self.stream.write_all(&data[sent..])?;
                    matcher.sent_unstamped(data.len() - sent);
                } else {
                    self.stream.write_all(data)?;
                    matcher.sent_unstamped(data.len());
                }
            }
            (_, _, Some(matcher)) => {
                let before = now::<Realtime>();
                self.stream.write_all(data)?;
                matcher.sent(data.len(), before, ());
            }
            _ => self.stream.write_all(data)?,
        }
        let every = match self.way {
            Way::Batched(n) | Way::AckOnly(n) => n,
            Way::Sampled(one_in) => one_in * 8,
            Way::Plain | Way::PlainTsOnly => return plain_read(&self.stream),
            Way::Unseen(n) => {
                if self.sends.is_multiple_of(n.into()) {
                    take_unseen(&self.stream);
                }
                return Ok(());
            }
            Way::None | Way::Floor => return Ok(()),
        };
        if self.sends.is_multiple_of(every.into()) {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(matcher) = &mut self.matcher else { return Ok(()) };
        self.queue.drain(&self.stream, |report| {
            if let Ok(Report::Stamp(stamp)) = report {
                matcher.stamp(&stamp);
            }
        })?;
        while matcher.finished().is_some() {}
        Ok(())
    }

    /// Bytes a second during one slice.
    fn slice(&mut self, data: &[u8]) -> Result<f64, Box<dyn Error>> {
        // What the slices before left over is not this one's cost.
        self.read()?;
        for _ in 0..8 {
            self.send(data)?;
        }
        let (start, mut sends) = (Instant::now(), 0u32);
        while start.elapsed() < SLICE {
            for _ in 0..8 {
                self.send(data)?;
            }
            sends += 8;
        }
        Ok(f64::from(sends) * data.len() as f64 / start.elapsed().as_secs_f64())
    }
}

/// Takes everything off the error queue without a look at it.
fn take_unseen(stream: &TcpStream) {
    // SAFETY: all zeroes are valid headers: no address, no data, no control messages.
    let mut headers: [libc::mmsghdr; 64] = unsafe { std::mem::zeroed() };
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    loop {
        // SAFETY: the headers outlive the call and point to nothing.
        let count =
            unsafe { libc::recvmmsg(stream.as_raw_fd(), headers.as_mut_ptr(), 64, flags as _, std::ptr::null_mut()) };
        if count < 64 {
            return;
        }
    }
}

/// What a program does that knows no better: one message a call, until there is none.
fn plain_read(stream: &TcpStream) -> Result<(), Box<dyn Error>> {
    let (mut payload, mut control) = ([0u8; 2048], [0u64; 64]);
    loop {
        let mut vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
        // SAFETY: all zeroes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: every pointer of `message` is to memory that outlives the call, of the length beside it.
        if unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags) } < 0 {
            return Ok(());
        }
        // SAFETY: the kernel wrote `msg_controllen` bytes there.
        let bytes = unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), message.msg_controllen as _) };
        std::hint::black_box(timestamping::report(bytes, &[])?);
    }
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed set is an empty one; a failure leaves the thread where it may run.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Median and the order statistics that bound it with 95 % confidence.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let reach = 0.98 * n.sqrt(); // 1.96 × √n / 2
    let at = |i: f64| values[(i.clamp(0.0, n - 1.0)) as usize];
    (at(n / 2.0), at((n / 2.0 - reach).floor()), at((n / 2.0 + reach).ceil()))
}

fn stream_table(rounds: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "TCP stream over loopback, change of throughput against no stamps; n = {rounds} rounds of {SLICE:?} slices"
    );
    for size in [1024, 16 * 1024, 128 * 1024] {
        let data = vec![0x55; size];
        let mut senders = WAYS.iter().map(|(_, way)| Sender::new(*way)).collect::<Result<Vec<_>, _>>()?;
        let mut rates = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (sender, rates) in senders.iter_mut().zip(&mut rates) {
                rates.push(sender.slice(&data)?);
            }
        }
        println!("\n{size} B a send{:38}{:>8}  {:>18}  {:>9}", "", "median", "95 % interval", "MB/s");
        for (i, (name, _)) in WAYS.iter().enumerate() {
            let ratios = rates[i].iter().zip(&rates[0]).map(|(way, none)| (way / none - 1.0) * 100.0).collect();
            let (middle, low, high) = median(ratios);
            let rate = median(rates[i].clone()).0 / 1e6;
            println!("  {name:<46}{middle:>+7.1} %  {low:>+7.1} to {high:>+5.1} %  {rate:>9.0}");
        }
    }
    Ok(())
}

fn queue_table(rounds: usize) -> Result<(), Box<dyn Error>> {
    const SENDS: usize = 100;
    println!("\nError queue of a UDP socket, one core, two stamps a send, read and put to sends");
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(peer.local_addr()?)?;
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&socket)?;
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 4096);
    let mut queue = ErrorQueue::new(Room { payload: 0, ..Room::default() });
    let (mut reading, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..rounds * 50 {
        let start = Instant::now();
        for _ in 0..SENDS {
            let before = now::<Realtime>();
            matcher.sent(socket.send(b"x")?, before, ());
        }
        let sent = Instant::now();
        let count = queue.drain(&socket, |report| {
            if let Ok(Report::Stamp(stamp)) = report {
                matcher.stamp(&stamp);
            }
        })?;
        while matcher.finished().is_some() {}
        reading.push(count as f64 / sent.elapsed().as_secs_f64());
        whole.push(count as f64 / start.elapsed().as_secs_f64());
    }
    matcher.give_up();
    for (what, values) in [("reading alone", reading), ("sending, stamping and reading", whole)] {
        let (middle, low, high) = median(values);
        println!("  {what:<46}{middle:>10.0} stamps/s  (95 % {low:.0} to {high:.0})");
    }
    println!("  {:?}", matcher.counts());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(41), |n| n.parse())?;
    pin(0);
    stream_table(rounds)?;
    queue_table(rounds)
}
