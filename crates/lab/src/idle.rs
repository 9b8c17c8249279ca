//! CPUs that do not sleep while a short path is there.
//!
//! An idle CPU needs time to come back, on a virtual machine up to 0.3 ms, and each thread that a
//! frame wakes waits for it: on a short path that is longer than the path. The kernel lets a
//! process limit it (Documentation/power/pm_qos_interface.rst), for as long as that holds a
//! descriptor: nothing of it outlives the process.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// CPUs come back from idleness at once while this lives.
#[derive(Debug)]
pub(crate) struct KeptAwake(#[expect(dead_code, reason = "the kernel undoes the limit when the file is closed")] File);

impl KeptAwake {
    /// `None` where this is not allowed: then deliveries are late by what a CPU needs to come back,
    /// and the account has it.
    pub(crate) fn new() -> Option<Self> {
        let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Self(file))
    }
}
