//! The files of a trace beside its run: one for each of [`FORMATS`] that was asked for.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::PathBufValueParser;
use clap::{Arg, ArgMatches, Command};
use export::format::{FORMATS, Format};
use record::{End, Event, Instant, Monotonic, Provenance, Sink, SinkError};

use ::files::{OutputFile, Pending, Readers};

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
    /// [`::files::Error::Exists`].
    pub fn refuse(&self, force: bool) -> Result<(), ::files::Error> {
        self.0.iter().try_for_each(|(_, path)| ::files::refuse(path, force))
    }

    /// Their names.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(_, path)| path.as_path())
    }

    /// Opens them, found writable before anything is attached.
    ///
    /// # Errors
    /// As [`OutputFile::create`].
    pub fn open(&self, force: bool) -> anyhow::Result<Vec<Opened>> {
        let opened = self.0.iter().map(|(format, path)| {
            let file = OutputFile::create(path, force, Readers::Owner)?;
            Ok(Opened { format: *format, path: path.clone(), file })
        });
        opened.collect()
    }
}

/// A file while nothing is written to it.
pub struct Opened {
    format: &'static dyn Format,
    path: PathBuf,
    file: OutputFile,
}

impl Opened {
    /// The name that the file gets at the end, where it is hidden until then.
    pub fn named_at_the_end(&self) -> Option<&Path> {
        self.file.is_named_at_end().then_some(self.path.as_path())
    }

    /// Begins to write the trace of `run`; gives what the file is called too.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin(self, run: &Provenance) -> anyhow::Result<(Box<dyn Sink>, String)> {
        let Self { format, path, file } = self;
        let (file, pending) = file.into_parts();
        let file = BufWriter::with_capacity(1 << 18, file);
        let called = |what: &str| format!("{} {what} {}", format.name(), path.display());
        let (said, failed) = (called("trace"), called("file"));
        let sink = format.begin(Box::new(file), run, &path).with_context(|| format!("cannot write the {failed}"))?;
        Ok((Box::new(Placed { sink, pending, called: failed }), said))
    }
}

/// A file that gets its name once it is whole. Dropped before, it goes.
struct Placed {
    sink: Box<dyn Sink>,
    pending: Pending,
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
        let Self { sink, pending, called } = *self;
        let said = sink.finish(end)?;
        pending.finish().map_err(|why| SinkError::new(called, why))?;
        Ok(said)
    }
}
