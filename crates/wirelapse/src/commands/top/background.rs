//! Whether the terminal's background is light or dark, and colours that can be read on it.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What stands behind the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    Light,
    Dark,
}

/// A terminal answers in a few milliseconds, over SSH in a round trip.
const PATIENCE: Duration = Duration::from_millis(200);
/// What is longer is no answer.
const LONGEST: usize = 256;
/// Asks for the colour of the background (OSC 11), which not every terminal knows, and for the
/// kind of terminal (DA1), which all answer: then nothing more comes.
const ASK: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";

/// The background of the terminal in raw mode.
#[derive(Debug, Default)]
pub struct Found {
    /// As COLORFGBG says, else as the terminal answers; `None` where neither does.
    pub background: Option<Background>,
    /// An answer may still come.
    pub more_comes: bool,
    /// The characters that a person typed meanwhile.
    pub typed: Vec<char>,
}

/// Finds it.
pub fn find() -> Found {
    if let Some(said) = std::env::var("COLORFGBG").ok().and_then(|text| of_variable(&text)) {
        return Found { background: Some(said), ..Found::default() };
    }
    let plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term == "linux");
    if plain || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Found::default();
    }
    let answer = ask().unwrap_or_default();
    Found { background: of_answer(&answer), more_comes: !is_over(&answer), typed: typed(&answer) }
}

/// What is in no sequence that begins with ESC, of characters that stand for a key of `top`.
fn typed(answer: &[u8]) -> Vec<char> {
    let mut typed = Vec::new();
    let mut rest = answer;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == 0x1b {
            // A command of the terminal ends in a letter, and a string in BEL or ESC \.
            let is_string = after.first() == Some(&b']');
            let end = match is_string {
                true => after.iter().position(|&byte| byte == 0x07 || byte == b'\\'),
                false => after.iter().skip(1).position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 1),
            };
            rest = end.map_or(&[][..], |end| &after[end + 1..]);
        } else if first.is_ascii_graphic() || first == b' ' {
            typed.push(char::from(first));
        }
    }
    typed
}

fn ask() -> io::Result<Vec<u8>> {
    let mut out = io::stdout();
    out.write_all(ASK)?;
    out.flush()?;
    let until = Instant::now() + PATIENCE;
    let mut answer = Vec::new();
    let stdin = io::stdin();
    while !is_over(&answer) && answer.len() < LONGEST {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left))? == 0 {
            break;
        }
        // Byte by byte: what is behind the answer is a person's.
        let mut byte = [0];
        if rustix::io::read(&stdin, &mut byte)? == 0 {
            break;
        }
        answer.push(byte[0]);
    }
    Ok(answer)
}

/// Whether the kind of terminal is in it, which is answered last.
fn is_over(answer: &[u8]) -> bool {
    let begins = answer.windows(3).position(|three| three == b"\x1b[?");
    begins.is_some_and(|at| answer[at..].contains(&b'c'))
}

/// `COLORFGBG` ends in the number of the background in the terminal's palette.
fn of_variable(text: &str) -> Option<Background> {
    let number: u8 = text.rsplit(';').next()?.parse().ok()?;
    Some(if matches!(number, 0..=6 | 8) { Background::Dark } else { Background::Light })
}

/// `ESC ] 11 ; rgb:RRRR/GGGG/BBBB`, with one to four digits each.
fn of_answer(answer: &[u8]) -> Option<Background> {
    let text = String::from_utf8_lossy(answer);
    let (_, colour) = text.split_once("]11;rgb")?;
    let colour = colour.trim_start_matches('a').strip_prefix(':')?;
    let part = |part: &str| {
        let digits: String = part.chars().take_while(char::is_ascii_hexdigit).take(4).collect();
        let most = 16_f64.powi(digits.len() as i32) - 1.0;
        Some(f64::from(u32::from_str_radix(&digits, 16).ok()?) / most)
    };
    let parts: Vec<f64> = colour.splitn(3, '/').map(part).collect::<Option<_>>()?;
    let [red, green, blue] = parts[..] else { return None };
    // How bright it looks (ITU-R BT.709).
    let bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    Some(if bright > 0.5 { Background::Light } else { Background::Dark })
}

impl Background {
    /// Puts colours that can be read on this background in place of those of the palette that
    /// cannot.
    pub fn suit(self, buffer: &mut Buffer) {
        for cell in &mut buffer.content {
            cell.fg = match (self, cell.fg) {
                (Self::Light, Color::Yellow) => Color::Indexed(130),
                (Self::Light, Color::Cyan) => Color::Indexed(30),
                (Self::Light, Color::Green) => Color::Indexed(28),
                (Self::Light, Color::LightBlue) => Color::Indexed(25),
                (Self::Light, Color::LightCyan) => Color::Indexed(24),
                (Self::Light, Color::LightGreen) => Color::Indexed(22),
                (Self::Light, Color::LightMagenta) => Color::Indexed(90),
                (Self::Dark, Color::Blue) => Color::Indexed(75),
                (Self::Dark, Color::Red) => Color::LightRed,
                (_, same) => same,
            };
        }
    }
}

/// Keys that are none: an answer that came too late, up to its end.
#[derive(Debug, Default)]
pub struct Late {
    awaited: bool,
    /// Characters of it that came.
    within: Option<usize>,
}

impl Late {
    /// Whether an answer may still come.
    pub fn new(awaited: bool) -> Self {
        Self { awaited, within: None }
    }

    /// Whether this is a part of an answer rather than a key.
    pub fn swallows(&mut self, key: &KeyEvent) -> bool {
        if !self.awaited {
            return false;
        }
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match (self.within, key.code) {
            (None, KeyCode::Char(']')) if alt => self.within = Some(0),
            (None, _) => return false,
            (Some(_), KeyCode::Char('\\')) if alt => (self.awaited, self.within) = (false, None),
            (Some(_), KeyCode::Char('g')) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                (self.awaited, self.within) = (false, None);
            }
            (Some(n), KeyCode::Char(_)) if n < 32 => self.within = Some(n + 1),
            (Some(_), _) => {
                (self.awaited, self.within) = (false, None);
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_bright_the_background_is() {
        let answered = |text: &str| of_answer(format!("\x1b]11;{text}\x1b\\\x1b[?64;1c").as_bytes());
        assert_eq!(answered("rgb:ffff/ffff/ffff"), Some(Background::Light));
        assert_eq!(answered("rgb:fd/f6/e3"), Some(Background::Light));
        assert_eq!(answered("rgba:0000/2b2b/3636/ffff"), Some(Background::Dark));
        assert_eq!(answered("rgb:f/f/f"), Some(Background::Light));
        for wrong in ["rgb:", "rgb:ff/ff", "rgb:x/y/z", "#ffffff"] {
            assert_eq!(answered(wrong), None, "{wrong}");
        }
        assert!(is_over(b"\x1b[?64;1c") && !is_over(b"\x1b]11;rgb:cc/cc/cc\x1b\\\x1b[?64"));
        let said = ["0;15", "15;0", "15;default;7", "15;8", "x"].map(of_variable);
        let (light, dark) = (Some(Background::Light), Some(Background::Dark));
        assert_eq!(said, [light, dark, light, dark, None]);
    }

    #[test]
    fn what_is_typed_before_and_within_the_answer_is_kept() {
        let of = |answer: &str| typed(answer.as_bytes()).into_iter().collect::<String>();
        assert_eq!(of("s>\x1b]11;rgb:0/0/0\x1b\\>\x1b[?64;1;2c/"), "s>>/");
        assert_eq!(of("\x1b]11;rgb:0/0/0\x07q \x1b[Dx"), "q x");
        assert_eq!(of("\x1b]11;rgb:0/0"), "");
        assert_eq!(of("\r\t"), "");
    }

    #[test]
    fn colours_that_cannot_be_read_are_replaced() {
        let area = ratatui::layout::Rect::new(0, 0, 3, 1);
        let mut buffer = Buffer::empty(area);
        let paint = |buffer: &mut Buffer| {
            for (cell, colour) in buffer.content.iter_mut().zip([Color::Yellow, Color::Blue, Color::Reset]) {
                cell.fg = colour;
            }
        };
        let inks = |buffer: &Buffer| buffer.content.iter().map(|cell| cell.fg).collect::<Vec<_>>();
        paint(&mut buffer);
        Background::Light.suit(&mut buffer);
        assert_eq!(inks(&buffer), [Color::Indexed(130), Color::Blue, Color::Reset]);
        paint(&mut buffer);
        Background::Dark.suit(&mut buffer);
        assert_eq!(inks(&buffer), [Color::Yellow, Color::Indexed(75), Color::Reset]);
    }

    #[test]
    fn an_answer_that_comes_late_presses_no_key() {
        let key = |c, modifiers| KeyEvent::new(KeyCode::Char(c), modifiers);
        let mut late = Late::new(true);
        assert!(!late.swallows(&key('r', KeyModifiers::NONE)));
        assert!(late.swallows(&key(']', KeyModifiers::ALT)));
        assert!("11;rgb:ffff/ffff/ffff".chars().all(|c| late.swallows(&key(c, KeyModifiers::NONE))));
        assert!(late.swallows(&key('\\', KeyModifiers::ALT)));
        assert!(!late.swallows(&key('r', KeyModifiers::NONE)));
        assert!(!Late::new(false).swallows(&key(']', KeyModifiers::ALT)));
    }
}
