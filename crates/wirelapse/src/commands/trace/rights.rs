//! What a trace asks of the process that keeps its rights: the lab that the traced programs live
//! in, and the names of hosts.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use trace::{Error, Privileged};

use super::lab_path::Networks;
use crate::hosts;

/// What is asked.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// To see which labs the traced processes are in now.
    SeeLabs,
    /// What the path of their lab reports.
    LabPath,
    /// The names of these hosts.
    Names(hosts::Query),
}

/// The reply to it.
#[derive(Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The report of the lab's path as JSON, where there is a lab.
    LabPath(Option<String>),
    /// The names that have come.
    Names(HashMap<IpAddr, String>),
}

/// Answers, in that process.
pub struct Service {
    pub hosts: hosts::Names,
    pub networks: Networks,
}

impl Service {
    pub fn serve(&mut self, request: Request) -> Reply {
        match request {
            Request::SeeLabs => {
                self.networks.update();
                Reply::Done
            }
            Request::LabPath => Reply::LabPath(self.networks.path().map(|path| path.to_string())),
            Request::Names(query) => Reply::Names(self.hosts.answer(query)),
        }
    }
}

/// Asks that process.
pub struct Rights(pub Privileged<Request, Reply>);

impl Rights {
    /// Has it see which labs the traced processes are in.
    ///
    /// # Errors
    /// That it has ended, with the cause.
    pub fn see_labs(&self) -> Result<(), Error> {
        self.0.ask(&Request::SeeLabs).map(drop)
    }

    /// What the path of the lab of the traced processes reports.
    ///
    /// # Errors
    /// As [`Self::see_labs`].
    pub fn lab_path(&self) -> Result<Option<serde_json::Value>, Error> {
        let reply = self.0.ask(&Request::LabPath)?;
        Ok(if let Reply::LabPath(Some(path)) = reply { serde_json::from_str(&path).ok() } else { None })
    }

    /// The names of these hosts, as far as they come in time.
    ///
    /// # Errors
    /// As [`Self::see_labs`].
    pub fn names(&self, hosts: impl IntoIterator<Item = IpAddr>) -> Result<HashMap<IpAddr, String>, Error> {
        let reply = self.0.ask(&Request::Names(hosts::Query::new(hosts, hosts::PATIENCE)))?;
        Ok(if let Reply::Names(names) = reply { names } else { HashMap::new() })
    }
}
