//! Runs that follow each other below one folder: `ROOT/host=H/date=YYYY-MM-DD/run=T/`.
//!
//! Each is an ordinary run of a trace, with `histograms` and one row in `runs` beside its tables.
//! Runs are removed by age and size, whole: a run is renamed to a hidden name first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use record::{Coverage, Event, Instant, Lost, Monotonic, Nanos, Provenance, Utc};

use crate::histogram::{HistogramRow, RunRow};
use crate::joined::{self, join};
use crate::part::write_whole;
use crate::provenance::{Rows, State};
use crate::{Error, Writer};

/// What the name of a run begins with while it is removed.
const REMOVED: &str = ".removed-";

/// Runs of one host, the newest of which is being written.
pub struct Rotating {
    folder: PathBuf,
    host: String,
    /// What the intervals of a run that is over are joined to.
    joined: Option<Nanos>,
    current: Option<Current>,
}

struct Current {
    writer: Writer,
    path: PathBuf,
    time: Utc,
    provenance: Provenance,
}

/// A run in the folder of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its directory.
    pub path: PathBuf,
    /// Below the root: `host=H/date=D/run=T`.
    pub name: String,
    /// Size of its files.
    pub bytes: u64,
    /// When its last file was written, seconds of Unix time.
    pub written_s: u64,
}

/// Which runs stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Runs that were written to later than this long ago.
    pub age: Option<Nanos>,
    /// The newest, up to this size together.
    pub bytes: Option<u64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Runs.
    pub runs: u64,
    /// Their size.
    pub bytes: u64,
}

impl Rotating {
    /// Takes up the folder of `host` below `root`, which is made where it is not there. What an
    /// earlier process left half-written is removed.
    ///
    /// # Errors
    /// [`Error::Create`] where the folder cannot be made or read.
    pub fn open(root: &Path, host: &str) -> Result<Self, Error> {
        let host: String =
            host.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let folder = root.join(format!("host={host}"));
        let failed = |why| Error::Create { path: folder.clone(), why };
        make(&folder).map_err(failed)?;
        for date in folders(&folder).map_err(failed)? {
            for run in folders(&date).map_err(failed)? {
                if name(&run).starts_with(REMOVED) {
                    fs::remove_dir_all(&run).map_err(failed)?;
                    continue;
                }
                clean(&run).map_err(failed)?;
            }
            let _ = fs::remove_dir(&date);
        }
        Ok(Self { folder, host, joined: None, current: None })
    }

    /// From now on the intervals of a run that ends are joined to such of at least `length`, in one
    /// part.
    pub fn join(&mut self, length: Nanos) {
        self.joined = Some(length);
    }

    /// The directory of the run that is being written.
    pub fn current(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.path.as_path())
    }

    /// Begins a run; one that is being written is dropped as it is.
    ///
    /// # Errors
    /// [`Error::Create`].
    pub fn begin(&mut self, time: Utc, provenance: Provenance) -> Result<(), Error> {
        let date = self.folder.join(format!("date={}", time.date()));
        make(&date).map_err(|why| Error::Create { path: date.clone(), why })?;
        let mut path = date.join(format!("run={}", time.name()));
        let mut again = 2;
        let writer = loop {
            match Writer::create(&path, provenance.clone()) {
                // Two runs of one millisecond.
                Err(Error::Exists(_)) if again < 1000 => path = date.join(format!("run={}-{again}", time.name())),
                made => break made?,
            }
            again += 1;
        };
        self.current = Some(Current { writer, path, time, provenance });
        Ok(())
    }

    /// Adds a bucket of a histogram. Without a run nothing happens, as in the next two.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn histogram(&mut self, row: &HistogramRow) -> Result<(), Error> {
        self.current.as_mut().map_or(Ok(()), |current| current.writer.histogram(row))
    }

    /// Adds what a tracer reported.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        self.current.as_mut().map_or(Ok(()), |current| current.writer.event(event))
    }

    /// Closes the parts, so that a crash loses only what comes afterwards.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn close_parts(&mut self) -> Result<(), Error> {
        self.current.as_mut().map_or(Ok(()), |current| current.writer.close().map(|_| ()))
    }

    /// Ends the run, its `run.json` last, and gives its directory.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(
        &mut self,
        time: Utc,
        end: Instant<Monotonic>,
        lost: Lost,
        coverage: Coverage,
    ) -> Result<Option<(PathBuf, Rows)>, Error> {
        let Some(mut current) = self.current.take() else { return Ok(None) };
        let mut rows = current.writer.close()?;
        // A run of which the intervals cannot be joined is whole all the same.
        if let Some(joined) = self.joined.and_then(|length| join(&current.path, length).ok().flatten()) {
            rows.histograms = joined;
            current.writer.joined(joined);
        }
        let row = RunRow {
            host: self.host.clone(),
            time: current.time,
            end_time: time,
            provenance: current.provenance,
            end_ns: end.as_nanos(),
            histograms: rows.histograms,
            sends: rows.sends,
            lost,
            coverage,
        };
        write_whole(&current.path, &[row])?;
        let rows = current.writer.finish(end, lost, coverage)?;
        Ok(Some((current.path, rows)))
    }

    /// The run that is being written, as far as it has finished parts.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn unfinished(&self) -> Result<Option<Stored>, Error> {
        let Some(path) = self.current() else { return Ok(None) };
        self.stored_at(path).map(Some)
    }

    fn stored_at(&self, run: &Path) -> Result<Stored, Error> {
        let (bytes, written_s) = size(run).map_err(|why| Error::Read { path: self.folder.clone(), why })?;
        let date = run.parent().map(name).unwrap_or_default();
        let below = format!("{}/{date}/{}", name(&self.folder), name(run));
        Ok(Stored { name: below, bytes, written_s, path: run.to_owned() })
    }

    /// The runs of this host but the one that is being written, oldest first.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn stored(&self) -> Result<Vec<Stored>, Error> {
        let failed = |why| Error::Read { path: self.folder.clone(), why };
        let mut stored = Vec::new();
        for date in folders(&self.folder).map_err(failed)? {
            for run in folders(&date).map_err(failed)? {
                if name(&run).starts_with(REMOVED) || Some(run.as_path()) == self.current() {
                    continue;
                }
                stored.push(self.stored_at(&run)?);
            }
        }
        stored.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(stored)
    }
}

/// Removes those of `stored`, as [`Rotating::stored`] gave them, that `limits` leave no room for,
/// oldest first. What is gone meanwhile takes no room. `now_s` is Unix time in seconds.
///
/// # Errors
/// [`Error::Keep`] where a run cannot be removed.
pub fn keep(stored: &[Stored], limits: Limits, now_s: u64) -> Result<Removed, Error> {
    let mut bytes: u64 = stored.iter().map(|run| run.bytes).sum();
    let mut removed = Removed::default();
    for run in stored {
        let old = limits.age.is_some_and(|age| now_s.saturating_sub(run.written_s) > age.0 / 1_000_000_000);
        if !old && limits.bytes.is_none_or(|most| bytes <= most) {
            continue;
        }
        bytes -= run.bytes;
        match remove(&run.path) {
            Err(Error::Keep { why, .. }) if why.kind() == io::ErrorKind::NotFound => {}
            done => {
                done?;
                removed.runs += 1;
                removed.bytes += run.bytes;
            }
        }
    }
    Ok(removed)
}

/// Removes a run whole, and the folder of its date where that is empty then.
///
/// # Errors
/// [`Error::Keep`].
pub fn remove(run: &Path) -> Result<(), Error> {
    let failed = |why| Error::Keep { path: run.to_owned(), why };
    let date = run.parent().unwrap_or(Path::new("."));
    let hidden = date.join(format!("{REMOVED}{}", name(run)));
    fs::rename(run, &hidden).and_then(|()| fs::remove_dir_all(&hidden)).map_err(failed)?;
    let _ = fs::remove_dir(date);
    Ok(())
}

/// The files of a run in the order in which they are to be copied: every one is whole, `run.json`
/// comes last. Paths are below the run.
///
/// # Errors
/// [`Error::Read`].
pub fn files(run: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |why| Error::Read { path: run.to_owned(), why };
    let mut files = Vec::new();
    for table in folders(run).map_err(failed)?.iter().filter(|table| !name(table).starts_with('.')) {
        for part in fs::read_dir(table).map_err(failed)? {
            let part = part.map_err(failed)?.path();
            if part.extension().is_some_and(|end| end == "parquet") {
                files.push(Path::new(&name(table)).join(name(&part)));
            }
        }
    }
    files.sort();
    files.push("run.json".into());
    Ok(files)
}

/// Whether a run came to its end; a run that was cut short has whole parts all the same.
pub fn is_finished(run: &Path) -> bool {
    crate::run_file::read::<crate::provenance::RunFile>(run, crate::RunKind::Trace)
        .is_ok_and(|file| file.state == State::Finished)
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// Makes a folder and those above it.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make(parent)?;
    }
    files::directory(path)
}

/// Removes what a writer that was killed had not finished.
fn clean(run: &Path) -> io::Result<()> {
    let unfinished = |path: &Path| name(path).starts_with('.') && name(path).ends_with(files::UNFINISHED);
    match fs::remove_dir_all(run.join(joined::HIDDEN)) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let mut within = folders(run)?;
    within.push(run.to_owned());
    for folder in within {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if unfinished(&path) {
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(())
}

/// Bytes of all files, and when the last of them was written.
fn size(run: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut written) = (0, 0);
    let mut within = folders(run)?;
    within.push(run.to_owned());
    for folder in within {
        for entry in fs::read_dir(&folder)? {
            let metadata = entry?.metadata()?;
            if metadata.is_file() {
                bytes += metadata.len();
                let at = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                written = at.as_secs().max(written);
            }
        }
    }
    Ok((bytes, written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::{Series, SeriesKey};
    use record::table::Record as _;
    use record::{IpPrefix, Leg};

    fn provenance() -> Provenance {
        Provenance { version: "0.1.0".into(), start_ns: 5, ..Provenance::blank() }
    }

    fn series() -> Series {
        Series {
            key: SeriesKey {
                peer: Some(IpPrefix::new("192.0.2.9".parse().unwrap(), 24)),
                cgroup: Some(u64::MAX),
                ..SeriesKey::default()
            },
            legs: [(Leg::Total, [0, 1_000_000_000, 1_000_000_001].into_iter().map(Nanos).collect())].into(),
            ..Series::default()
        }
    }

    fn second(s: u64) -> Utc {
        Utc(1_763_800_000_000_000 + s * 1_000_000)
    }

    /// Writes a run that begins at this second.
    fn write(rotating: &mut Rotating, s: u64) -> PathBuf {
        rotating.begin(second(s), provenance()).unwrap();
        for row in HistogramRow::of(second(s), Nanos::from_secs(60), &series(), &crate::Named::default()) {
            rotating.histogram(&row).unwrap();
        }
        let (lost, coverage) = (Lost::default(), Coverage::default());
        rotating.finish(second(s + 60), Instant::from_nanos(9), lost, coverage).unwrap().unwrap().0
    }

    #[test]
    fn rows_read_back_and_the_sum_stands_once() {
        let root = tempfile::tempdir().unwrap();
        let mut rotating = Rotating::open(root.path(), "a/b").unwrap();
        let run = write(&mut rotating, 0);
        assert_eq!(run, root.path().join("host=a_b/date=2025-11-22/run=20251122T082640.000Z"));
        let mut rows = Vec::new();
        crate::row::table(&run, |row: HistogramRow| rows.push(row)).unwrap();
        let of: Vec<_> = rows.iter().map(|row| (row.bucket.0, row.count, row.sum.0)).collect();
        assert_eq!(of, [(-240, 1, 2_000_000_001), (0, 1, 0), (1, 1, 0)]);
        assert_eq!((rows[0].peer.as_deref(), rows[0].cgroup.unwrap().0), (Some("192.0.2.0/24"), u64::MAX));
        assert_eq!((rows[0].time, rows[0].stage.as_str()), (second(0), "total"));
        assert_eq!(
            files(&run).unwrap(),
            ["histograms.parquet/part-00000.parquet", "runs.parquet/part-00000.parquet", "run.json"].map(PathBuf::from)
        );
        assert!(is_finished(&run) && crate::Run::open(&run).is_ok());
    }

    #[test]
    fn a_run_that_is_over_has_its_intervals_joined_and_says_how_many_rows_it_has() {
        let root = tempfile::tempdir().unwrap();
        let mut rotating = Rotating::open(root.path(), "h").unwrap();
        rotating.join(Nanos::from_secs(300));
        rotating.begin(second(0), provenance()).unwrap();
        for minute in 0..7 {
            for row in HistogramRow::of(second(60 * minute), Nanos::from_secs(60), &series(), &crate::Named::default())
            {
                rotating.histogram(&row).unwrap();
            }
            rotating.close_parts().unwrap();
        }
        let live = rotating.unfinished().unwrap().unwrap();
        assert_eq!((live.path.as_path(), files(&live.path).unwrap().len()), (rotating.current().unwrap(), 8));
        let (run, rows) = rotating
            .finish(second(420), Instant::from_nanos(9), Lost::default(), Coverage::default())
            .unwrap()
            .unwrap();
        let mut all = Vec::new();
        crate::row::table(&run, |row: HistogramRow| all.push(row)).unwrap();
        let of: Vec<_> = all.iter().map(|row| (row.time, row.interval, row.bucket.0, row.count, row.sum.0)).collect();
        let (first, later) = ((second(0), Nanos::from_secs(300)), (second(300), Nanos::from_secs(120)));
        assert_eq!(
            of,
            [
                (first.0, first.1, -240, 5, 5 * 2_000_000_001),
                (later.0, later.1, -240, 2, 2 * 2_000_000_001),
                (first.0, first.1, 0, 5, 0),
                (later.0, later.1, 0, 2, 0),
                (first.0, first.1, 1, 5, 0),
                (later.0, later.1, 1, 2, 0)
            ]
        );
        assert_eq!(rows.histograms, 6);
        assert_eq!(crate::Run::open(&run).unwrap().rows().unwrap().histograms, 6);
        assert_eq!(files(&run).unwrap().len(), 3);
    }

    #[test]
    fn two_runs_of_one_millisecond_have_two_names() {
        let root = tempfile::tempdir().unwrap();
        let mut rotating = Rotating::open(root.path(), "h").unwrap();
        assert_ne!(write(&mut rotating, 0), write(&mut rotating, 0));
    }

    /// An agent that starts again within a second must not replace in a store what was uploaded and
    /// removed here.
    #[test]
    fn runs_of_one_second_have_two_names_though_the_first_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let [first, second_run] = [0, 1_000].map(|micros| {
            let mut rotating = Rotating::open(root.path(), "h").unwrap();
            rotating.begin(Utc(second(0).0 + micros), provenance()).unwrap();
            let run = rotating.current().unwrap().to_owned();
            fs::remove_dir_all(&run).unwrap();
            run
        });
        assert_ne!(first, second_run);
    }

    #[test]
    fn the_oldest_runs_go_first_and_whole() {
        let root = tempfile::tempdir().unwrap();
        let mut rotating = Rotating::open(root.path(), "h").unwrap();
        let runs: Vec<_> = [0, 3600, 90_000].into_iter().map(|s| write(&mut rotating, s)).collect();
        let stored = rotating.stored().unwrap();
        assert_eq!(stored.iter().map(|run| run.path.clone()).collect::<Vec<_>>(), runs);
        assert_eq!(stored[0].name, "host=h/date=2025-11-22/run=20251122T082640.000Z");
        let (now, most) = (stored[0].written_s, stored[1].bytes + stored[2].bytes);
        assert_eq!(keep(&stored, Limits::default(), now).unwrap(), Removed::default());
        let by_size = keep(&stored, Limits { age: None, bytes: Some(most) }, now).unwrap();
        assert_eq!(by_size, Removed { runs: 1, bytes: stored[0].bytes });
        assert!(!runs[0].exists() && runs[1].exists());
        // The same list again: its first run is gone, and what is there has room.
        assert_eq!(keep(&stored, Limits { age: None, bytes: Some(most) }, now).unwrap(), Removed::default());
        assert!(runs[1].exists());
        rotating.begin(second(100_000), provenance()).unwrap();
        let by_age = Limits { age: Some(Nanos::from_secs(1)), bytes: None };
        assert_eq!(keep(&rotating.stored().unwrap(), by_age, now + 60).unwrap().runs, 2);
        assert!(rotating.current().unwrap().exists(), "the run that is written stays");
        assert!(!runs[1].parent().unwrap().exists(), "an empty date goes");
    }

    #[test]
    fn what_a_killed_writer_left_is_whole_or_gone() {
        let root = tempfile::tempdir().unwrap();
        let mut rotating = Rotating::open(root.path(), "h").unwrap();
        rotating.begin(second(0), provenance()).unwrap();
        let run = rotating.current().unwrap().to_owned();
        let row = HistogramRow::of(second(0), Nanos(1), &series(), &crate::Named::default()).next().unwrap();
        rotating.histogram(&row).unwrap();
        rotating.close_parts().unwrap();
        fs::write(run.join("histograms.parquet/.part-00001.unfinished"), "half").unwrap();
        fs::create_dir(run.parent().unwrap().join(".removed-run=x")).unwrap();
        fs::create_dir_all(run.join(joined::HIDDEN).join("histograms.parquet")).unwrap();
        std::mem::forget(rotating);
        let rotating = Rotating::open(root.path(), "h").unwrap();
        assert_eq!(fs::read_dir(run.join("histograms.parquet")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(run.parent().unwrap()).unwrap().count(), 1);
        assert!(!run.join(joined::HIDDEN).exists());
        let stored = rotating.stored().unwrap();
        assert_eq!(stored.len(), 1);
        assert!(!is_finished(&stored[0].path));
        let mut rows = 0;
        crate::row::table(&run, |_: HistogramRow| rows += 1).unwrap();
        assert_eq!(rows, 1);
    }
}
