//! A connection as a page to zoom into, and its plots as SVG or PNG.

use std::path::Path;

use diagnose::Report;
use paper::html;
use paper::plot::{Plot, image};
use report::page::capture::{Names, connection};

use crate::exit::BadInput;
use crate::files::made_by;
use ::files::Readers;

/// Writes a connection to a file of the kind that its name ends in, with the names of hosts where
/// they are to be asked for.
pub fn write(
    report: &Report,
    names: &Names,
    resolve: bool,
    (path, force, readers): (&Path, bool, Readers<'_>),
) -> anyhow::Result<()> {
    let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["html", "svg", "png"].contains(&kind) {
        return Err(BadInput("a plot is .html, .svg or .png".into()).into());
    }
    if report.records.is_empty() {
        return Err(BadInput(format!("connection {} has no packets to plot", report.number)).into());
    }
    let mut document = connection::document(report, names);
    if resolve {
        crate::hosts::name(std::slice::from_mut(&mut document));
    }
    let plots: Vec<Plot> = document.plots().cloned().collect();
    let bytes = match kind {
        "html" => html::page(&[document], &made_by())?.into_bytes(),
        // An SVG names its font, but the lengths of words decide where they are put.
        "svg" => image::svg(&plots)?.into_bytes(),
        _ => image::png(&plots)?,
    };
    Ok(::files::write(path, &bytes, force, readers)?)
}
