//! Other commands of this program that run beside the screen: one with a row, and the flight
//! recorder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use machine::programs;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::advisor::{Advisor, BUDGET};
use super::aim::{self, Criterion};
use super::recording::Action;

/// How long a recording takes, and packets are written.
const LENGTH: &str = "10s";
/// How long a row is traced.
const LOOK: &str = "5s";
/// What the flight recorder keeps.
const KEPT: &str = "30s";
/// Of what a command says so much is shown.
const MOST_SAID: u64 = 1 << 18;
/// Ticks for which a message stays.
const STAYS: u32 = 50;

/// What is to be shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Said {
    pub message: String,
    /// Whether the flight recorder is at work.
    pub flight: bool,
    /// What a command said that has ended, and the name of the row that it was asked for.
    pub answer: Option<(String, Vec<String>)>,
}

/// What a command is for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Run,
    Report,
    Packets,
    PacketsForAdvice,
    Advice,
}

/// A command that runs.
struct Job {
    purpose: Purpose,
    running: Running,
    /// The run or the file that it writes, or reads.
    path: PathBuf,
}

/// Who has started it.
enum Running {
    Child(Child, JoinHandle<String>),
    /// [`Jobs::advisor`].
    Advisor,
}

/// A flight recorder that runs.
struct Flight {
    child: Child,
    run: PathBuf,
    /// Whether it has begun to keep anything.
    keeps: Arc<AtomicBool>,
    /// Whether it was asked to write what it has.
    asked: bool,
}

/// Those that run, and what is to be said of them.
pub struct Jobs {
    /// The options that name the connections of the screen.
    of_screen: Vec<OsString>,
    advisor: Option<Advisor>,
    job: Option<Job>,
    flight: Option<Flight>,
    message: String,
    /// The name of the row that the job is for.
    row: String,
    answer: Option<(String, Vec<String>)>,
    /// Ticks for which the message still stays.
    left: u32,
}

impl Jobs {
    pub fn new(of_screen: Vec<OsString>) -> Self {
        Self {
            of_screen,
            advisor: None,
            job: None,
            flight: None,
            message: String::new(),
            row: String::new(),
            answer: None,
            left: 0,
        }
    }

    /// Has advice given by this process.
    pub fn advised_by(&mut self, advisor: Advisor) {
        self.advisor = Some(advisor);
    }

    pub fn said(&mut self) -> Said {
        Said { message: self.message.clone(), flight: self.flight.is_some(), answer: self.answer.take() }
    }

    pub fn say(&mut self, text: String) {
        self.message = text;
        self.left = STAYS;
    }

    /// Begins something with the row of this name, where nothing else goes on but the flight
    /// recorder.
    pub fn start(&mut self, action: Action, row: String, of_row: &[Criterion]) {
        if action == Action::Flight {
            return self.fly();
        }
        if self.job.is_some() {
            return;
        }
        self.row = row;
        let target = aim::options(&self.of_screen, if action == Action::Record { &[] } else { of_row });
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        let (purpose, path, mut more, says) = match action {
            Action::Trace => {
                let more = words(&["--for", LOOK, "--requests", "--no-live"]);
                (Purpose::Report, PathBuf::new(), more, format!("tracing the row for {LOOK}"))
            }
            Action::Packets | Action::Advise => {
                let purpose = if action == Action::Packets { Purpose::Packets } else { Purpose::PacketsForAdvice };
                let file = unused("pcapng");
                let says = format!("writing the packets of {LENGTH} to {}", file.display());
                (purpose, file, words(&["--for", LENGTH, "--packets", "-w"]), says)
            }
            Action::Record | Action::Flight => {
                let run = unused("");
                let says = format!("recording {LENGTH} to {}", run.display());
                (Purpose::Run, run, words(&["--for", LENGTH, "-o"]), says)
            }
        };
        more.extend(Some(path.clone().into_os_string()).filter(|path| !path.is_empty()));
        self.run(purpose, path, &[words(&["trace"]), target, more].concat(), says);
    }

    fn run(&mut self, purpose: Purpose, path: PathBuf, arguments: &[OsString], says: String) {
        match spawn(arguments) {
            Ok(mut child) => {
                let heard = [child.stdout.take().map(hear), child.stderr.take().map(hear)];
                let together = move || heard.into_iter().flatten().map(|one| one.join().unwrap_or_default()).collect();
                self.job = Some(Job { purpose, running: Running::Child(child, std::thread::spawn(together)), path });
                self.say(says);
            }
            Err(error) => self.say(format!("cannot start it: {error}")),
        }
    }

    /// Begins the flight recorder, or has it write what it has.
    fn fly(&mut self) {
        if let Some(flight) = &mut self.flight {
            // Before it takes signals one would end it.
            let text = match (flight.keeps.load(Ordering::Relaxed), flight.asked) {
                (false, _) => "the flight recorder is still starting".to_owned(),
                (true, true) => return,
                (true, false) => {
                    programs::signal(&flight.child, Signal::USR1);
                    flight.asked = true;
                    format!("the last {KEPT} and what follows in {KEPT} go to {}", flight.run.display())
                }
            };
            return self.say(text);
        }
        let run = unused("");
        let mut arguments: Vec<OsString> = vec!["trace".into()];
        arguments.extend(aim::options(&self.of_screen, &[]));
        arguments.extend(["--until", "signal", "--keep", KEPT, "-o"].map(OsString::from));
        arguments.push(run.clone().into());
        match spawn(&arguments) {
            Ok(mut child) => {
                drop(child.stdout.take().map(hear));
                let keeps = Arc::new(AtomicBool::new(false));
                if let Some(says) = child.stderr.take() {
                    let keeps = Arc::clone(&keeps);
                    hear(FirstByte { from: says, came: keeps });
                }
                self.flight = Some(Flight { child, run, keeps, asked: false });
                self.say(format!("the flight recorder starts: x writes the last {KEPT}"));
            }
            Err(error) => self.say(format!("cannot start it: {error}")),
        }
    }

    pub fn tick(&mut self) {
        if let Some(flight) = &mut self.flight
            && let Ok(Some(status)) = flight.child.try_wait()
        {
            let run = flight.run.display().to_string();
            self.flight = None;
            self.say(if status.success() {
                format!("recorded {run}: wirelapse report {run}")
            } else {
                "the flight recorder has ended: run wirelapse trace --until signal for the reason".to_owned()
            });
        }
        if let Some(job) = self.job.take() {
            let (well, says) = match job.running {
                Running::Child(mut child, says) => match child.try_wait() {
                    Ok(Some(status)) => (status.success(), says.join().unwrap_or_default()),
                    _ => {
                        self.job = Some(Job { running: Running::Child(child, says), ..job });
                        return;
                    }
                },
                Running::Advisor => match self.advisor.as_ref().map(Advisor::poll) {
                    Some(Ok(Some(ended))) => ended,
                    Some(Ok(None)) => {
                        self.job = Some(job);
                        return;
                    }
                    Some(Err(error)) => (false, error.to_string()),
                    None => (false, String::new()),
                },
            };
            self.over(job.purpose, job.path, well, &says);
            return;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.message.clear();
        }
    }

    /// A command has ended, and said this.
    fn over(&mut self, purpose: Purpose, path: PathBuf, well: bool, says: &str) {
        let shown = path.display().to_string();
        let mut lines: Vec<String> = says.lines().map(str::to_owned).collect();
        let message = match purpose {
            Purpose::Run if well => format!("recorded {shown}: wirelapse report {shown}"),
            Purpose::Run => format!("the recording to {shown} failed: run wirelapse trace for the reason"),
            Purpose::Packets if well => {
                let opens = has_display() && programs::find("wireshark").is_some_and(|program| show(&program, &path));
                let then = if opens { "Wireshark opens it" } else { "Wireshark and wirelapse analyze read it" };
                format!("wrote {shown}: {then}")
            }
            Purpose::PacketsForAdvice if well => {
                let started = self.advisor.as_ref().map(|advisor| advisor.start(&path));
                match started {
                    Some(Ok(())) => {
                        self.job = Some(Job { purpose: Purpose::Advice, running: Running::Advisor, path });
                        return self.say(format!("trying settings, at most {BUDGET}: {shown}"));
                    }
                    Some(Err(error)) => lines.push(error.to_string()),
                    None => {}
                }
                lines.push(format!("Run: sudo wirelapse advise {shown}"));
                self.answer = Some((self.row.clone(), lines));
                return self.say("no advice: what to do is above".to_owned());
            }
            Purpose::Packets | Purpose::PacketsForAdvice => "no packets were written: the reason is above".to_owned(),
            Purpose::Report if well => "traced: the report is above".to_owned(),
            Purpose::Report => "the trace failed: the reason is above".to_owned(),
            Purpose::Advice if well => "the advice is above".to_owned(),
            Purpose::Advice => {
                lines.push(format!("To try it again: sudo wirelapse advise {shown}"));
                "no advice: what to do is above".to_owned()
            }
        };
        let is_shown = matches!(purpose, Purpose::Report | Purpose::Advice) || !well && purpose != Purpose::Run;
        self.answer = is_shown.then(|| (self.row.clone(), lines));
        self.say(message);
    }

    /// Ends what runs; what was recorded until then stays.
    pub fn end(&mut self) {
        let job = match self.job.take().map(|job| job.running) {
            Some(Running::Child(child, _)) => Some(child),
            Some(Running::Advisor) => {
                self.advisor.iter().for_each(Advisor::end);
                None
            }
            None => None,
        };
        let flight = self.flight.take().map(|flight| flight.child);
        for mut child in job.into_iter().chain(flight) {
            interrupt(&child);
            let _ = child.wait();
        }
    }
}

fn spawn(arguments: &[OsString]) -> std::io::Result<Child> {
    let mut command = programs::command(&std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Notes when the first byte comes: a command says on standard error that it has begun.
struct FirstByte<R> {
    from: R,
    came: Arc<AtomicBool>,
}

impl<R: std::io::Read> std::io::Read for FirstByte<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(into)?;
        self.came.fetch_or(read > 0, Ordering::Relaxed);
        Ok(read)
    }
}

/// Hears what a command says.
pub fn hear(from: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    programs::hear(from, MOST_SAID)
}

/// Has a command end what it does.
pub fn interrupt(child: &Child) {
    programs::signal(child, Signal::INT);
}

/// A name in this folder that nothing has yet.
fn unused(extension: &str) -> PathBuf {
    let name = |n: u32| PathBuf::from(format!("wirelapse-top-{}-{n}", std::process::id())).with_extension(extension);
    (1..).map(name).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(0))
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens a file with a program, which is left to itself.
fn show(program: &std::path::Path, file: &std::path::Path) -> bool {
    let mut command = programs::command(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_of_the_row_that_was_asked_for_whatever_else_is_said() {
        let mut jobs = Jobs::new(Vec::new());
        jobs.row = "10.0.0.1:443".into();
        jobs.say("the flight recorder is still starting".into());
        jobs.over(Purpose::Advice, PathBuf::from("a.pcapng"), false, "no rights");
        let said = jobs.said();
        let (row, lines) = said.answer.expect("an answer");
        assert_eq!((row.as_str(), lines[0].as_str()), ("10.0.0.1:443", "no rights"));
        assert!(lines[1].contains("sudo wirelapse advise a.pcapng"), "{lines:?}");
        assert!(jobs.said().answer.is_none());
    }
}
