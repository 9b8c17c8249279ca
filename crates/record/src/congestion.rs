//! What a congestion control does, as far as its name says.

/// Whether the congestion control of this name sets its rate itself (`cong_control` of the kernel's
/// `tcp_congestion_ops`), as BBR does in each of its versions. Others have a window, and a rate
/// only where something else sets one.
pub fn sets_its_rate(name: &str) -> bool {
    name.starts_with("bbr")
}
