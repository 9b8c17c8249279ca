//! What Rust's test harness prints, read line by line.

use std::time::Duration;

/// What one test program came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Crate and target, or what cargo says of examples in documentation.
    pub program: String,
    /// Tests that passed. One that could not run returns early, and is among them.
    pub passed: usize,
    /// Names of those that failed.
    pub failed: Vec<String>,
    /// As long as the harness says that it took, or `None` before it says so: it died in the
    /// middle.
    pub took: Option<Duration>,
}

impl Results {
    /// Of a program that has not said anything yet.
    pub fn new(program: &str) -> Self {
        Self { program: program.to_owned(), ..Self::default() }
    }

    /// Takes one line of the program's output.
    pub fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let number =
                |what| rest.split("; ").find_map(|part| part.strip_suffix(what)?.rsplit(' ').next()?.parse().ok());
            self.passed += number(" passed").unwrap_or(0);
            let seconds = rest.rsplit(' ').next().and_then(|word| word.strip_suffix('s')?.parse().ok());
            self.took = Some(Duration::from_secs_f64(seconds.unwrap_or(0.0)));
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failed.push(name.to_owned());
        }
    }

    /// Whether it died in the middle, or failed otherwise than by a test.
    pub fn died(&self, succeeded: bool) -> bool {
        self.took.is_none() || (!succeeded && self.failed.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Results {
        let mut results = Results::new("wire/wire");
        text.lines().for_each(|line| results.line(line));
        results
    }

    #[test]
    fn the_harness_is_read() {
        let text = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored, by hand\n\nfailures:\n\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 3.25s\n";
        let results = read(text);
        assert_eq!((results.passed, results.failed.as_slice()), (1, &["c".to_owned()][..]));
        assert_eq!(results.took, Some(Duration::from_millis(3_250)));
        assert!(!results.died(false));
    }

    #[test]
    fn a_program_that_dies_has_no_result() {
        assert!(read("running 2 tests\ntest a ... ok\n").died(true));
        assert!(read("test result: ok. 1 passed; 0 failed; finished in 0.00s").died(false));
        assert!(!read("test result: ok. 1 passed; 0 failed; finished in 0.00s").died(true));
    }
}
