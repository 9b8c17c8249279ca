//! Matching inside the kernel, for rates that no socket takes: a program at each tap, and figures
//! instead of frames.
//!
//! Both taps stamp at the same kind of place. Where both interfaces have hardware, XDP programs
//! read the clock as the driver takes a frame from it. Else tc programs take the kernel's receive
//! timestamp, which is made when a frame is handed over: an XDP program of a veth pair runs later,
//! by what the softirq waits, which would be in every delay with either sign.

use std::ffi::OsStr;
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use clock::Nanos;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel};
use stats::level_changes_that_stand_out;

use super::join::PATIENCE;
use super::live::SoFar;
use super::series::{CONFIDENCE, STANDS_OUT, mean_about};
use super::{Account, Bin, Change, Figures, QUANTILES, Stretch};
use crate::link::Link;
use crate::xdp::{Attached, Hook, Mode, attach, attach_to, load_failed, system};
use crate::{Error, Technique};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/delay.bpf.o"));

/// Frames that wait for their other half at most: `SLOTS` of `delay.bpf.c`. A frame is lost once
/// the id this much later enters.
pub const WAITING: u64 = 1 << 22;
const BUCKETS: usize = 512;
/// Words of `struct figures` in front of its buckets.
const WORDS: usize = 18;

/// How long the kernel may take to begin stamping what arrives, once a socket has asked for it
/// (`net_enable_timestamp()` leaves it to a worker).
const STAMPING_BEGINS: Duration = Duration::from_millis(50);

/// How often the figures are read for the series.
const TURN: Duration = Duration::from_millis(10);

/// Two interfaces with the programs on them; they leave when this value is dropped, or its process
/// ends.
pub struct InKernel {
    programs: Programs,
    _object: Object,
    figures: MapHandle,
    links: [Link; 2],
    dropped: [u64; 2],
    remarks: Vec<String>,
}

/// The programs on both interfaces.
enum Programs {
    /// In the drivers or, where these have no XDP, in the stack.
    Xdp { _attached: [Attached; 2] },
    /// In the stack, with the kernel's receive timestamps, which a socket asks for.
    Stack { _attached: [OwnedFd; 2], _stamping: UdpSocket },
}

/// What the programs saw.
pub struct Seen {
    /// The figures.
    pub figures: Figures,
    /// What each interface dropped meanwhile, as far as it says, and the frames there without a
    /// timestamp, which are in no other count.
    pub dropped: [u64; 2],
    /// See `dropped`.
    pub unstamped: [u64; 2],
    /// How long frames were counted.
    pub lasted: Nanos,
    /// Why it ended, where that was not asked for.
    pub failed: Option<Error>,
}

/// What the programs counted.
#[derive(Clone, Debug, PartialEq)]
struct Counted {
    words: [u64; WORDS],
    squares: f64,
    buckets: Vec<u64>,
}

impl InKernel {
    /// Puts the programs on both interfaces. `drop` has frames end there, which is right where the
    /// interfaces have copies: nothing takes them, and the kernel saves making packets of them.
    ///
    /// # Errors
    /// As [`crate::open`] of [`Technique::Xdp`].
    pub fn open(interfaces: [&str; 2], drop: bool) -> Result<Self, Error> {
        libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
        let links = [Link::by_name(interfaces[0])?, Link::by_name(interfaces[1])?];
        let mut object =
            ObjectBuilder::default().open_memory(OBJECT).map_err(|e| system("open the programs of the taps", &e))?;
        for mut map in object.maps_mut() {
            if map.name() == OsStr::new(".rodata.settings") {
                let settings = u32::from(drop).to_ne_bytes();
                map.set_initial_value(&settings).map_err(|e| system("configure the programs of the taps", &e))?;
            }
        }
        let object = object.load().map_err(|error| load_failed(Technique::Xdp, &links[0], &error))?;
        let (programs, remarks) = put(&object, &links)?;
        let map = object.maps().find(|m| m.name() == OsStr::new("figures")).ok_or_else(missing)?;
        let figures = MapHandle::try_from(&map).map_err(|e| system("hold a BPF map", &e))?;
        let dropped = links.each_ref().map(Link::dropped_receiving);
        Ok(Self { programs, _object: object, figures, links, dropped, remarks })
    }

    /// What the programs are, for a report.
    pub fn method(&self) -> &'static str {
        match self.programs {
            Programs::Xdp { .. } => "XDP programs that match in the kernel, software timestamps",
            Programs::Stack { .. } => "tc programs that match in the kernel, software timestamps",
        }
    }

    /// What to know of it.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Watches until `go_on`, which is asked a hundred times a second, says no, or until an
    /// interface goes down or away.
    ///
    /// # Errors
    /// [`Error::System`] where the figures cannot be read.
    pub fn watch(self, mut go_on: impl FnMut(&SoFar) -> bool) -> Result<Seen, Error> {
        let began = Instant::now();
        let mut last = self.counted()?;
        let mut series = Vec::new();
        let failed = loop {
            std::thread::sleep(TURN);
            let lasted = Nanos::from(began.elapsed());
            let counted = self.counted()?;
            series.extend(counted.since(&last).stretch(lasted.0));
            let account = counted.account(false);
            last = counted;
            if !go_on(&SoFar { account, lasted }) {
                break None;
            }
            // A program stays loaded when its interface goes, and counts nothing.
            if let Some(gone) = self.links.iter().find(|link| !link.is_up()) {
                break Some(Error::InterfaceGone(gone.name.clone()));
            }
        };
        let lasted = Nanos::from(began.elapsed());
        // Frames that are still in the device have as long to leave it as a frame is waited for
        // elsewhere.
        let mut end = self.counted()?;
        while end.waiting() > 0 && Nanos::from(began.elapsed()) < lasted + PATIENCE {
            std::thread::sleep(TURN);
            end = self.counted()?;
        }
        // An interface may count as dropped what an XDP program drops, which was asked for.
        let dropped = match self.programs {
            Programs::Xdp { .. } => [0; 2],
            Programs::Stack { .. } => {
                [0, 1].map(|tap: usize| self.links[tap].dropped_receiving().saturating_sub(self.dropped[tap]))
            }
        };
        let unstamped = [end.words[UNSTAMPED_BEFORE], end.words[UNSTAMPED_AFTER]];
        Ok(Seen { figures: end.figures(series), dropped, unstamped, lasted, failed })
    }

    /// The sum over all CPUs.
    fn counted(&self) -> Result<Counted, Error> {
        let read = self.figures.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let all = read.map_err(|e| system("read the figures of the programs", &e))?.unwrap_or_default();
        Ok(Counted::of(&all))
    }
}

fn missing() -> Error {
    Error::System { what: "find the programs of a tap", source: std::io::ErrorKind::NotFound.into() }
}

/// Puts programs of one kind on both interfaces, with what to know of it.
fn put(object: &Object, links: &[Link; 2]) -> Result<(Programs, Vec<String>), Error> {
    let program = |name: &str| -> Result<RawFd, Error> {
        let found = object.progs().find(|p| p.name() == OsStr::new(name));
        Ok(found.ok_or_else(missing)?.as_fd().as_raw_fd())
    };
    let mut remarks = Vec::new();
    if let Some(soft) = links.iter().find(|link| !link.has_hardware()) {
        match put_in_stack(program("before_in_stack")?, program("after_in_stack")?, links) {
            Ok(programs) => return Ok((programs, remarks)),
            Err(error) => remarks.push(format!(
                "{} is made of software, and this kernel takes no tc program there that ends with its process ({error}; Linux 6.6 \
                 does): XDP programs read the clock when a softirq runs them, so that each delay may be off by what that waits, either way. \
                 Without --in-kernel it is not",
                soft.name
            )),
        }
    }
    // Behind the device first: a frame that leaves has not entered before the programs were there.
    let after = attach_to(Technique::Xdp, &links[1], program("after")?)?;
    let before = attach_to(Technique::Xdp, &links[0], program("before")?)?;
    let generic = links.iter().zip([&before, &after]).filter(|(_, attached)| attached.mode == Mode::Generic);
    remarks.extend(generic.map(|(link, _)| {
        format!(
            "{}: the driver has no XDP: the program runs in the network stack (generic mode), later and slower",
            link.name
        )
    }));
    Ok((Programs::Xdp { _attached: [before, after] }, remarks))
}

/// The tc programs, once the kernel stamps what arrives.
fn put_in_stack(before: RawFd, after: RawFd, links: &[Link; 2]) -> std::io::Result<Programs> {
    let stamping = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0"))?;
    machine::option::set(stamping.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
    std::thread::sleep(STAMPING_BEGINS);
    let after = attach(after, links[1].index, Hook::Arrival)?;
    let before = attach(before, links[0].index, Hook::Arrival)?;
    Ok(Programs::Stack { _attached: [before, after], _stamping: stamping })
}

// Words of `struct figures` of `delay.bpf.c`.
const BEFORE: usize = 0;
const AFTER: usize = 1;
const MATCHED: usize = 2;
const LOST: usize = 3;
const DUPLICATED: usize = 4;
const UNEXPLAINED: usize = 5;
const UNRECOGNISED: usize = 6;
const REORDERED: usize = 7;
const LATEST: usize = 8;
const SUM: usize = 9;
const HIGH: usize = 10;
const LOW: usize = 11;
const LEAST: usize = 12;
const MOST: usize = 13;
const ENTERED: usize = 14;
const NEGATIVE: usize = 15;
const UNSTAMPED_BEFORE: usize = 16;
const UNSTAMPED_AFTER: usize = 17;

impl Counted {
    /// Of the values of each CPU.
    fn of(values: &[Vec<u8>]) -> Self {
        let mut all = Self { words: [0; WORDS], squares: 0.0, buckets: vec![0; BUCKETS] };
        for value in values {
            let words: Vec<u64> = value.chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_ne_bytes)).collect();
            let Some((head, buckets)) = words.split_at_checked(WORDS) else { continue };
            all.squares += head[HIGH] as f64 * 2f64.powi(64) + head[LOW] as f64;
            for (place, (sum, word)) in all.words.iter_mut().zip(head).enumerate() {
                *sum = match place {
                    LEAST if *sum == 0 || *word == 0 => (*sum).max(*word),
                    LEAST => (*sum).min(*word),
                    MOST | LATEST => (*sum).max(*word),
                    HIGH | LOW => 0,
                    _ => *sum + word,
                };
            }
            all.buckets.iter_mut().zip(buckets).for_each(|(sum, n)| *sum += n);
        }
        all
    }

    /// What came after `earlier`; its least and most are of all.
    fn since(&self, earlier: &Self) -> Self {
        let mut words = self.words;
        for place in (0..WORDS).filter(|place| ![LATEST, LEAST, MOST].contains(place)) {
            words[place] -= earlier.words[place];
        }
        let buckets = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now - then).collect();
        Self { words, squares: self.squares - earlier.squares, buckets }
    }

    /// Frames that entered and have not left.
    fn waiting(&self) -> u64 {
        self.words[ENTERED].saturating_sub(self.words[MATCHED] + self.words[LOST])
    }

    /// What became of the frames; those that wait are lost only where `is_over`.
    fn account(&self, is_over: bool) -> Account {
        let of = |place: usize| self.words[place];
        Account {
            before: of(BEFORE),
            after: of(AFTER),
            matched: of(MATCHED),
            lost: of(LOST) + if is_over { self.waiting() } else { 0 },
            duplicated: of(DUPLICATED),
            unexplained: of(UNEXPLAINED),
            reordered: of(REORDERED),
            unrecognised: of(UNRECOGNISED),
            not_kept: 0,
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.words[MATCHED] > 0).then(|| self.words[SUM] as f64 / self.words[MATCHED] as f64)
    }

    /// The delay at a share of the frames, to within an eighth: the middle of its bucket, within
    /// the least and most of all.
    fn quantile(&self, share: f64) -> Option<f64> {
        let n: u64 = self.buckets.iter().sum();
        let rank = ((n as f64 * share).ceil() as u64).clamp(1, n.max(1));
        let mut below = 0;
        let place = self.buckets.iter().position(|frames| {
            below += frames;
            below >= rank
        })?;
        let [from, to] = edges(place);
        let (least, most) = (self.words[LEAST].saturating_sub(1) as f64, self.words[MOST] as f64);
        Some(((from + to - 1.0) / 2.0).clamp(least.min(most), most))
    }

    /// A point of the series; `None` where no frame came.
    fn stretch(&self, at_ns: u64) -> Option<Stretch> {
        Some(Stretch {
            at_ns,
            n: self.words[MATCHED] as usize,
            min_ns: self.quantile(0.0)? as i64,
            median_ns: self.quantile(0.5)?,
            mean_ns: self.mean()?,
            max_ns: self.quantile(1.0)? as i64,
        })
    }

    fn figures(&self, series: Vec<Stretch>) -> Figures {
        let (n, mean) = (self.words[MATCHED], self.mean());
        let changes = changes(&series);
        let quantiles = QUANTILES.map(|share| match share {
            0.0 => (n > 0).then(|| self.words[LEAST].saturating_sub(1) as f64),
            1.0 => (n > 0).then_some(self.words[MOST] as f64),
            share => self.quantile(share),
        });
        let variance = mean.map(|mean| (self.squares / n as f64 - mean * mean).max(0.0));
        let bins = self.buckets.iter().enumerate().filter(|(_, frames)| **frames > 0);
        Figures {
            account: self.account(true),
            n: n as usize,
            not_kept: 0,
            mean: mean.and_then(|mean| mean_about(&series, &changes, mean)),
            deviation: variance.filter(|_| n > 1).map(f64::sqrt),
            quantiles: quantiles.into_iter().collect::<Option<Vec<_>>>().and_then(|q| q.try_into().ok()),
            negative: self.words[NEGATIVE],
            histogram: bins
                .map(|(place, frames)| Bin { from_ns: edges(place)[0], to_ns: edges(place)[1], frames: *frames })
                .collect(),
            gaps: [None; 2],
            changes,
            least_change: None,
            series,
        }
    }
}

/// Changes of level, from the means of the stretches: their medians are known to within an eighth.
fn changes(series: &[Stretch]) -> Vec<Change> {
    let levels: Vec<f64> = series.iter().map(|s| s.mean_ns).collect();
    let frame = |at: usize| series[..at].iter().map(|s| s.n).sum();
    let found = level_changes_that_stand_out(&levels, CONFIDENCE, STANDS_OUT);
    found.into_iter().map(|c| Change { frame: frame(c.at), at_ns: series[c.at].at_ns, size: c.size }).collect()
}

/// From where to where a bucket reaches: `bucket_of` of `delay.bpf.c` the other way round.
fn edges(place: usize) -> [f64; 2] {
    if place < 16 {
        return [place as f64, place as f64 + 1.0];
    }
    let (doubling, eighth) = (place / 8 + 2, place % 8);
    let width = 2f64.powi(doubling as i32 - 3);
    let from = 2f64.powi(doubling as i32) + eighth as f64 * width;
    [from, from + width]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bucket_of` of `delay.bpf.c`.
    fn bucket_of(value: u64) -> usize {
        if value < 16 {
            return value as usize;
        }
        let log = value.ilog2() as usize;
        (log - 2) * 8 + (value >> (log - 3) & 7) as usize
    }

    #[test]
    fn each_word_is_the_field_of_its_name() {
        let fields = crate::xdp::layout::fields(concat!(env!("OUT_DIR"), "/delay.bpf.o"), "figures");
        let words = [
            ("before", BEFORE),
            ("after", AFTER),
            ("matched", MATCHED),
            ("lost", LOST),
            ("duplicated", DUPLICATED),
            ("unexplained", UNEXPLAINED),
            ("unrecognised", UNRECOGNISED),
            ("reordered", REORDERED),
            ("latest", LATEST),
            ("sum", SUM),
            ("squares_high", HIGH),
            ("squares_low", LOW),
            ("least", LEAST),
            ("most", MOST),
            ("entered", ENTERED),
            ("negative", NEGATIVE),
            ("unstamped_before", UNSTAMPED_BEFORE),
            ("unstamped_after", UNSTAMPED_AFTER),
            ("buckets", WORDS),
        ];
        assert_eq!(fields, words.map(|(name, word)| (name.to_owned(), word * 8)));
    }

    #[test]
    fn each_figure_is_read_from_its_own_word() {
        let mut value = vec![0u64; WORDS + BUCKETS];
        (value[BEFORE], value[AFTER], value[MATCHED], value[LOST]) = (100, 90, 2, 3);
        (value[DUPLICATED], value[UNEXPLAINED], value[UNRECOGNISED], value[REORDERED]) = (4, 5, 6, 7);
        (value[ENTERED], value[NEGATIVE], value[SUM], value[HIGH], value[LOW]) = (13, 8, 30, 0, 500);
        (value[LEAST], value[MOST]) = (11, 20);
        let counted = Counted::of(&[value.iter().flat_map(|w| w.to_ne_bytes()).collect()]);
        let expected = Account {
            before: 100,
            after: 90,
            matched: 2,
            lost: 3,
            duplicated: 4,
            unexplained: 5,
            unrecognised: 6,
            reordered: 7,
            not_kept: 0,
        };
        assert_eq!(counted.account(false), expected);
        assert_eq!((counted.waiting(), counted.mean(), counted.squares), (8, Some(15.0), 500.0));
        assert_eq!((counted.words[LEAST], counted.words[MOST], counted.words[NEGATIVE]), (11, 20, 8));
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..5_000).chain((5..50).flat_map(|log| [(1 << log) - 1, 1 << log, (1 << log) + 7])) {
            let [from, to] = edges(bucket_of(value));
            assert!((from..to).contains(&(value as f64)), "{value}: {from} to {to}");
        }
        assert!(bucket_of(u64::MAX >> 1) < BUCKETS);
    }

    #[test]
    fn the_cpus_are_added_and_least_and_most_are_of_all() {
        let cpu = |matched: u64, sum: u64, least: u64, most: u64| -> Vec<u8> {
            let mut words = vec![0u64; WORDS + BUCKETS];
            (words[BEFORE], words[MATCHED], words[SUM]) = (matched + 1, matched, sum);
            words[ENTERED] = matched + 1;
            (words[LEAST], words[MOST], words[LOW]) = (least, most, 50);
            words[WORDS + bucket_of(100)] = matched;
            words.iter().flat_map(|w| w.to_ne_bytes()).collect()
        };
        let counted = Counted::of(&[cpu(3, 300, 91, 110), cpu(0, 0, 0, 0), cpu(1, 104, 105, 104)]);
        assert_eq!((counted.mean(), counted.squares), (Some(101.0), 150.0));
        let figures = counted.figures(Vec::new());
        assert_eq!((figures.account.before, figures.account.lost), (7, 3));
        let quantiles = figures.quantiles.unwrap();
        assert_eq!((quantiles[0], quantiles[7]), (90.0, 110.0));
        assert!((96.0..=110.0).contains(&quantiles[3]));
        assert_eq!(figures.histogram.iter().map(|b| b.frames).sum::<u64>(), 4);
    }
}
