//! What is on the terminal while a command goes on: a few rows below the prompt, which go away when
//! the report comes.

use std::io::{self, Stdout};

use paper::Canvas;
use ratatui::backend::{Backend as _, ClearType, CrosstermBackend};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use crate::output::harmless_cells;
use crate::terminal;

pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    unicode: bool,
    colour: bool,
}

impl Screen {
    /// `None` where the terminal cannot do it: the command goes on without.
    pub fn open(rows: u16) -> Option<Self> {
        let options = TerminalOptions { viewport: Viewport::Inline(rows) };
        let terminal = Terminal::with_options(CrosstermBackend::new(io::stdout()), options).ok()?;
        Some(Self { terminal, unicode: terminal::unicode(), colour: terminal::colour() })
    }

    /// Draws a frame. A terminal that went away is no reason to end.
    pub fn frame(&mut self, draw: impl FnOnce(&mut Frame<'_>, &Canvas)) {
        let (unicode, colour) = (self.unicode, self.colour);
        let _ = self.terminal.draw(|frame| {
            let canvas = Canvas { width: frame.area().width.into(), colour, unicode };
            draw(frame, &canvas);
            harmless_cells(frame.buffer_mut());
        });
    }
}

impl Drop for Screen {
    /// Leaves the terminal as it was, with the cursor where the table began. `Terminal::clear` puts
    /// the cursor back to where it was, so the backend is named directly.
    fn drop(&mut self) {
        let top = self.terminal.get_frame().area().as_position();
        let backend = self.terminal.backend_mut();
        let _ = backend.set_cursor_position(top);
        let _ = backend.clear_region(ClearType::AfterCursor);
        let _ = self.terminal.show_cursor();
        let _ = io::Write::flush(self.terminal.backend_mut());
    }
}
