//! The prompt: a line editor with history, and completion of the names that a query can say.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::Error;

const KEYWORDS: [&str; 30] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "USING",
    "ON",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "IS NOT NULL",
    "DESC",
    "DISTINCT",
    "UNION ALL",
    "WITH",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "BETWEEN",
    "LIKE",
    "INTERVAL",
    "count(*)",
    "approx_percentile_cont(",
];

struct Names(Vec<String>);

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..at]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\\'))
            .map_or(0, |before| before + line[before..].chars().next().map_or(1, char::len_utf8));
        let word = line[start..at].to_lowercase();
        if word.is_empty() {
            return Ok((at, Vec::new()));
        }
        let fits = |name: &&String| name.to_lowercase().starts_with(&word);
        Ok((start, self.0.iter().filter(fits).cloned().collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {
    /// A query goes on until its semicolon; a command is one line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let whole = text.is_empty() || text.starts_with('\\') || text.ends_with(';') || matches!(text, "quit" | "exit");
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Helper for Names {}

/// A line editor.
pub struct Prompt {
    editor: Editor<Names, DefaultHistory>,
    history: Option<PathBuf>,
}

/// What was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A query, without its semicolon.
    Query(String),
    /// `\list`.
    List,
    /// `\schema`, with the table that was named.
    Schema(Option<String>),
    /// `\help`.
    Help,
    /// Nothing.
    Nothing,
    /// The end.
    End,
}

impl Entered {
    /// What a line says.
    pub fn of(line: &str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let name = Some(rest.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
        match word {
            "" | ";" => Self::Nothing,
            "\\q" | "\\quit" | "quit" | "exit" | "quit;" | "exit;" => Self::End,
            "\\list" | "\\l" => Self::List,
            "\\schema" | "\\d" => Self::Schema(name),
            _ if word.starts_with('\\') => Self::Help,
            _ => Self::Query(line.trim_end_matches(';').to_owned()),
        }
    }
}

impl Prompt {
    /// An editor that completes these names. Its history is kept in the user's state directory.
    ///
    /// # Errors
    /// A terminal that cannot be used.
    pub fn new(names: Vec<String>) -> Result<Self, Error> {
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
        let mut editor = Editor::with_config(config).map_err(terminal)?;
        let words = names
            .into_iter()
            .chain(KEYWORDS.map(str::to_owned))
            .chain(["\\list", "\\schema", "\\quit"].map(str::to_owned));
        editor.set_helper(Some(Names(words.collect())));
        let history = history();
        if let Some(file) = &history {
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    /// The next thing that is entered.
    ///
    /// # Errors
    /// A terminal that cannot be used.
    pub fn entered(&mut self) -> Result<Entered, Error> {
        match self.editor.readline("query> ") {
            Ok(line) => {
                if let Some(file) = &self.history {
                    let _ = self.editor.save_history(file);
                }
                Ok(Entered::of(&line))
            }
            Err(ReadlineError::Interrupted) => Ok(Entered::Nothing),
            Err(ReadlineError::Eof) => Ok(Entered::End),
            Err(error) => Err(terminal(error)),
        }
    }
}

fn terminal(error: ReadlineError) -> Error {
    Error::Io(match error {
        ReadlineError::Io(error) => error,
        other => std::io::Error::other(other),
    })
}

/// `$XDG_STATE_HOME/wirelapse`, or what stands for it.
pub fn state() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?.join("wirelapse"))
}

/// The file in it that past queries are kept in; the directory is made.
fn history() -> Option<PathBuf> {
    let directory = state()?;
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("query-history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_query_or_a_command() {
        assert_eq!(Entered::of("SELECT 1;"), Entered::Query("SELECT 1".into()));
        assert_eq!(Entered::of("\\schema sends"), Entered::Schema(Some("sends".into())));
        assert_eq!(Entered::of("exit"), Entered::End);
        assert_eq!(Entered::of("\\x"), Entered::Help);
    }

    #[test]
    fn names_are_completed_from_the_word_before_the_cursor() {
        let names = Names(vec!["sends".into(), "SELECT".into(), "total_ns".into()]);
        let history = DefaultHistory::new();
        let found = names.complete("SELECT tot", 10, &Context::new(&history)).unwrap();
        assert_eq!(found, (7, vec!["total_ns".to_owned()]));
        assert_eq!(names.complete("se", 2, &Context::new(&history)).unwrap().1.len(), 2);
    }
}
