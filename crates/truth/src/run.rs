//! Runs a plan in a lab: programs with their own account, captures at both ends, and the kernel's
//! account of each socket every few milliseconds.

mod actor;
mod dump;

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::{Direction, Host, Lab, Side};
use machine::device::{Offload, set_offload};
use socket2::{Domain, Socket, Type};

pub(crate) use actor::{Doing, Span};

use crate::packet::Packet;
use crate::plan::{End, Plan, Talk};
use crate::sample::Sample;
use actor::Actor;
use dump::Dump;

/// How long the last data may be without an ACK after both programs are done.
const LAST_ACKS: Duration = Duration::from_secs(2);
/// How long the programs of a plan may take; then they close.
const LONGEST: Duration = Duration::from_secs(10);

/// A path that delivers a hundredth of its packets later than this, ns, and than a fifth of the
/// round trip is not the one that was planned.
const LATEST: u64 = 3_000_000;

/// What was seen of a plan that ran.
pub struct Observation {
    /// The plan.
    pub plan: Plan,
    /// Its connections.
    pub(crate) talks: Vec<Observed>,
    /// From when on the path was what.
    pub(crate) path: Vec<(u64, [Direction; 2])>,
    /// The captures at client and server.
    pub(crate) captures: [Vec<Packet>; 2],
    /// Why nothing can be said of it, where the machine spoiled it.
    pub spoiled: Option<String>,
}

/// What was seen of one connection. Times are ns of the captures' clock.
pub(crate) struct Observed {
    /// The client's address.
    pub client: SocketAddr,
    /// When it was open at the client; `None` where it never was.
    pub established: Option<u64>,
    /// What the programs did.
    pub spans: [Vec<Span>; 2],
    /// What the kernel said.
    pub ticks: Vec<Tick>,
    /// What the kernel calls the sockets of client and server (`SO_COOKIE`); `None` of one that
    /// never was.
    pub cookies: [Option<u64>; 2],
}

/// What the kernel said of both ends at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick {
    pub at: u64,
    pub ends: [Option<Sample>; 2],
}

/// The clock of the captures.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The sockets of a connection, as far as it has come.
#[derive(Default)]
struct Watched {
    ends: [Option<Arc<Socket>>; 2],
}

/// Whether any of these sockets has data that are not acknowledged.
fn is_busy(watched: &Mutex<Vec<Watched>>) -> bool {
    let watched = watched.lock().expect("no thread died");
    let mut sockets = watched.iter().flat_map(|w| w.ends.iter().flatten());
    sockets.any(|socket| Sample::of(&**socket, false).is_some_and(|s| s.is_busy()))
}

impl Plan {
    /// Runs it.
    ///
    /// # Panics
    /// Where the lab cannot be made.
    pub fn run(&self) -> Observation {
        let lab = Lab::up(&self.path.config(self.seed)).unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        for side in Side::ALL {
            self.hosts[side as usize].set_up(&lab.host(side));
        }
        let dumps = Side::ALL.map(|side| Dump::start(&lab, side));
        let watched: Mutex<Vec<Watched>> = Mutex::new(self.talks.iter().map(|_| Watched::default()).collect());
        let over = AtomicBool::new(false);
        let begun = now();
        let (talks, ticks, changes) = thread::scope(|scope| {
            let sampler = scope.spawn(|| self.sample(&watched, &over));
            let stepper = scope.spawn(|| self.step(&lab, &over));
            let running: Vec<_> = (0..self.talks.len())
                .map(|number| {
                    scope.spawn({
                        let (lab, watched) = (&lab, &watched);
                        move || self.talk(lab, number, watched)
                    })
                })
                .collect();
            let talks: Vec<Talked> = running.into_iter().map(|t| t.join().expect("a connection runs")).collect();
            // What is still under way arrives, and where its ACKs were lost it is retransmitted:
            // the kernel goes on after both programs are done.
            thread::sleep(
                (Duration::from(self.path.round_trip()) * 3).clamp(Duration::from_millis(50), Duration::from_secs(1)),
            );
            let done = Instant::now();
            while done.elapsed() < LAST_ACKS && is_busy(&watched) {
                thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Relaxed);
            (talks, sampler.join().expect("the sampler runs"), stepper.join().expect("the path changes"))
        });
        let mut spoiled = None;
        let captures = dumps.map(|dump| match dump.finish() {
            Ok(packets) => packets,
            Err(why) => {
                spoiled = Some(why);
                Vec::new()
            }
        });
        let report = lab.path().report();
        for way in [report.a_to_b, report.b_to_a] {
            let late = way.achieved.and_then(|a| a.lateness).map_or(0, |late| late.p99.0);
            if late > LATEST.max(self.path.round_trip().0 / 5) {
                spoiled.get_or_insert(format!("the path delivered {} ms late", late / 1_000_000));
            }
        }
        let path = [(begun, self.path.ways.clone())].into_iter().chain(changes).collect();
        let watched = watched.into_inner().expect("no thread died");
        let talks = talks.into_iter().zip(ticks).zip(watched).map(|((t, ticks), watched)| Observed {
            client: t.client,
            established: t.established,
            spans: t.spans,
            ticks,
            cookies: watched.ends.map(|socket| socket.and_then(|s| s.cookie().ok())),
        });
        Observation { plan: self.clone(), talks: talks.collect(), path, captures, spoiled }
    }

    /// Asks the kernel of every socket until it is over.
    fn sample(&self, watched: &Mutex<Vec<Watched>>, over: &AtomicBool) -> Vec<Vec<Tick>> {
        first_in_line(3);
        let period =
            (Duration::from(self.path.round_trip()) / 8).clamp(Duration::from_millis(1), Duration::from_millis(4));
        let bbr = self.hosts.each_ref().map(|h| record::congestion::sets_its_rate(&h.congestion_control));
        let mut ticks: Vec<Vec<Tick>> = self.talks.iter().map(|_| Vec::new()).collect();
        while !over.load(Ordering::Relaxed) {
            for (watched, ticks) in watched.lock().expect("no thread died").iter().zip(&mut ticks) {
                let of = |end: usize| watched.ends[end].as_ref().and_then(|s| Sample::of(&**s, bbr[end]));
                let (ends, at) = ([of(0), of(1)], now());
                if ends.iter().any(Option::is_some) {
                    ticks.push(Tick { at, ends });
                }
            }
            thread::sleep(period);
        }
        ticks
    }

    /// Changes the path as planned; gives when.
    fn step(&self, lab: &Lab, over: &AtomicBool) -> Vec<(u64, [Direction; 2])> {
        let began = Instant::now();
        let mut done = Vec::new();
        for step in &self.path.steps {
            while began.elapsed() < Duration::from_micros(step.after_us) {
                if over.load(Ordering::Relaxed) {
                    return done;
                }
                thread::sleep(Duration::from_millis(2));
            }
            for (side, way) in Side::ALL.into_iter().zip(&step.ways) {
                lab.path().change(side, way).expect("the plan has paths that can be");
            }
            done.push((now(), step.ways.clone()));
        }
        done
    }

    /// Both programs of a connection, to their end.
    fn talk(&self, lab: &Lab, number: usize, watched: &Mutex<Vec<Watched>>) -> Talked {
        let talk: &Talk = &self.talks[number];
        thread::sleep(Duration::from_micros(talk.after_us));
        let deadline = Instant::now() + LONGEST;
        let address = SocketAddr::new(Side::B.ipv4().into(), 5_000 + number as u16);
        let listener = self.socket(lab, End::Server, |socket| {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(4)
        });
        let watch = |end: End, socket: Socket| {
            let socket = Arc::new(socket);
            watched.lock().expect("no thread died")[number].ends[end as usize] = Some(socket.clone());
            socket
        };
        let act = |end: End, socket: &Socket| {
            first_in_line(2);
            Actor::new(socket, deadline).play(&talk.program.scripts[end as usize])
        };
        let own = |end: End| SocketAddr::new(Side::ALL[end as usize].ipv4().into(), 40_000 + number as u16);
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                listener.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                loop {
                    match listener.accept() {
                        Ok((socket, _)) => return act(End::Server, &watch(End::Server, socket)),
                        Err(_) if Instant::now() < deadline => {}
                        Err(_) => return Vec::new(),
                    }
                }
            });
            let client = own(End::Client);
            let socket = watch(End::Client, self.socket(lab, End::Client, |socket| socket.bind(&client.into())));
            let connected = socket.connect_timeout(&address.into(), deadline.saturating_duration_since(Instant::now()));
            let established = connected.is_ok().then(now);
            let asked = if established.is_some() { act(End::Client, &socket) } else { Vec::new() };
            Talked { client, established, spans: [asked, served.join().expect("the server runs")] }
        })
    }

    /// A socket in the host of `end`, with its options, made ready by `ready`.
    fn socket(&self, lab: &Lab, end: End, ready: impl FnOnce(&Socket) -> std::io::Result<()> + Send) -> Socket {
        let host = &self.hosts[end as usize];
        let made = lab.host(Side::ALL[end as usize]).run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            // A namespace may not choose each by its sysctl, which asks for less privilege.
            socket.set_tcp_congestion(host.congestion_control.as_bytes())?;
            if let Some(bytes) = host.send_buffer {
                // The kernel doubles it.
                socket.set_send_buffer_size(bytes as usize / 2)?;
            }
            if let Some(bytes) = host.window_clamp {
                set(&socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)?;
            }
            if let Some(rate) = host.max_pacing {
                set(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)?;
            }
            socket.set_tcp_nodelay(host.no_delay)?;
            ready(&socket)?;
            Ok::<Socket, std::io::Error>(socket)
        });
        made.expect("the host is there").expect("a socket")
    }
}

/// What the programs of a connection say.
struct Talked {
    client: SocketAddr,
    established: Option<u64>,
    spans: [Vec<Span>; 2],
}

impl crate::plan::Host {
    /// Makes the host so.
    fn set_up(&self, host: &Host<'_>) {
        let switch = |on: bool| if on { "1" } else { "0" }.to_owned();
        let mut settings = vec![
            ("tcp_window_scaling", switch(self.window_scaling)),
            ("tcp_timestamps", switch(self.timestamps)),
            ("tcp_sack", switch(self.sack)),
            // 2: where the peer asks.
            ("tcp_ecn", if self.ecn { "1" } else { "2" }.to_owned()),
            ("tcp_slow_start_after_idle", switch(self.slow_start_after_idle)),
        ];
        if let Some(bytes) = self.receive_buffer {
            settings.push(("tcp_rmem", format!("4096 {bytes} {bytes}")));
        }
        for (name, value) in settings {
            host.set_sysctl(&format!("net.ipv4.{name}"), value).expect("every kernel that is tested knows it");
        }
        if !self.offloads {
            let off =
                || [Offload::Tso, Offload::Gso, Offload::Gro].iter().try_for_each(|o| set_offload(c"eth0", *o, false));
            host.run(off).expect("the host is there").expect("the device of a lab has offloads");
        }
    }
}

fn set(socket: &Socket, level: i32, option: i32, value: u32) -> std::io::Result<()> {
    let length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel reads four bytes of the value, which lives through the call.
    let rc = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Lets this thread go before ordinary ones, so that a busy machine is no slow application. Where
/// it is not allowed, the machine must not be busy.
fn first_in_line(priority: i32) {
    let priority = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter is read alone, and 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
}
