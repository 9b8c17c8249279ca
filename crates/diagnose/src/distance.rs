//! How far the sender of the data is from the capture.

/// How it is known what the sender of one direction's data has learnt of the ACKs that passed the
/// capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Distance {
    /// The sender is so near that it learns of an ACK when the capture does.
    Near,
    /// Its timestamp echoes say which ACK it had received when it sent a segment.
    Echoes,
    /// From the handshake or from single answers: without any queue that stands between capture and
    /// sender.
    AtRest,
    /// Not known.
    #[default]
    Unknown,
}
