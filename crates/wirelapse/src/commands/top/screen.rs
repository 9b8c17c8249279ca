//! The terminal of `wirelapse top`: its second screen, with keys as they are pressed, and as it was
//! when that ends.

use std::io::{self, Stdout, Write as _, stdout};
use std::time::Duration;

use base64::Engine as _;
use paper::Canvas;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent,
};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::{Frame, Terminal};

use super::background::{self, Background, Found, Late};
use crate::output::harmless_cells;
use crate::terminal;

/// What a person does at a terminal.
pub enum Pressed {
    Key(KeyEvent),
    Mouse(MouseEvent),
}

pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colour: bool,
    unicode: bool,
    background: Option<Background>,
    late: Late,
    /// What was typed before it was there.
    typed: Vec<char>,
    resized: bool,
}

impl Screen {
    /// # Errors
    /// Where the terminal cannot do it.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on it is closed by its drop.
        let backend = CrosstermBackend::new(stdout());
        let opened = Terminal::new(backend).inspect_err(|_| drop(disable_raw_mode()))?;
        let colour = terminal::colour();
        let Found { background, more_comes, typed } = if colour { background::find() } else { Found::default() };
        let (unicode, late) = (terminal::unicode(), Late::new(more_comes));
        let screen = Self { terminal: opened, colour, unicode, background, late, typed, resized: false };
        execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws a frame. A terminal that went away is no reason to end.
    pub fn frame(&mut self, draw: impl FnOnce(&mut Frame<'_>, &Canvas)) {
        let (colour, unicode, background) = (self.colour, self.unicode, self.background);
        let _ = self.terminal.draw(|frame| {
            let canvas = Canvas { width: frame.area().width.into(), colour, unicode };
            draw(frame, &canvas);
            harmless_cells(frame.buffer_mut());
            background.into_iter().for_each(|background| background.suit(frame.buffer_mut()));
        });
    }

    /// Puts text on the clipboard of the terminal, where that has one (OSC 52).
    pub fn copy(&mut self, text: &str) {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        // A terminal that went away is no reason to end.
        let _ = write!(stdout(), "\x1b]52;c;{encoded}\x07").and_then(|()| stdout().flush());
    }

    /// Its columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((0, 0), |size| (size.width, size.height))
    }

    /// Whether the size has changed since the last call.
    pub fn resized(&mut self) -> bool {
        std::mem::take(&mut self.resized)
    }

    /// What is pressed within this time, or the first of it.
    ///
    /// # Errors
    /// Where the terminal cannot be read.
    pub fn pressed(&mut self, within: Duration) -> io::Result<Vec<Pressed>> {
        let key = |typed| Pressed::Key(KeyEvent::new(KeyCode::Char(typed), KeyModifiers::NONE));
        let mut all: Vec<Pressed> = self.typed.drain(..).map(key).collect();
        let mut wait = if all.is_empty() { within } else { Duration::ZERO };
        while event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if self.late.swallows(&key) => {}
                Event::Key(key) if key.kind != KeyEventKind::Release => all.push(Pressed::Key(key)),
                Event::Mouse(mouse) => all.push(Pressed::Mouse(mouse)),
                Event::Resize(..) => self.resized = true,
                _ => {}
            }
            wait = Duration::ZERO;
        }
        Ok(all)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}
