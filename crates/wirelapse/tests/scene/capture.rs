//! A capture of a host's traffic, by another program.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use lab::{Lab, Side};
use wire::{Capture, Packet, Reassembly, Segment, dissect};

/// tcpdump at work in host `a`.
pub struct Dump {
    child: Child,
    file: tempfile::NamedTempFile,
}

impl Dump {
    /// Begins to capture, and returns when it does.
    pub fn start(lab: &Lab) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut command = lab.host(Side::A).command("tcpdump").unwrap();
        command.args(["-i", "eth0", "-n", "-U", "-s", "128", "--immediate-mode", "-Z", "root"]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(file.path()).arg("tcp");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let listening = lines.by_ref().find(|line| line.contains("listening on"));
        assert!(listening.is_some(), "tcpdump did not begin to capture");
        // What it says at its end is not of interest, but must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, file }
    }

    /// Ends it and gives the segments that went from `from`, in order.
    pub fn finish(mut self, from: SocketAddr) -> Vec<Segment> {
        // The supervisor between hands the signal on.
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let status = self.child.wait().unwrap();
        assert!(status.success(), "tcpdump: {status}");
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
