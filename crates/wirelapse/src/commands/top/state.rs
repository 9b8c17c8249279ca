//! What is chosen on the screen of `wirelapse top`, and what each key does to it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use record::histogram::GroupBy;
use summary::SortBy;

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Quit,
    /// To record a run.
    Record,
    /// To show what was changed.
    Redraw,
}

/// What is chosen.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub by: GroupBy,
    pub sort: SortBy,
    /// The row by its number, and by its label where it was chosen: it stays chosen when rows
    /// change places.
    pub selected: usize,
    pub chosen: Option<String>,
    pub filter: String,
    pub typing: bool,
    pub paused: bool,
    /// The label of the row that is open.
    pub opened: Option<String>,
    /// The labels of the rows, as shown last.
    pub labels: Vec<String>,
}

/// Rows that a page key goes.
const PAGE: usize = 10;
/// The longest filter.
const FILTER: usize = 100;

impl State {
    pub fn new(by: GroupBy, sort: SortBy) -> Self {
        Self { by, sort, ..Self::default() }
    }

    /// Takes the labels that are shown now: the chosen row is found again.
    pub fn show(&mut self, labels: Vec<String>) {
        if let Some(at) = self.chosen.as_ref().and_then(|chosen| labels.iter().position(|label| label == chosen)) {
            self.selected = at;
        }
        self.selected = self.selected.min(labels.len().saturating_sub(1));
        self.labels = labels;
    }

    /// What a key does; `None` where it does nothing.
    pub fn key(&mut self, key: KeyEvent) -> Option<Asked> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c')).then_some(Asked::Quit);
        }
        if self.typing {
            return self.typed(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Some(Asked::Quit),
            KeyCode::Esc if self.opened.is_some() => self.opened = None,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc => return Some(Asked::Quit),
            KeyCode::Char('r') => return Some(Asked::Record),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            _ if self.opened.is_some() => return None,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('g') => {
                self.by = self.by.next();
                (self.chosen, self.selected) = (None, 0);
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Enter => self.opened = Some(self.labels.get(self.selected)?.clone()),
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.selected + 1),
            KeyCode::PageUp => self.choose(self.selected.saturating_sub(PAGE)),
            KeyCode::PageDown => self.choose(self.selected + PAGE),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            _ => return None,
        }
        Some(Asked::Redraw)
    }

    fn choose(&mut self, row: usize) {
        self.selected = row.min(self.labels.len().saturating_sub(1));
        self.chosen = self.labels.get(self.selected).cloned();
    }

    /// A key while the filter is written.
    fn typed(&mut self, key: KeyCode) -> Option<Asked> {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.len() < FILTER => self.filter.push(c),
            _ => return None,
        }
        Some(Asked::Redraw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, keys: &str) -> Vec<Option<Asked>> {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        keys.chars().map(|c| state.key(KeyEvent::new(code(c), KeyModifiers::NONE))).collect()
    }

    fn labels(of: &[&str]) -> Vec<String> {
        of.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn the_chosen_row_stays_chosen_when_rows_change_places() {
        let mut state = State::default();
        state.show(labels(&["a", "b", "c"]));
        press(&mut state, "jj");
        state.show(labels(&["c", "x", "a"]));
        assert_eq!((state.selected, state.chosen.as_deref()), (0, Some("c")));
        state.show(labels(&["x"]));
        assert_eq!(state.selected, 0);
        press(&mut state, "\n");
        assert_eq!(state.opened.as_deref(), Some("x"));
        // Keys of the table do nothing in a row that is open.
        assert_eq!(press(&mut state, "sg/j"), [None; 4]);
        assert_eq!(press(&mut state, "\u{1b}\u{1b}"), [Some(Asked::Redraw), Some(Asked::Quit)]);
    }

    #[test]
    fn letters_are_text_while_the_filter_is_written() {
        let mut state = State::default();
        press(&mut state, "/qrsx\u{8}");
        assert_eq!((state.filter.as_str(), state.typing), ("qrs", true));
        press(&mut state, "\n");
        assert_eq!(press(&mut state, "p\u{1b}q"), [Some(Asked::Redraw), Some(Asked::Redraw), Some(Asked::Quit)]);
        assert_eq!((state.filter.as_str(), state.typing, state.paused), ("", false, true));
    }

    #[test]
    fn groups_and_orders_go_round() {
        let mut state = State::default();
        press(&mut state, "gs");
        assert_eq!((state.by, state.sort), (GroupBy::Program, SortBy::P50));
        press(&mut state, "ggggsssss");
        assert_eq!((state.by, state.sort), (GroupBy::Peer, SortBy::Rate));
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(control), Some(Asked::Quit));
    }
}
