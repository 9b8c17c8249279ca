//! What observing costs in instructions: in a guest with one CPU, whose clock advances by one
//! nanosecond for each.
//!
//! All that the guest does is counted: sender, receiver, kernel and observer. A count needs no
//! pairs and no intervals: what is done twice takes the same number, but for the kernel's ticks,
//! and where a tick falls between two packets. The middle of a few slices is reported, with how far
//! they differ.

mod clock;
mod outcome;

pub use outcome::{Counted, Counts, LoadCounts};

use std::time::Duration;

use machine::Names;
use trace::BackendChoice;
use traffic::pin_this_thread;

use self::outcome::{Slice, Slices};
use super::load::{Connection, Load, listener, own_network};
use super::observer::Observer;
use super::outcome::Missing;
use super::stamps::Stamps;
use super::ways::{self, Key, Site, Way};
use crate::Error;

/// How long the guest rests after something was attached: the kernel goes on working on that.
const SETTLE: Duration = Duration::from_millis(100);

/// What to count.
#[derive(Clone, Debug)]
pub struct Counting {
    /// Under which loads.
    pub loads: Vec<Load>,
    /// Which ways, beside nothing, and nothing again at the end.
    pub ways: Vec<&'static Way>,
    /// Slices of each way under each load.
    pub slices: u32,
}

impl Counting {
    /// The ways that differ in more than how often they sample, under sends of 1 and 16 KiB and
    /// under request and response; the quick form, those that a change of the tracer shows in,
    /// under two of these.
    pub fn whole(quick: bool) -> Self {
        let keys: &[Key] = match quick {
            true => &[Key::Unmatched, Key::Every],
            false => &[
                Key::Unmatched,
                Key::Floor,
                Key::Tagged,
                Key::Every,
                Key::HistogramsBetween,
                Key::Histograms,
                Key::EveryCalls,
                Key::EveryTracepoints,
                Key::Receive,
                Key::EveryPacket,
                Key::Http,
                Key::TpEmpty,
                Key::TpAddresses,
                Key::FentryEmpty,
                Key::FentryAddresses,
                Key::SoTimestamping,
                Key::SoTimestampingBatched,
                Key::Packets,
                Key::Tcpdump,
            ],
        };
        let mut chosen: Vec<_> = keys.iter().copied().filter_map(ways::find).collect();
        chosen.insert(chosen.len().min(1), &ways::SAMPLED_BETWEEN);
        let sizes: &[usize] = if quick { &[1 << 10] } else { &[1 << 10, 16 << 10] };
        let mut loads: Vec<_> = sizes.iter().copied().map(Load::Stream).collect();
        loads.push(Load::Exchange);
        Self { loads, ways: chosen, slices: 3 }
    }
}

/// Sends or exchanges of a slice: some 50 million instructions.
const fn sends(load: Load) -> u64 {
    match load {
        Load::Exchange => 1536,
        Load::Stream(0..4096) => 8192,
        Load::Stream(_) => 2048,
    }
}

/// Counts. Stops early where `go_on` says so, with the ways that are done. `tell` hears the way and
/// the share that is done.
///
/// # Errors
/// [`Error::Setting`] where the clock does not count instructions, or without root;
/// [`Error::System`] where the machine refuses what every way needs. A way that this kernel cannot
/// run is no error: the outcome names it, and why.
pub fn count(
    counting: &Counting,
    tell: &mut (dyn FnMut(&'static str, f64) + Send),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Counts, Error> {
    clock::is_counted()?;
    super::measure::needs_root()?;
    // A separate thread, as the network namespace is the thread's and ends with it.
    super::measure::apart(|| in_own_network(counting, tell, go_on))
}

fn in_own_network(
    counting: &Counting,
    tell: &mut dyn FnMut(&'static str, f64),
    go_on: &dyn Fn() -> bool,
) -> Result<Counts, Error> {
    own_network()?;
    let cpu = 0;
    pin_this_thread(cpu)?;
    let listener = listener()?;
    let port = listener.local_addr().map_err(|source| Error::System { step: "listen on loopback", source })?.port();
    let connect = |&load: &Load| Ok((load, Connection::open_to(&listener, load, cpu)?, Slices::default()));
    let mut loads = counting.loads.iter().map(connect).collect::<Result<Vec<_>, Error>>()?;
    let nothing = |key| ways::find(key).into_iter();
    let order = nothing(Key::Nothing).chain(counting.ways.iter().copied()).chain(nothing(Key::Again));
    let number = counting.ways.len() + 2;
    let mut missing: Vec<Missing> = Vec::new();
    for (done, way) in order.enumerate() {
        tell(way.name, done as f64 / number as f64);
        if !go_on() {
            break;
        }
        let site = Site { port, cpu, backend: BackendChoice::Auto };
        let opened = match way.key {
            // Where there are no callbacks at sends, this is what all tracers work by.
            Key::EveryCalls | Key::EveryTracepoints if missing.iter().any(|missing| missing.key == Key::Floor) => {
                Err("here this is how every send is traced".to_owned())
            }
            // What the program asks its own socket for can be refused as well.
            _ => may_stamp(&loads, way.stamps).and_then(|()| (way.open)(site)).map_err(|error| error.to_string()),
        };
        let mut observer = match opened {
            Ok(observer) => observer,
            Err(reason) => {
                missing.push(Missing { key: way.key, name: way.name, reason });
                continue;
            }
        };
        observer.begin()?;
        std::thread::sleep(SETTLE);
        for (load, connection, slices) in &mut loads {
            let counted = slices_of(connection, *load, way.stamps, observer.as_mut(), counting.slices)?;
            slices.0.push((way, counted));
        }
        observer.end()?;
    }
    let tables = loads.iter().map(|(load, _, slices)| LoadCounts::of(*load, sends(*load), slices)).collect();
    Ok(Counts { kernel: Names::here().kernel, development: cfg!(debug_assertions), tables, missing })
}

/// Whether this kernel gives a socket these stamps.
fn may_stamp(loads: &[(Load, Connection, Slices)], stamps: Stamps) -> Result<(), Error> {
    loads.iter().take(1).try_for_each(|(_, connection, _)| connection.end(connection.stamping(stamps)?))
}

/// Slices after one that warms up.
fn slices_of(
    connection: &mut Connection,
    load: Load,
    stamps: Stamps,
    observer: &mut dyn Observer,
    slices: u32,
) -> Result<Vec<Slice>, Error> {
    let mut stamping = connection.stamping(stamps)?;
    let mut counted = Vec::new();
    connection.carry(sends(load), &mut stamping)?;
    for _ in 0..slices {
        // What is recorded in a slice is read in it, so that no slice pays for another's.
        let read = observer.take()?;
        let begin = traffic::now();
        connection.carry(sends(load), &mut stamping)?;
        let read = observer.take()?.saturating_sub(read);
        let all = traffic::now().as_nanos() - begin.as_nanos();
        counted.push(Slice { all, read: read.0.min(all) });
    }
    connection.end(stamping)?;
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::observer::Nobody;

    #[test]
    fn a_clock_of_time_is_refused() {
        // Two loops of as many instructions each: by a clock of time one takes longer.
        let error = clock::is_counted().unwrap_err();
        assert!(error.to_string().contains("does not count instructions"), "{error}");
    }

    #[test]
    fn the_quick_form_has_the_ways_that_a_change_shows_in() {
        let quick = Counting::whole(true);
        let keys: Vec<_> = quick.ways.iter().map(|way| way.key).collect();
        assert_eq!(keys, [Key::Unmatched, Key::SampledBetween, Key::Every]);
        assert_eq!(quick.loads, [Load::Stream(1024), Load::Exchange]);
    }

    #[test]
    fn slices_have_as_many_sends_whatever_observes_them() {
        tier::needs!(tier::Need::Root);
        let slices = crate::overhead::measure::apart(|| {
            own_network()?;
            let mut connection = Connection::open_to(&listener()?, Load::Exchange, 0)?;
            slices_of(&mut connection, Load::Exchange, Stamps::None, &mut Nobody, 2)
        });
        let slices = slices.unwrap();
        assert!(slices.len() == 2 && slices.iter().all(|slice| slice.all > 0 && slice.read == 0), "{slices:?}");
    }
}
