//! Exports, held against what reads them and what the documentation says.

mod documentation;
mod exports;
mod packets;
mod perfetto_schema;
mod wireshark;
