//! Where runs are: a directory, or a bucket. Lists what is there; opens nothing.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use futures::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};

use crate::{Error, stores};

/// How deep directories are followed: `host=/date=/run=/table.parquet/` needs four.
const DEEPEST: usize = 12;

/// A place with runs below it.
#[derive(Clone, Debug)]
pub struct Place {
    /// As it was given.
    pub text: String,
    /// The store that its files are read from.
    pub store: Arc<dyn ObjectStore>,
    /// That store's name in plans.
    pub url: ObjectStoreUrl,
    root: Root,
}

#[derive(Clone, Debug)]
enum Root {
    Directory(PathBuf),
    Prefix(Key),
}

/// What is below a place.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files: their directory and name relative to the place, and what the store says of them.
    pub files: Vec<(String, ObjectMeta)>,
    /// What cannot be listed, and why.
    pub left_out: Vec<(String, String)>,
    /// The directories, each as it was before it was listed; of a bucket there are none.
    pub directories: Vec<Directory>,
}

/// A directory at a moment: while all of this stays the same, so do the names in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Directory {
    /// Its path below the place; empty for the place itself.
    pub below: String,
    device: u64,
    inode: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Directory {
    fn of(below: String, meta: &fs::Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            below,
            device: meta.dev(),
            inode: meta.ino(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether the directory below `root` is still as it was.
    pub fn is_same(&self, root: &Path) -> bool {
        fs::metadata(root.join(&self.below)).is_ok_and(|meta| Self::of(self.below.clone(), &meta) == *self)
    }

    /// Whether it had been as it was for this long, in nanoseconds, at `now_ns` since 1970. A
    /// change soon after another can leave the same times.
    pub fn had_rested(&self, now_ns: i128, long_ns: i128) -> bool {
        self.modified_ns.max(self.changed_ns) + long_ns <= now_ns
    }
}

/// The directory that a place's text names; `None` for a URL elsewhere.
pub fn directory(text: &str) -> Option<&Path> {
    match text.strip_prefix("file://") {
        None if text.contains("://") => None,
        path => Some(Path::new(path.unwrap_or(text))),
    }
}

impl Place {
    /// A directory, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// [`Error::Place`].
    pub fn new(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Place { place: text.to_owned(), why };
        let Some(path) = directory(text) else {
            let url = url::Url::parse(text).map_err(|e| wrong(format!("is no URL: {e}")))?;
            let store = stores::of(&url).map_err(|e| wrong(e.to_string()))?;
            let host = &url[..url::Position::BeforePath];
            let prefix = Key::from_url_path(url.path()).map_err(|e| wrong(e.to_string()))?;
            let name = ObjectStoreUrl::parse(host).map_err(|e| wrong(e.to_string()))?;
            return Ok(Self { text: text.to_owned(), store, url: name, root: Root::Prefix(prefix) });
        };
        let why = |e: std::io::Error| wrong(format!("cannot be read: {e}"));
        let path = path.canonicalize().map_err(why)?;
        if !path.is_dir() {
            return Err(wrong("is no directory: name one that has runs below it".into()));
        }
        fs::read_dir(&path).map_err(why)?;
        let store = Arc::new(object_store::local::LocalFileSystem::new());
        Ok(Self { text: text.to_owned(), store, url: ObjectStoreUrl::local_filesystem(), root: Root::Directory(path) })
    }

    /// The last name of the place: what a run is called that the place itself is.
    pub fn name(&self) -> String {
        match &self.root {
            Root::Directory(path) => {
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            }
            Root::Prefix(key) => key.filename().unwrap_or_default().to_owned(),
        }
    }

    /// The directory; `None` for a bucket.
    pub fn directory(&self) -> Option<&Path> {
        match &self.root {
            Root::Directory(path) => Some(path),
            Root::Prefix(_) => None,
        }
    }

    /// All files below it that a run can consist of.
    ///
    /// # Errors
    /// [`Error::Place`] where a bucket cannot be listed.
    pub async fn list(&self) -> Result<Listing, Error> {
        match &self.root {
            Root::Directory(path) => {
                let mut walk = Walk { root: path.clone(), seen: HashSet::new(), listing: Listing::default() };
                if let Ok(meta) = fs::metadata(path) {
                    walk.listing.directories.push(Directory::of(String::new(), &meta));
                }
                walk.directory(path, DEEPEST);
                Ok(walk.listing)
            }
            Root::Prefix(prefix) => {
                let all: Vec<ObjectMeta> = self
                    .store
                    .list(Some(prefix))
                    .try_collect()
                    .await
                    .map_err(|e| Error::Place { place: self.text.clone(), why: stores::reason(&e) })?;
                let below = |meta: &ObjectMeta| {
                    let parts = meta.location.prefix_match(prefix)?;
                    Some(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
                };
                let files = all.into_iter().filter_map(|meta| Some((below(&meta)?, meta))).collect();
                Ok(Listing { files, ..Listing::default() })
            }
        }
    }

    /// The bytes of a file, at most so many.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn read(&self, file: &ObjectMeta, most: u64) -> Result<bytes::Bytes, String> {
        if file.size > most {
            return Err(format!("is longer than the {most} bytes that are read of it"));
        }
        let got = self.store.get(&file.location).await.map_err(|e| stores::reason(&e))?;
        got.bytes().await.map_err(|e| stores::reason(&e))
    }
}

struct Walk {
    root: PathBuf,
    seen: HashSet<(u64, u64)>,
    listing: Listing,
}

impl Walk {
    fn leave_out(&mut self, path: &Path, why: &std::io::Error) {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        self.listing.left_out.push((below.display().to_string(), why.to_string()));
    }

    fn directory(&mut self, path: &Path, depth: usize) {
        let entries = match fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(why) => return self.leave_out(path, &why),
        };
        for entry in entries {
            // What is being written has a hidden name.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let meta = match fs::metadata(&path) {
                Ok(meta) => meta,
                Err(why) => {
                    self.leave_out(&path, &why);
                    continue;
                }
            };
            if meta.is_dir() {
                // A link back up would be followed for ever.
                if depth > 0 && self.seen.insert((meta.dev(), meta.ino())) {
                    if let Ok(below) = path.strip_prefix(&self.root) {
                        self.listing.directories.push(Directory::of(below.to_string_lossy().into_owned(), &meta));
                    }
                    self.directory(&path, depth - 1);
                }
            } else if meta.is_file() {
                let name = entry.file_name();
                let wanted = name == "run.json" || Path::new(&name).extension().is_some_and(|e| e == "parquet");
                let Ok(below) = path.strip_prefix(&self.root) else { continue };
                if wanted {
                    let Ok(location) = Key::from_absolute_path(&path) else {
                        self.leave_out(
                            &path,
                            &std::io::Error::other("has control characters, or no UTF-8, in its path"),
                        );
                        continue;
                    };
                    let modified = meta.modified().unwrap_or(std::time::UNIX_EPOCH).into();
                    let meta =
                        ObjectMeta { location, last_modified: modified, size: meta.len(), e_tag: None, version: None };
                    self.listing.files.push((below.to_string_lossy().into_owned(), meta));
                }
            }
        }
    }
}
