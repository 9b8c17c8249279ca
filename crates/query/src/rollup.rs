//! The roll-up of a place: the rows of `hours`, kept in the user's cache directory, so that a
//! question over very many runs opens few files.
//!
//! It is trusted only as far as it can be checked: while no directory that runs are in has changed,
//! a run that is finished is as it was. Where one has, all runs are looked for, and a run counts as
//! known only where each of its files has the size and the time that it had. What is new is added,
//! what is gone is dropped. Where nothing can be kept, the runs themselves are read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::fleet::Runs;
use crate::place::Directory;
use crate::{Place, Run};

/// Which files belong to this version: another one makes its own.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " roll-up 2");
/// A directory that changed so shortly before it was read may have changed again without another
/// time.
const RESTED_NS: i128 = 2_000_000_000;
/// A file that is of no use any more may still be read by another process.
const READ_BY_OTHERS: Duration = Duration::from_hours(1);
/// Rows of a group in a file: a leg of many hosts takes few of them.
const GROUP: usize = 128 << 10;
const INDEX: &str = "index.json";

/// What is kept of a place.
#[derive(Debug)]
pub struct Rollup {
    folder: PathBuf,
    place: PathBuf,
    index: Index,
    known: HashMap<String, Known>,
}

/// The first line of the index; the second has the runs ([`Known`] by directory).
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    version: String,
    place: PathBuf,
    /// The files, by day since 1970.
    files: BTreeMap<i64, File>,
    /// Whether all runs are known; then what shows that there are others, or other files in them.
    watched: Option<Vec<Directory>>,
    runs: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct File {
    name: String,
    bytes: u64,
}

/// A run with rows in the file of its day.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// What its files looked like.
    print: u64,
    day: i64,
    host: String,
    run: String,
    /// It is finished and has all rows that its run.json says: nothing in it changes.
    settled: bool,
}

/// The day that a run belongs to.
fn day(run: &Run) -> i64 {
    run.start_ns.unwrap_or(0).div_euclid(86_400_000_000_000)
}

/// What the files of a run look like that `hours` is made of.
fn print(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    let state = run.about.get("state").and_then(serde_json::Value::as_str);
    (&run.host, &run.name, &run.target, run.start_ns, run.end_ns, state).hash(&mut hasher);
    for part in run.parts.get("histograms").into_iter().flatten() {
        (part.location.as_ref(), part.size, part.last_modified.timestamp_nanos_opt()).hash(&mut hasher);
    }
    hasher.finish()
}

/// `$XDG_CACHE_HOME/wirelapse`, or what stands for it.
pub fn cache() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    Some(set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?.join("wirelapse"))
}

impl Rollup {
    /// What is kept of a place; `None` where nothing can be.
    pub fn of(place: &Place) -> Option<Self> {
        let place = place.directory()?.to_owned();
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        let folder = cache()?.join(format!("hours-{:016x}", hasher.finish()));
        let mut rollup = Self { folder, place, index: Index::default(), known: HashMap::new() };
        rollup.index = rollup.read().map(|(index, _)| index).unwrap_or_default();
        Some(rollup)
    }

    /// What is on disk: the index, and what the line after it says.
    fn read(&self) -> Option<(Index, String)> {
        let mut text = fs::read_to_string(self.folder.join(INDEX)).ok()?;
        let known = text.split_off(text.find('\n')?);
        let index: Index = serde_json::from_str(&text).ok()?;
        let there = |file: &File| fs::metadata(self.folder.join(&file.name)).is_ok_and(|meta| meta.len() == file.bytes);
        (index.version == VERSION && index.place == self.place && index.files.values().all(there))
            .then_some((index, known))
    }

    /// Takes what is on disk with its runs: another process may have written it meanwhile.
    fn reload(&mut self) {
        let read = self.read().and_then(|(index, known)| Some((index, serde_json::from_str(&known).ok()?)));
        (self.index, self.known) = read.unwrap_or_default();
    }

    /// Whether it has all rows of all runs that there are now.
    pub fn is_current(&self) -> bool {
        self.index
            .watched
            .as_ref()
            .is_some_and(|watched| watched.iter().all(|directory| directory.is_same(&self.place)))
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.index.runs
    }

    /// Its rows; `None` where there are none.
    ///
    /// # Errors
    /// Paths that are no URL.
    pub fn table(&self, schema: SchemaRef) -> Result<Option<Arc<dyn TableProvider>>> {
        self.table_of(schema, self.index.files.values())
    }

    fn table_of<'a>(
        &self,
        schema: SchemaRef,
        files: impl Iterator<Item = &'a File>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let urls = files
            .map(|file| {
                let path = self.folder.join(&file.name);
                let url = url::Url::from_file_path(&path)
                    .map_err(|()| DataFusionError::Configuration(format!("{} is no URL", path.display())))?;
                ListingTableUrl::try_new(url, None)
            })
            .collect::<Result<Vec<_>>>()?;
        if urls.is_empty() {
            return Ok(None);
        }
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
        Ok(Some(Arc::new(ListingTable::try_new(config)?)))
    }

    /// Whether it has this run, after [`Rollup::update`].
    pub fn has(&self, run: &Run) -> bool {
        self.known.contains_key(&run.directory)
    }

    /// Which of these runs it does not have as they are now, and can have.
    pub fn missing(&mut self, all: &Runs, wanted: &[Arc<Run>]) -> Vec<Arc<Run>> {
        self.reload();
        // Rows are distinguished by host and run.
        let mut names: HashMap<(&str, &str), usize> = HashMap::new();
        all.all.iter().for_each(|run| *names.entry((&run.host, &run.name)).or_default() += 1);
        let is_known = |run: &Run| self.known.get(&run.directory).is_some_and(|known| known.print == print(run));
        wanted
            .iter()
            .filter(|run| !is_known(run) && names[&(run.host.as_str(), run.name.as_str())] == 1)
            .cloned()
            .collect()
    }

    /// Those that it has and that are gone or have changed, by day.
    fn stale(&self, all: &Runs) -> BTreeMap<i64, Vec<String>> {
        let now: HashMap<&str, &Arc<Run>> = all.all.iter().map(|run| (run.directory.as_str(), run)).collect();
        let mut stale: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (directory, known) in &self.known {
            if now.get(directory.as_str()).is_none_or(|run| print(run) != known.print) {
                stale.entry(known.day).or_default().push(directory.clone());
            }
        }
        stale
    }

    /// Brings it up to date: `added` are runs that it does not have, each with whether it is
    /// settled, and `plan` makes the sorted rows of a day from what is kept of it without those of
    /// the named runs (host, run), and the runs that are added. `skipped` says that something of
    /// the place was not read.
    ///
    /// # Errors
    /// What fails in the plan. Where the roll-up cannot be written, that is no error: it is then
    /// without the runs.
    pub async fn update<P, F>(
        &mut self,
        state: &dyn Session,
        schema: SchemaRef,
        all: &Runs,
        added: &[(Arc<Run>, bool)],
        skipped: bool,
        plan: P,
    ) -> Result<()>
    where
        P: Fn(Option<Arc<dyn TableProvider>>, Vec<(String, String)>, Vec<Arc<Run>>) -> F,
        F: Future<Output = Result<Arc<dyn ExecutionPlan>>>,
    {
        let stale = self.stale(all);
        let mut by_day: BTreeMap<i64, Vec<(Arc<Run>, bool)>> = BTreeMap::new();
        for (run, settled) in added {
            by_day.entry(day(run)).or_default().push((run.clone(), *settled));
        }
        let days: BTreeSet<i64> = stale.keys().chain(by_day.keys()).copied().collect();
        for day in days {
            let gone = stale.get(&day).map_or(&[][..], Vec::as_slice);
            let added = by_day.get(&day).map_or(&[][..], Vec::as_slice);
            let without = gone.iter().filter_map(|directory| self.known.get(directory));
            let without = without.map(|known| (known.host.clone(), known.run.clone())).collect();
            let before = self.table_of(schema.clone(), self.index.files.get(&day).into_iter())?;
            let rows = plan(before, without, added.iter().map(|(run, _)| run.clone()).collect()).await?;
            // What cannot be kept is read from the runs.
            let Some(file) = self.write(state, day, rows).await? else { return self.forget() };
            gone.iter().for_each(|directory| drop(self.known.remove(directory)));
            self.index.files.insert(day, file);
            for (run, settled) in added {
                let known =
                    Known { print: print(run), day, host: run.host.clone(), run: run.name.clone(), settled: *settled };
                self.known.insert(run.directory.clone(), known);
            }
        }
        self.index.files.retain(|day, _| self.known.values().any(|known| known.day == *day));
        self.index.version = VERSION.to_owned();
        self.index.place.clone_from(&self.place);
        self.index.runs = self.known.len();
        self.index.watched = (!skipped).then(|| self.watched(all)).flatten();
        // Without its index it is of use to this process alone.
        let _ = self.save();
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        self.index = Index::default();
        self.known.clear();
        Ok(())
    }

    /// The rows of a day; `None` where the file cannot be written.
    async fn write(&self, state: &dyn Session, day: i64, rows: Arc<dyn ExecutionPlan>) -> Result<Option<File>> {
        let made = || -> io::Result<(tempfile::NamedTempFile, PathBuf)> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let file = tempfile::Builder::new().prefix(".writing-").tempfile_in(&self.folder)?;
            let random = file
                .path()
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().replace(".writing-", ""));
            Ok((file, PathBuf::from(format!("{day}-{random}.parquet"))))
        };
        let Ok((mut file, name)) = made() else { return Ok(None) };
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(GROUP)).build();
        let Ok(mut writer) = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)) else { return Ok(None) };
        let mut rows = execute_stream(rows, state.task_ctx())?;
        while let Some(batch) = rows.next().await {
            if writer.write(&batch?).is_err() {
                return Ok(None);
            }
        }
        if writer.close().is_err() {
            return Ok(None);
        }
        let Ok(bytes) = file.as_file().metadata().map(|meta| meta.len()) else { return Ok(None) };
        let kept = file.persist(self.folder.join(&name)).is_ok();
        Ok(kept.then(|| File { name: name.to_string_lossy().into_owned(), bytes }))
    }

    /// What shows that runs came, went or changed: the directories that runs are in, and those of
    /// runs that are not settled. `None` where not all runs are known, or something changed just
    /// now.
    fn watched(&self, all: &Runs) -> Option<Vec<Directory>> {
        let known = |run: &Run| self.known.get(&run.directory);
        if all.all.iter().any(|run| run.parts.contains_key("histograms") && known(run).is_none()) {
            return None;
        }
        let settled: HashSet<&str> = all
            .all
            .iter()
            .filter(|run| !run.directory.is_empty() && known(run).is_some_and(|known| known.settled))
            .map(|run| run.directory.as_str())
            .collect();
        let within = |below: &str| {
            let up = std::iter::successors(Some(below), |path| Some(path.rsplit_once('/')?.0));
            up.into_iter().any(|path| settled.contains(path))
        };
        let watched: Vec<Directory> = all.directories.iter().filter(|d| !within(&d.below)).cloned().collect();
        watched.iter().all(|d| d.had_rested(all.began_ns, RESTED_NS)).then_some(watched)
    }

    fn save(&self) -> io::Result<()> {
        use io::Write as _;
        let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(&self.folder)?;
        let mut out = io::BufWriter::new(&mut file);
        serde_json::to_writer(&mut out, &self.index)?;
        out.write_all(b"\n")?;
        serde_json::to_writer(&mut out, &self.known)?;
        out.flush()?;
        drop(out);
        file.persist(self.folder.join(INDEX)).map_err(|error| error.error)?;
        self.tidy()
    }

    /// Removes what no index names.
    fn tidy(&self) -> io::Result<()> {
        let named: HashSet<&str> = self.index.files.values().map(|file| file.name.as_str()).collect();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let old = || {
                let modified = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                SystemTime::now().duration_since(modified).is_ok_and(|age| age > READ_BY_OTHERS)
            };
            if name != INDEX && !name.to_str().is_some_and(|name| named.contains(name)) && old() {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}
