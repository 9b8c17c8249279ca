//! What takes rights beside the trace itself: reading the sockets of all network namespaces, the
//! names of hosts and processes, and what other commands of this program do with a row: record,
//! trace, write packets, advise. What does it is the process that has rights ([`Service`]); the one
//! with the screen has none and asks for it ([`Recorder`]).

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use record::Nanos;
use record::socket::SocketChanges;
use report::live::Columns;
use serde::{Deserialize, Serialize};
use trace::{Error, Privileged, Sockets};

use super::advisor::Advisor;
use super::aim::Criterion;
use super::jobs::{Jobs, Said};
use super::kept;
use crate::hosts;

/// What is done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// A run of everything on the screen is recorded.
    Record,
    /// The row is traced, and what a report says of it is shown.
    Trace,
    /// Its packets are written.
    Packets,
    /// Its packets are written, and `wirelapse advise` reads them.
    Advise,
    /// The flight recorder begins, or writes what it has.
    Flight,
}

/// What is asked of the process that has rights.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// To begin something with the row of this name and its connections, where nothing goes on.
    Start(Action, String, Vec<Criterion>),
    /// How it goes.
    Tick,
    /// To end it.
    End,
    /// The names of these hosts.
    Names(hosts::Query),
    /// The processes that these descend from.
    Ancestors(Vec<u32>),
    /// What has become of the sockets.
    Sockets,
    /// To keep these columns for the next time; `None` for as many as there is room for.
    Keep(Option<Vec<String>>),
}

/// The processes that some processes descend from, the parent first, each with its name.
pub type Ancestors = HashMap<u32, Vec<(u32, String)>>;

/// The reply to it.
#[derive(Serialize, Deserialize)]
pub enum Reply {
    /// What is to be shown of what goes on.
    Said(Said),
    /// The names that have come.
    Names(HashMap<IpAddr, String>),
    /// The processes above.
    Ancestors(Ancestors),
    /// What has become of the sockets, and the CPU time that this process has used since it began.
    Sockets(SocketChanges, Nanos),
}

/// Answers, in that process.
pub struct Service {
    pub hosts: hosts::Names,
    pub jobs: Jobs,
    /// The process that starts `wirelapse advise`, once this one has forked it.
    pub advisor: Rc<Cell<Option<Advisor>>>,
    pub sockets: Sockets,
}

impl Service {
    pub fn serve(&mut self, request: Request) -> Reply {
        if let Some(advisor) = self.advisor.take() {
            self.jobs.advised_by(advisor);
        }
        match request {
            Request::Start(action, row, of_row) => self.jobs.start(action, row, &of_row),
            Request::Tick => self.jobs.tick(),
            Request::End => self.jobs.end(),
            Request::Sockets => {
                let read = self.sockets.read();
                let failed = |error: Error| SocketChanges { missed: error.to_string(), ..SocketChanges::default() };
                return Reply::Sockets(read.unwrap_or_else(failed), super::feed::cpu_time());
            }
            Request::Keep(columns) => {
                if let Err(error) = kept::keep(columns.as_deref()) {
                    self.jobs.say(format!("the columns cannot be kept: {error}"));
                }
            }
            Request::Names(query) => return Reply::Names(self.hosts.answer(query)),
            Request::Ancestors(pids) => {
                return Reply::Ancestors(pids.into_iter().map(|pid| (pid, trace::ancestors(pid))).collect());
            }
        }
        Reply::Said(self.jobs.said())
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

/// The processes that these descend from.
///
/// # Errors
/// As [`names`].
pub fn ancestors(rights: &Rights, pids: Vec<u32>) -> Result<Ancestors, Error> {
    let reply = rights.ask(&Request::Ancestors(pids))?;
    Ok(if let Reply::Ancestors(all) = reply { all } else { HashMap::new() })
}

/// What has become of the sockets since this was asked last, and the CPU time of who read them.
///
/// # Errors
/// As [`names`].
pub fn sockets(rights: &Rights) -> Result<(SocketChanges, Nanos), Error> {
    let reply = rights.ask(&Request::Sockets)?;
    Ok(if let Reply::Sockets(changes, cpu) = reply { (changes, cpu) } else { Default::default() })
}

/// What the screen knows of what goes on.
#[derive(Default)]
pub struct Recorder {
    /// What is shown of it; nothing while there is none.
    pub message: String,
    /// Whether the flight recorder is at work.
    pub flight: bool,
    /// What came back for the row with this name.
    pub answer: Option<(String, Vec<String>)>,
}

impl Recorder {
    /// Begins something with the row of this name, where nothing goes on.
    ///
    /// # Errors
    /// As [`names`].
    pub fn start(&mut self, rights: &Rights, action: Action, row: &str, of_row: Vec<Criterion>) -> Result<(), Error> {
        self.ask(rights, &Request::Start(action, row.to_owned(), of_row)).map(drop)
    }

    /// Keeps columns for the next time.
    ///
    /// # Errors
    /// As [`names`].
    pub fn keep(&mut self, rights: &Rights, columns: &Columns) -> Result<(), Error> {
        let names = columns.names().map(|names| names.into_iter().map(str::to_owned).collect());
        self.ask(rights, &Request::Keep(names)).map(drop)
    }

    /// Asks how it goes; gives whether there is something else to be shown.
    ///
    /// # Errors
    /// As [`names`].
    pub fn tick(&mut self, rights: &Rights) -> Result<bool, Error> {
        if self.is_quiet() { Ok(false) } else { self.ask(rights, &Request::Tick) }
    }

    /// Ends what goes on; a run holds what came until then.
    ///
    /// # Errors
    /// As [`names`].
    pub fn end(&mut self, rights: &Rights) -> Result<(), Error> {
        if self.is_quiet() { Ok(()) } else { self.ask(rights, &Request::End).map(drop) }
    }

    fn is_quiet(&self) -> bool {
        self.message.is_empty() && !self.flight
    }

    fn ask(&mut self, rights: &Rights, request: &Request) -> Result<bool, Error> {
        let Reply::Said(said) = rights.ask(request)? else { return Ok(false) };
        let changed = said.message != self.message || said.flight != self.flight || said.answer.is_some();
        (self.message, self.flight) = (said.message, said.flight);
        self.answer = said.answer.or(self.answer.take());
        Ok(changed)
    }
}

/// Forks the process that starts `wirelapse advise`, and keeps what the calling one needs, which
/// records, for good. Runs go into the folder in which `top` was started.
///
/// # Errors
/// Where a right that is not needed cannot be given up.
pub fn keep_rights(advisor: &Cell<Option<Advisor>>) -> io::Result<()> {
    // Without it the key says what to run instead.
    advisor.set(Advisor::fork().ok());
    rights::keep_for_recordings(Path::new(".")).map_err(io::Error::other)
}
