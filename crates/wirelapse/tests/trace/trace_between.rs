//! Sends whose packet gave no stamp: TCP moved their last byte to another packet
//! (`tcp_grow_skb()`), or something cut the packet up. Their stages are timed between those of the
//! packets around, and the bound on the error is held against the other backend, which sees every
//! packet.

use std::collections::HashMap;
use std::io::Write as _;

use crate::scene::path::{delay, drain, join, lab_with, listen};
use crate::scene::watch::{Seen, Watch};
use crate::scene::{BTF, TUN, median, turn};
use lab::{BitRate, Config, Direction};
use record::{Nanos, Send, Stage};
use tier::Need;

/// What one backend says of a stage, with the other's time for it: the inferred ones alone.
fn inferred(stamped: &[Send], traced: &[Send], stage: Stage) -> Vec<(u64, Nanos, u64)> {
    let by_key: HashMap<u32, &Send> = traced.iter().map(|s| (s.last_seq().0, s)).collect();
    stamped
        .iter()
        .filter_map(|send| {
            let error = if stage == Stage::Sched { send.stamps.sched_error } else { send.stamps.driver_error };
            let truth = by_key.get(&send.last_seq().0)?.stamps.at(stage)?.as_nanos();
            (error > Nanos::ZERO).then_some((send.stamps.at(stage)?.as_nanos(), error, truth))
        })
        .collect()
}

/// `writes` of 100,000 bytes, which end in the middle of packets, over a path on which the packets
/// grow while they wait.
fn bulk(writes: usize) -> (Seen, Seen) {
    const SIZE: usize = 100_000;
    let there = Direction { rate: BitRate::new(1_000_000_000), ..delay(10) };
    let lab = lab_with(&Config { a_to_b: there, b_to_a: delay(10), ..Config::default() });
    let (mut client, server) = join(&lab, &listen(&lab, false));
    let mut watch = Watch::start(&client);
    let reader = drain(server);
    for _ in 0..writes {
        client.write_all(&[0; SIZE]).unwrap();
    }
    watch.until(&client, (writes * SIZE) as u64);
    let mut seen = watch.finish(&client).into_iter();
    drop(client);
    reader.join().unwrap();
    (seen.next().unwrap(), seen.next().unwrap())
}

/// How much later, ns.
const LATER: u64 = 200_000;

#[test]
fn a_stage_without_a_stamp_lies_within_its_bound() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    const WANTED: usize = 20;
    let mut found = [Vec::new(), Vec::new()];
    // How often TCP fills packets up depends on when ACKs come. One connection has shown up to 23
    // such sends of 400.
    for _ in 0..10 {
        let (stamped, traced) = bulk(400);
        let lost = &stamped.summary.lost;
        // Of sends that were not acknowledged in the end, the missing ACK is what is counted.
        let acked = stamped.sends.iter().filter(|s| s.stamps.ack.is_some());
        let rough = acked.filter(|s| s.stamps.sched.is_none() || s.stamps.driver.is_none()).count();
        let of = |s: &Send| [s.stamps.sched_error, s.stamps.driver_error, s.stamps.ack_error];
        let times = |s: &Send| of(s).into_iter().any(|error| error > Nanos::ZERO);
        assert_eq!(lost.inferred, stamped.sends.iter().filter(|s| times(s)).count() as u64, "{}", stamped.account());
        assert_eq!(lost.no_sched.max(lost.no_driver), rough as u64, "{}", stamped.account());
        // Of what gives no stamp, little is known too roughly.
        assert!(rough * 50 <= stamped.sends.len(), "{}", stamped.account());
        for (found, stage) in found.iter_mut().zip([Stage::Sched, Stage::Driver]) {
            found.extend(inferred(&stamped.sends, &traced.sends, stage));
        }
        if found[0].len() >= WANTED {
            break;
        }
    }
    for (stage, found) in [Stage::Sched, Stage::Driver].into_iter().zip(&found) {
        assert!(found.len() >= WANTED, "TCP left only {} tags behind", found.len());
        // The other backend's program runs a little later, more so where the machine holds it up.
        let beyond = |(at, error, truth): &&(u64, Nanos, u64)| !(*at..=at + error.0 + LATER).contains(truth);
        let beyond: Vec<_> = found.iter().filter(beyond).collect();
        assert!(beyond.len() * 20 <= found.len(), "{stage}: {} of {}: {beyond:?}", beyond.len(), found.len());
        let off = median(found.iter().map(|&(at, _, truth)| truth.saturating_sub(at)));
        let error = median(found.iter().map(|f| f.1));
        eprintln!("{stage}: {} inferred, {} off, {error} at most, at the median", found.len(), Nanos(off));
        // The bound is an ACK's or a paced packet's distance; the time itself is near.
        assert!(off < 1_000_000, "{stage}: half of them lie over {} away", Nanos(off));
    }
}
