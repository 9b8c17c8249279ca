//! Settings of the kernel that shape what TCP does and what measuring costs.

use std::fs;

/// One setting and what it decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The sysctl's name, or the last part of the file's path.
    pub name: &'static str,
    /// Its value: the file's text, blanks made single.
    pub value: String,
    /// What it decides.
    pub purpose: &'static str,
}

/// The sysctls, and what each decides.
const SYSCTLS: [(&str, &str); 17] = [
    ("net.ipv4.tcp_congestion_control", "how fast new connections may grow"),
    ("net.ipv4.tcp_available_congestion_control", "what study congestion can compare"),
    ("net.core.default_qdisc", "the qdisc of new devices"),
    ("net.ipv4.tcp_timestamps", "12 bytes a segment, for round trips and wrap protection"),
    ("net.ipv4.tcp_window_scaling", "windows above 65,535 bytes"),
    ("net.ipv4.tcp_sack", "losses repaired one by one"),
    ("net.ipv4.tcp_rmem", "receive buffer: least, first, most (bytes)"),
    ("net.ipv4.tcp_wmem", "send buffer: least, first, most (bytes)"),
    ("net.ipv4.tcp_autocorking", "small sends wait while one is queued below"),
    ("net.ipv4.tcp_limit_output_bytes", "small-queue limit of a socket (bytes)"),
    ("net.ipv4.tcp_notsent_lowat", "unsent bytes above which a socket is not writable"),
    ("net.ipv4.tcp_slow_start_after_idle", "the congestion window shrinks in a pause"),
    ("net.ipv4.tcp_no_metrics_save", "0: connections inherit from earlier ones"),
    ("net.core.tstamp_allow_data", "0: timestamps come without the packet's data"),
    ("net.core.bpf_jit_enable", "0: BPF programs are interpreted, slowly"),
    ("kernel.unprivileged_bpf_disabled", "above 0: BPF is for root or CAP_BPF"),
    ("kernel.perf_event_paranoid", "who may count CPU events"),
];

/// The one setting that is no sysctl.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The settings that can be read here, in a fixed order. One that this kernel does not have, or
/// shows to root only, is omitted.
pub fn settings() -> Vec<Setting> {
    let sysctls =
        SYSCTLS.iter().map(|(name, purpose)| (*name, format!("/proc/sys/{}", name.replace('.', "/")), *purpose));
    let clock_source =
        ("current_clocksource", CLOCK_SOURCE.to_owned(), "what a timestamp is read from; hpet and acpi_pm are slow");
    sysctls
        .chain([clock_source])
        .filter_map(|(name, file, purpose)| {
            let text = fs::read_to_string(file).ok()?;
            Some(Setting { name, value: text.split_whitespace().collect::<Vec<_>>().join(" "), purpose })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_kernel_has_them() {
        let all = settings();
        let congestion = all.iter().find(|s| s.name == "net.ipv4.tcp_congestion_control").unwrap();
        let available = all.iter().find(|s| s.name == "net.ipv4.tcp_available_congestion_control").unwrap();
        assert!(available.value.split(' ').any(|name| name == congestion.value));
    }
}
