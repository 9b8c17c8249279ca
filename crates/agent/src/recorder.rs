//! The flight recorder as a rule of the agent: `wirelapse trace --until` runs beside it, and begins
//! again once it has written a run.
//!
//! It runs where the rights to trace are kept. The agent itself asks how it goes ([`Ask`]), and has
//! neither those rights nor the runs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::programs;
use record::{Fired, Utc};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use summary::Needs;

use crate::Error;
use crate::config::{Recorder, Target};

/// What the name of a run begins with; its time follows.
const NAMED: &str = "recorded-";
/// After how long one that failed is begun again.
const RETRY: Duration = Duration::from_secs(30);
/// How long the end waits for a run that is being written.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of what it says on standard error so much is kept.
const MOST_SAID: u64 = 1 << 14;

/// What is asked of the process that has the rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// How it goes.
    Tick,
    /// To end: a run that is being written is kept.
    End,
}

/// How it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Whether it waits for something to happen, or writes what did.
    pub at_work: bool,
    /// Runs that were written.
    pub runs: u64,
    /// How often something happened that is waited for, in these runs.
    pub triggers: u64,
    /// Attempts that wrote no run and ended all the same.
    pub failures: u64,
    /// Lines for people, each once.
    pub news: Vec<String>,
}

/// The recorder.
pub struct Recordings {
    settings: Recorder,
    /// This program.
    program: PathBuf,
    /// All that follows it on the command line but the run.
    arguments: Vec<OsString>,
    at_work: Option<AtWork>,
    /// When the next one begins, where none is at work.
    due: Instant,
    said: Said,
    /// Why it failed last, while it does.
    failing: Option<String>,
}

struct AtWork {
    child: Child,
    run: PathBuf,
    errors: Option<JoinHandle<String>>,
}

impl Recordings {
    /// Makes the folder of the runs. `more` are further options of `wirelapse trace`.
    ///
    /// # Errors
    /// [`Error::File`] where the folder cannot be made, or this program is not found.
    pub fn open(settings: Recorder, target: &Target, more: &[OsString]) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |why: io::Error| Error::File { path, why: format!("no runs can be recorded there: {why}") }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&settings.directory)
            .map_err(failed(&settings.directory))?;
        Ok(Self {
            program: std::env::current_exe().map_err(failed(Path::new("/proc/self/exe")))?,
            arguments: [arguments(&settings, target), more.to_vec()].concat(),
            settings,
            at_work: None,
            due: Instant::now(),
            said: Said::default(),
            failing: None,
        })
    }

    /// Where the runs are.
    pub fn directory(&self) -> &Path {
        &self.settings.directory
    }

    /// Does what is asked. `now` is the time of day.
    pub fn serve(&mut self, ask: Ask, now: Utc) -> Said {
        match ask {
            Ask::Tick => self.tick(now),
            Ask::End => self.end(),
        }
        let news = std::mem::take(&mut self.said.news);
        Said { at_work: self.at_work.is_some(), news, ..self.said }
    }

    fn tick(&mut self, now: Utc) {
        match &mut self.at_work {
            Some(at_work) => {
                let Ok(Some(_)) = at_work.child.try_wait() else { return };
                self.over();
            }
            None if Instant::now() >= self.due => self.begin(now),
            None => {}
        }
    }

    fn begin(&mut self, now: Utc) {
        if let Err(why) = self.make_room() {
            self.say(format!("what was recorded in {} cannot be removed: {why}", self.settings.directory.display()));
        }
        let run = self.settings.directory.join(format!("{NAMED}{}", now.name()));
        let mut command = programs::command(&self.program);
        programs::end_with_parent(&mut command);
        command.args(&self.arguments).arg("-o").arg(&run);
        match spawn(&mut command) {
            Ok((child, errors)) => self.at_work = Some(AtWork { child, run, errors }),
            Err(error) => self.failed(error.to_string()),
        }
    }

    /// What came of one that has ended.
    fn over(&mut self) {
        let Some(AtWork { child: mut ended, run, errors }) = self.at_work.take() else { return };
        let succeeded = ended.wait().is_ok_and(|status| status.success());
        let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        // The last line is why it ended, if it failed.
        let why = errors.lines().last().unwrap_or("it said nothing").trim_start_matches("wirelapse: ").to_owned();
        match store::Run::open(&run).ok().and_then(|run| run.provenance().fired.clone()) {
            Some(fired) => {
                self.recorded(&run, &fired);
                match succeeded {
                    true => self.failing = None,
                    false => self.failed(why),
                }
                self.due = Instant::now() + Duration::from(self.settings.pause);
            }
            None if succeeded => self.failed("somebody ended it".into()),
            None => self.failed(why),
        }
    }

    fn recorded(&mut self, run: &Path, fired: &Fired) {
        // One that was cut short has no count.
        let times = fired.times.max(1);
        self.said.runs += 1;
        self.said.triggers += times;
        let again = if times > 1 { format!(" It happened {} times.", quantity::count(times)) } else { String::new() };
        self.say(format!("recorded {}: {}{again}", run.display(), fired.finding));
    }

    /// The same reason is said once.
    fn failed(&mut self, why: String) {
        self.said.failures += 1;
        self.due = Instant::now() + RETRY;
        if self.failing.as_ref() != Some(&why) {
            self.say(format!("the recorder failed, which is said once: {why}"));
            self.failing = Some(why);
        }
    }

    /// Removes the oldest runs until the others have room.
    fn make_room(&mut self) -> io::Result<()> {
        let removed = keep_within(&self.settings.directory, self.settings.max_bytes)?;
        if removed > 0 {
            self.say(format!("{removed} recorded runs made room for others (max_bytes)"));
        }
        Ok(())
    }

    fn say(&mut self, line: String) {
        self.said.news.push(line);
    }

    fn end(&mut self) {
        let Some(mut at_work) = self.at_work.take() else { return };
        programs::signal(&at_work.child, Signal::INT);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if !matches!(at_work.child.try_wait(), Ok(None)) {
                self.at_work = Some(at_work);
                return self.over_at_the_end();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.say(format!("{} is unfinished: its end takes too long", at_work.run.display()));
        programs::signal(&at_work.child, Signal::KILL);
    }

    /// That nothing happened until then is no failure.
    fn over_at_the_end(&mut self) {
        let (runs, failures, lines) = (self.said.runs, self.said.failures, self.said.news.len());
        self.over();
        if self.said.runs == runs {
            self.said.failures = failures;
            self.said.news.truncate(lines);
        }
    }
}

/// Starts it; what it says on standard output is its report, which is in the run.
fn spawn(command: &mut Command) -> io::Result<(Child, Option<JoinHandle<String>>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let errors = child.stderr.take().map(|said| programs::hear(said, MOST_SAID));
    Ok((child, errors))
}

/// The options of `wirelapse trace`.
fn arguments(settings: &Recorder, target: &Target) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["trace".into()];
    let mut add = |option: &str, value: OsString| all.extend([option.into(), value]);
    for (first, last) in &target.ports {
        add("--port", format!("{first}-{last}").into());
    }
    let named = [
        ("--peer", &target.peers),
        ("--comm", &target.programs),
        ("--unit", &target.units),
        ("--container", &target.containers),
    ];
    for (option, name) in named.into_iter().flat_map(|(option, names)| names.iter().map(move |name| (option, name))) {
        add(option, name.into());
    }
    target.cgroups.iter().for_each(|path| add("--cgroup", path.into()));
    if let Some(most) = target.max_connections {
        add("--max-connections", most.to_string().into());
    }
    for trigger in &settings.until {
        add("--until", trigger.to_string().into());
    }
    add("--keep", quantity::exact_duration(settings.keep).into());
    add("--keep-memory", settings.memory.to_string().into());
    let needs: Vec<Needs> = settings.until.iter().map(summary::Trigger::needs).collect();
    let any = |of: &[Needs]| needs.iter().any(|needs| of.contains(needs));
    let options = [
        (target.is_everything(), "--all"),
        (any(&[Needs::Receives]), "--receive"),
        (any(&[Needs::Requests]), "--requests"),
        (any(&[Needs::Packets, Needs::PacketsOrDatagrams]), "--every-packet"),
        (any(&[Needs::Datagrams]), "--udp"),
        (settings.packets || any(&[Needs::Copies]), "--packets"),
        (true, "--no-live"),
    ];
    all.extend(options.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, option)| option.into()));
    all
}

/// Removes the oldest runs of a folder until those that stay take at most so many bytes; the newest
/// stays. Gives how many were removed. What has another name is none of ours.
fn keep_within(folder: &Path, most: u64) -> io::Result<u64> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name().to_string_lossy().starts_with(NAMED) {
            runs.push((entry.file_name(), entry.path(), bytes_in(&entry.path())?));
        }
    }
    runs.sort();
    let mut bytes: u64 = runs.iter().map(|run| run.2).sum();
    let mut removed = 0;
    for (_, path, of) in runs.iter().rev().skip(1).rev() {
        if bytes <= most {
            break;
        }
        fs::remove_dir_all(path)?;
        bytes -= of;
        removed += 1;
    }
    Ok(removed)
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let of = entry.metadata()?;
        bytes += if of.is_dir() { bytes_in(&entry.path())? } else { of.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> (Recorder, Target) {
        let config = crate::config::parse("c.toml", text).unwrap();
        (config.recorder.unwrap(), config.target)
    }

    #[test]
    fn the_options_are_those_of_the_rule_and_of_what_its_triggers_need() {
        let (settings, target) = config(
            "[target]\nport = [443, \"80-81\"]\nunit = [\"nginx\"]\ncgroup = \"/a\"\n[recorder]\nuntil = [\"request > 2s\", \"drop\", \
             \"retransmission timeout\"]\nkeep = \"1500ms\"\nmemory = \"1MiB\"\n",
        );
        let words: Vec<String> =
            arguments(&settings, &target).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(
            words.join("|"),
            "trace|--port|443-443|--port|80-81|--unit|nginx|--cgroup|/a|--until|request > 2s|--until|drop|--until|retransmission timeout|\
             --keep|1500ms|--keep-memory|1048576|--requests|--every-packet|--packets|--no-live"
        );
        let (settings, target) = config("[recorder]\nuntil = \"reset\"\npackets = true\n");
        let words: Vec<String> =
            arguments(&settings, &target).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert!(
            words.join(" ").ends_with("--until reset --keep 30s --keep-memory 134217728 --all --packets --no-live")
        );
    }

    #[test]
    fn the_oldest_make_room_and_what_is_not_ours_stays() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["recorded-1", "recorded-2", "recorded-3", "others"] {
            fs::create_dir_all(folder.path().join(name).join("part")).unwrap();
            fs::write(folder.path().join(name).join("part/x"), [0; 100]).unwrap();
        }
        fs::write(folder.path().join("recorded-0"), [0; 1000]).unwrap();
        assert_eq!(keep_within(folder.path(), 300).unwrap(), 0);
        assert_eq!(keep_within(folder.path(), 299).unwrap(), 1);
        assert_eq!(keep_within(folder.path(), 0).unwrap(), 1);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|of| of.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["others", "recorded-0", "recorded-3"]);
    }

    #[test]
    fn what_fails_is_said_once_with_its_reason_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (mut settings, target) = config("[recorder]\nuntil = \"reset\"\n");
        settings.directory = folder.path().join("a/b");
        let mut recordings = Recordings::open(settings, &target, &[]).unwrap();
        // What fails at once, with a word on why: it knows none of the options.
        recordings.program = "/bin/cat".into();
        let mut news = Vec::new();
        for failures in 1..=2 {
            recordings.due = Instant::now();
            assert!(tier::wait_for(|| {
                let said = recordings.serve(Ask::Tick, Utc(1));
                news.extend(said.news);
                said.failures == failures && !said.at_work
            }));
            assert!(recordings.due > Instant::now());
        }
        assert!(news.len() == 1 && news[0].contains("is said once: "), "{news:?}");
        assert_eq!(recordings.serve(Ask::End, Utc(1)).runs, 0);
    }
}
