//! Captures and packets: every format and layer, whole and damaged.

mod damage;
mod formats;
mod layers;
mod pieces;
mod real_captures;
mod samples;
mod tcpdump_text;
