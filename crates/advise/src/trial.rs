//! One run of a twin, in a lab of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture::{Receiver, Technique};
use diagnose::{Follower, Keep, Options, Report};
use lab::{INTERFACE, Lab, Side};
use record::Nanos;
use record::conversation::Way;
use traffic::script::{self, Role};
use wire::{Frame, Packet, Reassembly, Segment};

use crate::Error;
use crate::twin::{End, Twin};

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Trial {
    /// From the client's first packet, or the beginning of the last pass, to the last byte read.
    pub completion: Nanos,
    /// How long the client waited for each answer.
    pub answers: Vec<Nanos>,
    /// What its packets show, where they were captured.
    pub report: Option<Report>,
}

/// Bytes kept of each frame: all headers of the lab's hosts.
const SNAP: u32 = 160;
/// How long the end of a capture is waited for, where no frame comes.
const SILENCE: Duration = Duration::from_millis(20);
/// Packets kept of a twin's connection.
const PACKETS: usize = 2_000_000;

/// Runs a twin once, captured at one of its hosts where that is asked for. It is given up after
/// `at_most`.
///
/// # Errors
/// [`Error`], where it cannot be built or does not come to its end.
pub fn run(twin: &Twin, seed: u64, capture_at: Option<Side>, at_most: Nanos) -> Result<Trial, Error> {
    let mut path = twin.path.clone();
    path.seed = seed;
    let lab = Lab::up(&path)?;
    for (side, end) in Twin::SIDES.into_iter().zip(&twin.ends) {
        prepare(&lab, side, end, twin.ipv6)?;
    }
    let capturing = capture_at.map(|side| lab.host(side).run(Capturing::start)).transpose()?.transpose()?;
    let [client, server] = &twin.ends;
    let until = traffic::now().after(at_most);
    let role = |way: Way, end| Role {
        steps: twin.script.of(way),
        reads: twin.script.bytes(!way),
        options: end,
        passes: twin.passes,
        until,
    };
    let (calls, answers) = (role(Way::ToServer, &client.options), role(Way::ToClient, &server.options));
    let address = |side: Side| if twin.ipv6 { IpAddr::V6(side.ipv6()) } else { IpAddr::V4(side.ipv4()) };
    let at = SocketAddr::new(address(Side::B), 7_000);
    let listener = lab.host(Side::B).run(|| script::listen(at, &server.options))??;
    let (asked, served) = std::thread::scope(|scope| {
        let served = scope.spawn(|| script::serve(&listener, &answers));
        let asked = lab.host(Side::A).run(|| script::run(at, &calls));
        (asked, served.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // The last ACKs are part of the capture.
    let report = capturing.map(|capturing| capturing.end(path.a_to_b.delay + path.b_to_a.delay));
    let (asked, served) = (asked??, served?);
    let ended = asked.ended.max(served.ended);
    let completion = ended.saturating_since(asked.began);
    Ok(Trial { completion, answers: asked.answers, report: report.transpose()?.flatten() })
}

/// Sets what belongs to a host.
fn prepare(lab: &Lab, side: Side, end: &End, ipv6: bool) -> Result<(), Error> {
    let host = lab.host(side);
    for (name, value) in &end.sysctls {
        host.set_sysctl(name, value)?;
    }
    let Some(window) = end.initial_window else { return Ok(()) };
    let peer = if ipv6 { format!("{}/128", side.other().ipv6()) } else { format!("{}/32", side.other().ipv4()) };
    let window = window.to_string();
    let refused = |why: String| Error::Setting { host: side.name(), setting: format!("initcwnd {window}"), why };
    let done = host.command("ip")?.args(["route", "replace", &peer, "dev", INTERFACE, "initcwnd", &window]).output();
    match done {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(refused(String::from_utf8_lossy(&out.stderr).trim().to_owned())),
        Err(error) => Err(refused(format!("the program `ip`: {error}"))),
    }
}

/// A capture under way.
struct Capturing {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<Vec<Segment>, String>>,
}

impl Capturing {
    /// Begins, in the network namespace of the calling thread.
    fn start() -> Result<Self, Error> {
        let options = capture::Options { snap_length: SNAP, ..capture::Options::of(INTERFACE) };
        let receiver = capture::open(Technique::Recvmmsg, &options).map_err(|e| Error::Capture(e.to_string()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new().name("advise-capture".into());
        let thread = thread.spawn(move || segments(receiver, &seen)).map_err(|e| Error::Capture(e.to_string()))?;
        Ok(Self { stop, thread })
    }

    /// Ends it after a time; gives what its one connection was.
    fn end(self, after: Nanos) -> Result<Option<Report>, Error> {
        std::thread::sleep(after.into());
        self.stop.store(true, Ordering::Relaxed);
        let segments = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let segments = segments.map_err(Error::Capture)?;
        let mut follower =
            Follower::new(Options { connections: 1, keep: Keep::Connection(1, PACKETS), ..Options::default() });
        segments.iter().for_each(|s| follower.take(s));
        Ok(follower.report(1))
    }
}

fn segments(mut receiver: Box<dyn Receiver>, stop: &AtomicBool) -> Result<Vec<Segment>, String> {
    let mut all = Vec::new();
    let mut reassembly = Reassembly::new();
    let link = receiver.about().link_type;
    loop {
        let batch = receiver.next_batch(SILENCE, &mut |frame| {
            // The kernel begins to stamp a moment after it is asked.
            let at = frame.software.map_or_else(timestamping::now, |stamp| stamp.at);
            let mut seen = Frame::new(all.len() as u64 + 1, at, link, frame.data);
            seen.original_length = frame.original_length;
            if let Ok(Packet::Tcp(segment)) = wire::dissect(&seen, &mut reassembly) {
                all.push(segment);
            }
        });
        match batch {
            Ok(0) if stop.load(Ordering::Relaxed) => break,
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    match receiver.counts().dropped {
        0 => Ok(all),
        n => Err(format!("{} were not read in time", quantity::counted(n, "frame"))),
    }
}
