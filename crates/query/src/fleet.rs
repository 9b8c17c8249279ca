//! The runs below a place: which there are, of which host, of which time, with which parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures::StreamExt as _;
use object_store::ObjectMeta;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::place::Directory;
use crate::{Error, Place};

/// `run.json`s that are read at the same time.
const AT_A_TIME: usize = 64;

/// One run.
#[derive(Debug)]
pub struct Run {
    /// The host: from the directory `host=…`, else from run.json, else `unknown`.
    pub host: String,
    /// The run: from the directory `run=…`, else the directory below the place.
    pub name: String,
    /// Its directory below the place; empty where the place is the run.
    pub directory: String,
    /// `run.json`.
    pub about: Value,
    /// When it began, nanoseconds since 1970; `None` where it does not say.
    pub start_ns: Option<i64>,
    /// When it ended; `None` where it did not, or does not say.
    pub end_ns: Option<i64>,
    /// What to add to its moments to get the time of day.
    pub clock_ns: Option<i64>,
    /// What was traced, in words.
    pub target: Option<String>,
    /// How many each row stands for of a table that was thinned: of so many sends one has a row.
    pub weight: i64,
    /// Its parts by table, each table's in order.
    pub parts: BTreeMap<String, Vec<ObjectMeta>>,
}

/// The runs below a place, which are looked for when they are first needed, and what had to be
/// skipped so far.
#[derive(Debug)]
pub struct Fleet {
    /// Where.
    pub place: Place,
    found: OnceCell<Runs>,
    left_out: Mutex<BTreeMap<String, String>>,
}

/// The runs below a place.
#[derive(Debug)]
pub struct Runs {
    /// By host and name.
    pub all: Vec<Arc<Run>>,
    /// The directories that they were looked for in.
    pub directories: Vec<Directory>,
    /// When the search began, nanoseconds since 1970.
    pub began_ns: i128,
}

impl Fleet {
    /// The runs below a place.
    pub fn of(place: Place) -> Self {
        Self { place, found: OnceCell::new(), left_out: Mutex::default() }
    }

    /// The runs. The first call finds them and reads their `run.json`.
    ///
    /// # Errors
    /// [`Error::Place`], or [`Error::NoRuns`].
    pub async fn runs(&self) -> Result<&Runs, Error> {
        self.found.get_or_try_init(|| self.find()).await
    }

    /// How many runs there are, where that is known.
    pub fn known(&self) -> Option<usize> {
        Some(self.found.get()?.all.len())
    }

    async fn find(&self) -> Result<Runs, Error> {
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let place = &self.place;
        let listing = place.list().await?;
        let mut left_out: BTreeMap<String, String> = listing.left_out.into_iter().collect();
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        let mut parts: Vec<(String, String, ObjectMeta)> = Vec::new();
        for (below, meta) in listing.files {
            let (directory, name) = below.rsplit_once('/').unwrap_or(("", &below));
            if name == "run.json" {
                found.entry(directory.to_owned()).or_default().about = Some(meta);
            } else if let Some(table) = name.strip_suffix(".parquet").filter(|_| !directory.ends_with(".parquet")) {
                parts.push((directory.to_owned(), table.to_owned(), meta));
            } else if let Some((run, table)) = split_table(directory) {
                parts.push((run.to_owned(), table.to_owned(), meta));
            }
        }
        for (directory, table, meta) in parts {
            // What `wirelapse agent` keeps is a run by its directory's name even before its
            // run.json is there.
            if directory.rsplit('/').next().is_some_and(|name| name.starts_with("run=")) {
                found.entry(directory.clone()).or_default();
            }
            if let Some(run) = found.get_mut(&directory) {
                run.parts.entry(table).or_default().push(meta);
            }
        }
        let read = futures::stream::iter(found)
            .map(|(directory, found)| async move {
                let about = match &found.about {
                    Some(file) => place.read(file, store::LONGEST).await.and_then(|bytes| about(&bytes)),
                    None => Ok(Value::Null),
                };
                (directory, found.parts, about)
            })
            .buffer_unordered(AT_A_TIME)
            .collect::<Vec<_>>()
            .await;
        let mut runs = Vec::with_capacity(read.len());
        for (directory, mut parts, about) in read {
            match about {
                Ok(about) => {
                    parts.values_mut().for_each(|of| of.sort_by(|a, b| a.location.cmp(&b.location)));
                    runs.push(Arc::new(Run::new(place, directory, about, parts)));
                }
                Err(why) => {
                    left_out.insert(format!("{directory}/run.json"), why);
                }
            }
        }
        if runs.is_empty() {
            return Err(Error::NoRuns { place: place.text.clone(), left_out: left_out.into_iter().collect() });
        }
        runs.sort_by(|a, b| (&a.host, &a.name, &a.directory).cmp(&(&b.host, &b.name, &b.directory)));
        for (what, why) in &left_out {
            self.leave_out(what, why);
        }
        Ok(Runs { all: runs, directories: listing.directories, began_ns: i128::try_from(began).unwrap_or(i128::MAX) })
    }

    /// Counts a part, or a run, as skipped.
    pub fn leave_out(&self, what: &str, why: &str) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.entry(what.to_owned()).or_insert_with(|| why.to_owned());
    }

    /// What had to be skipped, with the reason of each.
    pub fn left_out(&self) -> BTreeMap<String, String> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this was skipped.
    pub fn is_left_out(&self, what: &str) -> bool {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).contains_key(what)
    }
}

#[derive(Default)]
struct Found {
    about: Option<ObjectMeta>,
    parts: BTreeMap<String, Vec<ObjectMeta>>,
}

/// `a/b/sends.parquet` as the run `a/b` and the table `sends`.
fn split_table(directory: &str) -> Option<(&str, &str)> {
    let (run, table) = directory.rsplit_once('/').unwrap_or(("", directory));
    Some((run, table.strip_suffix(".parquet")?))
}

/// `run.json`, where its schema is known.
fn about(bytes: &[u8]) -> Result<Value, String> {
    let about: Value = serde_json::from_slice(bytes).map_err(|e| match e.is_eof() {
        true => format!("ends too early: {e}"),
        false => format!("is malformed: {e}"),
    })?;
    match about.get("schema").and_then(Value::as_u64) {
        Some(schema) if (u64::from(store::EARLIEST_SCHEMA)..=u64::from(store::SCHEMA)).contains(&schema) => Ok(about),
        Some(schema) => {
            Err(format!("is of schema {schema}; this version reads {} to {}", store::EARLIEST_SCHEMA, store::SCHEMA))
        }
        None => Err("has no number \"schema\"".into()),
    }
}

impl Run {
    fn new(place: &Place, directory: String, about: Value, parts: BTreeMap<String, Vec<ObjectMeta>>) -> Self {
        let named = |key: &str| {
            let parts = directory.rsplit('/').chain(place.text.rsplit('/'));
            parts.filter_map(|part| part.strip_prefix(key)).find(|value| !value.is_empty()).map(str::to_owned)
        };
        let text = |key: &str| about.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |pointer: &str| about.pointer(pointer).and_then(Value::as_i64);
        let monotonic = number("/clock/realtime_offset_ns");
        let of_day = |moment: i64| match about.get("kind").and_then(Value::as_str) {
            Some("study") => Some(moment),
            _ => moment.checked_add(monotonic?),
        };
        let start_ns = number("/start_ns").and_then(of_day);
        let end_ns = number("/end_ns").and_then(of_day);
        let name = named("run=").unwrap_or_else(|| match directory.is_empty() {
            true => place.name(),
            false => directory.clone(),
        });
        Self {
            host: named("host=").or_else(|| text("host")).unwrap_or_else(|| "unknown".into()),
            name,
            start_ns,
            end_ns,
            clock_ns: monotonic,
            weight: number("/kept_one_in").filter(|n| *n > 0).unwrap_or(1),
            target: text("target").or_else(|| text("source")),
            directory,
            about,
            parts,
        }
    }
}
