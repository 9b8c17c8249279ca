//! How far long work is, on a terminal: the only user of the library that draws there by itself.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::harmless;

/// A bar that is drawn while it is shown and not finished.
pub struct Bar(ProgressBar);

impl Bar {
    /// Of so many steps. The template says what is drawn, in the words of crate indicatif.
    pub fn new(shown: bool, steps: usize, template: &str) -> Self {
        let bar = if shown { ProgressBar::new(steps as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// How far it is, of how many steps, and at what.
    pub fn show(&self, done: usize, steps: usize, at: &str) {
        self.0.set_length(steps as u64);
        self.0.set_position(done as u64);
        self.0.set_message(harmless(at).into_owned());
    }

    /// Takes it off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
