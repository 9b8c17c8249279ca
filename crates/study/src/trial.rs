//! Running one trial: its ends, its settings, the workload, and what proves that all of it was so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use record::Nanos;

use crate::evidence::Capture;
use crate::ground::{Ends, Ground};
use crate::outcome::Trial;
use crate::plan::{Place, Plan};
use crate::processors::Busy;
use crate::setting::Workload;
use crate::{Error, counters, measure, proof};

/// Threads that use the CPU until dropped.
struct CpuLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl CpuLoad {
    fn start(threads: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            move || {
                let mut x = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1_000 {
                        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
                    }
                }
            }
        };
        let threads = (0..threads)
            .filter_map(|_| std::thread::Builder::new().name("study-load".into()).spawn(spin(stop.clone())).ok())
            .collect();
        Self { stop, threads }
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

/// Runs one trial of a plan. `go_on` is asked about ten times a second; `None` where it ended the
/// trial.
///
/// # Errors
/// [`Error::Lab`], [`Error::Sysctl`] and [`Error::Traffic`] where it cannot be run, [`Error::Gone`]
/// where the server went away.
pub fn run(
    part: usize,
    plan: &Plan,
    place: &Place,
    seed: u64,
    ground: &Ground,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Trial>, Error> {
    let mut setup = plan.setup(&place.levels)?;
    // Every block has its own losses, the same for all of its trials.
    setup.path.seed = seed.wrapping_add(u64::from(place.block));
    if matches!(ground, Ground::Peer(_)) {
        setup.keep_to_this_host();
    }
    let (started_ns, began) = (Nanos(traffic::realtime().as_nanos()), traffic::now());
    let mut held = Vec::new();
    let ends = Ends::up(&setup, ground, &mut held)?;
    let capture = ends.run(|| Capture::start(&ends.interface, plan.frames, ends.server))?;
    let load = CpuLoad::start(setup.cpu_load);
    let before = ends.run(counters::read)?;
    let busy = Busy::start();
    let measured = measure::run(&ends, &setup, plan, go_on);
    let cpu_busy = busy.end();
    let counters = counters::since(&before, &ends.run(counters::read)?);
    drop(load);
    let evidence = capture.end();
    let path = ends.down(setup.loopback);
    let Some(mut measured) = measured? else { return Ok(None) };
    // The TCP connection on which `udp` is asked for carries no datagrams.
    if setup.workload != Workload::Udp {
        measured.windows_of(&evidence);
    }
    let mut broken = measured.broken;
    proof::prove(&setup, &evidence, measured.congestion.as_deref(), &mut held, &mut broken);
    if let Some(path) = &path {
        proof::promise(path, &mut held, &mut broken);
    }
    Ok(Some(Trial {
        started_ns,
        took: traffic::now().saturating_since(began),
        responses: measured.responses,
        held,
        broken,
        evidence,
        series: measured.series,
        counters,
        cpu_busy,
        pings: measured.pings,
        path,
        congestion_control: measured.congestion,
        ..Trial::at(plan, part, place)
    }))
}
