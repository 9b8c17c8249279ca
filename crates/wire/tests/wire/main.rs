//! Captures and packets: every format and layer, whole and damaged.

mod damage;
mod formats;
mod layers;
mod processes;
mod real_captures;
mod samples;
mod streams;
mod tcpdump_text;
