//! Hardware receive timestamps of a NIC, switched on for as long as a receiver wants them.

use timestamping::{HardwareConfig, Interface, ReceiveFilter};

use crate::{Error, Options, Technique};

/// A NIC that stamps every frame it receives. Dropping it puts the NIC's setting back.
///
/// The setting belongs to the machine and outlives a process that is killed, as with every program
/// that uses it.
#[derive(Debug)]
pub(crate) struct HardwareStamps {
    interface: Interface,
    /// What to put back; `None` where the NIC stamped every frame before.
    before: Option<HardwareConfig>,
}

impl HardwareStamps {
    /// Has the NIC stamp every frame it receives.
    pub fn on(technique: Technique, options: &Options) -> Result<Self, Error> {
        let none = |reason: String| Error::Stamps {
            technique,
            stamps: options.stamps,
            interface: options.interface.clone(),
            reason,
        };
        let interface =
            Interface::by_name(&options.interface).map_err(|_| Error::NoInterface(options.interface.clone()))?;
        let before = interface.hardware().map_err(|error| none(error.to_string()))?;
        if before.receive == ReceiveFilter::All {
            return Ok(Self { interface, before: None });
        }
        let all = HardwareConfig { receive: ReceiveFilter::All, ..before };
        let now = interface.set_hardware(all).map_err(|error| none(error.to_string()))?;
        let this = Self { interface, before: Some(before) };
        match now.receive {
            ReceiveFilter::All => Ok(this),
            other => Err(none(format!("the NIC stamps only some frames ({other:?})"))),
        }
    }
}

impl Drop for HardwareStamps {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // The interface may be gone, and its setting with it.
            let _ = self.interface.set_hardware(before);
        }
    }
}
