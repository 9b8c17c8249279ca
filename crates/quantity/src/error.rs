//! What is wrong with a quantity, and what to write instead.

use std::fmt;

/// What was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A length of time.
    Duration,
    /// Bits a second.
    BitRate,
    /// Events a second: sends, frames, transactions.
    PerSecond,
    /// A number of bytes.
    Bytes,
    /// A whole number of things.
    Count,
    /// A share of a whole.
    Share,
    /// One in N.
    Ratio,
    /// A host, with or without a port.
    Address,
}

impl Kind {
    /// Spellings that are right.
    pub const fn example(self) -> &'static str {
        match self {
            Self::Duration => "a time such as 500ms, 10s, 5m, 1h or 30d",
            Self::BitRate => "a rate in bits a second such as 64k, 10M or 1gbit",
            Self::PerSecond => "a number a second such as 1000/s or 20k/s",
            Self::Bytes => "a size such as 1448, 64KiB (64K) or 64kB",
            Self::Count => "a whole number such as 1000 or 10k",
            Self::Share => "a share from 0% to 100% such as 0.5%",
            Self::Ratio => "1/N with a whole number from 1 on, such as 1/100",
            Self::Address => "HOST, HOST:PORT or [IPV6]:PORT",
        }
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is no text.
    Empty,
    /// It does not begin with a number.
    NotANumber,
    /// A comma where a decimal point belongs, or one that does not separate thousands.
    Comma,
    /// Below zero.
    Negative,
    /// Zero, where only more than that makes sense.
    Zero,
    /// A unit that this kind of quantity does not have.
    Unit(String),
    /// A number without the unit that it needs.
    NoUnit,
    /// Bytes, where bits are asked for.
    BytesNotBits,
    /// A fraction, where only whole numbers make sense.
    Fraction,
    /// Above the largest that can be; the largest as it is written.
    TooLarge(String),
    /// Below the smallest that can be; the smallest as it is written.
    TooSmall(String),
    /// Not of the form `1/N`.
    NotARatio,
    /// An address without a host.
    NoHost,
    /// A port that is no number from 1 to 65535, as it was written.
    Port(String),
    /// An IPv6 address with a port needs brackets.
    Brackets,
    /// A blank or another character that no host name holds.
    NotAHost,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing is given"),
            Self::NotANumber => f.write_str("this does not begin with a number"),
            Self::Comma => f.write_str("a comma is not understood here: fractions take a point, as in 1.5"),
            Self::Negative => f.write_str("this is below zero"),
            Self::Zero => f.write_str("this must be above zero"),
            Self::Unit(unit) => write!(f, "there is no unit {unit:?} here"),
            Self::NoUnit => f.write_str("the unit is missing"),
            Self::BytesNotBits => f.write_str("rates are in bits, not in bytes"),
            Self::Fraction => f.write_str("this must be a whole number"),
            Self::TooLarge(most) => write!(f, "the most is {most}"),
            Self::TooSmall(least) => write!(f, "the least is {least}"),
            Self::NotARatio => f.write_str("this is not a ratio"),
            Self::NoHost => f.write_str("the host is missing"),
            Self::Port(port) => write!(f, "the port must be a number from 1 to 65535, not {port:?}"),
            Self::Brackets => f.write_str("an IPv6 address with a port needs brackets"),
            Self::NotAHost => f.write_str("this is no name or address of a host"),
        }
    }
}

/// A text that is not the quantity that was asked for.
///
/// Its words do not repeat the text: the caller names the option or the place, and the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; write {}", kind.example())]
pub struct Wrong {
    /// What was to be read.
    pub kind: Kind,
    /// What is wrong.
    pub problem: Problem,
}

impl Kind {
    /// An error of this kind.
    pub(crate) fn wrong(self, problem: Problem) -> Wrong {
        Wrong { kind: self, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong_and_what_to_write() {
        let text = Kind::Duration.wrong(Problem::Unit("parsecs".into())).to_string();
        assert_eq!(text, "there is no unit \"parsecs\" here; write a time such as 500ms, 10s, 5m, 1h or 30d");
    }
}
