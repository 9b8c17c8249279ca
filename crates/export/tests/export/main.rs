//! Exports, held against what reads them and what the documentation says.

mod documentation;
mod exports;
mod perfetto_schema;
