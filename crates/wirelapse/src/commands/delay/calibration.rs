//! The taps' own offset, kept in a file between two runs of `wirelapse delay`.

use std::path::Path;

use ::capture::delay::Offset;
use ::capture::delay::records::Delay;

use crate::exit::BadInput;

/// A calibration as its file holds it.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Calibration {
    kind: String,
    offset_ns: f64,
    error_ns: f64,
    n: u64,
    before: String,
    after: String,
    method: String,
}

/// The word that begins the file.
const KIND: &str = "calibration";

impl Calibration {
    /// Of a run with a plain wire in the device's place: its mean delay with its error.
    pub fn of(delay: &Delay) -> anyhow::Result<Self> {
        let few = || BadInput("too few frames were matched for a calibration: send more through the wire".into());
        let (mean, error_ns) = delay.figures.as_deref().and_then(|f| f.mean).zip(delay.error_ns()).ok_or_else(few)?;
        Ok(Self {
            kind: KIND.into(),
            offset_ns: mean.value,
            error_ns,
            n: delay.figures.as_deref().map_or(0, |f| f.n as u64),
            before: delay.before.clone(),
            after: delay.after.clone(),
            method: delay.method.clone(),
        })
    }

    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bad = |why: String| BadInput(format!("{}: {why}", path.display()));
        let text = crate::options::text_of(path).map_err(|error| bad(error.to_string()))?;
        let read: Self = serde_json::from_str(&text)
            .map_err(|error| bad(format!("is not a calibration of wirelapse delay: {error}")))?;
        if read.kind != KIND || !read.offset_ns.is_finite() || read.error_ns.is_nan() || read.error_ns < 0.0 {
            return Err(bad("is not a calibration of wirelapse delay".into()).into());
        }
        Ok(read)
    }

    /// Writes the file.
    pub fn write(&self, path: &Path, force: bool) -> anyhow::Result<()> {
        let text = serde_json::to_string(self)? + "\n";
        Ok(::files::write(path, text.as_bytes(), force, ::files::Readers::AsUmask)?)
    }

    /// The offset for a run; refused where that stamps frames another way, since the offset is then
    /// another.
    pub fn offset(&self, method: &str) -> anyhow::Result<Offset> {
        if self.method != method {
            return Err(BadInput(format!(
                "the calibration is of {:?}, and this run is of {method:?}: calibrate by the same method",
                self.method
            ))
            .into());
        }
        Ok(Offset { ns: self.offset_ns, error_ns: self.error_ns })
    }
}
