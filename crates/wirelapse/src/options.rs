//! Options that several commands take: each with one name, one meaning and one text.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use ::capture::output::Rotation;
use anyhow::Context as _;
use quantity::parse;
use record::Nanos;

use crate::exit::BadInput;
use crate::output::note;

/// Headings of `--help` that several commands have.
pub mod heading {
    /// What results go to.
    pub const OUTPUT: &str = "Output";
    /// How long, how many, how often.
    pub const HOW_MUCH: &str = "How much";
    /// Which connections.
    pub const WHAT: &str = "What to observe";
    /// How many resources may be taken.
    pub const COST: &str = "Cost and limits";
    /// How the other end is reached.
    pub const CONNECTION: &str = "Connection";
    /// Who may ask, and how it is proved.
    pub const SECURITY: &str = "Access and encryption";
    /// Which frames are sent or received.
    pub const FRAMES: &str = "Frames";
    /// How packets are received and stamped.
    pub const METHOD: &str = "Method";
}

/// `--for` in every command.
pub const FOR: &str = "End after this time: 500ms, 10s, 5m (a plain number is seconds)";
/// `--json` in every command.
pub const JSON: &str = "Write one JSON object on each line instead of the report";
/// `--output` in every command that keeps a run.
pub const OUTPUT: &str = "Save the result as a run, a new directory with run.json and Parquet tables";
/// `--force` in every command that writes files.
pub const FORCE: &str = "Overwrite existing files";

/// `--resolve` in every command that shows addresses.
pub const RESOLVE: &str = "Show host names instead of addresses, where the resolver knows them within 3 seconds";

/// A rate of datagrams, and how many leave in a row: `RATE` or `RATE/BURST`, as iperf3 has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    /// 0 for as fast as possible.
    pub bits_per_second: u64,
    /// 1 to [`traffic::MOST_BURST`].
    pub burst: u32,
}

impl Paced {
    /// From the command line.
    ///
    /// # Errors
    /// What is wrong with either number, and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Units of a rate have a slash, too: 10Mbit/s.
        let parts = text.rsplit_once('/').filter(|(_, burst)| burst.starts_with(|c: char| c.is_ascii_digit()));
        let (rate, burst) = parts.map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let bits_per_second = parse::bit_rate(rate).map_err(|error| error.to_string())?;
        let most = traffic::MOST_BURST;
        let burst = match burst {
            None => 1,
            Some(text) => text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| {
                format!(
                    "after the slash comes how many datagrams leave in a row, 1 to {most}, not {text:?}; write 10M/20"
                )
            })?,
        };
        if bits_per_second == 0 && burst > 1 {
            return Err("what goes as fast as possible has no bursts: give a rate, such as 10M/20".into());
        }
        Ok(Self { bits_per_second, burst })
    }
}

/// The text of a small file that the caller names; it may be a pipe, and a device that never ends
/// is not read to its end.
///
/// # Errors
/// As [`std::fs::read_to_string`]; [`std::io::ErrorKind::FileTooLarge`] beyond a mebibyte.
pub fn text_of(path: &Path) -> io::Result<String> {
    let bytes = store::regular::whole(File::open(path)?, 1 << 20)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Machine-readable output.
#[derive(clap::Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub struct Json {
    #[arg(long, help = JSON)]
    pub json: bool,
}

/// An end by time; without it a command goes on to Ctrl-C.
#[derive(clap::Args)]
#[command(next_help_heading = heading::HOW_MUCH)]
pub struct For {
    #[arg(long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, help = FOR)]
    duration: Option<Nanos>,
}

impl For {
    /// How long, where there is an end.
    pub fn duration(&self) -> Option<std::time::Duration> {
        self.duration.map(Into::into)
    }
}

/// Where a run is kept.
#[derive(clap::Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub struct Output {
    #[arg(short, long, value_name = "RUN", help = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// A descriptor that learns when a command has begun.
#[derive(clap::Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub struct Ready {
    /// Write a line feed to this file descriptor and close it as soon as observing has started: for
    /// scripts that wait for it
    #[arg(long = "ready-fd", value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    descriptor: Option<i32>,
}

impl Ready {
    /// Takes the descriptor before anything else is opened, so that it is the caller's and no
    /// other.
    ///
    /// # Errors
    /// [`BadInput`] where the caller has not opened it.
    pub fn take(&self) -> anyhow::Result<Started> {
        let Some(descriptor) = self.descriptor else { return Ok(Started(None)) };
        let link = format!("/proc/self/fd/{descriptor}");
        if !Path::new(&link).exists() {
            let text = format!(
                "--ready-fd {descriptor}: no such descriptor is open: in a shell, `{descriptor}>FILE` opens it"
            );
            return Err(BadInput(text).into());
        }
        // SAFETY: it is open, the caller has passed it on to be written and closed here, and
        // nothing else in this process uses it.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // What this command starts must not hold it open.
        rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Started(Some(owned.into())))
    }
}

/// Says that a command observes, once.
pub struct Started(Option<File>);

impl Started {
    /// Says it on the descriptor, and in a line on standard error where there is one to say. A
    /// reader that is gone needs no word.
    ///
    /// # Errors
    /// A descriptor that takes no word: whoever waits for it would wait for ever.
    pub fn say(&mut self, line: Option<String>) -> anyhow::Result<()> {
        line.iter().for_each(|line| note(line));
        let said = self.0.take().map_or(Ok(()), |mut file| file.write_all(b"\n"));
        match said {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            said => said.context("cannot write to the descriptor of --ready-fd"),
        }
    }
}

/// How long, how fine, and where: `stream`, `rr`, `crr` and `udp`.
#[derive(clap::Args)]
#[command(next_help_heading = heading::HOW_MUCH)]
pub struct Measure {
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, default_value = "10s", help = FOR)]
    duration: Nanos,
    /// Time between two lines of the series
    #[arg(short = 'i', long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value = "1s")]
    interval: Nanos,
    /// Bind the threads of this side to a CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

impl Measure {
    /// How long to measure.
    pub fn duration(&self) -> Nanos {
        self.duration
    }

    /// The width of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval
    }
}

/// When to start a new file of frames.
#[derive(clap::Args)]
pub struct Rotate {
    /// Start a new file after this many bytes (compressed or not)
    #[arg(short = 'C', long, value_name = "BYTES", value_parser = parse::bytes, requires = "write", help_heading = heading::OUTPUT)]
    rotate_size: Option<u64>,
    /// Start a new file after this time
    #[arg(short = 'G', long, value_name = "TIME", value_parser = parse::duration_above_zero, requires = "write", help_heading = heading::OUTPUT)]
    rotate_time: Option<Nanos>,
    /// Start a new file after this many frames
    #[arg(long, value_name = "N", value_parser = parse::count, requires = "write", help_heading = heading::OUTPUT)]
    rotate_count: Option<u64>,
}

impl Rotate {
    /// With so many files kept.
    pub fn keeping(&self, keep: Option<u32>) -> Rotation {
        Rotation { bytes: self.rotate_size, time: self.rotate_time, frames: self.rotate_count, keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_have_a_burst() {
        assert_eq!(Paced::parse("10M"), Ok(Paced { bits_per_second: 10_000_000, burst: 1 }));
        assert_eq!(Paced::parse("1Gbit/s"), Ok(Paced { bits_per_second: 1_000_000_000, burst: 1 }));
        assert_eq!(Paced::parse("1Gbit/s/7"), Ok(Paced { bits_per_second: 1_000_000_000, burst: 7 }));
        assert_eq!(Paced::parse("2.5M/20"), Ok(Paced { bits_per_second: 2_500_000, burst: 20 }));
        for text in ["10M/0", "10M/1001", "10M/", "10M/many", "0/4", "horse/4"] {
            assert!(Paced::parse(text).is_err(), "{text}");
        }
    }
}
