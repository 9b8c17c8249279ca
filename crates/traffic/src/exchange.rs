//! One request and its response.

use clock::Nanos;
use serde::{Deserialize, Serialize};

/// The shape of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// Writes that a request is split into, as evenly as it goes.
    pub request_writes: u32,
    /// Writes that a response is split into.
    pub response_writes: u32,
    /// What the server waits before it responds.
    #[serde(rename = "think_ns")]
    pub think: Nanos,
}

impl Exchange {
    pub(crate) fn check(&self) -> Result<(), String> {
        for (what, bytes, writes) in [
            ("request", self.request_bytes, self.request_writes),
            ("response", self.response_bytes, self.response_writes),
        ] {
            if bytes == 0 {
                return Err(format!("a {what} has at least one byte"));
            }
            if writes == 0 || writes > bytes {
                return Err(format!("a {what} has at most as many writes as bytes: {writes} writes, {bytes} bytes"));
            }
        }
        Ok(())
    }
}
