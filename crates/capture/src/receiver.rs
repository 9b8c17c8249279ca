//! The trait that every technique implements.

use std::time::Duration;

use wire::LinkType;

use crate::{Error, Frame, Technique};

/// What became of the frames of a receiver so far. All counts are since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames handed to the caller.
    pub received: u64,
    /// Frames that matched and were not received because memory for them was full; with the XDP
    /// techniques also those that the programs could not hand over, since their queue has no socket
    /// or the driver no room for their stamps.
    pub dropped: u64,
    /// Frames that the interface dropped before the technique saw them, where it counts such.
    pub dropped_by_interface: u64,
    /// Frames that carry no timestamp of a clock that was asked for.
    pub unstamped: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.dropped += other.dropped;
        self.dropped_by_interface += other.dropped_by_interface;
        self.unstamped += other.unstamped;
    }
}

/// What a receiver is, for the head of a file and for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The technique.
    pub technique: Technique,
    /// The interface.
    pub interface: String,
    /// What its frames begin with.
    pub link_type: LinkType,
    /// The most bytes kept of a frame.
    pub snap_length: u32,
    /// What to know of this technique on this interface: a mode that is slower than it could be,
    /// effects on the host.
    pub remarks: Vec<String>,
}

/// Receives the frames of one interface.
pub trait Receiver: Send {
    /// Hands the frames that are there to `each`, at most a batch, and returns how many there were.
    /// Waits up to `wait` for the first one; 0 where none came, or where a signal came first.
    ///
    /// # Errors
    /// [`Error::InterfaceGone`] where the interface went down or away, [`Error::System`] for the
    /// rest.
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error>;

    /// What became of the frames so far. Asks the kernel, so not for every frame.
    fn counts(&mut self) -> Counts;

    /// What it is.
    fn about(&self) -> &About;
}
