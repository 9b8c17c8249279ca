//! The path between the hosts, whoever makes it.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use clock::Nanos;

use crate::config::{Config, Direction};
use crate::forward::{Forwarder, Shared, clock};
use crate::host::{Host, INTERFACE, Side};
use crate::line::Line;
use crate::report::DirectionReport;
use crate::{Error, tap};

/// Delays up to this are asked for less by what the machine adds.
const SHORT: Nanos = Nanos::from_millis(1);

/// A maker of paths. Dropping it takes the path down.
pub(crate) trait Backend: Send + Sync + std::fmt::Debug {
    /// `built-in` or `netem`.
    fn name(&self) -> &'static str;
    /// What the direction from `side` did so far, beside what was asked.
    fn report(&self, from: Side) -> DirectionReport;
    /// Makes the direction from `side` another from the next frame on.
    fn change(&mut self, from: Side, to: &Direction) -> Result<(), Error>;
}

/// The built-in backend: two TAP devices and a thread for each direction.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    directions: [OneWay; 2],
}

#[derive(Debug)]
struct OneWay {
    asked: Direction,
    overhead: Nanos,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Where the sending device's counters are read.
    net: OwnedFd,
}

impl BuiltIn {
    pub(crate) fn up(config: &Config, hosts: [Host<'_>; 2]) -> Result<Self, Error> {
        let mut taps = Vec::with_capacity(2);
        for host in hosts {
            let tap = host.run(|| {
                let tap = tap::create(c"eth0")?;
                Host::configure(host.side(), config.mtu)
                    .map_err(Error::system(format!("configure {INTERFACE} of host {}", host.side().name())))?;
                Ok::<_, Error>(tap)
            })??;
            taps.push(Arc::new(tap));
        }
        let taps = [taps[0].clone(), taps[1].clone()];
        // A path that delays nothing has nothing to be taken off from; on a long one the machine's share is nothing beside the delay,
        // and no packet is to be earlier than asked.
        let longest = config.a_to_b.delay.max(config.b_to_a.delay);
        let overhead = if longest > Nanos::ZERO && longest <= SHORT {
            Self::overhead(config, hosts, &taps)?
        } else {
            [Nanos::ZERO; 2]
        };
        let way = |from: usize, asked: &Direction| {
            let seed = config.seed.wrapping_mul(2).wrapping_add(from as u64);
            let line = Line::new(asked.clone(), config.mtu, seed);
            let shared = Arc::new(Shared::new(event()?));
            let forwarder =
                Forwarder::new(taps[from].clone(), taps[1 - from].clone(), line, shared.clone(), overhead[from].0);
            let name = if from == 0 { "lab-path-ab" } else { "lab-path-ba" };
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || forwarder.run())
                .map_err(Error::system("start a thread for the path"))?;
            let net = hosts[from].network_namespace().try_clone_to_owned();
            let net = net.map_err(Error::system("keep a host's network namespace"))?;
            Ok(OneWay { asked: asked.clone(), overhead: overhead[from], shared, thread: Some(thread), net })
        };
        Ok(Self { directions: [way(0, &config.a_to_b)?, way(1, &config.b_to_a)?] })
    }

    /// What the machine adds each way, over a path that is taken down again: the frames of this are in no account.
    fn overhead(config: &Config, hosts: [Host<'_>; 2], taps: &[Arc<OwnedFd>; 2]) -> Result<[Nanos; 2], Error> {
        // The shortest of delays, so that the threads keep time as they will.
        let least = Direction { delay: Nanos(1), ..Direction::default() };
        let mut ways = Vec::with_capacity(2);
        for from in 0..2 {
            let shared = Arc::new(Shared::new(event()?));
            let line = Line::new(least.clone(), config.mtu, 0);
            let forwarder = Forwarder::new(taps[from].clone(), taps[1 - from].clone(), line, shared.clone(), 0);
            let thread = std::thread::Builder::new()
                .name("lab-overhead".into())
                .spawn(move || forwarder.run())
                .map_err(Error::system("start a thread for the path"))?;
            ways.push((shared, thread));
        }
        let measured =
            crate::overhead::measure(hosts).map_err(Error::system("measure what the machine adds to the path"));
        for (shared, thread) in ways {
            shared.stop();
            let _ = thread.join();
        }
        measured
    }
}

fn event() -> Result<OwnedFd, Error> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(Error::last("make an eventfd"));
    }
    // SAFETY: new, and owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Backend for BuiltIn {
    fn name(&self) -> &'static str {
        "built-in"
    }

    fn report(&self, from: Side) -> DirectionReport {
        let way = &self.directions[from as usize];
        let (achieved, changes) = way.shared.achieved(crate::links::counters(&way.net).missed_frames);
        DirectionReport { asked: way.asked.clone(), overhead: Some(way.overhead), changes, achieved: Some(achieved) }
    }

    fn change(&mut self, from: Side, to: &Direction) -> Result<(), Error> {
        let way = &mut self.directions[from as usize];
        way.asked = to.clone();
        way.shared.change(to.clone());
        Ok(())
    }
}

impl Drop for OneWay {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panicked thread has nothing left to take down.
            let _ = thread.join();
        }
    }
}

/// When a path came up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u64);

impl Since {
    pub(crate) fn now() -> Self {
        Self(clock())
    }

    pub(crate) fn elapsed(self) -> Nanos {
        Nanos(clock().saturating_sub(self.0))
    }
}
