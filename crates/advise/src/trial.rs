//! One run of a twin, in a lab of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture::{Receiver, Technique};
use diagnose::{Follower, Keep, Options, Report};
use lab::{INTERFACE, Lab, Side};
use record::conversation::Way;
use record::{Instant, Monotonic, Nanos};
use traffic::script::{self, Role};
use wire::{Frame, Packet, Reassembly, Segment};

use crate::Error;
use crate::twin::{End, Twin};

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Trial {
    /// From the client's first packet, or the beginning of the last pass, to the last byte read;
    /// the bound where it was not over by then.
    pub completion: Nanos,
    /// Whether it came to its end within the bound.
    pub finished: bool,
    /// How long the client waited for each answer.
    pub answers: Vec<Nanos>,
    /// The smoothed round trips that the two sockets had while they wrote.
    pub round_trips: Vec<Nanos>,
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
/// [`Error`], where it cannot be built, or its programs fail in another way than by being given up.
pub fn run(twin: &Twin, seed: u64, capture_at: Option<Side>, at_most: Nanos) -> Result<Trial, Error> {
    let mut path = twin.path.clone();
    path.seed = seed;
    let lab = Lab::up(&path)?;
    for (side, end) in Twin::SIDES.into_iter().zip(&twin.ends) {
        prepare(&lab, side, end, twin.ipv6)?;
    }
    let capturing = capture_at.map(|side| lab.host(side).run(Capturing::start)).transpose()?.transpose()?;
    let until = traffic::now().after(at_most);
    let [calls, answers] = Way::ALL.map(|way| role(twin, way, until));
    let address = |side: Side| if twin.ipv6 { IpAddr::V6(side.ipv6()) } else { IpAddr::V4(side.ipv4()) };
    let at = SocketAddr::new(address(Side::B), 7_000);
    let listener = lab.host(Side::B).run(|| script::listen(at, answers.options))??;
    let (asked, served) = std::thread::scope(|scope| {
        let served = scope.spawn(|| script::serve(&listener, &answers));
        let asked = lab.host(Side::A).run(|| script::run(at, &calls));
        (asked, served.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // The last ACKs are part of the capture.
    let report = capturing.map(|capturing| capturing.end(path.a_to_b.delay + path.b_to_a.delay));
    let report = report.transpose()?.flatten();
    let asked = asked?;
    // Where one is given up, the other sees its end.
    let errors = [asked.as_ref().err(), served.as_ref().err()];
    if errors.into_iter().flatten().any(traffic::Error::is_out_of_time) {
        let nothing = Vec::new;
        return Ok(Trial { completion: at_most, finished: false, answers: nothing(), round_trips: nothing(), report });
    }
    let (asked, served) = (asked?, served?);
    Ok(Trial {
        completion: asked.ended.max(served.ended).saturating_since(asked.began),
        finished: true,
        answers: asked.answers,
        round_trips: [asked.round_trips, served.round_trips].concat(),
        report,
    })
}

/// What the program that sends that way does.
fn role(twin: &Twin, way: Way, until: Instant<Monotonic>) -> Role<'_> {
    let end = &twin.ends[way as usize];
    Role {
        steps: twin.script.of(way),
        reads: twin.script.bytes(!way),
        options: &end.options,
        delayed_ack: end.delayed_ack,
        fast_open: twin.fast_open,
        passes: twin.passes,
        until,
    }
}

/// Sets what belongs to a host.
fn prepare(lab: &Lab, side: Side, end: &End, ipv6: bool) -> Result<(), Error> {
    let host = lab.host(side);
    for (name, value) in &end.sysctls {
        host.set_sysctl(name, value)?;
    }
    let windows = [("initcwnd", end.initial_window), ("initrwnd", end.initial_receive_window)];
    let windows: Vec<String> = windows
        .into_iter()
        .filter_map(|(name, segments)| Some([name.to_owned(), segments?.to_string()]))
        .flatten()
        .collect();
    if windows.is_empty() {
        return Ok(());
    }
    let peer = if ipv6 { format!("{}/128", side.other().ipv6()) } else { format!("{}/32", side.other().ipv4()) };
    let refused = |why: String| Error::Setting { host: side.name(), setting: windows.join(" "), why };
    let done = host.command("ip")?.args(["route", "replace", &peer, "dev", INTERFACE]).args(&windows).output();
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
        let mut segments = segments.map_err(Error::Capture)?;
        // Frames that two CPUs stamp at once come in either order.
        segments.sort_by_key(|s| s.at.as_nanos());
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
