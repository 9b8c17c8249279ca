//! Whether a trial was what it was meant to be: its settings by the packets, its path by its own
//! report.

use lab::{PathReport, Side};
use record::trial::Response;

use crate::evidence::Evidence;
use crate::named::Sysctl;
use crate::outcome::Check;
use crate::setting::Setup;

/// Whether the settings took, by the packets.
pub(crate) fn prove(
    setup: &Setup,
    evidence: &Evidence,
    congestion: Option<&str>,
    held: &mut Vec<Check>,
    broken: &mut Vec<String>,
) {
    let mut check = |holds: bool, what: Check| match holds {
        true => held.push(what),
        false => broken.push(format!("not so: {what}")),
    };
    let both = |sysctl: Sysctl| {
        let ends = if setup.loopback { [Side::B, Side::B] } else { Side::ALL };
        ends.map(|side| setup.sysctl(side, &sysctl))
    };
    if evidence.syns.is_empty() {
        if evidence.frames > 0 || both(Sysctl::TIMESTAMPS).iter().any(Option::is_some) {
            check(false, Check::of(format!("the SYNs of {} frames seen show the options", evidence.frames)));
        }
        return;
    }
    let scaling = both(Sysctl::WINDOW_SCALING);
    if scaling.iter().any(Option::is_some) {
        let asked = scaling.iter().all(|v| v.is_none_or(|v| v != "0"));
        let in_use = [false, true]
            .iter()
            .all(|&server| evidence.syns.iter().any(|s| s.from_server == server && s.window_scale.is_some()));
        let what = format!("the SYNs negotiate window scaling: {}", if asked { "yes" } else { "no" });
        check(in_use == asked, Check::of(what));
    }
    let timestamps = both(Sysctl::TIMESTAMPS);
    if timestamps.iter().any(Option::is_some) {
        let asked = timestamps.iter().all(|v| v.is_none_or(|v| v != "0"));
        let bytes = if asked { 32 } else { 20 };
        let segments: u64 = evidence.header_bytes.values().sum();
        let so: u64 = evidence
            .header_bytes
            .iter()
            .filter(|(length, _)| if asked { **length >= 32 } else { **length < 32 })
            .map(|(_, n)| n)
            .sum();
        let all = segments > 0 && so == segments;
        let on = if all { "every data frame".to_owned() } else { format!("{so} of {segments} data frames") };
        check(all, Check::of(format!("TCP headers of {bytes} bytes{} on {on}", if asked { " or more" } else { "" })));
    }
    if let Some(name) = &setup.options.congestion_control {
        let found = congestion.unwrap_or("unknown");
        check(found == name, Check::of(format!("the connection uses {name} (the kernel says {found})")));
    }
}

/// Whether the path was what it was asked to be.
pub(crate) fn promise(path: &PathReport, held: &mut Vec<Check>, broken: &mut Vec<String>) {
    for (way, direction) in [("a to b", &path.a_to_b), ("b to a", &path.b_to_a)] {
        let (asked, Some(did)) = (&direction.asked, &direction.achieved) else { continue };
        // Of several settings of a path there is no common figure.
        let followed_a_schedule = !direction.steps.is_empty();
        for (count, what) in [
            (did.dropped_memory, "segments dropped for lack of memory"),
            (did.refused, "segments refused by the receiving host"),
            (did.missed_frames, "frames missed because the path did not read in time"),
        ] {
            if count > 0 {
                broken.push(format!("the path {way}: {count} {what}"));
            }
        }
        if followed_a_schedule {
            continue;
        }
        let mut judge = |holds: bool, what: Check| match holds {
            true => held.push(what),
            false => broken.push(what.to_string()),
        };
        if let Some(delay) = did.delay.filter(|d| d.n >= 10 && asked.jitter.0 == 0 && asked.reorder.is_none()) {
            // A path without a rate is as fast as its own thread: what waits for that thread is
            // late, and no queue that was asked for.
            let bottleneck = asked.rate.is_some() || asked.recorded.is_some();
            let (name, kept) = if bottleneck { ("median", delay.p50) } else { ("least", delay.min) };
            let text = Check::found(
                format!("the path {way}: delay asked {}", asked.delay),
                format!("{name} {kept} of n = {}", delay.n),
            );
            // A twentieth, or what waking a thread on a busy machine takes.
            judge(kept.0.abs_diff(asked.delay.0) <= (asked.delay.0 / 20).max(500_000), text);
        }
        if let (Some(rate), Some(busy)) = (asked.rate, did.busy_rate)
            && did.busy.0 as f64 > 0.5 * path.up.0 as f64
        {
            let asked = rate.bits() as f64;
            let [wanted, was] = [asked, busy].map(|rate| crate::response::quantity(Response::Goodput, rate));
            let text = Check::found(format!("the path {way}: rate asked {wanted}"), format!("{was} while busy"));
            // A path that is idle now and then has many ends of busy periods, and a late wake-up at
            // each counts.
            let saturated = did.busy.0 as f64 > 0.8 * path.up.0 as f64;
            judge((busy / asked - 1.0).abs() < if saturated { 0.01 } else { 0.03 }, text);
        }
        if let Some(loss) = did.loss.filter(|_| asked.loss.share() > 0.0) {
            let (share, n) = (asked.loss.share(), (did.lost + did.delivered) as f64);
            let text = Check::found(format!("the path {way}: loss asked {share}"), format!("{loss:.6} of n = {n}"));
            // Bursts vary more than independent losses, by their length.
            let reach = 5.0 * (share * (1.0 - share) / n * 10.0).sqrt();
            judge((loss - share).abs() <= reach, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Setting;

    #[test]
    fn a_setting_that_did_not_take_is_reported() {
        let mut setup = Setup::default();
        setup.set(&Setting::Sysctl(None, Sysctl::TIMESTAMPS), "0").unwrap();
        let mut evidence = Evidence { frames: 10, ..Evidence::default() };
        let outcome = |evidence: &Evidence| {
            let (mut held, mut broken) = (Vec::new(), Vec::new());
            prove(&setup, evidence, None, &mut held, &mut broken);
            (held.len(), broken.len())
        };
        assert_eq!(outcome(&evidence), (0, 1));
        let syn = crate::evidence::SynOptions {
            from_server: false,
            window_scale: Some(7),
            timestamps: false,
            sack: true,
            mss: Some(1_460),
            count: 1,
        };
        evidence.syns.push(syn);
        evidence.header_bytes.insert(20, 9);
        assert_eq!(outcome(&evidence), (1, 0));
        evidence.header_bytes.insert(32, 1);
        assert_eq!(outcome(&evidence), (0, 1));
    }
}
