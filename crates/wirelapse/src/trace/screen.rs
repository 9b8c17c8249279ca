//! The table on the terminal while tracing: a few rows below the prompt, which go away when the report comes.

use std::io::{self, Stdout};

use ratatui::backend::{Backend as _, ClearType, CrosstermBackend};
use ratatui::{Terminal, TerminalOptions, Viewport};
use report::Summary;
use report::view::Facts;

use super::machine;
use super::request::Request;

pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    unicode: bool,
    colour: bool,
}

/// Columns of the terminal; `None` where it does not say.
pub fn width() -> Option<usize> {
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns.into()).filter(|&columns| columns > 0)
}

impl Screen {
    /// `None` where the terminal cannot do it: tracing goes on without a table.
    pub fn open(request: &Request) -> Option<Self> {
        let more = |on: bool, rows: u16| if on { rows } else { 0 };
        let rows = report::live::ROWS
            + more(request.config.receive, report::live::ROWS_OF_RECEIVES)
            + more(request.requests, report::live::ROWS_OF_REQUESTS);
        let options = TerminalOptions { viewport: Viewport::Inline(rows) };
        let terminal = Terminal::with_options(CrosstermBackend::new(io::stdout()), options).ok()?;
        Some(Self { terminal, unicode: machine::unicode(), colour: machine::colour_wanted() })
    }

    /// Draws the figures so far. A terminal that went away is no reason to end the trace.
    pub fn draw(&mut self, summary: &Summary, facts: &Facts) {
        let (unicode, colour) = (self.unicode, self.colour);
        let _ = self.terminal.draw(|frame| report::live::draw(frame, unicode, colour, summary, facts));
    }
}

impl Drop for Screen {
    /// Leaves the terminal as it was, with the cursor where the table began. `Terminal::clear` puts the cursor back to
    /// where it was, so the backend is told directly.
    fn drop(&mut self) {
        let top = self.terminal.get_frame().area().as_position();
        let backend = self.terminal.backend_mut();
        let _ = backend.set_cursor_position(top);
        let _ = backend.clear_region(ClearType::AfterCursor);
        let _ = self.terminal.show_cursor();
        let _ = io::Write::flush(self.terminal.backend_mut());
    }
}
