//! `r`: a run of the same connections, recorded by `wirelapse trace` beside the screen. What starts it is the process that has rights
//! ([`Recording`]); the one with the screen has none and asks for it ([`Recorder`]).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use trace::Tracer;

use crate::criteria::Criteria;
use crate::privileges;

/// How long a recording takes.
const LENGTH: &str = "10s";

/// Begin one, where none goes on.
const START: &[u8] = b"start";
/// How does it go?
const LOOK: &[u8] = b"look";
/// End it.
const END: &[u8] = b"end";

/// What the screen knows of a recording.
#[derive(Default)]
pub struct Recorder {
    /// What is shown of it; nothing while there is none.
    pub message: String,
}

impl Recorder {
    /// Begins a recording, where none goes on.
    pub fn start(&mut self, tracer: &mut Tracer) {
        self.ask(tracer, START);
    }

    /// Sees how a recording goes; gives whether there is something else to be shown.
    pub fn look(&mut self, tracer: &mut Tracer) -> bool {
        !self.message.is_empty() && self.ask(tracer, LOOK)
    }

    /// Ends a recording that goes on; its run holds what came until then.
    pub fn end(&mut self, tracer: &mut Tracer) {
        if !self.message.is_empty() {
            self.ask(tracer, END);
        }
    }

    fn ask(&mut self, tracer: &mut Tracer, what: &[u8]) -> bool {
        let said = tracer.aside(what).and_then(|said| String::from_utf8(said).ok()).unwrap_or_default();
        let changed = said != self.message;
        self.message = said;
        changed
    }
}

/// Keeps what the process that records needs, for good. Runs go into the folder in which `top` was started.
///
/// # Errors
/// Where a right that is not needed cannot be given up.
pub fn keep_rights() -> anyhow::Result<()> {
    privileges::keep_for_recordings(Path::new("."))
}

/// The recording that goes on, and what is to be said of it.
pub struct Recording {
    options: Vec<std::ffi::OsString>,
    child: Option<(Child, PathBuf)>,
    message: String,
    /// Looks that the message still stays.
    left: u32,
}

impl Recording {
    pub fn new(criteria: &Criteria) -> Self {
        let options = criteria.options();
        let options = if options.is_empty() { vec!["--all".into()] } else { options };
        Self { options, child: None, message: String::new(), left: 0 }
    }

    /// Does what a [`Recorder`] asks for; the answer is what is to be shown.
    pub fn answer(&mut self, asked: &[u8]) -> Vec<u8> {
        match asked {
            START => self.start(),
            LOOK => self.look(),
            END => self.end(),
            _ => {}
        }
        self.message.clone().into_bytes()
    }

    fn start(&mut self) {
        if self.child.is_some() {
            return;
        }
        let name = |n: u32| PathBuf::from(format!("wirelapse-top-{}-{n}", std::process::id()));
        let run = (1..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0));
        let started = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("trace").args(&self.options).args(["--for", LENGTH, "-o"]).arg(&run);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        match started {
            Ok(child) => {
                self.say(format!("recording {LENGTH} to {}", run.display()));
                self.child = Some((child, run));
            }
            Err(error) => self.say(format!("cannot record: {error}")),
        }
    }

    fn look(&mut self) {
        if let Some((child, run)) = &mut self.child {
            let Ok(Some(status)) = child.try_wait() else { return };
            let run = run.display().to_string();
            self.child = None;
            self.say(if status.success() {
                format!("recorded {run}: wirelapse report {run}")
            } else {
                format!("the recording to {run} failed: run wirelapse trace for the reason")
            });
            return;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.message.clear();
        }
    }

    fn end(&mut self) {
        let Some((mut child, _)) = self.child.take() else { return };
        if let Ok(pid) = i32::try_from(child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = child.wait();
    }

    fn say(&mut self, text: String) {
        self.message = text;
        self.left = 50;
    }
}
