//! The C interface of `timestamping`, which `include/wirelapse_timestamping.h` declares.
//!
//! **Does:** asks a socket for stamps, reads them from its error queue or with what is received,
//! and matches them to sends, as the Rust library does it.
//!
//! **Does not:** own a socket or a thread. NICs and their clocks are set up and read in Rust alone.
//!
//! **Guarantees:** no input makes it panic or end the program; a null pointer or a closed
//! descriptor is a result. The types are those of C, so their names are too.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]

pub mod matcher;
pub mod queue;
pub mod receive;
pub mod request;
pub mod result;
pub mod send;
pub mod stats;
