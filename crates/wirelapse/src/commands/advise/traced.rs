//! A program that is traced for a while, with its packets: the run that advice is given on.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use record::Nanos;

use crate::exit::BadInput;

/// A run below a directory that goes with it.
pub(super) struct Traced {
    folder: tempfile::TempDir,
}

impl Traced {
    /// Traces a program for so long.
    pub(super) fn of(pid: u32, lasts: Nanos) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("wirelapse-advise-").tempdir().context("a place for the trace")?;
        let own = std::env::current_exe().context("find this program, to trace with it")?;
        let (pid, lasts) = (pid.to_string(), format!("{}ns", lasts.0));
        let status = Command::new(own)
            .args(["trace", "-p", &pid, "--for", &lasts, "--packets", "--no-live", "-o"])
            .arg(folder.path().join(RUN))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("trace the program")?;
        match status.code() {
            Some(0) => {}
            Some(2) => return Err(BadInput(format!("process {pid} cannot be traced: see above")).into()),
            _ => anyhow::bail!("the trace of process {pid} failed"),
        }
        Ok(Self { folder })
    }

    /// The run.
    pub(super) fn run(&self) -> PathBuf {
        self.folder.path().join(RUN)
    }
}

const RUN: &str = "run";
