//! Quantities as people write and read them.
//!
//! [`parse`] reads what stands on a command line or in a plan; the functions beside it write for
//! tables, pages and messages. Every command reads and writes through here, so a spelling means the
//! same everywhere. What is written can be read back, as close as its digits allow.
//!
//! | quantity | spellings | a bare number is |
//! |---|---|---|
//! | duration | `900ns`, `200us` or `200µs`, `500ms`, `1.5s`, `5m`, `1h`, `30d` | refused, as `20` could be seconds or milliseconds; of `--for` seconds |
//! | bit rate | `10M`, `10Mbit`, `10mbit/s`, `10Mbps`: powers of 1000, in either case | bits a second |
//! | events a second | `1000/s`, `1.5M/s`, `1.5Mpps`: powers of 1000 | a second |
//! | bytes | `64K`, `64KiB`: powers of 1024, as in iperf3; `64kB`, `64KB`: powers of 1000 | bytes |
//! | count | `12345`, `12,345`, `10k`, `2M`: powers of 1000 | that many |
//! | share | `0.5%`, and `0` | refused, as `1` could be 1 % or all |
//! | ratio | `1/100` | refused |
//! | address | `HOST`, `HOST:PORT`, `[2001:db8::1]:PORT` | |
//!
//! Pure: no system call, no clock read, no name is looked up.

#![forbid(unsafe_code)]

mod address;
mod axis;
mod bit_rate;
mod bytes;
mod count;
mod digits;
mod duration;
mod error;
mod name;
mod number;
mod per_second;
mod ratio;
mod share;

pub use address::Address;
pub use axis::AxisUnit;
pub use bit_rate::{bit_rate, bit_rate_to};
pub use bytes::{bytes, bytes_to};
pub use count::{count, counted, ordinal};
pub use duration::{exact_duration, time_to};
pub use error::{Kind, Problem, Wrong};
pub use name::{near, nearest};
pub use per_second::per_second;
pub use ratio::Ratio;
pub use share::{change, change_in_points, factor, p_value, percent, percent_exact, percent_to, points, share, times};

/// Reads text. Each is fit for clap's `value_parser`; errors say what is wrong and what to write,
/// and leave it to the caller to name the option and the text.
pub mod parse {
    pub use crate::address::parse as address;
    pub use crate::bit_rate::parse as bit_rate;
    pub use crate::bytes::{parse as bytes, parse_u32 as bytes_u32};
    pub use crate::count::{parse as count, within as count_within};
    pub use crate::duration::{above_zero as duration_above_zero, parse as duration, seconds, seconds_above_zero};
    pub use crate::per_second::{parse as per_second, whole as whole_per_second};
    pub use crate::ratio::parse as ratio;
    pub use crate::share::parse as share;
}

/// Keeps a figure and its unit on one line: its blanks become no-break spaces.
pub fn whole(text: impl ToString) -> String {
    text.to_string().replace(' ', "\u{a0}")
}

/// The example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
