//! Where events go: each form of output is a sink.

use std::fmt;

use crate::{Coverage, Event, Figures, Instant, Lost, Monotonic};

/// A form of output that takes events as they come.
///
/// After an error the sink is dropped: it leaves nothing half-written under a final name.
pub trait Sink {
    /// Takes an event.
    ///
    /// # Errors
    /// [`SinkError`]: what the output says.
    fn event(&mut self, event: &Event) -> Result<(), SinkError>;

    /// To be called now and then with the time, for a sink that passes on what has gathered.
    ///
    /// # Errors
    /// As [`Sink::event`].
    fn tick(&mut self, _now: Instant<Monotonic>) -> Result<(), SinkError> {
        Ok(())
    }

    /// Takes a send that waits for its ACK, as it is now. It comes as an event when that has come,
    /// or when it is given up.
    ///
    /// # Errors
    /// As [`Sink::event`].
    fn waiting(&mut self, _send: &crate::Send) -> Result<(), SinkError> {
        Ok(())
    }

    /// Whether it has all that was asked for, so that the trace may end.
    fn is_over(&self) -> bool {
        false
    }

    /// Ends the output. Gives what it says to a person of what was written; `None` where it says
    /// nothing.
    ///
    /// # Errors
    /// As [`Sink::event`].
    fn finish(self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError>;
}

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// When.
    pub at: Instant<Monotonic>,
    /// What was missed.
    pub lost: &'a Lost,
    /// What share was observed.
    pub coverage: &'a Coverage,
    /// The figures of the whole run.
    pub figures: &'a Figures,
    /// What the path of a lab reports, where the traced program is in one.
    pub path: Option<&'a serde_json::Value>,
    /// How often what a flight recorder waits for happened; 0 without one.
    pub fired: u64,
}

/// A sink could not write.
#[derive(Debug)]
pub struct SinkError {
    /// Which output.
    pub output: String,
    /// Why.
    pub why: Box<dyn std::error::Error + Send + Sync>,
}

impl SinkError {
    /// `why` of this output.
    pub fn new(output: impl Into<String>, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { output: output.into(), why: why.into() }
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the {}", self.output)
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.why)
    }
}
