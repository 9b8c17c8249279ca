//! A program that a test started, ended with the test.

use std::io::{BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, ChildStdout, Command, Output};

/// A started program. It is killed and waited for when the value is dropped, so a failed test
/// leaves nothing behind.
#[derive(Debug)]
pub struct Process(Option<Child>);

impl Process {
    /// Starts `command`.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"))))
    }

    /// Its first line, and what follows on its standard output, which must be a pipe.
    ///
    /// # Panics
    /// Where standard output is no pipe, was taken before, or is not UTF-8.
    pub fn first_line(&mut self) -> (String, BufReader<ChildStdout>) {
        let mut output = BufReader::new(self.stdout.take().expect("standard output is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line of UTF-8");
        (line, output)
    }

    /// Waits for it: exit status, and what is left of each output that is a pipe.
    ///
    /// # Panics
    /// Where an output cannot be read.
    pub fn output(mut self) -> Output {
        self.0.take().expect("it has not been waited for").wait_with_output().expect("its output can be read")
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it has not been waited for")
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it has not been waited for")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // A program that has been waited for is not signalled again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_program_ends_with_its_value() {
        let mut sleeping =
            Process::start(crate::command("sh").args(["-c", "echo up; exec sleep 60"]).stdout(Stdio::piped()));
        assert_eq!(sleeping.first_line().0, "up\n");
        let its = format!("/proc/{}", sleeping.id());
        assert!(std::path::Path::new(&its).exists());
        drop(sleeping);
        assert!(!std::path::Path::new(&its).exists());
        let done = Process::start(crate::command("echo").arg("done").stdout(Stdio::piped())).output();
        assert_eq!((done.status.code(), crate::text(&done.stdout).as_str()), (Some(0), "done\n"));
    }
}
