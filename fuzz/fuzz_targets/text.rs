//! Any bytes as tcpdump's text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::TextReader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = TextReader::new(bytes);
    while let Ok(Some(_)) = reader.next_segment() {}
});
