//! What the options of a packet say of its processes, whoever wrote them.

use super::context::Context;
use super::frame::Frame;
use super::process_comment::{ProcessComment, is_of_container};

/// The option of macOS with the place of a process event block: that of the process which has the
/// socket.
const PLACE: u16 = 0x8001;
/// The same for the process that the first one works for.
const EFFECTIVE_PLACE: u16 = 0x8003;

/// What the options of a packet say of its processes.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// `epb_flags`, of [`super::flag`]; 0 where there are none.
    pub flags: u32,
    /// The process of `epb_processid_threadid`; 0 where none is named.
    pub pid: u32,
    /// What a trace by Wirelapse knows.
    pub context: Option<Context>,
    /// Where in the section the process of the socket is described (macOS).
    pub place: Option<u32>,
    /// The same for the process that it works for.
    pub effective_place: Option<u32>,
    /// What a comment of another tool says.
    pub comment: Option<ProcessComment>,
    /// A comment names a container or a pod.
    pub in_container: bool,
}

impl Said {
    pub fn of(frame: &Frame<'_>) -> Self {
        Self {
            flags: frame.flags(),
            pid: frame.process().map_or(0, |process| process.0),
            context: frame.context(),
            place: frame.number(PLACE),
            effective_place: frame.number(EFFECTIVE_PLACE),
            comment: frame.comments().find_map(ProcessComment::parse),
            in_container: frame.comments().any(is_of_container),
        }
    }
}
