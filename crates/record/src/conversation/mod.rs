//! A TCP connection of a capture: what `diagnose` says of it, and its row in a run.
//!
//! A figure of each direction is one line in `direction.rs`; its value comes from `diagnose`. JSON,
//! `docs/keys.md` and the rows of the page of a connection follow. A figure that runs keep as well
//! has a line in `row.rs`.

mod direction;
mod finding;
mod limit;
mod row;

pub use direction::{Acknowledging, Direction, HeaderBytes, OptionState, Quantiles, Retransmissions};
pub use finding::{Finding, FindingKind, FindingRow, Withheld};
pub use limit::{Budget, Limit};
pub use row::{Carried, ConversationRow};

use std::{fmt, ops};

use serde::Serialize;

use crate::words;

/// A direction of a connection, by who receives its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

words! {
    Way: ToServer = "to_server", ToClient = "to_client";
}

impl Way {
    /// Who sends its data.
    pub const fn sender(self) -> Side {
        match self {
            Self::ToServer => Side::Client,
            Self::ToClient => Side::Server,
        }
    }

    /// Who receives its data.
    pub const fn receiver(self) -> Side {
        match self {
            Self::ToServer => Side::Server,
            Self::ToClient => Side::Client,
        }
    }

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ToServer => "to the server",
            Self::ToClient => "to the client",
        }
    }
}

/// The other one.
impl ops::Not for Way {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// What is kept of each, in the order of [`Way::ALL`].
impl<T> ops::Index<Way> for [T; 2] {
    type Output = T;

    fn index(&self, way: Way) -> &T {
        &self[way as usize]
    }
}

impl<T> ops::IndexMut<Way> for [T; 2] {
    fn index_mut(&mut self, way: Way) -> &mut T {
        &mut self[way as usize]
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Who opened it.
    Client,
    /// Who was called.
    Server,
}

words! {
    Side: Client = "client", Server = "server";
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a connection ended, as far as the capture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Both sides closed it.
    Closed,
    /// A RST ended it.
    Reset,
    /// One side closed it.
    HalfClosed,
    /// Neither did before the capture ended.
    #[default]
    Open,
}

words! {
    Ending: Closed = "closed", Reset = "reset", HalfClosed = "half_closed", Open = "open";
}

impl Ending {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::HalfClosed => "half closed",
            Self::Open => "open",
        }
    }
}

/// What is said of a connection in one line, in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What limited it, and for which part of its time; or why that is not known.
    pub limited: String,
    /// The finding that cost most, where it cost enough.
    pub finding: Option<String>,
    /// What to do. `None` in a row that an earlier version wrote: its whole line is in `limited`
    /// then.
    pub step: Option<String>,
}

/// The line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.limited)?;
        if let Some(finding) = &self.finding {
            write!(f, "; {finding}")?;
        }
        if let Some(step) = &self.step {
            write!(f, "; what to do: {step}")?;
        }
        Ok(())
    }
}
