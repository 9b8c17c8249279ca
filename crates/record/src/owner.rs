//! The process that owns a socket.

use std::borrow::Cow;
use std::fmt;

use crate::steers;

/// The process that owns a socket, or that made a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Process id (the kernel's `tgid`) in the tracer's own pid namespace; 0 where it is not known.
    pub pid: u32,
    /// The thread's name at that moment.
    pub comm: Comm,
}

/// The kernel's `comm`: up to 15 bytes, then a zero. Not always UTF-8; shown with what is not
/// replaced by `�`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// As text. A program chooses its own name, so what is not UTF-8, or [steers] a terminal, is
    /// `�`.
    pub fn text(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        let name = &self.0[..end];
        // Nearly every name: nothing in it is to be looked at twice.
        let is_plain = name.iter().all(|byte| (b' '..=b'~').contains(byte));
        if let Some(text) = std::str::from_utf8(name).ok().filter(|_| is_plain) {
            return text.into();
        }
        let text = String::from_utf8_lossy(name);
        if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text }
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl From<&str> for Comm {
    /// Cuts at 15 bytes, as the kernel does.
    fn from(text: &str) -> Self {
        let mut bytes = [0; 16];
        let n = text.len().min(15);
        bytes[..n].copy_from_slice(&text.as_bytes()[..n]);
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(Comm::from("a-name-longer-than-15").to_string(), "a-name-longer-t");
        assert_eq!(Comm(*b"a\x1b[2Jb\0\0\0\0\0\0\0\0\0\0").to_string(), "a\u{fffd}[2Jb");
        assert_eq!(Comm::from("a\u{202e}b\u{2066}c").to_string(), "a\u{fffd}b\u{fffd}c");
        assert_eq!(Comm(*b"0123456789abcde\xff").to_string(), "0123456789abcde\u{fffd}");
    }
}
