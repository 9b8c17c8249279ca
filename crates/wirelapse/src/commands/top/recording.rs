//! What takes rights beside the trace itself: reading the sockets of all network namespaces, the
//! names of hosts, and `r`: a run of the same connections, recorded by `wirelapse trace` beside the
//! screen. What does it is the process that has rights ([`Service`]); the one with the screen has
//! none and asks for it ([`Recorder`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use machine::programs;
use record::Nanos;
use record::socket::SocketChanges;
use report::live::Columns;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use trace::{Error, Privileged, Sockets};

use super::kept;
use crate::criteria::Criteria;
use crate::hosts;

/// How long a recording takes.
const LENGTH: &str = "10s";

/// What is asked of the process that records.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// To begin a recording, where none goes on.
    Start,
    /// How the recording goes.
    Tick,
    /// To end the recording.
    End,
    /// The names of these hosts.
    Names(hosts::Query),
    /// What has become of the sockets.
    Sockets,
    /// To keep these columns for the next time; `None` for as many as there is room for.
    Keep(Option<Vec<String>>),
}

/// The reply to it.
#[derive(Serialize, Deserialize)]
pub enum Reply {
    /// What is to be shown of the recording.
    Message(String),
    /// The names that have come.
    Names(HashMap<IpAddr, String>),
    /// What has become of the sockets, and the CPU time that this process has used since it began.
    Sockets(SocketChanges, Nanos),
}

/// Answers, in that process.
pub struct Service {
    pub hosts: hosts::Names,
    pub recording: Recording,
    pub sockets: Sockets,
}

impl Service {
    pub fn serve(&mut self, request: Request) -> Reply {
        match request {
            Request::Start => self.recording.start(),
            Request::Tick => self.recording.tick(),
            Request::End => self.recording.end(),
            Request::Sockets => {
                let read = self.sockets.read();
                let failed = |error: Error| SocketChanges { missed: error.to_string(), ..SocketChanges::default() };
                return Reply::Sockets(read.unwrap_or_else(failed), super::feed::cpu_time());
            }
            Request::Keep(columns) => {
                if let Err(error) = kept::keep(columns.as_deref()) {
                    self.recording.say(format!("the columns cannot be kept: {error}"));
                }
            }
            Request::Names(query) => return Reply::Names(self.hosts.answer(query)),
        }
        Reply::Message(self.recording.message.clone())
    }
}

/// Asks that process.
pub type Rights = Privileged<Request, Reply>;

/// The names that a query asks for.
///
/// # Errors
/// That the process that is asked has ended, with the cause.
pub fn names(rights: &Rights, query: hosts::Query) -> Result<HashMap<IpAddr, String>, Error> {
    let reply = rights.ask(&Request::Names(query))?;
    Ok(if let Reply::Names(names) = reply { names } else { HashMap::new() })
}

/// What has become of the sockets since this was asked last, and the CPU time of who read them.
///
/// # Errors
/// As [`names`].
pub fn sockets(rights: &Rights) -> Result<(SocketChanges, Nanos), Error> {
    let reply = rights.ask(&Request::Sockets)?;
    Ok(if let Reply::Sockets(changes, cpu) = reply { (changes, cpu) } else { Default::default() })
}

/// What the screen knows of a recording.
#[derive(Default)]
pub struct Recorder {
    /// What is shown of it; nothing while there is none.
    pub message: String,
}

impl Recorder {
    /// Begins a recording, where none goes on.
    ///
    /// # Errors
    /// As [`names`].
    pub fn start(&mut self, rights: &Rights) -> Result<(), Error> {
        self.ask(rights, &Request::Start).map(drop)
    }

    /// Keeps columns for the next time.
    ///
    /// # Errors
    /// As [`names`].
    pub fn keep(&mut self, rights: &Rights, columns: &Columns) -> Result<(), Error> {
        let names = columns.names().map(|names| names.into_iter().map(str::to_owned).collect());
        self.ask(rights, &Request::Keep(names)).map(drop)
    }

    /// Asks how a recording goes; gives whether there is something else to be shown.
    ///
    /// # Errors
    /// As [`names`].
    pub fn tick(&mut self, rights: &Rights) -> Result<bool, Error> {
        if self.message.is_empty() { Ok(false) } else { self.ask(rights, &Request::Tick) }
    }

    /// Ends a recording that goes on; its run holds what came until then.
    ///
    /// # Errors
    /// As [`names`].
    pub fn end(&mut self, rights: &Rights) -> Result<(), Error> {
        if self.message.is_empty() { Ok(()) } else { self.ask(rights, &Request::End).map(drop) }
    }

    fn ask(&mut self, rights: &Rights, request: &Request) -> Result<bool, Error> {
        let Reply::Message(said) = rights.ask(request)? else { return Ok(false) };
        let changed = said != self.message;
        self.message = said;
        Ok(changed)
    }
}

/// Keeps what the process that records needs, for good. Runs go into the folder in which `top` was
/// started.
///
/// # Errors
/// Where a right that is not needed cannot be given up.
pub fn keep_rights() -> Result<(), rights::Error> {
    rights::keep_for_recordings(Path::new("."))
}

/// The recording that goes on, and what is to be said of it.
pub struct Recording {
    options: Vec<std::ffi::OsString>,
    child: Option<(Child, PathBuf)>,
    message: String,
    /// Ticks for which the message still stays.
    left: u32,
}

impl Recording {
    pub fn new(criteria: &Criteria) -> Self {
        let options = criteria.options();
        let options = if options.is_empty() { vec!["--all".into()] } else { options };
        Self { options, child: None, message: String::new(), left: 0 }
    }

    fn start(&mut self) {
        if self.child.is_some() {
            return;
        }
        let name = |n: u32| PathBuf::from(format!("wirelapse-top-{}-{n}", std::process::id()));
        let run = (1..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0));
        let started = std::env::current_exe().and_then(|program| {
            let mut command = programs::command(&program);
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

    fn tick(&mut self) {
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
