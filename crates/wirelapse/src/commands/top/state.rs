//! What is chosen on the screen of `wirelapse top`, and what each key does to it.

use std::collections::{BTreeSet, HashMap};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use record::histogram::GroupBy;
use report::live::{Column, Columns, Placed, Pointed};
use summary::live::{Filter, FilterError, Order};
use summary::{Group, SortBy};

use super::recording::Action;

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Quit,
    /// To do something with the chosen row.
    Act(Action),
    /// To copy the chosen row.
    Copy,
    /// To show another part of a run: so many steps forward, or back.
    Seek(i32),
    /// To show a run faster by so many powers of two, or slower.
    Faster(i32),
    /// To keep the columns for the next time.
    Keep,
    /// To show what was changed.
    Redraw,
}

/// A filter as it is written, and the last state of it that was one.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    pub text: String,
    pub accepted: Filter,
    /// What is wrong with the text; empty where nothing is.
    pub wrong: String,
}

impl Typed {
    /// # Errors
    /// Where the text is no filter.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.to_owned(), accepted: text.parse()?, wrong: String::new() })
    }

    fn read(&mut self) {
        match self.text.parse() {
            Ok(filter) => {
                self.accepted = filter;
                self.wrong.clear();
            }
            Err(error) => self.wrong = FilterError::to_string(&error),
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is chosen.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub by: GroupBy,
    pub sort: SortBy,
    /// The averages that rows are sorted by.
    pub order: Order,
    /// The groups that are unfolded, by their labels.
    pub unfolded: BTreeSet<String>,
    /// The row by its number, and by its name where it was chosen: it stays chosen when rows change
    /// places.
    pub selected: usize,
    pub chosen: Option<String>,
    /// Whether the order is turned round.
    pub reversed: bool,
    pub filter: Typed,
    pub typing: bool,
    pub paused: bool,
    /// The names in the order in which rows stay.
    pub frozen: Option<Vec<String>>,
    /// Whether the help is shown.
    pub help: bool,
    pub columns: Columns,
    /// The column that is chosen in the list of them, while that is shown.
    pub choosing: Option<usize>,
    /// The name of the row that is open.
    pub opened: Option<String>,
    /// Lines of it that are above the screen.
    pub scrolled: usize,
    /// Where they are on the screen.
    pub placed: Placed,
    /// The names of the rows ([`Group::id`]), as shown last.
    pub ids: Vec<String>,
}

/// Rows that a page key goes.
const PAGE: usize = 10;
/// Rows that one step of the wheel goes.
const WHEEL: usize = 3;
/// The longest filter.
const FILTER: usize = 200;

impl State {
    pub fn new(by: GroupBy, sort: SortBy, filter: Typed) -> Self {
        Self { by, sort, filter, ..Self::default() }
    }

    /// Puts rows in order. While that is frozen, new ones come last.
    pub fn sort(&self, rows: &mut [Group]) {
        self.order.sort(self.sort, rows);
        if self.reversed {
            rows.reverse();
        }
        if let Some(frozen) = &self.frozen {
            let places: HashMap<&str, usize> = frozen.iter().map(String::as_str).zip(0..).collect();
            rows.sort_by_key(|row| places.get(row.id().as_str()).copied().unwrap_or(usize::MAX));
        }
    }

    /// Takes the names of the rows that are shown now: the chosen row is found again.
    pub fn show(&mut self, ids: Vec<String>) {
        if let Some(at) = self.chosen.as_ref().and_then(|chosen| ids.iter().position(|id| id == chosen)) {
            self.selected = at;
        }
        self.selected = self.selected.min(ids.len().saturating_sub(1));
        self.ids = ids;
    }

    /// What a key does; `None` where it does nothing.
    pub fn key(&mut self, key: KeyEvent) -> Option<Asked> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c')).then_some(Asked::Quit);
        }
        if self.typing {
            return self.typed(key.code);
        }
        if self.help {
            self.help = false;
            return Some(Asked::Redraw);
        }
        if let Some(at) = self.choosing {
            return self.choose_columns(key.code, at);
        }
        match key.code {
            KeyCode::Char('q') => return Some(Asked::Quit),
            KeyCode::Esc if self.opened.is_some() => self.opened = None,
            KeyCode::Esc if !self.filter.text.is_empty() => self.filter.clear(),
            KeyCode::Esc => return Some(Asked::Quit),
            KeyCode::Char('r') => return Some(Asked::Act(Action::Record)),
            KeyCode::Char('x') => return Some(Asked::Act(Action::Flight)),
            KeyCode::Char('w') => return Some(Asked::Act(Action::Packets)),
            // What comes back is shown in the row.
            KeyCode::Char(key @ ('t' | 'a')) => {
                self.open()?;
                return Some(Asked::Act(if key == 't' { Action::Trace } else { Action::Advise }));
            }
            KeyCode::Char('y') => return Some(Asked::Copy),
            KeyCode::Left => return Some(Asked::Seek(-1)),
            KeyCode::Right => return Some(Asked::Seek(1)),
            KeyCode::Char('<') => return Some(Asked::Faster(-1)),
            KeyCode::Char('>') => return Some(Asked::Faster(1)),
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('?') => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.selected + 1),
            KeyCode::PageUp if self.opened.is_some() => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::PageDown if self.opened.is_some() => self.scrolled += PAGE,
            KeyCode::Home if self.opened.is_some() => self.scrolled = 0,
            _ if self.opened.is_some() => return None,
            KeyCode::Char(' ') => self.fold()?,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('S') => self.reversed = !self.reversed,
            KeyCode::Char('f') => self.frozen = self.frozen.is_none().then(|| self.ids.clone()),
            KeyCode::Char('c') => self.choosing = Some(0),
            KeyCode::Char('g') => {
                self.group_by(self.by.next());
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Enter => self.open()?,
            KeyCode::PageUp => self.choose(self.selected.saturating_sub(PAGE)),
            KeyCode::PageDown => self.choose(self.selected + PAGE),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            _ => return None,
        }
        Some(Asked::Redraw)
    }

    fn group_by(&mut self, by: GroupBy) {
        self.by = by;
        (self.chosen, self.selected, self.frozen) = (None, 0, None);
        self.unfolded.clear();
    }

    /// Opens the chosen row, where there is one.
    fn open(&mut self) -> Option<()> {
        self.opened = Some(self.ids.get(self.selected)?.clone());
        self.scrolled = 0;
        Some(())
    }

    /// Unfolds the chosen group into its connections, or folds it; single connections are folded
    /// into processes.
    fn fold(&mut self) -> Option<()> {
        if self.by == GroupBy::Connection {
            self.group_by(GroupBy::Process);
            return Some(());
        }
        let chosen = self.ids.get(self.selected)?;
        let group = chosen.split_once('\n').map_or(chosen.as_str(), |(group, _)| group).to_owned();
        if !self.unfolded.remove(&group) {
            self.unfolded.insert(group.clone());
        }
        self.chosen = Some(group);
        Some(())
    }

    fn choose(&mut self, row: usize) {
        self.selected = row.min(self.ids.len().saturating_sub(1));
        self.chosen = self.ids.get(self.selected).cloned();
        self.scrolled = 0;
        if self.opened.is_some() {
            self.opened.clone_from(&self.chosen);
        }
    }

    /// What the mouse does: a click chooses a row, opens the one that is chosen, or sorts by a
    /// column; the wheel goes through rows, or through the text of one that is open.
    pub fn mouse(&mut self, mouse: MouseEvent) -> Option<Asked> {
        if self.help || self.typing || self.choosing.is_some() {
            return None;
        }
        let opened = self.opened.is_some();
        match mouse.kind {
            MouseEventKind::ScrollUp if opened => self.scrolled = self.scrolled.saturating_sub(WHEEL),
            MouseEventKind::ScrollDown if opened => self.scrolled += WHEEL,
            MouseEventKind::ScrollUp => self.choose(self.selected.saturating_sub(WHEEL)),
            MouseEventKind::ScrollDown => self.choose(self.selected + WHEEL),
            MouseEventKind::Down(MouseButton::Left) => match self.placed.at(mouse.column, mouse.row)? {
                Pointed::Row(row) if row == self.selected && self.chosen.is_some() => self.open()?,
                Pointed::Row(row) => self.choose(row),
                Pointed::Head(by) if by == self.sort => self.reversed = !self.reversed,
                Pointed::Head(by) => (self.sort, self.reversed) = (by, false),
            },
            _ => return None,
        }
        Some(Asked::Redraw)
    }

    /// A key while the columns are chosen.
    fn choose_columns(&mut self, key: KeyCode, at: usize) -> Option<Asked> {
        let all = Column::ALL.len();
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.choosing = Some(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choosing = Some((at + 1).min(all - 1)),
            KeyCode::Char(' ') => self.columns.toggle(at),
            KeyCode::Char('+') => self.choosing = Some(self.columns.shift(at, at.saturating_sub(1))),
            KeyCode::Char('-') => self.choosing = Some(self.columns.shift(at, (at + 1).min(all - 1))),
            KeyCode::Char('a') => self.columns = Columns::default(),
            KeyCode::Char('q') => return Some(Asked::Quit),
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('c') => {
                self.choosing = None;
                return Some(Asked::Keep);
            }
            _ => return None,
        }
        Some(Asked::Redraw)
    }

    /// A key while the filter is written.
    fn typed(&mut self, key: KeyCode) -> Option<Asked> {
        match key {
            KeyCode::Enter => self.typing = !self.filter.wrong.is_empty(),
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.text.pop()),
            KeyCode::Char(c) if self.filter.text.len() < FILTER => self.filter.text.push(c),
            _ => return None,
        }
        self.filter.read();
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
        assert_eq!(press(&mut state, "sg/f"), [None; 4]);
        // Its neighbours are walked through.
        state.show(labels(&["x", "y", "z"]));
        press(&mut state, "jj");
        assert_eq!((state.opened.as_deref(), state.selected), (Some("z"), 2));
        press(&mut state, "k");
        assert_eq!(state.opened.as_deref(), Some("y"));
        assert_eq!(press(&mut state, "\u{1b}\u{1b}"), [Some(Asked::Redraw), Some(Asked::Quit)]);
    }

    #[test]
    fn letters_are_text_while_the_filter_is_written() {
        let mut state = State::default();
        press(&mut state, "/qrsx\u{8}");
        assert_eq!((state.filter.text.as_str(), state.typing), ("qrs", true));
        press(&mut state, "\n");
        assert_eq!(press(&mut state, "p\u{1b}q"), [Some(Asked::Redraw), Some(Asked::Redraw), Some(Asked::Quit)]);
        assert_eq!((state.filter.text.as_str(), state.typing, state.paused), ("", false, true));
    }

    #[test]
    fn groups_and_orders_go_round() {
        let mut state = State::default();
        press(&mut state, "gs");
        assert_eq!((state.by, state.sort), (GroupBy::Name, SortBy::P50));
        press(&mut state, "ggggggggssssssss");
        assert_eq!((state.by, state.sort), (GroupBy::Peer, SortBy::Rate));
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(control), Some(Asked::Quit));
    }

    #[test]
    fn a_group_is_unfolded_and_folded_from_any_of_its_rows() {
        let mut state = State { by: GroupBy::Process, ..State::default() };
        state.show(labels(&["a[1]", "b[2]"]));
        press(&mut state, "j ");
        assert!(state.unfolded.contains("b[2]"));
        state.show(labels(&["a[1]", "b[2]", "b[2]\n:1 → x:2", "b[2]\n:3 → x:2"]));
        press(&mut state, "jj ");
        assert_eq!((state.unfolded.len(), state.chosen.as_deref()), (0, Some("b[2]")));
        // Connections fold into processes.
        let mut state = State { by: GroupBy::Connection, ..State::default() };
        press(&mut state, " ");
        assert_eq!(state.by, GroupBy::Process);
    }

    #[test]
    fn what_is_asked_of_a_row_is_shown_in_it() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "ta"), [None, None], "there is no row");
        state.show(labels(&["a", "b"]));
        assert_eq!(press(&mut state, "jt"), [Some(Asked::Redraw), Some(Asked::Act(Action::Trace))]);
        assert_eq!(state.opened.as_deref(), Some("b"));
        let asked =
            [Action::Packets, Action::Advise, Action::Record, Action::Flight].map(|action| Some(Asked::Act(action)));
        assert_eq!(press(&mut state, "warx"), asked);
        // Its text is scrolled through.
        for (key, lines) in
            [(KeyCode::PageDown, 10), (KeyCode::PageDown, 20), (KeyCode::PageUp, 10), (KeyCode::Home, 0)]
        {
            state.key(KeyEvent::new(key, KeyModifiers::NONE));
            assert_eq!(state.scrolled, lines);
        }
    }

    #[test]
    fn a_filter_that_is_wrong_is_not_left_and_the_last_right_one_stays() {
        let mut state = State::default();
        press(&mut state, "/port:443");
        assert!(state.filter.wrong.is_empty() && !state.filter.accepted.is_empty());
        press(&mut state, "x\n");
        assert!(state.typing && state.filter.wrong.contains("is not a port"), "{}", state.filter.wrong);
        press(&mut state, "\u{8}\n");
        assert!(!state.typing && state.filter.wrong.is_empty());
    }

    #[test]
    fn a_frozen_order_stays_and_new_rows_come_last() {
        let row = |label: &str, sends| {
            let figures = record::histogram::Series { sends, ..Default::default() };
            Group { label: label.into(), figures, ..Group::default() }
        };
        let mut state = State::default();
        state.show(labels(&["a", "b"]));
        press(&mut state, "f");
        let mut rows = [row("c", 9), row("b", 5), row("a", 1)];
        state.sort(&mut rows);
        assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<String>(), "abc");
        press(&mut state, "f");
        state.sort(&mut rows);
        assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<String>(), "cba");
        press(&mut state, "S");
        state.sort(&mut rows);
        assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<String>(), "abc");
    }

    #[test]
    fn any_key_leaves_the_help_and_columns_are_kept() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "?q"), [Some(Asked::Redraw), Some(Asked::Redraw)]);
        assert!(!state.help);
        let first = state.columns.all()[0].0;
        assert_eq!(press(&mut state, "c \n"), [Some(Asked::Redraw), Some(Asked::Redraw), Some(Asked::Keep)]);
        assert_eq!(state.columns.all()[0], (first, false));
        press(&mut state, "c-\u{1b}");
        assert_eq!(state.columns.all()[1], (first, false));
    }
}
