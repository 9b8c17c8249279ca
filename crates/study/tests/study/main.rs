//! Studies as they run, and what they write.

mod keys;
mod studies;
