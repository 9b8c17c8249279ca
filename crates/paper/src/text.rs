//! Text in which hosts, and what is to be typed, are known as such.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Serialize, Serializer};

/// A piece of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Words, as they are.
    Words(String),
    /// What is to be typed, or stands so in a file or an output: `ss -ti`.
    Code(String),
    /// A host, and the port where it is an end of a connection.
    Host {
        /// Its address.
        at: IpAddr,
        /// The port.
        port: Option<u16>,
        /// What it is called; it is shown in place of the address.
        name: Option<String>,
    },
}

/// A sentence, or a line: words, what is to be typed, and hosts that are shown by their addresses
/// or, where [`Text::name_hosts`] knows them, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<Piece>);

impl Text {
    /// What is to be typed.
    pub fn code(text: impl Into<String>) -> Self {
        Self(vec![Piece::Code(text.into())])
    }

    /// The two ends of a connection, with an arrow from the first to the second.
    pub fn ends(from: SocketAddr, to: SocketAddr) -> Self {
        Self::from(from).and(" → ").and(to)
    }

    /// The same where there is little room: the local address goes, since it is this host's.
    pub fn to_peer(local: SocketAddr, remote: SocketAddr) -> Self {
        Self::from(format!(":{} → ", local.port())).and(remote)
    }

    /// With more behind it.
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// What it is made of.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Words(words) if words.is_empty()))
    }

    /// The hosts in it.
    pub fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Host { at, .. } => Some(*at),
            Piece::Words(_) | Piece::Code(_) => None,
        })
    }

    /// Gives the hosts in it the names that are known.
    pub fn name_hosts(&mut self, names: &HashMap<IpAddr, String>) {
        for piece in &mut self.0 {
            if let Piece::Host { at, name, .. } = piece
                && let Some(known) = names.get(at)
            {
                *name = Some(known.clone());
            }
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Code(text) => write!(f, "`{text}`"),
            Self::Host { port: Some(port), name: Some(name), .. } => write!(f, "{name}:{port}"),
            Self::Host { name: Some(name), .. } => f.write_str(name),
            Self::Host { at, port: Some(port), .. } => SocketAddr::new(*at, *port).fmt(f),
            Self::Host { at, .. } => at.fmt(f),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| piece.fmt(f))
    }
}

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        Self(vec![Piece::Words(words.to_owned())])
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self(vec![Piece::Words(words)])
    }
}

impl From<&String> for Text {
    fn from(words: &String) -> Self {
        Self::from(words.as_str())
    }
}

impl From<IpAddr> for Text {
    fn from(at: IpAddr) -> Self {
        Self(vec![Piece::Host { at, port: None, name: None }])
    }
}

impl From<SocketAddr> for Text {
    fn from(at: SocketAddr) -> Self {
        Self(vec![Piece::Host { at: at.ip(), port: Some(at.port()), name: None }])
    }
}

/// As it is shown.
impl PartialEq<&str> for Text {
    fn eq(&self, shown: &&str) -> bool {
        let all = self.to_string();
        all == *shown
    }
}

/// As it is shown.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_shown_by_their_names_and_words_stay_as_they_are() {
        let names = HashMap::from([
            ("10.0.0.2".parse().unwrap(), "db".to_owned()),
            ("::1".parse().unwrap(), "here".to_owned()),
        ]);
        let of = |mut text: Text| {
            text.name_hosts(&names);
            text.to_string()
        };
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(of(Text::ends(at("10.0.0.1:80"), at("10.0.0.2:5432"))), "10.0.0.1:80 → db:5432");
        assert_eq!(of(Text::to_peer(at("[::2]:80"), at("[::1]:7"))), ":80 → here:7");
        assert_eq!(of(Text::from("10.0.0.2 is ").and(at("10.0.0.2:1").ip())), "10.0.0.2 is db");
        assert_eq!(Text::ends(at("[::1]:7"), at("[::2]:80")).to_string(), "[::1]:7 → [::2]:80");
        assert!(Text::default().is_empty() && Text::from("").is_empty() && !Text::from("a").is_empty());
    }
}
