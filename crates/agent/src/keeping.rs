//! Keeps histograms, and a sample of sends, as runs.

use std::collections::HashMap;
use std::path::Path;

use record::ClockReading;
use record::histogram::Series;
use record::{Connection, ConnectionId, Coverage, Event, Instant, Lost, Monotonic, Nanos, Provenance, Ratio, Utc};
use store::rotating::{self, Limits, Rotating, Stored};
use store::{HistogramRow, Named};

use crate::config::{Place, Store};
use crate::counts::{Outcome, To};
use crate::failure::Failure;
use crate::now::{step, utc};
use crate::{Counts, Error, Now};

/// Parts are closed this often in the length of a run, so that a crash loses less than the run.
const PARTS_A_RUN: u64 = 12;
/// Of a directory's room, one part in so many at least is for the run that is written, and twice
/// what the last one took and a quarter: the next may be larger, and stands there twice while its
/// parts are joined.
const ROOM_FOR_OPEN: u64 = 10;

/// What is done here, in words.
const WORK: &str = "the writing of runs";

/// Writes runs of one host below the directory of the store.
pub struct Keeper {
    rotating: Rotating,
    settings: Store,
    provenance: Provenance,
    /// When the run that is written began.
    begun: Option<Instant<Monotonic>>,
    /// The clock's setting then, and by how much it was set since the run before.
    clock: ClockReading,
    stepped: Option<i64>,
    /// Of the run that is written: one in so many has its row; `None`: none has.
    one_in: Option<u64>,
    /// Runs that were begun.
    runs: u64,
    /// Connections that are followed, each with the number of the run that has its row: sends are
    /// joined with it within a run, and runs begin while connections go on. As many as the tracer
    /// follows.
    followed: HashMap<ConnectionId, (Connection, u64)>,
    /// What was missed and observed before the run began.
    before: (Lost, Coverage),
    /// When its parts were closed last.
    closed: Instant<Monotonic>,
    /// Sends, and attempts that no connection came of.
    seen: u64,
    without: u64,
    counts: Counts,
}

impl Keeper {
    /// Looks whether runs can be written to a directory, and makes nothing: to it, or to the lowest
    /// one above it that is there.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn check(directory: &Path) -> Result<(), Error> {
        use rustix::fs::{Access, access};
        let above = directory.ancestors();
        let there = above.into_iter().find(|path| path.try_exists().unwrap_or(true)).unwrap_or(Path::new("/"));
        // A file has no such name below it.
        let inside = there.join(".");
        let found = access(&inside, Access::EXEC_OK).and_then(|()| access(&inside, Access::WRITE_OK));
        found.map_err(|why| Error::File {
            path: there.to_owned(),
            why: format!("no runs can be written there: {}", std::io::Error::from(why)),
        })
    }

    /// Takes up the directory. Runs that an earlier agent was cut short in stay as they are, with
    /// all their finished parts.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn open(settings: Store, host: &str, provenance: Provenance, counts: Counts) -> Result<Self, Error> {
        let mut rotating = Rotating::open(settings.place.directory(), host)?;
        rotating.join(settings.join);
        Ok(Self {
            rotating,
            settings,
            clock: provenance.clock,
            provenance,
            begun: None,
            stepped: None,
            one_in: None,
            runs: 0,
            followed: HashMap::new(),
            before: Default::default(),
            closed: Instant::from_nanos(0),
            seen: 0,
            without: 0,
            counts,
        })
    }

    /// Takes over changed settings; where runs are written stays.
    pub fn set(&mut self, settings: Store) {
        let place = self.settings.place.clone();
        self.rotating.join(settings.join);
        self.settings = Store { place, ..settings };
    }

    /// How long an interval is.
    pub fn interval(&self) -> Nanos {
        self.settings.interval
    }

    /// What was added to each series in an interval that began at `from`.
    pub fn interval_of(
        &mut self,
        from: Instant<Monotonic>,
        lasted: Nanos,
        added: &[Series],
        name: &mut dyn FnMut(&Series) -> Named,
    ) {
        if self.begun.is_none() {
            return;
        }
        let time = utc(from, self.clock);
        for series in added {
            let named = name(series);
            for row in HistogramRow::of(time, lasted, series, &named) {
                if self.failed(|rotating| rotating.histogram(&row)) {
                    return;
                }
            }
        }
    }

    /// A record of the tracer: of sends, attempts to connect and totals, one in so many is kept.
    pub fn event(&mut self, event: &Event) {
        if let Event::Connection(connection) = event {
            self.followed.insert(connection.id, (connection.clone(), 0));
        }
        if let Some(one_in) = self.one_in.filter(|_| self.begun.is_some()) {
            self.keep(event, one_in);
        }
        if let Event::Closed { connection, .. } = event {
            self.followed.remove(connection);
        }
    }

    fn keep(&mut self, event: &Event, one_in: u64) {
        let of = match event {
            Event::Connection(connection) => {
                if is_drawn(connection.id, one_in) {
                    self.row_of(connection.id);
                }
                return;
            }
            Event::Send(send) => {
                self.seen += 1;
                if !self.seen.is_multiple_of(one_in) {
                    return;
                }
                Some(send.connection)
            }
            Event::Closed { connection, .. } => {
                if !is_drawn(*connection, one_in) {
                    return;
                }
                Some(*connection)
            }
            Event::Connect(connect) => {
                let drawn = match connect.connection {
                    Some(connection) => is_drawn(connection, one_in),
                    None => {
                        self.without += 1;
                        self.without.is_multiple_of(one_in)
                    }
                };
                if !drawn {
                    return;
                }
                None
            }
            _ => None,
        };
        if !of.is_some_and(|connection| self.row_of(connection)) {
            self.failed(|rotating| rotating.event(event));
        }
    }

    /// Writes the row of a connection, where this run has none yet. Whether that failed.
    fn row_of(&mut self, connection: ConnectionId) -> bool {
        let Some((of, run)) = self.followed.get_mut(&connection).filter(|(_, run)| *run != self.runs) else {
            return false;
        };
        *run = self.runs;
        let row = Event::Connection(of.clone());
        self.failed(|rotating| rotating.event(&row))
    }

    /// Begins a run where there is none, closes parts, and ends the run when it is old enough or
    /// the clock was set. Whether there is more to upload comes back.
    pub fn turn(&mut self, now: Now, lost: Lost, coverage: Coverage) -> bool {
        let aged = |since: Instant<Monotonic>| now.at.since(since).unwrap_or_default().0;
        // Times of day in a run go by one setting of the clock.
        let stepped = self.begun.and_then(|_| step(self.clock, now.clock));
        let over = stepped.is_some() || self.begun.is_some_and(|begun| aged(begun) >= self.settings.rotate.0);
        let mut more = over && self.end(now.at, lost, coverage);
        self.stepped = stepped.or(self.stepped);
        if self.begun.is_none() {
            self.one_in = self.settings.sample.map(|Ratio(one_in)| u64::from(one_in.get()));
            let provenance = Provenance {
                start_ns: now.at.as_nanos(),
                clock: now.clock,
                clock_stepped_ns: self.stepped,
                kept_one_in: self.one_in.filter(|one_in| *one_in > 1),
                ..self.provenance.clone()
            };
            if !self.failed(|rotating| rotating.begin(utc(now.at, now.clock), provenance)) {
                (self.begun, self.closed, self.clock, self.stepped) = (Some(now.at), now.at, now.clock, None);
                self.runs += 1;
                self.before = (lost, coverage);
            }
        } else if self.streams() || aged(self.closed) >= self.settings.rotate.0 / PARTS_A_RUN {
            self.closed = now.at;
            more |= !self.failed(Rotating::close_parts) && self.streams();
        }
        more
    }

    /// Whether each interval goes to another store at once.
    fn streams(&self) -> bool {
        matches!(self.settings.place, Place::S3 { .. })
    }

    /// Ends the run, and makes room.
    pub fn end(&mut self, now: Instant<Monotonic>, lost: Lost, coverage: Coverage) -> bool {
        if self.begun.take().is_none() {
            return false;
        }
        let (lost, coverage) = (lost.since(self.before.0), coverage.since(self.before.1));
        let time = utc(now, self.clock);
        let failed = self.failed(|rotating| rotating.finish(time, now, lost, coverage).map(|_| ()));
        if !failed {
            self.counts.done(To::Store, Outcome::Runs, WORK);
        }
        self.make_room(time);
        !failed
    }

    fn make_room(&mut self, now: Utc) {
        // What waits to be uploaded is wanted whatever its age.
        let age = if self.streams() { None } else { self.settings.keep };
        let most = self.settings.max_bytes;
        let removed = self.rotating.stored().and_then(|stored| {
            let last = stored.last().map_or(0, |run| run.bytes);
            let open = (most / ROOM_FOR_OPEN).max(2 * last + last / 4);
            let limits = Limits { age, bytes: Some(most.saturating_sub(open)) };
            rotating::keep(&stored, limits, now.0 / 1_000_000)
        });
        match removed {
            Ok(removed) => {
                let outcome = if self.streams() { Outcome::RunsDropped } else { Outcome::RunsRemoved };
                if removed.runs > 0 {
                    self.counts.add_many(To::Store, outcome, removed.runs);
                }
            }
            Err(why) => self.counts.failed(To::Store, Outcome::Failed, "making room for runs", Failure::store(&why)),
        }
    }

    /// The runs that are ended, oldest first.
    pub fn stored(&self) -> Vec<Stored> {
        self.rotating.stored().unwrap_or_default()
    }

    /// The run that is being written.
    pub fn unfinished(&self) -> Option<Stored> {
        self.rotating.unfinished().ok().flatten()
    }

    /// A failure, such as a full disk, costs the run that is written what is not in finished parts;
    /// the next one begins with the next turn.
    fn failed(&mut self, act: impl FnOnce(&mut Rotating) -> Result<(), store::Error>) -> bool {
        let Err(why) = act(&mut self.rotating) else { return false };
        self.counts.failed(To::Store, Outcome::Failed, WORK, Failure::store(&why));
        self.begun = None;
        true
    }
}

/// Whether a connection is one of those that are kept, one in so many: by its number, so that all
/// that is kept of it is of the same connections. The numbers of a connection's two ends follow
/// each other, so they are mixed (Fibonacci hashing).
fn is_drawn(ConnectionId(id): ConnectionId, one_in: u64) -> bool {
    (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(one_in)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::table::Record as _;
    use record::{ConnectionTotals, Leg, Send};
    use std::path::Path;

    const S: u64 = 1_000_000_000;

    fn settings(directory: &Path, max_bytes: u64) -> Store {
        Store {
            place: Place::Directory(directory.to_owned()),
            rotate: Nanos::from_secs(600),
            interval: Nanos::from_secs(1),
            join: Nanos::from_secs(1),
            keep: None,
            max_bytes,
            sample: None,
        }
    }

    /// This second after the machine began, with a clock that was set so.
    fn at(second: u64) -> Now {
        let clock = ClockReading { realtime_offset_ns: 1_763_800_000 * S as i64, realtime_offset_error_ns: 10 };
        Now { at: Instant::from_nanos(second * S), clock }
    }

    fn added(n: u64) -> Vec<Series> {
        let legs = [(Leg::Total, (0..n).map(|i| Nanos(1 << i)).collect())].into();
        vec![Series { legs, sends: n, ..Series::default() }]
    }

    /// A day of runs of ten minutes.
    #[test]
    fn a_day_stays_within_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let counts = Counts::default();
        let most = 60_000;
        let mut keeper = Keeper::open(settings(dir.path(), most), "h", Provenance::blank(), counts.clone()).unwrap();
        let mut largest = 0;
        for second in (0..86_400_u64).step_by(200) {
            let now = at(second);
            keeper.interval_of(now.at, Nanos(200 * S), &added(8), &mut |_| Named::default());
            keeper.turn(now, Lost::default(), Coverage::default());
            if second % 3600 == 0 {
                largest = largest.max(keeper.stored().iter().map(|run| run.bytes).sum());
            }
        }
        assert!(largest <= most, "{largest}");
        assert_eq!(counts.of(To::Store, Outcome::Failed), 0);
        let (runs, removed) = (counts.of(To::Store, Outcome::Runs), counts.of(To::Store, Outcome::RunsRemoved));
        assert_eq!(runs, 86_400 / 600 - 1);
        assert_eq!(keeper.stored().len() as u64, runs - removed);
        assert!(removed > 0 && keeper.stored().iter().all(|run| rotating::is_finished(&run.path)));
        // Of these runs alone: other tests of this process have descriptors too.
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let files: Vec<_> = descriptors.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()).collect();
        let open = files.iter().filter(|file| file.starts_with(dir.path())).count();
        assert!(open < 16, "{open} descriptors");
    }

    #[test]
    fn each_run_says_what_was_missed_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), 1 << 20);
        let mut keeper = Keeper::open(settings, "h", Provenance::blank(), Counts::default()).unwrap();
        for run in 1..=3_u64 {
            let lost = Lost { slots_full: 10 * run, ..Lost::default() };
            let coverage = Coverage { bytes_written: 100 * run, ..Coverage::default() };
            keeper.turn(at(run * 1000), lost, coverage);
        }
        for stored in keeper.stored() {
            let text = std::fs::read_to_string(stored.path.join("run.json")).unwrap();
            let run: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (&run["lost"]["slots_full"], &run["coverage"]["bytes_written"]),
                (&10.into(), &100.into()),
                "{run}"
            );
        }
        assert_eq!(keeper.stored().len(), 2);
    }

    #[test]
    fn runs_go_on_when_the_clock_is_set_and_each_has_its_own_setting() {
        const HOURS: i64 = 2 * 3600 * S as i64;
        let dir = tempfile::tempdir().unwrap();
        let mut keeper =
            Keeper::open(settings(dir.path(), 1 << 24), "h", Provenance::blank(), Counts::default()).unwrap();
        let mut now = at(0);
        // Set back by two hours in the first run, and forward in the next but one.
        for second in (0..3_000_u64).step_by(100) {
            now.at = at(second).at;
            match second {
                300 => now.clock.realtime_offset_ns -= HOURS,
                1_500 => now.clock.realtime_offset_ns += HOURS,
                _ => {}
            }
            keeper.interval_of(now.at, Nanos(100 * S), &added(1), &mut |_| Named::default());
            keeper.turn(now, Lost::default(), Coverage::default());
        }
        let mut runs: Vec<_> =
            keeper.stored().iter().map(|stored| store::Run::open(&stored.path).unwrap().provenance().clone()).collect();
        runs.sort_by_key(|run| run.start_ns);
        let offset = at(0).clock.realtime_offset_ns;
        let of: Vec<_> = runs
            .iter()
            .map(|run| (run.start_ns / S, run.clock.realtime_offset_ns - offset, run.clock_stepped_ns))
            .collect();
        let expected =
            [(0, 0, None), (300, -HOURS, Some(-HOURS)), (900, -HOURS, None), (1_500, 0, Some(HOURS)), (2_100, 0, None)];
        assert_eq!(of, expected);
    }

    #[test]
    fn a_thinned_run_says_its_ratio_and_all_its_tables_are_thinned() {
        const CONNECTIONS: u64 = 2_000;
        let dir = tempfile::tempdir().unwrap();
        let sample = Some("1/10".parse().unwrap());
        let thinned = Store { sample, ..settings(dir.path(), 1 << 24) };
        let mut keeper = Keeper::open(thinned.clone(), "h", Provenance::blank(), Counts::default()).unwrap();
        let turn = |keeper: &mut Keeper, n: u64| {
            keeper.turn(at(n * 1000), Lost::default(), Coverage::default());
        };
        turn(&mut keeper, 1);
        // What is asked for meanwhile is of the next run.
        keeper.set(Store { sample: Some(Ratio::ALL), ..thinned });
        for id in 1..=CONNECTIONS {
            let connection = ConnectionId(id);
            keeper.event(&Event::Connection(Connection { id: connection, ..Connection::blank() }));
            let connect = record::Connect { connection: Some(connection), ..record::Connect::blank() };
            keeper.event(&Event::Connect(Box::new(connect)));
            (0..10).for_each(|_| keeper.event(&Event::Send(Send { connection, ..Send::blank() })));
            keeper.event(&Event::Closed { connection, totals: ConnectionTotals::default() });
        }
        turn(&mut keeper, 2);
        let run = store::Run::open(&keeper.stored()[0].path).unwrap();
        assert_eq!(run.provenance().kept_one_in, Some(10));
        let rows = run.rows().unwrap();
        assert_eq!(rows.sends, CONNECTIONS);
        for drawn in [rows.connects, rows.totals] {
            // Four standard deviations of a draw of one in ten.
            assert!((146..=254).contains(&drawn), "{rows:?}");
        }
        assert_eq!(rows.connects, rows.totals, "of the same connections");
        assert_eq!(rows.connections, CONNECTIONS, "each has a send that was kept");
    }

    #[test]
    fn each_run_has_the_connections_of_its_sends_whenever_they_began() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Store { sample: Some(Ratio::ALL), ..settings(dir.path(), 1 << 20) };
        let mut keeper = Keeper::open(settings, "h", Provenance::blank(), Counts::default()).unwrap();
        let picked_up = |id| Event::Connection(Connection { id: ConnectionId(id), ..Connection::blank() });
        let send = |id| Event::Send(Send { connection: ConnectionId(id), ..Send::blank() });
        let turn = |keeper: &mut Keeper, n: u64| {
            keeper.turn(at(n * 1000), Lost::default(), Coverage::default());
        };
        // Found before there is a run; then one that comes while it is written.
        keeper.event(&picked_up(1));
        turn(&mut keeper, 1);
        [send(1), send(1), picked_up(2), send(2)].iter().for_each(|event| keeper.event(event));
        turn(&mut keeper, 2);
        let closed = |id| Event::Closed { connection: ConnectionId(id), totals: ConnectionTotals::default() };
        [send(2), closed(2), send(1)].iter().for_each(|event| keeper.event(event));
        turn(&mut keeper, 3);
        keeper.event(&closed(1));
        turn(&mut keeper, 4);
        let mut runs = Vec::new();
        for stored in keeper.stored() {
            let run = store::Run::open(&stored.path).unwrap();
            let mut ids = Vec::new();
            run.connections(|connection| ids.push(connection.id.0)).unwrap();
            ids.sort_unstable();
            runs.push(ids);
        }
        assert_eq!(runs, [vec![1, 2], vec![1, 2], vec![1]]);
        assert!(keeper.followed.is_empty());
    }

    #[test]
    fn a_store_that_cannot_be_written_is_counted_and_taken_up_again() {
        let dir = tempfile::tempdir().unwrap();
        let counts = Counts::default();
        let mut keeper = Keeper::open(settings(dir.path(), 1 << 20), "h", Provenance::blank(), counts.clone()).unwrap();
        let none = (Lost::default(), Coverage::default());
        keeper.turn(at(1), none.0, none.1);
        let away = dir.path().with_extension("away");
        std::fs::rename(dir.path(), &away).unwrap();
        std::fs::write(dir.path(), "in the way").unwrap();
        keeper.interval_of(at(1).at, Nanos(S), &added(3), &mut |_| Named::default());
        keeper.turn(at(1000), none.0, none.1);
        assert!(counts.of(To::Store, Outcome::Failed) > 0);
        let said = counts.news();
        // The file that cannot be written, and then the folder that cannot be made.
        assert!(said.len() == 2 && said.iter().all(|line| line.starts_with("the writing of runs fails")), "{said:?}");
        std::fs::remove_file(dir.path()).unwrap();
        std::fs::rename(&away, dir.path()).unwrap();
        keeper.turn(at(1001), none.0, none.1);
        keeper.interval_of(at(1001).at, Nanos(S), &added(3), &mut |_| Named::default());
        assert!(keeper.end(at(1002).at, none.0, none.1));
        assert!(keeper.stored().iter().any(|run| rotating::is_finished(&run.path)));
        assert_eq!(counts.news(), ["the writing of runs succeeds again"]);
    }
}
