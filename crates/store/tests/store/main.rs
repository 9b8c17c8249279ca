//! What is written is read back: by this crate, by other programs, and from older versions.

mod any;
mod kinds;
mod python;
mod round_trip;
mod version_1;
mod version_2;
