//! The hosts of a scenario.

use serde::{Deserialize, Serialize};

use crate::draw::Draw;

/// How a host is set up. What is `None` is the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `TCP_CONGESTION`.
    pub congestion_control: String,
    /// The receive buffer in bytes, the same from beginning to end (`net.ipv4.tcp_rmem`).
    pub receive_buffer: Option<u32>,
    /// `SO_SNDBUF` in bytes.
    pub send_buffer: Option<u32>,
    /// `TCP_WINDOW_CLAMP` in bytes: the small windows of embedded stacks.
    pub window_clamp: Option<u32>,
    /// `SO_MAX_PACING_RATE` in bytes a second.
    pub max_pacing: Option<u32>,
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: bool,
    /// `net.ipv4.tcp_timestamps`.
    pub timestamps: bool,
    /// `net.ipv4.tcp_sack`.
    pub sack: bool,
    /// `net.ipv4.tcp_ecn`: asked for.
    pub ecn: bool,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// Whether segments are joined and split by offloads (TSO, GSO, GRO).
    pub offloads: bool,
}

impl Host {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let mut some = |p: f64, low: f64, high: f64| draw.chance(p).then(|| draw.log(low, high) as u32);
        let receive_buffer = some(0.3, 8e3, 1e6);
        let send_buffer = some(0.2, 8e3, 5e5);
        let window_clamp = some(0.05, 1_500.0, 3e4);
        let max_pacing = some(0.06, 2e4, 2e7);
        Self {
            congestion_control: ["cubic", "reno", "bbr"][draw.weighted(&[0.55, 0.2, 0.25])].to_owned(),
            receive_buffer,
            send_buffer,
            window_clamp,
            max_pacing,
            no_delay: draw.chance(0.5),
            window_scaling: !draw.chance(0.06),
            timestamps: !draw.chance(0.12),
            sack: !draw.chance(0.06),
            ecn: draw.chance(0.2),
            slow_start_after_idle: !draw.chance(0.2),
            offloads: !draw.chance(0.3),
        }
    }

    /// One that has the kernel's defaults, whatever the machine's are.
    pub fn plain() -> Self {
        Self {
            congestion_control: "cubic".into(),
            receive_buffer: None,
            send_buffer: None,
            window_clamp: None,
            max_pacing: None,
            no_delay: true,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: false,
            slow_start_after_idle: true,
            offloads: true,
        }
    }
}
