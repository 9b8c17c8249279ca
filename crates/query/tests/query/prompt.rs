//! The prompt as people use it, on a terminal.

use crate::fleet;
use crate::program;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tier::Need;

/// Rows of a host times rows of the host: more than anybody waits for.
const ENDLESS: &str = "SELECT count(*) AS n FROM sends a JOIN sends b ON a.host = b.host WHERE a.bytes + b.bytes <> 1";
/// What is waited for comes within seconds; a machine under load may take longer.
const AT_MOST: Duration = Duration::from_secs(120);

fn runs(root: &Path) -> PathBuf {
    fleet::run(root, 0, 0, fleet::Size { hosts: 1, hours: 1, sends: 20_000, connections: 4 });
    root.to_owned()
}

/// The program on a terminal, by `script` of util-linux.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn start(runs: &Path, state: &Path) -> Self {
        let program = program::command();
        // Without a shell in between, which Ctrl-C would end as well.
        let line = format!("exec '{}' --runs '{}'", program.get_program().display(), runs.display());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("XDG_STATE_HOME", state).env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let shared = shown.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self { child, keys, shown }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until this is shown after what was waited for before.
    #[track_caller]
    fn until(&mut self, text: &str) {
        let end = Instant::now() + AT_MOST;
        loop {
            // Held until what was found is cut off: what comes in between would be lost.
            let mut held = self.shown.lock().unwrap();
            let shown = String::from_utf8_lossy(&held).into_owned();
            if let Some(at) = shown.find(text) {
                *held = shown.as_bytes()[at + text.len()..].to_vec();
                return;
            }
            drop(held);
            assert!(Instant::now() < end, "no {text:?} in {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_prompt_completes_names_survives_an_interrupt_and_keeps_its_history() {
    tier::needs!(Need::Program("script"));
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = runs(dir.path());
    let mut terminal = Terminal::start(&runs, state.path());
    terminal.until("query> ");
    // As far as the names that begin so agree.
    terminal.press("SELECT count(*) AS n, max(first_s\t");
    terminal.until("first_se");
    terminal.press("q) AS longest FROM sends;\r");
    terminal.until("longest");
    terminal.until("20000");
    terminal.until("query> ");
    // A query goes on until its semicolon.
    terminal.press("SELECT 40 + 1\r+ 1 AS answer;\r");
    terminal.until(" 42");
    terminal.until("query> ");
    terminal.press(&format!("{ENDLESS};\r"));
    terminal.until("working on the query: read ");
    terminal.until(" of 2 parts, ");
    terminal.press("\u{3}");
    terminal.until("cancelled");
    terminal.until("query> ");
    terminal.press("SELECT totl_ns FROM sends;\r");
    terminal.until("is it total_ns?");
    terminal.until("query> ");
    terminal.press("SELECT 70 + 7 AS again;\r");
    terminal.until(" 77");
    terminal.until("query> ");
    terminal.press("\\quit\r");
    assert!(terminal.child.wait().unwrap().success());
    // Another day, the line before the last one is there.
    let mut terminal = Terminal::start(&runs, state.path());
    terminal.until("query> ");
    terminal.press("\u{1b}[A\u{1b}[A");
    terminal.until("AS again;");
    terminal.press("\r");
    terminal.until(" 77");
    terminal.until("query> ");
    terminal.press("\u{4}");
    assert!(terminal.child.wait().unwrap().success());
}
