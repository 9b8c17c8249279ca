//! What becomes of a path while it runs: changes at given times, from a file.
//!
//! The file is a table of comma-separated values. Its first line names the columns: `time`, and
//! settings of the path ([`SETTINGS`]). Each further line is a moment since the path came up, and
//! what the settings are from then on. An empty cell leaves a setting as it is.

use std::sync::Arc;

use clock::Nanos;

use crate::Error;
use crate::direction::Direction;
use crate::parse;
use crate::settings::{Change, SETTINGS, Setting, set_each};

/// The most steps that a schedule has: what each achieved is kept.
pub const MOST_STEPS: usize = 10_000;

/// One moment of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, since the path came up.
    pub at: Nanos,
    /// What becomes of each direction.
    pub changes: [Change; 2],
}

/// Steps in the order of their times; shared, because both directions follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(Arc<[Step]>);

impl Schedule {
    /// Its steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Reads the text of a file called `file`, for a path that begins as `before` and carries IP
    /// packets of up to `mtu` bytes: each step must give a path that can be.
    ///
    /// # Errors
    /// [`Error::File`] with the line that is wrong.
    pub fn read(file: &str, text: &str, before: [&Direction; 2], mtu: u32) -> Result<Self, Error> {
        let wrong = |line: usize, problem: String| Error::File { file: file.into(), line: line + 1, problem };
        let mut lines = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let Some((number, header)) = lines.next() else {
            return Err(wrong(0, "there is no line: the first names the columns, such as time,delay,rate".into()));
        };
        let columns = columns(header).map_err(|problem| wrong(number, problem))?;
        let mut directions = before.map(Direction::clone);
        let mut steps: Vec<Step> = Vec::new();
        for (number, line) in lines {
            let cells = cells(line);
            if cells.len() != columns.len() {
                let problem = format!("there are {} cells under {} columns", cells.len(), columns.len());
                return Err(wrong(number, problem));
            }
            let mut at = None;
            let mut changes = <[Change; 2]>::default();
            for (column, cell) in columns.iter().zip(&cells) {
                match column {
                    None => {
                        let time = parse::duration(cell).map_err(|e| wrong(number, format!("time {cell:?}: {e}")))?;
                        at = Some(time);
                    }
                    Some(_) if cell.is_empty() => {}
                    Some(setting) => set_each(&mut changes, setting, cell)
                        .map_err(|e| wrong(number, format!("{} {cell:?}: {e}", setting.name)))?,
                }
            }
            let at = at.ok_or_else(|| wrong(number, "there is no time".into()))?;
            if steps.last().is_some_and(|last| last.at >= at) {
                return Err(wrong(
                    number,
                    format!("{at} is not later than the line before: the lines go forward in time"),
                ));
            }
            if steps.len() == MOST_STEPS {
                return Err(wrong(number, format!("there are more than {MOST_STEPS} steps")));
            }
            for (direction, change) in directions.iter_mut().zip(&changes) {
                *direction = change.applied(direction).map_err(|e| wrong(number, e.to_string()))?;
                direction.check(mtu).map_err(|e| wrong(number, e.to_string()))?;
            }
            steps.push(Step { at, changes });
        }
        if steps.is_empty() {
            return Err(wrong(number, "there is no step below the names of the columns".into()));
        }
        Ok(Self(steps.into()))
    }
}

/// What each column is: a setting, or the time.
fn columns(header: &str) -> Result<Vec<Option<&'static Setting>>, String> {
    let names = cells(header);
    let mut columns = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            return Err(format!("the column {name:?} is there twice"));
        }
        if name == "time" {
            columns.push(None);
            continue;
        }
        let setting = Setting::named(name).ok_or_else(|| {
            let known = ["time"].into_iter().chain(SETTINGS.iter().map(|s| s.name));
            let near = quantity::nearest(name, known).unwrap_or("time");
            format!("there is no column {name:?}: did you mean `{near}`?")
        })?;
        columns.push(Some(setting));
    }
    if !columns.iter().any(Option::is_none) {
        return Err("there is no column \"time\"".into());
    }
    Ok(columns)
}

/// The cells of a line (RFC 4180, without line breaks in them).
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(letter);
                }
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Schedule, Error> {
        Schedule::read("steps.csv", text, [&Direction::default(); 2], 1_500)
    }

    #[test]
    fn lines_become_changes_at_their_times() {
        let text = "# a link that gets worse\ntime,delay,rate,burst_loss\n0,10ms,10mbit,\n1.5s,20ms/,,\"1%,25%,100%,0%\"\n2500ms,,none/5mbit,none\n";
        let schedule = read(text).unwrap();
        let times: Vec<Nanos> = schedule.steps().iter().map(|step| step.at).collect();
        assert_eq!(times, [0, 1_500, 2_500].map(Nanos::from_millis));
        assert!(!schedule.steps()[1].changes[1].is_empty(), "bursts are for both");
        let direction = schedule.steps().iter().fold(Direction::default(), |d, s| s.changes[1].applied(&d).unwrap());
        assert_eq!((direction.delay, direction.rate.unwrap().bits()), (Nanos::from_millis(10), 5_000_000));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, word) in [
            ("", 1, "columns"),
            ("time,delay\n", 1, "no step"),
            ("delay\n5ms\n", 1, "time"),
            ("time,dealy\n0,5ms\n", 1, "did you mean `delay`"),
            ("time,delay,delay\n0,1ms,1ms\n", 1, "twice"),
            ("time,delay\n0,5ms\n\n1s,5 parsecs\n", 4, "delay"),
            ("time,delay\n0\n", 2, "cells"),
            ("time,delay\nx,5ms\n", 2, "time"),
            ("time,delay\n1s,5ms\n1s,6ms\n", 3, "forward"),
            ("time,delay\n1,5ms\n", 2, "unit is missing"),
            ("time,jitter\n0,5ms\n", 2, "delay"),
            ("time,queue\n0,5ms\n", 2, "rate"),
        ] {
            let error = read(text).unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with(&format!("steps.csv:{line}: ")) && said.contains(word), "{text:?}: {said}");
            assert!(error.is_wrong_use());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(time|delay|rate|[0-9ms,/\"\n#])*") {
            let _ = read(&text);
            let _ = crate::recorded::Recording::read("x", &text);
        }
    }
}
