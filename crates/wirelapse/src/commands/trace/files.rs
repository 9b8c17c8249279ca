//! The files of a trace beside its run: one for each of [`FORMATS`] that was asked for.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::PathBufValueParser;
use clap::{Arg, ArgMatches, Command};
use export::format::{FORMATS, Format};
use record::{End, Event, Instant, Monotonic, Provenance, Sink, SinkError};

use crate::exit::BadInput;

/// The files that were asked for, with the format of each.
#[derive(Clone, Default)]
pub struct Files(Vec<(&'static dyn Format, PathBuf)>);

impl clap::Args for Files {
    fn augment_args(command: Command) -> Command {
        FORMATS.iter().fold(command, |command, format| {
            let arg = Arg::new(format.option()).long(format.option()).value_name("FILE").help(format.help());
            command.arg(arg.value_parser(PathBufValueParser::new()))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Files {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let file = |format: &&'static dyn Format| Some((*format, matches.get_one::<PathBuf>(format.option())?.clone()));
        Ok(Self(FORMATS.iter().filter_map(file).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Files {
    /// Refuses files that exist, unless `force` says that they may be overwritten.
    ///
    /// # Errors
    /// [`BadInput`], which names the file.
    pub fn refuse(&self, force: bool) -> Result<(), BadInput> {
        self.0.iter().try_for_each(|(_, path)| {
            // A pipe or a device has nothing to lose.
            let regular = std::fs::metadata(path).map_or(true, |there| there.is_file());
            crate::files::refuse(path, force || !regular)
        })
    }

    /// Opens them, found writable before anything is attached.
    ///
    /// # Errors
    /// [`BadInput`], which names the file.
    pub fn open(&self) -> Result<Vec<Opened>, BadInput> {
        let opened = self.0.iter().map(|(format, path)| {
            Opened::new(*format, path).map_err(|error| {
                let (path, option) = (path.display(), format.option());
                BadInput(format!("cannot write {path}: {error}; name another file for --{option}"))
            })
        });
        opened.collect()
    }
}

/// A file while nothing is written to it. It is under a hidden name beside the one that was asked for until
/// it is whole, and gone where it never is.
pub struct Opened {
    format: &'static dyn Format,
    path: PathBuf,
    file: File,
    /// Its hidden name; a pipe or a device has none.
    hidden: Option<tempfile::TempPath>,
}

impl Opened {
    fn new(format: &'static dyn Format, path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            // In a directory where others may write, a link of that name is not ours to follow.
            let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(&path)?;
            return Ok(Self { format, path, file, hidden: None });
        }
        // For its owner alone: it holds names of programs and addresses.
        let hidden = tempfile::Builder::new().prefix(".unfinished-").tempfile_in(crate::files::folder(&path))?;
        store::private::give_to_caller(hidden.as_file())?;
        let (file, hidden) = hidden.into_parts();
        Ok(Self { format, path, file, hidden: Some(hidden) })
    }

    /// The name that the file gets at the end, where it is hidden until then.
    pub fn named_at_the_end(&self) -> Option<&Path> {
        self.hidden.as_ref().map(|_| self.path.as_path())
    }

    /// Begins to write the trace of `run`; gives what the file is called too.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin(self, run: &Provenance) -> anyhow::Result<(Box<dyn Sink>, String)> {
        let Self { format, path, file, hidden } = self;
        let file = BufWriter::with_capacity(1 << 18, file);
        let called = |what: &str| format!("{} {what} {}", format.name(), path.display());
        let (said, failed) = (called("trace"), called("file"));
        let sink = format.begin(Box::new(file), run, &path).with_context(|| format!("cannot write the {failed}"))?;
        Ok((Box::new(Placed { sink, hidden, path, called: failed }), said))
    }
}

/// A file that gets its name once it is whole. Dropped before, it goes.
struct Placed {
    sink: Box<dyn Sink>,
    hidden: Option<tempfile::TempPath>,
    path: PathBuf,
    /// What errors call it.
    called: String,
}

impl Sink for Placed {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.sink.event(event)
    }

    fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.sink.tick(now)
    }

    fn finish(self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        let Self { sink, hidden, path, called } = *self;
        let said = sink.finish(end)?;
        let named = hidden.map_or(Ok(()), |hidden| hidden.persist(path));
        named.map_err(|why| SinkError::new(called, why.error))?;
        Ok(said)
    }
}
