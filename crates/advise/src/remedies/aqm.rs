//! Queue management at the bottleneck.

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Way};

use super::{At, Change, Remedy, line};

/// The remedy.
pub(super) const REMEDY: Remedy = Remedy {
    name: "FQ-CoDel at the bottleneck",
    what: "keep the bottleneck's queue short",
    at: At::Path,
    findings: &[FindingKind::Bufferbloat],
    limits: &[],
    possible,
    change: Change::InTwin(|twin, way| twin.lane(way).qdisc = lab::Discipline::FqCodel(lab::FqCodelSettings::DEFAULT)),
    sysctls: &[],
    set: &[
        line("tc, on the bottleneck", "tc qdisc replace dev <interface> root fq_codel"),
        line(
            "tc, where the bottleneck is not yours",
            "tc qdisc replace dev <interface> root cake bandwidth <a little less than the bottleneck's rate>",
        ),
    ],
    undo: &[line("tc", "tc qdisc del dev <interface> root")],
    costs: "none for others; a lower rate where it is shaped below the bottleneck's",
    source: "RFC 8290; tc-fq_codel(8)",
};

fn possible(c: &Conditions, way: Way) -> Result<(), &'static str> {
    if c.lanes[way as usize].rate.is_some() { Ok(()) } else { Err("the bottleneck's rate is not known") }
}
