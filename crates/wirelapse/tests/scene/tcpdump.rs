//! tcpdump as a child in a host of a lab.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tier::Process;

pub struct Tcpdump {
    child: Process,
    said: Receiver<String>,
}

impl Tcpdump {
    /// Starts a command of [`lab::Host::command`], and returns when it captures.
    pub fn start(mut command: Command) -> Self {
        let mut child = Process::from(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening on")), "tcpdump did not begin to capture");
        let (tell, said) = channel();
        std::thread::spawn(move || lines.for_each(|line| _ = tell.send(line)));
        Self { child, said }
    }

    /// Its counts of packets captured, received by the filter, and dropped by the kernel, from what
    /// it says next: one line when a signal asks for them, three at its end.
    fn counts(&self) -> [u64; 3] {
        let mut text = String::new();
        while !text.contains("dropped by kernel") {
            text += &self.said.recv_timeout(Duration::from_secs(30)).expect("tcpdump says its counts");
            text.push(' ');
        }
        // Such as `1 packet captured, 2 packets received by filter`.
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        ["captured", "received", "dropped"].map(|what| {
            let found = words.windows(3).find(|w| w[1].starts_with("packet") && w[2] == what);
            found.and_then(|w| w[0].parse().ok()).unwrap_or_else(|| panic!("no count of packets {what}: {text}"))
        })
    }

    /// Ends it once nothing more comes and it has written all that came, and asserts that no packet
    /// is missing.
    pub fn finish(mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        let mut before = [0; 3];
        loop {
            std::thread::sleep(Duration::from_millis(150));
            let program = lab::program_pid(&self.child).expect("tcpdump runs");
            // SAFETY: a signal to a child's child, which lives as long as the child has not been
            // told to end.
            unsafe { libc::kill(program.cast_signed(), libc::SIGUSR1) };
            let counts = self.counts();
            if counts == before && counts[0] == counts[1] || Instant::now() > until {
                break;
            }
            before = counts;
        }
        // The supervisor between hands the signal on.
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        assert!(self.child.wait().unwrap().success());
        let [captured, received, dropped] = self.counts();
        assert_eq!((captured, dropped), (received, 0), "tcpdump lost packets");
    }
}
