//! Pages and text of made-up runs.

mod browser;
mod dns;
mod guides;
mod names;
mod pages;
mod quic;
mod same_capture;
mod same_text;
mod study_pages;
mod study_text;
mod views;
