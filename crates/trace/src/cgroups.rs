//! The cgroups that a target names, as they come and go: a unit or a container that restarts has
//! another one than before.
//!
//! The hierarchy is watched (inotify), so that a new cgroup is known before what is started in it
//! has opened a socket. The programs find the target's cgroups in a map, by their ids. What was
//! opened before its cgroup was there is picked up by a pass over the sockets.

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use machine::who::{Rule, RuleKind, Rules};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::layout::{CGROUP_CAME, CGROUP_WAS_THERE, MAX_LEVELS};
use crate::{Error, Target, cgroup};

/// More cgroups than this are not watched.
const MOST: usize = 65_536;
/// How often the whole hierarchy is read again where that is needed: cgroups without a watch, and
/// containers that have no name yet.
const AGAIN: Duration = Duration::from_secs(2);
/// How long one wait for changes takes, so that the thread soon sees that the trace is over.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// What one rule of a target names now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which kind of rule it is.
    pub kind: RuleKind,
    /// What it names: a path in the hierarchy, the name of a unit or of a container.
    pub name: String,
    /// How many cgroups it names now; those that are below another of them do not count.
    pub cgroups: u64,
    /// How many have come since the start.
    pub came: u64,
    /// How many of these were gone before they could be followed: nothing of them was seen.
    pub missed: u64,
}

/// A cgroup of the target.
#[derive(Debug)]
struct Found {
    id: u64,
    rules: Vec<usize>,
}

/// The rules, and what they name.
#[derive(Debug)]
pub(crate) struct Cgroups {
    mount: PathBuf,
    rules: Rules,
    came: Vec<u64>,
    missed: Vec<u64>,
    /// By the path in the hierarchy.
    found: BTreeMap<String, Found>,
    /// The folder of each watch.
    watched: HashMap<i32, String>,
    inotify: Arc<OwnedFd>,
    /// Folders that could not be watched.
    unwatched: bool,
    read: Instant,
    /// The programs' map, and what a cgroup that is found now is to them.
    ids: Option<MapHandle>,
}

impl Target {
    /// Whether all cgroups, units and containers that it names are there, where it does not wait
    /// for them.
    ///
    /// # Errors
    /// [`Error::NothingNamed`], [`Error::Cgroup`] and [`Error::NoCgroupMount`].
    pub fn check(&self) -> Result<(), Error> {
        Cgroups::new(self).map(drop)
    }

    /// Its rules for cgroups.
    pub(crate) fn rules(&self) -> Result<Vec<Rule>, Error> {
        if !self.by_cgroup() {
            return Ok(Vec::new());
        }
        let mount = cgroup::mount()?;
        let folder = |path: &PathBuf| {
            // Of a folder that is there the file system itself says what it is.
            if path.exists() {
                cgroup::open(path)?;
            }
            Rule::of_folder(path, &mount).ok_or_else(|| Error::Cgroup {
                path: path.clone(),
                source: std::io::Error::other(format!("it is not below {}", mount.display())),
            })
        };
        let folders: Result<Vec<Rule>, Error> = self.cgroups.iter().map(folder).collect();
        let units = self.units.iter().cloned().map(Rule::Unit);
        let containers = self.containers.iter().cloned().map(Rule::Container);
        Ok(folders?.into_iter().chain(units).chain(containers).collect())
    }
}

impl Cgroups {
    /// Watches the hierarchy, and finds what the rules name now. `None` where there is none.
    ///
    /// # Errors
    /// [`Error::NoCgroupMount`] where there is no hierarchy, [`Error::Cgroup`] where a folder is
    /// not of it, and [`Error::NothingNamed`] where a rule of a target that is not to be waited
    /// for names nothing.
    pub fn new(target: &Target) -> Result<Option<Self>, Error> {
        let rules = target.rules()?;
        if rules.is_empty() {
            return Ok(None);
        }
        let watch = "cannot watch the cgroup hierarchy";
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let inotify = inotify.map_err(|error| Error::System { what: watch, source: error.into() })?;
        let mut cgroups = Self {
            mount: cgroup::mount()?,
            came: vec![0; rules.len()],
            missed: vec![0; rules.len()],
            rules: Rules::new(rules, target.root.as_deref().unwrap_or(Path::new("/"))),
            found: BTreeMap::new(),
            watched: HashMap::new(),
            inotify: Arc::new(inotify),
            unwatched: false,
            read: Instant::now(),
            ids: None,
        };
        cgroups.visit_all();
        if !target.awaited
            && let Some(missing) = cgroups.named().into_iter().find(|named| named.cgroups == 0)
        {
            return Err(Error::NothingNamed { kind: missing.kind, name: missing.name });
        }
        Ok(Some(cgroups))
    }

    /// Puts what was found into the programs' map, and what will be. Sockets in what is there now
    /// may be older than the trace.
    pub fn begin(&mut self, ids: MapHandle) -> Result<(), Error> {
        for found in self.found.values() {
            ids.update(&found.id.to_ne_bytes(), &[CGROUP_WAS_THERE as u8], MapFlags::ANY)
                .map_err(Error::bpf("cannot set a cgroup of the target"))?;
        }
        self.ids = Some(ids);
        Ok(())
    }

    /// What each rule names now.
    pub fn named(&self) -> Vec<Named> {
        let mut counts = vec![0; self.came.len()];
        self.found.values().flat_map(|found| &found.rules).for_each(|&rule| counts[rule] += 1);
        let rules = self.rules.all().iter().zip(counts).zip(self.came.iter().zip(&self.missed));
        let named = rules.map(|((rule, cgroups), (&came, &missed))| {
            let (kind, name) = (rule.kind(), rule.name());
            Named { kind, name, cgroups, came, missed }
        });
        named.collect()
    }

    /// Takes what has changed. Whether the target has got cgroups that it had not.
    pub fn tick(&mut self) -> bool {
        let before: u64 = self.came.iter().sum();
        let inotify = Arc::clone(&self.inotify);
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&*inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                    let (events, watch) = (event.events(), event.wd());
                    self.changed(events, watch, name.as_deref());
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if (self.unwatched || self.rules.names_come_late()) && self.read.elapsed() >= AGAIN {
            if self.unwatched {
                self.forget_all_gone();
            }
            self.visit_all();
        }
        self.came.iter().sum::<u64>() != before
    }

    fn changed(&mut self, events: ReadFlags, watch: i32, name: Option<&str>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.forget_all_gone();
            self.visit_all();
        }
        if events.contains(ReadFlags::IGNORED) {
            self.watched.remove(&watch);
        }
        let (Some(above), Some(name)) = (self.watched.get(&watch), name.filter(|_| events.contains(ReadFlags::ISDIR)))
        else {
            return;
        };
        let path = format!("{}/{name}", above.trim_end_matches('/'));
        if events.contains(ReadFlags::CREATE) {
            self.visit(path);
            return;
        }
        // It may be that of a cgroup which was gone before it was looked at, and perhaps there is
        // another in its place.
        match self.found.get(&path) {
            Some(found) if self.id_of(&path) != Some(found.id) => self.forget(&path),
            _ => self.miss(&path),
        }
    }

    /// Reads the whole hierarchy.
    fn visit_all(&mut self) {
        self.read = Instant::now();
        self.unwatched = false;
        self.visit("/".to_owned());
    }

    /// Where not every removal is told of.
    fn forget_all_gone(&mut self) {
        let gone = self.found.iter().filter(|(path, found)| self.id_of(path) != Some(found.id));
        let gone: Vec<String> = gone.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.forget(path));
    }

    fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The id of the cgroup that is at a path now.
    fn id_of(&self, path: &str) -> Option<u64> {
        std::fs::metadata(self.folder(path)).ok().map(|found| found.ino())
    }

    /// A cgroup is there, and perhaps some below it.
    fn visit(&mut self, path: String) {
        let mut open = vec![(path, 0)];
        while let Some((path, depth)) = open.pop() {
            let Some(id) = self.id_of(&path) else { continue };
            let folder = self.folder(&path);
            self.judge(&path, id);
            // The watch first: what is made after it is told of, and what was before it is read.
            let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
            match inotify::add_watch(&*self.inotify, &folder, flags) {
                Ok(watch) if self.watched.len() < MOST => {
                    self.watched.insert(watch, path.clone());
                }
                Ok(watch) => {
                    let _ = inotify::remove_watch(&*self.inotify, watch);
                    self.unwatched = true;
                }
                Err(Errno::NOENT) => continue,
                Err(_) => self.unwatched = true,
            }
            if depth >= MAX_LEVELS {
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let below = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let below = below.map(|entry| entry.file_name().to_string_lossy().into_owned());
            open.extend(below.map(|name| (format!("{}/{name}", path.trim_end_matches('/')), depth + 1)));
        }
    }

    /// Takes a cgroup into the target where a rule names it, and none above it is named by the same
    /// rule.
    fn judge(&mut self, path: &str, id: u64) {
        if self.found.get(path).is_some_and(|found| found.id != id) {
            self.forget(path);
        }
        let rules = self.outermost(path);
        if rules.is_empty() || self.found.get(path).is_some_and(|found| found.rules == rules) {
            return;
        }
        // Where the map is full it is not followed, and does not count as named.
        let key = id.to_ne_bytes();
        if self.ids.as_ref().is_some_and(|ids| ids.update(&key, &[CGROUP_CAME as u8], MapFlags::ANY).is_err()) {
            return;
        }
        if self.ids.is_some() {
            rules.iter().for_each(|&rule| self.came[rule] += 1);
        }
        self.found.insert(path.to_owned(), Found { id, rules });
    }

    /// A cgroup was made, and is gone, and was never followed.
    fn miss(&mut self, path: &str) {
        for rule in self.outermost(path) {
            self.came[rule] += 1;
            self.missed[rule] += 1;
        }
    }

    /// The rules that name a cgroup and none above it.
    fn outermost(&mut self, path: &str) -> Vec<usize> {
        let mut rules = self.rules.fitted_by(path);
        for (above, found) in &self.found {
            if is_below(path, above) {
                rules.retain(|rule| !found.rules.contains(rule));
            }
        }
        rules
    }

    /// A cgroup is gone. Sockets that were made in it are followed on.
    fn forget(&mut self, path: &str) {
        if let Some(found) = self.found.remove(path)
            && let Some(ids) = &self.ids
        {
            let _ = ids.delete(&found.id.to_ne_bytes());
        }
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above.trim_end_matches('/')).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

/// The cgroups of a trace that is at work: a thread follows them.
#[derive(Debug)]
pub(crate) struct Followed {
    state: Arc<State>,
    started: bool,
    passed: Instant,
}

#[derive(Debug)]
struct State {
    cgroups: Mutex<Cgroups>,
    /// Whether sockets may be in cgroups that have come since the last pass.
    came: AtomicBool,
}

impl State {
    fn with<T>(&self, act: impl FnOnce(&mut Cgroups) -> T) -> T {
        act(&mut self.cgroups.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tick(&self) {
        if self.with(Cgroups::tick) {
            self.came.store(true, Ordering::Release);
        }
    }
}

/// The least time between two passes over the sockets because of cgroups that came.
const PASS: Duration = Duration::from_millis(100);

impl Followed {
    pub fn new(cgroups: Cgroups) -> Self {
        let state = State { cgroups: Mutex::new(cgroups), came: AtomicBool::new(false) };
        Self { state: Arc::new(state), started: false, passed: Instant::now() }
    }

    /// As [`Cgroups::begin`].
    pub fn begin(&self, ids: MapHandle) -> Result<(), Error> {
        self.state.with(|cgroups| cgroups.begin(ids))
    }

    /// As [`Cgroups::named`].
    pub fn named(&self) -> Vec<Named> {
        self.state.with(|cgroups| cgroups.named())
    }

    /// Whether a pass over the sockets is due, because cgroups have come. The first call starts the
    /// thread: by then the process has given up the rights that the thread is not to have either.
    pub fn tick(&mut self) -> Result<bool, Error> {
        if !self.started {
            self.started = true;
            self.start()?;
        }
        if self.passed.elapsed() < PASS || !self.state.came.swap(false, Ordering::Acquire) {
            return Ok(false);
        }
        self.passed = Instant::now();
        Ok(true)
    }

    fn start(&self) -> Result<(), Error> {
        let state = Arc::downgrade(&self.state);
        let inotify = self.state.with(|cgroups| Arc::clone(&cgroups.inotify));
        let follow = move || {
            while let Some(state) = state.upgrade() {
                state.tick();
                drop(state);
                let _ = poll(&mut [PollFd::new(&*inotify, PollFlags::IN)], Some(&TURN));
            }
        };
        let thread = std::thread::Builder::new().name("trace-cgroups".into()).spawn(follow);
        thread.map(drop).map_err(Error::system("cannot start the thread that follows the cgroups of the target"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_its_parents_and_not_below_itself() {
        assert!(is_below("/a/b", "/a") && is_below("/a/b/c", "/a") && is_below("/a", "/"));
        assert!(!is_below("/a", "/a") && !is_below("/ab", "/a") && !is_below("/", "/") && !is_below("/a", "/a/b"));
    }
}
