//! The capture again, with comments where findings rest on a packet.

use std::fs::Metadata;
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;
use diagnose::Follower;
use record::Instant;
use wire::capture::{Particulars, PcapngWriter, Process, context};

use super::input::Reading;
use super::{Source, comments};
use crate::exit::BadInput;
use ::files::{OutputFile, Readers};

pub fn write(
    source: &Source,
    (out, force): (&Path, bool),
    follower: &Follower,
    reading: &Reading,
) -> anyhow::Result<()> {
    let Some(file) = source.file() else {
        return Err(BadInput("--annotate reads the capture twice: give it a file, not a stream".into()).into());
    };
    let identity = |of: Metadata| (of.dev(), of.ino());
    if out.metadata().is_ok_and(|there| file.metadata().is_ok_and(|here| identity(there) == identity(here))) {
        return Err(BadInput(format!("{} is the capture itself; write to another file", out.display())).into());
    }
    if reading.interfaces.is_empty() {
        // A capture has at least one; a text has lines.
        return Err(BadInput(format!("{}: --annotate needs a capture with packets, not text", source.name())).into());
    }
    let comments = comments(follower.reports(), &follower.quic_analysis());
    let mut capture = source.capture(file)?;
    let (copy, pending) = OutputFile::create(out, force, Readers::AsInputs(&[file.metadata()?]))?.into_parts();
    let mut writer = PcapngWriter::new(BufWriter::new(copy), concat!("wirelapse ", env!("CARGO_PKG_VERSION")))?;
    let copied = (|| -> anyhow::Result<()> {
        writer.interfaces(&reading.interfaces)?;
        for (pid, name, since) in &reading.described {
            let since = since.map(Instant::from_nanos);
            writer.process(&Process { pid: *pid, name, since, ..Process::default() })?;
        }
        while let Some(frame) = capture.next_frame()? {
            let texts: Vec<&str> = comments.get(&frame.number).into_iter().flatten().map(String::as_str).collect();
            let context = frame.context().map(|context| context.value());
            let local = context.as_deref().map(|value| (context::CODE, value));
            writer.packet(&frame, &Particulars { comments: &texts, local, ..frame.particulars() })?;
        }
        Ok(())
    })();
    copied.and_then(|()| Ok(writer.finish().map(drop)?)).with_context(|| format!("cannot write {}", out.display()))?;
    Ok(pending.finish()?)
}
