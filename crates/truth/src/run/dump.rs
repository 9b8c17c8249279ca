//! tcpdump in a host of the lab.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use lab::{Lab, Side};
use tier::Process;

use crate::packet::{self, Packet};

/// How long after the last packet it is ended: what the kernel has kept is written by then.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) struct Dump {
    child: Process,
    said: BufReader<std::process::ChildStderr>,
    file: tempfile::NamedTempFile,
}

impl Dump {
    /// Starts it, and returns when it captures.
    pub(super) fn start(lab: &Lab, side: Side) -> Self {
        let file = tempfile::Builder::new().suffix(".pcap").tempfile().expect("a temporary file");
        let mut command = tier::limit(lab.host(side).command("tcpdump").expect("a host takes commands"));
        command.args(["-Z", "root", "-U", "--immediate-mode", "-s", "128", "-B", "16384", "-i", lab::INTERFACE]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(file.path()).arg("tcp");
        let mut child = Process::start(command.stderr(Stdio::piped()));
        let mut said = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(said.read_line(&mut line).expect("text") > 0, "tcpdump did not begin to capture");
        }
        Self { child, said, file }
    }

    /// Ends it; its packets, or how many are missing.
    pub(super) fn finish(mut self) -> Result<Vec<Packet>, String> {
        thread::sleep(SETTLE);
        // The supervisor between hands the signal on.
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let mut text = String::new();
        self.said.read_to_string(&mut text).map_err(|e| e.to_string())?;
        self.child.wait().map_err(|e| e.to_string())?;
        // Such as `12 packets captured`, `12 packets received by filter`, `0 packets dropped by
        // kernel`.
        let words: Vec<&str> = text.split_whitespace().collect();
        let count = |what: &str| {
            let found = words.windows(3).find(|w| w[1].starts_with("packet") && w[2] == what);
            found.and_then(|w| w[0].parse::<u64>().ok()).ok_or_else(|| format!("no count of packets {what}: {text}"))
        };
        let (captured, received, dropped) = (count("captured")?, count("received")?, count("dropped")?);
        if captured < received || dropped > 0 {
            return Err(format!("the capture misses {} packets", received - captured.min(received) + dropped));
        }
        Ok(packet::read(&std::fs::read(self.file.path()).map_err(|e| e.to_string())?))
    }
}
