//! A shorter queue at the bottleneck.

use diagnose::conditions::Conditions;
use lab::Depth;
use record::Nanos;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "a shorter queue at the bottleneck",
    what: "let no more wait at the bottleneck than a round trip's worth",
    at: At::Path,
    findings: &[FindingKind::Bufferbloat],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| {
        let lane = twin.lane(way);
        // What a single flow needs to keep the path busy (Appenzeller and others, SIGCOMM 2004).
        lane.queue = Some(Depth::Time(Nanos(lane.delay.0 * 2).max(LEAST)));
    }),
    sysctls: &[],
    set: &[
        line("tc, on the bottleneck", "tc qdisc replace dev <interface> root bfifo limit <rate × round trip, bytes>"),
        line("ip link, where there is no qdisc", "ip link set dev <interface> txqueuelen <segments>"),
    ],
    undo: &[line("tc", "tc qdisc del dev <interface> root")],
    costs: "more losses where many connections share it",
    source: "Appenzeller, Keslassy, McKeown, Sizing Router Buffers, SIGCOMM 2004; tc-bfifo(8)",
};

/// A burst of a few segments finds room on any path.
const LEAST: Nanos = Nanos::from_millis(5);

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    let lane = &c.lanes[way as usize];
    match &lane.rate {
        None => Err("the bottleneck's rate is not known"),
        Some(_) if lane.queue.value <= c.round_trip.value.max(LEAST) => Err("its queue is no longer than that"),
        Some(_) => Ok(()),
    }
}
