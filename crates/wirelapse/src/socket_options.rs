//! Socket options on the command line.

use clap_complete::engine::ArgValueCandidates;
use quantity::parse;

use crate::commands::completions::values;

/// Socket options, on both ends of every connection of the workload.
#[derive(clap::Args)]
#[command(next_help_heading = "Socket options (both ends)")]
pub struct SocketOptions {
    /// TCP_NODELAY: small segments leave at once
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    nodelay: Option<bool>,
    /// TCP_CORK: hold partial segments until the message is complete
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    cork: Option<bool>,
    /// TCP_QUICKACK: acknowledge at once (on), or delay ACKs from the start (off)
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    quickack: Option<bool>,
    /// Congestion control, such as cubic, bbr or reno
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(values::congestion_controls))]
    congestion: Option<String>,
    /// SO_SNDBUF: 64K is 65,536 bytes
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32)]
    send_buffer: Option<u32>,
    /// SO_RCVBUF
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32)]
    receive_buffer: Option<u32>,
    /// TCP_NOTSENT_LOWAT
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32)]
    notsent_lowat: Option<u32>,
    /// Differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Option<u8>,
    /// TCP_MAXSEG, this end only
    #[arg(long, value_name = "BYTES", value_parser = segment)]
    mss: Option<u16>,
}

impl SocketOptions {
    /// As the library takes them.
    pub fn options(&self) -> traffic::SocketOptions {
        traffic::SocketOptions {
            nodelay: self.nodelay,
            cork: self.cork,
            quickack: self.quickack,
            congestion_control: self.congestion.clone(),
            send_buffer_bytes: self.send_buffer,
            receive_buffer_bytes: self.receive_buffer,
            notsent_lowat_bytes: self.notsent_lowat,
            dscp: self.dscp,
            mss_bytes: self.mss,
        }
    }
}

fn on_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" | "1" | "true" => Ok(true),
        "off" | "0" | "false" => Ok(false),
        _ => Err("write on or off"),
    }
}

fn segment(text: &str) -> Result<u16, String> {
    let bytes = parse::bytes(text).map_err(|e| e.to_string())?;
    u16::try_from(bytes).map_err(|_| format!("the most is {} bytes", u16::MAX))
}
