//! The capture again, with comments where findings rest on a packet.

use std::io::BufWriter;
use std::path::Path;

use anyhow::Context as _;
use diagnose::Follower;
use wire::capture::{Interface, PcapngWriter};

use super::{Source, comments};
use crate::exit::BadInput;
use crate::files::{OutputFile, Readers};

pub fn write(
    source: &Source,
    (out, force): (&Path, bool),
    follower: &Follower,
    interfaces: &[Interface],
) -> anyhow::Result<()> {
    let Source::File(path) = source else {
        return Err(BadInput("--annotate reads the capture twice: give it a file, not standard input".into()).into());
    };
    if out.canonicalize().is_ok_and(|o| path.canonicalize().is_ok_and(|p| o == p)) {
        return Err(BadInput(format!("{} is the capture itself; write to another file", out.display())).into());
    }
    if interfaces.is_empty() {
        // A capture has at least one; a text has lines.
        return Err(BadInput(format!("{}: --annotate needs a capture with packets, not text", path.display())).into());
    }
    let comments = comments(follower.reports());
    let mut capture = source.capture()?;
    let (file, pending) = OutputFile::create(out, force, Readers::AsInput(path))?.into_parts();
    let mut writer = PcapngWriter::new(BufWriter::new(file), concat!("wirelapse ", env!("CARGO_PKG_VERSION")))?;
    let copied = (|| -> anyhow::Result<()> {
        writer.interfaces(interfaces)?;
        while let Some(frame) = capture.next_frame()? {
            let texts: Vec<&str> = comments.get(&frame.number).into_iter().flatten().map(String::as_str).collect();
            writer.frame(&frame, &texts)?;
        }
        Ok(())
    })();
    copied.and_then(|()| Ok(writer.finish().map(drop)?)).with_context(|| format!("cannot write {}", out.display()))?;
    Ok(pending.finish()?)
}
