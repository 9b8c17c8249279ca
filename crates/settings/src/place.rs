//! Where in a file something is, and what is wrong there.

use std::fmt;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The file's name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there, and what to write instead.
    pub problem: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.problem)
    }
}

impl std::error::Error for Wrong {}

/// A place in a file.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    file: &'a str,
    text: &'a str,
    byte: usize,
}

impl<'a> At<'a> {
    pub(crate) const fn new(file: &'a str, text: &'a str, byte: usize) -> Self {
        Self { file, text, byte }
    }

    /// Another place in the same file.
    pub(crate) const fn moved(self, byte: usize) -> Self {
        Self { byte, ..self }
    }

    /// The name of the file.
    pub const fn file(self) -> &'a str {
        self.file
    }

    /// The error that `problem` is here.
    pub fn wrong(self, problem: impl Into<String>) -> Wrong {
        let before = self.text.get(..self.byte).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Wrong { file: self.file.into(), line, column, problem: problem.into() }
    }
}
