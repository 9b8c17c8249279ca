//! Reports made by several threads and handed on in order.

use std::sync::mpsc::sync_channel;

use diagnose::{Follower, Report};

/// Connections that a thread makes reports on at a time, at most: the more, the less often it has
/// to wait for the others, and the more memory is taken by what waits.
const BATCH: usize = 32;
/// Batches of each thread, at least, so that all have about the same share.
const SHARES: usize = 8;
/// Batches that may wait for their turn, of each thread.
const WAITING: usize = 4;

/// Makes something of each batch of reports with `make`, on so many threads, and gives it to `take`
/// in the order of the connections. What waits for its turn is bounded.
///
/// # Errors
/// The first one of `make` or `take`; the rest is left undone.
pub fn in_order<T: Send>(
    follower: &Follower,
    threads: usize,
    make: impl Fn(&mut dyn Iterator<Item = Report>) -> anyhow::Result<T> + Sync,
    mut take: impl FnMut(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let length = (follower.len() / (threads.max(1) * SHARES)).clamp(1, BATCH);
    let batches = follower.len().div_ceil(length);
    let one = |batch: usize| {
        let numbers = batch * length + 1..=((batch + 1) * length).min(follower.len());
        make(&mut numbers.filter_map(|n| follower.report(n)))
    };
    let threads = threads.min(batches);
    if threads < 2 {
        return (0..batches).try_for_each(|batch| take(one(batch)?));
    }
    let one = &one;
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..threads)
            .map(|thread| {
                let (give, made) = sync_channel(WAITING);
                // No one takes any more after an error.
                let work = move || (thread..batches).step_by(threads).try_for_each(|batch| give.send(one(batch)).ok());
                // Under a limit on threads, what would have been this one's is made by the one that
                // takes.
                std::thread::Builder::new().spawn_scoped(scope, work).ok().map(|_| made)
            })
            .collect();
        for batch in 0..batches {
            let made = match &made[batch % threads] {
                None => one(batch),
                // A thread that ended early has panicked; the scope passes that on.
                Some(made) => match made.recv() {
                    Ok(made) => made,
                    Err(_) => break,
                },
            };
            take(made?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::Options;
    use wire::generate::{Pattern, Traffic, write_traffic};
    use wire::{Packet, PacketReader};

    fn follower(connections: u32) -> Follower {
        let traffic = Traffic {
            pattern: Pattern::Download,
            packets: u64::from(connections) * 8,
            connections,
            seed: 1,
            loss_one_in: 0,
        };
        let mut file = Vec::new();
        write_traffic(&mut file, &traffic).unwrap();
        let mut packets = PacketReader::from_bytes(&file).unwrap();
        let mut follower = Follower::new(Options::default());
        while let Some(packet) = packets.next_packet().unwrap() {
            let Packet::Tcp(segment) = packet else { panic!("only TCP") };
            follower.take(segment);
        }
        follower
    }

    #[test]
    fn every_number_once_and_in_order_with_any_number_of_threads() {
        for (connections, threads) in [(1, 4), (64, 2), (1_000, 1), (1_000, 3), (129, 64)] {
            let (follower, mut numbers) = (follower(connections), Vec::new());
            let make = |reports: &mut dyn Iterator<Item = Report>| Ok(reports.map(|r| r.number).collect::<Vec<_>>());
            in_order(&follower, threads, make, |batch| {
                numbers.extend(batch);
                Ok(())
            })
            .unwrap();
            assert_eq!(numbers, (1..=connections as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_it() {
        let (follower, mut taken) = (follower(2_000), 0);
        let outcome = in_order(
            &follower,
            3,
            |reports| Ok(reports.count()),
            |_| {
                taken += 1;
                if taken == 2 { Err(anyhow::anyhow!("the pipe is closed")) } else { Ok(()) }
            },
        );
        assert!(outcome.is_err() && taken == 2);
    }
}
