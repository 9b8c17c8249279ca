//! The packets of a trace: where they go, and how much of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use capture::output::Chunks;
use export::pcapng::Pcapng;
use record::{Provenance, Sink};

use ::files::Readers;

use crate::exit::BadInput;
use crate::{output, terminal};

/// What to do with the packets.
#[derive(Clone)]
pub struct Packets {
    /// `None` for standard output.
    file: Option<PathBuf>,
    /// Bytes of payload that are kept of each.
    pub payload: u16,
}

impl Packets {
    /// Into this file, or `-` for standard output.
    ///
    /// # Errors
    /// Where that cannot be written to.
    pub fn new(file: &Path, payload: u16, force: bool) -> anyhow::Result<Self> {
        if file != Path::new("-") {
            ::files::refuse(file, force)?;
            return Ok(Self { file: Some(file.to_owned()), payload });
        }
        if terminal::is_terminal() {
            let text = "standard output is a terminal, which shows no packets: name a file (-w FILE), or write into a pipe (-w - | wireshark -k -i -)";
            return Err(BadInput(text.into()).into());
        }
        Ok(Self { file: None, payload })
    }

    /// Whether standard output is for packets alone.
    pub const fn on_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Begins to write; gives what the file is called too. It has its name from now on, and is
    /// whole after each block.
    ///
    /// # Errors
    /// What the file says.
    pub fn begin(&self, run: &Provenance, force: bool) -> anyhow::Result<(Box<dyn Sink>, String)> {
        let (file, name) = match &self.file {
            Some(path) => (::files::growing(path, force, Readers::Owner)?, format!("packet file {}", path.display())),
            None => {
                let pipe = output::stdout_of_bytes().context("cannot write packets to standard output")?;
                (Arc::new(pipe), "packets on standard output".into())
            }
        };
        let said = self.file.as_ref().map_or_else(|| "Packets".into(), |path| format!("Packets {}", path.display()));
        let sink = Pcapng::begin(Chunks::new(file, false), run, self.payload, name)?;
        Ok((Box::new(sink), said))
    }
}
