//! Studies as they run, and what they write.

mod brought;
mod keys;
mod studies;
