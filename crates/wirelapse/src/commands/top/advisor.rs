//! The process that starts `wirelapse advise` for the key `a`. Advice builds a lab, which takes
//! rights that nothing else of `top` needs: this process has them all, and only starts that one
//! command with the file of packets that `top` itself has written.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use machine::keeper::{Error, Keeper};
use machine::programs;
use serde::{Deserialize, Serialize};

use super::jobs::{hear, interrupt};

/// How long advice may take.
pub const BUDGET: &str = "2m";

/// What is asked of it.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// To give advice on the packets in this file.
    Start(PathBuf),
    /// Whether the advice is there.
    Poll,
    /// To end what goes on.
    End,
}

/// The reply to it.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Goes,
    /// It has ended, well or not, and said this.
    Ended(bool, String),
}

/// That process, as it is asked.
pub struct Advisor(Keeper<Request, Reply>);

impl Advisor {
    /// Forks it. To be called while this process has one thread and all of its rights.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn fork() -> Result<Self, Error> {
        let mut runs: Option<(Child, [Option<JoinHandle<String>>; 2])> = None;
        let serve = move |request| match request {
            Request::Start(file) if runs.is_none() => {
                let mut child = spawn(&file)?;
                let heard = [child.stdout.take().map(hear), child.stderr.take().map(hear)];
                runs = Some((child, heard));
                Ok(Reply::Goes)
            }
            Request::Start(_) => Err(io::Error::other("there is advice to come")),
            Request::Poll => {
                let Some((child, _)) = &mut runs else { return Ok(Reply::Ended(false, String::new())) };
                let Some(status) = child.try_wait()? else { return Ok(Reply::Goes) };
                let heard = runs.take().map(|(_, heard)| heard).into_iter().flatten().flatten();
                Ok(Reply::Ended(status.success(), heard.map(|one| one.join().unwrap_or_default()).collect()))
            }
            Request::End => {
                if let Some((mut child, _)) = runs.take() {
                    interrupt(&child);
                    child.wait()?;
                }
                Ok(Reply::Goes)
            }
        };
        Keeper::fork(c"advisor", &[], || Ok(()), serve).map(Self)
    }

    /// Has advice given on the packets in this file.
    ///
    /// # Errors
    /// Where the command cannot be started, or the process is gone.
    pub fn start(&self, file: &Path) -> Result<(), Error> {
        self.0.ask(&Request::Start(file.to_owned())).map(drop)
    }

    /// Whether it ended well and what it said, once it has.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn poll(&self) -> Result<Option<(bool, String)>, Error> {
        Ok(match self.0.ask(&Request::Poll)? {
            Reply::Goes => None,
            Reply::Ended(well, says) => Some((well, says)),
        })
    }

    /// Ends what goes on.
    pub fn end(&self) {
        let _ = self.0.ask(&Request::End);
    }
}

/// Whether this is the name of a file that `top` writes packets to: in its folder, and an option of
/// no command.
fn is_own(file: &Path) -> bool {
    let name = file.to_str().unwrap_or_default();
    let middle = name.strip_prefix("wirelapse-top-").and_then(|rest| rest.strip_suffix(".pcapng"));
    middle.is_some_and(|middle| middle.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

fn spawn(file: &Path) -> io::Result<Child> {
    if !is_own(file) {
        return Err(io::Error::other("that is no file of packets that top has written"));
    }
    let mut command = programs::command(&std::env::current_exe()?);
    command.arg("advise").arg(file).args(["--budget", BUDGET]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_on_files_of_top_alone() {
        assert!(is_own(Path::new("wirelapse-top-123-4.pcapng")));
        for other in ["/etc/wirelapse-top-1-1.pcapng", "wirelapse-top-/../x.pcapng", "--pid=1", "wirelapse-top-1-1", ""]
        {
            assert!(!is_own(Path::new(other)), "{other}");
            assert!(spawn(Path::new(other)).is_err());
        }
    }
}
