//! A capture of a host's traffic, by another program.

use std::net::SocketAddr;

use lab::{Lab, Side};
use wire::{Capture, Packet, Reassembly, Segment, dissect};

use super::tcpdump::Tcpdump;

/// tcpdump at work in host `a`.
pub struct Dump {
    tcpdump: Tcpdump,
    file: tempfile::NamedTempFile,
}

impl Dump {
    /// Begins to capture, and returns when it does.
    pub fn start(lab: &Lab) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = tier::limit(lab.host(Side::A).command("tcpdump").unwrap());
        command.args(["-i", "eth0", "-n", "-U", "-s", "128", "-B", "8192", "--immediate-mode", "-Z", "root"]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(file.path()).arg("tcp");
        Self { tcpdump: Tcpdump::start(command), file }
    }

    /// Ends it once it has written all, and gives the segments that went from `from`, in order.
    pub fn finish(self, from: SocketAddr) -> Vec<Segment> {
        self.tcpdump.finish();
        let bytes = std::fs::read(self.file.path()).unwrap();
        let mut capture = Capture::from_bytes(&bytes).unwrap();
        let (mut reassembly, mut segments) = (Reassembly::new(), Vec::new());
        while let Some(frame) = capture.next_frame().unwrap() {
            if let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut reassembly)
                && segment.source == from
                && segment.payload > 0
            {
                segments.push(segment);
            }
        }
        segments
    }
}
