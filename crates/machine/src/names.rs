//! What identifies a machine in what was measured on it.

/// Kernel release, hardware and CPUs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Host name (`nodename` of `uname(2)`).
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Hardware, such as `x86_64`.
    pub hardware: String,
    /// CPUs that this process may use; 0 where that cannot be read.
    pub cpus: u32,
}

impl Names {
    /// Of this machine.
    pub fn here() -> Self {
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            host: text(name.nodename()),
            kernel: text(name.release()),
            hardware: text(name.machine()),
            cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        }
    }
}
