//! Capture files: pcapng in nanoseconds, one after the other where they rotate.

mod chunks;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clock::{Instant, Nanos, Realtime};
use files::Readers;
use wire::capture::{Interface, PcapngWriter, Resolution, WriteError};

use crate::{About, Counts, Frame, Stamps};
pub use chunks::Chunks;

/// When a file ends and the next one begins, and how many to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// After this many bytes (before compression).
    pub bytes: Option<u64>,
    /// After this much time, by the frames' own timestamps.
    pub time: Option<Nanos>,
    /// After this many frames.
    pub frames: Option<u64>,
    /// Files to keep; older ones are removed.
    pub keep: Option<u32>,
}

impl Rotation {
    /// Whether files rotate at all.
    pub const fn is_on(&self) -> bool {
        self.bytes.is_some() || self.time.is_some() || self.frames.is_some()
    }
}

/// What a capture file is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The file; where files rotate, the name that theirs are made of.
    pub path: PathBuf,
    /// When files rotate.
    pub rotation: Rotation,
    /// Whether they are compressed with zstd.
    pub compress: bool,
    /// Whether a file that exists is replaced.
    pub force: bool,
    /// The program and version that writes, for the head of each file.
    pub application: String,
    /// The filter, for the head of each file.
    pub filter: Option<String>,
    /// The clocks that were asked for, for the head of each file.
    pub stamps: Stamps,
}

/// Why a capture file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The file cannot be made.
    #[error(transparent)]
    Open(#[from] files::Error),
    /// The file cannot be written; what was written before is whole.
    #[error("cannot write {path}: {why}; it holds the {frames} frames before")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
        /// Frames that are in it.
        frames: u64,
    },
}

/// Writes frames into files.
pub struct Output {
    settings: Settings,
    interface: Interface,
    open: OpenFile,
    /// Files that are whole, the oldest first.
    finished: VecDeque<PathBuf>,
    number: u32,
    frames: u64,
    /// What the receiver had counted when the open file began, and by its latest word.
    before: Counts,
    counts: Counts,
}

struct OpenFile {
    path: PathBuf,
    writer: PcapngWriter<Chunks>,
    /// Blocks before the first frame, each of which is a block.
    head: u64,
    frames: u64,
    first: Option<Instant<Realtime>>,
    last: Option<Instant<Realtime>>,
}

impl Output {
    /// Makes the first file.
    ///
    /// # Errors
    /// [`OutputError`] where that cannot be.
    pub fn create(settings: Settings, about: &About) -> Result<Self, OutputError> {
        let mut interface = Interface::new(about.link_type, Resolution::NANOSECONDS);
        interface.snap_length = about.snap_length;
        interface.name = Some(about.interface.clone());
        interface.description = Some(description(&settings, about));
        interface.filter.clone_from(&settings.filter);
        let open = begin(&settings, &interface, 1)?;
        Ok(Self {
            settings,
            interface,
            open,
            finished: VecDeque::new(),
            number: 1,
            frames: 0,
            before: Counts::default(),
            counts: Counts::default(),
        })
    }

    /// Writes a frame. Its time is the kernel's where there is one, else the NIC's; with both, the
    /// NIC's is in a comment.
    ///
    /// # Errors
    /// [`OutputError::Write`]; the file is whole up to the frames before.
    pub fn frame(&mut self, frame: &Frame<'_>) -> Result<(), OutputError> {
        if self.is_due() {
            self.rotate()?;
        }
        let hardware = frame.hardware.map(|stamp| stamp.at.as_nanos());
        let at = frame.software.map(|stamp| stamp.at).or(hardware.map(Instant::from_nanos));
        let bytes = frame.bytes();
        let number = self.open.frames + 1;
        let mut written =
            wire::Frame::new(number, at.unwrap_or(Instant::from_nanos(0)), self.interface.link_type, &bytes);
        written.original_length = frame.wire_length();
        let result = match (frame.software, hardware) {
            (Some(_), Some(nanos)) => {
                let comment = format!("NIC {}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000);
                self.open.writer.frame(&written, &[&comment])
            }
            _ => self.open.writer.frame(&written, &[]),
        };
        result.map_err(|error| self.open.failed(error))?;
        self.open.frames = number;
        self.open.first = self.open.first.or(at);
        self.open.last = at.or(self.open.last);
        self.frames += 1;
        Ok(())
    }

    /// Notes what the receiver has counted up to now: what a file says of dropped frames is as
    /// recent as this.
    pub const fn note(&mut self, counts: Counts) {
        self.counts = counts;
    }

    /// Whether the open file gives way to the next.
    fn is_due(&self) -> bool {
        let Rotation { bytes, time, frames, .. } = self.settings.rotation;
        let lasted = self.open.first.zip(self.open.last).and_then(|(first, last)| last.since(first).ok());
        bytes.is_some_and(|most| self.open.writer.get_ref().taken() >= most)
            || frames.is_some_and(|most| self.open.frames >= most)
            || time.zip(lasted).is_some_and(|(most, lasted)| lasted >= most)
    }

    /// Ends the open file and begins the next.
    fn rotate(&mut self) -> Result<(), OutputError> {
        self.end()?;
        self.number += 1;
        self.open = begin(&self.settings, &self.interface, self.number)?;
        if let Some(keep) = self.settings.rotation.keep {
            // The open file is one of those to keep.
            while self.finished.len() + 1 > keep.max(1) as usize {
                let Some(oldest) = self.finished.pop_front() else { break };
                fs::remove_file(&oldest).map_err(|why| OutputError::Write { path: oldest, why, frames: 0 })?;
            }
        }
        Ok(())
    }

    /// Writes what is gathered, so that a reader who follows the file sees it.
    ///
    /// # Errors
    /// [`OutputError::Write`].
    pub fn flush(&mut self) -> Result<(), OutputError> {
        let flushed = io::Write::flush(self.open.writer.get_mut());
        flushed.map_err(|error| self.open.failed(error.into()))
    }

    /// Ends the last file; gives the files that there are, the oldest first, and how many frames
    /// were written in all.
    ///
    /// # Errors
    /// [`OutputError::Write`].
    pub fn finish(mut self, counts: Counts) -> Result<(Vec<PathBuf>, u64), OutputError> {
        self.counts = counts;
        self.end()?;
        Ok((self.finished.into(), self.frames))
    }

    /// The statistics of the interface, and the end of the file.
    fn end(&mut self) -> Result<(), OutputError> {
        let mut interface = self.interface.clone();
        let dropped = self.counts.dropped - self.before.dropped;
        interface.received = Some(self.open.frames + dropped);
        interface.dropped = Some(self.counts.dropped_by_interface - self.before.dropped_by_interface);
        interface.dropped_by_system = Some(dropped);
        self.before = self.counts;
        let at = self.open.last.map_or(0, Instant::as_nanos);
        let open = &mut self.open;
        let written =
            open.writer.statistics(0, &interface, at).and_then(|()| Ok(io::Write::flush(open.writer.get_mut())?));
        written.map_err(|error| open.failed(error))?;
        self.finished.push_back(open.path.clone());
        Ok(())
    }
}

impl OpenFile {
    fn failed(&self, error: WriteError) -> OutputError {
        let written = self.writer.get_ref().blocks().saturating_sub(self.head);
        // The last block is the statistics.
        OutputError::Write { path: self.path.clone(), why: error.into(), frames: written.min(self.frames) }
    }
}

fn begin(settings: &Settings, interface: &Interface, number: u32) -> Result<OpenFile, OutputError> {
    let path = match settings.rotation.is_on() {
        true => numbered(&settings.path, number),
        false => settings.path.clone(),
    };
    // A capture of hours is not lost with the process that makes it: its files have their names
    // from the beginning.
    let file = files::growing(&path, settings.force, Readers::Owner)?;
    let chunks = Chunks::new(file, settings.compress);
    let begun = PcapngWriter::new(chunks, &settings.application)
        .and_then(|mut writer| writer.interface(interface).map(|()| writer));
    match begun {
        Ok(writer) => {
            let head = writer.get_ref().taken_blocks();
            Ok(OpenFile { path, writer, head, frames: 0, first: None, last: None })
        }
        Err(error) => Err(OutputError::Write { path, why: error.into(), frames: 0 }),
    }
}

/// `NAME_00001.EXT` of `NAME.EXT`, as dumpcap numbers its files.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = name.split_once('.').unwrap_or((&name, "pcapng"));
    path.with_file_name(format!("{stem}_{number:05}.{extension}"))
}

/// What a reader of the file has to know of its times.
fn description(settings: &Settings, about: &About) -> String {
    let clock = match settings.stamps {
        Stamps::Software => "software timestamps, CLOCK_REALTIME",
        Stamps::Hardware => "hardware timestamps, by the NIC's own clock",
        Stamps::Both => "software timestamps, CLOCK_REALTIME; the NIC's own clock in comments",
    };
    format!("received by {}; {clock}", about.technique)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Technique;
    use clock::{Source, Timestamp};
    use std::fs::File;
    use wire::LinkType;

    fn settings(path: &Path) -> Settings {
        Settings {
            path: path.to_owned(),
            rotation: Rotation::default(),
            compress: false,
            force: false,
            application: "wirelapse 0".into(),
            filter: Some("udp".into()),
            stamps: Stamps::Software,
        }
    }

    fn about() -> About {
        About {
            technique: Technique::RxRing,
            interface: "eth0".into(),
            link_type: LinkType::ETHERNET,
            snap_length: 128,
            remarks: Vec::new(),
        }
    }

    fn frame(data: &[u8], at: u64) -> Frame<'_> {
        Frame {
            data,
            original_length: 1000,
            software: Some(Timestamp { at: Instant::from_nanos(at), source: Source::Kernel, error: Nanos::ZERO }),
            hardware: None,
            vlan: None,
            outgoing: false,
            queue: None,
        }
    }

    /// Times and original lengths of the frames of a file.
    fn read(path: &Path) -> Vec<(u64, u32)> {
        let mut capture = wire::Capture::from_reader(File::open(path).unwrap()).unwrap();
        let mut frames = Vec::new();
        while let Some(frame) = capture.next_frame().unwrap() {
            frames.push((frame.at.map_or(0, Instant::as_nanos), frame.original_length));
        }
        frames
    }

    #[test]
    fn frames_come_back_in_nanoseconds_plain_and_compressed() {
        for compress in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out.pcapng");
            let mut output = Output::create(Settings { compress, ..settings(&path) }, &about()).unwrap();
            let sent: Vec<u64> = (0..5_000).map(|i| 1_700_000_000_000_000_001 + i).collect();
            sent.iter().for_each(|&at| output.frame(&frame(&[7; 100], at)).unwrap());
            let (files, frames) = output.finish(Counts { received: 5_000, dropped: 3, ..Counts::default() }).unwrap();
            assert_eq!((files, frames), (vec![path.clone()], 5_000));
            assert_eq!(read(&path), sent.iter().map(|&at| (at, 1000)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn files_rotate_and_only_the_newest_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { frames: Some(10), keep: Some(2), ..Rotation::default() };
        let path = dir.path().join("out.pcapng");
        let mut output = Output::create(Settings { rotation, ..settings(&path) }, &about()).unwrap();
        for i in 0..35 {
            output.frame(&frame(&[1; 60], i)).unwrap();
        }
        let (files, frames) = output.finish(Counts { received: 35, ..Counts::default() }).unwrap();
        let names: Vec<_> = files.iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!((names, frames), (vec!["out_00003.pcapng", "out_00004.pcapng"], 35));
        assert_eq!(files.iter().map(|f| read(f).len()).collect::<Vec<_>>(), [10, 5]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_exists_is_kept_unless_forced_and_a_link_is_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcapng");
        fs::write(&path, b"mine").unwrap();
        assert!(matches!(
            Output::create(settings(&path), &about()).map(drop),
            Err(OutputError::Open(files::Error::Exists(_)))
        ));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert!(Output::create(Settings { force: true, ..settings(&path) }, &about()).is_ok());
        let link = dir.path().join("link.pcapng");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Output::create(Settings { force: true, ..settings(&link) }, &about()).is_err());
    }

    #[test]
    fn a_full_disk_leaves_a_file_that_ends_at_a_whole_block() {
        let mut output =
            Output::create(Settings { force: true, ..settings(Path::new("/dev/full")) }, &about()).unwrap();
        let error = (0..10_000).find_map(|i| output.frame(&frame(&[1; 100], i)).err()).unwrap();
        assert!(
            matches!(&error, OutputError::Write { why, .. } if why.raw_os_error() == Some(libc::ENOSPC)),
            "{error}"
        );
    }
}
